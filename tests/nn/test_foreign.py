"""Foreign weights and configs: a mismatch is a one-line error and changes nothing."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor, nn

from glassformer.errors import CheckpointError, ConfigError
from glassformer.nn import (
    AttentionConfig,
    LanguageModel,
    MultiHeadAttention,
    Seq2Seq,
    TextEncoder,
    build,
)
from glassformer.nn.foreign import (
    config_from_hugging_face,
    load_hugging_face,
    load_hugging_face_bert,
    load_hugging_face_gpt2,
    load_hugging_face_llama,
    load_torch_multihead_attention,
    load_torch_transformer,
    rename,
)
from tests.nn.oracles import FLOAT64_SHARE, seeded, share
from tests.nn.small import make, shrunk

State = dict[str, Tensor]


def attention() -> MultiHeadAttention:
    return MultiHeadAttention(8, AttentionConfig(n_heads=2, bias=True, output_bias=True))


def torch_state() -> State:
    return dict(nn.MultiheadAttention(8, 2).state_dict())


def one_line(error: pytest.ExceptionInfo[Exception]) -> str:
    message = str(error.value)
    assert "\n" not in message and len(message) < 200
    return message


# Weights that do not fit


def test_missing_weights_are_named_with_how_many_more() -> None:
    with pytest.raises(CheckpointError) as error:
        load_torch_multihead_attention(attention(), {"in_proj_weight": torch.zeros(24, 8)})
    message = one_line(error)
    assert "they lack 'to_queries.bias' and 4 more" in message


def test_a_single_missing_weight_is_named_alone() -> None:
    state = torch_state()
    del state["out_proj.bias"]
    with pytest.raises(CheckpointError) as error:
        load_torch_multihead_attention(attention(), state)
    assert one_line(error).endswith("they lack 'to_output.bias'")


def test_unknown_weights_are_named() -> None:
    state = {**torch_state(), "bias_k": torch.zeros(1, 1, 8)}
    with pytest.raises(CheckpointError) as error:
        load_torch_multihead_attention(attention(), state)
    assert "contain 'bias_k', which our module has no place for" in one_line(error)


def test_known_weights_without_a_place_in_this_module_are_named() -> None:
    plain = MultiHeadAttention(8, AttentionConfig(n_heads=2, output_bias=True))
    with pytest.raises(CheckpointError) as error:
        load_torch_multihead_attention(plain, torch_state())
    assert "they contain 'to_queries.bias' and 2 more" in one_line(error)


@pytest.mark.parametrize("rows", [(), (2,), (25, 8)], ids=str)
def test_a_joint_tensor_that_does_not_split_in_three_is_refused(rows: tuple[int, ...]) -> None:
    state = {**torch_state(), "in_proj_weight": torch.zeros(rows)}
    with pytest.raises(CheckpointError) as error:
        load_torch_multihead_attention(attention(), state)
    message = one_line(error)
    assert "in_proj_weight must hold 3 equal parts" in message and str(rows) in message


def test_misshapen_weights_name_both_shapes_and_nothing_is_half_loaded() -> None:
    module = attention()
    before = copy.deepcopy(module.state_dict())
    state = {**torch_state(), "out_proj.weight": torch.zeros(8, 9)}
    with pytest.raises(CheckpointError) as error:
        load_torch_multihead_attention(module, state)
    assert "to_output.weight is (8, 8) here and (8, 9) there" in one_line(error)
    assert all(before[name].equal(now) for name, now in module.state_dict().items())


def test_a_different_depth_is_refused() -> None:
    config = shrunk("torch_nn_transformer")
    theirs = nn.Transformer(8, 2, 3, 3, 16, batch_first=True)
    with pytest.raises(CheckpointError, match=r"contain 'blocks\.2\."):
        load_torch_transformer(_seq2seq(config), theirs.state_dict())


def _seq2seq(config: Any) -> Seq2Seq:
    model = build(config)
    assert isinstance(model, Seq2Seq)
    return model


def test_final_norms_that_the_config_lacks_are_refused() -> None:
    theirs = nn.Transformer(8, 2, 2, 2, 16, batch_first=True)
    load_torch_transformer(_seq2seq(shrunk("torch_nn_transformer")), theirs.state_dict())
    with pytest.raises(CheckpointError, match=r"final_norm"):
        load_torch_transformer(_seq2seq(shrunk("vaswani_2017_base")), theirs.state_dict())


def test_weights_without_biases_load() -> None:
    theirs = nn.MultiheadAttention(8, 2, bias=False, batch_first=True).double()
    ours = MultiHeadAttention(8, AttentionConfig(n_heads=2)).double()
    load_torch_multihead_attention(ours, theirs.state_dict())
    x = seeded(2, 4, 8)
    assert share(ours(x), theirs(x, x, x)[0]) <= FLOAT64_SHARE


def test_rename_keeps_numbers_and_endings() -> None:
    renamed = rename({"layer.12.norm.bias": torch.ones(1)}, {"layer.#.norm.*": "blocks.#.gain.*"})
    assert list(renamed) == ["blocks.12.gain.bias"]


# Configs that would change the arithmetic

BERT: dict[str, Any] = {
    "model_type": "bert",
    "vocab_size": 13,
    "hidden_size": 8,
    "num_attention_heads": 2,
    "num_hidden_layers": 2,
    "intermediate_size": 16,
    "max_position_embeddings": 16,
    "hidden_act": "gelu",
}
GPT2: dict[str, Any] = {
    "model_type": "gpt2",
    "vocab_size": 13,
    "n_embd": 8,
    "n_head": 2,
    "n_layer": 2,
    "n_positions": 16,
    "activation_function": "gelu_new",
}
LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "vocab_size": 13,
    "hidden_size": 16,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "num_hidden_layers": 2,
    "intermediate_size": 24,
    "max_position_embeddings": 16,
    "hidden_act": "silu",
}
REFUSED: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    (BERT, {"hidden_act": "relu"}, "hidden_act must be 'gelu', got 'relu'"),
    (BERT, {"position_embedding_type": "relative_key"}, "must be 'absolute', got 'relative_key'"),
    (BERT, {"is_decoder": True}, "is_decoder must be False, got True"),
    (BERT, {"tie_word_embeddings": "no"}, "must be True or False, got 'no'"),
    (BERT, {"architectures": 5}, "of an unexpected type"),
    (GPT2, {"activation_function": "relu"}, "must be 'gelu_new', got 'relu'"),
    (GPT2, {"n_inner": 99}, "n_inner must be 32, got 99"),
    (GPT2, {"scale_attn_weights": False}, "scale_attn_weights must be True, got False"),
    (GPT2, {"scale_attn_by_inverse_layer_idx": True}, "must be False, got True"),
    (GPT2, {"add_cross_attention": True}, "add_cross_attention must be False, got True"),
    (GPT2, {"tie_word_embeddings": "no"}, "must be True or False, got 'no'"),
    (GPT2, {"n_embd": None}, "of an unexpected type"),
    (LLAMA, {"hidden_act": "gelu"}, "hidden_act must be 'silu', got 'gelu'"),
    (LLAMA, {"attention_bias": True}, "attention_bias must be False, got True"),
    (LLAMA, {"mlp_bias": True}, "mlp_bias must be False, got True"),
    (LLAMA, {"rope_scaling": {"rope_type": "llama3", "factor": 8.0}}, "got 'llama3'"),
    (LLAMA, {"rope_scaling": {"type": "linear", "factor": 2.0}}, "got 'linear'"),
    (LLAMA, {"rope_parameters": {"rope_type": "yarn"}}, "got 'yarn'"),
    (LLAMA, {"partial_rotary_factor": 0.5}, "partial_rotary_factor must be 1.0, got 0.5"),
]


@pytest.mark.parametrize(
    ("config", "change", "message"),
    REFUSED,
    ids=[f"{c['model_type']} {'-'.join(d)}{i}" for i, (c, d, _) in enumerate(REFUSED)],
)
def test_settings_that_would_change_the_arithmetic_are_refused(
    config: dict[str, Any], change: dict[str, Any], message: str
) -> None:
    config_from_hugging_face(config)
    with pytest.raises(ConfigError) as error:
        config_from_hugging_face({**config, **change})
    assert message in one_line(error)


@pytest.mark.parametrize("family", ["t5", None])
def test_an_unknown_family_is_refused_with_the_known_ones(family: str | None) -> None:
    with pytest.raises(ConfigError, match=f"bert or gpt2 or llama, got {family!r}"):
        config_from_hugging_face({"model_type": family})


def test_a_config_that_lacks_a_size_is_refused() -> None:
    broken = {k: v for k, v in BERT.items() if k != "hidden_size"}
    with pytest.raises(ConfigError, match="bert model lacks 'hidden_size'"):
        config_from_hugging_face(broken)


def test_configs_are_converted() -> None:
    bert = config_from_hugging_face({**BERT, "layer_norm_eps": 1e-7, "type_vocab_size": 3})
    assert (bert.architecture, bert.block.norm_eps, bert.embedding.n_types) == ("encoder", 1e-7, 3)
    masked = config_from_hugging_face({**BERT, "architectures": ["BertForMaskedLM"]})
    assert (masked.architecture, masked.output.transform) == ("masked_language_model", True)
    llama = config_from_hugging_face(
        {**LLAMA, "rope_theta": 500_000.0, "head_dim": 6, "tie_word_embeddings": True}
    )
    assert (llama.positions.base, llama.attention.d_head, llama.output.tied) == (5e5, 6, "output")
    assert (
        config_from_hugging_face({**LLAMA, "rope_parameters": {"rope_theta": 7.0}}).positions.base
        == 7
    )


# Whole models: their names into ours and back by hand


def as_their_bert(model: TextEncoder) -> State:
    """Our parameters under the names of a BertModel, written out independently."""
    ours = model.state_dict()
    state = {
        "embeddings.word_embeddings.weight": ours["encoder.embedding.weight"],
        "embeddings.position_embeddings.weight": ours["encoder.positions.table.weight"],
        "embeddings.token_type_embeddings.weight": ours["encoder.types.weight"],
        "pooler.dense.weight": torch.zeros(8, 8),
    }
    parts = {
        "attention.self.query": "attention.to_queries",
        "attention.self.key": "attention.to_keys",
        "attention.self.value": "attention.to_values",
        "attention.output.dense": "attention.to_output",
        "attention.output.LayerNorm": "attention_norm",
        "intermediate.dense": "feed_forward.expand",
        "output.dense": "feed_forward.contract",
        "output.LayerNorm": "feed_forward_norm",
    }
    for end in ("weight", "bias"):
        state[f"embeddings.LayerNorm.{end}"] = ours[f"encoder.embedding_norm.{end}"]
        for layer in range(2):
            for theirs, our in parts.items():
                state[f"encoder.layer.{layer}.{theirs}.{end}"] = ours[
                    f"encoder.blocks.{layer}.{our}.{end}"
                ]
    return state


def old_names(state: State) -> State:
    return {
        n.replace("LayerNorm.weight", "LayerNorm.gamma").replace(
            "LayerNorm.bias", "LayerNorm.beta"
        ): t
        for n, t in state.items()
    }


@pytest.mark.parametrize(
    "spelling",
    [lambda s: s, lambda s: {f"bert.{n}": t for n, t in s.items()}, old_names],
    ids=["BertModel", "BertForMaskedLM", "the first BERT files"],
)
def test_every_spelling_of_bert_loads(spelling: Callable[[State], State]) -> None:
    config = config_from_hugging_face(BERT)
    source, target = make(config, seed=1), make(config, seed=2)
    assert isinstance(source, TextEncoder) and isinstance(target, TextEncoder)
    load_hugging_face_bert(target, spelling(as_their_bert(source)))
    pairs = zip(source.parameters(), target.parameters(), strict=True)
    assert all(a.equal(b) for a, b in pairs)


def test_stored_causal_masks_and_a_tied_head_of_gpt2_are_ignored() -> None:
    model = build(config_from_hugging_face(GPT2))
    with pytest.raises(CheckpointError, match="lack"):
        load_hugging_face_gpt2(
            model,  # type: ignore[arg-type]
            {"h.0.attn.bias": torch.ones(1), "lm_head.weight": torch.ones(1)},
        )


def test_an_untied_llama_needs_its_output_map() -> None:
    untied = build(config_from_hugging_face(LLAMA))
    with pytest.raises(CheckpointError, match="lack"):
        load_hugging_face_llama(untied, {"rotary_emb.inv_freq": torch.ones(2)})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("family", "name", "made"),
    [("bert", "gpt2", "LanguageModel"), ("gpt2", "bert", "MaskedLanguageModel")],
)
def test_weights_of_one_family_are_refused_by_another(family: str, name: str, made: str) -> None:
    with pytest.raises(ConfigError, match=f"{family} weights do not fit a {made}"):
        load_hugging_face(build(shrunk(name)), family, {})
    with pytest.raises(ConfigError, match="t5"):
        load_hugging_face(build(shrunk(name)), "t5", {})


@pytest.mark.parametrize("family", [BERT, GPT2, LLAMA], ids=["bert", "gpt2", "llama"])
def test_load_hugging_face_sends_each_family_to_its_loader(family: dict[str, Any]) -> None:
    model = build(config_from_hugging_face(family))
    with pytest.raises(CheckpointError, match="the weights contain 'nonsense'"):
        load_hugging_face(model, family["model_type"], {"nonsense": torch.ones(1)})


def test_a_separate_output_matrix_is_not_dropped() -> None:
    model = make(shrunk("gpt2"))
    assert isinstance(model, LanguageModel)
    state = {"transformer.wte.weight": torch.zeros(2, 2), "lm_head.weight": torch.ones(2, 2)}
    with pytest.raises(CheckpointError, match="separate output matrix"):
        load_hugging_face_gpt2(model, state)


@pytest.mark.parametrize("family", ["gpt2", "bert"])
def test_a_separate_output_matrix_loads_if_nothing_is_tied(family: str) -> None:
    """The remedy in the error above works; Hugging Face's own model is the reference."""
    torch.manual_seed(0)
    sizes = {"vocab_size": 13, "tie_word_embeddings": False}
    if family == "gpt2":
        theirs: Any = transformers.GPT2LMHeadModel(
            transformers.GPT2Config(n_embd=8, n_head=2, n_layer=2, n_positions=9, **sizes)
        )
    else:
        theirs = transformers.BertForMaskedLM(
            transformers.BertConfig(
                hidden_size=8, num_attention_heads=2, num_hidden_layers=2, intermediate_size=16,
                max_position_embeddings=9, **sizes,
            )
        )  # fmt: skip
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.normal_(0, 0.5)
    theirs = theirs.eval().double()
    data = {**theirs.config.to_dict(), "architectures": [type(theirs).__name__]}
    ours = build(config_from_hugging_face(data)).eval().double()
    load_hugging_face(ours, family, theirs.state_dict())
    ids = torch.tensor([[1, 5, 9, 12], [3, 4, 2, 7]])
    with torch.no_grad():
        assert share(ours(ids), theirs(ids).logits) < 1e-13


