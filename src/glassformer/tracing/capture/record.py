"""`trace(module, *inputs)`: run a module once and keep every number it computes."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map

from glassformer.errors import CancelledError, TraceError, shown
from glassformer.modes import evaluating
from glassformer.tracing.capture.memory import DEFAULT_BYTES, View, mebibytes
from glassformer.tracing.capture.module_stack import join
from glassformer.tracing.capture.operator_calls import Call, Operator
from glassformer.tracing.capture.recorder import (
    Labels,
    Overrides,
    Program,
    Recorder,
    Recording,
    Source,
    collection_paused,
    differentiable,
    recording,
    tensors_in,
)
from glassformer.tracing.capture.source_lines import call_inside
from glassformer.tracing.notes import Note
from glassformer.tracing.steps import Role, read_labels
from glassformer.tracing.trace import Trace
from glassformer.tracing.verification import PlainRun

Made = TypeVar("Made")
# Autograd's message when a gradient is requested without a graph.
_NO_GRAPH = "does not require grad and does not have a grad_fn"
Prepare = Callable[[Recorder, list[Source]], None]


def trace(
    module_or_function: Callable[..., Any],
    /,
    *args: Any,
    axis_labels: Labels | None = None,
    max_bytes: int = DEFAULT_BYTES,
    only: Sequence[str] | None = None,
    compare: bool = True,
    **kwargs: Any,
) -> Trace:
    """Run a module (or a plain function on tensors) where it is and record every operator.

    The module runs in evaluation mode, without gradients, and is left unchanged. If torch has a
    fast path, or the run is small, it runs once more without the trace, and a note lists the output
    cells that differ by more than rounding. Side effects of the code (printing, counting in a
    global) then happen twice; `compare=False` skips the second run.
    `axis_labels` gives labels for the positions of an input, `{"input_ids": ["I", "am"]}`, or for
    the classes or words of an output, `{"logits": ["sad", "happy"]}`. A trace that would keep more
    than `max_bytes` of computed numbers is refused, if possible before it is made. For a large
    model, `only=["layers.3"]` keeps the numbers of these modules and what each block returned; all
    others are computed again when they are looked at.
    """
    labels = read_labels(axis_labels)
    function = unwrapped(module_or_function)
    program = Program(function, args, kwargs, max_bytes, only=_checked_only(only, function))
    with collection_paused():
        plain_run = PlainRun(program) if compare else None
        recorded = twice_if_it_differentiates(lambda program: run(program, labels), program)
        if plain_run is not None:
            recorded.notes += plain_run.compared_with(recorded)
        return Trace(recorded)


def twice_if_it_differentiates(run: Callable[[Program], Made], program: Program) -> Made:
    """Run a program; if it fails because it computes gradients itself, run it with autograd on.

    Without autograd, operators arrive as the author wrote them, so that is tried first.
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
    """One recorded run; `prepare` may replace sources, `overrides` may edit outputs."""
    function = program.function
    recorder = Recorder(program)
    recorder.overrides = overrides or {}
    sources = list(sources_of(recorder, program))
    inputs = [source.view for source in sources if source.role == "input"]
    if isinstance(function, nn.Module) and may_exceed(function, inputs, program.max_bytes):
        expected = forecast(program, function)
        if expected is not None:
            recorder.budget.expect(expected.peak)  # refuses a trace that will not fit
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
    recorder.release(result)
    made = (view for call in recorder.calls for view in call.outputs if view is not None)
    if dropped := sum(not view.version.is_kept for view in made):
        notes.append(Note("dropped", count=dropped, all=len(recorder.calls)))
    if was_training:
        notes.append(Note("evaluation"))
    outputs = {name: recorder.view_of(tensor) for name, tensor in tensors_in(result, "")}
    if not outputs:
        raise TraceError(
            "{name} returned {given}, which contains no tensor: there is nothing to trace",
            name=_title(function),
            given=type(result).__name__,
        )
    if any(call.expanded for call in recorder.calls):
        notes.append(Note("expanded"))
    return Recording(
        program, sources, recorder.found, recorder.calls, recorder.views, outputs, labels, notes,
        ran=frozenset(recorder.paths.ran),
    )  # fmt: skip


