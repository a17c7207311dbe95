"""Edits: an edited trace has the numbers that the model would have computed."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from glassformer.errors import TraceError, UnknownNameError
from glassformer.tracing import Trace, diff, replay, trace


def assert_same(one: Trace, other: Trace) -> None:
    assert [step.name for step in one.steps] == [step.name for step in other.steps]
    for step, twin in zip(one.steps, other.steps, strict=True):
        assert torch.equal(step.value, twin.value), step.name


class Branching(nn.Module):
    """Branches on the sign of a sum, and truncates to a length that it computes."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(3, 3, bias=False)
        nn.init.eye_(self.inner.weight)

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.inner(x)
        total = hidden.sum()
        if total > 0:
            signed = hidden * 2
        else:
            signed = hidden - 1
            signed = signed.abs()
        last: Tensor = signed + 1
        return last


def test_an_edit_recomputes_only_what_follows() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Sigmoid(), nn.Linear(2, 2))
    traced = trace(model, torch.randn(1, 2))
    edited = traced.edit({("2.weight", (0, 1)): 4.0})
    assert edited.notes[-1] == "edited: 1 of 3 operators recomputed"
    assert [d.name for d in diff(traced, edited).steps] == ["2.weight", "2"]
    shared = [t["0"].view.version.storage.data_ptr() for t in (traced, edited)]
    assert shared[0] == shared[1]


def test_the_old_trace_and_the_model_are_left_alone() -> None:
    model = nn.Linear(2, 2)
    before = model.weight.detach().clone()
    x = torch.randn(1, 2)
    traced = trace(model, x)
    output = traced.outputs["output"].value
    edited = traced.edit({("weight", (0, 0)): 9.0, ("input", (0, 1)): 8.0})
    assert torch.equal(model.weight, before)
    assert torch.equal(traced.outputs["output"].value, output)
    assert edited.inputs["input"].value[0, 1] == 8
    assert x[0, 1] != 8
    old = {("weight", (0, 0)): float(before[0, 0]), ("input", (0, 1)): float(x[0, 1])}
    again = edited.edit(old)
    assert torch.equal(again.outputs["output"].value, output)


def test_an_edited_trace_is_a_trace() -> None:
    traced = trace(Branching(), torch.tensor([1.0, 2.0, 3.0]))
    edited = traced.edit({("hidden", 0): 5.0})
    assert edited["hidden"].value.tolist() == [5, 2, 3]
    assert edited["signed"].value.tolist() == [10, 4, 6]
    assert edited["signed"][0].operands[0] == edited["hidden"][0]
    assert edited["signed"][0].operands[0].step.trace is edited
    assert [d.step.name for d in edited["hidden"][0].dependents()] == ["total", "signed"]


def test_an_edited_number_depends_on_nothing() -> None:
    traced = trace(Branching(), torch.tensor([1.0, 2.0, 3.0]))
    assert any(d.step.name == "signed" for d in traced["hidden"][0].dependents())
    edited = traced.edit({("signed", 0): 7.0})
    assert [d.step.name for d in edited["hidden"][0].dependents()] == ["total"]
    assert [d.count for d in edited["hidden"][1].dependents() if d.step.name == "signed"] == [1]


def test_a_cell_set_by_an_edit_says_so_and_keeps_its_value() -> None:
    traced = trace(Branching(), torch.tensor([1.0, 2.0, 3.0]))
    edited = traced.edit({("hidden", 0): 5.0})
    assert edited["hidden"][0].explain() == "hidden[0] = 5  (set by an edit)"
    assert edited.verify().ok
    twice = edited.edit({("x", 0): 7.0, ("x", 1): 4.0})
    assert twice["hidden"].value.tolist() == [5, 4, 3]
    assert twice.verify().ok
    rerun = twice.edit({("x", 2): -30.0})
    assert rerun["hidden"].value.tolist() == [5, 4, -30]
    back = twice.edit({("hidden", 0): 7.0})
    assert back["hidden"].value.tolist() == [7, 4, 3]


def test_a_pinned_cell_stays_where_its_operands_are_edited_too() -> None:
    traced = trace(Branching(), torch.tensor([1.0, 2.0, 3.0]))
    edited = traced.edit({("x", 0): 7.0, ("hidden", 1): 5.0})
    assert edited["hidden"].value.tolist() == [7, 5, 3]


