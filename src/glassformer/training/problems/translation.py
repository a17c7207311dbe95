"""Sentences and their translations: Multi30k, Tatoeba, and both together."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from glassformer.data.batches import SentencePairs
from glassformer.data.corpora import FoundCorpus, find, sha256
from glassformer.data.readers import Pair, read_multi30k, read_pairs, read_tatoeba, split_by_source
from glassformer.errors import ConfigError, DataError
from glassformer.nn import ModelConfig
from glassformer.text import Tokenizer
from glassformer.training.problems import PairsFile, TranslationPairs
from glassformer.training.problems.prepared_problem import (
    HeldOut,
    PreparedProblem,
    TokenFolder,
    about_corpora,
    learn_tokenizer,
    share_of,
    tokenised,
)

THRONES = Pair("When you play the game of thrones", "you win or you die")


@dataclass(frozen=True)
class PairCorpus:
    """Sentence pairs by split."""

    train: list[Pair]
    valid: list[Pair]
    tests: dict[str, list[Pair]] = field(default_factory=dict)
    language: str = "en"
    """Of the translations."""
    sources: tuple[FoundCorpus, ...] = ()
    file: Path | None = None
    """The user's own."""
    about: str = ""

    @property
    def checksums(self) -> dict[str, str]:
        ours = {name: sha for found in self.sources for name, sha in found.corpus.files.items()}
        return ours if self.file is None else {**ours, self.file.name: sha256(self.file)}


def translate_thrones(_data: TranslationPairs) -> PairCorpus:
    """One sentence pair, learnt by heart; the score is on that pair itself."""
    tests = {"the pair itself": [THRONES]}
    return PairCorpus([THRONES], [], tests, about="one sentence of a television series")


def translate_file(data: PairsFile) -> PairCorpus:
    """A user's own pairs: source, tab, target, one pair per line; whole sources are held out."""
    if not data.file:
        raise ConfigError("name your file of pairs with --pairs or --data.file")
    path = Path(data.file)
    pairs = read_pairs(path)
    n_held_out = round(len({pair.source.casefold() for pair in pairs}) * data.validation)
    splits = split_by_source(pairs, n_valid=n_held_out, n_test=0)
    language = "zh" if _is_chinese(pairs) else "en"
    return PairCorpus(splits.train, splits.valid, language=language, file=path, about=path.name)


def _is_chinese(pairs: Sequence[Pair]) -> bool:
    """Whether most letters of the targets are Han characters: BLEU counts those as words."""
    letters = Counter("一" <= c <= "鿿" for pair in pairs for c in pair.target if c.isalpha())
    return letters[True] > letters[False]


def translate_multi30k(data: TranslationPairs) -> PairCorpus:
    """English captions to German ones; the official splits."""
    return _multi30k(find("multi30k", data.folder))


def translate_de(data: TranslationPairs) -> PairCorpus:
    """Everyday sentences and captions, English to German."""
    found = find("tatoeba-de", data.folder), find("multi30k", data.folder)
    sentences, captions = _tatoeba(found[0], "de"), _multi30k(found[1])
    return PairCorpus(
        train=[*sentences.train, *captions.train],
        valid=[*sentences.valid, *captions.valid],
        tests={**sentences.tests, "multi30k_2016": captions.tests["test_2016_flickr"]},
        language="de",
        sources=found,
    )


def translate_zh(data: TranslationPairs) -> PairCorpus:
    """Everyday sentences, English to Chinese."""
    return _tatoeba(find("tatoeba-zh", data.folder), "zh")


def _multi30k(found: FoundCorpus) -> PairCorpus:
    return PairCorpus(
        train=read_multi30k(found, "train"),
        valid=read_multi30k(found, "val"),
        tests={
            "test_2016_flickr": read_multi30k(found, "test_2016_flickr"),
            "test_2017_flickr": read_multi30k(found, "test_2017_flickr"),
            "test_2017_mscoco": read_multi30k(found, "test_2017_mscoco"),
        },
        language="de",
        sources=(found,),
    )


def _tatoeba(found: FoundCorpus, language: str) -> PairCorpus:
    pairs = read_tatoeba(found)
    # One sentence in 25 for the test, one in 50 for validation, but no more than needed.
    n_sentences = len({pair.source for pair in pairs})
    splits = split_by_source(
        pairs, n_valid=min(1000, n_sentences // 50), n_test=min(2000, n_sentences // 25)
    )
    tests = {"tatoeba": splits.test}
    return PairCorpus(splits.train, splits.valid, tests, language, sources=(found,))


PAIRS_OF: dict[str, Callable[[Any], PairCorpus]] = {
    "translate-thrones": translate_thrones,
    "translate-file": translate_file,
    "translate-multi30k": translate_multi30k,
    "translate-de": translate_de,
    "translate-zh": translate_zh,
}
"""By the name of the problem."""


def translate_pairs(
    data: TranslationPairs, model: ModelConfig, given: Tokenizer | None
) -> PreparedProblem:
    corpus = PAIRS_OF[data.problem](data)

    @cache
    def train() -> list[Pair]:
        return share_of(corpus.train, data.share)

    def learn() -> Tokenizer:
        return learn_tokenizer((t for pair in train() for t in (pair.source, pair.target)), data)

    def write(folder: TokenFolder) -> None:
        for name, pairs in {"train": train(), "valid": corpus.valid, **corpus.tests}.items():
            _write(folder, name, pairs, data.max_len)

    def examples(name: str) -> SentencePairs:
        return SentencePairs(
            folder.store(f"{name}.source"),
            folder.store(f"{name}.target"),
            pad_id=folder.pad_id,
            pad_multiple=data.pad_multiple,
            max_len=data.max_len,
        )

    def held_out(name: str, pairs: list[Pair]) -> HeldOut:
        sources, references = ((p.source for p in pairs), (p.target for p in pairs))
        return HeldOut(examples(name), sources=tuple(sources), references=tuple(references))

    checksums = corpus.checksums
    settings = ("tokenizer", "vocab_size", "max_len", "share", "validation")
    folder = tokenised(data, settings, checksums, given, learn, write)
    about = about_corpora(found.corpus.name for found in corpus.sources)
    return PreparedProblem(
        task="translate",
        train=examples("train"),
        valid=held_out("valid", corpus.valid) if corpus.valid else None,
        tests={name: held_out(name, pairs) for name, pairs in corpus.tests.items()},
        model=model.with_(
            vocab_size=folder.tokenizer.vocab_size, pad_id=folder.pad_id, max_len=data.max_len
        ),
        tokenizer=folder.tokenizer,
        checksums=checksums,
        language=corpus.language,
        scores_tokenised=data.tokenised_bleu,
        about=about if not corpus.about else {**about, "data": corpus.about},
    )


def _write(folder: TokenFolder, name: str, pairs: list[Pair], max_len: int) -> None:
    """Training pairs that are too long are left out, others are cut.

    Sources end with the end token; targets have both start and end, being shifted by one.
    """
    tokenizer, most = folder.tokenizer, None if name == "train" else max_len
    source = tokenizer.encode_batch((pair.source for pair in pairs), end=True, max_len=most)
    target = tokenizer.encode_batch(
        (pair.target for pair in pairs), start=True, end=True, max_len=most
    )
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
        folder.write(f"{name}.{side}", (ids[at] for at in kept))
