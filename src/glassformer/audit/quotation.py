"""What an article prints in place of numbers: formulas, and lines of code.

A printed formula is computed, index by index, and compared with the right one on the example's
numbers. Printed code is parsed. It is executed only for the examples that come with Glassformer,
whose lines are known; code in a user's file is never executed.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from glassformer.audit.example import PrintedDigits, PrintedStep, Quotation
from glassformer.audit.formulas.bounds import Array, BoundedNumbers
from glassformer.audit.formulas.evaluator import Work, WorkSpentError
from glassformer.audit.index_notation import FormulaEdit, Notation, NotationError
from glassformer.audit.recomputation import FromPrint
from glassformer.audit.slip import Slip
from glassformer.audit.slip_search import Search
from glassformer.audit.verdicts import Committed, SlipExplanation, StepResult, compare
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
    search = Search(from_print, as_numbers, found, slips)
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
