"""From self-attention to the Transformer: ten switches, turned on one after the other.

`switches_model` is one small machine of our own modules in which each of the ten can be on or off;
the lesson turns them on in turn and shows what changes in shapes, parameters, numbers. A switch
that is left off changes what the later ones do, so some have words of their own for that.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from glassformer.errors import UnknownNameError
from glassformer.lessons.example import Bilingual, Language
from glassformer.lessons.walks.lesson import HeatMap, Lesson, LessonStep, Paragraph, Part, Table
from glassformer.lessons.walks.phrases import Phrases, Speaker
from glassformer.lessons.walks.steps import heat_map
from glassformer.lessons.walks.switches_model import (
    IDS,
    KEPT,
    SWITCHES,
    WIDTH,
    WORDS,
    Switched,
    switched_trace,
)
from glassformer.lessons.walks.textbook import number
from glassformer.nn import count_parameters
from glassformer.trace import Trace
from glassformer.trace.render.matrices import shape_text

__all__ = ["PHRASES", "TITLE", "switches"]

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
    "position vectors": Bilingual(
        "A vector for each position is added. Until now inputs 1 and 4, which are equal, had the "
        "same output; now the two differ by up to {difference}.",
        "每个位置加上一个向量。输入 1 与输入 4 相同，此前两者的输出也完全相同，现在最多相差 "
        "{difference}。",
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
    "heads narrow": Bilingual(
        "Three numbers cannot be halved: while “Dimension” is off, this switch changes nothing.",
        "三维无法平分：“维度”关闭时，这个开关不起作用。",
    ),
    "stacking": Bilingual("Stacking layers", "堆叠多层"),
    "stacking text": Bilingual(
        "A second layer reads what the first one wrote: words can now be reached through others.",
        "第二层读取第一层的结果：信息可以经由其他词间接传递。",
    ),
    "stacking narrow": Bilingual(
        "A second layer would need outputs as wide as inputs: while “Dimension” is off, this "
        "switch changes nothing.",
        "第二层要求输出与输入同维：“维度”关闭时，这个开关不起作用。",
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
    "norm part": Bilingual(
        "What each part computes is added to what came in, and every vector is brought to mean 0 "
        "and deviation 1.",
        "每一部分的结果都与输入相加，并把每个向量归一化到均值 0、标准差 1。",
    ),
    "norm narrow": Bilingual(
        "Every vector is brought to mean 0 and deviation 1. Nothing is added to what came in: a "
        "sum needs outputs as wide as inputs, and “Dimension” is off.",
        "把每个向量归一化到均值 0、标准差 1。没有残差连接：相加要求输出与输入同维，而“维度”处于关闭"
        "状态。",
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


def switches(language: Language, off: Collection[str] = ()) -> Lesson:
    """The lesson; what is in `off` is never switched on."""
    for name in off:
        if name not in SWITCHES:
            raise UnknownNameError("switch", name, SWITCHES)
    say = Speaker(language, PHRASES)
    steps = tuple(_steps([name for name in SWITCHES if name not in off], say))
    return Lesson("switches", TITLE.say(language), say("summary"), language, steps)


def _steps(chosen: list[str], say: Speaker) -> Iterator[LessonStep]:
    model, run = switched_trace(frozenset())
    line = _line(model, run, say)
    table = [(say("no switch"), *line)]
    parts: list[Part] = [Paragraph(say("start")), _output(run, say)]
    yield LessonStep("switch", say("start title"), tuple(parts))
    for place, name in enumerate(chosen, start=1):
        before = line
        model, run = switched_trace(frozenset(chosen[:place]))
        line = _line(model, run, say)
        table.append((say(name), *line))
        title = say("turned on", number=place, count=len(chosen), name=say(name))
        said = [_said(name, model, run, say), *_changed(name, before, line, run, say)]
        yield LessonStep("switch", title, tuple(said))
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
    read = say("given vectors", shape=shape_text((kept, WIDTH)))
    return (
        say("given words", count=kept) if "embedding" in model.on else read,
        shape_text(output.shape[1:]),
        f"{count_parameters(model):,}",
        last,
    )


def _said(name: str, model: Switched, run: Trace, say: Speaker) -> Paragraph:
    """What a switch does, beside those that are on."""
    if name == "position":
        with_words = "embedding" in model.on
        again = IDS.index(IDS[0], 1) if with_words else len(IDS) // 2  # equal to the first
        output = next(iter(run.outputs.values())).value[0]
        difference = number(float((output[0] - output[again]).abs().max()), 3)
        phrase = "position text" if with_words else "position vectors"
        return Paragraph(say(phrase, difference=difference))
    phrase = f"{name} text"
    if name in ("heads", "stacking", "norm") and "width" not in model.on:
        phrase = f"{name} narrow"
    elif name == "norm" and model.on != frozenset(SWITCHES):
        phrase = "norm part"
    return Paragraph(say(phrase, kept=KEPT))


def _changed(
    name: str, before: tuple[str, ...], now: tuple[str, ...], run: Trace, say: Speaker
) -> Iterator[Part]:
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
    return heat_map(
        output, say, rows=_names(run, output.shape[-2], say),
        title=f"{say('output shape')}, {shape_text(output.shape[1:])}",
    )  # fmt: skip


def _weights(run: Trace, say: Speaker) -> Iterator[HeatMap]:
    weights = run["layers.0.attention.weights"]
    words = _names(run, weights.shape[-1], say)
    for head in range(weights.shape[-3]):
        yield heat_map(weights, say, head=head, rows=words, columns=words)


def _names(run: Trace, count: int, say: Speaker) -> tuple[str, ...]:
    """The words that are read; numbered inputs where there are vectors instead."""
    if "embedding.weight" in run.parameters:
        return WORDS[:count]
    return tuple(say("numbered input", number=place + 1) for place in range(count))
