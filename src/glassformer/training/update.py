"""One step of the optimiser: the gradient of all batches of an update, in all processes.

Each batch adds its sum of losses, divided by the number of labels of the whole update, so that an
update is the same whether its examples come in one batch, in several, or in several processes.
"""

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from glassformer.cuda_graphs import CudaRecorder, Recorder
from glassformer.data import Batch, Update
from glassformer.training.acceleration import Acceleration, accelerated, attention_kernels
from glassformer.training.config import RunConfig
from glassformer.training.fast.joined_projections import join_projections
from glassformer.training.loss import Measure, model_loss
from glassformer.training.optimiser import Optimiser
from glassformer.training.processes import Processes, precision
from glassformer.training.recording import RecordedWork, Work
from glassformer.training.sharding import unexchanged

__all__ = ["Done", "Updater"]


@dataclass(frozen=True)
class Done:
    """What an update did, in this process; on the device, so that nothing waits for it."""

    nll: Tensor
    """Summed over the labels."""
    norm: Tensor
    """Of the whole gradient, before clipping."""


class Updater:
    """Turns updates' batches into steps of a model's parameters."""

    def __init__(
        self,
        config: RunConfig,
        model: nn.Module,
        measure: Measure,
        *,
        device: torch.device,
        processes: Processes,
        acceleration: Acceleration,
        recorder: Recorder | None = None,
    ) -> None:
        self.device, self.processes = device, processes
        self.precision = precision(config.loop.precision, device)
        self._measure = measure
        self._smoothing = config.optimiser.label_smoothing
        self._agreement = config.optimiser.agreement
        self._kernel = config.loop.attention
        self._loss = accelerated(model_loss, acceleration)
        join_projections(model, device.type == "cuda")
        self._sharded = config.loop.sharding == "fsdp" and processes.n > 1
        # In recorded steps and on CPUs gradients are summed after the backward pass, not during it.
        self._wrapped = (
            model if acceleration.recorded else processes.wrap(model, device, sharded=self._sharded)
        )
        keeps_gradients = acceleration.graphs and (
            acceleration.recorded or config.loop.accumulate > 1
        )
        self.optimiser = Optimiser(model, config.optimiser, keeps_gradients=keeps_gradients)
        self._work: Work = self._learn
        if acceleration.recorded:
            self._work = RecordedWork(
                self._learn, self.optimiser.parameters, recorder or CudaRecorder(device)
            )

    def __call__(self, update: Update, learning_rate_share: float) -> Done:
        """One step of the optimiser."""
        averages = self._sharded or isinstance(self._wrapped, DistributedDataParallel)
        # The sum over processes is wanted.
        factor = (self.processes.n if averages else 1) / self._all_scored(update)
        nll = torch.zeros((), device=self.device)
        *others, last = update.batches
        for batch in others:
            with self._kept_apart():
                nll += self._add(batch, factor)
        nll += self._add(last, factor)
        if not averages:
            self.processes.sum_gradients(self.optimiser.parameters)
        return Done(nll, self.optimiser.step(learning_rate_share))

    def _add(self, batch: Batch, factor: float) -> Tensor:
        here = batch.to(self.device)
        return self._work(here, torch.full((), factor, device=self.device))

    def _learn(self, batch: Batch, factor: Tensor) -> Tensor:
        """Add a batch's gradient to the parameters'; returns its summed loss."""
        with self.precision, attention_kernels(self._kernel):
            loss = self._loss(
                self._wrapped,
                batch.inputs,
                batch.labels,
                self._smoothing,
                self._measure,
                self._agreement,
            )
        (loss.objective * factor).backward()
        return loss.nll

    def _kept_apart(self) -> AbstractContextManager[None]:
        """Gradients stay in their processes here: they are exchanged with the last batch alone."""
        if isinstance(self._wrapped, DistributedDataParallel):
            return self._wrapped.no_sync()
        return unexchanged(self._wrapped) if self._sharded else nullcontext()

    def _all_scored(self, update: Update) -> int:
        """Labels of the whole update, over all its batches and processes."""
        mine = sum(batch.n_scored for batch in update.batches)
        if self.processes.n == 1:
            return max(1, mine)
        total = self.processes.sum(torch.tensor(float(mine), device=self.device))
        return max(1, int(total))
