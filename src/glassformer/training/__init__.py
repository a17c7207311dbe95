"""Training: recipes, the loop, and what makes a run resumable.

    from glassformer.training import recipe, train
    result = train(recipe("shakespeare"), "runs/shakespeare")

Read in this order: `training_loop` (the loop on one screen), `learner` (forward, loss, backward),
`optimiser` (with schedule and EMA), `resume`; then `run` (from config to model folder),
`run_config` and `problems` (what can be set), `recipes` (what is run). `acceleration` has faster
learners in place of the plain one.
"""

from typing import TYPE_CHECKING

from glassformer.lazy import on_first_use

if TYPE_CHECKING:
    from glassformer.training.problems import PROBLEMS, DataConfig
    from glassformer.training.recipes import RECIPES, recipe
    from glassformer.training.run import RunResult, train
    from glassformer.training.run_config import (
        LoopConfig,
        OptimiserConfig,
        RunConfig,
        ScheduleConfig,
    )

__all__ = [
    "PROBLEMS",
    "RECIPES",
    "DataConfig",
    "LoopConfig",
    "OptimiserConfig",
    "RunConfig",
    "RunResult",
    "ScheduleConfig",
    "recipe",
    "train",
]

_HOMES = {
    "glassformer.training.problems": "DataConfig PROBLEMS",
    "glassformer.training.recipes": "RECIPES recipe",
    "glassformer.training.run": "RunResult train",
    "glassformer.training.run_config": "LoopConfig OptimiserConfig RunConfig ScheduleConfig",
}

if not TYPE_CHECKING:
    __getattr__, __dir__ = on_first_use(__name__, _HOMES)
