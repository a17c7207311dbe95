"""What the experiments are made of: seeded vectors and modules, one training loop, counters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from threading import RLock
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from glassformer.errors import stop_if_cancelled
from glassformer.nn import (
    AttentionConfig,
    Block,
    LanguageModel,
    ModelConfig,
    MultiHeadAttention,
    Seq2Seq,
    presets,
)
from glassformer.nn.tensors import Float, Int, Tensor

LENGTHS = (64, 256, 1024, 4096)
"""Sequence lengths at which time is measured, to see how it grows."""

ROUNDING = 1e-5
"""Differences up to this are float32 rounding."""


@contextmanager
def one_thread() -> Iterator[None]:
    """Run torch on one thread: small tensors gain nothing from more, and wait on a busy machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


_SEEDING = RLock()


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed torch inside the block and leave its random state outside untouched.

    The state is the process's, so of two threads the second waits.
    """
    with _SEEDING, torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


def fit(
    parameters: Iterable[nn.Parameter],
    loss: Callable[[], Float[Tensor, ""]],
    *,
    steps: int,
    learning_rate: float,
) -> float:
    """Run Adam on a loss that is computed anew each step; return the last loss.

    Training amplifies rounding, which differs between processors. Pass float64 parameters if the
    result must have the same digits everywhere.
    """
    optimiser = torch.optim.Adam(parameters, lr=learning_rate)
    last = float("nan")
    with one_thread():
        for _ in range(steps):
            stop_if_cancelled()
            value = loss()
            optimiser.zero_grad()
            value.backward()
            optimiser.step()
            last = value.item()
    return last


def memorise(model: nn.Module, inputs: Tensor, answers: Int[Tensor, " B"], *, steps: int) -> float:
    """Train a classifier on all of these examples in every step; return the last loss."""

    def loss() -> Float[Tensor, ""]:
        return F.cross_entropy(model(inputs), answers)

    return fit(model.parameters(), loss, steps=steps, learning_rate=0.01)


def accuracy(logits: Float[Tensor, "... C"], answers: Int[Tensor, ...]) -> float:
    return float((logits.argmax(dim=-1) == answers).double().mean())


def vectors(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def ids(batch: int, length: int, vocab_size: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(vocab_size, (batch, length), generator=generator)


def permutation(length: int, seed: int = 0) -> Tensor:
    return torch.randperm(length, generator=torch.Generator().manual_seed(seed))


def attention(d_model: int, seed: int = 0, **settings: Any) -> MultiHeadAttention:
    """A new attention layer; `settings` are fields of AttentionConfig."""
    with seeded(seed):
        return MultiHeadAttention(d_model, AttentionConfig(**settings)).eval()


def block(seed: int = 0, **settings: Any) -> Block:
    """A new post-norm block of width 8 with two heads."""
    config = presets.bloem_2024(vocab_size=16, d_model=8, n_heads=2).with_(**settings)
    with seeded(seed):
        return Block(config).eval()


def translator(seed: int = 0, **settings: Any) -> Seq2Seq:
    """A new encoder-decoder of width 16 with 12 tokens."""
    config = presets.vaswani_2017_base(
        vocab_size=12, d_model=16, n_heads=2, n_layers=1, d_ff=32, max_len=16, dropout=0.0
    )
    with seeded(seed):
        return Seq2Seq(config.with_(**settings)).eval()


def language_model(seed: int = 0, **settings: Any) -> LanguageModel:
    """A new decoder-only model of width 16 with 8 tokens."""
    config: ModelConfig = presets.gpt2(
        vocab_size=8, d_model=16, n_heads=2, n_layers=1, max_len=16, dropout=0.0
    )
    with seeded(seed):
        return LanguageModel(config.with_(init="xavier", **settings)).eval()


def causal(model: nn.Module, switch: bool) -> None:
    """Switch the causal mask of every block on or off."""
    for part in model.modules():
        if isinstance(part, Block):
            part.causal = switch


def difference(one: Tensor, other: Tensor) -> float:
    """Largest absolute difference; infinite between different shapes."""
    return float((one - other).abs().max()) if one.shape == other.shape else float("inf")


def refuses(function: Callable[[], object], errors: Iterable[type[Exception]]) -> bool:
    """Whether a call raises one of these errors."""
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
    """Calls of each torch operator."""
    counting = _Counting()
    with counting, torch.no_grad():
        function()
    return counting.seen
