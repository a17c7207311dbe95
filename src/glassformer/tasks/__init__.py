"""What models are for: `load` one by name or folder, then classify, translate, generate, embed.

import glassformer

glassformer.load("imdb").classify(["A wonderful film."])[0].label
glassformer.load("en-de").translate(["A dog runs."], beam=5)[0].text
glassformer.load("shakespeare").generate("KING:").text
"""

import os

import torch

from glassformer import checkpoint
from glassformer.nn.attention import Implementation
from glassformer.tasks.model import Model, Task
from glassformer.tasks.results import (
    Alternative,
    Attention,
    Classified,
    Embedded,
    Generated,
    Translated,
)

__all__ = [
    "Alternative",
    "Attention",
    "Classified",
    "Embedded",
    "Generated",
    "Model",
    "Task",
    "Translated",
    "load",
]


def load(
    name_or_folder: str | os.PathLike[str],
    *,
    device: torch.device | str = "cpu",
    attention: Implementation = "fused",
) -> Model:
    """A model that ships, by its name, or one of yours, by its folder."""
    folder = checkpoint.find(name_or_folder)
    return Model(checkpoint.load(folder, attention=attention, device=device), folder.name)
