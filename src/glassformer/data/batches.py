"""Batches: what a model reads and what it should predict; and the examples they are made of.

Each kind of batch is a type of its own. All have `inputs` (the model's arguments), `labels`
(IGNORED where nothing is scored) and `n_scored`, the divisor of the loss: batches of different
lengths are weighted by their tokens.

`Examples.batch(indices, rng)` is pure: everything random (masked words, word dropout, shifted
windows) comes from `rng`, which depends on the epoch and the example, so a run can start anywhere
and be split in any way. Padding is added here and nowhere else, on the right.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any, Generic, Self, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from glassformer.data.readers import Ratings, ScannedDigits
from glassformer.data.token_store import Ids, TokenStore

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
        """The model's arguments: the fields that a subclass adds, in order."""
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


# --- examples ---
# Mostly in memory-mapped token stores.

B = TypeVar("B", bound=Batch, covariant=True)


class Examples(ABC, Generic[B]):
    @property
    @abstractmethod
    def lengths(self) -> Ids:
        """The length by which each example is sorted into buckets and counted."""

    @abstractmethod
    def batch(self, indices: Ids, rng: EpochRNG, width: int = 0) -> B:
        """Some examples as tensors, padded to `width` or to the longest, whichever is larger."""

    def __len__(self) -> int:
        return len(self.lengths)


