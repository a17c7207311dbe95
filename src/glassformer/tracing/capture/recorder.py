"""Recording every operator that a module runs, with its actual values.

A dispatch mode below autograd sees each operator as the model's author wrote it (`linear`,
`softmax`, `layer_norm` whole) and the tensors it reads and writes. This file knows storages,
versions and calls; it knows nothing about cells or their arithmetic.
"""

from __future__ import annotations

import dataclasses
import gc
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch._C._functorch import is_functorch_wrapped_tensor
from torch._ops import HigherOrderOperator
from torch.multiprocessing.reductions import StorageWeakRef
from torch.nested._internal.nested_tensor import NestedTensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only

from glassformer.errors import TraceError, stop_if_cancelled
from glassformer.tracing.capture import fused_layers
from glassformer.tracing.capture.decompositions import (
    LAYOUT_ALONE,
    Way,
    decompose,
    dropout,
    is_idle,
    way_of,
    without_onednn,
)
from glassformer.tracing.capture.dropped_numbers import Keeping
from glassformer.tracing.capture.memory import Budget, Made, Version, View
from glassformer.tracing.capture.module_stack import ModulePaths, join
from glassformer.tracing.capture.operator_calls import READ, Call, Operator, as_list, operator_of
from glassformer.tracing.capture.source_lines import Line, Origin, find_origin
from glassformer.tracing.cell_block import Places
from glassformer.tracing.steps import Role

# --- switches ---
# The global settings of torch and Python that a recording changes and restores.
#
# They belong to the process, not to a thread, so only one recording runs at a time.


# The keys that `_AutoDispatchBelowAutograd` excludes.
_AUTOGRAD = (
    "AutogradCPU", "AutogradCUDA", "AutogradMPS", "AutogradOther", "ADInplaceOrView",
    "AutogradFunctionality",
)  # fmt: skip

ONE_AT_A_TIME = threading.Lock()
"""Held while a thread records."""
_PAUSING = threading.Lock()
_BUSY = threading.local()


@contextmanager
def collection_paused() -> Iterator[None]:
    """Run the block without garbage collection.

    A capture creates thousands of objects and frees none, which would trigger repeated collections
    over everything in the process. Of several threads, the first to pause it ends the pause.
    """
    with _PAUSING:  # else another thread may end its pause between the two, and none would end this
        was_on = gc.isenabled()
        gc.disable()
    try:
        yield
    finally:
        if was_on:
            with _PAUSING:
                gc.enable()


def _without_compiling() -> AbstractContextManager[object]:
    """Run functions behind torch.compile as they were written.

    Does nothing (and imports nothing) unless the compiler or flex_attention, which calls it, is
    loaded.
    """
    if not {"torch._dynamo", "torch.nn.attention.flex_attention"} & sys.modules.keys():
        return nullcontext()
    stance: AbstractContextManager[object] = torch.compiler.set_stance("force_eager")
    return stance


@contextmanager
def without_fast_path() -> Iterator[None]:
    """Run the block without the fast path of torch's Transformer encoder and attention."""
    enabled = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(enabled)


@contextmanager
def recording(recorder: Recorder) -> Iterator[None]:
    """Run the block under the recorder, with settings that keep operators whole and visible."""
    if getattr(_BUSY, "recording", False):
        raise TraceError("a model that is being traced cannot start another trace")
    with ONE_AT_A_TIME, without_fast_path():
        try:
            _BUSY.recording = True
            with (
                torch.no_grad(),
                # As the caller has it, without its cache: casts under no_grad have no gradient.
                torch.autocast(
                    "cpu", enabled=torch.is_autocast_enabled("cpu"), cache_enabled=False
                ),
                _without_compiling(),
                recorder.reads_noted(),
                recorder.paths.followed(),
                torch._C._AutoDispatchBelowAutograd(),
                recorder,
            ):
                yield
        finally:
            _BUSY.recording = False
            recorder.forget_frames()


@contextmanager
def differentiable(on: bool = True) -> Iterator[None]:
    """Turn autograd back on inside a recording, for code that torch itself differentiates."""
    if not on:
        yield
        return
    include = torch._C._dispatch_tls_local_include_set()
    exclude = torch._C._dispatch_tls_local_exclude_set()
    for key in _AUTOGRAD:
        exclude = exclude.remove(getattr(torch._C.DispatchKey, key))
    with torch._C._ForceDispatchKeyGuard(include, exclude), torch.enable_grad():
        yield


