"""Foreign weights: state dicts of torch.nn, Hugging Face, nanoGPT and Llama for our modules.

One function each. They rename, split, transpose or reorder tensors; none changes a number. A tensor
without a place in our module, or a parameter without a tensor, is a one-line error.

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

from glassformer.nn.foreign.model_families import (
    config_from_hugging_face,
    config_from_nanogpt,
    load_gpt2,
    load_hugging_face,
    load_hugging_face_bert,
    load_hugging_face_gpt2,
    load_hugging_face_llama,
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
