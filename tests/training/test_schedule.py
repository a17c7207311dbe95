"""The learning-rate schedule."""

from pathlib import Path

import pytest
import torch

from glassformer.nn import build
from glassformer.training import ScheduleConfig
from glassformer.training.optimiser import learning_rate_share
from glassformer.training.problems.problem_readers import prepare
from tests.training.made import tiny
from tests.training.runs import make_trainer, run_steps

KINDS = ("constant", "linear", "cosine", "noam")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("warmup", [0, 1, 10])
def test_trap_29_every_step_has_a_learning_rate_the_first_and_the_last_included(
    kind: str, warmup: int
) -> None:
    config = ScheduleConfig(kind=kind, warmup=warmup)  # type: ignore[arg-type]  # one of KINDS
    shares = [learning_rate_share(config, step, 100) for step in range(100)]
    assert all(0 < share <= 1 for share in shares)


@pytest.mark.parametrize("kind", KINDS)
def test_trap_29_the_first_step_moves_the_parameters(kind: str, tmp_path: Path) -> None:
    config = tiny("imdb", schedule__kind=kind, schedule__warmup=100, loop__steps=1)
    trainer = make_trainer(config, tmp_path)
    before = [p.detach().clone() for p in trainer.model.parameters()]
    step = next(iter(trainer.loader.steps(0, 1)))
    run_steps(trainer, [step])
    moved = [not torch.equal(a, b) for a, b in zip(before, trainer.model.parameters(), strict=True)]
    assert all(moved)


def test_curves_by_hand() -> None:
    def share(kind: str, step: int, floor: float = 0.0) -> float:
        config = ScheduleConfig(kind=kind, warmup=4, floor=floor)  # type: ignore[arg-type]
        return learning_rate_share(config, step, 12)

    for kind in KINDS:
        assert [share(kind, step) for step in range(4)] == [0.25, 0.5, 0.75, 1.0]
    assert share("constant", 9) == 1.0
    assert [share("linear", step) for step in (5, 7, 9)] == pytest.approx([3 / 4, 1 / 2, 1 / 4])
    falling = [(2 + 2**0.5) / 4, 1 / 2, (2 - 2**0.5) / 4]
    assert [share("cosine", step) for step in (5, 7, 9)] == pytest.approx(falling)
    assert share("linear", 11, floor=0.2) == pytest.approx(0.2)
    assert share("noam", 15) == pytest.approx(0.5)


def test_noam_is_the_papers_curve_up_to_its_scale() -> None:
    config = ScheduleConfig(kind="noam", warmup=400)
    paper = [512**-0.5 * min(n**-0.5, n * 400**-1.5) for n in range(1, 2000)]
    ours = [learning_rate_share(config, step, 2000) for step in range(1999)]
    ratios = [a / b for a, b in zip(ours, paper, strict=True)]
    assert max(ratios) == pytest.approx(min(ratios), rel=1e-9)


def test_parameters_start_the_same_for_the_same_seed() -> None:
    problem = prepare(tiny("imdb"))
    models = []
    for _ in range(2):
        torch.manual_seed(3)
        models.append(build(problem.model))
    for a, b in zip(models[0].parameters(), models[1].parameters(), strict=True):
        assert torch.equal(a, b)
