"""Cards over the API: every number on them is the trace's, every operand a link that holds."""

import math
import random

import numpy as np
import pytest
import torch
from starlette.testclient import TestClient
from torch import Tensor

from glassformer.explorer.open_traces import OpenTrace
from glassformer.explorer.state import State
from glassformer.tracing import Cell, Step
from glassformer.tracing import trace as trace_of
from tests.explorer.asking import Json, card, get, named, run, values

DIGITS = 1e-6


@pytest.fixture(scope="module")
def toy(client: TestClient) -> Json:
    return run(client, "toy", "I am not happy")


@pytest.fixture(scope="module")
def translated(client: TestClient) -> Json:
    return run(client, "en-zh", "I like to read books.")


def as_number(said: float | str) -> float:
    return float(said)


def some_cells(steps: list[Step], count: int) -> list[Cell]:
    chosen = random.Random(0)
    full = [step for step in steps if 0 not in step.shape]
    cells = [step[tuple(chosen.randrange(n) for n in step.shape)] for step in full]
    return chosen.sample(cells, min(count, len(cells)))


def test_every_number_on_a_card_is_the_traces(
    client: TestClient, held: State, translated: Json
) -> None:
    with held.store.use(translated["id"]) as opened:
        for cell in some_cells(opened.steps, 60):
            told = card(client, translated, cell.step.number, *cell.index)
            assert as_number(told["cell"]["value"]) == float(cell.value)
            assert as_number(told["recomputed"]) == cell.recomputed
            assert as_number(told["difference"]) == cell.difference
            assert told["n_operands"] == len(cell.operands)
            for link, operand in zip(told["operands"], cell.operands, strict=False):
                assert (link["step"], tuple(link["index"])) == (operand.step.number, operand.index)
                assert as_number(link["value"]) == float(operand.value)
            if cell.source is not None:
                assert told["source"]["line"] == cell.source.number
                assert told["source"]["text"] == cell.source.text
                assert not told["source"]["file"].startswith("/")


def test_the_sum_of_a_card_adds_up(client: TestClient, translated: Json) -> None:
    number = named(translated, "encoder.blocks.0.feed_forward.contracted")
    told = card(client, translated, number, 0, 1, 2)
    added = told["sum"]
    assert added["n_terms"] == 512 + 1 and len(added["shown"]) == 8
    shown = math.fsum(term["value"] for term in added["shown"])
    assert shown + added["rest"] == pytest.approx(told["recomputed"], abs=1e-12)
    assert added["positive"] + added["negative"] == pytest.approx(told["recomputed"], abs=1e-12)
    left, right = map(np.array, added["factors"])
    np.testing.assert_allclose(left * right, added["products"], rtol=1e-12)
    pages = [
        get(client, f"/api/traces/{translated['id']}/cell/terms", step=number, index="0,1,2",
            offset=offset, limit=200)
        for offset in (0, 200, 400, 600)
    ]  # fmt: skip
    terms = [term for page in pages for term in page["terms"]]
    assert len(terms) == pages[0]["total"] == 513
    assert math.fsum(t["value"] for t in terms) == pytest.approx(told["recomputed"], abs=1e-12)
    sizes = [abs(term["value"]) for term in terms]
    assert sizes == sorted(sizes, reverse=True)
    assert math.fsum(term["share"] for term in terms) == pytest.approx(1)


def test_terms_in_their_own_order(client: TestClient, toy: Json) -> None:
    number = named(toy, "logits")
    page = get(
        client, f"/api/traces/{toy['id']}/cell/terms", step=number, index="0,1", order="index"
    )
    weights = values(client, toy, named(toy, "to_classes.weight"))[1]
    pooled = values(client, toy, named(toy, "pooled"))[0]
    found = [term["value"] for term in page["terms"]]
    np.testing.assert_allclose(found, weights.astype(float) * pooled.astype(float), rtol=DIGITS)


