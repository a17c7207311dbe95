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
from glassformer.language import Language, Sentences, words

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
_SAID = words(__name__)
VERDICTS = {verdict: _SAID[f"is {verdict}"] for verdict in MARKS}
TEXTS = {id_: _SAID[f"called {id_}"] for id_ in ("000", "001", "002", "003", "004")}


def claims_document(outcomes: Sequence[Outcome], language: Language) -> p.Document:
    """One table per group of claims, then the properties that these claims demonstrate."""
    say = Sentences(language, _SAID)
    heads = tuple(map(say, _COLUMNS))
    sections = [
        p.Section(group.title.say(language), (p.Table("", heads, rows),))
        for group in GROUPS
        if (rows := tuple(_row(o, language) for o in outcomes if o.claim.id in group.claims))
    ]
    return _document(outcomes, sections, say)


def claims_page(outcomes: Sequence[Outcome], language: Language) -> p.Document:
    """Each claim with its measurement, chart and code."""
    say = Sentences(language, _SAID)
    shown = [(group, [o for o in outcomes if o.claim.id in group.claims]) for group in GROUPS]
    sections = [
        p.Section(
            group.title.say(language),
            tuple(_claim(outcome, say) for outcome in found),
            number,
        )
        for number, (group, found) in enumerate([one for one in shown if one[1]], start=1)
    ]
    return _document(outcomes, sections, say)


def _document(
    outcomes: Sequence[Outcome], sections: Sequence[p.Section], say: Sentences
) -> p.Document:
    """How the claims were decided, the count of each verdict, the sections, the properties."""
    listed = (f"{id_} {name.say(say.language)}" for id_, name in TEXTS.items())
    introduction = say["introduction"] + say("texts", listed=say["between texts"].join(listed))
    return p.Document(
        say("title"),
        (
            p.Paragraph(p.with_code(introduction)),
            p.Paragraph(_counted(outcomes, say), "strong"),
            *sections,
            *_properties(outcomes, say),
        ),
        say.language,
        say("label"),
        lambda: {"claims": [outcome.to_dict(say.language) for outcome in outcomes]},
    )


def _counted(outcomes: Sequence[Outcome], say: Sentences) -> str:
    """`holds: 60, holds in part: 18, …`."""
    counts = Counter(outcome.verdict for outcome in outcomes)
    parts = (
        say("count", verdict=say[f"is {verdict}"], count=counts[verdict])
        for verdict in MARKS
        if counts[verdict]
    )
    return say["comma"].join(parts)


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
    say = Sentences(language, _SAID)
    said = f"{MARKS[outcome.verdict]} {say[f'is {outcome.verdict}']}"
    if outcome.claim.seconds is None:
        return said
    basis = outcome.claim.seconds.basis.say(language)
    if outcome.taken_back:
        basis = say("not in seconds", basis=basis)
    return say("with basis", verdict=said, basis=basis)


def _properties(outcomes: Sequence[Outcome], say: Sentences) -> list[p.Section]:
    """Which claims demonstrate which property of the texts."""
    known = {outcome.claim.id: outcome.claim.says.say(say.language) for outcome in outcomes}
    between = say["semicolon"]
    rows = tuple(
        (
            id_,
            p.Span(f"glassformer claims {id_}", "code"),
            p.with_code(between.join(f"{one}: {known[one]}" for one in ids)),
        )
        for id_, ids in PROPERTIES.items()
        if set(ids) <= set(known)
    )
    heads = tuple(map(say, ("property", "command", "claim")))
    return [p.Section(say("properties"), (p.Table("", heads, rows),))] if rows else []


def _claim(outcome: Outcome, say: Sentences) -> p.Section:
    claim, drawing = outcome.claim, claim_figure(outcome, say.language)
    verdict = p.Span(verdict_text(outcome, say.language), _LOOKS[outcome.verdict])
    shows = [id_ for id_, ids in PROPERTIES.items() if claim.id in ids]
    origin = say("said in", texts=", ".join((*claim.texts, *shows)))
    parts: list[p.Part] = [
        p.Paragraph((verdict, "  ", p.Span(origin, "quiet"))),
        p.Paragraph(p.with_code(outcome.sentence(say.language))),
    ]
    if drawing is not None:
        parts.append(p.Figure(claim.id, drawing))
    again = p.Span(outcome.command, "code")
    inside = (p.Paragraph((say["run again"], again)), p.Code(source_of(claim)))
    parts.append(p.Section(say("experiment"), inside, folded=True))
    title = f"{claim.id}  {claim.says.say(say.language)}".replace("`", "")
    return p.Section(title, tuple(parts))


def source_of(claim: Claim) -> str:
    """The function that measures, with the rule that judges its figures."""
    return dedent(inspect.getsource(claim.measure)).strip()
