"""Tokenise once: a folder of stores and tokenizers under the cache, found again by its key.

The key covers everything that could change the ids: the data's checksums, every setting of
reading and tokenising, and the version of this code. A folder appears whole or not at all: it is
filled under another name, beside a file that its writer holds. What a killed writer left is held by
nobody, and the next writer on the same machine removes it; locks of other machines, whose cache may
be the same folder, are not to be seen everywhere.
"""

import hashlib
import json
import os
import platform
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from glassformer.data.corpora import cache_folder
from glassformer.data.holding import hold
from glassformer.errors import DataError, GlassformerError

__all__ = ["VERSION", "key_of", "prepared_folder"]

VERSION = 2
"""Of reading and tokenising: raise it when either changes, and old stores are not found again."""

_FILLING, _HELD = ".filling", ".held"


def key_of(parts: Mapping[str, Any]) -> str:
    """A short hash of plain JSON data."""
    text = json.dumps({"version": VERSION, **parts}, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:24]


def prepared_folder(
    key: str, write: Callable[[Path], None], cache: str | os.PathLike[str] | None = None
) -> Path:
    """The folder of this key; `write` fills it if it is not there yet.

    Two processes may both fill one: the first to finish wins, and both hold the same bytes.
    """
    parent = Path(cache) if cache else cache_folder() / "tokens"
    target = parent / key
    if target.is_dir():
        return target
    try:
        parent.mkdir(parents=True, exist_ok=True)
        _remove_abandoned(parent)
        with _folder_to_fill(parent, key) as work:
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
def _folder_to_fill(parent: Path, key: str) -> Iterator[Path]:
    """A new folder `.KEY.MACHINE.….filling`; first the file beside it, held by who fills it."""
    prefix = f".{key}.{_machine()}."
    with tempfile.NamedTemporaryFile(prefix=prefix, suffix=_HELD, dir=parent) as held:
        hold(held.file)
        work = Path(held.name).with_suffix(_FILLING)
        try:
            work.mkdir()
            yield work
        finally:
            shutil.rmtree(work, ignore_errors=True)


def _remove_abandoned(parent: Path) -> None:
    """Remove folders whose writer died on this machine before they were whole."""
    for work in parent.glob(f".*.{_machine()}.*{_FILLING}"):
        held = work.with_suffix(_HELD)
        with suppress(OSError), held.open("ab") as opened:  # of another user: let it be
            if hold(opened) == "us":
                shutil.rmtree(work, ignore_errors=True)
                held.unlink()


def _machine() -> str:
    """A short name of this machine, fit for a file's."""
    return key_of({"machine": platform.node()})[:8]
