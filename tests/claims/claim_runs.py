"""The outcomes of the claims, each run once per test run."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from jaxtyping import config

from glassformer.claims import Outcome, claims

QUICK = [claim.id for claim in claims().values() if not claim.slow]


@contextmanager
def as_users_run_it() -> Iterator[None]:
    """Without shape checks, which users do not have and some claims would trip."""
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
