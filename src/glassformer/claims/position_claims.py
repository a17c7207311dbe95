"""Positions: order made visible, lengths seen and unseen, sinusoids, embedding size."""

import math
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from glassformer.claims.claim import Figures, Group, VerdictRule
from glassformer.claims.costs import (
    DERIVED_CONSTANT,
    PRINTED_CONSTANT,
    least_embedding_size,
    pair_entropy,
)
from glassformer.claims.properties import shuffle_words
from glassformer.claims.specimens import (
    ROUNDING,
    accuracy,
    difference,
    fit,
    ids,
    permutation,
    refuses,
    seeded,
    vectors,
)
from glassformer.errors import InputError
from glassformer.nn import Classifier, ModelConfig, TextEncoder, presets
from glassformer.nn.description import count_parameters
from glassformer.nn.positions import LearnedPositions, SinusoidalPositions, sinusoidal_table

group = Group("position_claims")

_KINDS = ("learned", "sinusoidal", "rotary")


def _classifier(kind: str, max_len: int = 10) -> ModelConfig:
    config = presets.bloem_2024(vocab_size=20, d_model=16, n_heads=2, n_layers=1, max_len=max_len)
    return config.with_(positions__kind=kind)


@group.claim(
    "C60",
    lambda f: f["without"] < ROUNDING and min(f["learned"], f["sinusoidal"]) > 1e-3,
    length=(2, 5, 10),
)
def positions_make_order_matter(length: int = 10) -> Figures:
    """How far shuffling the words changes a class probability."""
    text, order = ids(4, length, 20), permutation(length)
    moved = {kind: shuffle_words(_classifier(kind), text, order) for kind in ("none", *_KINDS)}
    return {"without": moved.pop("none"), **moved}


def _trained_rows(lengths: tuple[int, ...]) -> int:
    """How many of 8 position vectors get a gradient from texts of these lengths."""
    with seeded(0):
        model = Classifier(_classifier("learned", max_len=8))
    positions = model.encoder.positions
    assert isinstance(positions, LearnedPositions)
    answers = torch.cat([model(ids(4, length, 20)) for length in lengths])
    (gradient,) = torch.autograd.grad(answers.square().sum(), positions.table.weight)
    return int(gradient.abs().sum(dim=1).ne(0).sum())


@group.claim(
    "C61",
    VerdictRule(lambda f: f["longest"] < f["every"], partly=lambda f: f["short"] < f["every"]),
)
def every_length_is_needed() -> Figures:
    """Position vectors trained by texts of every length, of the longest, and by short ones."""
    return {
        "every": _trained_rows(tuple(range(1, 9))),
        "longest": _trained_rows((8,)),
        "short": _trained_rows((1, 2, 3, 4)),
    }


@group.claim(
    "C62",
    lambda f: f["learned"] == 0 and f["sinusoidal"] == f["rotary"] == 1,
    length=(10, 12, 100),
)
def encodings_go_beyond_the_trained_length(length: int = 12) -> Figures:
    """Longer texts in models made for ten tokens."""
    with seeded(0):
        models = {kind: Classifier(_classifier(kind)).eval() for kind in _KINDS}
    text = ids(1, length, 20)
    accepted = {
        kind: not refuses(partial(model, text), (InputError, IndexError))
        for kind, model in models.items()
    }
    return {"length": length, **accepted}


def learn_left_neighbour(kind: str, lengths: tuple[int, ...], *, steps: int = 400) -> list[float]:
    """Train on texts of eight tokens to name each token's left neighbour; accuracy by length."""
    config = presets.bert(
        vocab_size=10, d_model=32, n_heads=2, n_layers=2, d_ff=64, max_len=8, dropout=0.0
    ).with_(
        architecture="encoder", positions__kind=kind, embedding__n_types=0, pad_id=None,
        init="xavier",
    )  # fmt: skip
    with seeded(0):
        model = TextEncoder(config)
        to_words = nn.Linear(config.d_model, config.vocab_size)

    def read(length: int, size: int) -> tuple[Tensor, Tensor]:
        text = torch.randint(config.vocab_size, (size, length))
        return to_words(model(text))[:, 1:].flatten(0, 1), text[:, :-1].flatten()

    def loss() -> Tensor:
        return F.cross_entropy(*read(8, 32))

    with seeded(1):
        fit([*model.parameters(), *to_words.parameters()], loss, steps=steps, learning_rate=0.003)
        with torch.no_grad():
            return [accuracy(*read(length, 200)) for length in lengths]


