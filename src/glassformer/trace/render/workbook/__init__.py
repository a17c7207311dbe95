"""A trace as an .xlsx file with live formulas: change a weight and watch what it changes.

The files, in reading order: `layout` (where each step stands), `ranges` (cells in a row or
column), `pieces` and `functions` (parts of formulas), `reductions` and `formulas` (an expression
as a formula), `formats` (colours), `writer` (the file).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from glassformer.trace.render.files import write_file
from glassformer.trace.render.words import words_in
from glassformer.trace.render.workbook.writer import workbook_bytes
from glassformer.trace.trace import Trace

__all__ = ["workbook_bytes", "write_workbook"]


def write_workbook(
    trace: Trace,
    path: str | os.PathLike[str],
    *,
    steps: Sequence[str] | None = None,
    lang: str = "en",
) -> Path:
    """Write a trace as a workbook.

    `steps` names the steps that are to be formulas; what they read from others stands as
    numbers. Without it, everything that was computed is a formula.
    """
    chosen = None if steps is None else [trace[name] for name in steps]
    return write_file(path, workbook_bytes(trace, chosen, words_in(lang)))
