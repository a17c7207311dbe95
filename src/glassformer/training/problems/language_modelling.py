"""Language modelling: running text to continue, and reviews with masked words to predict."""

from collections.abc import Callable
from pathlib import Path

from glassformer.data.corpora import find, sha256
from glassformer.data.examples import MaskedTexts, Windows
from glassformer.data.imdb import read_reviews, texts_for_pretraining
from glassformer.data.readers import (
    TextSplits,
    hash_fraction,
    read_shakespeare,
    read_text_file,
    read_wikitext2,
)
from glassformer.data.token_store import TokenStore, prepared_folder, write_store
from glassformer.errors import ConfigError, DataError
from glassformer.nn import ModelConfig
from glassformer.text import Tokenizer
from glassformer.training.problems import (
    MaskedReviews,
    RunningText,
    TextFile,
    TinyShakespeare,
    WikiText2,
)
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
    """WikiText-2; the official splits."""
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
            "data.validation must be above 0: the end of the text is held out for validation"
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
    # Lines, not the whole text: training a tokenizer on one long string needs far more memory.
    tokenizer = given or learn_tokenizer(texts.train.splitlines(keepends=True), data)
    store_tokenizer(folder, tokenizer)
    for name in ("train", "valid", "test"):
        ids = tokenizer.encode(getattr(texts, name))
        write_store(folder, name, [ids], vocab_size=tokenizer.vocab_size, key=key)


def mask_imdb(
    data: MaskedReviews, model: ModelConfig, tokenizer: Tokenizer | None = None
) -> PreparedProblem:
    """The labelled and unlabelled training reviews, without those that are also in the test set."""
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
        valid = [text for text in texts if hash_fraction(text) < data.validation]
        rest = [text for text in texts if hash_fraction(text) >= data.validation]
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


def _examples(
    folder: Path, name: str, key: str, data: MaskedReviews, tokenizer: Tokenizer
) -> MaskedTexts:
    special = tokenizer.special
    assert special.pad is not None
    assert special.mask is not None, "masked-word prediction needs a mask token"
    return MaskedTexts(
        TokenStore(folder, name, key=key),
        pad_id=special.pad,
        mask_id=special.mask,
        special_ids=special.ids,
        share=data.hidden,
        pad_multiple=data.pad_multiple,
        max_len=data.max_len,
    )
