"""One test for each feature that users of other implementations ask for."""

from typing import Any

import pytest
import torch

from glassformer.errors import MaskError
from glassformer.nn import (
    AttentionConfig,
    LanguageModel,
    MultiHeadAttention,
    Seq2Seq,
    attend_fused,
    attend_written,
    causal_mask,
    record_attention,
    set_attention,
)
from tests.nn.oracles import FLOAT64_SHARE, dot_score, loop_attention, loop_visible, seeded, share
from tests.nn.small import EVERY, inputs_for, make, random_ids, tiny

every_model = pytest.mark.parametrize("name", EVERY)
both = pytest.mark.parametrize("implementation", ["written", "fused"])


@both
def test_wish_1_true_means_may_attend_and_the_batch_comes_first(implementation: Any) -> None:
    """Mask polarity and layout: one convention everywhere."""
    module = MultiHeadAttention(8, AttentionConfig(n_heads=2)).double()
    set_attention(module, implementation)
    x = seeded(2, 3, 8)
    only_first = torch.tensor([True, False, False])
    expected = module(x, x[:, :1])
    assert share(module(x, mask=only_first), expected) <= FLOAT64_SHARE
    assert share(module(x, mask=only_first.expand(2, 1, 3, 3)), expected) <= FLOAT64_SHARE


@pytest.mark.usefixtures("as_users_run_it")
def test_wish_1_float_and_integer_masks_raise_a_type_error() -> None:
    """A mask of another dtype would silently mean something else."""
    module, x = MultiHeadAttention(8, AttentionConfig(n_heads=2)), torch.ones(1, 3, 8)
    for mask in (torch.zeros(3, 3), torch.ones(3, 3, dtype=torch.int64)):
        with pytest.raises(MaskError) as error:
            module(x, mask=mask)
        assert isinstance(error.value, TypeError)


@both
@pytest.mark.parametrize("watched", [False, True])
def test_wish_2_rows_without_a_key_give_zeros_and_finite_gradients(
    implementation: Any, watched: bool
) -> None:
    """NaN on fully masked rows, forward or backward, with or without weights."""
    module = MultiHeadAttention(8, AttentionConfig(n_heads=2, output_map=False))
    set_attention(module, implementation)
    x = seeded(2, 3, 8, dtype=torch.float32).requires_grad_()
    mask = torch.tensor([[False, True, True], [False, False, False]])[:, None, :, None]
    if watched:
        with record_attention(module) as recorded:
            output = module(x, mask=mask)
        assert recorded[""][0].isfinite().all() and recorded[""][0][1].eq(0).all()
    else:
        output = module(x, mask=mask)
    output.square().sum().backward()
    assert output[0, 0].eq(0).all() and output[1].eq(0).all() and output[0, 1:].ne(0).all()
    for tensor in (x, *module.parameters()):
        assert tensor.grad is not None and tensor.grad.isfinite().all()


@every_model
def test_wish_3_weights_of_every_layer_and_head_without_changing_the_output(name: str) -> None:
    """Attention weights that are None, averaged over heads, or change what is computed."""
    config = EVERY[name]
    model, inputs = make(config), inputs_for(config)
    plain = model(*inputs)
    with record_attention(model) as recorded:
        observed = model(*inputs)
    assert observed.equal(plain)
    attentions = {n: m for n, m in model.named_modules() if isinstance(m, MultiHeadAttention)}
    assert recorded.keys() == attentions.keys()
    for path, (weights,) in recorded.items():
        assert weights.shape[:2] == (2, attentions[path].n_heads)
        torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights[..., 0]))


@torch.no_grad()
def test_wish_4_a_cache_for_self_and_cross_attention() -> None:
    """No cache, or one for only half of the attentions."""
    writer, translator = make(EVERY["llama"]).eval(), make(tiny("seq2seq")).eval()
    assert isinstance(writer, LanguageModel) and isinstance(translator, Seq2Seq)
    ids, source = random_ids(writer.config, 2, 6), random_ids(translator.config, 2, 5)
    cache = writer.start_cache()
    steps = [writer(ids[:, t : t + 1], cache=cache) for t in range(6)]
    assert share(torch.cat(steps, dim=1), writer(ids)) <= FLOAT64_SHARE
    cache, memory = translator.start_cache(), translator.encode(source)
    steps = [translator.decode(ids[:, t : t + 1], memory, cache=cache) for t in range(6)]
    assert share(torch.cat(steps, dim=1), translator(source, ids)) <= FLOAT64_SHARE
    assert {layer.length for layer in cache.cross_attention} == {5}


@pytest.mark.parametrize(("n_queries", "n_keys"), [(3, 7), (7, 3), (1, 4), (4, 4)])
def test_wish_5_causal_means_absolute_positions(n_queries: int, n_keys: int) -> None:
    """`is_causal` aligned to the first key, or treated as a hint, if Q ≠ K."""
    queries, keys = seeded(2, 2, n_queries, 4), seeded(2, 2, n_keys, 4, seed=1)
    visible = loop_visible((2, 2, n_queries, n_keys), causal=True)
    expected = loop_attention(queries, keys, keys, dot_score(2.0), visible).context
    assert share(attend_fused(queries, keys, keys, causal=True), expected) <= FLOAT64_SHARE
    assert share(attend_written(queries, keys, keys, causal=True).context, expected) <= 1e-12
    mask = causal_mask(n_queries, n_keys)
    assert share(attend_fused(queries, keys, keys, mask=mask), expected) <= FLOAT64_SHARE


@both
@every_model
def test_wish_6_train_eval_and_no_grad_agree_bit_by_bit(name: str, implementation: Any) -> None:
    """A fast path in eval mode that computes, masks or truncates differently."""
    config = EVERY[name]
    model, inputs = make(config, attention=implementation), inputs_for(config)
    trained = model.train()(*inputs)
    evaluated = model.eval()(*inputs)
    with torch.no_grad():
        without_grad = model(*inputs)
    with torch.inference_mode():
        inferred = model(*inputs)
    for other in (evaluated, without_grad, inferred):
        assert other.shape == trained.shape and other.equal(trained)


@pytest.mark.parametrize("name", ["encoder", "classifier", "bert", "seq2seq", "gpt2"])
def test_wish_6_the_same_under_padding(name: str) -> None:
    """nn.TransformerEncoder truncated padded output in eval mode, and ignored its mask."""
    config = EVERY[name]
    model, inputs = make(config), inputs_for(config)
    is_token = torch.arange(6) < torch.tensor([6, 3])[:, None]
    trained = model.train()(*inputs, is_token)
    model.eval()
    with torch.no_grad():
        assert model(*inputs, is_token).equal(trained)
