"""Small things that the experiments are made on: seeded vectors and modules, and what to count."""

from __future__ import annotations

import os
import re
import textwrap
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from glassformer.claims.studies import seeded
from glassformer.errors import DataError
from glassformer.nn import (
    AttentionConfig,
    Block,
    LanguageModel,
    ModelConfig,
    MultiHeadAttention,
    Seq2Seq,
    presets,
)

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


# --- printed code ---
# The code that a text prints, compiled as it stands: nothing mended, nothing left out.
#
# The texts are not shipped. Where they lie in a folder, GLASSFORMER_TEXTS names it, and each file
# begins with its number (`000_….txt`); the claims about printed code otherwise show what was
# stored.


_FENCED = re.compile(r"^ *```[^\n]*\n(.*?)^ *```", flags=re.MULTILINE | re.DOTALL)
_CLASS = re.compile(r"^class \w+", flags=re.MULTILINE)


@dataclass(frozen=True)
class PrintedCode:
    """The fenced blocks of a text, in order, each as far to the left as it goes as a whole."""

    blocks: tuple[str, ...]

    @property
    def compiled(self) -> int:
        """How many of the blocks Python reads; what may continue a method is read inside one."""
        return sum(
            _compiles(block) or _compiles(f"def method():\n{textwrap.indent(block, '    ')}")
            for block in self.blocks
        )

    @property
    def classes(self) -> tuple[str, ...]:
        """Each class with the blocks that continue it, up to the next class.

        A text may print a class piece by piece: a piece belongs to the class before it, with the
        indentation that a method, or a line inside one, has there.
        """
        found: list[list[str]] = []
        for block in self.blocks:
            if _CLASS.search(block):
                found.append([block])
            elif found:
                depth = 4 if block.lstrip().startswith("def ") else 8
                found[-1].append(textwrap.indent(block, " " * depth))
        return tuple("\n".join(pieces) for pieces in found)

    @property
    def compiled_classes(self) -> int:
        """How many classes Python reads, their pieces put together in the order of the text."""
        return sum(map(_compiles, self.classes))

    @property
    def lines(self) -> list[str]:
        """Every line of code, comments taken off."""
        return [line.partition("#")[0] for block in self.blocks for line in block.splitlines()]

    def mentions(self, name: str) -> int:
        """How often the code names something."""
        return sum(len(re.findall(rf"\b{name}\b", line)) for line in self.lines)

    def parameters(self, name: str) -> int:
        """How often it is named among a function's parameters."""
        heads = [line for line in self.lines if line.lstrip().startswith("def ")]
        return sum(len(re.findall(rf"\b{name}\b", head)) for head in heads)


def printed_code(text: str) -> PrintedCode:
    """The code of a text, from its fences."""
    return PrintedCode(tuple(map(textwrap.dedent, _FENCED.findall(text))))


def read_text(number: str) -> str:
    """One of the texts, from the folder that GLASSFORMER_TEXTS names."""
    folder = os.environ.get("GLASSFORMER_TEXTS")
    if not folder:
        raise DataError("expected the folder of the texts in GLASSFORMER_TEXTS; it is not set")
    found = sorted(Path(folder).glob(f"{number}*"))
    if not found:
        raise DataError(
            "{folder}: expected a file that begins with {number}, found none",
            folder=folder,
            number=number,
        )
    return found[0].read_text(encoding="utf-8", errors="replace")


def _compiles(source: str) -> bool:
    try:
        compile(source, "printed", "exec")
    except SyntaxError:
        return False
    return True
