"""Self-attention is blind to order: the dog that bites the man, and the man that bites the dog."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import permutations

import torch
import torch.nn.functional as F
from torch import nn

from glassformer.claims.block_claims import positions_make_order_matter
from glassformer.documents.parts import Figure
from glassformer.lessons.classifier import REVIEWS, learn
from glassformer.lessons.figures.attention_figures import order_figure
from glassformer.lessons.lesson import LessonStep, Parts, Speaker, formula, number
from glassformer.lessons.lesson_steps import chart, draw_short, heat_map
from glassformer.nn import AttentionConfig
from glassformer.nn.attention import MultiHeadAttention, set_attention
from glassformer.nn.positions import LearnedPositions, RotaryPositions, sinusoidal_table
from glassformer.nn.tensors import Float, Int, Tensor
from glassformer.tracing import Step, Trace, trace

CHOICES = {"encoding": ("none", "learned", "sinusoidal", "rotary")}

SENTENCE = ("the", "dog", "bites", "the", "man")
OTHER = ("the", "man", "bites", "the", "dog")
MOVED = (0, 4, 2, 3, 1)
"""Where each word of the second sentence stands in the first."""
_WORDS = ("the", "dog", "bites", "man")
_WIDTH, _SEED = 4, 5
_DOG, _BITES, _MAN = 1, 2, 4
ROUNDING = 1e-12
"""Differences below this are rounding in float64, for numbers of about 1."""


class OrderReader(nn.Module):
    """Word vectors, positions or none, one attention head, and the mean; all in float64."""

    def __init__(self, encoding: str) -> None:
        super().__init__()
        self.encoding = encoding
        config = AttentionConfig(n_heads=1, output_map=False)
        self.words = nn.Parameter(torch.empty(len(_WORDS), _WIDTH))
        self.attention = MultiHeadAttention(_WIDTH, config)
        self.learned = LearnedPositions(len(SENTENCE), _WIDTH) if encoding == "learned" else None
        self.rotary = RotaryPositions(len(SENTENCE), _WIDTH) if encoding == "rotary" else None
        self.double()
        draw_short(self, _SEED)
        set_attention(self.eval(), "written")

    def forward(self, ids: Int[Tensor, "B T"]) -> Float[Tensor, "B D"]:
        tokens = F.embedding(ids, self.words)
        places = torch.arange(ids.size(1))
        x = tokens
        if self.learned is not None:
            x = tokens + self.learned(places, ids.size(1))
        elif self.encoding == "sinusoidal":
            x = tokens + sinusoidal_table(ids.size(1), _WIDTH).double()
        rotation = None if self.rotary is None else self.rotary(places, ids.size(1))
        outputs = self.attention(x, rotation=rotation)
        mean: Tensor = outputs.mean(dim=1)
        return mean


def encoded(sentence: Sequence[str]) -> Int[Tensor, "1 T"]:
    return torch.tensor([[_WORDS.index(word) for word in sentence]])


def steps(say: Speaker, *, encoding: str = "none") -> Iterator[LessonStep]:
    model = OrderReader(encoding)
    one, other = (
        trace(model, encoded(sentence), axis_labels={"ids": list(sentence)})
        for sentence in (SENTENCE, OTHER)
    )
    yield say.step("question", "question", _question(one, say, encoding))
    yield say.step("weights", "weights", _weights(one, other, say))
    yield say.step("outputs", "outputs", _outputs(one, other, say))
    yield say.step("mean", "mean", _mean(one, other, say))
    yield say.step("orders", "orders", _all_orders(model, say))
    yield say.step("classifier", "classifier", _classifier(say))


def _question(one: Trace, say: Speaker, encoding: str) -> Parts:
    yield say("question", words=len(SENTENCE), width=_WIDTH)
    yield say(f"with {encoding}")
    yield heat_map(_inputs(one), say)


def _inputs(run: Trace) -> Step:
    """What attention reads: word vectors, with positions where these are added."""
    return run["x"] if "x" in run else run["tokens"]


def _weights(one: Trace, other: Trace, say: Speaker) -> Parts:
    """How much “bites” attends to “dog”, in both sentences."""
    cell = one["attention.weights"][0, 0, _BITES, _DOG]
    there = other["attention.weights"][0, 0, _BITES, _MAN]
    same = abs(float(cell) - float(there)) < ROUNDING
    yield say("weights same" if same else "weights differ", value=cell, other=there)
    yield formula(cell)
    yield from (
        heat_map(
            run["attention.weights"], say, mark, head=0, title=say("of", words=" ".join(words))
        )
        for run, words, mark in ((one, SENTENCE, cell), (other, OTHER, None))
    )


def _outputs(one: Trace, other: Trace, say: Speaker) -> Parts:
    difference = _apart(_outputs_of(one)[list(MOVED)], _outputs_of(other))
    yield say(_kind("outputs", difference), difference=number(difference, 2))
    yield Figure("order", order_figure(
        one["attention.joined"], other["attention.joined"], MOVED, say,
        say(_kind("outputs figure", difference)),
    ))  # fmt: skip
    yield from (
        heat_map(run["attention.joined"], say, title=say("of outputs", number=place))
        for place, run in enumerate((one, other), start=1)
    )


def _outputs_of(run: Trace) -> Float[Tensor, "T D"]:
    outputs: Tensor = run["attention.joined"].value[0]
    return outputs


def _apart(one: Tensor, other: Tensor) -> float:
    return float((one - other).abs().max())


def _kind(key: str, difference: float) -> str:
    """The key of a sentence for numbers that are equal, equal but for rounding, or different."""
    if difference == 0:
        return f"{key} equal"
    return f"{key} rounding" if difference < ROUNDING else f"{key} differ"


def _mean(one: Trace, other: Trace, say: Speaker) -> Parts:
    means = [run["mean"].value[0] for run in (one, other)]
    difference = _apart(*means)
    yield say(_kind("mean", difference), difference=number(difference, 2))
    rows = (
        (str(place + 1), *(f"{float(mean[place]):.16f}".replace("-", "−") for mean in means))
        for place in range(_WIDTH)
    )
    yield formula(one["mean"][0, 0])
    yield say.table(rows, "entry", more=map(" ".join, (SENTENCE, OTHER)))


def orders() -> list[tuple[str, ...]]:
    """All different orders of the five words; the two “the” cannot be told apart."""
    return list(dict.fromkeys(permutations(SENTENCE)))


@torch.no_grad()
def different_means(model: OrderReader) -> int:
    """How many of all orders have means that differ by more than rounding."""
    found: list[Tensor] = []
    for words in orders():
        mean = model(encoded(words))[0]
        if all(_apart(mean, known) > ROUNDING for known in found):
            found.append(mean)
    return len(found)


def _all_orders(model: OrderReader, say: Speaker) -> Parts:
    counts = {kind: different_means(OrderReader(kind)) for kind in CHOICES["encoding"]}
    found = different_means(model)
    key = "orders one" if found == 1 else "orders several"
    yield say(key, count=len(orders()), found=found)
    rows = ((say(f"choice encoding {kind}"), str(count)) for kind, count in counts.items())
    yield say.table(rows, "choice encoding", "different means")


def _classifier(say: Speaker) -> Parts:
    """What blindness costs: reviews of the same words, and shuffled words in a classifier."""
    without, with_ = learn(positions=False).right, learn(positions=True).right
    key = "classifier" if with_ > without else "classifier no difference"
    yield say(key, reviews=len(REVIEWS), without=without, with_=with_)
    moved = positions_make_order_matter()
    names = [say(f"choice encoding {kind}") for kind in CHOICES["encoding"]]
    shares = [100 * moved[{"none": "without"}.get(kind, kind)] for kind in CHOICES["encoding"]]
    rows = ((name, number(share, 2)) for name, share in zip(names, shares, strict=True))
    yield say("shuffled text", without=number(shares[0], 1))
    yield chart(
        say, "shuffled", names, {say("shuffled"): shares}, ("choice encoding", "shuffled axis"),
        write=lambda share: number(share, 2) if share > 1e-3 else "≈ 0",
    )  # fmt: skip
    yield say.table(rows, "choice encoding", "shuffled axis")
