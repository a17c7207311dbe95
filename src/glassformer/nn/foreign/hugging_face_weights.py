"""From Hugging Face's BERT, GPT-2 and Llama: their state dicts and their config.json.

Knows their names, not their library: transformers need not be installed.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from glassformer.errors import CheckpointError, ConfigError
from glassformer.nn import presets
from glassformer.nn.config import ModelConfig, OutputConfig
from glassformer.nn.foreign.torch_nn import (
    State,
    Table,
    fill,
    in_blocks,
    rename,
    three_maps,
    without,
)
from glassformer.nn.models import LanguageModel, MaskedLanguageModel, TextEncoder

_BERT_BLOCK: Table = {
    "attention.self.query.*": "attention.to_queries.*",
    "attention.self.key.*": "attention.to_keys.*",
    "attention.self.value.*": "attention.to_values.*",
    "attention.output.dense.*": "attention.to_output.*",
    "attention.output.LayerNorm.*": "attention_norm.*",
    "intermediate.dense.*": "feed_forward.expand.*",
    "output.dense.*": "feed_forward.contract.*",
    "output.LayerNorm.*": "feed_forward_norm.*",
}
_BERT: Table = {
    "embeddings.word_embeddings.weight": "encoder.embedding.weight",
    "embeddings.position_embeddings.weight": "encoder.positions.table.weight",
    "embeddings.token_type_embeddings.weight": "encoder.types.weight",
    "embeddings.LayerNorm.*": "encoder.embedding_norm.*",
    "cls.predictions.transform.dense.*": "transform.*",
    "cls.predictions.transform.LayerNorm.*": "transform_norm.*",
    "cls.predictions.bias": "to_vocabulary.bias",
    "cls.predictions.decoder.*": "to_vocabulary.*",
    **in_blocks("encoder.layer.#.", "encoder.blocks.#.", _BERT_BLOCK),
}
_GPT2_BLOCK: Table = {
    "ln_1.*": "attention_norm.*",
    "attn.c_attn.*": three_maps("attention"),
    "attn.c_proj.*": "attention.to_output.*",
    "ln_2.*": "feed_forward_norm.*",
    "mlp.c_fc.*": "feed_forward.expand.*",
    "mlp.c_proj.*": "feed_forward.contract.*",
}
_GPT2: Table = {
    "wte.weight": "decoder.embedding.weight",
    "wpe.weight": "decoder.positions.table.weight",
    "ln_f.*": "decoder.final_norm.*",
    "lm_head.weight": "to_vocabulary.weight",
    **in_blocks("h.#.", "decoder.blocks.#.", _GPT2_BLOCK),
}
_LLAMA_BLOCK: Table = {
    "self_attn.q_proj.weight": "attention.to_queries.weight",
    "self_attn.k_proj.weight": "attention.to_keys.weight",
    "self_attn.v_proj.weight": "attention.to_values.weight",
    "self_attn.o_proj.weight": "attention.to_output.weight",
    "mlp.gate_proj.weight": "feed_forward.gate.weight",
    "mlp.up_proj.weight": "feed_forward.expand.weight",
    "mlp.down_proj.weight": "feed_forward.contract.weight",
    "input_layernorm.weight": "attention_norm.weight",
    "post_attention_layernorm.weight": "feed_forward_norm.weight",
}
_LLAMA: Table = {
    "embed_tokens.weight": "decoder.embedding.weight",
    "norm.weight": "decoder.final_norm.weight",
    "lm_head.weight": "to_vocabulary.weight",
    **in_blocks("layers.#.", "decoder.blocks.#.", _LLAMA_BLOCK),
}


def load_hugging_face_bert(model: MaskedLanguageModel | TextEncoder, state: State) -> None:
    """From a BertModel or BertForMaskedLM. The pooler, which neither of ours has, is left out."""
    plain = {_modern(name.removeprefix("bert.")): tensor for name, tensor in state.items()}
    unused = ["pooler.", "embeddings.position_ids", "cls.seq_relation"]
    if isinstance(model, TextEncoder):
        unused.append("cls.")
    else:
        output = "cls.predictions.decoder."
        shared = _shared(model, plain, f"{output}weight", "embeddings.word_embeddings.weight")
        # The output's bias has two names. They are one parameter, unless nothing is tied.
        twice = (
            f"{output}bias" if shared or f"{output}bias" not in plain else "cls.predictions.bias"
        )
        unused += [*shared, twice]
    fill(model, rename(without(plain, unused), _BERT))


def _modern(name: str) -> str:
    """The first BERT files, bert-base-uncased among them, name a norm's parameters otherwise."""
    return name.replace("LayerNorm.gamma", "LayerNorm.weight").replace(
        "LayerNorm.beta", "LayerNorm.bias"
    )


