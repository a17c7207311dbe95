"""The rules, tested on torch's own operator database: see `tests.tracing.operator_database`.

A wrong cell fails, a crash fails, and an operator that leaves the verified column fails.
"""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

TABLE: dict[str, dict[str, Any]] = json.loads(
    Path(__file__).with_name("operators.json").read_text(encoding="utf-8")
)
PARTS = 24
QUICK = 20
"""Which share of the entries the ordinary suite examines: one in so many."""

# `op_db` takes seconds to import: it is imported where it is used, not when tests are collected.


def declared(status: Any) -> set[str]:
    """The operators without a rule, and the functions that refuse, listed in a status."""
    parts = status.values() if isinstance(status, dict) else ()
    return {name for part in parts for name in part}


def problems(names: list[str], most: int | None) -> list[str]:
    """The failures of these entries, one line per entry and pass."""
    from tests.tracing import operator_database as database

    found = []
    for name, kind, outcome in database.examined(names, most, database.PASSES):
        said = [*outcome.wrong, *outcome.crashed]
        expected = TABLE.get(name, {}).get(kind)
        if not said:
            status = database.status_of(outcome)
            if expected == "verified" and status not in ("verified", None):
                said = [f"no longer verified: {status}"]
            elif undeclared := declared(status) - declared(expected):
                said = [f"not declared: {', '.join(sorted(undeclared))}"]
        found += [f"{name}, {kind}: {line}" for line in said]
    return found


def test_a_sample_of_the_operator_database() -> None:
    from tests.tracing import operator_database as database

    names = database.part_of(database.ENTRIES, 0, QUICK)
    assert len(names) > len(database.ENTRIES) / QUICK / 2
    assert problems(names, 1) == []


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_the_whole_operator_database(part: int, capsys: pytest.CaptureFixture[str]) -> None:
    from tests.tracing import operator_database as database

    names = database.part_of(database.ENTRIES, part, PARTS)
    found = problems(names, None)
    with capsys.disabled():
        rows = {name: TABLE[name] for name in names if name in TABLE}
        sys.stdout.write(f"\npart {part} of {PARTS}\n{database.table_text(rows)}\n")
    assert found == []


def test_the_sweep_finds_a_wrong_rule_a_crash_and_a_lost_rule() -> None:
    """The check itself can fail."""
    from glassformer.tracing.arithmetic.expressions import Expression, Number
    from glassformer.tracing.capture.memory import Index
    from glassformer.tracing.capture.operator_calls import Call
    from tests.tracing.swapped_rules import swapped

    def wrong(_call: Call, _index: Index) -> Expression:
        return Number(0.123)

    def crash(_call: Call, _index: Index) -> Expression:
        raise KeyError("no such cell")

    assert problems(["cos"], 1) == []
    for rule, expected in ((wrong, ": cos "), (crash, "KeyError")):
        undo = swapped("cos", rule)
        try:
            assert any(expected in line for line in problems(["cos"], 1))
        finally:
            undo()
    TABLE["linalg.inv"], kept = {"forward": "verified"}, TABLE["linalg.inv"]
    try:
        assert any("no longer verified" in line for line in problems(["linalg.inv"], 1))
    finally:
        TABLE["linalg.inv"] = kept


def test_the_guide_states_the_limits_that_the_database_shows() -> None:
    from tests.tracing import operator_database as database

    guide = database.GUIDE.read_text(encoding="utf-8")
    assert database.renewed_guide(guide, database.read_table()) == guide


def test_the_guide_repeats_what_a_refusal_says() -> None:
    """If not, `python -m tests.tracing.operator_database --write ENTRY` renews both."""
    from tests.tracing import operator_database as database

    refused = [name for name, row in TABLE.items() if '"refused"' in json.dumps(row)]
    said = {
        f"{name}, {kind}": TABLE[name][kind]
        for name, kind, outcome in database.examined(refused, 1, database.PASSES)
        if outcome.refused and database.status_of(outcome) != TABLE[name][kind]
    }
    assert refused
    assert said == {}


# Common in networks: other operators may be declared opaque, these may not.
FAMILIES = ("nn.functional.", "scatter", "index_", "gather", "take", "masked_")
# In training, by entry: why its step is refused, or which step of the backward pass has no rule.
NOT_IN_TRAINING = {
    "nn.functional.ctc_loss": "differs from autograd's",  # which assumes a log_softmax before it
}


@pytest.mark.parametrize("kind", ["forward", "training"])
def test_common_operators_are_verified(kind: str) -> None:
    lost = {
        name: row[kind]
        for name, row in TABLE.items()
        if name.startswith(FAMILIES) and row.get(kind, "verified") != "verified"
    }
    excepted = NOT_IN_TRAINING if kind == "training" else {}
    assert lost.keys() == excepted.keys()
    assert all(reason in str(lost[name]) for name, reason in excepted.items())
