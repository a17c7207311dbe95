"""Figures of heads: one as a pipeline, its mask, several side by side, and folded into a batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from glassformer.colours import Scale
from glassformer.documents.heat_maps import shape_text
from glassformer.language import Language
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
from glassformer.lessons.lesson import Speaker
from glassformer.nn.tensors import Bool, Tensor
from glassformer.picture import Box, Canvas, Picture, Role, text_width
from glassformer.tracing import Step, Trace
from glassformer.tracing.capture.module_stack import join

_HEAD_ROLES: tuple[Role, ...] = ("query", "score", "value", "key")
"""One colour per head."""
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
        return self.trace[join(self.path, name)]

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
        return join(self.path, "hidden") in self.trace

    @property
    def divisor(self) -> float:
        """What the scores were divided by, from the numbers themselves."""
        scores, scaled = self.numbers("scores").values, self.numbers("scaled").values
        place = np.unravel_index(np.abs(scores).argmax(), scores.shape)
        return float(scores[place] / scaled[place])

    def hidden(self) -> Bool[Tensor, "Q K"]:
        """Which keys each query may not see."""
        found: Tensor = self.step("hidden").value
        return found.reshape(-1, *found.shape[-2:])[0]

    def names(self, axis: int) -> Sequence[str]:
        return self.labels or self.step("weights").labels[axis] or ()


class MaskFigure(MatrixFigure):
    """Who may see whom: a tick, or a crossed-out cell."""

    def __init__(self, hidden: Bool[Tensor, "Q K"], **labels: Any) -> None:
        numbers = ColouredNumbers(hidden.double().numpy(), Scale("probability"))
        super().__init__(numbers, "quiet", **labels)
        self._hidden = hidden

    def _draw_cell(self, canvas: Canvas, row: int, column: int) -> None:
        box = self.cell(row, column).box
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


def pipeline_figure(steps: PipelineSteps, language: Language) -> Picture:
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
                table.join(one, box, straight=True, gaps=(34, 5), beat=beat)
        else:
            table.join(below, box, straight=True, beat=beat)
        if last:
            table.join(inputs[2], box, "value", straight=True, gaps=(34, 5), beat=beat)
        below = box
        if done:
            shown = MatrixFigure(steps.numbers(name), role, cell=SMALL)
            table.put(shown, row, 3, beat=beat)
            table.put(Label(title, role), row, 4, align="start", beat=beat)
            table.join(box, shown, sideways=True, beat=beat, dashed=True, arrow=False)
    return table.drawing(say("pipeline figure"))


def mask_figure(steps: PipelineSteps, language: Language) -> Picture:
    """Scores, who may see whom, masked scores, weights: rows ask, columns are asked."""
    say, table = speaker(language), TableFigure(30, 14)
    rows, columns = steps.names(-2), [str(place + 1) for place in range(len(steps.names(-1)))]

    def shown(name: str, role: Role, title: str, rows: Sequence[str] = ()) -> MatrixFigure:
        return MatrixFigure(
            steps.numbers(name), role, title=title, rows=rows, columns=columns, cell=SMALL
        )

    # Two rows of two, so that they are large enough to read on a page.
    pieces = (
        shown("scaled", "score", say("scores"), rows),
        MaskFigure(steps.hidden(), title=say("who sees whom"), columns=columns, cell=SMALL),
        shown("masked", "score", say("masked scores"), rows),
        shown("weights", "output", say("weights")),
    )
    signs = ("", "+", "=", "softmax →")
    for place, (sign, piece) in enumerate(zip(signs, pieces, strict=True)):
        row, column = divmod(place, 2)
        if sign:
            size = 14 if len(sign) > 1 else 20
            table.put(Label(sign, "ink", size, bold=True), row, 2 * column, beat=place)
        table.put(piece, row, 2 * column + 1, beat=place)
    table.put(Label(say("mask legend")), 2, 0, span=4, beat=1)
    return table.drawing(say("mask figure"))


def visible_figure(tokens: Sequence[str], visible: Tensor | None, say: Speaker) -> Picture:
    """What each position may attend to (everything if `visible` is None), and what it predicts."""
    count, table = len(tokens), TableFigure()
    hidden = torch.zeros(count, count).bool() if visible is None else ~visible
    rows = [f"{place}: {token}" for place, token in enumerate(tokens, start=1)]
    grid = MaskFigure(hidden, title=say("sees"), rows=rows, columns=tokens, cell=(44.0, 40.0))
    grid.after = 24 + text_width(say("to predict"), 13)
    table.put(grid, 0, 0)
    table.note(say("to predict"), lambda at: (at.right + 16, at.top - 12), grid, role="quiet",
               anchor="start")  # fmt: skip
    for row, following in enumerate((*tokens[1:], "?")):
        table.note(f"→ {following}", lambda at: (at.right + 19, at.y), grid.row(row), role="query",
                   size=15, anchor="start", bold=True)  # fmt: skip
        if row + 1 < count:
            table.frame(grid.cell(row, row + 1), "query", by=2)
    return table.drawing(say(f"mask figure {'off' if visible is None else 'on'}"))


# --- several heads ---------------------------------------------------------------------------


def gave_figure(run: Trace, words: Sequence[str], reader: int, language: Language) -> Picture:
    """What one word attends to: a fan of lines per head, as thick as the weights."""
    say, table = speaker(language), TableFigure(70, 8)
    weights = run["weights"].value[0, :, reader]
    for head in range(weights.shape[0]):
        role, top, beat = _HEAD_ROLES[head], 5 * head, head + 1
        source = table.put(heading(words[reader], role), top, reader + 1, beat=beat)
        table.put(heading(say("head", number=head + 1), role), top + 1, 0, beat=beat)
        table.put(FigurePart(0, 56), top + 1, 1)
        for place, word in enumerate(words):
            share = float(weights[head, place])
            box = table.put(ModelBox(word, role, bold=False), top + 2, place + 1, beat=beat)
            percent = table.put(Label(f"{share:.0%}"), top + 3, place + 1, beat=beat)
            percent.below = 0 if head == len(weights) - 1 else 24
            table.join(source, box, role, arrow=False, width=max(0.8, 14 * share), beat=beat)
    return table.drawing(say("gave figure"))


def heads_figure(run: Trace, language: Language) -> Picture:
    """Queries split among the heads, each head's weights and output, and the joined result."""
    say, weights, table = speaker(language), run["weights"], TableFigure(36, 24)
    n, words = weights.shape[-3], weights.labels[-2] or ()
    roles, title = _HEAD_ROLES[:n], say("queries")
    cut, side_by_side = numbers_of(run["projected_queries"]), numbers_of(run["joined"])
    queries = MatrixFigure(cut, title=title, rows=words, parts=roles, cell=SMALL)
    joined = MatrixFigure(side_by_side, rows=words, parts=roles, cell=SMALL)
    table.put(queries, 0, 1, span=n)
    table.put(joined, 4, 1, span=n, beat=n + 1)
    table.note(say("joined"), lambda at: (at.right + 16, at.y), joined, size=14, bold=True,
               anchor="start", beat=n + 1)  # fmt: skip
    for row, key in ((2, "weights"), (3, "outputs")):
        table.put(Label(say(key)), row, 0, align="start")
    for head, role in enumerate(roles):
        beat, column = head + 1, head + 1
        name = table.put(heading(say("head", number=head + 1), role), 1, column, beat=beat)
        name.above = 16
        shares, mixed = (
            MatrixFigure(
                numbers_of(run[step], (0, head)), role, rows=() if head else words, cell=SMALL
            )
            for step in ("weights", "context")
        )
        table.put(shares, 2, column, beat=beat)
        table.put(mixed, 3, column, beat=beat)
        table.join(shares, mixed, beat=beat)
        table.join(queries.group(head), name, role, gaps=(8, 3), beat=beat)
        table.join(mixed, joined.group(head), role, gaps=(5, 8), beat=beat)
    return table.drawing(say("heads figure"))


