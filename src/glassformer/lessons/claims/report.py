"""Outcomes as a document: one table per group of claims."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from glassformer.documents import parts as p
from glassformer.lessons.claims.catalogue import GROUPS, PROPERTIES
from glassformer.lessons.claims.claim import Outcome, Verdict
from glassformer.lessons.example import Bilingual, Language

VERDICTS: dict[Verdict, Bilingual] = {
    "holds": Bilingual("holds", "成立"),
    "holds in part": Bilingual("holds in part", "部分成立"),
    "fails": Bilingual("fails", "不成立"),
    "not decidable here": Bilingual("not decidable here", "此处无法判定"),
    "not measured yet": Bilingual("not measured yet", "尚未测量"),
}

MARKS: dict[Verdict, str] = {
    "holds": "✓",
    "holds in part": "◐",
    "fails": "✗",
    "not decidable here": "?",
    "not measured yet": "·",
}

_LOOKS: dict[Verdict, p.Look] = {
    "holds": "good",
    "holds in part": "caution",
    "fails": "bad",
    "not decidable here": "quiet",
    "not measured yet": "quiet",
}

_COLUMNS = (
    Bilingual("id", "编号"),
    Bilingual("claim", "说法"),
    Bilingual("text", "文章"),
    Bilingual("verdict", "结论"),
    Bilingual("measured", "测得"),
)

_NOT_IN_SECONDS = Bilingual("{basis}, not seconds", "{basis}，而非耗时")
_PROPERTIES_TITLE = Bilingual("Properties", "性质")
_PROPERTY = Bilingual("property", "性质")
_COMMAND = Bilingual("command", "命令")

_LABEL = Bilingual("Claims", "说法")
_TITLE = Bilingual("The claims of the texts, run", "各篇文章的说法，逐条运行")

_INTRODUCTION = Bilingual(
    "Written by `glassformer claims`. Each claim is stated in our words and decided by an "
    "experiment; `glassformer claims C31` runs one again, `glassformer claims B09` those behind a "
    "property (listed at the end). Slow ones show a stored result with the command that made it. ",
    "由 `glassformer claims --lang zh` 生成。每条说法都用我们自己的话转述，并由实验判定；"
    "`glassformer claims C31` 可重新运行一条，`glassformer claims B09` 运行一项性质背后的各条（见文"
    "末）。耗时的实验给出已存结果及其命令。",
)

_TEXTS = Bilingual(
    "Texts: 000 Transformers from scratch, 001 illustrated self-attention, "
    "002 notes on “Attention is all you need”, 003 notes on Transformers from scratch, "
    "004 Transformer by hand.",
    "文章：000 从零实现 Transformer，001 图解自注意力，002《Attention is all you need》笔记，"
    "003 从零实现 Transformer 的笔记，004 手算 Transformer。",
)


def claims_document(outcomes: Sequence[Outcome], language: Language) -> p.Document:
    """For every format: one table per group, then the properties that these claims demonstrate."""
    heads = tuple(heading.say(language) for heading in _COLUMNS)
    sections = [
        p.Section(group.title.say(language), (p.Table("", heads, rows),))
        for group in GROUPS
        if (rows := tuple(_row(o, language) for o in outcomes if o.claim.id in group.claims))
    ]
    return p.Document(
        _TITLE.say(language),
        (
            p.Paragraph(p.with_code(_INTRODUCTION.say(language) + _TEXTS.say(language))),
            p.Paragraph(counted(outcomes, language), "strong"),
            *sections,
            *_properties(outcomes, language),
        ),
        language,
        _LABEL.say(language),
        lambda: {"claims": [outcome.to_dict(language) for outcome in outcomes]},
    )


def counted(outcomes: Sequence[Outcome], language: Language) -> str:
    """How many claims have each verdict, in one line."""
    counts = Counter(outcome.verdict for outcome in outcomes)
    colon, between = (": ", ", ") if language == "en" else ("：", "，")
    return between.join(
        f"{name.say(language)}{colon}{counts[verdict]}"
        for verdict, name in VERDICTS.items()
        if counts[verdict]
    )


def _row(outcome: Outcome, language: Language) -> tuple[p.Inline, ...]:
    return (
        outcome.claim.id,
        outcome.claim.says.say(language),
        " ".join(outcome.claim.texts),
        p.Span(_verdict(outcome, language), _LOOKS[outcome.verdict]),
        p.with_code(outcome.sentence(language)),
    )


def _verdict(outcome: Outcome, language: Language) -> str:
    """The verdict, with what it rests on where that is one of two things measured."""
    said = f"{MARKS[outcome.verdict]} {VERDICTS[outcome.verdict].say(language)}"
    if outcome.claim.seconds is None:
        return said
    basis = outcome.claim.seconds.basis.say(language)
    if outcome.taken_back:
        basis = _NOT_IN_SECONDS.say(language).format(basis=basis)
    return f"{said} ({basis})" if language == "en" else f"{said}（{basis}）"


def _properties(outcomes: Sequence[Outcome], language: Language) -> list[p.Section]:
    """Which of these claims demonstrate which property of the texts."""
    known = {outcome.claim.id: outcome.claim for outcome in outcomes}
    between = "; " if language == "en" else "；"
    rows = tuple(
        (
            id_,
            p.Span(f"glassformer claims {id_}", "code"),
            between.join(f"{one}: {known[one].says.say(language)}" for one in ids),
        )
        for id_, ids in PROPERTIES.items()
        if set(ids) <= set(known)
    )
    heads = tuple(word.say(language) for word in (_PROPERTY, _COMMAND, _COLUMNS[1]))
    return [p.Section(_PROPERTIES_TITLE.say(language), (p.Table("", heads, rows),))] if rows else []
