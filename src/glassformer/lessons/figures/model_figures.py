"""Figures of whole models: a block, a classifier, the encoder-decoder, a stack."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Literal

import numpy as np
import numpy.typing as npt

from glassformer.colours import Scale, hex_colour, ink_on
from glassformer.documents.heat_maps import limit_of, shape_text
from glassformer.language import Language
from glassformer.lessons.figures.sheet import (
    FigurePart,
    Label,
    MatrixFigure,
    ModelBox,
    Point,
    Sign,
    Swatch,
    TableFigure,
    cell_number,
    heading,
    numbers_of,
    speaker,
)
from glassformer.lessons.lesson import Speaker
from glassformer.picture import Box, Canvas, Picture, Role, text_width
from glassformer.tracing import Trace

_CELL = (42.0, 26.0)
_BLOCK = "encoder.blocks.0"
# From the bottom up: what is drawn, the step whose vectors leave it, and its colour.
_Stage = tuple[str, str, Role]
_STAGES: tuple[_Stage, ...] = (
    ("attention", f"{_BLOCK}.attention.output", "score"),
    ("+", f"{_BLOCK}.attention_sum", "quiet"),
    ("norm", f"{_BLOCK}.resid_mid", "value"),
    ("feed-forward", f"{_BLOCK}.feed_forward.contracted", "key"),
    ("+", f"{_BLOCK}.feed_sum", "quiet"),
    ("norm", f"{_BLOCK}.resid_post", "value"),
)


def _put_vectors(
    table: TableFigure, run: Trace, name: str, role: Role, row: int, first: int, beat: int = 0
) -> list[MatrixFigure]:
    """The vector of each word, in its own column."""
    numbers = numbers_of(run[name])
    return [
        table.put(
            MatrixFigure(numbers.rows(place), role, cell=_CELL), row, first + place, beat=beat
        )
        for place in range(len(numbers.values))
    ]


def _shares(run: Trace, path: str) -> list[list[float]]:
    """The attention weights of a layer, the mean over its heads: rows ask, columns are asked."""
    shares: list[list[float]] = run[path].value[0].double().mean(0).tolist()
    return shares


def _fan(
    table: TableFigure, below: Sequence[FigurePart], above: Sequence[FigurePart],
    shares: Sequence[Sequence[float]], beat: int,
) -> None:  # fmt: skip
    """Self-attention joins the columns: a line from each word to each, as thick as its weight."""
    for one, row in zip(above, shares, strict=True):
        for other, share in zip(below, row, strict=True):
            table.join(other, one, "score", gaps=(4, 4), arrow=False, width=max(0.6, 9 * share),
                       beat=beat)  # fmt: skip


def block_figure(run: Trace, words: Sequence[str], language: Language) -> Picture:
    """The parts of a block, its residual connections, and every word's vector after each part."""
    say, last, table = speaker(language), len(_STAGES), TableFigure(24, 34)
    below = table.put(Label(say("embedding"), "input", 14, bold=True), last, 1)
    table.put(FigurePart(14, 0), last, 0)
    before = _put_vectors(table, run, "encoder.summed", "input", last, 2)
    stages: list[FigurePart] = [below]
    for place, (key, name, role) in enumerate(_STAGES):
        row, beat = last - 1 - place, place + 1
        if key == "+":
            stages.append(table.put(Sign("+"), row, 1, beat=beat))
            table.line(_residual, table, *stages[-3:], role="input", beat=beat)
        else:
            stages.append(table.put(ModelBox(say(key), role), row, 1, align="fill", beat=beat))
        table.join(stages[-2], stages[-1], beat=place)
        after = _put_vectors(table, run, name, role, row, 2, beat)
        if key == "attention":
            after[0].below = 44
            _fan(table, before, after, _shares(run, f"{_BLOCK}.attention.weights"), beat)
    stages[-1].above = 26
    table.line(lambda top: [(top.x, top.top - 4), (top.x, top.top - 30)], stages[-1])
    table.mark(lambda canvas: canvas.box(_around(table, stages), "empty", corner=12, dashed=True))
    legend = table.put(Label(say("residual")), last + 1, 1)
    table.line(
        lambda at: [(at.left - 32, at.y), (at.left - 8, at.y)], legend, role="input", arrow=False
    )
    for place, word in enumerate(words):
        table.put(Label(word, "ink", 15, bold=True), last + 1, 2 + place)
    fan = table.put(Label(say("joined columns"), "score"), last + 2, 1, span=1 + len(words))
    fan.above = 6
    return table.drawing(say("block figure"))


