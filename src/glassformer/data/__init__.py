"""Corpora to batches: finding data, splitting them, tokenising them once, batching them.

Read in this order: `corpora` (names, checksums, where files are looked for), the readers (`imdb`,
`readers`, `table`), `token_store` (ids on disk), `examples` and `batches` (what a model reads),
`loader` (the batches of each step). This package knows no model.
"""

from typing import TYPE_CHECKING

from glassformer.lazy import on_first_use

if TYPE_CHECKING:
    from glassformer.data.batches import (
        IGNORED,
        Batch,
        ClassificationBatch,
        EpochRNG,
        MaskedBatch,
        Order,
        PairBatch,
        WindowBatch,
    )
    from glassformer.data.corpora import CORPORA, Corpus, FoundCorpus, cache_folder, find
    from glassformer.data.examples import (
        Examples,
        LabelledTexts,
        MaskedTexts,
        SentencePairs,
        Windows,
    )
    from glassformer.data.loader import Loader, StepBatches, evaluation_batches
    from glassformer.data.token_store import TokenStore, key_of, prepared_folder, write_store

__all__ = [
    "CORPORA",
    "IGNORED",
    "Batch",
    "ClassificationBatch",
    "Corpus",
    "EpochRNG",
    "Examples",
    "FoundCorpus",
    "LabelledTexts",
    "Loader",
    "MaskedBatch",
    "MaskedTexts",
    "Order",
    "PairBatch",
    "SentencePairs",
    "StepBatches",
    "TokenStore",
    "WindowBatch",
    "Windows",
    "cache_folder",
    "evaluation_batches",
    "find",
    "key_of",
    "prepared_folder",
    "write_store",
]

_HOMES = {
    "glassformer.data.batches": (
        "Batch ClassificationBatch EpochRNG IGNORED MaskedBatch Order PairBatch WindowBatch"
    ),
    "glassformer.data.corpora": "CORPORA Corpus FoundCorpus cache_folder find",
    "glassformer.data.examples": "Examples LabelledTexts MaskedTexts SentencePairs Windows",
    "glassformer.data.loader": "Loader StepBatches evaluation_batches",
    "glassformer.data.token_store": "TokenStore key_of prepared_folder write_store",
}

if not TYPE_CHECKING:
    __getattr__, __dir__ = on_first_use(__name__, _HOMES)
