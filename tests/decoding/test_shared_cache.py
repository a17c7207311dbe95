"""Beams that share one cache equal each sequence alone."""

from typing import Any

import pytest
import torch
from torch import Tensor

from glassformer.decoding.fast.graph_stepper import ProductAttention
from glassformer.decoding.fast.shared_cache import BranchedStack, Branches, SlotCache, reserve
from glassformer.nn import DecodingCache, LanguageModel, MultiHeadAttention, record_attention
from glassformer.training.acceleration import JoinedAttention, join_projections
from tests.nn.oracles import FLOAT64_SHARE, share
from tests.nn.small import make, random_ids, shrunk, tiny

MODELS = {
    **{
        f"{kind} positions": tiny("language_model", positions__kind=kind)
        for kind in ("learned", "sinusoidal", "rotary", "none")
    },
    "grouped heads": shrunk("llama"),
}


def seen(n_keys: int, *rows: list[int]) -> Tensor:
    """Which of n_keys cached positions each new token sees."""
    visible = torch.zeros(1, len(rows), n_keys, dtype=torch.bool)
    for token, keys in enumerate(rows):
        visible[0, token, keys] = True
    return visible


def slots_for(model: LanguageModel) -> DecodingCache:
    layers = model.start_cache().self_attention
    return DecodingCache([SlotCache() for _ in layers], [SlotCache() for _ in layers])


@torch.no_grad()
@pytest.mark.parametrize("attention", ["fused", "written"])
@pytest.mark.parametrize("name", MODELS)
def test_two_continuations_of_one_sequence_equal_each_alone(name: str, attention: Any) -> None:
    """The sequence a b c continues as d f and as e g; the cache holds a b c d e f g."""
    model = make(MODELS[name], attention=attention).eval()
    assert isinstance(model, LanguageModel)
    text, beams = random_ids(model.config, 1, 3), random_ids(model.config, 2, 2, seed=4)
    cache = slots_for(model)
    model(text, cache=cache)
    branched = BranchedStack.over(model.decoder)
    outputs = []
    for step, visible in enumerate(
        (
            seen(5, [0, 1, 2, 3], [0, 1, 2, 4]),
            seen(7, [0, 1, 2, 3, 5], [0, 1, 2, 4, 6]),
        )
    ):
        branches = Branches(torch.tensor([3 + step, 3 + step]), visible, 4 + step)
        outputs.append(branched(beams[:, step][None], cache=cache, branches=branches))
    assert cache.length == 3  # the caller counts
    for beam in range(2):
        whole = torch.cat([text, beams[beam : beam + 1]], dim=1)
        alone = model.decoder(whole)[0, 3:]
        assert share(torch.stack([out[0, beam] for out in outputs]), alone) <= FLOAT64_SHARE


@torch.no_grad()
@pytest.mark.parametrize("attention", ["fused", "written"])
@pytest.mark.parametrize("name", MODELS)
def test_positions_that_no_beam_needs_may_be_overwritten(name: str, attention: Any) -> None:
    """The sequence a b c continues as d and as e; then d dies, and e continues as f, in d's place,
    and as g. The cache has room for eight, and holds a b c f e g and two unwritten positions."""
    model = make(MODELS[name], attention=attention).eval()
    assert isinstance(model, LanguageModel)
    text, beams = random_ids(model.config, 1, 3), random_ids(model.config, 2, 2, seed=4)
    cache = slots_for(model)
    model(text, cache=cache)
    branched = BranchedStack.over(model.decoder)
    for step, (slots, visible) in enumerate(
        (
            ([3, 4], seen(8, [0, 1, 2, 3], [0, 1, 2, 4])),
            ([3, 5], seen(8, [0, 1, 2, 4, 3], [0, 1, 2, 4, 5])),
        )
    ):
        reserve(cache.self_attention, torch.tensor([slots]), 8)
        branches = Branches(torch.tensor([3 + step, 3 + step]), visible, 4 + step)
        outputs = branched(beams[:, step][None], cache=cache, branches=branches)
    for beam in range(2):
        whole = torch.cat([text, beams[1:, :1], beams[beam : beam + 1, 1:]], dim=1)
        assert share(outputs[0, beam], model.decoder(whole)[0, -1]) <= FLOAT64_SHARE


