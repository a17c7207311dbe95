"""The models, and `build`, which makes the one that a config describes."""

from collections.abc import Callable
from typing import Literal, Unpack, overload

from torch import nn

from glassformer.errors import ConfigError
from glassformer.nn.attention import Implementation, MultiHeadAttention, set_attention
from glassformer.nn.config import Architecture, ModelConfig, Sizes
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
from glassformer.nn.presets import preset

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


@overload
def build(
    config: Literal["gpt2", "llama"],
    attention: Implementation = "fused",
    **sizes: Unpack[Sizes],
) -> LanguageModel: ...
@overload
def build(
    config: Literal["vaswani_2017_base", "torch_nn_transformer", "by_hand_2024"],
    attention: Implementation = "fused",
    **sizes: Unpack[Sizes],
) -> Seq2Seq: ...
@overload
def build(
    config: Literal["bloem_2019", "bloem_2024"],
    attention: Implementation = "fused",
    **sizes: Unpack[Sizes],
) -> Classifier: ...
@overload
def build(
    config: Literal["bert"], attention: Implementation = "fused", **sizes: Unpack[Sizes]
) -> MaskedLanguageModel: ...
@overload
def build(
    config: Literal["illustrated"], attention: Implementation = "fused", **sizes: Unpack[Sizes]
) -> MultiHeadAttention: ...
@overload
def build(
    config: ModelConfig | str, attention: Implementation = "fused", **sizes: Unpack[Sizes]
) -> nn.Module: ...
def build(
    config: ModelConfig | str, attention: Implementation = "fused", **sizes: Unpack[Sizes]
) -> nn.Module:
    """The model that a config or a preset describes, with fresh parameters.

        build("gpt2", d_model=64, n_layers=2)
        build(presets.gpt2(), d_model=64)

    `attention` chooses between the written-out arithmetic and the fused kernel; it can be changed
    later with `set_attention`.
    """
    if isinstance(config, str):
        config = preset(config)
    if not isinstance(config, ModelConfig):
        raise ConfigError(
            "a model is built from a ModelConfig, such as presets.gpt2(), or the name of a preset, "
            f"got {config!r:.60}"
        )
    sized = config.sized(**sizes) if sizes else config
    return set_attention(_BUILDERS[sized.architecture](sized), attention)