_READERS: tuple[tuple[Any, str], ...] = (
    (Tensor, "tolist"), (Tensor, "numpy"),
    (Tensor, "new_tensor"), (torch, "tensor"), (torch, "as_tensor"), (torch, "asarray"),
)  # fmt: skip
"""What reads numbers without running an operator; the last four those of tensors inside a list."""
_SEQUENCES = (list, tuple)
_NUMBERS = (bool, int, float)
# The usual types of arguments that are not tensors: a lookup here is faster than an isinstance
# check for Tensor.
_PLAIN = frozenset([bool, int, float, str, type(None), torch.dtype, torch.device])

Overrides = Mapping[int, Callable[[str, list[Tensor]], None]]
"""By call number: a function that edits the call's outputs, during a rerun."""


@dataclass(eq=False, slots=True)
class FoundTensor:
    """A tensor that is no parameter or input and was not computed: made outside, or in Python."""

    view: View
    origin: Origin
    literal: bool
    """Whether it was made from Python numbers (`torch.tensor(…)`)."""


class Recorder(TorchDispatchMode):
    """The dispatch mode. After it has run, `calls` holds every operator in order."""

    supports_higher_order_operators = True

    def __init__(self, program: Program) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        self.budget = Budget(program.max_bytes)
        root = program.function
        self.paths = ModulePaths(root if isinstance(root, nn.Module) else None, self.budget)
        self._keeping: Keeping | None = None
        if program.only is not None:
            self._keeping = Keeping(program.only, [path for path, _ in self.paths.modules])
            self.paths.on_block = self.release
        self.calls: list[Call] = []
        self.views: list[Call] = []
        self.found: list[FoundTensor] = []
        self.overrides: Overrides = {}
        self.replaced: dict[int, torch.UntypedStorage] = {}
        self._stands_for: dict[int, int] = {}
        self._versions: dict[int, Version] = {}
        self._shown: dict[int, npt.NDArray[np.bool_]] = {}
        """Of storages that the user's tensors so far show in part: the bytes they show."""
        self._visit = 0
        self._last: tuple[FrameType | None, Line | None] = (None, None)
        self._path = ""
        self._considered = 0

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Otherwise torch would import its compiler (two seconds) just to disable it here."""
        return False

    # --- before the run ---

    def adopt(self, tensor: Tensor) -> View:
        """Register a tensor of the user's: a parameter, a buffer, an input."""
        version = self._versions.get(self._key(tensor))
        if version is None:
            version = Version(tensor.untyped_storage())
            version.stamp = None if tensor.is_inference() else (tensor, tensor._version)
            self._versions[self._key(tensor)] = version
            view = View.of(tensor, version)
            if tensor.nbytes != version.nbytes or 0 in view.strides or view.overlaps:
                # Takes memory for what is shown alone, however large the storage.
                self._shown[self._key(tensor)] = np.zeros(version.nbytes, dtype=np.bool_)
        self._shows_more(tensor)
        return View.of(tensor, version)

    def _shows_more(self, tensor: Tensor) -> bool:
        """Whether a tensor shows cells of a user's storage that no tensor before it showed."""
        shown = self._shown.get(self._key(tensor))
        if shown is None:
            return False
        width = tensor.element_size()
        window = np.lib.stride_tricks.as_strided(
            shown[width * int(tensor.storage_offset()) :],
            [*tensor.shape, width],
            [*(width * stride for stride in tensor.stride()), 1],
        )
        if window.all():
            return False
        window[...] = True
        return True

    def replace(self, view: View, storage: torch.UntypedStorage) -> None:
        """Make the run read and write `storage` instead of an adopted view's own."""
        own = view.version.storage._cdata
        self.replaced[own] = storage
        self._stands_for[storage._cdata] = own
        view.version.storage, view.version.stamp = storage, None

    def is_replaced(self, view: View) -> bool:
        """Whether an adopted view's storage has been replaced."""
        return view.version.storage._cdata in self._stands_for

    def view_of(self, tensor: Tensor) -> View:
        """The current view of a tensor of this run."""
        version = self._versions.get(self._key(tensor))
        if version is None:
            raise TraceError("the model returned a tensor that no recorded operator made")
        return View.of(tensor, version)

    @contextmanager
    def inside(self, path: str) -> Iterator[None]:
        """Put this path before the names of the steps of a fused layer that is written out."""
        self._path = path
        try:
            yield
        finally:
            self._path = ""

    @contextmanager
    def reads_noted(self) -> Iterator[None]:
        """Note the numbers that Python reads without running an operator (`_READERS`)."""
        thread = threading.get_ident()

        def noting(read: Callable[..., Any]) -> Callable[..., Any]:
            def noted(*args: Any, **kwargs: Any) -> Any:
                result = read(*args, **kwargs)
                if threading.get_ident() == thread:
                    for tensor in _read_by(read.__name__, (*args, *kwargs.values())):
                        self._note_read(tensor)
                return result

            return noted

        before = [(owner, name, vars(owner).get(name)) for owner, name in _READERS]
        for owner, name in _READERS:
            setattr(owner, name, noting(getattr(owner, name)))
        try:
            yield
        finally:
            for owner, name, own in before:
                if own is None:
                    delattr(owner, name)  # torch's base class has it
                else:
                    setattr(owner, name, own)

    def _note_read(self, tensor: Tensor) -> None:
        """Make the numbers that Python has read a guard, if the trace knows the tensor."""
        if tensor.layout == torch.strided and not is_functorch_wrapped_tensor(tensor):
            version = self._versions.get(self._key(tensor))
            if version is not None:
                origin = self._origin(sys._getframe(2))
                call = Call(len(self.calls), READ, (View.of(tensor, version),), {}, origin)
                self._note_result(call, READ.run([tensor], {}))

    def forget_frames(self) -> None:
        """Drop the last reference to the model's frames."""
        self._last = (None, None)

    # --- what is kept ---

    def release(self, returned: Any) -> None:
        """Drop what need not be kept of the calls so far, apart from what was returned.

        Called after each block of a stack.
        """
        if self._keeping is None:
            return
        shown = {self._key(tensor) for _, tensor in tensors_in(returned, "")}
        for call in self.calls[self._considered :]:
            if self._keeping.is_kept(call) or call.number in self.overrides:
                continue  # (what an edit has set, the operator would not compute again)
            for output, view in enumerate(call.outputs):
                if view is not None and view.version.storage._cdata not in shown:
                    self._drop(view.version, (call, output), self._keeping)
        self._considered = len(self.calls)

    def _drop(self, version: Version, made: Made, keeping: Keeping) -> None:
        """Drop the numbers of a version, unless the model itself still holds the storage."""
        key, size = version.storage._cdata, version.nbytes
        alive = StorageWeakRef(version.storage)
        version.drop(keeping.shelf, made)
        if not alive.expired():
            version.storage = torch.UntypedStorage._new_with_weak_ptr(alive.cdata)
            return
        if self._versions.get(key) is version:
            del self._versions[key]  # another storage may get this address
        self.budget.give_back(size)

    # --- the run ---

    def __torch_dispatch__(
        self,
        func: torch._ops.OpOverload,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        stop_if_cancelled()
        if isinstance(func, HigherOrderOperator):
            return self._run_higher_order(func, args, kwargs)
        if any(issubclass(kind, NestedTensor) for kind in types):
            return NotImplemented  # torch runs it on the packed values, and that is recorded
        operator = operator_of(func)
        way = way_of(operator, args)
        if way != "whole":
            result = self._run_apart(way, operator, args, kwargs)
            if result is not NotImplemented:
                return result
        return self._record(operator, args, kwargs)

    def _run_higher_order(
        self, func: HigherOrderOperator, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Run an operator that takes functions."""
        if func.name() != "flex_attention":
            raise TraceError(
                "torch's {name} takes functions as arguments and cannot be traced: call the "
                "functions in Python instead",
                name=func.name(),
            )
        with self._expanding():
            return fused_layers.flexible_attention(self.inside, *args, **kwargs)

    @contextmanager
    def _expanding(self) -> Iterator[None]:
        """Record the operators of an attention, and mark them as parts of a fused operator."""
        start = len(self.calls)
        with self:
            yield
        for call in self.calls[start:]:
            call.expanded = True

    def _run_apart(
        self, way: Way, operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Run an operator that is not recorded whole; NotImplemented to record it whole anyway."""
        if way == "unseen":
            return operator.func(*args, **kwargs)
        if way == "attention":
            with self._expanding():
                return fused_layers.attention(*args, **kwargs)
        if is_idle(operator, args, kwargs):  # an in-place one would be recorded as a write
            return args[0] if operator.written else NotImplemented
        if way == "recurrent":
            with self, without_onednn():
                return fused_layers.recurrent(self.inside, operator, args, kwargs)
        if way == "dropout":
            with self:
                return dropout(*args, **kwargs, in_place=bool(operator.written))
        with self, without_onednn():
            return decompose(operator.func, args, kwargs)

    def _record(self, operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        origin = self._origin(sys._getframe(2))
        seen = len(self.found)
        call = Call(len(self.calls), operator, tuple(self._views(args, origin)), {}, origin)
        if kwargs:
            call.kwargs = dict(zip(kwargs, self._views(kwargs.values(), origin), strict=True))
        call.without_onednn = not torch._C._get_mkldnn_enabled()
        if operator.name == "lift_fresh":
            for found in self.found[seen:]:
                found.literal = True
        if self.replaced:
            args, kwargs = tree_map_only(Tensor, self._substitute, (args, kwargs))
        if operator.name not in LAYOUT_ALONE:
            call.writes = self._renew(operator, args, kwargs)
        result = operator.run(args, kwargs)
        self._note_result(call, result)
        if (edit := self.overrides.get(call.number)) is not None and self.calls[-1:] == [call]:
            edit(operator.name, as_list(result))
        return result

    def _renew(
        self, operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Version, Version], ...]:
        """Copy the storages that the operator will overwrite, and start new versions of them."""
        written = operator.writes_to(args, kwargs)
        if not written:
            return ()
        renewed: dict[int, tuple[Version, Version]] = {}
        for position, name in written:
            target = args[position] if position < len(args) else kwargs.get(name)
            for tensor in target if isinstance(target, _SEQUENCES) else [target]:
                if isinstance(tensor, Tensor) and self._key(tensor) not in renewed:
                    old = self._versions[self._key(tensor)]
                    live = old.storage
                    old.freeze()
                    self.budget.spend(old.nbytes)
                    new = Version(live, base=old)
                    self._versions[self._key(tensor)] = new
                    renewed[self._key(tensor)] = (old, new)
        return tuple(renewed.values())

    def _note_result(self, call: Call, result: Any) -> None:
        """Store a call with its result: new or rewritten numbers, mere views, a Python number.

        Next to new numbers, a tensor that only views old ones is not an output: None replaces it.
        """
        if isinstance(result, _NUMBERS) or call.operator is READ:
            call.result = result
            self.calls.append(call)
            return
        new = {made for _, made in call.writes}
        returned: list[View | None] = []
        for tensor in result if isinstance(result, _SEQUENCES) else (result,):
            if not isinstance(tensor, Tensor):
                returned.append(None)
                continue
            key = self._key(tensor)
            version = self._versions.get(key)
            if version is None:
                version = self._versions[key] = Version(tensor.untyped_storage())
                self.budget.spend(version.nbytes)
                new.add(version)
            returned.append(View.of(tensor, version))
        if not new:
            call.outputs = tuple([view for view in returned if view is not None])
            self.views.append(call)
            return
        call.outputs = tuple(
            [view if view is not None and view.version in new else None for view in returned]
        )
        if call.writes:
            call.add_unreturned()
        self.calls.append(call)

    def _views(self, values: Iterable[Any], origin: Origin) -> list[Any]:
        """The arguments with tensors as views; a tensor seen for the first time is a constant."""
        viewed: list[Any] = []
        for value in values:
            if type(value) in _PLAIN:
                viewed.append(value)
            elif isinstance(value, Tensor):
                version = self._versions.get(self._key(value))
                if version is None:
                    viewed.append(self.adopt(value))
                    self.found.append(FoundTensor(viewed[-1], origin, literal=False))
                    continue
                viewed.append(View.of(value, version))
                if self._shown and self._shows_more(value):
                    part = viewed[-1].on(version.first)
                    self.found.append(FoundTensor(part, origin, literal=False))
            elif isinstance(value, _SEQUENCES):
                viewed.append(type(value)(self._views(value, origin)))
            else:
                viewed.append(value)
        return viewed

    def _substitute(self, tensor: Tensor) -> Tensor:
        """A tensor on the edited storage in place of the user's."""
        storage = self.replaced.get(self._key(tensor))
        if storage is None:
            return tensor
        empty = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
        return empty.set_(storage, tensor.storage_offset(), tensor.size(), tensor.stride())

    def _key(self, tensor: Tensor) -> int:
        """The identity of a tensor's storage; for a replacement, that of the original."""
        if tensor.is_nested:
            raise TraceError(
                "a strided nested tensor has no regular shape, so its cells cannot be indexed: "
                "use layout=torch.jagged, or pad it with .to_padded_tensor(0.0)"
            )
        try:
            key: int = tensor.untyped_storage()._cdata
        except NotImplementedError as error:
            raise TraceError(
                "a tensor with layout {layout} has no dense storage: convert it with .to_dense(), "
                "or for gradients build the embedding with sparse=False",
                layout=tensor.layout,
            ) from error
        return self._stands_for.get(key, key) if self._stands_for else key

    def _origin(self, frame: FrameType | None) -> Origin:
        """Where the operator was called, and for which module."""
        line, targets, depth, callee, output, variable = find_origin(frame)
        last_callee, last_line = self._last
        if callee is None or callee is not last_callee or line is not last_line:
            self._visit += 1
            self._last = (callee, line)
        module = self.paths.at(0)
        forced = join(self._path, variable) if variable else self._path
        owner = module if forced else self.paths.at(depth)
        return Origin(line, targets, owner, module, self._visit, output, forced)


# --- recording ---
# The result of a run: the raw material of a trace, before names and cells.


Labels = Mapping[str, Sequence[str]]


@dataclass(frozen=True, slots=True)
class Source:
    """A tensor that existed before the run: a parameter, a buffer, an input."""

    name: str
    view: View
    role: Role


@dataclass(frozen=True, slots=True)
class Program:
    """What was traced, so that it can be rerun."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    max_bytes: int
    reruns: bool = True
    """Whether an edit may rerun it (a training step would train again)."""
    differentiates: bool = False
    """Whether it computes gradients itself: autograd is then on, and operators arrive in the parts
    that autograd knows."""
    only: tuple[str, ...] | None = None
    """The modules whose numbers are kept; None for all."""


@dataclass(slots=True)
class Recording:
    """One run (or replay) of a program."""

    program: Program
    sources: list[Source]
    found: list[FoundTensor]
    calls: list[Call]
    """The operators that computed numbers, and the guards, in order."""
    views: list[Call]
    """The operators that only made views."""
    outputs: dict[str, View]
    labels: Labels
    notes: list[str] = field(default_factory=list)
    pins: dict[tuple[int, int], Places] = field(default_factory=dict)
    """The cells set by edits, by call and output: their values do not follow from operands."""
    ran: frozenset[type[nn.Module]] = frozenset()
    """The classes of the modules that ran."""

    def emptied(self) -> Recording:
        """A copy without any numbers."""
        return Recording(self.program, [], [], [], [], {}, {}, self.notes)


def _read_by(reader: str, given: Iterable[Any]) -> Iterator[Tensor]:
    """The tensors whose numbers one of `_READERS` hands to Python."""
    whole = reader in ("tolist", "numpy")
    for value in given:
        if isinstance(value, _SEQUENCES):
            yield from _read_by("tolist", value)
        elif whole and isinstance(value, Tensor):
            yield value


def tensors_in(value: Any, path: str) -> Iterator[tuple[str, Tensor]]:
    """The tensors in nested containers, by dotted path; a single one is called `output`."""
    if isinstance(value, Tensor) and value.is_nested and value.layout == torch.jagged:
        rows = {"values": value.values(), "offsets": value.offsets()}  # type: ignore[attr-defined]  # of its class
        yield from tensors_in(rows, path or "output")
    elif isinstance(value, Tensor):
        yield path or "output", value
    elif isinstance(value, Mapping):
        for key, part in value.items():
            yield from tensors_in(part, join(path, str(key)))
    elif isinstance(value, tuple) and hasattr(value, "_fields"):
        for key, part in zip(value._fields, value, strict=True):
            yield from tensors_in(part, join(path, str(key)))
    elif isinstance(value, list | tuple):
        for place, part in enumerate(value):
            yield from tensors_in(part, join(path or "output", str(place)))
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for item in dataclasses.fields(value):
            yield from tensors_in(getattr(value, item.name), join(path, item.name))
