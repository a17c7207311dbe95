"""The page's experiments: the API answers what the library's own functions find."""

import numpy as np
import pytest
import torch
from starlette.testclient import TestClient

from glassformer.experiments import (
    ablate,
    compare,
    contributions,
    logit_lens,
    patch,
    sweep,
    words,
)
from glassformer.explorer.state import State
from glassformer.tracing import Trace
from tests.explorer.asking import Json, get, named, run, values

TEXT, OTHER = "I am not happy", "you are very sad"
ATTENTION = "encoder.blocks.0.attention"


@pytest.fixture(scope="module")
def toy(client: TestClient) -> Json:
    return run(client, "toy", TEXT)


@pytest.fixture(scope="module")
def german(client: TestClient) -> Json:
    return run(client, "en-de", "A dog runs.")


def trace_of(held: State, told: Json) -> Trace:
    with held.store.use(told["id"]) as opened:
        return opened.trace


def ask(client: TestClient, trace: Json, what: str, **asked: object) -> Json:
    answer = client.post(f"/api/traces/{trace['id']}/experiments/{what}", json=asked)
    assert answer.status_code == 200, answer.text
    found: Json = answer.json()
    return found


def edited(client: TestClient, trace: Json, *edits: Json) -> Json:
    answer = client.post(f"/api/traces/{trace['id']}/edits", json={"edits": edits})
    assert answer.status_code == 201, answer.text
    found: Json = answer.json()
    return found


# --- the answer alone ---


@pytest.mark.parametrize(
    ("model", "text"), [("toy", TEXT), ("en-de", "A dog."), ("shakespeare", "KING")]
)
def test_the_answer_alone_is_that_of_the_edited_trace(
    client: TestClient, held: State, model: str, text: str
) -> None:
    trace = run(client, model, text)
    step = next(one["name"] for one in trace["steps"] if one["short"] == "scores")
    edit = {"step": step, "index": [0, 0, 3, 0], "value": 7.5}
    n_open = len(held.store)
    said = ask(client, trace, "answer", edits=[edit])
    assert len(held.store) == n_open  # no trace was made of it
    assert said == edited(client, trace, edit)["answer"]
    assert said != trace["answer"]


# --- regions ---


def test_a_head_off_is_the_librarys_ablation(client: TestClient, held: State, german: Json) -> None:
    trace = trace_of(held, german)
    wanted = ablate(trace, "decoder.blocks.0.cross_attention", head=1)["logits"].value
    context = "decoder.blocks.0.cross_attention.context"
    told = edited(client, german, {"step": context, "index": [None, 1, None, None]})
    assert told["edits"][0] == {
        "step": context, "index": [None, 1, None, None], "value": 0.0, "to": "value",
        "text": None, "before": None,
    }  # fmt: skip
    assert np.array_equal(values(client, told, named(told, "logits")), wanted[0].numpy())


def test_a_module_off_is_what_it_adds_to_the_stream(
    client: TestClient, held: State, german: Json
) -> None:
    wanted = ablate(trace_of(held, german), "encoder.blocks.1")["logits"].value
    told = edited(client, german, {"step": "encoder.blocks.1", "index": []})
    assert np.array_equal(values(client, told, named(told, "logits")), wanted[0].numpy())


def test_a_row_from_the_other_run_is_the_librarys_patch(
    client: TestClient, held: State, toy: Json
) -> None:
    other = trace_of(held, run(client, "toy", OTHER))
    step = f"{ATTENTION}.projected_keys"
    wanted = patch(trace_of(held, toy), other, step, position=2)["logits"].value
    edit = {"step": step, "index": [None, 2, None], "to": "other", "text": OTHER}
    told = edited(client, toy, edit)
    assert told["edits"][0]["text"] == OTHER
    assert np.array_equal(values(client, told, named(told, "logits")), wanted.numpy())
    assert get(client, f"/api/traces/{told['parent']}")["edits"] == []  # undo leads back


@pytest.mark.parametrize("to", ["mean", "data"])
def test_a_mean_is_over_the_positions_of_this_run_or_of_the_examples(
    client: TestClient, held: State, toy: Json, to: str
) -> None:
    step, row = "encoder.blocks.0.feed_forward.activated", 1
    card = next(card for card in get(client, "/api/models") if card["name"] == "toy")
    texts = [TEXT] if to == "mean" else card["examples"]
    runs = [trace_of(held, run(client, "toy", text))[step].value[0] for text in texts]
    wanted = torch.cat(runs).double().mean(0).numpy()
    told = edited(client, toy, {"step": step, "index": [0, row, None], "to": to})
    found = values(client, told, named(told, step))
    assert found[row] == pytest.approx(wanted, abs=1e-6)
    before = values(client, toy, named(toy, step))
    assert np.array_equal(np.delete(found, row, 0), np.delete(before, row, 0))


