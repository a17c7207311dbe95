"""The tokens that are not text: padding, unknown, start, end, mask.

A special token is known by its spelling: the table below says which spelling plays which role, for
our own vocabularies and for those that other programs wrote. So a `tokenizer.json` needs no extra
field to keep the roles, and no other program stumbles over one.

All spellings are bracketed. No rule that splits text into words or subwords leaves a bracket and a
letter in one piece, so ordinary text, `<end>` typed by a user included, never becomes one of them.

This file does not know how text is split, nor which ids ordinary tokens have.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from glassformer.errors import ConfigError, did_you_mean, expect

__all__ = ["DEFAULT_SPECIAL", "SpecialTokens", "check_spellings"]

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
    def by_spelling(cls, ids: Mapping[str, int]) -> "SpecialTokens":
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
