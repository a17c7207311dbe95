"""Configs: plain data, checked on construction, exact through JSON."""

import json
from dataclasses import FrozenInstanceError
from typing import Any

import pytest

from glassformer.errors import ConfigError, GlassformerError, UnknownNameError
from glassformer.nn import (
    AttentionConfig,
    BlockConfig,
    EmbeddingConfig,
    FeedForwardConfig,
    ImageConfig,
    ModelConfig,
    OutputConfig,
    PositionConfig,
    build,
    presets,
)
from tests.nn.small import EVERY


@pytest.mark.parametrize("name", presets.PRESETS)
def test_every_preset_survives_json(name: str) -> None:
    config = presets.preset(name)
    text = json.dumps(config.to_dict())
    assert ModelConfig.from_dict(json.loads(text)) == config


@pytest.mark.parametrize("name", EVERY)
def test_a_config_from_json_builds_the_same_modules(name: str) -> None:
    config = EVERY[name]
    again = ModelConfig.from_dict(json.loads(json.dumps(config.to_dict())))
    assert repr(build(again)) == repr(build(config))


def test_a_number_as_divisor_survives_json() -> None:
    config = ModelConfig(attention=AttentionConfig(divisor=2.5))
    assert ModelConfig.from_dict(json.loads(json.dumps(config.to_dict()))) == config


def test_missing_keys_get_their_defaults() -> None:
    assert ModelConfig.from_dict({}) == ModelConfig()
    assert ModelConfig.from_dict({"attention": {"n_heads": 4}}).attention.n_heads == 4


def test_configs_are_frozen_and_equal_by_value() -> None:
    config = presets.gpt2()
    assert config == presets.gpt2() and hash(config) == hash(presets.gpt2())
    with pytest.raises(FrozenInstanceError):
        config.d_model = 3  # type: ignore[misc]


# Unknown keys


@pytest.mark.parametrize(
    ("data", "unknown", "suggestion"),
    [
        ({"d_modle": 8}, "config.d_modle", "config.d_model"),
        ({"attention": {"n_head": 8}}, "config.attention.n_head", "config.attention.n_heads"),
        ({"block": {"nrom": "rms"}}, "config.block.nrom", "config.block.norm"),
    ],
)
def test_an_unknown_key_is_named_with_its_place_and_a_suggestion(
    data: dict[str, Any], unknown: str, suggestion: str
) -> None:
    with pytest.raises(UnknownNameError) as error:
        ModelConfig.from_dict(data)
    assert repr(unknown) in str(error.value)
    assert f"did you mean {suggestion!r}" in str(error.value)


def test_a_section_that_is_not_an_object_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"config\.attention must be an object.*got 8"):
        ModelConfig.from_dict({"attention": 8})


# Wrong values: what was expected, what was received

WRONG: list[tuple[Any, dict[str, Any], tuple[str, ...]]] = [
    (ModelConfig, {"d_model": "big"}, ("ModelConfig.d_model", "a whole number", "'big'")),
    (ModelConfig, {"d_model": 8.0}, ("ModelConfig.d_model", "a whole number", "8.0")),
    (ModelConfig, {"d_model": True}, ("ModelConfig.d_model", "a whole number", "True")),
    (ModelConfig, {"d_model": 0}, ("d_model", "at least 1", "0")),
    (ModelConfig, {"max_len": -1}, ("max_len", "at least 1", "-1")),
    (ModelConfig, {"n_layers": -1}, ("n_layers", "at least 0", "-1")),
    (ModelConfig, {"n_decoder_layers": -2}, ("n_decoder_layers", "at least 0", "-2")),
    (ModelConfig, {"architecture": "gan"}, ("'seq2seq'", "'language_model'", "'gan'")),
    (ModelConfig, {"init": "ones"}, ("'normal' or 'xavier' or 'kaiming'", "'ones'")),
    (ModelConfig, {"pad_id": 1000}, ("pad_id", "0..999", "1000")),
    (ModelConfig, {"attention": {}}, ("ModelConfig.attention", "AttentionConfig", "{}")),
    (ModelConfig, {"d_model": 10}, ("d_model", "n_heads", "10 and 8", "d_head")),
    (ModelConfig, {"d_model": -8}, ("d_model", "at least 1", "-8")),
    (ModelConfig, {"d_model": 8 * 10**30}, ("d_model", "at most 16,777,216", "got 8,000,000,")),
    (ModelConfig, {"vocab_size": 2**31 + 1}, ("vocab_size", "at most 2,147,483,648", "649")),
    (ModelConfig, {"max_len": 2**63}, ("max_len", "at most 16,777,216", "9,223,372,")),
    (ModelConfig, {"n_layers": 10**9}, ("n_layers", "at most 10,000", "1,000,000,000")),
    (AttentionConfig, {"n_heads": -1}, ("n_heads", "at least 1", "-1")),
    (FeedForwardConfig, {"d_ff": 0}, ("d_ff", "at least 1", "0")),
    (AttentionConfig, {"n_heads": 0}, ("n_heads", "at least 1", "0")),
    (AttentionConfig, {"n_heads": 6, "n_kv_heads": 4}, ("n_heads", "n_kv_heads", "6 and 4")),
    (AttentionConfig, {"divisor": 0.0}, ("divisor", "above 0", "0.0")),
    (AttentionConfig, {"divisor": float("nan")}, ("divisor", "a number", "nan")),
    (AttentionConfig, {"divisor": float("inf")}, ("divisor", "a number", "inf")),
    (AttentionConfig, {"divisor": 10**400}, ("divisor", "a number")),
    (AttentionConfig, {"divisor": "sqrt"}, ("'sqrt_head'", "a number", "'sqrt'")),
    (AttentionConfig, {"dropout": 1.0}, ("dropout", "below 1", "1.0")),
    (AttentionConfig, {"bias": 1}, ("bias", "true or false", "1")),
    (FeedForwardConfig, {"n_layers": 3}, ("1 or 2", "3")),
    (FeedForwardConfig, {"n_layers": 1, "activation": "swiglu"}, ("two layers", "n_layers=1")),
    (BlockConfig, {"norm": "batch"}, ("'layer' or 'rms' or 'plain'", "'batch'")),
    (BlockConfig, {"norm_eps": 0.0}, ("norm_eps", "above 0", "0.0")),
    (BlockConfig, {"norm_eps": float("inf")}, ("norm_eps", "a number", "inf")),
    (PositionConfig, {"kind": "alibi"}, ("'rotary'", "'alibi'")),
    (PositionConfig, {"base": 0.0}, ("base", "above 0", "0.0")),
    (EmbeddingConfig, {"n_types": -1}, ("n_types", "at least 0", "-1")),
    (OutputConfig, {"n_classes": 0}, ("n_classes", "at least 1", "0")),
    (OutputConfig, {"pooling": "sum"}, ("'mean' or 'max' or 'first'", "'sum'")),
    (OutputConfig, {"flattened": True, "tied": "all"}, ("flattened", "tied='all'")),
    (ImageConfig, {"size": 10, "patch": 4}, ("multiple of the patch", "10 and 4")),
]


