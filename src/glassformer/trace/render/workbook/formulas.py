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
from collections.abc import Callable, Iterator
from itertools import product

import torch

from glassformer.trace.evaluate import evaluate
from glassformer.trace.expressions import (
    Axis,
    Choose,
    Convert,
    Entry,
    Expression,
    Function,
    Lookup,
    Named,
    Number,
    Operation,
    Reduce,
    Scalar,
    fix,
)
from glassformer.trace.render.addresses import Addresses, Cells
from glassformer.trace.render.workbook.functions import INFINITE, INFINITY, call, compare_infinity
from glassformer.trace.render.workbook.layout import Layout, cell_name
from glassformer.trace.render.workbook.pieces import (
    ADD,
    ATOM,
    COMPARE,
    MULTIPLY,
    POWER,
    InexpressibleError,
    Piece,
    truth,
    value,
)
from glassformer.trace.render.workbook.ranges import Range, as_range
from glassformer.trace.render.workbook.reductions import gather

__all__ = ["INFINITE", "INFINITY", "LONGEST", "Formulas", "InexpressibleError", "constant"]

LONGEST = 8_000
"""Excel takes 8,192 characters; the rest is for what a writer adds around a formula."""

Auxiliary = Callable[[str, str, Callable[[], float]], str]
"""Takes a label, a formula and what gives its value, and returns the name of its cell."""

