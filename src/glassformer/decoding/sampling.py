"""Sampling: draw the next token at random, from what the filters leave.

The filters (repetition penalty, top-k, top-p, min-p) are pure functions on logits. What they
remove becomes −∞, so its probability is exactly 0; at least one token always stays. Each sample has
its own random number generator (RNG), seeded for it, so that a sequence comes out the same whatever
else is in the batch. The loop around the choice is in `greedy`.
Dims: B sequences, R samples of each, V vocabulary.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import torch

from glassformer.decoding.greedy import TokenChoice
from glassformer.decoding.stepper import MAX_BEAMS
from glassformer.errors import ConfigError, expect_number, expect_ranges, expect_whole
from glassformer.nn.tensors import Bool, Float, Int, Tensor, float64_device

_COLDEST, _HOTTEST = torch.finfo(torch.float32).tiny, 1e30
"""Beyond these temperatures all logits would become equal, or infinite."""


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """Settings of random decoding, applied in this order: penalty, k, temperature, p, min-p."""

    temperature: float = 1.0
    """Logits are divided by it: below 1 safer, above 1 wilder."""
    top_k: Annotated[int, "[1, ∞)"] | None = None
    """Draw from the k most probable tokens only."""
    top_p: Annotated[float, "(0, 1]"] | None = None
    """Draw from the most probable tokens that together reach this probability."""
    min_p: Annotated[float, "[0, 1]"] | None = None
    """Draw from tokens at least this many times as probable as the most probable one."""
    repetition_penalty: Annotated[float, "[0.001, 1000]"] = 1.0  # beyond, logits may overflow
    """Above 1: tokens that occurred in the prompt or the continuation become less likely."""
    n_samples: Annotated[int, f"[1, {MAX_BEAMS}]"] = 1
    """How many continuations to draw per sequence; for more, use another seed."""
    seed: Annotated[int, "[0, 2^62)"] = 0  # seeds are counted up
    """Sample s of sequence i uses an RNG seeded with seed + i · n_samples + s."""

    def __post_init__(self) -> None:
        for name in ("top_k", "n_samples", "seed"):
            if getattr(self, name) is not None:
                expect_whole(getattr(self, name), name, None, None)
        expect_number(self.temperature, "temperature")
        if not self.temperature > 0:
            raise ConfigError(
                "temperature must be above 0, got {temperature}; for the likeliest token always, "
                "set top_k = 1",
                temperature=self.temperature,
            )
        expect_ranges(self)

    def probabilities(
        self, logits: Float[Tensor, "... V"], seen: Tensor | None = None
    ) -> Float[Tensor, "... V"]:
        """The probability that each token is drawn; exactly 0 for what is filtered out."""
        filtered = logits.float()
        if seen is not None and self.repetition_penalty != 1:
            filtered = penalise_repetition(filtered, seen, self.repetition_penalty)
        # Before the division: a high temperature makes all logits equal, and any k would be kept.
        if self.top_k is not None:
            filtered = keep_top_k(filtered, self.top_k)
        # The maximum becomes 0, which stays 0 at any temperature: ∞ − ∞ would be NaN.
        filtered = filtered - filtered.amax(dim=-1, keepdim=True)
        filtered = filtered / min(max(self.temperature, _COLDEST), _HOTTEST)
        if self.top_p is not None and self.top_p < 1:
            filtered = keep_top_p(filtered, self.top_p)
        if self.min_p is not None:
            filtered = keep_min_p(filtered, self.min_p)
        return filtered.softmax(dim=-1)


class RandomChooser:
    """A `Chooser` that draws from the filtered probabilities."""

    def __init__(
        self,
        settings: Sampling,
        prompts: Sequence[Sequence[int]],
        numbers: Sequence[int] | None = None,
    ) -> None:
        """`numbers` are the indices of these prompts among all; seeds depend on them."""
        self.settings = settings
        n_samples = settings.n_samples
        self.generators = [
            [
                torch.Generator().manual_seed(settings.seed + number * n_samples + sample)
                for sample in range(n_samples)
            ]
            for number in (range(len(prompts)) if numbers is None else numbers)
        ]
        self.prompts = prompts
        self.seen: Tensor | None = None

    def choose(self, logits: Float[Tensor, "B R V"]) -> TokenChoice:
        if self.seen is None and self.settings.repetition_penalty != 1:
            self.seen = torch.zeros(logits.shape, dtype=torch.bool)
            for row, prompt in enumerate(self.prompts):
                self.seen[row, :, list(prompt)] = True
            self.seen = self.seen.to(logits.device)
        probabilities = self.settings.probabilities(logits, self.seen)
        numbers = torch.tensor(
            [[float(torch.rand((), generator=s)) for s in row] for row in self.generators]
        )
        tokens = draw(probabilities, numbers)
        if self.seen is not None:
            self.seen.scatter_(-1, tokens.unsqueeze(-1), True)
        return TokenChoice(tokens, probabilities)

    def keep(self, sequences: Int[Tensor, " M"]) -> None:
        """Continue with these sequences only, in this order."""
        self.generators = [self.generators[row] for row in sequences.tolist()]
        if self.seen is not None:
            self.seen = self.seen[sequences]


def draw(
    probabilities: Float[Tensor, "... V"], numbers: Float[Tensor, "..."]
) -> Int[Tensor, "..."]:
    """The token that a uniform number in [0, 1) falls on, when probabilities are laid end to end.

    In float64, and by the first sum that exceeds the number: a probability of 0 covers nothing, so
    it is never drawn.
    """
    device = float64_device(probabilities.device)
    sums = probabilities.to(device).double().cumsum(dim=-1)
    targets = numbers.to(device).double().unsqueeze(-1) * sums[..., -1:]
    return torch.searchsorted(sums, targets, right=True).squeeze(-1).to(probabilities.device)


def penalise_repetition(
    logits: Float[Tensor, "... V"], seen: Bool[Tensor, "... V"], penalty: float
) -> Float[Tensor, "... V"]:
    """Make tokens seen before less likely (Keskar et al. 2019): x/penalty, or x·penalty if x<0.

    Dividing a negative logit would raise it, hence the two cases.
    """
    penalised = torch.where(logits > 0, logits / penalty, logits * penalty)
    return torch.where(seen, penalised, logits)


def keep_top_k(logits: Float[Tensor, "... V"], k: int) -> Float[Tensor, "... V"]:
    """Keep the k largest logits: exactly k, even with ties."""
    if k >= logits.size(-1):
        return logits
    largest = logits.topk(k, dim=-1)
    return torch.full_like(logits, -math.inf).scatter_(-1, largest.indices, largest.values)


def keep_top_p(logits: Float[Tensor, "... V"], p: float) -> Float[Tensor, "... V"]:
    """Keep the most probable tokens that together reach p (Holtzman et al. 2020).

    The token that crosses p is kept, so at least one is.
    """
    ordered, ids = logits.sort(dim=-1, descending=True, stable=True)
    probabilities = ordered.softmax(dim=-1)
    before = probabilities.cumsum(dim=-1) - probabilities
    unwanted = before >= p
    unwanted[..., 0] = False
    kept = ordered.masked_fill(unwanted, -math.inf)
    return torch.full_like(logits, -math.inf).scatter_(-1, ids, kept)


def keep_min_p(logits: Float[Tensor, "... V"], p: float) -> Float[Tensor, "... V"]:
    """Keep tokens at least p times as probable as the most probable one (Nguyen et al. 2024)."""
    if p <= 0:
        return logits
    lowest = logits.amax(dim=-1, keepdim=True) + math.log(p)
    return logits.masked_fill(logits < lowest, -math.inf)
