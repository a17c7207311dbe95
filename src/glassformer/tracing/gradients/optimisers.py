"""The optimiser's update, with one operator per named step: why a weight changed.

SGD, Adam, AdamW, RMSprop, Adagrad, Adafactor and Muon as `torch.optim` computes them on the CPU,
operator by operator, so that the numbers are bitwise equal (Adafactor's up to rounding). Another
optimiser, such as the Muon of our recipes, can write out its own update (`WrittenOut`). An update
takes a parameter, its gradient and its optimiser state, and returns the new weight; `note` names a
result. The state is read from the optimiser and never written: the actual optimiser makes the same
step afterwards, and the two are compared.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor
from torch.optim import SGD, Adafactor, Adagrad, Adam, AdamW, Muon, Optimizer, RMSprop

from glassformer.errors import TraceError
from glassformer.tracing.capture.recorder import Source
from glassformer.tracing.gradients.backward import Scribe, Title, TrainingRecorder

NoteTensor = Callable[[str, Tensor], Tensor]
OptimiserState = Mapping[str, Tensor]
"""The optimiser state of one parameter, under the names used here."""
Settings = Mapping[str, Any]
NamedTensors = dict[str, Tensor]
"""What all parameters of a group share in one step: float64 numbers, as in torch."""


@dataclass(frozen=True, slots=True)
class ParameterUpdate:
    """A parameter about to be updated, with everything that its update reads."""

    note: NoteTensor
    weight: Tensor
    gradient: Tensor
    state: OptimiserState
    settings: Settings
    numbers: NamedTensors


@dataclass(frozen=True, slots=True)
class UpdateRule:
    """The written-out form of an optimiser."""

    update: Callable[[ParameterUpdate], Tensor]
    remembers: Mapping[str, str] | None
    """torch's names for the state, by the names used here; None if these are the same."""
    start: Callable[[Tensor, Settings], dict[str, Tensor]]
    """The state of a parameter before its first step."""
    schedule: Callable[[NoteTensor, Tensor, Tensor, Settings], NamedTensors] | None = None
    """The group's numbers, from the learning rate and the step number."""
    rescales: bool = True
    """Whether the size of a step does not depend on that of the gradient."""


@runtime_checkable
class WrittenOut(Protocol):
    """An optimiser that writes out its own update, so that its steps can be traced."""

    def first_state(self, parameter: Tensor) -> dict[str, Tensor]:
        """The state of a parameter before its first step, under the names of `state`."""

    def written_update(
        self,
        note: NoteTensor,
        weight: Tensor,
        gradient: Tensor,
        state: OptimiserState,
        settings: Settings,
    ) -> Tensor:
        """The new weight, by operators that change none of these tensors; `note` names results."""


def method_of(optimiser: Optimizer) -> UpdateRule:
    """The written-out form of an optimiser; raises an error if there is none."""
    kind = type(optimiser)
    method = _METHODS.get(kind)
    if method is None and isinstance(optimiser, WrittenOut):
        method = _declared(optimiser)
    if method is None:
        known = [known.__name__ for known in _METHODS]
        raise TraceError(
            "updates by {name} cannot be traced; use torch.optim.{known} or {last}, or give it "
            "the methods first_state and written_update (docs/trace.md)",
            name=kind.__name__,
            known=", ".join(known[:-1]),
            last=known[-1],
        )
    for group in optimiser.param_groups:
        if kind is Adafactor and any(parameter.is_complex() for parameter in group["params"]):
            raise TraceError("Adafactor cannot update complex parameters")
        for option in ("differentiable", "capturable"):
            if group.get(option):
                raise TraceError("an optimiser with {option}=True cannot be traced", option=option)
    return method


def _declared(optimiser: WrittenOut) -> UpdateRule:
    """The form that an optimiser itself declares; its state keeps its names."""

    def update(p: ParameterUpdate) -> Tensor:
        new = optimiser.written_update(p.note, p.weight, p.gradient, p.state, p.settings)
        return p.note("weight", new)

    return UpdateRule(update, None, lambda parameter, _: optimiser.first_state(parameter))


# --- SGD ---


