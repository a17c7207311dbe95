"""A worked example: its steps in order, each with what is printed and the formula behind it.

This file knows what an example is; `reading` knows how one is written in JSON.
"""

from __future__ import annotations

import ast
import copy
import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import NDArray

from glassformer.audit.formulas import FormulaError, parse
from glassformer.audit.formulas.bounds import (
    MOST_NUMBERS,
    Array,
    Numbers,
    Value,
    Words,
    check_size,
    exactly,
    shape_of,
)
from glassformer.audit.formulas.evaluator import Evaluator, Work, WorkSpentError
from glassformer.audit.formulas.terms import Node
from glassformer.errors import ConfigError, UnknownNameError
from glassformer.language import Bilingual, words


@dataclass(frozen=True, eq=False)
class Digits:
    """Printed numbers: NaN where nothing is printed, and how many decimals each one shows.

    `exact` marks numbers that stand for themselves alone, such as given ones, counts, and −∞;
    `approximate` those that the article calls approximate, rounded either way.
    """

    values: Array
    decimals: NDArray[np.int64]
    exact: bool = False
    approximate: bool = False

    @cached_property
    def shown(self) -> NDArray[np.bool_]:
        """Where something is printed."""
        return ~np.isnan(self.values)

    @cached_property
    def half(self) -> Array:
        """How far the number meant may be from the one printed: half a unit of the last digit."""
        if self.exact:
            return np.zeros(self.values.shape)
        return np.asarray((1.0 if self.approximate else 0.5) * 10.0 ** (-self.decimals))

    def numbers(self) -> Numbers:
        """Everything the digits may stand for."""
        if self.exact and self.shown.all():
            return exactly(self.values)
        low = np.where(self.shown, self.values - self.half, -np.inf)
        return Numbers(self.values, low, np.where(self.shown, self.values + self.half, np.inf))


@dataclass(frozen=True)
class Quotation:
    """What an article prints in place of numbers: a formula in index notation, or lines of code.

    `indices` are the letters of the formula's axes. Code is held against the step's formula by its
    `result`, an expression; `whole` says that no other line could use its parameters.
    """

    text: str
    language: Literal["notation", "python"]
    indices: tuple[str, ...] = ()
    result: str | None = None
    whole: bool = False


@dataclass(frozen=True, eq=False)
class Step:
    """One step: given (no formula), computed (a formula), printed or not.

    `between` is what the article says of numbers that it does not print; `produces` are the tokens
    that must each have a column.
    """

    id: str
    title: Bilingual
    formula: str | None = None
    tree: Node | None = None
    inputs: tuple[str, ...] = ()
    printed: Digits | Words | None = None
    decimals: int | None = None
    unchecked: Bilingual | None = None
    rows: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    any_order: bool = False
    ignore_case: bool = False
    between: tuple[float, float] | None = None
    produces: tuple[str, ...] = ()
    quoted: Quotation | None = None

    @cached_property
    def complete(self) -> bool:
        """Whether every number or word of it is printed."""
        if isinstance(self.printed, Digits):
            return bool(self.printed.shown.all())
        return self.printed is not None


@dataclass(frozen=True, eq=False)
class Example:
    """A worked example, and where it was read from; `shipped` if it comes with Glassformer."""

    name: str
    title: Bilingual
    steps: tuple[Step, ...]
    source: str
    shipped: bool = False
    _by_id: dict[str, Step] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_by_id", {step.id: step for step in self.steps})

    def __getitem__(self, id_: str) -> Step:
        if id_ not in self._by_id:
            raise UnknownNameError("step", id_, self._by_id)
        return self._by_id[id_]

    def in_order(self) -> Iterator[Step]:
        """The steps, each after those it is computed from; otherwise as they stand.

        Without recursion: a chain may be as long as the example. A step that leads back to itself
        is refused.
        """
        done: set[str] = set()
        for first in self.steps:
            waiting = [(first, iter(first.inputs))]
            entered = {first.id}
            while waiting:
                step, inputs = waiting[-1]
                name = next((name for name in inputs if name not in done), None)
                if name is None:
                    waiting.pop()
                    if step.id not in done:
                        done.add(step.id)
                        yield step
                elif name in entered:
                    raise ConfigError(
                        "{source}: step {name!r}: expected a formula of other steps, got one that "
                        "leads back to itself",
                        source=self.source,
                        name=name,
                    )
                else:
                    entered.add(name)
                    waiting.append((self._by_id[name], iter(self._by_id[name].inputs)))

    def ancestors(self, step: Step) -> set[str]:
        """All steps that a step is computed from, near and far."""
        return self._ancestors[step.id]

    @cached_property
    def _ancestors(self) -> dict[str, set[str]]:
        place = {step.id: at for at, step in enumerate(self.steps)}
        found: dict[str, int] = {}  # a bit for each step: sets of a thousand steps join at once
        for step in self.in_order():
            found[step.id] = 0
            for name in step.inputs:
                found[step.id] |= found[name] | 1 << place[name]
        return {
            id_: {other for other, at in place.items() if bits >> at & 1}
            for id_, bits in found.items()
        }


