"""A Transformer block and a classifier, with the vectors that went through them."""

from __future__ import annotations

from collections.abc import Sequence

from glassformer.lessons.example import Language
from glassformer.lessons.walks.figures.canvas import Box, Canvas, Drawing, text_width
from glassformer.lessons.walks.figures.grids import Place, draw_grid, numbers_of
from glassformer.lessons.walks.figures.style import Role
from glassformer.lessons.walks.figures.words import FIGURE_WORDS
from glassformer.lessons.walks.phrases import Speaker
from glassformer.trace import Trace

__all__ = ["block_figure", "classifier_figure"]

_CELL = (42.0, 26.0)
_BLOCK = "encoder.blocks.0"
# From below: what is drawn, the step whose vectors leave it, and its colour.
_STAGES: tuple[tuple[str, str, Role], ...] = (
    ("attention", f"{_BLOCK}.attention.output", "score"),
    ("+", f"{_BLOCK}.attention_sum", "quiet"),
    ("norm", f"{_BLOCK}.resid_mid", "value"),
    ("feed-forward", f"{_BLOCK}.feed_forward.contracted", "key"),
    ("+", f"{_BLOCK}.feed_sum", "quiet"),
    ("norm", f"{_BLOCK}.resid_post", "value"),
)


def block_figure(run: Trace, words: Sequence[str], language: Language) -> Drawing:
    """The parts of a block, the residual connections, and every word's vector on its way."""
    say = Speaker(language, FIGURE_WORDS)
    n, width = len(words), run["encoder.summed"].shape[-1]
    pitch = width * (_CELL[0] + 2) + 30
    left, step = 300.0, 74.0
    bottom = 60 + step * len(_STAGES)
    canvas = Canvas(left + n * pitch + 10, bottom + 92, say("block figure"))
    x = 150.0
    levels = [bottom - step * (place + 1) for place in range(len(_STAGES))]
    canvas.box(Box(26, levels[-1] - 26, 248, bottom - levels[-1] + 12), "empty", corner=12,
               dashed=True)  # fmt: skip
    _vectors(canvas, run, "encoder.summed", left, bottom + 34, pitch, n, "input")
    canvas.line((x, bottom + 40), (x, levels[0] + 18), arrow=True)
    canvas.text(x, bottom + 52, say("embedding"), size=14, role="input", bold=True)
    for place, (key, name, role) in enumerate(_STAGES):
        y = levels[place]
        with canvas.appearing(place + 1):
            _stage(canvas, key, x, y, role, say)
            if place + 1 < len(levels):
                canvas.line((x, y - 18), (x, levels[place + 1] + 18), arrow=True)
            _vectors(canvas, run, name, left, y - 13, pitch, n, role)
            if key == "+":
                begin = levels[place - 2] + 37 if place > 1 else bottom + 26
                canvas.line((x, begin), (44, begin), (44, y), (x - 16, y), role="input",
                            arrow=True)  # fmt: skip
    canvas.line((x, levels[-1] - 18), (x, levels[-1] - 40), arrow=True)
    canvas.line((26, bottom + 78), (50, bottom + 78), role="input")
    canvas.text(58, bottom + 78, say("residual"), size=13, anchor="start", role="quiet")
    for place, word in enumerate(words):
        middle = left + place * pitch + (pitch - 30) / 2
        canvas.text(middle, bottom + 78, word, size=15, bold=True)
    return canvas.done()


def _stage(canvas: Canvas, key: str, x: float, y: float, role: Role, say: Speaker) -> None:
    if key == "+":
        canvas.dot(x, y, 14, fill="var(--gf-soft)")
        canvas.ring(x, y, 14)
        canvas.text(x, y, "+", size=18, bold=True)
        return
    canvas.box(Box(x - 86, y - 18, 172, 36), "part", role, corner=8)
    canvas.text(x, y, say(key), size=14, bold=True, role=role)


def _vectors(
    canvas: Canvas, run: Trace, name: str, left: float, top: float, pitch: float, n: int, role: Role
) -> None:
    numbers = numbers_of(run[name])
    for place in range(n):
        where = Place(left + place * pitch, top, _CELL, 12)
        draw_grid(canvas, numbers.rows(place), where, role=role)


def classifier_figure(
    run: Trace, words: Sequence[str], classes: Sequence[str], language: Language
) -> Drawing:
    """Words, blocks, their mean, a linear map and a probability for each class."""
    say = Speaker(language, FIGURE_WORDS)
    n, width = len(words), run["encoder.summed"].shape[-1]
    pitch = width * (_CELL[0] + 2) + 26
    left = 150.0
    canvas = Canvas(max(660, left + n * pitch + 10), 482, say("classifier figure"))
    middle = left + (n * pitch - 26) / 2
    _vectors(canvas, run, "encoder.summed", left, 402, pitch, n, "input")
    canvas.text(14, 415, say("embedding"), size=13, anchor="start", role="input")
    for place, word in enumerate(words):
        centre = left + place * pitch + (pitch - 26) / 2
        canvas.text(centre, 450, word, size=15, bold=True)
        canvas.line((centre, 396), (centre, 374), arrow=True)
        canvas.line((centre, 334), (centre, 318), arrow=True)
        with canvas.appearing(2):
            canvas.line((centre, 282), (middle, 248), role="weighted", arrow=True)
    canvas.box(Box(left - 8, 336, n * pitch - 10, 36), "part", "score", corner=8)
    canvas.text(middle, 354, say("one block"), size=14, bold=True, role="score")
    with canvas.appearing(1):
        _vectors(canvas, run, f"{_BLOCK}.resid_post", left, 286, pitch, n, "value")
    with canvas.appearing(2):
        half = (pitch - 26) / 2
        draw_grid(canvas, numbers_of(run["pooled"]), Place(middle - half, 216, _CELL, 12),
                  role="weighted")  # fmt: skip
        canvas.text(14, 229, say("pooled"), size=13, anchor="start", role="weighted")
    _answer(canvas, run, classes, middle, say)
    return canvas.done()


def _answer(
    canvas: Canvas, run: Trace, classes: Sequence[str], middle: float, say: Speaker
) -> None:
    """Logits and probabilities of the classes, above the mean."""
    pitch = 110.0
    logits, shares = numbers_of(run["logits"]), numbers_of(run["probabilities"])
    start = middle - pitch * (len(classes) - 1) / 2
    with canvas.appearing(3):
        canvas.text(14, 159, say("linear"), size=13, anchor="start", role="quiet")
        for place in range(len(classes)):
            x = start + place * pitch
            canvas.line((middle, 210), (x, 182), arrow=True)
            draw_grid(canvas, logits.columns(place, place + 1), Place(x - 23, 144))
    with canvas.appearing(4):
        canvas.text(14, 91, "softmax", size=13, anchor="start", role="quiet")
        for place, name in enumerate(classes):
            x = start + place * pitch
            canvas.line((x, 138), (x, 112), arrow=True)
            draw_grid(canvas, shares.columns(place, place + 1), Place(x - 23, 76), role="output")
            likely = shares.values[0, place] == shares.values.max()
            role: Role = "output" if likely else "quiet"
            canvas.text(x, 48, name, size=15, bold=bool(likely), role=role)
            if likely:
                half = text_width(name, 15) / 2 + 12
                canvas.box(Box(x - half, 34, 2 * half, 28), role="output", corner=8)
