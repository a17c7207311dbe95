"""Every entry of torch's own operator database, traced and recomputed.

`op_db` is what torch tests itself with: about 700 operators and spellings of them, each with the
inputs that its authors found worth testing. Every sample is traced, forward and as a training
step, and cells of every step are recomputed in float64.

    python -m tests.trace.operator_database              # examine all of it, print the table
    python -m tests.trace.operator_database --write      # … and renew operators.json
    python -m tests.trace.operator_database addmm nn.functional.glu
"""

from __future__ import annotations

import argparse
import json
import sys
import traceback
import warnings
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.testing._internal.common_methods_invocations import op_db

from glassformer.errors import TraceError
from glassformer.trace import Trace, trace, trace_training_step

__all__ = ["CELLS", "ENTRIES", "TABLE", "Outcome", "examine", "name_of"]

TABLE = Path(__file__).with_name("operators.json")
CELLS = 50
"""How many cells of each step are recomputed: a random part, the same in each run."""

Pass = Literal["forward", "training"]


def name_of(entry: Any) -> str:
    """An entry's name: `nn.functional.pad (reflect)`."""
    variant = entry.variant_test_name
    return f"{entry.name} ({variant})" if variant else str(entry.name)


ENTRIES: dict[str, Any] = {
    name_of(entry): entry for entry in op_db if entry.supported_dtypes("cpu")
}


@dataclass
class Outcome:
    """What became of the samples of one entry in one pass."""

    samples: int = 0
    cells: int = 0
    opaque: Counter[str] = field(default_factory=Counter)
    """The operators that made a step without a rule, and in how many samples."""
    refused: Counter[str] = field(default_factory=Counter)
    """What a `TraceError` said."""
    wrong: list[str] = field(default_factory=list)
    crashed: list[str] = field(default_factory=list)

    @property
    def verified(self) -> bool:
        """Whether every sample was traced, and every step has a rule that reproduces it."""
        return self.samples > 0 and not (self.opaque or self.refused or self.wrong or self.crashed)

    @property
    def sound(self) -> bool:
        """Whether nothing false was shown, and nothing failed in an unclear way."""
        return not self.wrong and not self.crashed


def dtype_of(entry: Any) -> torch.dtype:
    """float32 where the operator takes it."""
    dtypes = entry.supported_dtypes("cpu")
    wished = (torch.float32, torch.int64, torch.bool, torch.complex64)
    return next(dtype for dtype in (*wished, *dtypes) if dtype in dtypes)


def samples_of(entry: Any, gradients: bool) -> Iterator[Any]:
    """The entry's samples; the same in each process."""
    dtype = dtype_of(entry)
    if gradients and not (dtype.is_floating_point and entry.supports_autograd):
        return
    torch.manual_seed(zlib.crc32(name_of(entry).encode()))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield from entry.sample_inputs("cpu", dtype, requires_grad=gradients)


