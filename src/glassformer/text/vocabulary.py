"""Tokens and their ids, both ways, and which of them are special.

This file does not know how a text becomes tokens: all three kinds of tokenizer hold one of these.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import count
from typing import Any

from glassformer.errors import InputError
from glassformer.text.special import SpecialTokens, check_spellings

__all__ = ["FORMAT", "Vocabulary", "is_unicode"]

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
    def numbered(cls, tokens: Iterable[str], special: Iterable[str]) -> "Vocabulary":
        """Special tokens from 0 on, then the ordinary ones, in the orders given."""
        spellings = check_spellings(special)
        return cls(
            {text: id_ for id_, text in enumerate(tokens, start=len(spellings))},
            {text: id_ for id_, text in enumerate(spellings)},
        )

    @classmethod
    def around(cls, ordinary: Mapping[str, int], special: Iterable[str]) -> "Vocabulary":
        """Ordinary tokens keep their ids; special ones get the smallest that are free."""
        taken = set(ordinary.values())
        free = (id_ for id_ in count() if id_ not in taken)
        return cls(ordinary, dict(zip(check_spellings(special), free, strict=False)))

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Vocabulary":
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
