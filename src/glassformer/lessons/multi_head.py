"""Multi-head attention: 256 → 4 × 64 by its shapes, then a version small enough to read."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from glassformer.claims.costs import attention_parameters
from glassformer.documents.heat_maps import shape_text
from glassformer.documents.parts import Figure
from glassformer.lessons.figures.head_figures import (
    PipelineSteps,
    five_stages_figure,
    heads_figure,
    pipeline_figure,
    reshape_figure,
)
from glassformer.lessons.lesson import LessonStep, Parts, Speaker, step_title
from glassformer.lessons.lesson_steps import AttentionWalk, draw_short, heat_map, short_numbers
from glassformer.lessons.row_questions import with_question
from glassformer.nn import AttentionConfig
from glassformer.nn.attention import MultiHeadAttention, set_attention
from glassformer.tracing import Step, Trace, trace

_WIDTH, _HEADS, _SMALL = 256, 4, 8
_WORDS = ("the", "cat", "walks")
_SHOWN = ("x", "projected_queries", "unrotated", "scores", "weights", "context", "joined", "output")


def _attention(width: int) -> MultiHeadAttention:
    attention = MultiHeadAttention(width, AttentionConfig(n_heads=_HEADS))
    set_attention(attention, "written")
    draw_short(attention, seed=3)
    return attention.eval()


def steps(say: Speaker) -> Iterator[LessonStep]:
    generator = torch.Generator().manual_seed(1)
    x = short_numbers(1, len(_WORDS), _SMALL, generator=generator)
    run = trace(_attention(_SMALL), x, axis_labels={"x": list(_WORDS)})
    drawn = Figure("heads", heads_figure(run, say.language))
    yield say.step("shapes", "shapes", [say("idea"), drawn, *_shapes(say)])
    yield say.step("cost", "cost", _cost(say))
    said = say("twin", width=_SMALL, heads=_HEADS, per_head=_SMALL // _HEADS)
    yield say.step("inputs", "twin", [said, heat_map(run["x"], say)])
    walk = AttentionWalk(run, "", say, query=2, key=1, entry=0, head=1)
    reshape = Figure("reshape", reshape_figure(run, say.language))
    for kind, place in (("queries", 2), ("keys", 1), ("values", 1)):
        step = walk.projection(kind, place)
        yield step.with_(reshape) if kind == "queries" else step
    yield from _scores(walk, run, say)
    yield say.step("weights", "all heads", _all_heads(run, say))
    pipeline = pipeline_figure(PipelineSteps(run, head=walk.head), say.language)
    yield walk.context().with_(Figure("pipeline", pipeline))
    yield _joined(run, say)
    yield walk.output().with_(Figure("stages", five_stages_figure(run, say.language)))


def _scores(walk: AttentionWalk, run: Trace, say: Speaker) -> Iterator[LessonStep]:
    """Scores, scaled scores and weights of the second head; the reader computes a row of each."""
    first, last = walk.head * _SMALL // _HEADS, (walk.head + 1) * _SMALL // _HEADS
    own = f"[:, {first}:{last}]"
    queries, keys = (heat_map(run[f"projected_{kind}"], say) for kind in ("queries", "keys"))
    given = {"Q": queries, "K": keys}
    yield with_question(walk.scores(), run["scores"], 0, f"Q{own} @ K{own}.T", given, say)
    given = {"S": heat_map(run["scores"], say, head=walk.head), "K": keys}
    scaled = f"S / sqrt(columns(K{own}))"
    yield with_question(walk.scaled(), run["scaled"], 1, scaled, given, say)
    yield walk.weights()


def _shapes(say: Speaker) -> Parts:
    """The shapes of a pass at full width."""
    x = torch.randn(1, 5, _WIDTH, generator=torch.Generator().manual_seed(0))
    run = trace(_attention(_WIDTH), x)
    per_head = _WIDTH // _HEADS
    yield say("shapes", width=_WIDTH, per_head=per_head, first=f"1–{per_head}")
    rows = ((_tensor_name(run[name], say), shape_text(run[name].shape)) for name in _SHOWN)
    yield say.table(rows, "tensor", "shape")


def _tensor_name(step: Step, say: Speaker) -> str:
    return say("queries by head") if step.name == "unrotated" else step_title(step, say)


def _cost(say: Speaker) -> Parts:
    per_head = _WIDTH // _HEADS
    rows = []
    for heads, width in ((1, _WIDTH), (_HEADS, per_head), (_HEADS, _WIDTH)):
        counts = attention_parameters(_WIDTH, AttentionConfig(n_heads=heads, d_head=width))
        total = sum(counts[name] for name in ("to_queries", "to_keys", "to_values"))
        rows.append((str(heads), str(width), f"{total:,}"))
    yield say("cost", width=_WIDTH, per_head=per_head)
    yield say.table(rows, "heads", "head width", "parameters")


def _all_heads(run: Trace, say: Speaker) -> Parts:
    yield say("all heads")
    for head in range(_HEADS):
        yield heat_map(run["weights"], say, head=head)


def _joined(run: Trace, say: Speaker) -> LessonStep:
    joined = run["joined"]
    said = say(
        "joined", row=say.quoted(_WORDS[2]), width=joined.shape[-1],
        per_head=joined.shape[-1] // _HEADS,
    )  # fmt: skip
    return say.step("joined", "joined", [said, heat_map(joined, say)])
