"""Tokens and their ids, both ways, and which of them are special.

This file does not know how a text becomes tokens: all three kinds of tokenizer hold one of these.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

from glassformer.errors import ConfigError, InputError, did_you_mean, expect

# --- special ---
# The tokens that are not text: padding, unknown, start, end, mask.
#
# A special token is known by its spelling: the table below says which spelling plays which role,
# for our own vocabularies and for those that other programs wrote. So a `tokenizer.json` needs no
# extra field to keep the roles, and no other program stumbles over one.
#
# All spellings are bracketed. No rule that splits text into words or subwords leaves a bracket and
# a letter in one piece, so ordinary text, `<end>` typed by a user included, never becomes one of
# them.
#
# This file does not know how text is split, nor which ids ordinary tokens have.


DEFAULT_SPECIAL = ("<pad>", "<unknown>", "<start>", "<end>")

# Where a foreign vocabulary has several spellings of one role, the first one listed here gets it.
_SPELLINGS = {
    "pad": ("<pad>", "[PAD]", "<|pad|>", "<|padding|>"),
    "unknown": ("<unknown>", "<unk>", "[UNK]"),
    # GPT-2 has one token for both ends of a text.
    "start": ("<start>", "<s>", "<bos>", "[CLS]", "[BOS]", "<|begin_of_text|>", "<|endoftext|>"),
    "end": ("<end>", "</s>", "<eos>", "[SEP]", "[EOS]", "<|end_of_text|>", "<|endoftext|>"),
    "mask": ("<mask>", "[MASK]"),
}


@dataclass(frozen=True)
class SpecialTokens:
    """The id that plays each role, or None where the vocabulary has no such token."""

    pad: int | None = None
    unknown: int | None = None
    start: int | None = None
    end: int | None = None
    mask: int | None = None
    others: frozenset[int] = frozenset()
    """Special in a foreign vocabulary, without a role here."""

    def __post_init__(self) -> None:
        # A model whose padding is its end token never learns to stop: padding has no loss.
        ends = {self.start, self.end} - {None}
        roles = [i for i in (self.pad, self.unknown, self.mask) if i is not None]
        if len({*roles, *ends}) != len(roles) + len(ends):
            raise ConfigError(
                "pad, unknown, mask and start/end need ids of their own, received "
                f"pad={self.pad}, unknown={self.unknown}, mask={self.mask}, "
                f"start={self.start}, end={self.end}; give each its own token"
            )

    @classmethod
    def by_spelling(cls, ids: Mapping[str, int]) -> SpecialTokens:
        """The roles of special tokens, given their spellings and ids."""
        roles = {
            role: next((ids[text] for text in spellings if text in ids), None)
            for role, spellings in _SPELLINGS.items()
        }
        others = frozenset(ids.values()) - set(roles.values())
        return cls(**roles, others=others)

    @property
    def ids(self) -> frozenset[int]:
        """All special ids."""
        return self.silent | {i for i in (self.unknown, self.mask) if i is not None}

    @property
    def silent(self) -> frozenset[int]:
        """The ids that stand for no text. Unknown and mask stand for a piece of it."""
        return self.others | {i for i in (self.pad, self.start, self.end) if i is not None}


def check_spellings(special: Iterable[str]) -> tuple[str, ...]:
    """The spellings a caller asks for, if each is known and no two want the same role."""
    if isinstance(special, str):
        raise ConfigError(f"expected a list of special tokens, received the string {special!r}")
    expect(special, Iterable, "a list of special tokens")
    asked = tuple(special)
    for text in asked:
        expect(text, str, "special tokens as texts, such as <pad>")
    known = [text for spellings in _SPELLINGS.values() for text in spellings]
    for text in asked:
        if text not in known:
            raise ConfigError(f"unknown special token {text!r}{did_you_mean(text, known, 99)}")
    for role, spellings in _SPELLINGS.items():
        same = [text for text in asked if text in spellings]
        if len(same) > 1:
            raise ConfigError(f"expected one {role} token, received {' and '.join(same)}; keep one")
    return asked


FORMAT = 1
"""The version of our own `tokenizer.json`; a reader refuses one it does not know."""


class Vocabulary:
    """Ordinary tokens and special tokens, each with an id of its own.

    `size` is one more than the largest id: the rows that an embedding needs. It exceeds the number
    of tokens where ids are left out, as in a numbering that starts with 1.
    """

    def __init__(self, ordinary: Mapping[str, int], special: Mapping[str, int]) -> None:
        self.ordinary = dict(ordinary)
        self.special_ids = dict(special)
        self._texts: dict[int, str] = {}
        for text, id_ in (*special.items(), *ordinary.items()):
            # bool is an int to Python, not to a reader of the file that says {"the": true}.
            if type(id_) is not int or id_ < 0:
                raise InputError(f"expected an id of 0 or more for {text!r}, received {id_!r}")
            if id_ in self._texts:
                raise InputError(
                    f"expected one token for each id, received {self._texts[id_]!r} and {text!r} "
                    f"for id {id_}"
                )
            if not is_unicode(text):
                raise InputError(f"{text!r} is no Unicode text: it holds half a surrogate pair")
            self._texts[id_] = text
        self.size = max(self._texts, default=-1) + 1
        self.special = SpecialTokens.by_spelling(special)

    @classmethod
    def numbered(cls, tokens: Iterable[str], special: Iterable[str]) -> Vocabulary:
        """Special tokens from 0 on, then the ordinary ones, in the orders given."""
        spellings = check_spellings(special)
        return cls(
            {text: id_ for id_, text in enumerate(tokens, start=len(spellings))},
            {text: id_ for id_, text in enumerate(spellings)},
        )

    @classmethod
    def around(cls, ordinary: Mapping[str, int], special: Iterable[str]) -> Vocabulary:
        """Ordinary tokens keep their ids; special ones get the smallest that are free."""
        taken = set(ordinary.values())
        free = (id_ for id_ in count() if id_ not in taken)
        return cls(ordinary, dict(zip(check_spellings(special), free, strict=False)))

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Vocabulary:
        """What `to_json` wrote, given the parsed object."""
        tokens, special = data.get("tokens"), data.get("special")
        if not isinstance(tokens, dict) or not isinstance(special, dict) or not tokens:
            raise InputError('expected "tokens" and "special" as objects of ids')
        check_spellings(special)
        return cls(tokens, special)

    def to_json(self, rules: Mapping[str, str]) -> str:
        """Our own format: the rules of a kind of tokenizer, and each token with its id."""
        tokens = {"special": self.special_ids, "tokens": self.ordinary}
        return json.dumps({"format": FORMAT, **rules, **tokens}, ensure_ascii=False, indent=1)

    def fill_unknown(self, ids: Sequence[int | None], tokens: Sequence[str]) -> list[int]:
        """Ids with None replaced by the unknown token's, or an error that names the token."""
        known = [id_ for id_ in ids if id_ is not None]
        if len(known) == len(ids):
            return known
        unknown = self.special.unknown
        if unknown is None:
            raise InputError(
                f"{tokens[ids.index(None)]!r} is not in this vocabulary of {self.size}, which has "
                "no unknown token; build it with <unknown> among the special tokens"
            )
        return [unknown if id_ is None else id_ for id_ in ids]

    def text(self, id_: int) -> str:
        """The token that has an id."""
        try:
            return self._texts[id_]
        except KeyError:
            if 0 <= id_ < self.size:
                raise InputError(f"id {id_} belongs to no token of this vocabulary") from None
            raise InputError(
                f"expected an id from 0 to {self.size - 1} (vocab_size {self.size}), "
                f"received {id_}; were the ids made with another tokenizer?"
            ) from None

    def id_of(self, text: str) -> int:
        """The id of a token, ordinary or special."""
        id_ = self.special_ids.get(text, self.ordinary.get(text))
        if id_ is None:
            raise InputError(
                f"no token {text!r} in this vocabulary of {self.size}; encode() takes any text"
            )
        return id_


def is_unicode(text: str) -> bool:
    """Whether a string can be written as UTF-8: half a surrogate pair cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
