"""The update, written out: why a weight moved, one operator per named step.

SGD, Adam, AdamW, RMSprop, Adagrad, Adafactor and Muon as `torch.optim` computes them on the CPU,
operator for operator, so that the numbers agree to the bit (Adafactor's to rounding); and the Muon
of our own recipes. An update gets one parameter with its gradient and what the optimiser remembers
of it, and returns the new weight; `note` gives a result its name. What the optimiser remembers is
read from it and never written: the real optimiser makes the same step afterwards.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.optim import SGD, Adafactor, Adagrad, Adam, AdamW, Muon, Optimizer, RMSprop

from glassformer.errors import TraceError
from glassformer.tracing.capture.recorder import Source
from glassformer.tracing.gradients.backward import Scribe, TrainingRecorder

Note = Callable[[str, Tensor], Tensor]
State = Mapping[str, Tensor]
"""What an optimiser remembers of one parameter, under the names used here."""
Settings = Mapping[str, Any]
Numbers = dict[str, Tensor]
"""What all parameters of a group share in one step: float64 numbers, as torch computes them."""
Update = Callable[[Note, Tensor, Tensor, State, Settings, Numbers], Tensor]


@dataclass(frozen=True, slots=True)
class Method:
    """An optimiser, written out."""

    update: Update
    remembers: Mapping[str, str]
    """What torch calls what is remembered, by the name used here."""
    start: Callable[[Tensor, Settings], dict[str, Tensor]]
    """What is remembered of a parameter before its first step."""
    schedule: Callable[[Note, Tensor, Tensor, Settings], Numbers] | None = None
    """The group's numbers, from the learning rate and the number of the step."""
    rescales: bool = True
    """Whether steps keep their size however small the gradient is."""


def method_of(optimiser: Optimizer) -> Method:
    """The written-out form of an optimiser; refuses what is not written out."""
    kind = type(optimiser)
    method = _METHODS.get(kind) or (_BATCHED_MUON if _is_batched_muon(optimiser) else None)
    if method is None:
        known = [known.__name__ for known in _METHODS]
        raise TraceError(
            f"the update of {kind.__name__} is not written out; "
            f"trace a step of torch.optim.{', '.join(known[:-1])} or {known[-1]}"
        )
    for group in optimiser.param_groups:
        for option in ("differentiable", "capturable"):
            if group.get(option):
                raise TraceError(f"an optimiser with {option}=True is not written out")
    return method


def _is_batched_muon(optimiser: Optimizer) -> bool:
    """Whether this is the Muon of our recipes, by its settings: `trace` does not import `training`.

    Another one of that name would be found out when its weights are compared.
    """
    settings = {"params", "lr", "momentum", "weight_decay"}
    groups = optimiser.param_groups
    return type(optimiser).__name__ == "Muon" and all(group.keys() == settings for group in groups)


# --- SGD ---


def _sgd(
    note: Note, weight: Tensor, gradient: Tensor, state: State, settings: Settings, _: Numbers
) -> Tensor:
    """w − lr · d, where d is the gradient or, with momentum, a running sum of gradients."""
    direction = _with_decay(note, weight, _downhill(note, gradient, settings), settings)
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


# --- Adam, AdamW ---


def _adam(
    note: Note,
    weight: Tensor,
    gradient: Tensor,
    state: State,
    settings: Settings,
    numbers: Numbers,
) -> Tensor:
    """w − lr · m̂ / (√v̂ + ε), m̂ and v̂ being the moments over their bias corrections.

    AdamW shrinks the weight first; Adam adds the decay to the gradient (L2). With amsgrad the
    largest v so far takes the place of v.
    """
    beta1, beta2 = (float(beta) for beta in settings["betas"])
    gradient = _downhill(note, gradient, settings)
    if "share_kept" in numbers:
        weight = note("decayed_weight", weight * _like(weight, numbers["share_kept"]))
    else:
        gradient = _with_decay(note, weight, gradient, settings)
    first = note("first_moment", torch.lerp(state["first_moment"], gradient, 1 - beta1))
    second = _second_moment(note, state, gradient, beta2)
    if settings["amsgrad"]:
        largest = torch.maximum(state["largest_second_moment"], second)
        second = note("largest_second_moment", largest)
    deviation = note("deviation", second.sqrt())
    root = numbers["root_of_bias_correction_2"]
    corrected = note("corrected_deviation", deviation / _like(weight, root))
    divisor = note("divisor", corrected + float(settings["eps"]))
    scaled = note("scaled_moment", first * _like(weight, numbers["step_size"]))
    change = note("change", scaled / divisor)
    return note("weight", weight - change)


