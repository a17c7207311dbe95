"""What the API says of a text that it cannot take, or of which the model knows little."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from starlette.testclient import TestClient

from glassformer.explorer.model_list import Models
from glassformer.explorer.open_traces import Store
from glassformer.explorer.state import State
from tests.explorer.asking import run


@pytest.mark.parametrize(
    ("text", "unknown", "total"),
    [("I am not happy", 0, 4), ("I am not 好", 1, 4), ("很好", 2, 2)],
)
def test_an_answer_tells_how_many_tokens_are_unknown(
    client: TestClient, text: str, unknown: int, total: int
) -> None:
    answer = client.post("/api/traces", json={"model": "toy", "text": text}).json()["answer"]
    assert (answer["n_unknown"], answer["n_tokens"]) == (unknown, total)


@pytest.mark.parametrize(
    ("wanted", "status", "code", "figures"),
    [
        (
            {"model": "toy", "text": "I am not happy " * 5},
            400,
            "too_long",
            {"tokens": 20, "most": 16},
        ),
        (
            {"model": "imdb", "text": "good " * 1_200},
            422,
            "too_many_characters",
            {"characters": 6_000, "most": 4_000},
        ),
        ({"model": "toy", "text": "!!!"}, 400, "empty", {}),
        ({"model": "nosuch", "text": "a"}, 404, "unknown_model", {"name": "nosuch"}),
    ],
)
def test_a_usual_refusal_has_a_code_and_its_figures(
    client: TestClient, wanted: dict[str, str], status: int, code: str, figures: dict[str, Any]
) -> None:
    answer = client.post("/api/traces", json=wanted)
    told = answer.json()
    assert (answer.status_code, told["code"], told["figures"]) == (status, code, figures)
    assert all(str(figure) in told["detail"] for figure in figures.values())


def test_half_a_pair_of_surrogates_is_refused_like_any_other_name(client: TestClient) -> None:
    """JSON can hold one, the answer's encoding cannot."""
    body, head = r'{"model": "a\ud800b", "text": "I am"}', {"Content-Type": "application/json"}
    answer = client.post("/api/traces", content=body, headers=head)
    assert (answer.status_code, answer.json()["figures"]) == (404, {"name": "a?b"})


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        torch.OutOfMemoryError("CUDA out of memory."),
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes."),
    ],
)
def test_out_of_memory_is_one_clear_line(
    client: TestClient, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def run_out(*_: object) -> None:
        raise error

    with monkeypatch.context() as patched:
        patched.setattr(Models, "run", run_out)
        answer = client.post("/api/traces", json={"model": "toy", "text": "happy"})
    assert answer.status_code == 507
    told = answer.json()
    assert told["detail"] == "there is not enough memory for this: take a shorter text"
    assert told["zh"] == "内存不够：请换一段短些的文本"
    assert run(client, "toy", "happy")["answer"]["text"] == "happy"


def test_a_playlist_outlives_the_traces_that_were_dropped_to_make_room(
    held: State, client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(held, "store", Store(most_traces=2))
    first = run(client, "toy", "I am not happy")
    edits = {"edits": [{"step": first["steps"][first["first"]]["name"], "index": [0, 0, 3, 2]}]}
    edited = client.post(f"/api/traces/{first['id']}/edits", json=edits).json()
    for text in ("you are happy", "we are sad", "I am sad"):
        run(client, "toy", text)
    assert client.get(f"/api/traces/{edited['id']}").status_code == 410
    wanted = {
        "views": [{"link": "#/trace/saved-0", "title": "one"}],
        "traces": [{"id": edited["id"], "places": [{"step": edited["first"]}]}],
    }
    answer = client.post("/api/playlist", json=wanted)
    assert answer.status_code == 200 and b"saved-0" in answer.content
    assert len(held.store) == 2  # what was made again is closed again
    wanted["traces"] = [{"id": "unknown"}]
    assert client.post("/api/playlist", json=wanted).status_code == 410


def test_a_long_playlist_in_chinese_is_taken(client: TestClient) -> None:
    note = {"en": "", "zh": "注" * 2_000}
    views = [{"link": "#/", "title": "一", "note": note} for _ in range(200)]
    answer = client.post("/api/playlist", json={"views": views, "language": "zh"})
    assert answer.status_code == 200