def _sgd(p: ParameterUpdate) -> Tensor:
    """w − lr · d, where d is the gradient or, with momentum, a decaying sum of gradients."""
    direction = _with_decay(p, _downhill(p))
    momentum, dampening = float(p.settings["momentum"]), float(p.settings["dampening"])
    if momentum:
        if "velocity" in p.state:
            faded = p.note("faded_velocity", p.state["velocity"] * momentum)
            velocity = p.note("velocity", torch.add(faded, direction, alpha=1 - dampening))
        else:
            velocity = p.note("velocity", direction.clone())
        direction = (
            p.note("direction", torch.add(direction, velocity, alpha=momentum))
            if p.settings["nesterov"]
            else velocity
        )
    return p.note("weight", torch.sub(p.weight, direction, alpha=float(p.settings["lr"])))


# --- Adam, AdamW ---


def _adam(p: ParameterUpdate) -> Tensor:
    """w − lr · m̂ / (√v̂ + ε), where m̂ and v̂ are the bias-corrected moments.

    AdamW shrinks the weight first; Adam adds the decay to the gradient (L2). With amsgrad, the
    largest v so far replaces v.
    """
    beta1, beta2 = (float(beta) for beta in p.settings["betas"])
    weight, gradient = p.weight, _downhill(p)
    if "share_kept" in p.numbers:
        weight = p.note("decayed_weight", weight * _like(weight, p.numbers["share_kept"]))
    else:
        gradient = _with_decay(p, gradient)
    first = p.note("first_moment", torch.lerp(p.state["first_moment"], gradient, 1 - beta1))
    second = _second_moment(p, gradient, beta2)
    if p.settings["amsgrad"]:
        largest = torch.maximum(p.state["largest_second_moment"], second)
        second = p.note("largest_second_moment", largest)
    deviation = p.note("deviation", second.sqrt())
    root = p.numbers["root_of_bias_correction_2"]
    corrected = p.note("corrected_deviation", deviation / _like(weight, root))
    divisor = p.note("divisor", corrected + float(p.settings["eps"]))
    scaled = p.note("scaled_moment", first * _like(weight, p.numbers["step_size"]))
    change = p.note("change", scaled / divisor)
    return p.note("weight", weight - change)


def _adam_numbers(note: NoteTensor, rate: Tensor, step: Tensor, settings: Settings) -> NamedTensors:
    """The bias corrections and the step size of Adam's `step`-th step."""
    beta1, beta2 = (float(beta) for beta in settings["betas"])
    faded_first = note("beta_1_to_the_step", torch.pow(beta1, step))
    first = note("bias_correction_1", torch.rsub(faded_first, 1))
    faded_second = note("beta_2_to_the_step", torch.pow(beta2, step))
    second = note("bias_correction_2", torch.rsub(faded_second, 1))
    numbers = {
        "step_size": note("step_size", rate / first),
        "root_of_bias_correction_2": note("root_of_bias_correction_2", second.sqrt()),
    }
    decoupled = settings.get("decoupled_weight_decay")
    return numbers | (_share_kept(note, rate, settings) if decoupled else {})


# --- RMSprop ---


def _rmsprop(p: ParameterUpdate) -> Tensor:
    """w − lr · g / (√v + ε), where v is the mean of g² or, if centred, the variance."""
    alpha, momentum = float(p.settings["alpha"]), float(p.settings["momentum"])
    rate = float(p.settings["lr"])
    gradient = _with_decay(p, _downhill(p))
    second = _second_moment(p, gradient, alpha)
    if p.settings["centered"]:
        first = p.note("first_moment", torch.lerp(p.state["first_moment"], gradient, 1 - alpha))
        second = p.note("variance", torch.addcmul(second, first, first, value=-1))
    deviation = p.note("deviation", second.sqrt())
    divisor = p.note("divisor", deviation + float(p.settings["eps"]))
    if momentum > 0:
        faded = p.note("faded_velocity", p.state["velocity"] * momentum)
        scaled = p.note("scaled_gradient", gradient / divisor)
        velocity = p.note("velocity", faded + scaled)
        return p.note("weight", torch.sub(p.weight, velocity, alpha=rate))
    scaled = p.note("scaled_gradient", gradient * rate)
    change = p.note("change", scaled / divisor)
    return p.note("weight", p.weight - change)


# --- Adagrad ---


def _adagrad(p: ParameterUpdate) -> Tensor:
    """w − lr · g / (√Σ g² + ε), summed over all steps so far."""
    gradient = _with_decay(p, _downhill(p))
    squares = p.note("sum_of_squares", torch.addcmul(p.state["sum_of_squares"], gradient, gradient))
    deviation = p.note("deviation", squares.sqrt())
    divisor = p.note("divisor", deviation + float(p.settings["eps"]))
    scaled = p.note("scaled_gradient", gradient * _like(p.weight, p.numbers["step_size"]))
    change = p.note("change", scaled / divisor)
    return p.note("weight", p.weight - change)


