"""The recorder of a training step: what it has recorded is used again, by the backward pass."""

from __future__ import annotations

from torch import Tensor
from torch.utils._python_dispatch import _disable_current_modes

from glassformer.trace.memory import View
from glassformer.trace.recorder import Recorder

__all__ = ["TrainingRecorder"]


class TrainingRecorder(Recorder):
    """Records the forward pass as `trace` does; then lends its tensors to the backward pass."""

    def tensor_of(self, view: View) -> Tensor:
        """A recorded tensor again, for an operator that the trace itself runs."""
        with _disable_current_modes():
            tensor = view.given()
        self._versions.setdefault(int(tensor.untyped_storage()._cdata), view.version)
        return tensor
