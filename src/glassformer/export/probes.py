"""Inputs with which an export is checked: ids of every length, the same on every machine."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from glassformer.checkpoint import Checkpoint
from glassformer.decoding.stepper import pad

__all__ = ["largest", "padded", "probe_ids"]


def probe_ids(checkpoint: Checkpoint, n: int = 12) -> list[list[int]]:
    """Ordinary tokens at random, in texts from 1 token to as many as fit (48 at most)."""
    config = checkpoint.config
    special = checkpoint.tokenizer.special.ids if checkpoint.tokenizer is not None else frozenset()
    ordinary = torch.tensor([i for i in range(config.vocab_size) if i not in special])
    chance = torch.Generator().manual_seed(0)
    longest = min(config.max_len - 1, 48)
    texts = []
    for number in range(n):
        length = 1 + round(number * (longest - 1) / max(1, n - 1))
        texts.append(ordinary[torch.randint(len(ordinary), (length,), generator=chance)].tolist())
    return texts


def padded(texts: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
    """Texts as one tensor of ids, and where it holds tokens, even if it does so everywhere."""
    ids, is_token = pad(texts, torch.device("cpu"))
    return ids, torch.ones_like(ids, dtype=torch.bool) if is_token is None else is_token


def largest(differences: Sequence[float]) -> float:
    """The largest of some differences; NaN if one of them is: `max` would lose it."""
    return float(np.max(differences))
