"""The outcomes of claims as a document: a table, or a page with each chart and experiment."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Sequence
from textwrap import dedent

from glassformer.claims import GROUPS, PROPERTIES
from glassformer.claims.claim import Claim, Outcome, Verdict
from glassformer.claims.claim_figures import claim_figure
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
TEXTS = {id_: say[f"called {id_}"] for id_ in ("000", "001", "002", "003", "004")}


def claims_document(outcomes: Sequence[Outcome], language: Language) -> p.Document:
    """One table per group of claims, then the properties that these claims demonstrate."""
    heads = tuple(say[heading].say(language) for heading in _COLUMNS)
    sections = [
        p.Section(group.title.say(language), (p.Table("", heads, rows),))
        for group in GROUPS
        if (rows := tuple(_row(o, language) for o in outcomes if o.claim.id in group.claims))
    ]
    return _document(outcomes, sections, language)


def claims_page(outcomes: Sequence[Outcome], language: Language) -> p.Document:
    """Each claim with its measurement, chart and code."""
    shown = [(group, [o for o in outcomes if o.claim.id in group.claims]) for group in GROUPS]
    sections = [
        p.Section(
            group.title.say(language),
            tuple(_claim(outcome, language) for outcome in found),
            number,
        )
        for number, (group, found) in enumerate([one for one in shown if one[1]], start=1)
    ]
    return _document(outcomes, sections, language)


def _document(
    outcomes: Sequence[Outcome], sections: Sequence[p.Section], language: Language
) -> p.Document:
    """How the claims were decided, the count of each verdict, the sections, the properties."""
    listed = [f"{id_} {name.say(language)}" for id_, name in TEXTS.items()]
    texts = say["texts"].say(language, listed=say["between texts"].say(language).join(listed))
    introduction = say["introduction"].say(language) + texts
    return p.Document(
        say["title"].say(language),
        (
            p.Paragraph(p.with_code(introduction)),
            p.Paragraph(_counted(outcomes, language), "strong"),
            *sections,
            *_properties(outcomes, language),
        ),
        language,
        say["label"].say(language),
        lambda: {"claims": [outcome.to_dict(language) for outcome in outcomes]},
    )


def _counted(outcomes: Sequence[Outcome], language: Language) -> str:
    """`holds: 60, holds in part: 18, …`."""
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
        p.with_code(outcome.claim.says.say(language)),
        " ".join(outcome.claim.texts),
        p.Span(verdict_text(outcome, language), _LOOKS[outcome.verdict]),
        p.with_code(outcome.sentence(language)),
    )


def verdict_text(outcome: Outcome, language: Language) -> str:
    """The verdict, and whether it is based on counts, if the claim is also timed."""
    said = f"{MARKS[outcome.verdict]} {VERDICTS[outcome.verdict].say(language)}"
    if outcome.claim.seconds is None:
        return said
    basis = outcome.claim.seconds.basis.say(language)
    if outcome.taken_back:
        basis = say["not in seconds"].say(language, basis=basis)
    return say["with basis"].say(language, verdict=said, basis=basis)


def _properties(outcomes: Sequence[Outcome], language: Language) -> list[p.Section]:
    """Which claims demonstrate which property of the texts."""
    known = {outcome.claim.id: outcome.claim for outcome in outcomes}
    between = say["semicolon"].say(language)
    rows = tuple(
        (
            id_,
            p.Span(f"glassformer claims {id_}", "code"),
            p.with_code(between.join(f"{one}: {known[one].says.say(language)}" for one in ids)),
        )
        for id_, ids in PROPERTIES.items()
        if set(ids) <= set(known)
    )
    heads = tuple(say[name].say(language) for name in ("property", "command", "claim"))
    title = say["properties"].say(language)
    return [p.Section(title, (p.Table("", heads, rows),))] if rows else []


def _claim(outcome: Outcome, language: Language) -> p.Section:
    claim, drawing = outcome.claim, claim_figure(outcome, language)
    verdict = p.Span(verdict_text(outcome, language), _LOOKS[outcome.verdict])
    shows = [id_ for id_, ids in PROPERTIES.items() if claim.id in ids]
    origin = say["said in"].say(language, texts=", ".join((*claim.texts, *shows)))
    parts: list[p.Part] = [
        p.Paragraph((verdict, "  ", p.Span(origin, "quiet"))),
        p.Paragraph(p.with_code(outcome.sentence(language))),
    ]
    if drawing is not None:
        parts.append(p.Figure(claim.id, drawing))
    again = p.Span(outcome.command, "code")
    inside = (p.Paragraph((say["run again"].say(language), again)), p.Code(source_of(claim)))
    parts.append(p.Section(say["experiment"].say(language), inside, folded=True))
    title = f"{claim.id}  {claim.says.say(language)}".replace("`", "")
    return p.Section(title, tuple(parts))


def source_of(claim: Claim) -> str:
    """The function that measures, with the rule that judges its figures."""
    return dedent(inspect.getsource(claim.measure)).strip()
