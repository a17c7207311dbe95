"""Scores of words for a terminal: the text in colours where it shows them, and a bar for each."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from glassformer.experiments import WordScores

_RAISES, _LOWERS = (230, 126, 34), (59, 125, 191)  # the page's orange and blue


def coloured(found: WordScores) -> str:
    """The number, the text with each token on the colour of its score, and the scores."""
    if not sys.stdout.isatty() or "NO_COLOR" in os.environ:
        return str(found)
    strongest = max(map(abs, found.scores)) or 1.0
    pairs = zip(found.tokens, found.scores, strict=True)
    return f"{' '.join(_on_colour(token, score / strongest) for token, score in pairs)}\n\n{found}"


def _on_colour(token: str, share: float) -> str:
    ground = _RAISES if share > 0 else _LOWERS
    red, green, blue = (round(247 + (part - 247) * abs(share)) for part in ground)
    return f"\x1b[48;2;{red};{green};{blue}m\x1b[38;2;29;36;48m {token} \x1b[0m"
