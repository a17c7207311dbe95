"""In which order examples are seen: length buckets, cut into batches, shuffled from a seed.

The order is a pure function of (seed, epoch): a run that starts again in the middle of an epoch,
or with another number of processes, sees the same batches. An update's examples are chosen first
and shared out among processes and accumulation steps afterwards, so that neither changes which
examples an update is made of.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from glassformer.data.store import Ids
from glassformer.errors import ConfigError, DataError

__all__ = ["Order", "Shape", "share_out"]


class Shape(NamedTuple):
    """The most that a batch of one bucket holds."""

    rows: int
    width: int
    """The longest example of the bucket."""


@dataclass(frozen=True)
class Order:
    """The batches of every epoch, as indices of examples."""

    lengths: Ids
    """Of each example, in the unit of max_tokens."""
    batch_size: int | None = None
    """Examples a batch, or: """
    max_tokens: int | None = None
    """Tokens a batch, padding to the longest of the bucket included."""
    bucket_width: int = 16
    """Examples whose lengths differ by less than this may share a batch."""
    widths: tuple[int, ...] = ()
    """Longest length of each bucket, where they are not all bucket_width apart."""
    seed: int = 0

    def __post_init__(self) -> None:
        if (self.batch_size is None) == (self.max_tokens is None):
            raise ConfigError("set batch_size or max_tokens, and not both")
        sizes = (self.batch_size, self.max_tokens, self.bucket_width)
        if any(size is not None and size < 1 for size in sizes):
            raise ConfigError("batch_size, max_tokens and bucket_width must be at least 1")
        if len(self.lengths) == 0:
            raise DataError("there are no examples to make batches of")
        if self.widths and (
            list(self.widths) != sorted(self.widths) or self.widths[-1] < self.lengths.max()
        ):
            raise ConfigError(
                "widths must rise to the longest example ({longest}), got {widths}",
                longest=self.lengths.max(),
                widths=self.widths,
            )

    @property
    def n_batches(self) -> int:
        """Batches an epoch: the same in every epoch, so that schedules know their end."""
        return sum(self._parts(bucket) for bucket in self._buckets())

    @property
    def n_shapes(self) -> int:
        """Different shapes that batches have at most, once they are filled up."""
        return len(set(self._shapes.values()))

    def shape_of(self, batch: Ids) -> Shape:
        """What a batch of this order is filled up to, where a compiler wants few shapes."""
        return self._shapes[int(self._numbers[batch[0]])]

    def epoch(self, epoch: int) -> list[Ids]:
        """The batches of one epoch."""
        random = np.random.default_rng([self.seed, epoch])
        batches: list[Ids] = []
        for bucket in self._buckets():
            # Parts of equal size: a small last batch would weigh as much as a full one.
            batches += np.array_split(random.permutation(bucket), self._parts(bucket))
        return [batches[index] for index in random.permutation(len(batches))]

    def sequential(self) -> list[Ids]:
        """Every example once, sorted by length: for evaluation, where order does not matter."""
        batches: list[Ids] = []
        for bucket in self._buckets():
            batches += np.array_split(bucket, self._parts(bucket))
        return batches

    @cached_property
    def _shapes(self) -> dict[int, Shape]:
        """By the number of the bucket."""
        return {
            int(self._numbers[bucket[0]]): Shape(
                rows=-(-len(bucket) // self._parts(bucket)),
                width=int(self.lengths[bucket].max()),
            )
            for bucket in self._buckets()
        }

    @cached_property
    def _numbers(self) -> Ids:
        """Of the bucket that each example is in."""
        if self.widths:
            return np.searchsorted(np.array(self.widths), self.lengths).astype(np.int64)
        return (self.lengths - 1) // self.bucket_width

    def _buckets(self) -> list[Ids]:
        """Indices of examples of similar length, shortest first."""
        numbers = self._numbers
        by_number = np.argsort(numbers, kind="stable")
        edges = np.flatnonzero(np.diff(numbers[by_number])) + 1
        return np.split(by_number, edges)

    def _parts(self, bucket: Ids) -> int:
        """How many batches a bucket is cut into."""
        if self.batch_size is not None:
            size = self.batch_size
        else:
            assert self.max_tokens is not None
            longest = max(1, int(self.lengths[bucket].max()))  # a text may be empty
            size = max(1, self.max_tokens // longest)
        return -(-len(bucket) // size)


def share_out(batch: Ids, parts: int) -> list[Ids]:
    """A batch in several parts of nearly equal size; some are empty where it is too small."""
    return [batch[part::parts] for part in range(parts)]
