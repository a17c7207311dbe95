"""Decoding, lessons, files and the watched run over the API."""

import io
import json
import math
import zipfile
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from starlette.testclient import TestClient

from glassformer import load
from glassformer.decoding import Beam
from glassformer.errors import UnknownNameError
from glassformer.explorer.open_traces import OpenTrace
from glassformer.explorer.schemas import RunCurves, WatchInfo
from glassformer.explorer.state import State
from glassformer.lessons import LESSONS, make_lesson
from tests.explorer.asking import Json, card, get, named, run, values

QUICK_LESSONS = ("illustrated", "masked", "multi-head", "training-step")


# --- decoding ---


def decode(client: TestClient, **asked: Any) -> Json:
    answer = client.post("/api/decode", json={"model": "en-de", "text": "A dog runs.", **asked})
    assert answer.status_code == 200, answer.text
    found: Json = answer.json()
    return found


def test_a_beam_finds_what_the_task_finds(client: TestClient) -> None:
    found = decode(client, search="beam", beam=4)
    search = Beam(size=4, n_best=4, length_penalty=0.6, penalty="gnmt")
    said = load("en-de").translate(["A dog runs."], search=search, max_new=48)[0]
    assert [text for text, _ in found["results"]] == [one.text for one in said.alternatives]
    for (_, score), one in zip(found["results"], said.alternatives, strict=True):
        assert score == pytest.approx(one.score, abs=1e-5)


@pytest.mark.parametrize("search", ["greedy", "beam", "sampling"])
def test_the_ledger_can_be_followed(client: TestClient, search: str) -> None:
    """Totals add up along parents, and each beam is the text that was kept before."""
    found = decode(client, search=search, seed=3)
    totals, n_kept = [0.0], 1
    for step in found["steps"]:
        assert len(step["beams"]) == n_kept
        for candidate in step["candidates"]:
            before = totals[candidate["parent"]]
            total = before + candidate["log_probability"]
            assert candidate["total"] == pytest.approx(total, abs=1e-4)
        kept = [one for one in step["candidates"] if one["fate"] == "kept"]
        totals, n_kept = [one["total"] for one in kept], len(kept)


def test_sampling_is_repeatable_and_its_temperature_matters(client: TestClient) -> None:
    asked = {"model": "shakespeare", "text": "ROMEO:", "search": "sampling", "max_new": 12}
    same = [decode(client, **asked, seed=5)["results"] for _ in range(2)]
    assert same[0] == same[1]
    cold = decode(client, **asked, temperature=0.05)
    chances = [one["draw_probability"] for one in cold["steps"][0]["candidates"]]
    assert max(chances) > 0.95 and math.fsum(chances) <= 1 + 1e-6


@pytest.mark.parametrize(
    ("asked", "status", "says"),
    [
        ({"model": "toy"}, 400, "it cannot translate"),
        ({"beam": 0}, 422, "beam"),
        ({"max_new": 1000}, 422, "max_new"),
        ({"text": "   "}, 400, "nothing to translate"),
        ({"search": "magic"}, 422, "search"),
    ],
)
def test_searches_that_cannot_be(client: TestClient, asked: Json, status: int, says: str) -> None:
    answer = client.post("/api/decode", json={"model": "en-de", "text": "A dog.", **asked})
    assert answer.status_code == status and says in answer.json()["detail"]


# --- lessons ---


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_catalogue_has_every_lesson(client: TestClient, language: str) -> None:
    found = get(client, "/api/lessons", language=language)
    assert [one["name"] for one in found] == list(LESSONS)
    assert all(one["title"] and one["summary"] for one in found)


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("name", QUICK_LESSONS)
def test_every_number_of_a_lesson_is_a_cell_of_an_open_trace(
    client: TestClient, name: str, language: Any
) -> None:
    lesson = get(client, f"/api/lessons/{name}", language=language)
    wanted = make_lesson(name, language)
    assert [step["title"] for step in lesson["steps"]] == [step.title for step in wanted.steps]
    linked = 0
    for step in lesson["steps"]:
        for part in step["parts"]:
            if part["kind"] not in ("formula", "matrix"):
                assert part["trace"] is None
                continue
            trace = get(client, f"/api/traces/{part['trace']}")
            assert trace["steps"][part["number"]]["name"] == part["step"]
            if part["kind"] == "matrix":
                lead = ",".join(map(str, part["at"]))
                found = values(client, trace, part["number"], lead=lead)
                wanted_numbers = np.array(part["values"], float)
                stored = wanted_numbers.T if part["turned"] else wanted_numbers
                np.testing.assert_allclose(found.astype(float), stored, rtol=1e-6)
            else:
                card(client, trace, part["number"], *part["index"])
            linked += 1
    assert linked > 3


