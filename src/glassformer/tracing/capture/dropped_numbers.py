"""Numbers that a trace does not keep: dropped during the run, computed again when looked at.

A trace with `only=` knows every call, but keeps the numbers of some modules alone and what each
block of a stack returned. Any other number follows from these: the calls between run once more, as
they ran in the recording, so the numbers are the same to the last bit.
"""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from glassformer.errors import TraceError, UnknownNameError, stop_if_cancelled
from glassformer.tracing.arithmetic.rules import is_given
from glassformer.tracing.capture.decompositions import without_onednn
from glassformer.tracing.capture.memory import Made, Version, View
from glassformer.tracing.capture.operator_calls import Call, as_list

_SHELF_BYTES = 256 * 1024**2
_VARIES = (torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape)


class _AsRecorded(TorchDispatchMode):
    """Runs operators inside a dispatch mode, as the recorder does: torch chooses kernels by it.

    (Outside, `linear` folds the axes of its input differently.)
    """

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # as for the recorder

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        return func(*args, **(kwargs or {}))


def run_again(call: Call, now: Callable[[View], View]) -> Any:
    """Run a recorded operator on the numbers of other views, as it ran in the recording."""

    def tensor(_name: str, view: View) -> Tensor:
        # `matmul` folds its axes differently if an operand requires gradients.
        trained = view.needs_gradient and call.operator.name == "matmul"
        return now(view).given().requires_grad_(trained)

    args, kwargs = call.mapped(tensor)
    below = torch._C._AutoDispatchBelowAutograd()
    with without_onednn(call.without_onednn), below, _AsRecorded():  # type: ignore[no-untyped-call]
        return call.operator.run(args, kwargs)


def can_wait(call: Call) -> bool:
    """Whether a call's results may be computed later, when they are looked at.

    Not so for what cannot be repeated (random numbers, writes in place) and for what decides how
    the run goes on (Python numbers, shapes that depend on numbers).
    """
    if call.writes or call.result is not None or is_given(call.operator):
        return False
    return not any(tag in call.operator.func.tags for tag in _VARIES)


class Keeping:
    """Which numbers a trace keeps: those of these modules and of the modules inside them."""

    def __init__(self, only: Iterable[str], modules: Iterable[str]) -> None:
        known = [path for path in modules if path]
        for path in only:
            if path not in known:
                raise UnknownNameError("module", path, known)
        self._only = tuple(only)
        self.shelf = Shelf(_SHELF_BYTES)

    def is_kept(self, call: Call) -> bool:
        origin = call.origin
        inside = any(
            path == kept or path.startswith(f"{kept}.")
            for kept in self._only
            for path in (origin.owner, origin.module)
        )
        return inside or not can_wait(call)


class Shelf:
    """The numbers that were computed again most recently, up to a number of bytes."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._held: OrderedDict[Made, torch.UntypedStorage] = OrderedDict()
        self._bytes = 0
        self._lock = threading.RLock()

    def storage(self, made: Made) -> torch.UntypedStorage:
        """The numbers of an output that was dropped."""
        with self._lock:
            found = self._held.get(made)
            if found is None:
                return self._compute(made)
            self._held.move_to_end(made)
            return found

    def clear(self) -> None:
        with self._lock:
            self._held.clear()
            self._bytes = 0

    def _compute(self, wanted: Made) -> torch.UntypedStorage:
        calls = self._missing(wanted)
        reads = Counter(made for call in calls for made in _dropped_inputs(call))
        reads[wanted] += 1
        known = {made: self._held[made] for made in reads if made in self._held}

        def now(view: View) -> View:
            storage = None if view.version.made is None else known.get(view.version.made)
            return view if storage is None else view.on(Version(storage))

        with torch.no_grad():
            for call in calls:
                stop_if_cancelled()
                results = zip(call.outputs, as_list(run_again(call, now)), strict=False)
                for output, (view, tensor) in enumerate(results):
                    if view is not None and (call, output) in reads:
                        _check_layout(call, view, tensor)
                        known[call, output] = tensor.untyped_storage()
                        self._hold((call, output), known[call, output])
                for made in _dropped_inputs(call):
                    reads[made] -= 1
                    if not reads[made]:
                        known.pop(made, None)
        return known[wanted]

    def _missing(self, wanted: Made) -> list[Call]:
        """The calls to run, in order: back to numbers that are kept, or held here."""
        found: dict[int, Call] = {}
        pending = [wanted]
        while pending:
            made = pending.pop()
            call, _ = made
            if made not in self._held and id(call) not in found:
                found[id(call)] = call
                pending += _dropped_inputs(call)
        return sorted(found.values(), key=lambda call: call.number)

    def _hold(self, made: Made, storage: torch.UntypedStorage) -> None:
        self._held[made] = storage
        self._bytes += storage.nbytes()
        while self._bytes > self._most and len(self._held) > 1:
            _, oldest = self._held.popitem(last=False)
            self._bytes -= oldest.nbytes()


def _dropped_inputs(call: Call) -> list[Made]:
    versions = (view.version for view in call.inputs())
    return [version.made for version in versions if not version.is_kept and version.made]


def _check_layout(call: Call, view: View, made: Tensor) -> None:
    now = View.of(made, view.version)
    if now.window != view.window:
        raise TraceError(
            "{name} gave {shape} in the recording and {now} when it was computed again: trace the "
            "run again without only=",
            name=call.operator.name,
            shape=view.shape,
            now=now.shape,
        )
