"""Several heads: where each looks, how a width is cut among them, what a reshape does."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from glassformer.lessons.example import Language
from glassformer.lessons.walks.figures.canvas import Box, Canvas, Drawing, text_width
from glassformer.lessons.walks.figures.grids import Grid, Numbers, Place, draw_grid, numbers_of
from glassformer.lessons.walks.figures.style import Role
from glassformer.lessons.walks.figures.words import FIGURE_WORDS
from glassformer.lessons.walks.phrases import Speaker
from glassformer.trace import Trace
from glassformer.trace.render.matrices import shape_text

__all__ = ["gave_figure", "heads_figure", "reshape_figure"]

_HEAD_ROLES: tuple[Role, ...] = ("query", "score", "value", "key")
"""A colour for each head."""
_SMALL = (38.0, 26.0)
_FAN = 172.0
"""Height of one head's fan."""


def gave_figure(run: Trace, words: Sequence[str], reader: int, language: Language) -> Drawing:
    """What one word of a sentence looks at: a fan for each head, lines as thick as weights."""
    say = Speaker(language, FIGURE_WORDS)
    weights = run["weights"].value[0, :, reader]
    n_heads, pitch, top = weights.shape[0], 150.0, 96.0
    canvas = Canvas(110 + pitch * len(words), top + n_heads * _FAN - 40, say("gave figure"))
    for head in range(n_heads):
        role, base = _HEAD_ROLES[head], top + head * _FAN
        with canvas.appearing(head + 1):
            canvas.text(14, base + 10, say("head", number=head + 1), size=14, anchor="start",
                        bold=True, role=role)  # fmt: skip
            source = (110 + pitch * (reader + 0.5), base - 40)
            canvas.text(source[0], source[1] - 14, words[reader], bold=True, role=role)
            for place, word in enumerate(words):
                share = float(weights[head, place])
                x = 110 + pitch * (place + 0.5)
                canvas.line(source, (x, base + 34), role=role, width=max(0.8, 14 * share))
                width = text_width(word, 15) + 26
                canvas.box(Box(x - width / 2, base + 36, width, 28), "part", role, corner=6)
                canvas.text(x, base + 50, word, size=15)
                canvas.text(x, base + 78, f"{100 * share:.0f} %", size=13, role="quiet")
    return canvas.done()


def _split(numbers: Numbers, n_heads: int) -> list[Numbers]:
    width = numbers.values.shape[1] // n_heads
    return [numbers.columns(head * width, (head + 1) * width) for head in range(n_heads)]


def _frames(canvas: Canvas, grid: Grid, n_heads: int) -> None:
    """A frame for the columns of each head."""
    width = grid.n_columns // n_heads
    for head in range(n_heads):
        columns = range(head * width, (head + 1) * width)
        part = grid.part(range(grid.n_rows), columns)
        canvas.box(Box(part.left - 1, part.top - 3, part.width + 2, part.height + 6),
                   role=_HEAD_ROLES[head])  # fmt: skip


