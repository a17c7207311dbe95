"""Why scores are divided by √d: how large they get, and what softmax makes of large ones."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import lru_cache

import torch
from torch import nn

from glassformer.claims.properties import ScoreSpread, score_spread
from glassformer.claims.query_claims import look_up
from glassformer.documents.parts import Figure, Table
from glassformer.lessons.lesson import LessonStep, Parts, Speaker, formula, number, percent
from glassformer.lessons.lesson_steps import chart, heat_map
from glassformer.nn.tensors import Float, Tensor
from glassformer.picture import Role
from glassformer.tracing import Trace, trace

CHOICES = {"divisor": ("root", "none", "width")}

WIDTHS = (1, 4, 16, 64, 256, 1024)
_NARROW, _WIDE, _KEYS = 4, 256, 5
_SEEDS = 3
_ROLES: dict[str, Role] = {"root": "output", "none": "query", "width": "value"}


def divisor_of(name: str, width: int) -> float:
    return {"root": math.sqrt(width), "none": 1.0, "width": float(width)}[name]


class OneQuery(nn.Module):
    """One query and some keys of random numbers with mean 0 and variance 1."""

    def __init__(self, width: int, divisor: float) -> None:
        super().__init__()
        self.divisor = divisor
        generator = torch.Generator().manual_seed(3)
        self.keys = nn.Parameter(torch.randn(_KEYS, width, generator=generator).double())

    def forward(self, query: Float[Tensor, " E"]) -> Float[Tensor, " K"]:
        scores = self.keys @ query
        scaled = scores / self.divisor
        weights = torch.softmax(scaled, dim=-1)
        return weights


def traced(width: int, divisor: str) -> Trace:
    generator = torch.Generator().manual_seed(4)
    query = torch.randn(width, generator=generator).double()
    return trace(OneQuery(width, divisor_of(divisor, width)), query)


@lru_cache(maxsize=32)
def _spread(name: str, width: int) -> ScoreSpread:
    return score_spread(width, divisor_of(name, width))


def steps(say: Speaker, *, divisor: str = "root") -> Iterator[LessonStep]:
    narrow, wide = traced(_NARROW, divisor), traced(_WIDE, divisor)
    yield say.step("scores", "scores", _scores(narrow, say))
    yield say.step("growth", "growth", _growth(say))
    yield say.step("scaled", "scaled", _scaled(narrow, wide, say, divisor))
    yield say.step("weights", "weights", _saturation(narrow, wide, say, divisor))
    yield say.step("gradient", "gradient", _gradient(say, divisor))
    yield say.step("experiment", "experiment", _experiment(say))


def _scores(run: Trace, say: Speaker) -> Parts:
    cell = run["scores"][0]
    yield say("scores", width=_NARROW, keys=_KEYS, value=cell)
    yield formula(cell)
    for name in ("query", "keys", "scores"):
        yield heat_map(run[name], say, cell)


def _growth(say: Speaker) -> Parts:
    """Spread of dot products by width, measured; the rule √d beside it."""
    measured = [_spread("none", width).deviation for width in WIDTHS]
    rows = (
        (str(width), number(found**2), number(found, 3), number(math.sqrt(width), 3))
        for width, found in zip(WIDTHS, measured, strict=True)
    )
    widest = WIDTHS[-1]
    yield say(
        "growth", widest=widest, measured=number(measured[-1], 3),
        root=number(math.sqrt(widest), 3), variance=measured[-1] ** 2,
    )  # fmt: skip
    yield say.table(rows, "width", "variance", "deviation", "root of width")
    yield _chart("spread", lambda spread: spread.deviation, say)


def _by_width(measure: Callable[[ScoreSpread], float]) -> dict[str, list[float]]:
    """A figure at each width, for each divisor."""
    return {name: [measure(_spread(name, width)) for width in WIDTHS] for name in _ROLES}


def _chart(
    key: str, measure: Callable[[ScoreSpread], float], say: Speaker, *, log_up: bool = True
) -> Figure:
    lines = {say(f"choice divisor {name}"): values for name, values in _by_width(measure).items()}
    return chart(
        say, key, WIDTHS, lines, ("width", f"{key} axis"), list(_ROLES.values()),
        log_across=True, log_up=log_up,
    )  # fmt: skip


def _table(
    key: str, measure: Callable[[ScoreSpread], float], write: Callable[[float], str], say: Speaker
) -> Table:
    """The numbers of a chart, one column per divisor."""
    lines = _by_width(measure)
    rows = (
        (str(width), *(write(values[place]) for values in lines.values()))
        for place, width in enumerate(WIDTHS)
    )
    heads = (f"choice divisor {name}" for name in lines)
    return say.table(rows, "width", *heads, caption=say(f"{key} figure"))


def _scaled(narrow: Trace, wide: Trace, say: Speaker, divisor: str) -> Parts:
    """The scores after the division, at both widths."""
    cell = narrow["scaled"][0]
    largest = [float(run["scaled"].value.abs().max()) for run in (narrow, wide)]
    yield say(
        f"scaled {divisor}", narrow=_NARROW, wide=_WIDE,
        divisor=divisor_of(divisor, _WIDE), narrow_most=number(largest[0], 3),
        wide_most=number(largest[1], 3),
    )  # fmt: skip
    yield formula(cell)
    yield from (
        heat_map(run["scaled"], say, title=say("at width", width=width))
        for run, width in ((narrow, _NARROW), (wide, _WIDE))
    )


def _saturation(narrow: Trace, wide: Trace, say: Speaker, divisor: str) -> Parts:
    most = [float(run["weights"].value.max()) for run in (narrow, wide)]
    spread = _spread(divisor, _WIDE)
    key = "saturated" if spread.largest_weight > 0.8 else "even" if most[1] < 0.3 else "moderate"
    yield say(
        f"weights {key}", narrow=_NARROW, wide=_WIDE, narrow_most=percent(most[0]),
        wide_most=percent(most[1]), average=percent(spread.largest_weight),
        keys=_KEYS, even=percent(1 / _KEYS),
    )  # fmt: skip
    yield from (
        heat_map(run["weights"], say, title=say("weights at width", width=width))
        for run, width in ((narrow, _NARROW), (wide, _WIDE))
    )
    yield _chart("largest", lambda spread: 100 * spread.largest_weight, say, log_up=False)
    yield _table("largest", lambda spread: spread.largest_weight, percent, say)


def _gradient(say: Speaker, divisor: str) -> Parts:
    """How far weights move when scores do: w·(1 − w) for one key."""
    first, last = (_spread(divisor, width).gradient_size for width in (WIDTHS[1], WIDTHS[-1]))
    shares = (0.2, 0.5, 0.9, 0.99, 0.999)
    rows = ((str(share), number(share * (1 - share), 3)) for share in shares)
    yield say("derivative text")
    yield say.table(rows, "weight", "derivative")
    yield say(
        "gradient falls" if last < 0.5 * first else "gradient stays", narrow=WIDTHS[1],
        wide=WIDTHS[-1], first=number(first, 2), last=number(last, 2),
    )  # fmt: skip
    yield _chart("gradient", lambda spread: spread.gradient_size, say)
    yield _table(
        "gradient", lambda spread: spread.gradient_size, lambda size: number(size, 2), say
    )  # fmt: skip


@lru_cache(maxsize=4)
def accuracies(name: str) -> tuple[float, ...]:
    """Accuracy after a short training at a large width, for each seed."""
    divisor = divisor_of(name, _WIDE)
    return tuple(look_up(_WIDE, divisor=divisor, seed=seed) for seed in range(_SEEDS))


def _experiment(say: Speaker) -> Parts:
    found = {name: accuracies(name) for name in CHOICES["divisor"]}
    means = {name: sum(shares) / len(shares) for name, shares in found.items()}
    best = max(means, key=lambda name: means[name])
    yield say(
        "experiment", wide=_WIDE, seeds=_SEEDS, best=say(f"choice divisor {best}"),
        share=percent(means[best]),
    )  # fmt: skip
    rows = (
        (say(f"choice divisor {name}"), *map(percent, shares), percent(means[name]))
        for name, shares in found.items()
    )
    runs = [say("start", number=seed + 1) for seed in range(_SEEDS)]
    yield say.table(rows, "choice divisor", more=[*runs, say("average")])
    if best == "root":
        yield say("experiment root")