def _adagrad_numbers(
    note: NoteTensor, rate: Tensor, step: Tensor, settings: Settings
) -> NamedTensors:
    """lr / (1 + lr_decay · earlier steps)."""
    earlier = note("earlier_steps", step - 1)
    slower = note("slowing", earlier * float(settings["lr_decay"]) + 1)
    return {"step_size": note("step_size", rate / slower)}


# --- Adafactor ---


def _adafactor(p: ParameterUpdate) -> Tensor:
    """w − α · u / max(1, RMS(u)/d), u = g / √v; for a matrix, v = row means · column means / mean.

    α is the learning rate (at most 1/√step) times the RMS of the weight.
    """
    smallest, least = p.settings["eps"]
    weight, gradient = p.weight, _downhill(p)
    smallest = torch.finfo(weight.dtype).eps if smallest is None else float(smallest)
    rate = p.note("step_size", _rms(p, "weight", weight).clamp(min=least) * p.numbers["rate"])
    if "share_kept" in p.numbers:
        weight = p.note("decayed_weight", weight * _like(weight, p.numbers["share_kept"]))
    variance = _adafactor_variance(p, gradient, smallest)
    deviation = p.note("reciprocal_deviation", variance.clamp(min=smallest**2).rsqrt())
    update = p.note("scaled_gradient", deviation * gradient)
    excess = p.note("excess", _rms(p, "update", update) / float(p.settings["d"]))
    clipped = p.note("clipped_step_size", rate / excess.clamp(min=1.0))
    change = p.note("change", update * _like(weight, clipped))
    return p.note("weight", weight - change)


def _adafactor_variance(p: ParameterUpdate, gradient: Tensor, smallest: float) -> Tensor:
    """The running mean of g²; for a matrix, from its row and column means."""
    share = p.numbers["share_of_new"].to(gradient.dtype)
    if gradient.ndim < 2:
        squares = p.note("squared_gradient", gradient * gradient)
        return p.note("variance", torch.lerp(p.state["variance"], squares, share))
    means = {}
    for name, axis in (("row_variance", -1), ("column_variance", -2)):
        norms = torch.linalg.vector_norm(gradient, dim=axis, keepdim=True)
        fresh = p.note(f"new_{name}", norms.square() / gradient.size(axis))
        means[name] = p.note(name, torch.lerp(p.state[name], fresh, share))
    product = p.note("product", means["row_variance"] @ means["column_variance"])
    mean = p.note("mean_variance", means["row_variance"].mean(dim=-2, keepdim=True))
    return p.note("variance", product / mean.clamp(min=smallest))


def _rms(p: ParameterUpdate, name: str, x: Tensor) -> Tensor:
    """The root mean square, in float64 as in torch."""
    norm = p.note(f"{name}_norm", torch.linalg.vector_norm(x))
    return p.note(f"{name}_rms", norm.double() / math.sqrt(x.numel()))


def _adafactor_numbers(
    note: NoteTensor, rate: Tensor, step: Tensor, settings: Settings
) -> NamedTensors:
    limit = note("largest_rate", step.rsqrt())
    return {
        "rate": note("rate", torch.minimum(rate, limit)),
        "share_of_new": note("share_of_new", step ** float(settings["beta2_decay"])),
    } | _share_kept(note, rate, settings)


def _adafactor_start(parameter: Tensor, _: Settings) -> dict[str, Tensor]:
    if parameter.ndim < 2:
        return {"variance": torch.zeros_like(parameter)}
    *batch, rows, columns = parameter.shape
    return {
        "row_variance": parameter.new_zeros([*batch, rows, 1]),
        "column_variance": parameter.new_zeros([*batch, 1, columns]),
    }


# --- Muon ---


