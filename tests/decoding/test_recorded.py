"""Steps in rooms that stay, recorded and replayed, find what plain steps find.

No GPU is needed: a recorder that does the work again stands in for CUDA graphs, which read and
write the same tensors at every replay in just this way.
"""

import gc
import weakref
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import pytest
import torch
from torch import nn

from glassformer.decoding import (
    Beam,
    Decoded,
    Greedy,
    Sampling,
    extend,
    generate,
    sliding,
    translate,
    workspace,
)
from glassformer.decoding import recorded as recorded_steps
from glassformer.decoding.models import ModelStepper
from glassformer.decoding.recorded import RecordedStepper, can_be_recorded, rounded_up
from glassformer.decoding.workspace import Shape, StepOutputs, release
from glassformer.errors import InputError
from glassformer.nn import LanguageModel, Seq2Seq, record_attention, set_attention
from tests.decoding.tiny import END, START, Uncached, language_model, sources, translator

Model = LanguageModel | Seq2Seq


class RunAgain:
    """What CudaRecorder does, without a GPU: results stay in their tensors, until another replay.

    Graphs share their memory, so a replay may spoil what others gave; here it always does.
    """

    n_recorded = 0
    n_replays = 0

    def __init__(self, device: torch.device) -> None:
        assert device.type == "cpu"
        self._results: list[StepOutputs] = []

    def __call__(self, work: Callable[[], Any], /) -> tuple[Any, Callable[[], Any]]:
        for _ in range(3):
            work()  # the rehearsals of a real recorder
        kept = StepOutputs(*map(torch.zeros_like, work()))
        RunAgain.n_recorded += 1

        def replay() -> None:
            RunAgain.n_replays += 1
            for logits, visible in self._results:
                logits.fill_(torch.nan)
                visible.fill_(True)
            for mine, new in zip(kept, work(), strict=True):
                mine.copy_(new)

        self._results.append(kept)
        return kept, replay


@pytest.fixture
def recording(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], None]]:
    """Called, it makes all steps from then on recorded ones."""

    def make(
        model: Model, prefixes: Sequence[Sequence[int]], read: Sequence[Sequence[int]] | None = None
    ) -> ModelStepper:
        return RecordedStepper(model, prefixes, read, RunAgain)

    def switch_on() -> None:
        RunAgain.n_recorded = RunAgain.n_replays = 0
        monkeypatch.setattr(generate, "stepper_for", make)
        monkeypatch.setattr(sliding, "stepper_for", make)
        monkeypatch.setattr(generate, "cores_for", lambda model: 1)  # as on a GPU

    yield switch_on
    workspace._idle.clear()


def same(found: list[Decoded], expected: list[Decoded]) -> None:
    for a, b in zip(found, expected, strict=True):
        assert [h.tokens for h in a.hypotheses] == [h.tokens for h in b.hypotheses]
        for one, other in zip(a.hypotheses, b.hypotheses, strict=True):
            assert one.score == pytest.approx(other.score, abs=1e-12)


SEARCHES = [
    Greedy(),
    Beam(size=1),
    Beam(size=4, n_best=2),
    Beam(size=3, stop="exact", length_penalty=0.5),
    Sampling(seed=3, n_samples=3, temperature=0.8),
]


@pytest.mark.parametrize(
    ("search", "positions"),
    [
        *((search, "sinusoidal") for search in SEARCHES),
        (Beam(size=4), "learned"),
        (Beam(size=4), "rotary"),
    ],
)
def test_translations_are_the_same(
    search: Greedy | Beam | Sampling, positions: str, recording: Callable[[], None]
) -> None:
    """Over batches of several sizes, whose texts end at different times."""
    model = translator(positions__kind=positions)
    read = sources(11)

    def decode() -> list[Decoded]:
        return [
            one
            for batch_size in (3, 11)
            for one in translate(
                model, read, start=START, end=END, search=search, max_new=20, batch_size=batch_size
            )
        ]

    expected = decode()
    recording()
    same(decode(), expected)
    assert RunAgain.n_replays > RunAgain.n_recorded > 0


