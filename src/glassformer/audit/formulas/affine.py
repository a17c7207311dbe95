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
from glassformer.audit.formulas.formula_functions import (
    ELEMENTWISE,
    FUNCTIONS,
    Pointwise,
    arguments_of,
)
from glassformer.audit.formulas.terms import (
    Binary,
    FunctionCall,
    Index,
    Listing,
    Name,
    Negative,
    Node,
    Partly,
    upwards,
)

_EACH = 1000  # work per node, several times that of interval bounds
_MOST_DOUBTS = 600
_ROUNDING = 1e-14  # float64 rounding of one operation, relative to its operands
_MOST_NUMBERS = 300_000  # of one value: cells times uncertainties
_AT_ONCE = 20  # of those cost as much work as one number


@dataclass(frozen=True, eq=False)
class Affine:
    """Numbers as sums of uncertainties: `mid`, `rest`, the tightest bounds known, and `parts`.

    All are kept in one array, along its first axis: what rearranges numbers treats them alike.
    """

    cells: Array

    @property
    def mid(self) -> Array:
        return self.cells[0, ...]

    @property
    def rest(self) -> Array:
        return self.cells[1, ...]

    @property
    def low(self) -> Array:
        return self.cells[2, ...]

    @property
    def high(self) -> Array:
        return self.cells[3, ...]

    @property
    def parts(self) -> Array:
        return self.cells[_PARTS:]

    @property
    def radius(self) -> Array:
        """The largest possible distance from `mid`."""
        return np.asarray(np.abs(self.parts).sum(axis=0) + self.rest)


_PARTS = 4  # where the parts begin


def affine(
    mid: Array, parts: Array, rest: Array, low: Array | None = None, high: Array | None = None
) -> Affine:
    """A form with the bounds given, or those that follow from it."""
    if low is None or high is None:
        radius = np.abs(parts).sum(axis=0) + rest
        low, high = mid - radius, mid + radius
    return Affine(np.concatenate([np.stack([mid, rest, low, high]), parts]))


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
        self._fresh = _PARTS
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
        found = affine(
            found.mid, found.parts, found.rest + _ROUNDING * (np.abs(found.mid) + found.radius)
        )
        # NaN: nothing learnt here, but the interval bounds hold. fmax and fmin ignore NaN.
        found.low[...] = np.fmax(found.low, value.low)
        found.high[...] = np.fmin(found.high, value.high)
        return found

    def _independent(self, value: BoundedNumbers) -> Affine:
        """Interval bounds about which nothing else is known."""
        sure = value.low == value.high
        mid = np.where(sure, value.low, (value.low + value.high) / 2)
        rest = np.where(sure, 0.0, (value.high - value.low) / 2)
        return affine(mid, np.zeros((self._count, *mid.shape)), rest, value.low, value.high)

    def _doubts(self, node: Node, value: BoundedNumbers) -> Affine:
        """Uncertain numbers: each gets an ε."""
        return self._with_own_doubts(self._independent(value), self._own(node))

    def _remembered(self, form: Affine) -> Affine:
        """What a curve adds to the uncertainty gets an ε of its own, while any are left.

        Later steps can then cancel it, like a mean or weights that sum to one.
        """
        if form.rest.size > self._spare or not np.all(np.isfinite(form.rest)):
            return form
        self._spare -= form.rest.size
        return self._with_own_doubts(Affine(form.cells.copy()), np.ones(form.rest.shape, bool))

    def _with_own_doubts(self, form: Affine, which: NDArray[np.bool_]) -> Affine:
        """The form itself, with `rest` made an ε of its own where `which` is true."""
        for at in map(tuple, np.argwhere(which)):
            form.cells[(self._fresh, *at)] += form.rest[at]
            form.rest[at] = 0.0
            self._fresh += 1
        return form

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
                case Index(body=body):
                    return Affine(np.asarray(self._at(body).cells[(slice(None), *node.places)]))
                case Listing(items=items):
                    return _joined(np.stack, 0, *map(self._at, items))
                case FunctionCall(function=name) if name in ELEMENTWISE:
                    return _curve(ELEMENTWISE[name], self._at(node.below[0]))
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
        plain = self._bounds(node.body)
        assert isinstance(plain, BoundedNumbers)
        room = np.maximum(value.high - plain.high, plain.low - value.low)
        room = np.where(np.isfinite(room), np.maximum(room, 0.0), 0.0)
        follows = self._follows(node.name, value.shape)
        inside = affine(
            inside.mid,
            inside.parts,
            inside.rest + room,
            np.fmax(inside.low - room, value.low),
            np.fmin(inside.high + room, value.high),
        )
        own.low[...], own.high[...] = value.low, value.high
        return Affine(np.where(follows, inside.cells, own.cells))

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
        return node.function == "softmax" or (
            node.function in ELEMENTWISE and ELEMENTWISE[node.function].has_line
        )
    return isinstance(node, Binary) and node.operator == "/"