@pytest.mark.parametrize("where", [("x", 2), ("inner.weight", (2, 2)), ("hidden", 2)])
def test_an_edit_that_changes_control_flow_reruns_the_model(where: tuple[str, int]) -> None:
    model = Branching()
    x = torch.tensor([1.0, 2.0, 3.0])
    traced = trace(model, x)
    edited = traced.edit({where: -9.0})
    assert "(if total > 0: read True, now False): the model was rerun" in edited.notes[-1]
    assert [step.name for step in edited.steps][-3:] == ["signed", "signed.2", "last"]
    expected = {"x": [0, 1, 10], "inner.weight": [0, 1, 28], "hidden": [0, 1, 10]}[where[0]]
    assert edited["signed.2"].value.tolist() == expected
    assert edited.verify().ok
    assert torch.equal(model.inner.weight, torch.eye(3))
    assert x.tolist() == [1, 2, 3]
    assert diff(traced, edited).only_after == ["signed.2"]


def test_an_edit_that_changes_a_shape_reruns_the_model() -> None:
    def function(x: Tensor) -> Tensor:
        positive = x[x > 0]
        return positive.sum()

    traced = trace(function, torch.tensor([1.0, -2.0, 3.0]))
    edited = traced.edit({("x", 1): 2.0})
    assert "rerun" in edited.notes[-1]
    assert edited["positive"].shape == (3,)
    assert edited.outputs["output"].value == 6


class Routed(nn.Module):
    """Splits its rows among experts by numbers that it reads without running an operator."""

    def __init__(self, read: str) -> None:
        super().__init__()
        self.inner = nn.Linear(4, 3)
        self.read = read

    def forward(self, x: Tensor) -> Tensor:
        experts = self.inner(x).argmax(-1)
        counts = experts.bincount(minlength=3)
        sizes = counts.tolist() if self.read == "tolist" else [int(n) for n in counts.numpy()]
        parts = x[experts.argsort(stable=True)].split(sizes)
        return torch.cat([part * (number + 1) for number, part in enumerate(parts)])


@pytest.mark.parametrize("read", ["tolist", "numpy"])
def test_an_edit_that_changes_numbers_read_as_a_list_reruns_the_model(read: str) -> None:
    torch.manual_seed(0)
    model, x = Routed(read), torch.randn(6, 4)
    traced = trace(model, x)
    same = traced.edit({"inner": traced["inner"].value})
    assert not any("rerun" in note for note in same.notes)
    scores = torch.eye(3)[[2, 2, 0, 2, 1, 2]]
    edited = traced.edit({"inner": scores})
    assert "now [1, 1, 4]): the model was rerun" in edited.notes[-1]
    model.inner.register_forward_hook(lambda *_: scores)
    assert torch.equal(edited.outputs["output"].value, model(x))
    assert not {"tolist", "numpy"} & vars(Tensor).keys()  # torch is as it was


@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.tensor([x[0], x[1]]) * 2,
        lambda x: x.new_tensor([[x[0], 2.0]]) * 2,
        lambda x: torch.as_tensor([x[0], x[1]]) * 2,
        lambda x: x * float(np.asarray(x)[0]),
        lambda x: torch.narrow(x, 0, x.argmax(), 1) * 2,
        lambda x: torch.tensor_split(x, x.argmax()[None])[1] * 2,
    ],
)
def test_an_edit_of_numbers_that_python_reads_reruns_the_model(
    function: Callable[[Tensor], Tensor],
) -> None:
    x, other = torch.tensor([1.0, 5.0, 2.0]), torch.tensor([2.0, 0.0, 3.0])
    edited = trace(function, x).edit({"x": other})
    assert torch.equal(edited.outputs["output"].value, function(other))


def test_a_cell_of_an_edit_reads_the_edited_operands() -> None:
    """Also where the cells of the first trace were looked at: what moved where is remembered."""
    x = torch.arange(6.0).reshape(2, 3)
    traced = trace(lambda x: torch.stack([x * 2, x.flip(1) + 1]), x)
    assert traced.verify().ok
    edited = traced.edit({"x": x + 10})
    assert edited.verify().ok
    assert "24" in edited.steps[-1][0, 0, 2].explain()


@pytest.mark.parametrize("in_place", [False, True])
def test_a_random_slope_is_a_fixed_one_outside_training(in_place: bool) -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.RReLU(inplace=in_place), nn.Linear(3, 1)).eval()
    x, other = torch.randn(2, 3), torch.randn(2, 3)
    edited = trace(model, x).edit({"input": other})
    assert torch.equal(edited.outputs["output"].value, model(other))
    assert edited["1"].rule == "leaky_relu"


