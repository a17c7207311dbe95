"""Steps in a workspace, recorded and replayed, find what plain steps find.

No GPU is needed: a recorder that does the work again stands in for CUDA graphs, which read and
write the same tensors at every replay in just this way.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from glassformer.decoding import Beam, Decoded, Greedy, Sampling, extend, translate
from glassformer.decoding.fast import cuda_graphs, graph_stepper, stepper_for
from glassformer.decoding.fast.graph_stepper import (
    GraphStepper,
    can_be_recorded,
    products_pay,
    rounded_up,
)
from glassformer.decoding.fast.shared_cache import SharedCacheStepper
from glassformer.decoding.stepper import ModelStepper
from glassformer.errors import InputError
from glassformer.nn import record_attention
from tests.decoding.recording_again import RunAgain, same
from tests.decoding.tiny import END, START, Uncached, language_model, sources, translator

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
    """With batches of several sizes, whose sequences end at different times."""
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
def test_continuations_are_the_same_beyond_the_context_too(
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


@pytest.mark.parametrize(
    "make", [ModelStepper, SharedCacheStepper, partial(GraphStepper, make_recorder=RunAgain)]
)
@pytest.mark.parametrize("kind", ["gpt2", "llama"])
def test_trap_beams_side_by_side_are_not_in_order(
    make: Callable[..., ModelStepper], kind: str
) -> None:
    """Beams that split and die at random, until the last cached positions are in use.

    A causal mask over beams, which have no order, would hide those from the first of them.
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


def test_sequences_may_be_kept_twice() -> None:
    """More rows than before: what happens when beams no longer share a past."""
    model, prompts = language_model(), [[3, 4], [5, 6]]
    with torch.inference_mode():
        steppers = [
            ModelStepper(model, prompts),
            SharedCacheStepper(model, prompts),
            GraphStepper(model, prompts, make_recorder=RunAgain),
        ]
        found = []
        for stepper in steppers:
            stepper.start()
            for token in (7, 8, 9, 3):
                stepper.step(torch.full((2, 1), token))
            stepper.keep(torch.tensor([1, 0, 1, 1, 0]))
            tokens = torch.tensor([[3], [4], [5], [6], [7]])
            found.append([stepper.step(tokens).clone() for _ in range(4)])
    for other in found[1:]:
        torch.testing.assert_close(found[0], other, rtol=0, atol=1e-12)


def test_learned_positions_still_end(recording: Callable[[], None]) -> None:
    model = translator(positions__kind="learned")
    recording()
    with torch.inference_mode():
        stepper = GraphStepper(model, [[START] * 38], [[4, 5]], RunAgain)
        stepper.start()
        for _ in range(2):
            stepper.step(torch.tensor([[4]]))
        with pytest.raises(InputError, match="41 positions"):
            stepper.step(torch.tensor([[4]]))


def test_watched_steps_are_not_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
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
    with torch.device("cpu"):  # a default device is harmless
        assert can_be_recorded(model)
    torch.set_autocast_enabled("cuda", True)
    try:
        assert not can_be_recorded(model)
    finally:
        torch.set_autocast_enabled("cuda", False)
    assert can_be_recorded(model)
    monkeypatch.setenv("GLASSFORMER_GRAPHS", "off")
    assert not can_be_recorded(model)


@pytest.mark.parametrize("kind", ["gpt2", "llama"])
def test_recorded_steps_attend_by_products_where_a_gpu_does(
    kind: str, recording: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A workspace keeps the keys of a head together; the caches of plain steps do not."""

    class OnGpu(Tensor):
        is_cuda = True

    model, prompts = language_model(kind=kind), [[3, 4, 5], [6], [7, 8]]
    asked: list[bool] = []

    def pay(queries: Tensor, keys: Tensor, values: Tensor) -> bool:
        asked.append(products_pay(queries.as_subclass(OnGpu), keys, values))
        return asked[-1]

    monkeypatch.setattr(graph_stepper, "products_pay", pay)

    def decode() -> list[Decoded]:
        return extend(model, prompts, end=END, search=Beam(size=4), max_new=20)

    expected = decode()
    assert not any(asked)
    recording()
    same(decode(), expected)
    assert any(asked)


def test_a_hook_added_midway_sees_every_further_step() -> None:
    class Silent(RunAgain):
        """Like a GPU: a replay calls no Python."""

        def __call__(self, work: Callable[[], Any], /) -> tuple[Any, Callable[[], Any]]:
            return work(), lambda: None

    model = language_model()
    with torch.inference_mode():
        stepper = GraphStepper(model, [[3, 4]], make_recorder=Silent)
        stepper.start()
        for _ in range(5):
            stepper.step(torch.tensor([[5]]))
        with record_attention(model) as weights:
            for _ in range(3):
                stepper.step(torch.tensor([[5]]))
    assert {len(calls) for calls in weights.values()} == {3}


def test_a_step_that_cannot_be_recorded_runs_without_a_graph() -> None:
    class Refuses(RunAgain):
        def __call__(self, work: Callable[[], Any], /) -> tuple[Any, Callable[[], Any]]:
            work()
            raise RuntimeError("operation not permitted\nwhen stream is capturing")

    model = language_model()
    with torch.inference_mode():
        plain = ModelStepper(model, [[3, 4]])
        stepper = GraphStepper(model, [[3, 4]], make_recorder=Refuses)
        plain.start()
        stepper.start()
        found = [stepper.step(torch.tensor([[5]])) for _ in range(2)]
        with pytest.warns(RuntimeWarning, match=r"\(operation not permitted\); continuing without"):
            found.append(stepper.step(torch.tensor([[5]])))
        found += [stepper.step(torch.tensor([[5]])) for _ in range(4)]  # and it warns once
        expected = [plain.step(torch.tensor([[5]])) for _ in found]
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("is_recorded", [False, True])
def test_a_sequence_without_positions_left_leaves(
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


def test_numbers_of_sequences_are_rounded_up_by_half_at_most() -> None:
    for n in range(1, 5_000):
        assert n <= rounded_up(n) <= max(n + 1, 1.5 * n)
    assert len({rounded_up(n) for n in range(1, 1_025)}) == 20


def test_on_a_cpu_steps_are_plain() -> None:
    stepper = stepper_for(translator(), [[START]], [[4, 5]])
    assert type(stepper) is SharedCacheStepper


def test_recorded_sequences_leave_when_a_smaller_graph_would_do() -> None:
    model = translator()
    with torch.inference_mode():
        stepper = GraphStepper(model, [[START]] * 7, [[4, 5]] * 7, RunAgain)
        assert not stepper.worth_leaving(7)
        stepper.start()
        stepper.step(torch.full((7, 1), 4))
        assert [n for n in range(1, 8) if stepper.worth_leaving(n)] == [1, 2, 3, 4, 5, 6]
        stepper.keep(torch.tensor([0, 2, 3, 4, 6]))  # 5 sequences in a graph for 6
        assert [n for n in range(1, 6) if stepper.worth_leaving(n)] == [1, 2, 3, 4]
    cuda_graphs._idle.clear()
