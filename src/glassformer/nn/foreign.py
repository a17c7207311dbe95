"""Foreign weights: state dicts of torch.nn, Hugging Face, nanoGPT and Llama for our modules.

One function each. They rename (`weight_names.toml`), split, transpose or reorder tensors; none
changes a number. A tensor without a place in our module, or a parameter without a tensor, is a
one-line error. No other library is needed: transformers need not be installed.

Any other model can be loaded with a table from its names to ours:

    table = {
        "tokens.weight": "decoder.embedding.weight",
        "out.weight": "to_vocabulary.weight",
        "norm.*": "decoder.final_norm.*",
        **in_blocks("layers.#.", "decoder.blocks.#.", {
            "qkv.*": three_maps("attention"),
            "proj.*": "attention.to_output.*",
            "norm1.*": "attention_norm.*",
            "norm2.*": "feed_forward_norm.*",
            "up.*": "feed_forward.expand.*",
            "down.*": "feed_forward.contract.*",
        }),
    }
    fill(model, rename(state, table))

`#` stands for a number and `*` for weight or bias; several of our names mean that their tensor
stacks those parts along its first axis. `model.named_parameters()` lists our names; `without` drops
tensors that have no place; matrices stored transposed must be transposed first.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import torch
from torch import nn

from glassformer.errors import CheckpointError, ConfigError, Fragment
from glassformer.nn import presets
from glassformer.nn.attention import MultiHeadAttention
from glassformer.nn.blocks import Stack
from glassformer.nn.config import ModelConfig, OutputConfig
from glassformer.nn.models import (
    Classifier,
    LanguageModel,
    MaskedLanguageModel,
    Seq2Seq,
    TextEncoder,
)
from glassformer.nn.tensors import Tensor

# --- renaming ---

StateDict = Mapping[str, Tensor]
Shapes = Mapping[str, Sequence[int]]
NameTable = Mapping[str, str | Sequence[str]]

_FILE = Path(__file__).with_name("weight_names.toml")
NAMES: dict[str, NameTable] = tomllib.loads(_FILE.read_text(encoding="utf-8"))
"""The tables of the programs below."""


def three_maps(prefix: str) -> tuple[str, ...]:
    """Our three names for one joint query-key-value tensor."""
    return tuple(f"{prefix}.to_{part}.*" for part in ("queries", "keys", "values"))


def in_blocks(theirs: str, ours: str, table: NameTable) -> dict[str, str | Sequence[str]]:
    """The table of one block, for every block of a stack."""
    return {
        theirs + name: ours + target
        if isinstance(target, str)
        else tuple(ours + part for part in target)
        for name, target in table.items()
    }


def rename(state: StateDict, table: NameTable) -> dict[str, Tensor]:
    """The tensors under our names."""
    patterns = [(_pattern(name), _as_tuple(targets)) for name, targets in table.items()]
    renamed: dict[str, Tensor] = {}
    for name, tensor in state.items():
        match, targets = next(((m, t) for p, t in patterns if (m := p.fullmatch(name))), (None, ()))
        if match is None:
            raise CheckpointError(
                "the weights contain {name!r}, which our module has no place for", name=name
            )
        if len(targets) > 1 and (tensor.dim() == 0 or tensor.size(0) % len(targets)):
            raise CheckpointError(
                "the weights do not fit the module: {name} must hold {parts} equal parts, got "
                "{shape}",
                name=name,
                parts=len(targets),
                shape=tuple(tensor.shape),
            )
        pieces = tensor.chunk(len(targets)) if len(targets) > 1 else (tensor,)
        for target, piece in zip(targets, pieces, strict=True):
            renamed[_put_in(target, match.groups())] = piece
    return renamed


def rename_back(state: StateDict, table: NameTable) -> dict[str, Tensor]:
    """The tensors under their names, by the first row for each; joint tensors are put together."""
    found: dict[str, dict[int, Tensor]] = {}
    for name, tensor in state.items():
        their_name, place = next(
            (_put_in(theirs, match.groups()), place)
            for theirs, ours in table.items()
            for place, part in enumerate(_as_tuple(ours))
            if (match := _pattern(part).fullmatch(name))
        )
        found.setdefault(their_name, {})[place] = tensor
    return {
        name: parts[0] if len(parts) == 1 else torch.cat([parts[place] for place in sorted(parts)])
        for name, parts in found.items()
    }


def below(state: StateDict, prefix: str) -> dict[str, Tensor]:
    """The tensors whose names start with a prefix, without that prefix."""
    return {n.removeprefix(prefix): t for n, t in state.items() if n.startswith(prefix)}


def without(state: StateDict, prefixes: Iterable[str]) -> dict[str, Tensor]:
    """The tensors whose names start with none of these prefixes."""
    return {n: t for n, t in state.items() if not n.startswith(tuple(prefixes))}


def check_fit(module: nn.Module, renamed: StateDict, keep: tuple[str, ...] = ()) -> None:
    """Check that each parameter, except those in `keep`, gets a tensor of its shape."""
    # A shared parameter is listed once, by its first name.
    ours = {name: parameter.shape for name, parameter in module.named_parameters()}
    check_shapes(ours, {name: tensor.shape for name, tensor in renamed.items()}, keep)
    for name, tensor in renamed.items():
        if not tensor.is_floating_point():
            raise CheckpointError(
                "the weights do not fit the module: {name} must hold floating-point numbers, got "
                "{dtype}",
                name=name,
                dtype=tensor.dtype,
            )


def check_shapes(ours: Shapes, renamed: Shapes, keep: tuple[str, ...] = ()) -> None:
    """Check that each of our names, except those in `keep`, is among theirs with its shape."""
    missing = [n for n in ours if n not in renamed and not any(map(n.startswith, keep))]
    unknown = [n for n in renamed if n not in ours]
    if missing or unknown:
        others = len(missing) + len(unknown) - 1
        raise CheckpointError(
            "the weights do not fit the module: they lack {name!r}{more}"
            if missing
            else "the weights do not fit the module: they contain {name!r}{more}",
            name=[*missing, *unknown][0],
            more=Fragment.of(" and {others} more", others=others) if others else "",
        )
    for name, shape in renamed.items():
        if tuple(ours[name]) != tuple(shape):
            raise CheckpointError(
                "the weights do not fit the module: {name} is {here} here and {there} there",
                name=name,
                here=tuple(ours[name]),
                there=tuple(shape),
            )


@torch.no_grad()
def fill(module: nn.Module, renamed: StateDict, keep: tuple[str, ...] = ()) -> None:
    """Copy tensors into parameters after checking that all fit: a module is never half loaded."""
    check_fit(module, renamed, keep)
    ours = dict(module.named_parameters())
    for name, tensor in renamed.items():
        ours[name].copy_(tensor)


def _as_tuple(targets: str | Sequence[str]) -> tuple[str, ...]:
    return (targets,) if isinstance(targets, str) else tuple(targets)


def _pattern(name: str) -> re.Pattern[str]:
    return re.compile(re.escape(name).replace(r"\#", r"(\d+)").replace(r"\*", r"(weight|bias)"))


def _put_in(target: str, found: tuple[str, ...]) -> str:
    parts = iter(found)
    return re.sub(r"[#*]", lambda _: next(parts), target)


# --- torch.nn ---

_KEPT = ("embedding.", "positions.")  # torch.nn's stacks have neither


def load_torch_multihead_attention(attention: MultiHeadAttention, state: StateDict) -> None:
    """From `nn.MultiheadAttention(...).state_dict()`."""
    fill(attention, rename(state, NAMES["torch_attention"]))


def load_torch_encoder(stack: Stack, state: StateDict) -> None:
    """From `nn.TransformerEncoder(...).state_dict()`; embeddings are left unchanged."""
    fill(stack, rename(state, NAMES["torch_encoder"]), _KEPT)


def load_torch_transformer(model: Seq2Seq, state: StateDict) -> None:
    """From `nn.Transformer(...).state_dict()`; embeddings and output are left unchanged."""
    for name in without(state, ("encoder.", "decoder.")):
        raise CheckpointError(
            "the weights contain {name!r}, which nn.Transformer does not have", name=name
        )
    encoder = rename(below(state, "encoder."), NAMES["torch_encoder"])
    decoder = rename(below(state, "decoder."), NAMES["torch_decoder"])
    check_fit(model.encoder, encoder, _KEPT)
    fill(model.decoder, decoder, _KEPT)
    fill(model.encoder, encoder, _KEPT)


# --- Hugging Face ---


def load_hugging_face_bert(
    model: MaskedLanguageModel | TextEncoder | Classifier, state: StateDict
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
    fill(model, rename(without(plain, unused), NAMES["bert"]))


def _modern(name: str) -> str:
    """The first BERT files, bert-base-uncased among them, use older names for the norms."""
    return name.replace("LayerNorm.gamma", "LayerNorm.weight").replace(
        "LayerNorm.beta", "LayerNorm.bias"
    )


def load_hugging_face_gpt2(model: LanguageModel, state: StateDict) -> None:
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


def load_gpt2(model: LanguageModel, state: StateDict) -> None:
    """From GPT-2's names with matrices not transposed, as in nanoGPT and minGPT."""
    masks = (".attn.bias", ".attn.masked_bias")  # old files store the causal mask
    plain = {
        name.removeprefix("transformer."): tensor
        for name, tensor in state.items()
        if not name.endswith(masks)
    }
    unused = _shared(model, plain, "lm_head.weight", "wte.weight")
    fill(model, rename(without(plain, unused), NAMES["gpt2"]))


