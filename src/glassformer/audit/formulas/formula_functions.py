"""The functions that a formula may call: softmax, mean, transpose, lookup and the others.

`softmax`, `mean` and the like work along the last axis unless told otherwise (`axis=0`); those that
reduce an axis drop it unless told otherwise (`keep=1`). Two functions are short for a longer
formula and are written out before anything is computed: see `written_out`.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal, TypeVar

import numpy as np

from glassformer.audit.formulas import bounds
from glassformer.audit.formulas.bounds import (
    MOST_NUMBERS,
    Array,
    BoundedNumbers,
    Mask,
    Value,
    WordList,
    bounded,
    broadcast,
    check_size,
    exactly,
    listed,
    rising,
)
from glassformer.audit.formulas.grammar import parse
from glassformer.audit.formulas.terms import (
    FormulaError,
    FunctionCall,
    Name,
    Negative,
    Node,
    Numeral,
    rebuild,
    replace_each,
)
from glassformer.errors import did_you_mean
from glassformer.text import split_words

Kind = Literal["numbers", "whole", "words", "mask", "any"]
_KINDS: Mapping[str, Kind] = {
    "BoundedNumbers": "numbers", "int": "whole", "WordList": "words", "Mask": "mask",
    "Value": "any",
}  # fmt: skip


@dataclass(frozen=True)
class Parameter:
    """One argument: its name, what it must be, its default, whether it repeats, its limits."""

    name: str
    kind: Kind
    default: int | None = None
    many: bool = False
    allowed: range | None = None


@dataclass(frozen=True)
class FormulaFunction:
    """One function of the language."""

    parameters: tuple[Parameter, ...]
    apply: Callable[..., Value]


FUNCTIONS: dict[str, FormulaFunction] = {}
F = TypeVar("F", bound=Callable[..., Value])


def _function(name: str, **allowed: range) -> Callable[[F], F]:
    """Register a function; its signature says what its arguments must be."""

    def register(apply: F) -> F:
        parameters = tuple(
            Parameter(
                part.name,
                _KINDS[part.annotation],
                None if part.default is part.empty else part.default,
                part.kind is part.VAR_POSITIONAL,
                allowed.get(part.name),
            )
            for part in inspect.signature(apply).parameters.values()
        )
        FUNCTIONS[name] = FormulaFunction(parameters, apply)
        return apply

    return register


# --- along an axis ---------------------------------------------------------------------------


def _deviation(x: BoundedNumbers, axis: int, missing: int) -> BoundedNumbers:
    """The standard deviation; with `missing=1` that of a sample, which divides by n − 1."""
    count = x.mid.shape[axis] - missing
    if count < 1:
        return exactly(np.full(np.asarray(x.mid.sum(axis=axis)).shape, np.nan))

    def ends() -> tuple[Array, Array]:
        slack = np.asarray(np.sqrt((((x.high - x.low) / 2) ** 2).sum(axis=axis) / count))
        around = np.asarray(((x.low + x.high) / 2).std(axis=axis, ddof=missing))
        low, high = np.maximum(around - slack, 0), around + slack
        unknown = np.isnan(high)  # a bound at infinity: all that is known is that it is ≥ 0
        return np.where(unknown, 0.0, low), np.where(unknown, np.inf, high)

    return bounded(np.asarray(x.mid.std(axis=axis, ddof=missing)), ends, x)


def _pooled(reduce: _Reduce, x: BoundedNumbers) -> BoundedNumbers:
    """Each row together with the row below it, as a wrong range in a spreadsheet does.

    The last row has none below it and stands alone.
    """
    count = x.shape[0]

    def pairs(part: Array) -> Array:
        return np.concatenate(
            [part[:-1].reshape(count - 1, -1), part[1:].reshape(count - 1, -1)], 1
        )

    rows = [reduce(rising(lambda part: part[-1:].reshape(1, -1), x), -1)]
    if count > 1:
        rows.insert(0, reduce(rising(pairs, x), -1))
    return rising(lambda *parts: np.concatenate(parts), *rows)


_Reduce = Callable[[BoundedNumbers, int], BoundedNumbers]
_KEEP, _ROWS, _SAMPLE = range(2), range(1, 3), range(2)


def _reduced(reduce: _Reduce, x: BoundedNumbers, axis: int, keep: int, rows: int) -> BoundedNumbers:
    """An axis turned into one number; `rows=2` exists for a slip of the audit."""
    result = _pooled(reduce, x) if rows == 2 else reduce(x, axis)
    return rising(lambda part: np.expand_dims(part, axis), result) if keep else result


def _register(name: str, reduce: Callable[..., Array]) -> None:
    """A reduction that never falls when a number rises."""

    def along(x: BoundedNumbers, axis: int) -> BoundedNumbers:
        return rising(lambda part: np.asarray(reduce(part, axis=axis)), x)

    @_function(name, keep=_KEEP, rows=_ROWS)
    def apply(x: BoundedNumbers, axis: int = -1, keep: int = 0, rows: int = 1) -> BoundedNumbers:
        return _reduced(along, x, axis, keep, rows)


def _geometric_mean(x: Array, axis: int) -> Array:
    """The n-th root of the product; NaN unless all numbers are positive."""
    return np.asarray(np.exp(np.log(x).mean(axis=axis)))


_REDUCES: Mapping[str, Callable[..., Array]] = {
    "sum": np.sum, "mean": np.mean, "geometric_mean": _geometric_mean, "max": np.max, "min": np.min
}  # fmt: skip
for _name, _reduce in _REDUCES.items():
    _register(_name, _reduce)


@_function("std", keep=_KEEP, rows=_ROWS, sample=_SAMPLE)
def deviation(
    x: BoundedNumbers, axis: int = -1, keep: int = 0, rows: int = 1, sample: int = 0
) -> BoundedNumbers:
    return _reduced(lambda part, at: _deviation(part, at, sample), x, axis, keep, rows)


@_function("var", keep=_KEEP, rows=_ROWS, sample=_SAMPLE)
def variance(
    x: BoundedNumbers, axis: int = -1, keep: int = 0, rows: int = 1, sample: int = 0
) -> BoundedNumbers:
    return rising(np.square, deviation(x, axis, keep, rows, sample))


REDUCTIONS = tuple(FUNCTIONS)


@_function("softmax")
def softmax(x: BoundedNumbers, axis: int = -1) -> BoundedNumbers:
    """e^x / Σ e^x; −∞ gets 0, and so does a row that is −∞ throughout."""

    def ends() -> tuple[Array, Array]:
        low, high = (np.moveaxis(part, axis, -1) for part in (x.low, x.high))
        least, most = _against(low, high), _against(high, low)
        return np.moveaxis(least, -1, axis), np.moveaxis(most, -1, axis)

    return bounded(_softmax_of(x.mid, axis), ends, x)


def _softmax_of(x: Array, axis: int) -> Array:
    top = x.max(axis=axis, keepdims=True)
    powers = np.exp(x - np.where(np.isfinite(top), top, 0.0))
    below = powers.sum(axis=axis, keepdims=True)
    return np.asarray(np.where(below == 0, 0.0, powers / np.where(below == 0, 1.0, below)))


def _against(own: Array, others: Array) -> Array:
    """The weight of each score when it is `own` and all others are `others`."""
    ahead = np.logaddexp.accumulate(others, axis=-1)
    behind = np.logaddexp.accumulate(others[..., ::-1], axis=-1)[..., ::-1]
    rest = np.full(others.shape, -np.inf)  # log Σ e^x over all but each one
    rest[..., 1:] = ahead[..., :-1]
    rest[..., :-1] = np.logaddexp(rest[..., :-1], behind[..., 1:])
    return np.where(np.isneginf(own), 0.0, 1 / (1 + np.exp(rest - own)))


@_function("log_softmax")
def log_softmax(x: BoundedNumbers, axis: int = -1) -> BoundedNumbers:
    return rising(np.log, softmax(x, axis))


@_function("proportion")
def proportion(x: BoundedNumbers, axis: int = -1) -> BoundedNumbers:
    """x / Σ x: a softmax without its exponential."""
    return bounds.proportion(x, axis)


@_function("argmax")
def argmax(x: BoundedNumbers, axis: int = -1) -> BoundedNumbers:
    """Where the greatest number is, counted from 0; the bounds hold every place it may be."""
    known = np.where(np.isnan(x.mid), -np.inf, x.mid)

    def ends() -> tuple[Array, Array]:
        possible = np.moveaxis(x.high >= x.low.max(axis=axis, keepdims=True), axis, -1)
        places = np.arange(possible.shape[-1], dtype=np.float64)
        first = np.where(possible, places, np.inf).min(axis=-1)
        return first, np.where(possible, places, -np.inf).max(axis=-1)

    return bounded(known.argmax(axis=axis).astype(np.float64), ends, x)


# --- number by number ------------------------------------------------------------------------


def round_half_up(x: Array, decimals: int) -> Array:
    """Round to a number of decimals, halves away from zero, as people do."""
    scale = 10.0**decimals
    # 1.005 is stored a little below itself: the nudge lets what reads as a half round as one.
    return np.sign(x) * np.floor(np.abs(x) * scale * (1 + 1e-14) + 0.5) / scale


def _truncate(x: Array, decimals: int) -> Array:
    scale = 10.0**decimals
    return np.trunc(x * scale * (1 + 1e-14)) / scale


def _silu(x: Array) -> Array:
    return np.asarray(x / (1 + np.exp(-x)))


def _gelu(x: Array) -> Array:
    """x · Φ(x), with Φ the share of a normal distribution that lies below x."""
    below = [0.5 * math.erfc(-part / math.sqrt(2)) for part in np.ravel(x)]
    return np.asarray(x * np.reshape(below, np.shape(x)))


def _sigmoid(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)))


@dataclass(frozen=True)
class Pointwise:
    """A function of each number alone: its values, its bounds, and its lines for `affine`.

    A curve that bends one way is given by `touching`, the point with a slope; any other by its
    `slope` and by `bend`, the largest second derivative. `least` is where it begins.
    """

    value: Callable[[Array], Array]
    bounds: Callable[[Callable[[Array], Array], BoundedNumbers], BoundedNumbers] = rising
    touching: Callable[[Array], Array] | None = None
    slope: Callable[[Array], Array] | None = None
    bend: float = np.inf
    least: float = -np.inf

    @property
    def has_line(self) -> bool:
        return self.touching is not None or self.slope is not None

    def apply(self, x: BoundedNumbers) -> BoundedNumbers:
        return self.bounds(self.value, x)


ELEMENTWISE: Mapping[str, Pointwise] = {
    "exp": Pointwise(np.exp, touching=np.log),
    "log": Pointwise(np.log, bounds.rising_from_zero, lambda slope: 1 / slope, least=0.0),
    "sqrt": Pointwise(np.sqrt, bounds.rising_from_zero, lambda slope: slope**-2 / 4, least=0.0),
    "relu": Pointwise(lambda x: np.maximum(x, 0.0), touching=np.zeros_like),
    "abs": Pointwise(np.abs, bounds.dipping, np.zeros_like),
    "tanh": Pointwise(np.tanh, slope=lambda x: 1 - np.tanh(x) ** 2, bend=0.77),
    "sigmoid": Pointwise(_sigmoid, slope=lambda x: _sigmoid(x) * (1 - _sigmoid(x)), bend=0.0963),
    "sin": Pointwise(np.sin, partial(bounds.wave, top=np.pi / 2), slope=np.cos, bend=1.0),
    "cos": Pointwise(np.cos, partial(bounds.wave, top=0.0), slope=lambda x: -np.sin(x), bend=1.0),
    "silu": Pointwise(_silu, partial(bounds.dipping, lowest=-1.2784645427610738)),
    "gelu": Pointwise(_gelu, partial(bounds.dipping, lowest=-0.7517915246935645)),
    "floor": Pointwise(np.floor),
}  # fmt: skip
for _name, _curve in ELEMENTWISE.items():
    FUNCTIONS[_name] = FormulaFunction((Parameter("x", "numbers"),), _curve.apply)


@_function("round", decimals=range(-12, 13))
def _rounded(x: BoundedNumbers, decimals: int = 0) -> BoundedNumbers:
    return rising(lambda part: round_half_up(part, decimals), x)


@_function("truncate", decimals=range(-12, 13))
def _truncated(x: BoundedNumbers, decimals: int = 0) -> BoundedNumbers:
    return rising(lambda part: _truncate(part, decimals), x)


# --- arrangement -----------------------------------------------------------------------------


@_function("transpose")
def transpose(x: BoundedNumbers) -> BoundedNumbers:
    """Rows become columns; with more axes, the last two are swapped."""
    if len(x.shape) < 2:
        return x
    return rising(lambda part: np.swapaxes(part, -1, -2), x)


@_function("flatten")
def flatten(x: BoundedNumbers) -> BoundedNumbers:
    return rising(np.ravel, x)


@_function("concat")
def concat(*parts: BoundedNumbers, axis: int = -1) -> BoundedNumbers:
    shapes = [part.shape for part in parts]
    at = axis % len(shapes[0])
    before, after = shapes[0][:at], shapes[0][at + 1 :]
    if any(
        (shape[:at], shape[at + 1 :], len(shape)) != (before, after, len(shapes[0]))
        for shape in shapes
    ):
        raise _misfits(shapes)
    check_size((*before, sum(shape[at] for shape in shapes), *after))
    return rising(lambda *arrays: np.concatenate(arrays, axis=axis), *parts)


@_function("stack")
def stack(*parts: BoundedNumbers) -> BoundedNumbers:
    """Vectors as columns."""
    return stacked(parts, -1)


def stacked(parts: Sequence[BoundedNumbers], axis: int) -> BoundedNumbers:
    """Values of one shape along a new axis."""
    shapes = [part.shape for part in parts]
    if len(set(shapes)) > 1:
        raise _misfits(shapes)
    check_size((len(parts), *shapes[0]))
    return rising(lambda *arrays: np.stack(arrays, axis=axis), *parts)


def _misfits(shapes: list[tuple[int, ...]]) -> FormulaError:
    return FormulaError("expected parts that fit together, got {shapes}", shapes=listed(shapes[:8]))


@_function("rows")
def row_count(x: BoundedNumbers) -> BoundedNumbers:
    return exactly(_size(x, 0))


@_function("columns")
def column_count(x: BoundedNumbers) -> BoundedNumbers:
    return exactly(_size(x, -1))


def _size(x: BoundedNumbers, axis: int) -> int:
    if not x.shape:
        raise FormulaError("expected a vector or a matrix, got one number")
    return x.shape[axis]


@_function("range")
def whole_numbers(n: int, stop: int = -1) -> BoundedNumbers:
    """0 … n − 1, or n … stop − 1."""
    first, last = (0, n) if stop == -1 else (n, stop)
    if not 1 <= last - first <= MOST_NUMBERS:
        raise FormulaError(
            "expected 1 to {most} numbers, got {n}", most=MOST_NUMBERS, n=last - first
        )
    return exactly(np.arange(first, last, dtype=np.float64))


@_function("identity")
def identity(n: int) -> BoundedNumbers:
    return exactly(np.eye(_side(n)))


_MOST_SIDE = int(MOST_NUMBERS**0.5)


def _side(n: int) -> int:
    if not 1 <= n <= _MOST_SIDE:
        raise FormulaError("expected a size from 1 to {most}, got {n}", most=_MOST_SIDE, n=n)
    return n


# --- masks -----------------------------------------------------------------------------------


@_function("causal")
def causal(n: int) -> Mask:
    """True at and below the diagonal: a position sees itself and those before it."""
    return Mask(np.tril(np.ones((_side(n), n), dtype=bool)))


@_function("even")
def even(x: BoundedNumbers) -> Mask:
    """True at even numbers."""
    if not np.array_equal(x.low, x.high):
        raise FormulaError("expected whole numbers, got rounded ones")
    return Mask(np.asarray(x.mid % 2 == 0))


@_function("opposite")
def opposite(allowed: Mask) -> Mask:
    """The mask's triangles exchanged."""
    return Mask(np.swapaxes(allowed.allowed, -1, -2)) if allowed.allowed.ndim > 1 else allowed


