"""Greedy decoding: always the most probable token.

The choice alone; the loop around it is in `walk`.
"""

from dataclasses import dataclass

from glassformer.decoding.walk import Choice
from glassformer.nn.shapes import Float, Int, Tensor

__all__ = ["Greedy", "MostProbable"]


@dataclass(frozen=True, kw_only=True)
class Greedy:
    """Take the most probable token at each step."""


class MostProbable:
    """A `Chooser` that takes the largest logit; among equals, the smallest id."""

    def choose(self, logits: Float[Tensor, "B R V"]) -> Choice:
        """The most probable token of each row."""
        return Choice(logits.argmax(dim=-1), None)

    def keep(self, texts: Int[Tensor, " M"]) -> None:
        """Nothing to keep: a greedy choice remembers nothing."""
