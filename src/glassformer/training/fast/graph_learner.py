"""Forward and backward of a batch as one CUDA graph: recorded once per shape, then replayed.

A step of a small model is hundreds of kernels of a few microseconds each, and starting them one by
one takes longer than running them. A graph starts them all at once. It reads and writes the same
memory at every replay, so a batch is copied into the tensors that were recorded, gradients are
added to tensors that stay (`keeps_gradients`), and parameters are only ever changed
in place. What moves from update to update stays outside: clipping, learning rates, averages.
Dropout draws new numbers at every replay: the generator's position is advanced with the graph.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from glassformer.data import Batch
from glassformer.decoding.fast.cuda_graphs import Recorder
from glassformer.errors import TrainingError
from glassformer.training.learner import Learner

Work = Callable[[Batch, Tensor], Tensor]
"""Adds the gradient of a batch's loss, times a factor, to the parameters'; returns the loss."""


@dataclass(frozen=True)
class _Recording:
    """One shape's graph and the tensors that it reads."""

    batch: Batch
    factor: Tensor
    loss: Tensor
    replay: Callable[[], None]


class RecordedWork:
    """Work that is recorded for each shape of batches; called like the work itself."""

    def __init__(self, work: Work, parameters: Sequence[nn.Parameter], recorder: Recorder) -> None:
        self._work = work
        self._parameters = parameters
        self._recorder = recorder
        self.recordings: dict[tuple[object, ...], _Recording] = {}

    def __call__(self, batch: Batch, factor: Tensor) -> Tensor:
        """The loss is in memory of the graphs: use it before the next call."""
        shapes = tuple((name, tensor.shape) for name, tensor in _tensors(batch).items())
        if shapes not in self.recordings:
            self.recordings[shapes] = self._record(batch, factor)
        recording = self.recordings[shapes]
        for name, tensor in _tensors(batch).items():
            getattr(recording.batch, name).copy_(tensor)
        recording.factor.copy_(factor)
        recording.replay()
        return recording.loss

    def _record(self, batch: Batch, factor: Tensor) -> _Recording:
        gradients = [p.grad for p in self._parameters if p.grad is not None]
        assert len(gradients) == len(self._parameters), "gradients must stay between updates"
        before = [gradient.clone() for gradient in gradients]
        kept, kept_factor = batch.copied(), factor.clone()
        try:
            loss, replay = self._recorder(lambda: self._work(kept, kept_factor))
        except RuntimeError as error:
            reason = str(error).partition("\n")[0]
            raise TrainingError(
                "a step cannot be recorded as a CUDA graph ({reason}); run it with "
                "--loop.graphs off",
                reason=reason,
            ) from error
        torch._foreach_copy_(gradients, before)  # rehearsals have added to them
        return _Recording(kept, kept_factor, loss, replay)


class GraphLearner(Learner):
    """A learner that replays its graph of a batch's shape.

    Gradients are exchanged after the backward pass, outside the graph.
    """

    fixed_shapes = True
    keeps_gradients = True

    def __init__(self, *given: Any, recorder: Recorder, **named: Any) -> None:
        super().__init__(*given, **named)
        self.work = RecordedWork(super().forward_backward, self.parameters, recorder)

    def forward_backward(
        self,
        batch: Batch,
        scale: float | Tensor,
        *,
        is_last: bool = True,  # noqa: ARG002  # for learners that exchange gradients meanwhile
    ) -> Tensor:
        """Add a batch's gradient; the loss is in memory of the graphs until the next call."""
        return self.work(batch, torch.full((), float(scale), device=self.device))


def _tensors(batch: Batch) -> dict[str, Tensor]:
    return {name: value for name, value in vars(batch).items() if isinstance(value, Tensor)}
