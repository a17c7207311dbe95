"""What if: an edit over the API gives what running the edited model gives."""

import json

import numpy as np
import pytest
import torch
from starlette.testclient import TestClient
from torch import Tensor, nn

from glassformer import load
from glassformer.explorer.api import create_api
from glassformer.explorer.cell_cards import cell_ref
from glassformer.explorer.open_traces import OpenTrace
from glassformer.explorer.security import Access, Guard
from glassformer.explorer.state import State
from glassformer.tracing import trace as trace_of
from tests.explorer.asking import Json, card, get, named, run, values

TEXT = "I am not happy"


def edit(client: TestClient, trace: Json, step: str, index: list[int], value: float | str) -> Json:
    asked = {"edits": [{"step": step, "index": index, "value": value}]}
    answer = client.post(f"/api/traces/{trace['id']}/edits", json=asked)
    assert answer.status_code == 201, answer.text
    found: Json = answer.json()
    return found


def changed(client: TestClient, trace: Json, number: int, **query: int | str) -> list[int]:
    answer = client.get(f"/api/traces/{trace['id']}/steps/{number}/changed", params=query)
    assert answer.status_code == 200, answer.text
    assert answer.headers["x-dtype"] == "uint8"
    return list(answer.content)


@pytest.fixture(scope="module")
def toy(client: TestClient) -> Json:
    return run(client, "toy", TEXT)


def test_an_edited_weight_gives_what_the_edited_model_gives(client: TestClient, toy: Json) -> None:
    name = "encoder.blocks.0.attention.to_keys.weight"
    edited = edit(client, toy, name, [0, 1], 0.0)
    model = load("toy", attention="written")
    with torch.no_grad():
        model.module.get_parameter(name)[0, 1] = 0.0
    reading = model.forward_pass(TEXT)
    wanted = model.module(*reading.arguments).softmax(-1)[0].tolist()
    assert edited["answer"]["text"] != toy["answer"]["text"]
    assert edited["before"] == toy["answer"]
    for choice in edited["answer"]["classes"]:
        place = choice["cell"]["index"][1]
        assert choice["probability"] == pytest.approx(wanted[place], abs=1e-6)
    assert load("toy").classify([TEXT])[0].label == toy["answer"]["text"]  # ours is untouched


def test_an_edit_works_out_no_labels_anew(client: TestClient, held: State, toy: Json) -> None:
    edited = edit(client, toy, "encoder.blocks.0.attention.weights", [0, 0, 3, 2], 0.0)
    with held.store.use(edited["id"]) as opened:
        assert "found_labels" not in vars(opened.trace)  # they take longer than the replay
        answer = next(iter(opened.trace.outputs.values()))
        for choice in edited["answer"]["classes"]:
            cell = answer[tuple(choice["cell"]["index"])]
            assert choice["cell"] == json.loads(cell_ref(cell).model_dump_json())


def test_undo_and_reset_lead_back(client: TestClient, toy: Json) -> None:
    once = edit(client, toy, "to_classes.weight", [0, 0], 3.0)
    twice = edit(client, once, "encoder.blocks.0.attention.weights", [0, 0, 3, 2], 0.0)
    assert (twice["parent"], twice["root"]) == (once["id"], toy["id"])
    weights = values(client, toy, named(toy, "encoder.blocks.0.attention.weights"), lead="0,0")
    assert [one["before"] for one in twice["edits"]] == [
        values(client, toy, named(toy, "to_classes.weight"))[0, 0],
        pytest.approx(float(weights[3, 2])),
    ]
    assert get(client, f"/api/traces/{twice['parent']}") == once
    assert get(client, f"/api/traces/{twice['root']}") == toy


def test_changes_name_what_differs_and_where(client: TestClient, toy: Json) -> None:
    name = "encoder.blocks.0.feed_forward.activated"
    edited = edit(client, toy, name, [0, 2, 1], 5.0)
    found = get(client, f"/api/traces/{edited['id']}/changes")["steps"]
    names = [edited["steps"][one["step"]]["name"] for one in found]
    assert names[0] == name and found[0]["changed"] == 1
    assert "logits" in names and "encoder.blocks.0.attention.scores" not in names
    for one in found:
        before = values(client, toy, one["step"]).astype(float)
        after = values(client, edited, one["step"]).astype(float)
        assert changed(client, edited, one["step"]) == list((before != after).astype(int).flat)
        assert one["changed"] == int((before != after).sum())
        assert one["largest"] == pytest.approx(np.abs(after - before).max())


def test_changed_cells_of_an_operand_and_of_a_window(client: TestClient, toy: Json) -> None:
    name = "encoder.blocks.0.attention.projected_keys"
    edited = edit(client, toy, name, [0, 2, 0], 7.0)
    scores = named(toy, "encoder.blocks.0.attention.scores")
    assert changed(client, edited, scores, operand=1) == [0, 0, 1, 0]
    assert changed(client, edited, scores, operand=1, columns="2:4") == [1, 0]
    assert changed(client, toy, scores) == [0] * 16  # nothing was edited here