def test_an_edit_of_a_step_that_the_rerun_does_not_compute() -> None:
    traced = trace(Branching(), torch.tensor([1.0, 2.0, 3.0]))
    with pytest.raises(TraceError, match="no longer computes signed"):
        traced.edit({("x", 2): -9.0, ("signed", 0): 1.0})


def test_tensors_written_in_place_replay_and_edit() -> None:
    def function(x: Tensor, y: Tensor) -> Tensor:
        table = torch.zeros(3, 2)
        table[0] = x
        table[1:] += y
        table[:, 1] *= 2
        return table.cumsum(0)

    x, y = torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0])
    traced = trace(function, x, y)
    assert traced.verify().ok
    for name, index in (("x", 1), ("y", 0)):
        given = [x.clone(), y.clone()]
        given[name == "y"][index] = -5
        assert_same(traced.edit({(name, index): -5.0}), trace(function, *given))


def test_inputs_that_the_model_overwrites() -> None:
    def function(x: Tensor) -> Tensor:
        x += 1
        if x.sum() > 0:
            return x * 2
        return x * 3

    x = torch.tensor([1.0, 2.0])
    traced = trace(function, x)
    assert traced.inputs["x"].value.tolist() == [1, 2]
    assert traced.edit({("x", 0): 5.0}).outputs["output"].value.tolist() == [12, 6]
    assert traced.edit({("x", 0): -50.0}).outputs["output"].value.tolist() == [-147, 9]


