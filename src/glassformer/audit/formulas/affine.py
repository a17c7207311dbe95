"""Affine arithmetic: bounds that remember where the uncertainty comes from.

Interval bounds treat all operands as independent. In `x - mean(x)` both sides move together, and
through a layer norm over unprinted steps the bounds soon say nothing. Here a number is

    mid + Σ parts[k] · εₖ ± rest,      with each εₖ between −1 and 1,

with one εₖ for each uncertain input. Sums, means and products with known matrices keep the parts
exactly; a product or a curve is replaced by a straight line near it, and the distance between the
two goes into `rest` or, for a curve, into an ε of its own, which later steps can cancel. The result
is as sound as interval bounds, and each number takes the tighter of the two.

After J. Stolfi and L. H. de Figueiredo, "Self-validated numerical methods" (1997).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from glassformer.audit.formulas.bounds import Array, BoundedNumbers, Mask, Value
from glassformer.audit.formulas.evaluator import Work, WorkSpentError
from glassformer.audit.formulas.formula_functions import FUNCTIONS, arguments_of
from glassformer.audit.formulas.terms import (
    Binary,
    FunctionCall,
    Index,
    Listing,
    Name,
    Negative,
    Node,
    Partly,
    Slice,
    upwards,
)

_EACH = 1000  # work per node, several times that of interval bounds
_MOST_DOUBTS = 600
_ROUNDING = 1e-14  # float64 rounding of one operation, relative to its operands
_MOST_NUMBERS = 300_000  # of one value: cells times uncertainties
_AT_ONCE = 20  # of those cost as much work as one number
_BENT = ("softmax", "relu", "abs", "exp", "log", "sqrt", "tanh", "sigmoid", "sin", "cos")


@dataclass(frozen=True, eq=False)
class Affine:
    """Numbers as sums of uncertainties. `low` and `high` are the tightest bounds known."""

    mid: Array
    parts: Array
    rest: Array
    low: Array
    high: Array

    @property
    def radius(self) -> Array:
        """The largest possible distance from `mid`."""
        return np.asarray(np.abs(self.parts).sum(axis=0) + self.rest)


Follows = Callable[[str, tuple[int, ...]], NDArray[np.bool_]]
"""Which cells of a step with this shape are not printed and follow its formula."""


class _TooLargeError(Exception):
    """More uncertainties than are worth following."""


def closer(
    root: Node, bounds: Callable[[Node], Value], follows: Follows, work: Work
) -> BoundedNumbers | None:
    """Tighter bounds of a formula; None if there are none, or not within the budget.

    `bounds` gives the interval bounds of a node of the formula.
    """
    value = bounds(root)
    if not isinstance(value, BoundedNumbers):
        return None
    try:
        with np.errstate(all="ignore"):  # ∞ − ∞ is NaN: nothing learnt
            found = _Form(upwards(root), bounds, follows).run(root, work)
    except (_TooLargeError, WorkSpentError):
        return None
    return None if found is None else BoundedNumbers(value.mid, found.low, found.high)


class _Form:
    def __init__(
        self, nodes: list[Node], bounds: Callable[[Node], Value], follows: Follows
    ) -> None:
        self._nodes = nodes
        self._bounds = bounds
        self._follows = follows
        self._known: dict[bytes, Affine | None] = {}
        self._fresh = 0
        own = sum(int(self._own(node).sum()) for node in nodes)
        self._sizes = {node: self._size(node) for node in nodes}
        self._bent = {node for node in nodes if _is_bent(node) and self._sizes[node]}
        most = min(_MOST_DOUBTS, _MOST_NUMBERS // max(*self._sizes.values(), 1))
        if own > most:
            raise _TooLargeError
        self._spare = min(sum(self._sizes[node] for node in self._bent), most - own)
        self._count = own + self._spare

    def _size(self, node: Node) -> int:
        value = self._bounds(node)
        return value.mid.size if isinstance(value, BoundedNumbers) and not value.exact else 0

    def _own(self, node: Node) -> NDArray[np.bool_]:
        """The cells of a node that are uncertain themselves, not through their operands."""
        value = self._bounds(node) if isinstance(node, Name | Partly) else None
        if not isinstance(value, BoundedNumbers):
            return np.zeros((), dtype=bool)
        width = value.high - value.low
        doubtful = np.isfinite(width) & (width > 0)
        if isinstance(node, Partly):
            doubtful &= ~self._follows(node.name, value.shape)
        return np.asarray(doubtful)

    def run(self, root: Node, work: Work) -> Affine | None:
        for node in self._nodes:
            work.take(_EACH + self._count * self._sizes[node] // _AT_ONCE)
            self._known[node.digest] = self._checked(node)
        return self._known[root.digest]

    def _checked(self, node: Node) -> Affine | None:
        value = self._bounds(node)
        if not isinstance(value, BoundedNumbers):
            return None
        if value.exact:
            return _constant(value.mid, self._count)
        found = self._compute(node, value)
        if found is None or found.mid.shape != value.shape:
            found = self._independent(value)
        if node in self._bent:
            found = self._remembered(found)
        rest = found.rest + _ROUNDING * (np.abs(found.mid) + found.radius)
        radius = np.abs(found.parts).sum(axis=0) + rest
        low, high = found.mid - radius, found.mid + radius
        # NaN: nothing learnt here, but the interval bounds hold. fmax and fmin ignore NaN.
        low, high = np.fmax(low, value.low), np.fmin(high, value.high)
        return Affine(found.mid, found.parts, rest, low, high)

    def _independent(self, value: BoundedNumbers) -> Affine:
        """Interval bounds about which nothing else is known."""
        mid = np.where(value.low == value.high, value.low, (value.low + value.high) / 2)
        rest = np.where(value.low == value.high, 0.0, (value.high - value.low) / 2)
        none = np.zeros((self._count, *mid.shape))
        return Affine(mid, none, rest, value.low, value.high)

    def _doubts(self, node: Node, value: BoundedNumbers) -> Affine:
        """Uncertain numbers: each gets an ε."""
        form, own = self._independent(value), self._own(node)
        for at in map(tuple, np.argwhere(own)):
            form.parts[(self._fresh, *at)] = form.rest[at]
            self._fresh += 1
        rest = np.where(own, 0.0, form.rest)
        return Affine(form.mid, form.parts, rest, value.low, value.high)

    def _remembered(self, form: Affine) -> Affine:
        """What a curve adds to the uncertainty gets an ε of its own, while any are left.

        Later steps can then cancel it, like a mean or weights that sum to one.
        """
        if form.rest.size > self._spare or not np.all(np.isfinite(form.rest)):
            return form
        parts = form.parts.copy()
        for at in np.ndindex(form.rest.shape):
            parts[(self._fresh, *at)] += form.rest[at]
            self._fresh += 1
        self._spare -= form.rest.size
        return Affine(form.mid, parts, np.zeros(form.rest.shape), form.low, form.high)

    def _at(self, node: Node) -> Affine:
        found = self._known[node.digest]
        if found is None:
            raise _UnknownError
        return found

    def _compute(self, node: Node, value: BoundedNumbers) -> Affine | None:
        try:
            match node:
                case Name():
                    return self._doubts(node, value)
                case Partly():
                    return self._partly(node, value)
                case Negative(body=body):
                    return _scaled(self._at(body), -1.0)
                case Binary(operator=sign, left=left, right=right):
                    return _FORMS[sign](self._at(left), self._at(right))
                case Index(body=body, parts=parts):
                    index = tuple(
                        slice(part.start, part.stop) if isinstance(part, Slice) else part
                        for part in parts
                    )
                    return _moved(
                        self._at(body),
                        lambda part: np.asarray(part[index]),
                        lambda part: part[(slice(None), *index)],
                    )
                case Listing(items=items):
                    return _joined([self._at(item) for item in items], np.stack, 0)
                case FunctionCall(function=name) if name in _FORMS:
                    return self._called(node)
                case _:
                    return None
        except _UnknownError:
            return None

    def _partly(self, node: Partly, value: BoundedNumbers) -> Affine | None:
        """Printed cells have their own uncertainty; the others follow the formula."""
        inside, own = self._known[node.body.digest], self._doubts(node, value)
        if inside is None or inside.mid.shape != value.shape:
            return own
        follows, body = self._follows(node.name, value.shape), node.body
        plain = self._bounds(body)
        assert isinstance(plain, BoundedNumbers)
        room = np.maximum(value.high - plain.high, plain.low - value.low)
        room = np.where(np.isfinite(room), np.maximum(room, 0.0), 0.0)
        return Affine(
            np.where(follows, inside.mid, own.mid),
            np.where(follows, inside.parts, own.parts),
            np.where(follows, inside.rest + room, own.rest),
            np.where(follows, np.fmax(inside.low - room, value.low), value.low),
            np.where(follows, np.fmin(inside.high + room, value.high), value.high),
        )

    def _called(self, node: FunctionCall) -> Affine | None:
        """A function of its arguments, which are taken as `formula_functions` names them."""
        function = FUNCTIONS[node.function]
        many, given = arguments_of(node, function)
        kinds = {part.name: part.kind for part in function.parameters}
        named = {name: self._argument(value, kinds[name]) for name, value in given.items()}
        return _FORMS[node.function](*map(self._at, many), **named)

    def _argument(self, node: Node, kind: str) -> Affine | Value | int:
        if kind == "numbers":
            return self._at(node)
        value = self._bounds(node)
        return int(value.mid) if isinstance(value, BoundedNumbers) else value


def _is_bent(node: Node) -> bool:
    """Whether the function is curved, so that the error of its line is worth an ε."""
    if isinstance(node, FunctionCall):
        return node.function in _BENT
    return isinstance(node, Binary) and node.operator == "/"


class _UnknownError(Exception):
    """An operand that is not numeric, or about which nothing is known."""


def _form(mid: Array, parts: Array, rest: Array) -> Affine:
    radius = np.abs(parts).sum(axis=0) + rest
    return Affine(np.asarray(mid), parts, np.asarray(rest), mid - radius, mid + radius)


def _moved(x: Affine, one: Callable[[Array], Array], all_: Callable[[Array], Array]) -> Affine:
    """Rearrange everything alike; `all_` does so for `parts`, which have one more axis."""
    return Affine(one(x.mid), all_(x.parts), one(x.rest), one(x.low), one(x.high))


def _expanded(x: Affine, axis: int) -> Affine:
    return _moved(
        x, lambda part: np.expand_dims(part, axis), lambda part: np.expand_dims(part, axis + 1)
    )


def _joined(parts: list[Affine], join: Callable[..., Array], axis: int) -> Affine:
    one = {at: join([getattr(x, at) for x in parts], axis=axis) for at in _CELLS}
    ahead = axis if axis < 0 else axis + 1
    return Affine(parts=join([x.parts for x in parts], axis=ahead), **one)


_CELLS = ("mid", "rest", "low", "high")


def _spread(x: Affine, shape: tuple[int, ...]) -> Affine:
    lined = x.parts.reshape(len(x.parts), *(1,) * (len(shape) - x.mid.ndim), *x.mid.shape)
    cells = {at: np.broadcast_to(getattr(x, at), shape) for at in _CELLS}
    return Affine(parts=np.broadcast_to(lined, (len(lined), *shape)), **cells)


def _scaled(x: Affine, factor: float) -> Affine:
    low, high = (x.low, x.high) if factor >= 0 else (x.high, x.low)
    return Affine(
        factor * x.mid, factor * x.parts, abs(factor) * x.rest, factor * low, factor * high
    )


def _sum(x: Affine, y: Affine) -> Affine:
    shape = np.broadcast_shapes(x.mid.shape, y.mid.shape)
    x, y = _spread(x, shape), _spread(y, shape)
    return Affine(x.mid + y.mid, x.parts + y.parts, x.rest + y.rest, x.low + y.low, x.high + y.high)


def _product(x: Affine, y: Affine) -> Affine:
    shape = np.broadcast_shapes(x.mid.shape, y.mid.shape)
    x, y = _spread(x, shape), _spread(y, shape)
    rest = np.abs(x.mid) * y.rest + np.abs(y.mid) * x.rest + x.radius * y.radius
    return _form(x.mid * y.mid, x.mid * y.parts + y.mid * x.parts, rest)


def _square(x: Affine) -> Affine:
    """(m + δ)² = m² + 2mδ + δ², and δ² lies from 0 to r²."""
    half = x.radius**2 / 2
    return _form(x.mid**2 + half, 2 * x.mid * x.parts, 2 * np.abs(x.mid) * x.rest + half)


def _matmul(x: Affine, y: Affine) -> Affine:
    def left(parts: Array, other: Array) -> Array:
        return np.asarray(parts @ other)

    def right(other: Array, parts: Array) -> Array:
        return np.moveaxis(np.tensordot(other, parts, axes=([-1], [1])), other.ndim - 1, 0)

    rest = np.abs(x.mid) @ y.rest + x.rest @ np.abs(y.mid) + x.radius @ y.radius
    return _form(x.mid @ y.mid, left(x.parts, y.mid) + right(x.mid, y.parts), np.asarray(rest))


def _total(x: Affine, axis: int) -> Affine:
    return _moved(
        x,
        lambda part: np.asarray(part.sum(axis=axis)),
        lambda part: np.asarray(part.sum(axis=axis + 1)),
    )


def _line(x: Affine, slope: Array, least: Array, most: Array) -> Affine:
    """slope · x + something from `least` to `most`."""
    return _form(
        slope * x.mid + (least + most) / 2,
        slope * x.parts,
        np.abs(slope) * x.rest + (most - least) / 2,
    )


def _curve(
    x: Affine, function: Callable[[Array], Array], touching: Callable[[Array], Array]
) -> Affine:
    """A convex or concave function, replaced by its secant between the bounds of x.

    It is farthest from the secant where its slope is the secant's: `touching` gives that point for
    a slope.
    """
    low, high = x.low, x.high
    flat = ~(high > low)
    slope = np.where(flat, 0.0, (function(high) - function(low)) / (high - low))
    place = np.clip(np.where(flat, low, touching(slope)), low, high)
    ends = np.stack([function(at) - slope * at for at in (low, high, place)])
    return _line(x, slope, ends.min(axis=0), ends.max(axis=0))


def _inverse(y: Affine) -> Affine | None:
    if np.any((y.low <= 0) & (y.high >= 0)):
        return None
    sign = np.sign(y.low)  # `mid` may lie outside the bounds
    return _curve(y, lambda at: 1 / at, lambda slope: sign * np.sqrt(-1 / slope))


def _root(x: Affine) -> Affine | None:
    if np.any(x.high < 0):
        return None
    clipped = Affine(x.mid, x.parts, x.rest, np.maximum(x.low, 0.0), x.high)
    return _curve(clipped, np.sqrt, lambda slope: 1 / (4 * slope**2))


def _logarithm(x: Affine) -> Affine | None:
    if np.any(x.low <= 0):
        return None
    return _curve(x, np.log, lambda slope: 1 / slope)


def _exponential(x: Affine) -> Affine:
    hidden = np.isneginf(x.high)  # e^−∞ is 0, and no secant leads there
    if not hidden.any():
        return _curve(x, np.exp, np.log)
    cells = {at: np.where(hidden, 0.0, getattr(x, at)) for at in _CELLS}
    form = _curve(Affine(parts=np.where(hidden, 0.0, x.parts), **cells), np.exp, np.log)
    cells = {at: np.where(hidden, 0.0, getattr(form, at)) for at in _CELLS}
    return Affine(parts=np.where(hidden, 0.0, form.parts), **cells)


def _hinge(x: Affine, below: float) -> Affine:
    """x above zero, `below` · x under it: ReLU and |x|."""

    def bent(at: Array) -> Array:
        return np.where(at >= 0, at, below * at)

    return _curve(x, bent, np.zeros_like)


def _gentle(
    function: Callable[[Array], Array], slope: Callable[[Array], Array], bend: float
) -> Callable[[Affine], Affine]:
    """A function with second derivative at most `bend`: its tangent, ± ½ bend r²."""

    def form(x: Affine) -> Affine:
        at, steep = x.mid, slope(x.mid)
        off = bend * x.radius**2 / 2
        start = function(at) - steep * at
        return _line(x, steep, start - off, start + off)

    return form


def _softmax(x: Affine, axis: int = -1) -> Affine | None:
    """Each weight by its tangent at `mid`, and how far the softmax curves away from it.

    Only differences of scores matter, in which shared uncertainties cancel. With spread
    Dᵢⱼ of xᵢ − xⱼ and the largest weights s⁺, the second-order term ½ sᵢ((δᵢ − δ̄)² − Var δ) lies
    between −½ s⁺ᵢ V and ½ s⁺ᵢ Aᵢ², where Aᵢ = Σⱼ s⁺ⱼ Dᵢⱼ and V = ½ Σⱼₖ s⁺ⱼ s⁺ₖ D²ⱼₖ.
    """
    axis %= x.mid.ndim
    hidden = np.moveaxis(np.isneginf(x.high), axis, -1)
    mid, rest = (np.moveaxis(part, axis, -1) for part in (x.mid, x.rest))
    mid, rest = np.where(hidden, -np.inf, mid), np.where(hidden, 0.0, rest)
    parts = np.where(hidden, 0.0, np.moveaxis(x.parts, axis + 1, -1))
    n = mid.shape[-1]
    if parts.size * n > _MOST_NUMBERS or not np.all(np.isfinite(mid) | hidden):
        return None
    if np.any(hidden.all(axis=-1)):
        return None
    gap = np.where(hidden[..., None], 0.0, mid[..., None, :] - mid[..., :, None])  # xⱼ − xᵢ
    gap = np.where(hidden[..., None, :], -np.inf, gap)
    spread = np.abs(parts[..., :, None] - parts[..., None, :]).sum(axis=0)
    spread += rest[..., :, None] + rest[..., None, :]
    spread[..., range(n), range(n)] = 0.0
    least, most, centre = (
        np.where(hidden, 0.0, 1 / np.exp(gap + sign * spread).sum(axis=-1)) for sign in (1, -1, 0)
    )
    from_mean = np.minimum((most[..., None, :] * spread).sum(axis=-1), spread.max(axis=-1))
    pairs = most[..., None, :] * most[..., :, None] * spread**2
    varied = np.minimum(pairs.sum(axis=(-2, -1)) / 2, spread.max(axis=(-2, -1)) ** 2 / 4)[..., None]
    above, below = most * from_mean**2 / 2, most * varied / 2
    slope = centre[..., None] * (np.eye(n) - centre[..., None, :])  # of each weight by each score
    made = _form(
        centre + (above - below) / 2,
        np.einsum("...ij,k...j->k...i", slope, parts),
        (np.abs(slope) * rest[..., None, :]).sum(axis=-1) + (above + below) / 2,
    )
    # The tangent knows what the weights share, so it may be up to twice as wide as the interval.
    narrow = made.radius <= most - least
    made = Affine(
        np.where(narrow, made.mid, (least + most) / 2),
        np.where(narrow, made.parts, 0.0),
        np.where(narrow, made.rest, (most - least) / 2),
        np.maximum(made.low, least),
        np.minimum(made.high, most),
    )
    return _moved(
        made, lambda part: np.moveaxis(part, -1, axis), lambda part: np.moveaxis(part, -1, axis + 1)
    )


def _sigmoid(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)))


def _quotient(x: Affine, y: Affine) -> Affine | None:
    inverse = _inverse(y)
    return None if inverse is None else _product(x, inverse)


def _power(x: Affine, y: Affine) -> Affine | None:
    return _square(x) if np.all(y.mid == 2) and not y.radius.any() else None


def _chosen(allowed: Mask, yes: Affine, no: Affine) -> Affine:
    shape = np.broadcast_shapes(allowed.shape, yes.mid.shape, no.mid.shape)
    where = np.broadcast_to(allowed.allowed, shape)
    a, b = _spread(yes, shape), _spread(no, shape)
    cells = {at: np.where(where, getattr(a, at), getattr(b, at)) for at in (*_CELLS, "parts")}
    return Affine(**cells)


def _constant(mid: Array, count: int) -> Affine:
    return Affine(mid, np.zeros((count, *mid.shape)), np.zeros(mid.shape), mid, mid)


def _masked(scores: Affine, allowed: Mask) -> Affine:
    return _chosen(allowed, scores, _constant(np.asarray(-np.inf), len(scores.parts)))


def _reduced(
    x: Affine, axis: int = -1, keep: int = 0, rows: int = 1, *, mean: bool
) -> Affine | None:
    if rows != 1:
        return None
    axis %= x.mid.ndim
    found = _scaled(_total(x, axis), 1 / x.mid.shape[axis] if mean else 1)
    return _expanded(found, axis) if keep else found


def _variance(
    x: Affine, axis: int = -1, keep: int = 0, sample: int = 0, rows: int = 1, *, root: bool
) -> Affine | None:
    mean = _reduced(x, axis, 1, rows, mean=True)
    count = x.mid.shape[axis]
    if mean is None or count <= sample:
        return None
    axis %= x.mid.ndim
    squares = _total(_square(_sum(x, _scaled(mean, -1.0))), axis)
    found: Affine | None = _scaled(squares, 1 / (count - sample))
    found = _root(found) if root and found is not None else found
    return _expanded(found, axis) if keep and found is not None else found


_FORMS: Mapping[str, Callable[..., Affine | None]] = {
    "+": _sum,
    "-": lambda x, y: _sum(x, _scaled(y, -1.0)),
    "*": _product,
    "/": _quotient,
    "@": _matmul,
    "^": _power,
    "sum": partial(_reduced, mean=False),
    "mean": partial(_reduced, mean=True),
    "var": partial(_variance, root=False),
    "std": partial(_variance, root=True),
    "softmax": _softmax,
    "exp": _exponential,
    "log": _logarithm,
    "sqrt": _root,
    "relu": lambda x: _hinge(x, 0.0),
    "abs": lambda x: _hinge(x, -1.0),
    "tanh": _gentle(np.tanh, lambda x: 1 - np.tanh(x) ** 2, 0.77),
    "sigmoid": _gentle(_sigmoid, lambda x: _sigmoid(x) * (1 - _sigmoid(x)), 0.0963),
    "sin": _gentle(np.sin, np.cos, 1.0),
    "cos": _gentle(np.cos, lambda x: -np.sin(x), 1.0),
    "transpose": lambda x: _moved(x, _turned, _turned) if x.mid.ndim > 1 else x,
    "flatten": lambda x: _moved(x, np.ravel, lambda part: part.reshape(len(part), -1)),
    "concat": lambda *parts, axis=-1: _joined(list(parts), np.concatenate, axis),
    "stack": lambda *parts: _joined(list(parts), np.stack, -1),
    "where": _chosen,
    "mask": _masked,
}
"""What keeps the parts: operators and functions, with the arguments that they have in formulas."""


def _turned(part: Array) -> Array:
    return np.swapaxes(part, -1, -2)
