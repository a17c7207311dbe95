"""Each claim run once with the library as it is, for all tests that ask."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from jaxtyping import config

from glassformer.claims import Outcome, claims

QUICK = [claim.id for claim in claims().values() if not claim.slow]


@contextmanager
def as_users_run_it() -> Iterator[None]:
    """Without shape checks: users have none, and some claims ask what the library refuses."""
    before = config.jaxtyping_disable
    config.update("jaxtyping_disable", True)
    try:
        yield
    finally:
        config.update("jaxtyping_disable", before)


@cache
def outcome_of(id_: str) -> Outcome:
    with as_users_run_it():
        return claims()[id_].run()
