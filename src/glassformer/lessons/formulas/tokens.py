"""A formula cut into tokens, each with the column where it starts (counted from 1)."""

import re
from dataclasses import dataclass
from typing import Literal, cast

from glassformer.errors import ConfigError

__all__ = ["FormulaError", "Token", "tokenise"]

Kind = Literal["number", "name", "text", "sign", "end"]

# What people paste from articles means what it looks like.
_SAME = {"−": "-", "×": "*", "·": "*", "ᵀ": ".T", "÷": "/", "（": "(", "）": ")", "，": ","}

_PATTERN = re.compile(
    r"""(?P<space>\s+)
    |(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)
    |(?P<name>[^\W\dᵀ][^\Wᵀ]*)
    |(?P<text>"[^"]*"|'[^']*')
    |(?P<sign>\.T\b|\*\*|[-+*/@^()\[\],:=])""",
    re.VERBOSE,
)


_MOST_CHARACTERS = 10_000
_MOST_DIGITS = 100  # of one number; float64 holds 17


class FormulaError(ConfigError):
    """A formula that cannot be read or computed; says at which column, if it is known."""

    def __init__(self, message: str, column: int = 0) -> None:
        message = message if len(message) <= 300 else f"{message[:300]}…"
        super().__init__(f"column {column}: {message}" if column else message)
        self.column = column


@dataclass(frozen=True)
class Token:
    """One word of the formula."""

    kind: Kind
    text: str
    column: int


def tokenise(formula: str) -> list[Token]:
    """The tokens of a formula, closed by one of kind "end"."""
    if len(formula) > _MOST_CHARACTERS:
        raise FormulaError(
            f"expected a shorter formula, of at most {_MOST_CHARACTERS} characters, "
            f"got {len(formula)}"
        )
    tokens: list[Token] = []
    at = 0
    while at < len(formula):
        if formula[at] in _SAME:
            tokens.append(Token("sign", _SAME[formula[at]], at + 1))
            at += 1
            continue
        match = _PATTERN.match(formula, at)
        if match is None:
            raise FormulaError(
                f"expected a number, a name or one of + - * / @ ^ ( ) [ ], got {formula[at]!r}",
                at + 1,
            )
        kind = match.lastgroup
        if kind == "sign" and match.group() == "**":
            raise FormulaError("expected ^ for a power, got '**'", at + 1)
        if kind == "number" and len(match.group()) > _MOST_DIGITS:
            raise FormulaError(
                f"expected a number of at most {_MOST_DIGITS} digits, got {len(match.group())}",
                at + 1,
            )
        if kind != "space":
            tokens.append(Token(cast(Kind, kind), match.group(), at + 1))
        at = match.end()
    tokens.append(Token("end", "", len(formula) + 1))
    return tokens
