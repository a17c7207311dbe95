"""The interface of "Transformers from scratch", correct where its published code is not."""

import math

import pytest
import torch
from torch import Tensor

from glassformer.claims.bloem import FOLDS, SelfAttention, Transformer, attend_einsum, attend_folded
from glassformer.errors import ConfigError
from glassformer.nn.attention import attend_written, join_heads, split_heads
from glassformer.nn.config import Initialisation
from tests.nn.oracles import (
    FLOAT64_SHARE,
    dot_score,
    loop_attention,
    loop_linear,
    loop_visible,
    seeded,
    share,
)


def by_loops(module: SelfAttention, x: Tensor) -> Tensor:
    b, t, _ = x.shape
    q, k, v = (
        split_heads(loop_linear(x, map_.weight), module.heads)
        for map_ in (module.toqueries, module.tokeys, module.tovalues)
    )
    visible = loop_visible((b, module.heads, t, t), causal=module.mask)
    score = dot_score(math.sqrt(module.k / module.heads))
    context = loop_attention(q, k, v, score, visible).context
    return loop_linear(join_heads(context), module.unifyheads.weight, module.unifyheads.bias)


@pytest.mark.parametrize("mask", [False, True])
@pytest.mark.parametrize("heads", [1, 2, 4])
def test_self_attention_equals_the_loop(heads: int, mask: bool) -> None:
    torch.manual_seed(0)
    module = SelfAttention(8, heads, mask).double()
    x = seeded(2, 4, 8)
    assert share(module(x), by_loops(module, x)) <= FLOAT64_SHARE


def test_self_attention_has_four_heads_and_no_mask_by_default() -> None:
    module = SelfAttention(8)
    assert (module.k, module.heads, module.mask) == (8, 4, False)
    biases = [name for name, _ in module.named_parameters() if name.endswith("bias")]
    assert biases == ["attention.to_output.bias"]


def test_mask_masks() -> None:
    module = SelfAttention(8, mask=True)
    x = seeded(1, 5, 8, dtype=torch.float32)
    later = x.clone()
    later[:, 3:] = 7.0
    assert module(later)[:, :3].equal(module(x)[:, :3])
    assert not SelfAttention(8, mask=False)(later)[:, 0].equal(SelfAttention(8)(x)[:, 0])


def test_indivisible_heads_are_refused_with_both_numbers() -> None:
    x = seeded(1, 2, 10)
    for call in (
        lambda: SelfAttention(10, heads=4),
        lambda: attend_folded(x, x, x, 4),
        lambda: attend_folded(x, x, x, 4, fold="chunks"),
        lambda: attend_einsum(x, x, x, 4),
    ):
        with pytest.raises(ConfigError, match="k=10 and heads=4"):
            call()


@pytest.mark.parametrize("heads", [1, 3, 6])
def test_the_three_folds_give_the_same_tensor(heads: int) -> None:
    x = seeded(2, 5, 12)
    folded = {name: fold(x, heads) for name, fold in FOLDS.items()}
    assert folded["view"].shape == (2 * heads, 5, 12 // heads)
    assert folded["view"].equal(folded["reshape"]) and folded["view"].equal(folded["chunks"])
    assert folded["view"].equal(split_heads(x, heads).flatten(0, 1))


@pytest.mark.parametrize("heads", [1, 3, 6])
def test_every_fold_and_einsum_give_the_same_attention(heads: int) -> None:
    queries, keys, values = (seeded(2, 5, 12, seed=seed) for seed in range(3))
    q, k, v = (split_heads(x, heads) for x in (queries, keys, values))
    expected = join_heads(attend_written(q, k, v).context)
    for fold in FOLDS:
        assert share(attend_folded(queries, keys, values, heads, fold), expected) <= FLOAT64_SHARE
    assert share(attend_einsum(queries, keys, values, heads), expected) <= FLOAT64_SHARE


def test_an_unknown_fold_is_refused_with_the_known_ones() -> None:
    x = seeded(1, 2, 4)
    with pytest.raises(ConfigError, match="view, reshape, chunks, got 'squeeze'"):
        attend_folded(x, x, x, 2, fold="squeeze")


@pytest.mark.parametrize(
    ("init", "deviation"),
    [("normal", 0.02), ("xavier", math.sqrt(2 / 600)), ("kaiming", math.sqrt(2 / 300))],
)
def test_init_chooses_the_initialisation(init: Initialisation, deviation: float) -> None:
    torch.manual_seed(0)
    module = SelfAttention(300, heads=4, init=init)
    for map_ in (module.toqueries, module.tokeys, module.tovalues, module.unifyheads):
        # The deviation of 90,000 draws has a standard error of 0.24 %.
        assert float(map_.weight.detach().std()) == pytest.approx(deviation, rel=0.01)


def test_transformer_returns_log_probabilities() -> None:
    torch.manual_seed(0)
    model = Transformer(k=8, heads=2, depth=2, seq_length=6, num_tokens=11, num_classes=3)
    output = model(torch.randint(0, 11, (4, 6)))
    assert output.shape == (4, 3)
    torch.testing.assert_close(output.exp().sum(-1), torch.ones(4))
    logits = model.classifier(torch.zeros(1, 2, dtype=torch.long))
    expected = logits - logits.exp().sum(-1, keepdim=True).log()
    torch.testing.assert_close(model(torch.zeros(1, 2, dtype=torch.long)), expected)


def test_transformer_is_post_norm_with_learned_positions_and_a_width_of_4k() -> None:
    model = Transformer(k=8, heads=2, depth=3, seq_length=6, num_tokens=11, num_classes=3)
    config = model.classifier.config
    assert len(model.classifier.encoder.blocks) == 3
    assert (config.feed_forward.d_ff, config.block.norm_first) == (32, False)
    assert (config.positions.kind, config.max_len) == ("learned", 6)