def _residual(table: Box, start: Box, over: Box, end: Box) -> list[Point]:
    """From between two parts, around the second one, to the sum."""
    left, y = table.left + 12, min((start.top + over.bottom) / 2 + 6, over.bottom + 14)
    return [(start.x, y), (left, y), (left, end.y), (end.left - 2, end.y)]


def _around(table: TableFigure, stages: Sequence[FigurePart]) -> Box:
    """The box around all parts of the block."""
    left, top, last = table.box.left, stages[-1].box.top - 14, stages[1].box
    return Box(left, top, last.right + 12 - left, last.bottom + 20 - top)


def classifier_figure(
    run: Trace, words: Sequence[str], classes: Sequence[str], language: Language
) -> Picture:
    """Words, a block, the mean over words, a linear map and class probabilities."""
    say, n, table = speaker(language), len(words), TableFigure(24, 26)
    labels: tuple[tuple[int, str, Role], ...] = (
        (1, "softmax", "quiet"), (2, "linear", "quiet"), (3, "pooled", "weighted"),
        (6, "embedding", "input"),
    )  # fmt: skip
    for row, key, role in labels:
        table.put(Label(say(key), role), row, 0, align="start")
    inputs = _put_vectors(table, run, "encoder.summed", "input", 6, 1)
    block = table.put(_Joining(say("one block"), _shares(run, f"{_BLOCK}.attention.weights"),
                               inputs), 5, 1, span=n, align="fill")  # fmt: skip
    after = _put_vectors(table, run, f"{_BLOCK}.resid_post", "value", 4, 1, 1)
    pooled = MatrixFigure(numbers_of(run["pooled"]), "weighted", cell=_CELL)
    table.put(pooled, 3, 1, span=n, beat=2)
    for place, (word, x, y) in enumerate(zip(words, inputs, after, strict=True)):
        table.put(Label(word, "ink", 15, bold=True), 7, place + 1)
        table.join(x, block, straight=True, gaps=(4, 4))
        table.join(block, y, straight=True, gaps=(4, 4), beat=1)
        table.join(y, pooled, "weighted", beat=2)
    logits, shares = numbers_of(run["logits"]), numbers_of(run["probabilities"])
    room = max(90.0, *(text_width(name, 15) + 24 for name in classes))
    names, likely, scores = (table.put(TableFigure(20, 0), row, 1, span=n) for row in range(3))
    for place, name in enumerate(classes):
        best = bool(shares.values[0, place] == shares.values.max())
        score = scores.put(MatrixFigure(logits.cell(0, place)), 0, place, beat=3)
        share = likely.put(MatrixFigure(shares.cell(0, place), "output"), 0, place, beat=4)
        said = names.put(
            Label(name, "output" if best else "quiet", 15, bold=best), 0, place, beat=4
        )
        for part in (names, likely, scores):
            part.put(FigurePart(room, 0), 1, place)
        if best:
            names.frame(said, "output", by=9, beat=4)
        table.join(pooled, score, beat=3)
        table.join(score, share, beat=4)
    return table.drawing(say("classifier figure"))


class _Joining(FigurePart):
    """A block as a box, and in it what joins the columns: lines as thick as attention weights."""

    def __init__(
        self, said: str, shares: Sequence[Sequence[float]], columns: Sequence[FigurePart]
    ) -> None:
        super().__init__(text_width(said, 14) + 28, 118)
        self._said, self._shares, self._columns = said, shares, columns

    def draw(self, canvas: Canvas) -> None:
        box = self.box
        canvas.box(box, "part", "score", corner=8)
        canvas.text(box.x, box.top + 20, self._said, bold=True, role="score")
        xs = [column.box.x for column in self._columns]
        low, high = box.bottom - 12, box.top + 44
        for x, row in zip(xs, self._shares, strict=True):
            for other, share in zip(xs, row, strict=True):
                canvas.line((other, low), (x, high), role="score", width=max(0.6, 9 * share))
        for x in xs:
            canvas.dot(x, low, 5)
            canvas.dot(x, high, 5)


# --- encoder and decoder ---------------------------------------------------------------------

