"""What is to be learnt: examples, held-out examples, and what a model needs to know of them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from glassformer.data import Batch, Examples
from glassformer.errors import DataError
from glassformer.nn import ModelConfig
from glassformer.text import (
    CharacterTokenizer,
    SubwordTokenizer,
    Tokenizer,
    WordTokenizer,
    load_tokenizer,
)
from glassformer.training.config import DataConfig

__all__ = ["HeldOut", "Problem", "Task", "learn_tokenizer", "share_of", "store_tokenizer"]

Task = Literal["classify", "translate", "continue", "mask"]

SPECIAL = ("<pad>", "<unknown>", "<start>", "<end>")


@dataclass(frozen=True)
class HeldOut:
    """Examples that are not learnt from, and what their score needs besides."""

    examples: Examples[Batch]
    sources: tuple[str, ...] = ()
    """Raw texts to translate."""
    references: tuple[str, ...] = ()
    """Raw translations, as people wrote them."""
    n_bytes: int = 0
    """UTF-8 bytes of running text."""


@dataclass(frozen=True)
class Problem:
    """All that a run needs to know of its data."""

    task: Task
    train: Examples[Batch]
    valid: HeldOut | None
    """None where everything is learnt from."""
    tests: dict[str, HeldOut]
    model: ModelConfig
    """With the sizes that follow from the data."""
    tokenizer: Tokenizer
    labels: tuple[str, ...] = ()
    checksums: dict[str, str] = field(default_factory=dict)
    language: str = "en"
    """Of what the model writes: BLEU splits Chinese into characters."""
    scores_tokenised: bool = False
    """Whether BLEU is also given lowercased and tokenised, as the Multi30k papers do."""
    about: dict[str, Any] = field(default_factory=dict)
    """Data, licence and citation, for the model's card."""


def learn_tokenizer(
    texts: Iterable[str], config: DataConfig, special: Sequence[str] = SPECIAL
) -> Tokenizer:
    """The tokenizer that a config describes, learnt from training texts."""
    if config.tokenizer == "subwords":
        return SubwordTokenizer.train(texts, vocab_size=config.vocab_size, special=special)
    if config.tokenizer == "characters":
        return CharacterTokenizer.build(texts, special=special)
    return WordTokenizer.build(
        texts,
        case="lower",
        punctuation="split",
        max_size=max(1, config.vocab_size - len(special)),
        special=special,
    )


def store_tokenizer(folder: Path, tokenizer: Tokenizer | None = None) -> Tokenizer:
    """Keep a tokenizer beside the ids it made, or read it again."""
    path = folder / "tokenizer.json"
    if tokenizer is not None:
        tokenizer.save(path)
    return load_tokenizer(path)


def share_of(items: Sequence[Any], share: float) -> list[Any]:
    """Every so manieth item, so that a share of sorted data is like the whole."""
    count = max(1, round(len(items) * share))
    if not items:
        raise DataError("there are no training examples")
    return [items[index * len(items) // count] for index in range(count)]
