"""Outcomes as a document: one table per group of claims."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from glassformer.claims.claim import Outcome, Verdict
from glassformer.claims.claim_list import GROUPS, PROPERTIES
from glassformer.documents import parts as p
from glassformer.language import Language, words

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

_COLUMNS = ("id", "claim", "text", "verdict", "measured")
say = words(__name__)
VERDICTS = {verdict: say[f"is {verdict}"] for verdict in MARKS}


def claims_document(outcomes: Sequence[Outcome], language: Language) -> p.Document:
    """For every format: one table per group, then the properties that these claims demonstrate."""
    heads = tuple(say[heading].say(language) for heading in _COLUMNS)
    sections = [
        p.Section(group.title.say(language), (p.Table("", heads, rows),))
        for group in GROUPS
        if (rows := tuple(_row(o, language) for o in outcomes if o.claim.id in group.claims))
    ]
    return p.Document(
        say["title"].say(language),
        (
            p.Paragraph(
                p.with_code(say["introduction"].say(language) + say["texts"].say(language))
            ),
            p.Paragraph(counted(outcomes, language), "strong"),
            *sections,
            *_properties(outcomes, language),
        ),
        language,
        say["label"].say(language),
        lambda: {"claims": [outcome.to_dict(language) for outcome in outcomes]},
    )


def counted(outcomes: Sequence[Outcome], language: Language) -> str:
    """How many claims have each verdict, in one line."""
    counts = Counter(outcome.verdict for outcome in outcomes)
    parts = [
        say["count"].say(language, verdict=name, count=counts[verdict])
        for verdict, name in VERDICTS.items()
        if counts[verdict]
    ]
    return say["comma"].say(language).join(parts)


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
        basis = say["not in seconds"].say(language, basis=basis)
    return say["with basis"].say(language, verdict=said, basis=basis)


def _properties(outcomes: Sequence[Outcome], language: Language) -> list[p.Section]:
    """Which of these claims demonstrate which property of the texts."""
    known = {outcome.claim.id: outcome.claim for outcome in outcomes}
    between = say["semicolon"].say(language)
    rows = tuple(
        (
            id_,
            p.Span(f"glassformer claims {id_}", "code"),
            between.join(f"{one}: {known[one].says.say(language)}" for one in ids),
        )
        for id_, ids in PROPERTIES.items()
        if set(ids) <= set(known)
    )
    heads = tuple(say[name].say(language) for name in ("property", "command", "claim"))
    title = say["properties"].say(language)
    return [p.Section(title, (p.Table("", heads, rows),))] if rows else []
