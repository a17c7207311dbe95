"""Runs of the same model over other texts: edits and experiments take numbers from them."""

from __future__ import annotations

from contextlib import ExitStack
from types import TracebackType
from typing import Self

from glassformer.errors import InputError
from glassformer.explorer.model_list import Models, run_text
from glassformer.explorer.open_traces import OpenTrace, Store
from glassformer.explorer.schemas import ModelInfo, TraceRequest


class OtherRuns:
    """Other runs of an open trace's model; they stay open inside a `with` block.

    A run is kept in the store like any other, so that the next question finds it there.
    """

    def __init__(
        self, models: Models, store: Store, cards: list[ModelInfo], opened: OpenTrace
    ) -> None:
        self._models = models
        self._store = store
        self._cards = cards
        self._opened = opened
        self._held = ExitStack()

    def over(self, text: str) -> OpenTrace:
        """The model's run over a text."""
        found = self._store.find(self._opened.model, text)
        if found is None:
            wanted = TraceRequest(model=self._opened.model, text=text)
            found = self._store.add(run_text(self._models, wanted)).id
        return self._held.enter_context(self._store.use(found))

    def examples(self) -> list[OpenTrace]:
        """The runs over the example texts on the model's card."""
        texts = [text for card in self._cards if card.name == self._opened.model
                 for text in card.examples if card.trace is None]  # fmt: skip
        if not texts:
            raise InputError(
                "{model} has no example texts to take a mean over", model=self._opened.model
            )
        return [self.over(text) for text in texts]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        self._held.close()
