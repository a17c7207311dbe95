"""What training needs: seeded studies of depth, width, masks and taste, a second or two each.

As in `attention_studies`, each function trains one small model and returns its figures.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import product
from typing import Literal

import torch
import torch.nn.functional as F
from torch import nn

from glassformer.claims.specimens import accuracy, causal, fit, language_model, memorise, seeded
from glassformer.nn import LanguageModel
from glassformer.nn.attention import (
    MultiHeadAttention,
)
from glassformer.nn.config import AttentionConfig, FeedForwardConfig
from glassformer.nn.description import count_parameters
from glassformer.nn.layers import FeedForward, initialise
from glassformer.nn.models import Classifier
from glassformer.nn.presets import bloem_2024
from glassformer.nn.tensors import Bool, Float, Int, Tensor

# --- depth ---
# What residuals and norms are for: the same stack trained with each of them switched off.
#
# The task is to reverse a sequence, which one attention layer can do, so depth is a burden, not a
# need. Without residuals each layer replaces what it reads by an average, and all positions soon
# carry the same vector; without norms the residual stream grows with depth and the first steps
# overshoot. The text says that both make deep nets train faster and better.


_N_WORDS, _N_POSITIONS, _D_MODEL, _BATCH = 8, 6, 16, 32


@dataclass(frozen=True)
class DepthResult:
    """A stack of one depth, before and after a short training."""

    similarity: float
    """Mean cosine between the outputs of two positions before training; 1: all the same."""
    loss: float
    accuracy: float
    """Share of words right on new sequences; chance is 1/8."""


NormPlace = Literal["post", "pre", "none"]
"""After each sum, before each sublayer, or nowhere."""


class SwitchedBlock(nn.Module):
    """A block in which the residuals or the norms may be missing."""

    def __init__(self, *, residual: bool = True, norm: NormPlace = "post") -> None:
        super().__init__()
        self.residual, self.norm_first = residual, norm == "pre"
        self.attention = MultiHeadAttention(_D_MODEL, AttentionConfig(n_heads=2))
        self.feed_forward = FeedForward(_D_MODEL, FeedForwardConfig(d_ff=4 * _D_MODEL))
        self.attention_norm, self.feed_forward_norm = (
            nn.Identity() if norm == "none" else nn.LayerNorm(_D_MODEL) for _ in range(2)
        )

    def forward(self, resid_pre: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        """norm(x + attention(x)), then norm(x + feed_forward(x)), less what is switched off.

        With the norm before it, x + attention(norm(x)), then x + feed_forward(norm(x)).
        """
        attention_in = self.attention_norm(resid_pre) if self.norm_first else resid_pre
        attended = self.attention(attention_in)
        attention_sum = resid_pre + attended if self.residual else attended
        resid_mid = attention_sum if self.norm_first else self.attention_norm(attention_sum)
        feed_in = self.feed_forward_norm(resid_mid) if self.norm_first else resid_mid
        fed = self.feed_forward(feed_in)
        feed_sum = resid_mid + fed if self.residual else fed
        resid_post: Tensor = feed_sum if self.norm_first else self.feed_forward_norm(feed_sum)
        return resid_post


class SwitchedStack(nn.Module):
    """Blocks that learn to reverse a sequence; a pre-norm stack ends with one more norm."""

    def __init__(self, n_layers: int, *, residual: bool = True, norm: NormPlace = "post") -> None:
        super().__init__()
        self.words = nn.Embedding(_N_WORDS, _D_MODEL)
        self.positions = nn.Embedding(_N_POSITIONS, _D_MODEL)
        blocks = [SwitchedBlock(residual=residual, norm=norm) for _ in range(n_layers)]
        self.blocks = nn.Sequential(*blocks)
        self.final_norm = nn.LayerNorm(_D_MODEL) if norm == "pre" else nn.Identity()
        self.to_words = nn.Linear(_D_MODEL, _N_WORDS)
        initialise(self.blocks, "xavier")

    def transform(self, ids: Int[Tensor, "B T"]) -> Float[Tensor, "B T D"]:
        outputs: Tensor = self.final_norm(self.blocks(self.words(ids) + self.positions.weight))
        return outputs

    def forward(self, ids: Int[Tensor, "B T"]) -> Float[Tensor, "B T V"]:
        logits: Tensor = self.to_words(self.transform(ids))
        return logits

    def loss(self, ids: Int[Tensor, "B T"]) -> Float[Tensor, ""]:
        backwards = ids.flip(dims=(1,))
        return F.cross_entropy(self(ids).flatten(0, 1), backwards.flatten())


def learn_at_depth(
    n_layers: int, *, residual: bool = True, norm: NormPlace = "post", steps: int = 150,
    learning_rate: float = 0.002, seed: int = 0,
) -> DepthResult:  # fmt: skip
    """Train a stack of this depth for a few steps; all variants get the same data and budget."""
    with seeded(seed):
        model = SwitchedStack(n_layers, residual=residual, norm=norm)
    with seeded(seed + 1):
        similarity = _similarity(model.transform(_random_ids(_BATCH)))
        loss = fit(
            model.parameters(), lambda: model.loss(_random_ids(_BATCH)), steps=steps,
            learning_rate=learning_rate,
        )  # fmt: skip
        fresh = _random_ids(16 * _BATCH)
    with torch.no_grad():
        right = accuracy(model(fresh), fresh.flip(dims=(1,)))
    return DepthResult(similarity, loss, right)


@dataclass(frozen=True)
class DepthSignals:
    """What happens on the way through an untrained stack, and on the way back."""

    sizes: tuple[float, ...]
    """Root mean square of the numbers before the first block and after each."""
    similarities: tuple[float, ...]
    """Mean cosine between two positions, at the same places; 1: all positions are the same."""
    gradients: tuple[float, ...]
    """Root mean square of the loss's gradient, at the same places."""


