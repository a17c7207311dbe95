"""Texts to ids, as the model was trained to read them: which ends, how much, what is left out.

A text that is too long is cut, and the answer says so. This file knows tokenizers and configs; it
runs no model.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from glassformer.checkpoint import Checkpoint
from glassformer.errors import InputError
from glassformer.text import Tokenizer
from glassformer.text.tokenizer import Cut, cut_ids


class Read(NamedTuple):
    """The ids of a text as its model reads them."""

    ids: list[int]
    cut: bool
    """Whether a part of the text had to be left out."""
    empty: bool = False
    """Whether there is nothing to read: spaces are nothing, and to some vocabularies emoji too."""
    unknown: bool = False
    """Whether the vocabulary knows no token of it, as with the letters of another language."""


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


def count_unknown(checkpoint: Checkpoint, text: str) -> tuple[int, int]:
    """How many tokens of a text the vocabulary does not know, and how many there are."""
    tokenizer = tokenizer_of(checkpoint)
    ids = tokenizer.encode(text)
    return sum(id_ == tokenizer.special.unknown for id_ in ids), len(ids)


def read_texts(checkpoint: Checkpoint, texts: Sequence[str]) -> list[Read]:
    """For a classifier or encoder; of a long text the part that it was trained to read."""
    max_len = checkpoint.config.max_len
    cut: Cut = "middle" if checkpoint.about.get("cut") == "middle" else "end"
    return [
        read._replace(ids=cut_ids(read.ids, max_len, cut), cut=len(read.ids) > max_len)
        for read in encode_texts(checkpoint, texts)
    ]


def read_sources(checkpoint: Checkpoint, texts: Sequence[str]) -> list[Read]:
    """For a translator: the text and the end token, which is never cut."""
    tokenizer, max_len = tokenizer_of(checkpoint), checkpoint.config.max_len
    has_end = tokenizer.special.end is not None
    return [
        read._replace(
            ids=tokenizer.wrap(read.ids, end=has_end, max_len=max_len),
            cut=len(read.ids) + has_end > max_len,
        )
        for read in encode_texts(checkpoint, texts)
    ]


def encode_texts(checkpoint: Checkpoint, texts: Sequence[str]) -> list[Read]:
    """All ids of each text: the one place where texts are tokenised."""
    tokenizer = tokenizer_of(checkpoint)
    unknown = tokenizer.special.unknown
    return [
        Read(ids, cut=False, empty=not (ids and text.strip()), unknown=set(ids) == {unknown})
        for text, ids in zip(texts, tokenizer.encode_batch(texts), strict=True)
    ]


def read_prompt(checkpoint: Checkpoint, prompt: str) -> Read:
    """For a language model: the last that it can remember, or a beginning if there is nothing.

    A line break is where texts begin that were trained on as one long text; other models have a
    token for it.
    """
    tokenizer, max_len = tokenizer_of(checkpoint), checkpoint.config.max_len
    read = encode_texts(checkpoint, [prompt])[0]
    ids = read.ids
    if not ids:
        line_break = tokenizer.encode("\n")
        special = tokenizer.special
        begins = line_break if len(line_break) == 1 and line_break[0] != special.unknown else []
        ids = begins or [i for i in (special.start, special.end) if i is not None][:1]
    if not ids:
        raise InputError("the prompt is empty, and this model has no token to begin with")
    return read._replace(ids=ids, cut=len(ids) > max_len)