@pytest.mark.usefixtures("as_users_run_it")
@pytest.mark.parametrize(
    ("make", "settings", "parts"), WRONG, ids=[f"{m.__name__} {s}" for m, s, _ in WRONG]
)
def test_a_wrong_value_is_refused_with_what_was_expected(
    make: Any, settings: dict[str, Any], parts: tuple[str, ...]
) -> None:
    with pytest.raises(ConfigError) as error:
        make(**settings)
    assert isinstance(error.value, ValueError) and isinstance(error.value, GlassformerError)
    for part in parts:
        assert part in str(error.value)
    assert "\n" not in str(error.value)


def test_rotary_positions_need_an_even_head_width() -> None:
    with pytest.raises(ConfigError, match="even head width, got 3"):
        presets.llama(d_model=12, n_heads=4)


def test_sizes_that_overflow_together_are_refused() -> None:
    wide = AttentionConfig(n_heads=2**24, d_head=2**24)
    with pytest.raises(ConfigError, match=r"a matrix of 5e\+21 numbers; reduce d_model or another"):
        ModelConfig(d_model=2**24, attention=wide)
    with pytest.raises(ConfigError, match=r"a matrix of 5e\+21 numbers"):
        presets.by_hand_2024(vocab_size=2**24, d_model=2**24, max_len=2**24)
    ModelConfig(d_model=2**24, vocab_size=2**31, max_len=2**24).describe()


@pytest.mark.parametrize(
    "sizes",
    [
        {"architecture": "language_model", "vocab_size": 256_000, "d_model": 16_384,
         "n_layers": 126, "max_len": 2**20},
        {"n_layers": 10_000},
        {"architecture": "recommender", "vocab_size": 300_000_000, "d_model": 32},
    ],
)  # fmt: skip
def test_sizes_of_the_largest_models_are_accepted(sizes: dict[str, Any]) -> None:
    config = ModelConfig(**sizes)
    assert {name: getattr(config, name) for name in sizes} == sizes


def test_tying_everything_needs_one_vocabulary() -> None:
    with pytest.raises(ConfigError, match="13 and 14"):
        ModelConfig(vocab_size=13, target_vocab_size=14, output=OutputConfig(tied="all"))
    ModelConfig(vocab_size=13, target_vocab_size=13, output=OutputConfig(tied="all"))


def test_without_an_output_map_the_heads_must_be_as_wide_as_the_stream() -> None:
    narrow = AttentionConfig(n_heads=2, d_value=3, output_map=False)
    with pytest.raises(ConfigError, match=r"heads \(6\) must be as wide as d_model \(8\)"):
        ModelConfig(d_model=8, attention=narrow)
    ModelConfig(architecture="attention", d_model=8, attention=narrow)


@pytest.mark.usefixtures("as_users_run_it")
def test_whole_numbers_pass_for_numbers() -> None:
    assert AttentionConfig(divisor=2).score_divisor(8) == 2.0


# with_


def test_with_changes_a_copy_and_nothing_else() -> None:
    config = presets.gpt2()
    changed = config.with_(d_model=24, attention__n_heads=6, attention__bias=False)
    assert (changed.d_model, changed.attention.n_heads, changed.attention.bias) == (24, 6, False)
    assert changed.attention.dropout == config.attention.dropout
    assert changed.block == config.block
    assert config == presets.gpt2()
    assert config.with_() == config


def test_with_takes_a_section_and_a_change_to_it() -> None:
    section = AttentionConfig(n_heads=4, bias=True)
    changed = ModelConfig().with_(attention=section, attention__n_heads=2)
    assert changed.attention == AttentionConfig(n_heads=2, bias=True)


@pytest.mark.parametrize(
    ("name", "unknown"),
    [("d_modle", "d_modle"), ("atention__n_heads", "atention"), ("attention__n_head", "n_head")],
)
def test_with_refuses_unknown_names_with_a_suggestion(name: str, unknown: str) -> None:
    with pytest.raises(UnknownNameError, match=f"{unknown}.*did you mean"):
        ModelConfig().with_(**{name: 2})


def test_with_refuses_a_setting_of_a_plain_field() -> None:
    with pytest.raises(UnknownNameError, match="'size'; there are none"):
        ModelConfig().with_(d_model__size=2)


def test_with_checks_values() -> None:
    with pytest.raises(ConfigError, match="512 and 7"):
        ModelConfig().with_(attention__n_heads=7)
