"""Every architecture: shapes, gradients, modes, padding, tied parameters, parameter counts."""

import copy
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from glassformer.nn import (
    Classifier,
    ImageClassifier,
    LanguageModel,
    MaskedLanguageModel,
    MultiHeadAttention,
    Seq2Seq,
    TextEncoder,
    build,
    record_attention,
    set_attention,
)
from tests.nn.oracles import FLOAT64_SHARE, seeded, share
from tests.nn.small import ARCHITECTURES, EVERY, inputs_for, make, random_ids, shrunk, tiny

every_model = pytest.mark.parametrize("name", EVERY)
every_architecture = pytest.mark.parametrize("name", ARCHITECTURES)
TYPES = {
    "attention": MultiHeadAttention,
    "encoder": TextEncoder,
    "classifier": Classifier,
    "image_classifier": ImageClassifier,
    "masked_language_model": MaskedLanguageModel,
    "language_model": LanguageModel,
    "seq2seq": Seq2Seq,
}
SHAPES = {
    "attention": (2, 6, 8),
    "encoder": (2, 6, 8),
    "classifier": (2, 3),
    "image_classifier": (2, 3),
    "masked_language_model": (2, 6, 13),
    "language_model": (2, 6, 13),
    "seq2seq": (2, 5, 13),
    "additive": (2, 3),
    "pre-norm": (2, 6, 8),
}


@every_architecture
def test_build_makes_the_class_and_its_output_has_the_shape(name: str) -> None:
    config = ARCHITECTURES[name]
    model = build(config)
    assert type(model) is TYPES[config.architecture]
    output = model(*inputs_for(config, dtype=torch.float32))
    assert output.shape == SHAPES[name]
    assert output.isfinite().all()


@every_model
def test_gradients_reach_every_parameter(name: str) -> None:
    config = EVERY[name]
    model = make(config)
    output = model(*inputs_for(config))
    (output * seeded(*output.shape)).sum().backward()
    for parameter_name, parameter in model.named_parameters():
        assert parameter.grad is not None, parameter_name
        assert parameter.grad.isfinite().all(), parameter_name
        # A bias on keys shifts all scores of a query equally: its gradient is 0, up to rounding.
        assert parameter.grad.ne(0).any() or parameter_name.endswith("to_keys.bias"), parameter_name


@every_model
def test_written_and_fused_models_agree(name: str) -> None:
    config = EVERY[name]
    fused = make(config)
    written = set_attention(copy.deepcopy(fused), "written")
    inputs = inputs_for(config)
    assert share(written(*inputs), fused(*inputs)) <= FLOAT64_SHARE


@every_architecture
def test_recording_gives_weights_of_every_attention_and_changes_no_bit(name: str) -> None:
    config = ARCHITECTURES[name]
    model, inputs = make(config), inputs_for(config)
    plain = model(*inputs)
    with record_attention(model) as recorded:
        observed = model(*inputs)
    attentions = [n for n, m in model.named_modules() if isinstance(m, MultiHeadAttention)]
    assert observed.equal(plain)
    assert list(recorded) == attentions
    for (weights,) in recorded.values():
        torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights[..., 0]))


def test_same_seed_same_model() -> None:
    for config in ARCHITECTURES.values():
        pairs = zip(make(config).parameters(), make(config).parameters(), strict=True)
        assert all(a.equal(b) for a, b in pairs)


# Padding never changes a result

PADDINGS = pytest.mark.parametrize("side", ["left", "right"])
KINDS = pytest.mark.parametrize("positions", ["learned", "sinusoidal", "rotary", "none"])


def padded(rows: list[Tensor], side: str, filler: int) -> tuple[Tensor, Tensor]:
    """A batch of texts of different lengths, and its token mask."""
    longest = max(row.numel() for row in rows)
    ids, mask = [], []
    for row in rows:
        room = longest - row.numel()
        space = (room, 0) if side == "left" else (0, room)
        ids.append(F.pad(row, space, value=filler))
        mask.append(F.pad(torch.ones_like(row, dtype=torch.bool), space))
    return torch.stack(ids), torch.stack(mask)


def texts(config: Any) -> list[Tensor]:
    return [random_ids(config, n, seed=n) for n in (7, 3, 1, 5)]


