"""Inputs with which an export is checked: ids of every length, the same on every machine."""

import torch

from glassformer.checkpoint import Checkpoint

__all__ = ["probe_ids"]


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
