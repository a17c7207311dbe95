"""Texts to ids, as the model was trained to read them: which ends, how much, what is left out.

A text that is too long is cut, and the answer says so. This file knows tokenizers and configs; it
runs no model.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from glassformer.checkpoint import Checkpoint
from glassformer.errors import InputError
from glassformer.text import Tokenizer
from glassformer.text.cutting import Cut, cut_ids

__all__ = [
    "Read",
    "all_unknown",
    "count_unknown",
    "has_tokens",
    "read_prompt",
    "read_sources",
    "read_texts",
    "texts_of",
    "tokenizer_of",
]


class Read(NamedTuple):
    """The ids of a text, and whether a part of it had to be left out."""

    ids: list[int]
    cut: bool


def texts_of(texts: Iterable[str]) -> list[str]:
    """Several texts; one string would pass for a list of its characters."""
    if isinstance(texts, str):
        raise InputError("expected several texts, received one string; put it in a list")
    if not isinstance(texts, Iterable):
        raise InputError("expected a list of texts, received {kind}", kind=type(texts).__name__)
    given = list(texts)
    for number, text in enumerate(given):
        if not isinstance(text, str):
            raise InputError(
                "text {number} is no string but {kind}", number=number, kind=type(text).__name__
            )
    return given


def tokenizer_of(checkpoint: Checkpoint) -> Tokenizer:
    """The tokenizer that a model cannot do without."""
    if checkpoint.tokenizer is None:
        raise InputError("this model folder has no tokenizer.json, so the model cannot read text")
    return checkpoint.tokenizer


def has_tokens(checkpoint: Checkpoint, text: str) -> bool:
    """Whether there is anything to read: spaces are nothing, and to some vocabularies emoji too."""
    return bool(text.strip() and tokenizer_of(checkpoint).encode(text))


def all_unknown(checkpoint: Checkpoint, text: str) -> bool:
    """Whether the vocabulary knows no token of a text, as with another language's letters."""
    unknown, total = count_unknown(checkpoint, text)
    return 0 < unknown == total


def count_unknown(checkpoint: Checkpoint, text: str) -> tuple[int, int]:
    """How many tokens of a text the vocabulary does not know, and how many there are."""
    tokenizer = tokenizer_of(checkpoint)
    ids = tokenizer.encode(text)
    return sum(id_ == tokenizer.special.unknown for id_ in ids), len(ids)


def read_texts(checkpoint: Checkpoint, texts: Sequence[str]) -> list[Read]:
    """For a classifier or encoder; of a long text the part that it was trained to read."""
    max_len = checkpoint.config.max_len
    tokenizer = tokenizer_of(checkpoint)
    cut: Cut = "middle" if checkpoint.about.get("cut") == "middle" else "end"
    read = []
    for number, ids in enumerate(tokenizer.encode_batch(texts)):
        if not ids:
            raise InputError(
                "text {number} is empty: there is nothing to read in {text!r:.40}",
                number=number,
                text=texts[number],
            )
        read.append(Read(cut_ids(ids, max_len, cut), len(ids) > max_len))
    return read


def read_sources(checkpoint: Checkpoint, texts: Sequence[str]) -> list[Read]:
    """For a translator: the text and the end token, which is never cut."""
    tokenizer, max_len = tokenizer_of(checkpoint), checkpoint.config.max_len
    has_end = tokenizer.special.end is not None
    return [
        Read(tokenizer.wrap(ids, end=has_end, max_len=max_len), len(ids) + has_end > max_len)
        for ids in tokenizer.encode_batch(texts)
    ]


def read_prompt(checkpoint: Checkpoint, prompt: str) -> Read:
    """For a language model: the last that it can remember, or a beginning if there is nothing.

    A line break is where texts begin that were trained on as one long text; other models have a
    token for it.
    """
    tokenizer, max_len = tokenizer_of(checkpoint), checkpoint.config.max_len
    ids = tokenizer.encode(prompt)
    if not ids:
        line_break = tokenizer.encode("\n")
        special = tokenizer.special
        begins = line_break if len(line_break) == 1 and line_break[0] != special.unknown else []
        ids = begins or [i for i in (special.start, special.end) if i is not None][:1]
    if not ids:
        raise InputError("the prompt is empty, and this model has no token to begin with")
    return Read(ids, len(ids) > max_len)
