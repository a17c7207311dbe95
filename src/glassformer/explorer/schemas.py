"""The messages of the explorer's API about traces, and what all its messages have in common.

The server validates with these classes, OpenAPI is made from them, and the page's TypeScript types
are generated from that (`make web`). Messages about anything else stand with what answers them
(`open_lessons`, `open_claims`, `model_list`, …). Numbers that JSON lacks are the strings "NaN",
"Infinity" and "-Infinity". Tensors do not travel as JSON: `…/values` answers little-endian bytes.

A *trace* is one recorded run, kept in memory under an id. Its *steps* are numbered; a *cell* is a
step and an index. A *panel* is a matrix on the screen: two axes of a step (or of an operand, in the
shape in which the operator saw it), the leading axes held at `lead`.
"""

from __future__ import annotations

from typing import Annotated, Literal, Self, get_args

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    WithJsonSchema,
)

from glassformer.colours import Scale
from glassformer.documents.trace_data import NotFinite, json_number
from glassformer.language import Bilingual, Language
from glassformer.tracing.cells import Region

# --- base ---
# What all messages have in common.


JsonNumber = Annotated[
    float,
    PlainSerializer(json_number, when_used="json"),
    WithJsonSchema(
        {"anyOf": [{"type": "number"}, {"enum": get_args(NotFinite), "type": "string"}]}
    ),
]
"""A number that need not be finite; `json_number` is its JSON, which reads as a float again."""
StepNumber = Annotated[int | None, BeforeValidator(lambda step: getattr(step, "number", step))]
"""A step, as its number; None for none."""
Task = Literal["classify", "translate", "generate", "module"]
ProblemCode = Literal[
    "too_long",
    "too_many_characters",
    "empty",
    "unknown_model",
    "unknown_lesson",
    "dropped",
    "busy",
    "fault",
]
MOST_CHARACTERS = 4_000
"""The longest text that a request may hold."""


class Message(BaseModel):
    """The base of all messages: unknown fields are errors.

    Responses contain every field, so none is optional in the generated types.
    """

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        from_attributes=True,
        json_schema_serialization_defaults_required=True,
    )

    @classmethod
    def copy_of(cls, source: object, /, **fields: object) -> Self:
        """The message that has the attributes of an object, but for the fields given."""
        found = {n: getattr(source, n, ...) for n in cls.model_fields if n not in fields}
        return cls(**{n: value for n, value in found.items() if value is not ...}, **fields)


class Problem(Message):
    """Why a request was refused: one clear line, in English."""

    detail: str
    zh: str | None = None
    """The same in Chinese, where it is known."""
    code: ProblemCode | None = None
    """The kind of error, for the page to translate; None for rare ones."""
    figures: dict[str, int | str] = {}
    """The values in the translated message: `tokens` and `most`, or a `name`."""


# --- traces ---
# A recorded run: its steps, its answer, its matrices; edits of it and files made from it.


class TraceRequest(Message):
    """Run a model over a text and record every number."""

    model: str
    text: Annotated[str, Field(min_length=1, max_length=MOST_CHARACTERS)]
    target: Annotated[str, Field(max_length=MOST_CHARACTERS)] | None = None
    """A translation to trace; by default the model's own."""


class SourceInfo(Message):
    """The source line that made a step."""

    file: str
    line: int
    text: str
    before: list[str] = Field(default=[])
    """Lines above it, for context."""
    after: list[str] = Field(default=[])


class OperandInfo(Message):
    """A tensor that a step was made from."""

    argument: str
    step: StepNumber
    """The step that wrote it; None where several did."""
    shape: list[int]


class StepInfo(Message):
    """One tensor of a trace, without its numbers."""

    number: int
    name: str
    short: str
    """Its name as seen from its module."""
    symbol: str | None
    """Its symbol in LaTeX: `W_Q`, `Q`, `K^\\top`; None if it has none."""
    role: Literal["parameter", "input", "activation", "constant"]
    op: str
    module: str
    shape: list[int]
    dtype: str
    labels: list[int | None]
    """For each axis the place of its labels in `TraceInfo.labels`."""
    scale: Scale | None
    """None for ids and other integers."""
    operands: list[OperandInfo]
    readers: list[int]
    """The steps that read this one."""
    source: SourceInfo | None
    is_view: bool
    is_expanded: bool
    is_opaque: bool
    is_unwritten: bool
    """Memory that nothing has written to yet: its numbers mean nothing."""
    is_main: bool
    """Whether the collapsed tree shows it; False for bookkeeping."""
    title: Bilingual | None = None
    """What its role is called, where that is known: `attention scores`."""
    operation: Bilingual | None = None
    """What it does or holds, where it has no role: `masking`, `token ids`."""