def heads_figure(run: Trace, language: Language) -> Drawing:
    """The queries cut among the heads, each head's weights and output, joined and mapped."""
    say = Speaker(language, FIGURE_WORDS)
    weights = run["weights"]
    n_heads = weights.shape[-3]
    words = weights.labels[-2] or ()
    canvas = Canvas(960, 530, say("heads figure"))
    pitch = 216.0
    queries = draw_grid(
        canvas, numbers_of(run["projected_queries"]), Place(330, 46, _SMALL, 12),
        title=say("queries"), rows=words,
    )  # fmt: skip
    _frames(canvas, queries, n_heads)
    joined_step = run["joined"]
    for head in range(n_heads):
        role, x = _HEAD_ROLES[head], 140 + head * pitch
        width = queries.n_columns // n_heads
        part = queries.part(range(queries.n_rows), range(head * width, (head + 1) * width))
        with canvas.appearing(head + 1):
            middle = x + 60
            canvas.line((part.x, part.bottom + 6), (middle, 178), role=role, arrow=True)
            canvas.text(middle, 194, say("head", number=head + 1), bold=True, role=role)
            shares = numbers_of(weights, (0, head))
            grid = draw_grid(
                canvas, shares, Place(x, 214, _SMALL, 12), role=role,
                rows=words if head == 0 else (),
            )  # fmt: skip
            mixed = numbers_of(run["context"], (0, head))
            context = draw_grid(
                canvas, mixed, Place(x + 20, 326, _SMALL, 12), role=role,
                rows=words if head == 0 else (),
            )  # fmt: skip
            canvas.line((grid.box.x, grid.box.bottom + 6), (grid.box.x, 320), arrow=True)
            target = 330 + (head + 0.5) * width * (_SMALL[0] + 2)
            canvas.line((context.box.x, context.box.bottom + 6), (target, 428),
                        role=role, arrow=True)  # fmt: skip
    with canvas.appearing(n_heads + 1):
        joined = draw_grid(canvas, numbers_of(joined_step), Place(330, 434, _SMALL, 12), rows=words)
        _frames(canvas, joined, n_heads)
        canvas.text(joined.box.right + 16, joined.box.y, say("joined"), anchor="start", bold=True)
    canvas.text(14, 254, say("weights"), size=13, anchor="start", role="quiet")
    canvas.text(14, 340, say("outputs"), size=13, anchor="start", role="quiet")
    return canvas.done()


def reshape_figure(run: Trace, language: Language) -> Drawing:
    """T × H·E, seen as T × H × E, then as H × T × E: the numbers stay, the axes change places."""
    say = Speaker(language, FIGURE_WORDS)
    numbers = numbers_of(run["projected_queries"])
    n_heads = run["weights"].shape[-3]
    words = run["weights"].labels[-2] or ()
    n_words, width = numbers.values.shape
    per_head = width // n_heads
    canvas = Canvas(1000, 404, say("reshape figure"))
    first = draw_grid(
        canvas, numbers, Place(80, 62, _SMALL, 12), rows=words,
        title=say("projected", shape=shape_text((n_words, width))),
    )  # fmt: skip
    _frames(canvas, first, n_heads)
    by_head = numbers.values.reshape(n_words, n_heads, per_head)
    with canvas.appearing(1):
        canvas.line((first.box.right + 14, first.box.y), (484, first.box.y), arrow=True)
        shape = shape_text((n_words, n_heads, per_head))
        canvas.text(738, 40, say("viewed", shape=shape), bold=True)
        _view(canvas, by_head, numbers, words)
    with canvas.appearing(2):
        canvas.line((738, 222), (738, 252), arrow=True)
        shape = shape_text((n_heads, n_words, per_head))
        canvas.text(480, 264, say("transposed", shape=shape), bold=True)
        _by_head(canvas, numbers, n_heads, words, say)
    return canvas.done()


def _view(
    canvas: Canvas,
    by_head: np.ndarray[tuple[int, ...], np.dtype[np.float64]],
    numbers: Numbers,
    words: Sequence[str],
) -> None:
    """For each word a small matrix with a row for each head."""
    for place, word in enumerate(words):
        left = 540.0 + place * 152
        canvas.text(left + 39, 62, word, size=13, role="quiet")
        for head in range(by_head.shape[1]):
            row = Numbers(by_head[place, head : head + 1], numbers.scale)
            where = Place(left, 82 + head * 34, _SMALL, 12)
            draw_grid(canvas, row, where, role=_HEAD_ROLES[head])


def _by_head(
    canvas: Canvas, numbers: Numbers, n_heads: int, words: Sequence[str], say: Speaker
) -> None:
    """For each head a small matrix with a row for each word."""
    for head, part in enumerate(_split(numbers, n_heads)):
        left = 150.0 + head * 210
        role = _HEAD_ROLES[head]
        grid = draw_grid(canvas, part, Place(left, 300, _SMALL, 12), role=role, rows=words)
        canvas.text(grid.box.x, 286, say("head", number=head + 1), size=13, bold=True, role=role)
