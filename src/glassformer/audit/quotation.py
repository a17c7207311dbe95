"""What an article prints in place of numbers: formulas, and lines of code.

A printed formula is computed, index by index, and compared with the right one on the example's
numbers. Printed code is parsed. It is executed only for the examples that come with Glassformer,
whose lines are known; code in a user's file is never executed.
"""

from __future__ import annotations

import ast
import copy
import math
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from glassformer.audit.example import PrintedDigits, PrintedStep, Quotation
from glassformer.audit.formulas.bounds import MOST_NUMBERS, Array, BoundedNumbers, shape_of
from glassformer.audit.formulas.evaluator import Work, WorkSpentError
from glassformer.audit.recomputation import FromPrint
from glassformer.audit.slip import Slip
from glassformer.audit.slip_search import SlipSearch
from glassformer.audit.verdicts import Committed, SlipExplanation, StepResult, compare
from glassformer.errors import ConfigError
from glassformer.language import Bilingual, words
from glassformer.python_source import parse_module

say = words("glassformer.audit.audit")

_DIGITS = 9  # digits to which a printed formula or code must agree with the right formula
_MOST_READINGS = 2  # corrections of a printed formula that are reported
_NO_NUMBER = say.both("the correct formula gives no number here")
_TOO_MUCH = say.both("too much to compute")
_NOT_RUN = say.both("parsed, but not run: code in a user's file is never executed")


def judge_quotation(
    from_print: FromPrint, step: PrintedStep, quoted: Quotation, slips: Sequence[Slip], work: Work
) -> StepResult:
    """The verdict on a printed formula or on printed code."""
    if quoted.language == "python":
        return _judge_code(from_print, step, quoted, slips, work)
    right = from_print.computed[step.id]
    if not isinstance(right, BoundedNumbers) or not np.all(np.isfinite(right.mid)):
        return StepResult(step, "unchecked", right, right, reason=_NO_NUMBER)
    try:
        return _judge_formula(from_print, step, quoted, right, work)
    except WorkSpentError:
        return StepResult(step, "unchecked", right, right, reason=_TOO_MUCH)


def _judge_formula(
    from_print: FromPrint, step: PrintedStep, quoted: Quotation, right: BoundedNumbers, work: Work
) -> StepResult:
    indices = "".join(quoted.indices)
    known = _known(from_print, step)
    formula = Notation(quoted.text)
    reason = None
    try:
        if step.id in formula.symbols():
            said = step.id.replace("_prime", "′")
            raise NotationError("{said} is defined in terms of itself", said=said)
        if _same(formula.value(known, indices, right.shape, work), right.mid):
            return StepResult(step, "agrees", right, right)
    except NotationError as error:
        reason = error.said
    found = _misprints(formula, known, indices, right.mid, work)
    explanations = tuple(SlipExplanation(tuple(map(_committed, edits))) for edits in found)
    if reason is None and not explanations:
        reason = say.both("gives different numbers")
    return StepResult(step, "wrong", right, right, None, explanations, reason)


def _known(from_print: FromPrint, step: PrintedStep) -> dict[str, Array]:
    """The numbers that a printed formula may refer to: those of all other steps."""
    values = {
        name: value.mid
        for name, value in from_print.used.items()
        if isinstance(value, BoundedNumbers)
    }
    values.pop(step.id, None)
    return values


def _same(value: Array, right: Array) -> bool:
    with np.errstate(all="ignore"):
        return bool(np.allclose(value, right, rtol=10.0**-_DIGITS, atol=10.0**-_DIGITS))


def _misprints(
    formula: Notation, known: Mapping[str, Array], indices: str, right: Array, work: Work
) -> list[tuple[FormulaEdit, ...]]:
    """The smallest changes of print that make the formula right: one, or otherwise two."""

    def mends(edits: tuple[FormulaEdit, ...]) -> bool:
        try:
            return _same(edits[-1].formula.value(known, indices, right.shape, work), right)
        except NotationError:
            return False

    found: list[tuple[FormulaEdit, ...]] = []
    try:
        found.extend((edit,) for edit in formula.edits(known, indices, work) if mends((edit,)))
        if not found:
            pairs = formula.edited_twice(known, indices, work)
            found.extend(pair for pair in pairs if mends(pair))
    except WorkSpentError:
        pass  # keep what was found so far
    return found[:_MOST_READINGS]


