"""Steps as equations of matrices: which matrices, which slices, and that they hold."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from starlette.testclient import TestClient
from torch import Tensor

from glassformer.explorer.open_traces import OpenTrace
from glassformer.explorer.state import State
from glassformer.tracing import trace as trace_of
from tests.explorer.asking import Json, get, named, run, values

Floats = npt.NDArray[np.float64]


@pytest.fixture(scope="module")
def trace(client: TestClient) -> Json:
    return run(client, "en-de", "A dog runs.")


def equation(client: TestClient, trace: Json, name: str, lead: str = "") -> tuple[str, list[Any]]:
    number = named(trace, name)
    found = get(client, f"/api/traces/{trace['id']}/steps/{number}/equation", lead=lead)
    return found["tex"], found["parts"]


def matrix(client: TestClient, trace: Json, step: int, panel: Json) -> Floats:
    """The numbers of a panel as the page draws them."""
    query: dict[str, Any] = {"lead": ",".join(map(str, panel["lead"]))}
    if panel["operand"] is not None:
        query["operand"] = panel["operand"]
    found = values(client, trace, step, **query).astype(np.float64)
    return found.T if panel["transposed"] else found


@pytest.mark.parametrize("lead", ["0,0", "0,4"])
@pytest.mark.parametrize("name", ["scores", "context"])
def test_a_product_holds_for_the_slices_shown(
    client: TestClient, trace: Json, name: str, lead: str
) -> None:
    step = named(trace, f"decoder.blocks.1.cross_attention.{name}")
    _, (left, times, right, equals, made) = equation(
        client, trace, f"decoder.blocks.1.cross_attention.{name}", lead
    )
    assert (times, equals) == ("×", "=")
    product = matrix(client, trace, step, left) @ matrix(client, trace, step, right)
    np.testing.assert_allclose(product, matrix(client, trace, step, made), atol=1e-5)


def test_a_linear_layer_holds_and_is_written_as_in_the_paper(
    client: TestClient, trace: Json
) -> None:
    name = "encoder.blocks.0.attention.projected_queries"
    tex, (x, _, weight, _, bias, _, made) = equation(client, trace, name)
    assert tex == r"Q = N \, W_Q^\top + b_Q"
    step = named(trace, name)
    computed = matrix(client, trace, step, x) @ matrix(client, trace, step, weight)
    computed = computed + matrix(client, trace, step, bias)
    np.testing.assert_allclose(computed, matrix(client, trace, step, made), atol=1e-5)


def test_headers_are_the_tokens_on_both_sides(client: TestClient, trace: Json) -> None:
    _, (queries, _, keys, _, scores) = equation(
        client, trace, "decoder.blocks.0.cross_attention.scores"
    )
    source = next(n for n, texts in enumerate(trace["labels"]) if texts[0] == "A")
    target = next(n for n, texts in enumerate(trace["labels"]) if texts[0] == "<start>")
    assert (queries["rows"], queries["columns"]) == (target, None)
    assert (keys["rows"], keys["columns"]) == (None, source)
    assert (scores["rows"], scores["columns"]) == (target, source)
    assert keys["symbol"] == r"K^\top" and queries["symbol"] == "Q"


@pytest.mark.parametrize(
    ("name", "tex", "signs"),
    [
        (
            "encoder.blocks.0.attention.scaled",
            r"S_{\mathrm{scaled}} = S / 5.65685",
            ["÷ 5.65685", "="],
        ),
        (
            "encoder.blocks.0.attention.weights",
            r"A = \operatorname{softmax}(S_{\mathrm{masked}})",
            ["softmax(", ")", "="],
        ),
        (
            "encoder.blocks.0.attention_in",
            r"N = \operatorname{LayerNorm}(x, \gamma, \beta)",
            ["layer_norm(", ",", ",", ")", "="],
        ),
        (
            "encoder.embedding.looked_up",
            r"e = E[\mathrm{source}]",
            ["[", "]", "="],
        ),
        (
            "decoder.blocks.0.attention.masked",
            r"S_{\mathrm{masked}} = "
            r"\operatorname{fill}(S_{\mathrm{scaled}}, \mathrm{hidden}, -\infty)",
            ["−∞ ⟵", "="],
        ),
        (
            "encoder.blocks.0.attention_sum",
            r"x_{\mathrm{mid}} = x + O",
            ["+", "="],
        ),
        ("encoder.embedding.weight", "E", []),
    ],
)
def test_what_stands_between_the_matrices(
    client: TestClient, trace: Json, name: str, tex: str, signs: list[str]
) -> None:
    written, parts = equation(client, trace, name)
    assert written == tex
    assert [part for part in parts if isinstance(part, str)] == signs


def test_every_step_has_an_equation_whose_panels_can_be_fetched(
    client: TestClient, trace: Json
) -> None:
    for step in trace["steps"]:
        found = get(client, f"/api/traces/{trace['id']}/steps/{step['number']}/equation")
        panels = [part for part in found["parts"] if not isinstance(part, str)]
        assert panels[-1]["operand"] is None and panels[-1]["step"] == step["number"]
        for panel in panels:
            assert matrix(client, trace, step["number"], panel).ndim == 2


@pytest.mark.parametrize(
    ("compute", "tex", "signs"),
    [
        (lambda x, y: torch.add(x, y, alpha=2), r"x + 2 \cdot y", ["+ 2 ·", "="]),
        (lambda x, y: torch.sub(x, y, alpha=0.5), r"x - 0.5 \cdot y", ["− 0.5 ·", "="]),
        (
            lambda x, y: torch.cat([y.new_empty(0), x, y]),
            r"\operatorname{cat}(x, y)",
            ["cat(", ",", ")", "="],
        ),
        (lambda x, y: torch.cat([y.new_empty(0), x]), "x", ["="]),
        (lambda x, y: torch.add(x, 3, alpha=2), r"x + 2 \cdot 3", ["+ 2 · 3", "="]),
        (
            lambda x, y: torch.div(x, y, rounding_mode="floor"),
            r"\operatorname{floor}(x \oslash y)",
            ["floor(", "÷", ")", "="],
        ),
        (
            lambda x, y: torch.div(x, 3, rounding_mode="trunc"),
            r"\operatorname{trunc}(x / 3)",
            ["trunc(", "÷ 3", ")", "="],
        ),
        (lambda x, y: torch.sub(x, y), r"x - y", ["−", "="]),
    ],
)
def test_the_factor_and_the_rounding_of_an_operator_are_written(
    held: State,
    client: TestClient,
    compute: Callable[[Tensor, Tensor], Tensor],
    tex: str,
    signs: list[str],
) -> None:
    recorded = trace_of(compute, torch.full((2, 2), 7.0), torch.full((2, 2), 2.0))
    opened = held.store.add(OpenTrace(recorded, "arithmetic", "module"))
    step = next(iter(recorded.outputs.values()))
    number = next(place for place, one in enumerate(opened.steps) if one.name == step.name)
    found = get(client, f"/api/traces/{opened.id}/steps/{number}/equation")
    plain = found["tex"].partition(" = ")[2].replace(r"\mathrm{x}", "x").replace(r"\mathrm{y}", "y")
    assert plain == tex
    assert [part for part in found["parts"] if isinstance(part, str)] == signs


def test_an_operand_that_two_steps_wrote(held: State, client: TestClient) -> None:
    """Its corners are one step's; the cell beside the first was written by itself."""

    def function(x: Tensor) -> Tensor:
        y = x * 2
        y[0, 1] = 5
        return y + 1

    recorded = trace_of(function, torch.ones(3, 3))
    opened = held.store.add(OpenTrace(recorded, "mixed", "module"))
    for step in opened.steps:
        get(client, f"/api/traces/{opened.id}/steps/{step.number}/equation")


@pytest.mark.parametrize("batch_first", [True, False])
def test_keys_of_a_packed_projection_are_transposed_too(
    held: State, client: TestClient, batch_first: bool
) -> None:
    """A head reads a part of the features of a part of what one map made."""
    module = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=batch_first).eval()
    given = torch.randn((1, 4, 8) if batch_first else (4, 1, 8))
    opened = held.store.add(OpenTrace(trace_of(module, given), "layer", "module"))
    number = opened.trace["self_attn.scores"].number
    found = get(client, f"/api/traces/{opened.id}/steps/{number}/equation", lead="0,1")
    assert found["tex"] == r"S = Q \, K^\top"
    queries, keys = (part for part in found["parts"][:3] if isinstance(part, dict))
    assert (queries["symbol"], keys["symbol"]) == ("Q", r"K^\top")
    assert (queries["title"], keys["title"]) == ("queries", "keys")