# --- notation ---
# Formulas as articles print them, in index notation: `y[i, c] = sum_j(w[i, j] * v[j, c])`.
#
# The formula language of examples works on whole matrices, where an index that is lost or a prime
# that is missing cannot even be written down. Here every axis has a letter, and a formula means
# what it says, mistakes included. Python's own parser reads it; nothing of it is ever run as
# Python.


say = words("glassformer.audit.audit")

_LONGEST = 500  # characters
_DEEPEST = 100  # one inside the other: signs, brackets, the terms of a sum
_EACH_NODE = 150  # work to make an edited copy of a formula, in numbers computed
_PLAIN: Mapping[str, Callable[[Array], Array]] = {"exp": np.exp, "sqrt": np.sqrt, "log": np.log}
_ALONG = re.compile(r"(sum|mean|softmax)_([a-z])")
_OPERATORS: Mapping[type[ast.operator], Callable[[Array, Array], Array]] = {
    ast.Add: np.add, ast.Sub: np.subtract, ast.Mult: np.multiply, ast.Div: np.divide,
    ast.Pow: np.power,
}  # fmt: skip


class NotationError(ConfigError):
    """A printed formula that has no meaning: an unknown symbol, an index left over."""

    def __init__(self, template: str, **fields: object) -> None:
        self.said = say.both(template, **fields)
        super().__init__(self.said.en)


@dataclass(frozen=True)
class Edit:
    """What to change in a printed formula, and the formula that it gives."""

    kind: str
    name: Bilingual
    detail: Bilingual
    place: int
    formula: Notation


@dataclass(frozen=True, eq=False)
class _Lettered:
    """Numbers, with a letter for each axis."""

    values: Array
    letters: str = ""

    def spread(self, letters: str) -> Array:
        """The numbers with their axes in another order, and new ones of size 1."""
        kept = [letter for letter in letters if letter in self.letters]
        turned = self.values.transpose([self.letters.index(letter) for letter in kept])
        sizes = iter(turned.shape)
        return turned.reshape([next(sizes) if part in self.letters else 1 for part in letters])


