"""A cell: value, formula, operands and terms, checked against arithmetic done by hand."""

import json
import math
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

import glassformer
from glassformer.errors import TraceError, UnknownNameError
from glassformer.tracing import Trace, trace
from glassformer.tracing.arithmetic.expressions import ReduceKind
from glassformer.tracing.arithmetic.float64_values import largest_terms


def products(q: Tensor, k: Tensor) -> Tensor:
    scores = q @ k.mT
    return scores


@pytest.fixture
def by_hand() -> Trace:
    """The example of the articles: one query against two keys of width 3."""
    return trace(products, torch.tensor([[1.0, 0.0, 2.0]]), torch.tensor([[1.0, 1, 1], [0, 1, 1]]))


def test_a_dot_product_of_three_is_written_out(by_hand: Trace) -> None:
    cell = by_hand["scores"][0, 1]
    assert cell.name == "scores[0, 1]"
    assert cell.value == 2
    assert cell.role == "activation"
    assert cell.formula == "Σₖ q[k]·k[1, k]"
    assert cell.numbers == "1 × 0 + 0 × 1 + 2 × 1"
    assert [operand.name for operand in cell.operands] == [
        *("q[0, 0]", "q[0, 1]", "q[0, 2]"),
        *("k[1, 0]", "k[1, 1]", "k[1, 2]"),
    ]
    assert [operand.role for operand in cell.operands] == ["input"] * 6
    assert [term.value for term in cell.terms] == [0, 0, 2]
    assert [c.name for c in cell.terms[2].cells] == ["q[0, 2]", "k[1, 2]"]
    assert cell.recomputed == 2
    assert cell.difference == 0
    assert cell.source is not None
    assert cell.source.text == "scores = q @ k.mT"


def test_the_explanation_of_three(by_hand: Trace) -> None:
    line = by_hand["scores"].line
    assert line is not None
    assert by_hand["scores"][0, 1].explain().splitlines() == [
        "scores[0, 1] = 2  (matmul)",
        "  = Σₖ q[k]·k[1, k]",
        "  = 1 × 0 + 0 × 1 + 2 × 1",
        "  = 0 + 0 + 2 = 2",
        "  float64: 2, relative difference 0.0e+00",
        f"  {Path(__file__).name}:{line.number}: scores = q @ k.mT",
    ]


@pytest.mark.parametrize("length", [64, 512])
def test_a_long_dot_product_shows_its_largest_terms(length: int) -> None:
    q = torch.full((1, length), 0.01)
    q[0, 3], q[0, 9] = -5, 4
    cell = trace(products, q, torch.ones(1, length))["scores"][0, 0]
    assert cell.numbers.startswith("0.01 × 1 + ")
    assert "(-5) × 1" in cell.numbers
    assert "4 × 1" in cell.numbers
    rest = (length - 8) * 0.01
    assert cell.numbers.endswith(f"({length - 8} more: {rest:.4g})")
    assert len(cell.terms) == length
    assert math.isclose(sum(term.value for term in cell.terms), cell.recomputed)
    assert "positive and negative terms" in cell.explain()


def test_operands_are_found_behind_views() -> None:
    def function(x: Tensor) -> Tensor:
        y = x * 2
        heads = y.view(2, 2, 2).transpose(0, 1)
        scores = heads @ heads.mT
        return scores

    traced = trace(function, torch.arange(8.0).reshape(2, 4))
    cell = traced["scores"][1, 0, 1]
    assert cell.formula == "Σₖ y[0, 2+k]·y[1, 2+k]"
    assert cell.operands[0] == traced["y"][0, 2]
    assert traced["y"][0, 2].operands == (traced["x"][0, 2],)


