"""The update, written out: why a weight moved, one operator a named step.

SGD, Adam and AdamW as `torch.optim` computes them on the CPU, operator for operator, so that the
numbers agree to the bit. Each function gets one parameter with its gradient and what the
optimiser remembers of it, and returns the new weight; `note` gives a result its name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.optim import SGD, Adam, AdamW, Optimizer

from glassformer.errors import TraceError

__all__ = ["Note", "Schedule", "State", "Update", "adam_schedule", "find_update", "remembered"]

Note = Callable[[str, Tensor], Tensor]
State = Mapping[str, Tensor]
"""What an optimiser remembers of one parameter, under the names used here."""
Settings = Mapping[str, Any]

# What torch calls what is remembered, by the name used here.
_MOMENTS = {"first_moment": "exp_avg", "second_moment": "exp_avg_sq"}
_MOMENTUM = {"velocity": "momentum_buffer"}


@dataclass(frozen=True, slots=True)
class Schedule:
    """The numbers that all parameters of a group share in one step, as tensors."""

    decay: Tensor | None = None
    """1 − learning rate · weight decay, where weights decay by themselves (AdamW)."""
    step_size: Tensor | None = None
    """Learning rate / first bias correction."""
    root: Tensor | None = None
    """√ of the second bias correction."""


Update = Callable[[Note, Tensor, Tensor, State, Settings, Schedule], Tensor]


def find_update(optimiser: Optimizer) -> Update:
    """The written-out update of an optimiser; refuses what is not written out."""
    kinds: dict[type[Optimizer], Update] = {SGD: sgd, Adam: adam, AdamW: adam}
    update = kinds.get(type(optimiser))
    if update is None:
        raise TraceError(
            f"the update of {type(optimiser).__name__} is not written out; "
            "trace a step of torch.optim.SGD, Adam or AdamW"
        )
    for group in optimiser.param_groups:
        for option in ("amsgrad", "maximize", "differentiable", "capturable"):
            if group.get(option):
                raise TraceError(f"an optimiser with {option}=True is not written out")
    return update


def remembered(optimiser: Optimizer) -> dict[str, str]:
    """The names of what the optimiser remembers: ours, and those in `optimiser.state`."""
    return _MOMENTUM if isinstance(optimiser, SGD) else _MOMENTS


def sgd(
    note: Note, weight: Tensor, gradient: Tensor, state: State, settings: Settings, _: Schedule
) -> Tensor:
    """w − lr · d, where d is the gradient or, with momentum, a running sum of gradients."""
    direction = _with_decay(note, weight, gradient, settings)
    momentum, dampening = float(settings["momentum"]), float(settings["dampening"])
    if momentum:
        if "velocity" in state:
            faded = note("faded_velocity", state["velocity"] * momentum)
            velocity = note("velocity", torch.add(faded, direction, alpha=1 - dampening))
        else:
            velocity = note("velocity", direction.clone())
        direction = (
            note("direction", torch.add(direction, velocity, alpha=momentum))
            if settings["nesterov"]
            else velocity
        )
    return note("weight", torch.sub(weight, direction, alpha=float(settings["lr"])))


def adam(
    note: Note,
    weight: Tensor,
    gradient: Tensor,
    state: State,
    settings: Settings,
    schedule: Schedule,
) -> Tensor:
    """w − lr · m̂ / (√v̂ + ε), m̂ and v̂ being the moments over their bias corrections.

    AdamW shrinks the weight first; Adam adds the decay to the gradient (L2).
    """
    beta1, beta2 = (float(beta) for beta in settings["betas"])
    assert schedule.step_size is not None and schedule.root is not None
    if schedule.decay is not None:
        weight = note("decayed_weight", weight * _like(weight, schedule.decay))
    else:
        gradient = _with_decay(note, weight, gradient, settings)
    first = note("first_moment", torch.lerp(state["first_moment"], gradient, 1 - beta1))
    faded = note("faded_second_moment", state["second_moment"] * beta2)
    second = note("second_moment", torch.addcmul(faded, gradient, gradient, value=1 - beta2))
    deviation = note("deviation", second.sqrt())
    corrected = note("corrected_deviation", deviation / _like(weight, schedule.root))
    divisor = note("divisor", corrected + float(settings["eps"]))
    scaled = note("scaled_moment", first * _like(weight, schedule.step_size))
    change = note("change", scaled / divisor)
    return note("weight", weight - change)


def adam_schedule(note: Note, rate: Tensor, step: Tensor, settings: Settings) -> Schedule:
    """The bias corrections and the step size of Adam's `step`-th step, in float64 as torch has."""
    beta1, beta2 = (float(beta) for beta in settings["betas"])
    faded_first = note("beta_1_to_the_step", torch.pow(beta1, step))
    first = note("bias_correction_1", torch.rsub(faded_first, 1))
    faded_second = note("beta_2_to_the_step", torch.pow(beta2, step))
    second = note("bias_correction_2", torch.rsub(faded_second, 1))
    step_size = note("step_size", rate / first)
    root = note("root_of_bias_correction_2", second.sqrt())
    decay = None
    if settings.get("decoupled_weight_decay") and settings["weight_decay"]:
        shrunk = note("share_lost", rate * float(settings["weight_decay"]))
        decay = note("share_kept", torch.rsub(shrunk, 1))
    return Schedule(decay, step_size, root)


def _with_decay(note: Note, weight: Tensor, gradient: Tensor, settings: Settings) -> Tensor:
    """The gradient with the pull of an L2 penalty towards 0."""
    decay = float(settings["weight_decay"])
    if not decay:
        return gradient
    return note("gradient_with_decay", torch.add(gradient, weight, alpha=decay))


def _like(weight: Tensor, number: Tensor) -> Tensor:
    """A float64 number beside a weight; a weight without axes would be promoted by it."""
    return number if weight.ndim else number.to(weight.dtype)