def test_an_operand_is_found_where_its_operator_saw_it(
    client: TestClient, held: State, translated: Json
) -> None:
    """Place (…, e, k) of the turned keys is (k, e) of what the projection wrote."""
    scores = named(translated, "encoder.blocks.0.attention.scores")
    told = card(client, translated, scores, 0, 2, 5, 3, operand=1)
    with held.store.use(translated["id"]) as opened:
        seen = opened.step(scores).operands[1].value
        assert told["cell"]["value"] == float(seen[0, 2, 5, 3])
    assert told["cell"]["step"] == named(translated, "encoder.blocks.0.attention.projected_keys")
    assert told["cell"]["labels"][1] == translated["labels"][0][3]


def test_a_card_of_a_view_is_that_of_the_cell_it_shows(client: TestClient, toy: Json) -> None:
    view = named(toy, "encoder.blocks.0.attention.values")
    told = card(client, toy, view, 0, 0, 2, 0)
    assert told["cell"]["name"] == "V[2]"


def test_every_cell_on_the_way_to_a_token_can_be_opened(client: TestClient, toy: Json) -> None:
    """By operands alone, from an output to a token: what a reader does with clicks."""
    told = card(client, toy, named(toy, "logits"), 0, 0)
    seen = set()
    while told["operands"]:
        assert told["cell"]["name"] not in seen
        seen.add(told["cell"]["name"])
        ways = [link for link in told["operands"] if link["role"] != "parameter"]
        follow = (ways or told["operands"])[0]
        told = card(client, toy, follow["step"], *follow["index"])
    assert told["cell"]["role"] == "input" and told["is_given"]


def test_regions_outline_exactly_the_operands(
    client: TestClient, held: State, translated: Json
) -> None:
    """A block for each place that the arithmetic reads, and no other."""
    with held.store.use(translated["id"]) as opened:
        for cell in some_cells([s for s in opened.steps if s.call is not None], 50):
            told = card(client, translated, cell.step.number, *cell.index)
            outlined = set()
            for region in told["regions"]:
                (top, bottom), (left, right) = region["rows"], region["columns"]
                view = cell.step.operands[region["operand"]].view
                for row in range(top, bottom + 1):
                    for column in range(left, right + 1):
                        place = (*region["lead"], row, column)[-len(view.shape) or 2 :]
                        outlined.add(Cell(*view.owner(place if view.shape else ())))
            assert outlined == set(cell.operands), cell.name


def test_dependents_are_what_an_edit_would_change(client: TestClient, toy: Json) -> None:
    number = named(toy, "encoder.blocks.0.attention.projected_keys")
    found = get(client, f"/api/traces/{toy['id']}/cell/dependents", step=number, index="0,2,0")
    (scores,) = found
    assert scores["step"] == named(toy, "encoder.blocks.0.attention.scores")
    assert scores["count"] == 4  # one column: every query against this key
    (region,) = scores["regions"]
    assert region["rows"] == [0, 3] and region["columns"] == [2, 2] and region["lead"] == [0, 0]
    assert [link["index"] for link in scores["cells"]] == [[0, 0, row, 2] for row in range(4)]


def test_a_path_leads_back_to_a_token(client: TestClient, toy: Json) -> None:
    path = get(client, f"/api/traces/{toy['id']}/cell/path", step=named(toy, "logits"), index="0,0")
    assert path[0]["name"] == "z[0]"
    assert path[-1]["role"] == "input"
    assert [link for link in path if link["name"].startswith("A[")]


def test_what_json_cannot_say_is_said_in_words(client: TestClient, translated: Json) -> None:
    number = named(translated, "decoder.blocks.0.attention.masked")
    told = card(client, translated, number, 0, 0, 0, 3)
    assert told["cell"]["value"] == "-Infinity" and told["exact"] == "-∞"
    shown = values(client, translated, number, lead="0,0")
    assert shown[0, 3] == -np.inf


