"""Our models as Hugging Face architectures: which one fits, its config.json, its parameter names.

    encoder-decoder         Marian (post-norm) or Pegasus (pre-norm)
    language model          GPT-2, or Llama with rotary positions
    encoder, masked words   BERT

This file knows names, not the transformers library.
"""

import re
from typing import Any, Literal

import torch
from torch import Tensor, nn

from glassformer.errors import ExportError
from glassformer.export.compatibility import (
    Requirement,
    decoder_depth,
    plain_attention,
    plain_feed_forward,
    require,
)
from glassformer.nn import ModelConfig
from glassformer.nn.foreign.model_families import BERT, GPT2, LLAMA
from glassformer.nn.foreign.torch_nn import rename_back
from glassformer.text import SpecialTokens

Family = Literal["marian", "pegasus", "gpt2", "llama", "bert"]

_TITLES: dict[Family, str] = {
    "marian": "Marian (post-norm)",
    "pegasus": "Pegasus (pre-norm)",
    "gpt2": "GPT-2",
    "llama": "Llama",
    "bert": "BERT",
}
_ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "gelu_tanh": "gelu_new"}


def family_of(config: ModelConfig) -> Family:
    """The architecture that a model fits; if none does, an error that says why."""
    family: Family
    if config.architecture == "seq2seq":
        family = "pegasus" if config.block.norm_first else "marian"
        requirements = _marian_requirements(config)
    elif config.architecture == "language_model":
        family = "llama" if config.positions.kind == "rotary" else "gpt2"
        requirements = _gpt_requirements(config, family)
    elif config.architecture in ("encoder", "masked_language_model"):
        family = "bert"
        requirements = _bert_requirements(config)
    else:
        raise ExportError(
            "no Hugging Face architecture corresponds to our {architecture}",
            architecture=config.architecture,
        )
    title = f"{_TITLES[family]}, the corresponding Hugging Face architecture,"
    require(title, [*plain_attention(config), *plain_feed_forward(config), *requirements])
    return family


def hugging_face_config(config: ModelConfig, special: SpecialTokens) -> dict[str, Any]:
    """The config.json of the same model."""
    family = family_of(config)
    if family in ("marian", "pegasus"):
        theirs = _marian_config(config, special)
    elif family == "bert":
        theirs = _bert_config(config, special)
    else:
        theirs = _gpt2_config(config) if family == "gpt2" else _llama_config(config)
        theirs |= {
            "bos_token_id": special.start if special.start is not None else special.end,
            "eos_token_id": special.end,
            "pad_token_id": special.pad,
        }
    return {"model_type": family, "vocab_size": config.vocab_size, "dtype": "float32"} | theirs


@torch.no_grad()
def hugging_face_state(model: nn.Module) -> dict[str, Tensor]:
    """The parameters under their names."""
    config = model.config
    assert isinstance(config, ModelConfig)
    family = family_of(config)
    state = {name: parameter.detach().cpu() for name, parameter in model.named_parameters()}
    if family in ("marian", "pegasus"):
        state = _marian_state(state, config)
    elif family == "gpt2":
        state = _gpt2_state(state)
    elif family == "llama":
        state = _with_prefix("model.", rename_back(state, LLAMA), head="lm_head.")
    else:
        prefix = "bert." if config.architecture == "masked_language_model" else ""
        state = _with_prefix(prefix, rename_back(state, BERT), head="cls.")
    return {name: tensor.contiguous() for name, tensor in state.items()}


def _with_prefix(prefix: str, state: dict[str, Tensor], head: str) -> dict[str, Tensor]:
    """The names of the body with a prefix, those of the head without."""
    return {
        name if name.startswith(head) else prefix + name: tensor for name, tensor in state.items()
    }


def _known_activation(config: ModelConfig) -> Requirement:
    activation = config.feed_forward.activation
    return activation in _ACTIVATIONS, f"the activation {activation}"


def _ungrouped_heads(config: ModelConfig) -> Requirement:
    return config.attention.n_kv_heads in (None, config.attention.n_heads), "grouped heads"