class _Padded:
    """Pads the sequences of a batch to rows of equal width."""

    pad_id: int
    pad_multiple: int
    max_len: int | None

    def _padded(self, store: TokenStore, indices: Ids, at_least: int, *, ahead: int = 0) -> Ids:
        """Rows of ids; the caller cuts off `ahead` columns, which do not count for rounding."""
        longest = max(int(store.lengths[indices].max()) - ahead, at_least)
        width = -(-longest // self.pad_multiple) * self.pad_multiple
        if self.max_len is not None:
            width = max(longest, min(width, self.max_len))
        return store.padded(indices, pad_id=self.pad_id, width=width + ahead)


@dataclass(frozen=True)
class LabelledTexts(_Padded, Examples[ClassificationBatch]):
    """Texts with one class each."""

    store: TokenStore
    labels: Ids
    pad_id: int
    pad_multiple: int = 1
    """Lengths are rounded up to a multiple of this: a compiler wants few different shapes."""
    max_len: int | None = None
    """Longest input of the model; rounding never exceeds it."""
    word_dropout: float = 0.0
    """Share of words replaced by `unknown_id`, so that the model relies on no single word."""
    unknown_id: int | None = None

    @property
    def lengths(self) -> Ids:
        return self.store.lengths

    def batch(self, indices: Ids, rng: EpochRNG, width: int = 0) -> ClassificationBatch:
        ids = self._padded(self.store, indices, width)
        is_token = ids != self.pad_id
        if self.word_dropout:
            assert self.unknown_id is not None
            dropped = (rng.uniform(indices, ids.shape[1], 0) < self.word_dropout) & is_token
            ids = np.where(dropped, self.unknown_id, ids)
        return ClassificationBatch(
            labels=torch.from_numpy(self.labels[indices]),
            n_scored=len(indices),
            n_tokens=int(is_token.sum()),
            ids=torch.from_numpy(ids),
        )


@dataclass(frozen=True)
class SentencePairs(_Padded, Examples[PairBatch]):
    """Source and target sentences; the target store includes start and end tokens."""

    source: TokenStore
    target: TokenStore
    pad_id: int
    pad_multiple: int = 1
    max_len: int | None = None

    @property
    def lengths(self) -> Ids:
        """The longer side of each pair."""
        return np.maximum(self.source.lengths, self.target.lengths - 1)

    def batch(self, indices: Ids, rng: EpochRNG, width: int = 0) -> PairBatch:  # noqa: ARG002  nothing is random
        """Each side is padded separately; the target is split into input and labels."""
        source = self._padded(self.source, indices, width)
        target = self._padded(self.target, indices, width, ahead=1)
        labels = target[:, 1:]
        is_scored = labels != self.pad_id
        n_scored = int(is_scored.sum())
        return PairBatch(
            labels=torch.from_numpy(np.where(is_scored, labels, IGNORED)),
            n_scored=n_scored,
            n_tokens=n_scored + int((source != self.pad_id).sum()),
            source=torch.from_numpy(source),
            target=torch.from_numpy(np.ascontiguousarray(target[:, :-1])),
        )


class Windows(Examples[WindowBatch]):
    """Running text in windows of equal length; each token is predicted once per epoch.

    In training (`moving`) the window boundaries shift every epoch, so that no token is always
    first.
    """

    def __init__(self, store: TokenStore, length: int, *, moving: bool) -> None:
        assert len(store) == 1, "running text is one sequence"
        self.store = store
        self.length = length
        n_tokens = len(store.ids)
        self._slack = length if moving and n_tokens > 2 * length else 0
        n_predicted = n_tokens - 1 - self._slack
        n_full = n_predicted // length
        rest = n_predicted % length
        # Tokens that do not fill a window are scored in a shorter one, unless windows move.
        keeps_rest = rest > 0 and (self._slack == 0)
        self._lengths = np.array([length] * n_full + [rest] * keeps_rest, dtype=np.int64)

    @property
    def lengths(self) -> Ids:
        """All equal except possibly the last."""
        return self._lengths

    def batch(self, indices: Ids, rng: EpochRNG, width: int = 0) -> WindowBatch:
        lengths = self._lengths[indices]
        width = max(width, int(lengths.max()))
        starts = indices * self.length + rng.integer(self._slack + 1)
        positions = starts[:, None] + np.arange(width + 1)
        window = self.store.ids[np.minimum(positions, len(self.store.ids) - 1)].astype(np.int64)
        # Past the end of a shorter last window, the last token is repeated and not scored.
        is_scored = np.arange(width) < lengths[:, None]
        n_scored = int(lengths.sum())
        return WindowBatch(
            labels=torch.from_numpy(np.where(is_scored, window[:, 1:], IGNORED)),
            n_scored=n_scored,
            n_tokens=n_scored,
            ids=torch.from_numpy(np.ascontiguousarray(window[:, :-1])),
        )


@dataclass(frozen=True)
class MaskedTexts(_Padded, Examples[MaskedBatch]):
    """Texts with masked words, to be predicted from the words around (Devlin et al. 2018).

    Of the chosen words, 80 % are replaced by the mask token, 10 % by a random word, and 10 % are
    kept, since a classifier will later read texts without masks.
    """

    store: TokenStore
    pad_id: int
    mask_id: int
    special_ids: frozenset[int]
    share: float = 0.15
    pad_multiple: int = 1
    max_len: int | None = None

    @property
    def lengths(self) -> Ids:
        return self.store.lengths

    def batch(self, indices: Ids, rng: EpochRNG, width: int = 0) -> MaskedBatch:
        ids = self._padded(self.store, indices, width)
        may_mask = ~np.isin(ids, list(self.special_ids))
        draw, fate, pick = (rng.uniform(indices, ids.shape[1], stream) for stream in range(3))
        chosen = may_mask & (draw < self.share)
        anything = (pick * self.store.vocab_size).astype(np.int64)
        # Never a special token: padding, above all, is not a word.
        other = np.where(np.isin(anything, list(self.special_ids)), ids, anything)
        replaced = np.where(fate < 0.8, self.mask_id, np.where(fate < 0.9, other, ids))
        at = np.flatnonzero(chosen)
        labels = ids.reshape(-1)[at]
        if not len(at):  # the model needs at least one position; this one is not scored
            at, labels = np.zeros(1, dtype=np.int64), np.array([IGNORED])
        return MaskedBatch(
            labels=torch.from_numpy(labels),
            n_scored=int(chosen.sum()),
            n_tokens=int((ids != self.pad_id).sum()),
            ids=torch.from_numpy(np.where(chosen, replaced, ids)),
            at=torch.from_numpy(at),
        )


@dataclass(frozen=True)
class RatingExamples(Examples[RatingBatch]):
    """Ratings to be predicted."""

    ratings: Ratings

    @property
    def lengths(self) -> Ids:
        return np.ones(len(self.ratings), dtype=np.int64)

    def batch(self, indices: Ids, rng: EpochRNG, width: int = 0) -> RatingBatch:  # noqa: ARG002  nothing is random
        chosen = self.ratings.select(indices)
        return RatingBatch(
            labels=torch.from_numpy(chosen.stars),
            n_scored=len(chosen),
            n_tokens=len(chosen),
            people=torch.from_numpy(chosen.people),
            films=torch.from_numpy(chosen.films),
        )


@dataclass(frozen=True)
class DigitExamples(Examples[ImageBatch]):
    """Images to be classified."""

    digits: ScannedDigits

    @property
    def lengths(self) -> Ids:
        return np.ones(len(self.digits.labels), dtype=np.int64)

    def batch(self, indices: Ids, rng: EpochRNG, width: int = 0) -> ImageBatch:  # noqa: ARG002  nothing is random
        return ImageBatch(
            labels=torch.from_numpy(self.digits.labels[indices]),
            n_scored=len(indices),
            n_tokens=len(indices),
            images=torch.from_numpy(self.digits.images[indices]),
        )
