"""Audits that are open: shipped examples by name, and the last few files that were sent."""

from __future__ import annotations

import re
import secrets
import threading
from collections import OrderedDict
from typing import Literal

import numpy as np

from glassformer.audit import Audit, StepResult, Verdict, audit, example_names, load_example
from glassformer.audit.audit_report import (
    MARKS,
    VERDICT_MEANINGS,
    VERDICT_NAMES,
    audit_document,
    counted_steps,
    finding_text,
    listed_values,
)
from glassformer.audit.cell_arithmetic import cell_arithmetic
from glassformer.audit.example import PrintedDigits
from glassformer.audit.example_file import example_of_bytes
from glassformer.audit.formulas.bounds import BoundedNumbers, WordList
from glassformer.audit.recomputation import FromPrint
from glassformer.audit.verdicts import PrintedCell, printed_cells, right_text
from glassformer.documents import render
from glassformer.errors import InputError, UnknownNameError
from glassformer.explorer.open_traces import DroppedError
from glassformer.explorer.schemas import JsonNumber, Message
from glassformer.language import Language

AuditFormat = Literal["md", "tex", "html", "xlsx", "json"]


class AuditSummary(Message):
    """A shipped example."""

    name: str
    title: str
    n_steps: int


class AuditVerdictInfo(Message):
    """A verdict: its sign, what it is called, what it means, and how many steps have it."""

    name: Verdict
    mark: str
    label: str
    meaning: str
    n_steps: int


class AuditCellInfo(Message):
    """A number or word where it is printed; `verdict` is null where nothing is."""

    text: str
    verdict: Verdict | None
    right: str | None


class AuditStepInfo(Message):
    """A step of the example: its cells in reading order, and what was found."""

    id: str
    title: str
    formula: str | None
    quoted: str | None
    """What it prints in place of numbers: a formula or code."""
    verdict: Verdict
    finding: str
    """Why, in words; empty where there is nothing to say."""
    slip: str | None
    right: str | None
    """What should stand there as a whole, where its length or shape is wrong."""
    causes: list[str]
    """The wrong steps that it follows from."""
    shape: list[int]
    rows: list[str]
    columns: list[str]
    cells: list[AuditCellInfo]


class AuditInfo(Message):
    """A worked example with a verdict on each printed number."""

    id: str
    name: str
    title: str
    counted: str
    """How many steps got each verdict, in words."""
    verdicts: list[AuditVerdictInfo]
    steps: list[AuditStepInfo]


class ArithmeticInfo(Message):
    """One operation: `name = numbers = value`."""

    name: str
    numbers: str
    value: JsonNumber


class AuditCellCard(Message):
    """Everything about one printed number."""

    step: str
    index: list[int]
    printed: str
    verdict: Verdict | None
    right: str | None
    slip: str | None
    finding: str
    end_to_end: str | None
    """What the whole chain gives from the given numbers, where that differs."""
    formula: str | None
    arithmetic: list[ArithmeticInfo]


MOST_FILES = 8
"""Files that are kept; the page sends one again if it was dropped."""


