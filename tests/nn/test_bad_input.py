"""Bad input: our own message, with what was expected and what was received.

Run as users run it, without shape checks.
"""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from glassformer.claims.bloem import SelfAttention, Transformer
from glassformer.errors import (
    ConfigError,
    GlassformerError,
    InputError,
    MaskError,
    ShapeError,
    UnknownNameError,
)
from glassformer.nn import (
    AttentionConfig,
    LanguageModel,
    ModelConfig,
    MultiHeadAttention,
    Seq2Seq,
    attend_fused,
    attend_written,
    build,
    padding_mask,
    presets,
    set_attention,
)
from glassformer.nn.attention import Implementation
from glassformer.nn.models import pool
from tests.nn.small import SIZES, shrunk, tiny

pytestmark = pytest.mark.usefixtures("as_users_run_it")

Call = Callable[[], Any]


def refuses(error: type[GlassformerError], call: Call, *parts: str) -> None:
    with pytest.raises(error) as caught:
        call()
    message = str(caught.value)
    for part in parts:
        assert part in message
    assert "\n" not in message
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


def attention() -> MultiHeadAttention:
    return MultiHeadAttention(8, AttentionConfig(n_heads=2))


def gpt2() -> LanguageModel:
    model = build(shrunk("gpt2"))
    assert isinstance(model, LanguageModel)
    return model


def translator() -> Seq2Seq:
    model = build(tiny("seq2seq"))
    assert isinstance(model, Seq2Seq)
    return model


def ids(*shape: int, value: int = 1, dtype: torch.dtype = torch.long) -> torch.Tensor:
    return torch.full(shape, value, dtype=dtype)


# Widths and shapes


@pytest.mark.parametrize("shape", [(2, 3, 9), (3, 8), (8,), (1, 2, 3, 8)], ids=str)
def test_attention_names_the_shape_it_expects(shape: tuple[int, ...]) -> None:
    refuses(
        ShapeError,
        lambda: attention()(torch.zeros(shape)),
        "x of shape (batch, positions, 8)",
        str(shape),
    )


def test_a_source_of_the_wrong_width_is_called_source() -> None:
    refuses(
        ShapeError,
        lambda: attention()(torch.zeros(1, 2, 8), torch.zeros(1, 2, 6)),
        "source of shape (batch, positions, 8)",
        "(1, 2, 6)",
    )
    refuses(ShapeError, lambda: translator().decode(ids(1, 2), torch.zeros(1, 2, 6)), "8", "6")


@pytest.mark.parametrize("attend", [attend_written, attend_fused])
def test_attention_functions_check_widths_keys_and_heads(attend: Any) -> None:
    def call(q: tuple[int, ...], k: tuple[int, ...], v: tuple[int, ...]) -> Call:
        return lambda: attend(torch.zeros(q), torch.zeros(k), torch.zeros(v))

    good = (1, 2, 3, 4)
    refuses(ShapeError, call(good, (1, 2, 3, 5), good), "the same width", "4 and 5")
    refuses(ShapeError, call(good, good, (1, 2, 6, 4)), "one value", "3 keys and 6 values")
    refuses(ShapeError, call((1, 4, 3, 4), (1, 3, 3, 4), (1, 3, 3, 4)), "multiple", "4 and 3")
    refuses(ShapeError, call((3, 4), (3, 4), (3, 4)), "(..., heads, positions, width)", "(3, 4)")


def test_an_image_of_the_wrong_size() -> None:
    model = build(tiny("image_classifier"))
    refuses(ShapeError, lambda: model(torch.zeros(1, 2, 9, 8)), "(batch, 2, 8, 8)", "(1, 2, 9, 8)")


def test_a_decoder_without_the_encoder_output() -> None:
    refuses(ShapeError, lambda: translator().decoder(ids(1, 2)), "needs the encoder's output")


# Heads


