"""Evaluation mode for a while: no dropout inside, every module as it was afterwards."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from torch import nn


@contextmanager
def evaluating(modules: Iterable[nn.Module]) -> Iterator[bool]:
    """Evaluation mode inside, each module's own mode afterwards; tells whether any was training.

    A model may be in two modes: whoever trains it around a frozen part keeps that in evaluation.
    """
    training = [module for module in modules if module.training]
    for module in training:
        module.training = False
    try:
        yield bool(training)
    finally:
        for module in training:
            module.training = True
