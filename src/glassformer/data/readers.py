"""Readers of the corpora and of the user's own files: what they contain, and how it is split.

Sentence pairs (Multi30k, Tatoeba, a file of pairs), running text (Shakespeare, WikiText-2, a text
file), film ratings (MovieLens), handwritten digits (scikit-learn), a user's own table of texts and
labels. Reviews are in `imdb`. A split never depends on a run or a machine, and nothing held out is
trained on.
"""

from __future__ import annotations

import csv
import hashlib
import io
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from glassformer.data.corpora import FoundCorpus, read_lines, read_text, stream_lines
from glassformer.data.token_store import Ids
from glassformer.errors import DataError, Fragment, did_you_mean

# --- sentence pairs ---

Multi30kSplit = Literal["train", "val", "test_2016_flickr", "test_2017_flickr", "test_2017_mscoco"]


@dataclass(frozen=True)
class Pair:
    """A sentence and its translation."""

    source: str
    target: str


@dataclass(frozen=True)
class PairSplits:
    """Pairs for training, validation and test."""

    train: list[Pair]
    valid: list[Pair]
    test: list[Pair]


def read_multi30k(found: FoundCorpus, split: Multi30kSplit) -> list[Pair]:
    """English to German captions of one official split."""
    english, german = (
        [line.strip() for line in read_lines(found.file(f"multi30k/{split}.{language}.gz"))]
        for language in ("en", "de")
    )
    if len(english) != len(german):
        raise DataError(
            "multi30k {split}: expected as many English as German lines, got {n_english} "
            "and {n_german}",
            split=split,
            n_english=len(english),
            n_german=len(german),
        )
    return [Pair(*pair) for pair in zip(english, german, strict=True)]


def read_tatoeba(found: FoundCorpus) -> list[Pair]:
    """English to German or Chinese sentences, without duplicate pairs."""
    (name,) = found.corpus.files
    return read_pairs(found.file(name))


def read_pairs(path: Path) -> list[Pair]:
    """Source, tab, target on each line, without duplicate pairs; further columns are ignored."""
    pairs: dict[Pair, None] = {}
    for number, line in enumerate(read_lines(path), start=1):
        if "\r" in line:
            raise DataError(
                "{path}, line {number}: a carriage return inside the line; the file mixes line "
                "endings: save it with line feeds only",
                path=path,
                number=number,
            )
        columns = line.split("\t")
        if len(columns) < 2 or not columns[0].strip() or not columns[1].strip():
            raise DataError(
                "{path}, line {number}: expected a text, a tab and its translation",
                path=path,
                number=number,
            )
        pairs[Pair(columns[0].strip(), columns[1].strip())] = None
    if not pairs:
        raise DataError("{path} contains no pairs: it is empty", path=path)
    return list(pairs)


def split_by_source(pairs: list[Pair], n_valid: int, n_test: int) -> PairSplits:
    """Hold out whole source sentences: all translations of one are on the same side.

    The choice depends only on the sentences (a case-insensitive hash), so it is the same in every
    run. A held-out sentence occurs once, with its first translation.
    """
    sentences = sorted({pair.source.casefold() for pair in pairs}, key=_sha256)
    test = set(sentences[:n_test])
    valid = set(sentences[n_test : n_test + n_valid])
    held_out = test | valid
    train = [pair for pair in pairs if pair.source.casefold() not in held_out]
    return PairSplits(train, _first_of(pairs, valid), _first_of(pairs, test))


def _first_of(pairs: list[Pair], sentences: set[str]) -> list[Pair]:
    first: dict[str, Pair] = {}
    for pair in pairs:
        key = pair.source.casefold()
        if key in sentences:
            first.setdefault(key, pair)
    return list(first.values())


def hash_fraction(text: str) -> float:
    """A hash of a text as a number in [0, 1), for splits that are the same in every run."""
    return int.from_bytes(_sha256(text)[:8]) / 2**64


def _sha256(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


# --- running text ---


@dataclass(frozen=True)
class TextSplits:
    """Running text for training, validation and, where there is one, test."""

    train: str
    valid: str
    test: str = ""


def read_shakespeare(found: FoundCorpus) -> TextSplits:
    """The last tenth of the characters is validation, the usual split; there is no test part."""
    text = read_text(found.file("lm/tinyshakespeare.txt"))
    cut = int(len(text) * 0.9)
    return TextSplits(text[:cut], text[cut:])


def read_wikitext2(found: FoundCorpus) -> TextSplits:
    """The official split."""
    parts = (
        read_text(found.file(f"lm/wikitext2-{part}.txt.xz")) for part in ("train", "valid", "test")
    )
    return TextSplits(*parts)


def read_text_file(path: Path, share: float) -> TextSplits:
    """A user's own text; the last `share` of its characters is validation."""
    text = read_text(path)
    if not text.strip():
        raise DataError("{path} contains no text: it is empty or all whitespace", path=path)
    cut = int(len(text) * (1 - share))
    if not text[:cut].strip() or not text[cut:].strip():
        raise DataError(
            "{path} is too short, or all whitespace on one side of the split: expected text to "
            "train on and, in the last {share:.0%}, to validate on; got {n_text} "
            "characters",
            path=path,
            share=share,
            n_text=len(text),
        )
    return TextSplits(text[:cut], text[cut:])


# --- film ratings ---


@dataclass(frozen=True)
class Ratings:
    """Indices of people and films (from 0, in the order of their ids) and the stars given."""

    people: Ids
    films: Ids
    stars: NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.stars)

    def select(self, indices: Ids) -> Ratings:
        return Ratings(self.people[indices], self.films[indices], self.stars[indices])