def load_hugging_face_gpt2(model: LanguageModel, state: State) -> None:
    """From a GPT2Model or GPT2LMHeadModel, whose matrices are stored transposed.

    An output matrix of its own has a place where the model is built with output.tied = "none".
    """
    load_gpt2(
        model,
        {
            name: tensor.T if ".c_" in name and name.endswith("weight") else tensor
            for name, tensor in state.items()
        },
    )


def load_gpt2(model: LanguageModel, state: State) -> None:
    """From GPT-2's names with upright matrices, as nanoGPT and minGPT have them."""
    masks = (".attn.bias", ".attn.masked_bias")  # the causal mask, which old files store
    plain = {
        name.removeprefix("transformer."): tensor
        for name, tensor in state.items()
        if not name.endswith(masks)
    }
    unused = _shared(model, plain, "lm_head.weight", "wte.weight")
    fill(model, rename(without(plain, unused), _GPT2))


def load_hugging_face_llama(model: LanguageModel, state: State) -> None:
    """From a LlamaForCausalLM; without lm_head, from a LlamaModel with a tied output."""
    plain = {name.removeprefix("model."): tensor for name, tensor in state.items()}
    unused = ["rotary_emb.", *_shared(model, plain, "lm_head.weight", "embed_tokens.weight")]
    fill(model, rename(without(plain, unused), _LLAMA))


def _shared(
    model: LanguageModel | MaskedLanguageModel, state: State, output: str, table: str
) -> list[str]:
    """The output matrix, to be left out where our module shares the token table with it.

    It may be left out only where it equals that table.
    """
    if model.config.output.tied == "none":
        return []
    if output in state and table in state and not torch.equal(state[output], state[table]):
        raise CheckpointError(
            f"the weights have an output matrix of their own ({output}), our module shares the "
            "token table with it; build it with output.tied = none"
        )
    return [output]


def load_hugging_face(model: nn.Module, model_type: str, state: State) -> None:
    """From the state dict of the family that `config_from_hugging_face` gave the config for."""
    if model_type == "bert" and isinstance(model, MaskedLanguageModel | TextEncoder):
        load_hugging_face_bert(model, state)
    elif model_type == "gpt2" and isinstance(model, LanguageModel):
        load_hugging_face_gpt2(model, state)
    elif model_type == "llama" and isinstance(model, LanguageModel):
        load_hugging_face_llama(model, state)
    else:
        raise ConfigError(f"{model_type} weights do not fit a {type(model).__name__}")


def config_from_hugging_face(config: Mapping[str, Any]) -> ModelConfig:
    """Our config for a Hugging Face `config.json` of type bert, gpt2 or llama.

    A setting that would change the arithmetic and that we do not have is refused.
    """
    family = config.get("model_type")
    if not isinstance(family, str) or family not in _CONFIGS:
        raise ConfigError(f"model_type must be {' or '.join(_CONFIGS)}, got {family!r}")
    try:
        return _CONFIGS[family](config)
    except KeyError as missing:
        raise ConfigError(f"the config of this {family} model lacks {missing}") from None
    except (TypeError, OverflowError) as error:  # null, or a list, for a number
        raise ConfigError(
            f"the config of this {family} model has a setting of another kind than expected: "
            f"{error}"
        ) from None


