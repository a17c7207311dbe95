"""Fetching a corpus: only files whose address and checksum are both known.

$GLASSFORMER_MIRROR replaces https://raw.githubusercontent.com, which some networks do not reach.
pooch is imported when something has to be fetched; a file that arrives damaged is not kept.
"""

import os
from pathlib import Path

from glassformer.data.corpora import Corpus, Found, cache_folder, corpus, find, locate
from glassformer.errors import DataError

__all__ = ["obtain"]

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
