"""Batches in parallel: the same results, settings restored, errors passed on."""

import threading

import pytest
import torch

from glassformer.decoding import Beam, Greedy, Sampling, translate
from glassformer.decoding.fast.workers import cores_for, side_by_side
from glassformer.errors import CancelledError, cancelled_by
from tests.decoding.tiny import END, START, sources, translator

pytestmark = pytest.mark.usefixtures("two_threads")


def test_results_keep_the_order_of_the_batches() -> None:
    seen: set[int] = set()
    both = threading.Barrier(2, timeout=60)

    def work(number: int) -> tuple[int, int, bool]:
        seen.add(threading.get_ident())
        if number < 2:
            both.wait()  # two at a time, or this never ends
        return number, torch.get_num_threads(), torch.is_inference_mode_enabled()

    assert side_by_side(work, list(range(5)), 2) == [(i, 1, True) for i in range(5)]
    assert len(seen) == 2 and threading.get_ident() not in seen
    assert torch.get_num_threads() == 2


def test_an_error_comes_out_and_leaves_the_settings() -> None:
    def fail(number: int) -> int:
        raise ValueError(f"batch {number}")

    with pytest.raises(ValueError, match="batch 0"):
        side_by_side(fail, [0, 1, 2], 2)
    assert torch.get_num_threads() == 2
    assert side_by_side(lambda n: n + 1, [1, 2, 3], 2) == [2, 3, 4]


def test_callers_at_the_same_time_do_not_disturb_each_other() -> None:
    def outer(_: int) -> list[int]:
        return side_by_side(lambda n: n * n, [1, 2, 3], 2)

    assert side_by_side(outer, [0, 1], 2) == [[1, 4, 9]] * 2
    assert torch.get_num_threads() == 2


def test_translations_are_those_of_one_batch_after_the_other() -> None:
    model, read = translator(), sources(12)
    together = translate(model, read, start=START, end=END, search=Beam(), batch_size=3, max_new=9)
    torch.set_num_threads(1)
    in_turn = translate(model, read, start=START, end=END, search=Beam(), batch_size=3, max_new=9)
    assert [one.best.tokens for one in together] == [one.best.tokens for one in in_turn]


def test_a_small_model_on_a_cpu_gets_as_many_batches_as_cores() -> None:
    assert cores_for(translator()) == 2
    with torch.device("meta"):
        assert cores_for(torch.nn.Linear(10, 10)) == 1, "not on a CPU"
    assert cores_for(torch.nn.Linear(10_000, 5_001)) == 1, "one matrix is work for all cores"


@pytest.mark.parametrize("search", [Greedy(), Beam(size=2), Sampling()])
def test_a_cancelled_search_ends_at_its_next_token(
    search: Greedy | Beam | Sampling,
) -> None:
    """In the threads of its batches, too."""
    asked: list[int] = []

    def gone() -> bool:
        asked.append(threading.get_ident())
        return len(asked) > 3

    model, texts = translator(), sources(1)
    with cancelled_by(gone), pytest.raises(CancelledError):
        translate(model, texts, start=START, end=None, search=search, max_new=30)
    assert len(asked) == 4 and threading.get_ident() not in asked
    assert translate(model, texts, start=START, end=None, search=search, max_new=5)
