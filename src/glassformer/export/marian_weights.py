"""An encoder-decoder as a Hugging Face Marian or Pegasus: names, order of dimensions, config.

Both are the Transformer of 2017; Marian norms after each sublayer (post-norm), as the paper,
Pegasus before (pre-norm, with a norm at the end). Their position vectors hold all sines first and
then all cosines, where ours (and the paper's) alternate. The two are the same up to the order of
the residual stream's dimensions, so every parameter that reads or writes the stream is reordered,
and every result stays the same. Knows names, not the transformers library.
"""

import re
from typing import Any, Literal

import torch
from torch import Tensor

from glassformer.export.compatibility import (
    decoder_depth,
    demand,
    plain_attention,
    plain_feed_forward,
)
from glassformer.nn import ModelConfig, Seq2Seq
from glassformer.text import SpecialTokens

_NAMES = (
    (r"cross_attention\.", "encoder_attn."),
    (r"cross_attention_norm", "encoder_attn_layer_norm"),
    (r"(?<!_)attention\.", "self_attn."),
    (r"(?<!_)attention_norm", "self_attn_layer_norm"),
    (r"to_queries", "q_proj"),
    (r"to_keys", "k_proj"),
    (r"to_values", "v_proj"),
    (r"to_output", "out_proj"),
    (r"feed_forward\.expand", "fc1"),
    (r"feed_forward\.contract", "fc2"),
    (r"\.blocks\.", ".layers."),
    (r"(?<=er\.)final_norm", "layer_norm"),
    (r"feed_forward_norm", "final_layer_norm"),
    (r"\.embedding\.", ".embed_tokens."),
)
_CLASSES = {"marian": "MarianMTModel", "pegasus": "PegasusForConditionalGeneration"}
_ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "gelu_tanh": "gelu_new"}


def architecture(config: ModelConfig) -> Literal["marian", "pegasus"]:
    """Which of the two holds a model; neither is an error."""
    pre_norm = config.block.norm_first
    target = "Pegasus (pre-norm)" if pre_norm else "Marian (post-norm)"
    demand(
        f"{target}, the Hugging Face architecture of this kind,",
        [
            *plain_attention(config),
            *plain_feed_forward(config),
            (config.attention.n_kv_heads in (None, config.attention.n_heads), "grouped heads"),
            (config.block.norm == "layer", f"{config.block.norm} norms"),
            (config.block.norm_eps == 1e-5, f"norms with epsilon {config.block.norm_eps}"),
            (pre_norm or not config.block.final_norm, "a norm after the last block"),
            (not pre_norm or config.block.final_norm, "no norm after the last block"),
            (config.positions.kind == "sinusoidal", f"{config.positions.kind} positions"),
            (config.positions.base == 10_000, f"sinusoids of base {config.positions.base:g}"),
            (config.d_model % 2 == 0, f"an odd width, {config.d_model}"),
            (not config.embedding.norm, "a norm on its embeddings"),
            (not config.embedding.n_types, "type embeddings"),
            (not config.output.flattened, "a flattened output layer"),
            (
                config.feed_forward.activation in _ACTIVATIONS,
                f"the activation {config.feed_forward.activation}",
            ),
            (config.output.tied != "none", "an output map that is not tied to its token table"),
            (
                not pre_norm or config.output.tied == "all",
                "token tables of its own for source and target",
            ),
        ],
    )
    return "pegasus" if pre_norm else "marian"


def hugging_face_config(config: ModelConfig, special: SpecialTokens) -> dict[str, Any]:
    """The config.json of the same model."""
    kind = architecture(config)
    heads, d_ff = config.attention.n_heads, config.feed_forward.d_ff
    marian_only = {
        "decoder_vocab_size": config.target_vocab_size or config.vocab_size,
        "share_encoder_decoder_embeddings": config.output.tied == "all",
    }
    return {
        "model_type": kind,
        "architectures": [_CLASSES[kind]],
        "is_encoder_decoder": True,
        "vocab_size": config.vocab_size,
        "tie_word_embeddings": True,
        "d_model": config.d_model,
        "encoder_layers": config.n_layers,
        "decoder_layers": decoder_depth(config),
        "encoder_attention_heads": heads,
        "decoder_attention_heads": heads,
        "encoder_ffn_dim": d_ff,
        "decoder_ffn_dim": d_ff,
        "activation_function": _ACTIVATIONS[config.feed_forward.activation],
        "scale_embedding": config.embedding.scale,
        "max_position_embeddings": max(config.max_len, 512),
        "dropout": config.block.dropout,
        "attention_dropout": config.attention.dropout,
        "activation_dropout": config.feed_forward.dropout,
        "pad_token_id": special.pad,
        "bos_token_id": special.start,
        "eos_token_id": special.end,
        "decoder_start_token_id": special.start,
        "forced_eos_token_id": None,
        "dtype": "float32",
    } | (marian_only if kind == "marian" else {})


@torch.no_grad()
def hugging_face_state(model: Seq2Seq) -> dict[str, Tensor]:
    """The parameters under their names, in their order of dimensions."""
    config = model.config
    order = torch.cat([torch.arange(0, config.d_model, 2), torch.arange(1, config.d_model, 2)])
    state: dict[str, Tensor] = {}
    for name, parameter in model.named_parameters():
        if not name.startswith("to_vocabulary"):
            state[f"model.{_rename(name)}"] = _reorder(name, parameter.detach().cpu(), order)
    if config.output.tied == "all":  # one table, under the name that all others are tied to
        state["model.shared.weight"] = state.pop("model.encoder.embed_tokens.weight")
    # Their maps always add a bias.
    for name in [name for name in state if re.search(r"(_proj|\.fc[12])\.weight$", name)]:
        bias = name.removesuffix("weight") + "bias"
        state.setdefault(bias, torch.zeros(state[name].size(0)))
    bias_row = model.to_vocabulary.bias
    n_targets = model.to_vocabulary.weight.size(0)
    state["final_logits_bias"] = (
        torch.zeros(1, n_targets) if bias_row is None else bias_row.detach().cpu()[None]
    )
    return {name: tensor.contiguous() for name, tensor in state.items()}


def _rename(name: str) -> str:
    for ours, theirs in _NAMES:
        name = re.sub(ours, theirs, name)
    return name


def _reorder(name: str, tensor: Tensor, order: Tensor) -> Tensor:
    """Reorder the axis of a parameter that belongs to the residual stream."""
    reads = ("to_queries", "to_keys", "to_values", "expand", "gate", "embedding")
    part, kind = name.rsplit(".", 2)[-2:]
    if part in reads:
        return tensor[:, order] if kind == "weight" else tensor
    return tensor[order]  # writes into the stream, or norms it
