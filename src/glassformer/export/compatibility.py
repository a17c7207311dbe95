"""What all exports share: whether a format can represent a model, facts, probes for the check."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor

from glassformer import __version__
from glassformer.checkpoint import TARGET_TOKENIZER, TOKENIZER, Checkpoint
from glassformer.decoding.stepper import pad
from glassformer.errors import ExportError
from glassformer.nn import ModelConfig
from glassformer.text import Tokenizer

Requirement = tuple[bool, str]
"""Whether it is met, and what the model has instead."""


def require(target: str, requirements: list[Requirement]) -> None:
    """Refuse a model that does not meet all requirements of a format, naming the first."""
    for is_met, what in requirements:
        if not is_met:
            raise ExportError(
                "{target} cannot represent this model: it has {what}", target=target, what=what
            )


def plain_attention(config: ModelConfig) -> list[Requirement]:
    """Attention as everyone has it: heads that split the width, scores divided by √d_head."""
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
        (attention.d_value in (None, width), "values that are not as wide as keys"),
    ]


def plain_feed_forward(config: ModelConfig) -> list[Requirement]:
    return [(config.feed_forward.n_layers == 2, "a feed-forward of one layer")]


def decoder_depth(config: ModelConfig) -> int:
    return config.n_layers if config.n_decoder_layers is None else config.n_decoder_layers


@contextmanager
def traced() -> Iterator[None]:
    """A one-line error for whatever torch's exporters raise: they document no exception type."""
    try:
        yield
    except Exception as error:
        said = (str(error).strip().splitlines() or [""])[0]
        raise ExportError(
            "torch cannot trace this model: {kind}: {said}", kind=type(error).__name__, said=said
        ) from error


# --- facts ---


def facts_of(checkpoint: Checkpoint) -> dict[str, str]:
    """What a program must know to use a model (classes, ids, lengths), as text for any engine."""
    reads, writes = checkpoint.tokenizer, checkpoint.target_tokenizer or checkpoint.tokenizer
    facts = {
        "architecture": checkpoint.config.architecture,
        "labels": json.dumps(list(checkpoint.labels), ensure_ascii=False),
        "longest text": f"{checkpoint.config.max_len} tokens",
        "longer texts lose": str(checkpoint.about.get("cut", "end")),
        "tokenizer": TOKENIZER if reads is not None else "",
        "tokenizer of answers": TARGET_TOKENIZER if checkpoint.target_tokenizer else "",
        "special tokens": _special(writes) if writes is not None else "",
        "glassformer": __version__,
    }
    if not checkpoint.labels:
        del facts["labels"], facts["longer texts lose"]
    return {name: value for name, value in facts.items() if value}


def _special(tokenizer: Tokenizer) -> str:
    """The ids that a program needs: a source ends with `end`, a target begins with `start`."""
    special = tokenizer.special
    ids = {"pad": special.pad, "start": special.start, "end": special.end}
    return ", ".join(f"{name} {id_}" for name, id_ in ids.items() if id_ is not None)


# --- probes ---


def probe_ids(checkpoint: Checkpoint, n: int = 12) -> list[list[int]]:
    """Random ordinary tokens in texts from 1 token to as many as fit (at most 48); seeded."""
    config = checkpoint.config
    special = checkpoint.tokenizer.special.ids if checkpoint.tokenizer is not None else frozenset()
    ordinary = torch.tensor([i for i in range(config.vocab_size) if i not in special])
    rng = torch.Generator().manual_seed(0)
    longest = min(config.max_len - 1, 48)
    texts = []
    for number in range(n):
        length = 1 + round(number * (longest - 1) / max(1, n - 1))
        texts.append(ordinary[torch.randint(len(ordinary), (length,), generator=rng)].tolist())
    return texts


def padded(texts: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
    """Texts as one tensor of ids, and a mask that is True at tokens (always, unlike `pad`)."""
    ids, is_token = pad(texts, torch.device("cpu"))
    return ids, torch.ones_like(ids, dtype=torch.bool) if is_token is None else is_token


def largest(differences: Sequence[float]) -> float:
    """The largest difference, or NaN if one of them is: `max` would lose it."""
    return float(np.max(differences))
