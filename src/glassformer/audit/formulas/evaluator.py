"""The value of a formula, in float64 with bounds; errors name the column."""

from __future__ import annotations

import math
from collections import ChainMap
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import cast

import numpy as np

from glassformer.audit.formulas import bounds
from glassformer.audit.formulas.bounds import (
    MOST_AXES,
    MOST_CHARACTERS,
    BoundedNumbers,
    Mask,
    Value,
    WordList,
    check_size,
    describe,
    exactly,
    shape_of,
)
from glassformer.audit.formulas.formula_functions import (
    Parameter,
    arguments_of,
    function_of,
    stacked,
    written_out,
)
from glassformer.audit.formulas.terms import (
    Binary,
    FormulaError,
    FunctionCall,
    Index,
    Known,
    Listing,
    Name,
    Negative,
    Node,
    Numeral,
    Partly,
    Text,
    upwards,
)
from glassformer.errors import Fragment, did_you_mean, stop_if_cancelled

LayOver = Callable[[str, Value], Value]
"""Replaces the computed numbers of a step by those that are printed of it."""

_ELEMENTWISE = {
    "+": bounds.add,
    "-": bounds.subtract,
    "*": bounds.multiply,
    "/": bounds.divide,
    "^": bounds.power,
}

_EACH = 300  # work per node, whatever its size: it takes the time of about 300 numbers
_MOST_WORK = 10_000_000
_MOST_HELD = 1_000_000  # numbers that a branch caches from one formula to the next


class WorkSpentError(Exception):
    """The budget is spent before the value is found."""


@dataclass
class Work:
    """A budget of numbers to compute; counted, not timed, so it is the same on any machine.

    What is spent counts against `whole` as well, of which this is a part.
    """

    left: int = _MOST_WORK
    whole: Work | None = None

    def take(self, numbers: int) -> None:
        """Take work from the budget; raises `WorkSpentError` when it is spent."""
        stop_if_cancelled()
        self.left -= numbers
        if self.left < 0:
            raise WorkSpentError
        if self.whole is not None:
            self.whole.take(numbers)


def evaluate(node: Node, values: Mapping[str, Value], lay_over: LayOver | None = None) -> Value:
    """The value of a formula, given the values of the steps it names."""
    return FormulaEvaluator(values, lay_over).value(node)


