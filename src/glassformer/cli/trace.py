"""`glassformer trace`: a whole trace as a file."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from glassformer.cli.output import check_place, show_size

if TYPE_CHECKING:
    from glassformer.trace import Step, Trace

__all__ = ["trace"]


def trace(
    model: str,
    text: str,
    /,
    *,
    output: Annotated[Path | None, Parameter(name=["--output", "-o"])] = None,
    steps: Annotated[list[str] | None, Parameter(name="--step")] = None,
    target: str | None = None,
    lang: Literal["en", "zh"] = "en",
) -> None:
    """Record every number of one pass over a text, as a page, a workbook, data or a list.

    Parameters
    ----------
    model:
        A shipped model (toy, imdb, en-de, en-zh, shakespeare) or a model folder.
    text:
        What the model reads.
    output:
        The file: .html (a page on which every number has its card), .xlsx (a workbook with live
        formulas), .json (every number, bit for bit), .md, .tex or .txt. Without it, the tree of
        steps is printed.
    steps:
        Only this step and what it reads; may be given several times.
    target:
        For a translator: the target text, instead of the one it produces.
    lang:
        English or Chinese.
    """
    from glassformer.checkpoint import find

    find(model)  # a wrong name is answered without waiting for torch

    from glassformer.cli.tracing import trace_text
    from glassformer.documents import render, render_text

    check_place(output)
    if output is not None and output.suffix.lower() == ".html":
        recorded = _write_page(model, text, target, steps or [], output, lang)
        _tell(output, recorded)
        return
    recorded = trace_text(model, text, target)
    chosen = [recorded[name] for name in steps or ()]
    if output is None:
        parts: list[Step] | list[Trace] = chosen or [recorded]
        for part in parts:
            sys.stdout.write(f"{render_text(part, lang=lang)}\n")
        return
    render(chosen or recorded, path=output, lang=lang)
    _tell(output, recorded)


def _write_page(
    model: str,
    text: str,
    target: str | None,
    steps: list[str],
    output: Path,
    lang: Literal["en", "zh"],
) -> "Trace":
    """The explorer's page of the run, with the text and the model's answer."""
    from glassformer.checkpoint import find
    from glassformer.explorer.running import open_text
    from glassformer.explorer.snapshot import page_of
    from glassformer.tasks import load
    from glassformer.trace.render.files import write_file

    opened = open_text(load(find(model), attention="written"), Path(model).name, text, target)
    chosen = [opened.trace[name] for name in steps]
    write_file(output, page_of(opened, chosen or None, lang))
    return opened.trace


def _tell(output: Path, recorded: "Trace") -> None:
    size = show_size(output.stat().st_size)
    sys.stderr.write(f"{output}: {len(recorded.steps)} steps, {size}\n")
