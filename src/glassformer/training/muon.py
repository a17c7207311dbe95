"""Muon: momentum whose update of a matrix has all singular values near 1 (Jordan et al. 2024).

    M ← μ M + G;   U = NewtonSchulz(G + μ M);   W ← W − lr · √max(1, rows/columns) · U

torch.optim.Muon treats matrices one by one and multiplies in bfloat16 everywhere. Here those of
one shape are stacked and go through one batched product, which a GPU wants, and a CPU computes in
float32, which is its reference.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

__all__ = ["Muon", "orthogonalise"]


def orthogonalise(matrices: Tensor, n_steps: int = 5) -> Tensor:
    """Matrices (N, R, C) with their singular values moved into about 0.7 to 1.2.

    An odd polynomial of X applied five times: a·X + (b·XXᵀ + c·(XXᵀ)²)·X. Its coefficients are
    Jordan's: they make small singular values grow fastest.
    """
    a, b, c = 3.4445, -4.7750, 2.0315
    x: Tensor = matrices.bfloat16() if matrices.is_cuda else matrices.float()
    tall = x.size(-2) > x.size(-1)
    x = x.mT if tall else x
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(n_steps):
        gram = x @ x.mT
        polynomial = b * gram + c * (gram @ gram)
        x = a * x + polynomial @ x
    orthogonal: Tensor = (x.mT if tall else x).to(matrices.dtype)
    return orthogonal


class Muon(torch.optim.Optimizer):
    """For matrices inside the blocks only: no embeddings, no output map, no vectors."""

    def __init__(
        self,
        params: Iterable[nn.Parameter],
        lr: float,
        momentum: float = 0.95,
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})
        for group in self.param_groups:
            for parameter in group["params"]:
                assert parameter.dim() == 2, "Muon is for matrices"

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> None:  # type: ignore[override]  # no loss
        """One update of every matrix that has a gradient."""
        assert closure is None, "the gradient is there already"
        for group in self.param_groups:
            by_shape: dict[tuple[int, ...], list[Tensor]] = defaultdict(list)
            for parameter in group["params"]:
                if parameter.grad is not None:
                    by_shape[tuple(parameter.shape)].append(parameter)
            for shape, parameters in by_shape.items():
                self._update(parameters, group, (max(1.0, shape[0] / shape[1])) ** 0.5)

    def _update(self, parameters: list[Tensor], group: dict[str, Any], scale: float) -> None:
        gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
        for parameter in parameters:
            if not self.state[parameter]:
                self.state[parameter]["momentum"] = torch.zeros_like(parameter)
        momenta = [self.state[parameter]["momentum"] for parameter in parameters]
        torch._foreach_mul_(momenta, group["momentum"])
        torch._foreach_add_(momenta, gradients)
        ahead = torch._foreach_add(gradients, momenta, alpha=group["momentum"])
        directions = orthogonalise(torch.stack(ahead)).unbind()
        torch._foreach_mul_(parameters, 1 - group["lr"] * group["weight_decay"])
        torch._foreach_add_(parameters, directions, alpha=-group["lr"] * scale)