@PADDINGS
@KINDS
@pytest.mark.parametrize("filler", [0, 4])
def test_encoder_alone_equals_batched(side: str, positions: str, filler: int) -> None:
    config = tiny("encoder", positions__kind=positions)
    model, rows = make(config), texts(config)
    ids, is_token = padded(rows, side, filler)
    together = model(ids, is_token)
    for row, vectors, here in zip(rows, together, is_token, strict=True):
        assert share(vectors[here], model(row[None])[0]) <= FLOAT64_SHARE


@PADDINGS
@pytest.mark.parametrize("pooling", ["mean", "max", "first"])
def test_classifier_alone_equals_batched(side: str, pooling: str) -> None:
    config = tiny("classifier", output__pooling=pooling, positions__kind="learned")
    model, rows = make(config), texts(config)
    ids, is_token = padded(rows, side, 3)
    alone = torch.cat([model(row[None]) for row in rows])
    assert share(model(ids, is_token), alone) <= FLOAT64_SHARE


@PADDINGS
def test_pad_id_marks_padding_if_no_mask_is_given(side: str) -> None:
    for config in (tiny("classifier", pad_id=0), tiny("seq2seq", pad_id=0)):
        model, rows = make(config), texts(config)
        ids, is_token = padded(rows, side, 0)
        more = (random_ids(config, 4, 5),) if config.architecture == "seq2seq" else ()
        assert model(ids, *more).equal(model(ids, *more, is_token))


@PADDINGS
@KINDS
def test_language_model_alone_equals_batched(side: str, positions: str) -> None:
    config = tiny("language_model", positions__kind=positions)
    model, rows = make(config), texts(config)
    ids, is_token = padded(rows, side, 2)
    together = model(ids, is_token)
    for row, logits, here in zip(rows, together, is_token, strict=True):
        assert share(logits[here], model(row[None])[0]) <= FLOAT64_SHARE


def test_right_padding_needs_no_mask_in_a_causal_model() -> None:
    config = tiny("language_model")
    model, rows = make(config), texts(config)
    ids, is_token = padded(rows, "right", 2)
    assert share(model(ids)[is_token], model(ids, is_token)[is_token]) <= FLOAT64_SHARE


@PADDINGS
@pytest.mark.parametrize("target_side", ["left", "right"])
def test_seq2seq_alone_equals_batched(side: str, target_side: str) -> None:
    config = tiny("seq2seq", positions__kind="learned")
    model, sources = make(config), texts(config)
    targets = [random_ids(config, n, seed=10 + n) for n in (2, 6, 4, 1)]
    source, source_is_token = padded(sources, side, 1)
    target, target_is_token = padded(targets, target_side, 1)
    together = model(source, target, source_is_token, target_is_token)
    for row in range(4):
        alone = model(sources[row][None], targets[row][None])[0]
        assert share(together[row][target_is_token[row]], alone) <= FLOAT64_SHARE


@PADDINGS
def test_text_embeddings_have_length_one_whatever_the_padding(side: str) -> None:
    config = tiny("encoder")
    model, rows = make(config), texts(config)
    assert isinstance(model, TextEncoder)
    ids, is_token = padded(rows, side, 3)
    embedded = model.embed_text(ids, is_token)
    torch.testing.assert_close(embedded.norm(dim=-1), torch.ones(4, dtype=torch.float64))
    assert (
        share(embedded, torch.cat([model.embed_text(row[None]) for row in rows])) <= FLOAT64_SHARE
    )


def test_a_sentence_of_only_padding_is_finite_and_does_not_affect_others() -> None:
    for pooling in ("mean", "max", "first"):
        config = tiny("classifier", pad_id=0, output__pooling=pooling)
        model, ids = make(config), random_ids(config, 2, 4)
        ids[1] = 0
        logits = model(ids)
        logits.sum().backward()
        assert logits.isfinite().all()
        assert share(logits[:1], model(ids[:1])) <= FLOAT64_SHARE
        assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())


# Single models


def test_types_default_to_zero_and_change_the_result_otherwise() -> None:
    config = shrunk("bert")
    model, ids = make(config), random_ids(config, 2, 5)
    zeros = torch.zeros_like(ids)
    assert model(ids).equal(model(ids, types=zeros))
    assert not model(ids).equal(model(ids, types=zeros + 1))


