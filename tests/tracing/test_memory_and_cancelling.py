"""The memory limit of a trace, when its memory is freed, and how a trace is cancelled."""

import gc
import sys
import threading
import weakref
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from glassformer.errors import CancelledError, TraceError
from glassformer.tracing import Trace, cancelled_by, replay, trace
from glassformer.tracing.capture import record, recorder
from glassformer.tracing.capture.record import forecast
from glassformer.tracing.capture.recorder import Program


class Attentive(nn.Module):
    """An encoder with fused attention, a lazily filled table and a counter of its runs."""

    def __init__(self, blocks: int = 3) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, blocks, enable_nested_tensor=False)
        self.table: Tensor | None = None
        self.runs = 0

    def forward(self, x: Tensor) -> Tensor:
        self.runs += 1
        if self.table is None:
            self.table = torch.arange(x.shape[1], dtype=x.dtype, device=x.device)[:, None]
        position = torch.zeros(x.shape[1], 1)
        position[:] = self.table / x.shape[1]
        y: Tensor = self.encoder(x + position)
        return y


class Deciding(nn.Module):
    """A model whose control flow depends on its numbers: it cannot run on the meta device."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(64, 64)
        self.runs = 0

    def forward(self, x: Tensor) -> Tensor:
        self.runs += 1
        while x.sum() < 1e30:
            x = self.linear(x) + x.abs() + 1
        return x


def kept_bytes(traced: Trace) -> int:
    """The bytes that a trace keeps, counting each version of a storage once."""
    views = [view for call in traced.recording.calls for view in call.outputs if view is not None]
    return sum({id(view.version): view.version.nbytes for view in views}.values())


@pytest.mark.parametrize("given", ["written in place", "fused", "without a batch"])
def test_the_forecast_is_what_the_run_keeps(given: str) -> None:
    model: nn.Module = Attentive() if given == "written in place" else Attentive().encoder
    x = torch.randn(9, 16) if given == "without a batch" else torch.randn(2, 9, 16)
    expected = forecast(Program(model, (x,), {}, 0), model)
    assert expected is not None
    assert expected.kept == expected.peak == kept_bytes(trace(model, x)) > 20_000


def test_a_trace_that_is_too_large_is_refused_before_it_is_made() -> None:
    model, x = Attentive(), torch.randn(2, 9, 16)
    before = torch.get_rng_state()
    match = r"needs about 0 MiB, more than the limit of 0 MiB: use a shorter"
    with pytest.raises(TraceError, match=match):
        trace(model, x, max_bytes=10_000)
    assert model.runs == 0
    assert model.table is None
    assert model.training
    assert torch.equal(before, torch.get_rng_state())
    assert trace(model, x).steps


class DrawingElsewhere(nn.Linear):
    """Another thread draws random numbers meanwhile, as a training run does."""

    def forward(self, x: Tensor) -> Tensor:
        other = threading.Thread(target=torch.rand, args=(3,))
        other.start()
        other.join()
        return super().forward(torch.dropout(x, 0.5, True) + torch.rand(x.shape))


def test_a_forecast_leaves_the_rng_alone() -> None:
    model = DrawingElsewhere(4, 4)
    torch.manual_seed(5)
    torch.rand(3)
    expected = torch.rand(4)
    torch.manual_seed(5)
    assert forecast(Program(model, (torch.ones(2, 4),), {}, 0), model)
    assert torch.equal(torch.rand(4), expected)


def test_a_forecast_waits_for_other_recordings() -> None:
    model = Attentive()
    program = Program(model, (torch.randn(2, 9, 16),), {}, 0)
    waiting = threading.Thread(target=forecast, args=(program, model))
    with recorder.ONE_AT_A_TIME:
        waiting.start()
        waiting.join(0.3)
        assert waiting.is_alive() and model.training
    waiting.join(20)
    assert model.training and model.table is None


def test_a_forecast_does_not_disturb_other_users_of_the_model() -> None:
    model = Attentive()
    program = Program(model, (torch.randn(2, 9, 16),), {}, 0)
    attributes = [vars(module) for module in model.modules()]
    kept = [set(names) for names in attributes]
    missing: list[str] = []
    done = threading.Event()

    def look() -> None:
        while not done.is_set():
            for names, expected in zip(attributes, kept, strict=True):
                missing.extend(expected - set(names))

    switching = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    other = threading.Thread(target=look)
    other.start()
    try:
        for _ in range(20):
            forecast(program, model)
    finally:
        done.set()
        other.join()
        sys.setswitchinterval(switching)
    assert missing == []


def test_a_model_that_reads_its_numbers_is_checked_during_the_run() -> None:
    model = Deciding()
    with pytest.raises(TraceError, match="needs already"):
        trace(model, torch.ones(8, 64), max_bytes=50_000)
    assert model.runs == 1


def test_small_models_are_not_run_beforehand(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Program] = []
    monkeypatch.setattr(record, "forecast", lambda program, _root: asked.append(program))
    trace(Attentive(), torch.randn(1, 5, 16))
    assert asked == []
    trace(Attentive(), torch.randn(1, 5, 16), max_bytes=100_000)
    assert len(asked) == 1


def test_a_cell_keeps_the_trace_that_it_belongs_to() -> None:
    """A cell can be explained without a separate reference to its trace."""
    cell = trace(Attentive(), torch.randn(1, 5, 16))["encoder.layers.1.linear1"][0, 2, 3]
    gc.collect()
    assert cell.operands[0].step.trace is cell.step.trace
    assert cell.step[0, 2, 3] == cell
    assert cell.path()[-1].role in ("parameter", "input")


@pytest.mark.parametrize("function", [torch.rot90, torch.fft.rfft], ids=["moves", "weights"])
def test_what_a_rule_remembers_of_a_step_does_not_keep_its_trace(
    function: Callable[[Tensor], Tensor],
) -> None:
    t = trace(function, torch.randn(4, 4))
    assert t.verify().ok
    held = weakref.ref(t)
    del t
    gc.collect()
    assert held() is None


def test_a_closed_trace_gives_its_memory_back_at_once() -> None:
    model, x = Attentive().eval(), torch.randn(1, 5, 16)
    gc.disable()
    try:
        traced = trace(model, x)
        model.table = None  # the model itself holds on to this one
        edited = traced.edit({("encoder.layers.1.linear1", (0, 2, 3)): 0.5})
        kept = [weakref.ref(t[s.name].view.version.storage) for t in (traced, edited) for s in t]
        assert traced["encoder.layers.0.linear1"][0, 0, 0].explain()  # fills caches
        traced.close()
        with pytest.raises(TraceError, match="was closed"):
            traced["output"]
        del traced
        assert edited.verify(sample=200).ok
        edited.close()
        del edited
        assert [storage for storage in kept if storage() is not None] == []
    finally:
        gc.enable()


def stopping_after(count: int) -> Callable[[], bool]:
    asked = iter(range(count))
    return lambda: next(asked, None) is None


def test_a_trace_is_cancelled_between_two_operators() -> None:
    model, x = Attentive().eval(), torch.randn(1, 5, 16)
    with pytest.raises(CancelledError, match="cancelled"), cancelled_by(stopping_after(10)):
        trace(model, x)
    traced = trace(model, x)  # the question ends with its block, and nothing is left behind
    assert torch.backends.mha.get_fastpath_enabled()
    with pytest.raises(CancelledError), cancelled_by(stopping_after(5)):
        replay(traced)
    with pytest.raises(CancelledError), cancelled_by(stopping_after(5)):
        traced.edit({("x", (0, 0, 0)): 1.0})
    with pytest.raises(CancelledError), cancelled_by(lambda: True):
        traced.verify(sample=10)
    assert replay(traced).verify(sample=50).ok


def test_a_trace_is_cancelled_from_another_thread() -> None:
    started, stop = threading.Event(), threading.Event()
    raised: list[Exception] = []

    def endless(x: Tensor) -> Tensor:
        while True:
            x = x * 0.5
            started.set()

    def work() -> None:
        with cancelled_by(stop.is_set):
            try:
                trace(endless, torch.ones(2))
            except CancelledError as error:
                raised.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    assert started.wait(60)
    stop.set()
    thread.join(60)
    assert raised
    assert not thread.is_alive()


def test_a_capture_leaves_the_garbage_collection_as_it_was() -> None:
    seen: list[bool] = []

    def function(x: Tensor) -> Tensor:
        seen.append(gc.isenabled())
        return x + 1

    trace(function, torch.ones(2))
    assert gc.isenabled()
    with pytest.raises(ZeroDivisionError):
        trace(lambda x: x + 1 / 0, torch.ones(2))
    assert gc.isenabled()
    gc.disable()
    try:
        trace(function, torch.ones(2))
        assert not gc.isenabled()
    finally:
        gc.enable()
    assert seen == [False, False]


def test_a_pause_that_ends_while_another_begins_leaves_the_garbage_collection_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first = recorder.collection_paused()
    first.__enter__()
    ends = threading.Thread(target=first.__exit__, args=(None, None, None))
    is_enabled = gc.isenabled

    def asked() -> bool:
        found = is_enabled()
        ends.start()
        ends.join(0.1)
        return found

    try:
        with monkeypatch.context() as patch:
            patch.setattr(gc, "isenabled", asked)
            with recorder.collection_paused():
                pass
        ends.join(60)
        assert gc.isenabled()
    finally:
        gc.enable()
