"""Step-by-step decoding with caches equals the parallel pass."""

from typing import Any

import pytest
import torch
from torch import Tensor

from glassformer.nn import DecodingCache, LanguageModel, ModelConfig, Seq2Seq
from glassformer.nn.cache import KeyValueCache
from tests.nn.oracles import FLOAT64_SHARE, share
from tests.nn.small import make, random_ids, shrunk, tiny

TOLERANCE = FLOAT64_SHARE
LANGUAGE_MODELS: dict[str, ModelConfig] = {
    **{
        f"{kind} positions": tiny("language_model", positions__kind=kind)
        for kind in ("learned", "sinusoidal", "rotary", "none")
    },
    "grouped heads": shrunk("llama"),
    "one key head": shrunk("llama", attention__n_kv_heads=1),
    "gpt2": shrunk("gpt2"),
    "additive": tiny("language_model", attention__score="additive"),
    "values of another width": tiny("language_model", attention__d_value=3),
    "no blocks": tiny("language_model", n_layers=0, positions__kind="learned"),
}
CHUNKS = {
    "one by one": [1] * 8,
    "3+4+1": [3, 4, 1],
    "1+7": [1, 7],
    "at once": [8],
    "5+1+2": [5, 1, 2],
}
every_language_model = pytest.mark.parametrize("name", LANGUAGE_MODELS)
every_chunking = pytest.mark.parametrize("chunks", CHUNKS.values(), ids=CHUNKS)
both = pytest.mark.parametrize("attention", ["fused", "written"])


def language_model(name: str, attention: Any = "fused") -> LanguageModel:
    model = make(LANGUAGE_MODELS[name], attention=attention).eval()
    assert isinstance(model, LanguageModel)
    return model


def in_chunks(
    model: LanguageModel, ids: Tensor, sizes: list[int], is_token: Tensor | None = None
) -> Tensor:
    cache, logits, start = model.start_cache(), [], 0
    for size in sizes:
        here = slice(start, start + size)
        seen = None if is_token is None else is_token[:, here]
        logits.append(model(ids[:, here], seen, cache))
        start += size
        assert cache.length == start
    return torch.cat(logits, dim=1)


@torch.no_grad()
@both
@every_chunking
@every_language_model
def test_chunks_equal_the_full_pass(name: str, chunks: list[int], attention: Any) -> None:
    model = language_model(name, attention)
    ids = random_ids(model.config, 3, 8)
    assert share(in_chunks(model, ids, chunks), model(ids)) <= TOLERANCE


@torch.no_grad()
@every_language_model
def test_every_prefix_gives_the_logits_of_the_parallel_pass(name: str) -> None:
    model = language_model(name)
    ids = random_ids(model.config, 2, 8)
    parallel = model(ids)
    for n in range(1, 9):
        assert share(model(ids[:, :n])[:, -1], parallel[:, n - 1]) <= TOLERANCE


@torch.no_grad()
@every_chunking
@every_language_model
def test_left_padded_batches_equal_each_text_alone(name: str, chunks: list[int]) -> None:
    model = language_model(name)
    ids = random_ids(model.config, 3, 8)
    is_token = torch.arange(8) >= torch.tensor([0, 2, 5])[:, None]
    cached = in_chunks(model, ids, chunks, is_token)
    for row, pads in enumerate([0, 2, 5]):
        alone = model(ids[row : row + 1, pads:])
        assert share(cached[row : row + 1, pads:], alone) <= TOLERANCE


@torch.no_grad()
def test_the_mask_is_optional_after_a_padded_prefix() -> None:
    model = language_model("rotary positions")
    ids = random_ids(model.config, 2, 8)
    is_token = torch.arange(8) >= torch.tensor([0, 3])[:, None]
    cache = model.start_cache()
    first = model(ids[:, :5], is_token[:, :5], cache)
    second = torch.cat([model(ids[:, t : t + 1], cache=cache) for t in range(5, 8)], dim=1)
    expected = model(ids, is_token)
    together = torch.cat([first, second], dim=1)
    assert share(together[is_token], expected[is_token]) <= TOLERANCE


@torch.no_grad()
def test_a_mask_may_follow_a_prefix_without_one() -> None:
    model = language_model("learned positions")
    ids = random_ids(model.config, 2, 6)
    is_token = torch.tensor([[True] * 6, [True] * 4 + [False] * 2])
    cache = model.start_cache()
    model(ids[:, :3], cache=cache)
    second = model(ids[:, 3:], is_token[:, 3:], cache)
    assert share(second[is_token[:, 3:]], model(ids)[:, 3:][is_token[:, 3:]]) <= TOLERANCE