def test_a_lessons_trace_can_be_edited_like_any_other(client: TestClient) -> None:
    lesson = get(client, "/api/lessons/masked")
    part = next(p for step in lesson["steps"] for p in step["parts"] if p["kind"] == "matrix")
    asked = {"edits": [{"step": part["step"], "index": [0] * _axes(client, part), "value": 7.0}]}
    answer = client.post(f"/api/traces/{part['trace']}/edits", json=asked)
    assert answer.status_code == 201 and answer.json()["root"] == part["trace"]


def _axes(client: TestClient, part: Json) -> int:
    trace = get(client, f"/api/traces/{part['trace']}")
    return len(trace["steps"][part["number"]]["shape"])


def test_a_lesson_that_is_not_there(client: TestClient) -> None:
    answer = client.get("/api/lessons/ilustrated")
    assert answer.status_code == 404 and "did you mean 'illustrated'" in answer.json()["detail"]
    assert client.get("/api/lessons/masked?language=fr").status_code == 422


# --- files ---


@pytest.fixture(scope="module")
def toy(client: TestClient) -> Json:
    return run(client, "toy", "I am not happy")


def export(client: TestClient, trace: Json, **asked: Any) -> tuple[str, bytes]:
    answer = client.post(f"/api/traces/{trace['id']}/export", json=asked)
    assert answer.status_code == 200, answer.text
    name = answer.headers["content-disposition"].partition('filename="')[2].rstrip('"')
    return name, answer.content


@pytest.mark.parametrize("kind", ["md", "tex", "html", "xlsx", "json"])
@pytest.mark.parametrize("language", ["en", "zh"])
def test_what_is_on_the_screen_as_a_file(
    client: TestClient, toy: Json, kind: str, language: str
) -> None:
    number = named(toy, "encoder.blocks.0.attention.weights")
    name, content = export(client, toy, format=kind, steps=[number], language=language)
    assert name == f"toy-encoder.blocks.0.attention.weights.{kind}"
    if kind == "xlsx":
        sheets = zipfile.ZipFile(io.BytesIO(content)).namelist()
        assert "xl/workbook.xml" in sheets
    elif kind == "json":
        names = [tensor["name"] for tensor in json.loads(content)["tensors"]]
        assert "encoder.blocks.0.attention.weights" in names and "logits" not in names
    else:
        assert "0.9926" in content.decode() or kind == "html"


def test_a_whole_trace_as_a_file(client: TestClient, toy: Json) -> None:
    name, content = export(client, toy, format="json")
    assert name == "toy.json"
    assert len(json.loads(content)["tensors"]) == len(toy["steps"])


def test_files_that_cannot_be(client: TestClient, toy: Json) -> None:
    address = f"/api/traces/{toy['id']}/export"
    assert client.post(address, json={"format": "docx"}).status_code == 422
    assert client.post(address, json={"format": "md", "steps": [999]}).status_code == 404


# --- a training run ---


class Recorded:
    """A run that was recorded."""

    def info(self, since: int) -> WatchInfo:
        rows: list[dict[str, Any]] = [{"step": n, "loss": 1 / (n + 1)} for n in range(4)]
        return WatchInfo(
            recipe="toy",
            state="running",
            metrics=rows[since:],
            next=4,
            total=100,
            snapshots=[0, 2],
            models=[],
            has_text=False,
            runs=["other"],
            layers=[],
        )

    def trace(self, update: int) -> OpenTrace:
        raise UnknownNameError("model", str(update), [])

    def other(self, name: str) -> RunCurves:
        if name != "other":
            raise UnknownNameError("run", name, ["other"])
        return RunCurves(name=name, recipe="toy", state="finished", total=None, metrics=[])

    def attention(self, update: int, layer: int) -> npt.NDArray[np.float32]:
        if update not in (0, 2):
            raise UnknownNameError("snapshot", str(update), ["0", "2"])
        return np.full((2, 3, 3), update + layer, np.float32)


@pytest.fixture
def watching(held: State) -> Iterator[None]:
    held.watched = Recorded()  # type: ignore[assignment]  # has its methods
    yield
    held.watched = None


@pytest.mark.usefixtures("watching")
def test_a_run_that_is_watched(client: TestClient) -> None:
    assert len(get(client, "/api/watch")["metrics"]) == 4
    told = get(client, "/api/watch", since=3)
    assert told["metrics"] == [{"step": 3, "loss": 0.25}] and told["next"] == 4
    answer = client.get("/api/watch/attention", params={"update": 2, "layer": 1})
    assert answer.headers["x-shape"] == "2,3,3"
    assert np.frombuffer(answer.content, "<f4").tolist() == [3.0] * 18
    assert client.get("/api/watch/attention", params={"update": 7}).status_code == 404
    assert get(client, "/api/watch/runs/other")["state"] == "finished"
    assert client.get("/api/watch/runs/..%2Fother").status_code == 404
    assert client.post("/api/watch/traces", json={"update": 7}).status_code == 404