@pytest.mark.parametrize(
    ("kind", "search"),
    [*(("gpt2", search) for search in SEARCHES), ("llama", Beam(size=4, n_best=2))],
)
def test_continuations_are_the_same_beyond_the_memory_too(
    kind: str, search: Greedy | Beam | Sampling, recording: Callable[[], None]
) -> None:
    model = language_model(kind=kind)
    prompts = [[3, 4, 5], [6], [7, 8], [4, 4, 9]]

    def decode() -> list[Decoded]:
        return extend(model, prompts, end=END, search=search, max_new=50)

    expected = decode()
    recording()
    same(decode(), expected)
    assert RunAgain.n_replays > 0


@pytest.mark.parametrize("make", [ModelStepper, partial(RecordedStepper, make_recorder=RunAgain)])
@pytest.mark.parametrize("kind", ["gpt2", "llama"])
def test_trap_rivals_side_by_side_are_not_in_order(
    make: Callable[..., ModelStepper], kind: str
) -> None:
    """Rivals that split and die at random, until the last cached positions are in use.

    A causal rule over rivals, who have no order, would hide those from the first of them.
    """
    model = language_model(kind=kind)
    prompts = [[3, 4, 5], [4, 4, 9]]
    with torch.inference_mode():
        for seed in range(3):
            chance = torch.Generator().manual_seed(seed)
            fast, simple = make(model, prompts), Uncached(model, prompts)
            torch.testing.assert_close(fast.start(), simple.start(), rtol=0, atol=1e-12)
            for step in range(28):
                tokens = torch.randint(0, 11, (2, 4), generator=chance)
                parents = torch.randint(0, 4 if step else 1, (2, 4), generator=chance)
                found = fast.step(tokens, parents)
                torch.testing.assert_close(found, simple.step(tokens, parents), rtol=0, atol=1e-12)


def test_forced_prefixes_of_different_length(recording: Callable[[], None]) -> None:
    model, read = translator(), sources(5)
    prefixes = [[4], [5, 6, 7], [], [8, 9], [3]]

    def decode() -> list[Decoded]:
        return translate(
            model, read, start=START, end=END, prefixes=prefixes, search=Beam(size=3), max_new=20
        )

    expected = decode()
    recording()
    same(decode(), expected)


def test_a_text_that_outgrows_its_room_moves_to_a_larger_one(
    recording: Callable[[], None],
) -> None:
    """More positions in use than the 64 there are at first, with a beam of many rivals."""
    model = translator(vocab_size=30)
    read = sources(3, vocab_size=30)

    def decode() -> list[Decoded]:
        search = Beam(size=12, stop="exact")
        return translate(model, read, start=START, end=None, search=search, max_new=39)

    expected = decode()
    recording()
    same(decode(), expected)
    assert workspace._idle[model].size.n_keys > 64


def test_texts_may_be_kept_twice() -> None:
    """Rows that become more: what a beam does whose rivals no longer share a past."""
    model, prompts = language_model(), [[3, 4], [5, 6]]
    with torch.inference_mode():
        steppers = [
            ModelStepper(model, prompts),
            RecordedStepper(model, prompts, make_recorder=RunAgain),
        ]
        found = []
        for stepper in steppers:
            stepper.start()
            for token in (7, 8, 9, 3):
                stepper.step(torch.full((2, 1), token))
            stepper.keep(torch.tensor([1, 0, 1, 1, 0]))
            tokens = torch.tensor([[3], [4], [5], [6], [7]])
            found.append([stepper.step(tokens).clone() for _ in range(4)])
    torch.testing.assert_close(*found, rtol=0, atol=1e-12)


def test_a_model_keeps_one_workspace_and_its_recordings(recording: Callable[[], None]) -> None:
    model, read = translator(), sources(6)

    def decode() -> list[Decoded]:
        return translate(model, read, start=START, end=None, search=Beam(size=2), max_new=12)

    recording()
    decode()
    kept, n_recorded = workspace._idle[model], RunAgain.n_recorded
    decode()
    assert workspace._idle[model] is kept
    assert RunAgain.n_recorded == n_recorded > 0


