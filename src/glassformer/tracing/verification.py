"""Are a trace's numbers right? By their own arithmetic, and compared to a run without the trace.

`verify` recomputes cells in float64 from the very operands and formula that a reader sees. The
difference is measured relative to max(|value|, Σ|terms|, largest |operand|): float32 cannot do
better when terms cancel. `PlainRun` compares the outputs of a trace with those of the module.
"""

from __future__ import annotations

import copy
import random
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from glassformer.errors import TraceError, expect_whole, stop_if_cancelled
from glassformer.modes import evaluating
from glassformer.tracing.arithmetic.expressions import Entry
from glassformer.tracing.arithmetic.float64_values import Evaluation, RunningSums
from glassformer.tracing.capture.memory import Index, as_real, gaps, index_of
from glassformer.tracing.capture.recorder import (
    ONE_AT_A_TIME,
    Program,
    Recording,
    tensors_in,
    without_fast_path,
)
from glassformer.tracing.cells import Cell
from glassformer.tracing.notes import Note, ShownAsText
from glassformer.tracing.steps import Step

if TYPE_CHECKING:
    from glassformer.tracing.trace import Trace


@dataclass(slots=True)
class RuleReport:
    """The worst cell of a rule.

    `excess` is the largest difference divided by what the dtype allows. If partial sums are rounded
    to `sums_in`, which alone explains a larger difference, the difference counts from there.
    """

    rule: str
    cells: int = 0
    worst: float = 0.0
    excess: float = 0.0
    cell: str = ""
    sums_in: str = ""

    def note(self, difference: float, excess: float, step: Step, index: Index) -> None:
        self.cells += 1
        if difference > self.worst or not self.cell:
            self.worst, self.cell = difference, f"{step.name}[{', '.join(map(str, index))}]"
        self.excess = max(self.excess, excess)


@dataclass(slots=True, repr=False)
class Report(ShownAsText):
    """The result of a verification."""

    rules: dict[str, RuleReport] = field(default_factory=dict)
    opaque: list[str] = field(default_factory=list)
    """The steps without a rule."""
    without_rule: int = 0
    """The number of their cells."""

    @property
    def cells(self) -> int:
        """The number of cells recomputed."""
        return sum(rule.cells for rule in self.rules.values())

    @property
    def worst(self) -> float:
        """The largest relative difference."""
        return max((rule.worst for rule in self.rules.values()), default=0.0)

    @property
    def worst_cell(self) -> str:
        worst = max(self.rules.values(), key=lambda rule: rule.worst, default=None)
        return worst.cell if worst is not None else ""

    @property
    def ok(self) -> bool:
        """Whether every cell agrees: to a relative difference of 1e-6 in float32."""
        return all(rule.excess <= 1 for rule in self.rules.values())

    def __str__(self) -> str:
        without = f"{self.without_rule} more have no rule" if self.opaque else "all have a rule"
        lines = [f"{self.cells} cells, worst {self.worst:.1e} at {self.worst_cell}; {without}"]
        if not self.cells:
            without = f"{self.without_rule} have no rule" if self.opaque else "nothing was computed"
            lines = [f"no cells to recompute; {without}"]
        for rule in sorted(self.rules.values(), key=lambda rule: -rule.worst):
            mark = "  WRONG" if rule.excess > 1 else rule.sums_in and f"  sums in {rule.sums_in}"
            lines.append(
                f"  {rule.rule:24} {rule.cells:7} cells  {rule.worst:.1e}{mark}  {rule.cell}"
            )
        if self.opaque:
            lines.append(f"  no rule: {', '.join(self.opaque)}")
        return "\n".join(lines)


def verify(trace: Trace, sample: int | None, seed: int) -> Report:
    """Recompute cells of every step; in large steps a random sample, determined by `seed`."""
    if sample is not None:
        expect_whole(sample, "sample", least=0, most=None, error=TraceError)
    trace.check_open()
    report = Report()
    steps = []
    for step in trace.steps:
        if step.is_opaque:
            report.opaque.append(step.name)
            report.without_rule += step.view.numel
        elif step.rule is not None and step.view.numel:
            steps.append(step)
    rng = random.Random(seed)  # noqa: S311 - a sample, not a secret
    for step, count in zip(steps, _shares([s.view.numel for s in steps], sample), strict=True):
        stop_if_cancelled()
        if count:
            _check(step, count, rng, report)
    return report