def _adam_numbers(note: Note, rate: Tensor, step: Tensor, settings: Settings) -> Numbers:
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


def _adam_start(parameter: Tensor, settings: Settings) -> dict[str, Tensor]:
    names = ["first_moment", "second_moment"]
    names += ["largest_second_moment"] if settings["amsgrad"] else []
    return {name: torch.zeros_like(parameter) for name in names}


# --- RMSprop ---


def _rmsprop(
    note: Note, weight: Tensor, gradient: Tensor, state: State, settings: Settings, _: Numbers
) -> Tensor:
    """w − lr · g / (√v + ε); centred, v is the variance and not the mean of the squares."""
    alpha, momentum = float(settings["alpha"]), float(settings["momentum"])
    rate = float(settings["lr"])
    gradient = _with_decay(note, weight, _downhill(note, gradient, settings), settings)
    second = _second_moment(note, state, gradient, alpha)
    if settings["centered"]:
        first = note("first_moment", torch.lerp(state["first_moment"], gradient, 1 - alpha))
        second = note("variance", torch.addcmul(second, first, first, value=-1))
    deviation = note("deviation", second.sqrt())
    divisor = note("divisor", deviation + float(settings["eps"]))
    if momentum > 0:
        faded = note("faded_velocity", state["velocity"] * momentum)
        scaled = note("scaled_gradient", gradient / divisor)
        velocity = note("velocity", faded + scaled)
        return note("weight", torch.sub(weight, velocity, alpha=rate))
    scaled = note("scaled_gradient", gradient * rate)
    change = note("change", scaled / divisor)
    return note("weight", weight - change)


def _rmsprop_start(parameter: Tensor, settings: Settings) -> dict[str, Tensor]:
    names = ["second_moment"]
    names += ["first_moment"] if settings["centered"] else []
    names += ["velocity"] if settings["momentum"] > 0 else []
    return {name: torch.zeros_like(parameter) for name in names}


# --- Adagrad ---


def _adagrad(
    note: Note,
    weight: Tensor,
    gradient: Tensor,
    state: State,
    settings: Settings,
    numbers: Numbers,
) -> Tensor:
    """w − lr · g / (√Σ g² + ε), the sum running over all steps so far."""
    gradient = _with_decay(note, weight, _downhill(note, gradient, settings), settings)
    squares = note("sum_of_squares", torch.addcmul(state["sum_of_squares"], gradient, gradient))
    deviation = note("deviation", squares.sqrt())
    divisor = note("divisor", deviation + float(settings["eps"]))
    scaled = note("scaled_gradient", gradient * _like(weight, numbers["step_size"]))
    change = note("change", scaled / divisor)
    return note("weight", weight - change)


def _adagrad_numbers(note: Note, rate: Tensor, step: Tensor, settings: Settings) -> Numbers:
    """The learning rate over 1 + the steps made · its decay."""
    earlier = note("earlier_steps", step - 1)
    slower = note("slowing", earlier * float(settings["lr_decay"]) + 1)
    return {"step_size": note("step_size", rate / slower)}


def _adagrad_start(parameter: Tensor, settings: Settings) -> dict[str, Tensor]:
    begin = float(settings["initial_accumulator_value"])
    return {"sum_of_squares": torch.full_like(parameter, begin)}


# --- Adafactor ---


