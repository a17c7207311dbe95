"""Outcomes as a table in the terminal and as Markdown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from glassformer.lessons.claims.catalogue import GROUPS, PROPERTIES
from glassformer.lessons.claims.claim import Outcome, Verdict
from glassformer.lessons.example import Bilingual, Language
from glassformer.lessons.prose import Prose

if TYPE_CHECKING:
    from rich.console import RenderableType

__all__ = ["MARKS", "VERDICTS", "counted", "to_markdown", "to_terminal"]

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

_STYLES: dict[Verdict, str] = {
    "holds": "green",
    "holds in part": "yellow",
    "fails": "bold red",
    "not decidable here": "dim",
    "not measured yet": "dim",
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

_TITLE = Bilingual("The claims of the texts, run", "各篇文章的说法，逐条运行")

_INTRODUCTION = Bilingual(
    "Written by `glassformer claims --to md`. Each claim is stated in our words and decided by an "
    "experiment; `glassformer claims C31` runs one again, `glassformer claims B09` those behind a "
    "property (listed at the end). Slow ones show a stored result with the command that made it. ",
    "由 `glassformer claims --to md --lang zh` 生成。每条说法都用我们自己的话转述，并由实验判定；"
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


def counted(outcomes: Sequence[Outcome], language: Language) -> str:
    """How many claims have each verdict, in one line."""
    counts = Counter(outcome.verdict for outcome in outcomes)
    colon, between = (": ", ", ") if language == "en" else ("：", "，")
    parts = [
        f"{name.say(language)}{colon}{counts[verdict]}"
        for verdict, name in VERDICTS.items()
        if counts[verdict]
    ]
    return between.join(parts)


def _grouped(outcomes: Sequence[Outcome], language: Language) -> list[tuple[str, list[Outcome]]]:
    """Outcomes under their headings; headings without any are left out."""
    found = (
        (group.title.say(language), [o for o in outcomes if o.claim.id in group.claims])
        for group in GROUPS
    )
    return [(title, members) for title, members in found if members]


def _verdict(outcome: Outcome, language: Language) -> str:
    """The verdict, with what it rests on where that is one of two things measured."""
    said = f"{MARKS[outcome.verdict]} {VERDICTS[outcome.verdict].say(language)}"
    if outcome.claim.seconds is None:
        return said
    basis = outcome.claim.seconds.basis.say(language)
    if outcome.taken_back:
        basis = _NOT_IN_SECONDS.say(language).format(basis=basis)
    return f"{said} ({basis})" if language == "en" else f"{said}（{basis}）"


def to_terminal(outcomes: Sequence[Outcome], language: Language) -> RenderableType:
    """For rich's console: one table a heading, then the counts and the texts' names."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    parts: list[RenderableType] = []
    for title, members in _grouped(outcomes, language):
        table = Table(title=Text(title, "bold"), title_justify="left", expand=True)
        for heading, ratio in zip(_COLUMNS, (None, 3, None, None, 5), strict=True):
            widest = None if ratio else 15
            table.add_column(heading.say(language), ratio=ratio, max_width=widest, overflow="fold")
        for outcome in members:
            table.add_row(
                Text(outcome.claim.id),
                Prose(outcome.claim.says.say(language)),
                Text(" ".join(outcome.claim.texts)),
                Text(_verdict(outcome, language), _STYLES[outcome.verdict]),
                Prose(outcome.sentence(language)),
            )
        parts.append(table)
    counts, texts = counted(outcomes, language), _TEXTS.say(language)
    return Group(*parts, Prose(counts, "bold"), Prose(texts, "dim"))


def to_markdown(outcomes: Sequence[Outcome], language: Language) -> str:
    """A page with one table a heading."""
    introduction = _INTRODUCTION.say(language) + _TEXTS.say(language)
    lines = [f"# {_TITLE.say(language)}", "", introduction, ""]
    lines += [counted(outcomes, language)]
    headings = [heading.say(language) for heading in _COLUMNS]
    for title, members in _grouped(outcomes, language):
        lines += ["", f"## {title}", "", _pipes(headings), _pipes(["---"] * len(headings))]
        lines += [
            _pipes(
                [
                    outcome.claim.id,
                    outcome.claim.says.say(language),
                    " ".join(outcome.claim.texts),
                    _verdict(outcome, language),
                    outcome.sentence(language),
                ]
            )
            for outcome in members
        ]
    return "\n".join([*lines, *_properties(outcomes, language)]) + "\n"


def _properties(outcomes: Sequence[Outcome], language: Language) -> list[str]:
    """Which of these claims demonstrate which property of the texts."""
    known = {outcome.claim.id: outcome.claim for outcome in outcomes}
    shown = {id_: ids for id_, ids in PROPERTIES.items() if set(ids) <= set(known)}
    if not shown:
        return []
    heads = [_PROPERTY.say(language), _COMMAND.say(language), _COLUMNS[1].say(language)]
    lines = ["", f"## {_PROPERTIES_TITLE.say(language)}", "", _pipes(heads), _pipes(["---"] * 3)]
    between = "; " if language == "en" else "；"
    for id_, ids in shown.items():
        said = between.join(f"{one}: {known[one].says.say(language)}" for one in ids)
        lines.append(_pipes([id_, f"`glassformer claims {id_}`", said]))
    return lines


def _pipes(cells: list[str]) -> str:
    escaped = (cell.replace("|", "\\|").replace("<", "&lt;") for cell in cells)
    return "| " + " | ".join(escaped) + " |"
