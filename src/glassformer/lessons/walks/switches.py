"""From self-attention to the Transformer: ten switches, turned on one after the other.

`Switched` is one small machine of our own modules in which each of the ten can be on or off, in any
combination; the lesson turns them on in turn and shows what changes in shapes, parameters, numbers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

import torch
from torch import nn

from glassformer.errors import UnknownNameError
from glassformer.lessons.example import Bilingual, Language
from glassformer.lessons.reading import load_example
from glassformer.lessons.walks.illustrated import printed_matrix
from glassformer.lessons.walks.lesson import HeatMap, Lesson, LessonStep, Paragraph, Part, Table
from glassformer.lessons.walks.naming import number
from glassformer.lessons.walks.phrases import Phrases, Speaker
from glassformer.lessons.walks.steps import heat_map
from glassformer.nn import AttentionConfig, count_parameters
from glassformer.nn.attention import MultiHeadAttention, set_attention
from glassformer.nn.config import FeedForwardConfig
from glassformer.nn.layers import FeedForward, TokenEmbedding
from glassformer.nn.positions import sinusoidal_table
from glassformer.nn.shapes import Float, Int, Tensor
from glassformer.trace import Trace, trace
from glassformer.trace.render.matrices import shape_text

__all__ = ["PHRASES", "SWITCHES", "TITLE", "Switched", "switches"]

SWITCHES = (
    "width", "bias", "embedding", "position", "truncating", "masking", "heads", "stacking",
    "linear", "norm",
)  # fmt: skip

TITLE = Bilingual("From self-attention to the Transformer", "从自注意力到 Transformer")
PHRASES: Phrases = {
    "summary": Bilingual(
        "Ten switches, turned on one after the other, and what each changes in shapes, "
        "parameters and numbers.",
        "逐个打开十个开关，看每一个怎样改变形状、参数和数值。",
    ),
    "start title": Bilingual("Start: bare self-attention", "起点：最简单的自注意力"),
    "start": Bilingual(
        "Rows of four numbers, one head, queries, keys and values of three numbers, nothing else. "
        "Parameters are random and stay the same wherever a switch leaves them alone.",
        "每行四个数，一个头，查询、键、值各三维，别无其他。参数是随机的；开关没有涉及的参数保持不变"
        "。",
    ),
    "width": Bilingual("Dimension", "维度"),
    "width text": Bilingual(
        "Queries, keys and values get as many numbers as the inputs. Outputs can now be fed into "
        "another layer.",
        "查询、键和值的维度与输入相同，这样输出才能送入下一层。",
    ),
    "bias": Bilingual("Bias", "偏置"),
    "bias text": Bilingual(
        "Each map adds a learned constant: a query need not be 0 where the input is.",
        "每个映射再加一个可学习的常数：输入为 0 时查询不必为 0。",
    ),
    "embedding": Bilingual("Embedding", "词嵌入"),
    "embedding text": Bilingual(
        "The input is no longer given as numbers: words are looked up in a learned table.",
        "输入不再是现成的数值，而是到可学习的表中查出每个词的向量。",
    ),
    "position": Bilingual("Positional encoding", "位置编码"),
    "position text": Bilingual(
        "A vector for each position is added. Until now “the” had the same output in both its "
        "places; now the two differ by up to {difference}.",
        "每个位置加上一个向量。此前两处“the”的输出完全相同，现在两者最多相差 {difference}。",
    ),
    "truncating": Bilingual("Truncating", "截断"),
    "truncating text": Bilingual(
        "Only the first {kept} words are read: a model has a longest input, and cost grows with "
        "the square of the length.",
        "只读前 {kept} 个词：模型有最大输入长度，而计算量随长度的平方增长。",
    ),
    "masking": Bilingual("Masking", "掩码"),
    "masking text": Bilingual(
        "No position sees what comes after it: the weights above the diagonal are 0.",
        "任何位置都看不到后面的词：对角线以上的权重为 0。",
    ),
    "heads": Bilingual("Several heads", "多头"),
    "heads text": Bilingual(
        "Two heads of half the width: two sets of weights for the same number of parameters.",
        "两个头，各占一半宽度：参数量不变，却有两组注意力权重。",
    ),
    "stacking": Bilingual("Stacking layers", "堆叠多层"),
    "stacking text": Bilingual(
        "A second layer reads what the first one wrote: words can now be reached through others.",
        "第二层读取第一层的结果：信息可以经由其他词间接传递。",
    ),
    "linear": Bilingual("Linear maps between", "层间的线性变换"),
    "linear text": Bilingual(
        "After each attention every position goes through linear, ReLU, linear, on its own. So far "
        "outputs were weighted sums; now a layer can also compute with them.",
        "每个注意力之后，各位置独立通过“线性—ReLU—线性”。此前输出只是加权和，现在一层还能对它们做计"
        "算。",
    ),
    "norm": Bilingual("LayerNorm and residual connections", "层归一化与残差连接"),
    "norm text": Bilingual(
        "What each part computes is added to what came in, and every vector is brought to mean 0 "
        "and deviation 1. This is a Transformer's decoder stack.",
        "每一部分的结果都与输入相加，并把每个向量归一化到均值 0、标准差 1。这就是 Transformer 的解"
        "码器堆栈。",
    ),
    "turned on": Bilingual("{number} of {count}: {name}", "开关 {number}／{count}：{name}"),
    "input shape": Bilingual("input", "输入"),
    "output shape": Bilingual("output", "输出"),
    "parameters": Bilingual("parameters", "参数量"),
    "last output": Bilingual("last output", "最后一个输出"),
    "before": Bilingual("before", "之前"),
    "now": Bilingual("now", "现在"),
    "all title": Bilingual("All at a glance", "一览"),
    "all": Bilingual(
        "Each line adds one switch to those above it.", "每一行都在上一行的基础上多开一个开关。"
    ),
    "switch": Bilingual("switch", "开关"),
    "no switch": Bilingual("none", "无"),
}
_WORDS = ("the", "cat", "walks", "on", "the", "street")
_IDS = (0, 1, 2, 3, 0, 4)
_WIDTH, _NARROW, _KEPT, _SEED = 4, 3, 5, 2


class _Layer(nn.Module):
    """One attention, and what the switches put after it."""

    def __init__(self, on: frozenset[str]) -> None:
        super().__init__()
        width = _WIDTH if "width" in on else _NARROW
        heads = 2 if "heads" in on and "width" in on else 1
        config = AttentionConfig(
            n_heads=heads, d_head=width // heads, d_value=width // heads, bias="bias" in on,
            output_map=False,
        )  # fmt: skip
        self.attention = MultiHeadAttention(_WIDTH, config)
        self.feed_forward = (
            FeedForward(width, FeedForwardConfig(d_ff=2 * width)) if "linear" in on else None
        )
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2 if "norm" in on else 0))
        self.causal = "masking" in on
        # A sum needs two vectors of one width.
        self.residual = "norm" in on and "width" in on

    def forward(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D2"]:
        """Attention, then what is switched on."""
        attended = self.attention(x, causal=self.causal)
        mixed = x + attended if self.residual else attended
        normed = self.norms[0](mixed) if self.norms else mixed
        if self.feed_forward is None:
            result: Tensor = normed
            return result
        fed = self.feed_forward(normed)
        summed = normed + fed if self.residual else fed
        output: Tensor = self.norms[1](summed) if self.norms else summed
        return output


class Switched(nn.Module):
    """Self-attention with any of the ten switches on.

    Each part draws its parameters with a seed of its own, so that a switch changes nothing but
    what it is for. Stacking needs outputs as wide as inputs, and heads an even width: without
    `width` these two have no effect.
    """

    def __init__(self, on: frozenset[str]) -> None:
        super().__init__()
        for name in on:
            if name not in SWITCHES:
                raise UnknownNameError("switch", name, SWITCHES)
        self.on = on
        depth = 2 if {"stacking", "width"} <= on else 1
        self.embedding = TokenEmbedding(len(set(_IDS)), _WIDTH) if "embedding" in on else None
        self.layers = nn.ModuleList(_Layer(on) for _ in range(depth))
        _draw(self)
        set_attention(self.eval(), "written")

    def forward(
        self, ids: Int[Tensor, "B T"], given: Float[Tensor, "B T D"]
    ) -> Float[Tensor, "B T D2"]:
        """Ids where there is an embedding, else the vectors given."""
        kept = _KEPT if "truncating" in self.on else ids.size(1)
        x = given[:, :kept] if self.embedding is None else self.embedding(ids[:, :kept])
        if "position" in self.on:
            x = x + sinusoidal_table(x.size(1), x.size(2))
        for layer in self.layers:
            x = layer(x)
        return x


@torch.no_grad()
def _draw(model: nn.Module) -> None:
    """Matrices and biases by a seed from their name; the gains of norms stay 1."""
    for name, parameter in model.named_parameters():
        if ".norms." in name:
            continue
        seed = _SEED + sum(map(ord, name))
        generator = torch.Generator().manual_seed(seed)
        drawn = torch.randn(parameter.shape, generator=generator)
        parameter.copy_((drawn * 5).round() / 10)


def _run(on: frozenset[str]) -> tuple[Switched, Trace]:
    rows = printed_matrix(load_example("illustrated"), "x")
    given = rows.repeat(2, 1).unsqueeze(0)
    model = Switched(on)
    ids = torch.tensor([_IDS])
    return model, trace(model, ids, given, labels={"ids": list(_WORDS)})


def switches(language: Language, off: Collection[str] = ()) -> Lesson:
    """The lesson; what is in `off` is never switched on."""
    for name in off:
        if name not in SWITCHES:
            raise UnknownNameError("switch", name, SWITCHES)
    say = Speaker(language, PHRASES)
    steps = tuple(_steps([name for name in SWITCHES if name not in off], say))
    return Lesson("switches", TITLE.say(language), say("summary"), language, steps)


def _steps(chosen: list[str], say: Speaker) -> Iterator[LessonStep]:
    model, run = _run(frozenset())
    line = _line(model, run, say)
    table = [(say("no switch"), *line)]
    parts: list[Part] = [Paragraph(say("start")), _output(run, say)]
    yield LessonStep("switch", say("start title"), tuple(parts))
    for place, name in enumerate(chosen, start=1):
        before = line
        model, run = _run(frozenset(chosen[:place]))
        line = _line(model, run, say)
        table.append((say(name), *line))
        title = say("turned on", number=place, count=len(chosen), name=say(name))
        yield LessonStep("switch", title, tuple(_changed(name, before, line, run, say)))
    heads = (say("switch"), *_heads(say))
    parts = [Paragraph(say("all")), Table("", heads, tuple(table))]
    yield LessonStep("switch", say("all title"), tuple(parts))


def _heads(say: Speaker) -> tuple[str, ...]:
    names = ("input shape", "output shape", "parameters", "last output")
    return tuple(say(name) for name in names)


def _line(model: Switched, run: Trace, say: Speaker) -> tuple[str, ...]:
    """Shapes, parameters and the last numbers (under a mask the first word sees only itself)."""
    output = next(iter(run.outputs.values()))
    last = ", ".join(number(float(x), 3) for x in output.value[0, -1])
    kept = output.shape[-2]
    read = say("given vectors", shape=shape_text((kept, _WIDTH)))
    return (
        say("given words", count=kept) if "embedding" in model.on else read,
        shape_text(output.shape[1:]),
        f"{count_parameters(model):,}",
        last,
    )


def _changed(
    name: str, before: tuple[str, ...], now: tuple[str, ...], run: Trace, say: Speaker
) -> Iterator[Part]:
    output = next(iter(run.outputs.values())).value[0]
    again = _IDS.index(0, 1)
    difference = (output[0] - output[again]).abs().max() if name == "position" else 0.0
    yield Paragraph(say(f"{name} text", difference=number(float(difference), 3), kept=_KEPT))
    rows = tuple(
        (head, old, new)
        for head, old, new in zip(_heads(say), before, now, strict=True)
        if old != new
    )
    if rows:
        yield Table("", ("", say("before"), say("now")), rows)
    yield _output(run, say)
    if name in ("masking", "heads"):
        yield from _weights(run, say)


def _output(run: Trace, say: Speaker) -> HeatMap:
    output = next(iter(run.outputs.values()))
    rows = _WORDS[: output.shape[-2]]
    if "embedding.weight" not in run.parameters:  # vectors, not words
        rows = tuple(say("numbered input", number=place + 1) for place in range(len(rows)))
    return heat_map(
        output, say, rows=rows,
        title=f"{say('output shape')}, {shape_text(output.shape[1:])}",
    )  # fmt: skip


def _weights(run: Trace, say: Speaker) -> Iterator[HeatMap]:
    weights = run["layers.0.attention.weights"]
    words = _WORDS[: weights.shape[-1]]
    for head in range(weights.shape[-3]):
        yield heat_map(weights, say, head=head, rows=words, columns=words)