_SIGNS: dict[str, tuple[str, int]] = {
    "+": ("+", ADD),
    "-": ("-", ADD),
    "*": ("*", MULTIPLY),
    "/": ("/", MULTIPLY),
    "^": ("^", POWER),
    "=": ("=", COMPARE),
    "≠": ("<>", COMPARE),
    "<": ("<", COMPARE),
    "≤": ("<=", COMPARE),
    ">": (">", COMPARE),
    "≥": (">=", COMPARE),
}


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

    def of(self, expression: Expression) -> str:
        """The formula of a cell, without the leading `=`."""
        text = value(self._write(expression, ()))
        if len(text) > LONGEST:
            raise InexpressibleError(f"a formula would have {len(text):,} characters")
        return text

    def _write(self, expression: Expression, scope: tuple[Axis, ...]) -> Piece:
        """A piece of formula; with a scope, one that computes on whole ranges."""
        match expression:
            case Number(value=number):
                return constant(number)
            case Entry():
                return self._entry(expression, scope)
            case Operation():
                return self._operation(expression, scope)
            case Function(name=name, arguments=arguments):
                written = [self._write(part, scope) for part in arguments]
                if scope and not _works_on_ranges(expression):
                    raise _MustUnrollError
                return call(name, written, bounded=_is_bounded(expression))
            case Reduce():
                if scope:
                    raise _MustUnrollError
                return self._reduce(expression)
            case Named(symbol=symbol, body=body):
                return self._named(symbol, body)
            case Convert(dtype=dtype, body=body):
                return _convert(self._write(body, scope), dtype, bool(scope))
            case Lookup() | Choose() if scope:
                raise _MustUnrollError
            case Lookup():
                return self._lookup(expression)
            case Choose(condition=condition, yes=yes, no=no):
                parts = (self._write(part, ()) for part in (yes, no))
                branches = ",".join(value(part) for part in parts)
                return Piece(f"IF({truth(self._write(condition, ()))},{branches})", ATOM)

    # --- leaves ---

    def _reference(self, step: int, place: int) -> str:
        block = self._layout.blocks[step]
        return self._on_sheet(block.sheet, cell_name(*block.at(place)))

    def _on_sheet(self, sheet: str, name: str) -> str:
        if sheet == self._sheet:
            return name
        quoted = sheet.replace("'", "''")
        return f"'{quoted}'!{name}"

    def _range(self, cells: Cells) -> Range:
        found = as_range(cells, self._layout)
        if found is None:
            raise _MustUnrollError
        return found

    def _range_text(self, found: Range) -> str:
        return self._on_sheet(found.sheet, found.text)

    def _entry(self, entry: Entry, scope: tuple[Axis, ...]) -> Piece:
        cells = self._addresses.of(entry)
        if not cells.letters:
            assert cells.step is not None, "one cell has one writer"
            return Piece(self._reference(cells.step, cells.base), ATOM)
        found = self._range(cells)
        if cells.letters != tuple(axis.letter for axis in scope):
            raise _MustUnrollError  # broadcast along a running axis: no range of that shape
        return Piece(self._range_text(found), ATOM, shapes=frozenset([found.shape]), is_range=True)

    def _lookup(self, lookup: Lookup) -> Piece:
        """INDEX into the cells that the computed positions may reach."""
        places = tuple(part for part in lookup.index if isinstance(part, int))
        if len(places) == len(lookup.index):
            return self._entry(Entry(lookup.view, places), ())
        fixed = tuple(part if isinstance(part, int) else None for part in lookup.index)
        computed = [
            (part, size)
            for part, size in zip(lookup.index, lookup.view.shape, strict=True)
            if not isinstance(part, int | Axis)
        ]
        cells = self._addresses.along(lookup.view, fixed)
        found = as_range(cells, self._layout, spaced=True)
        if found is None:
            raise InexpressibleError("it looks up cells that lie in no rectangle")
        # Along a spaced range, position p stands p · spacing cells further on.
        wanted = []
        for (part, size), spacing in zip(computed, found.spacings, strict=True):
            text = value(self._write(part, ()), MULTIPLY if spacing > 1 else ADD)
            if lookup.wrap:
                text = f"MOD({text},{size})"  # −1 is the last one
            wanted.append(f"{text}*{spacing}+1" if spacing > 1 else f"{text}+1")
        return Piece(f"INDEX({self._range_text(found)},{','.join(wanted)})", ATOM)

    def _named(self, symbol: str, body: Expression) -> Piece:
        text = value(self._write(body, ()))
        match body:
            # Of a row that is −∞ throughout, torch's exponentials are NaN: −∞ − (−∞).
            case Reduce(kind="sum", body=Function(name="exp", arguments=(inner,)) as each) if (
                _is_bounded(each) and isinstance(inner, Operation)
            ):
                largest = value(self._write(inner.right, ()))
                text = f"IF({largest}<=-{INFINITE},NA(),{text})"
        return Piece(self._auxiliary(symbol, text, lambda: evaluate(body)), ATOM)

    # --- inner nodes ---

    def _operation(self, operation: Operation, scope: tuple[Axis, ...]) -> Piece:
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
        return Piece(text, strength, strength == COMPARE, shapes)

    def _reduce(self, reduce: Reduce) -> Piece:
        try:
            factors = [self._write(part, reduce.axes) for part in _factors(reduce)]
        except _MustUnrollError:
            pass
        else:
            done = gather(reduce, factors)
            if done is not None:
                return done
        return self._unrolled(reduce)

    def _unrolled(self, reduce: Reduce) -> Piece:
        """Every term written out, in auxiliary cells of many terms where they are long."""
        if reduce.kind in ("argmax", "argmin"):
            return self._place_unrolled(reduce)
        joint, strength = {"sum": ("+", ADD), "product": ("*", MULTIPLY)}.get(
            reduce.kind, (",", ATOM)
        )
        if joint == "," and reduce.kind not in ("max", "min"):
            raise InexpressibleError(f"{reduce.kind} of cells that lie in no range")
        terms = [
            (value(self._write(term, ()), strength if joint != "," else 0), evaluate(term))
            for term in _terms(reduce)
        ]
        wrap = (
            (lambda text: text) if joint != "," else (lambda text: f"{reduce.kind.upper()}({text})")
        )
        while sum(len(text) + 1 for text, _ in terms) > LONGEST // 2 and len(terms) > 1:
            terms = self._shortened(reduce, terms, joint, wrap)
        return Piece(
            wrap(joint.join(text for text, _ in terms)), strength if joint != "," else ATOM
        )

    def _place_unrolled(self, reduce: Reduce) -> Piece:
        """The first place that holds the extreme, of cells that lie in no range."""
        extreme = Reduce("max" if reduce.kind == "argmax" else "min", reduce.body, reduce.axes)
        text = value(self._unrolled(extreme))
        name = self._auxiliary(f"{extreme.kind} …", text, lambda: evaluate(extreme))
        terms = [value(self._write(term, ()), COMPARE + 1) for term in _terms(reduce)]
        places = [f"IF({term}={name},{at},{len(terms)})" for at, term in enumerate(terms)]
        return Piece(f"MIN({','.join(places)})", ATOM)

    def _shortened(
        self,
        reduce: Reduce,
        terms: list[tuple[str, float]],
        joint: str,
        wrap: Callable[[str], str],
    ) -> list[tuple[str, float]]:
        """The terms gathered into auxiliary cells, each as full as a formula may be."""
        joined: dict[str, Callable[[list[float]], float]] = {
            "+": math.fsum,
            "*": math.prod,
            ",": max if reduce.kind == "max" else min,
        }
        shorter: list[tuple[str, float]] = []
        held: list[tuple[str, float]] = []

        def flush() -> None:
            total = joined[joint]([number for _, number in held])
            text = wrap(joint.join(text for text, _ in held))
            shorter.append((self._auxiliary(f"{reduce.kind} …", text, lambda: total), total))
            held.clear()

        for term in terms:
            if held and sum(len(text) + 1 for text, _ in [*held, term]) > LONGEST // 2:
                flush()
            held.append(term)
        flush()
        return shorter


