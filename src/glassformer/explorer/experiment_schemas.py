"""The messages of the page's experiments; those of traces and cells are in `schemas.py`.

An experiment asks about one number of a trace: a step and an index. What it finds names cells and
edits, so that every square and every bar opens on the page.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from glassformer.experiments.attribution import Method
from glassformer.explorer.schemas import MOST_CHARACTERS, CellRef, Edit, Message, Number
from glassformer.language import Language

OtherText = Annotated[str, Field(min_length=1, max_length=MOST_CHARACTERS)]


class Asked(Message):
    """The number that an experiment is about."""

    step: Annotated[int, Field(ge=0)]
    index: Annotated[list[Annotated[int, Field(ge=0)]], Field(max_length=16)]
    language: Language = "en"


class WordsRequest(Asked):
    """Share a number out among the words of the input."""

    method: Method = "leave one out"


class WordShare(Message):
    """A token and its share."""

    token: str
    score: Number


class InputWords(Message):
    """The tokens of one input: an encoder-decoder has two."""

    name: str
    words: list[WordShare]


class WordsAnswer(Message):
    """A number in words of the input."""

    cell: CellRef
    method: Method
    inputs: list[InputWords]
    whole: Number | None
    """What the shares add up to, where the method promises it."""
    note: str
    """What the method assumes."""


class CompareRequest(Message):
    """Hold the run against one of the same model over another text."""

    text: OtherText
    language: Language = "en"


class ComparedInfo(Message):
    """A step that differs between two runs."""

    name: str
    size: Number
    """The root mean square of the difference, over that of the first run's numbers."""
    largest: Number
    changed: int
    compared: int
    cell: CellRef
    """Where the difference is largest, in this run."""
    other: CellRef
    """The same place in the other run."""
    same_shape: bool
    """Whether the two matrices can be subtracted cell by cell."""


class ComparisonInfo(Message):
    """Two runs of one model, largest differences first."""

    other: str
    """The id of the other run's trace."""
    text: str
    answer: str
    """What the model says to the other text."""
    steps: list[ComparedInfo]
    n_different: int
    """How many steps differ; the list has the first of them."""
    n_same: int
    unaligned: list[str]
    note: str


class SweepRequest(Asked):
    """One row of a sweep: each head, or each position, of one layer switched off or replaced."""

    over: Literal["head", "position"] = "head"
    to: Literal["zero", "mean", "other"] = "zero"
    text: OtherText | None = None
    """Of the run that numbers are taken from, with `other`."""
    layer: Annotated[int, Field(ge=0)] = 0


class SweepSquare(Message):
    """One intervention."""

    place: str
    value: Number
    """The number after it."""
    edit: Edit
    """The intervention itself."""


class SweepRow(Message):
    """The interventions in one layer."""

    layers: list[str]
    """All layers that can be swept, in order."""
    layer: int
    cell: CellRef
    """The number that is watched, as it is without any intervention."""
    squares: list[SweepSquare]
    note: str


class LensRequest(Message):
    """What each layer would answer."""

    language: Language = "en"


class LensWord(Message):
    """The likeliest answer of a layer at a position."""

    text: str
    probability: float


class LensLayer(Message):
    """The answers of a layer, a word for each position."""

    name: str
    step: int | None
    """The step of the residual stream that is read."""
    words: list[LensWord]


class LensAnswer(Message):
    """The logit lens: layers × positions."""

    positions: list[str]
    layers: list[LensLayer]
    note: str


class ContributionsRequest(Asked):
    """What each part adds to a number."""

    heads: bool = False


class ContributionInfo(Message):
    """One part and what it adds."""

    name: str
    value: Number
    step: int | None
    edit: Edit | None
    """The part switched off; None for the biases."""


class ContributionsAnswer(Message):
    """A number as a sum of parts."""

    cell: CellRef
    parts: list[ContributionInfo]
    total: Number
    note: str
