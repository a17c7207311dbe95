"""The order of batches, and those of each optimiser step, prefetched while the model computes.

With gradient accumulation a step has several batches; each process gets its share of their
examples. The loader has no state: `steps(start, end)` starts at any step, even in the middle of an
epoch, and gives the batches that an uninterrupted run would have got.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, TypeVar

import numpy as np

from glassformer.data.batches import Batch, EpochRNG, Examples
from glassformer.data.token_store import Ids
from glassformer.errors import ConfigError, DataError

T = TypeVar("T")

# --- the order of batches ---
# Length buckets, cut into batches, shuffled from a seed. The order is a pure function of (seed,
# epoch): a run resumed in the middle of an epoch, or with a different number of processes, sees the
# same batches. The examples of a step are chosen first and then divided among processes and
# accumulation steps, so neither changes which examples a step sees.


class Shape(NamedTuple):
    """The largest batch of one bucket."""

    rows: int
    width: int
    """The longest example of the bucket."""


@dataclass(frozen=True)
class Order:
    """The batches of every epoch, as indices of examples."""

    lengths: Ids
    """Of each example, in the unit of max_tokens."""
    batch_size: int | None = None
    """Examples per batch; set this or max_tokens."""
    max_tokens: int | None = None
    """Tokens per batch, including padding to the longest example of the bucket."""
    bucket_width: int = 16
    """Examples whose lengths differ by less than this may share a batch."""
    widths: tuple[int, ...] = ()
    """The longest length of each bucket, if they are not all bucket_width apart."""
    seed: int = 0

    def __post_init__(self) -> None:
        if (self.batch_size is None) == (self.max_tokens is None):
            raise ConfigError("set either batch_size or max_tokens, not both")
        sizes = (self.batch_size, self.max_tokens, self.bucket_width)
        if any(size is not None and size < 1 for size in sizes):
            raise ConfigError("batch_size, max_tokens and bucket_width must be at least 1")
        if len(self.lengths) == 0:
            raise DataError("there are no examples to make batches of")
        if self.widths and (
            list(self.widths) != sorted(self.widths) or self.widths[-1] < self.lengths.max()
        ):
            raise ConfigError(
                "widths must be increasing and reach the longest example ({longest}), got {widths}",
                longest=self.lengths.max(),
                widths=self.widths,
            )

    @property
    def n_batches(self) -> int:
        """Batches per epoch: the same in every epoch, so that a schedule knows its end."""
        return sum(self._parts(bucket) for bucket in self._buckets())

    @property
    def n_shapes(self) -> int:
        """An upper bound on the different shapes of batches, once filled."""
        return len(set(self._shapes.values()))

    def shape_of(self, batch: Ids) -> Shape:
        """The shape that a batch is filled up to where a compiler wants few shapes."""
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
        """By bucket number."""
        return {
            int(self._numbers[bucket[0]]): Shape(
                rows=-(-len(bucket) // self._parts(bucket)),
                width=int(self.lengths[bucket].max()),
            )
            for bucket in self._buckets()
        }

    @cached_property
    def _numbers(self) -> Ids:
        """The bucket number of each example."""
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
        """The number of batches that a bucket is cut into."""
        if self.batch_size is not None:
            size = self.batch_size
        else:
            assert self.max_tokens is not None
            longest = max(1, int(self.lengths[bucket].max()))  # a text may be empty
            size = max(1, self.max_tokens // longest)
        return -(-len(bucket) // size)


def divide_batch(batch: Ids, parts: int) -> list[Ids]:
    """A batch in parts of nearly equal size; some are empty if it has fewer examples than parts."""
    return [batch[part::parts] for part in range(parts)]


# --- the batches of each step ---


@dataclass(frozen=True)
class StepBatches:
    """The batches of one optimiser step."""

    epoch: int
    batches: tuple[Batch, ...]


@dataclass(frozen=True)
class Loader:
    examples: Examples[Batch]
    order: Order
    accumulate: int = 1
    rank: int = 0
    n_processes: int = 1
    fixed_shapes: bool = False
    """Whether all batches of a bucket are filled up to the same shape."""

    def steps(self, start: int, end: int) -> Iterator[StepBatches]:
        """The batches of steps `start` to `end` − 1, prefetched."""
        return _prefetch(self._steps(start, end), room=4)

    def _steps(self, start: int, end: int) -> Iterator[StepBatches]:
        first_epoch, first_batch = divmod(start, self.order.n_batches)
        left = max(0, end - start)  # a resumed run may ask for fewer steps than it has taken
        for epoch in range(first_epoch, first_epoch + left // self.order.n_batches + 2):
            batches = self.order.epoch(epoch)[first_batch:][:left]
            for indices in batches:
                yield StepBatches(epoch, self._share(indices, EpochRNG(self.order.seed, epoch)))
            left -= len(batches)
            first_batch = 0

    def _share(self, indices: Ids, rng: EpochRNG) -> tuple[Batch, ...]:
        """This process's batches of the examples of one step."""
        n_parts = self.accumulate * self.n_processes
        mine = divide_batch(indices, n_parts)[self.rank :: self.n_processes]
        shape = self.order.shape_of(indices) if self.fixed_shapes else None
        batches = []
        for part in mine:
            # Every process must take part in every step, even without examples of its own.
            chosen = part if len(part) else indices[:1]
            batch = self.examples.batch(chosen, rng, shape.width if shape else 0)
            scored = batch if len(part) else batch.unscored()
            batches.append(scored.filled(-(-shape.rows // n_parts)) if shape else scored)
        return tuple(batches)


def evaluation_batches(
    examples: Examples[Batch], order: Order, rank: int = 0, n_processes: int = 1
) -> Iterator[tuple[Ids, Batch]]:
    """This process's share of all examples, each once, with its index; nothing is random."""
    rng = EpochRNG(seed=0, epoch=0)
    for indices in order.sequential()[rank::n_processes]:
        yield indices, examples.batch(indices, rng)


def _prefetch(source: Iterator[T], room: int) -> Iterator[T]:
    """The same items, up to `room` of them computed ahead in a thread."""
    thread = ThreadPoolExecutor(1, "batches")
    try:
        ahead = deque(thread.submit(next, source, None) for _ in range(room))
        while (item := ahead.popleft().result()) is not None:
            ahead.append(thread.submit(next, source, None))
            yield item
    finally:
        thread.shutdown(cancel_futures=True)
