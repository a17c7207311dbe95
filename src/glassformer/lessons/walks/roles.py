"""One vector in its three parts: as query, as key, as value."""

from __future__ import annotations

from collections.abc import Iterator

from glassformer.lessons.example import Bilingual, Language
from glassformer.lessons.walks.figures.attention_figures import (
    basic_figure,
    key_query_value_figure,
    roles_figure,
)
from glassformer.lessons.walks.illustrated import illustrated_trace
from glassformer.lessons.walks.lesson import (
    Figure,
    Lesson,
    LessonStep,
    Paragraph,
    Part,
    Table,
    formula,
)
from glassformer.lessons.walks.phrases import Phrases, Speaker
from glassformer.lessons.walks.steps import heat_map
from glassformer.lessons.walks.textbook import cell_name, number
from glassformer.nn.attention import basic_self_attention
from glassformer.trace import Step, Trace, trace

__all__ = ["PHRASES", "TITLE", "roles"]

TITLE = Bilingual("One vector, three roles", "一个向量，三种角色")
PHRASES: Phrases = {
    "summary": Bilingual(
        "Where input 2 acts as query, as key and as value, followed through the trace.",
        "沿着计算记录，看输入 2 在哪里充当查询、键和值。",
    ),
    "basic title": Bilingual("Before the roles: basic self-attention", "先看没有角色的自注意力"),
    "basic": Bilingual(
        "Without parameters a vector plays all three parts itself: {name} is compared with every "
        "vector, itself included, and the same vectors are then mixed. The score of {name} with "
        "itself is {score}, the sum of its squares, so it mostly keeps itself.",
        "如果没有参数，一个向量要同时扮演三种角色：{name} 与每个向量（包括自己）作点积，然后混合的"
        "还是这些向量。{name} 与自己的分数是 {score}，即各分量的平方和，所以它基本上只保留自己。",
    ),
    "vector title": Bilingual("The vector and its three images", "向量与它的三个映像"),
    "vector": Bilingual(
        "{name} is multiplied by three matrices. What comes out has three different jobs.",
        "{name} 分别乘以三个矩阵，得到的三个向量各司其职。",
    ),
    "query title": Bilingual("As a query: its own row", "作为查询：自己的一行"),
    "query": Bilingual(
        "Its query meets every key, its own included, and makes one row of scores, {cells}. They "
        "decide from where the output of {name} is gathered, and no other output.",
        "它的查询与每个键（包括自己的键）作点积，得到分数矩阵的一行：{cells}。这一行决定 {name} 的"
        "输出从哪里取，不影响别的输出。",
    ),
    "key title": Bilingual("As a key: its own column", "作为键：自己的一列"),
    "key": Bilingual(
        "Its key meets every query, its own included, and makes one column of scores, {cells}. "
        "They decide how much each output takes from {name}.",
        "它的键与每个查询（包括自己的查询）作点积，得到分数矩阵的一列：{cells}。这一列决定每个输出"
        "从 {name} 取多少。",
    ),
    "value title": Bilingual("As a value: a share of every output", "作为值：在每个输出中占一份"),
    "value": Bilingual(
        "Its value, times a weight, is part of every output. The table shows how much of entry "
        "{entry} of each output comes from {name}.",
        "它的值乘以权重后，成为每个输出的一部分。下表列出每个输出的分量 {entry} 中有多少来自 {name}"
        "。",
    ),
    "output": Bilingual("output of", "输出"),
    "weight": Bilingual("weight", "权重"),
    "part": Bilingual("part from it", "来自它的部分"),
    "whole": Bilingual("whole", "总和"),
    "both": Bilingual(
        "Query and key meet in one cell, {cell}: the score of {name} against itself belongs to "
        "its row and to its column.",
        "查询和键在 {cell} 这一格相遇：{name} 对自己的分数，既在它的行里，也在它的列里。",
    ),
}
_CHOSEN, _ENTRY = 1, 1


def roles(language: Language) -> Lesson:
    """The lesson."""
    say = Speaker(language, PHRASES)
    return Lesson("roles", TITLE.say(language), say("summary"), language, tuple(_steps(say)))


def _steps(say: Speaker) -> Iterator[LessonStep]:
    run, _ = illustrated_trace(say)
    names = run["scores"].labels[-1]
    assert names is not None
    name = names[_CHOSEN]
    yield _basic(run, name, say)
    maps = [
        heat_map(run[step], say, run[step][_CHOSEN, 0])
        for step in ("projected_queries", "projected_keys", "projected_values")
    ]
    parts: list[Part] = [Paragraph(say("vector", name=name)), heat_map(run["x"], say), *maps]
    parts.append(Figure("key-query-value", key_query_value_figure(run, say.language)))
    yield LessonStep("inputs", say("vector title"), tuple(parts))
    yield _scores_step("query", run["projected_queries"], run, name, say)
    yield _scores_step("key", run["projected_keys"], run, name, say)
    yield _value_step(run, names, say).with_(Figure("roles", roles_figure(run, say.language)))


def _basic(run: Trace, name: str, say: Speaker) -> LessonStep:
    """The same inputs through attention without parameters."""
    labels = run["x"].labels[-2]
    assert labels is not None
    basic = trace(basic_self_attention, run["x"].value[0], axis_labels={"x": list(labels)})
    own = basic["scores"][_CHOSEN, _CHOSEN]
    parts: list[Part] = [
        Paragraph(say("basic", name=name, score=number(own.value))),
        formula(own),
        heat_map(basic["scores"], say, own, rows=labels, columns=labels),
        heat_map(basic["weights"], say, rows=labels, columns=labels),
        Figure("basic", basic_figure(basic, say.language)),
    ]
    return LessonStep("basic", say("basic title"), tuple(parts))


def _scores_step(role: str, projected: Step, run: Trace, name: str, say: Speaker) -> LessonStep:
    """The scores that the vector's query or key has a part in, as the trace found them."""
    scores = run["scores"]
    touched = [
        cell
        for found in projected[_CHOSEN, 0].dependents()
        if found.step is scores
        for cell in found.cells()
    ]
    listed = say.listed([cell_name(cell) for cell in touched])
    parts: list[Part] = [Paragraph(say(role, name=name, cells=listed))]
    parts += [formula(cell) for cell in touched]
    if role == "key":
        own = cell_name(scores[0, 0, _CHOSEN, _CHOSEN])
        parts.append(Paragraph(say("both", cell=own, name=name)))
    parts.append(heat_map(scores, say, scores[0, 0, _CHOSEN, _CHOSEN]))
    return LessonStep(role, say(f"{role} title"), tuple(parts))


def _value_step(run: Trace, names: tuple[str, ...], say: Speaker) -> LessonStep:
    rows = []
    for place, label in enumerate(names):
        cell = run["context"][0, 0, place, _ENTRY]
        weight = run["weights"][0, 0, place, _CHOSEN]
        share = cell.terms[_CHOSEN].value
        rows.append((label, number(weight.value), number(share), number(cell.value)))
    heads = (say("output"), say("weight"), say("part"), say("whole"))
    parts: list[Part] = [Paragraph(say("value", entry=_ENTRY + 1, name=names[_CHOSEN]))]
    parts += [formula(run["context"][0, 0, 0, _ENTRY]), Table("", heads, tuple(rows))]
    return LessonStep("value", say("value title"), tuple(parts))
