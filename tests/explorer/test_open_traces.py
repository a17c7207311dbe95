"""The store of open traces: bounded, and fair to those who look at a trace."""

import threading

import pytest
import torch
from torch import Tensor, nn

from glassformer.explorer.open_traces import DroppedError, OpenTrace, Store
from glassformer.tracing import trace


def opened(size: int = 4, seed: int = 0) -> OpenTrace:
    torch.manual_seed(seed)
    return OpenTrace(trace(nn.Linear(4, size), torch.ones(1, 4)), "linear", "module")


def edited(before: OpenTrace, value: float = 0.0) -> OpenTrace:
    step = before.trace.steps[-1].name
    changed = before.trace.edit({(step, (0, 0)): value})
    return OpenTrace(changed, "linear", "module", parent=before.id, first=before.root)


def is_open(store: Store, one: OpenTrace) -> bool:
    try:
        with store.use(one.id):
            return True
    except DroppedError:
        return False


def test_the_family_not_looked_at_for_longest_is_dropped() -> None:
    store = Store(most_traces=3)
    traces = [store.add(opened(seed=seed)) for seed in range(3)]
    assert is_open(store, traces[0])  # looked at: the second is now the oldest
    store.add(opened())
    assert [is_open(store, one) for one in traces] == [True, False, True]
    assert len(store) == 3


def test_whatever_is_not_open_is_answered_in_one_way() -> None:
    """After the server was started anew, too, when it cannot know what was open before."""
    store = Store(most_traces=1)
    first = store.add(opened())
    store.add(opened())
    with pytest.raises(DroppedError, match="run the text again"), store.use(first.id):
        pass
    with pytest.raises(DroppedError, match="run the text again"), store.use("nothing"):
        pass
    with pytest.raises(DroppedError, match="run the text again"):
        store.remove("nothing")


def test_memory_is_bounded_and_shared_storages_count_once() -> None:
    big = 256
    store = Store(most_bytes=3 * big * 4)
    for seed in range(6):
        store.add(opened(big, seed))
        assert store.n_bytes <= store.most_bytes
    assert len(store) == 3
    (one,) = [store.add(opened(big))]
    before = store.n_bytes
    weight = ("weight", (0, 0))
    same = OpenTrace(one.trace.edit({weight: 1.0}), "linear", "module", parent=one.id, first=one)
    assert same.n_bytes == one.n_bytes  # computed anew
    store.add(same)
    assert store.n_bytes <= max(before, store.most_bytes)


def test_undo_and_reset_survive_as_long_as_the_edit_does() -> None:
    store = Store(most_traces=4)
    root = store.add(opened())
    child = store.add(edited(root))
    for seed in range(2):
        store.add(opened(seed=seed))
    assert is_open(store, child)
    store.add(opened())  # five: one of the others has to go, the family was just looked at
    assert is_open(store, child) and is_open(store, root)
    for seed in range(4):
        store.add(opened(seed=seed))
    assert not is_open(store, child) and not is_open(store, root)  # and they go together


def test_of_a_long_chain_of_edits_the_first_and_the_latest_stay() -> None:
    store = Store(most_in_family=4)
    chain = [store.add(opened())]
    for value in range(8):
        chain.append(store.add(edited(chain[-1], float(value))))
    kept = [is_open(store, one) for one in chain]
    assert kept == [True] + [False] * 5 + [True] * 3
    assert len(store) == 4


def test_a_family_alone_that_is_too_large_keeps_its_first_and_last() -> None:
    store = Store(most_traces=2)
    chain = [store.add(opened())]
    for value in range(4):
        chain.append(store.add(edited(chain[-1], float(value))))
    assert [is_open(store, one) for one in chain] == [True, False, False, True, True]


def test_what_is_kept_is_never_dropped_but_its_edits_are() -> None:
    store = Store(most_traces=2)
    lesson = store.keep(opened())
    edits = [store.add(edited(lesson, float(value))) for value in range(2)]
    for seed in range(2):
        store.add(opened(seed=seed))
    assert is_open(store, lesson)
    assert [is_open(store, one) for one in edits] == [False, False]
    assert is_open(store, store.add(edited(lesson, 5.0)))  # and it can be edited again


def test_a_trace_that_is_looked_at_stays_whole_until_the_look_is_over() -> None:
    store = Store(most_traces=1)
    first = store.add(opened())
    with store.use(first.id) as held:
        store.add(opened())
        assert held.trace.steps and held.step(0).value is not None
    assert not first.trace.steps  # then its memory is given back at once


def test_the_root_stays_whole_while_an_edit_of_it_is_looked_at() -> None:
    store = Store(most_traces=2)
    root = store.add(opened())
    child = store.add(edited(root))
    with store.use(child.id):
        store.add(opened())
        assert root.trace.steps
    assert not root.trace.steps and not child.trace.steps


def test_closing_a_trace_closes_what_came_of_it() -> None:
    store = Store()
    root = store.add(opened())
    one, other = store.add(edited(root)), store.add(edited(root, 2.0))
    below = store.add(edited(one, 3.0))
    store.remove(one.id)
    assert [is_open(store, each) for each in (root, one, other, below)] == [
        True,
        False,
        True,
        False,
    ]
    store.remove(root.id)
    assert len(store) == 0
    with pytest.raises(DroppedError):
        store.remove(root.id)


def test_an_edit_of_a_trace_that_was_dropped_meanwhile_is_refused() -> None:
    store = Store(most_traces=1)
    root = store.add(opened())
    late = edited(root)
    store.add(opened())
    with pytest.raises(DroppedError):
        store.add(late)


def test_many_threads_at_once_leave_the_store_whole() -> None:
    store = Store(most_traces=5)
    module = nn.Linear(4, 4)
    problems: list[BaseException] = []

    def work(value: Tensor) -> None:
        try:
            for _ in range(15):
                mine = store.add(OpenTrace(trace(module, value), "linear", "module"))
                try:
                    with store.use(mine.id) as held:
                        assert held.step(0).view.numel
                except DroppedError:
                    pass
        except BaseException as problem:
            problems.append(problem)

    threads = [threading.Thread(target=work, args=(torch.ones(1, 4) * n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems and len(store) == 5
