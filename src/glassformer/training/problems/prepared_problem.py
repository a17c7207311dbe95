"""What is to be learnt: examples, held-out examples, and what a model needs to know of them."""

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from glassformer.data import CORPORA, Batch, Examples, Order, key_of
from glassformer.errors import DataError, TrainingError
from glassformer.nn import ModelConfig
from glassformer.text import (
    CharacterTokenizer,
    SubwordTokenizer,
    Tokenizer,
    WordTokenizer,
    load_tokenizer,
)
from glassformer.text.tokenizer import cut_ids
from glassformer.training.learner import Measure, cross_entropy
from glassformer.training.problems import (
    DataConfig,
    SingleTexts,
    Task,
    TokenisedData,
)

SPECIAL = ("<pad>", "<unknown>", "<start>", "<end>")

# Whoever changes these raises data.prepared.VERSION: the ids are kept by settings, not by size.
# By `glassformer train text --data.vocab_size N --loop.steps 400 --loop.evaluate_every 40` on the
# first bytes of tinyshakespeare: of 200 kB, 300, 1,000 and 4,000 tokens come to 2.38, 2.29 and 2.36
# bits per byte; of 30 kB, 300 tokens to 2.72 and 4,000 to 3.00. Of 90 kB of Chinese sentences
# (Tatoeba), 500, 1,500 and 4,000 come to 2.15, 2.10 and 2.23.
_BYTES_PER_TOKEN = 200
_FEWEST_TOKENS = 300


@dataclass(frozen=True)
class HeldOut:
    """Examples that are not learnt from, and what their score needs besides."""

    examples: Examples[Batch]
    sources: tuple[str, ...] = ()
    """Raw texts to translate."""
    references: tuple[str, ...] = ()
    """Raw translations, as people wrote them."""
    n_bytes: int = 0
    """UTF-8 bytes of running text that are predicted: all but those of its first token."""


@dataclass(frozen=True)
class PreparedProblem:
    """A problem whose data were read: all that a run needs to know of them."""

    task: Task
    train: Examples[Batch]
    valid: HeldOut | None
    """None where everything is learnt from."""
    tests: dict[str, HeldOut]
    model: ModelConfig
    """With the sizes that follow from the data."""
    tokenizer: Tokenizer | None
    """None where nothing is a text."""
    labels: tuple[str, ...] = ()
    checksums: dict[str, str] = field(default_factory=dict)
    language: str = "en"
    """Of what the model writes: BLEU splits Chinese into characters."""
    scores_tokenised: bool = False
    """Whether BLEU is also given lowercased and tokenised, as the Multi30k papers do."""
    measure: Measure = cross_entropy
    """What is minimised."""
    about: dict[str, Any] = field(default_factory=dict)
    """Data, licence and citation, for the model's card."""

    def order(self, data: DataConfig, seed: int) -> Order:
        """When each training example is seen."""
        return Order(
            self.train.lengths,
            batch_size=data.batch_size,
            max_tokens=data.max_tokens,
            bucket_width=data.bucket_width,
            seed=seed,
        )

    @cached_property
    def identity(self) -> dict[str, Any]:
        """What a run must find again to go on: the same files, tokens and training examples."""
        return {
            "files": self.checksums,
            "tokenizer": tokenizer_key(self.tokenizer),
            "training_examples": len(self.train),
        }

    def check_identity(self, began: Mapping[str, Any]) -> None:
        """Refuse to go on with other data: ids would mean other words, or be held out no more."""
        if began == self.identity:
            return
        before, now = began.get("files", {}), self.identity["files"]
        other = sorted(name for name in {**before, **now} if before.get(name) != now.get(name))
        what = other[0] if other else "the tokenizer or the split (the settings under data.)"
        raise TrainingError(
            "{what} has changed since this run began, so it cannot resume; restore it, or "
            "start in another folder",
            what=what,
        )


def learn_tokenizer(
    texts: Iterable[str], config: TokenisedData, special: Sequence[str] = SPECIAL
) -> Tokenizer:
    """The tokenizer that a config describes, learnt from training texts."""
    if config.tokenizer == "characters":
        return CharacterTokenizer.build(texts, special=special)
    vocab_size = config.vocab_size
    if vocab_size is None:
        texts = list(texts)
        vocab_size = teachable_vocab_size(texts, config.most_tokens)
    if config.tokenizer == "subwords":
        return SubwordTokenizer.train(texts, vocab_size=vocab_size, special=special)
    return WordTokenizer.build(
        texts,
        case="lower",
        punctuation="split",
        max_size=max(1, vocab_size - len(special)),
        special=special,
    )


def teachable_vocab_size(texts: Iterable[str], most: int = TokenisedData.most_tokens) -> int:
    """How many tokens texts can teach a model: a word met twice is better read as its letters.

    Letters that are several bytes, such as Chinese ones, come on top: each may become a token.
    """
    letters = Counter(chain.from_iterable(texts))
    n_bytes = sum(len(letter.encode()) * count for letter, count in letters.items())
    n_wide = sum(len(letter.encode()) > 1 for letter, count in letters.items() if count > 1)
    return min(max(_FEWEST_TOKENS, n_bytes // _BYTES_PER_TOKEN + n_wide), most)


def cut_texts(tokenizer: Tokenizer, texts: Iterable[str], data: SingleTexts) -> Iterator[list[int]]:
    """Ids of texts, cut to max_len; a verdict often stands at the end, so that may be kept."""
    for ids in tokenizer.encode_batch(texts):
        # A text without any word is one unknown word: a model needs something to read.
        yield cut_ids(ids, data.max_len, data.cut) or [_unknown(tokenizer)]


def about_corpora(names: Iterable[str]) -> dict[str, Any]:
    """Data, licence and citation of some corpora, for the model's card."""
    corpora = [CORPORA[name] for name in names]
    return {
        "data": "; ".join(corpus.about for corpus in corpora),
        "licence": "; ".join(dict.fromkeys(corpus.licence for corpus in corpora)),
        "cite": "; ".join(dict.fromkeys(corpus.cite for corpus in corpora)),
    }


def tokenizer_key(tokenizer: Tokenizer | None) -> str:
    """A hash of a tokenizer that another run learnt; empty where there is none."""
    return "" if tokenizer is None else hashlib.sha256(tokenizer.to_json().encode()).hexdigest()


def prepared_key(
    data: DataConfig,
    settings: Iterable[str],
    checksums: Mapping[str, str],
    given: Tokenizer | None,
) -> str:
    """Under what tokenised texts are kept: all that the ids depend on."""
    return key_of(
        {name: getattr(data, name) for name in ("problem", *settings) if hasattr(data, name)}
        | {"data": dict(checksums), "given_tokenizer": tokenizer_key(given)}
    )


def store_tokenizer(folder: Path, tokenizer: Tokenizer | None = None) -> Tokenizer:
    """Keep a tokenizer beside the ids it made, or read it again."""
    path = folder / "tokenizer.json"
    if tokenizer is not None:
        tokenizer.save(path)
    return load_tokenizer(path)


def share_of(items: Sequence[Any], share: float) -> list[Any]:
    """Some of the items in their order, drawn by a fixed seed; a smaller share is part of a larger.

    Every so manieth item would not do: where classes alternate, all would be of one.
    """
    if not items:
        raise DataError("there are no training examples")
    count = max(1, round(len(items) * share))
    drawn = np.random.default_rng(2017).permutation(len(items))[:count]
    return [items[index] for index in sorted(drawn.tolist())]


def _unknown(tokenizer: Tokenizer) -> int:
    unknown = tokenizer.special.unknown
    assert unknown is not None
    return unknown
