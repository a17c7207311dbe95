"""How much memory a trace would take, known before it is made.

The module is run once on torch's `meta` device, where tensors have shapes and no numbers, and what
the recorder would keep is counted. A model that decides by its numbers (`if mask.any()`) cannot run
so; the budget is then checked during the real run. The run without numbers costs about what the
bookkeeping of a trace costs, so it is made only where the sizes suggest that it is needed.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from glassformer.errors import CancelledError
from glassformer.tracing.capture.memory import Budget, View
from glassformer.tracing.capture.module_stack import ModulePaths
from glassformer.tracing.capture.operator_calls import Operator
from glassformer.tracing.capture.recorder import Program, Recorder, recording

_META = torch.device("meta")
_SAFETY = 4
"""How far below the budget a rough guess must lie to be believed."""
_HEADS, _SCORES = 16, 4
"""A generous guess at attention: heads, and tensors of scores (scores, scaled, masked, weights)."""


def may_exceed(root: nn.Module, inputs: Iterable[View], budget: int) -> bool:
    """Whether sizes alone suggest that a trace could come near the budget: a rough guess.

    Each matrix reads and writes a row for each position; of every four matrices one attention.
    """
    matrices = [parameter for parameter in root.parameters() if parameter.ndim > 1]
    rows = max(map(_rows, inputs), default=1)
    widths = sum(parameter.shape[0] + parameter.shape[1] for parameter in matrices)
    guess = 4 * rows * (widths + rows * _HEADS * _SCORES * len(matrices) // 4)
    return _SAFETY * guess > budget


def _rows(view: View) -> int:
    """The positions of an input: every id, or every vector."""
    vectors = view.dtype.is_floating_point and view.ndim > 1
    return view.numel // max(1, view.shape[-1]) if vectors else view.numel


def expected_bytes(program: Program, root: nn.Module) -> int | None:
    """What the recorder would keep; None where the model cannot run without numbers."""
    budget = Budget(sys.maxsize)
    counter = _Counter(ModulePaths(root, budget), budget, expected_bytes.__code__)
    try:
        args, kwargs = counter.emptied(program.args), counter.emptied(program.kwargs)
        with recording(counter), _state_kept(root):
            program.function(*args, **kwargs)
    except CancelledError:
        raise
    except Exception:  # whatever a model does that has no numbers to do it with
        return None
    return budget.spent


class _Counter(Recorder):
    """A recorder that runs every operator on shapes alone, and keeps nothing but the count."""

    def emptied(self, value: Any) -> Any:
        """The arguments, each tensor as one of the same shape without numbers."""
        if isinstance(value, Tensor):
            if value.device.type == "meta":
                return value
            empty = torch.empty_strided(
                value.size(), value.stride(), dtype=value.dtype, device=_META
            )
            self.adopt(empty)
            return empty
        if isinstance(value, torch.device):
            return _META
        if isinstance(value, list | tuple) and not hasattr(value, "_fields"):
            return type(value)(self.emptied(part) for part in value)
        if isinstance(value, dict):
            return {key: self.emptied(part) for key, part in value.items()}
        return value

    def _record(self, operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        args, kwargs = self.emptied(args), self.emptied(kwargs)
        if "device" in operator.parameters[len(args) :]:
            kwargs["device"] = _META
        self._renew(operator, args, kwargs)
        result = operator.func(*args, **kwargs)
        for tensor in result if isinstance(result, list | tuple) else (result,):
            if isinstance(tensor, Tensor) and self._key(tensor) not in self._versions:
                self.adopt(tensor)
                self._budget.spend(tensor.untyped_storage().nbytes())
        return result


@contextmanager
def _state_kept(root: nn.Module) -> Iterator[None]:
    """Every module's attributes as they were after the block: a table filled lazily on the way
    would be one without numbers."""
    tables = ("_buffers", "_parameters", "_modules")
    kept = [vars(module) for module in root.modules()]
    kept += [attributes[name] for attributes in kept for name in tables]
    before = [dict(names) for names in kept]
    for module in root.modules():
        module.training = False
    try:
        yield
    finally:
        for names, values in zip(kept, before, strict=True):
            _put_back(names, values)


def _put_back(names: dict[str, Any], before: dict[str, Any]) -> None:
    """What differs, and nothing else: other threads may be using the module."""
    for name in names.keys() - before.keys():
        del names[name]
    for name, value in before.items():
        if name not in names or names[name] is not value:
            names[name] = value