def test_softmax_and_layer_norm_are_spelt_out() -> None:
    def function(x: Tensor) -> tuple[Tensor, Tensor]:
        weights = x.softmax(-1)
        normed = F.layer_norm(x, (2,))
        return weights, normed

    traced = trace(function, torch.tensor([1.0, 3.0]))
    weight, normed = traced["weights"][0], traced["normed"][0]
    assert weight.formula == "exp(x[0] − m) / Z"
    assert weight.numbers == "exp(1 − 3) / 1.135"
    assert weight.definitions["m"][:2] == ("maxⱼ(x[j])", "max(1, 3)")
    assert weight.definitions["Z"][1] == "exp(1 − 3) + exp(3 − 3)"
    assert normed.formula == "(x[0] − μ) / √(σ² + 1e-05)"
    assert normed.definitions["μ"][:2] == ("(Σₖ x[k]) / 2", "(1 + 3) / 2")
    assert normed.definitions["σ²"][0] == "(Σₖ (x[k] − μ)^2) / 2"
    assert normed.definitions["σ²"][1] == "((1 − 2)^2 + (3 − 2)^2) / 2"
    assert [normed.definitions[symbol][2] for symbol in ("μ", "σ²")] == [2, 1]


def test_an_embedding_shows_the_token_that_chose_its_row() -> None:
    traced = trace(nn.Embedding(5, 2), torch.tensor([4, 1]))
    cell = traced.outputs["output"][0, 1]
    assert cell.formula == "E[input[0], 1]"
    assert [operand.name for operand in cell.operands] == ["weight[4, 1]", "input[0]"]
    assert cell.path()[-1] == traced["input"][0]


def test_a_choice_shows_the_chosen_side_and_why() -> None:
    def function(x: Tensor, mask: Tensor) -> Tensor:
        masked = x.masked_fill(mask, -math.inf)
        return masked

    traced = trace(function, torch.tensor([1.0, 2.0]), torch.tensor([True, False]))
    assert traced["masked"][0].formula == "if mask[0]: -∞, else x[0]"
    assert traced["masked"][0].numbers == "-∞"
    assert [operand.name for operand in traced["masked"][0].operands] == ["mask[0]"]
    assert [operand.name for operand in traced["masked"][1].operands] == ["mask[1]", "x[1]"]


def test_a_leading_index_of_size_one_may_be_left_out() -> None:
    traced = trace(lambda x: x + 1, torch.zeros(1, 1, 2, 3))
    step = traced.outputs["output"]
    assert step[1, 2] == step[0, 0, 1, 2] == step[0, 1, 2] == step[-1, -1]
    with pytest.raises(TraceError, match=r"no cell \[1\]: its shape is \(1, 1, 2, 3\)"):
        _ = step[1]


def test_the_depth_of_an_explanation() -> None:
    traced = trace(lambda x: (x * 2).sum(), torch.tensor([1.0, 2.0]))
    cell = traced.outputs["output"][()]
    assert "x[0]" not in cell.explain(1)
    deep = cell.explain(3).splitlines()
    assert "    mul[0] = 2  (mul)" in deep
    assert "        x[0] = 1  (input)" in deep


def test_a_cell_as_data_is_json() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Softmax(-1))
    cell = trace(model, torch.tensor([[1.0, 2.0]])).outputs["output"][0, 1]
    data: dict[str, Any] = json.loads(json.dumps(cell.to_dict(depth=3)))
    assert data["value"] == cell.value
    assert data["formula"] == cell.formula
    assert data["expression"]["kind"] == "operation"
    assert [operand["cell"] for operand in data["operands"]] == [c.name for c in cell.operands]
    row = data["operands"][0]
    assert row["op"] == "linear"
    assert {operand["role"] for operand in row["operands"]} == {"input", "parameter"}
    assert row["terms"][0]["cells"] == ["input[0, 0]", "0.weight[1, 0]"]


def test_data_lists_the_largest_terms_and_sums_up_the_others() -> None:
    torch.manual_seed(0)
    cell = trace(lambda x: x.sum(), torch.randn(5000)).outputs["output"][()]
    data = cell.to_dict()
    listed, others = [term["value"] for term in data["terms"]], data["others"]
    assert not data["complete"]
    assert len(listed) == len(data["operands"]) == 4096
    assert others["count"] == 5000 - 4096
    assert min(map(abs, listed)) >= np.sort(np.abs(cell.terms.values))[-4096]
    assert sum(listed) + others["value"] == pytest.approx(cell.recomputed, rel=1e-12)
    assert [term["cells"] for term in data["terms"]] == [[o["cell"]] for o in data["operands"]]


