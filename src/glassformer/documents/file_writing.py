"""Written whole or not at all; and source files named without the machine they lie on."""

from __future__ import annotations

import os
from pathlib import Path

from glassformer.errors import TraceError
from glassformer.files import as_path, write_whole
from glassformer.tracing.capture.source_lines import Line, from_package


def write_file(path: str | os.PathLike[str], content: str | bytes) -> Path:
    """Write a file whole or not at all."""
    target = as_path(path, TraceError)
    try:
        return write_whole(target, content)
    except OSError as error:
        raise TraceError(
            "cannot write {target}: {reason}", target=target, reason=error.strerror
        ) from error


def source_place(line: Line | None) -> str:
    """`package/module.py:12`: the file from its outermost package down."""
    return "" if line is None else f"{from_package(line.file)}:{line.number}"
