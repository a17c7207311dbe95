"""Attention as a pipeline: the five operations of one head, the mask, and all heads in columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from glassformer.documents.colours import Scale
from glassformer.language import Language
from glassformer.lessons.figures.canvas import Box, Canvas, Role, SvgDrawing
from glassformer.lessons.figures.sheet import (
    SLIM,
    SMALL,
    ColouredNumbers,
    FigurePart,
    Label,
    MatrixFigure,
    ModelBox,
    Point,
    TableFigure,
    heading,
    numbers_of,
    speaker,
)
from glassformer.tracing import Step, Trace

_HEAD_ROLES: tuple[Role, ...] = ("query", "score", "value", "key")
_KINDS: tuple[tuple[str, Role], ...] = (
    ("queries", "query"), ("keys", "key"), ("values", "value"),
)  # fmt: skip


@dataclass(frozen=True)
class PipelineSteps:
    """One head of an attention layer in a trace; `path` is the layer's module."""

    trace: Trace
    path: str = ""
    head: int = 0
    labels: Sequence[str] = ()
    """What the positions are called, where the trace does not know."""

    def step(self, name: str) -> Step:
        return self.trace[f"{self.path}.{name}" if self.path else name]

    def numbers(self, name: str) -> ColouredNumbers:
        """A matrix of this head."""
        step = self.step(name)
        if len(step.shape) > 3:
            return numbers_of(step, (0, self.head))
        whole = numbers_of(step)
        width = whole.values.shape[1] // self.step("weights").shape[-3]
        return whole.columns(self.head * width, (self.head + 1) * width)

    @property
    def is_masked(self) -> bool:
        return (f"{self.path}.hidden" if self.path else "hidden") in self.trace

    @property
    def divisor(self) -> float:
        """What the scores were divided by, from the numbers themselves."""
        scores, scaled = self.numbers("scores").values, self.numbers("scaled").values
        place = np.unravel_index(np.abs(scores).argmax(), scores.shape)
        return float(scores[place] / scaled[place])

    def hidden(self) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
        """Which keys (columns) each query (row) may not see."""
        step = self.step("hidden")
        found = np.asarray(step.value.numpy(), dtype=np.bool_)
        first: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]
        first = found.reshape(-1, *found.shape[-2:])[0]
        return first

    def names(self, axis: int) -> Sequence[str]:
        return self.labels or self.step("weights").labels[axis] or ()


class MaskFigure(MatrixFigure):
    """Who may see whom: a tick, or a crossed-out cell."""

    def __init__(
        self, hidden: np.ndarray[tuple[int, ...], np.dtype[np.bool_]], title: str,
        rows: Sequence[str] = (), columns: Sequence[str] = (), cell: tuple[float, float] = SMALL,
    ) -> None:  # fmt: skip
        numbers = ColouredNumbers(hidden.astype(np.float64), Scale("probability"))
        super().__init__(numbers, "quiet", title=title, rows=rows, columns=columns, cell=cell)
        self._hidden = hidden

    def _draw_cell(self, canvas: Canvas, row: int, column: int) -> None:
        box = self.cell(row, column)
        if self._hidden[row, column]:
            canvas.box(box, "panel", corner=2)
            near = Box(box.x - 5, box.y - 5, 10, 10)
            for ends in (
                ((near.left, near.top), (near.right, near.bottom)),
                ((near.left, near.bottom), (near.right, near.top)),
            ):
                canvas.line(*ends, role="query", width=2)
        else:
            canvas.box(box, "part", "output", corner=2)
            points = ((box.x - 6, box.y), (box.x - 2, box.y + 5), (box.x + 7, box.y - 6))
            canvas.line(*points, role="output", width=2)


