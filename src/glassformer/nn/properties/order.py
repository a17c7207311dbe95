"""Does the order of the input matter? Permute it and see what changes.

A function is *equivariant* when permuted inputs give equally permuted outputs, f(Px) = P f(x), and
*invariant* when they give the same output, f(Px) = f(x). Self-attention without positions is the
first and not the second; a mean over its positions is the second.
Dims: B batch, T positions, D width, C classes, R repetitions of a word.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch

from glassformer.errors import ConfigError
from glassformer.nn.config import ModelConfig
from glassformer.nn.models import Classifier
from glassformer.nn.shapes import Float, Int, Tensor


@dataclass(frozen=True)
class OrderCheck:
    """How far a function is from ignoring, or from following, one permutation."""

    permutation: tuple[int, ...]
    """Position t of the permuted input holds what stood at position permutation[t]."""
    largest_difference: float
    """Largest absolute difference between the two outputs."""
    largest_output: float
    """Largest absolute output: what the difference is to be compared with."""

    def holds(self, relative_tolerance: float = 1e-5) -> bool:
        """Whether the difference is rounding and no more."""
        return self.largest_difference <= relative_tolerance * self.largest_output


def equivariance(
    function: Callable[[Tensor], Tensor], x: Tensor, permutation: Int[Tensor, " T"]
) -> OrderCheck:
    """f(Px) against P f(x); positions are axis 1 of both, ids and vectors alike."""
    _check_permutation(permutation, x.size(1))
    with torch.no_grad():
        return _compare(function(x[:, permutation]), function(x)[:, permutation], permutation)


def invariance(
    function: Callable[[Tensor], Tensor], x: Tensor, permutation: Int[Tensor, " T"]
) -> OrderCheck:
    """f(Px) against f(x); positions are axis 1 of x."""
    _check_permutation(permutation, x.size(1))
    with torch.no_grad():
        return _compare(function(x[:, permutation]), function(x), permutation)


@dataclass(frozen=True)
class ShuffledWords:
    """Class probabilities of a text and of its shuffled words."""

    original: Float[Tensor, "B C"]
    shuffled: Float[Tensor, "B C"]

    @property
    def largest_difference(self) -> float:
        """How far shuffling moves a probability."""
        return float((self.original - self.shuffled).abs().max())


@torch.no_grad()
def shuffle_words(
    config: ModelConfig, ids: Int[Tensor, "B T"], permutation: Int[Tensor, " T"], seed: int = 0
) -> ShuffledWords:
    """Classify a text and its shuffled words with a fresh classifier of this config.

    Nothing is trained: without positions the probabilities agree whatever the parameters are.
    """
    if config.architecture != "classifier":
        raise ConfigError(f"shuffle_words needs a classifier, got {config.architecture!r}")
    _check_permutation(permutation, ids.size(1))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = Classifier(config).eval()
    original = torch.softmax(model(ids), dim=-1)
    shuffled = torch.softmax(model(ids[:, permutation]), dim=-1)
    return ShuffledWords(original, shuffled)


def repeated_word_spread(outputs: Float[Tensor, "T D"], ids: Int[Tensor, " T"]) -> dict[int, float]:
    """For each id that occurs more than once, how far apart its outputs are at most.

    In "the cat walks on the street" both "the" have one embedding; without positions they get one
    output too, and the spread is rounding.
    """
    spreads: dict[int, float] = {}
    for word in ids.unique().tolist():
        occurrences: Float[Tensor, "R D"] = outputs[ids == word]
        if occurrences.size(0) > 1:
            spreads[word] = (occurrences - occurrences[:1]).abs().max().item()
    return spreads


def _compare(one: Tensor, other: Tensor, permutation: Tensor) -> OrderCheck:
    return OrderCheck(
        permutation=tuple(permutation.tolist()),
        largest_difference=float((one - other).abs().max()),
        largest_output=float(other.abs().max()),
    )


def _check_permutation(permutation: Tensor, n_positions: int) -> None:
    if sorted(permutation.tolist()) != list(range(n_positions)):
        raise ConfigError(
            f"a permutation of {n_positions} positions holds 0..{n_positions - 1} once each, "
            f"got {permutation.tolist()}"
        )