def read_ratings(found: FoundCorpus) -> Ratings:
    """All ratings, in file order."""
    rows = _rows(found, "ratings.csv.xz")
    try:
        table = [(int(r["userId"]), int(r["movieId"]), float(r["rating"])) for r in rows]
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(
            "{path}, line {line_num}: expected a rating, got {error!r}",
            path=found.file("movielens/ratings.csv.xz"),
            line_num=rows.line_num,
            error=error,
        ) from None
    people, films, stars = (np.array(column) for column in zip(*table, strict=True))
    _, person_indices = np.unique(people, return_inverse=True)
    _, film_indices = np.unique(films, return_inverse=True)
    return Ratings(
        person_indices.astype(np.int64), film_indices.astype(np.int64), stars.astype(np.float32)
    )


def read_titles(found: FoundCorpus) -> tuple[str, ...]:
    """The title of each rated film, by its index."""
    titles = _film_column(found, "title")
    return tuple(titles.get(film, f"film {film}") for film in _rated(found))


def read_genres(found: FoundCorpus) -> tuple[frozenset[str], ...]:
    """The genres of each rated film, by its index."""
    genres = _film_column(found, "genres")
    return tuple(frozenset(genres.get(film, "").split("|")) for film in _rated(found))


def _film_column(found: FoundCorpus, column: str) -> dict[int, str]:
    return {int(row["movieId"]): row[column] for row in _rows(found, "movies.csv.xz")}


def _rated(found: FoundCorpus) -> list[int]:
    return sorted({int(row["movieId"]) for row in _rows(found, "ratings.csv.xz")})


def _rows(found: FoundCorpus, name: str) -> csv.DictReader[str]:
    path = found.file(f"movielens/{name}")
    return csv.DictReader(io.StringIO(read_text(path), newline=""))


def split_ratings(ratings: Ratings, validation: float) -> tuple[Ratings, Ratings, Ratings]:
    """Training, validation (this share of what is not test) and test (a fifth); fixed seed."""
    order = np.random.default_rng(2018).permutation(len(ratings))
    n_test = len(ratings) // 5
    n_valid = round((len(ratings) - n_test) * validation)
    test, valid, train = np.split(order, [n_test, n_test + n_valid])
    return ratings.select(train), ratings.select(valid), ratings.select(test)


# --- handwritten digits ---


@dataclass(frozen=True)
class ScannedDigits:
    """Images (N, 1, 8, 8) with values from 0 to 1, and the digit that each shows."""

    images: NDArray[np.float32]
    labels: Ids

    def select(self, chosen: NDArray[np.bool_]) -> ScannedDigits:
        return ScannedDigits(self.images[chosen], self.labels[chosen])


def read_digits() -> ScannedDigits:
    """All 1,797 images (UCI, 1998), the only reason to need scikit-learn."""
    try:
        from sklearn.datasets import load_digits  # type: ignore[import-untyped]  # not annotated
    except ImportError:
        raise DataError("the digits come with scikit-learn: pip install scikit-learn") from None
    pixels, labels = load_digits(return_X_y=True)
    images = (pixels / 16).astype(np.float32).reshape(-1, 1, 8, 8)
    return ScannedDigits(images, labels.astype(np.int64))


def split_digits(digits: ScannedDigits) -> tuple[ScannedDigits, ScannedDigits, ScannedDigits]:
    """Training, validation (every tenth image) and test (every fifth)."""
    at = np.arange(len(digits.labels))
    is_test, is_valid = at % 5 == 0, at % 10 == 1
    return digits.select(~is_test & ~is_valid), digits.select(is_valid), digits.select(is_test)


def digit_to_test(number: int) -> NDArray[np.float32]:
    """A test image (1, 8, 8) by its number."""
    _, _, test = split_digits(read_digits())
    if number >= len(test.images):
        raise DataError(
            "the digits have {count} test images, from 0 on: there is no image {number}",
            count=len(test.images),
            number=number,
        )
    image: NDArray[np.float32] = test.images[number]
    return image


# --- a user's own table ---