@torch.no_grad()
@every_language_model
def test_selected_rows_continue_as_if_recomputed(name: str) -> None:
    """Beams are reordered, duplicated and dropped."""
    model = language_model(name)
    ids = random_ids(model.config, 3, 5)
    is_token = torch.arange(5) >= torch.tensor([0, 2, 1])[:, None]
    cache = model.start_cache()
    model(ids, is_token, cache)
    rows = torch.tensor([2, 0, 2, 1])
    cache.select(rows)
    more = random_ids(model.config, 4, 2, seed=5)
    got = model(more, cache=cache)
    whole = torch.cat([ids[rows], more], dim=1)
    whole_mask = torch.cat([is_token[rows], torch.ones(4, 2, dtype=torch.bool)], dim=1)
    assert share(got, model(whole, whole_mask)[:, 5:]) <= TOLERANCE


@torch.no_grad()
def test_selected_rows_do_not_write_into_each_other() -> None:
    model = language_model("learned positions")
    ids = random_ids(model.config, 1, 3)
    cache = model.start_cache()
    model(ids, cache=cache)
    cache.select(torch.tensor([0, 0]))
    first, second = torch.tensor([[1], [2]]), torch.tensor([[3], [4]])
    model(first, cache=cache)
    got = model(second, cache=cache)
    whole = torch.cat([ids.expand(2, 3), first, second], dim=1)
    assert share(got, model(whole)[:, -1:]) <= TOLERANCE


# Encoder-decoder


def translator(**changes: Any) -> Seq2Seq:
    model = make(tiny("seq2seq", **changes)).eval()
    assert isinstance(model, Seq2Seq)
    return model


@torch.no_grad()
@every_chunking
@pytest.mark.parametrize("positions", ["learned", "sinusoidal", "rotary", "none"])
def test_seq2seq_chunks_equal_the_full_pass(positions: str, chunks: list[int]) -> None:
    model = translator(positions__kind=positions)
    source, target = random_ids(model.config, 3, 6), random_ids(model.config, 3, 8, seed=2)
    is_token = torch.arange(6) < torch.tensor([6, 2, 4])[:, None]
    expected = model(source, target, is_token)
    memory, cache, start, logits = model.encode(source, is_token), model.start_cache(), 0, []
    for size in chunks:
        piece = target[:, start : start + size]
        logits.append(model.decode(piece, memory, is_token, cache=cache))
        start += size
    assert share(torch.cat(logits, dim=1), expected) <= TOLERANCE


@torch.no_grad()
def test_the_source_is_projected_once() -> None:
    model = translator()
    source, target = random_ids(model.config, 2, 6), random_ids(model.config, 2, 3, seed=2)
    memory, cache = model.encode(source), model.start_cache()
    first = model.decode(target[:, :1], memory, cache=cache)
    again = model.decode(target[:, 1:2], torch.zeros_like(memory), cache=cache)
    expected = model(source, target)
    assert share(torch.cat([first, again], dim=1), expected[:, :2]) <= TOLERANCE
    assert [layer.length for layer in cache.cross_attention] == [6, 6]


@torch.no_grad()
def test_seq2seq_select_reorders_self_and_cross_attention() -> None:
    model = translator()
    source, target = random_ids(model.config, 3, 6), random_ids(model.config, 3, 4, seed=2)
    is_token = torch.arange(6) < torch.tensor([6, 2, 4])[:, None]
    memory, cache = model.encode(source, is_token), model.start_cache()
    model.decode(target, memory, is_token, cache=cache)
    rows = torch.tensor([1, 1, 0, 2, 2])
    cache.select(rows)
    more = random_ids(model.config, 5, 1, seed=4)
    got = model.decode(more, memory[rows], is_token[rows], cache=cache)
    whole = torch.cat([target[rows], more], dim=1)
    assert share(got, model(source[rows], whole, is_token[rows])[:, 4:]) <= TOLERANCE


# The cache itself


def appended(cache: KeyValueCache, n: int, value: float = 0.0) -> tuple[Tensor, Tensor]:
    keys, values = cache.append(torch.full((1, 2, n, 4), value), torch.full((1, 2, n, 3), value))
    return keys, values


def test_appending_returns_everything_so_far_in_order() -> None:
    cache = KeyValueCache()
    for step in range(6):
        keys, values = appended(cache, 1 + step % 2, float(step))
    assert keys[0, 0, :, 0].tolist() == [0, 1, 1, 2, 3, 3, 4, 5, 5]
    assert values.shape == (1, 2, 9, 3)
    assert all(a.equal(b) for a, b in zip(cache.read(), (keys, values), strict=True))


def test_capacity_doubles_so_that_a_thousand_steps_copy_a_dozen_times() -> None:
    cache, rooms = KeyValueCache(), set()
    for _ in range(1000):
        keys, _ = appended(cache, 1)
        rooms.add(keys.untyped_storage().nbytes() // (2 * 4 * 4))
    assert sorted(rooms) == [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024]


def test_a_chunk_larger_than_double_the_capacity_fits() -> None:
    cache = KeyValueCache()
    appended(cache, 2)
    keys, _ = appended(cache, 50)
    assert keys.untyped_storage().nbytes() // (2 * 4 * 4) == 52


def test_an_empty_cache_selects_nothing() -> None:
    cache = DecodingCache([KeyValueCache()], [KeyValueCache()])
    cache.select(torch.tensor([1, 0]))
    assert (cache.length, cache.is_token) == (0, None)
