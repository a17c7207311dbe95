"""A cell's expression as a spreadsheet formula: one more walk over the same tree.

What a spreadsheet lacks is encoded so that it still computes:

    ±∞      ±1E+200; anything beyond ±1E+100 counts as infinite, so that a masked score may be
            scaled and added to, and its exponential is 0
    NaN     the error #N/A, which spreads as NaN does
    True    1, and 0 for False
    float32 numbers keep the 64 bits of the spreadsheet: nothing is rounded on the way

A sum runs over ranges where its operands lie in parallel (SUMPRODUCT), is written out where they
do not, and goes through auxiliary cells where it would be too long. Named parts (μ, m, Z) get
cells of their own beside the row that needs them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product

import torch

from glassformer.documents.trace_data import Addresses
from glassformer.documents.workbook_layout import Layout, as_range, cell_name
from glassformer.tracing.arithmetic import expressions as e
from glassformer.tracing.arithmetic.float64_values import evaluate

# --- pieces ---
# Pieces of a formula: the text, how tightly it binds, and whether it is true or false.


COMPARE, ADD, MULTIPLY, POWER, ATOM = 1, 3, 4, 5, 9


class InexpressibleError(Exception):
    """Arithmetic that no formula can hold: the step then stands as numbers, with this reason."""


@dataclass(frozen=True, slots=True)
class FormulaText:
    """Part of a formula."""

    text: str
    strength: int
    is_truth: bool = False
    """Whether it yields TRUE or FALSE."""
    shapes: frozenset[tuple[int, int]] = frozenset()
    """The rows and columns of the ranges in it: computed together, they must agree."""
    is_range: bool = False
    """Whether it is a range and nothing else."""


def value(piece: FormulaText, outer: int = 0) -> str:
    """The piece as a number, in brackets where it binds weaker than what stands around it."""
    if piece.is_truth:
        return f"--({piece.text})" if piece.shapes else f"IF({piece.text},1,0)"
    return f"({piece.text})" if piece.strength < outer else piece.text


def truth(piece: FormulaText) -> str:
    """The piece as a condition."""
    if piece.is_truth:
        return piece.text
    return f"{value(piece, COMPARE + 1)}<>0"


# --- functions ---
# The functions and comparisons of expressions in the words of a spreadsheet.


INFINITY = 1e200
INFINITE = "1E+100"
"""What lies beyond counts as infinite."""
_OVERFLOW = 460
"""exp of this is 1E+200: beyond it an exponential is infinite, and Excel would refuse."""

_SAME = "log10 sqrt erf sin cos tan asin acos atan sinh cosh tanh abs trunc max min"
_PLAIN = {name: name.upper() for name in _SAME.split()} | {"floor": "INT", "%": "MOD"}

_TEMPLATES = {
    "sign": ("IFERROR(SIGN({0}),0)", ATOM),  # the sign of what is no number is 0
    "exp2": ("2^({0})", POWER),
    "log1p": ("LN(1+({0}))", ATOM),
    "log2": ("LOG({0},2)", ATOM),
    "neg": ("-({0})", ADD),
    "ceil": ("-INT(-({0}))", ADD),
    # Halves go to the even neighbour, as torch rounds; ROUND alone takes them away from 0.
    "round": ("IF(ABS({0}-TRUNC({0}))=0.5,2*ROUND(({0})/2,0),ROUND({0},0))", ATOM),
    "atan2": ("ATAN2({1},{0})", ATOM),  # a spreadsheet takes x first
    "//": ("INT(({0})/({1}))", ATOM),
    # A spreadsheet's bits are those of numbers from 0 to 2^48: below 0, count from 2^47 down.
    "&": ("MOD(_xlfn.BITAND(MOD({0},2^47),MOD({1},2^47))+2^46,2^47)-2^46", ADD),
    "|": ("MOD(_xlfn.BITOR(MOD({0},2^47),MOD({1},2^47))+2^46,2^47)-2^46", ADD),
}

_TRUTHS = {
    "isnan": "ISERROR({0})",
    "isinf": f"IFERROR(ABS({{0}})>={INFINITE},FALSE)",
    "isfinite": f"IFERROR(ABS({{0}})<{INFINITE},FALSE)",
}


def call(name: str, arguments: Sequence[FormulaText], *, bounded: bool = False) -> FormulaText:
    """A function of pieces; `bounded` says that an exponential cannot overflow."""
    texts = [value(piece) for piece in arguments]
    shapes = frozenset(shape for piece in arguments for shape in piece.shapes)
    if name in _PLAIN:
        return FormulaText(f"{_PLAIN[name]}({','.join(texts)})", ATOM, False, shapes)
    if name in _TEMPLATES:
        template, strength = _TEMPLATES[name]
        plain = name == "neg" and arguments[0].strength == ATOM
        text = f"-{texts[0]}" if plain else template.format(*texts)
        return FormulaText(text, strength, False, shapes)
    if name in _TRUTHS:
        return FormulaText(_TRUTHS[name].format(*texts), COMPARE, True, shapes)
    match name:
        case "exp":
            inner = texts[0] if bounded else f"MIN({texts[0]},{_OVERFLOW})"
            return FormulaText(f"EXP({inner})", ATOM, False, shapes)
        case "expm1":
            return FormulaText(f"EXP(MIN({texts[0]},{_OVERFLOW}))-1", ADD, False, shapes)
        case "log":  # the logarithm of 0 is −∞, of what is below 0 an error
            minus_infinity = -INFINITY
            return FormulaText(f"IF({texts[0]}=0,{minus_infinity:.0E},LN({texts[0]}))", ATOM)
        case "not":
            return FormulaText(f"NOT({truth(arguments[0])})", ATOM, True)
        case "and" | "or":
            both = ",".join(truth(piece) for piece in arguments)
            return FormulaText(f"{name.upper()}({both})", ATOM, True)
        case "xor":
            left, right = (truth(piece) for piece in arguments)
            return FormulaText(f"({left})<>({right})", COMPARE, True)
        case _:
            raise InexpressibleError(f"a spreadsheet has no {name}")


# What `x ∘ ±∞` says of an encoded x; None where it holds for every x or for none.
_BEYOND: dict[tuple[str, bool], str | None] = {
    ("=", True): f">={INFINITE}",
    ("≥", True): f">={INFINITE}",
    ("=", False): f"<=-{INFINITE}",
    ("≤", False): f"<=-{INFINITE}",
    ("≠", True): f"<{INFINITE}",
    ("<", True): f"<{INFINITE}",
    ("≠", False): f">-{INFINITE}",
    (">", False): f">-{INFINITE}",
}


def compare_infinity(
    operation: e.Operation, left: FormulaText, right: FormulaText
) -> FormulaText | None:
    """A comparison with an infinite constant, by the threshold; None if it is none."""
    constant, other = operation.right, left
    if not _is_infinite(constant):
        constant, other = operation.left, right
    if not (isinstance(constant, e.Number) and _is_infinite(constant)):
        return None
    sign = operation.operator
    if constant is operation.left:
        sign = {"<": ">", ">": "<", "≤": "≥", "≥": "≤"}.get(sign, sign)  # type: ignore[assignment]  # mirrored signs are signs
    test = _BEYOND.get((sign, float(constant.value) > 0))
    if test is None:
        return None
    return FormulaText(f"{value(other, MULTIPLY)}{test}", COMPARE, True, other.shapes)


def _is_infinite(expression: object) -> bool:
    return isinstance(expression, e.Number) and math.isinf(float(expression.value))


# --- reductions ---
# Reductions over ranges: SUMPRODUCT and its relatives.


_WRITTEN_OUT = 16
"""Products of a row with a column: up to 16 are written out, which reads better."""


def gather(reduce: e.Reduce, factors: Sequence[FormulaText]) -> FormulaText | None:
    """A reduction of range pieces; None if it has to be written out term by term."""
    shapes = {shape for factor in factors for shape in factor.shapes}
    if reduce.kind == "sum":
        return _sum(reduce, factors, shapes)
    (body,) = factors
    if len(shapes) != 1:
        return None
    text = value(body)
    match reduce.kind:
        case "max" | "min" | "product" if body.is_range:
            return FormulaText(f"{reduce.kind.upper()}({text})", ATOM)
        case "any":
            return FormulaText(f"SUMPRODUCT(--({value(body, ADD)}<>0))>0", COMPARE, True)
        case "all":
            return FormulaText(f"SUMPRODUCT(--({value(body, ADD)}=0))=0", COMPARE, True)
        case _ if body.is_range:
            (shape,) = shapes
            return _ranked(reduce, text, shape)
        case _:
            return None


def _sum(
    reduce: e.Reduce, factors: Sequence[FormulaText], shapes: set[tuple[int, int]]
) -> FormulaText | None:
    if len(shapes) == 1:
        if all(factor.is_range for factor in factors):
            function = "SUM" if len(factors) == 1 else "SUMPRODUCT"
            return FormulaText(f"{function}({','.join(factor.text for factor in factors)})", ATOM)
        return FormulaText(f"SUMPRODUCT({'*'.join(value(f, MULTIPLY) for f in factors)})", ATOM)
    turned = len(shapes) == 2 and len({tuple(sorted(shape)) for shape in shapes}) == 1
    (size,) = {rows * columns for rows, columns in shapes} if turned else {0}
    are_ranges = all(factor.is_range for factor in factors)
    if not (turned and are_ranges) or size <= _WRITTEN_OUT or len(reduce.axes) != 1:
        return None
    # A long row times a long column; the turned column makes it an array formula.
    texts = [
        factor.text if next(iter(factor.shapes))[0] == 1 else f"TRANSPOSE({factor.text})"
        for factor in factors
    ]
    return FormulaText(f"SUMPRODUCT({','.join(texts)})", ATOM)


def _ranked(reduce: e.Reduce, text: str, shape: tuple[int, int]) -> FormulaText:
    """The cell of a given rank in a range, or its place."""
    rank = reduce.rank + 1
    match reduce.kind:
        case "argmax" | "argmin" | "last argmax" | "last argmin":
            extreme = f"{'MAX' if reduce.kind.endswith('max') else 'MIN'}({text})"
            if 1 in shape and not reduce.kind.startswith("last"):
                return FormulaText(f"MATCH({extreme},{text},0)-1", ADD)
            end = "LARGE" if reduce.kind.startswith("last") else "SMALL"
            return FormulaText(f"{end}(IF({text}={extreme},{_places(text, shape)}),1)", ATOM)
        case "largest":
            return FormulaText(f"LARGE({text},{rank})", ATOM)
        case "smallest":
            return FormulaText(f"SMALL({text},{rank})", ATOM)
        case "place largest" | "place smallest":
            larger = reduce.kind == "place largest"
            chosen = f"{'LARGE' if larger else 'SMALL'}({text},{rank})"
            before = f"SUMPRODUCT(--({text}{'>' if larger else '<'}{chosen}))"
            # Of the places that hold the chosen number, the one as far on as its rank among
            # equals: as in torch, the earlier of two equal cells comes first.
            equals = f"IF({text}={chosen},{_places(text, shape)})"
            return FormulaText(f"SMALL({equals},{rank}-{before})", ATOM)
        case _:
            raise InexpressibleError(f"a spreadsheet has no {reduce.kind}")


def _places(text: str, shape: tuple[int, int]) -> str:
    """For each cell of a range its place, counted row by row."""
    return f"(ROW({text})-MIN(ROW({text})))*{shape[1]}+COLUMN({text})-MIN(COLUMN({text}))"


def needs_array(formula: str) -> bool:
    """Whether a formula must be entered as an array formula to work in every program."""
    return any(mark in formula for mark in ("TRANSPOSE(", "SMALL(IF(", "LARGE(IF("))


LONGEST = 8_000
"""Excel takes 8,192 characters; the rest is for what a writer adds around a formula."""

Auxiliary = Callable[[str, str, Callable[[], float]], str]
"""Takes a label, a formula and what gives its value, and returns the name of its cell."""

_SIGNS: dict[str, tuple[str, int]] = {
    **{sign: (sign, ADD) for sign in "+-"}, **{sign: (sign, MULTIPLY) for sign in "*/"},
    **{sign: (sign, COMPARE) for sign in "=<>"}, "^": ("^", POWER), "≠": ("<>", COMPARE),
    "≤": ("<=", COMPARE), "≥": (">=", COMPARE),
}  # fmt: skip


class _MustUnrollError(Exception):
    """Raised inside a reduction whose body cannot be computed on whole ranges."""


class Formulas:
    """Writes the formulas of one sheet; `auxiliary` gives a cell to a part that needs one."""

    def __init__(
        self, layout: Layout, addresses: Addresses, sheet: str, auxiliary: Auxiliary
    ) -> None:
        self._layout = layout
        self._addresses = addresses
        self._sheet = sheet
        self._auxiliary = auxiliary

    def of(self, expression: e.Expression) -> str:
        """The formula of a cell, without the leading `=`."""
        text = value(self._write(expression, ()))
        if len(text) > LONGEST:
            raise InexpressibleError(f"a formula would have {len(text):,} characters")
        return text

    def _write(self, expression: e.Expression, scope: tuple[e.Axis, ...]) -> FormulaText:
        """A piece of formula; with a scope, one that computes on whole ranges."""
        match expression:
            case e.Number(value=number):
                return constant(number)
            case e.Entry():
                return self._entry(expression, scope)
            case e.Operation():
                return self._operation(expression, scope)
            case e.Function(name=name, arguments=arguments):
                written = [self._write(part, scope) for part in arguments]
                bounded = name == "exp" and _is_bounded(expression)
                if scope and not (name in _ON_RANGES or bounded):
                    raise _MustUnrollError
                return call(name, written, bounded=bounded)
            case e.Reduce():
                if scope:
                    raise _MustUnrollError
                return self._reduce(expression)
            case e.Named(symbol=symbol, body=body):
                return self._named(symbol, body)
            case e.Convert(dtype=dtype, body=body):
                return _convert(self._write(body, scope), dtype, bool(scope))
            case e.Lookup() | e.Choose() if scope:
                raise _MustUnrollError
            case e.Lookup():
                return self._lookup(expression)
            case e.Choose(condition=condition, yes=yes, no=no):
                parts = (self._write(part, ()) for part in (yes, no))
                branches = ",".join(value(part) for part in parts)
                return FormulaText(f"IF({truth(self._write(condition, ()))},{branches})", ATOM)

    # --- leaves ---

    def _on_sheet(self, sheet: str, name: str) -> str:
        if sheet == self._sheet:
            return name
        quoted = sheet.replace("'", "''")
        return f"'{quoted}'!{name}"

    def _entry(self, entry: e.Entry, scope: tuple[e.Axis, ...]) -> FormulaText:
        cells = self._addresses.of(entry)
        if not cells.letters:
            assert cells.step is not None, "one cell has one writer"
            block = self._layout.blocks[cells.step]
            return FormulaText(self._on_sheet(block.sheet, cell_name(*block.at(cells.base))), ATOM)
        found = as_range(cells, self._layout)
        # Broadcast along a running axis, there is no range of that shape.
        if found is None or cells.letters != tuple(axis.letter for axis in scope):
            raise _MustUnrollError
        text = self._on_sheet(found.sheet, found.text)
        return FormulaText(text, ATOM, shapes=frozenset([found.shape]), is_range=True)

    def _lookup(self, lookup: e.Lookup) -> FormulaText:
        """INDEX into the cells that the computed positions may reach."""
        places = tuple(part for part in lookup.index if isinstance(part, int))
        if len(places) == len(lookup.index):
            return self._entry(e.Entry(lookup.view, places), ())
        fixed = tuple(part if isinstance(part, int) else None for part in lookup.index)
        computed = [
            (part, size)
            for part, size in zip(lookup.index, lookup.view.shape, strict=True)
            if not isinstance(part, int | e.Axis)
        ]
        cells = self._addresses.along(lookup.view, fixed)
        wanted = []
        for part, size in computed:
            text = value(self._write(part, ()), MULTIPLY)
            wanted.append(f"MOD({text},{size})" if lookup.wrap else text)  # −1 is the last one
        found = as_range(cells, self._layout, spaced=True)
        if found is None and cells.step is not None and cells.strides == (1,):
            # A matrix whose rows are read one after the other: position p is in row p ÷ columns.
            columns = self._layout.blocks[cells.step].columns
            n_rows = -(-cells.sizes[0] // columns)
            rows = replace(cells, sizes=(n_rows, columns), strides=(columns, 1))
            found = as_range(rows, self._layout)
            wanted = [f"INT({wanted[0]}/{columns})", f"MOD({wanted[0]},{columns})"]
        if found is None:
            raise InexpressibleError("it looks up cells that lie in no rectangle")
        # Along a spaced range, position p stands p · spacing cells further on.
        wanted = [
            f"{text}*{spacing}+1" if spacing > 1 else f"{text}+1"
            for text, spacing in zip(wanted, found.spacings, strict=True)
        ]
        text = self._on_sheet(found.sheet, found.text)
        return FormulaText(f"INDEX({text},{','.join(wanted)})", ATOM)

    def _named(self, symbol: str, body: e.Expression) -> FormulaText:
        text = value(self._write(body, ()))
        match body:
            # Of a row that is −∞ throughout, torch's exponentials are NaN: −∞ − (−∞).
            case e.Reduce(kind="sum", body=e.Function(name="exp", arguments=(inner,)) as each) if (
                _is_bounded(each) and isinstance(inner, e.Operation)
            ):
                largest = value(self._write(inner.right, ()))
                text = f"IF({largest}<=-{INFINITE},NA(),{text})"
        return FormulaText(self._auxiliary(symbol, text, lambda: evaluate(body)), ATOM)

    # --- inner nodes ---

    def _operation(self, operation: e.Operation, scope: tuple[e.Axis, ...]) -> FormulaText:
        left = self._write(operation.left, scope)
        right = self._write(operation.right, scope)
        shapes = left.shapes | right.shapes
        beyond = compare_infinity(operation, left, right)
        if beyond is not None:
            return beyond
        if operation.operator not in _SIGNS:
            if scope:
                raise _MustUnrollError
            return call(operation.operator, [left, right])
        sign, strength = _SIGNS[operation.operator]
        tight = operation.operator in ("-", "/", "^") or strength == COMPARE
        text = f"{value(left, strength)}{sign}{value(right, strength + tight)}"
        return FormulaText(text, strength, strength == COMPARE, shapes)

    def _reduce(self, reduce: e.Reduce) -> FormulaText:
        try:
            parts = _factors(reduce.body) if reduce.kind == "sum" else [reduce.body]
            factors = [self._write(part, reduce.axes) for part in parts]
        except _MustUnrollError:
            pass
        else:
            done = gather(reduce, factors)
            if done is not None:
                return done
        return self._unrolled(reduce)

    def _unrolled(self, reduce: e.Reduce) -> FormulaText:
        """Every term written out, in auxiliary cells of many terms where they are long."""
        if reduce.kind in ("argmax", "argmin"):
            return self._place_unrolled(reduce)
        if reduce.kind not in _UNROLLED:
            raise InexpressibleError(f"{reduce.kind} of cells that lie in no range")
        joint, strength, whole, combine = _UNROLLED[reduce.kind]
        outer = 0 if strength == ATOM else strength
        terms = [(value(self._write(term, ()), outer), evaluate(term)) for term in _terms(reduce)]
        while len(terms) > 1 and _length(terms) > LONGEST // 2:
            shorter = []
            for part in _full_parts(terms):
                text = whole.format(joint.join(text for text, _ in part))
                total = combine([number for _, number in part])
                name = self._auxiliary(f"{reduce.kind} …", text, partial(float, total))
                shorter.append((name, total))
            terms = shorter
        return FormulaText(whole.format(joint.join(text for text, _ in terms)), strength)

    def _place_unrolled(self, reduce: e.Reduce) -> FormulaText:
        """The first place that holds the extreme, of cells that lie in no range."""
        extreme = e.Reduce("max" if reduce.kind == "argmax" else "min", reduce.body, reduce.axes)
        text = value(self._unrolled(extreme))
        name = self._auxiliary(f"{extreme.kind} …", text, lambda: evaluate(extreme))
        terms = [value(self._write(term, ()), COMPARE + 1) for term in _terms(reduce)]
        places = [f"IF({term}={name},{at},{len(terms)})" for at, term in enumerate(terms)]
        return FormulaText(f"MIN({','.join(places)})", ATOM)


_UNROLLED: dict[str, tuple[str, int, str, Callable[[Sequence[float]], float]]] = {
    "sum": ("+", ADD, "{}", math.fsum),
    "product": ("*", MULTIPLY, "{}", math.prod),
    "max": (",", ATOM, "MAX({})", max),
    "min": (",", ATOM, "MIN({})", min),
}
"""For a reduction written out: the operator, its precedence, the text around it, the value."""
_Term = tuple[str, float]


def _length(terms: Sequence[_Term]) -> int:
    return sum(len(text) + 1 for text, _ in terms)


def _full_parts(terms: Sequence[_Term]) -> Iterator[list[_Term]]:
    """The terms in runs, each as long as a formula may be."""
    held: list[_Term] = []
    for term in terms:
        if held and _length([*held, term]) > LONGEST // 2:
            yield held
            held = []
        held.append(term)
    yield held


def constant(number: e.Scalar) -> FormulaText:
    """A number as a spreadsheet reads it."""
    number = float(number)
    if math.isnan(number):
        return FormulaText("NA()", ATOM)
    if math.isinf(number):
        number = math.copysign(INFINITY, number)
    whole = number == int(number) and abs(number) < 1e15
    text = str(int(number)) if whole else repr(number).upper()
    return FormulaText(text, ATOM if number >= 0 else ADD)


def _terms(reduce: e.Reduce) -> Iterator[e.Expression]:
    """What a reduction gathers, one by one."""
    letters = [axis.letter for axis in reduce.axes]
    for at in product(*(range(axis.size) for axis in reduce.axes)):
        yield e.fix(reduce.body, dict(zip(letters, at, strict=True)))


def _factors(body: e.Expression) -> list[e.Expression]:
    """What a sum's body multiplies: SUMPRODUCT takes the factors one by one."""
    if isinstance(body, e.Operation) and body.operator == "*":
        return [*_factors(body.left), *_factors(body.right)]
    return [body]


_ON_RANGES = frozenset(["neg", "abs", "sqrt", "sin", "cos", "tanh", "sign"])
"""What SUMPRODUCT applies cell by cell; MAX, MIN and IF would see the whole range."""


def _is_bounded(function: e.Function) -> bool:
    """Whether an exponential cannot overflow, since a row's maximum is taken off before."""
    match function.arguments:
        case (e.Operation(operator="-", right=e.Named(body=e.Reduce(kind="max"))),):
            return True
        case _:
            return False


def _convert(body: FormulaText, dtype: torch.dtype, on_ranges: bool) -> FormulaText:
    """A cast: whole numbers are cut, True is 1; to a float there is nothing to do."""
    if dtype.is_floating_point:
        return (
            body if not body.is_truth else FormulaText(value(body, ATOM), ATOM, False, body.shapes)
        )
    if on_ranges:
        raise _MustUnrollError
    if dtype == torch.bool:
        return FormulaText(truth(body), COMPARE, True)
    return FormulaText(f"TRUNC({value(body)})", ATOM)