def _shares(sizes: list[int], sample: int | None) -> list[int]:
    """The number of cells per step: all of small steps, equally many of the others."""
    if sample is None or sum(sizes) <= sample:
        return sizes
    shares = [0] * len(sizes)
    left, waiting = sample, len(sizes)
    for place in sorted(range(len(sizes)), key=lambda p: sizes[p]):
        shares[place] = min(sizes[place], -(-left // waiting))
        left, waiting = left - shares[place], waiting - 1
    return shares


def _check(step: Step, count: int, rng: random.Random, report: Report) -> None:
    rule = step.rule
    assert rule is not None
    entry = report.rules.setdefault(rule, RuleReport(rule))
    values = step.view.array
    chosen = sorted(rng.sample(range(step.view.numel), count))
    places = np.unravel_index(chosen, step.shape) if step.shape else ()
    for index in zip(*(axis.tolist() for axis in places), strict=True) if step.shape else [()]:
        expression = step.expression(index)
        copied = isinstance(expression, Entry)
        if expression is None or (copied and Cell(step, index).is_unwritten):
            continue  # set by an edit, or never written: there is nothing to recompute
        evaluation = Evaluation(expression)
        if not evaluation.is_exact:
            continue
        value, allowed = float(values[index]), step.tolerance
        difference = evaluation.relative_difference(value, step.dtype)
        excess = difference / allowed
        if excess > 1 and (sums_in := step.dtype_of_sums) is not None:
            entry.sums_in = str(sums_in).removeprefix("torch.")
            summed = RunningSums(expression, sums_in)
            excess = summed.relative_difference(value, step.dtype) / allowed
        entry.note(difference, excess, step, index)


# --- plain run ---
# Does a trace have the same numbers as the module itself? A run without the trace shows it.
#
# The trace expands torch's fused paths. The results usually agree up to rounding, but not always:
# `nn.TransformerEncoder` with a padding mask takes a fast path in evaluation mode that leaves zeros
# at padded positions. The outputs are therefore compared with those of a plain run: always if a
# module with a fast path ran, else if the module and its run are small. A module is copied for
# this; a function runs as it is, and only if there may be a fast path. Code that writes to its
# inputs, parameters or globals, or that has hooks, is not run twice. Other side effects (printing,
# appending to a list) go unnoticed and happen twice.


_FAST_PATHS = (nn.TransformerEncoder, nn.TransformerEncoderLayer, nn.MultiheadAttention)
_SMALL_MODULE, _SMALL_RUN = 64 * 1024**2, 8 * 1024**2
"""Bytes of parameters and of recorded numbers up to which a second run is cheap."""
_LISTED = 4
"""The number of positions that a note lists."""
_PLAIN = (type(None), Tensor, bool, int, float, str, torch.dtype)
"""What may be given to a second run: it cannot have been changed by the first."""
_BOOKKEEPING = vars(nn.Module()).keys() - {"_parameters", "_buffers", "_modules"}
"""A module's tables of hooks, which no forward changes: to copy them takes longer than to run."""

Outputs = Mapping[str, Tensor]


class PlainRun:
    """A run without the trace. Create it before the recording, which may change the module."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._again = _again(program)
        self._random = torch.get_rng_state()

    def compared_with(self, recording: Recording) -> list[Note]:
        """Run the module; a note for each output that differs from the recording's."""
        again = self._again
        if again is None or _reaches_outside(recording):
            return []
        fast = any(issubclass(kind, _FAST_PATHS) for kind in recording.ran)
        made = {
            view.version for call in recording.calls for view in call.outputs if view is not None
        }
        n_bytes = sum(version.nbytes for version in made)
        small = isinstance(again, nn.Module) and n_bytes <= _SMALL_RUN
        if not (fast or small):
            return []
        twin = _copied(again) if fast else None  # before the run below can change its state
        try:
            with ONE_AT_A_TIME if fast else nullcontext():
                plain = self._run(again, recording)
                kind = "other numbers"
                if twin is not None and any(_differences(recording, plain, kind)):
                    with without_fast_path():
                        slow = self._run(twin, recording)
                    if not any(_differences(recording, slow, kind)):
                        kind = "fast path"
        except Exception as error:  # the module's own, which did not occur in the trace
            return [Note("fails alone", error=f"{type(error).__name__}: {error}")]
        return list(_differences(recording, plain, kind))

    def _run(self, again: Callable[..., Any], recording: Recording) -> Outputs:
        """Its outputs, with the random numbers of the recorded run.

        If that drew none, the RNG, which other threads may be using, is not touched.
        """
        program = self._program
        drew = any(call.operator.random for call in recording.calls)
        modules = again.modules() if isinstance(again, nn.Module) else ()
        with (
            torch.random.fork_rng(devices=[], enabled=drew),
            torch.no_grad(),
            warnings.catch_warnings(),
            evaluating(modules),
        ):
            if drew:
                torch.set_rng_state(self._random)
            warnings.simplefilter("ignore")  # the recorded run has already warned
            result = again(*program.args, **program.kwargs)
            return {name: tensor.cpu() for name, tensor in tensors_in(result, "")}


def _again(program: Program) -> Callable[..., Any] | None:
    """What to run: a copy that shares the module's parameters; None to skip the plain run."""
    own = program.function
    given = tree_leaves((program.args, program.kwargs), is_leaf=_is_single)
    if not all(isinstance(leaf, _PLAIN) for leaf in given):
        return None
    if not isinstance(own, nn.Module):
        return own
    n_bytes = sum({id(p): p.numel() * p.element_size() for p in own.parameters()}.values())
    if n_bytes > _SMALL_MODULE and not any(isinstance(m, _FAST_PATHS) for m in own.modules()):
        return None
    if any(part._forward_hooks or part._forward_pre_hooks for part in own.modules()):
        return None
    return _copied(own)


def _is_single(value: object) -> bool:
    return not isinstance(value, dict | list | tuple)


def _copied(again: Callable[..., Any]) -> Callable[..., Any] | None:
    """A copy of a module with the same parameters but its own state; a function as it is."""
    if not isinstance(again, nn.Module):
        return again
    shared = [*again.parameters()]
    for part in again.modules():
        shared += (value for name, value in vars(part).items() if name in _BOOKKEEPING)
    try:
        return copy.deepcopy(again, {id(value): value for value in shared})
    except Exception:  # a module may hold anything that cannot be copied: locks, open files
        return None


def _differences(recording: Recording, plain: Outputs, kind: str) -> Iterator[Note]:
    """A note for each output that differs from the plain run's by more than rounding."""
    for name, view in recording.outputs.items():
        shown, own = view.tensor_on_cpu(), plain.get(name)
        if own is not None and torch.equal(as_real(own), shown):
            continue
        if own is None or as_real(own).shape != shown.shape:
            shape = None if own is None else tuple(own.shape)
            yield Note("other shape", name=name, shown=tuple(shown.shape), own=shape)
            continue
        gap = gaps(shown, as_real(own))
        differs = gap > _rounding(as_real(own), len(recording.calls))
        if differs.any():
            worst = int(gap.argmax())
            zeros = kind == "fast path" and not as_real(own)[differs].any()
            yield Note(
                "fast path zeros" if zeros else kind,
                name=name,
                count=int(differs.sum()),
                all=differs.numel(),
                places=_places(differs),
                gap=f"{float(gap.flatten()[worst]):.2g}",
                worst=list(index_of(worst, gap.shape)),
            )


def _reaches_outside(recording: Recording) -> bool:
    """Whether the run wrote to anything that another run would read: input, parameter, global.

    A module that computes gradients may accumulate them in its parameters.
    """
    if recording.program.differentiates:
        return True
    given = {id(source.view.version) for source in recording.sources if source.role != "constant"}
    given |= {id(found.view.version) for found in recording.found}
    return any(id(old.first) in given for call in recording.calls for old, _ in call.writes)


def _rounding(own: Tensor, operators: int) -> float:
    """What another order of summation may change: one rounding of the maximum per operator."""
    if not own.is_floating_point():
        return 0.0
    finite = own[own.isfinite()].abs()
    largest = float(finite.max()) if finite.numel() else 0.0
    longest = max(own.shape, default=1)
    return (operators + longest) * torch.finfo(own.dtype).eps * largest


def _places(differs: Tensor) -> str:
    """The first positions that differ; a whole row is listed once."""
    if differs.ndim > 1 and bool((differs.any(-1) == differs.all(-1)).all()):
        differs = differs.all(-1)
    found = [place.tolist() for place in differs.nonzero()]
    text = ", ".join(map(str, found[:_LISTED]))
    return f"{text}, …" if len(found) > _LISTED else text
