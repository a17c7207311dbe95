"""Recommending films."""

from glassformer.nn import AttentionConfig, ModelConfig
from glassformer.training.config import (
    DataConfig,
    LoopConfig,
    OptimiserConfig,
    RunConfig,
    ScheduleConfig,
)

__all__ = ["movielens"]


def movielens() -> RunConfig:
    """Vectors for people and films, fitted to known ratings; a dot product guesses the others."""
    return RunConfig(
        recipe="movielens",
        kind="factors",
        data=DataConfig(problem="rate-movielens", batch_size=512, validation=0.05),
        model=ModelConfig(
            architecture="recommender", d_model=64, attention=AttentionConfig(n_heads=1)
        ),
        optimiser=OptimiserConfig(lr=2e-3, weight_decay=1.0, clip=0.0, beta2=0.99),
        schedule=ScheduleConfig(kind="linear", warmup=50),
        loop=LoopConfig(epochs=20),
    )
