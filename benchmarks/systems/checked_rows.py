"""A check: what a row must show, the computation that shows it, and the judgement."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch

from glassformer.claims import ROWS, find, outcomes
from glassformer.claims.claim import Stored, stored_results
from glassformer.lessons import make_lesson
from glassformer.lessons.course import Row, row
from glassformer.lessons.lesson import Lesson

Measured = tuple[str, bool]
"""What came out, and whether it is what must come out."""


@dataclass(frozen=True)
class Check:
    """How one row is checked; all but the computation is in checks.toml."""

    id: str
    measure: Callable[[], Measured]
    must: str
    """What must come out."""
    code: str
    """Where it is implemented: `module:name`."""
    test: str
    """A test of it: `file::name`."""
    stored: tuple[str, ...] = ()
    """Claims and experiments whose stored figures enter: they take minutes or a GPU."""
    slow: bool = False
    """Whether the check itself needs data or minutes."""

    @property
    def row(self) -> Row:
        return row(self.id)

    @property
    def command(self) -> str:
        """The command that shows it to a reader."""
        found = self.row
        if found.command is not None:
            return found.command
        if len(found.lessons) == 1:
            return f"glassformer lesson {found.lessons[0]}"
        return f"glassformer {'lesson --row' if found.lessons else 'claims'} {self.id}"

    @property
    def claims(self) -> tuple[str, ...]:
        return ROWS.get(self.id, ())

    @property
    def origins(self) -> list[Stored]:
        """The stored results that enter."""
        return [found for id_ in self.stored for found in stored_results(id_)]


CHECKS: dict[str, Check] = {}
DESCRIBED: dict[str, dict[str, Any]] = tomllib.loads(
    Path(__file__).with_name("checks.toml").read_text(encoding="utf-8")
)


def check(id_: str) -> Callable[[Callable[[], Measured]], Callable[[], Measured]]:
    """Register the computation behind a row."""

    def register(measure: Callable[[], Measured]) -> Callable[[], Measured]:
        assert id_ not in CHECKS, id_
        described = DESCRIBED[id_]
        stored = tuple(described.get("stored", ()))
        CHECKS[id_] = Check(id_, measure, **{**described, "stored": stored})
        return measure

    return register


@cache
def figures(claim: str) -> dict[str, Any]:
    """The figures of a claim, measured now; of a slow claim, its stored ones."""
    (outcome,) = outcomes(find([claim]))
    return dict(outcome.figures)


@cache
def lesson(name: str) -> Lesson:
    return make_lesson(name)


def numbers(*shape: int, seed: int = 0) -> torch.Tensor:
    """Normal random numbers in float64."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def gap(one: torch.Tensor, other: torch.Tensor) -> float:
    """The largest difference; infinite if the shapes differ."""
    if one.shape != other.shape:
        return float("inf")
    return float((one.detach().double() - other.detach().double()).abs().max())


def small(value: float) -> str:
    """A difference of rounding by its order of magnitude: its digits depend on the processor."""
    return "0" if value == 0 else f"below 1e{math.ceil(math.log10(value)):03d}"


def percent(share: float) -> str:
    return f"{100 * share:.1f} %"