def test_token_and_position_vectors_are_added() -> None:
    config = tiny("encoder", n_layers=0, positions__kind="learned", embedding__scale=True)
    model, ids = make(config), random_ids(config, 1, 5)
    table = model.get_parameter("encoder.embedding.weight")
    positions = model.get_parameter("encoder.positions.table.weight")
    assert share(model(ids)[0], table[ids[0]] * 8**0.5 + positions[:5]) <= FLOAT64_SHARE


def test_depth_zero_and_any_other_depth_build() -> None:
    for depth in (0, 1, 7):
        model = build(tiny("classifier", n_layers=depth))
        assert len(model.get_submodule("encoder.blocks")._modules) == depth


def test_seq2seq_depths_may_differ() -> None:
    model = build(tiny("seq2seq", n_layers=3, n_decoder_layers=1))
    assert len(model.get_submodule("encoder.blocks")._modules) == 3
    assert len(model.get_submodule("decoder.blocks")._modules) == 1


def test_the_flattened_output_layer_gives_one_prediction_of_36_numbers() -> None:
    config = shrunk("by_hand_2024")
    model, inputs = make(config), inputs_for(config)
    assert isinstance(model, Seq2Seq)
    assert model.to_vocabulary.in_features == 36
    assert model(*inputs).shape == (2, config.vocab_size)
    decoded = model.decoder(inputs[1], memory=model.encode(inputs[0]))
    expected = decoded.reshape(2, 36) @ model.to_vocabulary.weight.T
    assert share(model(*inputs), expected) <= FLOAT64_SHARE


def test_dropout_is_active_in_training_only() -> None:
    config = shrunk("torch_nn_transformer", block__dropout=0.5, attention__dropout=0.5)
    model, inputs = make(config), inputs_for(config)
    assert not model(*inputs).equal(model(*inputs))
    model.eval()
    assert model(*inputs).equal(model(*inputs))
    without = make(shrunk("torch_nn_transformer"))
    assert model(*inputs).equal(without.eval()(*inputs))


def test_an_image_is_a_sequence_of_its_patches() -> None:
    """With no positions, the order of patches does not matter; with learned ones it does."""
    images = seeded(1, 2, 8, 8)
    swapped = torch.cat([images[..., 4:], images[..., :4]], dim=-1)
    blind, sighted = (
        make(tiny("image_classifier", positions__kind=kind)) for kind in ("none", "learned")
    )
    assert share(blind(swapped), blind(images)) <= FLOAT64_SHARE
    assert share(sighted(swapped), sighted(images)) > 1e-3


# Tied parameters

TIED = {
    "gpt2": ("decoder.embedding.weight", "to_vocabulary.weight"),
    "bert": ("encoder.embedding.weight", "to_vocabulary.weight"),
    "vaswani_2017_base": (
        "encoder.embedding.weight",
        "decoder.embedding.weight",
        "to_vocabulary.weight",
    ),
}


def storages(model: nn.Module, names: tuple[str, ...]) -> set[int]:
    every = dict(model.named_parameters(remove_duplicate=False))
    return {every[name].data_ptr() for name in names}


@pytest.mark.parametrize("name", TIED)
def test_tied_parameters_stay_one_through_to_load_and_copy(name: str) -> None:
    model, other = make(shrunk(name)), make(shrunk(name), seed=1)
    model.load_state_dict(other.state_dict())
    assert all(a.equal(b) for a, b in zip(model.parameters(), other.parameters(), strict=True))
    for changed in (model, model.to(torch.float64), copy.deepcopy(model)):
        assert len(storages(changed, TIED[name])) == 1
        output = changed(*inputs_for(shrunk(name)))
        assert output.isfinite().all()


def test_what_is_tied_follows_the_config() -> None:
    names = TIED["vaswani_2017_base"]
    for tied, n_storages in (("none", 3), ("output", 2), ("all", 1)):
        model = build(tiny("seq2seq", output__tied=tied))
        assert len(storages(model, names)) == n_storages


def test_a_tied_table_gets_the_gradient_of_both_uses() -> None:
    config = shrunk("gpt2")
    model, ids = make(config), random_ids(config, 1, 3)
    untied = make(config.with_(output__tied="none"))
    untied.load_state_dict(model.state_dict())
    for one in (model, untied):
        (one(ids) * seeded(1, 3, 13)).sum().backward()
    table, output = (untied.get_parameter(n).grad for n in TIED["gpt2"])
    both = model.get_parameter("decoder.embedding.weight").grad
    assert table is not None and output is not None and both is not None
    assert share(both, table + output) <= FLOAT64_SHARE
