"""From Andrej Karpathy's teaching code: nanoGPT, minGPT and llama2.c.

nanoGPT and minGPT name their parameters as GPT-2 does, with matrices upright. llama2.c has the
names of Meta's Llama; its binary files have no names at all, only an order. Knows their state dicts
and their arrays; `checkpoint.one_file` opens their files.
"""

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

import torch

from glassformer.errors import CheckpointError, ConfigError
from glassformer.nn import presets
from glassformer.nn.config import ModelConfig
from glassformer.nn.foreign.hugging_face_weights import load_gpt2
from glassformer.nn.foreign.torch_nn import State, Table, fill, in_blocks, rename, without
from glassformer.nn.models import LanguageModel
from glassformer.nn.shapes import Tensor

_LLAMA_BLOCK: Table = {
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
_LLAMA: Table = {
    "tok_embeddings.weight": "decoder.embedding.weight",
    "norm.weight": "decoder.final_norm.weight",
    "output.weight": "to_vocabulary.weight",
    **in_blocks("layers.#.", "decoder.blocks.#.", _LLAMA_BLOCK),
}


def plain_names(state: State) -> dict[str, Tensor]:
    """A state dict without the prefix that torch.compile gives every name."""
    return {name.removeprefix("_orig_mod."): tensor for name, tensor in state.items()}


def config_from_nanogpt(
    state: State, n_heads: int, activation: Literal["gelu", "gelu_tanh"] = "gelu"
) -> ModelConfig:
    """Our config for a nanoGPT or minGPT state dict; all but the heads is told by its shapes.

    nanoGPT's GELU is exact, minGPT's the tanh approximation, as it was in nanoGPT until 2023.
    """
    table, positions = _matrix(state, "transformer.wte.weight"), _matrix(state, "transformer.wpe.")
    output = _matrix(state, "lm_head.weight")
    blocks = [name.split(".") for name in state if name.startswith("transformer.h.")]
    has_bias = "transformer.h.0.attn.c_attn.bias" in state
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
        output__tied="output" if _equal(table, output) else "none",
    )


def _equal(one: Tensor, other: Tensor) -> bool:
    return one.dtype == other.dtype and torch.equal(one, other)


def _matrix(state: State, name: str) -> Tensor:
    found = next((tensor for key, tensor in state.items() if key.startswith(name)), None)
    if found is None or found.dim() != 2:
        raise CheckpointError(f"these are not the weights of a nanoGPT or minGPT: no {name}")
    return found


def load_nanogpt_weights(model: LanguageModel, state: State) -> None:
    """From the state dict of a nanoGPT or minGPT, built by `config_from_nanogpt`.

    A norm without a bias, which nanoGPT may have, is one whose bias is 0.
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

    They turn neighbouring dimensions of a head, ours (as Hugging Face's) dimension i with i + E/2:
    the rows of W_Q and W_K are put into that order, which changes no score.
    """
    heads = model.config.attention
    turned = {
        "attention.wq.weight": heads.n_heads,
        "attention.wk.weight": heads.n_kv_heads or heads.n_heads,
    }
    ordered = {
        name: _halves(tensor, n, name)
        if (n := next((n for end, n in turned.items() if name.endswith(end)), 0))
        else tensor
        for name, tensor in plain_names(state).items()
    }
    unused = ["freqs_", "rope."]
    if model.config.output.tied != "none":
        unused.append("output.")
    fill(model, rename(without(ordered, unused), _LLAMA))


def _halves(matrix: Tensor, n_heads: int, name: str) -> Tensor:
    """Rows of each head: the even ones, then the odd ones."""
    if matrix.dim() != 2 or matrix.size(0) % (2 * n_heads):
        raise CheckpointError(
            f"the weights do not fit the module: {name} must hold {n_heads} heads of an even "
            f"width, got {tuple(matrix.shape)}"
        )
    pairs = matrix.reshape(n_heads, -1, 2, matrix.size(1))
    return pairs.transpose(1, 2).reshape(matrix.shape)


class Llama2cHeader(NamedTuple):
    """What stands at the beginning of a llama2.c file."""

    dim: int
    hidden_dim: int
    n_layers: int
    n_heads: int
    n_kv_heads: int
    vocab_size: int
    max_len: int
    shared: bool
    """Whether the output map is the token table."""


def config_from_llama2c(header: Llama2cHeader) -> ModelConfig:
    """Our config for a llama2.c model."""
    if not all(0 < size < 2**31 for size in header[:7]):
        raise ConfigError(f"the sizes of a llama2.c model must be above 0, got {header[:7]}")
    return presets.llama(
        vocab_size=header.vocab_size,
        d_model=header.dim,
        n_heads=header.n_heads,
        n_kv_heads=header.n_kv_heads,
        n_layers=header.n_layers,
        d_ff=header.hidden_dim,
        max_len=header.max_len,
    ).with_(block__norm_eps=1e-5, output__tied="output" if header.shared else "none")


def llama2c_arrays(header: Llama2cHeader, version: int) -> list[tuple[str, tuple[int, ...]]]:
    """Name and shape of each array of a llama2.c file, in the order of its version 0 or 1.

    `#` in a name stands for all layers one after another; an empty name is skipped (version 0 keeps
    tables of rotations).
    """
    width = header.dim // header.n_heads
    attending, kept = header.n_heads * width, header.n_kv_heads * width
    d, f = header.dim, header.hidden_dim
    shapes: Mapping[str, tuple[int, ...]] = {
        "tok_embeddings": (header.vocab_size, d),
        "layers.#.attention_norm": (d,),
        "layers.#.attention.wq": (attending, d),
        "layers.#.attention.wk": (kept, d),
        "layers.#.attention.wv": (kept, d),
        "layers.#.attention.wo": (d, attending),
        "layers.#.ffn_norm": (d,),
        "layers.#.feed_forward.w1": (f, d),
        "layers.#.feed_forward.w2": (d, f),
        "layers.#.feed_forward.w3": (f, d),
        "norm": (d,),
        "": (header.max_len, width // 2),
        "output": (header.vocab_size, d),
    }
    norms = ["layers.#.attention_norm", "layers.#.ffn_norm", "norm"]
    in_order: Sequence[str] = [name for name in shapes if name != "output"]
    if version == 0:
        in_order = [*in_order[:-1], "", ""]
    else:
        in_order = [*norms, *(name for name in in_order if name and name not in norms)]
    if not header.shared:
        in_order = [*in_order, "output"]
    return [(f"{name}.weight" if name else "", shapes[name]) for name in in_order]