def reshape_figure(run: Trace, language: Language) -> Picture:
    """T × H·E viewed as T × H × E, then transposed to H × T × E: the numbers stay the same."""
    say, numbers = speaker(language), numbers_of(run["projected_queries"])
    n, words = run["weights"].shape[-3], run["weights"].labels[-2] or ()
    n_words, width = numbers.values.shape
    each, roles = width // n, _HEAD_ROLES[:n]
    title = say("projected", shape=shape_text((n_words, width)))
    table, viewed, turned = TableFigure(70, 30), TableFigure(50, 4), TableFigure(60, 8)
    first = table.put(MatrixFigure(numbers, title=title, rows=words, cell=SMALL, parts=roles), 0, 0)
    said = heading(say("viewed", shape=shape_text((n_words, n, each))))
    viewed.put(said, 0, 0, span=n_words)
    said = heading(say("transposed", shape=shape_text((n, n_words, each))))
    turned.put(said, 0, 0, span=n)
    for place, word in enumerate(words):
        viewed.put(Label(word), 1, place)
    for head, role in enumerate(roles):
        part = numbers.columns(head * each, (head + 1) * each)
        for place in range(n_words):
            viewed.put(MatrixFigure(part.rows(place), role, cell=SMALL), 2 + head, place)
        turned.put(heading(say("head", number=head + 1), role), 1, head)
        turned.put(MatrixFigure(part, role, rows=words, cell=SMALL), 2, head)
    table.join(first, table.put(viewed, 0, 1, beat=1), sideways=True, beat=1)
    table.put(turned, 1, 0, span=2, beat=2)
    table.join(viewed, turned, straight=True, gaps=(4, 2), beat=2)
    return table.drawing(say("reshape figure"))