def signals_at_depth(
    n_layers: int, *, residual: bool = True, norm: NormPlace = "post", seed: int = 0
) -> DepthSignals:
    """The stack that `learn_at_depth` trains, with its first batch, before any training."""
    with seeded(seed):
        model = SwitchedStack(n_layers, residual=residual, norm=norm)
    with seeded(seed + 1):
        ids = _random_ids(_BATCH)
    stream = [model.words(ids) + model.positions.weight]
    for block in model.blocks:
        stream.append(block(stream[-1]))
    logits = model.to_words(model.final_norm(stream[-1]))
    loss = F.cross_entropy(logits.flatten(0, 1), ids.flip(dims=(1,)).flatten())
    gradients = torch.autograd.grad(loss, stream)
    return DepthSignals(
        sizes=tuple(float(x.detach().square().mean().sqrt()) for x in stream),
        similarities=tuple(_similarity(x.detach()) for x in stream),
        gradients=tuple(float(x.square().mean().sqrt()) for x in gradients),
    )


def _random_ids(n_sequences: int) -> Int[Tensor, "B T"]:
    return torch.randint(_N_WORDS, (n_sequences, _N_POSITIONS))


@torch.no_grad()
def _similarity(outputs: Float[Tensor, "B T D"]) -> float:
    directions = F.normalize(outputs, dim=-1)
    cosines = directions @ directions.mT
    n_positions = outputs.size(1)
    beside_diagonal = cosines.sum(dim=(1, 2)) - n_positions
    return float(beside_diagonal.mean() / (n_positions * (n_positions - 1)))


# --- width ---
# How wide must the feed-forward be? Width 4k and others, on an easy task and a hard one.
#
# The text calls 4k arbitrary: less may do and saves memory, but it should not be less than k. Here
# a small classifier learns a function of two words: an easy one (the class of the second word),
# which attention can do alone, and a hard one (a random class per pair), which must be memorised.


PairTask = Literal["second word", "random pairs"]

_N_PAIR_WORDS, _N_CLASSES, _D_PAIR_MODEL = 20, 8, 8


@dataclass(frozen=True)
class WidthResult:
    """What a feed-forward of one width costs and achieves."""

    d_model: int
    d_ff: int
    accuracy: float
    """On all pairs, which are the training pairs: how much it can memorise."""
    loss: float
    parameters: int
    """Of the whole classifier."""


def learn_at_width(
    d_ff: int, task: PairTask = "random pairs", *, steps: int = 250, seed: int = 0
) -> WidthResult:
    """Train a one-block classifier on all 400 pairs of 20 words; k is 8."""
    pairs = torch.tensor(list(product(range(_N_PAIR_WORDS), repeat=2)))
    sizes = bloem_2024(
        vocab_size=_N_PAIR_WORDS,
        d_model=_D_PAIR_MODEL,
        n_heads=2,
        n_layers=1,
        max_len=2,
        n_classes=_N_CLASSES,
    )
    with seeded(seed):
        random_classes = torch.randint(_N_CLASSES, (len(pairs),))
        model = Classifier(sizes.with_(feed_forward__d_ff=d_ff))
    answers = random_classes if task == "random pairs" else pairs[:, 1] % _N_CLASSES

    last = memorise(model, pairs, answers, steps=steps)
    with torch.no_grad():
        right = accuracy(model(pairs), answers)
    return WidthResult(_D_PAIR_MODEL, d_ff, right, last, count_parameters(model))


# --- leakage ---
# What a missing causal mask does: predictions that look perfect, and generation that fails.
#
# A decoder learns to predict the next token at every position at once. Without the mask, a position
# sees the token that it is to predict, and copies it. While every earlier token is given (teacher
# forcing), that cannot be told from knowledge; when the model continues its own text
# (free-running), there is nothing to copy.
#
# Two kinds of text. *Noise* cannot be predicted: whoever does has seen the answer. *Counting* (up
# by one, two or three, starting again after the last token) can: an honest model must guess the
# second token, and knows all that follow.