def pipeline_figure(steps: PipelineSteps, language: Language) -> SvgDrawing:
    """Scaled dot-product attention as the paper draws it, with the matrix that leaves each box."""
    say, table = speaker(language), TableFigure(34, 30)
    made: list[tuple[str, str, Role, str]] = [
        (say("matmul", what="Q Kᵀ"), "scores", "score", say("scores")),
        (say("scale", divisor=f"{steps.divisor:.4g}"), "scaled", "score", say("scaled scores")),
        (say("mask"), "masked", "score", say("masked scores")),
        ("softmax", "weights", "output", say("weights")),
        (say("matmul", what="A V"), "context", "weighted", say("output")),
    ]
    bottom = len(made)
    inputs = [
        table.put(
            MatrixFigure(steps.numbers(f"projected_{kind}"), role, title=say(kind), cell=SMALL,
                         rows=() if place else steps.names(-2)), bottom, place,
        )
        for place, (kind, role) in enumerate(_KINDS)
    ]  # fmt: skip
    below: FigurePart | None = None
    for place, (said, name, role, title) in enumerate(made):
        row, beat, last = bottom - 1 - place, place + 1, place == len(made) - 1
        done = name != "masked" or steps.is_masked
        box = ModelBox(said if done else say("no mask"), role, done=done)
        table.put(box, row, 0, span=3 if last else 2, align="fill", beat=beat)
        if below is None:
            for one in inputs[:2]:
                table.line(_straight_up, one, box, beat=beat)
        else:
            table.line(partial(_between, inputs[0], inputs[1]), below, box, beat=beat)
        if last:
            table.line(_straight_up, inputs[2], box, role="value", beat=beat)
        below = box
        if done:
            shown = MatrixFigure(steps.numbers(name), role, cell=SMALL)
            table.put(shown, row, 3, beat=beat)
            table.put(Label(title, role), row, 4, align="start", beat=beat)
            table.line(_sideways_dashed, box, shown, beat=beat, dashed=True, arrow=False)
    return table.drawing(say("pipeline figure"))


def _straight_up(a: Box, b: Box) -> list[Point]:
    return [(a.x, a.top - (34 if a.height > 34 else 4)), (a.x, b.bottom + 5)]


def _between(left: FigurePart, right: FigurePart, a: Box, b: Box) -> list[Point]:
    """Straight up, midway between the first two inputs."""
    x = (left.box.x + right.box.x) / 2
    return [(x, a.top - 4), (x, b.bottom + 5)]


def _sideways_dashed(a: Box, b: Box) -> list[Point]:
    return [(a.right + 6, a.y), (b.left - 6, a.y)]


def mask_figure(steps: PipelineSteps, language: Language) -> SvgDrawing:
    """Scores, who may see whom, masked scores, weights: rows ask, columns are asked."""
    say, table = speaker(language), TableFigure(30, 14)
    rows, columns = steps.names(-2), [str(place + 1) for place in range(len(steps.names(-1)))]

    def shown(name: str, role: Role, title: str) -> MatrixFigure:
        return MatrixFigure(steps.numbers(name), role, title=title, columns=columns, cell=SMALL)

    scores = MatrixFigure(
        steps.numbers("scaled"), "score", title=say("scores"), rows=rows, columns=columns,
        cell=SMALL,
    )  # fmt: skip
    mask = MaskFigure(steps.hidden(), say("who sees whom"), columns=columns)
    masked = shown("masked", "score", say("masked scores"))
    weights = shown("weights", "output", say("weights"))
    signs = ("+", "=", "softmax →")
    for place, piece in enumerate((scores, mask, masked, weights)):
        table.put(piece, 0, 2 * place, beat=place)
        if place < len(signs):
            sign = Label(signs[place], "ink", 20 if place < 2 else 14, bold=True)
            table.put(sign, 0, 2 * place + 1, beat=place + 1)
    table.put(Label(say("mask legend")), 1, 0, span=7, beat=1)
    return table.drawing(say("mask figure"))


# --- all heads -------------------------------------------------------------------------------


