"""`trace(module, *inputs)`: run a module once and keep every number it computed."""

from __future__ import annotations

import copy
import inspect
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from glassformer.errors import TraceError
from glassformer.modes import evaluating
from glassformer.tracing.capture import forecast
from glassformer.tracing.capture.memory import DEFAULT_BYTES, Budget, Version, as_real
from glassformer.tracing.capture.module_stack import ModulePaths, join
from glassformer.tracing.capture.recorder import (
    Labels,
    Overrides,
    Program,
    Recorder,
    Recording,
    Source,
    collection_paused,
    differentiable,
    one_at_a_time,
    recording,
    tensors_in,
    without_fast_path,
)
from glassformer.tracing.notes import Note
from glassformer.tracing.steps import read_labels
from glassformer.tracing.trace import Trace

# --- plain run ---
# Are the numbers of a trace the module's own? One run without the trace tells.
#
# The trace runs torch's written-out paths in the place of its fused ones. As a rule they agree to
# rounding, but not always: `nn.TransformerEncoder` with a padding mask takes a fast path in
# evaluation that leaves zeros at padded positions. The outputs are therefore compared with those of
# a plain run: always where a module with a fast path ran, elsewhere where the module and its run
# are small. A module is copied for it; a function is run as it is, and only where a fast path is at
# stake. What writes to its inputs, parameters or globals, or has hooks, is not run twice. Other
# side effects (printing, appending to a list) are not noticed, and happen twice.


_FAST_PATHS = (nn.TransformerEncoder, nn.TransformerEncoderLayer, nn.MultiheadAttention)
_SMALL_MODULE, _SMALL_RUN = 64 * 1024**2, 8 * 1024**2
"""Bytes of parameters and of recorded numbers up to which a second run costs little."""
_LISTED = 4
"""How many places a note lists."""

Outputs = Mapping[str, Tensor]


class PlainRun:
    """A run without the trace. Made before the recording, from the state that a module is in."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._again = _again(program)
        self._random = torch.get_rng_state()

    def compared_with(self, recording: Recording) -> list[Note]:
        """Run it by itself; a note for each output that the recording has otherwise."""
        again = self._again
        if again is None or _reaches_outside(recording):
            return []
        fast = any(issubclass(kind, _FAST_PATHS) for kind in recording.ran)
        small = isinstance(again, nn.Module) and _kept_bytes(recording) <= _SMALL_RUN
        if not (fast or small):
            return []
        twin = _copied(again) if fast else None  # before the run below changes its state
        try:
            with one_at_a_time() if fast else nullcontext():
                plain = self._run(again, recording)
                kind = "other numbers"
                if twin is not None and any(_differences(recording, plain, kind)):
                    with without_fast_path():
                        slow = self._run(twin, recording)
                    if not any(_differences(recording, slow, kind)):
                        kind = "fast path"
        except Exception as error:  # the module's own, which the trace's path did not meet
            return [Note("fails alone", error=f"{type(error).__name__}: {error}")]
        return list(_differences(recording, plain, kind))

    def _run(self, again: Callable[..., Any], recording: Recording) -> Outputs:
        """What it returns, from the random numbers that the recorded run had.

        Where it drew none, the generator, which other threads may be using, is left alone.
        """
        program = self._program
        drew = any(call.operator.random for call in recording.calls)
        random = _random_numbers_from(self._random) if drew else nullcontext()
        modules = again.modules() if isinstance(again, nn.Module) else ()
        with random, torch.no_grad(), warnings.catch_warnings(), evaluating(modules):
            warnings.simplefilter("ignore")  # the recorded run has warned already
            result = again(*program.args, **program.kwargs)
            return {name: tensor.cpu() for name, tensor in tensors_in(result, "")}


def _again(program: Program) -> Callable[..., Any] | None:
    """What to run: a copy that shares the module's parameters; None for what runs only once."""
    own = program.function
    if not all(map(_is_plain, (program.args, program.kwargs))):
        return None
    if not isinstance(own, nn.Module):
        return own
    n_bytes = sum({id(p): p.nbytes for p in own.parameters()}.values())
    if n_bytes > _SMALL_MODULE and not any(isinstance(m, _FAST_PATHS) for m in own.modules()):
        return None
    if any(part._forward_hooks or part._forward_pre_hooks for part in own.modules()):
        return None
    return _copied(own)


def _copied(again: Callable[..., Any]) -> Callable[..., Any] | None:
    """A module with the same parameters and a state of its own; a function as it is."""
    if not isinstance(again, nn.Module):
        return again
    try:
        return copy.deepcopy(again, {id(parameter): parameter for parameter in again.parameters()})
    except Exception:  # whatever a module holds that cannot be copied: locks, open files
        return None


