"""What all exports share: whether a format can represent a model, facts, probes for the check."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from operator import attrgetter

import numpy as np
import torch
from torch import Tensor

from glassformer import __version__
from glassformer.checkpoint import TARGET_TOKENIZER, TOKENIZER, Checkpoint
from glassformer.decoding.stepper import pad
from glassformer.errors import ExportError, Fragment
from glassformer.nn import ModelConfig
from glassformer.text import SubwordTokenizer, Tokenizer

Allowed = Mapping[str, Sequence[object]]
"""For settings of a model, the values that a format can represent."""


def require(target: str, config: ModelConfig, allowed: Allowed) -> None:
    """Refuse a model with a setting that a format cannot represent, naming the first."""
    for setting, values in allowed.items():
        value = attrgetter(setting)(config)
        if value not in values:
            known = f"{values[0]}, {values[1]}, …" if isinstance(values, range) else ""
            raise ExportError(
                "{target} cannot represent this model: its {setting} is {value}, expected {known}",
                target=target,
                setting=setting,
                value=value,
                known=known or " or ".join(str(one) for one in values if one is not None),
            )


NO = (False,)
YES = (True,)
ANY_COUNT = range(1, 2**31)


def plain(config: ModelConfig) -> Allowed:
    """Attention as everyone has it: heads that split the width, scores divided by √d_head; and a
    feed-forward of two layers."""
    width = config.d_model / config.attention.n_heads
    by_width = ("sqrt_model",) if config.attention.n_heads == 1 else ()
    return {
        "attention.score": ("dot",),
        "attention.output_map": YES,
        "attention.divisor": ("sqrt_head", *by_width, width**0.5),
        "attention.d_head": (None, width),
        "attention.d_value": (None, width),
        "feed_forward.n_layers": (2,),
    }


def ungrouped_heads(config: ModelConfig) -> Allowed:
    return {"attention.n_kv_heads": (None, config.attention.n_heads)}


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


def tokenizer_of_both(checkpoint: Checkpoint) -> SubwordTokenizer | None:
    """The tokenizer that transformers can open: subwords, the same for what is read and written."""
    tokenizer = checkpoint.tokenizer
    alone = checkpoint.target_tokenizer is None
    return tokenizer if isinstance(tokenizer, SubwordTokenizer) and alone else None


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


def agreement(engine: str, differences: Sequence[float], most: float) -> str:
    """That an engine's output is that of the model, in words; an error if it is not."""
    worst = float(np.max(differences))  # NaN if one of them is: `max` would lose it
    if not worst <= most:
        raise ExportError(
            "the output of {engine} differs from the model's by {worst:.1e}",
            engine=engine,
            worst=worst,
        )
    return Fragment.of(
        "the output of {engine} is within {worst:.1e} of the model's", engine=engine, worst=worst
    )
