"""A model as a Hugging Face folder that `AutoModel…from_pretrained` opens without our code.

    encoder-decoder         Marian (post-norm) or Pegasus (pre-norm)
    language model          GPT-2, or Llama with rotary positions
    encoder, masked words   BERT

transformers is imported to check the result.
"""

import json
import re
from pathlib import Path
from typing import Any, Literal

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from glassformer.checkpoint import Checkpoint
from glassformer.errors import ExportError, Fragment, NotInstalledError
from glassformer.export.compatibility import (
    ANY_COUNT,
    NO,
    YES,
    Allowed,
    agreement,
    decoder_depth,
    padded,
    plain,
    probe_ids,
    require,
    tokenizer_of_both,
    ungrouped_heads,
)
from glassformer.nn import LanguageModel, MaskedLanguageModel, ModelConfig, Seq2Seq, TextEncoder
from glassformer.nn.foreign import NAMES, rename_back
from glassformer.text import SpecialTokens


def check(config: ModelConfig) -> None:
    """Refuse a model that no architecture of theirs can represent."""
    family_of(config)


def write(checkpoint: Checkpoint, folder: Path) -> None:
    """Write config.json, model.safetensors and, for subwords, tokenizer.json."""
    _transformers()
    config, state = _converted(checkpoint)
    save_file(state, folder / "model.safetensors", metadata={"format": "pt"})
    _json(folder / "config.json", config)
    if isinstance(checkpoint.model, Seq2Seq):
        ids = {key: value for key, value in config.items() if key.endswith("_token_id")}
        _json(folder / "generation_config.json", {"num_beams": 4, "early_stopping": True} | ids)
    _write_tokenizer(checkpoint, folder)


def _write_tokenizer(checkpoint: Checkpoint, folder: Path) -> None:
    """Subword tokenizers are in their format already; words and characters are in ours."""
    tokenizer = tokenizer_of_both(checkpoint)
    if tokenizer is None:
        return
    tokenizer.save(folder / "tokenizer.json")
    special = tokenizer.special
    if isinstance(checkpoint.model, Seq2Seq) and special.end is not None:
        import tokenizers
        from tokenizers.processors import TemplateProcessing

        end = tokenizer.token(special.end)  # our translators read the text, then the end token
        theirs = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
        theirs.post_processor = TemplateProcessing(f"$A {end}", None, [(end, special.end)])
        theirs.save(str(folder / "tokenizer.json"))
    names = {"pad": special.pad, "unk": special.unknown, "bos": special.start, "eos": special.end}
    tokens = {f"{k}_token": tokenizer.token(i) for k, i in names.items() if i is not None}
    _json(
        folder / "tokenizer_config.json",
        {"tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": False}
        | tokens,
    )