def test_changed_weights_are_seen_and_moved_ones_recorded_anew(
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
    kept = workspace._idle[model]
    weight = model.to_vocabulary.weight
    weight.data = weight.data.clone()  # what .to(…) does
    same(decode(), after_change)
    assert workspace._idle[model] is not kept
    kept = workspace._idle[model]
    set_attention(model, "written")
    same(decode(), after_change)
    assert workspace._idle[model] is not kept


def test_two_at_a_time_do_not_share_a_workspace() -> None:
    model = translator()
    with torch.inference_mode():
        steppers = [RecordedStepper(model, [[START]], [[4, 5]], RunAgain) for _ in range(2)]
        plain = ModelStepper(model, [[START]], [[4, 5]])
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
    assert workspace._idle[model] in places
    workspace._idle.clear()


def test_a_workspace_goes_with_its_model() -> None:
    """Under CUDA, that is: a graph does not hold the model that it was recorded from."""

    class Forgets(RunAgain):
        def __call__(self, work: Callable[[], Any], /) -> tuple[Any, Callable[[], Any]]:
            return work(), (lambda: None)

    model, n_idle = translator(), len(workspace._idle)
    with torch.inference_mode():
        stepper = RecordedStepper(model, [[START]], [[4, 5]], Forgets)
        stepper.start()
        for _ in range(4):
            stepper.step(torch.tensor([[4]]))
    gone = weakref.ref(model)
    del model, stepper
    gc.collect()
    assert gone() is None
    assert len(workspace._idle) == n_idle


def test_a_stray_nan_of_an_earlier_batch_does_not_return(recording: Callable[[], None]) -> None:
    model, read = translator(), sources(6)

    def decode() -> list[Decoded]:
        return translate(model, read, start=START, end=None, search=Beam(size=2), max_new=12)

    expected = decode()
    recording()
    decode()
    kept = workspace._idle[model]
    assert kept.source is not None
    with torch.inference_mode():
        for rooms in (kept.own, kept.source):
            rooms.keys.fill_(torch.nan)
            rooms.values.fill_(torch.nan)
    same(decode(), expected)


def test_learned_positions_still_end(recording: Callable[[], None]) -> None:
    model = translator(positions__kind="learned")
    recording()
    with torch.inference_mode():
        stepper = RecordedStepper(model, [[START] * 38], [[4, 5]], RunAgain)
        stepper.start()
        for _ in range(2):
            stepper.step(torch.tensor([[4]]))
        with pytest.raises(InputError, match="41 positions"):
            stepper.step(torch.tensor([[4]]))


def test_steps_that_somebody_watches_are_not_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    model = translator()
    assert can_be_recorded(model)
    with record_attention(model):
        assert not can_be_recorded(model)
    for hook in (
        model.decoder.register_forward_hook(lambda *_: None),
        nn.modules.module.register_module_forward_hook(lambda *_: None),
    ):
        assert not can_be_recorded(model)
        hook.remove()
    with torch.overrides.TorchFunctionMode():
        assert not can_be_recorded(model)
    with torch.device("cpu"):  # a default device does not look on
        assert can_be_recorded(model)
    torch.set_autocast_enabled("cuda", True)
    try:
        assert not can_be_recorded(model)
    finally:
        torch.set_autocast_enabled("cuda", False)
    monkeypatch.setenv("GLASSFORMER_GRAPHS", "off")
    assert not can_be_recorded(model)


def test_who_begins_to_watch_in_the_middle_sees_every_step() -> None:
    class Silent(RunAgain):
        """Like a GPU: a replay calls no Python."""

        def __call__(self, work: Callable[[], Any], /) -> tuple[Any, Callable[[], Any]]:
            return work(), lambda: None

    model = language_model()
    with torch.inference_mode():
        stepper = RecordedStepper(model, [[3, 4]], make_recorder=Silent)
        stepper.start()
        for _ in range(5):
            stepper.step(torch.tensor([[5]]))
        with record_attention(model) as weights:
            for _ in range(3):
                stepper.step(torch.tensor([[5]]))
    assert {len(calls) for calls in weights.values()} == {3}


def test_a_step_that_cannot_be_recorded_is_done_without() -> None:
    class Refuses(RunAgain):
        def __call__(self, work: Callable[[], Any], /) -> tuple[Any, Callable[[], Any]]:
            work()
            raise RuntimeError("operation not permitted\nwhen stream is capturing")

    model = language_model()
    with torch.inference_mode():
        plain = ModelStepper(model, [[3, 4]])
        stepper = RecordedStepper(model, [[3, 4]], make_recorder=Refuses)
        plain.start()
        stepper.start()
        found = [stepper.step(torch.tensor([[5]])) for _ in range(2)]
        with pytest.warns(RuntimeWarning, match=r"\(operation not permitted\); going on without"):
            found.append(stepper.step(torch.tensor([[5]])))
        found += [stepper.step(torch.tensor([[5]])) for _ in range(4)]  # and it is said once
        expected = [plain.step(torch.tensor([[5]])) for _ in found]
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)


