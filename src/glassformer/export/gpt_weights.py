"""A language model as a Hugging Face GPT-2 or Llama: names and configs.

The two differ in everything that a config can choose: norms, positions, feed-forward, biases. A
model that mixes them fits neither. Knows names, not the transformers library.
"""

import re
from typing import Any, Literal

import torch
from torch import Tensor

from glassformer.export.compatibility import Demand, demand, plain_attention, plain_feed_forward
from glassformer.nn import LanguageModel, ModelConfig
from glassformer.text import SpecialTokens

_GPT2 = (
    (r"^decoder\.embedding\.", "transformer.wte."),
    (r"^decoder\.positions\.table\.", "transformer.wpe."),
    (r"^decoder\.final_norm\.", "transformer.ln_f."),
    (r"^decoder\.blocks\.", "transformer.h."),
    (r"attention_norm", "ln_1"),
    (r"feed_forward_norm", "ln_2"),
    (r"attention\.to_output", "attn.c_proj"),
    (r"feed_forward\.expand", "mlp.c_fc"),
    (r"feed_forward\.contract", "mlp.c_proj"),
)
_LLAMA = (
    (r"^decoder\.embedding\.", "model.embed_tokens."),
    (r"^decoder\.final_norm\.", "model.norm."),
    (r"^decoder\.blocks\.", "model.layers."),
    (r"^to_vocabulary\.", "lm_head."),
    (r"attention_norm", "input_layernorm"),
    (r"feed_forward_norm", "post_attention_layernorm"),
    (r"attention\.to_queries", "self_attn.q_proj"),
    (r"attention\.to_keys", "self_attn.k_proj"),
    (r"attention\.to_values", "self_attn.v_proj"),
    (r"attention\.to_output", "self_attn.o_proj"),
    (r"feed_forward\.expand", "mlp.up_proj"),
    (r"feed_forward\.gate", "mlp.gate_proj"),
    (r"feed_forward\.contract", "mlp.down_proj"),
)
_ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "gelu_tanh": "gelu_new"}


def architecture(config: ModelConfig) -> Literal["gpt2", "llama"]:
    """Which of the two holds a model; neither is an error that names what does not fit."""
    kind: Literal["gpt2", "llama"] = "llama" if config.positions.kind == "rotary" else "gpt2"
    both: list[Demand] = [
        *plain_attention(config),
        *plain_feed_forward(config),
        (config.block.norm_first, "norms after the sublayers (post-norm)"),
        (config.block.final_norm, "no norm after the last block"),
        (not config.embedding.scale, "token vectors times √d_model"),
        (not config.embedding.norm, "a norm on its embeddings"),
        (not config.embedding.n_types, "type embeddings"),
        (not config.output.bias, "a bias on its output map"),
    ]
    norm, feed_forward = config.block.norm, config.feed_forward
    if kind == "gpt2":
        demand(
            "GPT-2, the Hugging Face architecture of this kind,",
            [
                *both,
                (config.positions.kind == "learned", f"{config.positions.kind} positions"),
                (norm == "layer", f"{norm} norms"),
                (
                    feed_forward.activation in _ACTIVATIONS,
                    f"the activation {feed_forward.activation}",
                ),
                (config.attention.n_kv_heads in (None, config.attention.n_heads), "grouped heads"),
                (config.output.tied != "none", "an output map that is not tied"),
            ],
        )
    else:
        demand(
            "Llama, the Hugging Face architecture of this kind,",
            [
                *both,
                (norm == "rms", f"{norm} norms"),
                (feed_forward.activation == "swiglu", f"the activation {feed_forward.activation}"),
                (
                    config.attention.bias == config.attention.output_bias,
                    "biases in some attention maps and not in others",
                ),
            ],
        )
    return kind


def hugging_face_config(config: ModelConfig, special: SpecialTokens) -> dict[str, Any]:
    """The config.json of the same model."""
    ids = {
        "bos_token_id": special.start if special.start is not None else special.end,
        "eos_token_id": special.end,
        "pad_token_id": special.pad,
        "vocab_size": config.vocab_size,
        "dtype": "float32",
    }
    attention, dropout = config.attention, config.block.dropout
    if architecture(config) == "gpt2":
        return {
            "model_type": "gpt2",
            "architectures": ["GPT2LMHeadModel"],
            "n_positions": config.max_len,
            "n_embd": config.d_model,
            "n_layer": config.n_layers,
            "n_head": attention.n_heads,
            "n_inner": config.feed_forward.d_ff,
            "activation_function": _ACTIVATIONS[config.feed_forward.activation],
            "layer_norm_epsilon": config.block.norm_eps,
            "resid_pdrop": dropout,
            "embd_pdrop": dropout,
            "attn_pdrop": attention.dropout,
            **ids,
        }
    return {
        "model_type": "llama",
        "architectures": ["LlamaForCausalLM"],
        "max_position_embeddings": config.max_len,
        "hidden_size": config.d_model,
        "intermediate_size": config.feed_forward.d_ff,
        "num_hidden_layers": config.n_layers,
        "num_attention_heads": attention.n_heads,
        "num_key_value_heads": attention.n_kv_heads or attention.n_heads,
        "head_dim": attention.head_width(config.d_model),
        "hidden_act": "silu",
        "rms_norm_eps": config.block.norm_eps,
        "rope_parameters": {"rope_type": "default", "rope_theta": config.positions.base},
        "attention_bias": attention.bias,
        "mlp_bias": config.feed_forward.bias,
        "tie_word_embeddings": config.output.tied != "none",
        **ids,
    }


@torch.no_grad()
def hugging_face_state(model: LanguageModel) -> dict[str, Tensor]:
    """The parameters under their names."""
    kind = architecture(model.config)
    state = {name: parameter.detach().cpu() for name, parameter in model.named_parameters()}
    if kind == "llama":
        renamed = {_rename(name, _LLAMA): tensor for name, tensor in state.items()}
    else:
        renamed = _gpt2(state)
    return {name: tensor.contiguous() for name, tensor in renamed.items()}


def _gpt2(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """GPT-2 has one map for queries, keys and values, and stores matrices transposed."""
    made: dict[str, Tensor] = {}
    for name, tensor in state.items():
        if re.search(r"to_(keys|values)\.", name) or name.endswith("to_queries.bias"):
            continue
        if name.endswith("to_queries.weight"):
            stem = name.removesuffix("to_queries.weight")
            parts = [f"{stem}{part}" for part in ("to_queries", "to_keys", "to_values")]
            fused = _rename(stem, _GPT2).replace("attention.", "attn.") + "c_attn."
            joined = torch.cat([state[f"{part}.weight"] for part in parts])
            made[f"{fused}weight"] = joined.T
            made[f"{fused}bias"] = torch.cat(
                [state.get(f"{p}.bias", torch.zeros(len(state[f"{p}.weight"]))) for p in parts]
            )
            continue
        theirs = _rename(name, _GPT2)
        in_map = re.search(r"(c_proj|c_fc)\.weight$", theirs)
        made[theirs] = tensor.T if in_map else tensor
        if in_map:
            bias = theirs.removesuffix("weight") + "bias"
            made.setdefault(bias, torch.zeros(len(tensor)))
    return made


def _rename(name: str, names: tuple[tuple[str, str], ...]) -> str:
    for ours, theirs in names:
        name = re.sub(ours, theirs, name)
    return name