class Notation:
    """A formula in index notation."""

    def __init__(self, text: str | ast.Expression) -> None:
        self._tree = _parsed(text) if isinstance(text, str) else text
        for node in ast.walk(self._tree):
            _check(node)

    @property
    def text(self) -> str:
        """The formula as a reader writes it."""
        return shown(self._tree.body)

    def symbols(self) -> list[str]:
        """The steps that it names, each once."""
        return list(dict.fromkeys(node.id for node in self._symbol_nodes()))

    def value(
        self, steps: Mapping[str, Array], indices: str, shape: tuple[int, ...], work: Work
    ) -> Array:
        """What it gives for each of the indices; one that does not depend on an index repeats."""
        found = _value(self._tree.body, steps, work)
        over = [letter for letter in found.letters if letter not in indices]
        if over:
            raise NotationError("the index {over} is left over", over=over[0])
        try:
            return np.broadcast_to(found.spread(indices), shape)
        except ValueError:
            given = shape_of(found.values.shape)
            raise NotationError("gives {given}", given=given) from None

    def edits(self, steps: Mapping[str, Array], indices: str, work: Work) -> Iterator[Edit]:
        """The formulas that one small change of print makes of it."""
        size = _EACH_NODE * sum(1 for _ in ast.walk(self._tree))
        for edit in self._edits(steps, indices):
            work.take(size)
            yield edit

    def _edits(self, steps: Mapping[str, Array], indices: str) -> Iterator[Edit]:
        letters = {node.id for node in self._letter_nodes()} | {*indices}
        places = {id(node): place for place, node in enumerate(ast.walk(self._tree))}
        for node in ast.walk(self._tree):
            match node:
                case ast.Subscript(value=ast.Name()):
                    for letter in _letters(node):
                        for other in sorted(letters - {letter.id}):
                            yield self._renamed(places, letter, other, node, "subscript")
                case ast.BinOp(op=ast.Pow()):
                    yield self._changed(places[id(node)], _Product(), node, "power")
                case ast.BinOp(op=ast.Add()):
                    for side in _SIDES:
                        yield self._changed(places[id(node)], _OneSide(side), node, "term")
        for symbol in self._symbol_nodes():
            for other, value in steps.items():
                if other != symbol.id and value.ndim == _axes(self._tree, symbol):
                    whole = _subscript_of(self._tree, symbol) or symbol
                    yield self._renamed(places, symbol, other, whole, "symbol")
            base, digit = symbol.id[:-1], symbol.id[-1]
            if symbol.id not in steps and base in steps and digit in "23":
                power = _Power(base, int(digit))
                yield self._changed(places[id(symbol)], power, symbol, "power")

    def edited_twice(
        self, steps: Mapping[str, Array], indices: str, work: Work
    ) -> Iterator[tuple[Edit, Edit]]:
        """Two such changes, in two places."""
        for first in self.edits(steps, indices, work):
            for second in first.formula.edits(steps, indices, work):
                if second.place > first.place:
                    yield first, second

    def _symbol_nodes(self) -> list[ast.Name]:
        others = {id(node) for node in self._letter_nodes()}
        others |= {id(n.func) for n in ast.walk(self._tree) if isinstance(n, ast.Call)}
        names = [node for node in ast.walk(self._tree) if isinstance(node, ast.Name)]
        return [node for node in names if id(node) not in others]

    def _letter_nodes(self) -> list[ast.Name]:
        found = [node for node in ast.walk(self._tree) if isinstance(node, ast.Subscript)]
        return [letter for node in found for letter in _letters(node)]

    def _renamed(
        self, places: Mapping[int, int], node: ast.Name, new: str, whole: ast.expr, kind: str
    ) -> Edit:
        old, node.id = node.id, new
        try:
            after = shown(whole)
            tree = copy.deepcopy(self._tree)
        finally:
            node.id = old
        return _edit(kind, shown(whole), after, places[id(node)], Notation(tree))

    def _changed(self, place: int, change: ast.NodeTransformer, node: ast.expr, kind: str) -> Edit:
        tree = copy.deepcopy(self._tree)
        target = next(part for at, part in enumerate(ast.walk(tree)) if at == place)
        new = change.visit(target)
        made = ast.Expression(cast(ast.expr, _Put(target, new).visit(tree.body)))
        if isinstance(change, _OneSide) and isinstance(node, ast.BinOp):
            over = shown(node.right if change.side == "left" else node.left)
            detail = say.both("{over} does not belong there", over=over)
            return Edit(kind, _NAMES[kind], detail, place, Notation(made))
        return _edit(kind, shown(node), shown(new), place, Notation(made))


_SIDES: tuple[Literal["left", "right"], ...] = ("left", "right")

_NAMES = {
    "subscript": say.both("an index printed wrong"),
    "symbol": say.both("another symbol printed"),
    "power": say.both("an exponent printed wrong"),
    "term": say.both("a term too many"),
}


def _edit(kind: str, printed: str, meant: str, place: int, formula: Notation) -> Edit:
    detail = say.both("{printed} where {meant} belongs", printed=printed, meant=meant)
    return Edit(kind, _NAMES[kind], detail, place, formula)


class _Product(ast.NodeTransformer):
    def visit_BinOp(self, node: ast.BinOp) -> ast.BinOp:
        return ast.BinOp(node.left, ast.Mult(), node.right)


@dataclass
class _OneSide(ast.NodeTransformer):
    side: Literal["left", "right"]

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        return node.left if self.side == "left" else node.right


