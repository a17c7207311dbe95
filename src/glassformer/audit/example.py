"""A worked example: its steps in order, each with its formula and what is printed.

`example_file` knows how one is written in JSON.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from glassformer.audit.formulas.bounds import Array, BoundedNumbers, WordList, exactly
from glassformer.audit.formulas.terms import Node
from glassformer.errors import ConfigError, UnknownNameError
from glassformer.language import Bilingual


@dataclass(frozen=True, eq=False)
class PrintedDigits:
    """Printed numbers and how many decimals each one shows; NaN where nothing is printed.

    `exact` numbers stand for themselves alone, such as given ones, counts and −∞; `approximate`
    ones are called approximate by the article and may be rounded either way.
    """

    values: Array
    decimals: NDArray[np.int64]
    exact: bool = False
    approximate: bool = False

    @cached_property
    def shown(self) -> NDArray[np.bool_]:
        return ~np.isnan(self.values)

    @cached_property
    def half(self) -> Array:
        """How far the true number may be from the printed one: half a unit of the last digit."""
        if self.exact:
            return np.zeros(self.values.shape)
        return np.asarray((1.0 if self.approximate else 0.5) * 10.0 ** (-self.decimals))

    @property
    def bounds(self) -> tuple[Array, Array]:
        """The least and greatest value of each printed number; NaN where none is printed."""
        return self.values - self.half, self.values + self.half

    def numbers(self) -> BoundedNumbers:
        """The digits as numbers with bounds; an unprinted one may be anything."""
        if self.exact and self.shown.all():
            return exactly(self.values)
        low, high = self.bounds
        return BoundedNumbers(
            self.values, np.where(self.shown, low, -np.inf), np.where(self.shown, high, np.inf)
        )


@dataclass(frozen=True)
class Quotation:
    """What an article prints in place of numbers: a formula in index notation, or lines of code.

    `indices` are the letters of the formula's axes. Code is compared with the step's formula by its
    `result`, an expression; `whole` says that the code is complete, so that a parameter it never
    reads is unused.
    """

    text: str
    language: Literal["notation", "python"]
    indices: tuple[str, ...] = ()
    result: str | None = None
    whole: bool = False


@dataclass(frozen=True, eq=False)
class PrintedStep:
    """One step: given (no formula) or computed (a formula), printed or not.

    `between` is the range that the article states for numbers it does not print; `produces` lists
    tokens that must each have a column.
    """

    id: str
    title: Bilingual
    formula: str | None = None
    tree: Node | None = None
    inputs: tuple[str, ...] = ()
    printed: PrintedDigits | WordList | None = None
    decimals: int | None = None
    unchecked: Bilingual | None = None
    rows: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    any_order: bool = False
    ignore_case: bool = False
    between: tuple[float, float] | None = None
    produces: tuple[str, ...] = ()
    quoted: Quotation | None = None

    @cached_property
    def called(self) -> Bilingual:
        """What a reader calls the step: its title in quotes, without any addition after a comma.

        A step without a title goes by its id.
        """
        if self.title.en == self.id:
            return self.title
        return Bilingual(*(f"“{_short(title)}”" for title in (self.title.en, self.title.zh)))

    @cached_property
    def complete(self) -> bool:
        """Whether every number or word of the step is printed."""
        if isinstance(self.printed, PrintedDigits):
            return bool(self.printed.shown.all())
        return self.printed is not None


def _short(title: str) -> str:
    title = re.split("[,;，；]", title)[0]
    return re.split("[:：]", title)[0] if len(title) > 30 else title


@dataclass(frozen=True, eq=False)
class Example:
    """A worked example and where it was read from; `shipped` if it comes with Glassformer."""

    name: str
    title: Bilingual
    steps: tuple[PrintedStep, ...]
    source: str
    shipped: bool = False
    _by_id: dict[str, PrintedStep] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_by_id", {step.id: step for step in self.steps})

    def __getitem__(self, id_: str) -> PrintedStep:
        if id_ not in self._by_id:
            raise UnknownNameError("step", id_, self._by_id)
        return self._by_id[id_]

    def called(self, ids: Iterable[str]) -> Bilingual:
        """Several steps as a reader calls them, in a list."""
        return Bilingual.joined((self[id_].called for id_ in ids), ", ", "、")

    @cached_property
    def in_order(self) -> tuple[PrintedStep, ...]:
        """The steps, each after those it is computed from.

        Raises `ConfigError` for a step that depends on itself.
        """
        inputs = TopologicalSorter({step.id: step.inputs for step in self.steps})
        try:
            return tuple(self._by_id[id_] for id_ in inputs.static_order())
        except CycleError as error:
            raise ConfigError(
                "step {name!r}: expected a formula of other steps, got one that leads back to "
                "itself",
                name=error.args[1][0],
            ) from None

    def ancestors(self, step: PrintedStep) -> set[str]:
        """All steps that a step is computed from, directly or not."""
        return self._ancestors[step.id]

    @cached_property
    def _ancestors(self) -> dict[str, set[str]]:
        place = {step.id: at for at, step in enumerate(self.steps)}
        found: dict[str, int] = {}  # one bit per step, so that large sets join fast
        for step in self.in_order:
            found[step.id] = 0
            for name in step.inputs:
                found[step.id] |= found[name] | 1 << place[name]
        return {
            id_: {other for other, at in place.items() if bits >> at & 1}
            for id_, bits in found.items()
        }