class _UnknownError(Exception):
    """An operand that is not numeric, or about which nothing is known."""


# --- exact: what rearranges numbers, or adds them up ------------------------------------------


def _constant(mid: Array, count: int) -> Affine:
    return affine(mid, np.zeros((count, *mid.shape)), np.zeros(mid.shape), mid, mid)


def _joined(join: Callable[..., Array], axis: int, *parts: Affine) -> Affine:
    return Affine(join([x.cells for x in parts], axis=axis if axis < 0 else axis + 1))


def _spread(x: Affine, shape: tuple[int, ...]) -> Affine:
    lined = x.cells.reshape(len(x.cells), *(1,) * (len(shape) - x.mid.ndim), *x.mid.shape)
    return Affine(np.broadcast_to(lined, (len(lined), *shape)))


def _together(x: Affine, y: Affine, *shapes: tuple[int, ...]) -> tuple[Affine, Affine]:
    """Both with the shape of an elementwise result."""
    shape = np.broadcast_shapes(x.mid.shape, y.mid.shape, *shapes)
    return _spread(x, shape), _spread(y, shape)


def _scaled(x: Affine, factor: float) -> Affine:
    cells = factor * x.cells
    cells[1] = abs(factor) * x.rest
    if factor < 0:
        cells[[2, 3]] = cells[[3, 2]]
    return Affine(cells)


def _sum(x: Affine, y: Affine) -> Affine:
    x, y = _together(x, y)
    return Affine(x.cells + y.cells)


def _total(x: Affine, axis: int) -> Affine:
    return Affine(np.asarray(x.cells.sum(axis=axis + 1)))


def _chosen(allowed: Mask, yes: Affine, no: Affine) -> Affine:
    yes, no = _together(yes, no, allowed.shape)
    return Affine(np.where(allowed.allowed, yes.cells, no.cells))


def _masked(scores: Affine, allowed: Mask) -> Affine:
    return _chosen(allowed, scores, _constant(np.asarray(-np.inf), len(scores.parts)))


def _reduced(
    x: Affine, axis: int = -1, keep: int = 0, rows: int = 1, *, mean: bool
) -> Affine | None:
    if rows != 1:
        return None
    axis %= x.mid.ndim
    found = _scaled(_total(x, axis), 1 / x.mid.shape[axis] if mean else 1)
    return _kept(found, axis, keep)


def _kept(x: Affine, axis: int, keep: int) -> Affine:
    """A reduction, with its axis as one of size 1 if it is kept."""
    return Affine(np.expand_dims(x.cells, axis + 1)) if keep else x


# --- near a line ------------------------------------------------------------------------------


def _product(x: Affine, y: Affine) -> Affine:
    x, y = _together(x, y)
    rest = np.abs(x.mid) * y.rest + np.abs(y.mid) * x.rest + x.radius * y.radius
    return affine(x.mid * y.mid, x.mid * y.parts + y.mid * x.parts, rest)


def _square(x: Affine) -> Affine:
    """(m + δ)² = m² + 2mδ + δ², and δ² lies from 0 to r²."""
    half = x.radius**2 / 2
    return affine(x.mid**2 + half, 2 * x.mid * x.parts, 2 * np.abs(x.mid) * x.rest + half)


def _power(x: Affine, y: Affine) -> Affine | None:
    return _square(x) if np.all(y.mid == 2) and not y.radius.any() else None


def _matmul(x: Affine, y: Affine) -> Affine:
    left = np.asarray(x.parts @ y.mid)
    right = np.moveaxis(np.tensordot(x.mid, y.parts, axes=([-1], [1])), x.mid.ndim - 1, 0)
    rest = np.abs(x.mid) @ y.rest + x.rest @ np.abs(y.mid) + x.radius @ y.radius
    return affine(np.asarray(x.mid @ y.mid), left + right, np.asarray(rest))