@dataclass
class _Power(ast.NodeTransformer):
    base: str
    exponent: int

    def visit_Name(self, node: ast.Name) -> ast.BinOp:
        return ast.BinOp(ast.Name(self.base, node.ctx), ast.Pow(), ast.Constant(self.exponent))


@dataclass
class _Put(ast.NodeTransformer):
    old: ast.AST
    new: ast.AST

    def visit(self, node: ast.AST) -> ast.AST:
        return self.new if node is self.old else super().generic_visit(node)


def shown(node: ast.expr) -> str:
    """A part of a formula as a reader writes it: ^ for powers, a prime for `_prime`."""
    return ast.unparse(node).replace(" ** ", "^").replace("_prime", "′")


def _parsed(text: str) -> ast.Expression:
    if len(text) > _LONGEST:
        raise ConfigError(f"expected at most {_LONGEST} characters of a printed formula")
    plain = text.replace("^", "**").replace("·", "*").replace("×", "*").replace("−", "-")
    try:
        tree = ast.parse(plain, mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ConfigError(
            f"expected a formula such as sum_j(w[i, j] * v[j, c]), got {text!r}"
        ) from None
    level: list[ast.AST] = [tree]
    for _ in range(_DEEPEST):
        level = [inside for node in level for inside in ast.iter_child_nodes(node)]
    if level:
        raise ConfigError(
            f"expected a printed formula at most {_DEEPEST} parts deep, got {text[:20]!r}…"
        )
    return tree


def _check(node: ast.AST) -> None:
    """Refuse what is no part of the notation, before anything is computed."""
    match node:
        case ast.Expression() | ast.Name() | ast.Load() | ast.Tuple() | ast.UnaryOp() | ast.USub():
            return
        case ast.BinOp(op=operator) if type(operator) in _OPERATORS:
            return
        case ast.Constant(value=value) if isinstance(value, int | float):
            return
        case ast.Call(func=ast.Name(id=name), args=[_], keywords=[]):
            if name in _PLAIN or _ALONG.fullmatch(name):
                return
        case ast.Subscript(value=ast.Name()) if _letters(node):
            return
        case ast.operator():
            return
    what = ast.unparse(node) if isinstance(node, ast.expr) else type(node).__name__
    raise ConfigError(f"expected index notation such as sum_j(w[i, j] * v[j, c]), got {what!r}")


def _letters(node: ast.Subscript) -> list[ast.Name]:
    parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    names = [part for part in parts if isinstance(part, ast.Name) and len(part.id) == 1]
    return names if len(names) == len(parts) else []


def _subscript_of(tree: ast.Expression, symbol: ast.Name) -> ast.Subscript | None:
    found = (node for node in ast.walk(tree) if isinstance(node, ast.Subscript))
    return next((node for node in found if node.value is symbol), None)


def _axes(tree: ast.Expression, symbol: ast.Name) -> int:
    whole = _subscript_of(tree, symbol)
    return 0 if whole is None else len(_letters(whole))


def _value(node: ast.expr, steps: Mapping[str, Array], work: Work) -> _Lettered:
    match node:
        case ast.Constant(value=int() | float() as number):
            return _number(number)
        case ast.Name(id=name):
            return _step(name, "", steps)
        case ast.Subscript(value=ast.Name(id=name)):
            return _step(name, "".join(letter.id for letter in _letters(node)), steps)
        case ast.UnaryOp(operand=operand):
            inside = _value(operand, steps, work)
            return _Lettered(-inside.values, inside.letters)
        case ast.BinOp(left=left, op=operator, right=right):
            a, b = _value(left, steps, work), _value(right, steps, work)
            letters = a.letters + "".join(part for part in b.letters if part not in a.letters)
            first, second = a.spread(letters), b.spread(letters)
            try:
                size = math.prod(np.broadcast_shapes(first.shape, second.shape))
            except ValueError:
                said = shown(node)
                raise NotationError("an index of {said} has two sizes", said=said) from None
            if size > MOST_NUMBERS:
                raise NotationError("more than {most_numbers} numbers", most_numbers=MOST_NUMBERS)
            work.take(size)
            return _Lettered(np.asarray(_OPERATORS[type(operator)](first, second)), letters)
        case ast.Call(func=ast.Name(id=name), args=[argument]):
            inside = _value(argument, steps, work)
            work.take(inside.values.size)
            return _called(name, inside)
    said = shown(node)
    raise NotationError("{said} is no part of a formula", said=said)


def _number(number: float) -> _Lettered:
    try:
        return _Lettered(np.asarray(float(number)))
    except OverflowError:
        raise NotationError("a number is too large") from None


def _step(name: str, letters: str, steps: Mapping[str, Array]) -> _Lettered:
    said = name.replace("_prime", "′")
    if name not in steps:
        raise NotationError("{said} is not defined", said=said)
    value = steps[name]
    if value.ndim != len(letters) or len(set(letters)) != len(letters):
        raise NotationError(
            "{said} has {ndim} indices, not {n_letters}",
            said=said,
            ndim=value.ndim,
            n_letters=len(letters),
        )
    return _Lettered(value, letters)


def _called(name: str, inside: _Lettered) -> _Lettered:
    if name in _PLAIN:
        return _Lettered(_PLAIN[name](inside.values), inside.letters)
    along = _ALONG.fullmatch(name)
    assert along is not None
    function, letter = along[1], along[2]
    if letter not in inside.letters:
        raise NotationError("nothing to sum over {letter}", letter=letter)
    axis = inside.letters.index(letter)
    if function == "softmax":
        powers = np.exp(inside.values - inside.values.max(axis=axis, keepdims=True))
        return _Lettered(powers / powers.sum(axis=axis, keepdims=True), inside.letters)
    reduce = np.sum if function == "sum" else np.mean
    return _Lettered(
        np.asarray(reduce(inside.values, axis=axis)), inside.letters.replace(letter, "")
    )


# --- printed ---
# Printed numbers as they stand in an example file → `Digits`.
#
# A cell is a number, `null` where nothing is printed, `"-inf"`, or a formula of numbers alone such
# as `"2*1/6"`, for an article that prints one. `"..."` stands for as many unprinted cells (or rows)
# as the declared shape leaves open.


_ELLIPSIS = ("...", "…")
_MINUS_INFINITY = ("-inf", "−∞", "-∞", "-Infinity")
_MOST_FORMULA = 200  # characters of a printed formula
_MOST_DECIMALS = 12  # beyond that float64 itself is the limit
_LARGEST = 1e100  # beyond that products overflow


def read_digits(
    cells: Any,
    shape: tuple[int, ...] | None,
    decimals: Any,
    significant: Any,
    exact: bool,
    work: Work,
) -> Digits:
    """The digits of a step; raises `ConfigError` with what was expected and what came.

    `work` is what the printed formulas of the whole example may take.
    """
    values = _numbers(cells, shape, work)
    if exact and decimals is None and significant is None:
        return Digits(values, np.zeros(values.shape, dtype=np.int64), exact=True)
    places = _places(values, decimals, significant)
    _check_precision(values, places)
    return Digits(values, places, exact)


def _numbers(cells: Any, shape: tuple[int, ...] | None, work: Work) -> Array:
    if shape is not None:
        check_size(shape)
    check_size(_shape(cells))
    nested = _fill(cells, shape)
    found = _shape(nested)
    check_size(found)
    if shape is not None and found != shape:
        raise ConfigError(f"expected the declared {shape_of(shape)}, got {shape_of(found)}")
    flat: list[float] = []
    _collect(nested, found, flat, [], work)
    return np.array(flat, dtype=np.float64).reshape(found)


def _fill(cells: Any, shape: tuple[int, ...] | None) -> Any:
    """Replace each "..." and each missing row by the unprinted cells it stands for."""
    if shape and (cells is None or cells in _ELLIPSIS):
        cells = [None] * shape[0]
    if not isinstance(cells, list):
        return cells
    dots = [i for i, cell in enumerate(cells) if isinstance(cell, str) and cell in _ELLIPSIS]
    if dots:
        if not shape:
            raise ConfigError('expected a "shape" beside printed "..."')
        open_ = shape[0] - (len(cells) - 1)
        if len(dots) > 1 or open_ < 0:
            raise ConfigError(f'expected one "..." and at most {shape[0]} cells beside it')
        cells = cells[: dots[0]] + [None] * open_ + cells[dots[0] + 1 :]
    if shape and len(cells) != shape[0]:
        return cells  # not filled up to another size than was declared, and refused for it
    below = shape[1:] if shape else None
    return [_fill(cell, below) for cell in cells]


def _shape(cells: Any) -> tuple[int, ...]:
    """The shape that the first cells show; whether the others have it is seen on the way."""
    shape: list[int] = []
    while isinstance(cells, list):
        if not cells:
            raise ConfigError("expected at least one number, got an empty list")
        shape.append(len(cells))
        cells = cells[0]
    return tuple(shape)


def _collect(
    cells: Any, shape: tuple[int, ...], flat: list[float], at: list[int], work: Work
) -> None:
    if shape:
        if not isinstance(cells, list) or len(cells) != shape[0]:
            got = f"{len(cells)}" if isinstance(cells, list) else "a single number"
            raise ConfigError(f"ragged rows: expected {shape[0]} cells at {at}, got {got}")
        for i, cell in enumerate(cells):
            _collect(cell, shape[1:], flat, [*at, i], work)
        return
    flat.append(_cell(cells, at, work))


def _cell(cell: Any, at: list[int], work: Work) -> float:
    if cell is None:
        return math.nan
    if isinstance(cell, str):
        if cell in _MINUS_INFINITY:
            return -math.inf
        value = _formula(cell, work)
        if isinstance(value, Numbers) and not value.shape and np.isfinite(value.mid):
            return float(value.mid)
    elif isinstance(cell, int | float) and not isinstance(cell, bool) and abs(cell) < _LARGEST:
        return float(cell)
    elif isinstance(cell, list):
        raise ConfigError(f"ragged rows: expected a number at {at}, got a list")
    raise ConfigError(f"expected a number at {at}, got {cell!r}")


def _formula(cell: str, work: Work) -> Value:
    if len(cell) > _MOST_FORMULA:
        raise ConfigError(
            f"expected a printed formula of at most {_MOST_FORMULA} characters, got {len(cell)}"
        )
    try:
        work.take(10 * len(cell))
        return Evaluator({}, work=work).value(parse(cell))
    except WorkSpentError:
        raise FormulaError("expected fewer printed formulas") from None


def _places(values: Array, decimals: Any, significant: Any) -> np.ndarray:
    if significant is not None:
        if decimals is not None:
            raise ConfigError('expected either "decimals" or "significant", got both')
        digits = _whole(significant, "significant", 1)
        with np.errstate(all="ignore"):
            leading = np.floor(np.log10(np.abs(values)))
        leading = np.where(np.isfinite(leading), leading, 0)
        return np.asarray(digits - 1 - leading, dtype=np.int64)
    if isinstance(decimals, list):
        if not values.shape or len(decimals) != values.shape[-1]:
            raise ConfigError(
                f"expected decimals for each of {values.shape[-1] if values.shape else 1} columns, "
                f"got {len(decimals)}"
            )
        each = [_whole(part, "decimals", 0) for part in decimals]
        return np.broadcast_to(np.array(each, dtype=np.int64), values.shape).copy()
    return np.full(values.shape, _whole(decimals, "decimals", 0), dtype=np.int64)


def _whole(value: Any, what: str, least: int) -> int:
    if (
        isinstance(value, bool)
        or not isinstance(value, int)
        or not least <= value <= _MOST_DECIMALS
    ):
        raise ConfigError(
            f'expected "{what}" as a whole number from {least} to {_MOST_DECIMALS}, got {value!r}'
        )
    return value


def _check_precision(values: Array, places: np.ndarray) -> None:
    """A number with more decimals than its step declares: one of the two is a mistake."""
    finite = np.isfinite(values)
    scaled = np.where(finite, values, 0.0) * 10.0**places
    off = finite & (np.abs(scaled - np.rint(scaled)) > 1e-6 * np.maximum(1.0, np.abs(scaled)))
    if off.any():
        at = tuple(int(part) for part in np.argwhere(off)[0])
        value, place = float(values[at]), int(places[at])
        raise ConfigError(f"expected at most {place} decimals at {list(at)}, got {value!r}")
