"""From torch.nn's own Transformer classes."""

from glassformer.errors import CheckpointError
from glassformer.nn.attention import MultiHeadAttention
from glassformer.nn.blocks import Stack
from glassformer.nn.foreign.renaming import (
    State,
    Table,
    below,
    check_fit,
    fill,
    in_blocks,
    rename,
    three_maps,
    without,
)
from glassformer.nn.models import Seq2Seq
from glassformer.nn.shapes import Tensor

_KEPT = ("embedding.", "positions.")  # torch.nn's stacks have neither
_SHARED_BY_LAYERS: Table = {
    "self_attn.in_proj_*": three_maps("attention"),
    "self_attn.out_proj.*": "attention.to_output.*",
    "linear1.*": "feed_forward.expand.*",
    "linear2.*": "feed_forward.contract.*",
    "norm1.*": "attention_norm.*",
}
_ENCODER_LAYER: Table = {**_SHARED_BY_LAYERS, "norm2.*": "feed_forward_norm.*"}
_DECODER_LAYER: Table = {
    **_SHARED_BY_LAYERS,
    "multihead_attn.in_proj_*": three_maps("cross_attention"),
    "multihead_attn.out_proj.*": "cross_attention.to_output.*",
    "norm2.*": "cross_attention_norm.*",
    "norm3.*": "feed_forward_norm.*",
}
_ATTENTION: Table = {
    "in_proj_*": ("to_queries.*", "to_keys.*", "to_values.*"),
    "q_proj_*": "to_queries.*",
    "k_proj_*": "to_keys.*",
    "v_proj_*": "to_values.*",
    "out_proj.*": "to_output.*",
}


def load_torch_multihead_attention(attention: MultiHeadAttention, state: State) -> None:
    """From `nn.MultiheadAttention(...).state_dict()`."""
    fill(attention, rename(state, _ATTENTION))


def load_torch_encoder(stack: Stack, state: State) -> None:
    """From `nn.TransformerEncoder(...).state_dict()`; embeddings stay as they are."""
    fill(stack, _rename_stack(state, _ENCODER_LAYER), _KEPT)


def load_torch_transformer(model: Seq2Seq, state: State) -> None:
    """From `nn.Transformer(...).state_dict()`; embeddings and output stay as they are."""
    for name in without(state, ("encoder.", "decoder.")):
        raise CheckpointError(f"the weights hold {name!r}, which nn.Transformer does not have")
    encoder = _rename_stack(below(state, "encoder."), _ENCODER_LAYER)
    decoder = _rename_stack(below(state, "decoder."), _DECODER_LAYER)
    check_fit(model.encoder, encoder, _KEPT)
    fill(model.decoder, decoder, _KEPT)
    fill(model.encoder, encoder, _KEPT)


def _rename_stack(state: State, layer: Table) -> dict[str, Tensor]:
    table = {**in_blocks("layers.#.", "blocks.#.", layer), "norm.*": "final_norm.*"}
    return rename(state, table)