def _checked_only(only: object, function: object) -> tuple[str, ...] | None:
    """Paths of modules; whether the module has them is checked when the run begins."""
    if only is None:
        return None
    if not isinstance(function, nn.Module):
        raise TraceError("only= names modules, and a function has none")
    if isinstance(only, str) or not isinstance(only, Iterable):
        raise TraceError("only= is a list of paths of modules, got {value}", value=shown(only))
    return tuple(map(str, only))


def unwrapped(function: Callable[..., Any]) -> Callable[..., Any]:
    """The module or function behind torch.compile."""
    for attribute in ("_orig_mod", "_torchdynamo_orig_callable"):
        function = getattr(function, attribute, function)
    if isinstance(function, str | PathLike):
        raise TraceError(
            "expected a module or a function, got {name!r}: glassformer.load({name!r}) opens a "
            "model by its name or folder",
            name=str(function),
        )
    if not callable(function):
        raise TraceError(
            "expected a module or a function, got {kind}", kind=type(function).__name__
        )
    return function


def _title(function: Callable[..., Any]) -> str:
    return (
        type(function).__name__
        if isinstance(function, nn.Module)
        else str(getattr(function, "__name__", function))
    )


def sources_of(recorder: Recorder, program: Program) -> Iterator[Source]:
    """The tensors that exist before the run, by name: inputs, parameters, buffers."""
    modules = recorder.paths.modules

    def source(name: str, tensor: Tensor, what: str, role: Role) -> Source:
        if tensor.device.type == "meta":
            raise TraceError(
                "{what} {name} is on the device meta and has no numbers: give the module its "
                "weights with .to_empty(device=…) and load_state_dict",
                what=what,
                name=name,
            )
        return Source(name, recorder.adopt(tensor), role)

    for name, tensor in _named_inputs(program):
        yield source(name, tensor, "input", "input")
    for path, module in modules:
        for name, parameter in module._parameters.items():
            if parameter is not None:
                yield source(join(path, name), parameter, "parameter", "parameter")
    for path, module in modules:
        for name, buffer in module._buffers.items():
            if buffer is not None:
                yield source(join(path, name), buffer, "buffer", "constant")
    seen: set[int] = set()
    for path, module in modules:
        attributes = {} if id(module) in seen else vars(module)
        seen.add(id(module))
        for name, value in attributes.items():
            if isinstance(value, Tensor) and value.device.type != "meta":
                yield source(join(path, name), value, "attribute", "constant")


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
        raise TraceError(
            "{name} cannot be called with these inputs: {reason}",
            name=_title(target),
            reason=str(error),
        ) from None
    else:
        given = {}
        for name, value in bound.arguments.items():
            kind = inspect.signature(forward).parameters[name].kind
            given.update(value if kind is inspect.Parameter.VAR_KEYWORD else {name: value})
    for name, value in given.items():
        yield from tensors_in(value, name)


# --- forecast ---
# How much memory a trace will need, before it is made.
#
# The module runs once on torch's `meta` device, where tensors have shapes but no numbers, and we
# count what the recorder would keep. A model whose control flow depends on its numbers
# (`if mask.any()`) cannot run there; the budget is then checked during the actual run. The meta run
# costs about as much as the bookkeeping of a trace, so it is done only if the sizes suggest it.

_META = torch.device("meta")
_SAFETY = 4
"""The rough guess is trusted if this many times its value still fits the budget."""
_HEADS, _SCORES = 16, 4
"""A generous guess at attention: heads, and tensors of scores (scores, scaled, masked, weights)."""


