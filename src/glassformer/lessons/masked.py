"""Masked attention with two heads on a 3 × 3 input, computed correctly."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import torch
import torch.nn.functional as F

from glassformer.audit.example_file import load_example
from glassformer.documents.parts import Figure, Part
from glassformer.lessons.figures.head_figures import (
    PipelineSteps,
    mask_figure,
    pipeline_figure,
)
from glassformer.lessons.illustrated import printed_matrix
from glassformer.lessons.lesson import LessonStep, Parts, Speaker
from glassformer.lessons.lesson_steps import AttentionWalk, Remarker, heat_map, role_step
from glassformer.lessons.row_questions import with_question
from glassformer.nn import AttentionConfig
from glassformer.nn.attention import MultiHeadAttention, set_attention
from glassformer.nn.tensors import Float, Int, Tensor
from glassformer.tracing import Cell, Trace, trace

_IDS = {"scores": ("masked_a1", "masked_a2"), "masked": ("masked_a1_masked", "masked_a2_masked")}


class _Masked(torch.nn.Module):
    """Causal attention over the rows of a matrix.

    The rows are looked up by position, so that the trace can tell positions from dimensions: the
    matrix is square, and three labels would fit both.
    """

    def __init__(self, matrix: Float[Tensor, "T D"], n_heads: int) -> None:
        super().__init__()
        width = matrix.size(1)
        self.matrix = torch.nn.Parameter(matrix)
        config = AttentionConfig(
            n_heads=n_heads, d_head=width, d_value=width, divisor="none", output_map=False
        )
        self.attention = MultiHeadAttention(width, config)
        set_attention(self, "written")
        with torch.no_grad():
            for part in self.attention.children():
                assert isinstance(part, torch.nn.Linear)
                part.weight.copy_(torch.eye(width).repeat(n_heads, 1))

    def forward(self, positions: Int[Tensor, "B T"]) -> Float[Tensor, "B T D2"]:
        """Each position attends to itself and to earlier ones."""
        x = F.embedding(positions, self.matrix)
        attended: Tensor = self.attention(x, causal=True)
        return attended


def steps(say: Speaker) -> Iterator[LessonStep]:
    matrix = printed_matrix(load_example("masked"), "masked_input")
    positions = torch.arange(matrix.size(0)).unsqueeze(0)
    labels = [say("numbered position", number=place + 1) for place in positions[0].tolist()]
    run = trace(_Masked(matrix, n_heads=2), positions, axis_labels={"positions": labels})
    remarker = Remarker("masked", say)

    def remarks(role: str, cell: Cell) -> Sequence[Part]:
        """What the text prints for each of the two heads."""
        return [
            replace(
                part, text=say("of head", head=head, said=part.text[:1].lower() + part.text[1:])
            )
            for head, id_ in enumerate(_IDS.get(role, ()), start=1)
            for part in remarker.on(id_, cell)
        ]

    opening: Parts = [remarker.overview(), say("inputs"), heat_map(run["x"], say)]
    yield say.step("inputs", "inputs", opening)
    walk = AttentionWalk(
        run, "attention", say, query=1, key=0, entry=0, unit="position", remarks=remarks
    )
    for kind, place in (("queries", 1), ("keys", 0), ("values", 0)):
        yield walk.projection(kind, place)
    shown = {"x": heat_map(run["x"], say)}
    yield with_question(walk.scores(), run["attention.scores"], 2, "x @ x.T", shown, say)
    scaled = run["attention.scaled"][0, 0, 1, 0]
    yield role_step("scaled", scaled, say, phrase="unscaled")
    shown = {"S": heat_map(run["attention.scaled"], say, head=0)}
    formula = f"mask(S, causal({matrix.size(0)}))"
    yield with_question(walk.masked(), run["attention.masked"], 0, formula, shown, say)
    attention = PipelineSteps(run, "attention")
    shown = {"S_masked": heat_map(run["attention.masked"], say, head=0)}
    asked = with_question(
        walk.weights(), run["attention.weights"], 0, "softmax(S_masked)", shown, say
    )
    yield asked.with_(Figure("mask", mask_figure(attention, say.language)))
    yield walk.context().with_(Figure("pipeline", pipeline_figure(attention, say.language)))
    yield say.step("weights", "two heads", _both_heads(run, say))
    yield _joined(run, say)


def _both_heads(run: Trace, say: Speaker) -> Parts:
    yield say("two heads")
    for head in (0, 1):
        for name in ("weights", "context"):
            yield heat_map(run[f"attention.{name}"], say, head=head)


def _joined(run: Trace, say: Speaker) -> LessonStep:
    joined = run["attention.joined"]
    rows = run["x"].labels[1]
    assert rows is not None
    said = say("joined", row=rows[1], width=joined.shape[-1], per_head=joined.shape[-1] // 2)
    return say.step("joined", "joined", [said, heat_map(joined, say), say("next")])