def test_bad_edits() -> None:
    traced = trace(nn.Embedding(4, 2), torch.tensor([1, 2]))
    with pytest.raises(UnknownNameError, match="did you mean 'weight'"):
        traced.edit({("wieght", (0, 0)): 1.0})
    with pytest.raises(TraceError, match=r"weight has no part \[9, 0\]: its shape is \(4, 2\)"):
        traced.edit({("weight", (9, 0)): 1.0})
    with pytest.raises(TraceError, match=r"weight has no part \[0, 2\]: its shape is \(4, 2\)"):
        traced.edit({("weight", (0, 2)): 1.0})
    with pytest.raises(TraceError, match="not an integer"):
        traced.edit({("input", 0): 1.5})
    with pytest.raises(TraceError, match=r"a new value is a number, .* got \[None\]"):
        traced.edit({("weight", (0, 0)): [None]})
    with pytest.raises(TraceError, match=r"takes one argument, .*: missing a required .* 'output'"):
        traced.edit({"weight": lambda module, output: output})
    with pytest.raises(ZeroDivisionError):
        traced.edit({"weight": lambda numbers: numbers / (1 // 0)})


@settings(max_examples=25)
@given(
    st.sampled_from(["x", "inner.weight", "hidden", "signed", "last"]),
    st.integers(0, 2),
    st.floats(-3, 3, width=32),
)
def test_any_edit_equals_the_models_own_arithmetic(name: str, place: int, value: float) -> None:
    model = Branching()
    x = torch.tensor([1.0, -2.0, 1.5])
    traced = trace(model, x)
    index = (place, place) if name == "inner.weight" else place
    edited = traced.edit({(name, index): value})

    parameter = torch.eye(3)
    if name == "x":
        x = x.clone()
        x[place] = value
    if name == "inner.weight":
        parameter[place, place] = value
    hidden = parameter @ x
    if name == "hidden":
        hidden[place] = value
    signed = hidden * 2 if hidden.sum() > 0 else (hidden - 1).abs()
    if name == "signed":
        signed[place] = value
    last = signed + 1
    if name == "last":
        last[place] = value
    torch.testing.assert_close(edited.outputs["output"].value, last)


def test_running_statistics_move_once_and_an_edit_leaves_the_model_alone() -> None:
    """Batch norm writes to them, although its schema does not say so."""

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = nn.BatchNorm1d(2, momentum=0.5)

        def forward(self, x: Tensor) -> Tensor:
            mean, variance = self.norm.running_mean, self.norm.running_var
            y = F.batch_norm(x, mean, variance, training=True, momentum=0.5)
            assert mean is not None
            return y + mean

    model, x = Model(), torch.tensor([[1.0, 2.0], [3.0, 6.0]])
    traced = trace(model, x)
    after = model.norm.running_mean
    assert after is not None
    assert traced["norm.running_mean"].value.tolist() == [0, 0]
    assert traced["running_mean"].value.tolist() == after.tolist() == [1, 2]
    assert traced["running_mean"][1].formula == "0.5·running_mean[1] + 0.5·μ"
    assert traced["running_var"].value.tolist() == [1.5, 4.5]
    assert traced.outputs["output"][0, 1].operands[1] == traced["running_mean"][1]
    assert traced.verify().ok
    edited = traced.edit({("x", (0, 0)): 7.0})
    assert edited["running_mean"].value.tolist() == [2.5, 2]
    assert edited.verify().ok
    assert after.tolist() == [1, 2]
    assert [d.step.name for d in traced["x"][0, 0].dependents()] == [
        "y",
        "running_mean",
        "running_var",
    ]


def test_invalid_edits_and_comparisons_are_reported() -> None:
    seen = trace(Branching(), torch.ones(3))
    cell = seen["hidden"][0]
    with pytest.raises(TraceError, match="a number, a tensor or a function, got 'a'"):
        seen.edit({cell: "a"})
    with pytest.raises(TraceError, match=r"an edit sets a cell, .*, got 5"):
        seen.edit({5: 1})
    with pytest.raises(TraceError, match="diff compares two traces, got NoneType"):
        diff(seen, None)  # type: ignore[arg-type]


def test_edited_numbers_that_an_operator_refuses_are_reported() -> None:
    traced = trace(nn.Embedding(4, 2), torch.tensor([[1, 2]]))
    with pytest.raises(TraceError, match="embedding cannot be computed from the edited numbers"):
        traced.edit({"input": torch.tensor([[1, 4]])})


def test_edits_of_another_trace_are_reported() -> None:
    seen, other = trace(Branching(), torch.ones(3)), trace(Branching(), torch.ones(3))
    with pytest.raises(TraceError, match=r"a mapping of cells to values, \{cell: 0.5\}, got None"):
        seen.edit(None)  # type: ignore[arg-type]  # that is the point
    with pytest.raises(TraceError, match=r"hidden\[0\] belongs to another trace"):
        seen.edit({other["hidden"][0]: 2.0})
    # A trace made by an edit is a trace of the same run: its cells and the first one's are shared.
    once = seen.edit({seen["hidden"][0]: 2.0})
    assert once.edit({seen["hidden"][1]: 3.0})["hidden"].value[:2].tolist() == [2, 3]


def test_a_replay_uses_the_same_kernel_as_the_run() -> None:
    """`matmul` folds a batch only if the other operand is a parameter."""
    torch.manual_seed(0)
    weight = nn.Parameter(torch.randn(64, 4))
    rows = torch.randn(1, 9, 20)[..., :4]
    traced = trace(lambda x: weight @ x.mT, rows)
    assert_same(traced, replay(traced))


def partly_written(x: Tensor) -> Tensor:
    places = torch.empty(6)
    places[:2] = x[:2]
    kept = places.clone()
    return kept[:2] * 2


def test_unwritten_memory_is_not_a_difference() -> None:
    one, other = trace(partly_written, torch.ones(3)), trace(partly_written, torch.ones(3))
    for traced, rubbish in ((one, 7.0), (other, torch.nan)):
        for step in traced.steps[:-1]:
            if step.shape == (6,):
                step.view.tensor()[2:] = rubbish
    kept = next(step for step in one.steps if step.op == "clone")
    assert kept[3].is_unwritten
    assert not kept[0].is_unwritten
    assert kept[3].explain() == f"{kept.name}[3]: not yet written  (clone)"
    assert kept[3].to_dict()["unwritten"] is True
    assert kept[0].to_dict()["unwritten"] is False
    assert str(diff(one, other)) == "no difference"
    assert one.verify().ok
    other.outputs["output"].view.tensor()[0] = 5.0
    assert [step.name for step in diff(one, other).steps] == [other.steps[-1].name]


def test_rows_beyond_the_last_group_are_not_written() -> None:
    torch.manual_seed(0)
    ends = torch.tensor([1, 3], dtype=torch.int32)
    traced = trace(
        lambda a, b: F.grouped_mm(a, b, offs=ends), torch.randn(4, 8), torch.randn(2, 8, 8)
    )
    made = traced.steps[-1]
    assert [made[row, 0].is_unwritten for row in range(4)] == [False, False, False, True]
    assert traced.verify().ok
    assert traced.verify().cells == 3 * 8
