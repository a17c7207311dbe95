"""Every entry of torch's own operator database, traced and recomputed.

`op_db` is torch's own test database: about 700 operators and variants, each with the inputs that
its authors test. Samples are traced, forward and as a training step, and cells of every step are
recomputed in float64. The results are stored in `operators.json`.

    python -m tests.tracing.operator_database addmm qr     # examine these entries
    python -m tests.tracing.operator_database --write      # examine all, update operators.json
                                                           # and the limits in docs/trace.md
    python -m tests.tracing.operator_database --guide      # update docs/trace.md alone
    python -m tests.tracing.operator_database --table      # print the contents of operators.json
"""

from __future__ import annotations

import argparse
import difflib
import json
import re
import sys
import textwrap
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
from glassformer.tracing import Trace, trace, trace_training_step

__all__ = [
    "ENTRIES",
    "GUIDE",
    "PASSES",
    "TABLE",
    "Outcome",
    "examined",
    "part_of",
    "read_table",
    "renewed_guide",
    "status_of",
    "table_text",
]

TABLE = Path(__file__).with_name("operators.json")
GUIDE = Path(__file__).parents[2] / "docs" / "trace.md"
CELLS = 20
"""How many cells of each step are recomputed: a random part, the same in each run."""

Pass = Literal["forward", "training"]
PASSES: tuple[Pass, ...] = ("forward", "training")


def name_of(entry: Any) -> str:
    """An entry's name: `nn.functional.pad (reflect)`."""
    variant = entry.variant_test_name
    return f"{entry.name} ({variant})" if variant else str(entry.name)


ENTRIES: dict[str, Any] = {
    name_of(entry): entry for entry in op_db if entry.supported_dtypes("cpu")
}


@dataclass
class Outcome:
    """The result for the samples of one entry in one pass."""

    samples: int = 0
    cells: int = 0
    opaque: Counter[str] = field(default_factory=Counter)
    """The operators that made a step without a rule, and in how many samples."""
    refused: dict[str, str] = field(default_factory=dict)
    """By the function that raised a `TraceError`: what it said."""
    wrong: list[str] = field(default_factory=list)
    crashed: list[str] = field(default_factory=list)

    @property
    def verified(self) -> bool:
        """Whether every sample was traced, and every step has a rule that reproduces it."""
        return self.samples > 0 and not (self.opaque or self.refused or self.wrong or self.crashed)

    @property
    def sound(self) -> bool:
        """Whether no wrong cell was shown and nothing crashed."""
        return not self.wrong and not self.crashed


def dtype_of(entry: Any) -> torch.dtype:
    """float32 if the operator supports it."""
    dtypes = entry.supported_dtypes("cpu")
    wished = (torch.float32, torch.int64, torch.bool, torch.complex64)
    chosen: torch.dtype = next(dtype for dtype in (*wished, *dtypes) if dtype in dtypes)
    return chosen


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
        parameter = nn.Parameter(tensor.detach().clone())
        self.own.append(parameter)
        return parameter

    def forward(self) -> Any:
        # A copy is not a leaf of autograd's graph, so an operator may write to it.
        given, args, kwargs = self._arguments
        if self._entry.name.endswith("_"):
            given = given.clone()
        return self._process(self._entry(given, *args, **kwargs))


def _weighted_sum(result: Any, chosen: list[bool]) -> Tensor:
    """A number that every cell of the chosen tensors influences differently."""
    parts = []
    for tensor, is_chosen in zip(tensors_in(result), chosen, strict=True):
        if is_chosen:
            real = torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor
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
    """Whether there is nothing to trace: no tensor is returned, or torch itself fails."""
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
        outcome.refused[_function_that_raised(error)] = _general(str(error))
    except Exception as error:  # what a crash is, is found here
        outcome.samples += 1
        where = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{Path(where.filename).name}:{where.lineno}"
        said = str(error).splitlines()[0] if str(error) else ""
        outcome.crashed.append(f"{number}: {type(error).__name__} {said[:120]} ({place})")


def _function_that_raised(error: Exception) -> str:
    *_, (frame, _) = traceback.walk_tb(error.__traceback__)
    return frame.f_code.co_qualname


Status = str | dict[str, Any]
"""`verified`, `{"opaque": [operators]}` or `{"refused": {function: what its TraceError says}}`.

The functions are compared; the guide repeats the words.
"""
Table = dict[str, dict[str, Status]]


def status_of(outcome: Outcome) -> Status | None:
    """The table's entry for an outcome; None if there was nothing to trace."""
    assert outcome.sound, "what is wrong has no place in the table"
    if outcome.refused:
        return {"refused": dict(sorted(outcome.refused.items()))}
    if outcome.opaque:
        return {"opaque": sorted(outcome.opaque)}
    return "verified" if outcome.samples else None


def _general(said: str) -> str:
    """An error message without its figures and names."""
    return re.sub(r"\([\d, ]+\)|[\d.]+e[-+]\d+|own\.\d+", "…", said)


def read_table() -> Table:
    """The table as it was last written."""
    table: Table = json.loads(TABLE.read_text(encoding="utf-8"))
    return table


def table_text(table: Table) -> str:
    """Entries by pass: verified, opaque by declaration, refused in one line."""
    lines = [f"{'':10}{'entries':>9}{'verified':>10}{'opaque':>8}{'refused':>9}"]
    for kind in PASSES:
        statuses = [row[kind] for row in table.values() if kind in row]
        verified = sum(status == "verified" for status in statuses)
        opaque = sum(isinstance(status, dict) and "opaque" in status for status in statuses)
        refused = len(statuses) - verified - opaque
        lines.append(f"{kind:10}{len(statuses):9}{verified:10}{opaque:8}{refused:9}")
    return "\n".join(lines)


