"""Figures of numbers on their way: a translation, a network, a comic strip, a dot product."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from glassformer.colours import Scale, hex_colour, ink_on
from glassformer.documents.heat_maps import limit_of
from glassformer.language import Language
from glassformer.lessons.figures.canvas import Box, Canvas, Role, SvgDrawing, text_width
from glassformer.lessons.figures.sheet import (
    BarColumn,
    ColouredNumbers,
    FigurePart,
    Label,
    Length,
    MatrixFigure,
    ModelBox,
    Point,
    Swatch,
    TableFigure,
    cell_number,
    heading,
    numbers_of,
    speaker,
)
from glassformer.tracing import Trace

# --- a translation ---------------------------------------------------------------------------

_CROSS = "model.decoder.blocks.0.cross_attention.weights"
_ENCODER = "model.encoder.blocks.0"
_MEMORY = f"{_ENCODER}.resid_post"


class _Strip(FigurePart):
    """A vector as a strip of colours."""

    def __init__(self, numbers: ColouredNumbers) -> None:
        super().__init__(12.0 * numbers.values.shape[1] + 4, 22)
        self._numbers = numbers

    def draw(self, canvas: Canvas) -> None:
        for place, number in enumerate(self._numbers.values[0]):
            colour = self._numbers.scale.colour(float(number)) if self._numbers.scale else None
            left = self.box.left + 2 + 12 * place
            if colour is not None:
                canvas.fill(Box(left, self.box.top + 2, 11, 18), hex_colour(colour), corner=1)
        canvas.box(self.box, "frame", "value", corner=3)


@dataclass(frozen=True)
class TranslationFlow:
    """What is read, what the decoder is given at each step, and what it answers."""

    source: Sequence[str]
    given: Sequence[str]
    answers: Sequence[str]
    shares: Sequence[float]


def translation_figure(run: Trace, said: TranslationFlow, language: Language) -> SvgDrawing:
    """The source through the encoder once; then one row per word that the decoder adds.

    Lines are cross-attention, the mean over heads. Each answer is given to the next step.
    """
    say, table = speaker(language), TableFigure(30, 14)
    weights = run[_CROSS].value[0].double().mean(0).tolist()
    memory = numbers_of(run[_MEMORY])
    titles = {0: "source words", 2: "memory words", 4: "given words", 6: "answer words"}
    for column, key in titles.items():
        table.put(heading(say(key), "quiet"), 0, column)
    read, kept = [], []
    for row, word in enumerate(said.source, start=1):
        read.append(table.put(ModelBox(word, "input", bold=False), row, 0, align="fill"))
        table.put(FigurePart(60, 0), row, 1)
        kept.append(table.put(_Strip(memory.rows(row - 1)), row, 2, beat=1))
        table.put(FigurePart(190, 0), row, 3)
        table.join(read[-1], kept[-1], sideways=True, beat=1)
    given, answers = [], []
    for row, (word, answer, share) in enumerate(
        zip(said.given, said.answers, said.shares, strict=True), start=1
    ):
        beat = row + 1
        token = ModelBox(word, "query", bold=False)
        given.append(table.put(token, row, 4, align="fill", beat=beat))
        table.put(FigurePart(60, 0), row, 5)
        shown = ModelBox(f"{answer}  {share:.0%}", "output")
        answers.append(table.put(shown, row, 6, align="fill", beat=beat))
        table.join(given[-1], answers[-1], sideways=True, beat=beat)
        seen: tuple[tuple[Role, int], ...] = (("quiet", beat), ("query", -beat))
        for strip, weight in zip(kept, weights[row - 1], strict=True):
            for role, when in seen:
                table.line(_across, strip, given[-1], role=role, beat=when, arrow=False,
                           width=max(0.4, 9 * weight))  # fmt: skip
    for answer_box, following in zip(answers, given[1:], strict=False):
        beat = answers.index(answer_box) + 3
        table.line(_fed_back, answer_box, following, role="output", beat=beat, dashed=True)
    table.mark(partial(_upright_box, read, kept, say("encoder"), "score"))
    table.mark(partial(_upright_box, given, answers, say("decoder"), "query"))
    table.put(Label(say("translation legend")), len(said.source) + 1, 0, span=7)
    return table.drawing(say("translation figure"))


def _across(strip: Box, given: Box) -> list[Point]:
    return [(strip.right + 3, strip.y), (given.left - 3, given.y)]


def _fed_back(answer: Box, following: Box) -> list[Point]:
    """From an answer, between two rows, to the next word that is given."""
    y = (answer.bottom + following.top) / 2
    return [(answer.x, answer.bottom + 1), (answer.x, y), (following.x, y),
            (following.x, following.top - 1)]  # fmt: skip


def _upright_box(
    left: Sequence[FigurePart], right: Sequence[FigurePart], said: str, role: Role, canvas: Canvas
) -> None:
    """A part of the model as a tall box between two columns."""
    x = (left[0].box.right + right[0].box.left) / 2
    top, bottom = left[0].box.top - 4, left[-1].box.bottom + 4
    box = Box(x - 24, top, 48, bottom - top)
    canvas.box(box, "part", role, corner=8)
    canvas.turned(x + 5, box.y, said, size=15)


# --- feed-forward ----------------------------------------------------------------------------

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
) -> SvgDrawing:
    """The same vector through a network of one layer and through one of two."""
    say, table = speaker(language), TableFigure(50, 16)
    for column, (key, layers) in enumerate((("one layer", one), ("two layers", two))):
        table.put(heading(say(key)), 0, column, beat=column)
        table.put(_Network(layers), 1, column, beat=column)
    legend = table.put(TableFigure(40, 0), 2, 0, span=2)
    legend.put(Swatch(say("weight above"), "key", "bar"), 0, 0)
    legend.put(Swatch(say("weight below"), "score", "bar"), 0, 1)
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


# --- the Transformer by hand, as a strip -----------------------------------------------------


@dataclass(frozen=True)
class Played:
    """The cast of the strip: the words, the one that asks, the start token, the vocabulary."""

    words: Sequence[str]
    asking: int
    started: str
    vocabulary: Sequence[str]


def strip_figure(run: Trace, played: Played, language: Language) -> SvgDrawing:
    """Nine pictures that look hand-drawn, with the real numbers."""
    say, attention, words = speaker(language), f"{_ENCODER}.attention", played.words

    def matrix(name: str, role: Role) -> MatrixFigure:
        return MatrixFigure(numbers_of(run[name]), role, rows=words, cell=(34.0, 24.0))

    def bars(name: str, row: int, role: Role) -> BarColumn:
        return _bars(words, numbers_of(run[name]).values[row].tolist(), role)

    shares = run["probabilities"].value[0]
    likeliest = shares.argsort(descending=True, stable=True)[:5].tolist()
    predicted = [played.vocabulary[id_] for id_ in likeliest]
    asking = played.asking
    pictures: list[tuple[str, FigurePart, int | None]] = [
        (say("strip words"), matrix("model.encoder.embedding.looked_up", "input"), None),
        (say("strip positions"), matrix("model.encoder.summed", "input"), None),
        (say("strip queries", word=words[asking]),
         matrix(f"{attention}.projected_queries", "query"), asking),
        (say("strip scores"), bars(f"{attention}.scaled", asking, "score"), None),
        (say("strip weights"), bars(f"{attention}.weights", asking, "output"), None),
        (say("strip context"), matrix(f"{attention}.context", "output"), asking),
        (say("strip norm"), matrix(f"{_ENCODER}.feed_forward_norm.normed", "value"), None),
        (say("strip decoder", word=played.started),
         bars(_CROSS, 0, "output"), None),
        (say("strip prediction", word=predicted[0]),
         _bars(predicted, shares[likeliest].tolist(), "output"), None),
    ]  # fmt: skip
    table = TableFigure(14, 14)
    for place, (said, piece, framed) in enumerate(pictures):
        picture = _Picture(said, place + 1, piece, framed)
        table.put(picture, place // 3, place % 3, beat=place + 1)
    return table.drawing(say("strip figure"), margin=14)


def _bars(words: Sequence[str], values: Sequence[float], role: Role) -> BarColumn:
    lengths = [
        Length(value, word, f"{value:.2f}") for word, value in zip(words, values, strict=True)
    ]
    return BarColumn(lengths, role)


class _Picture(FigurePart):
    """A picture of the strip: a slightly crooked frame, a speech bubble, and one piece."""

    def __init__(self, said: str, number: int, piece: FigurePart, framed: int | None) -> None:
        super().__init__(300, 270)
        self._said, self._number, self._piece, self._framed = said, number, piece, framed

    def draw(self, canvas: Canvas) -> None:
        box, piece = self.box, self._piece
        canvas.path(_by_hand(box, self._number), role="ink", width=2.2)
        bubble = Box(box.left + 16, box.top + 14, min(text_width(self._said, 14) + 52, 268), 34)
        canvas.box(bubble, "panel", corner=17)
        canvas.dot(bubble.left + 18, bubble.y, 11, fill="var(--gf-ink)")
        number = str(self._number)
        canvas.text(bubble.left + 18, bubble.y, number, size=13, bold=True, fill="var(--gf-paper)")
        canvas.text(bubble.left + 36, bubble.y, self._said, size=14, anchor="start")
        piece.place(box.x + (piece.before - piece.after) / 2, box.top + 60 + (box.height - 60) / 2)
        piece.draw(canvas)
        if self._framed is not None and isinstance(piece, MatrixFigure):
            canvas.box(piece.row(self._framed).grown(5), role="query", corner=7)


def _by_hand(box: Box, seed: int) -> str:
    """A frame whose sides are slightly bent, the same every time."""

    def shift(place: int) -> float:
        return 2.6 * math.sin(1.7 * place + 2.3 * seed)

    corners = [
        (box.left, box.top), (box.right, box.top), (box.right, box.bottom), (box.left, box.bottom),
    ]  # fmt: skip
    path = f"M{corners[0][0]:.1f} {corners[0][1]:.1f}"
    for place in range(4):
        (x0, y0), (x1, y1) = corners[place], corners[(place + 1) % 4]
        bend = (x0 + x1) / 2 + shift(2 * place), (y0 + y1) / 2 + shift(2 * place + 1)
        path += f" Q{bend[0]:.1f} {bend[1]:.1f} {x1:.1f} {y1:.1f}"
    return path + " Z"


# --- films and tastes ------------------------------------------------------------------------


def score_figure(
    run: Trace, film: int, person: int, names: tuple[str, str], features: Sequence[str],
    language: Language,
) -> SvgDrawing:  # fmt: skip
    """A film's features, a person's tastes, their products and the sum."""
    say, table = speaker(language), TableFigure(36, 14)
    cell, n = run["scores"][film, person], len(features)
    owners: tuple[tuple[str, int, Role], ...] = (
        ("films", film, "input"),
        ("people", person, "query"),
    )
    for row, (step, which, role) in enumerate(owners):
        table.put(heading(names[row], role), row + 1, 0, align="end")
        for place in range(n):
            table.put(
                MatrixFigure(numbers_of(run[step]).cell(which, place), role), row + 1, place + 1
            )
    products: list[FigurePart] = []
    for place, (feature, term) in enumerate(zip(features, cell.terms, strict=True)):
        table.put(Label(feature), 0, place + 1)
        shown, role = cell_number(term.value), "output" if term.value >= 0 else "key"
        signed = shown if shown.startswith("−") else f"+{shown}"
        products.append(Label(signed, role, 15, bold=True))
        products[-1].above = 30
        table.put(products[-1], 3, place + 1, beat=place + 1)
        table.line(
            lambda at: [(at.x, at.top - 32), (at.x, at.top - 4)], products[-1], beat=place + 1
        )
    score = float(cell.value)
    total = Label(f"= {cell_number(score)}", "ink", 18, bold=True)
    table.put(total, 4, 1, span=n, beat=n + 1)
    said = Label(say("liked" if score > 0 else "disliked"), size=15)
    table.put(said, 5, 1, span=n, beat=n + 1)
    table.rule(total, products[0], products[-1], beat=n + 1)
    return table.drawing(say("score figure"))
