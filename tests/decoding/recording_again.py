"""A recorder without a GPU: it repeats the work in the recorded tensors."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from glassformer.decoding import Decoded
from glassformer.decoding.fast.cuda_graphs import StepOutputs


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
            work()  # the warm-up of a real recorder
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


def same(found: list[Decoded], expected: list[Decoded]) -> None:
    for a, b in zip(found, expected, strict=True):
        assert [h.tokens for h in a.hypotheses] == [h.tokens for h in b.hypotheses]
        for one, other in zip(a.hypotheses, b.hypotheses, strict=True):
            assert one.score == pytest.approx(other.score, abs=1e-12)
