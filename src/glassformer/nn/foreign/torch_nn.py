"""Renaming the tensors of a state dict, and loading torch.nn's own Transformer classes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

import torch
from torch import nn

from glassformer.errors import CheckpointError
from glassformer.nn.attention import MultiHeadAttention
from glassformer.nn.blocks import Stack
from glassformer.nn.models import Seq2Seq
from glassformer.nn.tensors import Tensor

# --- renaming ---
# A table maps their names to ours. In their names `#` stands for a number and `*` for weight or
# bias; both reappear in ours. Several of our names mean that their tensor stacks those parts along
# its first axis.

State = Mapping[str, Tensor]
Shapes = Mapping[str, Sequence[int]]
Table = Mapping[str, str | tuple[str, ...]]


def three_maps(prefix: str) -> tuple[str, ...]:
    """Our three names for one joint query-key-value tensor."""
    return tuple(f"{prefix}.to_{part}.*" for part in ("queries", "keys", "values"))


def in_blocks(theirs: str, ours: str, table: Table) -> dict[str, str | tuple[str, ...]]:
    """The table of one block, for every block of a stack."""
    return {
        theirs + name: ours + target
        if isinstance(target, str)
        else tuple(ours + part for part in target)
        for name, target in table.items()
    }


def rename(state: State, table: Table) -> dict[str, Tensor]:
    """The tensors under our names."""
    patterns = [(_pattern(name), _as_tuple(targets)) for name, targets in table.items()]
    renamed: dict[str, Tensor] = {}
    for name, tensor in state.items():
        match, targets = next(((m, t) for p, t in patterns if (m := p.fullmatch(name))), (None, ()))
        if match is None:
            raise CheckpointError(
                f"the weights contain {name!r}, which our module has no place for"
            )
        if len(targets) > 1 and (tensor.dim() == 0 or tensor.size(0) % len(targets)):
            raise CheckpointError(
                f"the weights do not fit the module: {name} must hold {len(targets)} equal parts, "
                f"got {tuple(tensor.shape)}"
            )
        pieces = tensor.chunk(len(targets)) if len(targets) > 1 else (tensor,)
        for target, piece in zip(targets, pieces, strict=True):
            renamed[_put_in(target, match.groups())] = piece
    return renamed


def rename_back(state: State, table: Table) -> dict[str, Tensor]:
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


def below(state: State, prefix: str) -> dict[str, Tensor]:
    """The tensors whose names start with a prefix, without that prefix."""
    return {n.removeprefix(prefix): t for n, t in state.items() if n.startswith(prefix)}


def without(state: State, prefixes: Iterable[str]) -> dict[str, Tensor]:
    """The tensors whose names start with none of these prefixes."""
    return {n: t for n, t in state.items() if not n.startswith(tuple(prefixes))}


def check_fit(module: nn.Module, renamed: State, keep: tuple[str, ...] = ()) -> None:
    """Check that each parameter, except those in `keep`, gets a tensor of its shape."""
    # A shared parameter is listed once, by its first name.
    ours = {name: parameter.shape for name, parameter in module.named_parameters()}
    check_shapes(ours, {name: tensor.shape for name, tensor in renamed.items()}, keep)
    for name, tensor in renamed.items():
        if not tensor.is_floating_point():
            raise CheckpointError(
                f"the weights do not fit the module: {name} must hold floating-point numbers, "
                f"got {tensor.dtype}"
            )


def check_shapes(ours: Shapes, renamed: Shapes, keep: tuple[str, ...] = ()) -> None:
    """Check that each of our names, except those in `keep`, is among theirs with its shape."""
    missing = [n for n in ours if n not in renamed and not any(map(n.startswith, keep))]
    unknown = [n for n in renamed if n not in ours]
    if missing or unknown:
        what = f"lack {missing[0]!r}" if missing else f"contain {unknown[0]!r}"
        others = len(missing) + len(unknown) - 1
        raise CheckpointError(
            f"the weights do not fit the module: they {what}" + f" and {others} more" * (others > 0)
        )
    for name, shape in renamed.items():
        if tuple(ours[name]) != tuple(shape):
            raise CheckpointError(
                f"the weights do not fit the module: {name} is {tuple(ours[name])} here and "
                f"{tuple(shape)} there"
            )


@torch.no_grad()
def fill(module: nn.Module, renamed: State, keep: tuple[str, ...] = ()) -> None:
    """Copy tensors into parameters after checking that all fit: a module is never half loaded."""
    check_fit(module, renamed, keep)
    ours = dict(module.named_parameters())
    for name, tensor in renamed.items():
        ours[name].copy_(tensor)


def _as_tuple(targets: str | tuple[str, ...]) -> tuple[str, ...]:
    return (targets,) if isinstance(targets, str) else targets


def _pattern(name: str) -> re.Pattern[str]:
    return re.compile(re.escape(name).replace(r"\#", r"(\d+)").replace(r"\*", r"(weight|bias)"))


def _put_in(target: str, found: tuple[str, ...]) -> str:
    parts = iter(found)
    return re.sub(r"[#*]", lambda _: next(parts), target)


# --- torch.nn ---

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
    """From `nn.TransformerEncoder(...).state_dict()`; embeddings are left unchanged."""
    fill(stack, _rename_stack(state, _ENCODER_LAYER), _KEPT)


def load_torch_transformer(model: Seq2Seq, state: State) -> None:
    """From `nn.Transformer(...).state_dict()`; embeddings and output are left unchanged."""
    for name in without(state, ("encoder.", "decoder.")):
        raise CheckpointError(f"the weights contain {name!r}, which nn.Transformer does not have")
    encoder = _rename_stack(below(state, "encoder."), _ENCODER_LAYER)
    decoder = _rename_stack(below(state, "decoder."), _DECODER_LAYER)
    check_fit(model.encoder, encoder, _KEPT)
    fill(model.decoder, decoder, _KEPT)
    fill(model.encoder, encoder, _KEPT)


def _rename_stack(state: State, layer: Table) -> dict[str, Tensor]:
    table = {**in_blocks("layers.#.", "blocks.#.", layer), "norm.*": "final_norm.*"}
    return rename(state, table)