_GROUPS = {
    "Linear algebra (inverses, determinants, decompositions, solving)": (
        "linalg_", "_linalg_", "cholesky", "lu_", "qr", "ormqr", "geqrf", "triangular_solve",
        "_lu_with_info",
    ),
    "Special functions": ("special_", "polygamma", "mvlgamma", "igamma", "nextafter"),
}  # fmt: skip


def guide_text(table: Table) -> str:
    """The limits that the guide states: the operators without a rule, by kind."""
    operators: set[str] = set()
    refused: set[str] = set()
    for row in table.values():
        for status in row.values():
            if isinstance(status, dict):
                operators.update(status.get("opaque", ()))
                refused.update(status.get("refused", {}).values())
    groups: dict[str, list[str]] = {name: [] for name in (*_GROUPS, "Others")}
    for operator in sorted(operators):
        found = (name for name, starts in _GROUPS.items() if operator.startswith(starts))
        groups[next(found, "Others")].append(f"`{operator}`")
    forward, training = (
        f"{sum(row.get(kind) == 'verified' for row in table.values())} of "
        f"{sum(kind in row for row in table.values())}"
        for kind in PASSES
    )
    lines = [
        "An entry counts where every step of its samples has a rule and the cells recomputed "
        f"({CELLS} per step, chosen at random) agree: of those that run on the CPU, {forward} "
        f"forward, and {training} in a training step. A step made by one of these operators may be "
        "opaque:",
        "",
        *(f"- {name}: {', '.join(names)}." for name, names in groups.items() if names),
        "",
        "Refused, with a line that says why:",
        "",
        *(f"- {said}." for said in sorted(refused)),
    ]
    return "\n".join(
        part
        for line in lines
        for part in textwrap.wrap(line, 100, subsequent_indent="  " * line.startswith("-")) or [""]
    )


def renewed_guide(guide: str, table: Table) -> str:
    """The guide with the generated limits between its two marks."""
    start, end = "<!-- operators: begin -->\n", "<!-- operators: end -->\n"
    before, _, rest = guide.partition(start)
    _, _, after = rest.partition(end)
    return f"{before}{start}\n{guide_text(table)}\n\n{end}{after}"


def examined(names: Iterable[str], most: int | None, kinds: Iterable[Pass]) -> Iterator[Any]:
    """The outcomes of these entries: (name, pass, outcome)."""
    for name in names:
        for kind in kinds:
            numbers = None if most is None else range(most)
            yield name, kind, examine(ENTRIES[name], kind, numbers)


def named(names: Iterable[str]) -> list[str]:
    """Entries by name; for an operator such as `special_i0e`, those that it leaves opaque."""
    found: list[str] = []
    for name in names:
        entries = [name] if name in ENTRIES else _left_opaque(name)
        if not entries:
            near = difflib.get_close_matches(name, ENTRIES, 5)
            raise SystemExit(f"op_db has no entry {name!r}; similar names: {near or 'none'}")
        found += entries
    return list(dict.fromkeys(found))


def _left_opaque(operator: str) -> list[str]:
    """The entries that the table lists as opaque because of an operator."""
    table = read_table()
    return [entry for entry, row in table.items() if f'"{operator}"' in json.dumps(row)]


def part_of(names: Iterable[str], part: int, parts: int) -> list[str]:
    """One in so many entries, chosen by a checksum of the name, so that additions to torch do not
    change the sample."""
    return [name for name in names if zlib.crc32(name.encode()) % parts == part]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "names", nargs="*", help="entries or opaque operators; all if none is given"
    )
    parser.add_argument("--part", default="0/1", help="one of so many parts: 2/8")
    parser.add_argument("--most", type=int, help="at most so many samples of each entry")
    parser.add_argument("--only", choices=PASSES)
    parser.add_argument(
        "--write", action="store_true", help="renew operators.json and docs/trace.md"
    )
    parser.add_argument("--guide", action="store_true", help="renew docs/trace.md alone")
    parser.add_argument("--table", action="store_true", help="print what operators.json says")
    given = parser.parse_args()
    if given.guide:
        write_guide()
        return
    if given.table:
        sys.stdout.write(f"{table_text(read_table())}\n")
        return
    part, parts = map(int, given.part.split("/"))
    names = part_of(named(given.names) or ENTRIES, part, parts)
    table = read_table() if given.write and TABLE.exists() else {}
    for name, kind, outcome in examined(names, given.most, [given.only] if given.only else PASSES):
        line = json.dumps({"name": name, "pass": kind, **vars(outcome)})
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()
        if given.write and not outcome.sound:
            sys.stderr.write(f"not written, since cells are wrong or it crashed: {name}, {kind}\n")
        elif given.write and (status := status_of(outcome)) is not None:
            table.setdefault(name, {})[kind] = status
    if given.write:
        write_table(table)
        write_guide()


def write_guide() -> None:
    """Renew the limits that `docs/trace.md` states."""
    GUIDE.write_text(renewed_guide(GUIDE.read_text("utf-8"), read_table()), "utf-8")


def write_table(table: Table) -> None:
    """Write a table, one entry per line."""
    rows = [f"  {json.dumps(name)}: {json.dumps(table[name])}" for name in sorted(table)]
    TABLE.write_text("{\n" + ",\n".join(rows) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
