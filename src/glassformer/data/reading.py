"""Text files as they come: plain, .gz or .xz, always UTF-8, with one clear line where they are not.

This file does not know what a line means.
"""

import codecs
import gzip
import lzma
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from glassformer.errors import DataError

__all__ = ["UNREADABLE", "open_unpacked", "read_lines", "read_text"]

UNREADABLE = (OSError, EOFError, lzma.LZMAError, zlib.error)
"""What reading raises where a file cannot be read, or is damaged."""


def read_text(path: Path) -> str:
    """The whole text of a file, line ends as they are written."""
    try:
        with open_unpacked(path) as opened:
            data = opened.read()
    except UNREADABLE as error:
        raise DataError(f"cannot read {path}: {error}") from error
    return decode(data, path)


def read_lines(path: Path) -> Iterator[str]:
    """The lines of a file without their ends: LF or CRLF, never the rarer ones inside a text."""
    lines = read_text(path).split("\n")
    if lines[-1] == "":
        lines.pop()
    return (line.removesuffix("\r") for line in lines)


def decode(data: bytes, path: Path) -> str:
    """UTF-8 (with or without a mark) to text; a message names the first byte that is not."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise DataError(
            f"{path} is not UTF-8: byte 0x{data[error.start]:02x} in line {line}; save it as "
            f"UTF-8{_guess(data)}"
        ) from None


def _guess(data: bytes) -> str:
    """Which other encoding the file may have, where one of the usual ones fits."""
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):  # "Unicode" to Excel
        return ", for example with `iconv -f utf-16 -t utf-8`"
    for encoding in ("gb18030", "cp1252"):
        try:
            data.decode(encoding)
        except UnicodeDecodeError:
            continue
        return f", for example with `iconv -f {encoding} -t utf-8`"
    return ""


def open_unpacked(path: Path) -> IO[bytes] | gzip.GzipFile:
    """A file for reading what is in it, whether it is packed or not."""
    if path.suffix == ".gz":
        return gzip.open(path, "rb")
    return lzma.open(path, "rb") if path.suffix == ".xz" else path.open("rb")