def constant(number: Scalar) -> Piece:
    """A number as a spreadsheet reads it."""
    number = float(number)
    if math.isnan(number):
        return Piece("NA()", ATOM)
    if math.isinf(number):
        number = math.copysign(INFINITY, number)
    whole = number == int(number) and abs(number) < 1e15
    text = str(int(number)) if whole else repr(number).upper()
    return Piece(text, ATOM if number >= 0 else ADD)


def _terms(reduce: Reduce) -> Iterator[Expression]:
    """What a reduction gathers, one by one."""
    letters = [axis.letter for axis in reduce.axes]
    for at in product(*(range(axis.size) for axis in reduce.axes)):
        yield fix(reduce.body, dict(zip(letters, at, strict=True)))


def _factors(reduce: Reduce) -> list[Expression]:
    """The factors of a sum's body: SUMPRODUCT takes them one by one."""

    def split(body: Expression) -> list[Expression]:
        if isinstance(body, Operation) and body.operator == "*":
            return [*split(body.left), *split(body.right)]
        return [body]

    return split(reduce.body) if reduce.kind == "sum" else [reduce.body]


_ON_RANGES = frozenset(["neg", "abs", "sqrt", "sin", "cos", "tanh", "sign"])


def _works_on_ranges(function: Function) -> bool:
    """Whether SUMPRODUCT applies it cell by cell; MAX, MIN and IF would see the whole range."""
    return function.name in _ON_RANGES or (function.name == "exp" and _is_bounded(function))


def _is_bounded(function: Function) -> bool:
    """Whether an exponential cannot overflow, since a row's maximum is taken off before."""
    match function.arguments:
        case (Operation(operator="-", right=Named(body=Reduce(kind="max"))),):
            return True
        case _:
            return False


def _convert(body: Piece, dtype: torch.dtype, on_ranges: bool) -> Piece:
    """A cast: whole numbers are cut, True is 1; to a float there is nothing to do."""
    if dtype.is_floating_point:
        return body if not body.is_truth else Piece(value(body, ATOM), ATOM, False, body.shapes)
    if on_ranges:
        raise _MustUnrollError
    if dtype == torch.bool:
        return Piece(truth(body), COMPARE, True)
    return Piece(f"TRUNC({value(body)})", ATOM)
