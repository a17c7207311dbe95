"""Presets: known parameter totals, conventions, descriptions."""

import inspect
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

from glassformer.errors import ConfigError, UnknownNameError
from glassformer.nn import (
    AttentionConfig,
    Block,
    ModelConfig,
    MultiHeadAttention,
    build,
    count_parameters,
    describe,
    presets,
)
from glassformer.nn.config import Sizes
from tests.nn.small import SIZES, inputs_for, shrunk

every_preset = pytest.mark.parametrize("name", presets.PRESETS)


def on_meta(config: ModelConfig) -> torch.nn.Module:
    with torch.device("meta"):
        return build(config)


# Published totals


@pytest.mark.parametrize(
    ("name", "total"),
    [
        ("gpt2", 124_439_808),
        ("bert", 109_514_298),
        ("llama", 6_738_415_616),
    ],
)
def test_known_totals(name: str, total: int) -> None:
    assert count_parameters(on_meta(presets.preset(name))) == total


@pytest.mark.parametrize(
    ("name", "total"), [("torch_nn_transformer", 44_140_544), ("vaswani_2017_base", 44_138_496)]
)
def test_known_totals_without_embeddings(name: str, total: int) -> None:
    model = on_meta(presets.preset(name))
    assert count_parameters(model, embeddings=False) == total
    assert count_parameters(model) == total + 37_000 * 512


def test_a_recommender_is_made_of_embeddings() -> None:
    model = on_meta(ModelConfig(architecture="recommender", vocab_size=5, d_model=4))
    assert count_parameters(model) == 2 * 5 * (4 + 1) + 1
    assert count_parameters(model, embeddings=False) == 1, "the mean rating"


def test_torch_counts_the_same() -> None:
    with torch.device("meta"):
        theirs = torch.nn.Transformer(batch_first=True)
    assert sum(p.numel() for p in theirs.parameters()) == 44_140_544


def test_the_extra_final_norms_are_the_whole_difference() -> None:
    assert 44_140_544 - 44_138_496 == 2 * 2 * 512


# Every preset shrinks and runs


@every_preset
def test_every_preset_builds_and_runs_at_a_small_size(name: str) -> None:
    config = shrunk(name)
    output = build(config)(*inputs_for(config, dtype=torch.float32))
    assert output.isfinite().all()


@every_preset
def test_every_size_can_be_changed(name: str) -> None:
    for value in SIZES[name].values():
        assert str(value) in str(presets.preset(name, **SIZES[name]).to_dict())


@every_preset
def test_preset_by_name_is_the_function(name: str) -> None:
    assert presets.preset(name) == presets.PRESETS[name]() == getattr(presets, name)()


@every_preset
def test_every_preset_says_what_it_is(name: str) -> None:
    assert len(inspect.getdoc(presets.PRESETS[name]) or "") > 60


def test_unknown_names_get_a_suggestion() -> None:
    with pytest.raises(UnknownNameError, match="unknown preset 'gtp2'; did you mean 'gpt2'"):
        presets.preset("gtp2")
    with pytest.raises(UnknownNameError, match="'n_layer'; did you mean 'n_layers'"):
        presets.preset("gpt2", n_layer=2)
    with pytest.raises(UnknownNameError, match="unknown preset 'zzz'; there are bert"):
        presets.preset("zzz")


# By keywords


def test_a_width_alone_is_enough() -> None:
    """The feed-forward stays a multiple of the width, the number of heads divides it."""
    small = build("gpt2", d_model=64, n_layers=1, vocab_size=50)
    assert (small.config.attention.n_heads, small.config.feed_forward.d_ff) == (8, 256)
    assert presets.gpt2(d_model=24).attention.n_heads == 12
    assert presets.llama(d_model=60, n_kv_heads=2).attention.n_heads == 30
    assert presets.vaswani_2017_base(d_model=64, d_ff=100).feed_forward.d_ff == 100
    assert presets.llama(d_model=64).feed_forward.d_ff == 11_008, "no multiple of the width"
    with pytest.raises(ConfigError, match="multiple of n_heads, got 64 and 12"):
        presets.gpt2(d_model=64, n_heads=12)


