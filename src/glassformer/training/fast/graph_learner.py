"""Forward and backward of a batch as one CUDA graph: recorded once per shape, then replayed.

A step of a small model is hundreds of kernels of a few microseconds each, and launching them one by
one takes longer than running them. A graph launches them all at once. It reads and writes the same
memory at every replay, so a batch is copied into the recorded tensors, gradients are accumulated in
tensors that stay (`keeps_gradients`), and parameters are only ever changed in place. What changes
from step to step stays outside: clipping, learning rate, EMA. Dropout masks differ at every replay:
the RNG advances with the graph.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from glassformer.data import Batch
from glassformer.decoding.fast.cuda_graphs import GraphRecorder
from glassformer.errors import TrainingError
from glassformer.training.learner import Learner

Work = Callable[[Batch, Tensor], Tensor]
"""Adds the gradient of a batch's loss, times a factor, to the parameters; returns the loss."""


@dataclass(frozen=True)
class _RecordedBatch:
    """The graph of one shape and the tensors that it reads."""

    batch: Batch
    factor: Tensor
    loss: Tensor
    replay: Callable[[], None]


class RecordedWork:
    """Work recorded as a CUDA graph for each batch shape; called like the work itself."""

    def __init__(
        self, work: Work, parameters: Sequence[nn.Parameter], recorder: GraphRecorder
    ) -> None:
        self._work = work
        self._parameters = parameters
        self._recorder = recorder
        self.recordings: dict[tuple[object, ...], _RecordedBatch] = {}

    def __call__(self, batch: Batch, factor: Tensor) -> Tensor:
        """The returned loss lies in graph memory: use it before the next call."""
        shapes = tuple((name, tensor.shape) for name, tensor in _tensors(batch).items())
        if shapes not in self.recordings:
            self.recordings[shapes] = self._record(batch, factor)
        recording = self.recordings[shapes]
        for name, tensor in _tensors(batch).items():
            getattr(recording.batch, name).copy_(tensor)
        recording.factor.copy_(factor)
        recording.replay()
        return recording.loss

    def _record(self, batch: Batch, factor: Tensor) -> _RecordedBatch:
        gradients = [p.grad for p in self._parameters if p.grad is not None]
        assert len(gradients) == len(self._parameters), "gradients must stay between steps"
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
        torch._foreach_copy_(gradients, before)  # the warm-up has added to them
        return _RecordedBatch(kept, kept_factor, loss, replay)


class GraphLearner(Learner):
    """Replays the graph of a batch's shape; gradients are exchanged afterwards, outside it."""

    fixed_shapes = True
    keeps_gradients = True

    def __init__(self, *given: Any, recorder: GraphRecorder, **named: Any) -> None:
        super().__init__(*given, **named)
        self.work = RecordedWork(super().forward_backward, self.parameters, recorder)

    def forward_backward(
        self,
        batch: Batch,
        scale: float | Tensor,
        *,
        is_last: bool = True,  # noqa: ARG002  # for learners that exchange gradients here
    ) -> Tensor:
        """Add a batch's gradient; the returned loss is valid until the next call."""
        return self.work(batch, torch.full((), float(scale), device=self.device))


def _tensors(batch: Batch) -> dict[str, Tensor]:
    return {name: value for name, value in vars(batch).items() if isinstance(value, Tensor)}