def test_a_cell_that_was_set_says_so(client: TestClient, toy: Json) -> None:
    name = "encoder.blocks.0.attention.scores"
    edited = edit(client, toy, name, [0, 0, 1, 1], -2.5)
    told = card(client, edited, named(toy, name), 0, 0, 1, 1)
    assert told["is_edited"] and told["is_given"] and told["cell"]["value"] == -2.5
    assert told["before"] == 0.0
    assert told["cell"]["labels"] == [None, "head 0", "am", "am"]
    neighbour = card(client, edited, named(toy, name), 0, 0, 1, 2)
    assert not neighbour["is_edited"] and neighbour["before"] is None
    below = card(client, edited, named(toy, "encoder.blocks.0.attention.scaled"), 0, 0, 1, 1)
    assert not below["is_edited"] and below["before"] == 0.0


def test_another_token(client: TestClient, toy: Json) -> None:
    """The id of a word is a number like any other."""
    other = run(client, "toy", "I am not sad")
    sad = values(client, other, named(other, "ids"))[0, 3]
    edited = edit(client, toy, "ids", [0, 3], float(sad))
    for one, two in zip(edited["answer"]["classes"], other["answer"]["classes"], strict=True):
        assert one["text"] == two["text"]
        assert one["probability"] == pytest.approx(two["probability"], abs=1e-6)


def test_infinity_may_be_set_and_is_answered(client: TestClient, toy: Json) -> None:
    edited = edit(client, toy, "logits", [0, 0], "-Infinity")
    assert edited["answer"]["classes"][0]["probability"] == 1.0


@pytest.mark.parametrize("value", ["NaN", "Infinity"])
def test_logits_without_chances_name_no_class(client: TestClient, toy: Json, value: str) -> None:
    broken = edit(client, toy, "logits", [0, 1], value)
    assert broken["answer"]["text"] == "—" and broken["answer"]["classes"] == []


def test_a_model_that_writes_has_no_next_token_without_chances(client: TestClient) -> None:
    first = run(client, "shakespeare", "KING")
    last = len(first["answer"]["positions"]) - 1
    earlier, broken = (edit(client, first, "logits", [0, at, 0], "NaN") for at in (0, last))
    assert earlier["answer"]["text"] == first["answer"]["text"]
    assert broken["answer"]["text"] == "—"


def test_a_number_too_large_for_json_is_infinite(client: TestClient, toy: Json) -> None:
    answer = client.post(
        f"/api/traces/{toy['id']}/edits",
        content=b'{"edits": [{"step": "logits", "index": [0, 0], "value": -1e999}]}',
        headers={"Content-Type": "application/json"},
    )
    assert answer.status_code == 201, answer.text
    assert answer.json()["edits"][0]["value"] == "-Infinity"


def test_of_two_edits_of_a_cell_the_last_counts(client: TestClient, toy: Json) -> None:
    wanted = [{"step": "logits", "index": [0, 0], "value": value} for value in (3.0, 5.0)]
    answer = client.post(f"/api/traces/{toy['id']}/edits", json={"edits": wanted})
    (kept,) = answer.json()["edits"]
    assert kept["value"] == 5.0
    assert values(client, answer.json(), named(toy, "logits"))[0, 0] == 5.0


@pytest.mark.parametrize(
    ("step", "index", "value", "status", "says"),
    [
        ("scores", [0], 1.0, 404, "unknown step 'scores'"),
        ("logits", [0, 9], 1.0, 400, "has no cell"),
        ("ids", [0, 0], 0.5, 400, "holds whole numbers"),
        ("ids", [0, 0], "NaN", 400, "holds whole numbers"),
        ("ids", [0, 0], 999_999, 400, "cannot be computed from the edited numbers"),
        ("ids", [0, 0], 1e300, 400, "cannot hold 1e+300"),
    ],
)
def test_edits_that_cannot_be(
    client: TestClient, toy: Json, step: str, index: list[int], value: float, status: int, says: str
) -> None:
    asked = {"edits": [{"step": step, "index": index, "value": value}]}
    answer = client.post(f"/api/traces/{toy['id']}/edits", json=asked)
    assert answer.status_code == status and says in answer.json()["detail"], answer.text


def test_an_edit_that_changes_the_models_way_says_that_it_ran_anew() -> None:
    """What branches on a number cannot be replayed; the trace says so, and is described afresh."""

    class Branching(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            total = x.sum()
            if total > 0:
                return x * 2
            shifted = x - 1
            return shifted * 3

    state = State("toy")
    opened = state.store.keep(
        OpenTrace(trace_of(Branching(), torch.ones(1, 2)), "branching", "module")
    )
    with TestClient(Guard(create_api(state), Access()), base_url="http://localhost") as client:
        first = get(client, f"/api/traces/{opened.id}")
        same = edit(client, first, "x", [0, 0], 5.0)
        other = edit(client, first, "x", [0, 0], -5.0)
        again = edit(client, other, "x", [0, 1], -7.0)
    assert not first["reran"] and not same["reran"]
    assert other["reran"] and again["reran"]
    assert [step["name"] for step in same["steps"]] == [step["name"] for step in first["steps"]]
    assert "shifted" in [step["name"] for step in other["steps"]]
    assert "shifted" in [step["name"] for step in again["steps"]]
