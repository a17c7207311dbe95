"""The optimiser (AdamW, or Muon for matrices), the learning-rate schedule, and the EMA.

Weight decay applies to matrices and embeddings, not to vectors (norms, biases). Muon takes the
linear maps inside the blocks, AdamW everything else. The learning rate is a share of its peak, a
pure function of the step number.

Muon is momentum whose update of a matrix has all singular values near 1 (Jordan et al. 2024):

    M ← μ M + G;   U = NewtonSchulz(G + μ M);   W ← W − lr · √max(1, rows/columns) · U

torch.optim.Muon treats matrices one by one and multiplies in bfloat16 everywhere. Here matrices of
one shape go through one batched product, for speed on GPUs, and CPUs, our reference, compute in
float32.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from glassformer.errors import ConfigError, TrainingError
from glassformer.training.processes import gathered, local_shard, shard_like
from glassformer.training.run_config import OptimiserConfig, ScheduleConfig


def learning_rate_share(config: ScheduleConfig, step: int, total: int) -> float:
    """The learning rate of step `step` (counted from 0) of `total`, as a share of its peak.

    The warm-up is linear and ends at the peak; it begins above 0, so that the first step already
    moves the parameters.
    noam is √warmup / √(step + 1) after the warm-up: the curve of section 5.3 of the 2017 paper,
    scaled so that its peak is 1 whatever the width of the model.
    """
    number = step + 1
    if number <= config.warmup:
        return number / config.warmup
    if config.kind == "constant":
        return 1.0
    if config.kind == "noam":
        return math.sqrt(max(config.warmup, 1) / number)
    progress = min(1.0, (number - config.warmup) / max(1, total - config.warmup))
    curve = 1 - progress if config.kind == "linear" else (1 + math.cos(math.pi * progress)) / 2
    # The last step still moves a little: at progress 1 both curves would be 0.
    return max(config.floor + (1 - config.floor) * curve, 1 / (total + 1))


class Optimiser:
    """One or two optimisers that step together.

    With `keeps_gradients`, gradients are zeroed in place: a recorded backward pass adds to the same
    memory each time.
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

    def clip(self) -> Tensor:
        """Clip the gradient norm to `config.clip`; returns the norm before."""
        limit = self.config.clip or float("inf")
        return gathered(nn.utils.clip_grad_norm_(self.parameters, limit))

    def step(self, share: float) -> None:
        """Take a step with a share of the peak learning rate."""
        for kind, (part, _) in self._parts.items():
            # Looked up each time: loading a state replaces the groups.
            for group in part.param_groups:
                group["lr"] = self._peaks[kind] * share
            part.step()

    def zero_grad(self) -> None:
        if self.keeps_gradients:
            torch._foreach_zero_([p.grad for p in self.parameters if p.grad is not None])
            return
        for part, _ in self._parts.values():
            part.zero_grad(set_to_none=True)

    def tensors(self) -> dict[str, Tensor]:
        """The state as named tensors: `adamw.encoder….exp_avg`."""
        return {
            f"{kind}.{names[index]}.{key}": value
            for kind, (part, names) in self._parts.items()
            for index, entry in part.state_dict()["state"].items()
            for key, value in entry.items()
        }

    def load(self, tensors: dict[str, Tensor]) -> None:
        """Load a state that `tensors` returned."""
        for kind, (part, names) in self._parts.items():
            state: dict[int, dict[str, Any]] = {}
            for index, name in enumerate(names):
                prefix = f"{kind}.{name}."
                entry = {
                    key.removeprefix(prefix): self._sharded(value, name)
                    for key, value in tensors.items()
                    if key.startswith(prefix)
                }
                if entry:
                    state[index] = entry
            groups = part.state_dict()["param_groups"]
            part.load_state_dict({"state": state, "param_groups": groups})
            if tensors and len(state) != len(names):
                raise TrainingError(
                    "the checkpoint has {n_state} parameters for {kind}, expected {n_names}; it "
                    "belongs to another model or optimiser",
                    n_state=len(state),
                    kind=kind,
                    n_names=len(names),
                )

    def _sharded(self, value: Tensor, name: str) -> Tensor:
        """A parameter's state, sharded like the parameter; the step count is a scalar."""
        parameter = self._named[name]
        return shard_like(value, parameter) if value.shape == parameter.shape else value


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


NoteTensor = Callable[[str, Tensor], Tensor]
"""Names a result for a reader and returns it."""