def test_dropout_is_set_everywhere_the_preset_has_it() -> None:
    gpt2, paper = presets.gpt2(dropout=0.3), presets.vaswani_2017_base(dropout=0.3)
    assert (gpt2.block.dropout, gpt2.attention.dropout, gpt2.feed_forward.dropout) == (0.3, 0.3, 0)
    assert (paper.block.dropout, paper.attention.dropout) == (0.3, 0)


@pytest.mark.usefixtures("as_users_run_it")
def test_parts_are_made_by_keywords_with_errors_of_one_line() -> None:
    assert MultiHeadAttention(64, n_heads=4).d_head == 16
    assert Block(d_model=64, n_heads=4).attention.n_heads == 4
    assert Block(presets.gpt2(), d_model=64).feed_forward.expand.out_features == 256
    wrong: list[tuple[Callable[[], object], str]] = [
        (lambda: MultiHeadAttention(64, n_head=4), "unknown setting 'n_head'; did you mean"),
        (lambda: MultiHeadAttention(64, 4), "expected AttentionConfig.* got 4"),  # type: ignore[arg-type]
        (lambda: MultiHeadAttention(64, AttentionConfig(), n_heads=4), "got both"),
        (lambda: MultiHeadAttention(64, n_heads=5), "multiple of n_heads, got 64 and 5"),
        (lambda: Block(d_modell=64), "unknown size 'd_modell'; did you mean 'd_model'"),  # type: ignore[call-arg]
        (lambda: build("gpt2", n_layer=2), "unknown size 'n_layer'; did you mean 'n_layers'"),  # type: ignore[call-overload]
        (lambda: build("gtp2"), "unknown preset 'gtp2'; did you mean 'gpt2'"),
    ]
    for call, message in wrong:
        with pytest.raises((ConfigError, UnknownNameError), match=message) as caught:
            call()
        assert "\n" not in str(caught.value)


# Conventions


@pytest.mark.usefixtures("as_users_run_it")
@every_preset
@pytest.mark.parametrize("value", [0, -3, 2.5, float("nan"), "8", None, True])
def test_the_error_names_the_size_given_and_not_a_dependent_one(name: str, value: Any) -> None:
    may_be = {
        **dict.fromkeys(("d_head", "d_value", "n_kv_heads", "target_vocab_size"), (None,)),
        "n_layers": (0,), "pad_id": (0, None), "dropout": (0,), "base": (2.5,),
    }  # fmt: skip
    for size in Sizes.__annotations__:
        allowed = may_be.get(size, ())
        if any(type(value) is type(one) and value == one for one in allowed):  # True is not 1
            continue
        with pytest.raises(ConfigError, match=rf"^(\w+\.)?{size} must"):
            presets.preset(name, **{size: value})


def test_bloem_divides_by_the_root_of_k_in_2019_and_of_k_over_h_in_2024() -> None:
    first, corrected = presets.bloem_2019(), presets.bloem_2024()
    assert first.attention.score_divisor(128) == pytest.approx(math.sqrt(128))
    assert corrected.attention.score_divisor(128) == pytest.approx(math.sqrt(128 / 8))
    assert first == corrected.with_(attention__divisor="sqrt_model")


def facts(config: ModelConfig) -> dict[str, Any]:
    return {
        "norm": config.block.norm,
        "norm_first": config.block.norm_first,
        "final_norm": config.block.final_norm,
        "positions": config.positions.kind,
        "activation": config.feed_forward.activation,
        "tied": config.output.tied,
        "scale": config.embedding.scale,
    }


