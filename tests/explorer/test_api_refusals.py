"""What the API says of a text that it cannot take, or of which the model knows little."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.testclient import TestClient


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
