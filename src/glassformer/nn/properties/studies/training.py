"""What the studies share: seeds that leave the caller's random numbers alone, and one loop."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import torch
from torch import nn

from glassformer.nn.shapes import Float, Int, Tensor


@contextmanager
def one_thread() -> Iterator[None]:
    """Operators on small tensors gain nothing from threads, and wait for them on a busy machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Everything random inside follows from the seed; outside, nothing has changed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


def fit(
    parameters: Iterable[nn.Parameter],
    loss: Callable[[], Float[Tensor, ""]],
    *,
    steps: int,
    learning_rate: float,
) -> float:
    """Adam on a loss that is computed anew each step; returns the last one.

    Training multiplies the rounding of its first steps, which differs between processors. Where a
    result shall be the same digits everywhere, pass parameters in float64.
    """
    optimiser = torch.optim.Adam(parameters, lr=learning_rate)
    last = float("nan")
    with one_thread():
        for _ in range(steps):
            value = loss()
            optimiser.zero_grad()
            value.backward()
            optimiser.step()
            last = value.item()
    return last


def accuracy(logits: Float[Tensor, "... C"], answers: Int[Tensor, "..."]) -> float:
    """Share of answers that have the largest logit."""
    return float((logits.argmax(dim=-1) == answers).double().mean())
