"""mary gave roses to susan: why several heads, and what positions have to do with it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from glassformer.lessons.example import Bilingual, Language
from glassformer.lessons.walks.figures.attention_figures import gave_figure
from glassformer.lessons.walks.lesson import (
    Figure,
    Formula,
    HeatMap,
    Lesson,
    LessonStep,
    Paragraph,
    Part,
    Table,
    formula,
)
from glassformer.lessons.walks.phrases import Phrases, Speaker
from glassformer.lessons.walks.steps import heat_map, percent
from glassformer.lessons.walks.textbook import number
from glassformer.nn.properties.studies import (
    ROLE_NAMES,
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
    "one title": Bilingual("One head cannot keep both", "一个头顾不了两个人"),
    "one keeps": Bilingual(
        "Now positions decide where a head looks: at the same places in every sentence. One head "
        "has one set of weights, here {giver_weight} for the giver and {receiver_weight} for the "
        "receiver: it keeps the {kept} and loses the {lost}. The {kept} is read right in "
        "{kept_right} of the sentences, the {lost} in {lost_right} (guessing among five names "
        "gives 20 %), and both in {both}.",
        "现在由位置决定一个头看哪里：在每个句子里都看同样的地方。一个头只有一组权重，这里给的人得到"
        " {giver_weight}，收的人得到 {receiver_weight}：它留住了{kept}，丢掉了{lost}。{kept}读对的"
        "句子占 {kept_right}，{lost}只占 {lost_right}（五个名字里瞎猜是 20 %），两者都读对的占 "
        "{both}。",
    ),
    "one mixes": Bilingual(
        "Now positions decide where a head looks: at the same places in every sentence. One head "
        "has one set of weights, here {giver_weight} for the giver and {receiver_weight} for the "
        "receiver: the two are added up in one mixture, and both are read right in {both} of the "
        "sentences.",
        "现在由位置决定一个头看哪里：在每个句子里都看同样的地方。一个头只有一组权重，这里给的人得到"
        " {giver_weight}，收的人得到 {receiver_weight}：两者被加在一起，都读对的句子只占 {both}。",
    ),
    "starts": Bilingual(
        "Where training ends depends on the random start: of the {starts} below, {losing} ended "
        "with one of the two lost and {mixing} with the two mixed. Both are read right in at most "
        "{most} of the sentences; with three names or more no linear map reads both from one "
        "mixture.",
        "训练的结果取决于随机的起点：下面 {starts} 次中，{losing} 次丢掉了其中一个人，{mixing} 次把"
        "两个人混在了一起。两者都读对的句子至多占 {most}；只要名字不少于三个，任何线性映射都无法从"
        "一份混合里读出两个人。",
    ),
    "start": Bilingual("start", "起点"),
    "giver weight": Bilingual("weight of giver", "给的人的权重"),
    "receiver weight": Bilingual("weight of receiver", "收的人的权重"),
    "two title": Bilingual("Two heads keep apart", "两个头就能分开"),
    "two": Bilingual(
        "With two heads, head {giver_head} gives the giver {giver_weight}, head {receiver_head} "
        "gives the receiver {receiver_weight}, and each result has its own place in the output: "
        "both are right in {both} of the sentences.",
        "有两个头时，第 {giver_head} 个头对给的人的权重是 {giver_weight}，第 {receiver_head} 个头"
        "对收的人的权重是 {receiver_weight}，各自的结果放在输出的不同位置：两者都对的句子占 "
        "{both}。",
    ),
    "added title": Bilingual("And in a real Transformer?", "真正的 Transformer 呢？"),
    "added": Bilingual(
        "There positions are added to the words, so that weights may depend on names and values "
        "on positions. Then even one head can learn to tell the two apart ({both} right).",
        "真正的 Transformer 把位置加到词上，权重可以依赖名字，值也可以依赖位置。这时一个头也能学会"
        "区分（{both} 正确）。",
    ),
    "code": Bilingual(
        "How, when nearly all weight lies on one word in the sentence above? The weights of other "
        "sentences show it. Which of two names gets more depends on the names, not on the places, "
        "and how the weight is divided tells who the other one is: susan gets {least} to {most} "
        "of it, depending on who gives. The values know the positions, so that susan who receives "
        "is another vector than susan who gives. Gifts are told alike: between mary and susan, "
        "{gift} get {gift_weight} and {other_gift} {other_weight}. The proof: with the same "
        "average weights in every sentence the giver is read in {giver_by_average}, the receiver "
        "in {receiver_by_average}. “One head mixes” is where it starts, not what training must "
        "leave it with.",
        "上面的句子里几乎全部权重都落在一个词上，它是怎么做到的？看看其他句子的权重就明白了。两个名"
        "字谁的权重大，取决于名字而不是位置；权重怎样分配，又透露了另一个人是谁：随着给的人不同，"
        "susan 得到 {least} 到 {most}。值里含有位置，所以作为收的人的 susan 与作为给的人的 susan 是"
        "不同的向量。礼物也是这样区分的：在 mary 和 susan 之间，{gift} 得到 {gift_weight}，"
        "{other_gift} 得到 {other_weight}。证据是：如果每个句子都换成同样的平均权重，给的人只读对 "
        "{giver_by_average}，收的人只读对 {receiver_by_average}。“一个头会混在一起”只是起点，并不是"
        "训练后的必然结果。",
    ),
    "sentence": Bilingual("sentence", "句子"),
    "weights of gave": Bilingual("weights of “gave”", "“gave”的权重"),
    "the giver": Bilingual("giver", "给的人"),
    "the gift": Bilingual("gift", "礼物"),
    "the receiver": Bilingual("receiver", "收的人"),
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
_ROLES = _GIVER, _GIFT, _RECEIVER = 0, 2, 4
_STARTS = 3


@lru_cache(maxsize=8)
def _reading(n_heads: int, positions: Positions, seed: int = 0) -> RoleReading:
    return learn_roles(n_heads, positions, seed=seed)


def roses(language: Language) -> Lesson:
    """The lesson."""
    say = Speaker(language, PHRASES)
    return Lesson("roses", TITLE.say(language), say("summary"), language, tuple(_steps(say)))


def _steps(say: Speaker) -> Iterator[LessonStep]:
    question = Paragraph(say("question"))
    yield LessonStep("question", say("question title"), (question,))
    bags = [_reading(1, "none"), _reading(2, "none")]
    change = number(max(found.change_when_swapped for found in bags), 2)
    yield _step("none", say("none", change=change), bags, say)
    one, two = _reading(1, "in scores"), _reading(2, "in scores")
    yield _step("one", _one_head(one, say), [one], say).with_(*_starts(say))
    yield _step("two", _two_heads(two, say), [two], say)
    added = _reading(1, "added")
    said = say("added", both=percent(added.giver_and_receiver))
    yield _step("added", said, [added], say).with_(*_code(added, say))


def _one_head(found: RoleReading, say: Speaker) -> str:
    """What one head did with giver and receiver, told from its weights."""
    giver, receiver = (float(found.weights[0, at]) for at in (_GIVER, _RECEIVER))
    facts = {
        "giver_weight": _weight(giver), "receiver_weight": _weight(receiver),
        "both": percent(found.giver_and_receiver),
    }  # fmt: skip
    if _mixes(found):
        return say("one mixes", **facts)
    people = [(say("the giver"), found.giver), (say("the receiver"), found.receiver)]
    (kept, kept_right), (lost, lost_right) = people if giver > receiver else reversed(people)
    return say(
        "one keeps", kept=kept, lost=lost, kept_right=percent(kept_right),
        lost_right=percent(lost_right), **facts,
    )  # fmt: skip


def _mixes(found: RoleReading) -> bool:
    """Whether a head looks at both, and not ten times as much at one as at the other."""
    giver, receiver = (float(found.weights[0, at]) for at in (_GIVER, _RECEIVER))
    return min(giver, receiver) > 0.1 * max(giver, receiver)


def _starts(say: Speaker) -> list[Part]:
    """One head from several random starts."""
    rows = []
    readings = [_reading(1, "in scores", seed) for seed in range(_STARTS)]
    for seed, found in enumerate(readings):
        weights = (_weight(float(found.weights[0, at])) for at in (_GIVER, _RECEIVER))
        rows.append((str(seed + 1), *weights, *map(percent, _shares(found))))
    names = ("start", "giver weight", "receiver weight", "giver", "gift", "receiver", "both")
    table = Table("", tuple(say(name) for name in names), tuple(rows))
    mixing = sum(map(_mixes, readings))
    said = say(
        "starts", starts=_STARTS, losing=_STARTS - mixing, mixing=mixing,
        most=percent(max(found.giver_and_receiver for found in readings)),
    )  # fmt: skip
    return [Paragraph(said), table]


def _two_heads(found: RoleReading, say: Speaker) -> str:
    giver, receiver = (found.weights[:, at] for at in (_GIVER, _RECEIVER))
    return say(
        "two", giver_head=int(giver.argmax()) + 1, giver_weight=_weight(float(giver.max())),
        receiver_head=int(receiver.argmax()) + 1,
        receiver_weight=_weight(float(receiver.max())), both=percent(found.giver_and_receiver),
    )  # fmt: skip


def _code(found: RoleReading, say: Speaker) -> list[Part]:
    """How one head tells giver from receiver: its weights in sentences about susan."""
    mary, gave, gift, to, susan = ROLE_SENTENCE
    other_gift = (mary, gave, "books", to, susan)
    others = [name for name in ROLE_NAMES if name != susan]
    given = [(name, gave, gift, to, susan) for name in others]
    sentences = [*given, other_gift, *((susan, gave, gift, to, name) for name in others)]
    rows = [
        (" ".join(words), *(_weight(found.weights_in(words)[at]) for at in _ROLES))
        for words in sentences
    ]
    shares = [found.weights_in(words)[_RECEIVER] for words in given]
    said = say(
        "code", least=_weight(min(shares)), most=_weight(max(shares)),
        gift=gift, gift_weight=_weight(found.weights_in(ROLE_SENTENCE)[_GIFT]), other_gift="books",
        other_weight=_weight(found.weights_in(other_gift)[_GIFT]),
        giver_by_average=percent(found.giver_by_average),
        receiver_by_average=percent(found.receiver_by_average),
    )  # fmt: skip
    heads = tuple(say(name) for name in ("sentence", "the giver", "the gift", "the receiver"))
    return [Paragraph(said), Table(say("weights of gave"), heads, tuple(rows))]


def _weight(share: float) -> str:
    """A weight as it stands in a column of weights."""
    return f"{share:.3f}"


def _step(key: str, said: str, readings: list[RoleReading], say: Speaker) -> LessonStep:
    heads = tuple(say(name) for name in ("heads", "giver", "gift", "receiver", "both"))
    rows = tuple((str(found.n_heads), *map(percent, _shares(found))) for found in readings)
    parts: list[Part] = [Paragraph(said), Table("", heads, rows)]
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
    return [formula(chosen), *maps]
