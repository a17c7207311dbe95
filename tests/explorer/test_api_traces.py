"""Running models over the API: every number is the trace's, every answer the model's own."""

import base64
import gzip
import math
from typing import Any

import numpy as np
import pytest
from starlette.testclient import TestClient

from glassformer import load
from glassformer.decoding import Greedy
from glassformer.explorer.state import State
from tests.explorer.asking import Json, get, named, run, values


@pytest.fixture(scope="module")
def toy(client: TestClient) -> Json:
    return run(client, "toy", "I am not happy")


@pytest.fixture(scope="module")
def translated(client: TestClient) -> Json:
    return run(client, "en-de", "A dog runs.")


def test_the_start_page_has_a_card_for_every_shipped_model(client: TestClient) -> None:
    cards = {card["name"]: card for card in get(client, "/api/models")}
    assert list(cards) == ["en-de", "toy", "en-zh", "imdb", "shakespeare"]
    for name, card in cards.items():
        parameters = sum(p.numel() for p in load(name).module.parameters())
        assert card["n_parameters"] == parameters
        assert card["examples"] and card["title"]["zh"] and card["summary"]["zh"]
    assert cards["imdb"]["score"] == {"en": "accuracy 88.3%", "zh": "准确率 88.3%"}


def test_every_example_on_a_card_can_be_run(client: TestClient) -> None:
    for card in get(client, "/api/models"):
        for text in card["examples"]:
            trace = run(client, card["name"], text)
            assert trace["answer"]["text"] != ""
            assert client.delete(f"/api/traces/{trace['id']}").status_code == 204


def test_a_class_has_the_probability_that_the_task_gives(client: TestClient, toy: Json) -> None:
    said = load("toy").classify(["I am not happy"])[0]
    assert toy["answer"]["text"] == said.label == "sad"
    for choice in toy["answer"]["classes"]:
        assert choice["probability"] == pytest.approx(said.probabilities[choice["text"]], abs=1e-6)
        logit = toy["steps"][choice["cell"]["step"]]
        assert logit["name"] == "logits"


def test_a_translation_is_what_greedy_search_finds(client: TestClient, translated: Json) -> None:
    said = load("en-de").translate(["A dog runs."], search=Greedy())[0]
    answer = translated["answer"]
    assert answer["text"] == said.text
    for position in answer["positions"][:-1]:
        assert position["choices"][0]["text"] == position["chosen"]
    assert answer["positions"][-1]["choices"][0]["text"] == "<end>"
    total = sum(math.log(p["choices"][0]["probability"]) for p in answer["positions"])
    assert total == pytest.approx(said.alternatives[0].log_probability, abs=1e-4)


def test_a_given_target_is_scored_instead(client: TestClient) -> None:
    trace = run(client, "en-de", "A dog runs.", target="Ein Hund läuft.")
    chosen = [position["chosen"] for position in trace["answer"]["positions"]]
    assert "läuft" in "".join(token for token in chosen if token)
    assert trace["target"] == "Ein Hund läuft."


def test_a_language_model_says_what_comes_next_and_how_it_goes_on(client: TestClient) -> None:
    trace = run(client, "shakespeare", "ROMEO:")
    said = load("shakespeare").generate("ROMEO:", max_new=40, search=Greedy()).text
    assert trace["answer"]["continuation"] == said
    assert trace["answer"]["text"] == said[0]


def test_the_description_names_what_the_trace_has(
    client: TestClient, held: State, translated: Json
) -> None:
    with held.store.use(translated["id"]) as opened:
        trace = opened.trace
        assert [step["number"] for step in translated["steps"]] == list(range(len(opened.steps)))
        for told, step in zip(translated["steps"], opened.steps, strict=True):
            assert (told["name"], told["shape"]) == (step.name, list(step.shape))
            assert told["role"] == step.role and told["op"] == step.op
            labels = [None if p is None else translated["labels"][p] for p in told["labels"]]
            assert labels == [None if axis is None else list(axis) for axis in step.labels]
        assert translated["outputs"] == [trace["logits"].number]
        kinds = [(layer["part"], layer["layer"]) for layer in translated["attention"]]
        assert sorted(set(kinds)) == sorted(kinds)
        assert {part for part, _ in kinds} == {"encoder", "decoder", "cross"}