def _committed(edit: FormulaEdit) -> Committed:
    return Committed(edit.kind, edit.name, edit.detail)


# --- code ------------------------------------------------------------------------------------


def _judge_code(
    from_print: FromPrint, step: PrintedStep, quoted: Quotation, slips: Sequence[Slip], work: Work
) -> StepResult:
    right = from_print.computed.get(step.id)
    broken = _syntax(quoted)
    if broken is None and quoted.whole:
        broken = _unread(quoted)
    if broken is not None:
        return StepResult(step, "wrong", right, right, None, (SlipExplanation((broken,)),))
    if quoted.result is None:
        return StepResult(step, "agrees", right, right)
    if not from_print.example.shipped:
        return StepResult(step, "unchecked", right, right, reason=_NOT_RUN)
    assert isinstance(right, BoundedNumbers), "a shipped example"
    try:
        value = _run(quoted, _known(from_print, step))
    except Exception as error:  # whatever printed code does is a finding, not a crash
        what = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        name = say.both("the code does not run")
        failed = Committed("code", name, Bilingual(what, what))
        return StepResult(step, "wrong", right, right, None, (SlipExplanation((failed,)),))
    if value.shape == right.shape and _same(value, right.mid):
        return StepResult(step, "agrees", right, right)
    return _other_numbers(from_print, step, right, value, slips, work)


def _other_numbers(
    from_print: FromPrint,
    step: PrintedStep,
    right: BoundedNumbers,
    value: Array,
    slips: Sequence[Slip],
    work: Work,
) -> StepResult:
    """Code that runs and gives other numbers, which are searched for slips like printed ones."""
    digits = PrintedDigits(value, np.full(value.shape, _DIGITS, dtype=np.int64))
    as_numbers = replace(step, printed=digits)
    found = compare(as_numbers, right)
    search = SlipSearch(from_print, as_numbers, found, slips)
    explanations = search.one_slip(work)
    reason = say.both(
        "the code gives {code}, the formula {formula}",
        code=_first(value),
        formula=_first(right.mid),
    )
    return StepResult(step, "wrong", right, right, None, tuple(explanations), reason)


def _first(values: Array) -> str:
    flat = np.ravel(values)
    return f"{flat[0]:.4g}" + (", …" if flat.size > 1 else "")


def _syntax(quoted: Quotation) -> Committed | None:
    """The first syntax error, if any."""
    try:
        with warnings.catch_warnings(action="ignore"):
            parse_module(quoted.text)
    except SyntaxError as error:
        lines = quoted.text.splitlines()
        at = error.lineno or 1
        line = lines[min(at, len(lines)) - 1].strip()
        kind = type(error).__name__
        detail = say.both(
            "{kind} at line {at}, “{line}”: {msg}", kind=kind, at=at, line=line, msg=error.msg
        )
    except (ValueError, RecursionError, MemoryError) as error:
        detail = Bilingual(f"{error}", f"{error}")
    else:
        return None
    return Committed("syntax", say.both("not valid Python"), detail)


def _unread(quoted: Quotation) -> Committed | None:
    """A parameter that the code never reads."""
    for function in ast.walk(parse_module(quoted.text)):
        if isinstance(function, ast.FunctionDef):
            taken = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
            read = {
                node.id
                for part in function.body
                for node in ast.walk(part)
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
            }
            unread = [part.arg for part in taken if part.arg not in {*read, "self", "cls"}]
            if unread:
                names = ", ".join(unread)
                name = say.both("an unused parameter")
                detail = say.both(
                    "{name} never uses its parameter {names}", name=function.name, names=names
                )
                return Committed("unread", name, detail)
    return None


def _run(quoted: Quotation, known: Mapping[str, Array]) -> Array:
    """Run shipped code on the numbers of the example's steps."""
    import torch

    names: dict[str, Any] = {"torch": torch, "nn": torch.nn, "F": torch.nn.functional}
    for name, value in known.items():
        names[name] = torch.tensor(value) if value.ndim else _plain(float(value))
    # Only code that ships with Glassformer, as `_judge_code` has made sure.
    exec(compile(quoted.text, "<printed code>", "exec"), names)  # noqa: S102
    result = eval(quoted.result or "", names)  # noqa: S307
    return np.asarray(torch.as_tensor(result, dtype=torch.float64).detach())


