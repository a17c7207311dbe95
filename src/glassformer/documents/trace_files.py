"""What formats of a trace share, and its formats that are no documents.

`words` (English and Chinese), `matrices`, `colours`, `addresses` (who wrote what is read), `files`
(written whole or not at all); every number bit for bit (`data`), and
live formulas (`workbook`). `glassformer.documents` renders traces in any format. The page is the
explorer's, saved with its answers (`explorer.snapshot`), and is looked up when asked for: this
package imports nothing above itself.
"""

from __future__ import annotations

import os
from importlib import import_module
from pathlib import Path
from typing import Any

from glassformer.documents.file_writing import write_file
from glassformer.documents.trace_data import read_json, trace_data, write_json
from glassformer.documents.workbook import write_workbook
from glassformer.tracing.trace import Trace

__all__ = ["page_text", "read_json", "trace_data", "write_html", "write_json", "write_workbook"]


def page_text(trace: Trace, **options: Any) -> str:
    """A trace as one read-only page: the explorer in a file, every cell a card.

    Options: `steps` (only these and what they read), `lang`, `title`, `max_bytes`, `max_cells`.
    """
    made: str = import_module("glassformer.explorer.saved_page").page_text(trace, **options)
    return made


def write_html(trace: Trace, path: str | os.PathLike[str], **options: Any) -> Path:
    """Write `page_text` to a file, whole or not at all."""
    return write_file(path, page_text(trace, **options))
