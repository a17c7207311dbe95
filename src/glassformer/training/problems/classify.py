"""Texts and their classes: IMDb reviews."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from glassformer.data import LabelledTexts, TokenStore, find, key_of, prepared_folder, write_store
from glassformer.data.imdb import LABELS, Review, read_reviews, split_by_film
from glassformer.text import Tokenizer
from glassformer.training.config import RunConfig
from glassformer.training.problems.problem import (
    HeldOut,
    Problem,
    learn_tokenizer,
    share_of,
    store_tokenizer,
)

__all__ = ["classify_imdb"]


def classify_imdb(config: RunConfig) -> Problem:
    """Whether a review is positive: trained on the official training half, tested on the other."""
    data = config.data
    found = find("imdb", data.folder)
    checksums = found.checksums(found.corpus.files)
    settings: dict[str, Any] = {
        name: getattr(data, name)
        for name in ("tokenizer", "vocab_size", "max_len", "cut", "share", "validation")
    }
    key = key_of({"problem": data.problem, "data": checksums, **settings})

    def write(folder: Path) -> None:
        train, valid = split_by_film(read_reviews(found, "train"), data.validation)
        train = share_of(train, data.share)
        tokenizer = learn_tokenizer((review.text for review in train), data)
        store_tokenizer(folder, tokenizer)
        parts = {"train": train, "valid": valid, "test": read_reviews(found, "test")}
        for name, reviews in parts.items():
            ids = _encode(tokenizer, reviews, data.max_len, data.cut)
            write_store(folder, name, ids, vocab_size=tokenizer.vocab_size, key=key)
            labels = np.array([review.label for review in reviews], dtype=np.int64)
            np.save(folder / f"{name}.labels.npy", labels)

    folder = prepared_folder(key, write, data.cache)
    tokenizer = store_tokenizer(folder)

    def part(name: str, word_dropout: float = 0.0) -> LabelledTexts:
        pad_id = tokenizer.special.pad
        assert pad_id is not None
        return LabelledTexts(
            TokenStore(folder, name, key=key),
            np.load(folder / f"{name}.labels.npy").astype(np.int64),
            pad_id=pad_id,
            pad_multiple=data.pad_multiple,
            word_dropout=word_dropout,
            unknown_id=tokenizer.special.unknown,
        )

    valid = part("valid")
    return Problem(
        task="classify",
        train=part("train", data.word_dropout),
        valid=HeldOut(valid) if len(valid) else None,
        tests={"test": HeldOut(part("test"))},
        model=config.model.with_(
            vocab_size=tokenizer.vocab_size,
            pad_id=tokenizer.special.pad,
            max_len=data.max_len,
            output__n_classes=len(LABELS),
        ),
        tokenizer=tokenizer,
        labels=LABELS,
        checksums=checksums,
        about={
            "data": found.corpus.about,
            "licence": found.corpus.licence,
            "cite": found.corpus.cite,
        },
    )


def _encode(
    tokenizer: Tokenizer, reviews: Iterable[Review], max_len: int, cut: str
) -> Iterable[list[int]]:
    """Ids of reviews, cut to max_len; a verdict often stands at the end, so that may be kept."""
    for ids in tokenizer.encode_batch(review.text for review in reviews):
        if len(ids) > max_len and cut == "middle":
            head = max_len // 4
            yield [*ids[:head], *ids[len(ids) - (max_len - head) :]]
        else:
            yield ids[:max_len]
