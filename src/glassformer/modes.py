"""Modes that a model runs in: evaluation, and the number formats that this CPU multiplies."""

import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache

import torch
from torch import nn

_MULTIPLY = """
import torch
ones = torch.ones(64, 64, dtype=torch.bfloat16)
assert float((ones @ ones)[0, 0]) == 64
"""


@contextmanager
def evaluating(modules: Iterable[nn.Module]) -> Iterator[bool]:
    """Evaluation mode inside, each module's own mode afterwards; yields whether any was training.

    A model may be in both modes at once: a frozen part stays in evaluation while the rest trains.
    """
    training = [module for module in modules if module.training]
    for module in training:
        module.training = False
    try:
        yield bool(training)
    finally:
        for module in training:
            module.training = True


@cache
def multiplies_bfloat16() -> bool:
    """Tried in another process: some machines claim the instruction and are killed by it."""
    command = [sys.executable, "-c", _MULTIPLY]
    tried = subprocess.run(command, capture_output=True, check=False)  # noqa: S603  our own text
    return tried.returncode == 0


@cache
def multiplies_int8() -> bool:
    """Whether products of any int8 matrices are exact.

    Processors without VNNI instructions add two products at a time in 16 bits, and cut off what
    does not fit.
    """
    largest = torch.full((32, 64), 127, dtype=torch.int8)
    return bool((torch._int_mm(largest, largest.t()) == 64 * 127**2).all())
