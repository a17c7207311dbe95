"""Batches: what a model is given, what it should answer, and how many answers are scored.

Each kind of batch is a type of its own. All have `inputs` (the model's arguments), `labels`
(IGNORED where nothing is scored) and `n_scored`, by which losses are averaged, so that batches
of different lengths weigh by their tokens.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from glassformer.data.token_store import Ids
from glassformer.errors import ConfigError, DataError

IGNORED = -100
"""A label that is not scored: padding, or a word that was not hidden."""


@dataclass(frozen=True)
class Batch(ABC):
    """What all kinds have in common."""

    labels: Tensor
    n_scored: int
    """Labels that count in the loss."""
    n_tokens: int
    """Tokens that the model reads, padding left out: the unit of speed."""

    @property
    @abstractmethod
    def inputs(self) -> tuple[Tensor | None, ...]:
        """The model's arguments."""

    def to(self, device: torch.device) -> Self:
        """The same batch on another device; the copy runs beside the computation."""
        if device.type == "cpu":
            return self
        moved: dict[str, Any] = {
            name: _moved(value, device)
            for name, value in vars(self).items()
            if isinstance(value, Tensor)
        }
        return replace(self, **moved)

    def copied(self) -> Self:
        """The same batch in memory of its own."""
        tensors: dict[str, Any] = {
            name: value.clone() for name, value in vars(self).items() if isinstance(value, Tensor)
        }
        return replace(self, **tensors)

    def unscored(self) -> Self:
        """The same inputs with nothing to answer: it adds nothing to a loss or its gradient."""
        return replace(self, labels=torch.full_like(self.labels, IGNORED), n_scored=0, n_tokens=0)

    def filled(self, rows: int) -> Self:
        """The same batch with `rows` rows: the first one again, without anything to answer.

        A row of padding alone would do as well, but some attention kernels have no answer to it.
        """
        missing = rows - len(self.labels)
        assert missing >= 0, "a batch is larger than its bucket allows"
        if not missing:
            return self
        longer: dict[str, Any] = {
            name: torch.cat([value, value[:1].expand(missing, *value.shape[1:])])
            for name, value in vars(self).items()
            if isinstance(value, Tensor)
        }
        longer["labels"][-missing:] = IGNORED
        return replace(self, **longer)


@dataclass(frozen=True)
class ClassificationBatch(Batch):
    """Texts and their classes; `labels` has one number a text."""

    ids: Tensor

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """Ids (B, T)."""
        return (self.ids,)


@dataclass(frozen=True)
class PairBatch(Batch):
    """Sources and targets: `target` starts with the start token, `labels` is one step ahead."""

    source: Tensor
    target: Tensor

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """Source (B, S), and target (B, T) without its last token."""
        return (self.source, self.target)


@dataclass(frozen=True)
class WindowBatch(Batch):
    """Stretches of running text; `labels` is the same text, one token ahead."""

    ids: Tensor

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """Ids (B, T)."""
        return (self.ids,)


@dataclass(frozen=True)
class MaskedBatch(Batch):
    """Texts with hidden words; `labels` has one entry for each position of `at`."""

    ids: Tensor
    at: Tensor
    """Where words were hidden, counted through the whole batch (b·T + t)."""

    @property
    def inputs(self) -> tuple[Tensor | None, ...]:
        """Ids (B, T), some of them hidden; no mask and no types of our own; `at`."""
        return (self.ids, None, None, self.at)

    def filled(self, rows: int) -> Self:
        """As many rows, and positions up to a multiple of a 32nd of all: few different counts."""
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
    """Images and their classes."""

    images: Tensor

    @property
    def inputs(self) -> tuple[Tensor | None, ...]:
        """Images (B, C, Y, X)."""
        return (self.images,)


@dataclass(frozen=True)
class RatingBatch(Batch):
    """People and films; `labels` has the stars given."""

    people: Tensor
    films: Tensor

    @property
    def inputs(self) -> tuple[Tensor | None, ...]:
        """Numbers of people and of films, (B,) each."""
        return (self.people, self.films)


def _moved(tensor: Tensor, device: torch.device) -> Tensor:
    # From pinned memory, a copy to a GPU runs beside the computation.
    return (
        tensor.pin_memory().to(device, non_blocking=True)
        if device.type == "cuda"
        else tensor.to(device)
    )


# --- order ---
# In which order examples are seen: length buckets, cut into batches, shuffled from a seed.
#
# The order is a pure function of (seed, epoch): a run that starts again in the middle of an epoch,
# or with another number of processes, sees the same batches. An update's examples are chosen first
# and shared out among processes and accumulation steps afterwards, so that neither changes which
# examples an update is made of.


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


# --- chance ---
# Random numbers that belong to an example and a position, not to the order they are asked in.
#
# A generator with a state would give other numbers when a batch is cut in two. Here a number is a
# hash of (seed, epoch, example, position, stream): the same in one batch of eight, in four of two,
# in two processes, and after a restart.


_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True)
class Chance:
    """The random numbers of one epoch."""

    seed: int
    epoch: int

    def uniform(self, examples: Ids, width: int, stream: int) -> NDArray[np.float64]:
        """Numbers in [0, 1), one row an example; another stream gives others."""
        state = np.zeros(1, dtype=np.uint64)
        for part in (self.seed, self.epoch, stream):
            state = _mix(state + _GOLDEN + np.uint64(part))
        rows = _mix(state + examples.astype(np.uint64) * _GOLDEN)
        bits = _mix(rows[:, None] + np.arange(1, width + 1, dtype=np.uint64) * _GOLDEN)
        return (bits >> np.uint64(11)).astype(np.float64) / 2.0**53

    def below(self, limit: int) -> int:
        """One number for the whole epoch, from 0 to limit − 1."""
        return int(np.random.default_rng([self.seed, self.epoch, 1]).integers(limit))


def _mix(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The finaliser of SplitMix64 (Steele et al. 2014): every bit depends on every bit."""
    first = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    second = (first ^ (first >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: NDArray[np.uint64] = second ^ (second >> np.uint64(31))
    return mixed