def test_data_lists_everything_when_asked() -> None:
    cell = trace(lambda x: x.softmax(-1), torch.randn(9000)).outputs["output"][3]
    assert not cell.to_dict()["complete"]
    assert len(cell.to_dict(terms=100)["operands"]) == 201
    data = cell.to_dict(terms=None)
    assert data["complete"]
    assert "others" not in data
    assert {operand["cell"] for operand in data["operands"]} == {f"x[{n}]" for n in range(9000)}


@given(
    values=st.lists(st.integers(-40, 40), min_size=1, max_size=400),
    repeats=st.integers(1, 8),
    most=st.integers(1, 9),
    kind=st.sampled_from(["sum", "max", "argmin"]),
)
def test_the_largest_terms_are_those_of_a_whole_sort(
    values: list[int], repeats: int, most: int, kind: ReduceKind
) -> None:
    numbers = np.array(values * repeats, dtype=np.float64)
    weights = {"sum": np.abs(numbers), "max": numbers, "argmin": -numbers}[kind]
    count = most + 1 if len(numbers) == most + 1 else most  # a single one is not left out
    wanted = sorted(np.argsort(-weights, kind="stable")[:count].tolist())
    assert largest_terms(numbers, most, kind) == wanted


def test_an_index_that_sends_a_value_is_among_the_operands() -> None:
    def function(x: Tensor, rows: Tensor, columns: Tensor, new: Tensor) -> Tensor:
        sent = x.scatter_add(0, columns[None], new[None])
        put = sent.index_put((rows, columns), new)
        return put

    given = [torch.tensor([0, -1]), torch.tensor([1, 1]), torch.tensor([7.0, 8.0])]
    traced = trace(function, torch.zeros(3, 2), *given)
    names = [operand.name for operand in traced["put"][2, 1].operands]
    assert names == ["rows[1]", "columns[1]", "new[1]"]
    assert "rows[1] = -1 and columns[1] = 1" in traced["put"][2, 1].formula
    assert [o.name for o in traced["put"][1, 0].operands] == ["sent[1, 0]"]
    names = [operand.name for operand in traced["sent"][1, 0].operands]
    assert names == ["x[1, 0]", "columns[0]", "new[0]"]


X = torch.arange(24.0).reshape(2, 3, 4)


@pytest.mark.parametrize(
    ("function", "index", "formula"),
    [
        (lambda x: x.flatten(1).sum(1), (1,), "Σₖ x[1, k÷4, k mod 4]"),
        (lambda x: x.flatten().sum(), (), "Σₖ x[k÷12, k÷4 mod 3, k mod 4]"),
        (lambda x: x[0].flatten()[4:].sum(), (), "Σₖ x[0, 1+k÷4, k mod 4]"),
        (lambda x: x[:, :, 0].flatten().sum(), (), "Σₖ x[k÷3, k mod 3, 0]"),
        (lambda x: x.view(2, 3, 2, 2).sum((2, 3)), (1, 2), "Σₖₗ x[1, 2, 2k+l]"),
        (lambda x: x[1].unfold(1, 2, 2).sum((1, 2)), (1,), "Σₖₗ x[1, 1, 2k+l]"),
        (lambda x: x.flip(0).sum(), (), "Σₖₗₘ flip[k, l, m]"),
        (lambda x: x.view(3, 8).sum(), (), "Σₖₗ view(x)[k, l]"),
        (lambda x: x.sum((0, 2)), (1,), "Σₖₗ x[k, 1, l]"),
    ],
)
def test_a_row_is_written_along_the_axes_of_the_step_that_wrote_it(
    function: Callable[[Tensor], Tensor], index: tuple[int, ...], formula: str
) -> None:
    def named(x: Tensor) -> Tensor:
        return function(x)

    assert trace(named, X).steps[-1][index].formula == formula


def test_a_transposed_convolution_runs_down_the_kernel() -> None:
    traced = trace(F.conv_transpose1d, torch.ones(1, 2, 4), torch.arange(6.0).reshape(2, 1, 3))
    cell = traced.outputs["output"][0, 0, 3]
    assert cell.formula == "Σₛₖ input0[s, 1+k]·input1[s, 2−k]"
    assert [term.value for term in cell.terms] == [2, 1, 0, 5, 4, 3]


