"""The corpora: their files with checksums, licence, citation and source; finding, downloading.

A corpus is looked for in an explicit folder, then in $GLASSFORMER_DATA, then in the cache folder,
all with the same layout (`imdb/train.jsonl.xz`, …). A file is checked against its SHA-256 before it
is read. A compressed file may also be present decompressed, or compressed by another program; then
its content is checked. Text files, plain, .gz or .xz, are read here, always as UTF-8; anything
else is a one-line error. This file does not know what the content means.
"""

from __future__ import annotations

import codecs
import gzip
import hashlib
import json
import lzma
import os
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import IO, Any

from glassformer.errors import DataError, Fragment, UnknownNameError
from glassformer.files import as_path, open_regular, os_errors_as

_BLOCK = 1 << 20
_UNREADABLE = (OSError, EOFError, lzma.LZMAError, zlib.error)

MAX_LINE = 16 * 2**20
"""Bytes per line: a file without line ends is not text in lines and could fill the memory."""
MAX_TEXT = 2 * 2**30
"""Decompressed bytes of a text read at once; the file itself may be a thousand times smaller."""


@dataclass(frozen=True)
class Corpus:
    name: str
    about: str
    files: dict[str, str]
    """SHA-256 by path in the data folder."""
    licence: str
    cite: str
    source: str
    """Where to get the data by hand."""
    contents: dict[str, str] = field(default_factory=dict)
    """For compressed files, SHA-256 of the decompressed content, by the same paths."""
    addresses: dict[str, str] = field(default_factory=dict)
    """For files that can be downloaded, their path on raw.githubusercontent.com."""

    def path(self, folder: Path, name: str) -> Path | None:
        """The file in a folder, under its own name or decompressed; None if missing."""
        named = folder / name
        if not named.is_file() and name in self.contents:
            named = named.with_suffix("")
        return named if named.is_file() else None


@dataclass(frozen=True)
class FoundCorpus:
    """A corpus in a folder; each file is checked when it is asked for."""

    corpus: Corpus
    folder: Path

    def file(self, name: str) -> Path:
        """The path of a file, after checking its content."""
        path = self.corpus.path(self.folder, name) or self.folder / name
        is_named = path.name == Path(name).name
        expected = (self.corpus.files if is_named else self.corpus.contents)[name]
        actual = sha256(path)
        if actual != expected and not self._has_same_content(path, name):
            raise DataError(
                "{path} is damaged or a different version: expected SHA-256 {expected}, got "
                "{actual}; delete it and get it again from {source}",
                path=path,
                expected=expected,
                actual=actual,
                source=self.corpus.source,
            )
        return path

    def _has_same_content(self, path: Path, name: str) -> bool:
        """Whether a file has the right content, but compressed differently."""
        expected = self.corpus.contents.get(name)
        return expected is not None and _content_sha256(path, *_state(path)) == expected

    def checksums(self, names: Iterable[str]) -> dict[str, str]:
        """SHA-256 by path, for the record in a run folder."""
        return {name: self.corpus.files[name] for name in names}


def corpus(name: str) -> Corpus:
    if not isinstance(name, str) or name not in CORPORA:
        raise UnknownNameError("data set", name, CORPORA)
    return CORPORA[name]


def find(name: str, folder: str | os.PathLike[str] | None = None) -> FoundCorpus:
    """Find a corpus; the error says where its files were looked for."""
    wanted = corpus(name)
    place = locate(wanted, folder)
    if place is None:
        raise _missing(wanted, list(_folders(folder)))
    return FoundCorpus(wanted, place)


def locate(wanted: Corpus, folder: str | os.PathLike[str] | None = None) -> Path | None:
    """The first folder that has all files of a corpus; nothing is read or checked yet."""
    for place in _folders(folder):
        if all(wanted.path(place, file) for file in wanted.files):
            return place
    return None


def cache_folder() -> Path:
    """For downloads and tokenised data: $XDG_CACHE_HOME/glassformer or the like."""
    given = os.environ.get("GLASSFORMER_CACHE")
    if given:
        return Path(given)
    base = os.environ.get("XDG_CACHE_HOME") or os.environ.get("LOCALAPPDATA")
    return Path(base) / "glassformer" if base else Path.home() / ".cache" / "glassformer"


def sha256(path: Path) -> str:
    """The SHA-256 of a file, cached until the file changes."""
    with os_errors_as(DataError, "cannot read {path}: {reason}", path=path):
        return _sha256(path, *_state(path))