def tensors_in(value: Any) -> Iterator[Tensor]:
    """The tensors of a result."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for part in value:
            yield from tensors_in(part)


def mapped(value: Any, change: Callable[[Tensor], Any]) -> Any:
    """The arguments with every tensor replaced."""
    if isinstance(value, Tensor):
        return change(value)
    if isinstance(value, list | tuple) and not hasattr(value, "_fields"):
        return type(value)(mapped(part, change) for part in value)
    if isinstance(value, dict):
        return {key: mapped(part, change) for key, part in value.items()}
    return value


class _Operator(nn.Module):
    """An operator whose differentiable arguments are parameters."""

    def __init__(self, entry: Any, sample: Any) -> None:
        super().__init__()
        self._entry, self._process = entry, sample.output_process_fn_grad
        self.own = nn.ParameterList()
        self._arguments = mapped((sample.input, sample.args, sample.kwargs), self._taken)

    def _taken(self, tensor: Tensor) -> Tensor:
        if not tensor.requires_grad:
            return tensor
        self.own.append(nn.Parameter(tensor.detach().clone()))
        return self.own[-1]

    def forward(self) -> Any:
        # A copy is an operation of autograd's: an operator may then write to it.
        given, args, kwargs = self._arguments
        if self._entry.name.endswith("_"):
            given = given.clone()
        return self._process(self._entry(given, *args, **kwargs))


def _weighted_sum(result: Any, chosen: list[bool]) -> Tensor:
    """One number on which every cell of the chosen tensors has a different influence."""
    parts = []
    for tensor, is_chosen in zip(tensors_in(result), chosen, strict=True):
        if is_chosen:
            real = torch.view_as_real(tensor) if tensor.is_complex() else tensor
            weights = torch.linspace(0.5, 1.5, real.numel(), dtype=real.dtype)
            parts.append((real * weights.reshape(real.shape)).sum())
    total = parts[0]
    for part in parts[1:]:
        total = total + part.to(total.dtype)
    return total


def _forward(entry: Any, sample: Any) -> Trace | None:
    def run(given: Any, args: Any, kwargs: Any) -> Any:
        return entry(given, *args, **kwargs)

    arguments = (sample.input, sample.args, sample.kwargs)
    return None if _returns_no_tensor(lambda: run(*arguments)) else trace(run, *arguments)


def _returns_no_tensor(run: Callable[[], Any]) -> bool:
    """Whether there is nothing to trace: no tensor comes back, or torch itself refuses to run."""
    try:
        return next(tensors_in(run()), None) is None
    except (RuntimeError, AssertionError, NotImplementedError):
        return True


def _training(entry: Any, sample: Any) -> Trace | None:
    module = _Operator(entry, sample)
    if not len(module.own):
        return None
    if _returns_no_tensor(module):
        return None
    torch.manual_seed(0)
    chosen = [tensor.requires_grad for tensor in tensors_in(module())]
    torch.manual_seed(0)
    if not any(chosen):
        return None
    return trace_training_step(
        module,
        loss=lambda result: _weighted_sum(result, chosen),
        optimiser=torch.optim.SGD(module.parameters(), lr=0.1),
    )


def examine(entry: Any, kind: Pass, numbers: Iterable[int] | None = None) -> Outcome:
    """Trace the samples of an entry (or those with these numbers) and verify them."""
    outcome = Outcome()
    wanted = None if numbers is None else set(numbers)
    for number, sample in enumerate(samples_of(entry, gradients=kind == "training")):
        if wanted is None or number in wanted:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                _examine(entry, kind, sample, number, outcome)
    return outcome


def _examine(entry: Any, kind: Pass, sample: Any, number: int, outcome: Outcome) -> None:
    torch.manual_seed(number)
    try:
        traced = (_forward if kind == "forward" else _training)(entry, sample)
        if traced is None:
            return
        outcome.samples += 1
        report = traced.verify(sample=CELLS * max(1, len(traced.steps)))
        outcome.cells += report.cells
        opaque = {step.op for step in traced.steps if step.is_opaque}
        outcome.opaque.update(opaque)
        for rule in report.rules.values():
            if rule.excess > 1:
                outcome.wrong.append(f"{number}: {rule.rule} {rule.worst:.1e} at {rule.cell}")
        explained = set()
        for step in traced.steps:
            if step.op not in explained and step.view.numel:
                explained.add(step.op)
                str(step[(0,) * len(step.shape)].explain())
        traced.close()
    except TraceError as error:
        outcome.samples += 1
        outcome.refused[str(error)] += 1
    except Exception as error:  # what a crash is, is found here
        outcome.samples += 1
        where = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{Path(where.filename).name}:{where.lineno}"
        said = str(error).splitlines()[0] if str(error) else ""
        outcome.crashed.append(f"{number}: {type(error).__name__} {said[:120]} ({place})")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*")
    parser.add_argument("--part", default="0/1")
    parser.add_argument("--most", type=int, default=10**6)
    parser.add_argument("--only", choices=["forward", "training"])
    arguments = parser.parse_args()
    part, parts = map(int, arguments.part.split("/"))
    names = arguments.names or list(ENTRIES)
    kinds: list[Pass] = [arguments.only] if arguments.only else ["forward", "training"]
    for name in names:
        if zlib.crc32(name.encode()) % parts != part:
            continue
        for kind in kinds:
            outcome = examine(ENTRIES[name], kind, range(arguments.most))
            print(json.dumps({"name": name, "pass": kind, **vars(outcome)}), flush=True)


if __name__ == "__main__":
    sys.exit(main())
