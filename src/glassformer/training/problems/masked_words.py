"""Texts with hidden words, to be guessed: what a classifier can learn from before it has labels."""

import hashlib
from pathlib import Path

from glassformer.data import MaskedTexts, TokenStore, find, prepared_folder, write_store
from glassformer.data.imdb import read_reviews, texts_for_pretraining
from glassformer.nn import ModelConfig
from glassformer.text import Tokenizer
from glassformer.training.problems.prepared_problem import (
    SPECIAL,
    HeldOut,
    PreparedProblem,
    about_corpora,
    cut_texts,
    learn_tokenizer,
    prepared_key,
    share_of,
    store_tokenizer,
)
from glassformer.training.problems.problem_definitions import MaskedReviews


def mask_imdb(
    data: MaskedReviews, model: ModelConfig, tokenizer: Tokenizer | None = None
) -> PreparedProblem:
    """The labelled and unlabelled training reviews, without those that the test set has too."""
    labelled, unlabelled = (find(name, data.folder) for name in ("imdb", "imdb-unsup"))
    checksums = {**labelled.corpus.files, **unlabelled.corpus.files}
    settings = ("tokenizer", "vocab_size", "max_len", "cut", "share", "validation")
    key = prepared_key(data, settings, checksums, tokenizer)

    def write(folder: Path) -> None:
        texts = texts_for_pretraining(
            read_reviews(labelled, "train"),
            read_reviews(unlabelled, "unsup"),
            read_reviews(labelled, "test"),
        )
        valid = [text for text in texts if _is_held_out(text, data.validation)]
        rest = [text for text in texts if not _is_held_out(text, data.validation)]
        train = share_of(rest, data.share)
        used = tokenizer or learn_tokenizer(train, data, special=(*SPECIAL, "<mask>"))
        store_tokenizer(folder, used)
        for name, part in (("train", train), ("valid", valid)):
            ids = cut_texts(used, part, data)
            write_store(folder, name, ids, vocab_size=used.vocab_size, key=key)

    folder = prepared_folder(key, write, data.cache)
    used = store_tokenizer(folder)
    valid = _examples(folder, "valid", key, data, used)
    return PreparedProblem(
        task="mask",
        train=_examples(folder, "train", key, data, used),
        valid=HeldOut(valid) if len(valid) else None,
        tests={},
        model=model.with_(
            vocab_size=used.vocab_size, pad_id=used.special.pad, max_len=data.max_len
        ),
        tokenizer=used,
        checksums=checksums,
        about={**about_corpora(["imdb", "imdb-unsup"]), "cut": data.cut},
    )


def _is_held_out(text: str, share: float) -> bool:
    """By the text alone, so that it is the same in every run."""
    digest = hashlib.sha256(text.encode()).digest()
    return int.from_bytes(digest[:8]) / 2**64 < share


def _examples(
    folder: Path, name: str, key: str, data: MaskedReviews, tokenizer: Tokenizer
) -> MaskedTexts:
    special = tokenizer.special
    assert special.pad is not None
    assert special.mask is not None, "a masked-word model needs a mask token"
    return MaskedTexts(
        TokenStore(folder, name, key=key),
        pad_id=special.pad,
        mask_id=special.mask,
        special_ids=special.ids,
        share=data.hidden,
        pad_multiple=data.pad_multiple,
        max_len=data.max_len,
    )
