"""BERT, GPT-2 and Llama, under the names of Hugging Face, nanoGPT, minGPT and Meta.

State dicts in, our parameters out, and the config that goes with them. This file knows their names,
not their libraries: transformers need not be installed.
"""

from collections.abc import Mapping
from typing import Any, Literal

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
from glassformer.nn.models import Classifier, LanguageModel, MaskedLanguageModel, TextEncoder
from glassformer.nn.tensors import Tensor

# --- Hugging Face ---

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
BERT: Table = {
    "embeddings.word_embeddings.weight": "encoder.embedding.weight",
    "embeddings.position_embeddings.weight": "encoder.positions.table.weight",
    "embeddings.token_type_embeddings.weight": "encoder.types.weight",
    "embeddings.LayerNorm.*": "encoder.embedding_norm.*",
    "cls.predictions.transform.dense.*": "transform.*",
    "cls.predictions.transform.LayerNorm.*": "transform_norm.*",
    "cls.predictions.bias": "to_vocabulary.bias",
    "cls.predictions.decoder.*": "to_vocabulary.*",
    "pooler.dense.*": "transform.*",
    "classifier.*": "to_classes.*",
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
GPT2: Table = {
    "wte.weight": "decoder.embedding.weight",
    "wpe.weight": "decoder.positions.table.weight",
    "ln_f.*": "decoder.final_norm.*",
    "lm_head.weight": "to_vocabulary.weight",
    **in_blocks("h.#.", "decoder.blocks.#.", _GPT2_BLOCK),
}
_LLAMA_BLOCK: Table = {
    "self_attn.q_proj.*": "attention.to_queries.*",
    "self_attn.k_proj.*": "attention.to_keys.*",
    "self_attn.v_proj.*": "attention.to_values.*",
    "self_attn.o_proj.*": "attention.to_output.*",
    "mlp.gate_proj.*": "feed_forward.gate.*",
    "mlp.up_proj.*": "feed_forward.expand.*",
    "mlp.down_proj.*": "feed_forward.contract.*",
    "input_layernorm.weight": "attention_norm.weight",
    "post_attention_layernorm.weight": "feed_forward_norm.weight",
}
LLAMA: Table = {
    "embed_tokens.weight": "decoder.embedding.weight",
    "norm.weight": "decoder.final_norm.weight",
    "lm_head.weight": "to_vocabulary.weight",
    **in_blocks("layers.#.", "decoder.blocks.#.", _LLAMA_BLOCK),
}


def load_hugging_face_bert(
    model: MaskedLanguageModel | TextEncoder | Classifier, state: State
) -> None:
    """From a BertModel, BertForMaskedLM or BertForSequenceClassification.

    The pooler is ignored where ours has none.
    """
    plain = {_modern(name.removeprefix("bert.")): tensor for name, tensor in state.items()}
    unused = ["embeddings.position_ids", "cls.seq_relation"]
    if not isinstance(model, Classifier):
        unused.append("pooler.")
    if isinstance(model, TextEncoder):
        unused.append("cls.")
    if isinstance(model, MaskedLanguageModel):
        output = "cls.predictions.decoder."
        shared = _shared(model, plain, f"{output}weight", "embeddings.word_embeddings.weight")
        # The output bias is stored under two names, one parameter unless nothing is tied.
        twice = (
            f"{output}bias" if shared or f"{output}bias" not in plain else "cls.predictions.bias"
        )
        unused += [*shared, twice]
    fill(model, rename(without(plain, unused), BERT))


def _modern(name: str) -> str:
    """The first BERT files, bert-base-uncased among them, use older names for the norms."""
    return name.replace("LayerNorm.gamma", "LayerNorm.weight").replace(
        "LayerNorm.beta", "LayerNorm.bias"
    )


def load_hugging_face_gpt2(model: LanguageModel, state: State) -> None:
    """From a GPT2Model or GPT2LMHeadModel, whose matrices are stored transposed.

    A separate output matrix can be loaded into a model built with output.tied = "none".
    """
    load_gpt2(
        model,
        {
            name: tensor.T if ".c_" in name and name.endswith("weight") else tensor
            for name, tensor in state.items()
        },
    )


def load_gpt2(model: LanguageModel, state: State) -> None:
    """From GPT-2's names with matrices not transposed, as in nanoGPT and minGPT."""
    masks = (".attn.bias", ".attn.masked_bias")  # old files store the causal mask
    plain = {
        name.removeprefix("transformer."): tensor
        for name, tensor in state.items()
        if not name.endswith(masks)
    }
    unused = _shared(model, plain, "lm_head.weight", "wte.weight")
    fill(model, rename(without(plain, unused), GPT2))


def load_hugging_face_llama(model: LanguageModel, state: State) -> None:
    """From a LlamaForCausalLM, or from a LlamaModel (no lm_head) if the output is tied."""
    plain = {name.removeprefix("model."): tensor for name, tensor in state.items()}
    unused = ["rotary_emb.", *_shared(model, plain, "lm_head.weight", "embed_tokens.weight")]
    fill(model, rename(without(plain, unused), LLAMA))


def _shared(
    model: LanguageModel | MaskedLanguageModel, state: State, output: str, table: str
) -> list[str]:
    """The name of the output matrix if it is to be ignored, because our module ties it.

    An output matrix that differs from the token table is an error.
    """
    if model.config.output.tied == "none":
        return []
    if output in state and table in state and not torch.equal(state[output], state[table]):
        raise CheckpointError(
            f"the weights have a separate output matrix ({output}), but the module ties it to the "
            "token table; build the model with output.tied = none"
        )
    return [output]


def load_hugging_face(model: nn.Module, model_type: str, state: State) -> None:
    """From a state dict of the family for which `config_from_hugging_face` made the config."""
    if model_type == "bert" and isinstance(model, MaskedLanguageModel | TextEncoder | Classifier):
        load_hugging_face_bert(model, state)
    elif model_type == "gpt2" and isinstance(model, LanguageModel):
        load_hugging_face_gpt2(model, state)
    elif model_type == "llama" and isinstance(model, LanguageModel):
        load_hugging_face_llama(model, state)
    else:
        raise ConfigError(f"{model_type} weights do not fit a {type(model).__name__}")


def config_from_hugging_face(config: Mapping[str, Any]) -> ModelConfig:
    """Our config for a Hugging Face `config.json` of type bert, gpt2 or llama.

    A setting that changes the arithmetic and that we do not support is an error.
    """
    family = config.get("model_type")
    if not isinstance(family, str) or family not in _CONFIGS:
        raise ConfigError(f"model_type must be {' or '.join(_CONFIGS)}, got {family!r}")
    try:
        return _CONFIGS[family](config)
    except KeyError as missing:
        raise ConfigError(f"the config of this {family} model lacks {missing}") from None
    except (TypeError, OverflowError) as error:  # null, or a list, instead of a number
        raise ConfigError(
            f"the config of this {family} model has a setting of an unexpected type: {error}"
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
    if "BertForSequenceClassification" in (c.get("architectures") or []):
        _refuse_others(c, problem_type=("single_label_classification", None))
        n_classes = len(c.get("id2label") or "01")  # left out where there are two
        if n_classes < 2:
            raise ConfigError("a BERT with one output gives a number, and ours gives classes")
        head = OutputConfig(n_classes=n_classes, pooling="first", bias=True, transform=True)
        return ours.with_(architecture="classifier", output=head)
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
    """GPT-2 and BERT tie the output to the token table unless their config says no."""
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


# --- nanoGPT, minGPT, llama2.c ---
# nanoGPT and minGPT use GPT-2's names with matrices not transposed; llama2.c uses Meta's.

_META_LLAMA_BLOCK: Table = {
    "attention.wq.weight": "attention.to_queries.weight",
    "attention.wk.weight": "attention.to_keys.weight",
    "attention.wv.weight": "attention.to_values.weight",
    "attention.wo.weight": "attention.to_output.weight",
    "feed_forward.w1.weight": "feed_forward.gate.weight",
    "feed_forward.w2.weight": "feed_forward.contract.weight",
    "feed_forward.w3.weight": "feed_forward.expand.weight",
    "attention_norm.weight": "attention_norm.weight",
    "ffn_norm.weight": "feed_forward_norm.weight",
}
_META_LLAMA: Table = {
    "tok_embeddings.weight": "decoder.embedding.weight",
    "norm.weight": "decoder.final_norm.weight",
    "output.weight": "to_vocabulary.weight",
    **in_blocks("layers.#.", "decoder.blocks.#.", _META_LLAMA_BLOCK),
}


def plain_names(state: State) -> dict[str, Tensor]:
    """A state dict without the prefix that torch.compile adds to every name."""
    return {name.removeprefix("_orig_mod."): tensor for name, tensor in state.items()}


def config_from_nanogpt(
    state: State, n_heads: int, activation: Literal["gelu", "gelu_tanh"] = "gelu"
) -> ModelConfig:
    """Our config for a nanoGPT or minGPT state dict, from its shapes and the number of heads.

    nanoGPT's GELU is exact; minGPT's, and nanoGPT's until 2023, is the tanh approximation.
    """
    table, positions = _matrix(state, "transformer.wte.weight"), _matrix(state, "transformer.wpe.")
    output = _matrix(state, "lm_head.weight")
    blocks = [name.split(".") for name in state if name.startswith("transformer.h.")]
    has_bias = "transformer.h.0.attn.c_attn.bias" in state
    is_tied = table.dtype == output.dtype and torch.equal(table, output)
    return presets.gpt2(
        vocab_size=table.size(0),
        d_model=table.size(1),
        n_heads=n_heads,
        n_layers=len({parts[2] for parts in blocks}),
        max_len=positions.size(0),
        dropout=0.0,
    ).with_(
        feed_forward__activation=activation,
        feed_forward__bias=has_bias,
        attention__bias=has_bias,
        attention__output_bias=has_bias,
        output__tied="output" if is_tied else "none",
    )


def _matrix(state: State, name: str) -> Tensor:
    found = next((tensor for key, tensor in state.items() if key.startswith(name)), None)
    if found is None or found.dim() != 2:
        raise CheckpointError(f"these are not the weights of a nanoGPT or minGPT: no {name}")
    return found


def load_nanogpt_weights(model: LanguageModel, state: State) -> None:
    """From the state dict of a nanoGPT or minGPT; the config is from `config_from_nanogpt`.

    A norm without bias, which nanoGPT allows, becomes one whose bias is 0.
    """
    named = plain_names(state)
    gains = [name for name in named if name.endswith(("ln_1.weight", "ln_2.weight", "ln_f.weight"))]
    zeros = {
        name.replace("weight", "bias"): torch.zeros_like(named[name])
        for name in gains
        if name.replace("weight", "bias") not in named
    }
    load_gpt2(model, {**named, **zeros})


def load_meta_llama(model: LanguageModel, state: State) -> None:
    """From the state dict of Meta's Llama or of llama2.c.

    They rotate adjacent dimensions of a head, we (like Hugging Face) rotate i with i + E/2. The
    rows of W_Q and W_K are reordered accordingly, which changes no score.
    """
    heads = model.config.attention
    rotated = {
        "attention.wq.weight": heads.n_heads,
        "attention.wk.weight": heads.n_kv_heads or heads.n_heads,
    }
    ordered = {
        name: _even_then_odd(tensor, n, name)
        if (n := next((n for end, n in rotated.items() if name.endswith(end)), 0))
        else tensor
        for name, tensor in plain_names(state).items()
    }
    unused = ["freqs_", "rope."]
    if model.config.output.tied != "none":
        unused.append("output.")
    fill(model, rename(without(ordered, unused), _META_LLAMA))


def _even_then_odd(matrix: Tensor, n_heads: int, name: str) -> Tensor:
    """The rows of each head reordered: even ones first, then odd ones."""
    if matrix.dim() != 2 or matrix.size(0) % (2 * n_heads):
        raise CheckpointError(
            f"the weights do not fit the module: {name} must hold {n_heads} heads of an even "
            f"width, got {tuple(matrix.shape)}"
        )
    pairs = matrix.reshape(n_heads, -1, 2, matrix.size(1))
    return pairs.transpose(1, 2).reshape(matrix.shape)
