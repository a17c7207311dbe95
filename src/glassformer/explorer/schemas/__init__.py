"""What the explorer's API says and hears: the one schema of both sides.

The server validates with these classes, OpenAPI is made from them, and the page's TypeScript types
are generated from that (`make web`). Numbers that JSON lacks are the strings "NaN", "Infinity" and
"-Infinity". Tensors do not travel as JSON: `…/values` answers little-endian bytes.

A *trace* is one recorded run, kept in memory under an id. Its *steps* are numbered; a *cell* is a
step and an index. A *panel* is a matrix on the screen: two axes of a step (or of an operand, in the
shape in which the operator saw it), the leading axes held at `lead`.
"""

from __future__ import annotations

from glassformer.explorer.schemas.base import (
    MOST_CHARACTERS,
    Bilingual,
    Language,
    Message,
    Number,
    Problem,
    ProblemCode,
    Task,
)
from glassformer.explorer.schemas.cells import (
    CardInfo,
    DefinitionInfo,
    DependentInfo,
    Piece,
    PrecisionInfo,
    Region,
    SumInfo,
    TermInfo,
    TermPage,
)
from glassformer.explorer.schemas.decoding import (
    CandidateInfo,
    DecodeAnswer,
    DecodeRequest,
    DecodeStep,
)
from glassformer.explorer.schemas.lessons import (
    LessonInfo,
    LessonPart,
    LessonStepInfo,
    LessonSummary,
)
from glassformer.explorer.schemas.models import ModelInfo
from glassformer.explorer.schemas.traces import (
    Answer,
    AnswerPosition,
    AttentionInfo,
    BranchInfo,
    CellRef,
    Changes,
    Choice,
    Edit,
    EditRequest,
    Equation,
    ExportRequest,
    OperandInfo,
    PanelInfo,
    ScaleInfo,
    SourceInfo,
    StepChange,
    StepInfo,
    Thumbnail,
    TraceInfo,
    TraceRequest,
)
from glassformer.explorer.schemas.watching import WatchInfo, WatchLayer

__all__ = [
    "MOST_CHARACTERS",
    "Answer",
    "AnswerPosition",
    "AttentionInfo",
    "Bilingual",
    "BranchInfo",
    "CandidateInfo",
    "CardInfo",
    "CellRef",
    "Changes",
    "Choice",
    "DecodeAnswer",
    "DecodeRequest",
    "DecodeStep",
    "DefinitionInfo",
    "DependentInfo",
    "Edit",
    "EditRequest",
    "Equation",
    "ExportRequest",
    "Language",
    "LessonInfo",
    "LessonPart",
    "LessonStepInfo",
    "LessonSummary",
    "Message",
    "ModelInfo",
    "Number",
    "OperandInfo",
    "PanelInfo",
    "Piece",
    "PrecisionInfo",
    "Problem",
    "ProblemCode",
    "Region",
    "ScaleInfo",
    "SourceInfo",
    "StepChange",
    "StepInfo",
    "SumInfo",
    "Task",
    "TermInfo",
    "TermPage",
    "Thumbnail",
    "TraceInfo",
    "TraceRequest",
    "WatchInfo",
    "WatchLayer",
]