class LessonLink(Message):
    """A step of a lesson, counted from 1."""

    lesson: str
    step: int


class PaperLink(Message):
    """A section of “Attention Is All You Need”."""

    section: str
    address: str


class MeaningInfo(Message):
    """What a step or a number is for, in two sentences with the words and numbers of the run."""

    text: str
    lesson: LessonLink | None
    paper: PaperLink | None


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
    """Whether it is expanded at first."""


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
    value: JsonNumber
    labels: list[str | None]
    """For each axis what its position is called: a token, `head 2`, or None."""


class Choice(Message):
    """One thing that the model could answer."""

    text: str
    probability: float
    cell: CellRef
    """The logit it comes from."""


class AnswerPosition(Message):
    """A generating model's candidates for one position, most probable first."""

    after: str
    """The token before it."""
    chosen: str | None
    """The token at this position of the recorded target; None after the last one."""
    choices: list[Choice]
    """The most probable ones; `chosen` comes last if it is not one of these."""


class Answer(Message):
    """The model's answer, computed from the trace's outputs, so that an edit changes it."""

    task: Task
    text: str
    """The class; the translation, by the most probable token of each position; the most probable
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
    """How many of them are unknown to the model; if all, the answer means nothing."""
    unknown: list[str] = Field(default=[])
    """Which these are, each once; the first of many."""
    undecided: bool = False
    """Whether another class is as probable, so that `text` is only the first of equals."""


class Edit(Message):
    """One number set to another, or a region of a step set to others."""

    step: Annotated[str, Field(min_length=1, max_length=400)]
    """By name: it stays the same from trace to trace. Without an index also a module: what it adds
    to the residual stream."""
    index: Annotated[list[int | None], Field(max_length=16)]
    """A place on each axis; None: the whole axis."""
    value: JsonNumber = 0.0
    to: Literal["value", "mean", "data", "other"] = "value"
    """What is put there: `value`; the mean over the positions of this run, or over those of the
    model's example texts (`data`); or what the run over `text` has there (`other`)."""
    text: Annotated[str, Field(min_length=1, max_length=MOST_CHARACTERS)] | None = None
    before: JsonNumber | None = None
    """The number that a single cell had."""


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
    """Whether an edit changed control flow, so that the model was rerun."""
    labels: list[list[str]]
    steps: list[StepInfo]
    tree: BranchInfo
    outputs: list[int]
    inputs: list[int]
    attention: list[AttentionInfo]
    first: int
    """The step to show first."""
    has_words: bool
    """Whether a number can be shared out among tokens of the input."""
    notes: list[Bilingual]
    """What a reader should know about how it was made, edits excepted."""
    n_bytes: int


class Thumbnail(Message):
    """A small picture of a step: `rows` × `columns` bytes, base64; 255 marks NaN and infinities."""

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
    """Whether it is drawn transposed, as in the formula."""
    role: Literal["parameter", "input", "activation", "constant"]
    scale: Scale | None


class Equation(Message):
    """A step as an equation of matrices: `parts` alternate between panels and signs."""

    step: int
    lead: list[int]
    tex: str
    """The formula, in LaTeX: `S = Q K^\\top`."""
    parts: list[PanelInfo | str]
    """Panels and the signs between them: `×`, `+`, `softmax(`, `)`, `=`."""


class EditRequest(Message):
    """Numbers to set; each edit makes a new trace, the old one stays for undo."""

    edits: Annotated[list[Edit], Field(min_length=1, max_length=64)]


class StepChange(Message):
    """How much of a step an edit changed."""

    step: int
    changed: int
    total: int
    largest: JsonNumber
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


