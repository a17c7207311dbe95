"""Attention: pure functions first (`functions`, `masks`), then the module (`multi_head`)."""

from glassformer.nn.attention.cache import DecodingCache, KeyValueCache
from glassformer.nn.attention.functions import (
    Attended,
    Implementation,
    additive_scores,
    attend_additive,
    attend_fused,
    attend_written,
    attention_weights,
    basic_self_attention,
    basic_self_attention_loop,
    softmax_over_keys,
    weigh_values,
)
from glassformer.nn.attention.masks import causal_mask, check_mask, padding_mask, token_mask
from glassformer.nn.attention.multi_head import (
    MultiHeadAttention,
    join_heads,
    record_attention,
    set_attention,
    split_heads,
)

__all__ = [
    "Attended",
    "DecodingCache",
    "Implementation",
    "KeyValueCache",
    "MultiHeadAttention",
    "additive_scores",
    "attend_additive",
    "attend_fused",
    "attend_written",
    "attention_weights",
    "basic_self_attention",
    "basic_self_attention_loop",
    "causal_mask",
    "check_mask",
    "join_heads",
    "padding_mask",
    "record_attention",
    "set_attention",
    "softmax_over_keys",
    "split_heads",
    "token_mask",
    "weigh_values",
]