Stage = Literal["nothing", "encoder", "decoder", "everything"]
"""The last part that a lesson has covered."""
_REACHED: dict[Stage, int] = {"nothing": 0, "encoder": 1, "decoder": 2, "everything": 3}
_ENCODER, _DECODER = "model.encoder.blocks.0", "model.decoder.blocks.0"
_LEFT: tuple[_Stage, ...] = (
    ("embedding", "model.encoder.summed", "input"),
    ("attention", f"{_ENCODER}.attention.output", "score"),
    ("add and norm", f"{_ENCODER}.attention_norm.normed", "value"),
    ("feed-forward", f"{_ENCODER}.feed_forward.activated", "key"),
    ("add and norm", f"{_ENCODER}.feed_forward_norm.normed", "value"),
)
_RIGHT: tuple[_Stage, ...] = (
    ("embedding", "model.decoder.summed", "input"),
    ("masked attention", f"{_DECODER}.attention.output", "score"),
    ("add and norm", f"{_DECODER}.attention_norm.normed", "value"),
    ("cross-attention", f"{_DECODER}.cross_attention.output", "query"),
    ("add and norm", f"{_DECODER}.cross_attention_norm.normed", "value"),
    ("feed-forward", f"{_DECODER}.feed_forward.activated", "key"),
    ("add and norm", f"{_DECODER}.feed_forward_norm.normed", "value"),
    ("linear", "model.logits", "weighted"),
    ("softmax", "probabilities", "output"),
)
_N_DECODER, _CROSS = 7, 3


def architecture_figure(
    run: Trace, source: Sequence[str], target: str, predicted: str, covered: Stage,
    language: Language,
) -> Picture:  # fmt: skip
    """The whole model with the output shape of each part; parts not yet covered are dashed."""
    say, reached = speaker(language), _REACHED[covered]
    table, bottom = TableFigure(60, 28), len(_RIGHT) + 1
    table.put(Swatch(say("covered"), "score", "part"), 0, 0, align="start")
    table.put(Swatch(say("to come"), "score", "empty"), 1, 0, align="start")
    left = _tower(table, run, _LEFT, 0, bottom, say, [reached >= 1] * len(_LEFT))
    doing = [reached >= (2 if place < _N_DECODER else 3) for place in range(len(_RIGHT))]
    right = _tower(table, run, _RIGHT, 2, bottom, say, doing)
    for column, (tower, said) in {0: (left, " ".join(source)), 2: (right, target)}.items():
        words = table.put(Label(said, "ink"), bottom + 1, column)
        table.join(words, tower[0])
    _frame(table, left[1:], say("encoder"), -1)
    _frame(table, right[1:_N_DECODER], say("decoder"), 1)
    _residuals(table, left, (1, 3), -1, done=reached >= 1)
    _residuals(table, right, (1, 3, 5), 1, done=reached >= 2)
    answer = Label(predicted if reached >= 3 else "?", "output", 17, bold=True)
    table.join(right[-1], table.put(answer, 0, 2))
    role: Role = "query" if reached >= 2 else "quiet"
    table.put(FigurePart(text_width(say("memory"), 13) + 50, 0), bottom, 1)
    for column, tower in ((0, left), (2, right)):  # room for the frames and their names
        tower[0].before, tower[0].after = (74, 20) if column == 0 else (20, 74)
    start, end = left[-1], right[_CROSS]

    def across(a: Box, b: Box) -> list[Point]:
        middle = (a.right + b.left) / 2
        return [
            (a.x, a.top - 4), (a.x, a.top - 44), (middle, a.top - 44), (middle, b.y),
            (b.left - 2, b.y),
        ]  # fmt: skip

    table.line(across, start, end, role=role, dashed=reached < 2)
    table.note(
        say("memory"), lambda a, b: ((a.right + b.left) / 2, a.top - 56), start, end, role=role
    )
    return table.drawing(say("architecture figure"))


def stack_figure(
    words: Sequence[str], on: Collection[str], n_blocks: int, language: Language
) -> Picture:
    """The model of the ten switches, upwards; dashed are parts that are off, or outside of it."""
    say, table = speaker(language), TableFigure(60, 28)
    attention = "masked attention" if "masking" in on else "attention"
    block: list[tuple[str, Role, bool]] = [
        (attention, "score", True),
        ("add and norm", "value", "norm" in on),
        ("feed-forward", "key", "linear" in on),
        ("add and norm", "value", {"norm", "linear"} <= set(on)),
    ]
    stages: list[tuple[str, Role, bool]] = [
        ("embedding", "input", {"embedding", "position"} <= set(on)), *block,
        ("linear", "weighted", False), ("softmax", "output", False),
    ]  # fmt: skip
    tower: list[ModelBox] = []
    for place, (key, role, done) in enumerate(stages):
        part = ModelBox(say(key), role, done=done)
        part.width = max(part.width, 216)
        tower.append(table.put(part, len(stages) - place, 0))
        if place:
            table.join(tower[-2], part)
    tower[0].before = tower[0].after = 74
    table.join(table.put(Label(" ".join(words), "ink"), len(stages) + 1, 0), tower[0])
    table.join(tower[-1], table.put(Label(say("next word"), "output"), 0, 0))
    _frame(table, tower[1 : 1 + len(block)], say("blocks", count=n_blocks), -1)
    if {"norm", "width"} <= set(on):
        _residuals(table, tower, (1, 3) if "linear" in on else (1,), -1, done=True)
    return table.drawing(say("stack figure"))


