"""Measurable properties of attention, as functions that return figures. In this file:

- connectivity: dense layer, convolution, recurrence and attention side by side
- influence: which inputs each output depends on; path lengths; the fixed weighted sum
- order: permutation equivariance and invariance, shuffled words, repeated words
- scaling: spread of scores, saturation of softmax, size of its gradient
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import torch
import torch.nn.functional as F
from torch import nn
from torch.autograd.functional import jacobian

from glassformer.claims.costs import attention_cost, attention_parameters
from glassformer.claims.specimens import difference, seeded
from glassformer.errors import ConfigError, ShapeError, UnknownNameError
from glassformer.nn.attention import MultiHeadAttention, softmax_over_keys
from glassformer.nn.config import AttentionConfig, ModelConfig
from glassformer.nn.models import Classifier
from glassformer.nn.tensors import Bool, Float, Int, Tensor

# --- connectivity ---
# Four ways to connect positions: dense layer, convolution, recurrence, attention.
#
# Each is a module from (B, T, D) to (B, T, D) without biases, so that what it connects can be
# measured (`influence`) and its cost compared (`layer_cost`; table 1 of "Attention is all you need"
# has the same columns in orders of magnitude).


LayerKind = Literal["dense", "convolution", "recurrence", "attention"]

_ONE_HEAD = AttentionConfig(n_heads=1, output_map=False)


class DenseLayer(nn.Module):
    """Every number of the sequence with every other: one (T·D) × (T·D) matrix, for one length."""

    def __init__(self, n_positions: int, d_model: int) -> None:
        super().__init__()
        self.mix = nn.Linear(n_positions * d_model, n_positions * d_model, bias=False)

    def forward(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        """Flatten all positions into one row, map it, and split it again."""
        mixed: Tensor = self.mix(x.flatten(1))
        return mixed.view_as(x)


class ConvolutionLayer(nn.Module):
    """Each position with its neighbours, by the same map everywhere."""

    def __init__(self, d_model: int, kernel_size: int) -> None:
        super().__init__()
        if kernel_size % 2 == 0 or kernel_size < 1:
            raise ConfigError(
                "kernel_size must be odd, so that it has a middle, got {kernel_size}",
                kernel_size=kernel_size,
            )
        self.mix = nn.Conv1d(d_model, d_model, kernel_size, padding=kernel_size // 2, bias=False)

    def forward(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        """y_i = Σ_o W_o x_{i+o}, with zeros beyond the ends."""
        mixed: Tensor = self.mix(x.mT)
        return mixed.mT


class RecurrentLayer(nn.Module):
    """Each position with the state that all positions before it left behind."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.from_input = nn.Linear(d_model, d_model, bias=False)
        self.from_state = nn.Linear(d_model, d_model, bias=False)

    def forward(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        """h_i = tanh(W x_i + U h_{i−1}), strictly one position after another."""
        state = torch.zeros_like(x[:, 0])
        states = []
        for vector in x.unbind(dim=1):
            both = self.from_input(vector) + self.from_state(state)
            state = torch.tanh(both)
            states.append(state)
        return torch.stack(states, dim=1)

    def step(self, states: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        """One time step: every state moves on to the next position at once."""
        earlier = F.pad(states, (0, 0, 1, 0))[:, :-1]
        return torch.tanh(self.from_input(states) + self.from_state(earlier))


def make_layer(kind: LayerKind, n_positions: int, d_model: int, kernel_size: int = 3) -> nn.Module:
    """A new layer of this kind; attention has one head and no output map."""
    makers: dict[LayerKind, Callable[[], nn.Module]] = {
        "dense": lambda: DenseLayer(n_positions, d_model),
        "convolution": lambda: ConvolutionLayer(d_model, kernel_size),
        "recurrence": lambda: RecurrentLayer(d_model),
        "attention": lambda: MultiHeadAttention(d_model, _ONE_HEAD),
    }
    _check_kind(kind)
    return makers[kind]()


@dataclass(frozen=True)
class LayerCost:
    """What one layer over a sequence costs."""

    kind: LayerKind
    parameters: int
    multiply_adds: int
    sequential_steps: int
    """Steps that must wait for one another; the rest can run in parallel."""


def layer_cost(kind: LayerKind, n_positions: int, d_model: int, kernel_size: int = 3) -> LayerCost:
    """The costs of the layer that `make_layer` would make, by formula."""
    _check_kind(kind)
    square = d_model**2
    attention = attention_cost(n_positions, d_model, _ONE_HEAD).multiply_adds
    parameters, multiply_adds = {
        "dense": (n_positions**2 * square, n_positions**2 * square),
        "convolution": (kernel_size * square, n_positions * kernel_size * square),
        "recurrence": (2 * square, n_positions * 2 * square),
        "attention": (sum(attention_parameters(d_model, _ONE_HEAD).values()), attention),
    }[kind]
    return LayerCost(
        kind=kind,
        parameters=parameters,
        multiply_adds=multiply_adds,
        sequential_steps=n_positions if kind == "recurrence" else 1,
    )


def path_length(kind: LayerKind, distance: int, kernel_size: int = 3) -> int:
    """Layers (for a recurrence: time steps) before a position can see one `distance` before it.

    1 for dense layers and attention, at any distance; one time step per position for a recurrence;
    a convolution reaches half its kernel further with each layer.
    """
    _check_kind(kind)
    if distance < 0:
        raise ConfigError("distance must not be negative, got {distance}", distance=distance)
    if kind == "recurrence":
        return distance
    if kind != "convolution":
        return min(distance, 1)
    reach = kernel_size // 2
    if reach == 0 and distance:
        raise ConfigError(
            "a kernel of {kernel_size} sees no other position", kernel_size=kernel_size
        )
    return math.ceil(distance / reach) if distance else 0


def _check_kind(kind: str) -> None:
    if kind not in get_args(LayerKind):
        raise UnknownNameError("layer", kind, get_args(LayerKind))


# --- influence ---
# Which inputs an output depends on, and how strongly: the Jacobian, block by block.
#
# For a function from positions to positions, block (i, j) of its Jacobian is ∂y_i / ∂x_j, the
# matrix of all derivatives of output vector i by input vector j. If it is zero at every input,
# output i does not depend on input j. The function may be anything that autograd can follow: a
# layer, a model, a lambda. A Jacobian describes one input only (a ReLU that is off there looks like
# no connection), so several inputs can be given. Dims: N inputs tried, T positions, D width, O
# output and I input positions.


@dataclass(frozen=True)
class Influence:
    """How strongly each output position depends on each input position."""

    strength: Float[Tensor, "O I"]
    """Frobenius norm of ∂y_i / ∂x_j, the largest over the inputs tried."""

    @property
    def depends(self) -> Bool[Tensor, "O I"]:
        """True where output i depends on input j."""
        return self.strength > 0

    @property
    def mixes_positions(self) -> bool:
        """Whether some output depends on an input at another position."""
        outputs, inputs = self.depends.nonzero(as_tuple=True)
        return bool((outputs != inputs).any())

    @property
    def looks_ahead(self) -> bool:
        """Whether some output depends on an input at a later position."""
        return bool(self.depends.triu(diagonal=1).any())


def influence(function: Callable[[Tensor], Tensor], x: Float[Tensor, "*N T D"]) -> Influence:
    """Measure a function of vectors at x, (T, D), or at several such inputs, (N, T, D).

    The function is called batch first, with one sequence (1, T, D), and returns (1, O, …).
    """
    if x.dim() not in (2, 3):
        raise ShapeError(
            "influence expects x of shape (T, D) or (N, T, D), got {shape}", shape=tuple(x.shape)
        )
    points = x if x.dim() == 3 else x.unsqueeze(0)
    strengths = [_block_norms(function, point) for point in points]
    return Influence(torch.stack(strengths).amax(dim=0))


def _block_norms(
    function: Callable[[Tensor], Tensor], point: Float[Tensor, "T D"]
) -> Float[Tensor, "O I"]:
    def one_sequence(vectors: Tensor) -> Tensor:
        outputs = function(vectors.unsqueeze(0))
        if outputs.dim() < 2 or outputs.size(0) != 1:
            raise ShapeError(
                "the function must return (1, positions, …) for one sequence, got {shape}",
                shape=tuple(outputs.shape),
            )
        return outputs.reshape(outputs.size(1), -1)

    blocks = jacobian(one_sequence, point.detach())
    assert isinstance(blocks, Tensor)
    return blocks.square().sum(dim=(1, 3)).sqrt()


def of_vectors(
    model: nn.Module, embedding: nn.Module, *inputs: Any, **settings: Any
) -> Callable[[Tensor], Tensor]:
    """A model as a function of its embedded vectors: everything after the embedding.

    `embedding` is a submodule; its output is replaced by the given vectors, and the model runs on
    `inputs` otherwise unchanged, with its positions, masks and caches. If it is called more than
    once (a table shared by encoder and decoder), each call returns the same vectors.
    """

    def function(vectors: Tensor) -> Tensor:
        def replace(_module: nn.Module, _inputs: object, looked_up: Tensor) -> Tensor:
            if looked_up.shape != vectors.shape:
                raise ShapeError(
                    "the embedding gives {looked_up} for these inputs, the vectors to put "
                    "there are {vectors}",
                    looked_up=tuple(looked_up.shape),
                    vectors=tuple(vectors.shape),
                )
            return vectors

        handle = embedding.register_forward_hook(replace)
        try:
            outputs: Tensor = model(*inputs, **settings)
        finally:
            handle.remove()
        return outputs

    return function


def path_lengths(
    step: Callable[[Tensor], Tensor], x: Float[Tensor, "T D"], most: int
) -> Float[Tensor, "T T"]:
    """How many times `step` is applied before output i depends on input j; ∞ if more than `most`.

    A step is one layer, or one time step of a recurrence. A position depends on itself after 0.
    """
    lengths = torch.full((x.size(0), x.size(0)), torch.inf).fill_diagonal_(0.0)
    for n_steps in range(1, most + 1):
        linked = influence(_repeated(step, n_steps), x).depends
        lengths[linked & lengths.isinf()] = n_steps
    return lengths


def _repeated(step: Callable[[Tensor], Tensor], times: int) -> Callable[[Tensor], Tensor]:
    def function(x: Tensor) -> Tensor:
        for _ in range(times):
            x = step(x)
        return x

    return function


def weighted_sum(
    values: Float[Tensor, "... T D"], weights: Float[Tensor, " T"]
) -> Float[Tensor, "... 1 D"]:
    """y = Σ_j w_j x_j with fixed weights: attention that does not look at its input.

    [1, 2, 3, 4, 5] with weights [0, 0, 0, ½, ½] gives 4.5, and the first three have no influence.
    """
    return weights.unsqueeze(0) @ values


# --- order ---
# Does the order of the input matter? Permute it and see what changes.
#
# A function is *equivariant* when permuted inputs give equally permuted outputs, f(Px) = P f(x),
# and *invariant* when they give the same output, f(Px) = f(x). Self-attention without positions is
# equivariant and not invariant; a mean over its positions is invariant. Dims: B batch, T positions,
# D width, C classes, R repetitions of a word.


def equivariance(
    function: Callable[[Tensor], Tensor], x: Tensor, permutation: Int[Tensor, " T"]
) -> float:
    """The largest difference of f(Px) and P f(x); positions are axis 1 of both, also of ids."""
    _check_permutation(permutation, x.size(1))
    with torch.no_grad():
        return difference(function(x[:, permutation]), function(x)[:, permutation])


def invariance(
    function: Callable[[Tensor], Tensor], x: Tensor, permutation: Int[Tensor, " T"]
) -> float:
    """The largest difference of f(Px) and f(x); positions are axis 1 of x."""
    _check_permutation(permutation, x.size(1))
    with torch.no_grad():
        return difference(function(x[:, permutation]), function(x))


def shuffle_words(
    config: ModelConfig, ids: Int[Tensor, "B T"], permutation: Int[Tensor, " T"], seed: int = 0
) -> float:
    """How far shuffling the words of a text moves a probability of a new classifier.

    Nothing is trained: without positions the probabilities agree for any parameters.
    """
    if config.architecture != "classifier":
        raise ConfigError(
            "shuffle_words needs a classifier, got {architecture!r}",
            architecture=config.architecture,
        )
    with seeded(seed):
        model = Classifier(config).eval()
    return invariance(lambda words: torch.softmax(model(words), dim=-1), ids, permutation)


def repeated_word_spread(outputs: Float[Tensor, "T D"], ids: Int[Tensor, " T"]) -> dict[int, float]:
    """For each id that occurs more than once, the largest difference between its outputs.

    In "the cat walks on the street" both "the" share an embedding; without positions they share an
    output too, and the difference is rounding.
    """
    spreads: dict[int, float] = {}
    for word in ids.unique().tolist():
        occurrences: Float[Tensor, "R D"] = outputs[ids == word]
        if occurrences.size(0) > 1:
            spreads[word] = (occurrences - occurrences[:1]).abs().max().item()
    return spreads


def _check_permutation(permutation: Tensor, n_positions: int) -> None:
    if sorted(permutation.tolist()) != list(range(n_positions)):
        raise ConfigError(
            "a permutation of {n_positions} positions holds 0..{last} once each, got {permutation}",
            n_positions=n_positions,
            last=n_positions - 1,
            permutation=permutation.tolist(),
        )


# --- scaling ---
# Why scores are divided by √k: their spread, the softmax it saturates, the gradient it kills.
#
# The product of two vectors of k independent numbers with mean 0 and variance 1 has mean 0 and
# variance k: its size grows as √k although its average does not. Where the numbers have mean m, the
# average is m² k. (The text's reason: a vector whose k numbers are all c has length √k c.)


@dataclass(frozen=True)
class ScoreSpread:
    """Scores of random queries and keys of one width, and what softmax makes of them."""

    width: int
    divisor: float
    mean: float
    """Average score."""
    deviation: float
    """Standard deviation of the scores: √width / divisor if the inputs have variance 1."""
    largest_weight: float
    """Average over queries of the largest weight; 1 is a saturated softmax."""
    gradient_size: float
    """Average size of the derivative of the weights by the scores; 0 means no learning."""


def score_spread(
    width: int,
    divisor: float | None = None,
    *,
    mean: float = 0.0,
    n_queries: int = 256,
    n_keys: int = 16,
    seed: int = 0,
) -> ScoreSpread:
    """Draw queries and keys with this mean and variance 1, and measure their scores and weights.

    `divisor` defaults to √width; 1 leaves the scores unscaled, and √(h · width) is the divisor of a
    model with h heads that divides by the root of its whole width.
    """
    divisor = math.sqrt(width) if divisor is None else divisor
    generator = torch.Generator().manual_seed(seed)
    queries = mean + torch.randn(n_queries, width, generator=generator, dtype=torch.float64)
    keys = mean + torch.randn(n_queries, n_keys, width, generator=generator, dtype=torch.float64)
    scores = (keys @ queries.unsqueeze(-1)).squeeze(-1) / divisor
    weights = softmax_over_keys(scores)
    return ScoreSpread(
        width=width,
        divisor=divisor,
        mean=float(scores.mean()),
        deviation=float(scores.std()),
        largest_weight=float(weights.amax(dim=-1).mean()),
        gradient_size=float(softmax_gradient_size(weights).mean()),
    )


def spread_by_width(widths: Sequence[int], *, scaled: bool) -> tuple[ScoreSpread, ...]:
    """`score_spread` for each width: divided by √width, or not at all."""
    return tuple(score_spread(width, None if scaled else 1.0) for width in widths)


def softmax_gradient_size(weights: Float[Tensor, "... K"]) -> Float[Tensor, ...]:
    """Frobenius norm of ∂weights / ∂scores = diag(w) − w wᵀ, for each row of weights.

    It is zero if one weight is 1 and all others are 0: a change of the scores has no effect there.
    """
    squares = weights.square()
    diagonal = (weights - squares).square().sum(dim=-1)
    beside = squares.sum(dim=-1).square() - squares.square().sum(dim=-1)
    return (diagonal + beside.clamp(min=0.0)).sqrt()