def _plain(number: float) -> int | float:
    return int(number) if number.is_integer() else number


# --- index notation ---
# Formulas as articles print them, in index notation: `y[i, c] = sum_j(w[i, j] * v[j, c])`.
#
# The formula language of examples works on whole matrices, where a lost index or a missing prime
# cannot even be written down. Here every axis has a letter, and a formula means what it says,
# mistakes included. Python's parser reads it; nothing of it is ever run as Python.

_LONGEST = 500  # characters
_DEEPEST = 100  # levels of nesting: signs, brackets, the terms of a sum
_EACH_NODE = 150  # work per node for an edited copy of a formula, in numbers computed
_PLAIN: Mapping[str, Callable[[Array], Array]] = {"exp": np.exp, "sqrt": np.sqrt, "log": np.log}
_ALONG = re.compile(r"(sum|mean|softmax)_([a-z])")
_OPERATORS: Mapping[type[ast.operator], Callable[[Array, Array], Array]] = {
    ast.Add: np.add, ast.Sub: np.subtract, ast.Mult: np.multiply, ast.Div: np.divide,
    ast.Pow: np.power,
}  # fmt: skip


class NotationError(Exception):
    """A printed formula without a meaning: an unknown symbol, an index left over."""

    def __init__(self, template: str, **fields: object) -> None:
        self.said = say.both(template, **fields)
        super().__init__(self.said.en)


@dataclass(frozen=True)
class FormulaEdit:
    """A change of a printed formula, and the formula that results."""

    kind: str
    name: Bilingual
    detail: Bilingual
    place: int
    formula: Notation


@dataclass(frozen=True, eq=False)
class _Lettered:
    """Numbers with a letter for each axis."""

    values: Array
    letters: str = ""

    def spread(self, letters: str) -> Array:
        """The numbers with their axes reordered, and new axes of size 1."""
        kept = [letter for letter in letters if letter in self.letters]
        turned = self.values.transpose([self.letters.index(letter) for letter in kept])
        sizes = iter(turned.shape)
        return turned.reshape([next(sizes) if part in self.letters else 1 for part in letters])


class _Reference(NamedTuple):
    """A step that a formula refers to, its indices, and both together."""

    symbol: ast.Name
    letters: list[ast.Name]
    whole: ast.expr


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
        """The steps that it refers to, each once."""
        return list(dict.fromkeys(found.symbol.id for found in self._references()))

    def value(
        self, steps: Mapping[str, Array], indices: str, shape: tuple[int, ...], work: Work
    ) -> Array:
        """The value at each index; it repeats along an index that it does not depend on."""
        found = _value(self._tree.body, steps, work)
        over = [letter for letter in found.letters if letter not in indices]
        if over:
            raise NotationError("the index {over} is left over", over=over[0])
        try:
            return np.broadcast_to(found.spread(indices), shape)
        except ValueError:
            given = shape_of(found.values.shape)
            raise NotationError("gives {given}", given=given) from None

    def edits(self, steps: Mapping[str, Array], indices: str, work: Work) -> Iterator[FormulaEdit]:
        """The formulas that result from one small change of print."""
        size = _EACH_NODE * sum(1 for _ in ast.walk(self._tree))
        for edit in self._edits(steps, indices):
            work.take(size)
            yield edit

    def _edits(self, steps: Mapping[str, Array], indices: str) -> Iterator[FormulaEdit]:
        references = list(self._references())
        letters = {letter.id for found in references for letter in found.letters} | {*indices}
        for node in ast.walk(self._tree):
            match node:
                case ast.Subscript():
                    for letter in _letters(node):
                        for other in sorted(letters - {letter.id}):
                            yield self._edit("subscript", letter, _name(other), node)
                case ast.BinOp(left=left, op=ast.Pow(), right=right):
                    yield self._edit("power", node, ast.BinOp(left, ast.Mult(), right), node)
                case ast.BinOp(left=left, op=ast.Add(), right=right):
                    for kept, over in ((left, right), (right, left)):
                        detail = say.both("{over} does not belong there", over=shown(over))
                        yield self._edit("term", node, kept, node, detail)
        for symbol, indexed, whole in references:
            for other, value in steps.items():
                if other != symbol.id and value.ndim == len(indexed):
                    yield self._edit("symbol", symbol, _name(other), whole)
            base, digit = symbol.id[:-1], symbol.id[-1]
            if symbol.id not in steps and base in steps and digit in "23":
                power = ast.BinOp(_name(base), ast.Pow(), ast.Constant(int(digit)))
                yield self._edit("power", symbol, power, symbol)

    def _edit(
        self,
        kind: str,
        old: ast.expr,
        new: ast.expr,
        whole: ast.expr,
        detail: Bilingual | None = None,
    ) -> FormulaEdit:
        """The edit that replaces one node; `whole` is the part that is shown before and after."""
        memo = {id(old): new}  # deepcopy takes `new` for the copy of `old`
        place = next(at for at, node in enumerate(ast.walk(self._tree)) if node is old)
        if detail is None:
            printed, meant = shown(whole), shown(copy.deepcopy(whole, dict(memo)))
            detail = say.both("{printed} where {meant} belongs", printed=printed, meant=meant)
        formula = Notation(copy.deepcopy(self._tree, dict(memo)))
        return FormulaEdit(kind, _NAMES[kind], detail, place, formula)

    def edited_twice(
        self, steps: Mapping[str, Array], indices: str, work: Work
    ) -> Iterator[tuple[FormulaEdit, FormulaEdit]]:
        """Two such changes, in two places."""
        for first in self.edits(steps, indices, work):
            for second in first.formula.edits(steps, indices, work):
                if second.place > first.place:
                    yield first, second

    def _references(self) -> Iterator[_Reference]:
        """The steps that the formula refers to, from the outside in."""
        others: set[int] = set()
        for node in ast.walk(self._tree):
            match node:
                case ast.Subscript(value=ast.Name() as symbol):
                    letters = _letters(node)
                    others |= {id(symbol), *map(id, letters)}
                    yield _Reference(symbol, letters, node)
                case ast.Call(func=function):
                    others.add(id(function))
                case ast.Name() if id(node) not in others:
                    yield _Reference(node, [], node)


