"""Masks: boolean, and True means "may attend", everywhere.

A mask broadcasts to (B, H, Q, K); one of three axes, which might mean B or H, is refused. Masks
combine with `&`: a key is visible when every mask says so. B batch, H heads, Q query positions,
K key positions.
"""

import torch

from glassformer.errors import MaskError, ShapeError
from glassformer.nn.shapes import Bool, Int, Tensor


def causal_mask(
    n_queries: int, n_keys: int | None = None, device: torch.device | str | None = None
) -> Bool[Tensor, "Q K"]:
    """Each query sees its own position and those before it.

    The queries are the last of the key positions, so with more keys than queries (a cache) the
    diagonal moves to the right: position Q−1 always sees everything.
    """
    n_keys = n_queries if n_keys is None else n_keys
    everything = torch.ones(n_queries, n_keys, dtype=torch.bool, device=device)
    return everything.tril(diagonal=n_keys - n_queries)


def token_mask(ids: Int[Tensor, "B K"], pad_id: int) -> Bool[Tensor, "B K"]:
    """True at tokens, False at padding."""
    return ids != pad_id


def padding_mask(is_token: Bool[Tensor, "B K"]) -> Bool[Tensor, "B 1 1 K"]:
    """Hides padding keys from every head and every query."""
    check_mask(is_token)
    return is_token[:, None, None, :]


def check_mask(mask: Tensor, scores_shape: tuple[int, ...] | None = None) -> None:
    """Refuse a mask that would be misread: another dtype, or a shape that does not broadcast."""
    if mask.dtype is not torch.bool:
        raise MaskError(
            f"a mask must be boolean (True = may attend), got {mask.dtype}; "
            "write `mask.bool()` for a 0/1 mask, `bias == 0` for an additive one"
        )
    if scores_shape is None:
        return
    # By hand: torch.broadcast_shapes takes as long as a small attention, at every step of decoding.
    sizes = zip(reversed(mask.shape), reversed(scores_shape), strict=False)
    fits = mask.dim() <= len(scores_shape) and all(size in (1, wanted) for size, wanted in sizes)
    if fits and mask.dim() == 3 and len(scores_shape) == 4 and mask.size(0) > 1:
        raise ShapeError(
            f"a mask of three axes, {tuple(mask.shape)}, may be one for each text or one for each "
            "head; write mask[:, None] for texts, mask[None] for heads"
        )
    if not fits:
        raise ShapeError(
            f"a mask must broadcast to the scores {tuple(scores_shape)}, got {tuple(mask.shape)}"
        )


def visible_keys(
    scores_shape: tuple[int, ...], mask: Tensor | None, causal: bool, device: torch.device
) -> Tensor | None:
    """The mask and the causal rule as one mask; None where every query sees every key."""
    if mask is not None:
        check_mask(mask, scores_shape)
    n_queries, n_keys = scores_shape[-2:]
    if not causal or n_queries == 1:  # the last position sees all keys
        return mask
    before = causal_mask(n_queries, n_keys, device)
    return before if mask is None else mask & before