def test_indivisible_heads() -> None:
    refuses(ConfigError, lambda: ModelConfig(d_model=10), "multiple of n_heads", "10 and 8")
    refuses(ConfigError, lambda: MultiHeadAttention(10, AttentionConfig(n_heads=4)), "10 and 4")
    refuses(ConfigError, lambda: SelfAttention(10, heads=4), "k=10 and heads=4")
    refuses(ConfigError, lambda: Transformer(10, 4, 1, 5, 5, 2), "10 and 4")
    refuses(ConfigError, lambda: presets.gpt2(d_model=10, n_heads=3), "10 and 3")


# Masks


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64, torch.uint8], ids=str)
def test_a_mask_that_is_not_boolean(dtype: torch.dtype) -> None:
    mask, x = torch.ones(1, 3, dtype=dtype), torch.zeros(1, 3, 8)
    words = ("must be boolean (True = may attend)", f"got {dtype}", "mask.bool()")
    for call in (
        lambda: attention()(x, mask=mask),
        lambda: attend_written(x[None], x[None], x[None], mask=mask),
        lambda: padding_mask(mask),
        lambda: gpt2()(ids(1, 3), mask),
        lambda: translator()(ids(1, 3), ids(1, 2), mask),
        lambda: translator()(ids(1, 2), ids(1, 3), None, mask),
        lambda: translator().decode(ids(1, 2), torch.zeros(1, 3, 8), mask),
    ):
        refuses(MaskError, call, *words)


def test_a_mask_that_does_not_broadcast() -> None:
    x = torch.zeros(2, 3, 8)
    for implementation in ("written", "fused"):
        module = set_attention(attention(), implementation)
        mask = torch.ones(2, 4, dtype=torch.bool)
        refuses(ShapeError, lambda m=module, k=mask: m(x, mask=k), "(2, 2, 3, 3)", "(2, 4)")  # type: ignore[misc]


@pytest.mark.parametrize("implementation", ["written", "fused"])
def test_a_mask_per_sequence_is_not_taken_for_one_per_head(
    implementation: Implementation,
) -> None:
    """Two sequences and two heads: (2, 3, 3) would fit either way."""
    module = attention()
    set_attention(module, implementation)
    x, each = torch.randn(2, 3, 8), torch.ones(2, 3, 3, dtype=torch.bool).tril()
    refuses(ShapeError, lambda: module(x, mask=each), "(2, 3, 3)", "mask[:, None]", "mask[None]")
    assert torch.equal(module(x, mask=each[:, None]), module(x, mask=each[None]))


def test_values_with_other_heads_than_keys() -> None:
    queries, keys, values = (torch.zeros(1, n, 3, 4) for n in (4, 2, 4))
    for attend in (attend_written, attend_fused):
        refuses(ShapeError, lambda a=attend: a(queries, keys, values), "2 and 4")  # type: ignore[misc]


@pytest.mark.parametrize("divisor", [0.0, -1.0, float("nan")])
def test_a_divisor_that_is_not_above_0(divisor: float) -> None:
    x = torch.zeros(1, 1, 3, 4)
    for attend in (attend_written, attend_fused):
        refuses(ConfigError, lambda a=attend: a(x, x, x, divisor=divisor), "above 0", str(divisor))  # type: ignore[misc]


@pytest.mark.parametrize(("k", "heads"), [(4, 0), (0, 1), (4, -2)])
def test_zero_heads_and_zero_width(k: int, heads: int) -> None:
    refuses(ConfigError, lambda: SelfAttention(k, heads=heads), f"k={k}", f"heads={heads}")


def test_people_and_films_out_of_range() -> None:
    model = build(ModelConfig(architecture="recommender", vocab_size=3, d_model=4))
    one, ten = torch.tensor([1]), torch.tensor([10])
    refuses(InputError, lambda: model(one, ten), "films in 0..2", "got up to 1 and 10")


