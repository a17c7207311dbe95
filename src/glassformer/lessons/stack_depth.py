"""Residuals and norms: what keeps a deep stack alive, forwards and backwards."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import torch

from glassformer.claims.claim import Figures, stored_results
from glassformer.claims.properties import influence
from glassformer.claims.specimens import seeded
from glassformer.claims.training_studies import (
    DepthSignals,
    SwitchedBlock,
    WidthResult,
    learn_at_depth,
    learn_at_width,
    signals_at_depth,
)
from glassformer.documents.parts import Figure, Paragraph, Table, with_code
from glassformer.lessons.figures.canvas import Role, SvgDrawing
from glassformer.lessons.figures.data_charts import Axes, Series, line_chart
from glassformer.lessons.figures.model_figures import residual_figure
from glassformer.lessons.lesson import LessonStep, Parts, Speaker, formula, number
from glassformer.lessons.lesson_steps import percent
from glassformer.nn.attention import set_attention
from glassformer.nn.tensors import Float, Tensor
from glassformer.tracing import Trace, trace

CHOICES = {"residual": ("on", "off"), "norm": ("post", "pre", "none")}

DEPTHS = (2, 4, 8, 16)
_DEEPEST = DEPTHS[-1]
_TRAINED_HERE = (2, 4)
_WIDTH, _POSITIONS = 16, 4
VARIANTS: dict[tuple[str, str], tuple[Role, bool]] = {
    ("on", "post"): ("output", False), ("on", "pre"): ("score", False),
    ("on", "none"): ("key", False), ("off", "post"): ("output", True),
    ("off", "pre"): ("score", True), ("off", "none"): ("query", True),
}  # fmt: skip
"""Every combination of residual and norm, with the look of its line."""


@lru_cache(maxsize=8)
def signals(residual: str, norm: str) -> DepthSignals:
    return signals_at_depth(
        _DEEPEST, residual=residual == "on", norm=norm != "none", norm_first=norm == "pre"
    )


@lru_cache(maxsize=16)
def accuracy_at(n_layers: int, residual: str, norm: str) -> float:
    return learn_at_depth(
        n_layers, residual=residual == "on", norm=norm != "none", norm_first=norm == "pre",
        steps=100, learning_rate=0.003,
    ).accuracy  # fmt: skip


def steps(say: Speaker, *, residual: str = "on", norm: str = "post") -> Iterator[LessonStep]:
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


def switched_block(residual: str, norm: str) -> SwitchedBlock:
    with seeded(0):
        block = SwitchedBlock(
            residual=residual == "on", norm=norm != "none", norm_first=norm == "pre"
        )
    set_attention(block.eval(), "written")
    return block


def _named(say: Speaker, residual: str, norm: str) -> str:
    """`residual, norm after the sum`: what a line of a chart is called."""
    return say("variant", residual=say(f"residual {residual}"), norm=say(f"norm {norm}"))


def _block(run: Trace, say: Speaker, residual: str, norm: str) -> Parts:
    """One block drawn as it is switched, and one number of its stream."""
    yield say(
        "block", residual=say("choice residual"), residual_is=say(f"choice residual {residual}"),
        norm=say("choice norm"), norm_is=say(f"choice norm {norm}"),
    )  # fmt: skip
    yield Figure("block", residual_figure(residual == "on", norm, say))
    summed = run["attention_sum"] if residual == "on" else run["attention.output"]
    cell = summed[0, 0, 0]
    before, attended = (
        float(step.value[0, 0, 0]) for step in (run["resid_pre"], run["attention.output"])
    )
    facts = {"before": number(before), "value": number(cell.value)}
    if residual == "on":
        facts["attended"] = number(attended)
    yield say(f"with residual {residual}", **facts)
    yield formula(cell)
    yield say(f"norm text {norm}")
    if norm != "none":
        normed = run["attention_in" if norm == "pre" else "resid_mid"]
        read = run["resid_pre"] if norm == "pre" else summed
        rows = tuple(
            (say(key), *(number(value, 3) for value in moments(step.value[0, 0])))
            for key, step in (("before norm", read), ("after norm", normed))
        )
        yield Table("", (say("vector of word"), say("mean"), say("deviation")), rows)


def moments(vector: Float[Tensor, " D"]) -> tuple[float, float]:
    """Mean and standard deviation; a mean that is only rounding is 0."""
    mean = float(vector.mean())
    return 0.0 if abs(mean) < 1e-6 else mean, float(vector.std(correction=0))


def _alone(block: SwitchedBlock, say: Speaker) -> Parts:
    """Attention mixes positions, the feed-forward takes each alone."""
    x = torch.randn(_POSITIONS, _WIDTH, generator=torch.Generator().manual_seed(2))
    mixed, alone = (influence(part, x) for part in (block.attention, block.feed_forward))
    rows = tuple(
        (
            say("numbered position", number=place + 1),
            *(str(int(found.depends[place].sum())) for found in (mixed, alone)),
        )
        for place in range(_POSITIONS)
    )
    key = "alone" if mixed.mixes_positions and not alone.mixes_positions else "alone no"
    yield say(key, positions=_POSITIONS)
    yield Table("", (say("output at"), say("attention reads"), say("feed-forward reads")), rows)


def _chart(say: Speaker, key: str, lines: dict[tuple[str, str], tuple[float, ...]], *,
           log_up: bool = True) -> SvgDrawing:  # fmt: skip
    series = [
        Series(_named(say, *variant), values, *VARIANTS[variant])
        for variant, values in lines.items()
    ]
    axes = Axes(say("after block"), say(f"{key} axis"))
    return line_chart(
        say(f"{key} figure"), range(_DEEPEST + 1), series, axes, log_up=log_up, height=430
    )


def _table(
    say: Speaker, key: str, lines: dict[tuple[str, str], tuple[float, ...]], digits: int = 2
) -> Table:
    """The same numbers after some of the blocks."""
    after = (0, 2, 4, 8, _DEEPEST)
    rows = tuple(
        (_named(say, *variant), *(number(values[block], digits) for block in after))
        for variant, values in lines.items()
    )
    return Table(say(f"{key} figure"), (say("after block"), *map(str, after)), rows)


def _growth(first: float, last: float) -> str:
    """Whether a number grows, shrinks or stays within a factor of ten."""
    return "grows" if last > 10 * first else "shrinks" if last < 0.1 * first else "stays"


def _forwards(say: Speaker, residual: str, norm: str) -> Parts:
    """The size of the numbers from block to block."""
    sizes = signals(residual, norm).sizes
    yield say(
        f"size {_growth(sizes[0], sizes[-1])}", blocks=_DEEPEST, first=number(sizes[0], 2),
        last=number(sizes[-1], 2),
    )  # fmt: skip
    lines = {variant: signals(*variant).sizes for variant in VARIANTS}
    yield Figure("size", _chart(say, "size", lines))
    yield _table(say, "size", lines)


def _alike(say: Speaker, residual: str, norm: str) -> Parts:
    """How alike all positions become."""
    found = signals(residual, norm).similarities
    key = "alike soon" if found[4] > 0.99 else "alike late" if found[-1] > 0.99 else "alike not"
    yield say(
        key, blocks=_DEEPEST, first=number(found[0], 2), fourth=number(found[4], 4),
        last=number(found[-1], 4),
    )  # fmt: skip
    lines = {variant: signals(*variant).similarities for variant in VARIANTS}
    yield Figure("alike", _chart(say, "alike", lines, log_up=False))
    yield _table(say, "alike", lines, 3)


def _backwards(say: Speaker, residual: str, norm: str) -> Parts:
    """The gradient on its way back to the first block."""
    found = signals(residual, norm).gradients
    yield say(
        f"gradient {_growth(found[-1], found[0])}", blocks=_DEEPEST, last=number(found[-1], 2),
        first=number(found[0], 2),
    )  # fmt: skip
    lines = {variant: signals(*variant).gradients for variant in VARIANTS}
    yield Figure("gradient", _chart(say, "gradient", lines))
    yield _table(say, "gradient", lines)


def _training(say: Speaker, residual: str, norm: str) -> Parts:
    """Small stacks trained here; all of them as stored."""
    (stored,) = stored_results("depth")
    figures = stored.figures
    rows = tuple(
        (_named(say, *variant), *(percent(figures[_key(variant, depth)]) for depth in DEPTHS))
        for variant in VARIANTS
    )
    here = tuple(
        (str(depth), percent(accuracy_at(depth, residual, norm))) for depth in _TRAINED_HERE
    )
    series = [
        Series(_named(say, *variant), [100 * figures[_key(variant, depth)] for depth in DEPTHS],
               *look)
        for variant, look in VARIANTS.items()
    ]  # fmt: skip
    yield say("training", chosen=_named(say, residual, norm))
    yield Table("", (say("blocks"), say("right here")), here)
    yield _verdict(figures, say)
    yield Figure("training", line_chart(
        say("training figure"), DEPTHS, series, Axes(say("blocks"), say("right axis")),
        log_across=True, least=0, most=100, height=430,
    ))  # fmt: skip
    yield Table("", (say("stack"), *(str(depth) for depth in DEPTHS)), rows)
    yield Paragraph(with_code(say("stored", command=stored.command, date=stored.date)), "quiet")


def _key(variant: tuple[str, str], depth: int) -> str:
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
    rows = tuple(
        (str(one.d_ff), f"{one.d_ff / k:g}", f"{one.parameters:,}", percent(one.accuracy))
        for one in found
    )
    heads = (say("feed-forward width"), say("times k"), say("parameters"), say("remembered"))
    rises = found[0].accuracy < found[1].accuracy < found[2].accuracy
    yield say("width rises" if rises else "width", k=k, least=percent(found[0].accuracy),
               most=percent(found[-1].accuracy))  # fmt: skip
    yield Table("", heads, rows)
