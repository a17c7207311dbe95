"""Figures of decoding, training and other kinds of model: trees, graphs, paths and patches.

Except in the graph, titles and labels come from the caller, in the reader's language.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from glassformer.colours import Scale, hex_colour, ink_on
from glassformer.language import Language
from glassformer.lessons.figures.canvas import Box, Canvas, Role, SvgDrawing, text_width
from glassformer.lessons.figures.sheet import (
    SMALL,
    ColouredNumbers,
    FigurePart,
    Label,
    MatrixFigure,
    ModelBox,
    TableFigure,
    cell_number,
    heading,
    numbers_of,
    speaker,
)
from glassformer.tracing import Trace

# --- the tree of a search --------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TreeStep:
    """A word that a search considered: after which of the words kept before, and at what price."""

    word: str
    parent: int
    log_probability: float
    total: float
    kept: bool
    goes_on: bool
    """Whether later words continue it; `parent` counts those that do."""


_NODE, _DOWN = (96.0, 40.0), 56.0


def search_tree(
    columns: Sequence[Sequence[TreeStep]], title: str, kept: str, dropped: str
) -> SvgDrawing:
    """Words from left to right with their sums; on each line, what the word adds to the sum."""
    across, top, left = _NODE[0] + 92, 58.0, 24.0
    most = max(len(column) for column in columns)
    canvas = Canvas(
        2 * left + len(columns) * across + 8, max(top + most * _DOWN + 8, 200), title
    )  # fmt: skip
    _legend(canvas, left, kept, dropped)
    middle = top + (canvas.height - top) / 2
    parents = [Box(left - 8, middle - 4, 16, 8)]
    canvas.dot(left, middle, 6)
    for number, column in enumerate(columns):
        # In the order of their parents, so that lines do not cross; then the best on top.
        order = sorted((parents[step.parent].y, -step.total, at) for at, step in enumerate(column))
        boxes: dict[int, Box] = {}
        for place, (_, _, at) in enumerate(order):
            y = middle + (place - (len(column) - 1) / 2) * _DOWN
            x = left + 76 + number * across
            boxes[at] = Box(x, y - _NODE[1] / 2, *_NODE)
        for at, box in boxes.items():
            _branch(canvas, column[at], parents[column[at].parent], box)
        parents = [boxes[at] for at, step in enumerate(column) if step.goes_on]
    return canvas.done()


def _branch(canvas: Canvas, step: TreeStep, start: Box, box: Box) -> None:
    role: Role = "output" if step.kept else "quiet"
    ends = (start.right + 2, start.y), (box.left - 2, box.y)
    canvas.line(*ends, role=role, width=2.2 if step.kept else 1.2, dashed=not step.kept)
    x = ends[0][0] + 0.62 * (ends[1][0] - ends[0][0])
    y = ends[0][1] + 0.62 * (ends[1][1] - ends[0][1])
    said = cell_number(step.log_probability)
    wide = text_width(said, 12) + 6
    canvas.add(f'<rect class="paper" x="{x - wide / 2:.1f}" y="{y - 9:.1f}" '
               f'width="{wide:.1f}" height="18"/>')  # fmt: skip
    canvas.text(x, y, said, size=12, role="quiet")
    canvas.box(box, "part" if step.kept else "empty", role, corner=8, dashed=not step.kept)
    canvas.text(box.x, box.y - 9, step.word, size=14, bold=step.kept, role=role)
    canvas.text(box.x, box.y + 10, f"Σ {cell_number(step.total)}", size=12)


def _legend(canvas: Canvas, left: float, kept: str, dropped: str) -> None:
    canvas.box(Box(left, 14, 26, 16), "part", "output")
    canvas.text(left + 34, 22, kept, size=13, anchor="start", role="quiet")
    x = left + 34 + text_width(kept, 13) + 28
    canvas.box(Box(x, 14, 26, 16), "empty", "quiet", dashed=True)
    canvas.text(x + 34, 22, dropped, size=13, anchor="start", role="quiet")


# --- words and what methods say about them ---------------------------------------------------


def score_columns(
    columns: Mapping[str, Sequence[float]], words: Sequence[str], title: str
) -> SvgDrawing:
    """One row per word, one column per method, each coloured by its own largest number."""
    table = TableFigure(30, 8)
    for place, (name, scores) in enumerate(columns.items()):
        values = np.array(scores, dtype=np.float64).reshape(-1, 1)
        numbers = ColouredNumbers(values, Scale("signed", float(np.abs(values).max()) or 1.0))
        shown = words if place == 0 else ()
        table.put(MatrixFigure(numbers, cell=(64.0, 26.0), rows=shown, title=name), 0, place)
    return table.drawing(title)


# --- the computation graph of a training step ------------------------------------------------


@dataclass(frozen=True, slots=True)
class _GraphStage:
    """An operation of the graph: what it gives, with which parameter, and how it passes back."""

    name: str
    step: str
    passed_back: str
    parameter: str = ""


_GRAPH = (
    _GraphStage("linear", "expanded", "", "expand.weight"),
    _GraphStage("ReLU", "activated", "back through ReLU"),
    _GraphStage("linear", "contracted", "back through W_2", "contract.weight"),
    _GraphStage("minus wanted", "error", "back through a difference"),
    _GraphStage("mean of squares", "loss", "back through the squares"),
)
_SAME_GRADIENT = {"contracted": "error"}
"""Subtracting a constant changes no gradient, so the trace has one step for both."""
_MATRICES = {"expand.weight": "W_1", "contract.weight": "W_2"}


def graph_figure(run: Trace, language: Language) -> SvgDrawing:
    """A training step as a graph: numbers on their way down, then gradients on their way back up.

    Beside each red arrow stands what the gradient is multiplied by on its way.
    """
    say, table, last = speaker(language), TableFigure(46, 14), len(_GRAPH)
    table.put(heading(say("forward"), "score"), 0, 1)
    table.put(heading(say("gradients"), "query"), 0, 2, beat=1)
    values, slopes = [_put_node(table, run, "x", 1, 1, "score")], [FigurePart(0, 0)]
    table.put(Label(say("node x")), 1, 0, align="end")
    for place, one in enumerate(_GRAPH):
        row, beat = 2 * place + 3, last - place
        box = table.put(ModelBox(say(one.name), "quiet", bold=False), row - 1, 1)
        values.append(_put_node(table, run, one.step, row, 1, "score"))
        table.put(Label(say(f"node {one.step}")), row, 0, align="end")
        table.join(values[-2], box, "score")
        table.join(box, values[-1], "score")
        gradient = f"gradients.{_SAME_GRADIENT.get(one.step, one.step)}"
        slopes.append(_put_node(table, run, gradient, row, 2, "query", beat))
        if one.passed_back:
            table.join(slopes[-1], slopes[-2], "query", beat=beat)
            table.note(say(one.passed_back), _right_of_arrow, slopes[-1], box, role="query",
                       anchor="start", beat=beat)  # fmt: skip
        if one.parameter:
            matrix, gradient = one.parameter, f"gradients.{one.parameter}"
            given = _put_node(table, run, matrix, row - 1, 0, "value")
            made = _put_node(table, run, gradient, row - 1, 3, "query", beat)
            table.join(given, box, "value", sideways=True)
            table.line(_to_the_left, slopes[-1], made, role="query", beat=beat)
    table.put(Label(say("graph legend"), "query"), 2 * last + 2, 0, span=4, beat=1)
    return table.drawing(say("graph figure"))


def _put_node(
    table: TableFigure, run: Trace, name: str, row: int, column: int, role: Role, beat: int = 0
) -> FigurePart:
    """The numbers of a step; a parameter and its gradient as x · W uses them, with a title."""
    numbers, parameter = numbers_of(run[name]), _MATRICES.get(name.removeprefix("gradients."), "")
    if parameter:
        numbers = ColouredNumbers(numbers.values.T, numbers.scale)
    title = f"∂{parameter}" if parameter and name.startswith("gradients.") else parameter
    return table.put(MatrixFigure(numbers, role, cell=SMALL, title=title), row, column, beat=beat)


def _right_of_arrow(slope: Box, box: Box) -> tuple[float, float]:
    return slope.x + 10, box.y


def _to_the_left(slope: Box, made: Box) -> list[tuple[float, float]]:
    return [(slope.right + 5, slope.y - 6), (made.left - 5, made.y)]


# --- paths between words ---------------------------------------------------------------------

_ACROSS, _UP, _DOT = 96.0, 74.0, 9.0


def path_figure(
    kind: Literal["recurrence", "attention", "convolution"], words: Sequence[str],
    ends: tuple[int, int], title: str,
) -> SvgDrawing:  # fmt: skip
    """How far it is from one word to another: every link that exists, and the shortest path."""
    start, end = ends
    layers = end - start if kind == "convolution" else 1
    canvas = Canvas(len(words) * _ACROSS + 30, layers * _UP + 110, title)
    bottom = canvas.height - 52

    def at(place: int, layer: int) -> tuple[float, float]:
        return 15 + (place + 0.5) * _ACROSS, bottom - layer * _UP

    links = _links(kind, len(words), layers)
    path = _shortest(kind, start, end)
    for one, other in links:
        if (one, other) not in path:
            canvas.line(at(*one), at(*other), role="quiet", width=0.8)
    for number, (one, other) in enumerate(path, start=1):
        (x0, y0), (x1, y1) = at(*one), at(*other)
        canvas.line((x0, y0), (x1, y1), role="query", width=3)
        x, y = (x0 + x1) / 2, (y0 + y1) / 2
        canvas.dot(x, y, 10, fill="var(--gf-paper)")
        canvas.text(x, y, str(number), size=13, bold=True, role="query")
    on_path = {place for link in path for place in link}
    for layer in range(layers + 1):
        for place in range(len(words)):
            fill = "var(--gf-query)" if (place, layer) in on_path else "var(--gf-quiet)"
            canvas.dot(*at(place, layer), _DOT, fill=fill)
    for place, word in enumerate(words):
        x, y = at(place, 0)
        canvas.text(x, y + 28, word, size=15, bold=place in ends)
    return canvas.done()


Node = tuple[int, int]
"""A position and a layer; layer 0 are the words."""


def _links(kind: str, length: int, layers: int) -> list[tuple[Node, Node]]:
    if kind == "recurrence":
        up: list[tuple[Node, Node]] = [((place, 0), (place, 1)) for place in range(length)]
        return up + [((place, 1), (place + 1, 1)) for place in range(length - 1)]
    reach = 1 if kind == "convolution" else length
    return [
        ((one, layer), (other, layer + 1))
        for layer in range(layers)
        for one in range(length)
        for other in range(max(0, one - reach), min(length, one + reach + 1))
    ]


def _shortest(kind: str, start: int, end: int) -> list[tuple[Node, Node]]:
    """The hops between two positions; the step from a word into its own state is none."""
    if kind == "attention":
        return [((start, 0), (end, 1))]
    if kind == "recurrence":
        return [((place, 1), (place + 1, 1)) for place in range(start, end)]
    return [
        ((start + layer, layer), (start + layer + 1, layer + 1)) for layer in range(end - start)
    ]


def influence_figure(
    strength: npt.NDArray[np.float64], words: Sequence[str], title: str
) -> SvgDrawing:
    """How strongly each word (column) acts on the vector at each place (row)."""
    table = TableFigure()
    numbers = ColouredNumbers(strength, Scale("signed", float(strength.max()) or 1.0))
    table.put(MatrixFigure(numbers, rows=words, columns=words, cell=(58.0, 28.0)), 0, 0)
    return table.drawing(title)


# --- several tasks ---------------------------------------------------------------------------


def pairs_figure(
    pairs: Sequence[tuple[Sequence[str], Sequence[str]]], model: str, title: str
) -> SvgDrawing:
    """What is read, one model, and what is written, for several tasks."""
    table = TableFigure(70, 22)
    middle = table.put(ModelBox(model, "score"), len(pairs) // 2, 1)
    for row, (source, target) in enumerate(pairs):
        read = table.put(_Words(source, "input"), row, 0, align="end")
        written = table.put(_Words(target, "output"), row, 2, align="start")
        table.line(_into(row, len(pairs)), read, middle, role="input")
        table.line(_out_of(row, len(pairs)), middle, written, role="output")
    return table.drawing(title)


class _Words(FigurePart):
    """Words in small boxes beside one another; the first of a source names the task."""

    def __init__(self, words: Sequence[str], role: Role) -> None:
        self._words, self._role = words, role
        self._widths = [text_width(word, 14) + 16 for word in words]
        super().__init__(sum(self._widths) + 6 * (len(words) - 1), 30)

    def draw(self, canvas: Canvas) -> None:
        x = self.box.left
        for place, (word, width) in enumerate(zip(self._words, self._widths, strict=True)):
            named = place == 0 and self._role == "input"
            box = Box(x, self.box.top, width, self.box.height)
            canvas.box(box, "part" if named else "empty", self._role if named else None, corner=6)
            canvas.text(box.x, box.y, word, size=14, bold=named)
            x += width + 6


def _into(row: int, rows: int) -> Callable[[Box, Box], list[tuple[float, float]]]:
    def route(a: Box, b: Box) -> list[tuple[float, float]]:
        return [(a.right + 6, a.y), (b.left - 4, b.top + b.height * (row + 1) / (rows + 1))]

    return route


def _out_of(row: int, rows: int) -> Callable[[Box, Box], list[tuple[float, float]]]:
    def route(a: Box, b: Box) -> list[tuple[float, float]]:
        return [(a.right + 4, a.top + a.height * (row + 1) / (rows + 1)), (b.left - 6, b.y)]

    return route


# --- images ----------------------------------------------------------------------------------

_PIXEL = 26.0


def patches_figure(pixels: npt.NDArray[np.float32], size: int, title: str) -> SvgDrawing:
    """An image with the cuts between its patches, and the patches as a numbered sequence."""
    per_side = len(pixels) // size
    whole, small = len(pixels) * _PIXEL, 15.0
    step = size * small + 16
    canvas = Canvas(whole + 60 + per_side * 2 * step, max(whole + 40, 4 * step), title)
    _draw_pixels(canvas, pixels, 20, 20, _PIXEL)
    for cut in range(per_side + 1):
        at = 20 + cut * size * _PIXEL
        canvas.line((20, at), (20 + whole, at), role="query", width=1.6)
        canvas.line((at, 20), (at, 20 + whole), role="query", width=1.6)
    columns = 2 * per_side
    left, top = whole + 60, 20 + (whole - per_side / 2 * (step + 18)) / 2
    for place in range(per_side**2):
        row, column = divmod(place, per_side)
        cut_out = pixels[row * size : (row + 1) * size, column * size : (column + 1) * size]
        down, across = divmod(place, columns)
        x, y = left + across * step, top + down * (step + 18)
        _draw_pixels(canvas, cut_out, x, y, small)
        canvas.box(Box(x - 1, y - 1, size * small + 2, size * small + 2), "frame", "query")
        canvas.text(x + size * small / 2, y + size * small + 13, str(place + 1), size=12)
    return canvas.done()


def grid_figure(
    pixels: npt.NDArray[np.float32], values: npt.NDArray[np.float64], title: str, *,
    marked: tuple[int, int], percentages: bool = False,
) -> SvgDrawing:  # fmt: skip
    """The image beside one number per patch; the marked patch is framed in both."""
    whole, per_side = len(pixels) * _PIXEL, len(values)
    room = whole / per_side
    canvas = Canvas(2 * whole + 80, whole + 40, title)
    _draw_pixels(canvas, pixels, 20, 20, _PIXEL)
    largest = float(np.abs(values).max()) or 1.0
    scale = Scale("probability") if percentages else Scale("signed", largest)
    for (row, column), value in np.ndenumerate(values):
        box = Box(whole + 60 + column * room, 20 + row * room, room - 2, room - 2)
        colour = scale.colour(float(value))
        ink = None
        if colour is not None:
            canvas.fill(box, hex_colour(colour))
            ink = hex_colour(ink_on(colour))
        said = f"{value:.1%}" if percentages else f"{value:+.1f}".replace("-", "−")
        canvas.text(box.x, box.y, said, size=12.5, fill=ink)
    for left in (20.0, whole + 60):
        place = Box(left + marked[1] * room, 20 + marked[0] * room, room - 2, room - 2)
        canvas.box(place.grown(1), "frame", "query")
    return canvas.done()


def _draw_pixels(
    canvas: Canvas, pixels: npt.NDArray[np.float32], left: float, top: float, side: float
) -> None:
    """Dark on light, as on paper, in both themes."""
    for (row, column), value in np.ndenumerate(pixels):
        shade = round(245 - 225 * float(value))
        box = Box(left + column * side, top + row * side, side, side)
        canvas.fill(box, f"#{shade:02X}{shade:02X}{shade:02X}", corner=0)


# --- gaps in sentences -----------------------------------------------------------------------


def gap_figure(
    words: Sequence[str], gap: int, both: str, left: str, title: str
) -> SvgDrawing:  # fmt: skip
    """What may be looked at to fill a gap: both sides, or only what comes before."""
    widths = [text_width(word, 15) + 22 for word in words]
    labels = 1.15 * max(text_width(label, 14) for label in (both, left)) + 30  # bold is wider
    canvas = Canvas(labels + sum(widths) + 8 * len(words) + 30, 236, title)
    for row, label in enumerate((both, left)):
        y = 78 + 104 * row
        canvas.text(16, y, label, anchor="start", bold=True)
        boxes, x = [], labels
        for width in widths:
            boxes.append(Box(x, y - 17, width, 34))
            x += width + 8
        for place, (word, box) in enumerate(zip(words, boxes, strict=True)):
            seen = place < gap or (row == 0 and place > gap)
            if place == gap:
                canvas.box(box, "part", "query", corner=6, dashed=True)
                canvas.text(box.x, box.y, "?", size=16, bold=True, role="query")
                continue
            role: Role = "ink" if seen else "quiet"
            canvas.box(box, "part" if seen else "empty", corner=6, dashed=not seen)
            canvas.text(box.x, box.y, word if seen else "…", size=15, role=role)
            if seen:
                _arc(canvas, box, boxes[gap])
    return canvas.done()


def _arc(canvas: Canvas, start: Box, end: Box) -> None:
    height = 12 + 0.07 * abs(start.x - end.x)
    top = min(start.top, end.top) - height
    path = f"M{start.x:.1f} {start.top - 2:.1f} Q{(start.x + end.x) / 2:.1f} {top - 8:.1f} "
    canvas.path(path + f"{end.x:.1f} {end.top - 3:.1f}", role="score", width=1.4)
