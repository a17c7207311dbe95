"""Attention of the few queries of a decoding step on a GPU: two products, not a fused kernel.

The kernel is made for many queries and gives each of its blocks one head; with four queries most
of a block is idle. Dims: as in `nn.attention.functions`; N sequences and heads together.
"""

import math

import torch

from glassformer.nn import MultiHeadAttention
from glassformer.nn.attention import softmax_over_keys, visible_keys
from glassformer.nn.tensors import Bool, Float, Tensor

_FEW_QUERIES = 8
_FEW_KEYS = 256


class ProductAttention(MultiHeadAttention):
    """Multi-head attention by products wherever these are faster than the fused kernel."""

    def attend(
        self, queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None, causal: bool
    ) -> Float[Tensor, "B H Q W"]:
        """From queries, keys and values to the context of each query and head."""
        is_plain = self.score_vector is not None or self.implementation != "fused"
        dropout = self.config.dropout if self.training else 0.0
        if is_plain or dropout or not products_pay(queries, keys, values):
            return super().attend(queries, keys, values, mask, causal)
        return attend_by_products(
            queries, keys, values, divisor=self.divisor, mask=mask, causal=causal
        )


def products_pay(queries: Tensor, keys: Tensor, values: Tensor) -> bool:
    """Whether two products are faster than the fused kernel.

    Measured on an H200, 4 queries of 8 heads in 2,048 sequences beside 64 keys: 2.5 times as fast
    in bfloat16, 1.6 in float32; 1 query beside 4,096 keys: 0.9 and 1.5. So in half precision the
    keys must be few, too. They must lie side by side: otherwise the products would copy them.
    """
    if torch.compiler.is_compiling() or torch.is_grad_enabled() or not queries.is_cuda:
        return False
    if queries.size(-2) > _FEW_QUERIES or (keys.element_size() < 4 and keys.size(-2) > _FEW_KEYS):
        return False
    return all(x.stride(-3) > x.stride(-2) for x in (keys, values))


def attend_by_products(
    queries: Float[Tensor, "B H Q E"],
    keys: Float[Tensor, "B G K E"],
    values: Float[Tensor, "B G K W"],
    *,
    divisor: float,
    mask: Bool[Tensor, "..."] | None = None,
    causal: bool = False,
) -> Float[Tensor, "B H Q W"]:
    """The arithmetic of `attend_written`, scores in single precision at least.

    Heads that share their keys are so many more queries of one head.
    """
    n_sequences, n_heads, n_queries, width = queries.shape
    together = queries.reshape(n_sequences * keys.size(1), -1, width)
    scores = _scores(together, keys.flatten(0, 1)).view(n_sequences, n_heads, n_queries, -1)
    scores.mul_(1.0 / divisor)
    visible = visible_keys(scores.shape, mask, causal, scores.device)
    if visible is not None:
        scores.masked_fill_(~visible, -math.inf)
    weights = softmax_over_keys(scores).to(values.dtype)
    context = torch.bmm(weights.view(*together.shape[:2], -1), values.flatten(0, 1))
    return context.view(n_sequences, n_heads, n_queries, -1)


def _scores(
    queries: Float[Tensor, "N Q E"], keys: Float[Tensor, "N K E"]
) -> Float[Tensor, "N Q K"]:
    if queries.element_size() >= 4:
        return torch.bmm(queries, keys.mT)
    if queries.is_cuda:
        return torch.bmm(queries, keys.mT, out_dtype=torch.float32)
    return torch.bmm(queries.float(), keys.float().mT)
