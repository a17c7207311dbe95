"""What makes decoding fast; `generate` uses it, and the searches know nothing about it.

| here | replaces |
| --- | --- |
| `shared_cache`: the beams of a sequence share one cache row | `ModelStepper` |
| `graph_stepper`: the same steps as CUDA graphs, in a workspace that stays | `ModelStepper` |
| `graph_stepper.ProductAttention`: few queries on a GPU, two products | `MultiHeadAttention` |
| `top_k`: the best of a large vocabulary by chunks | `beam.best_continuations` |
| `workers`: one batch per core | one batch after the other |
"""

from collections.abc import Sequence

from glassformer.decoding.fast.cuda_graphs import release
from glassformer.decoding.fast.graph_stepper import GraphStepper, can_be_recorded
from glassformer.decoding.fast.shared_cache import SharedCacheStepper
from glassformer.decoding.fast.top_k import best_continuations
from glassformer.decoding.fast.workers import in_batches, paused_between
from glassformer.nn import LanguageModel, Seq2Seq

__all__ = ["best_continuations", "in_batches", "paused_between", "release", "stepper_for"]


def stepper_for(
    model: LanguageModel | Seq2Seq,
    prefixes: Sequence[Sequence[int]],
    sources: Sequence[Sequence[int]] | None = None,
) -> SharedCacheStepper:
    """The fastest stepper for the model's device: CUDA graphs, unless hooks watch the steps."""
    if model.to_vocabulary.weight.is_cuda:
        if can_be_recorded(model):
            return GraphStepper(model, prefixes, sources)
    else:
        release(model)  # it may have been on a GPU before
    return SharedCacheStepper(model, prefixes, sources)
