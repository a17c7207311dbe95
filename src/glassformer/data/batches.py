"""Batches: what a model is given, what it should answer, and how many answers are scored.

Each kind of batch is a type of its own. All have `inputs` (the model's arguments), `labels`
(IGNORED where nothing is scored) and `n_scored`, by which losses are averaged, so that batches
of different lengths weigh by their tokens.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, Self

import torch
from torch import Tensor

__all__ = [
    "IGNORED",
    "Batch",
    "ClassificationBatch",
    "ImageBatch",
    "MaskedBatch",
    "PairBatch",
    "RatingBatch",
    "WindowBatch",
]

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