def test_readers_are_operands_turned_round(translated: Json) -> None:
    pairs = {
        (operand["step"], step["number"])
        for step in translated["steps"]
        for operand in step["operands"]
        if operand["step"] is not None
    }
    assert pairs == {(s["number"], r) for s in translated["steps"] for r in s["readers"]}


def test_the_tree_holds_every_step_once(translated: Json) -> None:
    def below(branch: Json) -> list[int]:
        found = [*branch["steps"], *branch["parameters"]]
        for inner in branch["branches"]:
            assert inner["path"].startswith(branch["path"])
            found += below(inner)
        return found

    found = below(translated["tree"])
    assert sorted(found) == [step["number"] for step in translated["steps"]]
    encoder = next(b for b in translated["tree"]["branches"] if b["name"] == "encoder")
    assert [b["name"] for b in encoder["branches"]][1:] == ["blocks.0", "blocks.1", "blocks.2"]
    attention = next(b for b in encoder["branches"][1]["branches"] if b["name"] == "attention")
    assert attention["kind"] == "MultiHeadAttention" and len(attention["parameters"]) == 8


def test_bookkeeping_is_not_what_a_reader_sees_first(translated: Json) -> None:
    told = {step["name"]: step["is_main"] for step in translated["steps"]}
    block = "decoder.blocks.0.attention."
    assert told[block + "scores"] and told[block + "weights"] and told["logits"]
    assert not told[block + "everything"]
    assert not told[block + "hidden"]
    assert not told["decoder.positions"]


def test_symbols_are_those_of_the_paper(translated: Json) -> None:
    symbols = {step["name"]: step["symbol"] for step in translated["steps"]}
    block = "encoder.blocks.0.attention."
    assert symbols[block + "to_queries.weight"] == "W_Q"
    assert symbols[block + "to_output.bias"] == "b_O"
    assert symbols[block + "projected_keys"] == "K"
    assert symbols[block + "scores"] == "S"
    assert symbols["encoder.embedding.scaled"] is None  # scaled, but no score


def test_values_are_the_traces_own(client: TestClient, held: State, translated: Json) -> None:
    with held.store.use(translated["id"]) as opened:
        for step in opened.steps:
            if 0 in step.shape:
                continue
            lead = tuple(size - 1 for size in step.shape[:-2])
            query = {"lead": ",".join(map(str, lead)), "columns": "0:40"}
            found = values(client, translated, step.number, **query)
            whole = np.atleast_2d(step.view.array[lead])[:, :40]
            np.testing.assert_array_equal(found, whole.astype(np.float64))


def test_values_of_an_operand_are_as_its_operator_saw_them(
    client: TestClient, held: State, translated: Json
) -> None:
    number = named(translated, "encoder.blocks.0.attention.scores")
    with held.store.use(translated["id"]) as opened:
        keys = opened.step(number).operands[1].value
        found = values(client, translated, number, lead="0,3", operand=1)
        np.testing.assert_array_equal(found, keys[0, 3].numpy())


def test_a_window_of_a_matrix(client: TestClient, translated: Json) -> None:
    number = named(translated, "encoder.embedding.weight")
    whole = values(client, translated, number)
    part = values(client, translated, number, rows="5990:7000", columns="3:5")
    np.testing.assert_array_equal(part, whole[5990:, 3:5])
    assert values(client, translated, number, rows="4:4").shape == (0, 192)


def test_thumbnails_are_means_on_the_colour_scale(client: TestClient, toy: Json) -> None:
    number = named(toy, "encoder.blocks.0.attention.weights")
    (picture,) = get(client, f"/api/traces/{toy['id']}/thumbnails", steps=str(number))
    shown = np.frombuffer(base64.b64decode(picture["data"]), np.uint8)
    weights = values(client, toy, number, lead="0,0").astype(np.float64)
    np.testing.assert_array_equal(shown.reshape(4, 4), np.rint(weights * 254))


def test_large_thumbnails_are_small(client: TestClient, translated: Json) -> None:
    numbers = ",".join(str(step["number"]) for step in translated["steps"][:100])
    for picture in get(client, f"/api/traces/{translated['id']}/thumbnails", steps=numbers):
        assert picture["rows"] <= 32 and picture["columns"] <= 32
        assert len(base64.b64decode(picture["data"])) == picture["rows"] * picture["columns"]


