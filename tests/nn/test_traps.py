"""One test for each bug of other implementations that this code could have.

The numbers are those of the original list; the docstring says what went wrong.
"""

import copy
import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from glassformer.errors import InputError, MaskError
from glassformer.nn import (
    AttentionConfig,
    BlockConfig,
    LanguageModel,
    MultiHeadAttention,
    Seq2Seq,
    attend_written,
    build,
    presets,
    record_attention,
    set_attention,
)
from glassformer.nn.attention import join_heads, softmax_over_keys, split_heads
from glassformer.nn.layers import layer_norm, make_norm
from glassformer.nn.models import pool
from glassformer.nn.positions import sinusoidal_table
from tests.nn.oracles import FLOAT64_SHARE, dot_score, loop_attention, seeded, share
from tests.nn.small import EVERY, make, random_ids, shrunk, tiny

both = pytest.mark.parametrize("implementation", ["written", "fused"])


def attention(n_heads: int = 4, **settings: Any) -> MultiHeadAttention:
    torch.manual_seed(0)
    return MultiHeadAttention(8, AttentionConfig(n_heads=n_heads, **settings)).double()


def test_trap_01_scores_are_divided_by_the_root_of_the_head_width() -> None:
    """√d_model instead of √d_head."""
    module, x = attention(output_map=False), seeded(2, 5, 8)
    q, k, v = (split_heads(m(x), 4) for m in (module.to_queries, module.to_keys, module.to_values))
    expected = F.scaled_dot_product_attention(q, k, v, scale=1 / math.sqrt(2))
    assert share(module(x), join_heads(expected)) <= FLOAT64_SHARE


def test_trap_02_softmax_runs_over_the_keys() -> None:
    """Softmax over the wrong dimension."""
    weights = attend_written(seeded(2, 3, 4, 8), seeded(2, 3, 9, 8), seeded(2, 3, 9, 8)).weights
    assert weights.shape == (2, 3, 4, 9)
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 3, 4, dtype=torch.float64))
    assert not torch.allclose(weights.sum(-2), torch.ones(2, 3, 9, dtype=torch.float64))


@both
def test_trap_03_heads_are_split_from_each_vector(implementation: Any) -> None:
    """Heads split or merged by a bare view, which mixes positions; a copy task still passes."""
    module, x = attention(output_map=False), seeded(2, 5, 8)
    set_attention(module, implementation)
    got = module(x)
    for head in range(4):
        rows = slice(2 * head, 2 * head + 2)
        q, k, v = (
            (x @ m.weight[rows].T).unsqueeze(1)
            for m in (module.to_queries, module.to_keys, module.to_values)
        )
        expected = loop_attention(q, k, v, dot_score(math.sqrt(2))).context.squeeze(1)
        assert share(got[..., rows], expected) <= FLOAT64_SHARE


@both
def test_trap_04_each_sentence_gets_its_own_mask_in_every_head(implementation: Any) -> None:
    """Masks repeated in head-by-batch order and applied in batch-by-head order."""
    config = tiny("encoder")
    model, ids = make(config, attention=implementation), random_ids(config, 3, 6)
    lengths = [6, 2, 4]
    together = model(ids, torch.arange(6) < torch.tensor(lengths)[:, None])
    for row, n in enumerate(lengths):
        assert share(together[row, :n], model(ids[row : row + 1, :n])[0]) <= FLOAT64_SHARE


def assert_future_has_no_influence(
    implementation: Any, factor: float, dtype: torch.dtype, device: str = "cpu"
) -> None:
    """∂y_t/∂x_s is exactly 0 for s > t, and not for s ≤ t."""
    module = attention(bias=True).to(device=device, dtype=dtype)
    set_attention(module, implementation)
    module.to_queries.weight.data *= factor
    x = seeded(1, 6, 8).to(device=device, dtype=dtype).requires_grad_()
    for mask in (None, torch.ones(1, 1, 1, 6, dtype=torch.bool, device=device)):
        output = module(x, mask=mask, causal=True)
        assert output.isfinite().all()
        for t in range(6):
            (gradient,) = torch.autograd.grad(output[0, t].sum(), x, retain_graph=True)
            assert gradient[0, t + 1 :].eq(0).all()
            assert gradient[0, : t + 1].ne(0).any()


@both
@pytest.mark.parametrize("factor", [1.0, 1e5])
def test_trap_05_no_logit_beats_the_mask(implementation: Any, factor: float) -> None:
    """Large logits exceed a finite fill value such as −1e4, and the future leaks."""
    assert_future_has_no_influence(implementation, factor, torch.float32)


