"""Examples, mostly in memory-mapped token stores, and how they become batches.

`Examples.batch(indices, rng)` is pure: everything random (masked words, word dropout, shifted
windows) comes from `rng`, which depends on the epoch and the example, so a run can start anywhere
and be split in any way. Padding is added here and nowhere else, on the right.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
import torch

from glassformer.data.batches import (
    IGNORED,
    Batch,
    ClassificationBatch,
    EpochRNG,
    ImageBatch,
    MaskedBatch,
    PairBatch,
    RatingBatch,
    WindowBatch,
)
from glassformer.data.readers import Ratings, ScannedDigits
from glassformer.data.token_store import Ids, TokenStore

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
