"""The messages of audits on the page: verdicts where the numbers are printed."""

from __future__ import annotations

from typing import Literal

from glassformer.audit import Verdict
from glassformer.explorer.schemas import Message, Number

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
    value: Number


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
