"""Language modelling: running text to continue, and reviews with masked words to predict."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from glassformer.data.batches import MaskedTexts, Windows
from glassformer.data.corpora import find, sha256
from glassformer.data.imdb import read_reviews, texts_for_pretraining
from glassformer.data.readers import (
    TextSplits,
    hash_fraction,
    read_shakespeare,
    read_text_file,
    read_wikitext2,
)
from glassformer.errors import ConfigError, DataError
from glassformer.nn import ModelConfig
from glassformer.text import DEFAULT_SPECIAL, Tokenizer
from glassformer.training.problems import MaskedReviews, RunningText, TextFile
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


@dataclass(frozen=True)
class TextCorpus:
    """Running text, by split."""

    texts: TextSplits
    checksums: Mapping[str, str]
    about: dict[str, Any]


def continue_shakespeare(data: RunningText) -> TextCorpus:
    """The last tenth is held out."""
    found = find("shakespeare", data.folder)
    return TextCorpus(read_shakespeare(found), found.corpus.files, about_corpora(["shakespeare"]))


def continue_wikitext2(data: RunningText) -> TextCorpus:
    """The official splits."""
    found = find("wikitext2", data.folder)
    return TextCorpus(read_wikitext2(found), found.corpus.files, about_corpora(["wikitext2"]))


def continue_file(data: TextFile) -> TextCorpus:
    """Any text file in UTF-8."""
    if not data.file:
        raise ConfigError("name your text file with --text or --data.file")
    if not data.validation:
        raise ConfigError(
            "data.validation must be above 0: the end of the text is held out for validation"
        )
    path = Path(data.file)
    texts = read_text_file(path, data.validation)
    return TextCorpus(texts, {path.name: sha256(path)}, {"data": path.name})


TEXTS_OF: dict[str, Callable[[Any], TextCorpus]] = {
    "continue-shakespeare": continue_shakespeare,
    "continue-wikitext2": continue_wikitext2,
    "continue-file": continue_file,
}
"""By the name of the problem."""


def continue_text(
    data: RunningText, model: ModelConfig, given: Tokenizer | None
) -> PreparedProblem:
    corpus = TEXTS_OF[data.problem](data)
    texts = corpus.texts

    def learn() -> Tokenizer:
        # Lines, not the whole text: training on one long string needs far more memory.
        return learn_tokenizer(texts.train.splitlines(keepends=True), data)

    def write(folder: TokenFolder) -> None:
        for name in ("train", "valid", "test"):
            folder.write(name, [folder.tokenizer.encode(getattr(texts, name))])

    settings = ("tokenizer", "vocab_size", "validation")
    folder = tokenised(data, settings, corpus.checksums, given, learn, write)
    tokenizer = folder.tokenizer

    def windows(name: str, *, moving: bool = False) -> Windows:
        examples = Windows(folder.store(name), data.max_len, moving=moving)
        if not len(examples):
            raise DataError("the {name} text is too short: it has fewer than two tokens", name=name)
        return examples

    def held_out(name: str) -> HeldOut:
        examples, text = windows(name), getattr(texts, name)
        n_bytes = len(text.encode()) - tokenizer.bytes_of_first(text)
        return HeldOut(examples, n_bytes=n_bytes)

    return PreparedProblem(
        task="continue",
        train=windows("train", moving=True),
        valid=held_out("valid"),
        tests={"test": held_out("test")} if texts.test else {},
        model=model.with_(vocab_size=tokenizer.vocab_size, max_len=data.max_len),
        tokenizer=tokenizer,
        checksums=dict(corpus.checksums),
        about=corpus.about,
    )


def mask_imdb(data: MaskedReviews, model: ModelConfig, given: Tokenizer | None) -> PreparedProblem:
    """The labelled and unlabelled training reviews, without those that are also in the test set."""
    labelled, unlabelled = (find(name, data.folder) for name in ("imdb", "imdb-unsup"))

    @cache
    def splits() -> dict[str, list[str]]:
        texts = texts_for_pretraining(
            read_reviews(labelled, "train"),
            read_reviews(unlabelled, "unsup"),
            read_reviews(labelled, "test"),
        )
        valid = [text for text in texts if hash_fraction(text) < data.validation]
        rest = [text for text in texts if hash_fraction(text) >= data.validation]
        return {"train": share_of(rest, data.share), "valid": valid}

    def learn() -> Tokenizer:
        return learn_tokenizer(splits()["train"], data, special=(*DEFAULT_SPECIAL, "<mask>"))

    def write(folder: TokenFolder) -> None:
        for name, texts in splits().items():
            folder.write(name, cut_texts(folder.tokenizer, texts, data))

    checksums = {**labelled.corpus.files, **unlabelled.corpus.files}
    settings = ("tokenizer", "vocab_size", "max_len", "cut", "share", "validation")
    folder = tokenised(data, settings, checksums, given, learn, write)
    special = folder.tokenizer.special
    assert special.mask is not None, "masked-word prediction needs a mask token"
    train, valid = (
        MaskedTexts(
            folder.store(name),
            pad_id=folder.pad_id,
            mask_id=special.mask,
            special_ids=special.ids,
            share=data.hidden,
            pad_multiple=data.pad_multiple,
            max_len=data.max_len,
        )
        for name in ("train", "valid")
    )
    return PreparedProblem(
        task="mask",
        train=train,
        valid=HeldOut(valid) if len(valid) else None,
        tests={},
        model=model.with_(
            vocab_size=folder.tokenizer.vocab_size, pad_id=folder.pad_id, max_len=data.max_len
        ),
        tokenizer=folder.tokenizer,
        checksums=checksums,
        about={**about_corpora(["imdb", "imdb-unsup"]), "cut": data.cut},
    )
