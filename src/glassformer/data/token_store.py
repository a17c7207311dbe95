"""Tokenised texts on disk: one flat, memory-mapped array of ids and a header that checks it.

    NAME.ids      all ids, one sequence after another, uint16 or uint32 by vocabulary size
    NAME.offsets  the start of each sequence and the end of the last one, int64
    NAME.json     dtype, sizes and the key

The key is a hash of the data's checksums, the tokenizer and the settings: a store made from
anything else is refused, never read by mistake. This file does not know texts or tensors.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glassformer.data.corpora import cache_folder
from glassformer.errors import DataError, GlassformerError
from glassformer.files import read_object, try_lock

Ids = NDArray[np.int64]

FORMAT = 1
_LITTLE_ENDIAN: dict[str, np.dtype[Any]] = {"uint16": np.dtype("<u2"), "uint32": np.dtype("<u4")}


@dataclass(frozen=True)
class _Header:
    """The contents of NAME.json."""

    format: int
    key: str
    dtype: str
    vocab_size: int
    n_sequences: int
    n_tokens: int


def write_store(
    folder: Path, name: str, sequences: Iterable[Sequence[int]], *, vocab_size: int, key: str
) -> None:
    """Write sequences of ids; the header comes last, so a store without one is incomplete."""
    dtype = "uint16" if vocab_size <= 2**16 else "uint32"
    lengths: list[int] = []
    with (folder / f"{name}.ids").open("wb") as ids:
        for sequence in sequences:
            array = np.asarray(sequence, dtype=np.int64)
            if array.size and not 0 <= array.min() <= array.max() < vocab_size:
                raise DataError(
                    "store {name}: expected ids below {vocab_size}, got {least} to {most}",
                    name=name,
                    vocab_size=vocab_size,
                    least=array.min(),
                    most=array.max(),
                )
            ids.write(array.astype(_LITTLE_ENDIAN[dtype]).tobytes())
            lengths.append(array.size)
    offsets = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]).astype("<i8")
    (folder / f"{name}.offsets").write_bytes(offsets.tobytes())
    header = _Header(FORMAT, key, dtype, vocab_size, len(lengths), int(offsets[-1]))
    (folder / f"{name}.json").write_text(json.dumps(asdict(header), indent=1), encoding="utf-8")


class TokenStore:
    """A store opened for reading: `store[i]` is a sequence, `padded` a batch of them."""

    def __init__(self, folder: Path, name: str, *, key: str) -> None:
        self.path = folder / f"{name}.ids"
        header = _read_header(folder / f"{name}.json")
        if header.key != key:
            raise DataError(
                "{path} was made from other data or another tokenizer (key {key}, expected "
                "{ours}); delete its folder",
                path=self.path,
                key=header.key,
                ours=key,
            )
        dtype = _LITTLE_ENDIAN[header.dtype]
        _check_size(self.path, header.n_tokens * dtype.itemsize)
        _check_size(folder / f"{name}.offsets", (header.n_sequences + 1) * 8)
        self.vocab_size = header.vocab_size
        self.offsets: Ids = np.fromfile(folder / f"{name}.offsets", dtype="<i8").astype(np.int64)
        self.lengths: Ids = np.diff(self.offsets)
        """Tokens in each sequence."""
        # An empty file cannot be memory-mapped.
        self.ids: NDArray[Any] = (
            np.memmap(self.path, dtype=dtype, mode="r")
            if header.n_tokens
            else np.empty(0, dtype=dtype)
        )

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, index: int) -> Ids:
        return self.ids[self.offsets[index] : self.offsets[index + 1]].astype(np.int64)

    def padded(self, indices: Ids, *, pad_id: int, width: int) -> Ids:
        """Sequences as rows of `width` ids, padded on the right."""
        starts, ends = self.offsets[indices], self.offsets[indices + 1]
        assert (ends - starts).max(initial=0) <= width, "a row must hold the longest sequence"
        positions = starts[:, None] + np.arange(width)
        is_token = positions < ends[:, None]
        rows = np.full(positions.shape, pad_id, dtype=np.int64)
        rows[is_token] = self.ids[positions[is_token]]
        return rows


def _read_header(path: Path) -> _Header:
    try:
        header = _Header(**read_object(path, error=DataError, what="a token store"))
    except TypeError as error:
        raise DataError(
            "cannot read the token store {path}: {error}", path=path, error=error
        ) from None
    if header.format != FORMAT or header.dtype not in _LITTLE_ENDIAN:
        raise DataError(
            "{path} is a token store that this version cannot read (format {format}, {dtype}); "
            "delete its folder",
            path=path,
            format=header.format,
            dtype=header.dtype,
        )
    return header


def _check_size(path: Path, expected: int) -> None:
    actual = path.stat().st_size if path.is_file() else 0
    if actual != expected:
        raise DataError(
            "{path} is damaged: expected {expected} bytes, got {actual}; delete its folder",
            path=path,
            expected=expected,
            actual=actual,
        )


# --- the cache of tokenised data ---
# Data are tokenised once, into a folder of stores and tokenizers named by its key. The key covers
# everything that could change the ids: the data's checksums, all settings of reading and
# tokenising, and the version of this code. A folder appears complete or not at all: it is filled
# under a temporary name, beside a lock file. What a killed writer left behind is unlocked, and the
# next writer on the same machine removes it; locks of other machines that share the cache folder
# are not reliably visible.


VERSION = 2
"""Of reading and tokenising: increase it when either changes, so that old stores are not used."""

_PARTIAL, _LOCK = ".filling", ".held"


def key_of(parts: Mapping[str, Any]) -> str:
    """A short hash of plain JSON data."""
    text = json.dumps({"version": VERSION, **parts}, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:24]


def prepared_folder(
    key: str, write: Callable[[Path], None], cache: str | os.PathLike[str] | None = None
) -> Path:
    """The folder of this key; `write` fills it if it does not exist yet.

    If two processes fill it at once, the first to finish wins; both wrote the same bytes.
    """
    parent = Path(cache) if cache else cache_folder() / "tokens"
    target = parent / key
    if target.is_dir():
        return target
    try:
        parent.mkdir(parents=True, exist_ok=True)
        _remove_abandoned(parent)
        with _partial_folder(parent, key) as work:
            write(work)
            work.rename(target)
    except OSError as error:
        if isinstance(error, GlassformerError):
            raise
        if not target.is_dir():
            raise DataError(
                "cannot write to {parent}: {reason}; choose another place with --data.cache or "
                "$GLASSFORMER_CACHE",
                parent=parent,
                reason=error.strerror,
            ) from error
    return target


@contextmanager
def _partial_folder(parent: Path, key: str) -> Iterator[Path]:
    """A new folder `.KEY.MACHINE.….filling`, and a locked file beside it."""
    prefix = f".{key}.{_machine()}."
    with tempfile.NamedTemporaryFile(prefix=prefix, suffix=_LOCK, dir=parent) as lock:
        try_lock(lock.file)
        work = Path(lock.name).with_suffix(_PARTIAL)
        try:
            work.mkdir()
            yield work
        finally:
            shutil.rmtree(work, ignore_errors=True)


def _remove_abandoned(parent: Path) -> None:
    """Remove incomplete folders whose writer on this machine has died."""
    for work in parent.glob(f".*.{_machine()}.*{_PARTIAL}"):
        lock = work.with_suffix(_LOCK)
        with suppress(OSError), lock.open("ab") as opened:  # another user's is left alone
            if try_lock(opened) == "us":
                shutil.rmtree(work, ignore_errors=True)
                lock.unlink()


def _machine() -> str:
    """A short name of this machine, usable in a file name."""
    return key_of({"machine": platform.node()})[:8]