def may_exceed(root: nn.Module, inputs: Iterable[View], budget: int) -> bool:
    """Whether sizes alone suggest that a trace could come near the budget: a rough guess.

    Each matrix reads and writes one row per position; there is one attention per four matrices.
    """
    matrices = [parameter for parameter in root.parameters() if parameter.ndim > 1]
    rows = max(map(_rows, inputs), default=1)
    widths = sum(parameter.shape[0] + parameter.shape[1] for parameter in matrices)
    guess = 4 * rows * (widths + rows * _HEADS * _SCORES * len(matrices) // 4)
    return _SAFETY * guess > budget


def _rows(view: View) -> int:
    """The number of positions of an input: of ids, or of vectors."""
    vectors = view.dtype.is_floating_point and view.ndim > 1
    return view.numel // max(1, view.shape[-1]) if vectors else view.numel


@dataclass(frozen=True, slots=True)
class MemoryEstimate:
    """The bytes that a trace takes beside the model: in the end, and at most while it is made."""

    kept: int
    peak: int

    def __str__(self) -> str:
        return f"{mebibytes(self.kept)} kept, at most {mebibytes(self.peak)} during the run"


def estimate(
    module: nn.Module, /, *args: Any, only: Sequence[str] | None = None, **kwargs: Any
) -> MemoryEstimate:
    """The memory that `trace` with the same arguments would take; the model is not run."""
    root = unwrapped(module)
    if not isinstance(root, nn.Module):
        raise TraceError("expected a module, got {given}", given=_title(root))
    program = Program(root, args, kwargs, sys.maxsize, only=_checked_only(only, root))
    found = forecast(program, root)
    if found is None:
        raise TraceError(
            "{name} cannot run on shapes alone: what it does depends on its numbers, so the memory "
            "of its trace is not known before the run",
            name=_title(root),
        )
    return found


def forecast(program: Program, root: nn.Module) -> MemoryEstimate | None:
    """What the recorder would keep; None if the model cannot run without numbers."""
    counter = _Counter(replace(program, max_bytes=sys.maxsize))
    try:
        with recording(counter), _state_kept(root):
            result = call_inside(root, program.args, program.kwargs)
        counter.release(result)
    except CancelledError:
        raise
    except Exception:  # a model may fail in any way if it needs actual numbers
        return None
    return MemoryEstimate(counter.budget.spent, counter.budget.peak)


class _Counter(Recorder):
    """A recorder that runs operators on shapes alone and only counts bytes.

    Small whole numbers and truth values that follow from the inputs are computed all the same: much
    code asks its masks and positions a question (`if mask.all()`) before it goes on.
    """

    def emptied(self, value: Any) -> Any:
        """A tensor replaced by a meta tensor of the same shape, a device by the meta device."""
        if isinstance(value, Tensor) and value.device.type != "meta":
            size, stride = value.size(), value.stride()
            value = torch.empty_strided(size, stride, dtype=value.dtype, device=_META)
            self.adopt(value)
        return _META if isinstance(value, torch.device) else value

    def _record(self, operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        empty_args, empty_kwargs = tree_map(self.emptied, (args, kwargs))
        if "device" in operator.parameters[len(args) :]:
            empty_kwargs["device"] = _META
        origin = self._origin(sys._getframe(2))
        call = Call(len(self.calls), operator, tuple(self._views(empty_args, origin)), {}, origin)
        given = [tensor for _, tensor in tensors_in([args, kwargs], "")]
        writes = operator.writes_to(args, kwargs)
        if not writes and given and all(map(_is_asked, given)):
            result = operator.func(*args, **kwargs)
        else:
            call.writes = self._renew(operator, empty_args, empty_kwargs)
            result = operator.func(*empty_args, **empty_kwargs)
            made_here = not (writes or given or operator.random)
            if made_here and isinstance(result, Tensor) and _may_be_asked(result):
                # Such as `arange`, perhaps on the device of a tensor that is empty here.
                result = operator.func(*args, **kwargs | {"device": torch.device("cpu")})
        self._note_result(call, result)
        return result


_ASKED = 2**20
"""The most numbers of a tensor that is computed during the forecast."""


def _may_be_asked(tensor: Tensor) -> bool:
    """Whether Python code may ask for these numbers: a mask, lengths, positions."""
    return not (tensor.is_floating_point() or tensor.is_complex()) and tensor.numel() <= _ASKED


def _is_asked(tensor: Tensor) -> bool:
    return tensor.device.type != "meta" and _may_be_asked(tensor)


@contextmanager
def _state_kept(root: nn.Module) -> Iterator[None]:
    """Restore every module's attributes after the block: a cache filled during the meta run would
    contain no numbers."""
    tables = ("_buffers", "_parameters", "_modules")
    kept = [vars(module) for module in root.modules()]
    kept += [attributes[name] for attributes in kept for name in tables]
    before = [dict(names) for names in kept]
    for module in root.modules():
        module.training = False
    try:
        yield
    finally:
        for names, values in zip(kept, before, strict=True):
            _put_back(names, values)


def _put_back(names: dict[str, Any], before: dict[str, Any]) -> None:
    """Restore only what differs: other threads may be using the module."""
    for name in names.keys() - before.keys():
        del names[name]
    for name, value in before.items():
        if name not in names or names[name] is not value:
            names[name] = value
