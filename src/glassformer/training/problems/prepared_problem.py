"""A problem whose data are ready: training examples, held-out examples, sizes for the model."""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from glassformer.checkpoint import Checkpoint
from glassformer.data.batches import Batch, Examples
from glassformer.data.corpora import CORPORA
from glassformer.data.loader import Order
from glassformer.data.token_store import TokenStore, key_of, prepared_folder, write_store
from glassformer.errors import DataError, TrainingError
from glassformer.nn import ModelConfig
from glassformer.text import (
    DEFAULT_SPECIAL,
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

# If these change, raise VERSION in data.token_store: ids are cached by setting, not by size.
# By `glassformer train text --data.vocab_size N --loop.steps 400 --loop.evaluate_every 40` on the
# first bytes of tinyshakespeare: with 200 kB, 300, 1,000 and 4,000 tokens give 2.38, 2.29 and 2.36
# bits per byte; with 30 kB, 300 tokens give 2.72 and 4,000 give 3.00. With 90 kB of Chinese
# sentences (Tatoeba), 500, 1,500 and 4,000 give 2.15, 2.10 and 2.23.
_BYTES_PER_TOKEN = 200
_FEWEST_TOKENS = 300


@dataclass(frozen=True)
class HeldOut:
    """Examples not trained on, and what else their score needs."""

    examples: Examples[Batch]
    sources: tuple[str, ...] = ()
    """Raw texts to translate."""
    references: tuple[str, ...] = ()
    """Raw reference translations."""
    n_bytes: int = 0
    """UTF-8 bytes of the predicted running text: all but those of its first token."""


@dataclass(frozen=True)
class PreparedProblem:
    """A problem with its data: all that a run needs to know."""

    task: Task
    train: Examples[Batch]
    valid: HeldOut | None
    """None if nothing is held out."""
    tests: dict[str, HeldOut]
    model: ModelConfig
    """With the sizes that follow from the data filled in."""
    tokenizer: Tokenizer | None
    """None if the inputs are not text."""
    labels: tuple[str, ...] = ()
    checksums: dict[str, str] = field(default_factory=dict)
    language: str = "en"
    """Of the model's output: BLEU splits Chinese into characters."""
    scores_tokenised: bool = False
    """Whether to report lowercased, tokenised BLEU too, as the Multi30k papers do."""
    measure: Measure = cross_entropy
    """The loss function."""
    about: dict[str, Any] = field(default_factory=dict)
    """Data, licence and citation, for the model's card."""

    def order(self, data: DataConfig, seed: int) -> Order:
        """The order of the training examples."""
        return Order(
            self.train.lengths,
            batch_size=data.batch_size,
            max_tokens=data.max_tokens,
            bucket_width=data.bucket_width,
            seed=seed,
        )

    def checkpoint(self, model: nn.Module, about: dict[str, Any]) -> Checkpoint:
        """A model that solves it, with its tokenizer and labels, to be saved."""
        return Checkpoint(
            model=model,
            config=self.model,
            tokenizer=self.tokenizer,
            labels=self.labels,
            about=about,
        )

    @cached_property
    def identity(self) -> dict[str, Any]:
        """What must be the same to resume: files, tokenizer, number of training examples."""
        return {
            "files": self.checksums,
            "tokenizer": tokenizer_key(self.tokenizer),
            "training_examples": len(self.train),
        }

    def check_identity(self, began: Mapping[str, Any]) -> None:
        """Refuse to resume with other data: ids or splits would differ."""
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
    texts: Iterable[str], config: TokenisedData, special: Sequence[str] = DEFAULT_SPECIAL
) -> Tokenizer:
    """Train the tokenizer that a config describes."""
    if config.tokenizer == "characters":
        return CharacterTokenizer.build(texts, special=special)
    vocab_size = config.vocab_size
    if vocab_size is None:
        texts = list(texts)
        vocab_size = suitable_vocab_size(texts, config.most_tokens)
    if config.tokenizer == "subwords":
        return SubwordTokenizer.train(texts, vocab_size=vocab_size, special=special)
    return WordTokenizer.build(
        texts,
        case="lower",
        punctuation="split",
        max_size=max(1, vocab_size - len(special)),
        special=special,
    )