_BESIDE = 24
"""How far from the boxes a residual connection runs."""


def _residuals(
    table: TableFigure, tower: Sequence[ModelBox], around: Sequence[int], side: Literal[-1, 1],
    *, done: bool,
) -> None:  # fmt: skip
    """From below each of these parts, around it, to the sum above it."""

    def route(below: Box, part: Box, end: Box) -> list[Point]:
        y = (below.top + part.bottom) / 2 + 5
        x, edge = part.x + side * (part.width / 2 + _BESIDE), end.x + side * (end.width / 2 + 2)
        return [(part.x, y), (x, y), (x, end.y), (edge, end.y)]

    for place in around:
        parts = tower[place - 1], tower[place], tower[place + 1]
        table.line(route, *parts, role="input" if done else "quiet", dashed=not done)


def _frame(
    table: TableFigure, parts: Sequence[FigurePart], said: str, side: Literal[-1, 1]
) -> None:
    """A dashed frame around a block, its name outside, reading upwards."""

    def draw(canvas: Canvas) -> None:
        top, bottom = parts[-1].box, parts[0].box
        inside = Box(top.left, top.top, top.width, bottom.bottom - top.top)
        frame = Box(
            inside.left - (_BESIDE + 12 if side < 0 else 14), inside.top - 8,
            inside.width + _BESIDE + 26, inside.height + 31,
        )  # fmt: skip
        canvas.box(frame, "empty", corner=12, dashed=True)
        x = frame.left - 10 if side < 0 else frame.right + 20
        canvas.turned(x, frame.y, said, size=15)

    table.mark(draw)


def _tower(
    table: TableFigure, run: Trace, stages: Sequence[_Stage], column: int, bottom: int,
    say: Speaker, done: Sequence[bool],
) -> list[ModelBox]:  # fmt: skip
    """Parts stacked upwards, each with its output shape."""
    tower: list[ModelBox] = []
    for place, (key, name, role) in enumerate(stages):
        part = ModelBox(say(key), role, done=done[place])
        part.width = max(part.width, 216)
        tower.append(table.put(part, bottom - place, column))
        if place:
            table.join(tower[-2], part)
        shape = shape_text([size for size in run[name].shape if size != 1])
        aside: Literal[-1, 1] = -1 if column else 1  # away from the residual connections
        table.note(
            shape, partial(_above, aside), part, role="quiet", size=12,
            anchor="start" if aside > 0 else "end",
        )  # fmt: skip
    return tower


def _above(aside: Literal[-1, 1], part: Box) -> Point:
    return part.x + 8 * aside, part.top - 14


# --- one block, as it is switched -------------------------------------------------------------


def residual_figure(residual: bool, norm: str, say: Speaker) -> Picture:
    """A block from left to right, with residuals or without, and the norm where it is switched."""
    table = TableFigure(34, 44)
    stream: list[FigurePart] = [heading(say("figure input"), "input")]
    skips: list[tuple[FigurePart, FigurePart]] = []
    parts: dict[str, Role] = {"attention": "query", "feed-forward": "value"}
    for part, role in parts.items():
        entry = stream[-1]
        if norm == "pre":
            stream.append(ModelBox(say("figure norm"), "key", bold=False))
        stream.append(ModelBox(say(f"figure {part}"), role))
        if residual:
            plus = Sign("+")
            stream.append(plus)
            skips.append((entry, plus))
        if norm == "post":
            stream.append(ModelBox(say("figure norm"), "key", bold=False))
    stream.append(heading(say("figure output"), "output"))
    for column, piece in enumerate(stream):
        table.put(piece, 1, column)
    for one, other in pairwise(stream):
        table.join(one, other, sideways=True)
    table.put(FigurePart(0, 10), 0, 0)
    for start, end in skips:
        table.line(_over, start, end, role="output", width=2.5)
    return table.drawing(say("block figure"))


