"""Files that are there whole or not at all."""

import os
from contextlib import suppress
from pathlib import Path

__all__ = ["remove_half_written", "write_whole"]


def write_whole(path: Path, data: bytes) -> None:
    """Write a file under another name, force it to the disk, then rename it."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as opened:
            opened.write(data)
            opened.flush()
            os.fsync(opened.fileno())
        temporary.replace(path)
    finally:
        with suppress(FileNotFoundError):  # renamed already
            temporary.unlink()


def remove_half_written(folder: Path) -> None:
    """Remove what `write_whole` was killed over; nobody may be writing there now."""
    for left in folder.glob(".*.tmp"):
        with suppress(OSError):
            left.unlink()
