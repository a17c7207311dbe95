"""Film reviews: is one positive?"""

from glassformer.nn import (
    AttentionConfig,
    BlockConfig,
    FeedForwardConfig,
    ModelConfig,
    OutputConfig,
    PositionConfig,
)
from glassformer.training.config import (
    DataConfig,
    LoopConfig,
    OptimiserConfig,
    RunConfig,
    ScheduleConfig,
)

__all__ = ["imdb"]


def imdb() -> RunConfig:
    """The classifier of "Transformers from scratch": depth 6, length 512; small enough to ship.

    Departures from that text: pre-norm, dropout and dropped words (25,000 reviews are few), and
    of a long review the beginning and the end are read.
    """
    return RunConfig(
        recipe="imdb",
        data=DataConfig(
            problem="classify-imdb",
            tokenizer="words",
            vocab_size=12_000,
            max_len=512,
            cut="middle",
            batch_size=64,
            bucket_width=64,
            pad_multiple=64,
            word_dropout=0.2,
        ),
        model=ModelConfig(
            architecture="classifier",
            d_model=128,
            n_layers=6,
            init="normal",
            attention=AttentionConfig(n_heads=4, output_bias=True),
            feed_forward=FeedForwardConfig(d_ff=256, activation="gelu"),
            block=BlockConfig(norm_first=True, final_norm=True, dropout=0.3),
            positions=PositionConfig(kind="learned"),
            output=OutputConfig(pooling="mean", bias=True),
        ),
        optimiser=OptimiserConfig(
            lr=1e-3, weight_decay=0.1, label_smoothing=0.1, beta2=0.98, clip=1.0
        ),
        schedule=ScheduleConfig(kind="cosine", warmup=200),
        loop=LoopConfig(epochs=12, average=0.995),
    )
