"""The outputs of a trace compared with the module's own, and modules that must not run twice."""

import re

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from glassformer.tracing import Trace, trace
from glassformer.tracing.notes import Note

X = torch.linspace(-2, 2, 2 * 3 * 4).reshape(2, 3, 4).sin()


def found(traced: Trace) -> list[Note]:
    kinds = ("fast path", "fast path zeros", "other numbers", "other shape", "fails alone")
    return [note for note in traced.notes if isinstance(note, Note) and note.kind in kinds]


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")  # torch's own, once
@pytest.mark.parametrize("ending", ["nothing", "norm", "norm with bias"])
def test_zeros_of_torchs_fast_path_are_noted(ending: str) -> None:
    torch.manual_seed(0)
    norm = None if ending == "nothing" else nn.LayerNorm(4)
    if norm is not None and ending == "norm with bias":
        nn.init.ones_(norm.bias)
    layer = nn.TransformerEncoderLayer(4, 2, 8, batch_first=True)
    encoder = nn.TransformerEncoder(layer, 2, norm).eval()
    padded = torch.tensor([[False, False, False], [False, True, True]])
    with torch.no_grad():
        own = encoder(X, src_key_padding_mask=padded)
    traced = trace(encoder, X, src_key_padding_mask=padded)
    [note] = found(traced)
    gap = (traced.outputs["output"].value - own).abs()
    assert note.kind == ("fast path" if ending == "norm with bias" else "fast path zeros")
    assert note.values["count"] == 2 * 4
    assert note.values["all"] == 2 * 3 * 4
    assert note.values["places"] == "[1, 1], [1, 2]"
    assert note.values["gap"] == f"{float(gap.max()):.2g}"
    assert gap[tuple(note.values["worst"])] == gap.max()  # type: ignore[arg-type]  # a list
    # With gradients torch takes the path that the trace shows; without padding both agree.
    torch.testing.assert_close(
        traced.outputs["output"].value, encoder(X, src_key_padding_mask=padded).detach()
    )
    assert found(trace(encoder, X)) == []


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")  # torch's own, once
def test_a_function_around_a_fast_path_is_compared_unless_that_is_switched_off() -> None:
    torch.manual_seed(0)
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 8, batch_first=True), 1).eval()
    padded = torch.tensor([[False, False, False], [False, True, True]])
    runs: list[int] = []

    def encode(x: Tensor) -> Tensor:
        runs.append(1)
        encoded: Tensor = encoder(x, src_key_padding_mask=padded)
        return encoded

    [note] = found(trace(encode, X))
    assert (note.kind, note.values["places"]) == ("fast path zeros", "[1, 1], [1, 2]")
    assert len(runs) == 3  # recorded, alone, and alone without the fast path
    assert found(trace(encode, X, compare=False)) == []
    assert len(runs) == 4


class OtherwiseAlone(nn.TransformerEncoderLayer):
    """A module with a fast path and another reason for different numbers."""

    runs = 0

    def forward(self, src: Tensor, *args: object, **kwargs: object) -> Tensor:
        type(self).runs += 1
        return super().forward(src, *args, **kwargs) + self.runs  # type: ignore[arg-type]  # torch's


def test_a_fast_path_is_not_blamed_for_other_differences() -> None:
    torch.manual_seed(0)
    [note] = found(trace(OtherwiseAlone(4, 2, 8, batch_first=True).eval(), X))
    assert note.kind == "other numbers"


class Counting(nn.Module):
    """Counts and collects its runs, moves a buffer, and draws random numbers."""

    total: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.runs = 0
        self.seen: list[int] = []
        self.register_buffer("total", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        self.runs += 1
        self.seen.append(self.runs)
        self.total = self.total + x.sum()
        counted = x * self.runs + len(self.seen)
        return counted + self.total + torch.rand(4)


def test_a_module_with_a_state_runs_once_and_agrees() -> None:
    module, twin = Counting().eval(), Counting().eval()
    torch.manual_seed(0)
    traced, after = trace(module, X), torch.rand(1)
    torch.manual_seed(0)
    assert torch.equal(traced.outputs["output"].value, twin(X))
    assert torch.equal(after, torch.rand(1))
    assert found(traced) == []
    assert (module.runs, module.seen) == (1, [1])
    assert torch.equal(module.total, twin.total)


def test_what_a_run_changes_outside_is_changed_once() -> None:
    class WritesToItsInput(nn.Module):
        def forward(self, x: Tensor, memory: list[object]) -> Tensor:
            memory.append(x)
            return x.add_(1)

    calls: list[str] = []
    hooked = nn.Linear(4, 4)
    hooked.register_forward_hook(lambda *_: calls.append("ran"))
    trace(hooked, X)
    assert calls == ["ran"]
    x, memory = torch.zeros(2), [object()]
    assert found(trace(WritesToItsInput(), x, memory)) == []
    assert x.tolist() == [1, 1]
    assert len(memory) == 2
    y = torch.zeros(2)
    assert found(trace(nn.ReLU(inplace=True), y.add_(-1))) == []
    assert y.tolist() == [0, 0]


class AfterTheFirst(nn.Module):
    """State shared by a module and its copy, which gives the second run another result."""

    runs = 0

    def __init__(self, then: str) -> None:
        super().__init__()
        self.then = then
        type(self).runs = 0

    def forward(self, x: Tensor) -> Tensor:
        type(self).runs += 1
        if self.runs == 1:
            return x * 2
        if self.then == "fails":
            raise ValueError("no second time")
        return x[:1] if self.then == "shape" else F.relu(x) * 2


@pytest.mark.parametrize(
    ("then", "kind", "words"),
    [
        (
            "numbers",
            "other numbers",
            r"12 of 24 cells of output differ .* at \[0, 0\], \[0, 1\], \[0, 2\] \(by",
        ),
        ("shape", "other shape", r"shape \(2, 3, 4\) in the trace but \(1, 3, 4\) without it"),
        ("fails", "fails alone", "the module fails: ValueError: no second time"),
    ],
)
def test_other_differences_are_noted(then: str, kind: str, words: str) -> None:
    traced = trace(AfterTheFirst(then), X)
    [note] = found(traced)
    assert note.kind == kind
    assert re.search(words, note)
