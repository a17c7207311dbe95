"""A recorded run: its steps, its answer, its matrices; edits of it and files made from it."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from glassformer.explorer.schemas.base import (
    MOST_CHARACTERS,
    Bilingual,
    Language,
    Message,
    Number,
    Task,
)

__all__ = [
    "Answer",
    "AnswerPosition",
    "AttentionInfo",
    "BranchInfo",
    "CellRef",
    "Changes",
    "Choice",
    "Edit",
    "EditRequest",
    "Equation",
    "ExportRequest",
    "OperandInfo",
    "PanelInfo",
    "ScaleInfo",
    "SourceInfo",
    "StepChange",
    "StepInfo",
    "Thumbnail",
    "TraceInfo",
    "TraceRequest",
]


class TraceRequest(Message):
    """Run a model over a text and record every number."""

    model: str
    text: Annotated[str, Field(min_length=1, max_length=MOST_CHARACTERS)]
    target: Annotated[str, Field(max_length=MOST_CHARACTERS)] | None = None
    """A translator's target; otherwise the one that it produces."""


class SourceInfo(Message):
    """The source line that made a step."""

    file: str
    line: int
    text: str
    before: list[str] = Field(default=[])
    """Lines above it, for a look around."""
    after: list[str] = Field(default=[])


class ScaleInfo(Message):
    """How numbers become colours: diverging about 0, or 0 to 1."""

    kind: Literal["signed", "probability"]
    limit: float


class OperandInfo(Message):
    """A tensor that a step was made from."""

    argument: str
    step: int | None
    """The step that wrote it; None where several did."""
    shape: list[int]


class StepInfo(Message):
    """One tensor of a trace, without its numbers."""

    number: int
    name: str
    short: str
    """Its name as seen from its module."""
    symbol: str | None
    """As formulas write it, in LaTeX: `W_Q`, `Q`, `K^\\top`; None where it has none."""
    role: Literal["parameter", "input", "activation", "constant"]
    op: str
    module: str
    shape: list[int]
    dtype: str
    labels: list[int | None]
    """For each axis the place of its labels in `TraceInfo.labels`."""
    scale: ScaleInfo | None
    """None for ids and other whole numbers."""
    operands: list[OperandInfo]
    readers: list[int]
    """The steps that were made from this one."""
    source: SourceInfo | None
    is_view: bool
    is_expanded: bool
    is_opaque: bool
    is_main: bool
    """Whether a reader who looks at the fold first should see it: not bookkeeping."""


class BranchInfo(Message):
    """A module in the tree."""

    name: str
    path: str
    kind: str
    """The module's class."""
    steps: list[int]
    parameters: list[int]
    branches: list[BranchInfo]
    is_open: bool
    """Whether it is unfolded at first."""


class AttentionInfo(Message):
    """One attention layer: where its weights are."""

    module: str
    part: Literal["encoder", "decoder", "cross"]
    layer: int
    n_heads: int
    weights: int
    """The number of the step with the weights, (B, H, Q, K)."""


class CellRef(Message):
    """A cell, as a link."""

    step: int
    index: list[int]
    name: str
    """`scores[0, 1]`, from its module."""
    role: Literal["parameter", "input", "activation", "constant"]
    value: Number
    labels: list[str | None]
    """For each axis what its position is called: a token, `head 2`, or None."""


class Choice(Message):
    """One thing that the model could answer."""

    text: str
    probability: float
    cell: CellRef
    """The logit it comes from."""


class AnswerPosition(Message):
    """What a model that writes would put in one place, most probable first."""

    after: str
    """The token before it."""
    chosen: str | None
    """The token that stands there in the recorded target; None after the last one."""
    choices: list[Choice]


class Answer(Message):
    """What the model says, computed from the trace's own outputs: an edit changes it."""

    task: Task
    text: str
    """The class; the translation, read off the most probable token of each place; the most probable
    next token of a language model; or the shape of a module's output."""
    continuation: str | None = None
    """What a language model goes on to write, greedily; None after an edit, which would have to
    be made again for every further token."""
    classes: list[Choice] = Field(default=[])
    positions: list[AnswerPosition] = Field(default=[])
    output: int | None = None
    """The number of the step with the outputs."""
    n_tokens: int = 0
    """How many tokens the text has; 0 where there is no text."""
    n_unknown: int = 0
    """How many of them the model's vocabulary does not know: if all, the answer means nothing."""


class Edit(Message):
    """One number set to another."""

    step: str
    """By name: it stays the same from trace to trace."""
    index: list[int]
    value: Number
    before: Number | None = None


class TraceInfo(Message):
    """A recorded run: everything but its numbers."""

    id: str
    model: str
    text: str
    target: str | None
    task: Task
    answer: Answer
    before: Answer | None
    """The answer before the edits."""
    edits: list[Edit]
    """All edits since the first run, oldest first."""
    parent: str | None
    """The trace before the last edit."""
    root: str
    """The trace before any edit."""
    reran: bool
    """Whether an edit changed control flow, so that the model ran anew."""
    labels: list[list[str]]
    steps: list[StepInfo]
    tree: BranchInfo
    outputs: list[int]
    inputs: list[int]
    attention: list[AttentionInfo]
    first: int
    """The step to show first."""
    notes: list[Bilingual]
    """What a reader should know about how it was made; what edits did is in `edits`."""
    n_bytes: int


class Thumbnail(Message):
    """A small picture of a step: `rows` × `columns` bytes, base64; 255 is no finite number."""

    step: int
    rows: int
    columns: int
    data: str


class PanelInfo(Message):
    """A matrix to draw; its numbers come from `…/values` with the same place."""

    step: int | None
    """The step whose cells these are, where one step wrote them all."""
    operand: int | None
    """Which operand of the equation's step it is; None for the step itself."""
    title: str
    symbol: str | None
    """In LaTeX."""
    shape: list[int]
    lead: list[int]
    """The places of the axes before the last two."""
    rows: int | None
    """The place of the row labels in `TraceInfo.labels`."""
    columns: int | None
    transposed: bool
    """Whether it is drawn turned over, as the formula has it."""
    role: Literal["parameter", "input", "activation", "constant"]
    scale: ScaleInfo | None


class Equation(Message):
    """A step as an equation of matrices: `parts` alternate between panels and signs."""

    step: int
    lead: list[int]
    tex: str
    """The formula, in LaTeX: `S = Q K^\\top`."""
    parts: list[PanelInfo | str]
    """Panels and what stands between them: `×`, `+`, `softmax(`, `)`, `=`."""


class EditRequest(Message):
    """Numbers to set; each edit makes a new trace, the old one stays for undo."""

    edits: Annotated[list[Edit], Field(min_length=1, max_length=64)]


class StepChange(Message):
    """How much of a step an edit changed."""

    step: int
    changed: int
    total: int
    largest: Number
    cell: CellRef


class Changes(Message):
    """What differs from the trace before the edits."""

    steps: list[StepChange]


class ExportRequest(Message):
    """A file of what is on the screen."""

    format: Literal["md", "tex", "html", "xlsx", "json"]
    steps: list[int] = Field(default=[], max_length=256)
    """None: the whole trace."""
    language: Language = "en"
