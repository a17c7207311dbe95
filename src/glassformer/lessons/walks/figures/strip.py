"""The Transformer by hand as a strip of pictures, drawn as if by hand, with its real numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from glassformer.lessons.example import Language
from glassformer.lessons.walks.figures.canvas import Box, Canvas, Drawing, text_width
from glassformer.lessons.walks.figures.grids import Numbers, Place, draw_grid, numbers_of
from glassformer.lessons.walks.figures.style import Role
from glassformer.lessons.walks.figures.words import FIGURE_WORDS
from glassformer.lessons.walks.phrases import Speaker
from glassformer.trace import Trace

__all__ = ["Played", "strip_figure"]

_PANEL = (300.0, 270.0)
_ACROSS = 3
_CELL = (34.0, 24.0)
_ENCODER, _DECODER = "model.encoder.blocks.0", "model.decoder.blocks.0"


@dataclass(frozen=True)
class Played:
    """Who acts in the strip: the words, the one that asks, and the word that is predicted."""

    words: Sequence[str]
    asking: int
    started: str
    vocabulary: Sequence[str]

    @property
    def asker(self) -> str:
        """The word that asks."""
        return self.words[self.asking]


def strip_figure(run: Trace, played: Played, language: Language) -> Drawing:
    """Nine pictures, row by row."""
    say = Speaker(language, FIGURE_WORDS)
    panels = _panels(run, played, say)
    rows = math.ceil(len(panels) / _ACROSS)
    width, height = _PANEL
    canvas = Canvas(_ACROSS * (width + 14) + 14, rows * (height + 14) + 14, say("strip figure"))
    for place, (said, draw) in enumerate(panels):
        left = 14 + (place % _ACROSS) * (width + 14)
        top = 14 + (place // _ACROSS) * (height + 14)
        with canvas.appearing(place + 1):
            canvas.path(_by_hand(Box(left, top, width, height), place), role="ink", width=2.2)
            _bubble(canvas, left + 16, top + 14, said, place + 1)
            draw(canvas, left + width / 2, top + 76)
    return canvas.done()


_Draw = Callable[[Canvas, float, float], None]


def _panels(run: Trace, played: Played, say: Speaker) -> list[tuple[str, _Draw]]:
    attention, words = f"{_ENCODER}.attention", played.words

    def rows(name: str, role: Role, framed: int | None = None) -> _Draw:
        whole = numbers_of(run[name])
        return lambda canvas, x, y: _matrix(canvas, whole, (x, y), role, words, framed)

    likeliest, shares = _prediction(run, played)
    return [
        (say("strip words"), rows("model.encoder.embedding.looked_up", "input")),
        (say("strip positions"), rows("model.encoder.summed", "input")),
        (
            say("strip queries", word=played.asker),
            rows(f"{attention}.projected_queries", "query", played.asking),
        ),
        (say("strip scores"), _row_bars(run, f"{attention}.scaled", played.asking, words)),
        (say("strip weights"), _row_bars(run, f"{attention}.weights", played.asking, words)),
        (say("strip context"), rows(f"{attention}.context", "output", played.asking)),
        (say("strip norm"), rows(f"{_ENCODER}.feed_forward_norm.normed", "value")),
        (
            say("strip decoder", word=played.started),
            _row_bars(run, f"{_DECODER}.cross_attention.weights", 0, words),
        ),
        (say("strip prediction", word=likeliest[0]), _draw_bars(likeliest, shares, "output")),
    ]


def _prediction(run: Trace, played: Played) -> tuple[list[str], list[float]]:
    shares = run["probabilities"].value[0]
    order = shares.argsort(descending=True, stable=True)[:5].tolist()
    return [played.vocabulary[id_] for id_ in order], [float(shares[id_]) for id_ in order]


def _matrix(
    canvas: Canvas, numbers: Numbers, at: tuple[float, float], role: Role, labels: Sequence[str],
    framed: int | None,
) -> None:  # fmt: skip
    """A matrix in the middle of its picture; the row of the one who asks may be framed."""
    width = numbers.values.shape[1] * (_CELL[0] + 2)
    place = Place(at[0] - width / 2 + 28, at[1], _CELL, 11)
    grid = draw_grid(canvas, numbers, place, role=role, rows=labels)
    if framed is not None:
        canvas.box(grid.row(framed).grown(5), role="query", corner=7)


def _row_bars(run: Trace, name: str, row: int, words: Sequence[str]) -> _Draw:
    values = [float(number) for number in numbers_of(run[name]).values[row]]
    role: Role = "score" if name.endswith("scaled") else "output"
    return _draw_bars(words, values, role)


def _draw_bars(words: Sequence[str], values: Sequence[float], role: Role) -> _Draw:
    """A bar for each word, from the left; the numbers beside."""
    widest = max(abs(value) for value in values)

    def draw(canvas: Canvas, x: float, y: float) -> None:
        left = x - 52
        for place, (word, value) in enumerate(zip(words, values, strict=True)):
            middle = y + 12 + place * 29
            canvas.text(left - 8, middle, word, size=13, anchor="end")
            canvas.bar(Box(left, middle - 8, max(1.5, 118 * abs(value) / widest), 16), role)
            end = left + 118 * abs(value) / widest + 8
            canvas.text(end, middle, f"{value:.2f}", size=12, anchor="start", role="quiet")

    return draw


def _bubble(canvas: Canvas, left: float, top: float, said: str, number: int) -> None:
    size = 14.0
    width = text_width(said, size) + 52
    canvas.box(Box(left, top, min(width, _PANEL[0] - 32), 34), "panel", corner=17)
    canvas.dot(left + 18, top + 17, 11, fill="var(--gf-ink)")
    canvas.text(left + 18, top + 17, str(number), size=13, bold=True, fill="var(--gf-paper)")
    canvas.text(left + 36, top + 17, said, size=size, anchor="start")


def _by_hand(box: Box, seed: int) -> str:
    """A frame whose sides are not quite straight; the same every time."""

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
