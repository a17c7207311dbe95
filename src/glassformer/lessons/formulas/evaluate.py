"""The value of a formula, in float64 with bounds; mistakes are reported at their column."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import cast

import numpy as np

from glassformer.errors import did_you_mean
from glassformer.lessons.formulas import intervals
from glassformer.lessons.formulas.functions import (
    FUNCTIONS,
    NAMES,
    Function,
    Parameter,
    written_out,
)
from glassformer.lessons.formulas.shaping import move
from glassformer.lessons.formulas.tokens import FormulaError
from glassformer.lessons.formulas.tree import (
    Binary,
    Call,
    Index,
    Known,
    Listing,
    Name,
    Negative,
    Node,
    Number,
    Partly,
    Slice,
    Text,
)
from glassformer.lessons.formulas.values import (
    Mask,
    Numbers,
    Value,
    Words,
    describe,
    exactly,
    shape_of,
)

__all__ = ["LayOver", "evaluate"]

LayOver = Callable[[str, Value], Value]
"""Puts what is printed of a step over what its formula gives."""

_ELEMENTWISE = {
    "+": intervals.add,
    "-": intervals.subtract,
    "*": intervals.multiply,
    "/": intervals.divide,
    "^": intervals.power,
}


def evaluate(node: Node, values: Mapping[str, Value], lay_over: LayOver | None = None) -> Value:
    """The value of a tree, given the values of the steps it names."""
    with np.errstate(all="ignore"):  # 1/0 and log 0 are ∞, and the audit says so where it matters
        return _Evaluator(values, lay_over).value(node)


class _Evaluator:
    def __init__(self, values: Mapping[str, Value], lay_over: LayOver | None) -> None:
        self._values = values
        self._lay_over = lay_over

    def value(self, node: Node) -> Value:
        match node:
            case Number(value=value):
                return exactly(value)
            case Text(value=text):
                return Words((text,), single=True)
            case Name(name=name, column=column):
                if name not in self._values:
                    near = did_you_mean(name, self._values)
                    raise FormulaError(f"unknown name {name!r}{near}", column)
                return self._values[name]
            case Known(values=array):
                return exactly(array)
            case Partly(name=name, body=body):
                inside = self.value(body)
                return inside if self._lay_over is None else self._lay_over(name, inside)
            case Negative(body=body, column=column):
                return intervals.negative(self._numbers(body, column, "after '-'"))
            case Binary():
                return self._binary(node)
            case Index():
                return self._index(node)
            case Listing():
                return self._listing(node)
            case Call():
                return self._call(node)

    def _numbers(self, node: Node, column: int, where: str) -> Numbers:
        value = self.value(node)
        if not isinstance(value, Numbers):
            raise FormulaError(f"expected numbers {where}, got {describe(value)}", column)
        return value

    def _binary(self, node: Binary) -> Value:
        left = self._numbers(node.left, node.column, f"before {node.operator!r}")
        right = self._numbers(node.right, node.column, f"after {node.operator!r}")
        if node.operator == "@":
            _check_product(left, right, node.column)
            return intervals.matmul(left, right)
        try:
            np.broadcast_shapes(left.shape, right.shape)
        except ValueError as error:
            raise FormulaError(
                f"expected two sides of one shape for {node.operator!r}, got "
                f"{shape_of(left.shape)} and {shape_of(right.shape)}",
                node.column,
            ) from error
        return _ELEMENTWISE[node.operator](left, right)

    def _index(self, node: Index) -> Value:
        body = self.value(node.body)
        if isinstance(body, Words) and len(node.parts) == 1 and isinstance(node.parts[0], int):
            if not -len(body.items) <= node.parts[0] < len(body.items):
                raise FormulaError(f"expected a place in {describe(body)}", node.column)
            return Words((body.items[node.parts[0]],), single=True)
        if not isinstance(body, Numbers):
            raise FormulaError(f"expected numbers before '[', got {describe(body)}", node.column)
        index = tuple(
            slice(part.start, part.stop) if isinstance(part, Slice) else part for part in node.parts
        )
        try:
            chosen = move(lambda part: np.asarray(part[index]), body)
        except IndexError as error:
            raise FormulaError(
                f"expected a place inside {shape_of(body.shape)}", node.column
            ) from error
        if not chosen.mid.size:
            raise FormulaError(
                f"expected at least one number of {shape_of(body.shape)}", node.column
            )
        return chosen

    def _listing(self, node: Listing) -> Value:
        items = [self.value(item) for item in node.items]
        if items and all(isinstance(item, Words) and item.single for item in items):
            return Words(tuple(cast(Words, item).items[0] for item in items))
        numbers = [item for item in items if isinstance(item, Numbers)]
        if len(numbers) != len(items) or len({item.shape for item in numbers}) != 1:
            raise FormulaError("expected numbers, or rows of one length", node.column)
        parts = [np.stack([getattr(item, at) for item in numbers]) for at in ("mid", "low", "high")]
        return exactly(parts[0]) if all(item.exact for item in numbers) else Numbers(*parts)

    def _call(self, node: Call) -> Value:
        longer = written_out(node)
        if longer is not None:
            return self.value(longer)
        function = FUNCTIONS.get(node.function)
        if function is None:
            near = did_you_mean(node.function, NAMES)
            raise FormulaError(f"unknown function {node.function!r}{near}", node.column)
        positional, keywords = self._arguments(node, function)
        try:
            return function.apply(*positional, **keywords)
        except FormulaError as error:
            if error.column:
                raise
            raise FormulaError(f"{node.function}: {error}", node.column) from error

    def _arguments(
        self, node: Call, function: Function
    ) -> tuple[list[Value | int], dict[str, Value | int]]:
        parameters = function.parameters
        given: list[tuple[Parameter, Node]] = []
        if parameters[0].many:
            given = [(parameters[0], argument) for argument in node.arguments]
        else:
            if len(node.arguments) > len(parameters):
                raise FormulaError(
                    f"{node.function} expects at most {len(parameters)} arguments, "
                    f"got {len(node.arguments)}",
                    node.column,
                )
            given = list(zip(parameters, node.arguments, strict=False))
        by_name = {parameter.name: parameter for parameter in parameters}
        for key, value in node.keywords:
            if key not in by_name or by_name[key] in [parameter for parameter, _ in given]:
                near = did_you_mean(key, by_name)
                raise FormulaError(f"{node.function} expects no {key!r} here{near}", node.column)
            given.append((by_name[key], value))
        return self._bind(node, parameters, given)

    def _bind(
        self, node: Call, parameters: tuple[Parameter, ...], given: list[tuple[Parameter, Node]]
    ) -> tuple[list[Value | int], dict[str, Value | int]]:
        many = [self._argument(node, p, at) for p, at in given if p.many]
        named = {p.name: self._argument(node, p, at) for p, at in given if not p.many}
        ordered: list[Value | int] = list(many)
        keywords: dict[str, Value | int] = {}
        for parameter in parameters:
            if parameter.many:
                if not many:
                    raise FormulaError(f"{node.function} expects an argument", node.column)
                continue
            if parameter.name not in named and parameter.default is None:
                raise FormulaError(f"{node.function} expects {parameter.name!r}", node.column)
            value = named.get(parameter.name, int(parameter.default or 0))
            if many:
                keywords[parameter.name] = value
            else:
                ordered.append(value)
        axis = named.get("axis")
        if isinstance(axis, int):
            _check_axis(node, ordered[0], axis)
        elif "axis" in {p.name for p in parameters}:
            _check_axis(node, ordered[0], -1)
        return ordered, keywords

    def _argument(self, node: Call, parameter: Parameter, argument: Node) -> Value | int:
        value = self.value(argument)
        where = f"{node.function} expects"
        match parameter.kind:
            case "numbers" if isinstance(value, Numbers):
                return value
            case "words" if isinstance(value, Words):
                return value
            case "mask" if isinstance(value, Mask):
                return value
            case "any":
                return value
            case "whole" if isinstance(value, Numbers):
                number = float(value.mid) if not value.shape else np.nan
                if value.exact and number.is_integer() and _allows(parameter, int(number)):
                    return int(number)
                where += f" {_whole_number(parameter)}"
            case "whole":
                where += f" {_whole_number(parameter)}"
            case kind:
                article = "a " if kind == "mask" else ""
                where += f" {article}{kind} as {parameter.name!r}"
        raise FormulaError(f"{where}, got {describe(value)}", argument.column or node.column)


def _allows(parameter: Parameter, number: int) -> bool:
    return parameter.allowed is None or number in parameter.allowed


def _whole_number(parameter: Parameter) -> str:
    limits = parameter.allowed
    between = "" if limits is None else f" from {limits[0]} to {limits[-1]}"
    return f"a whole number{between} as {parameter.name!r}"


def _check_product(left: Numbers, right: Numbers, column: int) -> None:
    if not 1 <= len(left.shape) <= 2 or not 1 <= len(right.shape) <= 2:
        raise FormulaError(
            "expected matrices or vectors on both sides of '@', got "
            f"{shape_of(left.shape)} and {shape_of(right.shape)}",
            column,
        )
    if left.shape[-1] != right.shape[0]:
        raise FormulaError(
            f"expected as many columns before '@' as rows after it, got "
            f"{shape_of(left.shape)} and {shape_of(right.shape)}",
            column,
        )


def _check_axis(node: Call, value: Value | int, axis: int) -> None:
    if not isinstance(value, Numbers):
        return
    if not -len(value.shape) <= axis < len(value.shape):
        raise FormulaError(
            f"{node.function} expects an axis of {shape_of(value.shape)}, got axis {axis}",
            node.column,
        )
