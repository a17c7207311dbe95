"""Which data sets there are: their files with checksums, their licence, whom to cite, where found.

A corpus is looked for in an explicit folder, then in $GLASSFORMER_DATA, then in the cache folder;
every place has the same layout (`imdb/train.jsonl.xz`, …). A file is checked against its SHA-256
before it is read. A packed file may also lie there unpacked, or packed by another program: then
its content is what is checked. This file does not know what the content means.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from glassformer.data.text_files import UNREADABLE, open_unpacked
from glassformer.errors import DataError, Fragment, UnknownNameError
from glassformer.files import as_path

_PIECE = 1 << 20


@dataclass(frozen=True)
class Corpus:
    """A data set by name: what it consists of and on what terms it may be used."""

    name: str
    about: str
    files: dict[str, str]
    """Path under the data folder to SHA-256."""
    licence: str
    cite: str
    source: str
    """Where the data come from, for people who have to fetch them."""
    contents: dict[str, str] = field(default_factory=dict)
    """The same paths, of packed files alone, to the SHA-256 of what they hold."""
    addresses: dict[str, str] = field(default_factory=dict)
    """Path under the data folder to path under raw.githubusercontent.com, where these very files
    are to be had."""

    def path(self, place: Path, name: str) -> Path | None:
        """Where a place has a file: as it is named, or unpacked."""
        named = place / name
        if not named.is_file() and name in self.contents:
            named = named.with_suffix("")
        return named if named.is_file() else None


@dataclass(frozen=True)
class Found:
    """A corpus in a folder; its files are checked one by one as they are asked for."""

    corpus: Corpus
    folder: Path

    def file(self, name: str) -> Path:
        """The path of a file whose content is what the corpus says."""
        path = self.corpus.path(self.folder, name) or self.folder / name
        is_named = path.name == Path(name).name
        expected = (self.corpus.files if is_named else self.corpus.contents)[name]
        actual = sha256(path)
        if actual != expected and not self._holds_the_same(path, name):
            raise DataError(
                "{path} is damaged or another version: expected SHA-256 {expected}, got "
                "{actual}; delete it and get it again from {source}",
                path=path,
                expected=expected,
                actual=actual,
                source=self.corpus.source,
            )
        return path

    def _holds_the_same(self, path: Path, name: str) -> bool:
        """Whether a file has the right content, only packed in another way."""
        expected = self.corpus.contents.get(name)
        return expected is not None and _content_sha256(path, *_state(path)) == expected

    def checksums(self, names: Iterable[str]) -> dict[str, str]:
        """The SHA-256 of some files, as a run folder keeps it."""
        return {name: self.corpus.files[name] for name in names}


def corpus(name: str) -> Corpus:
    """The corpus of this name."""
    if not isinstance(name, str) or name not in CORPORA:
        raise UnknownNameError("data set", name, CORPORA)
    return CORPORA[name]


def find(name: str, folder: str | os.PathLike[str] | None = None) -> Found:
    """Look for a corpus; a message says where its files would be found if they are not."""
    wanted = corpus(name)
    place = locate(wanted, folder)
    if place is None:
        raise _missing(wanted, list(_places(folder)))
    return Found(wanted, place)


def locate(wanted: Corpus, folder: str | os.PathLike[str] | None = None) -> Path | None:
    """The first place that has all files of a corpus; nothing is read or checked yet."""
    for place in _places(folder):
        if all(wanted.path(place, file) for file in wanted.files):
            return place
    return None


def cache_folder() -> Path:
    """Where downloads and tokenised data are kept: $XDG_CACHE_HOME/glassformer or its like."""
    given = os.environ.get("GLASSFORMER_CACHE")
    if given:
        return Path(given)
    base = os.environ.get("XDG_CACHE_HOME") or os.environ.get("LOCALAPPDATA")
    return Path(base) / "glassformer" if base else Path.home() / ".cache" / "glassformer"


def sha256(path: Path) -> str:
    """The SHA-256 of a file; worked out once for each state of it."""
    try:
        return _sha256(path, *_state(path))
    except OSError as error:
        raise DataError("cannot read {path}: {reason}", path=path, reason=error.strerror) from error


def _state(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_size, status.st_mtime_ns


@cache
def _sha256(path: Path, _size: int, _modified: int) -> str:
    with path.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


@cache
def _content_sha256(path: Path, _size: int, _modified: int) -> str | None:
    """Of what a packed file holds; None where it cannot be unpacked."""
    digest = hashlib.sha256()
    try:
        with open_unpacked(path) as opened:
            while piece := opened.read(_PIECE):
                digest.update(piece)
    except UNREADABLE:
        return None
    return digest.hexdigest()


def _places(folder: str | os.PathLike[str] | None) -> Iterator[Path]:
    if folder:
        yield as_path(folder, DataError, "the folder of the data sets")
    if given := os.environ.get("GLASSFORMER_DATA"):
        yield Path(given)
    yield cache_folder() / "data"


def _missing(wanted: Corpus, places: list[Path]) -> DataError:
    """Which file is missing where: of the place that has most, else of the first."""
    lacking = {
        place: [file for file in wanted.files if not wanted.path(place, file)] for place in places
    }
    nearest = min(places, key=lambda place: len(lacking[place]))
    files = lacking[nearest]
    more = Fragment.of(" and {n} more", n=len(files) - 1) if len(files) > 1 else ""
    return DataError(
        "the data set {name} was not found: {file}{more} missing (looked in {looked}{unpacked}); "
        "get it from {source} and name the folder with --data (in train: --data.folder) or "
        "$GLASSFORMER_DATA",
        name=wanted.name,
        file=nearest / files[0],
        more=more,
        looked=", ".join(map(str, places)),
        unpacked=Fragment.of(", also unpacked") if files[0] in wanted.contents else "",
        source=wanted.source,
    )


def _register() -> dict[str, Corpus]:
    """The corpora of corpora.json, the file beside this one."""
    text = Path(__file__).with_suffix(".json").read_text(encoding="utf-8")
    return {name: Corpus(name=name, **entry) for name, entry in json.loads(text).items()}


CORPORA: dict[str, Corpus] = _register()


# --- download ---
# Fetching a corpus: only files whose address and checksum are both known.
#
# $GLASSFORMER_MIRROR replaces https://raw.githubusercontent.com, which some networks do not reach.
# pooch is imported when something has to be fetched; a file that arrives damaged is not kept.


_ORIGIN = "https://raw.githubusercontent.com"


def obtain(name: str, folder: str | os.PathLike[str] | None = None) -> Found:
    """A corpus where it is, or fetched into the cache folder; otherwise the error of `find`."""
    wanted = corpus(name)
    if locate(wanted, folder) is None and wanted.addresses:
        _fetch(wanted, cache_folder() / "data")
    return find(name, folder)


def _fetch(wanted: Corpus, target: Path) -> None:
    try:
        import pooch  # type: ignore[import-untyped]  # it has no annotations
    except ImportError:
        raise DataError(
            "fetching {name} needs pooch (pip install pooch), or put its files under "
            "{target} yourself; they come from {source}",
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
        except (OSError, ValueError) as error:  # no network; another checksum
            raise DataError(
                "cannot fetch {file} of {name}: {error}; put it at {path} yourself (it comes "
                "from {source}), or set $GLASSFORMER_MIRROR",
                file=file,
                name=wanted.name,
                error=error,
                path=path,
                source=wanted.source,
            ) from error