_MAX_CELL = 2**20  # characters, about two hundred pages
_MAX_COLUMNS = 10_000
_MANY_CLASSES = 100
_AFTER_CR = re.compile(r"(?<=\r)(?!\n)(?=.)", re.DOTALL)


@dataclass(frozen=True)
class TextTable:
    """Texts and their labels."""

    texts: list[str]
    labels: list[str]


def read_table(path: Path, text_column: str, label_column: str) -> TextTable:
    """Two columns of a CSV file with a header row; quoted texts may contain line breaks."""
    rows = csv.DictReader(_lines(path), strict=True)
    table = TextTable([], [])
    try:
        with _long_cells():
            names = list(rows.fieldnames or ())
            if len(names) > _MAX_COLUMNS:
                raise DataError(
                    "{path} has {n_names:,} columns, expected at most {most_columns:,}; keep only "
                    "the texts and the labels",
                    path=path,
                    n_names=len(names),
                    most_columns=_MAX_COLUMNS,
                )
            for column in (text_column, label_column):
                _check_column(path, column, names)
            for row in rows:
                text, label = ((row[name] or "").strip() for name in (text_column, label_column))
                if not text or not label:
                    empty = label_column if text else text_column
                    raise DataError(
                        "{path}, line {line_num}: the column {empty!r} is empty",
                        path=path,
                        line_num=rows.line_num,
                        empty=empty,
                    )
                table.texts.append(text)
                table.labels.append(label)
    except csv.Error as error:
        where = Fragment.of("in the row after line {n}", n=rows.line_num)
        raise DataError(
            "{path}, {where}: {what}",
            path=path,
            where=where if rows.line_num else Fragment.of("in the first row"),
            what=_mistake(error),
        ) from None
    _check_classes(path, label_column, table)
    return table


def _check_classes(path: Path, label_column: str, table: TextTable) -> None:
    n_classes, n_rows = len(set(table.labels)), len(table.labels)
    if n_classes < 2:
        found = Fragment.of("no rows")
        if table.labels:
            found = Fragment.of("only {label!r}", label=table.labels[0])
        raise DataError(
            "{path} needs at least two classes in column {label_column!r}, got {found}",
            path=path,
            label_column=label_column,
            found=found,
        )
    if n_classes > _MANY_CLASSES and n_rows < 2 * n_classes:
        raise DataError(
            "{path} has {n_classes:,} different values in {n_rows:,} rows of column "
            "{label_column!r}; a class needs several texts; set the column of the labels with "
            "--label-column",
            path=path,
            n_classes=n_classes,
            label_column=label_column,
            n_rows=n_rows,
        )


def _mistake(error: csv.Error) -> Fragment:
    """What Python's messages mean for the file."""
    said = str(error)
    if "field limit" in said:
        return Fragment.of(
            "a cell has more than {most:,} characters; shorten it or check the quotes",
            most=_MAX_CELL,
        )
    if "end of data" in said:
        return Fragment.of("a cell begins with a quote that nothing closes")
    if "expected after" in said:
        return Fragment.of(
            'a cell goes on after its closing quote; a quote inside a cell is written twice, ""'
        )
    return Fragment.of("{reason}", reason=said)


def _lines(path: Path) -> Iterator[str]:
    """Lines that end with LF, CRLF or CR, also mixed, as in CSV files."""
    for line in stream_lines(path):
        yield from _AFTER_CR.split(line)


def _check_column(path: Path, column: str, names: Sequence[str]) -> None:
    if not names:
        raise DataError("{path} is empty: its first row must name the columns", path=path)
    if column not in names:
        raise DataError(
            "{path} has no column {column!r}, which --text-column and --label-column name{near}",
            path=path,
            column=column,
            near=did_you_mean(column, names),
        )
    if names.count(column) > 1:
        raise DataError(
            "{path} has {count} columns {column!r}; rename all but one",
            path=path,
            count=names.count(column),
            column=column,
        )


@contextmanager
def _long_cells() -> Iterator[None]:
    """Raises Python's limit of 131,072 characters per cell, which a book chapter exceeds."""
    before = csv.field_size_limit(_MAX_CELL)
    try:
        yield
    finally:
        csv.field_size_limit(before)


def split_by_text(
    table: TextTable, share: float
) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """(text, label) pairs for training and validation; equal texts are on the same side.

    The side depends only on the text, so it is the same in every run.
    """
    rows = list(zip(table.texts, table.labels, strict=True))
    train = [row for row in rows if hash_fraction(row[0]) >= share]
    valid = [row for row in rows if hash_fraction(row[0]) < share]
    missing = sorted(set(table.labels) - {label for _, label in train})
    if missing:
        raise DataError(
            "the class {missing!r} has no training texts left after {share:.0%} were held "
            "out; add texts of that class or lower data.validation",
            missing=missing[0],
            share=share,
        )
    return train, valid
