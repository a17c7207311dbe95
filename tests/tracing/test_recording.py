"""Recording leaves the module unchanged, takes any input, and fails with a one-line error."""

import threading
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from glassformer.errors import TraceError, UnknownNameError
from glassformer.tracing import trace
from glassformer.tracing.capture import record
from glassformer.tracing.trace import find_cell


def small_model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.5), nn.ReLU(), nn.Linear(4, 2))


def test_a_module_trains_after_it_was_traced() -> None:
    class Caching(nn.Module):
        """A lazily created mask is kept between calls, like rotary and causal caches."""

        mask: Tensor | None = None

        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.TransformerEncoderLayer(4, 2, 8, batch_first=True)

        def forward(self, x: Tensor) -> Tensor:
            if self.mask is None:
                self.mask = torch.ones(x.size(1), x.size(1)).tril().log()
            result: Tensor = self.inner(x, src_mask=self.mask)
            return result

    model = Caching().train()
    x = torch.randn(2, 5, 4)
    trace(model, x)
    before = [parameter.clone() for parameter in model.parameters()]
    optimiser = torch.optim.Adam(model.parameters(), 0.1)
    model(x).square().mean().backward()
    optimiser.step()
    assert all(parameter.grad is not None for parameter in model.parameters())
    changed = [not torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True)]
    assert any(changed)


def test_numbers_that_were_trained_since_are_refused() -> None:
    model = small_model()
    traced = trace(model, torch.randn(1, 3))
    with torch.no_grad():
        next(model.parameters()).add_(1)
    with pytest.raises(TraceError, match=r"0\.weight was changed in place after the trace"):
        _ = traced["0.weight"][0, 0].value


def test_training_mode_is_restored_module_by_module() -> None:
    model = small_model().train()
    model[3].eval()  # type: ignore[index]  # Sequential
    traced = trace(model, torch.randn(1, 3))
    assert [module.training for module in model.modules()] == [True, True, True, True, False]
    assert any("evaluation mode" in note for note in traced.notes)
    assert "dropout" not in {step.op for step in traced.steps}


def test_the_fast_path_is_switched_back_on() -> None:
    assert torch.backends.mha.get_fastpath_enabled()
    trace(nn.TransformerEncoderLayer(4, 2, 8, batch_first=True), torch.randn(1, 3, 4))
    assert torch.backends.mha.get_fastpath_enabled()


