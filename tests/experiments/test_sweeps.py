"""Sweeps: many replays at once are those one by one, and an interrupted one goes on."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from glassformer import build
from glassformer.errors import TraceError, UnknownNameError
from glassformer.experiments import ablate, average, difference, patch, sweep
from glassformer.experiments.batched_replay import BatchedReplay, NotBatchedError
from glassformer.experiments.intervention import StepPart, patching
from glassformer.tracing import Trace, trace
from tests.experiments.conftest import IDS, MODELS, OTHER, made


def asked(run: Trace) -> Any:
    logits = run["logits"]
    last = () if len(logits.shape) == 2 else (-1,)
    return difference(logits[(0, *last, 2)], logits[(0, *last, 1)])


@pytest.mark.parametrize("name", list(MODELS))
@pytest.mark.parametrize("over", ["position", "head"])
def test_places_replayed_together_are_those_one_by_one(name: str, over: Any) -> None:
    model = made(name)
    one, other = trace(model, IDS), trace(model, OTHER)
    assert BatchedReplay(asked(one)).most > 5
    together = sweep(one, other, measure=asked(one), over=over)
    apart = sweep(one, other, measure=asked, over=over)
    torch.testing.assert_close(together.values, apart.values, rtol=1e-10, atol=1e-12)
    assert together.values.unique().numel() > 4
    without = sweep(one, measure=asked(one), over=over)
    wanted = sweep(one, measure=asked, over=over)
    torch.testing.assert_close(without.values, wanted.values, rtol=1e-10, atol=1e-12)
    assert together.cell(1, 1).value == pytest.approx(float(together.values[1, 1]), rel=1e-10)


def test_in_float32_the_difference_is_rounding() -> None:
    model = made("gpt2").float()
    one, other = trace(model, IDS), trace(model, OTHER)
    together = sweep(one, other, measure=one["logits"][0, -1, 5])
    apart = sweep(one, other, measure=lambda run: run["logits"][0, -1, 5])
    scale = float(one["logits"].value.abs().max())
    assert float((together.values - apart.values).abs().max()) < 100 * 2**-24 * scale


def test_a_number_that_decides_is_replayed_one_by_one() -> None:
    """A branch of the model's own: each place takes its own way."""

    class Branching(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = made("gpt2")

        def forward(self, ids: Tensor) -> Tensor:
            logits: Tensor = self.model(ids).logits
            return logits * 2 if logits[0, -1, 5] > 0 else logits * 3

    one, other = trace(Branching(), IDS), trace(Branching(), OTHER)
    cell = one.outputs["output"][0, -1, 5]
    part = StepPart("model.transformer.h.1.resid_pre", position=1)
    with pytest.raises(NotBatchedError):
        BatchedReplay(cell).values([patching(one, other, part)])
    found = sweep(one, other, measure=cell)
    apart = sweep(one, other, measure=lambda run: run.outputs["output"][0, -1, 5])
    assert torch.equal(found.values, apart.values)


def test_a_sweep_of_means_over_a_data_set() -> None:
    model = made("gpt2")
    run, others = trace(model, IDS), [trace(model, OTHER), trace(model, IDS)]
    found = sweep(run, measure=asked(run), over="head", to="mean", runs=others)
    one = ablate(run, "transformer.h.1.attn", head=1, to="mean", over=others)
    assert float(found.values[1, 1]) == pytest.approx(float(asked(one).value), rel=1e-10)


def test_an_interrupted_sweep_goes_on_where_it_stopped(tmp_path: Path) -> None:
    model = made("gpt2")
    one, other = trace(model, IDS), trace(model, OTHER)
    store = tmp_path / "sweep.jsonl"

    def stop_after(count: int) -> Callable[[int, int], None]:
        def progress(done: int, _: int) -> None:
            if done >= count:
                raise KeyboardInterrupt

        return progress

    with pytest.raises(KeyboardInterrupt):
        sweep(one, other, measure=asked, progress=stop_after(7), store=store)
    assert len(store.read_text().splitlines()) == 8
    store.write_text(store.read_text() + '{"row": 1, "col')  # torn off by a crash
    said: list[int] = []
    found = sweep(
        one, other, measure=asked, progress=lambda done, _: said.append(done), store=store
    )
    assert said == list(range(8, 16))
    assert torch.equal(found.values, sweep(one, other, measure=asked).values)
    assert torch.equal(found.values, sweep(one, other, measure=asked, store=store).values)
    with pytest.raises(TraceError, match="holds another sweep than this one"):
        sweep(one, measure=asked, store=store)
    store.write_text("no json\n")
    with pytest.raises(TraceError, match="is not a file of a sweep"):
        sweep(one, measure=asked, store=store)


def test_a_bar_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    run = trace(made("gpt2"), IDS)
    sweep(run, measure=asked(run), over="head", progress=True)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "6/6" in shown.err
    assert shown.err.endswith("\n")


def test_an_encoder_decoder_has_positions_of_two_lengths() -> None:
    class Pair(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.model = nn.Transformer(8, 2, 1, 2, 16, batch_first=True, dtype=torch.float64)

        def forward(self, source: Tensor, target: Tensor) -> Tensor:
            out: Tensor = self.model(source, target)
            return out

    source, target = (torch.randn(1, n, 8, dtype=torch.float64) for n in (4, 3))
    run = trace(Pair(), source, target)
    cell = run.outputs["output"][0, 0, 0]
    found = sweep(run, measure=cell)
    assert found.values.shape == (3, 4)
    assert found.values[1:, 3].isnan().all()
    assert len(found.rows()) == 4 + 2 * 3
    with pytest.raises(TraceError, match="has no place"):
        found.trace(1, 3)


def test_resampling_draws_a_run_of_the_same_length() -> None:
    model = made("gpt2")
    short = trace(model, IDS[:, :3])
    run, other = trace(model, IDS), trace(model, OTHER)
    name = "transformer.h.1.resid_mid"
    found = ablate(run, name, to="resample", over=[short, other])
    assert torch.equal(found["logits"].value, patch(run, other, name)["logits"].value)
    drawn = {
        float(ablate(run, name, to="resample", over=[run, other], seed=s)["logits"].value.sum())
        for s in range(8)
    }
    assert len(drawn) == 2
    with pytest.raises(TraceError, match="no run of over has"):
        ablate(run, name, to="resample", over=[short])


def test_a_direction_is_taken_out_and_the_rest_stays() -> None:
    model = made("gpt2")
    run, other = trace(model, IDS), trace(model, OTHER)
    name = "transformer.h.1.resid_mid"
    direction = torch.randn(8, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    unit = direction / direction.norm()
    before = run[name].value
    without = ablate(run, name, direction=direction)[name].value
    torch.testing.assert_close(without, before - (before @ unit)[..., None] * unit)
    assert float((without @ unit).abs().max()) < 1e-12
    set_to = ablate(run, name, direction=direction, to=3.0, position=2)[name].value
    assert float(set_to[0, 2] @ unit) == pytest.approx(3.0)
    assert torch.equal(set_to[0, 1], before[0, 1])
    mean = ablate(run, name, direction=direction, to="mean", over=[run, other])[name].value
    wanted = torch.cat([before, other[name].value]) @ unit
    assert float((mean @ unit - wanted.mean()).abs().max()) < 1e-12
    with pytest.raises(TraceError, match="is a vector of 8 numbers"):
        ablate(run, name, direction=torch.ones(5))


def test_each_vector_may_have_a_number_of_its_own_along_a_direction() -> None:
    run, name = trace(made("gpt2"), IDS), "transformer.h.1.resid_mid"
    unit = torch.zeros(8, dtype=torch.float64)
    unit[3] = 1.0
    wanted = torch.arange(float(run[name].shape[1]), dtype=torch.float64)
    changed = ablate(run, name, direction=unit, to=wanted)[name].value
    torch.testing.assert_close(changed[0, :, 3], wanted)
    assert torch.equal(changed[..., :3], run[name].value[..., :3])
    for wrong in (torch.ones(2), torch.ones(8), run[name].value, None, ["a"]):
        with pytest.raises(TraceError, match=r"to is a number, or a tensor that broadcasts to"):
            ablate(run, name, direction=unit, to=wrong)  # type: ignore[arg-type]  # what is tested


def test_what_cannot_be_swept_is_named(tmp_path: Path) -> None:
    run = trace(made("gpt2"), IDS)
    with pytest.raises(UnknownNameError, match="did you mean 'position'"):
        sweep(run, measure=asked, over="positions")  # type: ignore[arg-type]
    with pytest.raises(TraceError, match="cells of two traces"):
        difference(run["logits"][0, 0, 0], trace(made("gpt2"), IDS)["logits"][0, 0, 0])
    with pytest.raises(TraceError, match="what is asked about is a cell"):
        sweep(run, measure=5)  # type: ignore[arg-type]
    for place in (tmp_path, tmp_path / "nowhere" / "sweep.jsonl"):
        with pytest.raises(TraceError, match="a sweep is stored in a file"):
            sweep(run, measure=asked, store=place)


@pytest.mark.parametrize(
    "content",
    [b"my notes", b"my notes\nand more", b"\xff\xfe", b"[" * 100_000, b"5\n", b"{}\n", b"\n"],
)
def test_a_file_that_is_no_store_is_left_as_it_is(content: bytes, tmp_path: Path) -> None:
    run = trace(made("gpt2"), IDS)
    store = tmp_path / "notes.txt"
    store.write_bytes(content)
    with pytest.raises(TraceError, match=r"not a file of a sweep|holds another sweep"):
        sweep(run, measure=asked(run), over="head", store=store)
    assert store.read_bytes() == content


@pytest.mark.parametrize(
    "line",
    ["5", "{}", '{"row": 99, "column": 0, "value": 1}', '{"row": -1, "column": 0, "value": 1}',
     '{"row": 0, "column": 0, "value": "x"}', '{"row": 0.5, "column": 0, "value": 1}',
     '{"row": 0, "column": 0, "value": true}', f'{{"row": 0, "column": 0, "value": {10**400}}}'],
)  # fmt: skip
def test_a_line_of_a_store_that_cannot_be_is_refused(line: str, tmp_path: Path) -> None:
    run = trace(made("gpt2"), IDS)
    store = tmp_path / "heads.jsonl"
    sweep(run, measure=asked(run), over="head", store=store)
    store.write_text(f"{store.read_text()}{line}\n")
    with pytest.raises(TraceError, match="not a file of a sweep"):
        sweep(run, measure=asked(run), over="head", store=store)


def test_the_store_is_lines_of_json(tmp_path: Path) -> None:
    run = trace(made("gpt2"), IDS)
    store = tmp_path / "heads.jsonl"
    found = sweep(run, measure=asked(run), over="head", store=store)
    header, *lines = [json.loads(line) for line in store.read_text().splitlines()]
    assert header["over"] == "head"
    assert lines[3]["value"] == float(found.values[1, 1])


def test_the_measured_step_itself_is_swept() -> None:
    """A linear map's own cell: what it was set to where it is ablated, else as it was."""
    run = trace(made("llama"), IDS)
    name = run.stages["model.layers.1.mlp_out"].name
    cell = run[name][0, 2, 3]
    together = sweep(run, measure=cell, stage="mlp_out").values
    apart = sweep(run, measure=lambda other: other[name][0, 2, 3], stage="mlp_out").values
    torch.testing.assert_close(together, apart, rtol=1e-10, atol=1e-12)
    assert together[1].tolist() == [float(cell.value)] * 2 + [0.0] + [float(cell.value)] * 2


def test_a_difference_of_a_linear_map_and_what_follows_from_it() -> None:
    run = trace(made("llama"), IDS)
    name = run.stages["model.layers.1.mlp_out"].name

    def gap(other: Trace) -> Any:
        return difference(other["logits"][0, -1, 5], other[name][0, 2, 3])

    together, apart = sweep(run, measure=gap(run)).values, sweep(run, measure=gap).values
    torch.testing.assert_close(together, apart, rtol=1e-10, atol=1e-12)


def test_a_layer_that_runs_again_is_swept_each_time() -> None:
    """ALBERT's one layer, written out as a loop in which a position is zero at one of its calls."""
    model = made("albert")
    run = trace(model, IDS)
    found = sweep(run, measure=run["logits"][0, 2])
    layer = model.albert.encoder.albert_layer_groups[0].albert_layers[0]
    wanted = torch.zeros(3, IDS.shape[1], dtype=torch.float64)
    for call in range(3):
        for position in range(IDS.shape[1]):
            calls = iter(range(3))

            def hook(_: nn.Module, args: Any, call: int = call, at: int = position) -> Any:
                if next(calls) != call:  # noqa: B023 - run at once
                    return args
                changed = args[0].clone()
                changed[:, at] = 0
                return (changed, *args[1:])

            handle = layer.register_forward_pre_hook(hook)
            with torch.no_grad():
                wanted[call, position] = model(IDS).logits[0, 2]
            handle.remove()
    torch.testing.assert_close(found.values, wanted, rtol=1e-9, atol=1e-12)
    assert sweep(run, measure=run["logits"][0, 2], over="head").values.shape == (3, 2)


def test_of_texts_of_different_lengths_the_common_positions_are_patched() -> None:
    torch.manual_seed(0)
    model = build("gpt2", vocab_size=20, d_model=8, n_heads=2, n_layers=2).double()
    longer, shorter = (trace(model, torch.randint(20, (1, size))) for size in (5, 3))
    cell = longer.outputs["output"][0, -1, 7]
    found = sweep(longer, shorter, measure=cell)
    assert found.values.shape == (2, 5)
    assert bool(found.values[:, 3:].isnan().all())
    layer = found.layers[1]
    patched = patch(longer, shorter, layer, position=2).outputs["output"][0, -1, 7].value
    assert float(found.values[1, 2]) == pytest.approx(patched, abs=1e-12)
    only = sweep(longer, shorter, measure=cell, layers=[layer])
    assert torch.allclose(only.values[0, :3], found.values[1, :3], atol=1e-12)
    with pytest.raises(UnknownNameError, match="unknown layer"):
        sweep(longer, measure=cell, layers=["layers.9.resid_pre"])


def test_a_head_of_a_layer_that_runs_again_is_off_at_every_call() -> None:
    model = made("albert")
    attention = model.albert.encoder.albert_layer_groups[0].albert_layers[0].attention
    run = trace(model, IDS)
    name = "albert.encoder.albert_layer_groups.0.albert_layers.0.attention"
    width = attention.dense.in_features // 2

    def off(_: nn.Module, args: Any) -> Any:
        changed = args[0].clone()
        changed[..., width:] = 0
        return (changed,)

    handle = attention.dense.register_forward_pre_hook(off)
    with torch.no_grad():
        wanted = model(IDS).logits
    handle.remove()
    found = ablate(run, name, head=1)["logits"].value
    torch.testing.assert_close(found, wanted, rtol=1e-9, atol=1e-12)


def test_the_mean_over_texts_and_what_is_recovered() -> None:
    model = made("gpt2")
    clean = [trace(model, ids) for ids in (IDS, IDS.flip(1), IDS.roll(1, 1))]
    corrupted = [trace(model, ids) for ids in (OTHER, OTHER.flip(1), OTHER.roll(2, 1))]
    pairs = list(zip(corrupted, clean, strict=True))
    found = [sweep(one, other, measure=one["logits"][0, -1, 5]) for one, other in pairs]
    whole = found[0].recovered
    torch.testing.assert_close(whole, found[0].effects / (found[0].there - found[0].before))  # type: ignore[operator]
    everything = patch(corrupted[0], clean[0], "transformer.h.0.resid_pre")
    assert float(everything["logits"][0, -1, 5].value) == pytest.approx(found[0].there)
    mean = average(found)
    effects = torch.stack([one.effects for one in found])
    torch.testing.assert_close(mean.values, effects.mean(0))
    torch.testing.assert_close(mean.deviations, effects.std(0))
    assert mean.cell(2, 1, 3).value == pytest.approx(float(found[2].values[1, 3]), rel=1e-6)
    assert mean.rows()[7]["mean"] == float(mean.values[1, 2])
    assert average(found[:1]).deviations.isnan().all()
    short = trace(model, IDS[:, :3])
    with pytest.raises(TraceError, match="take texts of the same number of tokens"):
        average([found[0], sweep(short, measure=short["logits"][0, -1, 5])])
    with pytest.raises(TraceError, match="an average is over sweeps"):
        average([])
    with pytest.raises(TraceError, match="nothing is recovered here"):
        sweep(short, measure=short["logits"][0, -1, 5]).recovered  # noqa: B018
    assert sweep(corrupted[0], short, measure=corrupted[0]["logits"][0, -1, 5]).there is None
