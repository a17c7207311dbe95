"""What is kept of a text that a model cannot read whole.

Training and use must cut alike: a model that learnt to find the verdict at a text's end looks for
it there. This file does not know tokenizers or models.
"""

from collections.abc import Sequence
from typing import Literal

__all__ = ["Cut", "cut_ids"]

Cut = Literal["end", "middle"]
"""What is left out: the end of a text, or its middle."""


def cut_ids(ids: Sequence[int], max_len: int, cut: Cut) -> list[int]:
    """At most `max_len` ids; without the middle, a quarter of them is from the beginning."""
    if len(ids) <= max_len:
        return list(ids)
    head = max_len if cut == "end" else max_len // 4
    return [*ids[:head], *ids[len(ids) - (max_len - head) :]]
