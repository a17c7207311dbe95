"""Weights from elsewhere: torch.nn and Hugging Face state dicts into our modules.

One function each. All of them rename, split or transpose tensors; none changes a number. A tensor
that has no place here, or a parameter that gets none, is an error in one line.
"""

from glassformer.nn.foreign.hugging_face import (
    config_from_hugging_face,
    load_hugging_face,
    load_hugging_face_bert,
    load_hugging_face_gpt2,
    load_hugging_face_llama,
)
from glassformer.nn.foreign.torch_nn import (
    load_torch_encoder,
    load_torch_multihead_attention,
    load_torch_transformer,
)

__all__ = [
    "config_from_hugging_face",
    "load_hugging_face",
    "load_hugging_face_bert",
    "load_hugging_face_gpt2",
    "load_hugging_face_llama",
    "load_torch_encoder",
    "load_torch_multihead_attention",
    "load_torch_transformer",
]
