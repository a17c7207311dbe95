"""The recorder of a training step: dropout in two steps, and recorded tensors in use again."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import _disable_current_modes

from glassformer.trace.memory import Version, View
from glassformer.trace.recorder import Found, Recorder

__all__ = ["TrainingRecorder", "differentiable"]

# What `_AutoDispatchBelowAutograd` switches off.
_AUTOGRAD = ("AutogradCPU", "AutogradOther", "ADInplaceOrView", "AutogradFunctionality")


class TrainingRecorder(Recorder):
    """Records the forward pass as `trace` does; then lends its tensors to the backward pass."""

    def __torch_dispatch__(
        self,
        func: torch._ops.OpOverload,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        if func is torch.ops.aten.dropout.default:
            x, rate, training = args
            if training and 0 < rate < 1 and x.numel():
                return self._dropout(x, rate)
        return super().__torch_dispatch__(func, types, args, kwargs)

    def _dropout(self, x: Tensor, rate: float) -> Tensor:
        """x times a mask of 0 and 1 / (1 − rate), drawn as torch's own operator draws it."""
        with _disable_current_modes():
            mask = torch.empty_like(x).bernoulli_(1 - rate).div_(1 - rate)
        origin = replace(self._origin(sys._getframe(2)), targets=("dropout_mask",))
        self.found.append(Found(self.adopt(mask), origin, literal=True))
        with self:
            return x * mask

    def tensor_of(self, view: View) -> Tensor:
        """A recorded tensor again, for an operator that the trace itself runs."""
        with _disable_current_modes():
            tensor = view.tensor()
        self._versions.setdefault(int(tensor.untyped_storage()._cdata), view.version)
        return tensor

    def versions(self) -> Iterator[Version]:
        """Every version of every storage that the run has seen."""
        for version in self._versions.values():
            older: Version | None = version
            while older is not None:
                yield older
                older = older.base


@contextmanager
def differentiable() -> Iterator[None]:
    """Autograd back on, inside a recording: for an operator whose derivative torch is to give."""
    include = torch._C._dispatch_tls_local_include_set()
    exclude = torch._C._dispatch_tls_local_exclude_set()
    for key in _AUTOGRAD:
        exclude = exclude.remove(getattr(torch._C.DispatchKey, key))
    with torch._C._ForceDispatchKeyGuard(include, exclude), torch.enable_grad():
        yield
