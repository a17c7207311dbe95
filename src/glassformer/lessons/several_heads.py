"""Several heads: what one head blurs, several keep apart; and how all are computed at once."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import torch
from torch import nn

from glassformer.claims.attention_studies import (
    ONE_HEAD_BOUND,
    Resolution,
    RoleReading,
    learn_neighbours,
    learn_roles,
)
from glassformer.claims.bloem import FOLDS, attend_folded
from glassformer.documents.heat_maps import shape_text
from glassformer.documents.parts import Figure, Paragraph, Span
from glassformer.lessons.figures.head_figures import fold_figure
from glassformer.lessons.lesson import LessonStep, Parts, Speaker, formula, number, percent
from glassformer.lessons.lesson_steps import chart, heat_map, short_numbers
from glassformer.nn.attention import set_attention
from glassformer.nn.tensors import Float, Tensor
from glassformer.tracing import Trace, trace

CHOICES = {"heads": ("2", "1", "4")}

COUNTS = (1, 2, 4)
_RING, _VECTOR = 6, 8
_ASKED = 2
"""The position whose weights are followed."""
_BATCH, _WORDS, _WIDTH = 2, 3, 8


@lru_cache(maxsize=4)
def _neighbours(n_heads: int) -> Resolution:
    found = learn_neighbours(n_heads)
    set_attention(found.model, "written")
    return found


@lru_cache(maxsize=4)
def _roles(n_heads: int) -> RoleReading:
    return learn_roles(n_heads, "in scores")


def steps(say: Speaker, *, heads: str = "2") -> Iterator[LessonStep]:
    n_heads = int(heads)
    yield say.step("blur", "blur", _blur(say))
    yield say.step("weights", "trained", _trained(n_heads, say))
    yield say.step("errors", "errors", _errors(say))
    yield say.step("gave", "gave", _gave(n_heads, say))
    run = _folded(n_heads)
    yield say.step("folding", "folding", _folding(run, n_heads, say))
    yield say.step("product", "product", _one_product(run, n_heads, say))


def unexplained(a: float, b: float) -> tuple[float, float]:
    """How much of the left and of the right vector is lost in a·left + b·right.

    The part of each one's variance that the best linear map cannot read from the mixture.
    """
    whole = a * a + b * b
    return b * b / whole, a * a / whole


def _blur(say: Speaker) -> Parts:
    """The bound for one head: both errors, whatever the weights."""
    shares = [place / 20 for place in range(21)]
    lost = [unexplained(share, 1 - share) for share in shares]
    lines = {
        say("left lost"): [100 * left for left, _ in lost],
        say("right lost"): [100 * right for _, right in lost],
        say("mean lost"): [50 * (left + right) for left, right in lost],
    }
    left, right = unexplained(2 / 3, 1 / 3)
    yield say("blur", ring=_RING, left=percent(left), right=percent(right))
    yield Paragraph(say("bound", bound=percent(ONE_HEAD_BOUND)))
    yield chart(
        say, "blur", [100 * share for share in shares], lines, ("left weight", "lost axis"),
        ("query", "score", "output"), dashed=[say("mean lost")], least=0, most=100,
    )  # fmt: skip


def _trained(n_heads: int, say: Speaker) -> Parts:
    """Where the heads of the trained model look."""
    generator = torch.Generator().manual_seed(0)
    vectors = torch.randn(1, _RING, _VECTOR, generator=generator)
    run = trace(_neighbours(n_heads).model, vectors)
    weights = run["attention.weights"]
    places = [say("numbered position", number=place + 1) for place in range(_RING)]
    looks = weights.value[0, :, _ASKED]
    beside = [looks[:, _ASKED - 1], looks[:, _ASKED + 1]]
    rows = (
        (str(head + 1), *(percent(shares[head]) for shares in beside)) for head in range(n_heads)
    )
    left, right = (float(shares.max()) for shares in beside)
    apart = min(left, right) > 0.9
    key = "trained one" if n_heads == 1 else "trained apart" if apart else "trained"
    yield say(
        key, heads=n_heads, asked=places[_ASKED],
        left=places[_ASKED - 1], right=places[_ASKED + 1], left_weight=percent(left),
        right_weight=percent(right),
    )  # fmt: skip
    cell = weights[0, 0, _ASKED, int(looks[0].argmax())]
    yield say.table(
        rows, "head", more=[say("on left", place=places[_ASKED - 1]),
                            say("on right", place=places[_ASKED + 1])],
    )  # fmt: skip
    yield formula(cell)
    yield from (
        heat_map(weights, say, cell if head == 0 else None, head=head, rows=places)
        for head in range(n_heads)
    )


def _errors(say: Speaker) -> Parts:
    found = {count: _neighbours(count) for count in COUNTS}
    one, two = found[1].error, found[2].error
    apart = two < 0.1 * one and abs(one - ONE_HEAD_BOUND) < 0.05
    key = "errors apart" if apart else "errors"
    yield say(key, one=percent(one), two=percent(two), bound=percent(ONE_HEAD_BOUND))
    rows = (
        (str(count), percent(result.error), f"{result.parameters:,}")
        for count, result in found.items()
    )
    yield say.table(rows, "choice heads", "error", "parameters")
    yield chart(
        say, "errors", [say(f"choice heads {count}") for count in COUNTS],
        {say("error"): [100 * result.error for result in found.values()]},
        ("choice heads", "error axis"), ["query"], most=60,
        write=lambda share: "< 0.1" if share < 0.1 else f"{share:.1f}",
    )  # fmt: skip


def _gave(n_heads: int, say: Speaker) -> Parts:
    """The same with words: who gave what to whom."""
    found = _roles(n_heads)
    yield say(
        "gave", heads=n_heads, both=percent(found.giver_and_receiver), giver=percent(found.giver),
        receiver=percent(found.receiver),
    )  # fmt: skip
    rows = (
        (str(head + 1), *map(percent, found.weights[head, [0, 2, 4]])) for head in range(n_heads)
    )
    people = ("mary", "roses", "susan")
    yield say.table(rows, "head", more=people, caption=say("weights of gave"))


# --- folding ---------------------------------------------------------------------------------


class FoldedHeads(nn.Module):
    """All heads of all sentences in one batch, as in "Transformers from scratch"."""

    def __init__(self, n_heads: int) -> None:
        super().__init__()
        self.n_heads = n_heads

    def forward(
        self, queries: Float[Tensor, "B T HE"], keys: Float[Tensor, "B T HE"],
        values: Float[Tensor, "B T HE"],
    ) -> Float[Tensor, "B T HE"]:  # fmt: skip
        joined = attend_folded(queries, keys, values, self.n_heads, fold="chunks")
        return joined


def drawn() -> list[Float[Tensor, "B T HE"]]:
    """Queries, keys and values of two sentences, with one decimal."""
    generator = torch.Generator().manual_seed(1)
    drawn = short_numbers(3, _BATCH, _WORDS, _WIDTH, generator=generator, dtype=torch.float64)
    return list(drawn)


def _folded(n_heads: int) -> Trace:
    return trace(FoldedHeads(n_heads), *drawn())


def _folding(run: Trace, n_heads: int, say: Speaker) -> Parts:
    width = _WIDTH // n_heads
    yield say(
        "folding", batch=_BATCH, words=_WORDS, width=_WIDTH, heads=n_heads, each=width,
        before=shape_text((_BATCH, _WORDS, _WIDTH)),
        after=shape_text((_BATCH * n_heads, _WORDS, width)),
    )  # fmt: skip
    queries = drawn()[0]
    pieces = queries.view(_BATCH, _WORDS, n_heads, width)
    shapes = {
        "x": queries, "x.view(b, t, h, e)": pieces, ".transpose(1, 2)": pieces.transpose(1, 2),
        ".reshape(b * h, t, e)": FOLDS["chunks"](queries, n_heads),
    }  # fmt: skip
    rows = ((Span(line, "code"), shape_text(made.shape)) for line, made in shapes.items())
    yield say.table(rows, more=["PyTorch", say("shape")])
    yield Figure("fold", fold_figure(run["queries"], run["folded_queries"], n_heads, say))


@torch.no_grad()
def head_by_head(n_heads: int) -> Float[Tensor, "B T HE"]:
    """The same by loops over sentences and heads, each with its own columns."""
    queries, keys, values = drawn()
    width = _WIDTH // n_heads
    outputs = torch.empty_like(queries)
    for sentence in range(_BATCH):
        for head in range(n_heads):
            own = slice(head * width, (head + 1) * width)
            q, k, v = (x[sentence, :, own] for x in (queries, keys, values))
            outputs[sentence, :, own] = torch.softmax(q @ k.mT / width**0.5, dim=-1) @ v
    return outputs


def _one_product(run: Trace, n_heads: int, say: Speaker) -> Parts:
    """One batched product for all heads; equal to the loop."""
    output = next(iter(run.outputs.values()))
    apart = float((output.value - head_by_head(n_heads)).abs().max())
    names = ("scores", "weights", "context")
    rows = [(say(f"shape of {name}"), shape_text(run[name].shape)) for name in names]
    rows.append((say("shape of joined"), shape_text(output.shape)))
    last = _BATCH * n_heads - 1
    cell = run["scores"][last, 0, 1]
    yield say(
        "product", products=_BATCH * n_heads, sentence=_BATCH, head=n_heads, matrix=last + 1,
        value=cell,
    )  # fmt: skip
    equal = say("loop equal" if apart < 1e-12 else "loop differs", apart=number(apart, 2),
                products=_BATCH * n_heads)  # fmt: skip
    yield formula(cell)
    yield say.table(rows, "tensor", "shape")
    yield equal