@group.claim(
    "C63",
    VerdictRule(
        lambda f: max(f["sinusoidal_32"], f["rotary_32"]) < 0.8,
        partly=lambda f: min(f["sinusoidal_32"], f["rotary_32"]) < 0.8,
    ),
    command="glassformer claims C63 --slow",
)
def longer_texts_fare_worse() -> Figures:
    """Accuracy at the trained length, twice and four times that."""
    figures = {}
    for kind in ("sinusoidal", "rotary"):
        for length, right in zip((8, 16, 32), learn_left_neighbour(kind, (8, 16, 32)), strict=True):
            figures[f"{kind}_{length}"] = right
    return figures


@group.claim(
    "C64",
    lambda f: f["parameters"] == 0 and f["closest"] > 0.1 and f["shift"] < 1e-3,
    by=(1, 5, 20),
    width=(4, 16, 32),
)
def encodings_need_no_learning(by: int = 5, width: int = 16) -> Figures:
    """Parameters; the closest two positions; whether a shift is one linear map for all."""
    module = SinusoidalPositions(64, width)
    table = module.table.double()
    apart = torch.cdist(table, table) + torch.eye(64) * 1e9
    shift = torch.linalg.lstsq(table[:40], table[by : by + 40]).solution
    return {
        "by": by,
        "parameters": count_parameters(module),
        "closest": float(apart.min()),
        "shift": difference(table[:-by] @ shift, table[by:]),
    }


@group.claim(
    "C65", VerdictRule(lambda f: f["gap"] > ROUNDING, decidable=lambda f: f["gap"] > ROUNDING)
)
def adding_is_a_kind_of_joining() -> Figures:
    """W (x + p) compared with [W W] [x; p]: a sum is a concatenation with equal maps."""
    words, places = vectors(5, 16), sinusoidal_table(5, 16)
    matrix = vectors(16, 8, seed=1)
    joined = torch.cat([words, places], dim=-1) @ torch.cat([matrix, matrix])
    return {"gap": difference((words + places) @ matrix, joined)}


def _sinusoid(position: int, column: int, width: int, *, by_pair: bool) -> float:
    index = column // 2 if by_pair else column
    angle = position / 10_000 ** (2 * index / width)
    return math.cos(angle) if column % 2 else math.sin(angle)


@group.claim("C66", lambda f: f["by_pair"] < ROUNDING < f["by_column"])
def sines_and_cosines_in_pairs() -> Figures:
    """The table, number by number: i counting pairs, and i counting single dimensions."""
    table = sinusoidal_table(6, 6)
    grids = [
        [
            [_sinusoid(place, column, 6, by_pair=by_pair) for column in range(6)]
            for place in range(6)
        ]
        for by_pair in (True, False)
    ]
    by_pair, by_column = (difference(table, torch.tensor(grid)) for grid in grids)
    return {"by_pair": by_pair, "by_column": by_column}


def _least_width(vocab_size: int) -> int:
    """The least width at which the entropy of a pair of words is negative, computed exactly."""
    return next(width for width in range(2, 1000) if pair_entropy(vocab_size, width) < 0)


@group.claim(
    "C67",
    VerdictRule(
        lambda f: abs(f["rule"] / f["exact"] - 1) < 0.02 and f["text_width"] > f["rule"],
        partly=lambda f: abs(f["rule"] / f["exact"] - 1) < 0.2,
    ),
    words=(23, 1000, 30000),
)
def the_rule_for_the_embedding_size(words: int = 23) -> Figures:
    """The bound for the text's 23 words, the exact one, the derived constant, the width used."""
    return {
        "words": words,
        "printed": PRINTED_CONSTANT,
        "derived": DERIVED_CONSTANT,
        "rule": least_embedding_size(words),
        "exact": _least_width(words),
        "text_width": presets.by_hand_2024().d_model,
    }