@pytest.mark.parametrize(
    ("edit", "status", "says"),
    [
        ({"step": "logits", "index": [None, 9]}, 400, "has no part"),
        ({"step": "logits", "index": [None] * 3}, 400, "has no part"),
        ({"step": "encoder.blocks.7", "index": []}, 404, "unknown step or module"),
        ({"step": "logits", "index": [0, 0], "to": "other"}, 400, "need its text"),
        ({"step": "to_classes.weight", "index": [None, 0], "to": "mean"}, 400, "no axis of pos"),
        ({"step": "logits", "index": [None] * 17}, 422, "at most 16"),
        ({"step": "x" * 401, "index": []}, 422, "at most 400"),
        ({"step": "logits", "index": [0, 0], "to": "other", "text": "x" * 4001}, 422, "4001"),
    ],
)
def test_regions_that_cannot_be(
    client: TestClient, toy: Json, edit: Json, status: int, says: str
) -> None:
    for address in ("edits", "experiments/answer"):
        answer = client.post(f"/api/traces/{toy['id']}/{address}", json={"edits": [edit]})
        assert answer.status_code == status, answer.text
        if address == "edits":
            assert says in answer.json()["detail"]


def test_texts_of_other_lengths_are_patched_by_position_alone(
    client: TestClient, toy: Json
) -> None:
    step = f"{ATTENTION}.projected_keys"
    edit = {"step": step, "index": [None, None, None], "to": "other", "text": "I am sad"}
    answer = client.post(f"/api/traces/{toy['id']}/edits", json={"edits": [edit]})
    assert answer.status_code == 400
    told = answer.json()
    assert "patch one position" in told["detail"] and "只替换一个位置" in told["zh"]
    edited(client, toy, {**edit, "index": [None, 2, None]})


# --- in words ---


@pytest.mark.parametrize("method", ["leave one out", "gradient", "integrated", "rollout"])
def test_words_are_the_librarys(client: TestClient, held: State, toy: Json, method: str) -> None:
    logits = named(toy, "logits")
    found = ask(client, toy, "words", step=logits, index=[0, 0], method=method, language="zh")
    wanted = words(trace_of(held, toy)["logits"][0, 0], method, steps=20)  # type: ignore[arg-type]
    (said,) = found["inputs"]
    assert [one["token"] for one in said["words"]] == TEXT.split()
    assert [one["score"] for one in said["words"]] == pytest.approx(wanted.scores)
    assert found["whole"] == wanted.whole
    assert found["note"] == wanted.note("zh")


def test_words_of_a_translation_are_of_both_texts(client: TestClient, german: Json) -> None:
    best = german["answer"]["positions"][0]["choices"][0]["cell"]
    found = ask(client, german, "words", step=best["step"], index=best["index"], method="gradient")
    source, target = found["inputs"]
    assert [source["name"], target["name"]] == ["source", "target"]
    assert len(target["words"]) == len(german["answer"]["positions"])


def test_a_method_that_does_not_fit_is_refused_in_both_languages(
    client: TestClient, german: Json
) -> None:
    asked = {"step": named(german, "logits"), "index": [0, 0, 0], "method": "rollout"}
    answer = client.post(f"/api/traces/{german['id']}/experiments/words", json=asked)
    assert answer.status_code == 400
    assert "take another method" in answer.json()["detail"] and answer.json()["zh"]


