"""Training: recipes, the loop, and what makes a run resumable.

    from glassformer.training import recipe, train
    result = train(recipe("shakespeare"), "runs/shakespeare")

Read in this order: `recipes` (what is run), `config` (what can be set), `run` (from config to
model folder), `loop` (updates, looks, saves), then `loss`, `optimiser`, `schedule`, `state`.
"""

from typing import TYPE_CHECKING

from glassformer.lazy import on_first_use

if TYPE_CHECKING:
    from glassformer.training.config import (
        DataConfig,
        LoopConfig,
        OptimiserConfig,
        RunConfig,
        ScheduleConfig,
    )
    from glassformer.training.recipes import RECIPES, recipe
    from glassformer.training.run import Result, train

__all__ = [
    "RECIPES",
    "DataConfig",
    "LoopConfig",
    "OptimiserConfig",
    "Result",
    "RunConfig",
    "ScheduleConfig",
    "recipe",
    "train",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = on_first_use(__name__)