@pytest.mark.parametrize("name", ["gpt2", "llama", "language_model"])
def test_trap_05_a_changed_future_changes_no_bit_of_the_past(name: str) -> None:
    """The same for whole models: later ids do not change earlier logits by a bit."""
    model, ids = make(EVERY[name]), random_ids(EVERY[name], 2, 6)
    changed = ids.clone()
    changed[:, 4:] = changed[:, 4:] % 12 + 1
    assert model(changed)[:, :4].equal(model(ids)[:, :4])
    assert not model(changed)[:, 4:].equal(model(ids)[:, 4:])


@pytest.mark.usefixtures("as_users_run_it")
@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.uint8], ids=str)
@both
def test_trap_06_a_mask_that_is_not_boolean_is_refused(
    implementation: Any, dtype: torch.dtype
) -> None:
    """A boolean mask cast to float is added to the scores instead of hiding them."""
    module = attention()
    set_attention(module, implementation)
    with pytest.raises(MaskError, match=f"must be boolean.*got {dtype}"):
        module(seeded(1, 3, 8), mask=torch.ones(3, 3, dtype=dtype))
    with pytest.raises(TypeError):
        build(tiny("encoder"))(torch.ones(1, 3, dtype=torch.long), torch.ones(1, 3, dtype=dtype))


def devices_and_dtypes() -> list[tuple[str, torch.dtype]]:
    """The devices and dtypes of this machine. bfloat16 on CPUs is left to elementwise tests."""
    pairs = [("cpu", torch.float64), ("cpu", torch.float32), ("cpu", torch.float16)]
    if torch.accelerator.is_available():
        kind = str(torch.accelerator.current_accelerator())
        pairs += [(kind, d) for d in (torch.float32, torch.float16, torch.bfloat16)]
    return pairs


@both
@pytest.mark.parametrize(("device", "dtype"), devices_and_dtypes(), ids=str)
def test_trap_07_the_future_stays_hidden_on_every_device_in_every_precision(
    implementation: Any, device: str, dtype: torch.dtype
) -> None:
    """A fused kernel that leaks the future on one device in half precision."""
    factor = 1e3 if dtype is torch.float16 else 1e5  # the largest float16 is 65504
    assert_future_has_no_influence(implementation, factor, dtype, device)


def test_trap_08_decoding_does_not_read_source_padding() -> None:
    """Cross-attention without the source's mask, in decoding only."""
    model = make(tiny("seq2seq", pad_id=0)).eval()
    assert isinstance(model, Seq2Seq)
    source, target = random_ids(model.config, 1, 4), random_ids(model.config, 1, 3, seed=2)
    padded = F.pad(source, (0, 5))
    is_token, cache = model.source_tokens(padded), model.start_cache()
    memory = model.encode(padded)
    steps = [model.decode(target[:, t : t + 1], memory, is_token, cache=cache) for t in range(3)]
    assert share(torch.cat(steps, dim=1), model(source, target)) <= FLOAT64_SHARE
    assert share(model(padded, target), model(source, target)) <= FLOAT64_SHARE


@pytest.mark.parametrize("pooling", ["mean", "max", "first"])
def test_trap_09_pooling_ignores_padding(pooling: str) -> None:
    """A mean that includes padding, or runs over the whole batch."""
    model = make(tiny("classifier", pad_id=0, output__pooling=pooling))
    ids = random_ids(tiny("classifier"), 3, 5)
    ids[1, 2:], ids[2, :3] = 0, 0
    alone = torch.cat([model(ids[:1]), model(ids[1:2, :2]), model(ids[2:, 3:])])
    assert share(model(ids), alone) <= FLOAT64_SHARE


@pytest.mark.parametrize("positions", ["learned", "sinusoidal", "rotary"])
def test_trap_10_positions_count_tokens_not_left_padding(positions: str) -> None:
    """Positions that count padding, so that a text's positions depend on its batch."""
    config = tiny("language_model", positions__kind=positions)
    model, ids = make(config), random_ids(config, 1, 5)
    padded, is_token = F.pad(ids, (3, 0)), torch.tensor([[False] * 3 + [True] * 5])
    assert share(model(padded, is_token)[:, 3:], model(ids)) <= FLOAT64_SHARE


@pytest.mark.parametrize("positions", ["learned", "sinusoidal", "rotary", "none"])
def test_trap_11_a_cache_shifts_mask_and_positions(positions: str) -> None:
    """Mask or positions of a chunk counted from 0 instead of from the end of the cache."""
    model = make(tiny("language_model", positions__kind=positions)).eval()
    assert isinstance(model, LanguageModel)
    ids, cache = random_ids(model.config, 2, 8), model.start_cache()
    chunks = [model(piece, cache=cache) for piece in ids.split([3, 4, 1], dim=1)]
    assert share(torch.cat(chunks, dim=1), model(ids)) <= FLOAT64_SHARE