def test_an_experiment_that_takes_too_long_is_refused(
    client: TestClient, toy: Json, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("glassformer.explorer.experiment_api.MOST_SECONDS", 0.0)
    asked = {"step": named(toy, "logits"), "index": [0, 0]}
    answer = client.post(f"/api/traces/{toy['id']}/experiments/words", json=asked)
    assert answer.status_code == 400 and "takes longer" in answer.json()["detail"]


# --- two runs ---


def test_two_runs_are_compared_as_the_library_does(
    client: TestClient, held: State, toy: Json
) -> None:
    found = ask(client, toy, "compare", text=OTHER)
    other = get(client, f"/api/traces/{found['other']}")
    wanted = compare(trace_of(held, toy), trace_of(held, other))
    assert found["answer"] == other["answer"]["text"]
    assert [one["name"] for one in found["steps"]] == [one.name for one in wanted.steps]
    assert [one["largest"] for one in found["steps"]] == [one.largest for one in wanted.steps]
    assert found["n_same"] == len(wanted.same)
    assert found["is_partial"] is False
    assert ask(client, toy, "compare", text=f"{OTHER} today")["is_partial"] is True
    for one in found["steps"]:
        gap = one["other"]["value"] - one["cell"]["value"]
        assert abs(gap) == pytest.approx(one["largest"])
    assert ask(client, toy, "compare", text=OTHER)["other"] == found["other"]  # it was kept


# --- sweeps, layers, parts ---


@pytest.mark.parametrize("over", ["head", "position"])
def test_a_sweep_is_the_librarys_layer_by_layer(
    client: TestClient, held: State, german: Json, over: str
) -> None:
    trace = trace_of(held, german)
    logits, index = named(german, "logits"), german["answer"]["positions"][0]["choices"][0]["cell"]
    cell = trace["logits"][tuple(index["index"])]
    wanted = sweep(trace, measure=cell, over=over)  # type: ignore[arg-type]
    asked = {"step": logits, "index": index["index"], "over": over}
    first = ask(client, german, "sweep", **asked)
    assert first["layers"] == list(wanted.layers)
    for row in (0, len(wanted.layers) - 1):
        found = ask(client, german, "sweep", **asked, layer=row)
        effects = [one["value"] for one in found["squares"]]
        expected = wanted.values[row][: len(effects)].numpy()
        assert effects == pytest.approx(expected, rel=1e-5, abs=1e-5)
        assert np.isnan(wanted.values[row][len(effects) :].numpy()).all()
    last = found["squares"][-1]
    told = edited(client, german, last["edit"])
    again = values(client, told, logits)[tuple(index["index"][1:])]
    assert again == pytest.approx(last["value"], rel=1e-5, abs=1e-5)  # the square opens


def test_a_sweep_of_patches(client: TestClient, held: State, toy: Json) -> None:
    other = trace_of(held, run(client, "toy", OTHER))
    cell = trace_of(held, toy)["logits"][0, 0]
    wanted = sweep(trace_of(held, toy), other, measure=cell)
    asked = {"step": named(toy, "logits"), "index": [0, 0], "over": "position", "to": "other"}
    found = ask(client, toy, "sweep", **asked, text=OTHER)
    assert [one["place"] for one in found["squares"]] == TEXT.split()
    assert [one["value"] for one in found["squares"]] == pytest.approx(wanted.values[0].numpy())
    for bad in ({}, {"text": OTHER, "layer": 1}, {"to": "mean"}):
        body = {**asked, **bad}
        answer = client.post(f"/api/traces/{toy['id']}/experiments/sweep", json=body)
        assert answer.status_code == 400 and answer.json()["zh"]


def test_the_lens_names_the_librarys_words(client: TestClient, held: State, german: Json) -> None:
    found = ask(client, german, "lens")
    wanted = logit_lens(trace_of(held, german))
    assert [layer["name"] for layer in found["layers"]] == list(wanted.layers)
    last = [word["text"] for word in found["layers"][-1]["words"]]
    chosen = [position["choices"][0] for position in german["answer"]["positions"]]
    assert last == [choice["text"] for choice in chosen]
    shares = [word["probability"] for word in found["layers"][-1]["words"]]
    assert shares == pytest.approx([choice["probability"] for choice in chosen], rel=1e-6)
    best = wanted.values[1].softmax(-1).max(-1).values[0].tolist()
    shares = [word["probability"] for word in found["layers"][1]["words"]]
    assert shares == pytest.approx(best, rel=1e-5)


def test_contributions_add_up_and_each_can_be_switched_off(
    client: TestClient, held: State, german: Json
) -> None:
    cell = german["answer"]["positions"][0]["choices"][0]["cell"]
    asked = {"step": cell["step"], "index": cell["index"], "heads": True}
    found = ask(client, german, "contributions", **asked)
    wanted = contributions(trace_of(held, german)["logits"][tuple(cell["index"])], heads=True)
    assert [part["name"] for part in found["parts"]] == list(wanted.parts)
    assert [part["value"] for part in found["parts"]] == pytest.approx(wanted.values)
    assert found["total"] == pytest.approx(found["cell"]["value"], rel=1e-4)
    head = next(part for part in found["parts"] if part["name"].endswith("head 1"))
    assert head["edit"]["index"] == [None, 1, None, None]
    edited(client, german, head["edit"])
    assert found["parts"][-1]["edit"] is None  # the biases


def test_a_sweep_of_patches_leaves_out_positions_that_the_other_text_lacks(
    client: TestClient, toy: Json
) -> None:
    asked = {"step": named(toy, "logits"), "index": [0, 0], "over": "position", "to": "other"}
    found = ask(client, toy, "sweep", **asked, text="I am sad")
    assert [one["place"] for one in found["squares"]] == TEXT.split()[:3]
