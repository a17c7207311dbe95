"""Which texts are decoded together, and when texts that are done leave.

Texts of similar length share a batch, so that little is spent on padding; callers get their
results in the order they asked. This file knows lengths alone.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby

from glassformer.errors import ConfigError

__all__ = ["by_length", "worth_leaving"]


def by_length(
    lengths: Sequence[int], batch_size: int, *, equal: bool = False
) -> Iterator[list[int]]:
    """Indices of texts, longest first, in batches of batch_size; `equal`: of one length each."""
    if batch_size < 1:
        raise ConfigError(f"batch_size must be at least 1, got {batch_size}")
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
