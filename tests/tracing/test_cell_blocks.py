"""Parts of a step: indexed as in torch, and edited as if the model had computed the new values."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from glassformer.errors import TraceError, UnknownNameError
from glassformer.tracing import trace
from glassformer.tracing.cell_block import CellBlock, Places
from glassformer.tracing.steps import Step


class Attention(nn.Module):
    """Two heads over a view of the projection, so that heads are parts of another step's memory."""

    def __init__(self) -> None:
        super().__init__()
        self.to_queries, self.to_keys, self.to_values = (nn.Linear(4, 4) for _ in range(3))

    def forward(
        self, x: Tensor, change: Callable[[str, Tensor], Tensor] = lambda _, t: t
    ) -> Tensor:
        queries = self.to_queries(x).unflatten(-1, (2, 2)).transpose(1, 2)
        keys = self.to_keys(x).unflatten(-1, (2, 2)).transpose(1, 2)
        joined = self.to_values(x)
        values = joined.unflatten(-1, (2, 2)).transpose(1, 2)
        scores = queries @ keys.mT
        scores = change("scores", scores)
        weights = scores.softmax(-1)
        weights = change("weights", weights)
        context: Tensor = weights @ values
        return context.transpose(1, 2).flatten(-2)


def made() -> tuple[Attention, Tensor]:
    torch.manual_seed(1)
    return Attention(), torch.randn(1, 3, 4)


INDEXES: list[Any] = [
    (0, 1, slice(None), slice(None)),
    (0, slice(None), 2, slice(None)),
    (Ellipsis, 0),
    (0, slice(None), slice(None, None, 2), 1),
    (0, [0, 1], [2, 0], slice(1, 3)),
    Ellipsis,
    (1, 2, slice(None)),  # the batch of one left out
]


def part(step: Step, *index: Any) -> CellBlock:
    found = step[index]
    assert isinstance(found, CellBlock)
    return found


def full(index: Any) -> Any:
    return (0, *index) if index == INDEXES[-1] else index


@pytest.mark.parametrize("index", INDEXES, ids=str)
def test_a_part_holds_what_torch_would_give(index: Any) -> None:
    model, x = made()
    step = trace(model, x)["weights"]
    found = part(step, *(index if isinstance(index, tuple) else (index,)))
    wanted = step.value[full(index)]
    assert found.shape == tuple(wanted.shape)
    assert torch.equal(found.value, wanted)
    assert [cell.value for cell in found] == wanted.reshape(-1).tolist()
    first = (0,) * len(found.shape)
    assert found[first].value == wanted[first]
    assert found[first].explain()


@pytest.mark.parametrize("index", INDEXES, ids=str)
@pytest.mark.parametrize("name", ["weights", "scores"])
def test_a_part_set_is_what_the_model_would_have_computed(name: str, index: Any) -> None:
    model, x = made()
    place = full(index)

    def change(here: str, value: Tensor) -> Tensor:
        if here == name:
            value = value.clone()
            value[place] = 0.25
        return value

    traced = trace(model, x)
    edited = traced.edit({traced[name][index]: 0.25})
    torch.testing.assert_close(
        edited.outputs["output"].value, model(x, change).detach(), rtol=0, atol=1e-6
    )
    assert edited[name].value[place].unique().tolist() == [0.25]
    assert edited.verify().ok


def test_numbers_come_as_tensors_functions_and_tables() -> None:
    model, x = made()
    traced = trace(model, x)
    uniform = traced.edit({"weights": torch.full((3,), 1 / 3)})
    values = traced["weights"].value
    assert torch.allclose(uniform["weights"].value, torch.tensor(1 / 3))
    flipped = traced.edit({"weights": {(0, 1): lambda head: head.flip(-1)}})
    assert torch.equal(flipped["weights"].value[0, 1], values[0, 1].flip(-1))
    assert torch.equal(flipped["weights"].value[0, 0], values[0, 0])
    both = traced.edit({traced["weights"][0, 0, 0, :]: [1, 0, 0], traced["weights"][0, 1, 1, 2]: 9})
    assert both["weights"].value[0, 0, 0].tolist() == [1, 0, 0]
    assert both["weights"].value[0, 1, 1, 2] == 9
    again = both.edit({("weights", (0, 0, 0, 1)): np.float32(5.0)})  # the others stay set
    assert again["weights"].value[0, 0, 0].tolist() == [1, 5, 0]
    assert again["weights"].value[0, 1, 1, 2] == 9


def test_a_mask_selects_cells_and_a_later_item_wins() -> None:
    traced = trace(*made())
    mask = traced["weights"].value > 1 / 3
    assert mask.any()
    edited = traced.edit({traced["weights"][mask]: 0.0, ("weights", (0, 0, 0, 0)): 0.125})
    expected = traced["weights"].value.masked_fill(mask, 0.0)
    expected[0, 0, 0, 0] = 0.125
    assert torch.equal(edited["weights"].value, expected)


