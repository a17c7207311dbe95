"""Many readers at once for a minute: every request is answered, and memory stays within bounds."""

import pytest

from benchmarks.explorer_load import ANSWERS, Client, Tally, explorer, load

CLIENTS, SECONDS = 50, 60.0
MOST_MIB = 2_600
"""The store's 1.5 GiB, the models, Python and torch."""


@pytest.mark.slow
def test_fifty_clients_for_a_minute() -> None:
    with explorer() as (address, pid):
        with Client(address, Tally(), 0) as first:
            assert first.ask("GET", "models")
        tally, memory = load(address, pid, CLIENTS, SECONDS)
    assert tally.errors == []
    assert set(tally.statuses) <= ANSWERS
    assert tally.statuses[201] > CLIENTS  # runs were made, not only refused
    assert max(memory) < MOST_MIB
