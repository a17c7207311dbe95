"""Which optimiser moves which parameters, and its state as named tensors.

Matrices and tables decay, vectors (norms, biases) do not. With Muon, the linear maps inside the
blocks go to it and everything else to AdamW.
"""

from typing import Any

import torch
from torch import Tensor, nn

from glassformer.errors import ConfigError, TrainingError
from glassformer.training.config import OptimiserConfig
from glassformer.training.muon import Muon
from glassformer.training.sharding import cut_like, whole

__all__ = ["Optimiser"]


class Optimiser:
    """One or two optimisers that step together.

    With `keeps_gradients`, gradients are set to zero in place after a step: recorded steps add to
    tensors that must stay where they are.
    """

    def __init__(
        self, model: nn.Module, config: OptimiserConfig, *, keeps_gradients: bool = False
    ) -> None:
        self.config = config
        self.keeps_gradients = keeps_gradients
        named = {n: p for n, p in model.named_parameters() if p.requires_grad}
        maps = {f"{n}.weight" for n, part in model.named_modules() if isinstance(part, nn.Linear)}
        hidden = {
            name: parameter
            for name, parameter in named.items()
            if config.kind == "muon" and ".blocks." in name and name in maps
        }
        if config.kind == "muon" and not hidden:
            raise ConfigError(
                "optimiser.kind muon is for the matrices of Transformer blocks, and this model has "
                "none: set adamw"
            )
        rest = {name: parameter for name, parameter in named.items() if name not in hidden}
        self.parameters = list(named.values())
        self._named = named
        self._parts: dict[str, tuple[torch.optim.Optimizer, list[str]]] = {
            "adamw": _adamw(rest, config)
        }
        if hidden:
            muon = Muon(hidden.values(), lr=config.muon_lr, weight_decay=config.weight_decay)
            self._parts["muon"] = (muon, list(hidden))
        self._peaks = {"adamw": config.lr, "muon": config.muon_lr}
        if keeps_gradients:
            for parameter in self.parameters:
                parameter.grad = torch.zeros_like(parameter)

    def step(self, share: float) -> Tensor:
        """Clip, move by a share of the peak learning rate, forget the gradient; returns its norm.

        The norm is that of the whole gradient before clipping.
        """
        limit = self.config.clip or float("inf")
        norm = nn.utils.clip_grad_norm_(self.parameters, limit)
        for kind, (part, _) in self._parts.items():
            # Looked up anew: loading a state replaces the groups.
            for group in part.param_groups:
                group["lr"] = self._peaks[kind] * share
            part.step()
        self.zero_grad()
        return whole(norm)

    def zero_grad(self) -> None:
        """Forget the gradient."""
        if self.keeps_gradients:
            torch._foreach_zero_([p.grad for p in self.parameters if p.grad is not None])
            return
        for part, _ in self._parts.values():
            part.zero_grad(set_to_none=True)

    def tensors(self) -> dict[str, Tensor]:
        """The state by optimiser, parameter and kind: `adamw.encoder….exp_avg`."""
        return {
            f"{kind}.{names[index]}.{key}": value
            for kind, (part, names) in self._parts.items()
            for index, entry in part.state_dict()["state"].items()
            for key, value in entry.items()
        }

    def load(self, tensors: dict[str, Tensor]) -> None:
        """Take up the state that `tensors` gave."""
        for kind, (part, names) in self._parts.items():
            state: dict[int, dict[str, Any]] = {}
            for index, name in enumerate(names):
                prefix = f"{kind}.{name}."
                entry = {
                    key.removeprefix(prefix): self._cut(value, name)
                    for key, value in tensors.items()
                    if key.startswith(prefix)
                }
                if entry:
                    state[index] = entry
            groups = part.state_dict()["param_groups"]
            part.load_state_dict({"state": state, "param_groups": groups})
            if tensors and len(state) != len(names):
                raise TrainingError(
                    f"the saved state has {len(state)} parameters for {kind}, expected "
                    f"{len(names)}; it belongs to another model or optimiser"
                )

    def _cut(self, value: Tensor, name: str) -> Tensor:
        """A parameter's state, cut as the parameter is; the number of steps has no shape."""
        parameter = self._named[name]
        return cut_like(value, parameter) if value.shape == parameter.shape else value


def _adamw(
    named: dict[str, nn.Parameter], config: OptimiserConfig
) -> tuple[torch.optim.Optimizer, list[str]]:
    matrices = [name for name, parameter in named.items() if parameter.dim() >= 2]
    vectors = [name for name, parameter in named.items() if parameter.dim() < 2]
    groups = [
        {"params": [named[name] for name in matrices], "weight_decay": config.weight_decay},
        {"params": [named[name] for name in vectors], "weight_decay": 0.0},
    ]
    part = torch.optim.AdamW(
        [group for group in groups if group["params"]],
        lr=config.lr,
        betas=(config.beta1, config.beta2),
        eps=config.eps,
        fused=True,
    )
    return part, [*matrices, *vectors]
