"""Encoder and decoder at a glance: shapes from the trace, and how far a lesson has come."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from glassformer.lessons.example import Language
from glassformer.lessons.walks.figures.canvas import Box, Canvas, Drawing
from glassformer.lessons.walks.figures.style import Role
from glassformer.lessons.walks.figures.words import FIGURE_WORDS
from glassformer.lessons.walks.phrases import Speaker
from glassformer.trace import Trace
from glassformer.trace.render.matrices import shape_text

__all__ = ["Stage", "architecture_figure"]

Stage = Literal["nothing", "encoder", "decoder", "everything"]
"""What has been covered, up to and with it."""
_REACHED: dict[Stage, int] = {"nothing": 0, "encoder": 1, "decoder": 2, "everything": 3}
_WIDTH, _HEIGHT, _STEP = 216.0, 34.0, 58.0
_ENCODER, _DECODER = "model.encoder.blocks.0", "model.decoder.blocks.0"
# What is drawn from below, with the step whose shape stands beside it and the part it belongs to.
_Row = tuple[str, str, Role]
_LEFT: tuple[_Row, ...] = (
    ("embedding", "model.encoder.summed", "input"),
    ("attention", f"{_ENCODER}.attention.output", "score"),
    ("add and norm", f"{_ENCODER}.attention_norm.normed", "value"),
    ("feed-forward", f"{_ENCODER}.feed_forward.activated", "key"),
    ("add and norm", f"{_ENCODER}.feed_forward_norm.normed", "value"),
)
_RIGHT: tuple[_Row, ...] = (
    ("embedding", "model.decoder.summed", "input"),
    ("masked attention", f"{_DECODER}.attention.output", "score"),
    ("add and norm", f"{_DECODER}.attention_norm.normed", "value"),
    ("cross-attention", f"{_DECODER}.cross_attention.output", "query"),
    ("add and norm", f"{_DECODER}.cross_attention_norm.normed", "value"),
    ("feed-forward", f"{_DECODER}.feed_forward.activated", "key"),
    ("add and norm", f"{_DECODER}.feed_forward_norm.normed", "value"),
)
_TOP: tuple[_Row, ...] = (
    ("linear", "model.logits", "weighted"),
    ("softmax", "probabilities", "output"),
)


def architecture_figure(
    run: Trace, source: Sequence[str], target: str, predicted: str, covered: Stage,
    language: Language,
) -> Drawing:  # fmt: skip
    """The whole model; parts not covered yet are dashed and pale."""
    say = Speaker(language, FIGURE_WORDS)
    reached = _REACHED[covered]
    height = 96 + _STEP * (len(_RIGHT) + len(_TOP)) + 78
    canvas = Canvas(860, height, say("architecture figure"))
    bottom = height - 92
    left, right = 190.0, 560.0
    _tower(canvas, run, _LEFT, left, bottom, say, done=reached >= 1)
    _tower(canvas, run, _RIGHT, right, bottom, say, done=reached >= 2)
    top = bottom - _STEP * len(_RIGHT)
    canvas.line((right, top + _STEP - _HEIGHT / 2), (right, top + _HEIGHT / 2), arrow=True)
    _tower(canvas, run, _TOP, right, top, say, done=reached >= 3)
    canvas.text(left, bottom + 46, " ".join(source), size=13)
    canvas.text(right, bottom + 46, target, size=13)
    canvas.text(left, bottom - _STEP * len(_LEFT) + 8, say("encoder"), bold=True, role="quiet")
    canvas.text(right + 200, bottom - _STEP * 3, say("decoder"), bold=True, role="quiet")
    _memory(canvas, left, right, bottom, say, done=reached >= 2)
    last = top - _STEP * (len(_TOP) - 1) - _HEIGHT / 2
    canvas.line((right, last), (right, last - 24), arrow=True)
    said = predicted if reached >= 3 else "?"
    canvas.text(right, last - 38, said, size=17, bold=True, role="output")
    _legend(canvas, say)
    return canvas.done()


def _tower(
    canvas: Canvas, run: Trace, rows: Sequence[_Row], x: float, bottom: float, say: Speaker, *,
    done: bool,
) -> None:  # fmt: skip
    """Boxes one above another, each with the shape that leaves it."""
    canvas.line((x, bottom + 34), (x, bottom + _HEIGHT / 2), arrow=True)
    for place, (key, name, role) in enumerate(rows):
        y = bottom - _STEP * place
        box = Box(x - _WIDTH / 2, y - _HEIGHT / 2, _WIDTH, _HEIGHT)
        canvas.box(box, "part" if done else "empty", role, corner=8, dashed=not done)
        canvas.text(x, y, say(key), size=14, bold=done, role=role if done else "quiet")
        if place:
            canvas.line((x, y + _STEP - _HEIGHT / 2), (x, y + _HEIGHT / 2), arrow=True)
        shape = shape_text([size for size in run[name].shape if size != 1])
        canvas.text(x + 8, y - _HEIGHT / 2 - 12, shape, size=12, anchor="start", role="quiet")


def _memory(
    canvas: Canvas, left: float, right: float, bottom: float, say: Speaker, *, done: bool
) -> None:
    """The encoder's output, read by the decoder's cross-attention."""
    start = bottom - _STEP * (len(_LEFT) - 1)
    end = bottom - _STEP * 3
    middle = (left + right) / 2
    role: Role = "query" if done else "quiet"
    canvas.line(
        (left + _WIDTH / 2, start), (middle, start), (middle, end), (right - _WIDTH / 2, end),
        role=role, arrow=True, dashed=not done,
    )  # fmt: skip
    canvas.text(middle + 8, start - 14, say("memory"), size=13, role=role)


def _legend(canvas: Canvas, say: Speaker) -> None:
    for place, key in enumerate(("covered", "to come")):
        y, done = 34 + place * 28, key == "covered"
        canvas.box(Box(24, y - 9, 28, 18), "part" if done else "empty", "score", dashed=not done)
        canvas.text(62, y, say(key), size=13, anchor="start", role="quiet")