def load_hugging_face_llama(model: LanguageModel, state: StateDict) -> None:
    """From a LlamaForCausalLM, or from a LlamaModel (no lm_head) if the output is tied."""
    plain = {name.removeprefix("model."): tensor for name, tensor in state.items()}
    unused = ["rotary_emb.", *_shared(model, plain, "lm_head.weight", "embed_tokens.weight")]
    fill(model, rename(without(plain, unused), NAMES["llama"]))


def _shared(
    model: LanguageModel | MaskedLanguageModel, state: StateDict, output: str, table: str
) -> list[str]:
    """The name of the output matrix if it is to be ignored, because our module ties it.

    An output matrix that differs from the token table is an error.
    """
    if model.config.output.tied == "none":
        return []
    if output in state and table in state and not torch.equal(state[output], state[table]):
        raise CheckpointError(
            "the weights have a separate output matrix ({output}), but the module ties it to the "
            "token table; build the model with output.tied = none",
            output=output,
        )
    return [output]


def load_hugging_face(model: nn.Module, model_type: str, state: StateDict) -> None:
    """From a state dict of the family for which `config_from_hugging_face` made the config."""
    if model_type == "bert" and isinstance(model, MaskedLanguageModel | TextEncoder | Classifier):
        load_hugging_face_bert(model, state)
    elif model_type == "gpt2" and isinstance(model, LanguageModel):
        load_hugging_face_gpt2(model, state)
    elif model_type == "llama" and isinstance(model, LanguageModel):
        load_hugging_face_llama(model, state)
    else:
        raise ConfigError(
            "{family} weights do not fit a {kind}", family=model_type, kind=type(model).__name__
        )


