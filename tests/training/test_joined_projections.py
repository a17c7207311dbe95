"""Queries, keys and values by one product are those by three: outputs, gradients, decoding."""

import pytest
import torch

from glassformer.nn import AttentionConfig, MultiHeadAttention
from glassformer.nn.positions import RotaryPositions
from glassformer.training.acceleration import join_projections

CONFIGS = {
    "biases": AttentionConfig(n_heads=4, bias=True),
    "shared keys": AttentionConfig(n_heads=4, n_kv_heads=2),
    "other widths": AttentionConfig(n_heads=2, d_head=6, d_value=3),
}


@pytest.mark.parametrize("rotated", [False, True])
@pytest.mark.parametrize("name", CONFIGS)
def test_one_product_is_three(name: str, rotated: bool) -> None:
    torch.manual_seed(0)
    attention = MultiHeadAttention(16, CONFIGS[name]).double()
    x = torch.randn(2, 5, 16, dtype=torch.float64)
    positions = RotaryPositions(5, attention.d_head).double()
    rotation = positions(torch.arange(5), 5) if rotated else None
    outputs, gradients = [], []
    for joined in (False, True):
        join_projections(attention, joined)
        output = attention(x, causal=True, rotation=rotation)
        outputs.append(output)
        gradients.append(torch.autograd.grad(output.square().sum(), list(attention.parameters())))
    assert torch.allclose(outputs[0], outputs[1], rtol=0, atol=1e-12)
    for one, other in zip(*gradients, strict=True):
        assert torch.allclose(one, other, rtol=0, atol=1e-11)


def test_another_sequence_is_attended_to_as_before() -> None:
    torch.manual_seed(0)
    attention = MultiHeadAttention(16, CONFIGS["biases"])
    x, source = torch.randn(2, 5, 16), torch.randn(2, 7, 16)
    before = attention(x, source)
    assert torch.equal(join_projections(attention)(x, source), before)