def beam_search(model: LanguageModel, start: Tensor, cached: bool) -> tuple[Tensor, Tensor]:
    """Three beams, five steps; with a cache that follows the beams, or recomputed."""
    beams, scores = start.expand(3, -1), torch.tensor([0.0, -math.inf, -math.inf])
    cache = model.start_cache()
    logits = model(beams, cache=cache if cached else None)[:, -1]
    for _ in range(5):
        totals = scores[:, None] + logits.log_softmax(-1)
        scores, best = totals.flatten().topk(3)
        rows, tokens = best // logits.size(-1), best % logits.size(-1)
        beams = torch.cat([beams[rows], tokens[:, None]], dim=1)
        if cached:
            cache.select(rows)
        logits = model(tokens[:, None], cache=cache)[:, -1] if cached else model(beams)[:, -1]
    return beams, scores


@torch.no_grad()
@pytest.mark.parametrize("seed", range(5))
def test_trap_12_cached_beams_equal_beams_without_a_cache(seed: int) -> None:
    """A cache whose rows are not reordered with the beams."""
    model = make(shrunk("gpt2"), seed=seed).eval()
    assert isinstance(model, LanguageModel)
    model.to_vocabulary.weight.data *= 30  # logits that differ between beams
    start = random_ids(model.config, 1, 3, seed=seed)
    beams, scores = beam_search(model, start, cached=True)
    expected_beams, expected_scores = beam_search(model, start, cached=False)
    assert beams.equal(expected_beams)
    torch.testing.assert_close(scores, expected_scores, rtol=1e-5, atol=1e-5)


@both
def test_trap_13_evaluation_drops_nothing(implementation: Any) -> None:
    """The fused kernel's dropout argument ignores eval()."""
    module = attention(dropout=0.5)
    set_attention(module, implementation)
    x = seeded(2, 5, 8)
    assert not module(x).equal(module(x))
    module.eval()
    assert module(x).equal(module(x))


@both
def test_trap_14_reported_weights_are_those_before_dropout(implementation: Any) -> None:
    """Weights reported after dropout: rows that sum to more than one."""
    module = attention(dropout=0.5)
    set_attention(module, implementation)
    with record_attention(module) as recorded:
        module(seeded(2, 5, 8))
    (weights,) = recorded[""]
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 4, 5, dtype=torch.float64))
    assert weights.gt(0).all()


def test_trap_15_norms_use_the_population_variance_and_epsilon_inside_the_root() -> None:
    """Unbiased deviation, epsilon outside the root: wrong on narrow or nearly constant rows."""
    torch.manual_seed(0)
    reference = nn.LayerNorm(4).double()
    nn.init.normal_(reference.weight), nn.init.normal_(reference.bias)
    ours = make_norm(4, BlockConfig()).double()
    ours.load_state_dict(reference.state_dict())
    for spread in (1.0, 1e-3, 1e-6, 0.0):
        x = 5 + spread * seeded(3, 4)
        expected = reference(x)
        assert share(ours(x), expected) <= FLOAT64_SHARE
        assert share(layer_norm(x, reference.weight, reference.bias), expected) <= 1e-9


def test_trap_16_pre_norm_adds_to_the_stream_and_ends_with_a_norm() -> None:
    """A residual that adds the normalised stream; a pre-norm stack without a final norm."""
    model = make(tiny("seq2seq", block__norm_first=True, block__final_norm=True))
    assert isinstance(model, Seq2Seq)
    for name, parameter in model.named_parameters():
        if "to_output" in name or "contract" in name:
            nn.init.zeros_(parameter)
    x, memory = (10 * seeded(2, 5, 8, seed=seed) for seed in range(2))
    for stack in (model.encoder, model.decoder):
        stream = x
        for block in stack.blocks:
            stream = block(stream, memory=memory)
        assert stream.equal(x)
        assert stack.final_norm is not None
        assert stack.transform(x, memory=memory).equal(stack.final_norm(x))
    assert presets.gpt2().block.final_norm and presets.llama().block.final_norm


