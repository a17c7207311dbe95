"""A worked example: its steps in order, each with what is printed and the formula behind it.

This file knows what an example is; `reading` knows how one is written in JSON.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from glassformer.errors import UnknownNameError
from glassformer.lessons.formulas.tree import Node
from glassformer.lessons.formulas.values import Array, Numbers, Words, exactly

__all__ = ["Bilingual", "Digits", "Example", "Language", "Step"]

Language: TypeAlias = Literal["en", "zh"]


@dataclass(frozen=True)
class Bilingual:
    """A text in English and in Chinese."""

    en: str
    zh: str

    def say(self, language: Language) -> str:
        """The text in one of the two languages."""
        return self.zh if language == "zh" else self.en


@dataclass(frozen=True, eq=False)
class Digits:
    """Printed numbers: NaN where nothing is printed, and how many decimals each one shows.

    `exact` marks numbers that stand for themselves alone, such as given ones, counts, and −∞;
    `approximate` those that the article calls approximate, rounded either way.
    """

    values: Array
    decimals: NDArray[np.int64]
    exact: bool = False
    approximate: bool = False

    @property
    def shown(self) -> NDArray[np.bool_]:
        """Where something is printed."""
        return ~np.isnan(self.values)

    @property
    def half(self) -> Array:
        """How far the number meant may be from the one printed: half a unit of the last digit."""
        if self.exact:
            return np.zeros(self.values.shape)
        return np.asarray((1.0 if self.approximate else 0.5) * 10.0 ** (-self.decimals))

    def numbers(self) -> Numbers:
        """Everything the digits may stand for."""
        if self.exact and self.shown.all():
            return exactly(self.values)
        low = np.where(self.shown, self.values - self.half, -np.inf)
        return Numbers(self.values, low, np.where(self.shown, self.values + self.half, np.inf))


@dataclass(frozen=True, eq=False)
class Step:
    """One step: given (no formula), computed (a formula), printed or not.

    `between` is what the article says of numbers that it does not print; `produces` are the tokens
    that must each have a column.
    """

    id: str
    title: Bilingual
    formula: str | None = None
    tree: Node | None = None
    inputs: tuple[str, ...] = ()
    printed: Digits | Words | None = None
    decimals: int | None = None
    unchecked: Bilingual | None = None
    rows: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    any_order: bool = False
    ignore_case: bool = False
    between: tuple[float, float] | None = None
    produces: tuple[str, ...] = ()

    @property
    def complete(self) -> bool:
        """Whether every number or word of it is printed."""
        if isinstance(self.printed, Digits):
            return bool(self.printed.shown.all())
        return self.printed is not None


@dataclass(frozen=True, eq=False)
class Example:
    """A worked example, and where it was read from."""

    name: str
    title: Bilingual
    steps: tuple[Step, ...]
    source: str
    _by_id: dict[str, Step] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_by_id", {step.id: step for step in self.steps})

    def __getitem__(self, id_: str) -> Step:
        if id_ not in self._by_id:
            raise UnknownNameError("step", id_, self._by_id)
        return self._by_id[id_]

    def in_order(self) -> Iterator[Step]:
        """The steps, each after those it is computed from; otherwise as they stand."""
        done: set[str] = set()

        def visit(step: Step) -> Iterator[Step]:
            if step.id in done:
                return
            done.add(step.id)
            for name in step.inputs:
                yield from visit(self._by_id[name])
            yield step

        for step in self.steps:
            yield from visit(step)

    def ancestors(self, step: Step) -> set[str]:
        """All steps that a step is computed from, near and far."""
        found: set[str] = set()
        waiting = list(step.inputs)
        while waiting:
            name = waiting.pop()
            if name not in found:
                found.add(name)
                waiting.extend(self._by_id[name].inputs)
        return found
