"""Texts longer than a model's memory: read the recent past anew when the positions run out.

A language model has max_len positions. When a text fills them, its last three quarters are read
again as if they were the whole, and writing goes on; so a step costs the same on average however
long the text becomes. Knows tokens and another stepper, not how tokens are chosen.
Dims: B texts, R rivals of each, V vocabulary.
"""

from collections.abc import Sequence

import torch

from glassformer.decoding.recorded import stepper_for
from glassformer.nn import LanguageModel
from glassformer.nn.shapes import Float, Int, Tensor

__all__ = ["Sliding"]


class Sliding:
    """A `Stepper` over a language model, for texts of any length."""

    def __init__(self, model: LanguageModel, prompts: Sequence[Sequence[int]]) -> None:
        self.model = model
        self.max_len = model.config.max_len
        self.recent = max(1, self.max_len - self.max_len // 4)
        self._written = [[list(prompt)] for prompt in prompts]  # ids by text and rival
        self._n_rivals = 1
        self._apart = False
        self._read_anew([p if len(p) <= self.max_len else p[-self.recent :] for p in prompts])

    def start(self) -> Float[Tensor, "B 1 V"]:
        """Read the prompts, or as much of their ends as fits; logits of what follows each."""
        return self._inner.start()

    def step(
        self, tokens: Int[Tensor, "B R"], parents: Int[Tensor, "B R"] | None = None
    ) -> Float[Tensor, "B R V"]:
        """Logits after these tokens; each continues the rival `parents` names (None: its own)."""
        n_texts, n_rivals = tokens.shape
        self._note(tokens, parents)
        if self._length == self.max_len:
            self._read_anew([rival[-self.recent :] for text in self._written for rival in text])
            self._apart = True  # rivals no longer share a past: each is a text to the model
            return self._inner.start().view(n_texts, n_rivals, -1)
        self._length += 1
        if not self._apart:
            return self._inner.step(tokens, parents)
        if parents is not None:
            texts = torch.arange(n_texts, device=tokens.device).unsqueeze(-1)
            self._inner.keep((texts * self._n_rivals + parents).flatten())
            self._n_rivals = n_rivals
        return self._inner.step(tokens.reshape(-1, 1)).view(n_texts, n_rivals, -1)

    def worth_leaving(self, n_left: int) -> bool:
        """Whether the model's steps would be cheaper by more than moving the others costs."""
        return self._inner.worth_leaving(n_left * self._n_rivals if self._apart else n_left)

    def keep(self, texts: Int[Tensor, " M"]) -> None:
        """Go on with these texts alone, in this order."""
        self._written = [self._written[text] for text in texts.tolist()]
        if self._apart:
            rivals = torch.arange(self._n_rivals, device=texts.device)
            texts = (texts.unsqueeze(-1) * self._n_rivals + rivals).flatten()
        self._inner.keep(texts)

    def _read_anew(self, windows: Sequence[Sequence[int]]) -> None:
        self._inner = stepper_for(self.model, windows)
        self._length = max(map(len, windows))
        self._n_rivals = len(windows) // len(self._written)

    def _note(self, tokens: Tensor, parents: Tensor | None) -> None:
        if parents is None:
            for rivals, new in zip(self._written, tokens.tolist(), strict=True):
                for rival, token in zip(rivals, new, strict=True):
                    rival.append(token)
            return
        rows = zip(tokens.tolist(), parents.tolist(), strict=True)
        for text, (new, begun) in enumerate(rows):
            rivals = self._written[text]
            self._written[text] = [
                [*rivals[parent][-self.max_len :], token]
                for token, parent in zip(new, begun, strict=True)
            ]