def test_a_token_mask_of_another_length() -> None:
    four = torch.ones(2, 4, dtype=torch.bool)
    refuses(
        ShapeError, lambda: gpt2()(ids(2, 3), four), "one entry per position", "(2, 3)", "(2, 4)"
    )
    refuses(ShapeError, lambda: build(tiny("classifier"))(ids(2, 3), four), "(2, 3)", "(2, 4)")
    refuses(
        ShapeError,
        lambda: translator().decode(ids(2, 3), torch.zeros(2, 5, 8), four),
        "source",
        "(2, 5)",
        "(2, 4)",
    )


def test_a_token_mask_in_decoding_is_that_of_the_new_tokens() -> None:
    model = gpt2()
    cache = model.start_cache()
    model(ids(1, 3), cache=cache)
    whole = torch.ones(1, 4, dtype=torch.bool)
    refuses(ShapeError, lambda: model(ids(1, 1), whole, cache), "(1, 1)", "(1, 4)")


# Ids


@pytest.mark.parametrize("name", ["gpt2", "bert", "bloem_2024"])
@pytest.mark.parametrize(("low", "high"), [(0, 13), (-1, 5), (0, 10**9)])
def test_ids_out_of_range(name: str, low: int, high: int) -> None:
    refuses(
        InputError,
        lambda: build(shrunk(name))(torch.tensor([[low, high]])),
        "0..12",
        f"from {low} to {high}",
        "tokenizer",
    )


def test_ids_of_source_and_target_have_ranges_of_their_own() -> None:
    model = build(tiny("seq2seq", target_vocab_size=5))
    model(ids(1, 2, value=12), ids(1, 2, value=4))
    refuses(InputError, lambda: model(ids(1, 2), ids(1, 2, value=5)), "0..4", "5")


def test_types_out_of_range() -> None:
    model = build(shrunk("bert"))
    refuses(InputError, lambda: model(ids(1, 2), types=ids(1, 2, value=2)), "type ids", "0..1", "2")


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.bool, torch.uint8, torch.int16, torch.complex64], ids=str
)
def test_ids_of_the_wrong_dtype(dtype: torch.dtype) -> None:
    refuses(InputError, lambda: gpt2()(ids(1, 3, dtype=dtype)), "int64 or int32", f"got {dtype}")


@pytest.mark.parametrize("shape", [(3,), (1, 2, 3), ()], ids=str)
def test_ids_of_the_wrong_shape(shape: tuple[int, ...]) -> None:
    refuses(InputError, lambda: gpt2()(ids(*shape)), "(batch, positions)", f"shape {shape}")


@pytest.mark.parametrize("name", ["gpt2", "bert", "llama", "bloem_2024"])
def test_an_empty_text(name: str) -> None:
    refuses(InputError, lambda: build(shrunk(name))(ids(1, 0)), "empty", "at least one token")


def test_an_empty_source_or_target() -> None:
    refuses(InputError, lambda: translator()(ids(1, 0), ids(1, 2)), "empty")
    refuses(InputError, lambda: translator()(ids(1, 2), ids(1, 0)), "empty")


# Lengths


@pytest.mark.parametrize("name", ["gpt2", "bert", "bloem_2024"])
def test_a_text_longer_than_the_learned_positions(name: str) -> None:
    model = build(shrunk(name))
    model(ids(1, 16))
    refuses(InputError, lambda: model(ids(1, 17)), "17 positions", "learned 16", "max_len")


def test_decoding_past_the_learned_positions() -> None:
    model = gpt2()
    cache = model.start_cache()
    model(ids(1, 16), cache=cache)
    refuses(InputError, lambda: model(ids(1, 1), cache=cache), "17 positions", "learned 16")


def test_sinusoidal_and_rotary_models_take_any_length() -> None:
    for name in ("vaswani_2017_base", "llama"):
        model = build(shrunk(name, max_len=4))
        n_texts = 2 if name == "vaswani_2017_base" else 1
        assert model(*[ids(1, 40)] * n_texts).isfinite().all()