# --- Marian and Pegasus ---
# Both are the Transformer of 2017. Their position vectors hold all sines first and then all
# cosines, where ours (and the paper's) alternate. The two are the same up to the order of the
# residual stream's dimensions, so every parameter that reads or writes the stream is reordered,
# and every result stays the same.

# Regular expressions for parts of our names, and theirs; applied in order.
_MARIAN = (
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


def _marian_requirements(config: ModelConfig) -> list[Requirement]:
    pre_norm, block = config.block.norm_first, config.block
    return [
        _ungrouped_heads(config),
        (block.norm == "layer", f"{block.norm} norms"),
        (block.norm_eps == 1e-5, f"norms with epsilon {block.norm_eps}"),
        (pre_norm or not block.final_norm, "a norm after the last block"),
        (not pre_norm or block.final_norm, "no norm after the last block"),
        (config.positions.kind == "sinusoidal", f"{config.positions.kind} positions"),
        (config.positions.base == 10_000, f"sinusoids of base {config.positions.base:g}"),
        (config.d_model % 2 == 0, f"an odd width, {config.d_model}"),
        (not config.embedding.norm, "a norm on its embeddings"),
        (not config.embedding.n_types, "type embeddings"),
        (not config.output.flattened, "a flattened output layer"),
        _known_activation(config),
        (config.output.tied != "none", "an output map that is not tied to its token table"),
        (
            not pre_norm or config.output.tied == "all",
            "separate token tables for source and target",
        ),
    ]


def _marian_config(config: ModelConfig, special: SpecialTokens) -> dict[str, Any]:
    heads, d_ff = config.attention.n_heads, config.feed_forward.d_ff
    theirs = {
        "architectures": ["MarianMTModel"],
        "is_encoder_decoder": True,
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
    }
    if config.block.norm_first:
        return theirs | {"architectures": ["PegasusForConditionalGeneration"]}
    return theirs | {
        "decoder_vocab_size": config.target_vocab_size or config.vocab_size,
        "share_encoder_decoder_embeddings": config.output.tied == "all",
    }


def _marian_name(name: str) -> str:
    for ours, theirs in _MARIAN:
        name = re.sub(ours, theirs, name)
    return name


def _marian_state(ours: dict[str, Tensor], config: ModelConfig) -> dict[str, Tensor]:
    order = torch.cat([torch.arange(0, config.d_model, 2), torch.arange(1, config.d_model, 2)])
    state = {
        f"model.{_marian_name(name)}": _reorder(name, tensor, order)
        for name, tensor in ours.items()
        if not name.startswith("to_vocabulary")
    }
    if config.output.tied == "all":  # one table, under the name that all others are tied to
        state["model.shared.weight"] = state.pop("model.encoder.embed_tokens.weight")
    # Their linear maps always have a bias.
    for name in [name for name in state if re.search(r"(_proj|\.fc[12])\.weight$", name)]:
        bias = name.removesuffix("weight") + "bias"
        state.setdefault(bias, torch.zeros(state[name].size(0)))
    no_bias = torch.zeros(config.target_vocab_size or config.vocab_size)
    state["final_logits_bias"] = ours.get("to_vocabulary.bias", no_bias)[None]
    return state


def _reorder(name: str, tensor: Tensor, order: Tensor) -> Tensor:
    """Reorder the axis of a parameter that belongs to the residual stream."""
    reads = ("to_queries", "to_keys", "to_values", "expand", "gate", "embedding")
    part, kind = name.rsplit(".", 2)[-2:]
    if part in reads:
        return tensor[:, order] if kind == "weight" else tensor
    return tensor[order]  # writes into the stream, or normalises it


# --- GPT-2 and Llama ---
# They differ in everything that a config can choose: norms, positions, feed-forward, biases. A
# model that mixes them fits neither.


def _gpt_requirements(config: ModelConfig, family: Family) -> list[Requirement]:
    norm, activation = config.block.norm, config.feed_forward.activation
    both: list[Requirement] = [
        (config.block.norm_first, "norms after the sublayers (post-norm)"),
        (config.block.final_norm, "no norm after the last block"),
        (not config.embedding.scale, "token vectors times √d_model"),
        (not config.embedding.norm, "a norm on its embeddings"),
        (not config.embedding.n_types, "type embeddings"),
        (not config.output.bias, "a bias on its output map"),
    ]
    if family == "gpt2":
        return [
            *both,
            (config.positions.kind == "learned", f"{config.positions.kind} positions"),
            (norm == "layer", f"{norm} norms"),
            _known_activation(config),
            _ungrouped_heads(config),
            (config.output.tied != "none", "an output map that is not tied"),
        ]
    return [
        *both,
        (norm == "rms", f"{norm} norms"),
        (activation == "swiglu", f"the activation {activation}"),
        (
            config.attention.bias == config.attention.output_bias,
            "biases in some attention maps and not in others",
        ),
    ]


def _gpt2_config(config: ModelConfig) -> dict[str, Any]:
    return {
        "architectures": ["GPT2LMHeadModel"],
        "n_positions": config.max_len,
        "n_embd": config.d_model,
        "n_layer": config.n_layers,
        "n_head": config.attention.n_heads,
        "n_inner": config.feed_forward.d_ff,
        "activation_function": _ACTIVATIONS[config.feed_forward.activation],
        "layer_norm_epsilon": config.block.norm_eps,
        "resid_pdrop": config.block.dropout,
        "embd_pdrop": config.block.dropout,
        "attn_pdrop": config.attention.dropout,
    }


def _llama_config(config: ModelConfig) -> dict[str, Any]:
    attention = config.attention
    return {
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
    }


def _gpt2_state(ours: dict[str, Tensor]) -> dict[str, Tensor]:
    """GPT-2 stores matrices transposed, and each of its maps has a bias."""
    whole = dict(ours)
    for name, tensor in ours.items():
        if re.search(r"(attention\.to_\w+|expand|contract)\.weight$", name):
            bias = name.removesuffix("weight") + "bias"
            whole.setdefault(bias, torch.zeros(len(tensor)))
    return {
        f"transformer.{name}": tensor.T if ".c_" in name and name.endswith("weight") else tensor
        for name, tensor in rename_back(whole, GPT2).items()
    }


# --- BERT ---


def _bert_requirements(config: ModelConfig) -> list[Requirement]:
    output = config.output
    has_head = output.transform and output.bias and output.tied != "none"
    return [
        _ungrouped_heads(config),
        (config.attention.bias and config.attention.output_bias, "attention maps without bias"),
        (config.feed_forward.bias, "a feed-forward without bias"),
        (config.block.norm == "layer", f"{config.block.norm} norms"),
        (not config.block.norm_first, "norms before the sublayers (pre-norm)"),
        (not config.block.final_norm, "a norm after the last block"),
        (config.positions.kind == "learned", f"{config.positions.kind} positions"),
        (config.embedding.norm, "no norm on its embeddings"),
        (config.embedding.n_types > 0, "no type embeddings"),
        (not config.embedding.scale, "token vectors times √d_model"),
        _known_activation(config),
        (has_head or config.architecture == "encoder", "a different output layer"),
    ]


def _bert_config(config: ModelConfig, special: SpecialTokens) -> dict[str, Any]:
    masked = config.architecture == "masked_language_model"
    return {
        "architectures": ["BertForMaskedLM" if masked else "BertModel"],
        "hidden_size": config.d_model,
        "num_hidden_layers": config.n_layers,
        "num_attention_heads": config.attention.n_heads,
        "intermediate_size": config.feed_forward.d_ff,
        "hidden_act": _ACTIVATIONS[config.feed_forward.activation],
        "max_position_embeddings": config.max_len,
        "type_vocab_size": config.embedding.n_types,
        "layer_norm_eps": config.block.norm_eps,
        "hidden_dropout_prob": config.block.dropout,
        "attention_probs_dropout_prob": config.attention.dropout,
        "pad_token_id": special.pad if special.pad is not None else config.pad_id,
        "tie_word_embeddings": True,
    }