class OpenAudits:
    """Audits by id; a shipped example's id is its name."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._shipped: dict[str, Audit] = {}
        self._files: OrderedDict[str, Audit] = OrderedDict()

    def summaries(self, language: Language) -> list[AuditSummary]:
        """The shipped examples."""
        examples = map(load_example, example_names())
        return [
            AuditSummary(name=one.name, title=one.title.say(language), n_steps=len(one.steps))
            for one in examples
        ]

    def send(self, raw: bytes, name: str, language: Language) -> AuditInfo:
        """Audit a file; raises one line that says where it is wrong if it is no example."""
        made = audit(example_of_bytes(raw, name))
        id_ = f"file-{secrets.token_urlsafe(9)}"
        with self._lock:
            self._files[id_] = made
            while len(self._files) > MOST_FILES:
                self._files.popitem(last=False)
        return _info(id_, made, language)

    def get(self, id_: str, language: Language) -> AuditInfo:
        """An audit that is open, or that of a shipped example."""
        return _info(id_, self.find(id_), language)

    def cell(self, id_: str, step: str, index: list[int], language: Language) -> AuditCellCard:
        """One printed number, with the arithmetic that gives the right one."""
        found = self.find(id_)
        result = found[step]
        cell = next((one for one in printed_cells(result) if list(one.index) == index), None)
        if cell is None:
            raise InputError("step {step} prints no number at {index}", step=step, index=index)
        lines = cell_arithmetic(FromPrint(found.example), result.step, cell.index)
        return AuditCellCard.copy_of(
            cell,
            step=step,
            printed=cell.text,
            slip=result.slip(language) if cell.verdict == "wrong" else None,
            finding=finding_text(result, found.example, language),
            end_to_end=_end_to_end(result, cell),
            formula=result.step.formula,
            arithmetic=lines,
        )

    def export(self, id_: str, to: AuditFormat, language: Language) -> tuple[str, bytes]:
        """The audit as a file of one of the formats of `glassformer audit --to`, and its name."""
        found = self.find(id_)
        made = render(audit_document(found, language), to)
        assert isinstance(made, str | bytes)
        name = re.sub(r"[^A-Za-z0-9._-]+", "-", found.example.name)[:80]  # it becomes a header
        return f"audit-{name}.{to}", made.encode() if isinstance(made, str) else made

    def find(self, id_: str) -> Audit:
        """Raises `DroppedError` for a file that is not kept any more."""
        with self._lock:
            if id_ in self._files:
                self._files.move_to_end(id_)
                return self._files[id_]
            if id_ in self._shipped:
                return self._shipped[id_]
        if id_ not in example_names():
            if id_.startswith("file-"):
                raise DroppedError
            raise UnknownNameError("example", id_[:80], example_names())
        made = audit(load_example(id_))  # without the lock: others need not wait for it
        with self._lock:
            return self._shipped.setdefault(id_, made)


def _info(id_: str, found: Audit, language: Language) -> AuditInfo:
    return AuditInfo(
        id=id_,
        name=found.example.name,
        title=found.example.title.say(language),
        counted=counted_steps(found, language),
        verdicts=[
            AuditVerdictInfo(
                name=verdict,
                mark=MARKS[verdict],
                label=VERDICT_NAMES[verdict].say(language),
                meaning=VERDICT_MEANINGS[verdict].say(language),
                n_steps=count,
            )
            for verdict, count in found.counts.items()
        ],
        steps=[_step(result, found, language) for result in found.results],
    )


def _step(result: StepResult, found: Audit, language: Language) -> AuditStepInfo:
    step = result.step
    printed = step.printed
    shape = printed.values.shape if isinstance(printed, PrintedDigits) else ()
    cells = printed_cells(result)
    return AuditStepInfo.copy_of(
        step,
        title=step.title.say(language),
        quoted=None if step.quoted is None else step.quoted.text,
        verdict=result.verdict,
        finding=finding_text(result, found.example, language),
        slip=result.slip(language) if result.verdict == "wrong" else None,
        right=_whole(result),
        causes=result.causes,
        shape=list(shape) or ([len(cells)] if len(cells) > 1 else []),
        cells=cells,
    )


def _whole(result: StepResult) -> str | None:
    """The right words or numbers of a step that prints too many or too few."""
    found = result.comparison
    if result.verdict != "wrong" or found is None or found.same_shape:
        return None
    value = result.right
    return listed_values(value) if isinstance(value, BoundedNumbers | WordList) else None


def _end_to_end(result: StepResult, cell: PrintedCell) -> str | None:
    """What the given numbers lead to, where it differs from what is printed and from `right`."""
    value, digits = result.end_to_end, result.step.printed
    if not isinstance(value, BoundedNumbers) or not isinstance(digits, PrintedDigits):
        return None
    if value.shape != digits.values.shape or not np.isfinite(value.mid[cell.index]):
        return None
    text = right_text(value, cell.index, int(digits.decimals[cell.index]))
    return None if text in (cell.text, cell.right) else text
