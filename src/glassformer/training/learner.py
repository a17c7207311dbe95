"""Forward and backward: from a batch to its gradient.

Each batch adds its sum of losses times one over the number of labels of the whole update, so that
an update is the same whether its examples come in one batch, in several (gradient accumulation),
or in several processes. `training.fast` has learners that do the same faster.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor, nn

from glassformer.data import Batch, Update
from glassformer.training.loss import Loss, Measure, model_loss
from glassformer.training.processes import Processes, precision
from glassformer.training.run_config import RunConfig

LossFunction = Callable[..., Loss]
"""Called as `model_loss` is."""


class Learner:
    """Adds gradients of batches to those of a model's parameters."""

    fixed_shapes = False
    """Whether it wants few shapes: all batches of a bucket are then filled up to one."""
    keeps_gradients = False
    """Whether gradients must stay where they are in memory from update to update."""

    def __init__(
        self,
        config: RunConfig,
        model: nn.Module,
        measure: Measure,
        *,
        device: torch.device,
        processes: Processes,
        loss: LossFunction | None = None,
        kernels: Callable[[], AbstractContextManager[object]] = nullcontext,
    ) -> None:
        self.model, self.device, self.processes = model, device, processes
        self.parameters = [p for p in model.parameters() if p.requires_grad]
        self.precision = precision(config.loop.precision, device)
        self._loss = loss or model_loss
        self._kernels = kernels
        self._how = (config.optimiser.label_smoothing, measure, config.optimiser.agreement)

    def count_labels(self, update: Update) -> int:
        """The labels of a whole update, over all its batches and processes."""
        mine = sum(batch.n_scored for batch in update.batches)
        if self.processes.n == 1:
            return max(1, mine)
        total = self.processes.sum(torch.tensor(float(mine), device=self.device))
        return max(1, int(total))

    def forward_backward(
        self,
        batch: Batch,
        scale: float | Tensor,
        *,
        is_last: bool = True,  # noqa: ARG002  # for learners that exchange gradients meanwhile
    ) -> Tensor:
        """Add the gradient of a batch's summed loss, times `scale`; returns that sum.

        `is_last` of the batches of an update: where processes exchange gradients during the
        backward pass, they do it then.
        """
        with self.precision, self._kernels():
            loss = self._loss(self.model, batch.inputs, batch.labels, *self._how)
        (loss.objective * scale).backward()
        return loss.nll

    def exchange_gradients(self) -> None:
        """Add up the gradients of all processes."""
        self.processes.sum_gradients(self.parameters)

    def whole_model(self) -> nn.Module:
        """The model as it is now, for this process to use alone."""
        return self.model