def verify(checkpoint: Checkpoint, folder: Path) -> str:
    """Open the folder as any user would and compare outputs; returns the result in words."""
    theirs = _open(checkpoint.model, folder)
    ids, is_token = padded(probe_ids(checkpoint, 5))
    known = {"input_ids": ids, "attention_mask": is_token.long()}
    with torch.inference_mode():
        if isinstance(checkpoint.model, Seq2Seq):
            target = ids[:, : max(1, ids.size(1) // 2)]
            ours = checkpoint.model(ids, target, is_token)
            other = theirs(**known, decoder_input_ids=target).logits
        else:
            ours = checkpoint.model(ids, is_token)
            output = theirs(**known)
            other = (
                output.last_hidden_state if hasattr(output, "last_hidden_state") else output.logits
            )
    if not isinstance(checkpoint.model, Seq2Seq):  # outputs at padding are meaningless
        ours, other = ours[is_token], other[is_token]
    return agreement("transformers", [float((ours - other).abs().max() / ours.abs().max())], 1e-4)


def _converted(checkpoint: Checkpoint) -> tuple[dict[str, Any], dict[str, Tensor]]:
    model = checkpoint.model
    tokenizer = checkpoint.target_tokenizer or checkpoint.tokenizer
    special = tokenizer.special if tokenizer is not None else SpecialTokens()
    if isinstance(model, Seq2Seq) and special.start is None:
        raise ExportError("a translator needs a start token; the vocabulary of this one has none")
    return hugging_face_config(checkpoint.config, special), hugging_face_state(model)


def _open(model: object, folder: Path) -> Any:
    transformers = _transformers()
    kinds = (
        (Seq2Seq, transformers.AutoModelForSeq2SeqLM),
        (LanguageModel, transformers.AutoModelForCausalLM),
        (MaskedLanguageModel, transformers.AutoModelForMaskedLM),
        (TextEncoder, transformers.AutoModel),
    )
    opener = next(theirs for ours, theirs in kinds if isinstance(model, ours))
    logging = transformers.utils.logging
    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        return opener.from_pretrained(folder, local_files_only=True).eval()
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()


def _transformers() -> Any:
    try:
        import transformers
    except ImportError:
        raise NotInstalledError(
            "this export needs transformers to check itself: pip install 'glassformer[hf]'"
        ) from None
    return transformers


def _json(file: Path, data: dict[str, Any]) -> None:
    file.write_text(json.dumps(data, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


# --- our models as their architectures ---
# Which one fits, its config.json, its parameter names.

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
    elif config.architecture == "language_model":
        family = "llama" if config.positions.kind == "rotary" else "gpt2"
    elif config.architecture in ("encoder", "masked_language_model"):
        family = "bert"
    else:
        raise ExportError(
            "no Hugging Face architecture corresponds to our {architecture}",
            architecture=config.architecture,
        )
    title = Fragment.of(
        "{name}, the corresponding Hugging Face architecture,", name=_TITLES[family]
    )
    require(title, config, {**plain(config), **_allowed(config, family)})
    return family


def _allowed(config: ModelConfig, family: Family) -> Allowed:
    """What each architecture has: the models of ours that mix them fit none."""
    if family in ("marian", "pegasus"):
        pre_norm = family == "pegasus"
        return {
            **ungrouped_heads(config),
            "block.norm": ("layer",),
            "block.norm_eps": (1e-5,),
            "block.final_norm": (pre_norm,),
            "positions.kind": ("sinusoidal",),
            "positions.base": (10_000,),
            "d_model": range(2, 2**31, 2),
            "embedding.norm": NO,
            "embedding.n_types": (0,),
            "output.flattened": NO,
            "output.tied": ("all",) if pre_norm else ("output", "all"),
            "feed_forward.activation": [*_ACTIVATIONS],
        }
    if family == "bert":
        head: Allowed = {
            "output.transform": YES, "output.bias": YES, "output.tied": ("output", "all")
        }  # fmt: skip
        return {
            **ungrouped_heads(config),
            **(head if config.architecture == "masked_language_model" else {}),
            "attention.bias": YES,
            "attention.output_bias": YES,
            "feed_forward.bias": YES,
            "block.norm": ("layer",),
            "block.norm_first": NO,
            "block.final_norm": NO,
            "positions.kind": ("learned",),
            "embedding.norm": YES,
            "embedding.n_types": ANY_COUNT,
            "embedding.scale": NO,
            "feed_forward.activation": [*_ACTIVATIONS],
        }
    gpt: Allowed = {
        "block.norm_first": YES,
        "block.final_norm": YES,
        "embedding.scale": NO,
        "embedding.norm": NO,
        "embedding.n_types": (0,),
        "output.bias": NO,
    }
    if family == "llama":
        return {
            **gpt,
            "block.norm": ("rms",),
            "feed_forward.activation": ("swiglu",),
            "attention.output_bias": (config.attention.bias,),
        }
    return {
        **gpt,
        **ungrouped_heads(config),
        "positions.kind": ("learned",),
        "block.norm": ("layer",),
        "feed_forward.activation": [*_ACTIVATIONS],
        "output.tied": ("output", "all"),
    }


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
        state = _with_prefix("model.", rename_back(state, NAMES["llama"]), head="lm_head.")
    else:
        prefix = "bert." if config.architecture == "masked_language_model" else ""
        state = _with_prefix(prefix, rename_back(state, NAMES["bert"]), head="cls.")
    return {name: tensor.contiguous() for name, tensor in state.items()}


def _with_prefix(prefix: str, state: dict[str, Tensor], head: str) -> dict[str, Tensor]:
    """The names of the body with a prefix, those of the head without."""
    return {
        name if name.startswith(head) else prefix + name: tensor for name, tensor in state.items()
    }


def _with_biases(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """Biases of zero where our maps have none: those of Marian, Pegasus and GPT-2 always do."""
    maps = re.compile(r"(attention\.to_\w+|expand|contract)\.weight$")
    zeros = {
        name.removesuffix("weight") + "bias": torch.zeros(len(tensor))
        for name, tensor in state.items()
        if maps.search(name)
    }
    return zeros | state


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
        for name, tensor in _with_biases(ours).items()
        if not name.startswith("to_vocabulary")
    }
    if config.output.tied == "all":  # one table, under the name that all others are tied to
        state["model.shared.weight"] = state.pop("model.encoder.embed_tokens.weight")
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
    """GPT-2 stores matrices transposed."""
    return {
        f"transformer.{name}": tensor.T if ".c_" in name and name.endswith("weight") else tensor
        for name, tensor in rename_back(_with_biases(ours), NAMES["gpt2"]).items()
    }


# --- BERT ---


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
