"""Claims that only training can decide, as seeded studies of a second or two on one CPU core.

Each function trains one small model and returns its figures; the caller compares. The module
docstrings say what the text claims and, where it can be proved, what must come out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import permutations, product
from typing import Literal

import torch
import torch.nn.functional as F
from torch import nn

from glassformer.nn.attention import (
    Attended,
    MultiHeadAttention,
    attend_written,
    basic_self_attention,
    join_heads,
    split_heads,
)
from glassformer.nn.config import AttentionConfig, FeedForwardConfig
from glassformer.nn.description import count_parameters
from glassformer.nn.layers import FeedForward, initialise
from glassformer.nn.models import Classifier
from glassformer.nn.presets import bloem_2024
from glassformer.nn.tensors import Bool, Float, Int, Tensor

# --- training ---
# What the studies share: seeds that leave the caller's random numbers alone, and one loop.


@contextmanager
def one_thread() -> Iterator[None]:
    """Operators on small tensors gain nothing from threads, and wait for them on a busy machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Everything random inside follows from the seed; outside, nothing has changed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


def fit(
    parameters: Iterable[nn.Parameter],
    loss: Callable[[], Float[Tensor, ""]],
    *,
    steps: int,
    learning_rate: float,
) -> float:
    """Adam on a loss that is computed anew each step; returns the last one.

    Training multiplies the rounding of its first steps, which differs between processors. Where a
    result shall be the same digits everywhere, pass parameters in float64.
    """
    optimiser = torch.optim.Adam(parameters, lr=learning_rate)
    last = float("nan")
    with one_thread():
        for _ in range(steps):
            value = loss()
            optimiser.zero_grad()
            value.backward()
            optimiser.step()
            last = value.item()
    return last


def accuracy(logits: Float[Tensor, "... C"], answers: Int[Tensor, ...]) -> float:
    """Share of answers that have the largest logit."""
    return float((logits.argmax(dim=-1) == answers).double().mean())


# --- depth ---
# What residuals and norms are for: the same stack trained with each of them switched off.
#
# The task is to write a sequence backwards, which one attention layer can do, so that depth is a
# burden and not a need. Without residuals each layer replaces what it read by an average, and all
# positions soon carry the same vector; without norms the residual stream grows with depth and the
# first steps overshoot. The text says that both make deep nets train faster and better.


_N_WORDS, _N_POSITIONS, _D_MODEL, _BATCH = 8, 6, 16, 32


@dataclass(frozen=True)
class DepthResult:
    """How a stack of one depth starts, and how far a short training takes it."""

    n_layers: int
    residual: bool
    norm: bool
    similarity: float
    """Mean cosine between the outputs of two positions before training; 1: all the same."""
    gradient_ratio: float
    """Gradient of the first layer's value map over that of the last, before training."""
    loss: float
    accuracy: float
    """Share of words right on fresh sequences; chance is 1/8."""


