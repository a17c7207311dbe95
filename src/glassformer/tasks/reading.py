"""Texts to ids as the model was trained to read them: special tokens, truncation, masks.

A text that is too long is cut, and the answer says so. Knows tokenizers and configs; runs no model.
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
    """Whether part of the text was left out."""
    empty: bool = False
    """No token to read: only spaces, or only characters that the vocabulary drops."""
    unknown: bool = False
    """Every token is unknown to the vocabulary, as with another script."""
    source: str = ""
    """The file of an image, which has no ids."""

    @property
    def marks(self) -> dict[str, bool]:
        """What an answer says about its text."""
        return {"cut": self.cut, "unknown": self.unknown}


def texts_of(texts: Iterable[str]) -> list[str]:
    """A list of texts; a string is refused, since it would pass for a list of characters."""
    if isinstance(texts, str):
        raise InputError("expected a list of texts, got one string: write [text]")
    if not isinstance(texts, Iterable):
        raise InputError("expected a list of texts, received {kind}", kind=type(texts).__name__)
    given = list(texts)
    for number, text in enumerate(given):
        if not isinstance(text, str):
            raise InputError(
                "text {number} is not a string but {kind}", number=number, kind=type(text).__name__
            )
    return given


def encode_texts(tokenizer: Tokenizer, texts: Sequence[str]) -> list[Read]:
    """All ids of each text: the one place where texts are tokenised."""
    return [
        _read(tokenizer, text, ids)
        for text, ids in zip(texts, tokenizer.encode_batch(texts), strict=True)
    ]


def _read(tokenizer: Tokenizer, text: str, ids: list[int]) -> Read:
    unknown = set(ids) == {tokenizer.special.unknown}
    return Read(ids, cut=False, empty=not (ids and text.strip()), unknown=unknown)


def read_masked(tokenizer: Tokenizer, texts: Sequence[str]) -> list[Read]:
    """For a masked language model: `<mask>` in a text is the mask, unlike in any other text."""
    mask = tokenizer.special.mask
    assert mask is not None
    if mask in tokenizer.encode(tokenizer.token(mask)):  # others' tokenizers find it
        return encode_texts(tokenizer, texts)
    read = []
    for text in texts:
        *parts, last = text.split(tokenizer.token(mask))
        ids: list[int] = []
        for part in parts:  # a space before the mask belongs to the word that is missing
            ids += [*tokenizer.encode(part.rstrip()), mask]
        read.append(_read(tokenizer, text, [*ids, *tokenizer.encode(last)]))
    return read


def read_texts(read: Iterable[Read], checkpoint: Checkpoint) -> list[Read]:
    """For a classifier or encoder; of a long text the part that it was trained to read."""
    max_len = checkpoint.config.max_len
    cut: Cut = "middle" if checkpoint.about.get("cut") == "middle" else "end"
    return [
        one._replace(ids=cut_ids(one.ids, max_len, cut), cut=len(one.ids) > max_len) for one in read
    ]


def read_sources(tokenizer: Tokenizer, texts: Sequence[str], max_len: int) -> list[Read]:
    """For a translator: the text and the end token, which is never cut."""
    has_end = tokenizer.special.end is not None
    return [
        read._replace(
            ids=tokenizer.wrap(read.ids, end=has_end, max_len=max_len),
            cut=len(read.ids) + has_end > max_len,
        )
        for read in encode_texts(tokenizer, texts)
    ]


def read_prompt(tokenizer: Tokenizer, prompt: str, max_len: int) -> Read:
    """For a language model: the prompt, or a beginning if it is empty.

    A line break is where texts begin that were trained on as one long text; other models have a
    token for it.
    """
    read = encode_texts(tokenizer, [prompt])[0]
    ids = read.ids
    if not ids:
        line_break = tokenizer.encode("\n")
        special = tokenizer.special
        begins = line_break if len(line_break) == 1 and line_break[0] != special.unknown else []
        ids = begins or [i for i in (special.start, special.end) if i is not None][:1]
    if not ids:
        raise InputError("the prompt is empty, and this model has no token to begin with")
    return read._replace(ids=ids, cut=len(ids) > max_len)