def test_conventions_of_the_papers() -> None:
    names = ["norm", "norm_first", "final_norm", "positions", "activation", "tied", "scale"]
    table = {
        "vaswani_2017_base": ["layer", False, False, "sinusoidal", "relu", "all", True],
        "torch_nn_transformer": ["layer", False, True, "sinusoidal", "relu", "all", True],
        "bloem_2024": ["layer", False, False, "learned", "relu", "none", False],
        "by_hand_2024": ["plain", False, False, "sinusoidal", "relu", "none", False],
        "gpt2": ["layer", True, True, "learned", "gelu_tanh", "output", False],
        "bert": ["layer", False, False, "learned", "gelu", "output", False],
        "llama": ["rms", True, True, "rotary", "swiglu", "none", False],
    }
    for name, row in table.items():
        assert facts(presets.preset(name)) == dict(zip(names, row, strict=True)), name


def test_the_paper_has_dropout_on_sublayer_outputs_only_and_torch_on_more() -> None:
    paper, theirs = presets.vaswani_2017_base(), presets.torch_nn_transformer()
    assert (paper.block.dropout, paper.attention.dropout, paper.feed_forward.dropout) == (0.1, 0, 0)
    assert (theirs.attention.dropout, theirs.feed_forward.dropout) == (0.1, 0.1)


# describe


def test_describe_is_a_tree_with_counts_that_folds_equal_blocks() -> None:
    lines = presets.torch_nn_transformer().describe().splitlines()
    text = "\n".join(" ".join(line.split()) for line in lines)
    assert lines[0].startswith("Seq2Seq ")
    for part in (
        "encoder: Stack 37,859,328",
        "embedding: TokenEmbedding (37000, 512, times=22.63) 18,944,000",
        "blocks.0-5: Block 6 × 3,152,384",
        "blocks.0-5: Block 6 × 4,204,032",
        "attention: MultiHeadAttention (n_heads=8, d_head=64, divisor=8) 1,050,624",
        "to_queries: Linear (512 → 512, bias) 262,656",
        "expand: Linear (512 → 2048, bias) 1,050,624",
        "final_norm: LayerNorm (eps=1e-05) 1,024",
        "dropout: Dropout (0.1)",
        "to_vocabulary: Linear (512 → 37000) shared",
    ):
        assert part in text
    assert lines[-2].split() == ["parameters", "63,084,544"]
    assert lines[-1].split() == [*["without", "embeddings", "and", "output", "map"], "44,140,544"]


def test_describe_of_the_illustrated_head_in_full() -> None:
    assert presets.illustrated().describe() == "\n".join(
        [
            "MultiHeadAttention (n_heads=1, d_head=3, divisor=1)  36",
            "  to_queries: Linear (4 → 3)                         12",
            "  to_keys: Linear (4 → 3)                            12",
            "  to_values: Linear (4 → 3)                          12",
            "parameters                                           36",
            "without embeddings and output map                    36",
        ]
    )


def test_describe_shows_indentation_by_depth_and_aligned_counts() -> None:
    lines = shrunk("gpt2").describe().splitlines()
    assert [len(line) for line in lines if line[-1].isdigit()] == [len(lines[0])] * sum(
        line[-1].isdigit() for line in lines
    )
    depths = [len(line) - len(line.lstrip()) for line in lines]
    assert set(depths) == {0, 2, 4, 6, 8}


def test_describe_counts_shared_parameters_once_in_the_total() -> None:
    model = build(shrunk("gpt2"))
    total = sum(p.numel() for p in model.parameters())
    assert f"{total:,}" in describe(model).splitlines()[-2]


def test_describe_allocates_nothing_even_for_seven_billion() -> None:
    text = presets.llama().describe()
    assert "6,738,415,616" in text and "blocks.0-31: Block" in text


def test_describe_shows_blocks_that_differ_one_by_one() -> None:
    model = build(shrunk("gpt2", n_layers=3))
    model.get_submodule("decoder.blocks.1.dropout").p = 0.5  # type: ignore[assignment]
    text = describe(model)
    assert "blocks.0: Block" in text and "blocks.1: Block" in text and "blocks.0-2" not in text


def test_describe_marks_shared_tables() -> None:
    lines = presets.vaswani_2017_base(vocab_size=50, d_model=16).describe().splitlines()
    tables = [
        line.split()[-1] for line in lines if line.strip().startswith(("embedding:", "to_voc"))
    ]
    assert tables == ["800", "shared", "shared"]