def _muon(p: ParameterUpdate) -> Tensor:
    """w − lr · NewtonSchulz(direction): the momentum with singular values pushed towards 1."""
    rate, momentum = float(p.settings["lr"]), float(p.settings["momentum"])
    velocity = p.note("velocity", torch.lerp(p.state["velocity"], p.gradient, 1 - momentum))
    direction = velocity
    if p.settings["nesterov"]:
        direction = p.note("direction", torch.lerp(p.gradient, velocity, momentum))
    matrix = p.note("rounded_direction", direction.bfloat16())
    tall = matrix.size(0) > matrix.size(1)
    matrix = matrix.T if tall else matrix
    norm = p.note("norm", matrix.norm())
    matrix = p.note("normalised", matrix / norm.clamp(min=float(p.settings["eps"])))
    a, b, c = (float(factor) for factor in p.settings["ns_coefficients"])
    for turn in range(1, int(p.settings["ns_steps"]) + 1):
        gram = p.note(f"gram_{turn}", matrix @ matrix.T)
        polynomial = p.note(f"polynomial_{turn}", torch.addmm(gram, gram, gram, beta=b, alpha=c))
        matrix = p.note(f"iterate_{turn}", torch.addmm(matrix, polynomial, matrix, beta=a))
    orthogonal = p.note("orthogonal", matrix.T if tall else matrix)
    rows, columns = p.weight.shape
    factor = {
        None: math.sqrt(max(1, rows / columns)),
        "original": math.sqrt(max(1, rows / columns)),
        "match_rms_adamw": 0.2 * math.sqrt(max(rows, columns)),
    }[p.settings["adjust_lr_fn"]]
    decayed = p.note("decayed_weight", p.weight * (1 - rate * float(p.settings["weight_decay"])))
    return p.note("weight", torch.sub(decayed, orthogonal, alpha=rate * factor))


# --- shared ---


def _downhill(p: ParameterUpdate) -> Tensor:
    """The gradient, negated if the loss is maximised."""
    return p.note("turned_gradient", -p.gradient) if p.settings.get("maximize") else p.gradient


def _with_decay(p: ParameterUpdate, gradient: Tensor) -> Tensor:
    """The gradient with that of an L2 penalty added."""
    decay = float(p.settings["weight_decay"])
    if not decay:
        return gradient
    return p.note("gradient_with_decay", torch.add(gradient, p.weight, alpha=decay))


def _second_moment(p: ParameterUpdate, gradient: Tensor, beta: float) -> Tensor:
    """The running mean of g²."""
    faded = p.note("faded_second_moment", p.state["second_moment"] * beta)
    return p.note("second_moment", torch.addcmul(faded, gradient, gradient, value=1 - beta))


def _share_kept(note: NoteTensor, rate: Tensor, settings: Settings) -> NamedTensors:
    """1 − learning rate · weight decay, for decoupled weight decay."""
    if not settings["weight_decay"]:
        return {}
    lost = note("share_lost", rate * float(settings["weight_decay"]))
    return {"share_kept": note("share_kept", torch.rsub(lost, 1))}


def _like(weight: Tensor, number: Tensor) -> Tensor:
    """A float64 number in a form that does not promote a weight without axes."""
    return number if weight.ndim else number.to(weight.dtype)


def _zeros(*names: str, **optional: str) -> Callable[[Tensor, Settings], dict[str, Tensor]]:
    """A state of zeros; the optional names only with their setting."""

    def start(parameter: Tensor, settings: Settings) -> dict[str, Tensor]:
        extra = (name for name, setting in optional.items() if settings[setting])
        return {name: torch.zeros_like(parameter) for name in (*names, *extra)}

    return start


def _adagrad_start(parameter: Tensor, settings: Settings) -> dict[str, Tensor]:
    begin = float(settings["initial_accumulator_value"])
    return {"sum_of_squares": torch.full_like(parameter, begin)}


_MOMENTUM = {"velocity": "momentum_buffer"}
_ADAM = UpdateRule(
    _adam,
    {
        "first_moment": "exp_avg",
        "second_moment": "exp_avg_sq",
        "largest_second_moment": "max_exp_avg_sq",
    },
    _zeros("first_moment", "second_moment", largest_second_moment="amsgrad"),
    _adam_numbers,
)
_METHODS: dict[type[Optimizer], UpdateRule] = {
    SGD: UpdateRule(_sgd, _MOMENTUM, _zeros(), rescales=False),
    Adam: _ADAM,
    AdamW: _ADAM,
    RMSprop: UpdateRule(
        _rmsprop,
        {"second_moment": "square_avg", "first_moment": "grad_avg", **_MOMENTUM},
        _zeros("second_moment", first_moment="centered", velocity="momentum"),
    ),
    Adagrad: UpdateRule(_adagrad, {"sum_of_squares": "sum"}, _adagrad_start, _adagrad_numbers),
    Adafactor: UpdateRule(
        _adafactor,
        {"row_variance": "row_var", "column_variance": "col_var", "variance": "variance"},
        _adafactor_start,
        _adafactor_numbers,
    ),
    Muon: UpdateRule(_muon, _MOMENTUM, _zeros("velocity")),
}