@pytest.mark.parametrize("width", [1, 2, 5, 6, 7, 512])
def test_trap_17_sine_and_cosine_of_a_pair_share_one_angle(width: int) -> None:
    """The exponent counted twice (2i for dimension i), and odd widths that crash."""
    table = sinusoidal_table(64, width).double()
    assert table.shape == (64, width)
    sines, cosines = table[:, 0::2], table[:, 1::2]
    circle = sines[:, : cosines.size(1)].square() + cosines.square()
    assert circle.sub(1).abs().lt(2e-7).all()
    if width >= 6:
        assert float(table[1, 2]) == pytest.approx(math.sin(10_000 ** (-2 / width)), abs=1e-7)


def test_trap_18_tied_parameters_are_one_tensor_and_scaled_once() -> None:
    """Tying by copy diverges in training or loading; √d applied to both uses."""
    model = make(shrunk("vaswani_2017_base", n_layers=0))
    assert isinstance(model, Seq2Seq)
    model.load_state_dict(copy.deepcopy(model.state_dict()))
    model.to(torch.float64)
    table = model.to_vocabulary.weight
    assert model.get_parameter("encoder.embedding.weight").data_ptr() == table.data_ptr()
    assert model.get_parameter("decoder.embedding.weight").data_ptr() == table.data_ptr()
    ids = random_ids(model.config, 1, 3)
    read = table[ids] * math.sqrt(8) + sinusoidal_table(3, 8).double()
    assert share(model(ids, ids), read @ table.T) <= FLOAT64_SHARE


@pytest.mark.parametrize("name", EVERY)
def test_trap_19_no_two_layers_are_initialised_equal(name: str) -> None:
    """Layers made by deep copies of one layer."""
    torch.manual_seed(0)
    matrices = [p for p in build(EVERY[name]).parameters() if p.dim() > 1 and p.numel() > 8]
    for i, first in enumerate(matrices):
        for second in matrices[i + 1 :]:
            assert first.shape != second.shape or not first.equal(second)


def test_trap_24_one_pair_is_learned_and_decoded_exactly() -> None:
    """Labels shifted by none or by two: training looks fine and decoding repeats one token."""
    config = tiny("seq2seq", d_model=16, init="xavier", pad_id=0)
    torch.manual_seed(0)
    model = build(config)
    assert isinstance(model, Seq2Seq)
    start, end = 1, 2
    source = torch.tensor([[5, 9, 3, 7]])
    target = torch.tensor([[start, 8, 8, 4, 10, 6, 8, end]])
    optimiser = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(60):
        loss = F.cross_entropy(model(source, target[:, :-1])[0], target[0, 1:])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    model.eval()
    memory, cache, written = model.encode(source), model.start_cache(), [start]
    seen = model.source_tokens(source)
    while written[-1] != end and len(written) < 12:
        logits = model.decode(torch.tensor([written[-1:]]), memory, seen, cache=cache)
        written.append(int(logits[0, -1].argmax()))
    assert written == target[0].tolist()


def test_trap_28_sums_in_bfloat16_do_not_stall() -> None:
    """A bfloat16 sum of ones stops at 256: the softmax of 512 equal scores becomes 1/256."""
    weights = softmax_over_keys(torch.zeros(1, 512, dtype=torch.bfloat16))
    assert weights.eq(1 / 512).all()
    ones = torch.ones(1, 512, 3, dtype=torch.bfloat16)
    assert pool(ones, "mean", torch.ones(1, 512, dtype=torch.bool)).eq(1).all()
    assert layer_norm(torch.ones(1, 512, dtype=torch.bfloat16)).eq(0).all()


def test_trap_30_gpt2_has_the_tanh_gelu_and_bert_the_exact_one() -> None:
    """The two differ by up to 5e-4 and are easily confused."""
    x = torch.linspace(-5, 5, 101, dtype=torch.float64)
    tanh = 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    exact = 0.5 * x * (1 + torch.erf(x / math.sqrt(2)))
    assert 1e-4 < float((tanh - exact).abs().max()) < 1e-3
    for name, path, expected in (
        ("gpt2", "decoder.blocks.0.feed_forward", tanh),
        ("bert", "encoder.blocks.0.feed_forward", exact),
    ):
        part = make(shrunk(name)).double().get_submodule(path)
        for parameter in part.parameters():  # everything 0 except the path of the first number
            parameter.data.zero_()
            if parameter.dim() == 2:
                parameter.data[0, 0] = 1
        got = part(F.pad(x[None, :, None], (0, 7)))[0, :, 0]
        assert share(got, expected) <= FLOAT64_SHARE


def test_trap_31_the_error_of_an_overlong_text_has_both_lengths() -> None:
    """ "index out of range in self"."""
    model = build(shrunk("gpt2"))
    with pytest.raises(InputError, match="has 17 positions, the model has learned 16"):
        model(torch.ones(1, 17, dtype=torch.long))
