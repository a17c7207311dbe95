"""What attention learns to attend to: seeded studies of a second or two on one CPU core.

Each function trains one small model and returns its figures; the caller compares them. The comment
above each study says what the text claims and, where it can be proved, what must come out.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import permutations, product
from typing import Literal

import torch
import torch.nn.functional as F
from torch import nn

from glassformer.claims.specimens import accuracy, fit, seeded
from glassformer.nn.attention import (
    Attended,
    MultiHeadAttention,
    attend_written,
    basic_self_attention,
    join_heads,
    split_heads,
)
from glassformer.nn.config import AttentionConfig
from glassformer.nn.description import count_parameters
from glassformer.nn.tensors import Bool, Float, Int, Tensor

# --- relatedness ---
# Do words that belong together get a large product? "the cat walks on the street", trained.
#
# Basic self-attention has no parameters: what attends to what is decided by the embeddings alone,
# v_i · v_j. The text expects v_cat · v_walks to become large and positive, because a verb must find
# its subject, and the products of "the" with other words small or negative, because it helps none
# of them. The task asks exactly that of all sentences "the NOUN VERB on the PLACE": from the output
# of each word, which word it is; from the output of the verb, who acts (or, as a control, where, or
# both). Nothing in the task mentions "the" or any product.
#
# A product says less than the text hopes. On average nouns and verbs get large products and nouns
# and places do not, but a product that the task never asks about may end up anywhere: single pairs
# of a noun and a place exceed those of a noun and a verb. And if the verb is asked for both, noun
# and place become the most related of all, though no question connects them: the verb looks for
# both. If long vectors cost something (`decay`, the usual weight decay), what no question asks for
# shrinks away, and with one question the products say what the text hopes, pair by pair.


SENTENCE = ("the", "cat", "walks", "on", "the", "street")
NOUNS = ("cat", "dog", "bird", "girl")
VERBS = ("walks", "runs", "sits", "sleeps")
PLACES = ("street", "roof", "grass", "floor")

AskedFor = Literal["who", "where", "who and where"]

_WORDS = (*NOUNS, *VERBS, *PLACES, "the", "on")
_VERB_AT = 2
# The candidates for an answer, and where the right one stands in a sentence.
_ANSWERS = {"who": (NOUNS, 1), "where": (PLACES, 5)}


@dataclass(frozen=True)
class Relatedness:
    """The products of all word vectors after training."""

    words: tuple[str, ...]
    vectors: Float[Tensor, "V D"]
    """The embeddings after training."""
    products: Float[Tensor, "V V"]
    accuracy: float
    """Share of verbs from which the answer is read correctly; the lower one of two questions."""

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
    asks: AskedFor = "who", *, d_model: int = 16, steps: int = 200, decay: float = 0.0,
    seed: int = 0,
) -> Relatedness:  # fmt: skip
    """Train the embeddings on all 64 sentences and return their products.

    `decay` times the sum of all squares in the embeddings is added to the loss.
    """
    ids = _all_sentences()
    asked = [question for question in _ANSWERS if question in asks]
    answers = [ids[:, at] - _WORDS.index(group[0]) for group, at in (_ANSWERS[q] for q in asked)]
    with seeded(seed):
        table = nn.Parameter(torch.randn(len(_WORDS), d_model) / d_model**0.5)
        to_word = nn.Linear(d_model, len(_WORDS))
        to_answers = [nn.Linear(d_model, len(_ANSWERS[question][0])) for question in asked]

    def loss() -> Tensor:
        outputs = basic_self_attention(table[ids])
        which_word = F.cross_entropy(to_word(outputs).flatten(0, 1), ids.flatten())
        readings = zip(to_answers, answers, strict=True)
        verb = outputs[:, _VERB_AT]
        asked_of_verb = sum(F.cross_entropy(read(verb), right) for read, right in readings)
        return which_word + asked_of_verb + decay * table.square().sum()

    parameters = [table, *to_word.parameters()]
    parameters += [parameter for read in to_answers for parameter in read.parameters()]
    fit(parameters, loss, steps=steps, learning_rate=0.03)
    with torch.no_grad():
        verb = basic_self_attention(table[ids])[:, _VERB_AT]
        return Relatedness(
            words=_WORDS,
            vectors=table.detach().clone(),
            products=table @ table.T,
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
# weights a and b on the two, the best map leaves b² / (a² + b²) of the left neighbour's variance
# unexplained and a² / (a² + b²) of the right one's: 1 in total, whatever a and b are. So one head
# has a mean squared error of at least ½ if its weights do not depend on the vectors; two heads of
# half the width can have none.


ONE_HEAD_BOUND = 0.5
"""The least mean squared error of one head, relative to the variance of what it reads."""


@dataclass(frozen=True)
class Resolution:
    """How well a model reports both neighbours."""

    error: float
    """Mean squared error on new sequences; 1 is knowing nothing, 0 is perfect."""
    parameters: int
    model: NeighbourReader = field(compare=False, repr=False)
    """The trained model, for inspection."""


class NeighbourReader(nn.Module):
    """One attention layer and a linear map; each position's number is part of its input."""

    def __init__(self, n_heads: int, n_positions: int, width: int) -> None:
        super().__init__()
        heads = AttentionConfig(
            n_heads=n_heads, d_head=n_positions, d_value=2 * width // n_heads, output_map=False
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
        model = NeighbourReader(n_heads, n_positions, width)

        def loss(n_sequences: int) -> Tensor:
            vectors = torch.randn(n_sequences, n_positions, width)
            neighbours = torch.cat([vectors.roll(1, dims=1), vectors.roll(-1, dims=1)], dim=-1)
            return F.mse_loss(model(vectors), neighbours)

        fit(model.parameters(), lambda: loss(64), steps=steps, learning_rate=0.02)
        with torch.no_grad():
            final = float(loss(1000))
    return Resolution(final, count_parameters(model), model.eval())


# --- roles ---
# Who gave what to whom? "mary gave roses to susan", read off the output of "gave".
#
# The text says that one head mixes giver and receiver in y_gave, and that several heads can keep
# them apart. Here linear maps read giver, gift and receiver from y_gave. Three cases:
#
# - No positions: the sentence is a set. y_gave is the same for "mary gave roses to susan" and
#   "susan gave roses to mary", with any number of heads. Roles need positions, or knowledge of the
#   names.
# - Positions decide the scores, words the values: one head gives a V x_giver + b V x_receiver + …,
#   with the same a and b for all names. Let R_n score name n as receiver, and h(n, m) = R_n · V
#   x_m. For R to prefer r to g in (g, r), and g to r in (r, g), (b − a)(d_rg + d_gr) > 0 must hold,
#   where d_rg = h(r, r) − h(g, r); to prefer r to t in (g, r), and t to r in (g, t), b (d_rt +
#   d_tr) > 0 must hold. With three names or more, b > a; for the giver, by the same argument, a >
#   b. So no linear map reads both from one head. Two heads put them into different parts of y,
#   which is easy.
# - Positions added to words, as in a Transformer: weights depend on names and values on positions,
#   the argument fails, and one head can learn a code that tells the two apart: of two names it
#   looks mostly at one, and how the weight is divided tells who the other is. With the same average
#   weights in every sentence the code is gone. Here "mixed" is how training starts, not how it must
#   end (though some starts do stay mixed).


Positions = Literal["none", "in scores", "added"]

ROLE_NAMES = ("mary", "susan", "john", "peter", "anna")
_GIFTS = ("roses", "books", "bread")
_ROLE_WORDS = (*ROLE_NAMES, *_GIFTS, "gave", "to")
_GIVER_AT, _GAVE_AT, _GIFT_AT, _RECEIVER_AT = 0, 1, 2, 4
_N_ROLE_POSITIONS = 5
ROLE_SENTENCE = ("mary", "gave", "roses", "to", "susan")


@dataclass(frozen=True)
class RoleReading:
    """What can be read from y_gave after training."""

    n_heads: int
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
    """The trained model, for inspection."""
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
        self.word_table = nn.Embedding(len(_ROLE_WORDS), d_model)
        self.position_table = nn.Embedding(_N_ROLE_POSITIONS, d_model)
        for table in (self.word_table, self.position_table):  # small: heads first look everywhere
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
        places = torch.ones_like(ids).cumsum(dim=-1) - 1
        positions = self.position_table(places)
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
        """The values of each position, (B, H, T, E)."""
        words = self.word_table(ids)
        added = self.position_table.weight if self.positions == "added" else 0.0
        return split_heads(self.to_values(words + added), self.n_heads)

    def forward(self, ids: Int[Tensor, "B T"]) -> tuple[Tensor, Tensor, Tensor]:
        """Logits of giver, gift and receiver."""
        output = self.output_of_gave(ids)
        return self.to_giver(output), self.to_gift(output), self.to_receiver(output)


def learn_roles(
    n_heads: int, positions: Positions, *, d_model: int = 16, steps: int = 250, seed: int = 0
) -> RoleReading:
    """Train on all sentences of five names and three gifts; the width is shared by the heads."""
    ids = _role_sentences()
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


def _role_sentences() -> Int[Tensor, "B T"]:
    sentences = [
        _encode((giver, "gave", gift, "to", receiver))
        for (giver, receiver), gift in product(permutations(ROLE_NAMES, 2), _GIFTS)
    ]
    return torch.cat(sentences)


def _encode(words: tuple[str, ...]) -> Int[Tensor, "1 T"]:
    return torch.tensor([[_ROLE_WORDS.index(word) for word in words]])


def _share(right: Bool[Tensor, " B"]) -> float:
    return float(right.double().mean())
