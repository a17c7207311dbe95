"""Positions: none, learned, sinusoidal, rotary; what each is, and why adding one works."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache

import torch
import torch.nn.functional as F
from torch import nn

from glassformer.claims.block_claims import (
    encodings_go_beyond_the_trained_length,
    learn_left_neighbour,
)
from glassformer.claims.claim import Figures, stored_results
from glassformer.documents.parts import Paragraph, with_code
from glassformer.lessons.lesson import LessonStep, Parts, Speaker, formula, number, percent
from glassformer.lessons.lesson_steps import chart, heat_map, short_numbers
from glassformer.nn.description import count_parameters
from glassformer.nn.positions import (
    LearnedPositions,
    RotaryPositions,
    SinusoidalPositions,
    rotate,
    sinusoidal_table,
)
from glassformer.nn.tensors import Float, Int, Tensor
from glassformer.picture import Role
from glassformer.tracing import Trace, trace

CHOICES = {"encoding": ("sinusoidal", "learned", "rotary", "none")}

LENGTHS = (8, 16, 32)
"""Trained length, and longer texts on which a trained model is asked."""
WIDTHS = (4, 8, 16, 32, 64, 128)
_PLACES, _WIDTH, _SEED = 6, 8, 2
_FAR = 16
_N_WORDS, _N_POSITIONS = 50, 20
_KINDS = ("none", "learned", "sinusoidal", "rotary")
_THREE: tuple[Role, ...] = ("query", "output", "score")


class PlaceProducts(nn.Module):
    """A vector for each place, and the dot products of all of them.

    The vectors of learned and sinusoidal positions; for rotary ones, one word turned to each place;
    without positions, the word itself.
    """

    def __init__(self, encoding: str, n_places: int = _PLACES, width: int = _WIDTH) -> None:
        super().__init__()
        self.encoding = encoding
        generator = torch.Generator().manual_seed(_SEED)
        drawn = short_numbers(n_places + 1, width, generator=generator)
        self.word = nn.Parameter(drawn[0])
        self.learned = LearnedPositions(n_places, width)
        self.sinusoids = SinusoidalPositions(n_places, width)
        self.rotary = RotaryPositions(n_places, width)
        with torch.no_grad():
            self.learned.table.weight.copy_(drawn[1:])
        self.eval()

    def vectors(self, places: Int[Tensor, " T"]) -> Float[Tensor, "T D"]:
        count = places.size(0)
        if self.encoding == "learned":
            learned: Tensor = self.learned(places, count)
            return learned
        if self.encoding == "sinusoidal":
            positions: Tensor = self.sinusoids(places, count)
            return positions
        words = self.word.repeat(count, 1)
        if self.encoding == "none":
            return words
        return rotate(words[None, None], self.rotary(places, count))[0, 0]

    def forward(self, places: Int[Tensor, " T"]) -> Float[Tensor, "T T"]:
        placed = self.vectors(places)
        vectors = torch.clone(placed)  # a step of its own, so that all four have one name
        products = vectors @ vectors.mT
        return products


class FourProducts(nn.Module):
    """A score of two sums, (x + p)·(y + r), and the four products that it consists of."""

    def forward(
        self, x: Float[Tensor, " D"], p: Float[Tensor, " D"],
        y: Float[Tensor, " D"], r: Float[Tensor, " D"],
    ) -> Float[Tensor, " N"]:  # fmt: skip
        query = x + p
        key = y + r
        score = query @ key
        words = x @ y
        word_to_position = x @ r
        position_to_word = p @ y
        positions = p @ r
        products = torch.stack([words, word_to_position, position_to_word, positions, score])
        return products


def steps(say: Speaker, *, encoding: str = "sinusoidal") -> Iterator[LessonStep]:
    run = trace(PlaceProducts(encoding), torch.arange(_PLACES))
    yield say.step("ways", "ways", _four_ways(say))
    yield say.step("vectors", "vectors", _vectors(run, say, encoding))
    yield say.step("distances", "distances", _distances(run, say, encoding))
    yield say.step("adding", "adding", _why_adding(say))
    yield say.step("separable", "separable", _separable(say))
    yield say.step("experiment", "experiment", _experiment(say, encoding))


def _places(say: Speaker) -> list[str]:
    return [say("numbered position", number=place + 1) for place in range(_PLACES)]


def _four_ways(say: Speaker) -> Parts:
    """What each kind is, what it costs, and whether a longer text may be read."""
    modules: dict[str, nn.Module] = {
        "learned": LearnedPositions(512, 256), "sinusoidal": SinusoidalPositions(512, 256),
        "rotary": RotaryPositions(512, 64),
    }  # fmt: skip
    parameters = {kind: count_parameters(module) for kind, module in modules.items()}
    longer = encodings_go_beyond_the_trained_length()
    rows = (
        (
            say(f"choice encoding {kind}"), say(f"does {kind}"), f"{parameters.get(kind, 0):,}",
            say("yes" if longer.get(kind, 1) else "no"),
        )
        for kind in _KINDS
    )  # fmt: skip
    yield say("ways")
    yield say.table(rows, "choice encoding", "does", "parameters", "longer")


def _vectors(run: Trace, say: Speaker, encoding: str) -> Parts:
    """The vector of each place, and how three of its numbers run along the text."""
    places = _places(say)
    with torch.no_grad():
        along = PlaceProducts(encoding, 32).vectors(torch.arange(32))
    lines = {say("dimension", number=at): along[:, at - 1].tolist() for at in (1, 3, 5)}
    yield say(f"vectors {encoding}")
    yield heat_map(run["vectors"], say, rows=places, title=say(f"vectors of {encoding}"))
    yield chart(
        say, "along", range(1, 33), lines, ("position", "number"), _THREE,
        title=say(f"along {encoding}"),
    )  # fmt: skip


def products_by_distance(encoding: str, start: int) -> list[float]:
    """Products of the vector at `start` with those at the next places, at a larger width."""
    model = PlaceProducts(encoding, start + _FAR, 32)
    with torch.no_grad():
        products = model(torch.arange(start + _FAR))
    return [float(product) for product in products[start, start:]]


def _distances(run: Trace, say: Speaker, encoding: str) -> Parts:
    cell = run["products"][1, 3]
    starts = (0, 5, 11)
    found = [products_by_distance(encoding, start) for start in starts]
    apart = max(max(row) - min(row) for row in zip(*found, strict=True))
    size = max(abs(product) for row in found for product in row)
    level = max(found[0]) - min(found[0]) < 1e-5 * size
    key = "level" if level else "distance" if apart < 1e-5 * size else "arbitrary"
    names = [say("from position", number=start + 1) for start in starts]
    yield say(f"compare {encoding}")
    yield formula(cell)
    yield heat_map(run["products"], say, cell, rows=_places(say), title=say("products"))
    yield say(f"products {key}", value=cell, apart=number(apart, 2))
    yield chart(
        say, "distance", range(_FAR), dict(zip(names, found, strict=True)),
        ("distance", "product"), _THREE, dashed=names[1:],
    )  # fmt: skip


def _why_adding(say: Speaker) -> Parts:
    """A score of two sums, taken apart."""
    generator = torch.Generator().manual_seed(_SEED)
    x, y = short_numbers(2, 4, generator=generator)
    p, r = sinusoidal_table(4, 4)[[1, 3]]
    run = trace(FourProducts(), x, p, y, r)
    names = ("words", "word_to_position", "position_to_word", "positions")
    values = {name: float(run[name].value) for name in names}
    values["sum"] = sum(values.values())
    score = run["score"][()]
    yield say("adding", score=score, sum=values["sum"])
    named = {"x": x, "p": p, "x + p": x + p, "y": y, "r": r, "y + r": y + r}
    vectors = ((name, *map(number, made)) for name, made in named.items())
    yield say.table(vectors, "vector", more=[str(at + 1) for at in range(len(x))])
    yield formula(score)
    rows = ((say(f"part {name}"), number(value)) for name, value in values.items())
    yield say.table(rows, "part", "product")
    yield say("adding maps")


def read_from_sums(width: int) -> tuple[float, float, float]:
    """Shares of sums from which a linear map reads the word, the position, and both.

    All sums of 50 random word vectors and 20 sinusoidal positions; the maps are fitted to them by
    least squares.
    """
    generator = torch.Generator().manual_seed(0)
    words = torch.randn(_N_WORDS, width, generator=generator, dtype=torch.float64)
    sums = words[:, None] + sinusoidal_table(_N_POSITIONS, width).double()
    features = F.pad(sums.flatten(0, 1), (0, 1), value=1.0)
    wanted = torch.cartesian_prod(torch.arange(_N_WORDS), torch.arange(_N_POSITIONS))
    right = []
    for answers in wanted.unbind(dim=1):
        solution = torch.linalg.lstsq(features, F.one_hot(answers).double()).solution
        right.append((features @ solution).argmax(dim=1) == answers)
    word, position = right
    shares = (word, position, word & position)
    return tuple(float(share.double().mean()) for share in shares)  # type: ignore[return-value]


def _separable(say: Speaker) -> Parts:
    found = [read_from_sums(width) for width in WIDTHS]
    kinds = ("read word", "read position", "read both")
    lines = {
        say(kind): [100 * shares[place] for shares in found] for place, kind in enumerate(kinds)
    }
    enough = next((w for w, shares in zip(WIDTHS, found, strict=True) if shares[2] == 1), None)
    rows = (
        (str(width), *map(percent, shares)) for width, shares in zip(WIDTHS, found, strict=True)
    )
    yield say(
        "separable", words=_N_WORDS, positions=_N_POSITIONS, sums=f"{_N_WORDS * _N_POSITIONS:,}",
        narrow=WIDTHS[0], narrow_both=percent(found[0][2]), wide=enough or WIDTHS[-1],
        wide_both=percent(1.0 if enough else found[-1][2]),
    )  # fmt: skip
    yield say.table(rows, "width", *kinds)
    yield chart(
        say, "separable", WIDTHS, lines, ("width", "read axis"), ("input", "score", "query"),
        log_across=True, least=0, most=100,
    )  # fmt: skip


@lru_cache(maxsize=4)
def _learned_now(encoding: str) -> tuple[float, ...]:
    """Accuracies of a model trained here, at each length that it can read."""
    lengths = LENGTHS[:1] if encoding == "learned" else LENGTHS
    return tuple(learn_left_neighbour(encoding, lengths))


def _experiment(say: Speaker, encoding: str) -> Parts:
    """The chosen encoding trained here; all four as stored."""
    now = _learned_now(encoding)
    (stored,) = stored_results("left neighbour")
    bars = {
        say("at length", length=length): [
            100 * stored.figures.get(f"{kind} {length}", math.nan) for kind in _KINDS
        ]
        for length in LENGTHS
    }
    names, cannot = [say(f"choice encoding {kind}") for kind in _KINDS], say("cannot read")
    row = (*map(percent, now), *(cannot for _ in LENGTHS[len(now) :]))
    rows = (
        (name, *(cannot if math.isnan(share) else percent(share / 100) for share in by_length))
        for name, *by_length in zip(names, *bars.values(), strict=True)
    )
    yield say("experiment", trained=LENGTHS[0], chosen=say(f"choice encoding {encoding}"))
    yield say.table([row], more=bars, caption=say("trained here"))
    yield chart(
        say, "neighbours", names, bars, ("choice encoding", "right axis"),
        ("output", "score", "query"), most=100, write=lambda share: f"{share:.0f}",
    )  # fmt: skip
    yield say.table(rows, "choice encoding", more=bars, caption=say("all four"))
    yield _verdict(stored.figures, say)
    yield Paragraph(with_code(say("stored", command=stored.command, date=stored.date)), "quiet")


def _verdict(figures: Figures, say: Speaker) -> str:
    """What the stored accuracies show, written from them."""
    trained, longest = LENGTHS[0], LENGTHS[-1]
    kinds = [kind for kind in _KINDS if f"{kind} {longest}" in figures and kind != "none"]
    best = max(kinds, key=lambda kind: figures[f"{kind} {longest}"])
    return say(
        "verdict", trained=trained, longest=longest, none=percent(figures[f"none {trained}"]),
        least=percent(min(figures[f"{kind} {trained}"] for kind in _KINDS if kind != "none")),
        best=say(f"choice encoding {best}"), share=percent(figures[f"{best} {longest}"]),
    )  # fmt: skip
