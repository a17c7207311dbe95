"""Residuals and norms: what keeps a deep stack alive, forwards and backwards."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any

import torch

from glassformer.claims.claim import Figures, stored_results
from glassformer.claims.properties import influence
from glassformer.claims.specimens import seeded
from glassformer.claims.training_studies import (
    DepthSignals,
    NormPlace,
    SwitchedBlock,
    WidthResult,
    learn_at_depth,
    learn_at_width,
    signals_at_depth,
)
from glassformer.documents.parts import Figure, Paragraph, with_code
from glassformer.lessons.figures.model_figures import residual_figure
from glassformer.lessons.lesson import LessonStep, Parts, Speaker, formula, number, percent
from glassformer.lessons.lesson_steps import chart
from glassformer.nn.attention import set_attention
from glassformer.nn.tensors import Float, Tensor
from glassformer.picture import Role
from glassformer.tracing import Trace, trace

CHOICES = {"residual": ("on", "off"), "norm": ("post", "pre", "none")}

DEPTHS = (2, 4, 8, 16)
_DEEPEST = DEPTHS[-1]
_TRAINED_HERE = (2, 4)
_WIDTH, _POSITIONS = 16, 4
VARIANTS: dict[tuple[str, NormPlace], tuple[Role, bool]] = {
    ("on", "post"): ("output", False), ("on", "pre"): ("score", False),
    ("on", "none"): ("key", False), ("off", "post"): ("output", True),
    ("off", "pre"): ("score", True), ("off", "none"): ("query", True),
}  # fmt: skip
"""Every combination of residual and norm, with the look of its line."""


@lru_cache(maxsize=8)
def signals(residual: str, norm: NormPlace) -> DepthSignals:
    return signals_at_depth(_DEEPEST, residual=residual == "on", norm=norm)


@lru_cache(maxsize=16)
def accuracy_at(n_layers: int, residual: str, norm: NormPlace) -> float:
    return learn_at_depth(
        n_layers, residual=residual == "on", norm=norm, steps=100, learning_rate=0.003
    ).accuracy


def steps(say: Speaker, *, residual: str = "on", norm: NormPlace = "post") -> Iterator[LessonStep]:
    block = switched_block(residual, norm)
    x = torch.randn(1, _POSITIONS, _WIDTH, generator=torch.Generator().manual_seed(2))
    run = trace(block, x)
    yield say.step("block", "block", _block(run, say, residual, norm))
    yield say.step("alone", "alone", _alone(block, say))
    yield say.step("forwards", "forwards", _forwards(say, residual, norm))
    yield say.step("alike", "alike", _alike(say, residual, norm))
    yield say.step("backwards", "backwards", _backwards(say, residual, norm))
    yield say.step("training", "training", _training(say, residual, norm))
    yield say.step("width", "width", _width(say))


def switched_block(residual: str, norm: NormPlace) -> SwitchedBlock:
    with seeded(0):
        block = SwitchedBlock(residual=residual == "on", norm=norm)
    set_attention(block.eval(), "written")
    return block


def _named(say: Speaker, residual: str, norm: NormPlace) -> str:
    """`residual, norm after the sum`: what a line of a chart is called."""
    return say("variant", residual=say(f"residual {residual}"), norm=say(f"norm {norm}"))


def _block(run: Trace, say: Speaker, residual: str, norm: NormPlace) -> Parts:
    """One block drawn as it is switched, and one number of its stream."""
    yield say(
        "block", residual=say("choice residual"), residual_is=say(f"choice residual {residual}"),
        norm=say("choice norm"), norm_is=say(f"choice norm {norm}"),
    )  # fmt: skip
    yield Figure("block", residual_figure(residual == "on", norm, say))
    summed = run["attention_sum"] if residual == "on" else run["attention.output"]
    cell = summed[0, 0, 0]
    yield say(
        f"with residual {residual}", before=run["resid_pre"][0, 0, 0], value=cell,
        attended=run["attention.output"][0, 0, 0],
    )  # fmt: skip
    yield formula(cell)
    yield say(f"norm text {norm}")
    if norm != "none":
        normed = run["attention_in" if norm == "pre" else "resid_mid"]
        read = run["resid_pre"] if norm == "pre" else summed
        rows = (
            (say(key), *(number(value, 3) for value in moments(step.value[0, 0])))
            for key, step in (("before norm", read), ("after norm", normed))
        )
        yield say.table(rows, "vector of word", "mean", "deviation")


def moments(vector: Float[Tensor, " D"]) -> tuple[float, float]:
    """Mean and standard deviation; a mean that is only rounding is 0."""
    mean = float(vector.mean())
    return 0.0 if abs(mean) < 1e-6 else mean, float(vector.std(correction=0))


def _alone(block: SwitchedBlock, say: Speaker) -> Parts:
    """Attention mixes positions, the feed-forward takes each alone."""
    x = torch.randn(_POSITIONS, _WIDTH, generator=torch.Generator().manual_seed(2))
    mixed, alone = (influence(part, x) for part in (block.attention, block.feed_forward))
    rows = (
        (
            say("numbered position", number=place + 1),
            *(str(int(found.depends[place].sum())) for found in (mixed, alone)),
        )
        for place in range(_POSITIONS)
    )
    key = "alone" if mixed.mixes_positions and not alone.mixes_positions else "alone no"
    yield say(key, positions=_POSITIONS)
    yield say.table(rows, "output at", "attention reads", "feed-forward reads")


def _chart(
    say: Speaker, key: str, across: Sequence[float], values: Sequence[Sequence[float]],
    axes: tuple[str, str], **settings: Any,
) -> Figure:  # fmt: skip
    """A line for each variant: with residuals drawn through, without them dashed."""
    names = [_named(say, *variant) for variant in VARIANTS]
    dashed = [
        name for name, (_, is_dashed) in zip(names, VARIANTS.values(), strict=True) if is_dashed
    ]
    roles = [role for role, _ in VARIANTS.values()]
    lines = dict(zip(names, values, strict=True))
    return chart(say, key, across, lines, axes, roles, dashed=dashed, height=430, **settings)


def _by_block(
    key: str, measure: Callable[[DepthSignals], Sequence[float]], say: Speaker, *,
    log_up: bool = True, digits: int = 2,
) -> Parts:  # fmt: skip
    """What is measured before and after each block, for all variants: a chart and its numbers."""
    found = [measure(signals(*variant)) for variant in VARIANTS]
    after = (0, 2, 4, 8, _DEEPEST)
    rows = (
        (_named(say, *variant), *(number(values[block], digits) for block in after))
        for variant, values in zip(VARIANTS, found, strict=True)
    )
    axes = ("after block", f"{key} axis")
    yield _chart(say, key, range(_DEEPEST + 1), found, axes, log_up=log_up)
    yield say.table(rows, "after block", more=map(str, after), caption=say(f"{key} figure"))


def _growth(first: float, last: float) -> str:
    """Whether a number grows, shrinks or stays within a factor of ten."""
    return "grows" if last > 10 * first else "shrinks" if last < 0.1 * first else "stays"


def _forwards(say: Speaker, residual: str, norm: NormPlace) -> Parts:
    """The size of the numbers from block to block."""
    sizes = signals(residual, norm).sizes
    yield say(
        f"size {_growth(sizes[0], sizes[-1])}", blocks=_DEEPEST, first=number(sizes[0], 2),
        last=number(sizes[-1], 2),
    )  # fmt: skip
    yield from _by_block("size", lambda found: found.sizes, say)


def _alike(say: Speaker, residual: str, norm: NormPlace) -> Parts:
    """How alike all positions become."""
    found = signals(residual, norm).similarities
    key = "alike soon" if found[4] > 0.99 else "alike late" if found[-1] > 0.99 else "alike not"
    yield say(
        key, blocks=_DEEPEST, first=number(found[0], 2), fourth=number(found[4], 4),
        last=number(found[-1], 4),
    )  # fmt: skip
    yield from _by_block("alike", lambda found: found.similarities, say, log_up=False, digits=3)


def _backwards(say: Speaker, residual: str, norm: NormPlace) -> Parts:
    """The gradient on its way back to the first block."""
    found = signals(residual, norm).gradients
    yield say(
        f"gradient {_growth(found[-1], found[0])}", blocks=_DEEPEST, last=number(found[-1], 2),
        first=number(found[0], 2),
    )  # fmt: skip
    yield from _by_block("gradient", lambda found: found.gradients, say)


def _training(say: Speaker, residual: str, norm: NormPlace) -> Parts:
    """Small stacks trained here; all of them as stored."""
    (stored,) = stored_results("depth")
    figures = stored.figures
    rows = (
        (_named(say, *variant), *(percent(figures[_key(variant, depth)]) for depth in DEPTHS))
        for variant in VARIANTS
    )
    here = ((str(depth), percent(accuracy_at(depth, residual, norm))) for depth in _TRAINED_HERE)
    shares = [[100 * figures[_key(variant, depth)] for depth in DEPTHS] for variant in VARIANTS]
    yield say("training", chosen=_named(say, residual, norm))
    yield say.table(here, "blocks", "right here")
    yield _verdict(figures, say)
    yield _chart(
        say, "training", DEPTHS, shares, ("blocks", "right axis"), log_across=True, least=0,
        most=100,
    )  # fmt: skip
    yield say.table(rows, "stack", more=map(str, DEPTHS))
    yield Paragraph(with_code(say("stored", command=stored.command, date=stored.date)), "quiet")


def _key(variant: tuple[str, NormPlace], depth: int) -> str:
    residual, norm = variant
    return f"{residual} {norm} {depth}"


def _verdict(figures: Figures, say: Speaker) -> str:
    """What the stored accuracies show, written from them."""
    at_most = {variant: figures[_key(variant, _DEEPEST)] for variant in VARIANTS}
    best = max(at_most, key=lambda variant: at_most[variant])
    off = max(share for (residual, _), share in at_most.items() if residual == "off")
    return say(
        "verdict", deepest=_DEEPEST, best=_named(say, *best), share=percent(at_most[best]),
        off=percent(off),
    )  # fmt: skip


@lru_cache(maxsize=8)
def width_result(d_ff: int) -> WidthResult:
    return learn_at_width(d_ff, steps=150)


def _width(say: Speaker) -> Parts:
    """How wide the feed-forward must be: memorising random pairs."""
    found = [width_result(d_ff) for d_ff in (2, 8, 32)]
    k = found[0].d_model
    rows = (
        (str(one.d_ff), f"{one.d_ff / k:g}", f"{one.parameters:,}", percent(one.accuracy))
        for one in found
    )
    rises = found[0].accuracy < found[1].accuracy < found[2].accuracy
    yield say("width rises" if rises else "width", k=k, least=percent(found[0].accuracy),
               most=percent(found[-1].accuracy))  # fmt: skip
    yield say.table(rows, "feed-forward width", "times k", "parameters", "remembered")