TextKind = Literal["noise", "counting"]

N_TOKENS, TEXT_LENGTH, PROMPT_LENGTH = 8, 9, 3


@dataclass(frozen=True)
class NextTokenResult:
    """A language model after a short training, measured on new texts."""

    loss: float
    """Of the last training step, in nats; ln 8 is guessing."""
    teacher_forced: float
    """Share of next tokens right where every earlier token is given."""
    free_running: float
    """Share of the tokens right that the model writes after a prompt, reading its own output."""
    model: LanguageModel = field(compare=False, repr=False)
    texts: Int[Tensor, "B T"] = field(compare=False, repr=False)
    """The new texts on which it was measured."""


def learn_next_token(
    kind: TextKind, *, masked: bool, steps: int = 200, seed: int = 0
) -> NextTokenResult:
    """Train one small decoder with the causal mask or without it."""
    model = language_model(seed).train()
    causal(model, masked)
    generator = torch.Generator().manual_seed(seed)

    def loss() -> Float[Tensor, ""]:
        text = draw_texts(kind, 32, generator)
        return F.cross_entropy(model(text[:, :-1]).flatten(0, 1), text[:, 1:].flatten())

    last = fit(model.parameters(), loss, steps=steps, learning_rate=0.01)
    model.eval()
    texts = draw_texts(kind, 500, generator)
    written = continue_texts(model, texts[:, :PROMPT_LENGTH])
    with torch.no_grad():
        forced = accuracy(model(texts[:, :-1]), texts[:, 1:])
    new = slice(PROMPT_LENGTH, TEXT_LENGTH)
    free = float((written[:, new] == texts[:, new]).double().mean())
    return NextTokenResult(last, forced, free, model, texts)


def draw_texts(kind: TextKind, count: int, generator: torch.Generator) -> Int[Tensor, "B T"]:
    if kind == "noise":
        return torch.randint(N_TOKENS, (count, TEXT_LENGTH), generator=generator)
    first = torch.randint(N_TOKENS, (count, 1), generator=generator)
    step = torch.randint(1, 4, (count, 1), generator=generator)
    return (first + step * torch.arange(TEXT_LENGTH)) % N_TOKENS


@torch.no_grad()
def continue_texts(model: LanguageModel, prompts: Int[Tensor, "B P"]) -> Int[Tensor, "B T"]:
    """Each prompt with the most probable tokens after it, one by one, up to the trained length."""
    written = prompts
    while written.size(1) < TEXT_LENGTH:
        following = model(written)[:, -1:].argmax(dim=-1)
        written = torch.cat([written, following], dim=1)
    return written


# --- taste ---
# Do features learned from likes alone reflect content? Tried on an invented audience.
#
# Films have hidden content (how romantic, how funny), people have hidden tastes for it, and a like
# is taste · content + noise > 0; without noise, likes say nothing about the amount of content. A
# model that sees some of the likes and nothing else fits one vector per film and per person, as a
# recommender does.


_N_PEOPLE, _N_FILMS, _N_FEATURES = 120, 40, 2
_KNOWN = 0.4
"""Share of the likes that the model sees."""


@dataclass(frozen=True)
class Tastes:
    """Features learned from a part of the likes, and the likes."""

    people: Float[Tensor, "P N"]
    films: Float[Tensor, "M N"]
    """Learned features; the first varies most among the films."""
    likes: Float[Tensor, "P M"]
    known: Bool[Tensor, "P M"]
    content: Float[Tensor, "M C"]
    """What the model never saw."""

    @property
    def guessed(self) -> float:
        """Accuracy on the likes that it did not see."""
        right = (self.people @ self.films.T > 0) == (self.likes > 0)
        return float(right[~self.known].double().mean())

    @property
    def explained(self) -> float:
        """Share of the content's variance that the best linear map of the features explains."""
        with_constant = F.pad(self.films, (0, 1), value=1.0)
        solution = torch.linalg.lstsq(with_constant, self.content).solution
        left = (self.content - with_constant @ solution).square().sum()
        return 1 - float(left / (self.content - self.content.mean(dim=0)).square().sum())


def learn_tastes(
    content: Float[Tensor, "M C"] | None = None,
    *,
    tastes: Float[Tensor, "P C"] | None = None,
    chance: float = 1.0,
    shuffled: bool = False,
    steps: int = 200,
    seed: int = 0,
) -> Tastes:
    """Fit two features to likes; content and tastes are drawn at random where none are given.

    `shuffled` assigns each like to a random film: the control, with nothing to find.
    """
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
        size = people.square().mean() + films.square().mean()  # else the vectors grow for ever
        return F.binary_cross_entropy_with_logits(logits[known], likes[known]) + 0.01 * size

    fit([people, films], loss, steps=steps, learning_rate=0.05)
    turn = torch.linalg.svd(films.detach()).Vh.T  # rotating both leaves every product unchanged
    return Tastes(people.detach() @ turn, films.detach() @ turn, likes, known, content)
