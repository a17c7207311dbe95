"""The switches of torch and of Python that a recording sets, and puts back.

They belong to the process and not to one thread, so recordings take turns.
"""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING

import torch

from glassformer.errors import TraceError

if TYPE_CHECKING:
    from glassformer.trace.recorder import Recorder

# What `_AutoDispatchBelowAutograd` switches off.
_AUTOGRAD = ("AutogradCPU", "AutogradOther", "ADInplaceOrView", "AutogradFunctionality")

_ONE_AT_A_TIME = threading.Lock()
_ONEDNN = threading.RLock()


class _Busy(threading.local):
    """Whether this thread is recording."""

    recording = False


_BUSY = _Busy()


class _Pauses:
    """How many threads have the garbage collection paused, and whether it was on before."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.count = 0
        self.was_on = False


_PAUSES = _Pauses()


@contextmanager
def collection_paused() -> Iterator[None]:
    """Run the block without garbage collections.

    A capture makes thousands of objects and lets none go. Python answers by looking, again and
    again, through everything that the process holds.
    """
    with _PAUSES.lock:
        if _PAUSES.count == 0:
            _PAUSES.was_on = gc.isenabled()
            gc.disable()
        _PAUSES.count += 1
    try:
        yield
    finally:
        with _PAUSES.lock:
            _PAUSES.count -= 1
            if _PAUSES.count == 0 and _PAUSES.was_on:
                gc.enable()


@contextmanager
def without_onednn(off: bool = True) -> Iterator[None]:
    """Run the block without the oneDNN kernels: they would swallow a whole recurrent layer."""
    if not off:
        yield
        return
    with _ONEDNN:
        enabled = torch._C._get_mkldnn_enabled()
        torch._C._set_mkldnn_enabled(False)
        try:
            yield
        finally:
            torch._C._set_mkldnn_enabled(enabled)


def _without_compiling() -> AbstractContextManager[object]:
    """Functions behind torch.compile run as they were written.

    Where neither the compiler nor flex_attention, which calls it, is loaded, it stays so.
    """
    if not {"torch._dynamo", "torch.nn.attention.flex_attention"} & sys.modules.keys():
        return nullcontext()
    stance: AbstractContextManager[object] = torch.compiler.set_stance("force_eager")
    return stance


@contextmanager
def one_at_a_time() -> Iterator[None]:
    """Run the block while no other thread has the process's switches set."""
    with _ONE_AT_A_TIME:
        yield


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
    """Run the block under the recorder, with the settings that keep operators whole and visible."""
    if _BUSY.recording:
        raise TraceError("a model that is being traced cannot start a trace of its own")
    with _ONE_AT_A_TIME, without_fast_path():
        try:
            _BUSY.recording = True
            with (
                torch.no_grad(),
                torch.autocast("cpu", enabled=False),
                _without_compiling(),
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
    """Autograd back on, inside a recording: for what is to be differentiated by torch itself."""
    if not on:
        yield
        return
    include = torch._C._dispatch_tls_local_include_set()
    exclude = torch._C._dispatch_tls_local_exclude_set()
    for key in _AUTOGRAD:
        exclude = exclude.remove(getattr(torch._C.DispatchKey, key))
    with torch._C._ForceDispatchKeyGuard(include, exclude), torch.enable_grad():
        yield
