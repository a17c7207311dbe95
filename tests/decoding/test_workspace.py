"""What a model keeps from batch to batch: buffers and graphs, renewed, bounded and freed."""

import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch

from glassformer.decoding import Beam, Decoded, translate
from glassformer.decoding.fast import cuda_graphs
from glassformer.decoding.fast.cuda_graphs import StepShape, release
from glassformer.decoding.fast.graph_stepper import GraphStepper
from glassformer.decoding.fast.shared_cache import SharedCacheStepper
from glassformer.nn import set_attention
from tests.decoding.recording_again import RunAgain, same
from tests.decoding.tiny import END, START, language_model, sources, translator


def test_a_sequence_that_outgrows_its_buffers_moves_to_larger_ones(
    recording: Callable[[], None],
) -> None:
    """More positions in use than the 64 there are at first, with a large beam."""
    model = translator(vocab_size=30)
    read = sources(3, vocab_size=30)

    def decode() -> list[Decoded]:
        search = Beam(size=12, stop="exact")
        return translate(model, read, start=START, end=None, search=search, max_new=39)

    expected = decode()
    recording()
    same(decode(), expected)
    assert cuda_graphs._idle[model].size.n_keys > 64


def test_a_model_keeps_one_workspace_and_its_recordings(recording: Callable[[], None]) -> None:
    model, read = translator(), sources(6)

    def decode() -> list[Decoded]:
        return translate(model, read, start=START, end=None, search=Beam(size=2), max_new=12)

    recording()
    decode()
    kept, n_recorded = cuda_graphs._idle[model], RunAgain.n_recorded
    decode()
    assert cuda_graphs._idle[model] is kept
    assert RunAgain.n_recorded == n_recorded > 0


def test_changed_weights_are_used_and_moved_ones_recorded_again(
    recording: Callable[[], None],
) -> None:
    model, read = translator(), sources(6)

    def decode() -> list[Decoded]:
        return translate(model, read, start=START, end=None, search=Beam(size=2), max_new=12)

    recording()
    decode()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(0.7)
    after_change = decode()
    kept = cuda_graphs._idle[model]
    weight = model.to_vocabulary.weight
    weight.data = weight.data.clone()  # what .to(…) does
    same(decode(), after_change)
    assert cuda_graphs._idle[model] is not kept
    kept = cuda_graphs._idle[model]
    set_attention(model, "written")
    same(decode(), after_change)
    assert cuda_graphs._idle[model] is not kept


def test_two_at_a_time_do_not_share_a_workspace() -> None:
    model = translator()
    with torch.inference_mode():
        steppers = [GraphStepper(model, [[START]], [[4, 5]], RunAgain) for _ in range(2)]
        plain = SharedCacheStepper(model, [[START]], [[4, 5]])
        tokens = [torch.tensor([[4]]), torch.tensor([[7]])]
        for stepper in (*steppers, plain):
            stepper.start()
        for _ in range(5):
            found = [
                stepper.step(token).clone() for stepper, token in zip(steppers, tokens, strict=True)
            ]
            torch.testing.assert_close(found[0], plain.step(tokens[0]), rtol=0, atol=1e-12)
    places = [stepper._workspace for stepper in steppers]
    assert places[0] is not places[1]
    del stepper, steppers
    gc.collect()
    assert cuda_graphs._idle[model] in places
    cuda_graphs._idle.clear()


def test_a_workspace_goes_with_its_model() -> None:
    """Under CUDA, that is: a graph does not hold the model that it was recorded from."""

    class Forgets(RunAgain):
        def __call__(self, work: Callable[[], Any], /) -> tuple[Any, Callable[[], Any]]:
            return work(), (lambda: None)

    model, n_idle = translator(), len(cuda_graphs._idle)
    with torch.inference_mode():
        stepper = GraphStepper(model, [[START]], [[4, 5]], Forgets)
        stepper.start()
        for _ in range(4):
            stepper.step(torch.tensor([[4]]))
    gone = weakref.ref(model)
    del model, stepper
    gc.collect()
    assert gone() is None
    assert len(cuda_graphs._idle) == n_idle


def test_a_stray_nan_of_an_earlier_batch_does_not_return(recording: Callable[[], None]) -> None:
    model, read = translator(), sources(6)

    def decode() -> list[Decoded]:
        return translate(model, read, start=START, end=None, search=Beam(size=2), max_new=12)

    expected = decode()
    recording()
    decode()
    kept = cuda_graphs._idle[model]
    assert kept.source is not None
    with torch.inference_mode():
        for rooms in (kept.own, kept.source):
            rooms.keys.fill_(torch.nan)
            rooms.values.fill_(torch.nan)
    same(decode(), expected)


def test_only_so_many_shapes_are_kept(
    recording: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cuda_graphs, "_MOST_RECORDINGS", 2)
    model, read = translator(), sources(11)

    def decode() -> list[Decoded]:
        found = []
        for n in (1, 3, 11, 1, 3):
            found += translate(
                model, read[:n], start=START, end=END, search=Beam(size=2), max_new=20
            )
        return found

    expected = decode()
    recording()
    same(decode(), expected)
    assert len(cuda_graphs._idle[model].recordings) <= 2


def test_many_short_sequences_and_one_long_one_do_not_make_many_long_ones() -> None:
    model = language_model()
    cache = model.start_cache()
    with torch.no_grad():
        model(torch.tensor([[3, 4]]), cache=cache)
    sizes = [StepShape(512, 1, 64, 0), StepShape(1, 1, 4096, 0), StepShape(384, 1, 128, 0)]
    made = []
    for size in sizes:
        made.append(cuda_graphs.take(model, size, cache, lambda: RunAgain(torch.device("cpu"))))
        cuda_graphs.give_back(weakref.ref(model), made[-1])
    assert [one.size for one in made] == [*sizes[:2], sizes[2]]
    release(model)
    assert model not in cuda_graphs._idle


def test_a_workspace_may_come_back_while_another_is_taken() -> None:
    """The garbage collector may return it at any line, even in the middle of a change."""
    model = language_model()
    with cuda_graphs._changing:
        cuda_graphs.give_back(weakref.ref(model), object())  # type: ignore[arg-type]
    release(model)


def test_sequences_move_with_the_positions_in_use_and_no_others() -> None:
    model = translator()
    read, prefixes = [[4, 5], [6, 7, 8], [9], [3, 4]], [[START, 5], [START], [START, 7], [START, 8]]
    left, tokens = torch.tensor([3, 1]), torch.tensor([[4], [5], [6], [7]])
    with torch.inference_mode():
        moving = GraphStepper(model, prefixes, read, RunAgain)
        plain = SharedCacheStepper(model, prefixes, read)
        for stepper in (moving, plain):
            stepper.start()
            stepper.step(tokens)
        room = moving._workspace
        assert room is not None
        room.enlarge(room.size._replace(n_keys=4 * room.size.n_keys))
        beyond = room.own.keys[:, :, room.size.n_keys // 4 :]
        beyond[:] = torch.arange(len(read)).view(1, -1, 1, 1, 1)
        for stepper in (moving, plain):
            stepper.keep(left)
        for token in (8, 9):
            found, expected = (
                stepper.step(torch.full((2, 1), token)) for stepper in (moving, plain)
            )
            torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)
        assert (beyond == torch.arange(len(read)).view(1, -1, 1, 1, 1)).all()
    cuda_graphs._idle.clear()
