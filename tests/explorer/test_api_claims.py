"""The claims over HTTP: the gallery, one claim, its switches, rows and lessons."""

from __future__ import annotations

import threading

import pytest
from starlette.testclient import TestClient

from glassformer.claims import ROWS, claims
from glassformer.claims.claim_report import source_of
from glassformer.errors import CancelledError, InputError, cancelled_by
from glassformer.explorer.open_claims import OpenClaims
from glassformer.explorer.open_lessons import Lessons
from glassformer.explorer.open_traces import Store
from glassformer.lessons import LESSONS
from glassformer.lessons.course import row_ids
from tests.explorer.asking import get


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_gallery_lists_every_claim_and_row(client: TestClient, language: str) -> None:
    found = get(client, "/api/claims", language=language)
    known = claims()
    assert [one["id"] for one in found["claims"]] == list(known)
    for one in found["claims"]:
        claim = known[one["id"]]
        assert one["says"] == (claim.says.zh if language == "zh" else claim.says.en)
        assert one["texts"] == list(claim.texts)
        assert one["is_slow"] == claim.slow and one["n_switches"] == len(claim.switches)
        assert not claim.slow or one["verdict"] == claim.recall().verdict
    rows = {row["id"]: row for row in found["rows"]}
    assert list(rows) == row_ids()
    assert all(rows[id_]["claims"] == list(ids) for id_, ids in ROWS.items())
    assert {one["name"] for one in rows["G11"]["lessons"]} == {
        name for name, entry in LESSONS.items() if "G11" in entry.rows
    }
    assert {text["id"] for text in found["texts"]} == {
        text for claim in known.values() for text in claim.texts
    }


def test_a_claim_is_measured_and_then_known(client: TestClient) -> None:
    found = get(client, "/api/claims/C34")
    fresh = claims()["C34"].run()
    assert found["verdict"] == fresh.verdict and found["found"] == fresh.sentence("en")
    assert found["figures"] == pytest.approx(dict(fresh.figures))
    assert found["code"] == source_of(claims()["C34"])
    assert found["command"] == "glassformer claims C34"
    assert found["stored"] is None and found["seconds"] >= 0
    assert found["figure"]["svg"].startswith("<svg")
    listed = {one["id"]: one for one in get(client, "/api/claims")["claims"]}
    assert listed["C34"]["verdict"] == fresh.verdict


def test_a_slow_claim_shows_its_stored_result(client: TestClient) -> None:
    found = get(client, "/api/claims/C63", language="zh")
    stored = claims()["C63"].stored
    assert stored is not None and found["seconds"] is None
    assert found["stored"] == {
        "command": stored.command, "date": stored.date, "where": stored.where,
    }  # fmt: skip
    assert found["figures"] == dict(stored.figures)


def test_switches_are_turned(client: TestClient) -> None:
    found = get(client, "/api/claims/C42", set=["k=64", "heads=8"])
    assert found["figures"]["one"] == 3 * 64**2
    assert [(one["name"], one["chosen"]) for one in found["switches"]] == [
        ("k", "64"),
        ("heads", "8"),
    ]
    assert found["command"] == "glassformer claims C42 --set k=64 --set heads=8"


@pytest.mark.parametrize(
    ("address", "status", "said"),
    [
        ("/api/claims/C00", 404, "unknown claim"),
        ("/api/claims/C42?set=k%3D65", 400, "claim C42 has no k '65'"),
        ("/api/claims/C42?set=nothing", 400, "expected NAME=VALUE"),
        ("/api/claims/C33?set=k%3D64", 400, "claim C33 has no switch 'k'"),
    ],
)
def test_what_there_is_not_is_said(
    client: TestClient, address: str, status: int, said: str
) -> None:
    answer = client.get(address)
    assert answer.status_code == status
    assert said in answer.json()["detail"]


def test_a_training_is_cancelled_between_steps() -> None:
    asked = 0

    def leaves() -> bool:
        nonlocal asked
        asked += 1
        return asked > 5

    held = OpenClaims()
    with cancelled_by(leaves), pytest.raises(CancelledError):
        held.get("C46", "en")
    assert asked == 6


def test_two_threads_measure_the_same_numbers() -> None:
    """Experiments seed the process's random numbers: one waits for the other.

    torch may share a sum out differently in another thread: a mean of float32 numbers of about
    0.02 differs by less than their last bit, 0.02 · 2⁻²³. Other random numbers differ by 10⁻⁵.
    """
    ids = ("C26", "C60")
    alone = {id_: dict(claims()[id_].run().figures) for id_ in ids}
    found: dict[str, dict[str, float]] = {}

    def measure(id_: str) -> None:
        for _ in range(5):
            found[id_] = dict(claims()[id_].run().figures)
            assert found[id_] == pytest.approx(alone[id_], rel=1e-6, abs=0.02 * 2**-23)

    threads = [threading.Thread(target=measure, args=(id_,)) for id_ in ids]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(found) == set(ids)


def test_beside_a_training_run_only_stored_results_are_shown() -> None:
    held = OpenClaims()
    held.can_measure = False
    assert not held.gallery("en").can_measure
    assert held.get("C63", "en").stored is not None
    with pytest.raises(InputError, match="not measured beside a training run"):
        held.get("C33", "en")


def test_beside_a_training_run_no_lesson_is_computed() -> None:
    """A lesson that trains seeds torch: the run beside it would draw other numbers."""
    lessons = Lessons(Store())
    lessons.can_make = False
    assert lessons.summaries("en")
    with pytest.raises(InputError, match="not computed beside a training run"):
        lessons.get("thrones", "en")


def test_a_lesson_names_the_claims_about_it(client: TestClient) -> None:
    found = get(client, "/api/lessons/mask", language="zh")
    expected = [id_ for row in LESSONS["mask"].rows for id_ in ROWS.get(row, ())]
    assert [one["id"] for one in found["claims"]] == list(dict.fromkeys(expected))
    assert all(one["says"] == claims()[one["id"]].says.zh for one in found["claims"])


def test_what_was_measured_does_not_wait_for_what_is_being_measured() -> None:
    known = OpenClaims()
    first = known.get("C04", "en")
    with known._lock:  # as while another claim is measured
        assert known.get("C04", "en") == first
