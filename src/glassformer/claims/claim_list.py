"""All claims, in the order of their ids, and the ways to run them."""

from collections.abc import Iterable, Iterator

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
    """Every claim by its id."""
    return {id_: claim for group in GROUPS for id_, claim in group.claims.items()}


def find(ids: Iterable[str]) -> list[Claim]:
    """The claims of these ids, in any case; all of them where none is named.

    A property such as B09 stands for the claims that demonstrate it.
    """
    known = claims()
    wanted: list[str] = []
    for id_ in map(str.upper, ids):
        if id_ not in known and id_ not in PROPERTIES:
            raise UnknownNameError("claim", id_, [*known, *PROPERTIES])
        wanted += PROPERTIES.get(id_, (id_,))
    return [known[id_] for id_ in dict.fromkeys(wanted)] or list(known.values())


def outcomes(chosen: Iterable[Claim], *, slow: bool = False) -> Iterator[Outcome]:
    """Run each claim in turn; what takes long is recalled from its stored result unless `slow`."""
    for claim in chosen:
        yield claim.recall() if claim.slow and not slow else claim.run(slow=slow)
