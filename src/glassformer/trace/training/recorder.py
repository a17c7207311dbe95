"""The recorder of a training step: what it has recorded is used again, by the backward pass."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor
from torch.utils._python_dispatch import _disable_current_modes

from glassformer.trace.memory import View
from glassformer.trace.recorder import Recorder

__all__ = ["TrainingRecorder", "differentiable"]

# What `_AutoDispatchBelowAutograd` switches off.
_AUTOGRAD = ("AutogradCPU", "AutogradOther", "ADInplaceOrView", "AutogradFunctionality")


class TrainingRecorder(Recorder):
    """Records the forward pass as `trace` does; then lends its tensors to the backward pass."""

    def tensor_of(self, view: View) -> Tensor:
        """A recorded tensor again, for an operator that the trace itself runs."""
        with _disable_current_modes():
            tensor = view.given()
        self._versions.setdefault(int(tensor.untyped_storage()._cdata), view.version)
        return tensor


@contextmanager
def differentiable() -> Iterator[None]:
    """Autograd back on, inside a recording: for an operator whose derivative torch is to give."""
    include = torch._C._dispatch_tls_local_include_set()
    exclude = torch._C._dispatch_tls_local_exclude_set()
    for key in _AUTOGRAD:
        exclude = exclude.remove(getattr(torch._C.DispatchKey, key))
    with torch._C._ForceDispatchKeyGuard(include, exclude), torch.enable_grad():
        yield
