"""An encoder or masked-word model as a Hugging Face BERT: names and config.

Knows names, not the transformers library.
"""

import re
from typing import Any

import torch
from torch import Tensor

from glassformer.export.compatibility import demand, plain_attention, plain_feed_forward
from glassformer.nn import MaskedLanguageModel, ModelConfig, TextEncoder
from glassformer.text import SpecialTokens

_NAMES = (
    (r"^encoder\.embedding\.", "embeddings.word_embeddings."),
    (r"^encoder\.positions\.table\.", "embeddings.position_embeddings."),
    (r"^encoder\.types\.", "embeddings.token_type_embeddings."),
    (r"^encoder\.embedding_norm\.", "embeddings.LayerNorm."),
    (r"^encoder\.blocks\.", "encoder.layer."),
    (r"(?<=\d\.)attention_norm", "attention.output.LayerNorm"),
    (r"feed_forward_norm", "output.LayerNorm"),
    (r"attention\.to_queries", "attention.self.query"),
    (r"attention\.to_keys", "attention.self.key"),
    (r"attention\.to_values", "attention.self.value"),
    (r"attention\.to_output", "attention.output.dense"),
    (r"feed_forward\.expand", "intermediate.dense"),
    (r"feed_forward\.contract", "output.dense"),
)
_HEAD = (
    (r"^transform\.", "cls.predictions.transform.dense."),
    (r"^transform_norm\.", "cls.predictions.transform.LayerNorm."),
    (r"^to_vocabulary\.bias", "cls.predictions.bias"),
)
_ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "gelu_tanh": "gelu_new"}


def check(config: ModelConfig) -> None:
    """Refuse what BERT cannot hold."""
    masked = config.architecture == "masked_language_model"
    demand(
        "BERT, the Hugging Face architecture of this kind,",
        [
            *plain_attention(config),
            *plain_feed_forward(config),
            (config.attention.n_kv_heads in (None, config.attention.n_heads), "grouped heads"),
            (config.attention.bias and config.attention.output_bias, "attention maps without bias"),
            (config.feed_forward.bias, "a feed-forward without bias"),
            (config.block.norm == "layer", f"{config.block.norm} norms"),
            (not config.block.norm_first, "norms before the sublayers (pre-norm)"),
            (not config.block.final_norm, "a norm after the last block"),
            (config.positions.kind == "learned", f"{config.positions.kind} positions"),
            (config.embedding.norm, "no norm on its embeddings"),
            (config.embedding.n_types > 0, "no type embeddings"),
            (not config.embedding.scale, "token vectors times √d_model"),
            (
                config.feed_forward.activation in _ACTIVATIONS,
                f"the activation {config.feed_forward.activation}",
            ),
            (
                not masked
                or (
                    config.output.transform and config.output.bias and config.output.tied != "none"
                ),
                "an output layer made otherwise",
            ),
        ],
    )


def hugging_face_config(config: ModelConfig, special: SpecialTokens) -> dict[str, Any]:
    """The config.json of the same model."""
    check(config)
    masked = config.architecture == "masked_language_model"
    return {
        "model_type": "bert",
        "architectures": ["BertForMaskedLM" if masked else "BertModel"],
        "vocab_size": config.vocab_size,
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
        "dtype": "float32",
    }


@torch.no_grad()
def hugging_face_state(model: TextEncoder | MaskedLanguageModel) -> dict[str, Tensor]:
    """The parameters under their names."""
    masked = isinstance(model, MaskedLanguageModel)
    state = {}
    for name, parameter in model.named_parameters():
        theirs = _rename(name, _HEAD)
        if theirs == name:
            theirs = ("bert." if masked else "") + _rename(name, _NAMES)
        state[theirs] = parameter.detach().cpu().contiguous()
    return state


def _rename(name: str, names: tuple[tuple[str, str], ...]) -> str:
    for ours, theirs in names:
        name = re.sub(ours, theirs, name)
    return name
