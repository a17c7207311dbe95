"""Outcomes as a table in the terminal and as Markdown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from glassformer.language import Language, Prose, words
from glassformer.lessons.claims.catalogue import GROUPS, PROPERTIES
from glassformer.lessons.claims.claim import Outcome, Verdict

if TYPE_CHECKING:
    from rich.console import RenderableType

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

_COLUMNS = ("id", "claim", "text", "verdict", "measured")
say = words(__name__)
VERDICTS = {verdict: say[f"is {verdict}"] for verdict in MARKS}


def counted(outcomes: Sequence[Outcome], language: Language) -> str:
    """How many claims have each verdict, in one line."""
    counts = Counter(outcome.verdict for outcome in outcomes)
    parts = [
        say["count"].say(language, verdict=name, count=counts[verdict])
        for verdict, name in VERDICTS.items()
        if counts[verdict]
    ]
    return say["comma"].say(language).join(parts)


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
        basis = say["not in seconds"].say(language, basis=basis)
    return say["with basis"].say(language, verdict=said, basis=basis)


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
            table.add_column(
                say[heading].say(language), ratio=ratio, max_width=widest, overflow="fold"
            )
        for outcome in members:
            table.add_row(
                Text(outcome.claim.id),
                Prose(outcome.claim.says.say(language)),
                Text(" ".join(outcome.claim.texts)),
                Text(_verdict(outcome, language), _STYLES[outcome.verdict]),
                Prose(outcome.sentence(language)),
            )
        parts.append(table)
    counts, texts = counted(outcomes, language), say["texts"].say(language)
    return Group(*parts, Prose(counts, "bold"), Prose(texts, "dim"))


def to_markdown(outcomes: Sequence[Outcome], language: Language) -> str:
    """A page with one table a heading."""
    introduction = say["introduction"].say(language) + say["texts"].say(language)
    lines = [f"# {say['title'].say(language)}", "", introduction, ""]
    lines += [counted(outcomes, language)]
    headings = [say[heading].say(language) for heading in _COLUMNS]
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
    heads = [say[name].say(language) for name in ("property", "command", "claim")]
    lines = [
        "",
        "## " + say["properties"].say(language),
        "",
        _pipes(heads),
        _pipes(["---"] * 3),
    ]
    between = say["semicolon"].say(language)
    for id_, ids in shown.items():
        said = between.join(f"{one}: {known[one].says.say(language)}" for one in ids)
        lines.append(_pipes([id_, f"`glassformer claims {id_}`", said]))
    return lines


def _pipes(cells: list[str]) -> str:
    escaped = (cell.replace("|", "\\|").replace("<", "&lt;") for cell in cells)
    return "| " + " | ".join(escaped) + " |"
