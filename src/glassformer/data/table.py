"""A user's own table: a CSV file with a column of texts and a column of classes."""

import csv
import hashlib
import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from glassformer.data.reading import read_text
from glassformer.errors import DataError, did_you_mean

__all__ = ["Table", "read_table", "split_by_text"]


@dataclass(frozen=True)
class Table:
    """Texts and the name of the class of each."""

    texts: list[str]
    labels: list[str]


def read_table(path: Path, text_column: str, label_column: str) -> Table:
    """The two columns of a CSV file whose first row names them; quoted texts may have line ends."""
    if not path.is_file():
        raise DataError(f"there is no CSV file {path}")
    rows = csv.DictReader(io.StringIO(read_text(path), newline=""), strict=True)
    table = Table([], [])
    try:
        with _fields_of_any_length():
            names = list(rows.fieldnames or ())
            for column in (text_column, label_column):
                _check_column(path, column, names)
            for row in rows:
                text, label = ((row[name] or "").strip() for name in (text_column, label_column))
                if not text or not label:
                    empty = label_column if text else text_column
                    raise DataError(f"{path}, line {rows.line_num}: the column {empty!r} is empty")
                table.texts.append(text)
                table.labels.append(label)
    except csv.Error as error:  # the line is that of the last row that could be read
        raise DataError(f"{path}, in the row after line {rows.line_num}: {error}") from None
    if len(set(table.labels)) < 2:
        found = f"only {table.labels[0]!r}" if table.labels else "no rows"
        raise DataError(
            f"{path} needs at least two classes in column {label_column!r}, got {found}"
        )
    return table


def _check_column(path: Path, column: str, names: Sequence[str]) -> None:
    if not names:
        raise DataError(f"{path} is empty: its first row must name the columns")
    if column not in names:
        raise DataError(
            f"{path} has no column {column!r}{did_you_mean(column, names)}; name yours with "
            "--text-column and --label-column"
        )
    if names.count(column) > 1:
        raise DataError(f"{path} has {names.count(column)} columns {column!r}; rename all but one")


@contextmanager
def _fields_of_any_length() -> Iterator[None]:
    """Without Python's limit of 131,072 characters, which a chapter of a book exceeds."""
    before = csv.field_size_limit(2**31 - 1)  # the most that every system takes
    try:
        yield
    finally:
        csv.field_size_limit(before)


def split_by_text(
    table: Table, share: float
) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """Texts with their labels, to train on and to validate with; equal texts are on one side.

    The side depends on the text alone, so it is the same in every run.
    """
    rows = list(zip(table.texts, table.labels, strict=True))
    train = [row for row in rows if _place(row[0]) >= share]
    valid = [row for row in rows if _place(row[0]) < share]
    missing = sorted(set(table.labels) - {label for _, label in train})
    if missing:
        raise DataError(
            f"the class {missing[0]!r} has no text to learn from after {share:.0%} were held out; "
            "add texts of it, or lower data.validation"
        )
    return train, valid


def _place(text: str) -> float:
    """A number in [0, 1) that belongs to a text."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8]) / 2**64