def _differences(recording: Recording, plain: Outputs, kind: str) -> Iterator[Note]:
    """A note for each output that differs from the plain run's by more than rounding."""
    for name, view in recording.outputs.items():
        shown, own = view.tensor_on_cpu(), plain.get(name)
        if own is None or as_real(own).shape != shown.shape:
            shape = None if own is None else tuple(own.shape)
            yield Note("other shape", name=name, shown=tuple(shown.shape), own=shape)
            continue
        gap = _gap(shown, as_real(own))
        differs = gap > _rounding(as_real(own), len(recording.calls))
        if differs.any():
            worst = int(gap.argmax())
            yield Note(
                kind,
                name=name,
                count=int(differs.sum()),
                all=differs.numel(),
                places=_places(differs),
                gap=f"{float(gap.flatten()[worst]):.2g}",
                worst=[int(place) for place in np.unravel_index(worst, gap.shape)],
            )


def _kept_bytes(recording: Recording) -> int:
    made = {
        id(view.version): view.version.nbytes
        for call in recording.calls
        for view in call.outputs
        if view is not None
    }
    return sum(made.values())


def _reaches_outside(recording: Recording) -> bool:
    """Whether the run wrote to what another run would read: an input, a parameter, a global.

    A module that takes gradients may add them to its parameters' own.
    """
    if recording.program.differentiates:
        return True
    given = {id(source.view.version) for source in recording.sources if source.role != "constant"}
    given |= {id(found.view.version) for found in recording.found}
    return any(id(_first(old)) in given for call in recording.calls for old, _ in call.writes)


def _is_plain(value: object) -> bool:
    """Whether an argument is a tensor, a number, a text, or a container of these."""
    if isinstance(value, dict):
        return all(map(_is_plain, value.values()))
    if isinstance(value, list | tuple):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, Tensor | bool | int | float | str | torch.dtype)


def _first(version: Version) -> Version:
    while version.base is not None:
        version = version.base
    return version


@contextmanager
def _random_numbers_from(state: Tensor) -> Iterator[None]:
    before = torch.get_rng_state()
    torch.set_rng_state(state)
    try:
        yield
    finally:
        torch.set_rng_state(before)


def _gap(shown: Tensor, own: Tensor) -> Tensor:
    """Cell by cell the difference; infinite where only one of the two is a number."""
    gap = (shown.double() - own.double()).abs()
    same = (shown == own) | (shown.isnan() & own.isnan())
    return gap.nan_to_num(nan=torch.inf).masked_fill(same, 0.0)


def _rounding(own: Tensor, operators: int) -> float:
    """What other orders of summing may change: a rounding per operator, of the largest number."""
    if not own.is_floating_point():
        return 0.0
    finite = own[own.isfinite()].abs()
    largest = float(finite.max()) if finite.numel() else 0.0
    longest = max(own.shape, default=1)
    return (operators + longest) * torch.finfo(own.dtype).eps * largest


def _places(differs: Tensor) -> str:
    """The first places that differ, a whole row by its position."""
    if differs.ndim > 1 and bool((differs.any(-1) == differs.all(-1)).all()):
        differs = differs.all(-1)
    found = [place.tolist() for place in differs.nonzero()]
    text = ", ".join(map(str, found[:_LISTED]))
    return f"{text}, …" if len(found) > _LISTED else text


Made = TypeVar("Made")
# What autograd says when a gradient is asked for and nothing was recorded for it.
_NO_GRAPH = "does not require grad and does not have a grad_fn"
Prepare = Callable[[Recorder, list[Source]], None]


def trace(
    module_or_function: Callable[..., Any],
    /,
    *args: Any,
    axis_labels: Labels | None = None,
    max_bytes: int = DEFAULT_BYTES,
    compare: bool = True,
    **kwargs: Any,
) -> Trace:
    """Run a module (or a plain function on tensors) where it is and record every operator.

    The module runs in evaluation mode, without gradients; it is left as it was. Where torch has a
    fast path, or the run is small, it runs once more without the trace, and a note names the cells
    of the outputs that differ by more than rounding. What the code does besides computing (print,
    count in a global) then happens twice; `compare=False` leaves the second run out.
    `axis_labels` gives the texts of an input's positions: `{"input_ids": ["I", "am"]}`. A trace
    that would keep more than `max_bytes` of computed numbers is refused, before it is made where
    that can be known.
    """
    labels = read_labels(axis_labels)
    program = Program(unwrapped(module_or_function), args, kwargs, max_bytes)
    with collection_paused():
        plain_run = PlainRun(program) if compare else None
        recorded = twice_if_it_differentiates(lambda program: run(program, labels), program)
        if plain_run is not None:
            recorded.notes += plain_run.compared_with(recorded)
        return Trace(recorded)


def twice_if_it_differentiates(run: Callable[[Program], Made], program: Program) -> Made:
    """Run a program; with autograd on, if it fails because it takes gradients of its own.

    Without it, operators arrive as the author wrote them, so that is tried first.
    """
    random = torch.get_rng_state()
    try:
        return run(program)
    except RuntimeError as error:
        if program.differentiates or _NO_GRAPH not in str(error):
            raise
    torch.set_rng_state(random)
    return run(replace(program, differentiates=True))


