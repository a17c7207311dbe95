"""Running text, to be continued: Shakespeare, WikiText-2, a file of the user's own."""

from collections.abc import Callable
from pathlib import Path

from glassformer.data import TokenStore, Windows, find, key_of, prepared_folder, write_store
from glassformer.data.corpora import sha256
from glassformer.data.plain import TextSplits, read_shakespeare, read_text_file, read_wikitext2
from glassformer.errors import ConfigError, DataError
from glassformer.text import Tokenizer
from glassformer.training.config import DataConfig, RunConfig
from glassformer.training.problems.problem import (
    HeldOut,
    Problem,
    about_corpora,
    learn_tokenizer,
    store_tokenizer,
    tokenizer_key,
)

__all__ = ["continue_file", "continue_shakespeare", "continue_wikitext2"]


def continue_shakespeare(config: RunConfig, tokenizer: Tokenizer | None = None) -> Problem:
    """Tiny Shakespeare; the last tenth is held out."""
    found = find("shakespeare", config.data.folder)
    about = about_corpora(["shakespeare"])
    return _continue(config, tokenizer, lambda: read_shakespeare(found), found.corpus.files, about)


def continue_wikitext2(config: RunConfig, tokenizer: Tokenizer | None = None) -> Problem:
    """WikiText-2; the official parts."""
    found = find("wikitext2", config.data.folder)
    about = about_corpora(["wikitext2"])
    return _continue(config, tokenizer, lambda: read_wikitext2(found), found.corpus.files, about)


def continue_file(config: RunConfig, tokenizer: Tokenizer | None = None) -> Problem:
    """Any text file in UTF-8."""
    if not config.data.file:
        raise ConfigError("name your text file with --text or --data.file")
    if not config.data.validation:
        raise ConfigError(
            "data.validation must be above 0: the end of a text is what it is held to"
        )
    path = Path(config.data.file)
    if not path.is_file():
        raise DataError("there is no text file {path}", path=path)
    return _continue(
        config,
        tokenizer,
        lambda: read_text_file(path, config.data.validation),
        {path.name: sha256(path)},
        {"data": path.name},
    )


def _continue(
    config: RunConfig,
    given: Tokenizer | None,
    read: Callable[[], TextSplits],
    checksums: dict[str, str],
    about: dict[str, str],
) -> Problem:
    data = config.data
    settings = {name: getattr(data, name) for name in ("tokenizer", "vocab_size", "validation")}
    key = key_of(
        {"problem": data.problem, "data": checksums, **settings}
        | {"given_tokenizer": tokenizer_key(given)}
    )
    texts = read()

    folder = prepared_folder(key, lambda work: _write(work, texts, data, key, given), data.cache)
    tokenizer = store_tokenizer(folder)

    def windows(name: str, *, moving: bool = False) -> Windows:
        examples = Windows(TokenStore(folder, name, key=key), data.max_len, moving=moving)
        if not len(examples):
            raise DataError("the {name} text is too short: it has fewer than two tokens", name=name)
        return examples

    def held_out(name: str) -> HeldOut:
        examples, text = windows(name), getattr(texts, name)
        n_bytes = len(text.encode()) - tokenizer.bytes_of_first(text)
        return HeldOut(examples, n_bytes=n_bytes)

    return Problem(
        task="continue",
        train=windows("train", moving=True),
        valid=held_out("valid"),
        tests={"test": held_out("test")} if texts.test else {},
        model=config.model.with_(vocab_size=tokenizer.vocab_size, max_len=data.max_len),
        tokenizer=tokenizer,
        checksums=checksums,
        about=about,
    )


def _write(
    folder: Path, texts: TextSplits, data: DataConfig, key: str, given: Tokenizer | None
) -> None:
    # Lines, not the whole: a tokenizer that learns from one long string needs far more memory.
    tokenizer = given or learn_tokenizer(texts.train.splitlines(keepends=True), data)
    store_tokenizer(folder, tokenizer)
    for name in ("train", "valid", "test"):
        ids = tokenizer.encode(getattr(texts, name))
        write_store(folder, name, [ids], vocab_size=tokenizer.vocab_size, key=key)
