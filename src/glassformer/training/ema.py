"""EMA: an exponential moving average of the weights, less noisy than they are, and better."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from glassformer.training.fast.sharding import cut_like, local


class EMA:
    """A second set of parameters that follows the model's, a share of the way at each update.

    The share starts large: decay is min(decay, (1 + n) / (10 + n)) after n updates, so that the
    random first weights are soon forgotten.
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        self._names = [name for name, _ in model.named_parameters()]
        parameters = [parameter.detach() for _, parameter in model.named_parameters()]
        self._whole_average = [parameter.clone() for parameter in parameters]
        # Of sharded parameters, this process's shares.
        self._parameters = [local(parameter) for parameter in parameters]
        self._average = [local(average) for average in self._whole_average]

    @torch.no_grad()
    def update(self, n_updates: int) -> None:
        """Follow the model after an update."""
        decay = min(self.decay, (1 + n_updates) / (10 + n_updates))
        torch._foreach_lerp_(self._average, self._parameters, 1 - decay)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """The model has the averaged weights inside this block, and its own again after."""
        self._swap()
        try:
            yield
        finally:
            self._swap()

    def tensors(self) -> dict[str, Tensor]:
        """The averaged weights by name."""
        return dict(zip(self._names, self._whole_average, strict=True))

    @torch.no_grad()
    def load(self, tensors: dict[str, Tensor]) -> None:
        """Take up averaged weights."""
        for name, average in zip(self._names, self._whole_average, strict=True):
            average.copy_(cut_like(tensors[name], average))

    @torch.no_grad()
    def _swap(self) -> None:
        kept = [parameter.clone() for parameter in self._parameters]
        torch._foreach_copy_(self._parameters, self._average)
        torch._foreach_copy_(self._average, kept)
