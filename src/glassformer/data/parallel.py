"""Sentence pairs: Multi30k captions, Tatoeba sentences; split so that nothing is seen twice."""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from glassformer.data.corpora import Found
from glassformer.data.text_files import read_lines
from glassformer.errors import DataError

Multi30kSplit = Literal["train", "val", "test_2016_flickr", "test_2017_flickr", "test_2017_mscoco"]


@dataclass(frozen=True)
class Pair:
    """A sentence and its translation."""

    source: str
    target: str


@dataclass(frozen=True)
class PairSplits:
    """Pairs to train on, to choose by, and to report."""

    train: list[Pair]
    valid: list[Pair]
    test: list[Pair]


def read_multi30k(found: Found, split: Multi30kSplit) -> list[Pair]:
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


def read_tatoeba(found: Found) -> list[Pair]:
    """English to German or Chinese sentences, without repeated pairs."""
    (name,) = found.corpus.files
    return read_pairs(found.file(name))


def read_pairs(path: Path) -> list[Pair]:
    """Source, tab, target on each line, without repeated pairs; further columns are left out."""
    pairs: dict[Pair, None] = {}
    for number, line in enumerate(read_lines(path), start=1):
        if "\r" in line:
            raise DataError(
                "{path}, line {number}: a carriage return inside the line; its line ends are "
                "mixed: save it with line feeds alone",
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
        raise DataError("{path} holds no pairs: it is empty", path=path)
    return list(pairs)


def split_by_source(pairs: list[Pair], n_valid: int, n_test: int) -> PairSplits:
    """Hold out whole source sentences: one with several translations is on one side only.

    Which ones depends on the sentences alone (their hash, upper and lower case being one), so it
    is the same in every run. Held-out sentences come once, with their first translation.
    """
    sentences = sorted({pair.source.casefold() for pair in pairs}, key=_rank)
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


def _rank(sentence: str) -> bytes:
    return hashlib.sha256(sentence.encode()).digest()