class SwitchedBlock(nn.Module):
    """A post-norm block in which the residuals or the norms may be missing."""

    def __init__(self, *, residual: bool, norm: bool) -> None:
        super().__init__()
        self.residual = residual
        self.attention = MultiHeadAttention(_D_MODEL, AttentionConfig(n_heads=2))
        self.feed_forward = FeedForward(_D_MODEL, FeedForwardConfig(d_ff=4 * _D_MODEL))
        self.attention_norm = nn.LayerNorm(_D_MODEL) if norm else nn.Identity()
        self.feed_forward_norm = nn.LayerNorm(_D_MODEL) if norm else nn.Identity()

    def forward(self, resid_pre: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        """norm(x + attention(x)), then norm(x + feed_forward(x)), with the switches."""
        attended = self.attention(resid_pre)
        resid_mid = self.attention_norm(resid_pre + attended if self.residual else attended)
        fed = self.feed_forward(resid_mid)
        resid_post: Tensor = self.feed_forward_norm(resid_mid + fed if self.residual else fed)
        return resid_post


class _Reverser(nn.Module):
    def __init__(self, n_layers: int, *, residual: bool, norm: bool) -> None:
        super().__init__()
        self.words = nn.Embedding(_N_WORDS, _D_MODEL)
        self.positions = nn.Embedding(_N_POSITIONS, _D_MODEL)
        blocks = [SwitchedBlock(residual=residual, norm=norm) for _ in range(n_layers)]
        self.blocks = nn.Sequential(*blocks)
        self.to_words = nn.Linear(_D_MODEL, _N_WORDS)
        initialise(self.blocks, "xavier")

    def transform(self, ids: Int[Tensor, "B T"]) -> Float[Tensor, "B T D"]:
        outputs: Tensor = self.blocks(self.words(ids) + self.positions.weight)
        return outputs

    def forward(self, ids: Int[Tensor, "B T"]) -> Float[Tensor, "B T V"]:
        logits: Tensor = self.to_words(self.transform(ids))
        return logits

    def loss(self, ids: Int[Tensor, "B T"]) -> Float[Tensor, ""]:
        backwards = ids.flip(dims=(1,))
        return F.cross_entropy(self(ids).flatten(0, 1), backwards.flatten())


def learn_at_depth(
    n_layers: int,
    *,
    residual: bool = True,
    norm: bool = True,
    steps: int = 150,
    learning_rate: float = 0.002,
    seed: int = 0,
) -> DepthResult:
    """Train a stack of this depth for a few steps; all variants get the same data and budget."""
    with seeded(seed):
        model = _Reverser(n_layers, residual=residual, norm=norm)
    with seeded(seed + 1):
        first = _random_ids(_BATCH)
        similarity = _similarity(model.transform(first))
        gradient_ratio = _gradient_ratio(model, first)
        loss = fit(
            model.parameters(),
            lambda: model.loss(_random_ids(_BATCH)),
            steps=steps,
            learning_rate=learning_rate,
        )
        fresh = _random_ids(16 * _BATCH)
    with torch.no_grad():
        right = accuracy(model(fresh), fresh.flip(dims=(1,)))
    return DepthResult(n_layers, residual, norm, similarity, gradient_ratio, loss, right)


def _random_ids(n_sequences: int) -> Int[Tensor, "B T"]:
    return torch.randint(_N_WORDS, (n_sequences, _N_POSITIONS))


@torch.no_grad()
def _similarity(outputs: Float[Tensor, "B T D"]) -> float:
    directions = F.normalize(outputs, dim=-1)
    cosines = directions @ directions.mT
    n_positions = outputs.size(1)
    beside_diagonal = cosines.sum(dim=(1, 2)) - n_positions
    return float(beside_diagonal.mean() / (n_positions * (n_positions - 1)))


def _gradient_ratio(model: _Reverser, ids: Int[Tensor, "B T"]) -> float:
    maps = [
        part.to_values.weight for part in model.modules() if isinstance(part, MultiHeadAttention)
    ]
    gradients = torch.autograd.grad(model.loss(ids), [maps[0], maps[-1]])
    return float(gradients[0].norm() / gradients[1].norm())


# --- relatedness ---
# Do words that belong together get a large product? "the cat walks on the street", trained.
#
# Basic self-attention has no parameters: what attends to what is decided by the embeddings alone,
# v_i · v_j. The text expects v_cat · v_walks to become large and positive, since a verb must find
# out who does it, and the products of "the" with other words small or negative, since it helps none
# of them. The task here asks just that, on all sentences "the NOUN VERB on the PLACE": from the
# output of each word, which word it is; from the output of the verb, who does it (or, as a control,
# where, or both). Nothing in the task mentions "the", nor any product.
#
# A product says less than the text hopes. On average nouns and verbs get large ones and nouns and
# places do not, but a product that the task never asks for may end up anywhere: single pairs of a
# noun and a place exceed those of noun and verb. And where the verb is asked for both, noun and
# place become related most of all, though no question connects them: both are what the verb looks
# for.


SENTENCE = ("the", "cat", "walks", "on", "the", "street")
NOUNS = ("cat", "dog", "bird", "girl")
VERBS = ("walks", "runs", "sits", "sleeps")
PLACES = ("street", "roof", "grass", "floor")

Question = Literal["who", "where", "who and where"]

_WORDS = (*NOUNS, *VERBS, *PLACES, "the", "on")
_VERB_AT = 2
# The candidates for an answer, and where the right one stands in a sentence.
_ANSWERS = {"who": (NOUNS, 1), "where": (PLACES, 5)}


@dataclass(frozen=True)
class Relatedness:
    """The products of all word vectors, before and after training."""

    words: tuple[str, ...]
    products: Float[Tensor, "V V"]
    untrained: Float[Tensor, "V V"]
    sentence_weights: Float[Tensor, "T T"]
    """Attention weights of "the cat walks on the street" after training."""
    accuracy: float
    """Share of verbs from which the answer is read correctly; of two questions, the lower one."""

    def product(self, one: str, other: str) -> float:
        """v_one · v_other after training."""
        return float(self.products[self.words.index(one), self.words.index(other)])

    def mean_product(self, some: tuple[str, ...], others: tuple[str, ...]) -> float:
        """The average product of two groups of words; equal words are left out."""
        pairs = self.products_between(some, others)
        return sum(pairs) / len(pairs)

    def products_between(self, some: tuple[str, ...], others: tuple[str, ...]) -> list[float]:
        """The products of two groups of words, pair by pair; equal words are left out."""
        return [self.product(a, b) for a, b in product(some, others) if a != b]


def learn_relatedness(
    asks: Question = "who", *, d_model: int = 16, steps: int = 200, seed: int = 0
) -> Relatedness:
    """Train the embeddings on all 64 sentences, and read the products off."""
    ids = _all_sentences()
    asked = [question for question in _ANSWERS if question in asks]
    answers = [ids[:, at] - _WORDS.index(group[0]) for group, at in (_ANSWERS[q] for q in asked)]
    with seeded(seed):
        table = nn.Parameter(torch.randn(len(_WORDS), d_model) / d_model**0.5)
        to_word = nn.Linear(d_model, len(_WORDS))
        to_answers = [nn.Linear(d_model, len(_ANSWERS[question][0])) for question in asked]
    untrained = (table @ table.T).detach()

    def loss() -> Tensor:
        outputs = basic_self_attention(table[ids])
        which_word = F.cross_entropy(to_word(outputs).flatten(0, 1), ids.flatten())
        readings = zip(to_answers, answers, strict=True)
        verb = outputs[:, _VERB_AT]
        return which_word + sum(F.cross_entropy(read(verb), right) for read, right in readings)

    parameters = [table, *to_word.parameters()]
    parameters += [parameter for read in to_answers for parameter in read.parameters()]
    fit(parameters, loss, steps=steps, learning_rate=0.03)
    with torch.no_grad():
        verb = basic_self_attention(table[ids])[:, _VERB_AT]
        vectors = table[torch.tensor([_WORDS.index(word) for word in SENTENCE])]
        return Relatedness(
            words=_WORDS,
            products=table @ table.T,
            untrained=untrained,
            sentence_weights=torch.softmax(vectors @ vectors.T, dim=-1),
            accuracy=min(accuracy(r(verb), a) for r, a in zip(to_answers, answers, strict=True)),
        )


def _all_sentences() -> Int[Tensor, "B T"]:
    sentences = [
        ("the", noun, verb, "on", "the", place)
        for noun, verb, place in product(NOUNS, VERBS, PLACES)
    ]
    return torch.tensor([[_WORDS.index(word) for word in sentence] for sentence in sentences])


# --- resolution ---
# A task that one head cannot do and two can: each position reports both of its neighbours.
#
# Averaging costs resolution: a head gives one weighted average, y_i = Σ_j w_ij V x_j. Let the
# vectors be random, and let a linear map read the left and the right neighbour from y_i. With
# weights a and b on the two, the best map leaves b² / (a² + b²) of the left one's variance
# unexplained and a² / (a² + b²) of the right one's: together 1, whatever a and b are. So one head
# has a mean squared error of at least ½ as long as its weights do not depend on the vectors; two
# heads of half the width have none.


ONE_HEAD_BOUND = 0.5
"""The least mean squared error of one head, relative to the variance of what it reads."""


@dataclass(frozen=True)
class Resolution:
    """How well both neighbours are reported."""

    n_heads: int
    error: float
    """Mean squared error on fresh sequences; 1 is knowing nothing, 0 is perfect."""
    parameters: int


class _NeighbourReader(nn.Module):
    """One attention layer and a linear map; each position's number is part of its input."""

    def __init__(self, n_heads: int, n_positions: int, width: int) -> None:
        super().__init__()
        heads = AttentionConfig(
            n_heads=n_heads,
            d_head=n_positions,
            d_value=2 * width // n_heads,
            output_map=False,
        )
        self.attention = MultiHeadAttention(n_positions + width, heads)
        self.to_neighbours = nn.Linear(2 * width, 2 * width)

    def forward(self, vectors: Float[Tensor, "B T W"]) -> Float[Tensor, "B T W2"]:
        """Left neighbour and right neighbour, side by side."""
        numbers = 2 * torch.eye(vectors.size(1)).expand(vectors.size(0), -1, -1)
        attended = self.attention(torch.cat([vectors, numbers], dim=-1))
        neighbours: Tensor = self.to_neighbours(attended)
        return neighbours


def learn_neighbours(
    n_heads: int, *, n_positions: int = 6, width: int = 8, steps: int = 300, seed: int = 0
) -> Resolution:
    """Train on random vectors in a ring; the value width 2 · width is shared by the heads."""
    with seeded(seed):
        model = _NeighbourReader(n_heads, n_positions, width)

        def error(n_sequences: int) -> Tensor:
            vectors = torch.randn(n_sequences, n_positions, width)
            neighbours = torch.cat([vectors.roll(1, dims=1), vectors.roll(-1, dims=1)], dim=-1)
            return F.mse_loss(model(vectors), neighbours)

        fit(model.parameters(), lambda: error(64), steps=steps, learning_rate=0.02)
        with torch.no_grad():
            final = float(error(1000))
    return Resolution(
        n_heads=n_heads,
        error=final,
        parameters=sum(p.numel() for p in model.parameters()),
    )


# --- roles ---
# Who gave what to whom? "mary gave roses to susan", read off the output of "gave".
#
# The text says that one head mixes giver and receiver in y_gave, and that several heads can keep
# them apart. Here linear maps read giver, gift and receiver from y_gave, and three things decide:
#
# - No positions: the sentence is a set. y_gave is the same for "mary gave roses to susan" and
# "susan gave roses to mary", with any number of heads: roles need positions (or knowledge of the
# names). - Positions decide the scores, words the values: one head gives a V x_giver + b V
# x_receiver + …, with the same a and b for all names. Let R_n score name n as receiver, and h(n, m)
# = R_n · V x_m. That R prefers r to g in (g, r), and g to r in (r, g), needs (b − a) (d_rg + d_gr)
# > 0, where d_rg = h(r, r) − h(g, r); that it prefers r to t in (g, r), and t to r in (g, t), needs
# b (d_rt + d_tr) > 0. With three names or more, b > a; for the giver, alike, a > b. No linear map
# reads both from one head. Two heads put them into different parts of y, and it is easy. -
# Positions added to words, as in a Transformer: the weights depend on the names and the values on
# the positions, the argument fails, and one head can learn a code that tells the two apart: of two
# names it looks mostly at one, and how the weight is divided tells who the other is. With the same
# average weights in every sentence the code is gone. There the text's "mixed" is how it begins, not
# what training must leave it with (nor what it always leaves behind: some starts stay mixed).


Positions = Literal["none", "in scores", "added"]

ROLE_NAMES = ("mary", "susan", "john", "peter", "anna")
_GIFTS = ("roses", "books", "bread")
_WORDS_ROLES = (*ROLE_NAMES, *_GIFTS, "gave", "to")
_GIVER_AT, _GAVE_AT, _GIFT_AT, _RECEIVER_AT = 0, 1, 2, 4
_N_POSITIONS_ROLES = 5
ROLE_SENTENCE = ("mary", "gave", "roses", "to", "susan")


@dataclass(frozen=True)
class RoleReading:
    """What can be read from y_gave after training."""

    n_heads: int
    positions: Positions
    giver: float
    """Share of sentences in which the giver is read correctly."""
    gift: float
    receiver: float
    giver_and_receiver: float
    """Share of sentences in which both are."""
    weights: Float[Tensor, "H T"]
    """What each head of "gave" attends to in "mary gave roses to susan"."""
    change_when_swapped: float
    """Largest change of y_gave when mary and susan change places."""
    giver_by_average: float
    """Share of givers still read correctly when "gave" has its average weights everywhere."""
    receiver_by_average: float
    model: RoleReader
    """What was trained, to look inside."""
    ids: Int[Tensor, "1 T"]
    """"mary gave roses to susan", as the model takes it."""

    @torch.no_grad()
    def weights_in(self, sentence: tuple[str, ...]) -> list[float]:
        """What the first head of "gave" attends to in another sentence of these words."""
        weights: list[float] = self.model.attend(_encode(sentence)).weights[0, 0, _GAVE_AT].tolist()
        return weights


class RoleReader(nn.Module):
    """One attention layer, and three linear maps that read its output at "gave"."""

    def __init__(self, n_heads: int, d_model: int, positions: Positions) -> None:
        super().__init__()
        self.n_heads = n_heads
        self.positions = positions
        self.word_table = nn.Embedding(len(_WORDS_ROLES), d_model)
        self.position_table = nn.Embedding(_N_POSITIONS_ROLES, d_model)
        for table in (
            self.word_table,
            self.position_table,
        ):  # small: every head starts by looking everywhere
            nn.init.normal_(table.weight, std=0.25)
        self.to_queries = nn.Linear(d_model, d_model, bias=False)
        self.to_keys = nn.Linear(d_model, d_model, bias=False)
        self.to_values = nn.Linear(d_model, d_model, bias=False)
        self.to_giver = nn.Linear(d_model, len(ROLE_NAMES))
        self.to_gift = nn.Linear(d_model, len(_GIFTS))
        self.to_receiver = nn.Linear(d_model, len(ROLE_NAMES))

    def attend(self, ids: Int[Tensor, "B T"]) -> Attended:
        """Attention from every position, (B, H, T, E)."""
        words = self.word_table(ids)
        positions = self.position_table.weight.expand_as(words)
        seen = {"none": words, "in scores": positions, "added": words + positions}[self.positions]
        queries, keys = (
            split_heads(part(seen), self.n_heads) for part in (self.to_queries, self.to_keys)
        )
        values = self.values(ids)
        return attend_written(queries, keys, values)

    def output_of_gave(
        self, ids: Int[Tensor, "B T"], *, average: bool = False
    ) -> Float[Tensor, "B D"]:
        """y_gave, the heads side by side; `average` gives every sentence the same weights."""
        attended = self.attend(ids)
        if not average:
            return join_heads(attended.context)[:, _GAVE_AT]
        weights = attended.weights[:, :, [_GAVE_AT]].mean(dim=0, keepdim=True)
        return join_heads(weights @ self.values(ids))[:, 0]

    def values(self, ids: Int[Tensor, "B T"]) -> Float[Tensor, "B H T E"]:
        """What is passed on from each position."""
        words = self.word_table(ids)
        added = self.position_table.weight if self.positions == "added" else 0.0
        return split_heads(self.to_values(words + added), self.n_heads)

    def forward(self, ids: Int[Tensor, "B T"]) -> tuple[Tensor, Tensor, Tensor]:
        """Logits of giver, gift and receiver."""
        output = self.output_of_gave(ids)
        return self.to_giver(output), self.to_gift(output), self.to_receiver(output)


def learn_roles(
    n_heads: int,
    positions: Positions,
    *,
    d_model: int = 16,
    steps: int = 250,
    seed: int = 0,
) -> RoleReading:
    """Train on all sentences of five names and three gifts; the width is shared by the heads."""
    ids = _all_sentences_roles()
    answers = (ids[:, _GIVER_AT], ids[:, _GIFT_AT] - len(ROLE_NAMES), ids[:, _RECEIVER_AT])
    with seeded(seed):
        model = RoleReader(n_heads, d_model, positions)

    def loss() -> Tensor:
        readings = zip(model(ids), answers, strict=True)
        return torch.stack([F.cross_entropy(*reading) for reading in readings]).sum()

    fit(model.double().parameters(), loss, steps=steps, learning_rate=0.01)
    model.float()
    one = _encode(ROLE_SENTENCE)
    swapped = _encode(("susan", "gave", "roses", "to", "mary"))
    with torch.no_grad():
        readings = zip(model(ids), answers, strict=True)
        giver, gift, receiver = (logits.argmax(dim=-1) == answer for logits, answer in readings)
        change = model.output_of_gave(one) - model.output_of_gave(swapped)
        averaged = model.output_of_gave(ids, average=True)
        return RoleReading(
            n_heads=n_heads,
            positions=positions,
            giver=_share(giver),
            gift=_share(gift),
            receiver=_share(receiver),
            giver_and_receiver=_share(giver & receiver),
            weights=model.attend(one).weights[0, :, _GAVE_AT],
            change_when_swapped=float(change.abs().max()),
            giver_by_average=accuracy(model.to_giver(averaged), answers[0]),
            receiver_by_average=accuracy(model.to_receiver(averaged), answers[2]),
            model=model,
            ids=one,
        )


def _all_sentences_roles() -> Int[Tensor, "B T"]:
    sentences = [
        _encode((giver, "gave", gift, "to", receiver))
        for (giver, receiver), gift in product(permutations(ROLE_NAMES, 2), _GIFTS)
    ]
    return torch.cat(sentences)


def _encode(words: tuple[str, ...]) -> Int[Tensor, "1 T"]:
    return torch.tensor([[_WORDS_ROLES.index(word) for word in words]])


def _share(right: Bool[Tensor, " B"]) -> float:
    return float(right.double().mean())


# --- taste ---
# Do features learned from likes alone reflect content? A made audience decides.
#
# Films have hidden content (how romantic, how funny), people hidden tastes for it, and a like is
# taste · content + chance > 0; without chance, likes say nothing of the size of content. A model
# that sees a part of the likes and nothing else fits one vector for each film and each person, as a
# recommender does.


_N_PEOPLE, _N_FILMS, _N_FEATURES = 120, 40, 2
_KNOWN = 0.4
"""Share of the likes that the model sees."""


@dataclass(frozen=True)
class Tastes:
    """What was learned from a part of the likes, and what it was learned from."""

    people: Float[Tensor, "P N"]
    films: Float[Tensor, "M N"]
    """Learned features; the first varies most among the films."""
    likes: Float[Tensor, "P M"]
    known: Bool[Tensor, "P M"]
    content: Float[Tensor, "M C"]
    """What the model never saw."""

    @property
    def guessed(self) -> float:
        """Share of the likes that it did not see and gets right."""
        right = (self.people @ self.films.T > 0) == (self.likes > 0)
        return float(right[~self.known].double().mean())

    @property
    def explained(self) -> float:
        """Share of the content's variance that the best linear map of the features explains."""
        with_constant = F.pad(self.films, (0, 1), value=1.0)
        solution = torch.linalg.lstsq(with_constant, self.content).solution
        left = (self.content - with_constant @ solution).square().sum()
        return 1 - float(left / (self.content - self.content.mean(dim=0)).square().sum())


def content_recovered(
    *, chance: float = 1.0, shuffled: bool = False, steps: int = 200, seed: int = 0
) -> float:
    """R² of hidden content, read by a linear map from the learned film vectors.

    `shuffled` gives each like to a random film: the control, in which there is nothing to find.
    """
    return learn_tastes(chance=chance, shuffled=shuffled, steps=steps, seed=seed).explained


def learn_tastes(
    content: Float[Tensor, "M C"] | None = None,
    *,
    tastes: Float[Tensor, "P C"] | None = None,
    chance: float = 1.0,
    shuffled: bool = False,
    steps: int = 200,
    seed: int = 0,
) -> Tastes:
    """Fit two features to likes; content and tastes are drawn at random where none are given."""
    with seeded(seed):
        content = torch.randn(_N_FILMS, _N_FEATURES) if content is None else content
        if tastes is None:
            tastes = torch.randn(_N_PEOPLE, content.size(1))
        n_people, n_films = len(tastes), len(content)
        likes = (tastes @ content.T + chance * torch.randn(n_people, n_films) > 0).float()
        if shuffled:
            likes = torch.stack([row[torch.randperm(n_films)] for row in likes])
        known = torch.rand(n_people, n_films) < _KNOWN
        people = nn.Parameter(0.1 * torch.randn(n_people, _N_FEATURES))
        films = nn.Parameter(0.1 * torch.randn(n_films, _N_FEATURES))

    def loss() -> Tensor:
        logits = people @ films.T
        size = people.square().mean() + films.square().mean()  # or the vectors grow for ever
        return F.binary_cross_entropy_with_logits(logits[known], likes[known]) + 0.01 * size

    fit([people, films], loss, steps=steps, learning_rate=0.05)
    turn = torch.linalg.svd(films.detach()).Vh.T  # a turn of both leaves every product as it is
    return Tastes(people.detach() @ turn, films.detach() @ turn, likes, known, content)


# --- width ---
# How wide must the feed-forward be? Width 4k and others, on two tasks of different hardness.
#
# The text calls 4k arbitrary: less may do and saves memory, but it should not be less than k. Here
# a small classifier learns a function of two words: an easy one (the class of the second word),
# which attention alone can do, and a hard one (a random class for each pair), which must be
# memorised.


PairTask = Literal["second word", "random pairs"]

_N_WORDS_WIDTH, _N_CLASSES, _D_MODEL_WIDTH = 20, 8, 8


@dataclass(frozen=True)
class WidthResult:
    """What a feed-forward of one width costs and what it is worth."""

    task: PairTask
    d_model: int
    d_ff: int
    accuracy: float
    """On all pairs, which are those it was trained on: what fits into it."""
    loss: float
    parameters: int
    """Of the whole classifier."""
    activations: int
    """Numbers kept for each position between the two layers."""


def learn_at_width(
    d_ff: int, task: PairTask = "random pairs", *, steps: int = 250, seed: int = 0
) -> WidthResult:
    """Train a one-block classifier on all 400 pairs of 20 words; k is 8."""
    pairs = torch.tensor(list(product(range(_N_WORDS_WIDTH), repeat=2)))
    sizes = bloem_2024(
        vocab_size=_N_WORDS_WIDTH,
        d_model=_D_MODEL_WIDTH,
        n_heads=2,
        n_layers=1,
        max_len=2,
        n_classes=_N_CLASSES,
    )
    with seeded(seed):
        random_classes = torch.randint(_N_CLASSES, (len(pairs),))
        model = Classifier(sizes.with_(feed_forward__d_ff=d_ff))
    answers = random_classes if task == "random pairs" else pairs[:, 1] % _N_CLASSES

    def loss() -> Tensor:
        return F.cross_entropy(model(pairs), answers)

    last = fit(model.parameters(), loss, steps=steps, learning_rate=0.01)
    with torch.no_grad():
        right = accuracy(model(pairs), answers)
    return WidthResult(
        task=task,
        d_model=_D_MODEL_WIDTH,
        d_ff=d_ff,
        accuracy=right,
        loss=last,
        parameters=count_parameters(model),
        activations=d_ff,
    )