def test_labels_follow_the_tokens_to_every_step() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Embedding(9, 4)

        def forward(self, ids: Tensor) -> Tensor:
            x = self.table(ids)
            heads = x.view(1, 3, 2, 2).transpose(1, 2)
            scores = heads @ heads.mT
            weights = scores.softmax(-1)
            context = (weights @ heads).transpose(1, 2).reshape(1, 3, 4)
            return torch.mean(context, -1)

    words = ["I", "am", "student"]
    traced = trace(Model(), torch.tensor([[1, 2, 3]]), axis_labels={"ids": words})
    text, heads = tuple(words), ("head 0", "head 1")
    assert traced["ids"].labels == (None, text)
    assert traced["x"].labels == (None, text, None)
    assert traced["heads"].labels == (None, None, text, None)
    assert traced["weights"].labels == (None, heads, text, text)
    assert traced["context"].labels == (None, heads, text, None)
    assert traced.outputs["output"].labels == (None, text)


def test_a_single_head_keeps_its_label_when_its_scores_are_scaled_and_masked() -> None:
    traced = glassformer.load("toy").trace("I am not happy")
    stages = ("scores", "scaled", "masked", "weights")
    labels = [traced[f"encoder.blocks.0.attention.{name}"].labels[1] for name in stages]
    assert labels == [("head 0",)] * 4


@pytest.mark.parametrize(
    "moved",
    [
        lambda x: x.flip(0),
        lambda x: torch.cat([x[:2], x[:1]]),
        lambda x: x[torch.tensor([0, 2, 1])],
    ],
)
def test_rows_in_another_order_do_not_keep_their_labels(
    moved: Callable[[Tensor], Tensor],
) -> None:
    traced = trace(
        lambda x: moved(x) + 0, torch.randn(3, 2), axis_labels={"x": ["I", "am", "here"]}
    )
    assert traced["x"].labels[0] == ("I", "am", "here")
    assert all(step.labels == (None, None) for step in traced.steps if step.role == "activation")


def test_labels_that_fit_no_axis_are_refused() -> None:
    with pytest.raises(UnknownNameError, match="unknown input or output 'x'"):
        trace(torch.exp, torch.ones(2), axis_labels={"x": ["a", "b"]})
    with pytest.raises(TraceError, match=r"3 labels were given for input x, .*\(2,\)"):
        trace(lambda x: x + 1, torch.ones(2), axis_labels={"x": ["a", "b", "c"]})
    with pytest.raises(TraceError, match=r"1 labels were given for input x, .*\(1, 2\)"):
        trace(lambda x: x + 1, torch.ones(1, 2), axis_labels={"x": ["a"]})
    for wrong in (5, ["a", "b"], {"x": 5}, {"x": [1, 2]}, {0: ["a", "b"]}):
        with pytest.raises(TraceError, match="axis_labels takes texts by the names of inputs"):
            trace(lambda x: x + 1, torch.ones(2), axis_labels=wrong)  # type: ignore[arg-type]


def test_invalid_names_and_indices_are_reported() -> None:
    traced = trace(nn.Linear(3, 2), torch.ones(1, 3))
    with pytest.raises(TraceError, match=r"asked for by its name, got 5; .* t.steps\[0\]"):
        traced[5]  # type: ignore[index]  # that is the point
    with pytest.raises(TraceError, match="max_bytes must be a number of bytes, got 'all'"):
        trace(nn.Linear(3, 2), torch.ones(1, 3), max_bytes="all")  # type: ignore[arg-type]
    for wrong in (slice(None), (0, slice(1), 0), 0.5, None, True, [None], (0, None)):
        with pytest.raises(TraceError, match=r"weight has no part .* shape is \(2, 3\); give"):
            traced["weight"][wrong]
    with pytest.raises(UnknownNameError, match="unknown label 'a'; there are none"):
        traced["weight"]["a"]
    assert traced["weight"][torch.tensor(1), np.int64(2)] == traced["weight"][1, 2]


def test_precisions_side_by_side() -> None:
    x = torch.tensor([[0.126, 1.0049]])
    cell = trace(products, x, torch.tensor([[3.0, 2.0]]))["scores"][0, 0]
    shown = cell.at_precisions(decimals=2)
    assert shown.stored == cell.value
    assert math.isclose(shown.float64, 0.126 * 3 + 1.0049 * 2, rel_tol=1e-6)
    assert shown.rounded == 0.13 * 3 + 1.0 * 2
    exact = [float(v) for v in x.bfloat16().float()[0]]
    assert shown.bfloat16 == torch.tensor(exact[0] * 3 + exact[1] * 2).bfloat16()
    assert "2 decimals 2.39" in str(shown)


