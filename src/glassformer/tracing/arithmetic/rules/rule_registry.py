"""The table of rules, and the helpers that rules use to refer to operands.

A rule takes the call and the index of one output cell, and returns the expression that computes
the cell from the call's operands. It is found by the operator's full name (`max.dim`), else by its
plain name (`max`), together with the number of the output.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import TypeVar

import torch

from glassformer.tracing.arithmetic import expressions as e
from glassformer.tracing.arithmetic.float64_values import evaluate
from glassformer.tracing.capture.memory import Index, View
from glassformer.tracing.capture.operator_calls import Call, Operator

Build = Callable[[Call, Index], e.Expression | None]
"""Builds the arithmetic of a cell; None if the operator writes nothing there."""
_Build = TypeVar("_Build", bound=Build)


@dataclass(frozen=True, slots=True)
class Rule:
    """How an operator computes a cell."""

    name: str
    build: Build
    constant: bool = False
    """Whether it reads no cell: its numbers depend on the call's settings alone."""
    covers: Callable[[Call], bool] | None = None
    """Which calls it explains (the others have no rule); None for all."""
    sums_like: str = ""
    """The operand in whose dtype partial sums are stored, one term added after the other.

    Most kernels add up in float32 and round once; these round after every addition.
    """


_RULES: dict[tuple[str, int], Rule] = {}
_MECHANISMS: dict[str, Callable[[int], Build]] = {}
_GIVEN: set[str] = set()
_UNWRITTEN: set[str] = set()
_COMPLEX = "complex "


def rule(
    *operators: str,
    output: int = 0,
    constant: bool = False,
    covers: Callable[[Call], bool] | None = None,
    sums_like: str = "",
) -> Callable[[_Build], _Build]:
    """Register a function as the rule for one output of these operators."""

    def register(build: _Build) -> _Build:
        for operator in operators:
            assert (operator, output) not in _RULES, f"two rules for {operator}"
            _RULES[operator, output] = Rule(operator, build, constant, covers, sums_like)
        return build

    return register


def complex_rule(*operators: str) -> Callable[[_Build], _Build]:
    """Register a function as the rule of these operators on complex numbers.

    Its index and operands have a last axis of size 2: real part, imaginary part.
    """
    return rule(*(f"{_COMPLEX}{operator}" for operator in operators))


def mechanism(make: Callable[[int], Build], *operators: str) -> None:
    """Register `make(output)` as the rule for every output of these operators.

    It covers complex numbers as well as real ones. An operator's own rule takes precedence.
    """
    for operator in operators:
        assert operator not in _MECHANISMS, f"two mechanisms for {operator}"
        _MECHANISMS[operator] = make


def given(*operators: str) -> None:
    """Register operators whose numbers are taken as given: from Python, or from an RNG."""
    _GIVEN.update(operators)


def unwritten(*operators: str) -> None:
    """Register operators that only allocate memory; its contents are not the model's numbers."""
    _UNWRITTEN.update(operators)
    given(*operators)


def is_unwritten(operator: Operator) -> bool:
    """Whether the operator only allocates memory."""
    return operator.name in _UNWRITTEN


@cache
def find(operator: Operator, output: int = 0, is_complex: bool = False) -> Rule | None:
    """The rule for an operator's output, on real or complex numbers, if there is one."""
    if is_complex:
        own = _RULES.get((f"{_COMPLEX}{operator.name}", output))
    else:
        own = _RULES.get((operator.full_name, output)) or _RULES.get((operator.name, output))
    if own is not None:
        return own
    make = _MECHANISMS.get(operator.full_name) or _MECHANISMS.get(operator.name)
    return None if make is None else Rule(operator.name, make(output))


def of_call(call: Call, output: int) -> Rule | None:
    """The rule for a call's output, if there is one."""
    found = find(call.operator, output, call.is_complex)
    if found is None or (found.covers is not None and not found.covers(call)):
        return None
    return found


def is_given(operator: Operator) -> bool:
    """Whether the operator's numbers are taken as given."""
    return operator.random or operator.name in _GIVEN


# --- operands ---

LETTERS = "klmnpqrs"


def broadcast(operand: View | e.Scalar, index: tuple[int | e.Axis, ...]) -> e.Expression:
    """The operand's cell for an output cell, by torch's broadcasting."""
    if not isinstance(operand, View):
        return e.Number(operand)
    shape = operand.shape
    places = index[len(index) - len(shape) :]
    if 1 in shape:
        places = tuple([0 if size == 1 else at for size, at in zip(shape, places, strict=True)])
    return e.Entry(operand, places)


def cell(view: View, *index: int | e.Axis) -> e.Entry:
    """One cell, or a row of cells if the index contains running axes."""
    return e.Entry(view, index)


def running(shape: Index) -> tuple[e.Axis, ...]:
    """One letter per axis of a shape."""
    return tuple(e.Axis(LETTERS[place], size) for place, size in enumerate(shape))


def row(
    view: View, index: Index, axes: tuple[int, ...], keepdim: bool
) -> tuple[e.Entry, list[e.Axis]]:
    """The cells that a reduction over `axes` reads for one output cell."""
    letters: list[e.Axis] = []
    parts: list[int | e.Axis] = []
    rest = iter(index)
    for axis, size in enumerate(view.shape):
        if axis in axes:
            letters.append(e.Axis(LETTERS[len(letters)], size))
            parts.append(letters[-1])
            if keepdim:
                next(rest)
        else:
            parts.append(next(rest))
    return e.Entry(view, tuple(parts)), letters


_ARITHMETIC = frozenset(["+", "-", "*", "^", "//"])
# int64 is left out: float64 cannot represent its overflow exactly anyway.
_SMALL = frozenset(
    [torch.bool, torch.uint8, torch.int8, torch.int16, torch.uint16, torch.int32, torch.uint32]
)


def held(expression: e.Expression, dtype: torch.dtype) -> e.Expression:
    """The expression with the overflow of its dtype: 200 + 100 is 44 in uint8, 300 mod 256.

    The overflow is written only where it changes the number. In bool, 1 + 1 is 1.
    """
    if dtype not in _SMALL or not _may_overflow(expression):
        return expression
    value = evaluate(expression)
    if not math.isfinite(value):
        return expression
    if dtype == torch.bool:
        return expression if value in (0, 1) else e.Operation("≠", expression, e.Number(0))
    kind = torch.iinfo(dtype)
    if kind.min <= value <= kind.max:
        return expression
    size = e.Number(kind.max - kind.min + 1)
    if kind.min == 0:
        return e.Operation("%", expression, size)
    return e.Operation("%", expression + -kind.min, size) - -kind.min


def _may_overflow(expression: e.Expression) -> bool:
    match expression:
        case e.Operation(operator=operator):
            return operator in _ARITHMETIC
        case e.Function(name=name):
            return name in ("neg", "abs")
        case e.Reduce(kind=kind):
            return kind in ("sum", "product")
        case _:
            return False
