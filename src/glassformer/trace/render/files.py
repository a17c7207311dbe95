"""Written whole or not at all; and source files named without the machine they lie on."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from glassformer.errors import TraceError
from glassformer.trace.source import Line, from_package

__all__ = ["source_place", "write_file"]


def write_file(path: str | os.PathLike[str], content: str | bytes) -> Path:
    """Write a file under a temporary name beside it, then put it in place in one move."""
    target = Path(path)
    data = content.encode("utf-8") if isinstance(content, str) else content
    try:
        handle, name = tempfile.mkstemp(
            prefix=f".{target.name}.", suffix=".part", dir=target.parent
        )
    except OSError as error:
        raise TraceError(f"cannot write {target}: {error.strerror}") from None
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        # mkstemp makes a private file; a new file of the user's has the mode their umask gives.
        mode = target.stat().st_mode & 0o777 if target.exists() else 0o666 & ~_umask()
        Path(name).chmod(mode)
        Path(name).replace(target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    return target


def _umask() -> int:
    """The user's umask, which can only be read by setting it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def source_place(line: Line | None) -> str:
    """`package/module.py:12`: the file from its outermost package down."""
    return "" if line is None else f"{from_package(line.file)}:{line.number}"
