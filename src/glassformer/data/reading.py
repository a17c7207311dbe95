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

__all__ = ["MOST_LINE", "UNREADABLE", "open_unpacked", "read_lines", "read_text", "stream_lines"]

UNREADABLE = (OSError, EOFError, lzma.LZMAError, zlib.error)
"""What reading raises where a file cannot be read, or is damaged."""


MOST_LINE = 16 * 2**20
"""Bytes of a line: what has no end before is no text in lines, and would fill any memory."""


def read_text(path: Path) -> str:
    """The whole text of a file, line ends as they are written."""
    return "".join(stream_lines(path))


def read_lines(path: Path) -> Iterator[str]:
    """The lines of a file without their ends: LF or CRLF, never the rarer ones inside a text."""
    return (line.removesuffix("\n").removesuffix("\r") for line in stream_lines(path))


def stream_lines(path: Path) -> Iterator[str]:
    """The lines of a file one by one, each with its end; one without an end in sight is refused."""
    try:
        with open_unpacked(path) as opened:
            number = 0
            while line := opened.readline(MOST_LINE + 1):
                number += 1
                if len(line) > MOST_LINE:
                    raise DataError(
                        f"{path}, line {number}: longer than {MOST_LINE:,} bytes; break it into "
                        "shorter lines"
                    )
                yield decode(line, path, number)
    except UNREADABLE as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"cannot read {path}: {error}") from error


def decode(line: bytes, path: Path, number: int) -> str:
    """UTF-8 (with or without a mark) to text; a message names the first byte that is not."""
    try:
        return line.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError as error:
        raise DataError(
            f"{path} is not UTF-8: byte 0x{line[error.start]:02x} in line {number}; save it as "
            f"UTF-8{_guess(line)}"
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
