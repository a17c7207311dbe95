"""The table of rules: which operator's output is explained by which function.

A rule takes the call and the index of one output cell, and returns the expression that makes the
cell from the call's operands. It is found by the operator's full name (`max.dim`), else by its
plain name (`max`), and by the number of the output it explains.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from glassformer.trace.calls import Call, Operator
from glassformer.trace.expressions import Expression
from glassformer.trace.memory import Index

__all__ = [
    "Build",
    "Rule",
    "complex_rule",
    "find",
    "given",
    "is_given",
    "of_call",
    "rule",
    "rules",
    "swapped",
]

Build = Callable[[Call, Index], Expression]


@dataclass(frozen=True, slots=True)
class Rule:
    """How one operator makes a cell."""

    name: str
    build: Build
    constant: bool = False
    """Whether it reads no cell: the numbers come from the call's own settings."""


_RULES: dict[tuple[str, int], Rule] = {}
_GIVEN: set[str] = set()
_COMPLEX = "complex "


def rule(*operators: str, output: int = 0, constant: bool = False) -> Callable[[Build], Build]:
    """Register a function as the rule of these operators, for one of their outputs."""

    def register(build: Build) -> Build:
        for operator in operators:
            assert (operator, output) not in _RULES, f"two rules for {operator}"
            _RULES[operator, output] = Rule(operator, build, constant)
        return build

    return register


def complex_rule(*operators: str) -> Callable[[Build], Build]:
    """Register a function as the rule of these operators on complex numbers.

    Its index and its operands have a last axis of two: the real part, the imaginary part.
    """
    return rule(*(f"{_COMPLEX}{operator}" for operator in operators))


def given(*operators: str) -> None:
    """Register operators whose numbers come from nowhere: uninitialised or from Python."""
    _GIVEN.update(operators)


def find(operator: Operator, output: int = 0) -> Rule | None:
    """The rule of an operator's output, if there is one."""
    return _RULES.get((operator.full_name, output)) or _RULES.get((operator.name, output))


def of_call(call: Call, output: int) -> Rule | None:
    """The rule of a call's output, if there is one."""
    if call.is_complex:
        return _RULES.get((f"{_COMPLEX}{call.operator.name}", output))
    return find(call.operator, output)


def is_given(operator: Operator) -> bool:
    """Whether the operator's numbers are to be taken as they are."""
    return operator.random or operator.name in _GIVEN


def swapped(operator: str, build: Build, output: int = 0) -> Callable[[], None]:
    """Put another rule in an operator's place; the returned function undoes it. For tests."""
    key = (operator, output)
    before = _RULES[key]
    _RULES[key] = Rule(operator, build)

    def undo() -> None:
        _RULES[key] = before

    return undo


def rules() -> list[tuple[str, int]]:
    """Every (operator, output) that has a rule."""
    return list(_RULES)
