"""Sentences and their translations: Multi30k, Tatoeba, and both together."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from glassformer.data.corpora import FoundCorpus, find, sha256
from glassformer.data.examples import SentencePairs
from glassformer.data.readers import Pair, read_multi30k, read_pairs, read_tatoeba, split_by_source
from glassformer.data.token_store import TokenStore, prepared_folder, write_store
from glassformer.errors import ConfigError, DataError
from glassformer.nn import ModelConfig
from glassformer.text import Tokenizer
from glassformer.training.problems import (
    EnglishChinese,
    EnglishGerman,
    Multi30k,
    PairsFile,
    ThronesPair,
    TranslationPairs,
)
from glassformer.training.problems.prepared_problem import (
    HeldOut,
    PreparedProblem,
    about_corpora,
    learn_tokenizer,
    prepared_key,
    share_of,
    store_tokenizer,
)

THRONES = Pair("When you play the game of thrones", "you win or you die")


@dataclass(frozen=True)
class _PairSplits:
    """Sentence pairs by split."""

    train: list[Pair]
    valid: list[Pair]
    tests: dict[str, list[Pair]] = field(default_factory=dict)


def translate_thrones(
    data: ThronesPair, model: ModelConfig, tokenizer: Tokenizer | None = None
) -> PreparedProblem:
    """One sentence pair, learnt by heart; the score is on that pair itself."""
    parts = _PairSplits([THRONES], [], {"the pair itself": [THRONES]})
    problem = _translate(data, model, tokenizer, [], lambda: parts, "en")
    problem.about["data"] = "one sentence of a television series"
    return problem


def translate_file(
    data: PairsFile, model: ModelConfig, tokenizer: Tokenizer | None = None
) -> PreparedProblem:
    """A user's own pairs: source, tab, target, one pair per line; whole sources are held out."""
    if not data.file:
        raise ConfigError("name your file of pairs with --pairs or --data.file")
    path = Path(data.file)
    if not path.is_file():
        raise DataError("there is no file of pairs {path}", path=path)
    pairs = read_pairs(path)
    n_held_out = round(len({pair.source.casefold() for pair in pairs}) * data.validation)
    splits = split_by_source(pairs, n_valid=n_held_out, n_test=0)
    parts = _PairSplits(splits.train, splits.valid)
    language = "zh" if _is_chinese(pairs) else "en"
    problem = _translate(
        data, model, tokenizer, [], lambda: parts, language, {path.name: sha256(path)}
    )
    problem.about["data"] = path.name
    return problem


def _is_chinese(pairs: Sequence[Pair]) -> bool:
    """Whether most letters of the targets are Han characters: BLEU counts those as words."""
    letters = Counter("一" <= c <= "鿿" for pair in pairs for c in pair.target if c.isalpha())
    return letters[True] > letters[False]


def translate_multi30k(
    data: Multi30k, model: ModelConfig, tokenizer: Tokenizer | None = None
) -> PreparedProblem:
    """English captions to German ones; the official splits."""
    found = find("multi30k", data.folder)
    return _translate(data, model, tokenizer, [found], lambda: _multi30k(found), "de")


def translate_de(
    data: EnglishGerman, model: ModelConfig, tokenizer: Tokenizer | None = None
) -> PreparedProblem:
    """Everyday sentences and captions, English to German."""
    tatoeba = find("tatoeba-de", data.folder)
    multi30k = find("multi30k", data.folder)

    def read() -> _PairSplits:
        sentences, captions = _tatoeba(tatoeba), _multi30k(multi30k)
        return _PairSplits(
            train=[*sentences.train, *captions.train],
            valid=[*sentences.valid, *captions.valid],
            tests={**sentences.tests, "multi30k_2016": captions.tests["test_2016_flickr"]},
        )

    return _translate(data, model, tokenizer, [tatoeba, multi30k], read, "de")


def translate_zh(
    data: EnglishChinese, model: ModelConfig, tokenizer: Tokenizer | None = None
) -> PreparedProblem:
    """Everyday sentences, English to Chinese."""
    found = find("tatoeba-zh", data.folder)
    return _translate(data, model, tokenizer, [found], lambda: _tatoeba(found), "zh")