# --- the step of all parameters ---


class Updates:
    """The updates of all parameters of an optimiser, under a recorder."""

    def __init__(
        self, recorder: TrainingRecorder, optimiser: Optimizer, names: dict[int, str]
    ) -> None:
        self._recorder = recorder
        self._optimiser = optimiser
        self._names = names
        self.method = method_of(optimiser)
        self.sources: list[Source] = []
        """The optimiser's state and settings."""
        self._states: dict[int, dict[str, Tensor]] = {}
        self._steps: dict[int, float] = {}
        """The number of the current step of a parameter."""
        self._given: dict[tuple[int, float], tuple[Tensor, Tensor]] = {}
        """The learning rate and the step number, by group and step number."""
        for number, group in enumerate(optimiser.param_groups):
            for parameter in group["params"]:
                self._read(number, group, parameter)

    def _read(self, number: int, group: dict[str, Any], parameter: Tensor) -> None:
        """Register the state and the settings of a parameter with the recorder."""
        state = {
            ours: self._adopt(f"state.{self._names[id(parameter)]}.{ours}", tensor)
            for ours, tensor in self._remembered(parameter, group).items()
        }
        self._states[id(parameter)] = state
        step = float(self._optimiser.state.get(parameter, {}).get("step", 0)) + 1
        self._steps[id(parameter)] = step
        if self.method.schedule is not None and (number, step) not in self._given:
            place = _place(number)
            self._given[number, step] = (
                self._adopt(f"{place}.learning_rate", _double(group["lr"])),
                self._adopt(f"{place}.step", _double(step)),
            )

    def _adopt(self, name: str, tensor: Tensor) -> Tensor:
        self.sources.append(Source(name, self._recorder.adopt(tensor), "constant"))
        return tensor

    def _remembered(self, parameter: Tensor, group: dict[str, Any]) -> dict[str, Tensor]:
        """A copy of the optimiser's state for a parameter, or its initial state."""
        state = self._optimiser.state.get(parameter, {})
        names = self.method.remembers
        if names is None:
            names = {name: name for name, value in state.items() if isinstance(value, Tensor)}
        found = {
            ours: state[theirs].detach().clone()
            for ours, theirs in names.items()
            if state.get(theirs) is not None
        }
        return found or self.method.start(parameter.detach(), group)

    def run(self, scribe: Scribe, gradients: dict[str, Tensor]) -> dict[str, Tensor]:
        """The new weight of each parameter that has a gradient, by name."""
        new: dict[str, Tensor] = {}
        shared: dict[tuple[int, float], NamedTensors] = {}
        for number, group in enumerate(self._optimiser.param_groups):
            for parameter in group["params"]:
                name, key = self._names[id(parameter)], (number, self._steps[id(parameter)])
                if name not in gradients:
                    continue
                if self.method.schedule is not None and key not in shared:
                    note = _notes(scribe, _place(number))
                    shared[key] = self.method.schedule(note, *self._given[key], group)
                new[name] = self._update(
                    _notes(scribe, f"update.{name}"), parameter, gradients[name], group,
                    shared.get(key, {}),
                )  # fmt: skip
        return new

    def _update(
        self,
        note: NoteTensor,
        parameter: Tensor,
        gradient: Tensor,
        group: dict[str, Any],
        shared: NamedTensors,
    ) -> Tensor:
        weight = self._recorder.tensor_of(self._recorder.view_of(parameter))
        state = self._states[id(parameter)]
        if weight.is_complex() and self.method.remembers is not None:
            # As in torch, real and imaginary parts are numbers of their own, as in the gradient.
            weight = torch.view_as_real(weight)
            state = {name: torch.view_as_real(kept) for name, kept in state.items()}
        return self.method.update(ParameterUpdate(note, weight, gradient, state, group, shared))


def _double(number: object) -> Tensor:
    return torch.tensor(float(number), dtype=torch.float64)  # type: ignore[arg-type]


def _place(number: int) -> str:
    return "update" if number == 0 else f"update.group_{number}"


def _notes(scribe: Scribe, owner: str) -> NoteTensor:
    """A function that names the results of one update."""
    return lambda name, tensor: scribe.claim(tensor, Title(f"{owner}.{name}", owner))
