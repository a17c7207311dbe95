"""Hooks and modes see everything that a model decodes, in order, on any number of cores."""

import threading
from collections.abc import Callable
from typing import TypeVar

import pytest
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.profiler import ProfilerActivity, profile
from torch.utils.flop_counter import FlopCounterMode

from glassformer.decoding import Beam, Decoded, extend, translate
from glassformer.decoding.fast.workers import cores_for, side_by_side
from glassformer.nn import Seq2Seq, record_attention
from tests.decoding.tiny import END, START, language_model, sources, translator

pytestmark = pytest.mark.usefixtures("two_threads")


R = TypeVar("R")


def translations(model: Seq2Seq) -> list[Decoded]:
    """Of several batches, each with sequences of other lengths."""
    search = Beam(size=2)
    return translate(
        model, sources(8), start=START, end=END, search=search, max_new=6, batch_size=3
    )


def with_each_number_of_cores(look: Callable[[], R]) -> list[R]:
    found = []
    for n_cores in (1, 2):
        torch.set_num_threads(n_cores)
        found.append(look())
    return found


def test_as_many_flops_are_counted_with_two_cores_as_with_one() -> None:
    model = translator()

    def count() -> int:
        with FlopCounterMode(display=False) as counter:
            translations(model)
        return int(counter.get_total_flops())

    one, two = with_each_number_of_cores(count)
    assert one == two > 0


def test_recorded_attention_comes_in_the_order_of_the_batches() -> None:
    model = translator()

    def record() -> dict[str, list[Tensor]]:
        with record_attention(model) as recorded:
            translations(model)
        return dict(recorded)

    one, two = with_each_number_of_cores(record)
    assert one.keys() == two.keys() and one
    for name, weights in one.items():
        assert len(weights) == len(two[name]) >= 3
        for mine, other in zip(weights, two[name], strict=True):
            torch.testing.assert_close(mine, other, rtol=0, atol=1e-12)
    longest = [weights.size(-1) for weights in one["encoder.blocks.0.attention"]]
    assert len(longest) == 3 and longest == sorted(longest, reverse=True), "longest texts first"


def test_hooks_are_called_in_the_callers_thread_and_see_its_autocast() -> None:
    """Only the flag is tested: a model in double precision stays so under autocast."""
    model = language_model()
    seen: set[tuple[int, bool]] = set()

    def note(*_: object) -> None:
        seen.add((threading.get_ident(), torch.is_autocast_enabled("cpu")))

    with model.decoder.register_forward_hook(note):
        extend(model, sources(4), end=END, max_new=3)
        assert seen == {(threading.get_ident(), False)}
        seen.clear()
        with torch.autocast("cpu", torch.float16):
            extend(model, sources(4), end=END, max_new=3)
        assert seen == {(threading.get_ident(), True)}


def test_work_of_any_kind_sees_the_callers_autocast() -> None:
    """Whatever number of cores it is called with."""
    with torch.autocast("cpu", torch.float16):
        seen = side_by_side(lambda _: torch.is_autocast_enabled("cpu"), [1, 2], 2)
    assert seen == [True, True]


def test_a_watched_model_gets_one_batch_at_a_time() -> None:
    model = language_model()
    assert cores_for(model) == 2
    with TorchFunctionMode():
        assert cores_for(model) == 1
    with torch.autocast("cpu", torch.float16):
        assert cores_for(model) == 1
    with profile(activities=[ProfilerActivity.CPU]):
        assert cores_for(model) == 1
    with model.decoder.register_forward_pre_hook(lambda *_: None):
        assert cores_for(model) == 1
    with torch.device("cpu"):  # a default device is harmless
        assert cores_for(model) == 2
    assert cores_for(model) == 2
