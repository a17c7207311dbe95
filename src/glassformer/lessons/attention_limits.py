"""What attention shows and what it does not: weights beside attribution, and ablation decides."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from typing import get_args

import numpy as np
import torch

from glassformer.documents.parts import Figure
from glassformer.experiments import words as attribute
from glassformer.experiments.attribution import Method
from glassformer.lessons.figures.sheet import numbers_figure
from glassformer.lessons.lesson import (
    LessonStep,
    Parts,
    Speaker,
    formula,
    number,
    percent,
    points,
)
from glassformer.lessons.lesson_steps import chart, heat_map
from glassformer.tasks import Model, load
from glassformer.tracing import Cell, Step, Trace

CHOICES: dict[str, tuple[str, ...]] = {
    "sentence": ("asleep", "story", "masterpiece"),
    "layer": ("4", "1", "6"),
}
SENTENCES = {
    "asleep": "My friends loved it, I fell asleep.",
    "story": "The actors are good, the story is not.",
    "masterpiece": "It starts slowly and ends as a masterpiece.",
}
METHODS: tuple[Method, ...] = get_args(Method)
_POINTS = 10
"""Points of the integral: 10 of Gauss and Legendre are enough here, as the sum of shares shows."""
_FLAT = 0.99
"""A head whose entropy is this share of the largest possible counts as flat."""
_NOTICEABLE = 0.01
"""A smaller change of a probability is called none."""


@lru_cache(maxsize=1)
def _model() -> Model:
    return load("imdb")


@dataclass(frozen=True)
class Reading:
    """The classifier's pass over a sentence, and the number that is to be explained."""

    sentence: str
    run: Trace
    answer: Cell
    label: str
    probability: float

    @property
    def tokens(self) -> tuple[str, ...]:
        labels = self.weights[0].labels[-1]
        assert labels is not None
        return labels

    @property
    def weights(self) -> list[Step]:
        """The attention weights (1, H, T, T) of each layer."""
        return [step for step in self.run.steps if step.name.endswith("attention.weights")]

    def probability_if(self, layers: Sequence[int]) -> float:
        """The probability of the same answer if these layers attended to all words equally."""
        edits = {self.weights[layer][...]: 1 / len(self.tokens) for layer in layers}
        with self.run.edit(edits) as edited:
            return _share(edited, self.answer)


@lru_cache(maxsize=4)
def read(sentence: str) -> Reading:
    model = _model()
    (said,) = model.classify([sentence])
    run = model.trace(sentence)
    return Reading(sentence, run, model.answer_cell(run), said.label, said.probability)


def _share(run: Trace, answer: Cell) -> float:
    logits = run["logits"].value.double().flatten()
    return float(torch.softmax(logits, dim=-1)[answer.index[-1]])


def evenness(weights: Step) -> list[float]:
    """For each head the mean entropy of its rows, as a share of that of equal weights."""
    shares = weights.value[0].double()
    entropy = -torch.special.xlogy(shares, shares).sum(dim=-1)
    return [float(head) for head in entropy.mean(dim=-1) / math.log(shares.size(-1))]


def received(weights: Step) -> list[float]:
    """The mean weight that each word gets, over all words that attend and all heads."""
    return [float(share) for share in weights.value[0].double().mean(dim=(0, 1))]


@lru_cache(maxsize=4)
def shares(sentence: str) -> dict[str, tuple[float, ...]]:
    """The answer shared out among the words, by every method."""
    answer = read(sentence).answer
    return {method: attribute(answer, method, steps=_POINTS).scores for method in METHODS}


def agreement(one: Sequence[float], other: Sequence[float]) -> tuple[int, int]:
    """Of all pairs of words: for how many two methods agree which one matters more."""
    pairs = list(combinations(range(len(one)), 2))
    same = sum(
        (abs(one[a]) > abs(one[b])) == (abs(other[a]) > abs(other[b])) for a, b in pairs
    )  # fmt: skip
    return same, len(pairs)


@lru_cache(maxsize=32)
def without(sentence: str, place: int) -> float:
    """The probability of the same answer for the text from which one word is really deleted."""
    reading = read(sentence)
    kept = [token for at, token in enumerate(reading.tokens) if at != place]
    (said,) = _model().classify([" ".join(kept)])
    return said.probabilities[reading.label]


def steps(say: Speaker, *, sentence: str = "asleep", layer: str = "4") -> Iterator[LessonStep]:
    reading, at = read(SENTENCES[sentence]), int(layer) - 1
    yield say.step("weights", "map", _map(reading, at, say))
    yield say.step("weights", "flat", _flat(reading, say))
    yield say.step("ablation", "uniform", _uniform(reading, say))
    yield say.step("attribution", "attribution", _attribution(reading, at, say))
    yield say.step("attribution", "disagree", _disagree(reading, at, say))
    yield say.step("ablation", "decide", _decide(reading, at, say))


def _map(reading: Reading, layer: int, say: Speaker) -> Parts:
    weights = reading.weights[layer]
    values = weights.value[0, 0]
    row, column = divmod(int(values.argmax()), values.size(1))
    chosen = weights[0, 0, row, column]
    yield say(
        "map", sentence=reading.sentence, label=say(reading.label), layer=layer + 1,
        percent=percent(reading.probability), row=reading.tokens[row],
        column=reading.tokens[column], weight=number(chosen, 3),
        equal=number(1 / len(reading.tokens), 3), count=len(reading.tokens),
    )  # fmt: skip
    yield heat_map(weights, say, chosen, head=0)
    yield formula(chosen)
    yield say("map question")