@_function("where")
def where(allowed: Mask, yes: BoundedNumbers, no: BoundedNumbers) -> BoundedNumbers:
    broadcast(allowed.shape, yes.shape, no.shape)

    def chosen(one: Array, other: Array) -> Array:
        return np.where(allowed.allowed, one, other)

    return rising(chosen, yes, no)


@_function("mask")
def mask(scores: BoundedNumbers, allowed: Mask) -> BoundedNumbers:
    """The scores, with −∞ where attention is not allowed."""
    return where(allowed, scores, exactly(-np.inf))


# --- tables and words ------------------------------------------------------------------------


@_function("embedding")
def embedding(ids: BoundedNumbers, table: BoundedNumbers) -> BoundedNumbers:
    """The rows of a table that ids, counted from 0, point at."""
    rows = ids.mid
    if not np.all((rows == np.floor(rows)) & (rows >= 0) & (rows < _size(table, 0))):
        raise FormulaError("expected whole ids from 0 to {last}", last=_size(table, 0) - 1)
    check_size((*rows.shape, *table.shape[1:]))
    chosen = rows.astype(int)
    return rising(lambda part: part[chosen], table)


@_function("split")
@_function("words")
def words(text: WordList) -> WordList:
    """The words of one text or of several, in order, without punctuation."""
    return WordList(tuple(word for line in _known(text) for word in split_words(line, "drop")))


