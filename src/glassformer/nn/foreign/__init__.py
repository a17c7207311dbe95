"""Weights from elsewhere: state dicts of torch.nn, Hugging Face, nanoGPT, Llama into our modules.

One function each. All of them rename, split, transpose or reorder tensors; none changes a number. A
tensor that has no place here, or a parameter that gets none, is an error in one line.

A model that has no function here loads by a table of its own, from its names to ours:

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

`#` stands for a number and `*` for weight or bias; several names on our side mean that their tensor
holds those parts one above the other. `model.named_parameters()` lists our names; `without` leaves
out what has no place, and matrices that are stored transposed are turned before.
"""

from glassformer.nn.foreign.hugging_face_weights import (
    config_from_hugging_face,
    load_gpt2,
    load_hugging_face,
    load_hugging_face_bert,
    load_hugging_face_gpt2,
    load_hugging_face_llama,
)
from glassformer.nn.foreign.nanogpt import (
    config_from_nanogpt,
    load_meta_llama,
    load_nanogpt_weights,
)
from glassformer.nn.foreign.torch_nn import (
    State,
    Table,
    below,
    check_fit,
    fill,
    in_blocks,
    load_torch_encoder,
    load_torch_multihead_attention,
    load_torch_transformer,
    rename,
    three_maps,
    without,
)

__all__ = [
    "State",
    "Table",
    "below",
    "check_fit",
    "config_from_hugging_face",
    "config_from_nanogpt",
    "fill",
    "in_blocks",
    "load_gpt2",
    "load_hugging_face",
    "load_hugging_face_bert",
    "load_hugging_face_gpt2",
    "load_hugging_face_llama",
    "load_meta_llama",
    "load_nanogpt_weights",
    "load_torch_encoder",
    "load_torch_multihead_attention",
    "load_torch_transformer",
    "rename",
    "three_maps",
    "without",
]
