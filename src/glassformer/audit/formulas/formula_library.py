"""The functions that a formula may call, in one table: parameters, what each does, its meaning.

`softmax`, `mean` and their like work along the last axis unless told otherwise (`axis=0`), and drop
that axis unless told otherwise (`keep=1`). Two functions are short for a longer formula, and are
written out before anything is computed: see `written_out`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from glassformer.audit.formulas import bounds
from glassformer.audit.formulas import formula_operations as ops
from glassformer.audit.formulas.bounds import Array, Numbers, Value
from glassformer.audit.formulas.terms import (
    Binary,
    Call,
    FormulaError,
    Index,
    Negative,
    Node,
    Number,
    Slice,
    call,
    rebuild,
)

Kind = Literal["numbers", "whole", "words", "mask", "any"]


@dataclass(frozen=True)
class Parameter:
    """One argument: its name, what it must be, its value when it is left out, its limits."""

    name: str
    kind: Kind
    default: float | None = None
    many: bool = False
    allowed: range | None = None


@dataclass(frozen=True)
class Function:
    """One function of the language."""

    parameters: tuple[Parameter, ...]
    apply: Callable[..., Value]
    meaning: str


def _one(function: Callable[[Numbers], Numbers], meaning: str) -> Function:
    return Function((Parameter("x", "numbers"),), function, meaning)


def _rising(function: Callable[[Array], Array], meaning: str) -> Function:
    return _one(lambda x: bounds.rising(function, x), meaning)


def _along(function: Callable[[Numbers, int], Numbers], meaning: str) -> Function:
    """A function that keeps the shape of what it works along."""
    parameters = (Parameter("x", "numbers"), Parameter("axis", "whole", -1))
    return Function(parameters, function, meaning)


def _reduction(function: Callable[..., Numbers], meaning: str, *, sample: bool = False) -> Function:
    """A function that turns an axis into one number; `rows=2` is a slip of the audit's."""

    def apply(x: Numbers, axis: int, keep: int, rows: int, missing: int = 0) -> Numbers:
        def reduce(part: Numbers, at: int) -> Numbers:
            return function(part, at, missing) if sample else function(part, at)

        result = ops.pooled(reduce, x) if rows == 2 else reduce(x, axis)
        return ops.expand(result, axis) if keep else result

    parameters: tuple[Parameter, ...] = (
        Parameter("x", "numbers"),
        Parameter("axis", "whole", -1),
        Parameter("keep", "whole", 0, allowed=range(2)),
        Parameter("rows", "whole", 1, allowed=range(1, 3)),
    )
    if sample:
        parameters += (Parameter("sample", "whole", 0, allowed=range(2)),)
    return Function(parameters, apply, meaning)


def round_half_up(x: Array, decimals: int) -> Array:
    """To so many decimals, halves away from zero, as people round."""
    scale = 10.0**decimals
    # 1.005 is stored a little below itself: the nudge lets what reads as a half round as one.
    return np.sign(x) * np.floor(np.abs(x) * scale * (1 + 1e-14) + 0.5) / scale


def _truncate(x: Array, decimals: int) -> Array:
    scale = 10.0**decimals
    return np.trunc(x * scale * (1 + 1e-14)) / scale


def _digits(function: Callable[[Array, int], Array], meaning: str) -> Function:
    places = Parameter("decimals", "whole", 0, allowed=range(-12, 13))
    parameters = (Parameter("x", "numbers"), places)

    def apply(x: Numbers, decimals: int) -> Numbers:
        return bounds.rising(lambda part: function(part, decimals), x)

    return Function(parameters, apply, meaning)


def _relu(x: Array) -> Array:
    return np.maximum(x, 0.0)


def _silu(x: Array) -> Array:
    return np.asarray(x / (1 + np.exp(-x)))


