"""The causal mask: what leaks without it, and why generation then fails."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache

import torch

from glassformer.claims.training_studies import (
    N_TOKENS,
    PROMPT_LENGTH,
    TEXT_LENGTH,
    NextTokenResult,
    TextKind,
    continue_texts,
    learn_next_token,
)
from glassformer.documents.parts import Figure, Table
from glassformer.lessons.figures.head_figures import visible_figure
from glassformer.lessons.lesson import LessonStep, Parts, Speaker, formula, number, percent
from glassformer.lessons.lesson_steps import chart, heat_map
from glassformer.nn import causal_mask
from glassformer.nn.attention import set_attention
from glassformer.nn.tensors import Int, Tensor
from glassformer.tracing import Trace, trace

CHOICES = {"mask": ("on", "off")}

LETTERS = "abcdefgh"
_SHOWN = 6
"""Tokens of the text that is traced; the last is only predicted."""
_PATH = "decoder.blocks.0.attention"
_READER, _ANSWER = 1, 2
"""A position, and the next one, whose token it is to predict."""


@lru_cache(maxsize=4)
def _trained(kind: TextKind, mask: str) -> NextTokenResult:
    result = learn_next_token(kind, masked=mask == "on")
    set_attention(result.model, "written")
    return result


def written(tokens: Int[Tensor, " T"]) -> str:
    return " ".join(LETTERS[token] for token in tokens.tolist())


def steps(say: Speaker, *, mask: str = "on") -> Iterator[LessonStep]:
    noise = _trained("noise", mask)
    text = noise.texts[:1, :_SHOWN]
    run = trace(noise.model, text, axis_labels={"ids": [LETTERS[i] for i in text[0].tolist()]})
    yield say.step("task", "task", _task(text, say, mask))
    yield say.step("weights", "weights", _weights(run, say, mask))
    yield say.step("change", "change", _change(noise, text, say))
    yield say.step("noise", "noise", _noise(say))
    yield say.step("counting", "counting", _counting(say))
    yield say.step("generated", "generated", _generated(say, mask))


def _task(text: Int[Tensor, "1 T"], say: Speaker, mask: str) -> Parts:
    """What each position reads and predicts; the mask, drawn."""
    letters = [LETTERS[token] for token in text[0].tolist()]
    visible = causal_mask(len(letters)) if mask == "on" else None
    yield say("task", count=len(letters) - 1, text=" ".join(letters))
    yield say(f"mask {mask}")
    yield Figure("mask", visible_figure(letters, visible, say))


def weight_on_answer(run: Trace) -> float:
    """The mean weight that positions give to the token that they are to predict, over heads."""
    weights: Tensor = run[f"{_PATH}.weights"].value[0]
    return float(weights.diagonal(offset=1, dim1=-2, dim2=-1).mean())


def _weights(run: Trace, say: Speaker, mask: str) -> Parts:
    """Where the trained model looks."""
    weights = run[f"{_PATH}.weights"]
    head = int(weights.value[0].diagonal(offset=1, dim1=-2, dim2=-1).mean(dim=-1).argmax())
    cell = weights[0, head, _READER, _ANSWER]
    yield say(
        f"weights {mask}", head=head + 1, reader=_READER + 1, answer=_ANSWER + 1,
        value=percent(cell), average=percent(weight_on_answer(run)),
    )  # fmt: skip
    if weight_on_answer(run) > 0.5:
        yield say("looks at answer")
    yield formula(cell)
    yield heat_map(weights, say, cell, head=head)


@torch.no_grad()
def changes(result: NextTokenResult, text: Int[Tensor, "1 T"]) -> list[float]:
    """How far the logits at each position change when the last token is another one."""
    other = text.clone()
    other[0, -1] = (other[0, -1] + 1) % N_TOKENS
    apart: Tensor = (result.model(text) - result.model(other)).abs().amax(dim=-1)[0]
    return [float(change) for change in apart]


def _change(result: NextTokenResult, text: Int[Tensor, "1 T"], say: Speaker) -> Parts:
    """The test for a leak: a later token must not change an earlier prediction."""
    found = changes(result, text)
    leaks = max(found[:-1]) > 0
    rows = (
        (str(place), LETTERS[token], number(change, 3))
        for place, (token, change) in enumerate(zip(text[0].tolist(), found, strict=True), start=1)
    )
    yield say("change leaks" if leaks else "change none", most=number(max(found[:-1]), 3))
    yield say.table(rows, "position", "token", "change of logits")


def _noise(say: Speaker) -> Parts:
    masked, unmasked = (_trained("noise", mask) for mask in ("on", "off"))
    yield say(
        "noise", tokens=N_TOKENS, chance=number(math.log(N_TOKENS), 3),
        masked=number(masked.loss, 3), unmasked=number(unmasked.loss, 3),
        share=percent(unmasked.teacher_forced), guess=percent(1 / N_TOKENS),
    )  # fmt: skip
    yield _table("noise", say)


def _table(kind: TextKind, say: Speaker) -> Table:
    results = {mask: _trained(kind, mask) for mask in CHOICES["mask"]}
    rows = (
        (
            say(f"choice mask {mask}"), number(found.loss, 3), percent(found.teacher_forced),
            percent(found.free_running),
        )
        for mask, found in results.items()
    )  # fmt: skip
    return say.table(rows, "choice mask", "loss", "teacher-forced", "free-running")


def _counting(say: Speaker) -> Parts:
    masked, unmasked = (_trained("counting", mask) for mask in ("on", "off"))
    fails = unmasked.teacher_forced > masked.teacher_forced and (
        unmasked.free_running < masked.free_running
    )
    yield say(
        "counting fails" if fails else "counting", masked_loss=number(masked.loss, 2),
        unmasked_loss=number(unmasked.loss, 2), masked_free=percent(masked.free_running),
        unmasked_free=percent(unmasked.free_running), prompt=PROMPT_LENGTH,
        written=TEXT_LENGTH - PROMPT_LENGTH, example=" ".join("aceg"),
    )  # fmt: skip
    bars = {
        say("teacher-forced"): [100 * result.teacher_forced for result in (masked, unmasked)],
        say("free-running"): [100 * result.free_running for result in (masked, unmasked)],
    }
    groups = [say(f"choice mask {mask}") for mask in CHOICES["mask"]]
    yield _table("counting", say)
    yield chart(
        say, "counting", groups, bars, ("choice mask", "right axis"), ("score", "query"),
        most=100, write=lambda share: f"{share:.0f}",
    )  # fmt: skip


def _generated(say: Speaker, mask: str) -> Parts:
    """What the chosen model writes after some prompts."""
    result = _trained("counting", mask)
    texts = _one_of_each_step(result.texts)
    outputs = continue_texts(result.model, texts[:, :PROMPT_LENGTH])
    right = int((outputs == texts).all(dim=1).sum())
    rows = (
        (written(text[:PROMPT_LENGTH]), written(text[PROMPT_LENGTH:]), written(out[PROMPT_LENGTH:]))
        for text, out in zip(texts, outputs, strict=True)
    )
    key = "all" if right == len(texts) else "some" if right else "none"
    yield say(f"generated {key}", count=len(texts), right=right)
    yield say.table(rows, "prompt", "right continuation", "continuation")
    yield say("remember")


def _one_of_each_step(texts: Int[Tensor, "B T"]) -> Int[Tensor, "N T"]:
    """The first two texts that count by one, by two and by three."""
    steps_ = (texts[:, 1] - texts[:, 0]) % N_TOKENS
    chosen = [place for step in (1, 2, 3) for place in (steps_ == step).nonzero()[:2, 0].tolist()]
    return texts[chosen]
