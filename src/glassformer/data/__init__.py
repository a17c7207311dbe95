"""Corpora to batches: where data are, how they are split, tokenised once, and put in order.

Read in this order: `corpora` (names, checksums, where files are looked for), the readers (`imdb`,
`parallel`, `plain`, …), `store` (ids on disk), `examples` and `batches` (what a model is given),
`order` and `loader` (which examples come when). This package knows no model.
"""

from typing import TYPE_CHECKING

from glassformer.lazy import on_first_use

if TYPE_CHECKING:
    from glassformer.data.batches import (
        IGNORED,
        Batch,
        Chance,
        ClassificationBatch,
        MaskedBatch,
        Order,
        PairBatch,
        WindowBatch,
    )
    from glassformer.data.corpora import CORPORA, Corpus, Found, cache_folder, find
    from glassformer.data.examples import (
        Examples,
        LabelledTexts,
        MaskedTexts,
        SentencePairs,
        Windows,
    )
    from glassformer.data.loader import Loader, Update, evaluation_batches
    from glassformer.data.token_store import TokenStore, key_of, prepared_folder, write_store

__all__ = [
    "CORPORA",
    "IGNORED",
    "Batch",
    "Chance",
    "ClassificationBatch",
    "Corpus",
    "Examples",
    "Found",
    "LabelledTexts",
    "Loader",
    "MaskedBatch",
    "MaskedTexts",
    "Order",
    "PairBatch",
    "SentencePairs",
    "TokenStore",
    "Update",
    "WindowBatch",
    "Windows",
    "cache_folder",
    "evaluation_batches",
    "find",
    "key_of",
    "prepared_folder",
    "write_store",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = on_first_use(__name__)
