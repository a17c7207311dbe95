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

from glassformer.errors import DataError, Fragment

UNREADABLE = (OSError, EOFError, lzma.LZMAError, zlib.error)
"""What reading raises where a file cannot be read, or is damaged."""


MOST_LINE = 16 * 2**20
"""Bytes of a line: what has no end before is no text in lines, and would fill any memory."""
MOST_TEXT = 2 * 2**30
"""Bytes of a text that is read at once, unpacked: a packed file may be a thousand times smaller."""

_BLOCK = 2**20


def read_text(path: Path) -> str:
    """The whole text of a file of at most `MOST_TEXT` bytes, line ends as they are written."""
    # A growing array of bytes, decoded once: a string per line would take 37 times the file's size.
    data = bytearray()
    try:
        size = path.stat().st_size
        with open_unpacked(path) as opened:
            while size <= MOST_TEXT and (block := opened.read(_BLOCK)):
                data += block
                size = max(size, len(data))
        if size > MOST_TEXT:
            raise DataError(
                "{path} has more than {most_text:,} bytes of text; use a part of it",
                path=path,
                most_text=MOST_TEXT,
            )
    except UNREADABLE as error:
        if isinstance(error, DataError):
            raise
        raise DataError("cannot read {path}: {error}", path=path, error=error) from error
    return _decode(data, path)


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
                        "{path}, line {number}: longer than {most_line:,} bytes; "
                        "break it into shorter lines",
                        path=path,
                        number=number,
                        most_line=MOST_LINE,
                    )
                yield _decode(line, path, number)
    except UNREADABLE as error:
        if isinstance(error, DataError):
            raise
        raise DataError("cannot read {path}: {error}", path=path, error=error) from error


def _decode(data: bytes | bytearray, path: Path, number: int = 1) -> str:
    """UTF-8 (with or without a mark) from line `number` on to text; a message names the line."""
    try:
        return data.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError as error:
        given, at = error.object, error.start  # without the mark
        line = given[given.rfind(b"\n", 0, at) + 1 :].partition(b"\n")[0]
        raise DataError(
            "{path} is not UTF-8: byte 0x{byte:02x} in line {number}; save it as UTF-8{guess}",
            path=path,
            byte=given[at],
            number=number + given.count(10, 0, at),
            guess=_guess(line),
        ) from None


def _guess(data: bytes) -> str:
    """Which other encoding the file may have, where one of the usual ones fits."""
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):  # "Unicode" to Excel
        return Fragment.of(", for example with `iconv -f {encoding} -t utf-8`", encoding="utf-16")
    for encoding in ("gb18030", "cp1252"):
        try:
            data.decode(encoding)
        except UnicodeDecodeError:
            continue
        return Fragment.of(", for example with `iconv -f {encoding} -t utf-8`", encoding=encoding)
    return ""


def open_unpacked(path: Path) -> IO[bytes] | gzip.GzipFile:
    """A file for reading what is in it, whether it is packed or not."""
    if path.suffix == ".gz":
        return gzip.open(path, "rb")
    return lzma.open(path, "rb") if path.suffix == ".xz" else path.open("rb")
