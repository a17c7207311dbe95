"""Rival continuations that share one cache equal each continuation alone."""

from typing import Any

import pytest
import torch
from torch import Tensor

from glassformer.nn import Branches, LanguageModel
from glassformer.nn.attention import KeyValueCache
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


@torch.no_grad()
@pytest.mark.parametrize("attention", ["fused", "written"])
@pytest.mark.parametrize("name", MODELS)
def test_two_continuations_of_one_text_equal_each_alone(name: str, attention: Any) -> None:
    """The text a b c goes on as d f and as e g; the cache holds a b c d e f g."""
    model = make(MODELS[name], attention=attention).eval()
    assert isinstance(model, LanguageModel)
    text, rivals = random_ids(model.config, 1, 3), random_ids(model.config, 2, 2, seed=4)
    cache = model.start_cache()
    model(text, cache=cache)
    outputs = []
    for step, visible in enumerate(
        (
            seen(5, [0, 1, 2, 3], [0, 1, 2, 4]),
            seen(7, [0, 1, 2, 3, 5], [0, 1, 2, 4, 6]),
        )
    ):
        branches = Branches(torch.tensor([3 + step, 3 + step]), visible, 4 + step)
        outputs.append(model.decoder(rivals[:, step][None], cache=cache, branches=branches))
    assert cache.length == 3  # the caller counts
    for rival in range(2):
        whole = torch.cat([text, rivals[rival : rival + 1]], dim=1)
        alone = model.decoder(whole)[0, 3:]
        assert share(torch.stack([out[0, rival] for out in outputs]), alone) <= FLOAT64_SHARE


@torch.no_grad()
@pytest.mark.parametrize("attention", ["fused", "written"])
@pytest.mark.parametrize("name", MODELS)
def test_what_nobody_looks_back_to_may_be_overwritten(name: str, attention: Any) -> None:
    """The text a b c goes on as d and as e; then d dies, and e goes on as f, in d's place, and as
    g. The cache has room for eight, and holds a b c f e g and two that nobody wrote."""
    model = make(MODELS[name], attention=attention).eval()
    assert isinstance(model, LanguageModel)
    text, rivals = random_ids(model.config, 1, 3), random_ids(model.config, 2, 2, seed=4)
    cache = model.start_cache()
    model(text, cache=cache)
    for step, (slots, visible) in enumerate(
        (
            ([3, 4], seen(8, [0, 1, 2, 3], [0, 1, 2, 4])),
            ([3, 5], seen(8, [0, 1, 2, 4, 3], [0, 1, 2, 4, 5])),
        )
    ):
        cache.reserve(torch.tensor([slots]), 8)
        branches = Branches(torch.tensor([3 + step, 3 + step]), visible, 4 + step)
        outputs = model.decoder(rivals[:, step][None], cache=cache, branches=branches)
    for rival in range(2):
        whole = torch.cat([text, rivals[1:, :1], rivals[rival : rival + 1, 1:]], dim=1)
        assert share(outputs[0, rival], model.decoder(whole)[0, -1]) <= FLOAT64_SHARE


def test_reserved_positions_are_overwritten_and_new_ones_hold_zeros() -> None:
    cache = KeyValueCache()
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


def test_room_in_reserve_holds_zeros_too() -> None:
    """Doubled room that positions are reserved in is read, under a mask, before it is written."""
    cache = KeyValueCache()
    for n in (2, 1):
        cache.append(torch.ones(1, 1, n, 1), torch.ones(1, 1, n, 1))
    cache.reserve(torch.tensor([[0]]), 4)
    keys, values = cache.append(torch.full((1, 1, 1, 1), 7.0), torch.full((1, 1, 1, 1), 7.0))
    assert keys.flatten().tolist() == values.flatten().tolist() == [7, 1, 1, 0]
