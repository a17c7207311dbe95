"""Tokenise once: a folder of stores and tokenizers under the cache, found again by its key.

The key covers everything that could change the ids: the data's checksums, every setting of
reading and tokenising, and the version of this code. A folder appears whole or not at all.
"""

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from glassformer.data.corpora import cache_folder
from glassformer.errors import DataError, GlassformerError

__all__ = ["VERSION", "key_of", "prepared_folder"]

VERSION = 2
"""Of reading and tokenising: raise it when either changes, and old stores are not found again."""


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
        work = Path(tempfile.mkdtemp(prefix=f".{key}.", dir=parent))
    except OSError as error:
        raise DataError(f"cannot write to {parent}: {error.strerror}") from error
    try:
        write(work)
        work.rename(target)
    except OSError as error:
        if isinstance(error, GlassformerError):
            raise
        if not target.is_dir():
            raise DataError(f"cannot write to {parent}: {error.strerror}") from error
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return target