def config_from_hugging_face(config: Mapping[str, Any]) -> ModelConfig:
    """Our config for a Hugging Face `config.json` of type bert, gpt2 or llama.

    A setting that changes the arithmetic and that we do not support is an error.
    """
    family = config.get("model_type")
    if not isinstance(family, str) or family not in _CONFIGS:
        raise ConfigError(
            "model_type must be {names}, got {family!r:.60}",
            names=" or ".join(_CONFIGS),
            family=family,
        )
    try:
        return _CONFIGS[family](config)
    except KeyError as missing:
        raise ConfigError(
            "the config of this {family} model lacks {missing}", family=family, missing=missing
        ) from None
    except (TypeError, OverflowError) as error:  # null, or a list, instead of a number
        raise ConfigError(
            "the config of this {family} model has a setting of an unexpected type: {error}",
            family=family,
            error=error,
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
        raise ConfigError(
            "rope_parameters must be an object with settings, got {rope!r:.60}", rope=rope
        )
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
            raise ConfigError(
                "{name} must be {known}, got {value!r:.60}",
                name=name,
                known=known,
                value=config.get(name),
            )


# --- nanoGPT, minGPT, llama2.c ---
# nanoGPT and minGPT use GPT-2's names with matrices not transposed; llama2.c uses Meta's.


def plain_names(state: StateDict) -> dict[str, Tensor]:
    """A state dict without the prefix that torch.compile adds to every name."""
    return {name.removeprefix("_orig_mod."): tensor for name, tensor in state.items()}


def config_from_nanogpt(
    state: StateDict, n_heads: int, activation: Literal["gelu", "gelu_tanh"] = "gelu"
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


def _matrix(state: StateDict, name: str) -> Tensor:
    found = next((tensor for key, tensor in state.items() if key.startswith(name)), None)
    if found is None or found.dim() != 2:
        raise CheckpointError(
            "these are not the weights of a nanoGPT or minGPT: no {name}", name=name
        )
    return found


def load_nanogpt_weights(model: LanguageModel, state: StateDict) -> None:
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


def load_meta_llama(model: LanguageModel, state: StateDict) -> None:
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
    fill(model, rename(without(ordered, unused), NAMES["meta_llama"]))


def _even_then_odd(matrix: Tensor, n_heads: int, name: str) -> Tensor:
    """The rows of each head reordered: even ones first, then odd ones."""
    if matrix.dim() != 2 or matrix.size(0) % (2 * n_heads):
        raise CheckpointError(
            "the weights do not fit the module: {name} must hold {n_heads} heads of an even width, "
            "got {shape}",
            name=name,
            n_heads=n_heads,
            shape=tuple(matrix.shape),
        )
    pairs = matrix.reshape(n_heads, -1, 2, matrix.size(1))
    return pairs.transpose(1, 2).reshape(matrix.shape)
