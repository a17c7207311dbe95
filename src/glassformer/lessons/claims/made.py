"""Small things that the experiments are made on: seeded vectors and modules, and what to count."""

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from glassformer.nn import (
    AttentionConfig,
    Block,
    LanguageModel,
    ModelConfig,
    MultiHeadAttention,
    Seq2Seq,
    presets,
)
from glassformer.nn.properties.studies.training import seeded

__all__ = [
    "LENGTHS",
    "ROUNDING",
    "attention",
    "block",
    "causal",
    "count_operators",
    "difference",
    "ids",
    "language_model",
    "permutation",
    "refuses",
    "translator",
    "vectors",
]

LENGTHS = (64, 256, 1024, 4096)
"""Positions at which seconds are measured, to see how they grow."""

ROUNDING = 1e-5
"""Differences up to this are those of float32."""


def vectors(*shape: int, seed: int = 0) -> Tensor:
    """Random vectors, the same for each seed."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def ids(batch: int, length: int, vocab_size: int, seed: int = 0) -> Tensor:
    """Random ids, the same for each seed."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(vocab_size, (batch, length), generator=generator)


def permutation(length: int, seed: int = 0) -> Tensor:
    """A random order of positions."""
    return torch.randperm(length, generator=torch.Generator().manual_seed(seed))


def attention(d_model: int, seed: int = 0, **settings: Any) -> MultiHeadAttention:
    """A fresh attention layer; settings are those of AttentionConfig."""
    with seeded(seed):
        return MultiHeadAttention(d_model, AttentionConfig(**settings)).eval()


def block(seed: int = 0, **settings: Any) -> Block:
    """A fresh post-norm block of width 8 with two heads."""
    config = presets.bloem_2024(vocab_size=16, d_model=8, n_heads=2).with_(**settings)
    with seeded(seed):
        return Block(config).eval()


def translator(seed: int = 0, **settings: Any) -> Seq2Seq:
    """A fresh encoder-decoder of width 16 on 12 words."""
    config = presets.vaswani_2017_base(
        vocab_size=12, d_model=16, n_heads=2, n_layers=1, d_ff=32, max_len=16, dropout=0.0
    )
    with seeded(seed):
        return Seq2Seq(config.with_(**settings)).eval()


def language_model(seed: int = 0, **settings: Any) -> LanguageModel:
    """A fresh decoder of width 16 on 8 words."""
    config: ModelConfig = presets.gpt2(
        vocab_size=8, d_model=16, n_heads=2, n_layers=1, max_len=16, dropout=0.0
    )
    with seeded(seed):
        return LanguageModel(config.with_(init="xavier", **settings)).eval()


def causal(model: nn.Module, switch: bool) -> None:
    """Turn the rule "nothing after me" of every block on or off."""
    for part in model.modules():
        if isinstance(part, Block):
            part.causal = switch


def difference(one: Tensor, other: Tensor) -> float:
    """Largest absolute difference; infinite between different shapes."""
    return float((one - other).abs().max()) if one.shape == other.shape else float("inf")


def refuses(function: Callable[[], object], errors: Iterable[type[Exception]]) -> bool:
    """Whether a call ends with one of these errors."""
    try:
        function()
    except tuple(errors):
        return True
    return False


class _Counting(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        self.seen: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen[func.overloadpacket.__name__] += 1
        return func(*args, **(kwargs or {}))


def count_operators(function: Callable[[], object]) -> Counter[str]:
    """How often each operator of torch is called."""
    counting = _Counting()
    with counting, torch.no_grad():
        function()
    return counting.seen
