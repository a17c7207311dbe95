"""Fixtures: recorded decoding steps without a GPU, and two threads."""

from collections.abc import Callable, Iterator, Sequence

import pytest
import torch

from glassformer.decoding import fast
from glassformer.decoding.fast import cuda_graphs, workers
from glassformer.decoding.fast.graph_stepper import GraphStepper
from glassformer.decoding.stepper import ModelStepper
from glassformer.nn import LanguageModel, Seq2Seq
from tests.decoding.recording_again import RunAgain

Model = LanguageModel | Seq2Seq


@pytest.fixture
def recording(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], None]]:
    """Call it to record all steps from then on."""

    def make(
        model: Model, prefixes: Sequence[Sequence[int]], read: Sequence[Sequence[int]] | None = None
    ) -> ModelStepper:
        return GraphStepper(model, prefixes, read, RunAgain)

    def switch_on() -> None:
        RunAgain.n_recorded = RunAgain.n_replays = 0
        monkeypatch.setattr(fast, "stepper_for", make)
        monkeypatch.setattr(workers, "cores_for", lambda model: 1)  # as on a GPU

    yield switch_on
    cuda_graphs._idle.clear()


@pytest.fixture
def two_threads() -> Iterator[None]:
    """Torch has two, however many cores there are."""
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)