def test_only_so_many_shapes_are_kept(
    recording: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workspace, "_MOST_RECORDINGS", 2)
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
    assert len(workspace._idle[model].recordings) <= 2


def test_many_short_texts_and_one_long_one_do_not_make_many_long_ones() -> None:
    model = language_model()
    cache = model.start_cache()
    with torch.no_grad():
        model(torch.tensor([[3, 4]]), cache=cache)
    sizes = [Shape(512, 1, 64, 0), Shape(1, 1, 4096, 0), Shape(384, 1, 128, 0)]
    made = []
    for size in sizes:
        made.append(workspace.take(model, size, cache, lambda: RunAgain(torch.device("cpu"))))
        workspace.give_back(weakref.ref(model), made[-1])
    assert [one.size for one in made] == [*sizes[:2], sizes[2]]
    release(model)
    assert model not in workspace._idle


def test_a_workspace_may_come_back_while_another_is_taken() -> None:
    """The collector gives it back at any line: in the middle of a change, too."""
    model = language_model()
    with workspace._changing:
        workspace.give_back(weakref.ref(model), object())  # type: ignore[arg-type]
    release(model)


@pytest.mark.parametrize("is_recorded", [False, True])
def test_a_text_without_positions_left_leaves(
    is_recorded: bool, recording: Callable[[], None]
) -> None:
    """Learned positions end for a long prefix long before they do for a short one."""
    model = translator(positions__kind="learned")
    if is_recorded:
        recording()
    for search in (Beam(size=2), Greedy()):
        found = [
            translate(
                model,
                [[4, 5], [6, 7]],
                start=START,
                end=None,
                prefixes=[[3] * 36, [4]],
                search=search,
                max_new=30,
                batch_size=batch_size,
            )
            for batch_size in (1, 2)
        ]
        assert [len(one.best.tokens) for one in found[0]] == [4, 30]
        same(found[1], found[0])


def test_numbers_of_texts_are_rounded_up_by_half_at_most() -> None:
    for n in range(1, 5_000):
        assert n <= rounded_up(n) <= max(n + 1, 1.5 * n)
    assert len({rounded_up(n) for n in range(1, 1_025)}) == 20


def test_on_a_cpu_steps_are_plain() -> None:
    stepper = recorded_steps.stepper_for(translator(), [[START]], [[4, 5]])
    assert type(stepper) is ModelStepper


def test_recorded_texts_leave_when_a_smaller_graph_would_do() -> None:
    model = translator()
    with torch.inference_mode():
        stepper = RecordedStepper(model, [[START]] * 7, [[4, 5]] * 7, RunAgain)
        assert not stepper.worth_leaving(7)
        stepper.start()
        stepper.step(torch.full((7, 1), 4))
        assert [n for n in range(1, 8) if stepper.worth_leaving(n)] == [1, 2, 3, 4, 5, 6]
        stepper.keep(torch.tensor([0, 2, 3, 4, 6]))  # 5 texts in a graph for 6
        assert [n for n in range(1, 6) if stepper.worth_leaving(n)] == [1, 2, 3, 4]
    workspace._idle.clear()


def test_texts_move_with_the_positions_in_use_and_no_others() -> None:
    model = translator()
    read, prefixes = [[4, 5], [6, 7, 8], [9], [3, 4]], [[START, 5], [START], [START, 7], [START, 8]]
    left, tokens = torch.tensor([3, 1]), torch.tensor([[4], [5], [6], [7]])
    with torch.inference_mode():
        moving = RecordedStepper(model, prefixes, read, RunAgain)
        plain = ModelStepper(model, prefixes, read)
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
    workspace._idle.clear()