def five_stages_figure(run: Trace, language: Language) -> SvgDrawing:
    """Multi-head attention from top to bottom: x, projections, heads, outputs, W_O."""
    say, weights, table = speaker(language), run["weights"], TableFigure(0, 22)
    n, words = weights.shape[-3], weights.labels[-2] or ()
    roles = _HEAD_ROLES[:n]
    projections, heads, outputs, last = (TableFigure(gap, 6) for gap in (26, 64, 64, 26))
    inputs = MatrixFigure(numbers_of(run["x"]), "input", title="x", rows=words, cell=SLIM)
    stages = {
        "inputs": inputs, "projections": projections, "heads": heads, "outputs": outputs,
        "joined and mapped": last,
    }  # fmt: skip
    for stage, (key, piece) in enumerate(stages.items()):
        said = heading(f"{stage + 1}. {say(key)}", "quiet")
        row = stage + min(stage, 1)  # a name stands beside its stage, or above the widest one
        table.put(said, row - (piece is projections), 0, align="start", beat=stage)
        table.put(piece, row, 0, align="end" if piece is last else "middle", beat=stage)

    def wide(name: str, said: str, role: Role = "ink", *, cut: bool = True) -> MatrixFigure:
        parts = roles if cut else ()
        return MatrixFigure(numbers_of(run[name]), role, title=said, cell=SLIM, parts=parts)

    queries, keys, values = (
        projections.put(wide(f"projected_{kind}", f"{say(kind)} = x {symbol}"), 0, place)
        for place, (kind, symbol) in enumerate(
            (("queries", "W_Q"), ("keys", "W_K"), ("values", "W_V"))
        )
    )
    for one in (queries, keys, values):
        table.line(_to_title, inputs, one, role="input", beat=1)
    joined = last.put(wide("joined", ""), 0, 0)
    mapped = last.put(ModelBox("· W_O", "quiet"), 0, 1)
    output = last.put(wide("output", "", "output", cut=False), 0, 2)
    last.put(heading(say("side by side")), 1, 0)
    last.put(heading(say("output"), "output"), 1, 2)
    last.join(joined, mapped, sideways=True)
    last.join(mapped, output, sideways=True)
    for head, role in enumerate(roles):
        title = say("head", number=head + 1)
        weight = MatrixFigure(numbers_of(weights, (0, head)), role, title=title, cell=SLIM)
        made = MatrixFigure(numbers_of(run["context"], (0, head)), role, cell=SLIM)
        heads.put(weight, 0, head)
        made.before = made.after = (weight.width - made.width) / 2  # below the weights
        outputs.put(made, 0, head)
        for one in (queries, keys):
            table.line(partial(_from_group, one, head), weight, role=role, beat=2, arrow=False)
        table.join(weight, made, role, beat=3)
        route = partial(_around, values, head)
        table.line(route, weight, made, role=role, beat=3, dashed=True)
        table.line(partial(_to_group, joined, head), made, role=role, beat=4)
    return table.drawing(say("five stages figure"))


_OVER_TITLE = 26.0


def _to_title(a: Box, b: Box) -> list[Point]:
    """From below one matrix to above the title of another."""
    return [(a.x, a.bottom + 4), (b.x, b.top - _OVER_TITLE)]


def _from_group(projected: MatrixFigure, head: int, weight: Box) -> list[Point]:
    group = projected.group(head)
    return [(group.x, projected.box.bottom + 4), (weight.x, weight.top - _OVER_TITLE)]


def _to_group(joined: MatrixFigure, head: int, made: Box) -> list[Point]:
    return [(made.x, made.bottom + 4), (joined.group(head).x, joined.box.top - 3)]


def _around(values: MatrixFigure, head: int, weight: Box, made: Box) -> list[Point]:
    """From the values of a head past its weights to its output."""
    beside = weight.right + 22
    return [
        (values.group(head).x, values.box.bottom + 4), (beside, weight.top - _OVER_TITLE),
        (beside, made.y), (made.right + 5, made.y),
    ]  # fmt: skip