def _adafactor(
    note: Note,
    weight: Tensor,
    gradient: Tensor,
    state: State,
    settings: Settings,
    numbers: Numbers,
) -> Tensor:
    """w − α · u / max(1, RMS(u)/d), u = g / √v; of a matrix, v = row means · column means / mean.

    α is the learning rate, at most 1/√step, times the RMS of the weight.
    """
    smallest, least = settings["eps"]
    smallest = torch.finfo(weight.dtype).eps if smallest is None else float(smallest)
    gradient = _downhill(note, gradient, settings)
    rate = note("step_size", _rms(note, "weight", weight).clamp(min=least) * numbers["rate"])
    if "share_kept" in numbers:
        weight = note("decayed_weight", weight * _like(weight, numbers["share_kept"]))
    variance = _adafactor_variance(note, gradient, state, numbers["share_of_new"], smallest)
    deviation = note("reciprocal_deviation", variance.clamp(min=smallest**2).rsqrt())
    update = note("scaled_gradient", deviation * gradient)
    excess = note("excess", _rms(note, "update", update) / float(settings["d"]))
    clipped = note("clipped_step_size", rate / excess.clamp(min=1.0))
    change = note("change", update * _like(weight, clipped))
    return note("weight", weight - change)


def _adafactor_variance(
    note: Note, gradient: Tensor, state: State, share: Tensor, smallest: float
) -> Tensor:
    """The running mean of g², of a matrix by its rows and columns alone."""
    share = share.to(gradient.dtype)
    if gradient.ndim < 2:
        squares = note("squared_gradient", gradient * gradient)
        return note("variance", torch.lerp(state["variance"], squares, share))
    means = {}
    for name, axis in (("row_variance", -1), ("column_variance", -2)):
        norms = torch.linalg.vector_norm(gradient, dim=axis, keepdim=True)
        fresh = note(f"new_{name}", norms.square() / gradient.size(axis))
        means[name] = note(name, torch.lerp(state[name], fresh, share))
    product = note("product", means["row_variance"] @ means["column_variance"])
    mean = note("mean_variance", means["row_variance"].mean(dim=-2, keepdim=True))
    return note("variance", product / mean.clamp(min=smallest))


def _rms(note: Note, name: str, x: Tensor) -> Tensor:
    """The root of the mean square, in float64 as torch goes on with it."""
    norm = note(f"{name}_norm", torch.linalg.vector_norm(x))
    return note(f"{name}_rms", norm.double() / math.sqrt(x.numel()))


def _adafactor_numbers(note: Note, rate: Tensor, step: Tensor, settings: Settings) -> Numbers:
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


def _muon(
    note: Note, weight: Tensor, gradient: Tensor, state: State, settings: Settings, _: Numbers
) -> Tensor:
    """w − lr · NewtonSchulz(direction): the momentum with its singular values moved towards 1."""
    rate, momentum = float(settings["lr"]), float(settings["momentum"])
    velocity = note("velocity", torch.lerp(state["velocity"], gradient, 1 - momentum))
    direction = velocity
    if settings["nesterov"]:
        direction = note("direction", torch.lerp(gradient, velocity, momentum))
    matrix = note("rounded_direction", direction.bfloat16())
    tall = matrix.size(0) > matrix.size(1)
    matrix = matrix.T if tall else matrix
    norm = note("norm", matrix.norm())
    matrix = note("normalised", matrix / norm.clamp(min=float(settings["eps"])))
    a, b, c = (float(factor) for factor in settings["ns_coefficients"])
    for turn in range(1, int(settings["ns_steps"]) + 1):
        gram = note(f"gram_{turn}", matrix @ matrix.T)
        polynomial = note(f"polynomial_{turn}", torch.addmm(gram, gram, gram, beta=b, alpha=c))
        matrix = note(f"iterate_{turn}", torch.addmm(matrix, polynomial, matrix, beta=a))
    orthogonal = note("orthogonal", matrix.T if tall else matrix)
    rows, columns = weight.shape
    factor = {
        None: math.sqrt(max(1, rows / columns)),
        "original": math.sqrt(max(1, rows / columns)),
        "match_rms_adamw": 0.2 * math.sqrt(max(rows, columns)),
    }[settings["adjust_lr_fn"]]
    decayed = note("decayed_weight", weight * (1 - rate * float(settings["weight_decay"])))
    return note("weight", torch.sub(decayed, orthogonal, alpha=rate * factor))


