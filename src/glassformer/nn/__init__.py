"""Ids to logits: the mathematics. Pure functions first, modules second.

Read in this order: `attention` (masks, the arithmetic, the module), `positions`, `layers`,
`blocks`, `models`; `config` and `presets` say what a model is made of. Nothing here trains, decodes
or times a model.
"""

from typing import TYPE_CHECKING

from glassformer.lazy import on_first_use

if TYPE_CHECKING:
    from glassformer.nn import presets
    from glassformer.nn.attention import (
        MultiHeadAttention,
        attend_fused,
        attend_written,
        attention_weights,
        basic_self_attention,
        causal_mask,
        padding_mask,
        record_attention,
        set_attention,
    )
    from glassformer.nn.blocks import Block, Stack
    from glassformer.nn.cache import DecodingCache
    from glassformer.nn.config import (
        AttentionConfig,
        BlockConfig,
        EmbeddingConfig,
        FeedForwardConfig,
        ImageConfig,
        ModelConfig,
        OutputConfig,
        PositionConfig,
    )
    from glassformer.nn.description import count_parameters, describe
    from glassformer.nn.layers import FeedForward, TokenEmbedding
    from glassformer.nn.models import (
        Classifier,
        ImageClassifier,
        LanguageModel,
        MaskedLanguageModel,
        MatrixFactorisation,
        Seq2Seq,
        TextEncoder,
        build,
    )

__all__ = [
    "AttentionConfig",
    "Block",
    "BlockConfig",
    "Classifier",
    "DecodingCache",
    "EmbeddingConfig",
    "FeedForward",
    "FeedForwardConfig",
    "ImageClassifier",
    "ImageConfig",
    "LanguageModel",
    "MaskedLanguageModel",
    "MatrixFactorisation",
    "ModelConfig",
    "MultiHeadAttention",
    "OutputConfig",
    "PositionConfig",
    "Seq2Seq",
    "Stack",
    "TextEncoder",
    "TokenEmbedding",
    "attend_fused",
    "attend_written",
    "attention_weights",
    "basic_self_attention",
    "build",
    "causal_mask",
    "count_parameters",
    "describe",
    "padding_mask",
    "presets",
    "record_attention",
    "set_attention",
]

_HOMES = {
    "glassformer.nn": "presets",
    "glassformer.nn.attention": (
        "MultiHeadAttention attend_fused attend_written attention_weights "
        "basic_self_attention causal_mask padding_mask record_attention set_attention"
    ),
    "glassformer.nn.blocks": "Block Stack",
    "glassformer.nn.cache": "DecodingCache",
    "glassformer.nn.config": (
        "AttentionConfig BlockConfig EmbeddingConfig FeedForwardConfig ImageConfig "
        "ModelConfig OutputConfig PositionConfig"
    ),
    "glassformer.nn.description": "count_parameters describe",
    "glassformer.nn.layers": "FeedForward TokenEmbedding",
    "glassformer.nn.models": (
        "Classifier ImageClassifier LanguageModel MaskedLanguageModel MatrixFactorisation "
        "Seq2Seq TextEncoder build"
    ),
}

if not TYPE_CHECKING:
    __getattr__, __dir__ = on_first_use(__name__, _HOMES)
