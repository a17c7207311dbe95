"""Batches: what a model reads, what it should predict, and the order in which batches come.

Each kind of batch is a type of its own. All have `inputs` (the model's arguments), `labels`
(IGNORED where nothing is scored) and `n_scored`, the divisor of the loss: batches of different
lengths are weighted by their tokens.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from glassformer.data.token_store import Ids
from glassformer.errors import ConfigError, DataError

IGNORED = -100
"""A label that is not scored: padding, or a word that was not masked."""


@dataclass(frozen=True)
class Batch:
    labels: Tensor
    n_scored: int
    """Labels that count in the loss."""
    n_tokens: int
    """Tokens that the model reads, without padding: the unit of speed."""

    @property
    def inputs(self) -> tuple[Tensor | None, ...]:
        """The model's arguments: what a kind of batch has beside these fields, in order."""
        return tuple(getattr(self, field.name) for field in fields(self)[3:])

    def _mapped(self, change: Callable[[Tensor], Tensor]) -> Self:
        tensors: dict[str, Any] = {
            name: change(value) for name, value in vars(self).items() if isinstance(value, Tensor)
        }
        return replace(self, **tensors)

    def to(self, device: torch.device) -> Self:
        """The same batch on another device; the copy overlaps with computation."""
        if device.type == "cpu":
            return self
        if device.type != "cuda":
            return self._mapped(lambda tensor: tensor.to(device))
        # From pinned memory, the copy to a GPU is asynchronous.
        return self._mapped(lambda tensor: tensor.pin_memory().to(device, non_blocking=True))

    def copied(self) -> Self:
        """The same batch in memory of its own."""
        return self._mapped(torch.clone)

    def unscored(self) -> Self:
        """The same inputs with all labels ignored: no contribution to the loss or its gradient."""
        return replace(self, labels=torch.full_like(self.labels, IGNORED), n_scored=0, n_tokens=0)

    def filled(self, rows: int) -> Self:
        """The same batch with `rows` rows: copies of the first row, not scored, are added.

        Not rows of padding alone, on which some attention kernels return NaN.
        """
        missing = rows - len(self.labels)
        assert missing >= 0, "a batch is larger than its bucket allows"
        if not missing:
            return self
        longer = self._mapped(lambda t: torch.cat([t, t[:1].expand(missing, *t.shape[1:])]))
        longer.labels[-missing:] = IGNORED
        return longer


@dataclass(frozen=True)
class ClassificationBatch(Batch):
    """Texts and their classes; `labels` has one entry per text."""

    ids: Tensor
    """(B, T)"""


@dataclass(frozen=True)
class PairBatch(Batch):
    """Sources and targets; `labels` is the target, one position ahead."""

    source: Tensor
    """(B, S)"""
    target: Tensor
    """(B, T), from the start token to the last token but one."""


@dataclass(frozen=True)
class WindowBatch(Batch):
    """Windows of running text; `labels` is the same text, one position ahead."""

    ids: Tensor
    """(B, T)"""


@dataclass(frozen=True)
class MaskedBatch(Batch):
    """Texts with masked words; `labels` has one entry per position in `at`."""

    ids: Tensor
    """(B, T)"""
    at: Tensor
    """The masked positions, counted through the whole batch (b·T + t)."""

    @property
    def inputs(self) -> tuple[Tensor | None, ...]:
        """Ids, no explicit mask, no segment types, `at`."""
        return (self.ids, None, None, self.at)

    def filled(self, rows: int) -> Self:
        """Also rounds the number of masked positions up to a 32nd of all: few different counts."""
        missing = rows - len(self.ids)
        assert missing >= 0, "a batch is larger than its bucket allows"
        more_ids = self.ids[:1].expand(missing, -1)
        step = -(-rows * self.ids.size(1) // 32)
        n_more = -len(self.at) % step
        return replace(
            self,
            ids=torch.cat([self.ids, more_ids]),
            at=torch.cat([self.at, self.at.new_zeros(n_more)]),
            labels=torch.cat([self.labels, self.labels.new_full((n_more,), IGNORED)]),
        )


@dataclass(frozen=True)
class ImageBatch(Batch):
    images: Tensor
    """(B, C, Y, X)"""


@dataclass(frozen=True)
class RatingBatch(Batch):
    """People and films; `labels` holds the stars given."""

    people: Tensor
    """(B,) indices"""
    films: Tensor
    """(B,) indices"""


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


# --- random numbers ---

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True)
class EpochRNG:
    """A stateless random number generator for one epoch.

    A number is a hash of (seed, epoch, example, position, stream). It is the same in one batch of
    eight as in four of two, with any number of processes, and after a restart; a generator with
    state would give different numbers when a batch is split.
    """

    seed: int
    epoch: int

    def uniform(self, examples: Ids, width: int, stream: int) -> NDArray[np.float64]:
        """Numbers in [0, 1), one row per example; streams are independent."""
        state = np.zeros(1, dtype=np.uint64)
        for part in (self.seed, self.epoch, stream):
            state = _mix(state + _GOLDEN + np.uint64(part))
        rows = _mix(state + examples.astype(np.uint64) * _GOLDEN)
        bits = _mix(rows[:, None] + np.arange(1, width + 1, dtype=np.uint64) * _GOLDEN)
        return (bits >> np.uint64(11)).astype(np.float64) / 2.0**53

    def integer(self, limit: int) -> int:
        """One number for the whole epoch, from 0 to limit − 1."""
        return int(np.random.default_rng([self.seed, self.epoch, 1]).integers(limit))


def _mix(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The finaliser of SplitMix64 (Steele et al. 2014): every bit depends on every bit."""
    first = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    second = (first ^ (first >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: NDArray[np.uint64] = second ^ (second >> np.uint64(31))
    return mixed