@_function("lower")
def lower(items: WordList) -> WordList:
    return WordList(tuple(item.lower() for item in _known(items)), items.single)


@_function("set")
def distinct(items: WordList) -> WordList:
    """Each word once, in order of appearance."""
    return WordList(tuple(dict.fromkeys(_known(items))))


@_function("count")
def count(items: Value) -> BoundedNumbers:
    """How many words, or rows."""
    if isinstance(items, WordList):
        return exactly(len(items.items))
    if not items.shape:
        raise FormulaError("expected a list, got one number")
    return exactly(items.shape[0])


@_function("lookup")
def lookup(items: WordList, keys: WordList, numbers: BoundedNumbers) -> BoundedNumbers:
    """The numbers that stand beside words in a list; capitals make no difference."""
    known = _known(keys)
    if not items.items:
        raise FormulaError("expected at least one word to look up")
    if numbers.shape[:1] != (len(known),):
        raise FormulaError("expected one number for each of {n} words", n=len(known))
    check_size((len(items.items), *numbers.shape[1:]))
    place = {key.lower(): at for at, key in enumerate(known)}
    missing = [item for item in _known(items) if item.lower() not in place]
    if missing:
        near = did_you_mean(missing[0], known)
        raise FormulaError(
            "expected words of the list, got {word!r}{near}", word=missing[0], near=near
        )
    chosen = np.array([place[item.lower()] for item in _known(items)], dtype=int)
    return rising(lambda part: part[chosen], numbers)


