"""Sampling: draw the next token at random, from what the filters leave.

The choice alone; the loop around it is in `walk`. Each sample has a random stream of its own,
made from its seed, so that a text comes out the same whatever else is in the batch.
Dims: B texts, R samples of each, V vocabulary.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from glassformer.decoding.filters import keep_min_p, keep_top_k, keep_top_p, penalise_repetition
from glassformer.decoding.stepper import MOST_RIVALS
from glassformer.decoding.walk import Choice
from glassformer.errors import ConfigError, expect_number, expect_whole
from glassformer.nn.devices import device_with_double
from glassformer.nn.shapes import Float, Int, Tensor

__all__ = ["Drawn", "Sampling", "draw"]


_COLDEST, _HOTTEST = torch.finfo(torch.float32).tiny, 1e30
"""Temperatures between which logits keep their order: beyond them all are equal, or infinite."""


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """Settings of random decoding, applied in this order: penalty, k, temperature, p, min-p."""

    temperature: float = 1.0
    """Logits are divided by it: below 1 safer, above 1 wilder."""
    top_k: int | None = None
    """Draw from the k most probable tokens only."""
    top_p: float | None = None
    """Draw from the most probable tokens that together reach this probability."""
    min_p: float | None = None
    """Draw from tokens at least this many times as probable as the most probable one."""
    repetition_penalty: float = 1.0
    """Above 1: tokens that occurred in the prompt or the text become less likely."""
    n_samples: int = 1
    """How many continuations to draw for each text."""
    seed: int = 0
    """Sample s of text i draws from the stream of seed + i · n_samples + s."""

    def __post_init__(self) -> None:
        given = [name for name in ("top_k", "top_p", "min_p") if getattr(self, name) is not None]
        for name in ("temperature", "repetition_penalty", "n_samples", "seed", *given):
            if name in ("top_k", "n_samples", "seed"):
                expect_whole(getattr(self, name), name, None, None)
            else:
                expect_number(getattr(self, name), name)
        self._require(
            self.temperature > 0,
            "temperature",
            "above 0 (for the likeliest token always, top_k = 1)",
        )
        self._require(self.top_k is None or self.top_k >= 1, "top_k", "at least 1")
        self._require(self.top_p is None or 0 < self.top_p <= 1, "top_p", "in (0, 1]")
        self._require(self.min_p is None or 0 <= self.min_p <= 1, "min_p", "in [0, 1]")
        # Beyond these, logits times or over it need not be numbers.
        sensible = 0.001 <= self.repetition_penalty <= 1000
        self._require(sensible, "repetition_penalty", "from 0.001 to 1000")
        few = 1 <= self.n_samples <= MOST_RIVALS
        self._require(few, "n_samples", f"from 1 to {MOST_RIVALS:,} (for more, another seed)")
        self._require(0 <= self.seed < 2**62, "seed", "from 0 to 2**62 - 1")  # streams count on

    def _require(self, holds: bool, name: str, what: str) -> None:
        if not holds:
            raise ConfigError(
                "{name} must be {what}, got {value}",
                name=name,
                what=what,
                value=getattr(self, name),
            )

    def chances(
        self, logits: Float[Tensor, "... V"], seen: Tensor | None = None
    ) -> Float[Tensor, "... V"]:
        """The probability of each token of being drawn; exactly 0 for what is filtered out."""
        filtered = logits.float()
        if seen is not None and self.repetition_penalty != 1:
            filtered = penalise_repetition(filtered, seen, self.repetition_penalty)
        # Before the division: a hot temperature makes all logits equal, and any k would be kept.
        if self.top_k is not None:
            filtered = keep_top_k(filtered, self.top_k)
        # The best first becomes 0, which stays 0 however cold it is: ∞ − ∞ would be no number.
        filtered = filtered - filtered.amax(dim=-1, keepdim=True)
        filtered = filtered / min(max(self.temperature, _COLDEST), _HOTTEST)
        if self.top_p is not None and self.top_p < 1:
            filtered = keep_top_p(filtered, self.top_p)
        if self.min_p is not None:
            filtered = keep_min_p(filtered, self.min_p)
        return filtered.softmax(dim=-1)


class Drawn:
    """A `Chooser` that draws from the filtered probabilities."""

    def __init__(
        self,
        settings: Sampling,
        prompts: Sequence[Sequence[int]],
        vocab_size: int,
        texts: Sequence[int] | None = None,
        device: torch.device | str = "cpu",
    ) -> None:
        """`texts` are the numbers of these prompts among all, from which seeds are made."""
        self.settings = settings
        n_samples = settings.n_samples
        numbers = range(len(prompts)) if texts is None else texts
        self.streams = [
            [_stream(settings.seed + number * n_samples + sample) for sample in range(n_samples)]
            for number in numbers
        ]
        self.seen: Tensor | None = None
        if settings.repetition_penalty != 1:
            self.seen = torch.zeros(len(prompts), n_samples, vocab_size, dtype=torch.bool)
            for row, prompt in enumerate(prompts):
                self.seen[row, :, list(prompt)] = True
            self.seen = self.seen.to(device)

    def choose(self, logits: Float[Tensor, "B R V"]) -> Choice:
        """One token for each row."""
        chances = self.settings.chances(logits, self.seen)
        numbers = torch.tensor(
            [[float(torch.rand((), generator=s)) for s in row] for row in self.streams]
        )
        tokens = draw(chances, numbers)
        if self.seen is not None:
            self.seen.scatter_(-1, tokens.unsqueeze(-1), True)
        return Choice(tokens, chances)

    def keep(self, texts: Int[Tensor, " M"]) -> None:
        """Go on with these texts alone, in this order."""
        self.streams = [self.streams[row] for row in texts.tolist()]
        if self.seen is not None:
            self.seen = self.seen[texts]


def draw(chances: Float[Tensor, "... V"], numbers: Float[Tensor, "..."]) -> Int[Tensor, "..."]:
    """The token that a uniform number in [0, 1) falls on, when chances are laid end to end.

    In float64, and by the first sum that exceeds the number: a chance of 0 covers nothing, so it
    is never drawn.
    """
    device = device_with_double(chances.device)
    sums = chances.to(device).double().cumsum(dim=-1)
    targets = numbers.to(device).double().unsqueeze(-1) * sums[..., -1:]
    return torch.searchsorted(sums, targets, right=True).squeeze(-1).to(chances.device)


def _stream(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)
