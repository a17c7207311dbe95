"""Tokens and their ids, and which of them are special. Every tokenizer has one vocabulary."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from typing import Any

from glassformer.errors import ConfigError, InputError, did_you_mean, expect

# --- special tokens ---
# Tokens that are not text: padding, unknown, start, end, mask. A special token's role follows from
# its spelling, in our vocabularies and in those of other programs, so a `tokenizer.json` needs no
# extra field for the roles.
#
# All spellings are bracketed. No rule that splits text leaves a bracket and a letter in one piece,
# so ordinary text, even `<end>` typed by a user, never becomes a special token.

DEFAULT_SPECIAL = ("<pad>", "<unknown>", "<start>", "<end>")

# If a foreign vocabulary has several spellings for one role, the first one listed here gets it.
_SPELLINGS = {
    "pad": ("<pad>", "[PAD]", "<|pad|>", "<|padding|>"),
    "unknown": ("<unknown>", "<unk>", "[UNK]"),
    # GPT-2 uses one token for both start and end.
    "start": ("<start>", "<s>", "<bos>", "[CLS]", "[BOS]", "<|begin_of_text|>", "<|endoftext|>"),
    "end": ("<end>", "</s>", "<eos>", "[SEP]", "[EOS]", "<|end_of_text|>", "<|endoftext|>"),
    "mask": ("<mask>", "[MASK]"),
}


@dataclass(frozen=True)
class SpecialTokens:
    """The id of each role, or None if the vocabulary has no such token."""

    pad: int | None = None
    unknown: int | None = None
    start: int | None = None
    end: int | None = None
    mask: int | None = None
    others: frozenset[int] = frozenset()
    """Special tokens of a foreign vocabulary without a role here."""

    def __post_init__(self) -> None:
        # A model whose padding is its end token never learns to stop: padding is not scored.
        ends = {self.start, self.end} - {None}
        roles = [i for i in (self.pad, self.unknown, self.mask) if i is not None]
        if len({*roles, *ends}) != len(roles) + len(ends):
            raise ConfigError(
                "pad, unknown, mask and start/end need ids of their own, received pad={pad}, "
                "unknown={unknown}, mask={mask}, start={start}, end={end}; give each its own token",
                **{name: getattr(self, name) for name in _SPELLINGS},
            )

    @classmethod
    def by_spelling(cls, ids: Mapping[str, int]) -> SpecialTokens:
        """The roles of special tokens, from their spellings and ids."""
        roles = {
            role: next((ids[text] for text in spellings if text in ids), None)
            for role, spellings in _SPELLINGS.items()
        }
        others = frozenset(ids.values()) - set(roles.values())
        return cls(**roles, others=others)

    @property
    def ids(self) -> frozenset[int]:
        return self.silent | {i for i in (self.unknown, self.mask) if i is not None}

    @cached_property
    def silent(self) -> frozenset[int]:
        """The ids that stand for no text, that is, all but unknown and mask."""
        return self.others | {i for i in (self.pad, self.start, self.end) if i is not None}


def check_spellings(special: Iterable[str]) -> tuple[str, ...]:
    """The requested spellings, if each is known and no two have the same role."""
    if isinstance(special, str):
        raise ConfigError(
            "expected a list of special tokens, received the string {special!r:.40}",
            special=special,
        )
    expect(special, Iterable, "a list of special tokens")
    asked = tuple(special)
    for text in asked:
        expect(text, str, "special tokens as texts, such as <pad>")
    known = [text for spellings in _SPELLINGS.values() for text in spellings]
    for text in asked:
        if text not in known:
            near = did_you_mean(text, known, 99)
            raise ConfigError(
                "unknown {what} {name!r:.80}{near}", what="special token", name=text, near=near
            )
    for role, spellings in _SPELLINGS.items():
        same = [text for text in asked if text in spellings]
        if len(same) > 1:
            raise ConfigError(
                "expected one {role} token, received {names}; keep one",
                role=role,
                names=", ".join(same),
            )
    return asked


FORMAT = 1
"""The version of our `tokenizer.json` format; any other is refused."""

LONE_SURROGATE = "{text!r:.60} is not valid Unicode: it has a lone surrogate"


class Vocabulary:
    """Ordinary tokens and special tokens, each with its own id.

    `size` is the largest id plus one: the number of rows of an embedding. It exceeds the number of
    tokens if some ids are unused, as in a numbering that starts at 1.
    """

    def __init__(self, ordinary: Mapping[str, int], special: Mapping[str, int]) -> None:
        self.ordinary = dict(ordinary)
        self.special_ids = dict(special)
        self._texts: dict[int, str] = {}
        for text, id_ in (*special.items(), *ordinary.items()):
            # bool is an int in Python, but {"the": true} in a file is a mistake.
            if type(id_) is not int or id_ < 0:
                raise InputError(
                    "expected an id of 0 or more for {text!r}, received {id!r}", text=text, id=id_
                )
            if id_ in self._texts:
                raise InputError(
                    "expected one token for each id, received {one!r} and {other!r} for id {id}",
                    one=self._texts[id_],
                    other=text,
                    id=id_,
                )
            if not is_unicode(text):
                raise InputError(LONE_SURROGATE, text=text)
            self._texts[id_] = text
        self.size = max(self._texts, default=-1) + 1
        self.special = SpecialTokens.by_spelling(special)

    @classmethod
    def numbered(cls, tokens: Iterable[str], special: Iterable[str]) -> Vocabulary:
        """Special tokens from 0 on, then ordinary ones, each in the order given."""
        spellings = check_spellings(special)
        return cls(
            {text: id_ for id_, text in enumerate(tokens, start=len(spellings))},
            {text: id_ for id_, text in enumerate(spellings)},
        )

    @classmethod
    def around(cls, ordinary: Mapping[str, int], special: Iterable[str]) -> Vocabulary:
        """Ordinary tokens keep their ids; special tokens get the smallest free ones."""
        taken = set(ordinary.values())
        free = (id_ for id_ in count() if id_ not in taken)
        return cls(ordinary, dict(zip(check_spellings(special), free, strict=False)))

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Vocabulary:
        """The inverse of `to_json`, given the parsed object."""
        tokens, special = data.get("tokens"), data.get("special")
        if not isinstance(tokens, dict) or not isinstance(special, dict) or not tokens:
            raise InputError('expected "tokens" and "special" as objects of ids')
        check_spellings(special)
        return cls(tokens, special)

    def to_json(self, rules: Mapping[str, str]) -> str:
        """Our own format: the rules of the tokenizer, and each token with its id."""
        tokens = {"special": self.special_ids, "tokens": self.ordinary}
        return json.dumps({"format": FORMAT, **rules, **tokens}, ensure_ascii=False, indent=1)

    def fill_unknown(self, ids: Sequence[int | None], tokens: Sequence[str]) -> list[int]:
        """Ids with None replaced by the unknown token; without one, an error names the token."""
        known = [id_ for id_ in ids if id_ is not None]
        if len(known) == len(ids):
            return known
        unknown = self.special.unknown
        if unknown is None:
            raise InputError(
                "{token!r} is not in this vocabulary of {size}, which has no unknown token; build "
                "it with <unknown> among the special tokens",
                token=tokens[ids.index(None)],
                size=self.size,
            )
        return [unknown if id_ is None else id_ for id_ in ids]

    def text(self, id_: int) -> str:
        try:
            return self._texts[id_]
        except KeyError:
            if 0 <= id_ < self.size:
                raise InputError("id {id} is unused in this vocabulary", id=id_) from None
            raise InputError(
                "expected an id from 0 to {last} (vocab_size {size}), received {id}; were the ids "
                "made with another tokenizer?",
                last=self.size - 1,
                size=self.size,
                id=id_,
            ) from None

    def id_of(self, text: str) -> int:
        id_ = self.special_ids.get(text, self.ordinary.get(text))
        if id_ is None:
            raise InputError(
                "no token {text!r} in this vocabulary of {size}; encode() takes any text",
                text=text,
                size=self.size,
            )
        return id_


def is_unicode(text: str) -> bool:
    """Whether a string can be encoded as UTF-8: lone surrogates cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