def _gelu(x: Array) -> Array:
    """x · Φ(x), with Φ the share of a normal distribution that lies below x."""
    below = [0.5 * math.erfc(-part / math.sqrt(2)) for part in np.ravel(x)]
    return np.asarray(x * np.reshape(below, np.shape(x)))


def _of(function: Callable[..., Value], meaning: str, *parameters: tuple[Any, ...]) -> Function:
    return Function(tuple(Parameter(*given) for given in parameters), function, meaning)


_X, _N = ("x", "numbers"), ("n", "whole")

REDUCTIONS: Mapping[str, Function] = {
    "sum": _reduction(ops.total, "the sum along an axis"),
    "mean": _reduction(ops.mean, "the arithmetic mean"),
    "geometric_mean": _reduction(ops.geometric_mean, "the n-th root of the product"),
    "std": _reduction(ops.deviation, "the standard deviation; sample=1: n − 1", sample=True),
    "var": _reduction(ops.variance, "the variance; sample=1: n − 1", sample=True),
    "max": _reduction(ops.largest, "the greatest number"),
    "min": _reduction(ops.smallest, "the least number"),
}

FUNCTIONS: Mapping[str, Function] = {
    **REDUCTIONS,
    "softmax": _along(ops.softmax, "e^x divided by its sum along an axis"),
    "log_softmax": _along(ops.log_softmax, "the logarithm of the softmax"),
    "proportion": _along(ops.proportion, "x divided by its sum along an axis"),
    "argmax": _along(ops.argmax, "where the greatest number is, from 0"),
    "exp": _rising(np.exp, "e to the power of x"),
    "log": _one(lambda x: bounds.rising_from_zero(np.log, x), "the natural logarithm"),
    "sqrt": _one(lambda x: bounds.rising_from_zero(np.sqrt, x), "the square root"),
    "tanh": _rising(np.tanh, "the hyperbolic tangent"),
    "sigmoid": _rising(lambda x: 1 / (1 + np.exp(-x)), "1 / (1 + e^−x)"),
    "relu": _rising(_relu, "x where it is positive, 0 elsewhere"),
    "silu": _one(lambda x: bounds.dipping(_silu, -1.2784645427610738, x), "x · sigmoid(x)"),
    "gelu": _one(lambda x: bounds.dipping(_gelu, -0.7517915246935645, x), "x · Φ(x)"),
    "floor": _rising(np.floor, "the next whole number below"),
    "abs": _one(bounds.absolute, "the size without the sign"),
    "sin": _one(bounds.sine, "the sine"),
    "cos": _one(bounds.cosine, "the cosine"),
    "round": _digits(round_half_up, "to so many decimals"),
    "truncate": _digits(_truncate, "cut off after so many decimals"),
    "transpose": _of(ops.transpose, "rows become columns", _X),
    "flatten": _of(ops.flatten, "all numbers in one row", _X),
    "concat": _of(
        ops.concat, "side by side, or below each other with axis=0",
        ("parts", "numbers", None, True), ("axis", "whole", -1),
    ),
    "stack": _of(ops.stack, "vectors as columns", ("parts", "numbers", None, True)),
    "rows": _of(ops.row_count, "how many rows", _X),
    "columns": _of(ops.column_count, "how many columns", _X),
    "range": _of(
        ops.whole_numbers, "0, 1, … n − 1; or from a start", _N, ("stop", "whole", -1)
    ),
    "identity": _of(ops.identity, "ones on the diagonal", _N),
    "even": _of(ops.even, "a mask: true at even numbers", _X),
    "causal": _of(ops.causal, "the mask that hides what comes later", _N),
    "opposite": _of(ops.opposite, "the mask turned round", ("allowed", "mask")),
    "where": _of(
        ops.where, "the first where the mask is true, else the second",
        ("allowed", "mask"), ("yes", "numbers"), ("no", "numbers"),
    ),
    "mask": _of(
        ops.mask, "−∞ wherever the mask is not true",
        ("scores", "numbers"), ("allowed", "mask"),
    ),
    "embedding": _of(
        ops.embedding, "the rows of a table", ("ids", "numbers"), ("table", "numbers")
    ),
    "words": _of(ops.words, "a text split into its words", ("text", "words")),
    "split": _of(ops.words, "the same as words", ("text", "words")),
    "lower": _of(ops.lower, "in small letters", ("items", "words")),
    "set": _of(ops.distinct, "each word once", ("items", "words")),
    "count": _of(ops.count, "how many words, or rows", ("items", "any")),
    "lookup": _of(
        ops.lookup, "the numbers that stand beside words",
        ("items", "words"), ("keys", "words"), ("numbers", "numbers"),
    ),
    "pick": _of(
        ops.pick, "the word at a place, from 0", ("items", "words"), ("at", "numbers")
    ),
}  # fmt: skip


