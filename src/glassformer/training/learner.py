"""Forward, loss and backward: from a batch to its gradient.

Each batch adds its summed loss divided by the number of labels in the whole step, so a step is the
same whether its examples come in one batch, in several (gradient accumulation), or in several
processes. A mean of batch means would give the tokens of a short batch more weight. Padding has no
label and does not count. `training.acceleration` has faster ones.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from glassformer.data.batches import IGNORED, Batch
from glassformer.data.loader import StepBatches
from glassformer.training.processes import Processes, precision
from glassformer.training.run_config import RunConfig


class Loss(NamedTuple):
    """Sums over the scored labels of a batch."""

    objective: Tensor
    """What is minimised, with label smoothing if configured."""
    nll: Tensor
    """Plain negative log-likelihood in nats, detached: what is logged."""


Measure = Callable[[Tensor, Tensor, float], Loss]
"""From model outputs, labels and label smoothing to a loss."""


def model_loss(
    model: nn.Module,
    inputs: Sequence[Tensor | None],
    labels: Tensor,
    smoothing: float = 0.0,
    measure: Measure | None = None,
    r_drop: float = 0.0,
) -> Loss:
    """Forward pass and loss in one function, so that both are compiled together.

    Compiled separately, the logits would be written to memory in float32 in between. `r_drop` is α
    of R-Drop (Liang et al. 2021), divided by 2: the model runs twice with different dropout, and
    α/2 of the symmetric KL divergence between the outputs is added to the mean of both losses.
    """
    measured = measure or cross_entropy
    answers = model(*inputs)
    loss = measured(answers, labels, smoothing)
    if not r_drop:
        return loss
    again = model(*inputs)
    second = measured(again, labels, smoothing)
    objective = (loss.objective + second.objective) / 2
    apart = symmetric_kl(answers, again, labels)
    return Loss(objective + r_drop / 2 * apart, (loss.nll + second.nll) / 2)


def symmetric_kl(logits: Tensor, others: Tensor, labels: Tensor) -> Tensor:
    """(KL(p‖q) + KL(q‖p)) / 2 of two (…, V) outputs, summed over the scored labels.

    The two divergences together are Σ (p − q) · (log p − log q).
    """
    log_p, log_q = logits.float().log_softmax(dim=-1), others.float().log_softmax(dim=-1)
    both = ((log_p.exp() - log_q.exp()) * (log_p - log_q)).sum(dim=-1)
    return torch.where(labels == IGNORED, 0.0, both).sum() / 2


def squared_error(answers: Tensor, labels: Tensor, smoothing: float = 0.0) -> Loss:
    """Summed squared error of (B,) outputs against (B,) numbers; IGNORED labels do not count."""
    assert not smoothing, "there is nothing to smooth in a number"
    errors = torch.where(labels == IGNORED, 0.0, answers.float() - labels)
    total = errors.square().sum()
    return Loss(total, total.detach())


def cross_entropy(logits: Tensor, labels: Tensor, smoothing: float = 0.0) -> Loss:
    """Cross-entropy of (…, V) logits with (…) labels.

    Smoothing ε mixes the target with the uniform distribution over all V tokens (section 5.4 of
    the 2017 paper): (1 − ε) · nll + ε · mean over tokens of −log p.
    """
    flat = logits.reshape(-1, logits.size(-1)).float()
    answers = labels.reshape(-1)
    if not smoothing:
        nll = F.cross_entropy(flat, answers, ignore_index=IGNORED, reduction="sum")
        return Loss(nll, nll.detach())
    objective = F.cross_entropy(
        flat, answers, ignore_index=IGNORED, reduction="sum", label_smoothing=smoothing
    )
    with torch.no_grad():
        nll = F.cross_entropy(flat, answers, ignore_index=IGNORED, reduction="sum")
    return Loss(objective, nll)


LossFunction = Callable[..., Loss]
"""Called as `model_loss` is."""


class Learner:
    """Accumulates the gradients of batches in a model's parameters."""

    fixed_shapes = False
    """Whether it needs few shapes: all batches of a bucket are then padded to one."""
    keeps_gradients = False
    """Whether gradient tensors must stay at the same address from step to step."""

    def __init__(
        self,
        config: RunConfig,
        model: nn.Module,
        measure: Measure,
        *,
        device: torch.device,
        processes: Processes,
        loss: LossFunction = model_loss,
        kernels: Callable[[], AbstractContextManager[object]] = nullcontext,
    ) -> None:
        self.model, self.device, self.processes = model, device, processes
        self.parameters = [p for p in model.parameters() if p.requires_grad]
        self.precision = precision(config.loop.precision, device)
        self._loss = loss
        self._kernels = kernels
        self._how = (config.optimiser.label_smoothing, measure, config.optimiser.r_drop)

    def count_labels(self, step: StepBatches) -> int:
        """The number of labels in a whole step, over all batches and processes."""
        mine = sum(batch.n_scored for batch in step.batches)
        (total,) = self.processes.totals([mine], self.device)
        return max(1, int(total))

    def forward_backward(
        self,
        batch: Batch,
        scale: float | Tensor,
        *,
        is_last: bool = True,  # noqa: ARG002  # for learners that exchange gradients here
    ) -> Tensor:
        """Add the gradient of a batch's summed loss times `scale`; returns that sum.

        `is_last`: whether this is the step's last batch. Learners that exchange gradients during
        the backward pass do so then.
        """
        with self.precision, self._kernels():
            loss = self._loss(self.model, batch.inputs, batch.labels, *self._how)
        (loss.objective * scale).backward()
        return loss.nll

    def exchange_gradients(self) -> None:
        """Sum the gradients over all processes."""
        self.processes.sum_gradients(self.parameters)

    def whole_model(self) -> nn.Module:
        """The current model, unsharded, for this process to use on its own."""
        return self.model