_NAMES = {
    "subscript": say.both("a wrong index printed"),
    "symbol": say.both("a wrong symbol printed"),
    "power": say.both("a wrong exponent printed"),
    "term": say.both("an extra term"),
}


def _name(id_: str) -> ast.Name:
    return ast.Name(id_, ast.Load())


def shown(node: ast.expr) -> str:
    """A part of a formula as a reader writes it: ^ for powers, a prime for `_prime`."""
    return ast.unparse(node).replace(" ** ", "^").replace("_prime", "′")


def _parsed(text: str) -> ast.Expression:
    if len(text) > _LONGEST:
        raise ConfigError("expected at most {most} characters of a printed formula", most=_LONGEST)
    plain = text.replace("^", "**").replace("·", "*").replace("×", "*").replace("−", "-")
    try:
        tree = ast.parse(plain, mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ConfigError(
            "expected a formula such as sum_j(w[i, j] * v[j, c]), got {text!r}", text=text
        ) from None
    level: list[ast.AST] = [tree]
    for _ in range(_DEEPEST):
        level = [inside for node in level for inside in ast.iter_child_nodes(node)]
    if level:
        raise ConfigError(
            "expected a printed formula at most {most} parts deep, got {text!r:.40}",
            most=_DEEPEST,
            text=text,
        )
    return tree


def _check(node: ast.AST) -> None:
    """Refuse whatever is not part of the notation, before anything is computed."""
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
    raise ConfigError(
        "expected index notation such as sum_j(w[i, j] * v[j, c]), got {text!r:.100}", text=what
    )


def _letters(node: ast.Subscript) -> list[ast.Name]:
    parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    names = [part for part in parts if isinstance(part, ast.Name) and len(part.id) == 1]
    return names if len(names) == len(parts) else []


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
                raise NotationError(
                    "an index of {said} has two different sizes", said=said
                ) from None
            if size > MOST_NUMBERS:
                raise NotationError("more than {most_numbers} numbers", most_numbers=MOST_NUMBERS)
            work.take(size)
            return _Lettered(np.asarray(_OPERATORS[type(operator)](first, second)), letters)
        case ast.Call(func=ast.Name(id=name), args=[argument]):
            inside = _value(argument, steps, work)
            work.take(inside.values.size)
            return _called(name, inside)
    said = shown(node)
    raise NotationError("{said} is not part of the notation", said=said)


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