def _our_muon(
    note: Note, weight: Tensor, gradient: Tensor, state: State, settings: Settings, _: Numbers
) -> Tensor:
    """Ours: a running sum for momentum, and Newton–Schulz in float32 on stacked matrices."""
    rate, momentum = float(settings["lr"]), float(settings["momentum"])
    faded = note("faded_velocity", state["velocity"] * momentum)
    velocity = note("velocity", faded + gradient)
    direction = note("direction", torch.add(gradient, velocity, alpha=momentum))
    matrix = direction.float().unsqueeze(0)
    tall = matrix.size(-2) > matrix.size(-1)
    matrix = matrix.mT if tall else matrix
    norm = note("norm", matrix.norm(dim=(-2, -1), keepdim=True))
    size = note("norm_and_epsilon", norm + 1e-7)
    matrix = note("normalised", matrix / size)
    for turn in range(1, 6):
        gram = note(f"gram_{turn}", matrix @ matrix.mT)
        square = note(f"gram_squared_{turn}", gram @ gram)
        polynomial = note(f"polynomial_{turn}", -4.7750 * gram + 2.0315 * square)
        matrix = note(f"iterate_{turn}", 3.4445 * matrix + polynomial @ matrix)
    orthogonal = note("orthogonal", (matrix.mT if tall else matrix)[0].to(weight.dtype))
    decayed = note("decayed_weight", weight * (1 - rate * float(settings["weight_decay"])))
    rows, columns = weight.shape
    factor = max(1.0, rows / columns) ** 0.5
    return note("weight", torch.sub(decayed, orthogonal, alpha=rate * factor))


def _velocity_start(parameter: Tensor, _: Settings) -> dict[str, Tensor]:
    return {"velocity": torch.zeros_like(parameter)}


# --- shared ---


def _downhill(note: Note, gradient: Tensor, settings: Settings) -> Tensor:
    """The gradient, turned round where the loss is to be maximised."""
    return note("turned_gradient", -gradient) if settings.get("maximize") else gradient


def _with_decay(note: Note, weight: Tensor, gradient: Tensor, settings: Settings) -> Tensor:
    """The gradient with the pull of an L2 penalty towards 0."""
    decay = float(settings["weight_decay"])
    if not decay:
        return gradient
    return note("gradient_with_decay", torch.add(gradient, weight, alpha=decay))


def _second_moment(note: Note, state: State, gradient: Tensor, beta: float) -> Tensor:
    """The running mean of g²."""
    faded = note("faded_second_moment", state["second_moment"] * beta)
    return note("second_moment", torch.addcmul(faded, gradient, gradient, value=1 - beta))


def _share_kept(note: Note, rate: Tensor, settings: Settings) -> Numbers:
    """1 − learning rate · weight decay, where weights decay by themselves."""
    if not settings["weight_decay"]:
        return {}
    lost = note("share_lost", rate * float(settings["weight_decay"]))
    return {"share_kept": note("share_kept", torch.rsub(lost, 1))}


def _like(weight: Tensor, number: Tensor) -> Tensor:
    """A float64 number beside a weight; a weight without axes would be promoted by it."""
    return number if weight.ndim else number.to(weight.dtype)