def _flat(reading: Reading, say: Speaker) -> Parts:
    found = [evenness(step) for step in reading.weights]
    heads = [head for layer in found for head in layer]
    flat = sum(head > _FLAT for head in heads)
    names = [str(layer + 1) for layer in range(len(found))]
    means = [sum(layer) / len(layer) for layer in found]
    rows = (
        (name, *(f"{head:.3f}" for head in heads)) for name, heads in zip(names, found, strict=True)
    )
    columns = [say("head", number=head + 1) for head in range(len(found[0]))]
    key = "flat many" if 2 * flat > len(heads) else "flat some" if flat else "flat none"
    facts = {
        "count": len(reading.tokens), "flat": flat, "heads": len(heads), "bound": f"{_FLAT:g}",
        "least": f"{min(heads):.3f}",
    }  # fmt: skip
    yield say("evenness idea", **facts)
    yield chart(
        say, "evenness", names, {say("evenness"): means}, ("layer", "evenness"),
        write=lambda y: f"{y:.3f}", least=0, most=1,
    )  # fmt: skip
    yield say.table(rows, "layer", more=columns)
    yield say(key, **facts)


def _uniform(reading: Reading, say: Speaker) -> Parts:
    """What each layer's weights are worth: replaced by equal ones, what becomes of the answer?"""
    layers = range(len(reading.weights))
    alone = [reading.probability_if([layer]) for layer in layers]
    every = reading.probability_if(list(layers))
    rows = [(str(layer + 1), percent(share)) for layer, share in zip(layers, alone, strict=True)]
    rows.append((say("all layers"), percent(every)))
    then = say("probability", label=say(reading.label))
    most = max(layers, key=lambda layer: abs(alone[layer] - reading.probability))
    facts = {
        "percent": percent(reading.probability), "layer": most + 1, "label": say(reading.label),
        "then": percent(alone[most]), "every": percent(every),
    }  # fmt: skip
    idle = abs(every - reading.probability) < _NOTICEABLE
    key = "uniform idle" if idle else "uniform turns" if every < 0.5 else "uniform matters"
    yield say("uniform", **facts)
    yield say.table(rows, "equal weights in layer", more=[then])
    yield say(key, **facts)


def _scores(reading: Reading, layer: int, say: Speaker) -> dict[str, Sequence[float]]:
    names = {"attention": say("attention", layer=layer + 1)}
    names |= {method: say(f"method {method}") for method in METHODS}
    found = {"attention": received(reading.weights[layer]), **shares(reading.sentence)}
    return {names[kind]: scores for kind, scores in found.items()}


def _attribution(reading: Reading, layer: int, say: Speaker) -> Parts:
    found = _scores(reading, layer, say)
    rows = (
        (token, *(f"{scores[place]:+.3f}".replace("-", "−") for scores in found.values()))
        for place, token in enumerate(reading.tokens)
    )
    yield say("attribution", label=say(reading.label))
    columns = {name: np.array(scores, dtype=np.float64)[:, None] for name, scores in found.items()}
    title = say("attribution figure")
    drawing = numbers_figure(columns, reading.tokens, title, cell=(64.0, 26.0))
    yield Figure("attribution", drawing)
    yield say.table(rows, "word", more=found)


def _disagree(reading: Reading, layer: int, say: Speaker) -> Parts:
    found = _scores(reading, layer, say)
    reference = shares(reading.sentence)["leave one out"]
    rows = []
    for name, scores in found.items():
        same, count = agreement(scores, reference)
        top = max(range(len(scores)), key=lambda at: abs(scores[at]))
        rows.append((name, reading.tokens[top], f"{same}/{count}"))
    different = len({word for _, word, _ in rows})
    key = "disagree" if different > 1 else "agree"
    yield say(key, kinds=different, count=len(found))
    yield say.table(rows, "method", "strongest word", "agreement")
    yield say("why differ")


def _decide(reading: Reading, layer: int, say: Speaker) -> Parts:
    """Delete each word from the text and ask the model again."""
    tokens, weights = reading.tokens, received(reading.weights[layer])
    then = [without(reading.sentence, at) for at in range(len(tokens))]
    changes = [share - reading.probability for share in then]
    rows = (
        (token, f"{weights[at]:.3f}", percent(then[at]), points(changes[at]))
        for at, token in enumerate(tokens)
    )
    heads = (say("deleted"), say("attention", layer=layer + 1), say("then"), say("points"))
    most = max(range(len(tokens)), key=lambda at: abs(changes[at]))
    seen = max(range(len(tokens)), key=lambda at: weights[at])
    left_out = shares(reading.sentence)["leave one out"]
    same, count = agreement(weights, changes)
    same_left, _ = agreement(left_out, changes)
    facts = {
        "label": say(reading.label), "percent": percent(reading.probability),
        "most": tokens[most], "then": percent(then[most]),
        "seen": tokens[seen], "seen_then": percent(then[seen]),
        "same": same, "same_left": same_left, "count": count, "layer": layer + 1,
    }  # fmt: skip
    key = "decide same" if most == seen else "decide differs"
    key = "decide none" if abs(changes[most]) < _NOTICEABLE else key
    order = "order better" if same_left > same else "order not better"
    yield say(key, **facts)
    yield say.table(rows, more=heads)
    yield say(order, **facts)
    yield say("moral")