def test_the_flattened_output_layer_takes_one_length() -> None:
    model = build(presets.by_hand_2024())
    refuses(InputError, lambda: model(ids(1, 6), ids(1, 5)), "exactly 6", "got 5", "pad the target")


# Names


def test_unknown_presets_sizes_and_options() -> None:
    refuses(UnknownNameError, lambda: presets.preset("gpt3"), "'gpt3'", "did you mean 'gpt2'")
    refuses(UnknownNameError, lambda: presets.preset("gpt2", d_f=3), "size", "'d_ff'")
    refuses(UnknownNameError, lambda: presets.preset("bert", heads=3), "'heads'", "'n_heads'")
    refuses(UnknownNameError, lambda: ModelConfig().with_(droput=0.1), "'droput'")
    refuses(
        UnknownNameError, lambda: ModelConfig.from_dict({"dmodel": 1}), "'config.dmodel'", "d_model"
    )
    assert "d_ff" not in SIZES["gpt2"]


def test_unknown_implementations() -> None:
    quick: Any = "quick"
    for call in (lambda: set_attention(attention(), quick), lambda: build(tiny("encoder"), quick)):
        refuses(ConfigError, call, "'written' or 'fused'", "'quick'")


def test_arguments_of_the_wrong_type_are_named() -> None:
    model = build(presets.gpt2(vocab_size=9, d_model=8, n_heads=2, n_layers=1))
    with pytest.raises(InputError, match=r"must be a tensor, got list: write torch\.tensor"):
        model([[1, 2, 3]])
    with pytest.raises(ConfigError, match=r"such as presets\.gpt2\(\), .* got 7"):
        build(7)  # type: ignore[call-overload]  # that is the point


def test_every_error_is_ours_and_a_built_in_one() -> None:
    for error, builtin in (
        (ConfigError, ValueError),
        (UnknownNameError, LookupError),
        (ShapeError, ValueError),
        (MaskError, TypeError),
        (InputError, ValueError),
    ):
        assert issubclass(error, GlassformerError) and issubclass(error, builtin)


def test_type_ids_for_a_model_without_types_are_refused() -> None:
    model = build(presets.bloem_2024(vocab_size=9, d_model=8, n_heads=2, n_layers=1))
    ids = torch.tensor([[1, 2]])
    with pytest.raises(InputError, match="takes no type ids"):
        model(ids, types=torch.zeros_like(ids))


def test_the_flattened_output_layer_outside_a_seq2seq_is_refused() -> None:
    with pytest.raises(ConfigError, match="belongs to a seq2seq, got 'classifier'"):
        presets.bloem_2024().with_(output__flattened=True)


def test_decoding_without_the_mask_of_the_source_is_refused() -> None:
    model = build(presets.vaswani_2017_base(vocab_size=9, d_model=8, n_heads=2, pad_id=0))
    assert isinstance(model, Seq2Seq)
    source = torch.tensor([[3, 4, 0]])
    with pytest.raises(InputError, match=r"model\.source_tokens\(source\)"):
        model.decode(torch.tensor([[1]]), model.encode(source))


def test_an_unknown_pooling_is_refused() -> None:
    with pytest.raises(ConfigError, match="'mean', 'max' or 'first', got 'avg'"):
        pool(torch.zeros(1, 2, 3), "avg")


def test_a_refused_step_leaves_the_cache_as_it_was() -> None:
    model = build(presets.gpt2(vocab_size=9, d_model=8, n_heads=2, n_layers=1, max_len=3)).eval()
    assert isinstance(model, LanguageModel)
    cache = model.start_cache()
    with torch.no_grad():
        model(torch.tensor([[1, 2]]), cache=cache)
        with pytest.raises(InputError, match="has 4 positions"):
            model(torch.tensor([[3, 4]]), cache=cache)
    assert cache.length == 2
