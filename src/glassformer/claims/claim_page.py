"""The claims as a page: each with verdict, measurement, chart and the experiment's own code."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from textwrap import dedent

from glassformer.claims.claim import Claim, Outcome
from glassformer.claims.claim_list import (
    GROUPS,
    LOOKS,
    PROPERTIES,
    counted,
    introduction,
    properties_sections,
    say,
    verdict_text,
)
from glassformer.documents import parts as p
from glassformer.language import Language


def claims_page(
    outcomes: Sequence[Outcome], language: Language, drawings: Mapping[str, p.Drawing]
) -> p.Document:
    """One section per group; `drawings` are the charts by claim."""
    shown = [(group, [o for o in outcomes if o.claim.id in group.claims]) for group in GROUPS]
    sections = [
        p.Section(
            group.title.say(language),
            tuple(_claim(outcome, language, drawings.get(outcome.claim.id)) for outcome in found),
            number,
        )
        for number, (group, found) in enumerate([one for one in shown if one[1]], start=1)
    ]
    return p.Document(
        say["title"].say(language),
        (
            *introduction(language),
            p.Paragraph(counted(outcomes, language), "strong"),
            *sections,
            *properties_sections(outcomes, language),
        ),
        language,
        say["label"].say(language),
        lambda: {"claims": [outcome.to_dict(language) for outcome in outcomes]},
    )


def _claim(outcome: Outcome, language: Language, drawing: p.Drawing | None) -> p.Section:
    claim = outcome.claim
    verdict = p.Span(verdict_text(outcome, language), LOOKS[outcome.verdict])
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
