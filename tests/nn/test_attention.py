"""The attention functions against float64 loops: forward, backward, every kind of mask."""

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from glassformer.decoding.fast.graph_stepper import attend_by_products
from glassformer.nn import attend_fused, attend_written, attention_weights, basic_self_attention
from glassformer.nn.attention import additive_scores, basic_self_attention_loop, softmax_over_keys
from tests.nn.oracles import (
    FLOAT32_SHARE,
    FLOAT64_SHARE,
    dot_score,
    loop_attention,
    loop_basic,
    loop_visible,
    seeded,
    share,
)

B, H, G, Q, K, E, W = 2, 4, 2, 5, 7, 8, 6


def written(queries: Tensor, keys: Tensor, values: Tensor, **options: object) -> Tensor:
    return attend_written(queries, keys, values, **options).context  # type: ignore[arg-type]


def products(queries: Tensor, keys: Tensor, values: Tensor, **options: object) -> Tensor:
    """Used for few queries on a GPU, and here."""
    options.setdefault("divisor", queries.size(-1) ** 0.5)
    return attend_by_products(queries, keys, values, **options)  # type: ignore[arg-type]


IMPLEMENTATIONS: dict[str, Callable[..., Tensor]] = {
    "written": written,
    "fused": attend_fused,
    "products": products,
}


def random_mask(*shape: int, seed: int = 9) -> Tensor:
    return seeded(*shape, seed=seed) > -0.6


def with_blind_query(mask: Tensor) -> Tensor:
    mask[0, :, 2] = False
    return mask


MASKS: dict[str, tuple[Tensor | None, bool]] = {
    "none": (None, False),
    "causal": (None, True),
    "by key": (random_mask(K), False),
    "by query and key": (random_mask(Q, K), False),
    "by head": (random_mask(1, H, 1, K), False),
    "padding": (torch.arange(K) < torch.tensor([7, 4])[:, None, None, None], False),
    "left padding": (torch.arange(K) >= torch.tensor([0, 3])[:, None, None, None], False),
    "full": (random_mask(B, H, Q, K), False),
    "full and causal": (random_mask(B, H, Q, K), True),
    "left padding and causal": (torch.arange(K) >= torch.tensor([0, 4])[:, None, None, None], True),
    "a query that sees nothing": (with_blind_query(random_mask(B, 1, Q, K)), False),
    "a sentence of padding": (torch.tensor([True, False])[:, None, None, None], False),
    "nothing at all": (torch.tensor(False), False),
}
every_mask = pytest.mark.parametrize("mask_kind", MASKS)
every_way = pytest.mark.parametrize("attend", IMPLEMENTATIONS.values(), ids=IMPLEMENTATIONS)
precisions = pytest.mark.parametrize(
    ("dtype", "tolerance"),
    [(torch.float64, FLOAT64_SHARE), (torch.float32, FLOAT32_SHARE)],
    ids=["float64", "float32"],
)


