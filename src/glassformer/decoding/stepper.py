"""What a search asks of a model, and all it may ask: logits for the next token.

A search works on B texts at once and follows R rival continuations of each. It never sees caches,
masks, encoders or layers; a model never sees scores. Texts that are done leave the batch.
Dims: B texts, R rivals of each, V vocabulary.
"""

from typing import Protocol

from glassformer.nn.shapes import Float, Int, Tensor

__all__ = ["MOST_RIVALS", "Stepper"]

MOST_RIVALS = 1_024
"""Continuations of a text at once: each caches positions of its own, more would fill the memory."""


class Stepper(Protocol):
    """A model in the middle of several texts."""

    def start(self) -> Float[Tensor, "B 1 V"]:
        """Logits of the first token of each text, after whatever it was told to begin with."""

    def step(
        self, tokens: Int[Tensor, "B R"], parents: Int[Tensor, "B R"] | None = None
    ) -> Float[Tensor, "B R V"]:
        """Logits after these tokens; each continues the rival `parents` names (None: its own)."""

    def worth_leaving(self, n_left: int) -> bool:
        """Whether steps with the n texts that are not done would be cheaper by more than `keep`."""

    def keep(self, texts: Int[Tensor, " M"]) -> None:
        """Go on with these texts alone, in this order."""