@_function("pick")
def pick(items: WordList, at: BoundedNumbers) -> WordList:
    """The word at a place, from 0; unknown if the place is not certain."""
    if at.shape:
        raise FormulaError("expected one place")
    place = float(at.mid)
    if at.low != at.high or np.isnan(place):
        return WordList((None,), single=True)
    if not 0 <= place < len(items.items):
        raise FormulaError(
            "expected a place from 0 to {last}, got {place:g}",
            last=len(items.items) - 1,
            place=place,
        )
    return WordList((items.items[int(place)],), single=True)


def _known(items: WordList) -> list[str]:
    known = [item for item in items.items if item is not None]
    if len(known) != len(items.items):
        raise FormulaError("expected words that are all known")
    return known


# --- short forms -----------------------------------------------------------------------------


def _template(formula: str) -> Node:
    """A formula without columns, since an error in it is one of the call that is short for it."""
    return rebuild(parse(formula), lambda node: replace(node, column=0))


_ANGLE = "positions[:, new] / 10000 ^ (2 * floor(range(d) / 2) / d)"
_SHORT: Mapping[str, tuple[tuple[str, ...], Mapping[str, Node], Node]] = {
    "layer_norm": (
        ("x", "eps"), {"eps": Numeral(1e-5)},
        _template("(x - mean(x, keep=1)) / sqrt(var(x, keep=1) + eps)"),
    ),
    "sinusoids": (
        ("positions", "d"), {},
        _template(f"where(even(range(d)), sin({_ANGLE}), cos({_ANGLE}))"),
    ),
}  # fmt: skip
"""The parameters of a short form, their defaults, and what it is short for."""

