"""All claims, in the order of their ids, and the ways to run them."""

from collections.abc import Iterable, Iterator

from glassformer.errors import UnknownNameError
from glassformer.lessons.claims import (
    basic,
    blocks,
    classifier,
    decoder,
    heads,
    positions,
    queries,
    scaling,
    tokens,
    whole,
)
from glassformer.lessons.claims.claim import Claim, Outcome
from glassformer.lessons.claims.group import Group

__all__ = ["GROUPS", "claims", "find", "outcomes"]

GROUPS: tuple[Group, ...] = tuple(
    module.group
    for module in (
        basic,
        queries,
        scaling,
        heads,
        blocks,
        positions,
        classifier,
        decoder,
        whole,
        tokens,
    )
)


def claims() -> dict[str, Claim]:
    """Every claim by its id."""
    return {id_: claim for group in GROUPS for id_, claim in group.claims.items()}


def find(ids: Iterable[str]) -> list[Claim]:
    """The claims of these ids, in any case; all of them where none is named."""
    known = claims()
    wanted = [id_.upper() for id_ in ids]
    for id_ in wanted:
        if id_ not in known:
            raise UnknownNameError("claim", id_, known)
    return [known[id_] for id_ in wanted] or list(known.values())


def outcomes(chosen: Iterable[Claim], *, slow: bool = False) -> Iterator[Outcome]:
    """Run each claim in turn; a slow one is recalled from its stored result unless `slow`."""
    for claim in chosen:
        yield claim.recall() if claim.slow and not slow else claim.run()