def _variance(
    x: Affine, axis: int = -1, keep: int = 0, sample: int = 0, rows: int = 1, *, root: bool
) -> Affine | None:
    mean = _reduced(x, axis, 1, rows, mean=True)
    count = x.mid.shape[axis] - sample
    if mean is None or count <= 0:
        return None
    axis %= x.mid.ndim
    squares = _total(_square(_sum(x, _scaled(mean, -1.0))), axis)
    found: Affine | None = _scaled(squares, 1 / count)
    if root and found is not None:
        found = _curve(ELEMENTWISE["sqrt"], found)
    return None if found is None else _kept(found, axis, keep)


def _line(x: Affine, slope: Array, least: Array, most: Array) -> Affine:
    """slope · x + something from `least` to `most`."""
    rest = np.abs(slope) * x.rest + (most - least) / 2
    return affine(slope * x.mid + (least + most) / 2, slope * x.parts, rest)


def _curve(curve: Pointwise, x: Affine) -> Affine | None:
    """A function of each number: its secant if it bends one way, or its tangent."""
    if curve.touching is not None:
        hidden = np.isneginf(x.high)  # e^−∞ is 0, and no secant leads there
        made = _secant(Affine(np.where(hidden, 0.0, x.cells)), curve, curve.touching)
        if made is None or not hidden.any():
            return made
        limit = _constant(np.where(hidden, curve.value(x.high), 0.0), len(x.parts))
        return Affine(np.where(hidden, limit.cells, made.cells))
    if curve.slope is None:
        return None
    steep, off = curve.slope(x.mid), curve.bend * x.radius**2 / 2
    start = curve.value(x.mid) - steep * x.mid
    return _line(x, steep, start - off, start + off)


def _secant(x: Affine, curve: Pointwise, touching: Callable[[Array], Array]) -> Affine | None:
    """A convex or concave function, replaced by its secant between the bounds of x.

    It is farthest from the secant where its slope is the secant's: `touching` gives that point for
    a slope.
    """
    low, high = np.maximum(x.low, curve.least), x.high
    first, last = curve.value(low), curve.value(high)
    if np.any(np.isnan(first) | np.isneginf(first) | np.isnan(last)):
        return None
    flat = ~(high > low)
    slope = np.where(flat, 0.0, (last - first) / (high - low))
    place = np.clip(np.where(flat, low, touching(slope)), low, high)
    ends = np.stack([curve.value(at) - slope * at for at in (low, high, place)])
    return _line(x, slope, ends.min(axis=0), ends.max(axis=0))


def _quotient(x: Affine, y: Affine) -> Affine | None:
    if np.any((y.low <= 0) & (y.high >= 0)):
        return None
    sign = np.sign(y.low)  # `mid` may lie outside the bounds
    inverse = _secant(y, Pointwise(np.reciprocal), lambda slope: sign * np.sqrt(-1 / slope))
    return None if inverse is None else _product(x, inverse)


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
    made = affine(
        centre + (above - below) / 2,
        np.einsum("...ij,k...j->k...i", slope, parts),
        (np.abs(slope) * rest[..., None, :]).sum(axis=-1) + (above + below) / 2,
    )
    # The tangent knows what the weights share, so it may be up to twice as wide as the interval.
    narrow = made.radius <= most - least
    wide = affine((least + most) / 2, np.zeros(made.parts.shape), (most - least) / 2)
    made = Affine(np.where(narrow, made.cells, wide.cells))
    made.low[...] = np.maximum(made.low, least)
    made.high[...] = np.minimum(made.high, most)
    return Affine(np.moveaxis(made.cells, -1, axis + 1))


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
    "transpose": lambda x: Affine(np.swapaxes(x.cells, -1, -2)) if x.mid.ndim > 1 else x,
    "flatten": lambda x: Affine(x.cells.reshape(len(x.cells), -1)),
    "concat": lambda *parts, axis=-1: _joined(np.concatenate, axis, *parts),
    "stack": partial(_joined, np.stack, -1),
    "where": _chosen,
    "mask": _masked,
}
"""What keeps the parts, besides curves: with the arguments that they have in formulas."""
