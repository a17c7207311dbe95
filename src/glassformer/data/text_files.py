"""Reading text files: plain, .gz or .xz, always UTF-8; anything else is a one-line error."""

import codecs
import gzip
import lzma
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from glassformer.errors import DataError, Fragment

UNREADABLE = (OSError, EOFError, lzma.LZMAError, zlib.error)
"""The exceptions of a file that cannot be read or is damaged."""

MAX_LINE = 16 * 2**20
"""Bytes per line: a file without line ends is not text in lines and could fill the memory."""
MAX_TEXT = 2 * 2**30
"""Decompressed bytes of a text read at once; the file itself may be a thousand times smaller."""

_BLOCK = 2**20


def read_text(path: Path) -> str:
    """The whole text of a file of at most `MAX_TEXT` bytes, line ends unchanged."""
    # One growing bytearray, decoded once: a string per line would take 37 times the file's size.
    data = bytearray()
    try:
        size = path.stat().st_size
        with open_decompressed(path) as opened:
            while size <= MAX_TEXT and (block := opened.read(_BLOCK)):
                data += block
                size = max(size, len(data))
        if size > MAX_TEXT:
            raise DataError(
                "{path} has more than {most_text:,} bytes of text; use only part of it",
                path=path,
                most_text=MAX_TEXT,
            )
    except UNREADABLE as error:
        if isinstance(error, DataError):
            raise
        raise DataError("cannot read {path}: {error}", path=path, error=error) from error
    return _decode(data, path)


def read_lines(path: Path) -> Iterator[str]:
    """The lines of a file without their ends: LF or CRLF, not Unicode's other line separators."""
    return (line.removesuffix("\n").removesuffix("\r") for line in stream_lines(path))


def stream_lines(path: Path) -> Iterator[str]:
    """The lines of a file one by one, with their ends; a line over `MAX_LINE` is an error."""
    try:
        with open_decompressed(path) as opened:
            number = 0
            while line := opened.readline(MAX_LINE + 1):
                number += 1
                if len(line) > MAX_LINE:
                    raise DataError(
                        "{path}, line {number}: longer than {most_line:,} bytes; "
                        "split it into shorter lines",
                        path=path,
                        number=number,
                        most_line=MAX_LINE,
                    )
                yield _decode(line, path, number)
    except UNREADABLE as error:
        if isinstance(error, DataError):
            raise
        raise DataError("cannot read {path}: {error}", path=path, error=error) from error


def _decode(data: bytes | bytearray, path: Path, number: int = 1) -> str:
    """Decode UTF-8 (with or without BOM) that starts at line `number`; errors name the line."""
    try:
        return data.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError as error:
        given, at = error.object, error.start  # without the BOM
        line = given[given.rfind(b"\n", 0, at) + 1 :].partition(b"\n")[0]
        raise DataError(
            "{path} is not UTF-8: byte 0x{byte:02x} in line {number}; save it as UTF-8{guess}",
            path=path,
            byte=given[at],
            number=number + given.count(10, 0, at),
            guess=_guess(line),
        ) from None


def _guess(data: bytes) -> str:
    """A hint at the encoding that the file may have, if a common one fits."""
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):  # Excel calls it "Unicode"
        return Fragment.of(", for example with `iconv -f {encoding} -t utf-8`", encoding="utf-16")
    for encoding in ("gb18030", "cp1252"):
        try:
            data.decode(encoding)
        except UnicodeDecodeError:
            continue
        return Fragment.of(", for example with `iconv -f {encoding} -t utf-8`", encoding=encoding)
    return ""


def open_decompressed(path: Path) -> IO[bytes] | gzip.GzipFile:
    """Open a file for reading its content, compressed or not."""
    if path.suffix == ".gz":
        return gzip.open(path, "rb")
    return lzma.open(path, "rb") if path.suffix == ".xz" else path.open("rb")