def test_operands_of_a_step_by_argument_name() -> None:
    traced = trace(nn.Linear(3, 2), torch.ones(1, 3))
    operands = {o.argument: o for o in traced.outputs["output"].operands}
    assert {name: o.step.name for name, o in operands.items() if o.step} == {
        "input": "input",
        "weight": "weight",
        "bias": "bias",
    }
    assert operands["weight"].value.shape == (2, 3)


def test_dependents_of_parameter_input_and_overwritten_cell() -> None:
    def function(x: Tensor) -> Tensor:
        y = x + 1
        early = y * 2
        y[0] = 7
        late = y * 3
        return early.sum() + late.sum()

    traced = trace(function, torch.ones(3))
    assert [d.step.name for d in traced["y"][0].dependents()] == ["early"]
    assert [d.step.name for d in traced["y"][1].dependents()] == ["early", "late"]
    assert [c.name for d in traced["y"][1].dependents() for c in d.cells()] == [
        "early[1]",
        "late[1]",
    ]


def test_dependents_of_a_product_whose_last_digits_depend_on_the_threads() -> None:
    """The product is not computed as it was recorded, and no cell is found that is not reached."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model, x = torch.nn.Linear(300, 40), torch.randn(7, 300)
    traced = trace(model, x)
    step = traced.outputs["output"]
    recorded = step.view.tensor()
    recorded += recorded.abs() * torch.finfo(torch.float32).eps  # as other threads would add it up
    reached = traced["weight"][3, 5].dependents()
    assert [d.count for d in reached] == [7]
    assert reached[0].mask.nonzero()[:, 1].unique().tolist() == [3]


@pytest.mark.parametrize("others", [0, 1])
def test_dependents_leave_the_threads_of_others_alone(
    others: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread that begins to compute takes over the number that torch has just then, for good."""
    given: list[int] = []
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    monkeypatch.setattr(torch, "set_num_threads", given.append)
    monkeypatch.setattr(threading, "active_count", lambda: 1 + others)
    bias = trace(nn.Linear(3, 2), torch.ones(4, 3))["bias"][0]
    assert [d.count for d in bias.dependents()] == [4]
    assert given == ([] if others else [1, 2])


def test_dependents_of_a_parameter_and_of_a_token() -> None:
    bias = trace(nn.Linear(3, 2), torch.ones(4, 3))["bias"][0]
    assert [d.count for d in bias.dependents()] == [4]
    token = trace(nn.Embedding(5, 2), torch.tensor([4]))["input"][0]
    assert [d.step.op for d in token.dependents()] == ["embedding"]


def test_terms_are_made_when_they_are_asked_for() -> None:
    x, w, b = torch.randn(1, 3000), torch.randn(2, 3000), torch.randn(2)
    cell = trace(lambda x, w, b: torch.nn.functional.linear(x, w, b), x, w, b)["linear"][0, 1]
    terms = cell.terms
    assert len(terms) == len(terms.values) == 3001
    expected = torch.cat([x[0].double() * w[1].double(), b[1:].double()])
    torch.testing.assert_close(torch.from_numpy(terms.values), expected, rtol=0, atol=0)
    assert [c.name for c in terms[-2].cells] == ["x[0, 2999]", "w[1, 2999]"]
    assert [c.name for c in terms[-1].cells] == ["b[1]"]
    assert [term.value for term in terms[:2]] == terms.values[:2].tolist()
    with pytest.raises(IndexError):
        terms[3001]
    assert trace(lambda x: x + 1, x)["x"][0, 0].terms[:] == ()


def test_the_end_of_a_name_finds_the_whole_of_it() -> None:
    traced = trace(nn.Sequential(nn.Sequential(nn.Linear(2, 2)), nn.Linear(2, 2)), torch.ones(1, 2))
    with pytest.raises(UnknownNameError, match=r"did you mean .?0\.0\.weight.? or .?1\.weight.?"):
        traced["weight"]
    with pytest.raises(UnknownNameError) as wrong:
        traced["nothing"]
    assert wrong.value.known == sorted(traced.names)
