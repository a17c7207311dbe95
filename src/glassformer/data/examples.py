"""Examples in memory-mapped stores, and how some of them become a batch.

`Examples.batch(indices, chance)` is pure: what is random (hidden words, dropped words, moved
windows) comes from `chance`, which belongs to the epoch and the example, so that a run can begin
anywhere and be shared out in any way. Padding is added here and nowhere else, on the right.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
import torch

from glassformer.data.batches import (
    IGNORED,
    Batch,
    Chance,
    ClassificationBatch,
    MaskedBatch,
    PairBatch,
    WindowBatch,
)
from glassformer.data.token_store import Ids, TokenStore

B = TypeVar("B", bound=Batch, covariant=True)


class Examples(ABC, Generic[B]):
    """A set of examples that batches can be made of."""

    @property
    @abstractmethod
    def lengths(self) -> Ids:
        """The length that each example is sorted and counted by."""

    @abstractmethod
    def batch(self, indices: Ids, chance: Chance, width: int = 0) -> B:
        """Some examples as tensors, padded to `width` or to the longest, whichever is more."""

    def __len__(self) -> int:
        return len(self.lengths)


class _Padded:
    """How the texts of a batch become rows of one width."""

    pad_id: int
    pad_multiple: int
    max_len: int | None

    def _padded(self, store: TokenStore, indices: Ids, at_least: int, *, ahead: int = 0) -> Ids:
        """Rows of ids; `ahead` of the width is cut off later, and does not count for the rest."""
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
    """Lengths are padded up to a multiple of this: few shapes where a compiler wants few."""
    max_len: int | None = None
    """What the model reads at most: no multiple goes beyond."""
    word_dropout: float = 0.0
    """Share of words replaced by `unknown_id`, so that no single word is relied on."""
    unknown_id: int | None = None

    @property
    def lengths(self) -> Ids:
        """Tokens of each text."""
        return self.store.lengths

    def batch(self, indices: Ids, chance: Chance, width: int = 0) -> ClassificationBatch:
        """Texts and their classes."""
        ids = self._padded(self.store, indices, width)
        is_token = ids != self.pad_id
        if self.word_dropout:
            assert self.unknown_id is not None
            dropped = (chance.uniform(indices, ids.shape[1], 0) < self.word_dropout) & is_token
            ids = np.where(dropped, self.unknown_id, ids)
        return ClassificationBatch(
            labels=torch.from_numpy(self.labels[indices]),
            n_scored=len(indices),
            n_tokens=int(is_token.sum()),
            ids=torch.from_numpy(ids),
        )


@dataclass(frozen=True)
class SentencePairs(_Padded, Examples[PairBatch]):
    """Source and target sentences; the target store holds start and end tokens."""

    source: TokenStore
    target: TokenStore
    pad_id: int
    pad_multiple: int = 1
    max_len: int | None = None

    @property
    def lengths(self) -> Ids:
        """The longer side of each pair."""
        return np.maximum(self.source.lengths, self.target.lengths - 1)

    def batch(self, indices: Ids, chance: Chance, width: int = 0) -> PairBatch:  # noqa: ARG002  no luck in it
        """Each side padded for itself; the target is split into input and answer."""
        source = self._padded(self.source, indices, width)
        target = self._padded(self.target, indices, width, ahead=1)
        answers = target[:, 1:]
        is_answer = answers != self.pad_id
        n_scored = int(is_answer.sum())
        return PairBatch(
            labels=torch.from_numpy(np.where(is_answer, answers, IGNORED)),
            n_scored=n_scored,
            n_tokens=n_scored + int((source != self.pad_id).sum()),
            source=torch.from_numpy(source),
            target=torch.from_numpy(np.ascontiguousarray(target[:, :-1])),
        )


class Windows(Examples[WindowBatch]):
    """Running text cut into windows of equal length, each token predicted once an epoch.

    Training moves the cuts a little in every epoch, so that no token always comes first.
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
        # What does not fill a window is scored too, in a shorter one; not where windows move.
        keeps_rest = rest > 0 and (self._slack == 0)
        self._lengths = np.array([length] * n_full + [rest] * keeps_rest, dtype=np.int64)

    @property
    def lengths(self) -> Ids:
        """All equal but the last."""
        return self._lengths

    def batch(self, indices: Ids, chance: Chance, width: int = 0) -> WindowBatch:
        """Windows, and the same text one token ahead."""
        lengths = self._lengths[indices]
        width = max(width, int(lengths.max()))
        starts = indices * self.length + chance.below(self._slack + 1)
        positions = starts[:, None] + np.arange(width + 1)
        stretch = self.store.ids[np.minimum(positions, len(self.store.ids) - 1)].astype(np.int64)
        # The last window may be shorter: what stands after its end is repeated and not scored.
        is_scored = np.arange(width) < lengths[:, None]
        n_scored = int(lengths.sum())
        return WindowBatch(
            labels=torch.from_numpy(np.where(is_scored, stretch[:, 1:], IGNORED)),
            n_scored=n_scored,
            n_tokens=n_scored,
            ids=torch.from_numpy(np.ascontiguousarray(stretch[:, :-1])),
        )


@dataclass(frozen=True)
class MaskedTexts(_Padded, Examples[MaskedBatch]):
    """Texts in which words are hidden, to be guessed from the words around (Devlin et al. 2018).

    Of the chosen words, 80 % are replaced by the mask token, 10 % by a random word, and 10 %
    stay as they are, since a classifier will later read texts without any mask.
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
        """Tokens of each text."""
        return self.store.lengths

    def batch(self, indices: Ids, chance: Chance, width: int = 0) -> MaskedBatch:
        """Texts with hidden words."""
        ids = self._padded(self.store, indices, width)
        may_hide = ~np.isin(ids, list(self.special_ids))
        draw, fate, pick = (chance.uniform(indices, ids.shape[1], stream) for stream in range(3))
        chosen = may_hide & (draw < self.share)
        anything = (pick * self.store.vocab_size).astype(np.int64)
        # A random word that happens to be special (padding above all) would be no word.
        other = np.where(np.isin(anything, list(self.special_ids)), ids, anything)
        replaced = np.where(fate < 0.8, self.mask_id, np.where(fate < 0.9, other, ids))
        at = np.flatnonzero(chosen)
        labels = ids.reshape(-1)[at]
        if not len(at):  # a model cannot answer nothing: one position that is not scored
            at, labels = np.zeros(1, dtype=np.int64), np.array([IGNORED])
        return MaskedBatch(
            labels=torch.from_numpy(labels),
            n_scored=int(chosen.sum()),
            n_tokens=int((ids != self.pad_id).sum()),
            ids=torch.from_numpy(np.where(chosen, replaced, ids)),
            at=torch.from_numpy(at),
        )