def test_everything_is_restored_after_a_failing_forward() -> None:
    class Failing(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            raise ArithmeticError("on purpose")

    model = Failing().train()
    with pytest.raises(ArithmeticError, match="on purpose"):
        trace(model, torch.ones(1))
    assert model.training
    assert torch.backends.mha.get_fastpath_enabled()
    assert trace(small_model(), torch.randn(1, 3)).steps


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")  # importing dynamo warns
def test_a_compiled_module_is_traced_as_written() -> None:
    model = small_model().eval()
    compiled = torch.compile(model)
    assert [s.name for s in trace(compiled, torch.ones(1, 3))] == [
        s.name for s in trace(model, torch.ones(1, 3))
    ]


@dataclass
class Answer:
    logits: Tensor
    extra: tuple[Tensor, int]


class Pair(NamedTuple):
    left: Tensor
    right: Tensor


@pytest.mark.parametrize(
    ("wrap", "expected"),
    [
        (lambda y: y, ["output"]),
        (lambda y: (y, None, [y + 1]), ["output.0", "output.2.0"]),
        (lambda y: {"logits": y, "n": 3}, ["logits"]),
        (lambda y: Answer(y, (y * 2, 1)), ["logits", "extra.0"]),
        (lambda y: Pair(y, y + 1), ["left", "right"]),
    ],
)
def test_outputs_in_any_container(wrap: Any, expected: list[str]) -> None:
    traced = trace(lambda x: wrap(x * 2), torch.ones(2))
    assert list(traced.outputs) == expected
    assert traced[expected[0]].value.tolist() == [2, 2]


def test_inputs_in_any_container_by_name() -> None:
    def function(batch: dict[str, Tensor], *rest: Tensor, scale: Tensor, **more: Tensor) -> Tensor:
        return batch["ids"] * scale + rest[0] + more["bias"]

    traced = trace(
        function,
        {"ids": torch.ones(2)},
        torch.ones(2),
        scale=torch.ones(2),
        bias=torch.ones(2),
    )
    assert set(traced.inputs) == {"batch.ids", "rest.0", "scale", "bias"}


def test_a_tensor_called_labels_belongs_to_the_model() -> None:
    def function(x: Tensor, labels: Tensor) -> Tensor:
        return F.cross_entropy(x, labels)

    traced = trace(function, torch.randn(2, 3), labels=torch.tensor([0, 2]))
    assert set(traced.inputs) == {"x", "labels"}


def test_an_output_that_is_an_input_or_a_view() -> None:
    traced = trace(lambda x: (x, x[1:]), torch.arange(3.0))
    assert traced.outputs["output.0"] is traced.inputs["x"]
    assert traced.outputs["output.1"][0].name == "x[1]"


@pytest.mark.parametrize("nothing", [None, 3, "text", {"n": 1}, []])
def test_no_tensor_in_the_output(nothing: Any) -> None:
    with pytest.raises(TraceError, match="no tensor"):
        trace(lambda x: nothing, torch.ones(1))


def test_bad_arguments() -> None:
    with pytest.raises(TraceError, match=r"Sequential cannot be called with these inputs"):
        trace(small_model(), torch.ones(1, 3), wrong=1)
    with pytest.raises(TraceError, match="expected a module or a function, got int"):
        trace(3, torch.ones(1))  # type: ignore[arg-type]  # the error is what is tested
    with pytest.raises(TraceError, match=r"glassformer\.load\('toy'\) opens a model"):
        trace("toy", "I am happy")  # type: ignore[arg-type]  # the error is what is tested
    with pytest.raises(TraceError, match="missing a required argument: 'input'"):
        trace(small_model())


def test_another_device() -> None:
    with pytest.raises(TraceError, match=r"input x is on the device meta and has no numbers"):
        trace(lambda x: x + 1, torch.ones(2, device="meta"))
    with pytest.raises(TraceError, match=r"parameter weight is on the device meta"):
        trace(nn.Linear(2, 2, device="meta"), torch.ones(1, 2))


def test_unknown_step_and_cell() -> None:
    traced = trace(small_model(), torch.ones(1, 3))
    with pytest.raises(UnknownNameError, match=r"unknown step '3.wait'; did you mean '3.weight'"):
        _ = traced["3.wait"]
    assert "3.weight" in traced._ipython_key_completions_()
    with pytest.raises(TraceError, match=r"has no cell \[0, 7\]: its shape is \(1, 4\)"):
        _ = traced["0"][0, 7]
    with pytest.raises(TraceError, match=r"cell \[0, 0, 0\]: .* \(1, 4\), so a cell has 2 indices"):
        _ = traced["0"][0, 0, 0]
    with pytest.raises(TraceError, match=r"cell \[1\]: .* \(2, 3\), so a cell has 2 indices$"):
        _ = find_cell(trace(torch.exp, torch.ones(2, 3)), "output[1]")
    with pytest.raises(TraceError, match=r"cell \[0, 1\]: .* \(3,\), so a cell has 1 index$"):
        _ = trace(torch.exp, torch.ones(3)).outputs["output"][0, 1]


def test_a_trace_within_a_trace_is_refused() -> None:
    with pytest.raises(TraceError, match="cannot start another trace"):
        trace(lambda x: trace(torch.exp, x).outputs["output"].value, torch.ones(1))


class Deep(nn.Module):
    def __init__(self, layers: int) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(nn.Linear(64, 64) for _ in range(layers))
        self.ran = 0

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            self.ran += 1
            x = block(x)
        return x


def test_a_trace_beyond_the_memory_budget_is_refused_after_one_block(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """For models that cannot run on the meta device."""
    monkeypatch.setattr(record, "forecast", lambda *_: None)
    model = Deep(50)
    with pytest.raises(TraceError, match=r"with 50 blocks like blocks.0 about .*max_bytes="):
        trace(model, torch.ones(64, 64), max_bytes=20 * 64 * 64 * 4)
    assert model.ran == 1
    assert len(trace(Deep(50), torch.ones(64, 64), max_bytes=51 * 64 * 64 * 4).steps) == 50


def test_the_memory_budget_without_blocks() -> None:
    with pytest.raises(TraceError, match="shorter text"):
        trace(lambda x: (x @ x) @ x, torch.ones(64, 64), max_bytes=20_000)


def test_tensors_made_elsewhere_are_constants() -> None:
    outside = torch.tensor([2.0, 3.0])

    class Holder(nn.Module):
        steps: Tensor

        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("steps", torch.ones(2))
            self.plain = torch.ones(2) * 4

        def forward(self, x: Tensor) -> Tensor:
            factor = torch.tensor(10.0)
            y = x * outside + self.steps
            return y + self.plain * factor

    traced = trace(Holder(), torch.ones(2))
    assert set(traced.constants) == {"steps", "plain", "constant", "factor"}
    assert traced["constant"].value.tolist() == [2, 3]
    assert traced.verify().ok


def test_random_numbers_are_constants_and_dropout_is_shown_around_them() -> None:
    torch.manual_seed(1)
    traced = trace(lambda x: F.dropout(x, 0.5, training=True) * 2, torch.ones(50))
    drawn = [step for step in traced.steps if step.role == "constant"]
    assert [step.op for step in drawn] == ["empty_like", "bernoulli"]
    assert traced.verify().ok
    last = traced.outputs["output"][0].path()
    assert last[-1].name == "x[0]"
    edited = traced.edit({("x", 0): 3.0})
    assert edited.outputs["output"].value[1:].equal(traced.outputs["output"].value[1:])


def test_an_operator_without_a_rule_is_shown_as_opaque() -> None:
    traced = trace(lambda x: torch.linalg.inv(x) + 1, torch.eye(2) * 2)
    opaque = [step for step in traced.steps if step.is_opaque]
    assert [step.op for step in opaque] == ["linalg_inv_ex", "linalg_inv_ex"]
    report = traced.verify()
    assert report.opaque == [step.name for step in opaque]
    assert report.ok
    assert "no rule for linalg_inv_ex; made from x" in opaque[0][0, 0].explain()


def test_several_threads() -> None:
    results: list[list[str]] = []

    def work() -> None:
        traced = trace(small_model(), torch.ones(1, 3))
        results.append([step.name for step in traced.steps])

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 4
    assert all(result == results[0] for result in results)


def test_grad_mode_and_inference_mode_outside_do_not_matter() -> None:
    model = small_model()
    x = torch.randn(1, 3, requires_grad=True)
    with torch.enable_grad():
        inside = trace(model, x)
    assert inside.verify().ok
    with torch.inference_mode():
        y = torch.randn(1, 3)
        assert trace(model, y).verify().ok


def test_bfloat16_and_float64_models() -> None:
    x = torch.randn(1, 3)
    for dtype in (torch.bfloat16, torch.float64, torch.float16):
        report = trace(small_model().to(dtype), x.to(dtype)).verify()
        assert report.ok, str(report)
