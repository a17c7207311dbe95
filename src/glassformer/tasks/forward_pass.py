"""One forward pass over a text: its ids, a model's arguments, and the names of their positions.

`trace`, `explain`, `words` and the explorer all see a model through one pass: the token ids of a
text and, for an encoder-decoder, the target that it produces (or one that is given).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from torch import Tensor, nn

from glassformer.errors import InputError, TraceTooLargeError

if TYPE_CHECKING:
    from glassformer.text import Tokenizer
    from glassformer.tracing import MemoryEstimate, Trace


class EmptyTextError(InputError):
    """A text without any token for the model to read."""


class TooLongError(InputError):
    """A text with more tokens than the model has positions."""

    def __init__(self, tokens: int, most: int) -> None:
        super().__init__(
            "the text has {tokens} tokens, the model reads at most {most}; take a shorter one",
            tokens=tokens,
            most=most,
        )
        self.tokens = tokens
        self.most = most


class Read(NamedTuple):
    """A text as its model reads it."""

    text: str
    ids: list[int]
    """None for an image, and for names, which are not tokens."""
    cut: bool = False
    """Whether part of the text was left out."""
    empty: bool = False
    """No token to read: only spaces, or only characters that the vocabulary drops."""
    unknown: bool = False
    """Every token is unknown to the vocabulary, as with another script."""
    image: str | None = None
    """The file of an image."""

    @property
    def marks(self) -> dict[str, bool]:
        """What an answer says about its text."""
        return {"cut": self.cut, "unknown": self.unknown}


@dataclass(frozen=True)
class Pass:
    """The arguments of one call of a module."""

    module: nn.Module
    arguments: tuple[Tensor, ...] = ()
    keywords: Mapping[str, Any] = field(default_factory=dict)
    labels: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Tokens by the name of their input; words and classes by that of a parameter or output."""
    ids: tuple[int, ...] = ()
    """The tokens that the positions of the logits stand for: of a translator, the target's."""

    def trace(self, max_bytes: int | None = None, only: Sequence[str] | None = None) -> Trace:
        """Run the module once and keep every number, or those of some modules.

        A model too large for that is traced all the same: its numbers are computed again when they
        are looked at.
        """
        from glassformer.tracing import trace  # slow to import, and most answers need no trace

        given: dict[str, Any] = {"axis_labels": self.labels}
        if max_bytes is not None:
            given["max_bytes"] = max_bytes
        try:
            return trace(self.module, *self.arguments, **given, only=only, **self.keywords)
        except TraceTooLargeError:
            if only is not None:
                raise
        return trace(self.module, *self.arguments, **given, only=(), **self.keywords)

    def estimate(self, only: Sequence[str] | None = None) -> MemoryEstimate:
        """The memory that its trace would take."""
        from glassformer.tracing import estimate

        return estimate(self.module, *self.arguments, only=only, **self.keywords)


def vocabulary_labels(
    module: nn.Module, table: Tensor, tokenizer: Tokenizer
) -> dict[str, list[str]]:
    """The words of a vocabulary as labels of an embedding table's rows.

    The logits get them from there where the output layer shares that table.
    """
    for name, parameter in module.named_parameters():
        if parameter is table:
            return {name: vocabulary_words(tokenizer, len(table))}
    return {}


def vocabulary_words(tokenizer: Tokenizer, size: int) -> list[str]:
    """A word for each row of an embedding table; an unused row gets its number."""
    return [_word(tokenizer, id_) for id_ in range(size)]


def _word(tokenizer: Tokenizer, id_: int) -> str:
    try:
        return tokenizer.display_tokens([id_])[0]
    except InputError:  # tables are often rounded up to a multiple of 64 rows
        return f"⟨{id_}⟩"