def grouped_inputs(n_groups: int = G) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values with T ≠ S, W ≠ E and shared heads."""
    return (
        seeded(B, H, Q, E),
        seeded(B, n_groups, K, E, seed=1),
        seeded(B, n_groups, K, W, seed=2),
    )


# Basic self-attention


def test_fixed_weights_ignore_the_inputs_with_weight_zero() -> None:
    x = torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0], requires_grad=True)
    output = torch.tensor([0.0, 0.0, 0.0, 0.5, 0.5]) @ x
    output.backward()
    assert output.item() == 4.5
    assert x.grad is not None and x.grad[:3].eq(0).all()


@pytest.mark.parametrize(("n", "width"), [(1, 1), (3, 4), (6, 2), (5, 16)])
def test_basic_self_attention_loop_and_batched_equal_a_triple_loop(n: int, width: int) -> None:
    x = seeded(n, width)
    expected = loop_basic(x)
    assert share(basic_self_attention_loop(x), expected) <= FLOAT64_SHARE
    assert share(basic_self_attention(x), expected) <= FLOAT64_SHARE


def test_basic_self_attention_of_a_batch_is_that_of_each_sequence() -> None:
    x = seeded(3, 5, 4)
    expected = torch.stack([loop_basic(member) for member in x])
    assert share(basic_self_attention(x), expected) <= FLOAT64_SHARE


def test_basic_self_attention_ignores_order() -> None:
    x, order = seeded(1, 6, 4), torch.tensor([3, 1, 5, 0, 2, 4])
    assert share(basic_self_attention(x[:, order]), basic_self_attention(x)[:, order]) <= 1e-14


def test_basic_self_attention_by_hand() -> None:
    x = torch.tensor([[1.0, 0.0], [0.0, 1.0]], dtype=torch.float64)
    near, far = math.e / (math.e + 1), 1 / (math.e + 1)
    expected = torch.tensor([[near, far], [far, near]], dtype=torch.float64)
    torch.testing.assert_close(basic_self_attention(x), expected, rtol=1e-15, atol=0)


def test_softmax_is_stable_for_large_scores() -> None:
    weights = softmax_over_keys(torch.tensor([[1e30, 1e30, -1e30], [1e5, 0.0, -1e5]]))
    torch.testing.assert_close(weights, torch.tensor([[0.5, 0.5, 0.0], [1.0, 0.0, 0.0]]))


# Written and fused against the loop


@every_way
@precisions
@every_mask
def test_forward_equals_the_loop(
    attend: Callable[..., Tensor], dtype: torch.dtype, tolerance: float, mask_kind: str
) -> None:
    queries, keys, values = (x.to(dtype) for x in grouped_inputs())
    mask, causal = MASKS[mask_kind]
    visible = loop_visible((B, H, Q, K), mask, causal)
    expected = loop_attention(
        queries.double(), keys.double(), values.double(), dot_score(math.sqrt(E)), visible
    )
    got = attend(queries, keys, values, mask=mask, causal=causal)
    assert got.dtype is dtype
    assert share(got, expected.context) <= tolerance
    weights = attention_weights(queries, keys, mask=mask, causal=causal)
    assert share(weights, expected.weights) <= tolerance


@every_way
@precisions
@every_mask
def test_backward_equals_the_loop(
    attend: Callable[..., Tensor], dtype: torch.dtype, tolerance: float, mask_kind: str
) -> None:
    inputs = [x.to(dtype).requires_grad_() for x in grouped_inputs()]
    doubled = [x.detach().double().requires_grad_() for x in inputs]
    mask, causal = MASKS[mask_kind]
    direction = seeded(B, H, Q, W, seed=3)
    visible = loop_visible((B, H, Q, K), mask, causal)
    expected = loop_attention(doubled[0], doubled[1], doubled[2], dot_score(math.sqrt(E)), visible)
    (attend(*inputs, mask=mask, causal=causal) * direction.to(dtype)).sum().backward()
    if visible.any():
        (expected.context * direction).sum().backward()
    for ours, theirs in zip(inputs, doubled, strict=True):
        assert ours.grad is not None and ours.grad.isfinite().all()
        assert share(
            ours.grad, torch.zeros_like(theirs) if theirs.grad is None else theirs.grad
        ) <= (tolerance if visible.any() else 0)


@every_way
def test_a_query_that_sees_nothing_gets_exact_zeros(attend: Callable[..., Tensor]) -> None:
    mask, _ = MASKS["a query that sees nothing"]
    got = attend(*grouped_inputs(), mask=mask)
    assert got[0, :, 2].eq(0).all()
    assert got[1, :, 2].ne(0).all()


@pytest.mark.parametrize("n_groups", [1, 2, 4])
@every_way
def test_each_key_head_serves_its_group_of_query_heads(
    attend: Callable[..., Tensor], n_groups: int
) -> None:
    queries, keys, values = grouped_inputs(n_groups)
    expected = loop_attention(queries, keys, values, dot_score(math.sqrt(E)))
    assert share(attend(queries, keys, values), expected.context) <= FLOAT64_SHARE


@pytest.mark.parametrize("divisor", [1.0, 0.5, math.sqrt(32), 7.3])
@every_way
def test_scores_are_divided_by_the_number_given(
    attend: Callable[..., Tensor], divisor: float
) -> None:
    queries, keys, values = grouped_inputs()
    expected = loop_attention(queries, keys, values, dot_score(divisor))
    assert share(attend(queries, keys, values, divisor=divisor), expected.context) <= FLOAT64_SHARE


@pytest.mark.parametrize("attend", [written, attend_fused])
def test_any_number_of_leading_axes(attend: Callable[..., Tensor]) -> None:
    queries, keys, values = grouped_inputs()
    expected = attend(queries, keys, values, causal=True)
    alone = attend(queries[0], keys[0], values[0], causal=True)
    deeper = attend(queries[None], keys[None], values[None], causal=True)
    assert share(alone, expected[0]) <= FLOAT64_SHARE
    assert share(deeper[0], expected) <= FLOAT64_SHARE


@settings(max_examples=40, derandomize=True)
@given(
    sizes=st.tuples(*[st.integers(1, 5)] * 5),
    group=st.integers(1, 3),
    per_group=st.integers(1, 3),
    causal=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_written_and_fused_equal_the_loop_for_any_shape(
    sizes: tuple[int, int, int, int, int], group: int, per_group: int, causal: bool, seed: int
) -> None:
    n_batch, n_queries, n_keys, width, value_width = sizes
    n_heads = group * per_group
    queries = seeded(n_batch, n_heads, n_queries, width, seed=seed)
    keys = seeded(n_batch, group, n_keys, width, seed=seed + 1)
    values = seeded(n_batch, group, n_keys, value_width, seed=seed + 2)
    mask = random_mask(n_batch, 1, n_queries, n_keys, seed=seed + 3)
    visible = loop_visible((n_batch, n_heads, n_queries, n_keys), mask, causal)
    expected = loop_attention(queries, keys, values, dot_score(math.sqrt(width)), visible).context
    for attend in IMPLEMENTATIONS.values():
        got = attend(queries, keys, values, mask=mask, causal=causal)
        torch.testing.assert_close(got, expected, rtol=1e-12, atol=1e-12)


@every_way
@pytest.mark.parametrize("mask_kind", ["none", "full and causal", "a query that sees nothing"])
def test_gradients_equal_finite_differences(attend: Callable[..., Tensor], mask_kind: str) -> None:
    inputs = [x.requires_grad_() for x in grouped_inputs()]
    mask, causal = MASKS[mask_kind]
    assert torch.autograd.gradcheck(
        lambda *qkv: attend(*qkv, mask=mask, causal=causal), inputs, fast_mode=True
    )


# Additive scores


def test_additive_scores_equal_a_loop() -> None:
    queries, keys, vector = seeded(B, H, Q, E), seeded(B, H, K, E, seed=1), seeded(H, E, seed=2)
    got = additive_scores(queries, keys, vector)
    for b, h, i, j in [
        (b, h, i, j) for b in range(B) for h in range(H) for i in range(Q) for j in range(K)
    ]:
        terms = [
            float(vector[h, e]) * math.tanh(float(queries[b, h, i, e]) + float(keys[b, h, j, e]))
            for e in range(E)
        ]
        assert float(got[b, h, i, j]) == pytest.approx(sum(terms), rel=1e-12, abs=1e-13)


def test_additive_scores_are_those_of_concatenated_inputs() -> None:
    x, together, vector = seeded(4, 3), seeded(5, 6, seed=1), seeded(5, seed=2)
    to_queries, to_keys = together[:, :3], together[:, 3:]
    got = additive_scores(x @ to_queries.T, x @ to_keys.T, vector)
    for i in range(4):
        for j in range(4):
            expected = vector @ torch.tanh(together @ torch.cat([x[i], x[j]]))
            assert float(got[i, j]) == pytest.approx(float(expected), rel=1e-12)
