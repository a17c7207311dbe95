"""What a model is made of, as data: nested frozen dataclasses, checked when they are made.

A config knows sizes and conventions and nothing of tensors. The sentence under a field is its
documentation, in the API pages and in the command's help. `ModelConfig.to_dict` and `from_dict`
carry it through JSON; a key that does not exist is an error, never ignored.

`parts` has a config for each part of a model, `model` the one that holds them all, `checking` what
they have in common.
"""

from glassformer.nn.config.model import Architecture, Initialisation, ModelConfig, Sizes
from glassformer.nn.config.parts import (
    AttentionConfig,
    BlockConfig,
    EmbeddingConfig,
    FeedForwardConfig,
    ImageConfig,
    OutputConfig,
    PositionConfig,
)

__all__ = [
    "Architecture",
    "AttentionConfig",
    "BlockConfig",
    "EmbeddingConfig",
    "FeedForwardConfig",
    "ImageConfig",
    "Initialisation",
    "ModelConfig",
    "OutputConfig",
    "PositionConfig",
    "Sizes",
]