_SHORT = {"layer_norm": ("x", "eps"), "sinusoids": ("positions", "d")}

NAMES: tuple[str, ...] = (*FUNCTIONS, *_SHORT)
"""Everything that a formula may call."""


def written_out(node: Call) -> Node | None:
    """What a call is short for, or None: `layer_norm(x, eps)` and `sinusoids(positions, d)`."""
    if node.function not in _SHORT:
        return None
    given = _named(node, _SHORT[node.function])
    if node.function == "layer_norm" and "x" in given:
        x, eps = given["x"], given.get("eps", Number(1e-5))
        centred = Binary("-", x, call("mean", x, keep=1))
        return Binary("/", centred, call("sqrt", Binary("+", call("var", x, keep=1), eps)))
    if node.function == "sinusoids" and len(given) == 2:
        positions, d = given["positions"], given["d"]
        i = call("range", d)
        pair = call("floor", Binary("/", i, Number(2)))
        exponent = Binary("/", Binary("*", Number(2), pair), d)
        each = Index(positions, (Slice(), None))
        angle = Binary("/", each, Binary("^", Number(10000), exponent))
        return call("where", call("even", i), call("sin", angle), call("cos", angle))
    raise _misused(node, _SHORT[node.function])


def _named(node: Call, names: tuple[str, ...]) -> dict[str, Node]:
    """The arguments of a call by name; too many, an unknown one or one given twice is refused."""
    given = dict(zip(names, node.arguments, strict=False))
    for key, value in node.keywords:
        if key in given or key not in names:
            raise _misused(node, names)
        given[key] = value
    if len(node.arguments) > len(names):
        raise _misused(node, names)
    return given


def _misused(node: Call, names: tuple[str, ...]) -> FormulaError:
    return FormulaError(f"expected {node.function}({', '.join(names)})", node.column)


def write_out(tree: Node) -> Node:
    """The formula as slips look at it: short calls written out, arguments in their usual places."""

    def plain(node: Node) -> Node:
        return (written_out(node) or _in_place(node)) if isinstance(node, Call) else node

    return rebuild(tree, plain)


def _in_place(node: Call) -> Call:
    """What a function needs by position, what it may have by name: `sum(x, 0)` → `sum(x, axis=0)`.

    A call that the function does not understand stays as it is; computing it says why.
    """
    function = FUNCTIONS.get(node.function)
    if function is None:
        return node
    keywords = node.keywords
    arguments = node.arguments
    if not function.parameters[0].many:
        try:
            given = _named(node, tuple(part.name for part in function.parameters))
        except FormulaError:
            return node
        needed = [part.name for part in function.parameters if part.default is None]
        if any(name not in given for name in needed):
            return node
        arguments = tuple(given.pop(name) for name in needed)
        keywords = tuple(given.items())
    plain = tuple((name, _without_sign(value)) for name, value in keywords)
    return Call(node.function, arguments, plain, node.column)


def _without_sign(node: Node) -> Node:
    """−1 as one number, not as a minus before a number."""
    if isinstance(node, Negative) and isinstance(node.body, Number):
        return Number(-node.body.value, node.column)
    return node
