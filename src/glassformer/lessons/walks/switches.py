"""From self-attention to the Transformer: ten switches, turned on one after the other.

`switches_model` is one small machine of our own modules in which each of the ten can be on or off;
the lesson turns them on in turn and shows what changes in shapes, parameters, numbers. A switch
that is left off changes what the later ones do, so some have words of their own for that.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from glassformer.errors import UnknownNameError
from glassformer.language import Language, words
from glassformer.lessons.walks.lesson import HeatMap, Lesson, LessonStep, Paragraph, Part, Table
from glassformer.lessons.walks.phrases import Speaker
from glassformer.lessons.walks.steps import heat_map
from glassformer.lessons.walks.switches_model import (
    IDS,
    KEPT,
    SWITCHES,
    WIDTH,
    WORDS,
    Switched,
    switched_trace,
)
from glassformer.lessons.walks.textbook import number
from glassformer.nn import count_parameters
from glassformer.trace import Trace
from glassformer.trace.render.matrices import shape_text

__all__ = ["PHRASES", "switches"]

PHRASES = words(__name__)


def switches(language: Language, off: Collection[str] = ()) -> Lesson:
    """The lesson; what is in `off` is never switched on."""
    for name in off:
        if name not in SWITCHES:
            raise UnknownNameError("switch", name, SWITCHES)
    say = Speaker(language, PHRASES)
    steps = tuple(_steps([name for name in SWITCHES if name not in off], say))
    return Lesson("switches", say("title"), say("summary"), language, steps)


def _steps(chosen: list[str], say: Speaker) -> Iterator[LessonStep]:
    model, run = switched_trace(frozenset())
    line = _line(model, run, say)
    table = [(say("no switch"), *line)]
    parts: list[Part] = [Paragraph(say("start")), _output(run, say)]
    yield LessonStep("switch", say("start title"), tuple(parts))
    for place, name in enumerate(chosen, start=1):
        before = line
        model, run = switched_trace(frozenset(chosen[:place]))
        line = _line(model, run, say)
        table.append((say(name), *line))
        title = say("turned on", number=place, count=len(chosen), name=say(name))
        said = [_said(name, model, run, say), *_changed(name, before, line, run, say)]
        yield LessonStep("switch", title, tuple(said))
    heads = (say("switch"), *_heads(say))
    parts = [Paragraph(say("all")), Table("", heads, tuple(table))]
    yield LessonStep("switch", say("all title"), tuple(parts))


def _heads(say: Speaker) -> tuple[str, ...]:
    names = ("input shape", "output shape", "parameters", "last output")
    return tuple(say(name) for name in names)


def _line(model: Switched, run: Trace, say: Speaker) -> tuple[str, ...]:
    """Shapes, parameters and the last numbers (under a mask the first word sees only itself)."""
    output = next(iter(run.outputs.values()))
    last = ", ".join(number(float(x), 3) for x in output.value[0, -1])
    kept = output.shape[-2]
    read = say("given vectors", shape=shape_text((kept, WIDTH)))
    return (
        say("given words", count=kept) if "embedding" in model.on else read,
        shape_text(output.shape[1:]),
        f"{count_parameters(model):,}",
        last,
    )


def _said(name: str, model: Switched, run: Trace, say: Speaker) -> Paragraph:
    """What a switch does, beside those that are on."""
    if name == "position":
        with_words = "embedding" in model.on
        again = IDS.index(IDS[0], 1) if with_words else len(IDS) // 2  # equal to the first
        output = next(iter(run.outputs.values())).value[0]
        difference = number(float((output[0] - output[again]).abs().max()), 3)
        phrase = "position text" if with_words else "position vectors"
        return Paragraph(say(phrase, difference=difference))
    phrase = f"{name} text"
    if name in ("heads", "stacking", "norm") and "width" not in model.on:
        phrase = f"{name} narrow"
    elif name == "norm" and model.on != frozenset(SWITCHES):
        phrase = "norm part"
    return Paragraph(say(phrase, kept=KEPT))


def _changed(
    name: str, before: tuple[str, ...], now: tuple[str, ...], run: Trace, say: Speaker
) -> Iterator[Part]:
    rows = tuple(
        (head, old, new)
        for head, old, new in zip(_heads(say), before, now, strict=True)
        if old != new
    )
    if rows:
        yield Table("", ("", say("before"), say("now")), rows)
    yield _output(run, say)
    if name in ("masking", "heads"):
        yield from _weights(run, say)


def _output(run: Trace, say: Speaker) -> HeatMap:
    output = next(iter(run.outputs.values()))
    return heat_map(
        output, say, rows=_names(run, output.shape[-2], say),
        title=f"{say('output shape')}, {shape_text(output.shape[1:])}",
    )  # fmt: skip


def _weights(run: Trace, say: Speaker) -> Iterator[HeatMap]:
    weights = run["layers.0.attention.weights"]
    words = _names(run, weights.shape[-1], say)
    for head in range(weights.shape[-3]):
        yield heat_map(weights, say, head=head, rows=words, columns=words)


def _names(run: Trace, count: int, say: Speaker) -> tuple[str, ...]:
    """The words that are read; numbered inputs where there are vectors instead."""
    if "embedding.weight" in run.parameters:
        return WORDS[:count]
    return tuple(say("numbered input", number=place + 1) for place in range(count))