def fold_figure(step: Step, folded: Step, n_heads: int, say: Speaker) -> Picture:
    """(b, t, h·e) above, (b·h, t, e) below; each head has its colour."""
    roles = _HEAD_ROLES[:n_heads]
    table = TableFigure(26, 40)
    for sentence in range(step.shape[0]):
        whole = MatrixFigure(
            numbers_of(step, (sentence,)), title=say("fold sentence", number=sentence + 1),
            parts=roles, cell=SLIM,
        )  # fmt: skip
        table.put(whole, 0, sentence * n_heads, span=n_heads)
        for head, role in enumerate(roles):
            place = sentence * n_heads + head
            part = MatrixFigure(
                numbers_of(folded, (sentence, head)), role, cell=SLIM,
                title=say("fold head", sentence=sentence + 1, head=head + 1),
            )  # fmt: skip
            table.put(part, 1, place, beat=place + 1)
            table.join(whole.group(head), part, role, gaps=(8, 30), beat=place + 1)
    return table.drawing(say("fold figure"))


def five_stages_figure(run: Trace, language: Language) -> Picture:
    """Multi-head attention from top to bottom: x, projections, heads, outputs, W_O."""
    say, weights, table = speaker(language), run["weights"], TableFigure(0, 22)
    n, words = weights.shape[-3], weights.labels[-2] or ()
    roles = _HEAD_ROLES[:n]
    projections, heads, outputs, last = (TableFigure(gap, 6) for gap in (26, 64, 64, 26))
    inputs = MatrixFigure(run["x"], "input", title="x", rows=words, cell=SLIM)
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
        return MatrixFigure(run[name], role, title=said, cell=SLIM, parts=parts)

    queries, keys, values = (
        projections.put(wide(f"projected_{kind}", f"{say(kind)} = x {symbol}"), 0, place)
        for place, (kind, symbol) in enumerate(
            (("queries", "W_Q"), ("keys", "W_K"), ("values", "W_V"))
        )
    )
    for one in (queries, keys, values):
        table.join(inputs, one, "input", gaps=(4, _OVER_TITLE), beat=1)
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
            table.join(one.group(head), weight, role, gaps=(7, _OVER_TITLE), beat=2, arrow=False)
        table.join(weight, made, role, beat=3)
        around = values.group(head), weight, made
        table.line(_past_the_weights, *around, role=role, beat=3, dashed=True)
        table.join(made, joined.group(head), role, gaps=(4, 6), beat=4)
    return table.drawing(say("five stages figure"))


_OVER_TITLE = 26.0


def _past_the_weights(values: Box, weight: Box, made: Box) -> list[Point]:
    """From the values of a head past its weights to its output."""
    beside = weight.right + 22
    return [(values.x, values.bottom + 7), (beside, weight.top - _OVER_TITLE), (beside, made.y),
            (made.right + 5, made.y)]  # fmt: skip