_ADAM = Method(
    _adam,
    {
        "first_moment": "exp_avg",
        "second_moment": "exp_avg_sq",
        "largest_second_moment": "max_exp_avg_sq",
    },
    _adam_start,
    _adam_numbers,
)
_METHODS: dict[type[Optimizer], Method] = {
    SGD: Method(_sgd, {"velocity": "momentum_buffer"}, lambda *_: {}, rescales=False),
    Adam: _ADAM,
    AdamW: _ADAM,
    RMSprop: Method(
        _rmsprop,
        {
            "second_moment": "square_avg",
            "first_moment": "grad_avg",
            "velocity": "momentum_buffer",
        },
        _rmsprop_start,
    ),
    Adagrad: Method(_adagrad, {"sum_of_squares": "sum"}, _adagrad_start, _adagrad_numbers),
    Adafactor: Method(
        _adafactor,
        {"row_variance": "row_var", "column_variance": "col_var", "variance": "variance"},
        _adafactor_start,
        _adafactor_numbers,
    ),
    Muon: Method(_muon, {"velocity": "momentum_buffer"}, _velocity_start),
}
_BATCHED_MUON = Method(_our_muon, {"velocity": "momentum"}, _velocity_start)


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
        self._states: dict[int, dict[str, Tensor]] = {}
        self._shared: dict[tuple[int, float], Numbers] = {}
        self._numbers: dict[tuple[int, float], tuple[Tensor, Tensor]] = {}
        self.sources = self._read_state()

    def run(self, scribe: Scribe, gradients: dict[str, Tensor]) -> dict[str, Tensor]:
        """The new weight of each parameter that has a gradient, by name."""
        new: dict[str, Tensor] = {}
        for number, group in enumerate(self._optimiser.param_groups):
            for parameter in group["params"]:
                name = self._names[id(parameter)]
                if name in gradients:
                    new[name] = self._one(scribe, number, group, parameter, gradients[name])
        return new

    def _one(
        self,
        scribe: Scribe,
        number: int,
        group: dict[str, Any],
        parameter: Tensor,
        gradient: Tensor,
    ) -> Tensor:
        shared = self._shared_numbers(scribe, number, group, parameter)
        weight = self._recorder.tensor_of(self._recorder.view_of(parameter))
        note = _notes(scribe, f"update.{self._names[id(parameter)]}")
        state = self._states[id(parameter)]
        return self.method.update(note, weight, gradient, state, group, shared)

    def _shared_numbers(
        self, scribe: Scribe, number: int, group: dict[str, Any], parameter: Tensor
    ) -> Numbers:
        """The group's numbers for this step, computed once for all its parameters."""
        if self.method.schedule is None:
            return {}
        key = (number, self._step(parameter))
        if key not in self._shared:
            note = _notes(scribe, _place(number))
            self._shared[key] = self.method.schedule(note, *self._numbers[key], group)
        return self._shared[key]

    def _step(self, parameter: Tensor) -> float:
        """The number of the step about to be made."""
        return float(self._optimiser.state.get(parameter, {}).get("step", 0)) + 1

    def _read_state(self) -> list[Source]:
        """What the optimiser remembers, and its settings, made known to the recorder."""
        sources: list[Source] = []

        def adopt(name: str, tensor: Tensor) -> Tensor:
            sources.append(Source(name, self._recorder.adopt(tensor), "constant"))
            return tensor

        for number, group in enumerate(self._optimiser.param_groups):
            for parameter in group["params"]:
                name = self._names[id(parameter)]
                self._states[id(parameter)] = {
                    ours: adopt(f"state.{name}.{ours}", tensor)
                    for ours, tensor in self._remembered(parameter, group).items()
                }
                key = (number, self._step(parameter))
                if key not in self._numbers and self.method.schedule is not None:
                    rate = torch.tensor(float(group["lr"]), dtype=torch.float64)
                    step = torch.tensor(key[1], dtype=torch.float64)
                    place = _place(number)
                    self._numbers[key] = (
                        adopt(f"{place}.learning_rate", rate),
                        adopt(f"{place}.step", step),
                    )
        return sources

    def _remembered(self, parameter: Tensor, group: dict[str, Any]) -> dict[str, Tensor]:
        """Copies of what the optimiser remembers of a parameter, or of what it begins with."""
        state = self._optimiser.state.get(parameter, {})
        found = {
            ours: state[theirs].detach().clone()
            for ours, theirs in self.method.remembers.items()
            if state.get(theirs) is not None
        }
        return found or self.method.start(parameter.detach(), group)


def _place(number: int) -> str:
    """Where a group's numbers stand in the tree."""
    return "update" if number == 0 else f"update.group_{number}"


def _notes(scribe: Scribe, owner: str) -> Callable[[str, Tensor], Tensor]:
    """Names for the results of one update."""

    def note(name: str, tensor: Tensor) -> Tensor:
        return scribe.claim(tensor, f"{owner}.{name}", owner)

    return note