def test_a_tensor_outside_the_transformer_is_not_dropped() -> None:
    theirs = nn.Transformer(8, 2, 1, 1, 8, batch_first=True).state_dict()
    ours = build(shrunk("torch_nn_transformer"))
    assert isinstance(ours, Seq2Seq)
    with pytest.raises(CheckpointError, match=r"contain 'generator\.weight', which nn\."):
        load_torch_transformer(ours, theirs | {"generator.weight": torch.ones(2)})


@pytest.mark.usefixtures("as_users_run_it")
@pytest.mark.parametrize(
    "bad", [{"rope_theta": "x"}, {"rope_scaling": [1]}, {"attention_dropout": "x"}]
)
def test_a_config_with_strings_for_numbers_is_one_clear_line(bad: dict[str, Any]) -> None:
    sizes = ("hidden_size", "num_attention_heads", "intermediate_size", "max_position_embeddings")
    plain: dict[str, Any] = dict.fromkeys((*sizes, "vocab_size", "num_hidden_layers"), 8)
    config = {"model_type": "llama", "hidden_act": "silu", **plain, "num_attention_heads": 1}
    assert config_from_hugging_face(config).d_model == 8
    with pytest.raises(ConfigError, match=r"must be (a number|an object)"):
        config_from_hugging_face(config | bad)


def test_a_transformer_whose_decoder_does_not_fit_leaves_the_encoder_alone() -> None:
    model = make(shrunk("torch_nn_transformer"))
    assert isinstance(model, Seq2Seq)
    before = copy.deepcopy(model.state_dict())
    config = model.config
    theirs = nn.Transformer(
        config.d_model,
        config.attention.n_heads,
        config.n_layers,
        config.n_layers + 1,
        config.feed_forward.d_ff,
        batch_first=True,
    )
    with pytest.raises(CheckpointError):
        load_torch_transformer(model, theirs.state_dict())
    assert all(torch.equal(before[name], now) for name, now in model.state_dict().items())
