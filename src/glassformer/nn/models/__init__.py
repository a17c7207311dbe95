"""The models, and `build`, which makes the one that a config describes."""

from collections.abc import Callable

from torch import nn

from glassformer.errors import ConfigError
from glassformer.nn.attention import Implementation, MultiHeadAttention, set_attention
from glassformer.nn.config import Architecture, ModelConfig
from glassformer.nn.layers import initialise
from glassformer.nn.models.decoders import LanguageModel, Seq2Seq
from glassformer.nn.models.encoders import (
    Classifier,
    ImageClassifier,
    MaskedLanguageModel,
    TextEncoder,
    pool,
)
from glassformer.nn.models.factors import MatrixFactorisation

__all__ = [
    "Classifier",
    "ImageClassifier",
    "LanguageModel",
    "MaskedLanguageModel",
    "MatrixFactorisation",
    "Seq2Seq",
    "TextEncoder",
    "build",
    "pool",
]


def _attention(config: ModelConfig) -> nn.Module:
    module = MultiHeadAttention(config.d_model, config.attention)
    initialise(module, config.init)
    return module


_BUILDERS: dict[Architecture, Callable[[ModelConfig], nn.Module]] = {
    "attention": _attention,
    "encoder": TextEncoder,
    "classifier": Classifier,
    "image_classifier": ImageClassifier,
    "masked_language_model": MaskedLanguageModel,
    "language_model": LanguageModel,
    "seq2seq": Seq2Seq,
    "recommender": MatrixFactorisation,
}


def build(config: ModelConfig, attention: Implementation = "fused") -> nn.Module:
    """The model that a config describes, with fresh parameters.

    `attention` chooses between the written-out arithmetic and the fused kernel; it can be changed
    later with `set_attention`.
    """
    if not isinstance(config, ModelConfig):
        raise ConfigError(
            f"a model is built from a ModelConfig, such as presets.gpt2(), got {config!r}"
        )
    return set_attention(_BUILDERS[config.architecture](config), attention)
