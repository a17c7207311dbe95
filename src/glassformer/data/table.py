"""A user's own table: a CSV file with a column of texts and a column of labels."""

import csv
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from glassformer.data.readers import hash_fraction
from glassformer.data.text_files import stream_lines
from glassformer.errors import DataError, Fragment, did_you_mean

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
    if not path.is_file():
        raise DataError("there is no CSV file {path}", path=path)
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
        what: object = error
        if "field limit" in str(error):
            what = Fragment.of(
                "a cell has more than {most:,} characters; shorten it or check the quotes",
                most=_MAX_CELL,
            )
        raise DataError(
            "{path}, in the row after line {line_num}: {what}",
            path=path,
            line_num=rows.line_num,
            what=what,
        ) from None
    _check_classes(path, label_column, table)
    return table


def _check_classes(path: Path, label_column: str, table: TextTable) -> None:
    n_classes, n_rows = len(set(table.labels)), len(table.labels)
    if n_classes < 2:
        found = f"only {table.labels[0]!r}" if table.labels else "no rows"
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


def _lines(path: Path) -> Iterator[str]:
    """Lines that end with LF, CRLF or CR, also mixed, as in CSV files."""
    for line in stream_lines(path):
        yield from _AFTER_CR.split(line)


def _check_column(path: Path, column: str, names: Sequence[str]) -> None:
    if not names:
        raise DataError("{path} is empty: its first row must name the columns", path=path)
    if column not in names:
        raise DataError(
            "{path} has no column {column!r}{near}; set the columns with --text-column and "
            "--label-column",
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