def test_a_head_that_is_a_view_is_set_in_the_step_that_holds_it() -> None:
    model, x = made()
    traced = trace(model, x)
    view = next(step for step in traced.views if step.name == "values")
    edited = traced.edit({view[0, 1, :, :]: 0.0})
    owner = view[0, 1, 0, 0].step
    assert owner.shape == (1, 3, 4)
    wanted = owner.value
    wanted[..., 2:] = 0  # the second head
    assert torch.equal(edited[owner.name].value, wanted)
    assert edited[owner.name][0, 0, 3].step.pinned
    assert (0, 0, 3) in edited[owner.name].pinned
    assert (0, 0, 1) not in edited[owner.name].pinned


def test_labels_follow_the_axes_that_remain() -> None:
    embedding = nn.Embedding(9, 2)
    traced = trace(embedding, torch.tensor([[1, 2, 3]]), axis_labels={"input": ["I", "am", "so"]})
    step = traced.outputs["output"]
    assert part(step, 0, slice(1, None), slice(None)).labels == (("am", "so"), None)
    assert part(step, 0, slice(None), 1).labels == (("I", "am", "so"),)
    assert part(step, 0, [0, 2], slice(None)).labels == (None, None)


def test_a_part_that_does_not_fit_raises_a_one_line_error() -> None:
    traced = trace(nn.Linear(3, 2), torch.ones(1, 3))
    with pytest.raises(TraceError, match=r"shape \(2,\) of weight cannot be set .* shape \(5,\)"):
        traced.edit({traced["weight"][:, 0]: torch.ones(5)})
    ids = trace(nn.Embedding(4, 2), torch.tensor([1, 2]))
    with pytest.raises(TraceError, match=r"input is torch.int64: it cannot hold these numbers"):
        ids.edit({"input": torch.tensor([0.5, 1.0])})
    with pytest.raises(TraceError, match=r"0.5 is not an integer"):
        ids.edit({"input": 0.5})
    with pytest.raises(TraceError, match=r"has nothing at \[7\]"):
        part(traced["weight"], 0, slice(None))[7]


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(0, 23), max_size=30), st.lists(st.integers(0, 23), max_size=30))
def test_places_are_a_set_of_indexes(first: list[int], second: list[int]) -> None:
    shape = (2, 3, 4)
    one, other = (Places(shape, np.array(p, dtype=np.int64)) for p in (first, second))
    plain = {tuple(map(int, np.unravel_index(p, shape))) for p in {*first, *second}}
    assert set(one.also(other)) == plain
    assert all(index in one.also(other) for index in plain)
    assert len(one.also(other)) == len(plain)


def test_positions_by_their_labels() -> None:
    def answer(ids: Tensor) -> Tensor:
        return ids[..., None] * torch.arange(3.0)

    words, classes = ["I", "am", "I", "not"], ["sad", "glad", "so-so"]
    labels = {"ids": words, "output": classes}
    run = trace(answer, torch.tensor([[5, 6, 7, 8]]), axis_labels=labels)
    scores = run.outputs["output"]
    assert scores["not", "glad"] == scores[0, 3, 1]
    assert scores[0, "am", "so-so"] == scores[0, 1, 2]
    part = scores[..., "am", :]
    assert isinstance(part, CellBlock)
    assert torch.equal(part.value, scores.value[..., 1, :])
    assert torch.equal(
        run.edit({scores[..., "glad"]: 9.0})["output"].value[..., 1], torch.full((1, 4), 9.0)
    )
    with pytest.raises(TraceError, match="'I' stands 2 times on this axis of"):
        scores["I", "glad"]
    with pytest.raises(UnknownNameError, match="unknown label 'gald'; did you mean 'glad'"):
        scores[0, 1, "gald"]
    with pytest.raises(UnknownNameError, match="unknown input or output 'logits'; there are ids"):
        trace(answer, torch.tensor([[5, 6]]), axis_labels={"logits": classes})


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.bool])
def test_steps_and_their_parts_are_arrays_to_numpy_and_torch(dtype: torch.dtype) -> None:
    x = torch.arange(6).view(2, 3).to(dtype)
    run = trace(lambda x: x.clone(), x)
    step = run.outputs["output"]
    for numbers, expected in ((step, x), (step[:, 1:], x[:, 1:])):
        as_numpy = expected.float() if dtype == torch.bfloat16 else expected
        np.testing.assert_array_equal(np.asarray(numbers), as_numpy.numpy(), strict=True)
        assert np.asarray(numbers, dtype=np.float64).dtype == np.float64
        as_torch = torch.as_tensor(numbers)
        assert as_torch.dtype == dtype and torch.equal(as_torch, expected)
        as_torch.zero_()
        np.array(numbers).fill(0)
    assert torch.equal(step.value, x)
    with pytest.raises(ValueError, match="as a copy"):
        np.array(step, copy=False)


def test_a_cell_is_asked_for_at_its_step() -> None:
    labels = {"x": ["a", "c d"]}
    run = trace(lambda x: x + 1, torch.ones(2, 2), axis_labels=labels)
    name = run.steps[0].name
    with pytest.raises(TraceError, match=rf"write t\['{name}'\]\[0, -1\]"):
        run[f"{name}[0,-1]"]
    with pytest.raises(TraceError, match=rf"write t\['{name}'\]\[:, 'c d'\]"):
        run[f"{name}[:, c d]"]
    with pytest.raises(UnknownNameError, match="unknown step"):
        run["nothing[0]"]
    assert name in run and all(step in run for step in run)
    assert run.steps[0] not in trace(lambda x: x + 1, torch.ones(2))
