"""A small spreadsheet that evaluates the formulas of a workbook and knows nothing about traces.

It follows Excel where programs differ: unary minus binds tighter than ^, and outside SUMPRODUCT
and array formulas no function is applied to a range cell by cell.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from tests.tracing.render.xlsx import Sheet

Value = float | bool | npt.NDArray[np.float64]

_TOKEN = re.compile(
    r"(?P<reference>(?:'(?:[^']|'')+'!)?[A-Z]{1,3}[0-9]+(?::[A-Z]{1,3}[0-9]+)?(?![A-Z0-9(]))"
    r"|(?P<number>[0-9]+\.?[0-9]*(?:E[+-]?[0-9]+)?)"
    r"|(?P<name>[A-Za-z_.]+[A-Z0-9]*)"
    r"|(?P<sign><>|<=|>=|[-+*/^=<>(),])"
)


def _column(name: str) -> int:
    number = 0
    for letter in name:
        number = number * 26 + ord(letter) - ord("A") + 1
    return number - 1


def _place(cell: str) -> tuple[int, int]:
    letters = cell.rstrip("0123456789")
    return int(cell[len(letters) :]) - 1, _column(letters)


def _name(row: int, column: int) -> str:
    name, column = "", column + 1
    while column:
        column, rest = divmod(column - 1, 26)
        name = chr(ord("A") + rest) + name
    return f"{name}{row + 1}"


class Range:
    """Cells of a sheet, read when needed."""

    def __init__(self, book: Calculator, sheet: str, first: str, last: str) -> None:
        self.top, self.left = _place(first)
        bottom, right = _place(last)
        self.shape = (bottom - self.top + 1, right - self.left + 1)
        self.book, self.sheet = book, sheet

    def array(self) -> npt.NDArray[np.float64]:
        return np.array(
            [
                [self.cell(row, column) for column in range(self.shape[1])]
                for row in range(self.shape[0])
            ]
        )

    def cell(self, row: int, column: int) -> float:
        return self.book.value(self.sheet, _name(self.top + row, self.left + column))


class Calculator:
    """The numbers of a workbook after recalculation.

    With `one_step`, a formula is computed from the numbers stored in the file beside the others.
    """

    def __init__(self, book: dict[str, Sheet], *, one_step: bool = False) -> None:
        self._book = book
        self._known: dict[tuple[str, str], float] = {}
        if one_step:
            for sheet, cells in book.items():
                for name, cell in cells.items():
                    number = math.nan if cell.value == "#N/A" else cell.value
                    if isinstance(number, float):
                        self._known[sheet, name] = number

    def formula(self, sheet: str, cell: str) -> float:
        """What the formula of a cell gives."""
        formula = self._book[sheet][cell].formula
        assert formula is not None and len(formula) <= 8192
        with np.errstate(all="ignore"):
            return float(_Parser(self, sheet, formula).result())

    def value(self, sheet: str, cell: str) -> float:
        """The recalculated number of a cell."""
        if (sheet, cell) not in self._known:
            stored = self._book[sheet][cell]
            if stored.formula is None:
                assert isinstance(stored.value, float), f"{sheet}!{cell} is text"
                self._known[sheet, cell] = stored.value
            else:
                self._known[sheet, cell] = self.formula(sheet, cell)
        return self._known[sheet, cell]


class _Parser:
    def __init__(self, book: Calculator, sheet: str, formula: str) -> None:
        self.book, self.sheet = book, sheet
        self.tokens: list[tuple[str, str]] = []
        place = 0
        while place < len(formula):
            match = _TOKEN.match(formula, place)
            assert match, f"cannot read {formula[place:]!r} in {formula!r}"
            self.tokens.append((str(match.lastgroup), match.group()))
            place = match.end()
        self.at = 0

    def result(self) -> Any:
        value = self.comparison()
        assert self.at == len(self.tokens), f"left over: {self.tokens[self.at :]}"
        return value

    def next_is(self, *signs: str) -> str | None:
        if self.at < len(self.tokens) and self.tokens[self.at][1] in signs:
            self.at += 1
            return self.tokens[self.at - 1][1]
        return None

    def comparison(self) -> Any:
        left = self.sum()
        signs: dict[str, Callable[..., Any]] = {
            "=": _equal,
            "<>": lambda a, b: np.logical_not(_equal(a, b)),
            "<": np.less,
            "<=": np.less_equal,
            ">": np.greater,
            ">=": np.greater_equal,
        }
        while sign := self.next_is(*signs):
            left, right = _numbers(left), _numbers(self.sum())
            unknown = np.isnan(left) | np.isnan(right)  # an error spreads through a comparison
            left = np.where(unknown, np.nan, signs[sign](left, right))
        return left

    def sum(self) -> Any:
        left = self.product()
        while sign := self.next_is("+", "-"):
            right = _numbers(self.product())
            left = _numbers(left) + (right if sign == "+" else -right)
        return left

    def product(self) -> Any:
        left = self.power()
        while sign := self.next_is("*", "/"):
            right = _numbers(self.power())
            left = _numbers(left) * right if sign == "*" else _numbers(left) / right
        return left

    def power(self) -> Any:
        left = self.signed()
        while self.next_is("^"):
            left = _numbers(left) ** _numbers(self.signed())
        return left

    def signed(self) -> Any:
        if self.next_is("-"):
            return -_numbers(self.signed())
        return self.atom()

    def atom(self) -> Any:
        kind, text = self.tokens[self.at]
        self.at += 1
        if kind == "number":
            return float(text)
        if kind == "reference":
            return self.reference(text)
        if text == "(":
            value = self.comparison()
            assert self.next_is(")")
            return value
        if text in ("TRUE", "FALSE"):
            return text == "TRUE"
        return self.function(text)

    def reference(self, text: str) -> Any:
        sheet, _, cells = text.rpartition("!")
        sheet = sheet[1:-1].replace("''", "'") if sheet else self.sheet
        first, _, last = cells.partition(":")
        if last:
            return Range(self.book, sheet, first, last)
        return self.book.value(sheet, first)

    def function(self, name: str) -> Any:
        assert self.next_is("("), name
        arguments: list[Any] = []
        while not self.next_is(")"):
            arguments.append(self.comparison())
            self.next_is(",")
        return FUNCTIONS[name](*arguments)


def _numbers(value: Any) -> Any:
    if isinstance(value, Range):
        return value.array()
    return (
        np.asarray(value, dtype=np.float64) if isinstance(value, np.ndarray) else np.float64(value)
    )


def _equal(left: Any, right: Any) -> Any:
    """Spreadsheets compare the first 15 digits."""
    return np.isclose(left, right, rtol=1e-14, atol=0)


def _flat(values: tuple[Any, ...]) -> npt.NDArray[np.float64]:
    return np.concatenate([np.ravel(_numbers(value)) for value in values])


def _single(function: Callable[[float], float]) -> Callable[[Any], Any]:
    """A function of one number; on ranges cell by cell, as inside SUMPRODUCT."""
    guarded = np.vectorize(lambda x: x if math.isnan(x) else function(x), otypes=[float])
    return lambda value: guarded(_numbers(value))


def _index(range_: Range, *places: Any) -> float:
    if len(places) == 1:
        place = int(places[0]) - 1
        return range_.cell(0, place) if range_.shape[0] == 1 else range_.cell(place, 0)
    return range_.cell(int(places[0]) - 1, int(places[1]) - 1)


def _if(condition: Any, yes: Any, no: Any = False) -> Any:
    if np.ndim(condition) == 0 and np.isnan(condition):
        return math.nan
    if np.ndim(condition):
        # What an array formula's IF leaves out is FALSE, which SMALL skips.
        return np.where(condition, _numbers(yes), np.nan)
    return yes if condition else no


def _small(values: Any, rank: Any) -> float:
    numbers = np.ravel(_numbers(values))
    return float(np.sort(numbers[~np.isnan(numbers)])[int(rank) - 1])


def _sumproduct(*factors: Any) -> float:
    arrays = [_numbers(factor) for factor in factors]
    assert len({np.shape(array) for array in arrays}) == 1, "SUMPRODUCT of different shapes"
    return float(np.prod(np.stack(arrays), axis=0).sum())


def _round(value: Any, digits: Any) -> float:
    assert digits == 0
    return math.copysign(math.floor(abs(float(value)) + 0.5), float(value))


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "ABS": _single(abs),
    "ACOS": _single(math.acos),
    "AND": lambda *values: np.prod([np.sign(abs(value)) for value in values]),
    "ASIN": _single(math.asin),
    "ATAN": _single(math.atan),
    "ATAN2": lambda x, y: math.atan2(float(y), float(x)),
    "COLUMN": lambda r: np.tile(np.arange(r.left, r.left + r.shape[1]) + 1.0, (r.shape[0], 1)),
    "COS": _single(math.cos),
    "COSH": _single(math.cosh),
    "ERF": _single(math.erf),
    "EXP": _single(lambda x: math.exp(max(x, -1e4))),
    "IF": _if,
    "IFERROR": lambda value, other: other if np.isnan(float(value)) else value,
    "INDEX": _index,
    "INT": _single(math.floor),
    "ISERROR": lambda value: bool(np.isnan(float(value))),
    "LARGE": lambda values, rank: -_small(-_numbers(values), rank),
    "LN": _single(lambda x: math.log(x) if x > 0 else math.nan),
    "LOG": lambda value, base: math.log(float(value), float(base)),
    "LOG10": _single(math.log10),
    "MATCH": lambda value, range_, _: 1 + int(np.flatnonzero(np.ravel(range_.array()) == value)[0]),
    "MAX": lambda *values: float(_flat(values).max()),
    "MIN": lambda *values: float(_flat(values).min()),
    "MOD": lambda a, b: float(np.mod(float(a), float(b))),
    "NA": lambda: math.nan,
    "NOT": lambda value: 1 - np.sign(abs(value)),
    "OR": lambda *values: np.sign(np.sum([abs(value) for value in values])),
    "PRODUCT": lambda *values: float(_flat(values).prod()),
    "ROUND": _round,
    "ROW": lambda r: np.tile(np.arange(r.top, r.top + r.shape[0])[:, None] + 1.0, (1, r.shape[1])),
    "SIGN": _single(lambda x: float(np.sign(x))),
    "SIN": _single(math.sin),
    "SINH": _single(math.sinh),
    "SMALL": _small,
    "SQRT": _single(math.sqrt),
    "SUM": lambda *values: float(_flat(values).sum()),
    "SUMPRODUCT": _sumproduct,
    "TAN": _single(math.tan),
    "TANH": _single(math.tanh),
    "TRANSPOSE": lambda value: _numbers(value).T,
    "TRUNC": _single(math.trunc),
    "_xlfn.BITAND": lambda a, b: float(int(a) & int(b)),
    "_xlfn.BITOR": lambda a, b: float(int(a) | int(b)),
}
