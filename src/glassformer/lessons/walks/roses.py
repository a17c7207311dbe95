"""mary gave roses to susan: why several heads, and what positions have to do with it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from glassformer.lessons.example import Bilingual, Language
from glassformer.lessons.walks.figures.heads import gave_figure
from glassformer.lessons.walks.lesson import (
    Figure,
    Formula,
    HeatMap,
    Lesson,
    LessonStep,
    Paragraph,
    Part,
    Table,
)
from glassformer.lessons.walks.naming import number
from glassformer.lessons.walks.phrases import Phrases, Speaker
from glassformer.lessons.walks.steps import heat_map, percent
from glassformer.nn.properties.studies import (
    ROLE_SENTENCE,
    Positions,
    RoleReading,
    learn_roles,
)
from glassformer.trace import Trace, trace

__all__ = ["PHRASES", "TITLE", "roses"]

TITLE = Bilingual("mary gave roses to susan", "mary gave roses to susan：为什么需要多个头")
PHRASES: Phrases = {
    "summary": Bilingual(
        "Who gave what to whom? One head, two heads, with and without positions, each trained on "
        "the spot.",
        "谁把什么给了谁？一个头、两个头，有位置、没有位置，当场各训练一遍。",
    ),
    "question title": Bilingual("The question", "问题"),
    "question": Bilingual(
        "Three words stand in three different relations to “gave”: mary gives, roses are given, "
        "susan receives. One attention layer reads such sentences (five names, three gifts, every "
        "combination), and three linear maps read giver, gift and receiver from its output at "
        "“gave”. All are trained together.",
        "三个词与“gave”的关系各不相同：mary 是给的人，roses 是给的东西，susan 是收的人。用一个注意"
        "力层读这样的句子（五个名字、三样礼物的全部组合），再用三个线性映射从“gave”处的输出读出给的"
        "人、礼物和收的人，一起训练。",
    ),
    "none title": Bilingual("Without positions", "没有位置信息"),
    "none": Bilingual(
        "Without positions a sentence is a bag of words: when mary and susan change places, the "
        "output at “gave” changes by {change}, which is rounding. No number of heads can then tell "
        "giver from receiver.",
        "没有位置信息，句子只是一袋词：mary 和 susan 互换，“gave”处的输出只变化 {change}，仅是舍入"
        "误差。无论多少个头，都分不清谁给谁收。",
    ),
    "one title": Bilingual("One head mixes", "一个头会混在一起"),
    "one": Bilingual(
        "Now positions decide where a head looks. One head has one set of weights, so giver and "
        "receiver are added up in one mixture, and both are read right in {both} of the sentences.",
        "现在由位置决定一个头看哪里。一个头只有一组权重，给的人和收的人被加在一起，两者都读对的句子"
        "只占 {both}。",
    ),
    "two title": Bilingual("Two heads keep apart", "两个头就能分开"),
    "two": Bilingual(
        "With two heads one can look at the giver, the other at the receiver, and each result has "
        "its own place in the output: both are right in {both} of the sentences.",
        "有两个头时，一个可以看给的人，另一个看收的人，各自的结果放在输出的不同位置：两者都对的句子"
        "占 {both}。",
    ),
    "added title": Bilingual("And in a real Transformer?", "真正的 Transformer 呢？"),
    "added": Bilingual(
        "There positions are added to the words, so that weights may depend on names and values "
        "on positions. Then even one head can learn to tell the two apart ({both} right). “One "
        "head mixes” is where it starts, not what training must leave it with.",
        "真正的 Transformer 把位置加到词上，权重可以依赖名字，值也可以依赖位置。这时一个头也能学会"
        "区分（{both} 正确）。“一个头会混在一起”只是起点，并不是训练后的必然结果。",
    ),
    "heads": Bilingual("heads", "头数"),
    "giver": Bilingual("giver right", "给的人正确"),
    "gift": Bilingual("gift right", "礼物正确"),
    "receiver": Bilingual("receiver right", "收的人正确"),
    "both": Bilingual("giver and receiver", "两者都对"),
    "matrices": Bilingual(
        "The rows of “gave” below show where it looks; the framed weight is written out.",
        "下面各矩阵中“gave”所在的行，就是它关注的地方；带框的权重写出了算式。",
    ),
}
_GAVE = ROLE_SENTENCE.index("gave")


@lru_cache(maxsize=8)
def _reading(n_heads: int, positions: Positions) -> RoleReading:
    return learn_roles(n_heads, positions)


def roses(language: Language) -> Lesson:
    """The lesson."""
    say = Speaker(language, PHRASES)
    return Lesson("roses", TITLE.say(language), say("summary"), language, tuple(_steps(say)))


def _steps(say: Speaker) -> Iterator[LessonStep]:
    question = Paragraph(say("question"))
    yield LessonStep("question", say("question title"), (question,))
    bags = [_reading(1, "none"), _reading(2, "none")]
    change = number(max(found.change_when_swapped for found in bags), 2)
    yield _step("none", bags, say, change=change)
    one, two = _reading(1, "in scores"), _reading(2, "in scores")
    yield _step("one", [one], say, both=percent(one.giver_and_receiver))
    yield _step("two", [two], say, both=percent(two.giver_and_receiver))
    added = _reading(1, "added")
    yield _step("added", [added], say, both=percent(added.giver_and_receiver))


def _step(key: str, readings: list[RoleReading], say: Speaker, **values: str) -> LessonStep:
    heads = tuple(say(name) for name in ("heads", "giver", "gift", "receiver", "both"))
    rows = tuple((str(found.n_heads), *map(percent, _shares(found))) for found in readings)
    parts: list[Part] = [Paragraph(say(key, **values)), Table("", heads, rows)]
    runs = [_trace(found) for found in readings]
    if key == "two":
        drawing = gave_figure(runs[0], ROLE_SENTENCE, _GAVE, say.language)
        parts.append(Figure("gave", drawing))
    parts.append(Paragraph(say("matrices")))
    for run in runs:
        parts += _weights(run, say)
    return LessonStep(key, say(f"{key} title"), tuple(parts))


def _shares(found: RoleReading) -> tuple[float, ...]:
    return found.giver, found.gift, found.receiver, found.giver_and_receiver


def _trace(found: RoleReading) -> Trace:
    """“mary gave roses to susan” through what was trained."""
    return trace(found.model, found.ids, axis_labels={"ids": list(ROLE_SENTENCE)})


def _weights(run: Trace, say: Speaker) -> list[Formula | HeatMap]:
    """Every head's weights; the largest that “gave” gives in the first is written out."""
    weights = run["weights"]
    chosen = weights[0, 0, _GAVE, int(weights.value[0, 0, _GAVE].argmax())]
    maps = [
        heat_map(
            weights, say, chosen if head == 0 else None, head=head, rows=ROLE_SENTENCE,
            columns=ROLE_SENTENCE,
        )
        for head in range(weights.shape[1])
    ]  # fmt: skip
    return [Formula(chosen), *maps]
