"""Readers at once, for a moment or a minute: every answer is the library's, and nothing grows."""

import pytest

from benchmarks import explorer_load
from benchmarks.explorer_load import (
    ANSWERS,
    Client,
    Tally,
    Vitals,
    explorer,
    growth,
    is_flat,
    load,
    one_by_one,
    two_tabs,
)
from tests.explorer.conftest import Live

CLIENTS, SECONDS = 50, 60.0


@pytest.fixture(autouse=True)
def on_the_toy(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Quick tests use the toy, whose sums are too short for another order of summing.

    Of larger models, two threads that compute the same may differ in the last digits.
    """
    if "slow" not in request.keywords:
        monkeypatch.setattr(explorer_load, "TEXTS", {"toy": explorer_load.TEXTS["toy"]})


def test_two_tabs_that_edit_one_trace_do_not_disturb_each_other(live: Live) -> None:
    tally = two_tabs(live.address, n_edits=3)
    assert tally.errors == []
    assert tally.n_right >= 1 + 2 * 3 * 4  # a trace, and of each edit four answers


def test_clients_at_once_get_what_the_library_says(live: Live) -> None:
    tally = Tally()
    with Client(live.address, tally, seed=1) as one:
        twin = one.open()
        assert twin is not None
        for _ in range(8):
            one.click(twin)
        assert one.ask("DELETE", f"traces/{twin.info['id']}") is None
    assert tally.errors == [] and tally.n_right == 9
    assert tally.statuses == {201: 1, 200: 8, 204: 1}


def test_another_answer_than_the_librarys_is_an_error(live: Live) -> None:
    """The check can fail: a number is set on the server of which the library knows nothing."""
    tally = Tally()
    with Client(live.address, tally, seed=1) as one:
        twin = one.open()
        assert twin is not None
        edited = one.edit(twin)
        assert edited is not None and tally.errors == []
        one._twin(
            edited.info, lambda: twin.here
        )  # the trace before the edit, as the library has it
    assert any("another answer" in error for error in tally.errors)


def test_growth_is_of_the_last_quarter() -> None:
    assert growth([0.0, 5.0, 7.0, 7.0]) == 0.0
    assert growth([1.0, 1.0, 1.0, 1.0, 2.0, 4.0, 6.0, 6.0]) == 3.0
    assert growth([3.0]) == 0.0


def test_memory_may_grow_until_the_store_is_full_and_files_never() -> None:
    growing = [Vitals(100.0 * n, 8) for n in range(8)]
    assert is_flat(growing, n_traces=60) and not is_flat(growing, n_traces=2_000)
    assert not is_flat([Vitals(500.0, 8 * n) for n in range(8)], n_traces=60)
    assert not is_flat([Vitals(9_000.0, 8)] * 8, n_traces=60)


@pytest.mark.slow
def test_fifty_clients_for_a_minute() -> None:
    with explorer() as (address, pid):
        with Client(address, Tally(), 0) as first:
            assert first.ask("GET", "models")
        tally, vitals = load(address, pid, CLIENTS, SECONDS)
    assert tally.errors == []
    assert set(tally.statuses) <= ANSWERS
    assert tally.statuses[201] > CLIENTS  # runs were made, not only refused
    assert is_flat(vitals, tally.statuses[201])


@pytest.mark.slow
def test_two_thousand_traces_of_changing_models_with_edits() -> None:
    with explorer() as (address, pid):
        tally, vitals = one_by_one(address, pid, 2_000)
    assert tally.errors == []
    assert is_flat(vitals, tally.statuses[201])