def orthogonalise(matrices: Tensor, note: NoteTensor = lambda _name, result: result) -> Tensor:
    """Move the singular values of matrices (N, R, C) to between about 0.7 and 1.2.

    An odd polynomial of X applied five times: a·X + (b·XXᵀ + c·(XXᵀ)²)·X. The coefficients are
    Jordan's; they make small singular values grow fastest.
    """
    a, b, c = 3.4445, -4.7750, 2.0315
    x: Tensor = matrices.bfloat16() if matrices.is_cuda else matrices.float()
    tall = x.size(-2) > x.size(-1)
    x = x.mT if tall else x
    norm = note("norm", x.norm(dim=(-2, -1), keepdim=True))
    size = note("norm_and_epsilon", norm + 1e-7)
    x = note("normalised", x / size)
    for turn in range(1, 6):
        gram = note(f"gram_{turn}", x @ x.mT)
        squared = note(f"gram_squared_{turn}", gram @ gram)
        polynomial = note(f"polynomial_{turn}", b * gram + c * squared)
        x = note(f"iterate_{turn}", a * x + polynomial @ x)
    orthogonal: Tensor = (x.mT if tall else x).to(matrices.dtype)
    return orthogonal


class Muon(torch.optim.Optimizer):
    """Only for matrices inside the blocks: no embeddings, no output map, no vectors.

    `written_update` is the same step for one matrix, with a name for each result: the trace of a
    training step shows it, after comparing it with what `step` did.
    """

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

    def first_state(self, parameter: Tensor) -> dict[str, Tensor]:
        return {"momentum": torch.zeros_like(parameter)}

    def written_update(
        self,
        note: NoteTensor,
        weight: Tensor,
        gradient: Tensor,
        state: Mapping[str, Tensor],
        settings: Mapping[str, Any],
    ) -> Tensor:
        faded = note("faded_momentum", state["momentum"] * settings["momentum"])
        momentum = note("momentum", faded + gradient)
        direction = torch.add(gradient, momentum, alpha=settings["momentum"])
        ahead = note("direction", direction).unsqueeze(0)
        orthogonal = note("orthogonal", orthogonalise(ahead, note=note)[0])
        decayed = note("decayed_weight", weight * (1 - settings["lr"] * settings["weight_decay"]))
        return torch.add(decayed, orthogonal, alpha=-settings["lr"] * _scale(weight.shape))

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> None:  # type: ignore[override]  # no loss
        assert closure is None, "gradients are computed before the step"
        for group in self.param_groups:
            by_shape: dict[tuple[int, ...], list[Tensor]] = defaultdict(list)
            for parameter in group["params"]:
                if parameter.grad is not None:
                    by_shape[tuple(parameter.shape)].append(parameter)
            for parameters in by_shape.values():
                self._update(parameters, group)

    def _update(self, parameters: list[Tensor], group: dict[str, Any]) -> None:
        gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
        for parameter in parameters:
            if not self.state[parameter]:
                self.state[parameter].update(self.first_state(parameter))
        momenta = [self.state[parameter]["momentum"] for parameter in parameters]
        torch._foreach_mul_(momenta, group["momentum"])
        torch._foreach_add_(momenta, gradients)
        ahead = torch._foreach_add(gradients, momenta, alpha=group["momentum"])
        directions = orthogonalise(torch.stack(ahead)).unbind()
        torch._foreach_mul_(parameters, 1 - group["lr"] * group["weight_decay"])
        scale = _scale(parameters[0].shape)
        torch._foreach_add_(parameters, directions, alpha=-group["lr"] * scale)


def _scale(shape: Sequence[int]) -> float:
    """√max(1, rows/columns)."""
    rows, columns = shape
    return math.sqrt(max(1.0, rows / columns))


class EMA:
    """An exponential moving average of the weights: less noisy than they are, and better.

    The decay is min(decay, (1 + n) / (10 + n)) after n steps, so that the random initial weights
    are soon forgotten.
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        self._names = [name for name, _ in model.named_parameters()]
        parameters = [parameter.detach() for _, parameter in model.named_parameters()]
        self._sharded_average = [parameter.clone() for parameter in parameters]
        # Of sharded parameters, this process's shards.
        self._parameters = [local_shard(parameter) for parameter in parameters]
        self._average = [local_shard(average) for average in self._sharded_average]

    @torch.no_grad()
    def update(self, n_steps: int) -> None:
        decay = min(self.decay, (1 + n_steps) / (10 + n_steps))
        torch._foreach_lerp_(self._average, self._parameters, 1 - decay)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Inside this block, the model has the averaged weights."""
        self._swap()
        try:
            yield
        finally:
            self._swap()

    def tensors(self) -> dict[str, Tensor]:
        return dict(zip(self._names, self._sharded_average, strict=True))

    @torch.no_grad()
    def load(self, tensors: dict[str, Tensor]) -> None:
        for name, average in zip(self._names, self._sharded_average, strict=True):
            average.copy_(shard_like(tensors[name], average))

    @torch.no_grad()
    def _swap(self) -> None:
        kept = [parameter.clone() for parameter in self._parameters]
        torch._foreach_copy_(self._parameters, self._average)
        torch._foreach_copy_(self._average, kept)