# --- cells ---
# One number: its card, its terms, where it came from and what came of it.


class Piece(Message):
    """A piece of arithmetic in numbers; an operand is a link."""

    text: str
    cell: CellRef | None = None


class TermInfo(Message):
    """One summand."""

    value: JsonNumber
    symbols: str
    numbers: str
    pieces: list[Piece]
    """`numbers`, cut at its operands."""
    share: float
    """Its share of Σ|terms|."""
    cells: list[CellRef]


class TermPage(Message):
    """Some of the summands of a cell."""

    total: int
    offset: int
    terms: list[TermInfo]


class DefinitionInfo(Message):
    """A symbol of a formula that stands for a part: μ, σ, Z."""

    symbol: str
    symbols: str
    numbers: str
    pieces: list[Piece]
    value: JsonNumber


class SumInfo(Message):
    """A long sum at a glance."""

    n_terms: int
    shown: list[TermInfo]
    others: int
    rest: JsonNumber
    positive: JsonNumber
    negative: JsonNumber
    share: float
    """The share of Σ|terms| that is shown."""
    factors: list[list[JsonNumber]]
    """The two rows of a dot product of up to 4,096 terms; otherwise empty."""
    products: list[JsonNumber]


class PrecisionInfo(Message):
    """The same cell computed at several precisions."""

    float64: JsonNumber
    float32: JsonNumber
    bfloat16: JsonNumber
    rounded: JsonNumber
    decimals: int


class CardInfo(Message):
    """Everything about a cell."""

    cell: CellRef
    exact: str
    """Nine digits: enough to identify a float32."""
    formula: str
    tex: str
    numbers: str
    pieces: list[Piece]
    """`numbers`, cut at its operands."""
    definitions: list[DefinitionInfo]
    sum: SumInfo | None
    recomputed: JsonNumber
    difference: JsonNumber
    reproduced: bool
    """Whether the arithmetic gives the stored number, up to the rounding of its dtype."""
    precisions: PrecisionInfo | None
    operands: list[CellRef]
    """The first of them."""
    n_operands: int
    regions: list[Region]
    """Where the operands stand in the equation's panels."""
    source: SourceInfo | None
    is_given: bool
    """A parameter, an input, a constant, or a number set by an edit."""
    is_unwritten: bool
    """Memory that nothing has written to yet, or a copy of it; `exact` is ∅."""
    is_edited: bool
    before: JsonNumber | None
    """Its value before the edits, where it differs."""


class DependentInfo(Message):
    """A step computed from a cell."""

    step: int
    name: str
    count: int
    cells: list[CellRef]
    regions: list[Region]


# --- watching ---
# A training run that is watched.


class WatchLayer(Message):
    """One attention layer of a watched model, over the text that its pictures show."""

    part: Literal["encoder", "decoder", "cross"]
    layer: int
    n_heads: int
    queries: list[str]
    """The tokens that attend."""
    keys: list[str]
    """The tokens that are attended to."""


class WatchTraceRequest(Message):
    """Run the model that a training run had after a step over the text of its pictures."""

    update: Annotated[int, Field(ge=0, lt=2**53)]


class RunCurves(Message):
    """The metrics of another run, to be drawn beside those of the watched one."""

    name: str
    recipe: str
    state: Literal["running", "finished", "stopped"]
    total: int | None
    metrics: list[dict[str, float | int | str | None]]


class WatchInfo(Message):
    """A training run: its metrics from an offset on, and the attention pictures there are."""

    recipe: str
    state: Literal["running", "finished", "stopped"]
    total: int | None
    """Optimiser steps of the whole run, once known."""
    metrics: list[dict[str, float | int | str | None]]
    next: int
    """The next offset; if smaller than the one given, the metrics start over."""
    snapshots: list[int]
    """The steps with an attention snapshot; `…/attention` returns one."""
    models: list[int]
    """The steps whose model was saved: `…/traces` opens the text of the pictures in it."""
    has_text: bool
    """Whether the pictures are of a text; an image is not kept, so no model can be run over it."""
    runs: list[str]
    """Other runs in the same folder; `…/runs/NAME` has their metrics."""
    layers: list[WatchLayer]
    """The layers, in the order of `…/attention?layer=`."""
