"""Whether another program's format can hold a model: asked before anything is written.

A list of demands for each format; the first one that is not met becomes one clear line.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor

from glassformer.checkpoint import Checkpoint
from glassformer.decoding.stepper import pad
from glassformer.errors import ExportError
from glassformer.nn import ModelConfig

Demand = tuple[bool, str]
"""Whether it is met, and what the model has that the format does not."""


def demand(target: str, demands: list[Demand]) -> None:
    """Refuse a model that does not meet all demands."""
    for met, what in demands:
        if not met:
            raise ExportError(
                "{target} cannot hold this model: it has {what}", target=target, what=what
            )


def plain_attention(config: ModelConfig) -> list[Demand]:
    """Attention as everyone writes it: heads that split the width, scores divided by √d_head."""
    attention = config.attention
    width = attention.head_width(config.d_model)
    return [
        (attention.score == "dot", "additive attention scores"),
        (attention.output_map, "attention without an output map"),
        (
            attention.score_divisor(config.d_model) == width**0.5,
            f"scores divided by {attention.score_divisor(config.d_model):.4g} instead of √d_head",
        ),
        (
            width * attention.n_heads == config.d_model,
            f"heads of width {width} that do not split d_model {config.d_model}",
        ),
        (attention.d_value in (None, width), "values of another width than keys"),
    ]


def plain_feed_forward(config: ModelConfig) -> list[Demand]:
    """Two layers."""
    return [(config.feed_forward.n_layers == 2, "a feed-forward of one layer")]


def decoder_depth(config: ModelConfig) -> int:
    """Blocks of an encoder-decoder's decoder."""
    return config.n_layers if config.n_decoder_layers is None else config.n_decoder_layers


@contextmanager
def traced() -> Iterator[None]:
    """One line for what torch's exporters cannot trace: they promise no kind of error."""
    try:
        yield
    except Exception as error:
        said = (str(error).strip().splitlines() or [""])[0]
        raise ExportError(
            "torch cannot trace this model: {kind}: {said}", kind=type(error).__name__, said=said
        ) from error


# --- probes ---
# Inputs with which an export is checked: ids of every length, the same on every machine.


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
