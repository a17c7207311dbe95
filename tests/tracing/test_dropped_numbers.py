"""`only=`: numbers that a trace does not keep are computed again, to the same bits."""

import threading

import pytest
import torch
from torch import Tensor, nn

from glassformer.errors import TraceError, TraceTooLargeError, UnknownNameError
from glassformer.nn import build
from glassformer.nn.attention import set_attention
from glassformer.tasks.forward_pass import Pass
from glassformer.tracing import Trace, estimate, trace
from glassformer.tracing.capture import dropped_numbers

IDS = torch.arange(9)[None]
BLOCK = "decoder.blocks"


def language_model() -> nn.Module:
    torch.manual_seed(0)
    model = build("gpt2", n_layers=4, d_model=16, n_heads=2, d_ff=32, vocab_size=30, max_len=16)
    set_attention(model, "written")
    return model.eval()


def llama() -> nn.Module:
    transformers = pytest.importorskip("transformers")
    config = transformers.LlamaConfig(
        hidden_size=32, intermediate_size=48, num_hidden_layers=3, num_attention_heads=4,
        num_key_value_heads=2, vocab_size=40, use_cache=False,
    )  # fmt: skip
    torch.manual_seed(0)
    model: nn.Module = transformers.LlamaForCausalLM(config)
    return model.eval()


class Careless(nn.Module):
    """Random numbers, a write in place and a question in each block, and a tensor kept outside."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(nn.Linear(8, 8) for _ in range(3))
        self.seen: list[Tensor] = []

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            noisy = block(x) + torch.rand(8)
            noisy[:, 0] = 0.0
            if noisy.sum() > 1e6:
                noisy = noisy.neg()
            self.seen.append(noisy.exp())
            x = noisy + self.seen[-1].tanh()
        return x


def kept(traced: Trace) -> int:
    versions = {id(step.view.version): step.view.version for step in traced.steps}
    return sum(version.nbytes for version in versions.values() if version.is_kept)


def same(one: Trace, other: Trace) -> bool:
    assert one.names == other.names
    return all(torch.equal(one[name].value, other[name].value) for name in one.names)


@pytest.mark.parametrize(
    ("make", "only"), [(language_model, "decoder.blocks.2"), (llama, "model.layers.1")]
)
def test_numbers_that_were_dropped_come_back_to_the_bit(make: object, only: str) -> None:
    assert callable(make)
    model = make()
    whole, part = trace(model, IDS), trace(model, IDS, only=[only])
    assert kept(part) < 0.6 * kept(whole)
    assert any("computed again" in note for note in part.notes)
    for step in part.steps:
        inside = step.module == only or step.module.startswith(f"{only}.")
        assert step.view.version.is_kept or not inside
    assert same(whole, part)
    assert part.verify(300).ok
    assert part.stages.keys() == whole.stages.keys()


@pytest.mark.parametrize(
    "first", ["decoder.blocks.0.attention.scores", "decoder.blocks.2.attention.scores"]
)
def test_edits_of_what_is_kept_and_of_what_is_not(first: str) -> None:
    model = language_model()
    whole, part = trace(model, IDS), trace(model, IDS, only=["decoder.blocks.2"])
    for edits in (
        {first: {(0, 1): 0.5}},
        {"decoder.blocks.1.attention.weights": {(0, 0, 3): 0.25}},
    ):
        whole, part = whole.edit(edits), part.edit(edits)
        assert same(whole, part)
    assert kept(part) < 0.7 * kept(whole)


class Deciding(nn.Module):
    """A layer that branches on one of its numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.inner(x)
        return x + y * (2 if y[0, 0] > 0 else 3)


class Stack(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([Deciding(), Deciding()])

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


def test_an_edit_that_reruns_the_model_keeps_what_it_has_set() -> None:
    torch.manual_seed(0)
    traced = trace(Stack(), torch.randn(2, 3), only=[])
    for sign in (1.0, -1.0):  # one of the two changes the branch
        edited = traced.edit({"layers.0.y": sign})
        assert torch.equal(edited["layers.0.y"].value, torch.full((2, 3), sign))
        assert edited.verify().ok


def test_what_cannot_be_repeated_is_kept() -> None:
    model = Careless()
    torch.manual_seed(1)
    whole = trace(model, torch.ones(2, 8), compare=False)
    torch.manual_seed(1)
    part = trace(model, torch.ones(2, 8), only=["blocks.1"], compare=False)
    model.seen.clear()
    assert same(whole, part)
    assert same(whole.edit({"rand": 0.5}), part.edit({"rand": 0.5}))


def test_a_small_shelf_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dropped_numbers, "_SHELF_BYTES", 100)
    model = language_model()
    whole, part = trace(model, IDS), trace(model, IDS, only=[])
    assert same(whole, part)


def test_several_threads_ask_at_once() -> None:
    model = language_model()
    whole, part = trace(model, IDS), trace(model, IDS, only=["decoder.blocks.3"])
    wrong: list[str] = []

    def look() -> None:
        wrong.extend(n for n in whole.names if not torch.equal(whole[n].value, part[n].value))

    threads = [threading.Thread(target=look) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


@pytest.mark.parametrize("make", [language_model, llama])
@pytest.mark.parametrize("blocks", [None, 1])
def test_the_estimate_is_what_the_trace_keeps(make: object, blocks: int | None) -> None:
    assert callable(make)
    model = make()
    stack = "model.layers" if make is llama else "decoder.blocks"
    only = None if blocks is None else [f"{stack}.{blocks}"]
    told = estimate(model, IDS, only=only)
    versions = {
        id(view.version): view.version.nbytes
        for call in trace(model, IDS, only=only).recording.calls
        for view in call.outputs
        if view is not None and view.version.is_kept
    }
    assert told.kept == sum(versions.values())
    assert told.peak == told.kept if only is None else told.peak < estimate(model, IDS).peak


def test_a_trace_within_the_limit_by_keeping_less() -> None:
    model = language_model()
    most = estimate(model, IDS, only=["decoder.blocks.0"]).peak
    with pytest.raises(TraceError, match=r"keep the numbers of some modules alone with only="):
        trace(model, IDS, max_bytes=most)
    assert trace(model, IDS, max_bytes=most, only=["decoder.blocks.0"]).steps


def test_bad_requests_are_named() -> None:
    model = language_model()
    with pytest.raises(UnknownNameError, match=r"decoder\.blocks\.9"):
        trace(model, IDS, only=["decoder.blocks.9"])
    with pytest.raises(TraceError, match="only= is a list of paths of modules, got 'decoder'"):
        trace(model, IDS, only="decoder")
    with pytest.raises(TraceError, match="only= names modules, and a function has none"):
        trace(torch.relu, torch.ones(2), only=["x"])
    with pytest.raises(TraceError, match="expected a module, got relu"):
        estimate(torch.relu, torch.ones(2))  # type: ignore[arg-type]


def test_a_model_that_is_too_large_is_traced_all_the_same() -> None:
    model = language_model()
    whole = trace(model, IDS)
    part = Pass(model, (IDS,)).trace(estimate(model, IDS, only=()).peak)
    assert kept(part) < kept(whole)
    assert same(whole, part)
    with pytest.raises(TraceTooLargeError, match="more than the limit"):
        Pass(model, (IDS,)).trace(100)
