"""Order and loader: every example once per epoch, reproducible, resumable anywhere."""

import threading
from itertools import islice

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from glassformer.data.batches import EpochRNG, Examples, WindowBatch
from glassformer.data.loader import Loader, Order, divide_batch, evaluation_batches
from glassformer.data.token_store import Ids
from glassformer.errors import ConfigError, DataError

LENGTHS = np.array([3, 9, 1, 30, 8, 7, 2, 16, 17, 31, 5, 5, 5])


class Numbers(Examples[WindowBatch]):
    """Examples that are their own index, each with a random number."""

    @property
    def lengths(self) -> Ids:
        return LENGTHS

    def batch(self, indices: Ids, rng: EpochRNG, width: int = 0) -> WindowBatch:
        ids = torch.from_numpy(indices)[:, None]
        draws = torch.from_numpy(rng.uniform(indices, 1, 0))
        return WindowBatch(labels=draws, n_scored=len(ids), n_tokens=len(ids), ids=ids)


def seen(loader: Loader, start: int, end: int) -> list[list[float]]:
    """Indices and random numbers of every batch, flat."""
    return [
        [*batch.inputs[0].flatten().tolist(), *batch.labels.flatten().tolist()]  # type: ignore[union-attr]  # ids are there
        for step in loader.steps(start, end)
        for batch in step.batches
    ]


@settings(max_examples=50)
@given(
    lengths=st.lists(st.integers(1, 60), min_size=1, max_size=60),
    max_tokens=st.integers(1, 200),
    width=st.integers(1, 20),
    epoch=st.integers(0, 3),
)
def test_an_epoch_has_every_example_once_and_batches_of_bounded_size(
    lengths: list[int], max_tokens: int, width: int, epoch: int
) -> None:
    order = Order(np.array(lengths), max_tokens=max_tokens, bucket_width=width)
    batches = order.epoch(epoch)
    assert sorted(np.concatenate(batches).tolist()) == list(range(len(lengths)))
    assert len(batches) == order.n_batches
    for batch in batches:
        its = order.lengths[batch]
        assert its.max() - its.min() < width
        assert len(batch) == 1 or its.max() * len(batch) <= max_tokens


def test_the_order_is_a_function_of_seed_and_epoch() -> None:
    def epoch(seed: int, number: int) -> list[list[int]]:
        return [b.tolist() for b in Order(LENGTHS, batch_size=2, seed=seed).epoch(number)]

    assert epoch(1, 0) == epoch(1, 0)
    assert epoch(1, 0) != epoch(1, 1)
    assert epoch(1, 0) != epoch(2, 0)


def test_a_small_last_batch_is_divided_among_the_others() -> None:
    sizes = [len(b) for b in Order(np.full(33, 5), batch_size=8).epoch(0)]
    assert sorted(sizes) == [6, 6, 7, 7, 7]


def test_a_batch_is_filled_up_to_the_largest_and_longest_of_its_bucket() -> None:
    order = Order(np.array([5] * 33 + [12, 14, 13]), batch_size=8, bucket_width=8)
    shapes = {(order.shape_of(batch).rows, order.shape_of(batch).width) for batch in order.epoch(0)}
    assert shapes == {(7, 5), (3, 14)}  # 33 in five batches are 7, 7, 7, 6 and 6
    assert order.n_shapes == 2


def test_buckets_end_at_multiples_of_their_width() -> None:
    order = Order(np.array([1, 32, 16, 17]), batch_size=8, bucket_width=16)
    assert sorted(sorted(batch.tolist()) for batch in order.epoch(0)) == [[0, 2], [1, 3]]


@pytest.mark.parametrize("start", [0, 1, 5, 6, 13])
def test_a_loader_resumes_anywhere_as_if_uninterrupted(start: int) -> None:
    loader = Loader(Numbers(), Order(LENGTHS, batch_size=3, seed=4))
    assert loader.order.n_batches == 5
    assert seen(loader, 0, 15)[start:] == seen(loader, start, 15)


def test_accumulation_and_processes_divide_the_same_examples_and_random_numbers() -> None:
    order = Order(LENGTHS, batch_size=8, bucket_width=100, seed=3)

    def pairs(loaders: list[Loader]) -> list[set[tuple[float, float]]]:
        steps = zip(*(loader.steps(0, 4) for loader in loaders), strict=True)
        return [
            {
                (float(i), float(draw))
                for step in per_process
                for batch in step.batches
                if batch.n_scored
                for i, draw in zip(batch.inputs[0], batch.labels, strict=True)
            }
            for per_process in steps
        ]

    whole = pairs([Loader(Numbers(), order)])
    assert pairs([Loader(Numbers(), order, accumulate=4)]) == whole
    assert pairs([Loader(Numbers(), order, 2, rank, 3) for rank in range(3)]) == whole


def test_every_process_takes_part_in_every_update() -> None:
    order = Order(LENGTHS[:1], batch_size=4)
    steps = [next(iter(Loader(Numbers(), order, 1, r, 3).steps(0, 1))) for r in range(3)]
    assert [u.batches[0].n_scored for u in steps] == [1, 0, 0]
    assert (steps[2].batches[0].labels == -100).all()


def test_shares_are_nearly_equal() -> None:
    assert [len(part) for part in divide_batch(np.arange(7), 3)] == [3, 2, 2]


def test_an_exception_in_the_thread_reaches_the_consumer() -> None:
    class Broken(Numbers):
        def batch(self, indices: Ids, rng: EpochRNG, width: int = 0) -> WindowBatch:
            raise DataError("line 7 is damaged")

    with pytest.raises(DataError, match="line 7 is damaged"):
        list(Loader(Broken(), Order(LENGTHS, batch_size=3)).steps(0, 3))


def test_a_consumer_that_stops_early_leaves_no_thread() -> None:
    steps = Loader(Numbers(), Order(LENGTHS, batch_size=1)).steps(0, 1000)
    list(islice(steps, 2))
    steps.close()  # type: ignore[attr-defined]  # it is a generator
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("batches")]


def test_evaluation_sees_every_example_once_over_all_processes() -> None:
    order = Order(LENGTHS, max_tokens=20)
    indices = [
        i
        for rank in range(3)
        for batch, _ in evaluation_batches(Numbers(), order, rank, 3)
        for i in batch.tolist()
    ]
    assert sorted(indices) == list(range(len(LENGTHS)))


def test_invalid_sizes_are_refused() -> None:
    with pytest.raises(ConfigError, match="not both"):
        Order(LENGTHS, batch_size=1, max_tokens=1)
    with pytest.raises(ConfigError, match="must be at least 1"):
        Order(LENGTHS, batch_size=0)
    with pytest.raises(ConfigError, match="must be at least 1"):
        Order(LENGTHS, max_tokens=0)
    with pytest.raises(ConfigError, match="at least 1"):
        Order(LENGTHS, batch_size=-1)
    with pytest.raises(DataError, match="no examples"):
        Order(LENGTHS[:0], batch_size=1)
