"""All claims: finding and running them."""

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
    position_claims,
    query_claims,
    scaling_claims,
    token_claims,
)
from glassformer.claims.claim import Claim, Group, Outcome
from glassformer.errors import UnknownNameError

PROPERTIES: dict[str, tuple[str, ...]] = {
    "A06": ("C17",),
    "B01": ("C04", "C05"),
    "B02": ("C06", "C60"),
    "B03": ("C09",),
    "B04": ("C12", "C03"),
    "B05": ("C13",),
    "B06": ("C38", "C39"),
    "B07": ("C42",),
    "B08": ("C40", "C41"),
    "B09": ("C46",),
    "B10": ("C91", "C92", "C70"),
    "B11": ("C10",),
    "B12": ("C56",),
    "B13": ("C53",),
    "B14": ("C54",),
    "B15": ("C67",),
    "B16": ("C96",),
}
"""Properties that the texts describe, and the claims whose experiments demonstrate them."""

ROWS: dict[str, tuple[str, ...]] = PROPERTIES | {
    "A01": ("C11", "C01"),
    "A02": ("C07", "C08"),
    "A03": ("C08",),
    "A04": ("C02",),
    "A05": ("C27", "C28"),
    "A07": ("C32",),
    "A08": ("C30", "C31", "C32"),
    "A09": ("C25", "C37"),
    "A10": ("C25",),
    "A11": ("C20",),
    "A12": ("C23",),
    "A13": ("C26",),
    "A14": ("C78",),
    "A15": ("C78",),
    "A16": ("C40",),
    "A17": ("C41", "C47"),
    "A18": ("C72", "C73"),
    "A19": ("C44", "C45"),
    "A20": ("C45",),
    "A21": ("C29", "C43"),
    "A22": ("C24",),
    "A23": ("C49", "C50"),
    "A24": ("C79", "C80"),
    "R01": ("C14",),
    "R02": ("C15",),
    "R03": ("C15",),
    "D03": ("C95",),
    "D05": ("C96",),
    "D06": ("C86",),
    "D07": ("C61", "C62"),
    "D08": ("C66",),
    "D09": ("C62", "C63", "C64"),
    "D10": ("C65",),
    "E01": ("C51",),
    "E02": ("C55",),
    "E03": ("C52", "C57", "C58"),
    "E04": ("C53",),
    "E05": ("C56",),
    "E07": ("C88",),
    "E09": ("C88",),
    "E10": ("C88",),
    "E11": ("C90",),
    "E12": ("C89",),
    "E13": ("C59",),
    "E14": ("C98",),
    "F03": ("C68",),
    "F04": ("C69",),
    "F05": ("C70",),
    "F06": ("C71",),
    "G03": ("C76", "C77"),
    "G04": ("C85",),
    "G05": ("C75",),
    "G06": ("C83", "C84"),
    "G08": ("C94",),
    "G11": ("C74",),
}
"""All that the texts describe and claims bear on, by its id: the properties and more."""

GROUPS: tuple[Group, ...] = tuple(
    module.group
    for module in (
        basic_claims,
        query_claims,
        scaling_claims,
        head_claims,
        block_claims,
        position_claims,
        classifier_claims,
        decoder_claims,
        model_claims,
        token_claims,
    )
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
