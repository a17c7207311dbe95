"""The claims of the texts, run: each an experiment whose figures decide the verdict.

    from glassformer.claims import find, outcomes
    for outcome in outcomes(find(["C31"])):
        print(outcome.verdict, outcome.sentence("en"))

Read `claim` (what a claim is), `basic_claims` (the first group of experiments; its words are in
`basic_claims.toml`) and `claim_report`. The experiments are built from `specimens`, `properties`,
`costs` and the studies.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType

from glassformer.claims import (
    basic_claims,
    block_claims,
    classifier_claims,
    decoder_claims,
    head_claims,
    model_claims,
    query_claims,
)
from glassformer.claims.claim import Claim, Figures, Group, Outcome, Stored, Verdict, VerdictRule
from glassformer.errors import UnknownNameError
from glassformer.language import words

__all__ = [
    "GROUPS",
    "Claim",
    "Figures",
    "Outcome",
    "Stored",
    "Verdict",
    "VerdictRule",
    "claims",
    "find",
    "outcomes",
]

_DATA = words("glassformer.claims.claim_report").data
PROPERTIES: dict[str, tuple[str, ...]] = {
    id_: tuple(ids) for id_, ids in _DATA["demonstrated"].items()
}
"""Properties that the texts describe, and the claims whose experiments demonstrate them."""
ROWS: dict[str, tuple[str, ...]] = PROPERTIES | {
    id_: tuple(ids) for id_, ids in _DATA["rows"].items()
}
"""All that the texts describe and claims bear on, by its id: the properties and more."""

GROUPS: tuple[Group, ...] = (
    basic_claims.group,
    query_claims.query_group,
    query_claims.scaling_group,
    head_claims.group,
    block_claims.block_group,
    block_claims.position_group,
    classifier_claims.group,
    decoder_claims.group,
    model_claims.model_group,
    model_claims.token_group,
)


def claims() -> dict[str, Claim]:
    return {id_: claim for group in GROUPS for id_, claim in group.claims.items()}


def find(ids: Iterable[str]) -> list[Claim]:
    """The claims with these ids, upper or lower case; all claims if no id is given.

    A row such as B09 stands for the claims that demonstrate it.
    """
    known = claims()
    wanted: list[str] = []
    for id_ in map(str.upper, ids):
        if id_ not in known and id_ not in ROWS:
            raise UnknownNameError("claim", id_, [*known, *ROWS])
        wanted += ROWS.get(id_, (id_,))
    return [known[id_] for id_ in dict.fromkeys(wanted)] or list(known.values())


def claims_about(rows: Iterable[str]) -> list[Claim]:
    """The claims that bear on some rows, each once; none for a row without claims."""
    known = claims()
    return [known[id_] for id_ in dict.fromkeys(one for row in rows for one in ROWS.get(row, ()))]


def outcomes(
    chosen: Iterable[Claim],
    *,
    slow: bool = False,
    settings: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[Outcome]:
    """Run each claim in turn; slow ones are recalled from their stored results unless `slow`."""
    for claim in chosen:
        if claim.slow and not slow and not settings:
            yield claim.recall()
        else:
            yield claim.run(slow=slow, settings=settings)