def suitable_vocab_size(texts: Iterable[str], most: int = TokenisedData.most_tokens) -> int:
    """A vocabulary size that suits the amount of text: rare words are better split into letters.

    Multi-byte characters, such as Chinese ones, are added on top: each may become a token.
    """
    letters = Counter(chain.from_iterable(texts))
    n_bytes = sum(len(letter.encode()) * count for letter, count in letters.items())
    n_wide = sum(len(letter.encode()) > 1 for letter, count in letters.items() if count > 1)
    return min(max(_FEWEST_TOKENS, n_bytes // _BYTES_PER_TOKEN + n_wide), most)


def cut_texts(tokenizer: Tokenizer, texts: Iterable[str], data: SingleTexts) -> Iterator[list[int]]:
    """Ids of texts cut to max_len, possibly in the middle: a verdict often comes at the end."""
    unknown = tokenizer.special.unknown
    assert unknown is not None
    for ids in tokenizer.encode_batch(texts):
        # A text without any word becomes one unknown word: a model needs at least one token.
        yield cut_ids(ids, data.max_len, data.cut) or [unknown]


def about_corpora(names: Iterable[str]) -> dict[str, Any]:
    """Data, licence and citation of some corpora, for the model's card."""
    corpora = [CORPORA[name] for name in names]
    return {
        "data": "; ".join(corpus.about for corpus in corpora),
        "licence": "; ".join(dict.fromkeys(corpus.licence for corpus in corpora)),
        "cite": "; ".join(dict.fromkeys(corpus.cite for corpus in corpora)),
    }


def tokenizer_key(tokenizer: Tokenizer | None) -> str:
    """A hash of a tokenizer; empty if there is none."""
    return "" if tokenizer is None else hashlib.sha256(tokenizer.to_json().encode()).hexdigest()


@dataclass(frozen=True)
class TokenFolder:
    """The tokenised texts of a problem, in the cache, and the tokenizer that made them."""

    path: Path
    key: str

    @cached_property
    def tokenizer(self) -> Tokenizer:
        return load_tokenizer(self.path / "tokenizer.json")

    @property
    def pad_id(self) -> int:
        pad_id = self.tokenizer.special.pad
        assert pad_id is not None
        return pad_id

    def store(self, name: str) -> TokenStore:
        return TokenStore(self.path, name, key=self.key)

    def write(self, name: str, ids: Iterable[Sequence[int]]) -> None:
        write_store(self.path, name, ids, vocab_size=self.tokenizer.vocab_size, key=self.key)


def tokenised(
    data: DataConfig,
    settings: Iterable[str],
    checksums: Mapping[str, str],
    given: Tokenizer | None,
    tokenizer: Callable[[], Tokenizer],
    write: Callable[[TokenFolder], None],
) -> TokenFolder:
    """The folder of tokenised texts from the cache; `write` fills a new one.

    Its key is a hash of everything that the ids depend on. `tokenizer` trains one, unless that of
    the pretraining run is given.
    """
    key = key_of(
        {name: getattr(data, name) for name in ("problem", *settings) if hasattr(data, name)}
        | {"data": dict(checksums), "given_tokenizer": tokenizer_key(given)}
    )

    def fill(work: Path) -> None:
        (given or tokenizer()).save(work / "tokenizer.json")
        write(TokenFolder(work, key))

    return TokenFolder(prepared_folder(key, fill, data.cache), key)


def share_of(items: Sequence[Any], share: float) -> list[Any]:
    """A random share of the items, in order, by a fixed seed; smaller shares are subsets of larger.

    Taking every n-th item would not do: if classes alternate, all would be of one class.
    """
    if not items:
        raise DataError("there are no training examples")
    count = max(1, round(len(items) * share))
    drawn = np.random.default_rng(2017).permutation(len(items))[:count]
    return [items[index] for index in sorted(drawn.tolist())]