def _state(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_size, status.st_mtime_ns


@cache
def _sha256(path: Path, _size: int, _modified: int) -> str:
    with path.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


@cache
def _content_sha256(path: Path, _size: int, _modified: int) -> str | None:
    """Of the content of a compressed file; None if it cannot be decompressed."""
    digest = hashlib.sha256()
    try:
        with _opened(path) as opened:
            while block := opened.read(_BLOCK):
                digest.update(block)
    except DataError:
        return None
    return digest.hexdigest()


def _folders(folder: str | os.PathLike[str] | None) -> Iterator[Path]:
    if folder:
        yield as_path(folder, DataError, "the folder of the data sets")
    if given := os.environ.get("GLASSFORMER_DATA"):
        yield Path(given)
    yield cache_folder() / "data"


def _missing(wanted: Corpus, places: list[Path]) -> DataError:
    """The error for the folder that has most of the files, or the first one."""
    lacking = {
        place: [file for file in wanted.files if not wanted.path(place, file)] for place in places
    }
    nearest = min(places, key=lambda place: len(lacking[place]))
    files = lacking[nearest]
    more = Fragment.of(" and {n} more", n=len(files) - 1) if len(files) > 1 else ""
    return DataError(
        "data set {name} not found: {file}{more} missing (looked in {looked}{decompressed}); "
        "get it from {source} and set its folder with --data (in train: --data.folder) or "
        "$GLASSFORMER_DATA",
        name=wanted.name,
        file=nearest / files[0],
        more=more,
        looked=", ".join(map(str, places)),
        decompressed=Fragment.of(", also decompressed") if files[0] in wanted.contents else "",
        source=wanted.source,
    )


def _register() -> dict[str, Corpus]:
    text = Path(__file__).with_suffix(".json").read_text(encoding="utf-8")
    return {name: Corpus(name=name, **entry) for name, entry in json.loads(text).items()}


CORPORA: dict[str, Corpus] = _register()


# --- downloading ---
# Only files with a known address and checksum are downloaded, and only kept if the checksum
# matches. $GLASSFORMER_MIRROR replaces https://raw.githubusercontent.com, which some networks
# cannot reach.

_ORIGIN = "https://raw.githubusercontent.com"


def obtain(name: str, folder: str | os.PathLike[str] | None = None) -> FoundCorpus:
    """Find a corpus, or download it into the cache folder; otherwise the error of `find`."""
    wanted = corpus(name)
    if locate(wanted, folder) is None and wanted.addresses:
        _download(wanted, cache_folder() / "data")
    return find(name, folder)


def _download(wanted: Corpus, target: Path) -> None:
    try:
        import pooch  # type: ignore[import-untyped]  # it has no annotations
    except ImportError:
        raise DataError(
            "downloading {name} needs pooch (pip install pooch); or put its files, from {source}, "
            "into {target} yourself",
            name=wanted.name,
            target=target,
            source=wanted.source,
        ) from None
    origin = (os.environ.get("GLASSFORMER_MIRROR") or _ORIGIN).rstrip("/")
    for file, digest in wanted.files.items():
        path = target / file
        try:
            pooch.retrieve(
                f"{origin}/{wanted.addresses[file]}",
                known_hash=f"sha256:{digest}",
                fname=path.name,
                path=path.parent,
            )
        except (OSError, ValueError) as error:  # no network, or a wrong checksum
            raise DataError(
                "cannot download {file} of {name}: {error}; get it from {source} and put it at "
                "{path}, or set $GLASSFORMER_MIRROR",
                file=file,
                name=wanted.name,
                error=error,
                path=path,
                source=wanted.source,
            ) from error


# --- reading text files ---


def read_text(path: Path) -> str:
    """The whole text of a file of at most `MAX_TEXT` bytes, line ends unchanged."""
    # One growing bytearray, decoded once: a string per line would take 37 times the file's size.
    data = bytearray()
    with _opened(path) as opened:
        size = path.stat().st_size
        while size <= MAX_TEXT and (block := opened.read(_BLOCK)):
            data += block
            size = max(size, len(data))
    if size > MAX_TEXT:
        raise DataError(
            "{path} has more than {most_text:,} bytes of text; use only part of it",
            path=path,
            most_text=MAX_TEXT,
        )
    return _decode(data, path)


def read_lines(path: Path) -> Iterator[str]:
    """The lines of a file without their ends: LF or CRLF, not Unicode's other line separators."""
    return (line.removesuffix("\n").removesuffix("\r") for line in stream_lines(path))


def stream_lines(path: Path) -> Iterator[str]:
    """The lines of a file one by one, with their ends; a line over `MAX_LINE` is an error."""
    with _opened(path) as opened:
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


@contextmanager
def _opened(path: Path) -> Iterator[IO[bytes] | gzip.GzipFile]:
    """A file opened for reading its content, compressed or not; one line if it is unreadable."""
    opener: Any = {".gz": gzip.open, ".xz": lzma.open}.get(path.suffix, nullcontext)
    try:
        with open_regular(path) as file, opener(file) as opened:
            yield opened
    except _UNREADABLE as error:
        if isinstance(error, DataError):
            raise
        reason = getattr(error, "strerror", None) or str(error)
        raise DataError("cannot read {path}: {reason}", path=path, reason=reason) from error
