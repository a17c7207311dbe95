"""What sampling may draw: temperature, repetition penalty, top-k, top-p, min-p.

Pure functions on logits. What is filtered out becomes −∞, so that its probability is exactly 0
(a small number in its place would be drawn some day). At least one token always stays.
Dims: V vocabulary.
"""

import math

import torch

from glassformer.nn.shapes import Bool, Float, Tensor

__all__ = ["keep_min_p", "keep_top_k", "keep_top_p", "penalise_repetition"]


def penalise_repetition(
    logits: Float[Tensor, "... V"], seen: Bool[Tensor, "... V"], penalty: float
) -> Float[Tensor, "... V"]:
    """Make tokens that were seen less likely (Keskar et al. 2019): x/penalty, or x·penalty if x<0.

    Dividing a negative logit would raise it, hence the two cases.
    """
    penalised = torch.where(logits > 0, logits / penalty, logits * penalty)
    return torch.where(seen, penalised, logits)


def keep_top_k(logits: Float[Tensor, "... V"], k: int) -> Float[Tensor, "... V"]:
    """Keep the k largest; exactly k, among equals as well."""
    if k >= logits.size(-1):
        return logits
    largest = logits.topk(k, dim=-1)
    return torch.full_like(logits, -math.inf).scatter_(-1, largest.indices, largest.values)


def keep_top_p(logits: Float[Tensor, "... V"], p: float) -> Float[Tensor, "... V"]:
    """Keep the most probable tokens that together reach p (Holtzman et al. 2020).

    The token that crosses p is kept, so at least one is.
    """
    ordered, ids = logits.sort(dim=-1, descending=True, stable=True)
    probabilities = ordered.softmax(dim=-1)
    before = probabilities.cumsum(dim=-1) - probabilities
    unwanted = before >= p
    unwanted[..., 0] = False
    kept = ordered.masked_fill(unwanted, -math.inf)
    return torch.full_like(logits, -math.inf).scatter_(-1, ids, kept)


def keep_min_p(logits: Float[Tensor, "... V"], p: float) -> Float[Tensor, "... V"]:
    """Keep tokens at least p times as probable as the most probable one (Nguyen et al. 2024)."""
    if p <= 0:
        return logits
    lowest = logits.amax(dim=-1, keepdim=True) + math.log(p)
    return logits.masked_fill(logits < lowest, -math.inf)
