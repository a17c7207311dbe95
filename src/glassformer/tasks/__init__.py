"""What models are for: `load` one, then classify, translate, generate, recommend, embed.

import glassformer

glassformer.load("imdb").classify(["A wonderful film."])[0].label
glassformer.load("en-de").translate(["A dog runs."], beam=5)[0].text
glassformer.load("shakespeare").generate("KING:").text
"""

import os

import torch

from glassformer import checkpoint
from glassformer.nn.attention import Implementation
from glassformer.tasks.answers import Task
from glassformer.tasks.model import Model
from glassformer.tasks.quantisation import Weights, check_weights, store
from glassformer.tasks.results import (
    Alternative,
    Attention,
    Classified,
    Embedded,
    Generated,
    Recommendation,
    Recommended,
    Translated,
)

__all__ = [
    "Alternative",
    "Attention",
    "Classified",
    "Embedded",
    "Generated",
    "Model",
    "Recommendation",
    "Recommended",
    "Task",
    "Translated",
    "Weights",
    "load",
]


def load(
    name_or_folder: str | os.PathLike[str],
    *,
    device: torch.device | str = "cpu",
    attention: Implementation = "fused",
    weights: Weights = "float32",
) -> Model:
    """A model that ships, by its name, or one of yours, by its folder.

    `weights` says how its numbers are stored: int8 is faster and smaller on a CPU, bfloat16 where
    the machine has it, each with a small loss (docs/inference.md).
    """
    folder = checkpoint.find(name_or_folder)
    check_weights(weights, device)
    loaded = checkpoint.load(folder, attention=attention, device=device)
    store(loaded.model, weights)
    return Model(loaded, checkpoint.name_of(folder))
