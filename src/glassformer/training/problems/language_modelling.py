"""Running text, to be continued: Shakespeare, WikiText-2, a file of the user's own."""

from collections.abc import Callable
from pathlib import Path

from glassformer.data import TokenStore, Windows, find, prepared_folder, write_store
from glassformer.data.corpora import sha256
from glassformer.data.readers import (
    TextSplits,
    read_shakespeare,
    read_text_file,
    read_wikitext2,
)
from glassformer.errors import ConfigError, DataError
from glassformer.nn import ModelConfig
from glassformer.text import Tokenizer
from glassformer.training.problems.prepared_problem import (
    HeldOut,
    PreparedProblem,
    about_corpora,
    learn_tokenizer,
    prepared_key,
    store_tokenizer,
)
from glassformer.training.problems.problem_definitions import (
    RunningText,
    TextFile,
    TinyShakespeare,
    WikiText2,
)


def continue_shakespeare(
    data: TinyShakespeare, model: ModelConfig, tokenizer: Tokenizer | None = None
) -> PreparedProblem:
    """Tiny Shakespeare; the last tenth is held out."""
    found = find("shakespeare", data.folder)
    about = about_corpora(["shakespeare"])
    return _continue(
        data, model, tokenizer, lambda: read_shakespeare(found), found.corpus.files, about
    )


def continue_wikitext2(
    data: WikiText2, model: ModelConfig, tokenizer: Tokenizer | None = None
) -> PreparedProblem:
    """WikiText-2; the official parts."""
    found = find("wikitext2", data.folder)
    about = about_corpora(["wikitext2"])
    return _continue(
        data, model, tokenizer, lambda: read_wikitext2(found), found.corpus.files, about
    )


def continue_file(
    data: TextFile, model: ModelConfig, tokenizer: Tokenizer | None = None
) -> PreparedProblem:
    """Any text file in UTF-8."""
    if not data.file:
        raise ConfigError("name your text file with --text or --data.file")
    if not data.validation:
        raise ConfigError(
            "data.validation must be above 0: the end of a text is what it is held to"
        )
    path = Path(data.file)
    if not path.is_file():
        raise DataError("there is no text file {path}", path=path)
    return _continue(
        data,
        model,
        tokenizer,
        lambda: read_text_file(path, data.validation),
        {path.name: sha256(path)},
        {"data": path.name},
    )


def _continue(
    data: RunningText,
    model: ModelConfig,
    given: Tokenizer | None,
    read: Callable[[], TextSplits],
    checksums: dict[str, str],
    about: dict[str, str],
) -> PreparedProblem:
    key = prepared_key(data, ("tokenizer", "vocab_size", "validation"), checksums, given)
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

    return PreparedProblem(
        task="continue",
        train=windows("train", moving=True),
        valid=held_out("valid"),
        tests={"test": held_out("test")} if texts.test else {},
        model=model.with_(vocab_size=tokenizer.vocab_size, max_len=data.max_len),
        tokenizer=tokenizer,
        checksums=checksums,
        about=about,
    )


def _write(
    folder: Path, texts: TextSplits, data: RunningText, key: str, given: Tokenizer | None
) -> None:
    # Lines, not the whole: a tokenizer that learns from one long string needs far more memory.
    tokenizer = given or learn_tokenizer(texts.train.splitlines(keepends=True), data)
    store_tokenizer(folder, tokenizer)
    for name in ("train", "valid", "test"):
        ids = tokenizer.encode(getattr(texts, name))
        write_store(folder, name, [ids], vocab_size=tokenizer.vocab_size, key=key)
