"""What a slip is: a name in two languages, and a rewriting of the formula that commits it.

A slip is found by committing it: the formula is rewritten as the mistake would have it, computed,
and held against the printed digits. To add one, write a rule that yields rewritten parts and put it
into a `Slip`; `audit(example, slips=(*CATALOGUE, mine))` tries it wherever it can apply.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from glassformer.lessons.example import Bilingual, Digits, Step
from glassformer.lessons.formulas import FormulaError
from glassformer.lessons.formulas.tree import Call, Listing, Node, Number, replace_all, walk
from glassformer.lessons.formulas.values import Array, Numbers, Value, Words

__all__ = ["Change", "Part", "Rule", "Scene", "Slip", "anywhere", "take_rows"]


@dataclass(frozen=True)
class Change:
    """A rewritten formula, and what was done to it."""

    tree: Node
    detail: Bilingual


@dataclass(frozen=True, eq=False)
class Scene:
    """What a slip may look at: the step, what is printed, and what else is on the page."""

    step: Step
    right: Value
    printed: Digits | Words
    others: dict[str, Value]
    evaluate: Callable[[Node], Value]

    def numbers(self, node: Node) -> Array | None:
        """The value of a part of the formula, if it has one and it consists of numbers."""
        try:
            value = self.evaluate(node)
        except FormulaError:
            return None
        return value.mid if isinstance(value, Numbers) else None

    def sizes(self) -> list[int]:
        """The numbers of rows and columns of everything on the page."""
        found = {
            size
            for value in self.others.values()
            if isinstance(value, Numbers)
            for size in value.shape
        }
        return sorted(found)

    @property
    def decimals(self) -> int:
        """The most decimals that the step shows."""
        return int(np.max(self.printed.decimals)) if isinstance(self.printed, Digits) else 0


@dataclass(frozen=True)
class Slip:
    """A usual mistake. `kind` names it for programs, `name` for readers.

    `doubt` is how many nats a fit must outweigh chance by: less for a slip that nearly every author
    makes, in which a single digit may be all there is to see.
    """

    kind: str
    name: Bilingual
    rewrite: Callable[[Node, Scene], Iterator[Change]]
    doubt: float = 1.5


Part = tuple[Node, Bilingual]
Rule = Callable[[Node, Scene], Iterator[Part]]


def anywhere(
    rule: Rule, *, not_below: tuple[str, ...] = ()
) -> Callable[[Node, Scene], Iterator[Change]]:
    """A rule for one node, tried on every part of the formula; equal parts change together.

    `not_below` names functions whose arguments are left alone.
    """

    def rewrite(tree: Node, scene: Scene) -> Iterator[Change]:
        for node in _parts(tree, not_below):
            for new, detail in rule(node, scene):
                yield Change(replace_all(tree, node, new), detail)

    return rewrite


def take_rows(tree: Node, rows: list[int]) -> Node:
    """Some rows of a formula's value, in some order."""
    return Call("embedding", (Listing(tuple(Number(float(row)) for row in rows)), tree))


def _parts(tree: Node, not_below: tuple[str, ...]) -> Iterator[Node]:
    return walk(tree, lambda node: not (isinstance(node, Call) and node.function in not_below))
