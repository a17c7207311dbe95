"""Texts and images with their classes: IMDb reviews, a user's own table, handwritten digits."""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from glassformer.data.corpora import find, sha256
from glassformer.data.examples import DigitExamples, LabelledTexts
from glassformer.data.imdb import LABELS, Review, read_reviews, split_by_film
from glassformer.data.readers import read_digits, read_table, split_by_text, split_digits
from glassformer.data.token_store import TokenStore, prepared_folder, write_store
from glassformer.errors import ConfigError
from glassformer.nn import ModelConfig
from glassformer.text import Tokenizer
from glassformer.training.problems import (
    ClassifiedTexts,
    DigitImages,
    ImdbReviews,
    LabelledTable,
)
from glassformer.training.problems.prepared_problem import (
    HeldOut,
    PreparedProblem,
    about_corpora,
    cut_texts,
    learn_tokenizer,
    prepared_key,
    share_of,
    store_tokenizer,
)

Labelled = tuple[str, int]


@dataclass(frozen=True)
class _LabelledSplits:
    """Texts with the numbers of their classes, by split."""

    train: list[Labelled]
    valid: list[Labelled]
    test: list[Labelled]


def classify_imdb(
    data: ImdbReviews, model: ModelConfig, tokenizer: Tokenizer | None = None
) -> PreparedProblem:
    """Whether a review is positive: the official training and test halves."""
    found = find("imdb", data.folder)

    def read() -> _LabelledSplits:
        train, valid = split_by_film(read_reviews(found, "train"), data.validation)
        parts = (train, valid, read_reviews(found, "test"))
        return _LabelledSplits(*([_labelled(review) for review in part] for part in parts))

    return _classify(
        data, model, tokenizer, read, LABELS, dict(found.corpus.files), [found.corpus.name]
    )


def classify_csv(
    data: LabelledTable, model: ModelConfig, tokenizer: Tokenizer | None = None
) -> PreparedProblem:
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
    parts = _LabelledSplits(train, valid, [])
    problem = _classify(
        data, model, tokenizer, lambda: parts, labels, {path.name: sha256(path)}, []
    )
    problem.about["data"] = path.name
    return problem


def classify_digits(
    _data: DigitImages, model: ModelConfig, tokenizer: Tokenizer | None = None
) -> PreparedProblem:
    """Which digit an image shows."""
    assert tokenizer is None, "images have no tokens"
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


def _labelled(review: Review) -> Labelled:
    assert review.label is not None
    return review.text, review.label


def _classify(
    data: ClassifiedTexts,
    model: ModelConfig,
    tokenizer: Tokenizer | None,
    read: Callable[[], _LabelledSplits],
    labels: Sequence[str],
    checksums: dict[str, str],
    corpora: Sequence[str],
) -> PreparedProblem:
    settings = ("tokenizer", "vocab_size", "max_len", "cut", "share", "validation")
    columns = ("text_column", "label_column") if isinstance(data, LabelledTable) else ()
    key = prepared_key(data, (*settings, *columns), checksums, tokenizer)
    folder = prepared_folder(
        key, lambda work: _write(work, read(), data, key, tokenizer), data.cache
    )
    used = store_tokenizer(folder)
    valid, test = (_examples(folder, name, key, data, used) for name in ("valid", "test"))
    return PreparedProblem(
        task="classify",
        train=_examples(folder, "train", key, data, used, data.word_dropout),
        valid=HeldOut(valid) if len(valid) else None,
        tests={"test": HeldOut(test)} if len(test) else {},
        model=model.with_(
            vocab_size=used.vocab_size,
            pad_id=used.special.pad,
            max_len=data.max_len,
            output__n_classes=len(labels),
        ),
        tokenizer=used,
        labels=tuple(labels),
        checksums=checksums,
        about={**about_corpora(corpora), "cut": data.cut},
    )


def _write(
    folder: Path,
    parts: _LabelledSplits,
    data: ClassifiedTexts,
    key: str,
    tokenizer: Tokenizer | None,
) -> None:
    """Tokenise every split; the tokenizer is trained on the training split only."""
    train = share_of(parts.train, data.share)
    used = tokenizer or learn_tokenizer((text for text, _ in train), data)
    store_tokenizer(folder, used)
    for name, rows in (("train", train), ("valid", parts.valid), ("test", parts.test)):
        ids: Iterable[list[int]] = cut_texts(used, (text for text, _ in rows), data)
        write_store(folder, name, ids, vocab_size=used.vocab_size, key=key)
        np.save(folder / f"{name}.labels.npy", np.array([at for _, at in rows], dtype=np.int64))


def _examples(
    folder: Path,
    name: str,
    key: str,
    data: ClassifiedTexts,
    tokenizer: Tokenizer,
    dropped: float = 0.0,
) -> LabelledTexts:
    pad_id = tokenizer.special.pad
    assert pad_id is not None
    return LabelledTexts(
        TokenStore(folder, name, key=key),
        np.load(folder / f"{name}.labels.npy"),
        pad_id=pad_id,
        pad_multiple=data.pad_multiple,
        max_len=data.max_len,
        word_dropout=dropped,
        unknown_id=tokenizer.special.unknown,
    )
