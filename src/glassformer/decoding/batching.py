"""Which texts are decoded together, and when texts that are done leave.

Texts of similar length share a batch, so that little is spent on padding; callers get their
results in the order they asked. This file knows lengths alone.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby

from glassformer.errors import expect_whole

__all__ = ["by_length", "check_batch_size", "worth_leaving"]


def check_batch_size(batch_size: int) -> int:
    """How many texts go through a model together: a whole number, and not beyond all sense."""
    return expect_whole(batch_size, "batch_size", most=2**20)


def by_length(
    lengths: Sequence[int], batch_size: int, *, equal: bool = False
) -> Iterator[list[int]]:
    """Indices of texts, longest first, in batches of batch_size; `equal`: of one length each."""
    check_batch_size(batch_size)
    order = sorted(range(len(lengths)), key=lambda i: -lengths[i])
    groups = groupby(order, key=lambda i: lengths[i] if equal else 0)
    for group in (list(members) for _, members in groups):
        for start in range(0, len(group), batch_size):
            yield group[start : start + batch_size]


def worth_leaving(n_texts: int, n_left: int) -> bool:
    """Whether enough texts are done for the rest to move together: an eighth of them.

    Moving copies the caches of those that stay, so it must not happen at every step.
    """
    n_done = n_texts - n_left
    return n_done > 0 and 8 * n_done >= n_texts