NAMES: tuple[str, ...] = (*FUNCTIONS, *_SHORT)
"""Everything that a formula may call."""


def written_out(node: FunctionCall) -> Node | None:
    """What a call is short for, or None: `layer_norm(x, eps)` and `sinusoids(positions, d)`."""
    if node.function not in _SHORT:
        return None
    names, defaults, longer = _SHORT[node.function]
    given = dict([*zip(names, node.arguments, strict=False), *node.keywords])
    parts = {**defaults, **given}
    # Too many, an unknown one, one given twice, or one missing.
    if len(given) < len(node.below) or parts.keys() != set(names):
        raise FormulaError(
            "expected {call}", node.column, call=f"{node.function}({', '.join(names)})"
        )
    return replace_each(longer, {Name(name): part for name, part in parts.items()})


def function_of(node: FunctionCall) -> FormulaFunction:
    """The function that is called, or an error that suggests another."""
    if node.function not in FUNCTIONS:
        near = did_you_mean(node.function, NAMES)
        raise FormulaError(
            "unknown function {name!r}{near}", node.column, name=node.function, near=near
        )
    return FUNCTIONS[node.function]


def arguments_of(
    node: FunctionCall, function: FormulaFunction
) -> tuple[tuple[Node, ...], dict[str, Node]]:
    """The arguments of a call: those that repeat, and the others by name.

    Refuses too many, an unknown one, one given twice and one that is missing.
    """
    parameters = {part.name: part for part in function.parameters if not part.many}
    repeats = len(parameters) < len(function.parameters)
    many = node.arguments if repeats else ()
    if not repeats and len(node.arguments) > len(parameters):
        raise FormulaError(
            "{function} expects at most {most} arguments, got {n}",
            node.column,
            function=node.function,
            most=len(parameters),
            n=len(node.arguments),
        )
    given = {} if repeats else dict(zip(parameters, node.arguments, strict=False))
    for key, value in node.keywords:
        if key not in parameters or key in given:
            near = did_you_mean(key, parameters)
            raise FormulaError(
                "{function} expects no {name!r} here{near}",
                node.column,
                function=node.function,
                name=key,
                near=near,
            )
        given[key] = value
    if repeats and not many:
        raise FormulaError("{function} expects an argument", node.column, function=node.function)
    for name, part in parameters.items():
        if part.default is None and name not in given:
            raise FormulaError(
                "{function} expects {name!r}", node.column, function=node.function, name=name
            )
    return many, given


def write_out(tree: Node) -> Node:
    """The formula as slips look at it: short calls written out, arguments in their usual places."""

    def plain(node: Node) -> Node:
        return (written_out(node) or _in_place(node)) if isinstance(node, FunctionCall) else node

    return rebuild(tree, plain)


def _in_place(node: FunctionCall) -> FunctionCall:
    """What a function needs by position, what it may have by name: `sum(x, 0)` → `sum(x, axis=0)`.

    A call that the function does not understand stays as it is; computing it says why.
    """
    function = FUNCTIONS.get(node.function)
    if function is None:
        return node
    try:
        many, given = arguments_of(node, function)
    except FormulaError:
        return node
    needed = [part.name for part in function.parameters if part.default is None and not part.many]
    arguments = many or tuple(given.pop(name) for name in needed)
    plain = tuple((name, _without_sign(value)) for name, value in given.items())
    return FunctionCall(node.function, arguments, plain, node.column)


def _without_sign(node: Node) -> Node:
    """−1 as one number, not as a minus before a number."""
    if isinstance(node, Negative) and isinstance(node.body, Numeral):
        return Numeral(-node.body.value, node.column)
    return node