def _bert_config(c: Mapping[str, Any]) -> ModelConfig:
    _refuse_others(
        c,
        hidden_act=("gelu",),
        position_embedding_type=("absolute", None),
        is_decoder=(False, None),
        tie_word_embeddings=(True, False, None),
    )
    ours = presets.bert(
        vocab_size=c["vocab_size"],
        d_model=c["hidden_size"],
        n_heads=c["num_attention_heads"],
        n_layers=c["num_hidden_layers"],
        d_ff=c["intermediate_size"],
        max_len=c["max_position_embeddings"],
        dropout=c.get("hidden_dropout_prob", 0.1),
        pad_id=c.get("pad_token_id"),
    ).with_(
        block__norm_eps=c.get("layer_norm_eps", 1e-12),
        attention__dropout=c.get("attention_probs_dropout_prob", 0.1),
        embedding__n_types=c.get("type_vocab_size", 2),
        output__tied=_tied(c),
    )
    if "BertForMaskedLM" in (c.get("architectures") or []):
        return ours
    return ours.with_(architecture="encoder", output=OutputConfig())


def _gpt2_config(c: Mapping[str, Any]) -> ModelConfig:
    _refuse_others(
        c,
        activation_function=("gelu_new", None),
        n_inner=(4 * c["n_embd"], None),
        scale_attn_weights=(True, None),
        scale_attn_by_inverse_layer_idx=(False, None),
        add_cross_attention=(False, None),
        tie_word_embeddings=(True, False, None),
    )
    return presets.gpt2(
        vocab_size=c["vocab_size"],
        d_model=c["n_embd"],
        n_heads=c["n_head"],
        n_layers=c["n_layer"],
        max_len=c["n_positions"],
        dropout=c.get("resid_pdrop", 0.1),
    ).with_(
        block__norm_eps=c.get("layer_norm_epsilon", 1e-5),
        attention__dropout=c.get("attn_pdrop", 0.1),
        output__tied=_tied(c),
    )


def _tied(c: Mapping[str, Any]) -> str:
    """Whether the output map is the token table: so it is in GPT-2 and BERT, unless they say no."""
    return "none" if c.get("tie_word_embeddings") is False else "output"


def _llama_config(c: Mapping[str, Any]) -> ModelConfig:
    rope = c.get("rope_parameters") or c.get("rope_scaling") or {}
    if not isinstance(rope, Mapping):
        raise ConfigError(f"rope_parameters must be an object with settings, got {rope!r}")
    _refuse_others(c, hidden_act=("silu",), attention_bias=(False, None), mlp_bias=(False, None))
    _refuse_others(rope, rope_type=("default", None), type=("default", None))  # new and old name
    _refuse_others({**c, **rope}, partial_rotary_factor=(1.0, None))
    return presets.llama(
        vocab_size=c["vocab_size"],
        d_model=c["hidden_size"],
        n_heads=c["num_attention_heads"],
        n_kv_heads=c.get("num_key_value_heads"),
        n_layers=c["num_hidden_layers"],
        d_ff=c["intermediate_size"],
        max_len=c["max_position_embeddings"],
        base=rope.get("rope_theta") or c.get("rope_theta") or 10_000.0,
    ).with_(
        block__norm_eps=c.get("rms_norm_eps", 1e-6),
        attention__dropout=c.get("attention_dropout") or 0.0,
        attention__d_head=c.get("head_dim"),
        output__tied="output" if c.get("tie_word_embeddings") else "none",
    )


_CONFIGS = {"bert": _bert_config, "gpt2": _gpt2_config, "llama": _llama_config}


def _refuse_others(config: Mapping[str, Any], **allowed: tuple[Any, ...]) -> None:
    for name, values in allowed.items():
        if config.get(name) not in values:
            known = " or ".join(repr(v) for v in values if v is not None)
            raise ConfigError(f"{name} must be {known}, got {config.get(name)!r}")
