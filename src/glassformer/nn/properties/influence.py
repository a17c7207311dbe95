"""Which inputs an output depends on, and how strongly: the Jacobian, block by block.

For a function from positions to positions, block (i, j) of its Jacobian is ∂y_i / ∂x_j, the matrix
of all derivatives of output vector i by input vector j. Where it is zero at every input, output i
does not see input j. The function may be anything that autograd can follow: a layer, a model, a
lambda. A Jacobian speaks of one input only (a ReLU that is off there looks like no connection), so
several inputs can be given.
Dims: N inputs tried, T positions, D width, O output and I input positions.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.autograd.functional import jacobian

from glassformer.errors import ShapeError
from glassformer.nn.shapes import Bool, Float, Tensor


@dataclass(frozen=True)
class Influence:
    """How strongly each output position depends on each input position."""

    strength: Float[Tensor, "O I"]
    """Frobenius norm of ∂y_i / ∂x_j, the largest over the inputs tried."""
    tolerance: float = 0.0
    """Strengths up to this count as none."""

    @property
    def depends(self) -> Bool[Tensor, "O I"]:
        """True where output i depends on input j."""
        return self.strength > self.tolerance

    @property
    def mixes_positions(self) -> bool:
        """Whether some output depends on an input at another position."""
        outputs, inputs = self.depends.nonzero(as_tuple=True)
        return bool((outputs != inputs).any())

    @property
    def looks_ahead(self) -> bool:
        """Whether some output depends on an input at a later position."""
        return bool(self.depends.triu(diagonal=1).any())


def influence(
    function: Callable[[Tensor], Tensor], x: Float[Tensor, "*N T D"], *, tolerance: float = 0.0
) -> Influence:
    """Measure a function of vectors at x, (T, D), or at several such inputs, (N, T, D).

    The function is called batch first, with one sequence (1, T, D), and returns (1, O, …).
    """
    if x.dim() not in (2, 3):
        raise ShapeError(f"influence expects x of shape (T, D) or (N, T, D), got {tuple(x.shape)}")
    points = x if x.dim() == 3 else x.unsqueeze(0)
    strengths = [_block_norms(function, point) for point in points]
    return Influence(torch.stack(strengths).amax(dim=0), tolerance)


def _block_norms(
    function: Callable[[Tensor], Tensor], point: Float[Tensor, "T D"]
) -> Float[Tensor, "O I"]:
    def one_sequence(vectors: Tensor) -> Tensor:
        outputs = function(vectors.unsqueeze(0))
        if outputs.dim() < 2 or outputs.size(0) != 1:
            raise ShapeError(
                "the function must return (1, positions, …) for one sequence, got "
                f"{tuple(outputs.shape)}"
            )
        return outputs.reshape(outputs.size(1), -1)

    blocks = jacobian(one_sequence, point.detach())
    assert isinstance(blocks, Tensor)
    return blocks.square().sum(dim=(1, 3)).sqrt()


def of_vectors(
    model: nn.Module, embedding: nn.Module, *inputs: Any, **settings: Any
) -> Callable[[Tensor], Tensor]:
    """A model as a function of its embedded vectors: what follows the embedding, and nothing else.

    `embedding` is a part of the model; its output is replaced by the vectors given, and the model
    runs on `inputs` otherwise unchanged, with its positions, masks and caches. Where it is called
    more than once (a table shared by encoder and decoder), each call gives the same vectors.
    """

    def function(vectors: Tensor) -> Tensor:
        def replace(_module: nn.Module, _inputs: object, looked_up: Tensor) -> Tensor:
            if looked_up.shape != vectors.shape:
                raise ShapeError(
                    f"the embedding gives {tuple(looked_up.shape)} for these inputs, "
                    f"the vectors to put there are {tuple(vectors.shape)}"
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
    """How many times `step` is applied before output i depends on input j; ∞ if not in `most`.

    A step is one layer, or one moment of a recurrence. No step at all links a position to itself.
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
    """y = Σ_j w_j x_j with weights fixed beforehand: attention before it looks at its input.

    [1, 2, 3, 4, 5] with weights [0, 0, 0, ½, ½] gives 4.5, and the first three have no influence.
    """
    return weights.unsqueeze(0) @ values