def run(
    program: Program,
    labels: Labels,
    overrides: Overrides | None = None,
    prepare: Prepare | None = None,
) -> Recording:
    """One recorded run; `prepare` may replace sources, `overrides` edit outputs on the way."""
    function = program.function
    root = function if isinstance(function, nn.Module) else None
    budget = Budget(program.max_bytes)
    recorder = Recorder(ModulePaths(root, budget), budget, call_inside.__code__)
    recorder.overrides = overrides or {}
    sources = list(sources_of(recorder, program))
    if root is not None:
        _check_memory(program, root, sources, budget)
    if prepare is not None:
        prepare(recorder, sources)
    notes: list[str] = []
    modules = [module for _, module in recorder.paths.modules]
    with (
        recording(recorder),
        evaluating(modules) as was_training,
        differentiable(program.differentiates),
    ):
        result = call_inside(function, program.args, program.kwargs)
    if was_training:
        notes.append(Note("evaluation"))
    outputs = {name: recorder.view_of(tensor) for name, tensor in tensors_in(result, "")}
    if not outputs:
        raise TraceError(
            f"{_title(function)} returned {type(result).__name__}, in which there is no tensor: "
            "there is nothing to trace"
        )
    if any(call.expanded for call in recorder.calls):
        notes.append(Note("expanded"))
    return Recording(
        program, sources, recorder.found, recorder.calls, recorder.views, outputs, labels, notes,
        ran=frozenset(recorder.paths.ran),
    )  # fmt: skip


def _check_memory(program: Program, root: nn.Module, sources: list[Source], budget: Budget) -> None:
    """Refuse a trace that will not fit, if its size can be known beforehand."""
    inputs = [source.view for source in sources if source.role == "input"]
    if forecast.may_exceed(root, inputs, budget.most):
        expected = forecast.expected_bytes(program, root)
        if expected is not None:
            budget.expect(expected)


def call_inside(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The outermost frame of a run: names are looked for inside it."""
    return function(*args, **kwargs)


def unwrapped(function: Callable[..., Any]) -> Callable[..., Any]:
    """The module or function behind torch.compile."""
    for attribute in ("_orig_mod", "_torchdynamo_orig_callable"):
        function = getattr(function, attribute, function)
    if not callable(function):
        raise TraceError(f"expected a module or a function, got {type(function).__name__}")
    return function


def _title(function: Callable[..., Any]) -> str:
    return (
        type(function).__name__
        if isinstance(function, nn.Module)
        else str(getattr(function, "__name__", function))
    )


def sources_of(recorder: Recorder, program: Program) -> Iterator[Source]:
    """The tensors that are there before the run, by name: inputs, parameters, buffers."""
    modules = recorder.paths.modules
    for name, tensor in _named_inputs(program):
        yield Source(name, recorder.adopt(_with_numbers(tensor, "input", name)), "input")
    for path, module in modules:
        for name, parameter in module._parameters.items():
            if parameter is not None:
                full = join(path, name)
                view = recorder.adopt(_with_numbers(parameter, "parameter", full))
                yield Source(full, view, "parameter")
    for path, module in modules:
        for name, buffer in module._buffers.items():
            if buffer is not None:
                full = join(path, name)
                yield Source(full, recorder.adopt(_with_numbers(buffer, "buffer", full)), "constant")
    seen: set[int] = set()
    for path, module in modules:
        if id(module) not in seen:
            seen.add(id(module))
            for name, value in vars(module).items():
                if isinstance(value, Tensor) and value.device.type != "meta":
                    yield Source(join(path, name), recorder.adopt(value), "constant")


def _with_numbers(tensor: Tensor, what: str, name: str) -> Tensor:
    if tensor.device.type == "meta":
        raise TraceError(
            f"{what} {name} is on the device meta and has no numbers: give the module its weights "
            "with .to_empty(device=…) and load_state_dict"
        )
    return tensor


def _named_inputs(program: Program) -> Iterator[tuple[str, Tensor]]:
    """The tensors among the arguments, by the names of the function's parameters."""
    target = program.function
    forward = target.forward if isinstance(target, nn.Module) else target
    try:
        bound = inspect.signature(forward).bind(*program.args, **program.kwargs)
    except ValueError:  # a builtin without a signature
        given: dict[str, Any] = {f"input{n}": value for n, value in enumerate(program.args)}
        given.update(program.kwargs)
    except TypeError as error:
        raise TraceError(f"{_title(target)} cannot be called with these inputs: {error}") from None
    else:
        given = {}
        for name, value in bound.arguments.items():
            kind = inspect.signature(forward).parameters[name].kind
            given.update(value if kind is inspect.Parameter.VAR_KEYWORD else {name: value})
    for name, value in given.items():
        yield from tensors_in(value, name)
