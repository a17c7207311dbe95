"""The idea of the trace in 140 lines: record a run, explain one number, change one number.

    python examples/mini_trace.py

The real one (`glassformer.tracing`) does this for hundreds of operators, views and in-place writes,
and names each step after the variable in the source. This is its skeleton: a recorder that sees
every operator, a rule per operator that says which cells a cell was computed from, and a replay.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode


@dataclass(frozen=True)
class Cell:
    """One number of a recorded run."""

    tensor: Tensor
    index: tuple[int, ...]

    @property
    def value(self) -> float:
        return self.tensor[self.index].item()


class Call(NamedTuple):
    """One operator that ran."""

    operator: Any
    args: tuple[Any, ...]
    result: Tensor


class Recorder(TorchDispatchMode):
    """Records every operator that runs while it is active; `calls` keeps the tensors alive."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.calls: dict[int, Call] = {}  # by the id of the result

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        self.calls[id(result)] = Call(func, args, result)
        return result


class Arithmetic(NamedTuple):
    """How a cell was computed: its value recomputed, the formula, and the cells that it read."""

    value: float
    text: str
    reads: list[Cell]


# --- one rule per operator: which cells a cell of the result was computed from, and how


def linear(index: tuple[int, ...], x: Tensor, weight: Tensor, bias: Tensor) -> Arithmetic:
    *row, column = index
    inputs = [Cell(x, (*row, k)) for k in range(x.shape[-1])]
    weights = [Cell(weight, (column, k)) for k in range(x.shape[-1])]
    added = Cell(bias, (column,))
    products = list(zip(inputs, weights, strict=True))
    value = sum(a.value * w.value for a, w in products) + added.value
    terms = [f"{a.value:.3g}×{w.value:.3g}" for a, w in products]
    return Arithmetic(value, " + ".join([*terms, f"{added.value:.3g}"]), [*inputs, *weights, added])


def relu(index: tuple[int, ...], x: Tensor) -> Arithmetic:
    cell = Cell(x, index)
    return Arithmetic(max(cell.value, 0.0), f"max({cell.value:.3g}, 0)", [cell])


def softmax(index: tuple[int, ...], x: Tensor, axis: int) -> Arithmetic:
    assert axis == -1, "this rule is for the last axis"
    *row, column = index
    cells = [Cell(x, (*row, k)) for k in range(x.shape[-1])]
    exps = torch.tensor([cell.value for cell in cells], dtype=torch.float64).exp()
    text = f"exp({cells[column].value:.3g}) / (" + " + ".join(
        f"exp({cell.value:.3g})" for cell in cells
    )
    return Arithmetic((exps[column] / exps.sum()).item(), f"{text})", cells)


aten = torch.ops.aten
RULES: dict[Any, Callable[..., Arithmetic]] = {
    aten.linear.default: linear,
    aten.relu.default: relu,
    aten.softmax.int: softmax,
}


# --- questions to a recording


def explain(recorder: Recorder, cell: Cell, indent: str = "") -> list[str]:
    """A cell's arithmetic, then that of the largest number it read, down to an input."""
    call = recorder.calls.get(id(cell.tensor))
    if call is None:
        return [f"{indent}{cell.value:.4g}: an input or a parameter"]
    made = RULES[call.operator](cell.index, *call.args)
    assert abs(made.value - cell.value) < 1e-5, "the rule does not give the recorded number"
    line = f"{indent}{cell.value:.4g} = {made.text}   ({call.operator.name()})"
    computed = [c for c in made.reads if id(c.tensor) in recorder.calls]
    largest = max(computed or made.reads, key=lambda c: abs(c.value))
    return [line, *explain(recorder, largest, indent + "  ")]


def edit(recorder: Recorder, cell: Cell, value: float) -> Callable[[Tensor], Tensor]:
    """Set one number and replay; returns a function from a recorded tensor to its new value."""
    edited = cell.tensor.clone()
    edited[cell.index] = value
    now = {id(cell.tensor): edited}
    for number, call in recorder.calls.items():  # in the order in which they ran
        args = [now.get(id(arg), arg) for arg in call.args]
        now.setdefault(number, call.operator(*args))  # an edited result keeps its edit
    return lambda tensor: now.get(id(tensor), tensor)


def main() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2), nn.Softmax(-1))
    x = torch.tensor([[1.0, 0.0, -2.0]])
    # Below autograd, `linear` and `softmax` arrive as single operators, not decomposed.
    with torch.inference_mode():
        with Recorder() as recorder:
            output = model(x)
        print("\n".join(explain(recorder, Cell(output, (0, 1)))))
        after = edit(recorder, Cell(x, (0, 2)), 0.0)
        print(f"output: {output[0].tolist()}")
        print(f"with x[0, 2] = 0: {after(output)[0].tolist()}")


if __name__ == "__main__":
    main()
