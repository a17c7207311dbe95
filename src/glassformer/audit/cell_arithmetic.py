"""The arithmetic behind one number of a worked example, from the numbers printed before it.

    cell_arithmetic(FromPrint(example), example["scores"], (1, 2))
    # scores[1, 2] = q[1, 0]·k[2, 0] + … = 2·4 + 3·1 = 11

Each line is one operation with its real operands; an operand that is itself computed has a line of
its own below. What has no rule here (a table look-up, say) is shown as its formula and value.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

import numpy as np

from glassformer.audit.example import PrintedStep
from glassformer.audit.formulas import FormulaError
from glassformer.audit.formulas.bounds import Array, BoundedNumbers
from glassformer.audit.formulas.evaluator import WorkSpentError
from glassformer.audit.formulas.formula_functions import ELEMENTWISE, written_out
from glassformer.audit.formulas.terms import (
    Binary,
    FunctionCall,
    Name,
    Negative,
    Node,
    Numeral,
    Partly,
    show,
)
from glassformer.audit.recomputation import FromPrint

_MOST_TERMS = 12
_MOST_LINES = 12
_SIGNS = {"+": " + ", "-": " − ", "*": " · ", "/": " / ", "^": " ^ "}
_FOLDS = {"sum": " + ", "mean": " + ", "max": ", ", "min": ", "}

Index: TypeAlias = tuple[int, ...]
_Term = TypeVar("_Term")


@dataclass(frozen=True)
class ArithmeticLine:
    """`name = numbers = value`."""

    name: str
    numbers: str
    value: float


def cell_arithmetic(page: FromPrint, step: PrintedStep, at: Index) -> list[ArithmeticLine]:
    """How a number of a step follows from what is printed; empty for what is given or in words.

    Also where the step prints another shape than its formula gives, so that it has no such place.
    """
    if step.tree is None or step.id not in page.computed or step.id in page.misfits:
        return []
    value = page.computed[step.id]
    if not isinstance(value, BoundedNumbers) or len(value.shape) != len(at):
        return []
    try:
        return _Expansion(page).lines(step.tree, at, f"{step.id}{_place(at)}")
    except (FormulaError, WorkSpentError, IndexError):
        return []  # the audit itself says why the formula gives no number there


@dataclass(frozen=True)
class _Operation:
    """One operation: its numbers as text, and the operands that are computed themselves."""

    numbers: str
    below: tuple[tuple[Node, Index], ...]


class _Expansion:
    def __init__(self, page: FromPrint) -> None:
        self._page = page

    def lines(self, root: Node, at: Index, name: str) -> list[ArithmeticLine]:
        """Breadth first, so that what is cut off is the deepest."""
        made: list[ArithmeticLine] = []
        waiting = deque([(root, at, name)])
        seen: set[tuple[bytes, Index]] = set()
        while waiting and len(made) < _MOST_LINES:
            node, place, called = waiting.popleft()
            node, place = self._inside(node, place)
            if _is_leaf(node) and not made:  # the step only moves numbers of another
                return [ArithmeticLine(called, _called(node, place), self._number(node, place))]
            if (node.digest, place) in seen or _is_leaf(node):
                continue
            seen.add((node.digest, place))
            operation = self._operation(node, place)
            made.append(ArithmeticLine(called, operation.numbers, self._number(node, place)))
            waiting += [(one, where, _called(one, where)) for one, where in operation.below]
        return made

    def _values(self, node: Node) -> Array:
        value = self._page.evaluate(node, faces=True)
        if not isinstance(value, BoundedNumbers):
            raise FormulaError("no numbers")
        return value.mid

    def _number(self, node: Node, at: Index) -> float:
        return float(self._values(node)[at])

    def _inside(self, node: Node, at: Index) -> tuple[Node, Index]:
        """Past what only renames or moves numbers."""
        while True:
            if isinstance(node, FunctionCall):
                longer = written_out(node)
                if longer is not None:
                    node = longer
                    continue
                if node.function == "transpose" and len(at) >= 2:
                    node, at = node.arguments[0], (*at[:-2], at[-1], at[-2])
                    continue
            return node, at

    def _operation(self, node: Node, at: Index) -> _Operation:
        match node:
            case Binary(operator="@"):
                return self._product(node, at)
            case Binary():
                return self._elementwise(node, at)
            case Negative(body=body):
                return _Operation(f"−{self._said(body, at)}", ((body, at),))
            case FunctionCall(function="softmax"):
                return self._softmax(node, at)
            case FunctionCall(function=name) if name in _FOLDS and not node.keyword("rows"):
                return self._fold(node, at)
            case FunctionCall(function=name, arguments=(body,)) if name in ELEMENTWISE:
                return _Operation(f"{name}({self._said(body, at)})", ((body, at),))
        return _Operation(show(node), ())

    def _elementwise(self, node: Binary, at: Index) -> _Operation:
        sides = [
            (side, _broadcast(self._values(side).shape, at)) for side in (node.left, node.right)
        ]
        left, right = (self._said(side, place) for side, place in sides)
        return _Operation(f"{left}{_SIGNS[node.operator]}{right}", tuple(sides))

    def _product(self, node: Binary, at: Index) -> _Operation:
        rows = self._values(node.left).ndim - 1
        size = self._values(node.right).shape[0]
        pairs = [((node.left, (*at[:rows], k)), (node.right, (k, *at[rows:]))) for k in range(size)]
        below = (operand for pair in pairs for operand in pair)
        products = _joined(pairs, lambda pair: "·".join(self._said(*one) for one in pair), " + ")
        return _Operation(products, tuple(below))

    def _softmax(self, node: FunctionCall, at: Index) -> _Operation:
        body, axis = node.arguments[0], self._axis(node)
        shape = self._values(body).shape
        places = [_with(at, axis, k) for k in range(shape[axis])]
        below = _joined(places, lambda place: f"e^{self._said(body, place)}", " + ")
        own = f"e^{self._said(body, at)}"
        return _Operation(f"{own} / ({below})", tuple((body, place) for place in places))

    def _fold(self, node: FunctionCall, at: Index) -> _Operation:
        """A sum, mean, maximum or minimum over an axis that the result lacks or has as 1."""
        body, axis = node.arguments[0], self._axis(node)
        size, ndim = self._values(body).shape[axis], self._values(body).ndim
        kept = at if len(at) == ndim else (*at[: axis % ndim], 0, *at[axis % ndim :])
        places = [_with(kept, axis, k) for k in range(size)]
        inside = _joined(places, lambda place: self._said(body, place), _FOLDS[node.function])
        said = {
            "sum": inside,
            "mean": f"({inside}) / {size}",
        }.get(node.function, f"{node.function}({inside})")
        return _Operation(said, tuple((body, place) for place in places))

    def _axis(self, node: FunctionCall) -> int:
        chosen = node.keyword("axis") or (node.arguments[1] if len(node.arguments) > 1 else None)
        return -1 if chosen is None else int(self._values(chosen))

    def _said(self, node: Node, at: Index) -> str:
        """The number at a place, in brackets where a sign would run into it."""
        number = self._number(node, at)
        text = _digits(number)
        return f"({text})" if number < 0 else text


def _is_leaf(node: Node) -> bool:
    return isinstance(node, Name | Numeral | Partly)


def _broadcast(shape: tuple[int, ...], at: Index) -> Index:
    """The place in an operand of smaller shape."""
    own = at[len(at) - len(shape) :] if shape else ()
    return tuple(0 if size == 1 else place for size, place in zip(shape, own, strict=True))


def _with(at: Index, axis: int, place: int) -> Index:
    index = list(at)
    index[axis] = place
    return tuple(index)


def _joined(terms: Sequence[_Term], say: Callable[[_Term], str], sign: str) -> str:
    """The terms with a sign between them; of many, the first ones and the last."""
    if len(terms) <= _MOST_TERMS:
        return sign.join(map(say, terms))
    return sign.join([*map(say, terms[: _MOST_TERMS - 1]), "…", say(terms[-1])])


def _place(at: Index) -> str:
    return f"[{', '.join(map(str, at))}]" if at else ""


def _called(node: Node, at: Index) -> str:
    text = show(node)
    return f"{f'({text})' if isinstance(node, Binary) else text}{_place(at)}"


def _digits(number: float) -> str:
    """Six significant digits: enough to follow the arithmetic, few enough to read it."""
    if np.isinf(number):
        return "∞" if number > 0 else "−∞"
    return f"{number:.6g}".replace("-", "−")
