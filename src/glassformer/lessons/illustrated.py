"""Self-attention with three inputs: exact numbers, and the text's rounded ones beside them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch

from glassformer.audit.example import Example, PrintedDigits
from glassformer.audit.example_file import load_example
from glassformer.documents.parts import Figure, Table
from glassformer.lessons.figures import attention_figures as drawn
from glassformer.lessons.lesson import (
    LessonStep,
    Parts,
    Speaker,
    formula,
    number,
    percent,
    place_labels,
)
from glassformer.lessons.lesson_steps import AttentionWalk, Remarker, heat_map
from glassformer.lessons.row_questions import with_question
from glassformer.nn import build, presets
from glassformer.nn.attention import MultiHeadAttention
from glassformer.tracing import Cell, Step, Trace, trace

_IDS = {"queries": "queries", "keys": "keys", "values": "values", "scores": "scores",
        "weights": "softmax_exact"}  # fmt: skip
_ASKED = 2
"""The output that the reader computes."""
_MAPS = {"to_queries": "w_query", "to_keys": "w_key", "to_values": "w_value"}


def printed_matrix(example: Example, id_: str) -> torch.Tensor:
    """The printed numbers of a step, as float32."""
    printed = example[id_].printed
    assert isinstance(printed, PrintedDigits)
    return torch.tensor(np.asarray(printed.values), dtype=torch.float32)


def set_maps(attention: MultiHeadAttention, example: Example, ids: dict[str, str]) -> None:
    """Set the matrices that a text prints, with one column per output."""
    with torch.no_grad():
        for name, id_ in ids.items():
            getattr(attention, name).weight.copy_(printed_matrix(example, id_).T)


def illustrated_trace(say: Speaker) -> tuple[Trace, Example]:
    """The trace behind the lesson, and the example that it follows."""
    example = load_example("illustrated")
    attention = build(presets.illustrated(), attention="written").eval()
    assert isinstance(attention, MultiHeadAttention)
    set_maps(attention, example, _MAPS)
    x = printed_matrix(example, "x").unsqueeze(0)
    labels = [say("numbered input", number=number + 1) for number in range(x.size(1))]
    return trace(attention, x, axis_labels={"x": labels}), example


def steps(say: Speaker) -> Iterator[LessonStep]:
    run, example = illustrated_trace(say)
    remarker = Remarker("illustrated", say, _IDS)
    language = say.language
    yield say.step("inputs", "inputs", [
        say("inputs"), heat_map(run["x"], say),
        *(heat_map(run[f"{name}.weight"], say) for name in _MAPS),
        Figure("inputs", drawn.inputs_figure(run, language)),
        Figure("derive", drawn.derive_figure(run, language)),
    ])  # fmt: skip
    walk = AttentionWalk(run, "", say, 0, 1, entry=2, unit="input", remarks=remarker.at)
    projected: tuple[tuple[drawn.Kind, int], ...] = (("queries", 0), ("keys", 1), ("values", 2))
    for kind, place in projected:
        figure = Figure(kind, drawn.projection_figure(run, kind, language))
        yield walk.projection(kind, place).with_(figure)
    shown = {
        name: heat_map(run[step], say)
        for name, step in (
            ("Q", "projected_queries"), ("K", "projected_keys"), ("V", "projected_values"),
            ("S", "scores"), ("A", "weights"),
        )
    }  # fmt: skip
    scores = walk.scores().with_(Figure("scores", drawn.scores_figure(run, language)))
    given = {name: shown[name] for name in "QK"}
    yield with_question(scores, run["scores"], 1, "Q @ K.T", given, say)
    yield walk.scaled()
    weights = walk.weights().with_(Figure("softmax", drawn.softmax_figure(run, language)))
    yield with_question(weights, run["weights"], 2, "softmax(S)", {"S": shown["S"]}, say)
    yield say.step("weighted", "weighted", _weighted(run, say))
    context = walk.context().with_(Figure("sum", drawn.sum_figure(run, language)))
    given = {name: shown[name] for name in "AV"}
    yield with_question(context, run["context"], _ASKED, "A @ V", given, say)
    yield say.step("context", "repeat", _repeat(run, say))
    yield say.step("rounded", "rounded", _rounded(run, example, say))


def _weighted(run: Trace, say: Speaker) -> Parts:
    """The summands of every output: the text's 3 × 3 × 3 tensor, by output."""
    context, names = run["context"], run["scores"].labels[-1]
    assert names is not None
    yield say("weighted")
    yield formula(context[0, 0, 0, 1])
    yield from (_summands(context, place, names, say) for place in range(len(names)))
    yield Figure("weighted", drawn.weighted_figure(run, say.language))


def _summands(context: Step, place: int, names: Sequence[str], say: Speaker) -> Table:
    cells = [context[0, 0, place, entry] for entry in range(context.shape[-1])]
    rows = [
        (name, *(number(cell.terms[key].value) for cell in cells)) for key, name in enumerate(names)
    ]
    if place != _ASKED:
        rows.append((say("sum"), *map(number, cells)))
    caption = say("weighted for", row=names[place])
    return say.table(rows, "from", more=place_labels(context, -1), caption=caption)


def _repeat(run: Trace, say: Speaker) -> Parts:
    weights = run["weights"]
    names = weights.labels[-1]
    assert names is not None
    shares = weights.value[0, 0, 1]
    best = int(shares.argmax())
    yield say(
        "repeat", row=say.quoted(names[0]), other=say.quoted(names[1]),
        best=say.quoted(names[best]), percent=percent(shares[best]),
    )  # fmt: skip
    yield heat_map(weights, say)
    yield heat_map(run["context"], say)
    yield Figure("repeat", drawn.repeat_figure(run, say.language))


def _rounded(run: Trace, example: Example, say: Speaker) -> Parts:
    """The trace again, with the text's rounded weights instead of the exact ones."""
    rounded = printed_matrix(example, "softmax_rounded")
    edits = {
        ("weights", (0, 0, row, column)): float(f"{rounded[row, column]:.1f}")
        for row in range(rounded.size(0))
        for column in range(rounded.size(1))
    }
    coarse = run.edit(edits)
    row, column, entry = 0, 0, 1
    exact: Cell = run["weights"][0, 0, row, column]
    marked: Cell = coarse["context"][0, 0, row, entry]
    names = run["scores"].labels[-1]
    assert names is not None
    yield say(
        "rounded", row=say.quoted(names[row]), column=say.quoted(names[column]),
        rounded=coarse["weights"][0, 0, row, column], exact=exact, entry=entry + 1, coarse=marked,
        fine=run["context"][0, 0, row, entry],
    )  # fmt: skip
    yield heat_map(run["weights"], say, exact, title=say("exact weights"))
    yield heat_map(coarse["weights"], say, title=say("rounded weights"), rows=names, columns=names)
    yield formula(marked)
    yield heat_map(run["context"], say, title=say("exact outputs"))
    yield heat_map(coarse["context"], say, marked, title=say("rounded outputs"), rows=names)
    yield from Remarker("illustrated", say).on("softmax_rounded")
