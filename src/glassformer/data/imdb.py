"""IMDb film reviews: the official split, a validation part by film, texts for pretraining.

A review's id contains its stars, which give the label away, so an id never leaves this file.
"""

from __future__ import annotations

import json
import lzma
import re
import tarfile
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from glassformer.data.corpora import FoundCorpus, read_lines
from glassformer.data.readers import hash_fraction
from glassformer.errors import DataError
from glassformer.files import write_whole

LABELS = ("negative", "positive")

_BREAK = re.compile(r"\s*(?:<br\s*/?>\s*)+", re.IGNORECASE)


@dataclass(frozen=True)
class Review:
    text: str
    label: int | None
    """0 negative, 1 positive; None in the unlabelled part."""
    movie: str


def read_reviews(found: FoundCorpus, split: str) -> list[Review]:
    """The reviews of "train", "test" or "unsup", in file order."""
    path = found.file(f"imdb/{split}.jsonl.xz")
    reviews = []
    for number, line in enumerate(read_lines(path), start=1):
        try:
            row = json.loads(line)
            reviews.append(Review(_clean(row["text"]), row.get("label"), row["movie"]))
        except (ValueError, KeyError, TypeError) as error:
            raise DataError(
                "{path}, line {number}: expected a review, got {error!r}",
                path=path,
                number=number,
                error=error,
            ) from None
    return reviews


def split_by_film(reviews: list[Review], share: float) -> tuple[list[Review], list[Review]]:
    """Training and validation reviews, with all reviews of a film on the same side.

    The side depends only on the film's id, so it is the same in every run and on every machine.
    """
    kept: list[Review] = []
    held_out: list[Review] = []
    for review in reviews:
        (held_out if hash_fraction(review.movie) < share else kept).append(review)
    return kept, held_out


def texts_for_pretraining(
    train: Iterable[Review], unlabelled: Iterable[Review], test: Iterable[Review]
) -> list[str]:
    """The distinct training texts that do not occur in the test set."""
    in_test = {review.text for review in test}
    texts = dict.fromkeys(review.text for review in (*train, *unlabelled))
    return [text for text in texts if text not in in_test]


def _clean(text: str) -> str:
    """HTML line breaks become line breaks: otherwise `br` would be the most frequent word."""
    return _BREAK.sub("\n", text)


# --- converting the published archive ---
# `aclImdb_v1.tar.gz` has one small file per review, named by number and stars, and `urls_*.txt`
# with the films. Our rows have text, label, id and film, ordered by number, negative before
# positive. The checksums prove that the same reviews give the same content.

_REVIEW = re.compile(r"(?:^|/)(train|test)/(neg|pos|unsup)/((\d+)_\d+)\.txt$")
_FILMS = re.compile(r"(?:^|/)(train|test)/urls_(neg|pos|unsup)\.txt$")
_FILM = re.compile(r"/title/(tt\d+)")
_LABELS = {"neg": 0, "pos": 1}
_BREAKS_LINES = re.compile("[\x85\u2028\u2029]")  # some readers split lines at these too
_PRESET = 1  # a third larger than the best compression, in a fifteenth of the time
_LARGEST = 10_000_000  # bytes of a review or a list; the largest has a quarter of that

Part = tuple[str, str]
"""Such as ("train", "neg")."""


def convert(archive: Path, folder: Path, log: Callable[[str], object]) -> list[Path]:
    """Write imdb/{train,test,unsup}.jsonl.xz into a folder, in less than a minute."""
    log(f"reading {archive}")
    reviews, films = _read(archive)
    written = []
    for name, parts in (
        ("train", [("train", "neg"), ("train", "pos")]),
        ("test", [("test", "neg"), ("test", "pos")]),
        ("unsup", [("train", "unsup")]),
    ):
        lines = list(
            _lines([(kind, reviews[split, kind], films[split, kind]) for split, kind in parts])
        )
        if not lines:
            raise DataError(
                "{archive} has no reviews in {names}; expected the archive aclImdb_v1.tar.gz "
                "from ai.stanford.edu/~amaas/data/sentiment",
                archive=archive,
                names="/".join(parts[0]),
            )
        path = folder / "imdb" / f"{name}.jsonl.xz"
        log(f"writing {path}")
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, lzma.compress("".join(lines).encode(), preset=_PRESET))
        written.append(path)
    return written


def _read(archive: Path) -> tuple[dict[Part, dict[int, tuple[str, str]]], dict[Part, list[str]]]:
    """Id and text of each review by number, and the films in that order."""
    reviews: dict[Part, dict[int, tuple[str, str]]] = defaultdict(dict)
    films: dict[Part, list[str]] = defaultdict(list)
    try:
        with tarfile.open(archive) as opened:
            for member in opened:
                review, listed = _REVIEW.search(member.name), _FILMS.search(member.name)
                found = review or listed
                if found is None or not member.isfile() or member.size > _LARGEST:
                    continue
                file = opened.extractfile(member)
                assert file is not None, "a regular file can be read"
                text = file.read().decode("utf-8")
                if review is not None:
                    part = (review[1], review[2])
                    reviews[part][int(review[4])] = (f"{review[2]}/{review[3]}", text)
                else:
                    films[found[1], found[2]] = _FILM.findall(text)
    except (OSError, EOFError, tarfile.TarError, zlib.error, UnicodeDecodeError) as error:
        raise DataError(
            "cannot read {archive} as a tar archive of reviews: {error}",
            archive=archive,
            error=error,
        ) from error
    return reviews, films


def _lines(
    parts: list[tuple[str, dict[int, tuple[str, str]], list[str]]],
) -> Iterator[str]:
    """One JSON object per review."""
    for number in sorted({number for _, reviews, _ in parts for number in reviews}):
        for kind, reviews, films in parts:
            if number not in reviews:
                continue
            name, text = reviews[number]
            if number >= len(films):
                raise DataError(
                    "the archive has no film for review {name}; is it complete?", name=name
                )
            label = {"label": _LABELS[kind]} if kind in _LABELS else {}
            row = {"text": text, **label, "id": name, "movie": films[number]}
            line = json.dumps(row, ensure_ascii=False)
            yield _BREAKS_LINES.sub(lambda found: f"\\u{ord(found[0]):04x}", line) + "\n"