def test_formulas_are_written_in_the_papers_symbols(client: TestClient, translated: Json) -> None:
    number = named(translated, "encoder.blocks.0.attention.scores")
    told = card(client, translated, number, 0, 0, 1, 2)
    assert told["tex"] == r"S_{0,1,2} = \sum_{k} Q_{1,k} \cdot K_{2,k}"


def test_the_pieces_of_the_arithmetic_are_its_text(client: TestClient, translated: Json) -> None:
    number = named(translated, "encoder.blocks.0.attention.weights")
    told = card(client, translated, number, 0, 1, 1, 2)
    assert "".join(piece["text"] for piece in told["pieces"]) == told["numbers"]
    assert any(piece["cell"] for piece in told["pieces"])


def test_a_comparison_stands_in_brackets_on_its_card(held: State, client: TestClient) -> None:
    opened = held.store.add(OpenTrace(trace_of(lambda x: x == 2, torch.ones(2)), "two", "module"))
    told = card(client, {"id": opened.id}, opened.steps[-1].number, 1)
    assert (told["formula"], told["numbers"]) == ("(x[1] = 2)", "(1 = 2)")
    assert "".join(piece["text"] for piece in told["pieces"]) == told["numbers"]


def test_complex_numbers_are_pairs_with_cards_of_their_own(held: State, client: TestClient) -> None:
    recorded = trace_of(lambda x: torch.fft.fft(x).abs() * 2, torch.ones(2, 2))
    opened = held.store.add(OpenTrace(recorded, "waves", "module"))
    _, spectrum, size, doubled = opened.steps
    told = {"id": opened.id}
    assert values(client, told, spectrum.number, lead="0").tolist() == [[2, 0], [0, 0]]
    assert card(client, told, spectrum.number, 0, 0, 0)["cell"]["value"] == 2
    assert card(client, told, size.number, 0, 0)["cell"]["value"] == 2
    asked = {"edits": [{"step": spectrum.name, "index": [0, 0, 1], "value": 1.5}]}
    answer = client.post(f"/api/traces/{opened.id}/edits", json=asked)
    assert answer.status_code == 201, answer.text
    assert card(client, answer.json(), doubled.number, 0, 0)["cell"]["value"] == 5


def test_memory_that_was_never_written_is_not_shown_as_a_number(
    held: State, client: TestClient
) -> None:
    def filled_in_part(x: Tensor) -> Tensor:
        memory = torch.empty_like(x)
        memory[0] = x[0]
        return memory

    recorded = trace_of(filled_in_part, torch.ones(2, 2))
    opened = held.store.add(OpenTrace(recorded, "memory", "module"))
    told = client.get(f"/api/traces/{opened.id}").json()
    empty, copied = (
        next(s for s in told["steps"] if s["op"] == op) for op in ("empty_like", "copy")
    )
    assert (empty["is_unwritten"], copied["is_unwritten"]) == (True, False)
    unwritten = card(client, told, empty["number"], 1, 1)
    assert (unwritten["is_unwritten"], unwritten["exact"]) == (True, "∅")
    written = card(client, told, copied["number"], 1)
    assert (written["is_unwritten"], written["exact"]) == (False, "1")
    steps = f"/api/traces/{opened.id}/steps"
    assert client.get(f"{steps}/{empty['number']}/values").headers["x-unwritten"] == "1"
    mask = client.get(f"{steps}/{empty['number']}/unwritten")
    assert (mask.headers["x-shape"], mask.headers["x-dtype"]) == ("2,2", "uint8")
    assert list(mask.content) == [1, 1, 1, 1]
    output = told["outputs"][0]
    assert list(client.get(f"{steps}/{output}/unwritten").content) == [0, 0, 1, 1]
    part = client.get(f"{steps}/{output}/unwritten", params={"rows": "1:2", "columns": "0:1"})
    assert list(part.content) == [1]
    given = told["inputs"][0]
    assert "x-unwritten" not in client.get(f"{steps}/{given}/values").headers
    assert not any(client.get(f"{steps}/{given}/unwritten").content)
