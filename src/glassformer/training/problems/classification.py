"""Texts and images with their classes: IMDb reviews, a user's own table, handwritten digits."""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from glassformer.data.batches import DigitExamples, LabelledTexts
from glassformer.data.corpora import find, sha256
from glassformer.data.imdb import LABELS, Review, read_reviews, split_by_film
from glassformer.data.readers import read_digits, read_table, split_by_text, split_digits
from glassformer.errors import ConfigError
from glassformer.nn import ModelConfig
from glassformer.text import Tokenizer
from glassformer.training.problems import ClassifiedTexts, DigitImages, LabelledTable
from glassformer.training.problems.prepared_problem import (
    HeldOut,
    PreparedProblem,
    TokenFolder,
    about_corpora,
    cut_texts,
    learn_tokenizer,
    share_of,
    tokenised,
)

Labelled = tuple[str, int]
"""A text and the number of its class."""


class LabelledSplits(NamedTuple):
    train: Sequence[Labelled]
    valid: Sequence[Labelled]
    test: Sequence[Labelled]


@dataclass(frozen=True)
class LabelledCorpus:
    """Texts with their classes, which are read only if the cache does not have them."""

    labels: Sequence[str]
    checksums: dict[str, str]
    about: dict[str, Any]
    read: Callable[[], LabelledSplits]


def classify_imdb(data: ClassifiedTexts) -> LabelledCorpus:
    """Whether a review is positive: the official training and test halves."""
    found = find("imdb", data.folder)

    def read() -> LabelledSplits:
        train, valid = split_by_film(read_reviews(found, "train"), data.validation)
        test = read_reviews(found, "test")
        return LabelledSplits(*([_labelled(one) for one in part] for part in (train, valid, test)))

    return LabelledCorpus(LABELS, dict(found.corpus.files), about_corpora(["imdb"]), read)


def _labelled(review: Review) -> Labelled:
    assert review.label is not None
    return review.text, review.label


def classify_csv(data: LabelledTable) -> LabelledCorpus:
    """A user's own table; part of it is held out for validation, and there is no test split."""
    if not data.file:
        raise ConfigError("name your CSV file with --csv or --data.file")
    path = Path(data.file)
    table = read_table(path, data.text_column, data.label_column)
    labels = tuple(sorted(set(table.labels)))
    numbers = {label: number for number, label in enumerate(labels)}
    train, valid = (
        [(text, numbers[label]) for text, label in part]
        for part in split_by_text(table, data.validation)
    )
    about = {**about_corpora([]), "data": path.name}
    splits = LabelledSplits(train, valid, [])
    return LabelledCorpus(labels, {path.name: sha256(path)}, about, lambda: splits)


CORPORA_OF: dict[str, Callable[[Any], LabelledCorpus]] = {
    "classify-imdb": classify_imdb,
    "classify-csv": classify_csv,
}
"""By the name of the problem."""


def classify_texts(
    data: ClassifiedTexts, model: ModelConfig, given: Tokenizer | None
) -> PreparedProblem:
    """The tokenizer is trained on the training split only."""
    corpus = CORPORA_OF[data.problem](data)

    @cache
    def splits() -> LabelledSplits:
        read = corpus.read()
        return read._replace(train=share_of(read.train, data.share))

    def learn() -> Tokenizer:
        return learn_tokenizer((text for text, _ in splits().train), data)

    def write(folder: TokenFolder) -> None:
        for name, rows in splits()._asdict().items():
            ids: Iterable[list[int]] = cut_texts(folder.tokenizer, (text for text, _ in rows), data)
            folder.write(name, ids)
            labels = np.array([label for _, label in rows], dtype=np.int64)
            np.save(folder.path / f"{name}.labels.npy", labels)

    settings = ("tokenizer", "vocab_size", "max_len", "cut", "share", "validation")
    columns = ("text_column", "label_column")
    folder = tokenised(data, (*settings, *columns), corpus.checksums, given, learn, write)
    valid, test = (_examples(folder, name, data) for name in ("valid", "test"))
    return PreparedProblem(
        task="classify",
        train=_examples(folder, "train", data, data.word_dropout),
        valid=HeldOut(valid) if len(valid) else None,
        tests={"test": HeldOut(test)} if len(test) else {},
        model=model.with_(
            vocab_size=folder.tokenizer.vocab_size,
            pad_id=folder.pad_id,
            max_len=data.max_len,
            output__n_classes=len(corpus.labels),
        ),
        tokenizer=folder.tokenizer,
        labels=tuple(corpus.labels),
        checksums=corpus.checksums,
        about={**corpus.about, "cut": data.cut},
    )


def _examples(
    folder: TokenFolder, name: str, data: ClassifiedTexts, word_dropout: float = 0.0
) -> LabelledTexts:
    return LabelledTexts(
        folder.store(name),
        np.load(folder.path / f"{name}.labels.npy"),
        pad_id=folder.pad_id,
        pad_multiple=data.pad_multiple,
        max_len=data.max_len,
        word_dropout=word_dropout,
        unknown_id=folder.tokenizer.special.unknown,
    )


def classify_digits(
    _data: DigitImages, model: ModelConfig, given: Tokenizer | None
) -> PreparedProblem:
    """Which digit an image shows."""
    assert given is None, "images have no tokens"
    digits = read_digits()
    train, valid, test = split_digits(digits)
    return PreparedProblem(
        task="classify",
        train=DigitExamples(train),
        valid=HeldOut(DigitExamples(valid)),
        tests={"test": HeldOut(DigitExamples(test))},
        model=model.with_(
            output__n_classes=10, image__size=8, image__channels=digits.images.shape[1]
        ),
        tokenizer=None,
        labels=tuple(map(str, range(10))),
        checksums={"digits": hashlib.sha256(digits.images.tobytes()).hexdigest()},
        about={
            "data": "optical recognition of handwritten digits, 1,797 images of 8 by 8 pixels; "
            "every fifth one held out",
            "licence": "CC BY 4.0",
            "cite": "Alpaydin and Kaynak 1998, UCI repository, as in scikit-learn",
        },
    )