def test_a_description_travels_compressed_to_whom_can_read_it(
    client: TestClient, toy: Json
) -> None:
    address = f"/api/traces/{toy['id']}"
    with client.stream("GET", address, headers={"Accept-Encoding": "gzip"}) as packed:
        raw = b"".join(packed.iter_raw())
    plain = client.get(address, headers={"Accept-Encoding": "identity"})
    assert packed.headers["content-encoding"] == "gzip"
    assert gzip.decompress(raw) == plain.content
    assert len(raw) < len(plain.content) / 5


@pytest.mark.parametrize(
    ("asked", "status", "says"),
    [
        ({"model": "toy", "text": ""}, 422, "text: String should have at least 1 character"),
        ({"model": "toy", "text": "x" * 5000}, 422, "5000 characters, at most 4000 are read"),
        ({"model": "tyo", "text": "I"}, 404, "did you mean 'toy'"),
        ({"model": "../toy", "text": "I"}, 404, "unknown model"),
        ({"model": "toy", "text": "I am " * 20}, 400, "reads at most 16"),
        ({"model": "toy", "text": "I", "target": "x"}, 400, "only a translator takes one"),
        ({"model": "toy", "text": "I", "extra": 1}, 422, "Extra inputs are not permitted"),
    ],
)
def test_what_cannot_be_run_is_refused_in_one_line(
    client: TestClient, asked: dict[str, Any], status: int, says: str
) -> None:
    answer = client.post("/api/traces", json=asked)
    assert answer.status_code == status
    assert says in answer.json()["detail"] and "\n" not in answer.json()["detail"]


@pytest.mark.parametrize(
    ("address", "status", "says"),
    [
        ("steps/9999/equation", 404, "no step 9999"),
        ("steps/20/equation?lead=0", 400, "so give 2 positions within [1, 1]"),
        ("steps/20/equation?lead=0,1", 400, "no slice at [0, 1]"),
        ("steps/20/equation?lead=a", 400, "whole numbers separated by commas"),
        ("steps/20/values?operand=7", 400, "no operand 7"),
        ("steps/20/values?rows=3", 400, "a range such as 0:64"),
        ("steps/20/values?rows=3:1", 400, "ends before it begins"),
        ("cell?step=20&index=0,0,0,9", 400, "has no cell"),
        ("cell?step=20&index=-1,0,0,0", 400, "must not be negative"),
        ("cell?step=20&index=0,0,0,9&operand=0", 400, "has no cell"),
        ("cell?index=0", 422, "step: Field required"),
        ("thumbnails?steps=1,2,999", 404, "no step 999"),
    ],
)
def test_places_that_are_not_there(
    client: TestClient, toy: Json, address: str, status: int, says: str
) -> None:
    answer = client.get(f"/api/traces/{toy['id']}/{address}")
    assert answer.status_code == status, answer.text
    assert says in answer.json()["detail"]


def test_two_sessions_do_not_disturb_each_other(client: TestClient) -> None:
    one, other = run(client, "toy", "I am happy"), run(client, "toy", "I am sad")
    number = named(one, "logits")
    edits = [{"step": "logits", "index": [0, 0], "value": 9.0}]
    edited = client.post(f"/api/traces/{one['id']}/edits", json={"edits": edits}).json()
    assert edited["id"] not in (one["id"], other["id"])
    assert values(client, edited, number)[0, 0] == 9.0
    assert values(client, one, number)[0, 0] == -values(client, one, number)[0, 1]
    assert other["answer"]["text"] == get(client, f"/api/traces/{other['id']}")["answer"]["text"]


@pytest.mark.parametrize("path", ["", "/steps/1/equation", "/cell?step=1&index=0,0", "/changes"])
def test_an_id_that_is_not_open_is_gone(client: TestClient, path: str) -> None:
    """Also one from before the server was started anew: the page runs the text again on 410."""
    answer = client.get(f"/api/traces/from-another-life{path}")
    assert answer.status_code == 410
    assert answer.json()["detail"] == "this trace is not open (any more): run the text again"


def test_only_tokens_can_share_a_number(client: TestClient, toy: Json, translated: Json) -> None:
    assert toy["has_words"] and translated["has_words"]
    lesson = get(client, "/api/lessons/illustrated")
    traces = {part["trace"] for step in lesson["steps"] for part in step["parts"]} - {None}
    assert traces
    assert not any(get(client, f"/api/traces/{id_}")["has_words"] for id_ in traces)