class FormulaEvaluator:
    """Evaluates formulas over one set of steps; what two formulas share is computed once.

    `values` may grow between formulas, but a step must keep its value.
    """

    def __init__(
        self, values: Mapping[str, Value], lay_over: LayOver | None = None, work: Work | None = None
    ) -> None:
        self._values = values
        self._lay_over = lay_over
        self._work = work
        # By digest: what is found here, then what a branch reads of the evaluator it comes from.
        self._known: ChainMap[bytes, Value] = ChainMap()
        self._held = 0

    def branch(self, work: Work) -> FormulaEvaluator:
        """An evaluator that shares this one's cache read-only and has its own budget."""
        made = FormulaEvaluator(self._values, self._lay_over, work)
        made._known = self._known.new_child()
        return made

    def value(self, root: Node) -> Value:
        """The value of a formula.

        Raises `FormulaError` if it has none, and `WorkSpentError` when the budget is spent.
        """
        if len(self._known.maps) > 1 and self._held > _MOST_HELD:
            self._known.clear()  # its own map
            self._held = 0
        with np.errstate(all="ignore"):  # 1/0 and log 0 are ∞; the audit reports it if it matters
            if self._work is not None:
                return self._value(root, self._work)
            try:
                return self._value(root, Work())
            except WorkSpentError:
                raise FormulaError(
                    "expected at most {most} numbers to compute", most=_MOST_WORK
                ) from None

    def _value(self, root: Node, work: Work) -> Value:
        """From the leaves up, without recursion, because a long example is a deep graph."""
        for node in upwards(root, self._known):
            work.take(_EACH)
            try:
                found = self._compute(node, work)
            except FormulaError as error:
                if error.column or not node.column:
                    raise
                if not isinstance(node, FunctionCall):
                    raise FormulaError("{error}", node.column, error=error) from error
                raise FormulaError(
                    "{where}: {error}", node.column, where=node.function, error=error
                ) from error
            size = _size(found)
            work.take(size)
            self._known[node.digest] = found
            self._held += size
        return self._at(root)

    def _at(self, node: Node) -> Value:
        """The cached value of a node."""
        return self._known[node.digest]

    def _compute(self, node: Node, work: Work) -> Value:
        match node:
            case Numeral(value=value):
                return exactly(value)
            case Text(value=text):
                return WordList((text,), single=True)
            case Name(name=name, column=column):
                if name not in self._values:
                    near = did_you_mean(name, self._values)
                    raise FormulaError("unknown name {name!r}{near}", column, name=name, near=near)
                return self._values[name]
            case Known(values=array):
                return exactly(array)
            case Partly(name=name, body=body):
                inside = self._at(body)
                return inside if self._lay_over is None else self._lay_over(name, inside)
            case Negative(body=body, column=column):
                return bounds.negative(
                    self._numbers(body, column, Fragment.of("after {sign!r}", sign="-"))
                )
            case Binary():
                return self._binary(node, work)
            case Index():
                return self._index(node)
            case Listing():
                return self._listing(node)
            case FunctionCall():
                return self._call(node, work)

    def _numbers(self, node: Node, column: int, where: Fragment) -> BoundedNumbers:
        value = self._at(node)
        if not isinstance(value, BoundedNumbers):
            raise FormulaError(
                "expected numbers {where}, got {value}",
                column,
                where=where,
                value=describe(value),
            )
        return value

    def _binary(self, node: Binary, work: Work) -> Value:
        left = self._numbers(
            node.left, node.column, Fragment.of("before {sign!r}", sign=node.operator)
        )
        right = self._numbers(
            node.right, node.column, Fragment.of("after {sign!r}", sign=node.operator)
        )
        if node.operator == "@":
            _check_product(left, right, node.column)
            rows, columns = left.shape[:-1], right.shape[1:]
            check_size((*rows, *columns))
            products = math.prod((*rows, *columns)) * right.shape[0]
            work.take(products // (1000 if left.exact and right.exact else 10))
            return bounds.matmul(left, right)
        try:
            shape = np.broadcast_shapes(left.shape, right.shape)
        except ValueError as error:
            raise FormulaError(
                "expected two sides of one shape for {sign!r}, got {left} and {right}",
                node.column,
                sign=node.operator,
                left=shape_of(left.shape),
                right=shape_of(right.shape),
            ) from error
        check_size(shape)
        return _ELEMENTWISE[node.operator](left, right)

    def _index(self, node: Index) -> Value:
        body = self._at(node.body)
        if isinstance(body, WordList) and len(node.parts) == 1 and isinstance(node.parts[0], int):
            if not -len(body.items) <= node.parts[0] < len(body.items):
                raise FormulaError(
                    "expected a place inside {value}", node.column, value=describe(body)
                )
            return WordList((body.items[node.parts[0]],), single=True)
        if not isinstance(body, BoundedNumbers):
            raise FormulaError(
                "expected numbers {where}, got {value}",
                node.column,
                where=Fragment.of("before {sign!r}", sign="["),
                value=describe(body),
            )
        index = node.places
        axes = len(body.shape) + index.count(None) - sum(isinstance(part, int) for part in index)
        if axes > MOST_AXES:
            raise FormulaError(
                "expected at most {most} axes, got {n}", node.column, most=MOST_AXES, n=axes
            )
        try:
            chosen = bounds.rising(lambda part: np.asarray(part[index]), body)
        except IndexError as error:
            raise FormulaError(
                "expected a place inside {value}", node.column, value=describe(body)
            ) from error
        if not chosen.mid.size:
            raise FormulaError(
                "expected at least one number of {value}", node.column, value=describe(body)
            )
        return chosen

    def _listing(self, node: Listing) -> Value:
        items = [self._at(item) for item in node.items]
        if items and all(isinstance(item, WordList) and item.single for item in items):
            words = tuple(cast(WordList, item).items[0] for item in items)
            if sum(len(word or "") for word in words) > MOST_CHARACTERS:
                raise FormulaError(
                    "expected at most {most} letters", node.column, most=MOST_CHARACTERS
                )
            return WordList(words)
        numbers = [item for item in items if isinstance(item, BoundedNumbers)]
        if len(numbers) != len(items) or len({item.shape for item in numbers}) != 1:
            raise FormulaError("expected numbers, or rows of one length", node.column)
        return stacked(numbers, 0)

    def _call(self, node: FunctionCall, work: Work) -> Value:
        longer = written_out(node)
        if longer is not None:
            return self._value(longer, work)
        function = function_of(node)
        many, given = arguments_of(node, function)
        repeated = [self._argument(node, function.parameters[0], part) for part in many]
        named = {
            part.name: self._argument(node, part, given[part.name])
            if part.name in given
            else cast(int, part.default)
            for part in function.parameters
            if not part.many
        }
        if "axis" in named:
            _check_axis(node, (repeated or [*named.values()])[0], cast(int, named["axis"]))
        return function.apply(*repeated, **named)

    def _argument(self, node: FunctionCall, parameter: Parameter, argument: Node) -> Value | int:
        value = self._at(argument)
        kind, expected = parameter.kind, _TYPES[parameter.kind]
        if kind != "whole" and isinstance(value, expected):
            return value
        number = _one_whole(value) if kind == "whole" else None
        limits = parameter.allowed
        if number is not None and (limits is None or number in limits):
            return number
        what: str = {"mask": "a mask", "whole": "a whole number"}.get(kind, kind)
        if limits is not None:
            what = Fragment.of(
                "a whole number from {least} to {most}", least=limits[0], most=limits[-1]
            )
        raise FormulaError(
            "{function} expects {what} as {name!r}, got {value}",
            argument.column or node.column,
            function=node.function,
            what=what,
            name=parameter.name,
            value=describe(value),
        )


_TYPES: Mapping[str, type | tuple[type, ...]] = {
    "numbers": BoundedNumbers,
    "whole": BoundedNumbers,
    "words": WordList,
    "mask": Mask,
    "any": (BoundedNumbers, WordList, Mask),
}


def _size(value: Value) -> int:
    """The size of a value in numbers; bounds cost more to compute and to keep."""
    if isinstance(value, BoundedNumbers):
        return value.mid.size if value.exact else 4 * value.mid.size
    return len(value.items) if isinstance(value, WordList) else value.allowed.size


def _one_whole(value: Value) -> int | None:
    """The only whole number in a range, if there is one: a printed 60 is 59.5 to 60.5, hence 60."""
    if not isinstance(value, BoundedNumbers) or value.shape:
        return None
    if not np.isfinite(value.low) or not np.isfinite(value.high):
        return None
    first, last = math.ceil(value.low), math.floor(value.high)
    return first if first == last == value.mid else None


def _check_product(left: BoundedNumbers, right: BoundedNumbers, column: int) -> None:
    if not 1 <= len(left.shape) <= 2 or not 1 <= len(right.shape) <= 2:
        raise FormulaError(
            "expected matrices or vectors on both sides of '@', got {left} and {right}",
            column,
            left=shape_of(left.shape),
            right=shape_of(right.shape),
        )
    if left.shape[-1] != right.shape[0]:
        raise FormulaError(
            "expected as many columns before '@' as rows after it, got {left} and {right}",
            column,
            left=shape_of(left.shape),
            right=shape_of(right.shape),
        )


def _check_axis(node: FunctionCall, value: Value | int, axis: int) -> None:
    if not isinstance(value, BoundedNumbers):
        return
    if not -len(value.shape) <= axis < len(value.shape):
        raise FormulaError(
            "{function} expects an axis of {shape}, got axis {axis}",
            node.column,
            function=node.function,
            shape=shape_of(value.shape),
            axis=axis,
        )
