"""From logits to a word: the last steps of every lesson that predicts one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import nn

from glassformer.lessons.walks.lesson import LessonStep, Paragraph, Part, Remark, Table, formula
from glassformer.lessons.walks.phrases import Speaker
from glassformer.lessons.walks.steps import percent
from glassformer.lessons.walks.textbook import number
from glassformer.nn import Seq2Seq
from glassformer.nn.shapes import Float, Int, Tensor
from glassformer.trace import Cell, Trace

__all__ = ["Predictor", "likeliest", "prediction_steps"]


class Predictor(nn.Module):
    """An encoder-decoder whose logits become probabilities: one softmax more than in training."""

    def __init__(self, model: Seq2Seq) -> None:
        super().__init__()
        self.model = model

    def forward(
        self, source: Int[Tensor, "B S"], target: Int[Tensor, "B T"]
    ) -> Float[Tensor, "B ... V"]:
        """The probability of every word."""
        logits = self.model(source, target)
        probabilities = torch.softmax(logits, dim=-1)
        return probabilities


def likeliest(
    run: Trace, words: Sequence[str], say: Speaker, at: tuple[int, ...] = (), most: int = 6
) -> Table:
    """The most probable words with logit and probability."""
    probabilities = run["probabilities"].value[(0, *at)]
    logits = run["model.logits"].value[(0, *at)]
    order = probabilities.argsort(descending=True, stable=True)[:most].tolist()
    rows = tuple(
        (words[id_], number(float(logits[id_])), percent(float(probabilities[id_])))
        for id_ in order
    )
    heads = (say("word"), "logit", say.title("probabilities"))
    return Table("", heads, rows)


def prediction_steps(
    run: Trace,
    say: Speaker,
    words: Sequence[str],
    chosen: int,
    *,
    at: tuple[int, ...] = (),
    remarks: Sequence[Remark] = (),
) -> Iterator[LessonStep]:
    """Logits, probabilities, the word; `at` is the position of a model that predicts at each."""
    logit: Cell = run["model.logits"][(0, *at, chosen)]
    probability: Cell = run["probabilities"][(0, *at, chosen)]
    best = int(run["probabilities"].value[(0, *at)].argmax())
    facts = {
        "column": say.quoted(words[chosen]),
        "value": number(logit.value),
        "best": say.quoted(words[best]),
        "percent": percent(float(run["probabilities"].value[(0, *at, best)])),
    }
    parts: list[Part] = [Paragraph(say("logits", **facts)), formula(logit)]
    yield LessonStep("logits", say.title("logits"), tuple(parts))
    facts["value"] = number(probability.value)
    parts = [Paragraph(say("probabilities", **facts)), formula(probability)]
    parts += [likeliest(run, words, say, at), *remarks]
    yield LessonStep("probabilities", say.title("probabilities"), tuple(parts))
    last = Paragraph(say("prediction", **facts))
    yield LessonStep("prediction", say.title("prediction"), (last,))
