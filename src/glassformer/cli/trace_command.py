"""One pass over a text: `glassformer trace` records all of it, `explain` shows one number."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from glassformer.cli.output import check_place, show_size
from glassformer.language import spoken, words

if TYPE_CHECKING:
    from glassformer.tracing import Step, Trace


say = words("glassformer.cli.messages")


def trace(
    model: str,
    text: str,
    /,
    *,
    output: Annotated[Path | None, Parameter(name=["--output", "-o"])] = None,
    steps: Annotated[list[str] | None, Parameter(name="--step")] = None,
    target: str | None = None,
) -> None:
    """Record every number of one pass over a text, as a page, a workbook, data or a list."""
    from glassformer.checkpoint import find

    find(model)  # a wrong name is answered without waiting for torch

    from glassformer.documents import render, render_text

    check_place(output)
    if output is not None and output.suffix.lower() == ".html":
        recorded = _write_page(model, text, target, steps or [], output)
        _tell(output, recorded)
        return
    recorded = trace_text(model, text, target)
    chosen = [recorded[name] for name in steps or ()]
    if output is None:
        parts: list[Step] | list[Trace] = chosen or [recorded]
        for part in parts:
            sys.stdout.write(f"{render_text(part, lang=spoken())}\n")
        return
    render(chosen or recorded, path=output, lang=spoken())
    _tell(output, recorded)


def _write_page(model: str, text: str, target: str | None, steps: list[str], output: Path) -> Trace:
    """The explorer's page of the run, with the text and the model's answer."""
    from glassformer.checkpoint import find
    from glassformer.documents.renderer import write_file
    from glassformer.explorer.model_list import open_text
    from glassformer.explorer.saved_page import page_of
    from glassformer.tasks import load

    opened = open_text(load(find(model), attention="written"), Path(model).name, text, target)
    chosen = [opened.trace[name] for name in steps]
    write_file(output, page_of(opened, chosen or None, spoken()))
    return opened.trace


def _tell(output: Path, recorded: Trace) -> None:
    size = show_size(output.stat().st_size)
    said = say("trace written", output=output, count=len(recorded.steps), size=size)
    sys.stderr.write(f"{said}\n")


def explain(
    model: str,
    text: str,
    /,
    *,
    at: str,
    depth: Annotated[int, Parameter(validator=Number(gte=1))] = 1,
    terms: Annotated[int | None, Parameter(validator=Number(gte=1))] = None,
    target: str | None = None,
    as_json: Annotated[bool, Parameter(name="--json", negative=())] = False,
) -> None:
    """Show the arithmetic of one number: formula, real operands, source line."""
    from glassformer.checkpoint import find

    find(model)  # a wrong name is answered without waiting for torch

    from glassformer.documents.trace_data import json_text
    from glassformer.tracing.cells import MOST_LISTED
    from glassformer.tracing.formula import MOST_TERMS
    from glassformer.tracing.trace import find_cell

    cell = find_cell(trace_text(model, text, target), at)
    if as_json:
        data = cell.to_dict(depth, terms or MOST_LISTED)
        sys.stdout.write(json_text(data, indent=1) + "\n")
    else:
        sys.stdout.write(cell.explain(depth, terms or MOST_TERMS) + "\n")


# --- tracing ---
# What `explain` and `trace` share: a model and a text to a trace.


def trace_text(model: str, text: str, target: str | None) -> Trace:
    """The trace of one pass over a text, attention written out."""
    from glassformer import checkpoint
    from glassformer.tasks.forward_pass import forward_pass
    from glassformer.tracing import trace as record

    loaded = checkpoint.load(checkpoint.find(model), attention="written")
    reading = forward_pass(loaded, text, target)
    return record(reading.model, *reading.arguments, axis_labels=reading.labels)
