"""`glassformer data`: the data sets, where they are, and their licences."""

import json
import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from glassformer.language import words

say = words("glassformer.cli.messages")


def data(
    name: str | None = None,
    /,
    *,
    folder: Annotated[Path | None, Parameter(name="--data")] = None,
    archive: Path | None = None,
    as_json: Annotated[bool, Parameter(name="--json")] = False,
) -> None:
    """List the data sets, or check (and where possible fetch) the files of one."""
    from glassformer.data.corpora import CORPORA, locate, obtain

    if archive is not None:
        _unpack(name, archive, folder)
    if name is not None:
        found = obtain(name, folder)
        for file in found.corpus.files:
            path = found.file(file)
            line = {"file": file, "path": str(path), "sha256": found.corpus.files[file]}
            sys.stdout.write(f"{json.dumps(line) if as_json else path}\n")
        return
    for corpus in CORPORA.values():
        place = locate(corpus, folder)
        row = {
            "name": corpus.name,
            "about": corpus.about,
            "licence": corpus.licence,
            "cite": corpus.cite,
            "source": corpus.source,
            "folder": None if place is None else str(place),
        }
        if as_json:
            sys.stdout.write(f"{json.dumps(row, ensure_ascii=False)}\n")
            continue
        of = words("glassformer.data.corpora").of
        lines = (
            of(corpus.about),
            say("data terms", licence=of(corpus.licence), cite=corpus.cite),
            say("data here", place=place) if place else say("data not here", source=corpus.source),
        )
        sys.stdout.write(f"{corpus.name:<14}" + f"\n{'':<14}".join(lines) + "\n")


def _unpack(name: str | None, archive: Path, folder: Path | None) -> None:
    """Make the files of a data set from its published archive."""
    from glassformer.data.corpora import cache_folder
    from glassformer.data.imdb import convert
    from glassformer.errors import ConfigError

    if name not in ("imdb", "imdb-unsup"):
        raise ConfigError(
            "--archive is for imdb and imdb-unsup, got {name}", name=name or "no data set"
        )
    target = folder or cache_folder() / "data"
    convert(archive, target, lambda line: sys.stderr.write(f"{line}\n"))
