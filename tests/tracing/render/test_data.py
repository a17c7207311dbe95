"""JSON round trip: the numbers are bitwise equal."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from glassformer.documents import render
from glassformer.documents.trace_data import SCHEMA, encode, trace_data
from glassformer.errors import TraceError
from glassformer.tracing import trace
from tests.tracing.operator_examples import EXAMPLES
from tests.tracing.render.toys import TOYS, traced
from tests.tracing.render.trace_files import decode, read_json

DTYPES = [
    torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.bool,
    torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64,
]  # fmt: skip


@pytest.mark.parametrize("toy", TOYS)
def test_every_number_comes_back(toy: str, tmp_path: Path) -> None:
    t = traced(toy)
    back = read_json(render(t, path=tmp_path / "t.json"))
    assert list(back.tensors) and set(back.tensors) == set(t.names)
    for name in t.names:
        step, read = t[name], back[name]
        assert read.value.dtype == step.dtype and tuple(read.value.shape) == step.shape
        assert same_bits(read.value, step.value)
        assert (read.role, read.op, read.module, read.labels) == (
            step.role, step.op, step.module, tuple(step.labels),
        )  # fmt: skip
    assert back.outputs == {name: step.name for name, step in t.outputs.items()}


def same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    if not a.numel():
        return True
    flat = (x.contiguous().reshape(-1).view(torch.uint8) for x in (a, b))
    return torch.equal(*flat)


@given(st.sampled_from(DTYPES), st.integers(0, 200), st.integers(0, 2**31))
def test_any_bits_of_any_dtype_come_back(dtype: torch.dtype, count: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    high = 2 if dtype == torch.bool else 256
    raw = torch.randint(high, (count * dtype.itemsize,), generator=generator, dtype=torch.uint8)
    tensor = raw.view(dtype) if count else torch.empty(0, dtype=dtype)
    encoded = json.loads(json.dumps(encode(tensor), allow_nan=False))
    assert same_bits(decode(encoded, str(dtype).removeprefix("torch."), [count]), tensor)


def test_edges_name_the_writers() -> None:
    data = trace_data(traced("illustrated"))
    edges = {(edge["from"], edge["to"]) for edge in data["edges"]}
    assert {("projected_queries", "scores"), ("projected_keys", "scores")} <= edges
    assert {("weights", "context"), ("projected_values", "context")} <= edges
    assert all(from_ != to for from_, to in edges)


def test_the_file_is_strict_json_without_paths_of_this_machine(tmp_path: Path) -> None:
    t = trace(lambda x: x.log(), torch.tensor([0.0, -1.0, 1.0]))
    path = tmp_path / "t.json"
    render(t, path=path, cells=[t.steps[0][0]], depth=2)

    def refuse(constant: str) -> float:
        raise AssertionError(constant)

    data = json.loads(path.read_text("utf-8"), parse_constant=refuse)
    assert data["schema"] == SCHEMA
    assert data["cells"][0]["value"] == "-Infinity"
    assert str(Path.cwd()) not in path.read_text("utf-8")
    assert math.isinf(read_json(path)["log"].value[0].item())


def test_explained_cells_are_in_the_file(tmp_path: Path) -> None:
    t = traced("illustrated")
    cell = t["scores"][0, 1]
    back = read_json(render(t, path=tmp_path / "t.json", steps=["scores"], cells=[cell]))
    assert set(back.tensors) == {"projected_queries", "projected_keys", "scores"}
    assert back.cells[0]["cell"] == cell.name
    assert back.cells[0]["recomputed"] == cell.recomputed
    assert len(back.cells[0]["operands"]) == len(cell.operands)


def test_every_rule_can_be_written_and_read(tmp_path: Path) -> None:
    for function in EXAMPLES.values():
        t = trace(function)
        back = read_json(render(t, path=tmp_path / "t.json"))
        for step in t.steps:
            assert same_bits(back[step.name].value, step.value)


def test_a_file_that_would_be_too_large_is_refused_before_it_is_written(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="more than max_bytes = 100"):
        render(traced("illustrated"), path=tmp_path / "t.json", max_bytes=100)
    assert not list(tmp_path.iterdir())