def test_reserved_positions_are_overwritten_and_new_ones_hold_zeros() -> None:
    cache = SlotCache()
    numbers = torch.arange(1.0, 9.0).view(2, 1, 4, 1)
    cache.append(numbers.expand(2, 3, 4, 2), numbers.expand(2, 3, 4, 5) * 10)
    cache.reserve(torch.tensor([[0, 3], [5, 1]]), 6)
    new = torch.tensor([[-1.0, -2.0], [-3.0, -4.0]]).view(2, 1, 2, 1)
    keys, values = cache.append(new.expand(2, 3, 2, 2), new.expand(2, 3, 2, 5))
    assert keys.shape == (2, 3, 6, 2) and values.shape == (2, 3, 6, 5)
    assert keys[:, 1, :, 0].tolist() == [[-1, 2, 3, -2, 0, 0], [5, -4, 7, 8, 0, -3]]
    assert values[:, 2, :, 4].tolist() == [[-1, 20, 30, -2, 0, 0], [50, -4, 70, 80, 0, -3]]
    keys, _ = cache.append(torch.full((2, 3, 1, 2), 9.0), torch.zeros(2, 3, 1, 5))
    assert keys[:, 0, -2:, 0].tolist() == [[0, 9], [-3, 9]]  # the next goes to the end again


def test_spare_room_holds_zeros_too() -> None:
    """Spare room of a doubled buffer is read, under a mask, before it is written."""
    cache = SlotCache()
    for n in (2, 1):
        cache.append(torch.ones(1, 1, n, 1), torch.ones(1, 1, n, 1))
    cache.reserve(torch.tensor([[0]]), 4)
    keys, values = cache.append(torch.full((1, 1, 1, 1), 7.0), torch.full((1, 1, 1, 1), 7.0))
    assert keys.flatten().tolist() == values.flatten().tolist() == [7, 1, 1, 0]


@torch.no_grad()
def test_a_branched_decoder_has_the_hooks_and_the_parameters_of_the_plain_one() -> None:
    """Hooks added later, too; and the plain decoder stays causal."""
    model = make(MODELS["rotary positions"]).eval()
    assert isinstance(model, LanguageModel)
    branched = BranchedStack.over(model.decoder)
    assert [id(p) for p in branched.parameters()] == [id(p) for p in model.decoder.parameters()]
    cache = slots_for(model)
    model(random_ids(model.config, 1, 3), cache=cache)
    calls: list[str] = []
    branches = Branches(torch.tensor([3, 3]), seen(5, [0, 1, 2, 3], [0, 1, 2, 4]), 4)
    with (
        model.decoder.register_forward_hook(lambda *_: calls.append("decoder")),
        model.decoder.blocks[0].register_forward_hook(lambda *_: calls.append("block")),
        record_attention(model) as weights,
    ):
        branched(random_ids(model.config, 1, 2), cache=cache, branches=branches)
    assert calls == ["block", "decoder"]
    for of_layer in weights.values():
        assert of_layer[0].shape[-2:] == (2, 5)
        assert (of_layer[0][0, :, 0, 4] == 0).all() and (of_layer[0][0, :, 1, 3] == 0).all()
    assert all(block.causal for block in model.decoder.blocks)


def test_attention_of_any_kind_is_replaced_as_a_whole() -> None:
    """A model that is being trained on a GPU has joined projections; its parameters stay."""
    model = make(MODELS["grouped heads"]).eval()
    assert isinstance(model, LanguageModel)
    join_projections(model)
    branched = BranchedStack.over(model.decoder, ProductAttention)
    kinds = {type(part) for part in branched.modules() if isinstance(part, MultiHeadAttention)}
    assert kinds == {ProductAttention}
    assert [id(p) for p in branched.parameters()] == [id(p) for p in model.decoder.parameters()]
    kinds = {type(part) for part in model.modules() if isinstance(part, MultiHeadAttention)}
    assert kinds == {JoinedAttention}, "the model itself is as it was"
