"""Figures of the lessons on ideas: order, the mask, residuals and norms, the folding of heads."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from glassformer.lessons.figures.canvas import Box, Canvas, Role, SvgDrawing
from glassformer.lessons.figures.sheet import (
    SLIM,
    FigurePart,
    MatrixFigure,
    ModelBox,
    Point,
    Sign,
    TableFigure,
    heading,
    numbers_of,
)
from glassformer.lessons.lesson import Speaker
from glassformer.nn.tensors import Tensor
from glassformer.tracing import Step

_HUES: tuple[Role, ...] = ("query", "key", "value", "score", "output", "input", "weighted")


def order_figure(
    one: Step, other: Step, moved: Sequence[int], say: Speaker, title: str
) -> SvgDrawing:
    """Outputs of two sentences side by side, with a line between equal words.

    Row i of `other` belongs to the word in row moved[i] of `one`.
    """
    table = TableFigure(110, 16)
    left, right = (
        table.put(
            MatrixFigure(
                numbers_of(step), "output", title=say("of outputs", number=place + 1),
                rows=step.labels[-2] or (),
            ),
            0, place,
        )
        for place, step in enumerate((one, other))
    )  # fmt: skip
    words = max(len(word) for word in other.labels[-2] or ("",)) * 8 + 14

    for row, source in enumerate(moved):

        def route(a: Box, b: Box, row: int = row, source: int = source) -> list[Point]:
            start, end = left.row(source).y, right.row(row).y
            return [(a.right + 6, start), (b.left - words, end)]

        table.line(route, left, right, role=_HUES[source], width=2, arrow=True)
    return table.drawing(title)


# --- the mask --------------------------------------------------------------------------------


class MaskGrid(FigurePart):
    """Rows of positions and columns of what they may attend to; answers are framed."""

    _CELL = 44.0

    def __init__(self, tokens: Sequence[str], visible: Tensor | None, say: Speaker) -> None:
        self._tokens, self._visible, self._say = tokens, visible, say
        size = self._CELL * len(tokens)
        super().__init__(size, size)
        self.before, self.after = 96.0, 110.0
        self.above = 52.0

    def draw(self, canvas: Canvas) -> None:
        box, cell, say = self.box, self._CELL, self._say
        canvas.text(box.x, box.top - 40, say("sees"), size=13, role="quiet")
        canvas.text(box.left - 46, box.top - 16, say("reads"), size=13, role="quiet")
        canvas.text(box.right + 54, box.top - 16, say("to predict"), size=13, role="quiet")
        for row, token in enumerate(self._tokens):
            y = box.top + cell * (row + 0.5)
            canvas.text(box.left - 46, y, f"{row + 1}: {token}", size=15, bold=True)
            canvas.text(box.left + cell * (row + 0.5), box.top - 16, token, size=15, bold=True)
            following = self._tokens[row + 1] if row + 1 < len(self._tokens) else "?"
            canvas.text(box.right + 54, y, f"→ {following}", size=15, role="query", bold=True)
            for column in range(len(self._tokens)):
                self._draw_cell(canvas, row, column)

    def _draw_cell(self, canvas: Canvas, row: int, column: int) -> None:
        cell = self._CELL
        left, top = self.box.left + cell * column, self.box.top + cell * row
        inside = Box(left + 2, top + 2, cell - 4, cell - 4)
        seen = self._visible is None or bool(self._visible[row, column])
        canvas.box(inside, "part" if seen else "empty", "output" if seen else None, dashed=not seen)
        role: Role = "output" if seen else "quiet"
        canvas.text(inside.x, inside.y, "✓" if seen else "−∞", size=15 if seen else 12, role=role)
        if column == row + 1:
            canvas.box(inside.grown(1), "frame", "query")


def mask_figure(tokens: Sequence[str], visible: Tensor | None, say: Speaker) -> SvgDrawing:
    """What each position may attend to (everything if `visible` is None), and its answer."""
    table = TableFigure()
    table.put(MaskGrid(tokens, visible, say), 0, 0)
    return table.drawing(say(f"mask figure {'off' if visible is None else 'on'}"))


# --- folding ---------------------------------------------------------------------------------


def fold_figure(step: Step, folded: Step, n_heads: int, say: Speaker) -> SvgDrawing:
    """(b, t, h·e) above, (b·h, t, e) below; each head has its colour."""
    roles = _HUES[:n_heads]
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

            def route(
                _a: Box, b: Box, whole: MatrixFigure = whole, head: int = head
            ) -> list[Point]:
                group = whole.group(head)
                return [(group.x, group.bottom + 8), (b.x, b.top - 30)]

            table.line(route, whole, part, role=role, beat=place + 1)
    return table.drawing(say("fold figure"))


# --- residuals and norms ---------------------------------------------------------------------


def residual_figure(residual: bool, norm: str, say: Speaker) -> SvgDrawing:
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