def _over(start: Box, end: Box) -> list[Point]:
    """Past a part of the block: up, along, and down into the sum."""
    x, y = start.right + 16, min(start.top, end.top) - 26
    return [(x, start.y), (x, y), (end.x, y), (end.x, end.top - 3)]


# --- feed-forward -------------------------------------------------------------------------------

Vector = npt.NDArray[np.float64]
_NODE, _APART = 17.0, 38.0


@dataclass(frozen=True)
class NetworkLayer:
    """What a layer computes: its numbers, and the weights (one row each) that they come from."""

    name: str
    values: Vector
    weights: npt.NDArray[np.float64] | None = None


class _Network(FigurePart):
    """Circles with numbers in columns; lines are weights: brown above 0, blue below."""

    def __init__(self, layers: Sequence[NetworkLayer]) -> None:
        highest = max(len(layer.values) for layer in layers)
        names = [max(text_width(layer.name, 13) + 14, 150.0) for layer in layers]
        super().__init__(sum(names), highest * _APART + 34)
        self._layers, self._names = layers, names
        every = np.concatenate([layer.values for layer in layers])
        self._scale = Scale("signed", limit_of(np.abs(every)))
        self._most = max(float(np.abs(layer.weights).max())
                         for layer in layers if layer.weights is not None)  # fmt: skip

    def _place(self, column: int, row: int) -> Point:
        x = self.box.left + sum(self._names[:column]) + self._names[column] / 2
        count = len(self._layers[column].values)
        middle = self.box.top + (self.box.height - 34) / 2
        return x, middle + (row - (count - 1) / 2) * _APART

    def draw(self, canvas: Canvas) -> None:
        for column, (_, layer) in enumerate(pairwise(self._layers)):
            assert layer.weights is not None
            for (row, source), weight in np.ndenumerate(layer.weights):
                (x0, y0), (x1, y1) = self._place(column, source), self._place(column + 1, row)
                role: Role = "key" if weight > 0 else "score"
                width = max(0.3, 2.4 * abs(float(weight)) / self._most)
                canvas.line((x0 + _NODE, y0), (x1 - _NODE, y1), role=role, width=width)
        for column, layer in enumerate(self._layers):
            for row, value in enumerate(layer.values.tolist()):
                self._node(canvas, *self._place(column, row), value)
            x, _ = self._place(column, 0)
            canvas.text(x, self.box.bottom - 8, layer.name, size=13, role="quiet")

    def _node(self, canvas: Canvas, x: float, y: float, value: float) -> None:
        colour = self._scale.colour(value)
        assert colour is not None
        canvas.dot(x, y, _NODE, fill=hex_colour(colour))
        canvas.ring(x, y, _NODE)
        canvas.text(x, y, cell_number(value), size=11, fill=hex_colour(ink_on(colour)))


def feed_forward_figure(
    one: Sequence[NetworkLayer], two: Sequence[NetworkLayer], language: Language
) -> Picture:
    """The same vector through a network of one layer and through one of two."""
    say, table = speaker(language), TableFigure(50, 16)
    for column, (key, layers) in enumerate((("one layer", one), ("two layers", two))):
        table.put(heading(say(key)), 0, column, beat=column)
        table.put(_Network(layers), 1, column, beat=column)
    legend = table.put(TableFigure(40, 0), 2, 0, span=2)
    legend.put(Swatch(say("parameter above"), "key", "bar"), 0, 0)
    legend.put(Swatch(say("parameter below"), "score", "bar"), 0, 1)
    return table.drawing(say("feed-forward figure"))


def network_layers(
    run: Trace, path: str, vector: Vector, row: int, language: Language
) -> list[NetworkLayer]:
    """The layers of a feed-forward network in a trace, for one position."""
    say = speaker(language)

    def values(name: str) -> Vector:
        return np.asarray(numbers_of(run[f"{path}{name}"]).values[row])

    def weights(name: str) -> npt.NDArray[np.float64]:
        return numbers_of(run[f"{path}{name}.weight"]).values

    width = len(vector)
    layers = [NetworkLayer(say("network input", count=width), vector)]
    hidden = values("activated")
    layers.append(NetworkLayer(say("network relu", count=len(hidden)), hidden, weights("expand")))
    if f"{path}contracted" in run:
        name = say("network output", count=width)
        layers.append(NetworkLayer(name, values("contracted"), weights("contract")))
    return layers