def _multi30k(found: FoundCorpus) -> _PairSplits:
    return _PairSplits(
        train=read_multi30k(found, "train"),
        valid=read_multi30k(found, "val"),
        tests={
            "test_2016_flickr": read_multi30k(found, "test_2016_flickr"),
            "test_2017_flickr": read_multi30k(found, "test_2017_flickr"),
            "test_2017_mscoco": read_multi30k(found, "test_2017_mscoco"),
        },
    )


def _tatoeba(found: FoundCorpus) -> _PairSplits:
    pairs = read_tatoeba(found)
    # One sentence in 25 for the test, one in 50 for validation, but no more than needed.
    n_sentences = len({pair.source for pair in pairs})
    splits = split_by_source(
        pairs, n_valid=min(1000, n_sentences // 50), n_test=min(2000, n_sentences // 25)
    )
    return _PairSplits(splits.train, splits.valid, {"tatoeba": splits.test})


def _translate(
    data: TranslationPairs,
    model: ModelConfig,
    given: Tokenizer | None,
    sources: list[FoundCorpus],
    read: Callable[[], _PairSplits],
    language: str,
    own_files: Mapping[str, str] | None = None,
) -> PreparedProblem:
    checksums = {name: digest for found in sources for name, digest in found.corpus.files.items()}
    checksums |= own_files or {}
    settings = ("tokenizer", "vocab_size", "max_len", "share", "validation")
    key = prepared_key(data, settings, checksums, given)
    parts = read()
    folder = prepared_folder(key, lambda work: _write(work, parts, data, key, given), data.cache)
    tokenizer = store_tokenizer(folder)
    pad_id = tokenizer.special.pad
    assert pad_id is not None

    def held_out(name: str, pairs: list[Pair]) -> HeldOut:
        return HeldOut(
            _examples(folder, name, key, data, pad_id),
            sources=tuple(pair.source for pair in pairs),
            references=tuple(pair.target for pair in pairs),
        )

    return PreparedProblem(
        task="translate",
        train=_examples(folder, "train", key, data, pad_id),
        valid=held_out("valid", parts.valid) if parts.valid else None,
        tests={name: held_out(name, pairs) for name, pairs in parts.tests.items()},
        model=model.with_(vocab_size=tokenizer.vocab_size, pad_id=pad_id, max_len=data.max_len),
        tokenizer=tokenizer,
        checksums=checksums,
        language=language,
        scores_tokenised=data.tokenised_bleu,
        about=about_corpora(found.corpus.name for found in sources),
    )


def _examples(
    folder: Path, name: str, key: str, data: TranslationPairs, pad_id: int
) -> SentencePairs:
    return SentencePairs(
        TokenStore(folder, f"{name}.source", key=key),
        TokenStore(folder, f"{name}.target", key=key),
        pad_id=pad_id,
        pad_multiple=data.pad_multiple,
        max_len=data.max_len,
    )


def _write(
    folder: Path, parts: _PairSplits, data: TranslationPairs, key: str, given: Tokenizer | None
) -> None:
    """Tokenise every split; training pairs that are too long are left out, others are cut."""
    train = share_of(parts.train, data.share)
    texts = (text for pair in train for text in (pair.source, pair.target))
    tokenizer = given or learn_tokenizer(texts, data)
    store_tokenizer(folder, tokenizer)
    for name, pairs in {"train": train, "valid": parts.valid, **parts.tests}.items():
        max_len = data.max_len
        source, target = _encode(tokenizer, pairs, None if name == "train" else max_len)
        kept = [
            at
            for at in range(len(pairs))
            # The model reads a target without its last token, so one more fits.
            if len(source[at]) <= max_len and len(target[at]) <= max_len + 1
        ]
        if pairs and not kept:
            raise DataError(
                "none of the {n_pairs} training pairs fits into data.max_len = {max_len} "
                "tokens; raise it",
                n_pairs=len(pairs),
                max_len=max_len,
            )
        for side, ids in (("source", source), ("target", target)):
            write_store(
                folder,
                f"{name}.{side}",
                (ids[at] for at in kept),
                vocab_size=tokenizer.vocab_size,
                key=key,
            )


def _encode(
    tokenizer: Tokenizer, pairs: list[Pair], max_len: int | None
) -> tuple[list[list[int]], list[list[int]]]:
    """Sources end with the end token; targets have both start and end, being shifted by one."""
    source = tokenizer.encode_batch((pair.source for pair in pairs), end=True, max_len=max_len)
    target = tokenizer.encode_batch(
        (pair.target for pair in pairs), start=True, end=True, max_len=max_len
    )
    return source, target