def test_no_run_is_watched(client: TestClient) -> None:
    assert get(client, "/api/watch") is None
    answer = client.get("/api/watch/attention", params={"update": 0})
    assert answer.status_code == 404 and "--watch" in answer.json()["detail"]


# --- the course ---


def test_the_course_says_what_a_lesson_needs(client: TestClient) -> None:
    found = {one["name"]: one for one in get(client, "/api/lessons", language="zh")}
    classifier = found["classifier"]
    assert [one["name"] for one in classifier["needs"]] == list(LESSONS["classifier"].needs)
    assert classifier["minutes"] == LESSONS["classifier"].minutes
    assert classifier["able"] == LESSONS["classifier"].able.zh
    place = get(client, "/api/lessons/masked")["place"]
    assert place["text"].startswith("“Solving Transformer by Hand”, Fareed Khan")
    after = LESSONS["masked"].next
    assert after is not None and place["next"]["name"] == after.name


@pytest.mark.parametrize(
    ("format_", "file", "holds"),
    [
        ("slides", "masked-slides.html", "<!doctype html>"),
        ("worksheet", "masked-worksheet.html", "<!doctype html>"),
        ("html", "masked.html", "<!doctype html>"),
        ("tex", "masked.tex", r"\documentclass"),
        ("md", "masked.md", "# "),
        ("xlsx", "masked.xlsx", None),
    ],
)
def test_a_lesson_is_handed_out_in_every_format(
    client: TestClient, format_: str, file: str, holds: str | None
) -> None:
    wanted = {"format": format_, "language": "zh"}
    answer = client.get("/api/lessons/masked/export", params=wanted)
    assert answer.status_code == 200
    assert answer.headers["content-disposition"] == f'attachment; filename="{file}"'
    if holds is None:
        names = zipfile.ZipFile(io.BytesIO(answer.content)).namelist()
        assert "xl/workbook.xml" in names
    else:
        assert holds in answer.text and LESSONS["masked"].title.zh in answer.text


def test_a_lesson_is_handed_out_as_its_switches_stand(client: TestClient) -> None:
    plain, rotary = (
        client.get("/api/lessons/positions/export", params={"format": "md", "set": chosen}).text
        for chosen in ([], ["encoding=learned"])
    )
    assert plain != rotary
    assert client.get("/api/lessons/none/export").status_code == 404
    assert client.get("/api/lessons/masked/export?format=pdf").status_code == 422


@pytest.mark.parametrize("language", ["en", "zh"])
def test_answers_are_judged_as_the_lesson_judges_them(client: TestClient, language: Any) -> None:
    wanted = make_lesson("masked", language)
    for numbers in (["50", "122", "194"], ["14", "32", "50"], ["1"], ["1", "2", "x"]):
        asked = {"question": 1, "answers": numbers, "language": language}
        answer = client.post("/api/lessons/masked/answers", json=asked)
        judged = wanted.questions[0].check(numbers)
        assert answer.json() == {"is_right": judged.is_right, "said": judged.said}


@pytest.mark.parametrize(
    ("asked", "status", "says"),
    [
        ({"question": 9, "answers": ["1"]}, 400, "the lesson masked has no question 9"),
        ({"question": 0, "answers": ["1"]}, 422, "question"),
        ({"question": 1, "answers": ["1"] * 65}, 422, "answers"),
        ({"question": 1, "answers": ["1" * 41]}, 422, "characters"),
        ({"question": 1, "answers": [], "settings": ["mask=off"]}, 400, "has no switch 'mask'"),
    ],
)
def test_answers_are_bounded(
    client: TestClient, asked: dict[str, Any], status: int, says: str
) -> None:
    answer = client.post("/api/lessons/masked/answers", json=asked)
    assert answer.status_code == status and says in answer.json()["detail"]


def test_a_switch_that_a_lesson_lacks_is_refused(client: TestClient) -> None:
    answer = client.get("/api/lessons/masked", params={"set": ["encoding=rotary"]})
    assert answer.status_code == 400
    assert "the lesson masked has no switch 'encoding'" in answer.json()["detail"]
    answer = client.get("/api/lessons/masked", params={"set": ["x" * 81]})
    assert answer.status_code == 422
    assert (
        client.post("/api/lessons/none/answers", json={"question": 1, "answers": []}).json()["code"]
        == "unknown_lesson"
    )
