"""Translators: captions (Multi30k), everyday sentences into German and Chinese (Tatoeba)."""

from dataclasses import replace

from glassformer.nn import (
    AttentionConfig,
    BlockConfig,
    EmbeddingConfig,
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

__all__ = [
    "multi30k",
    "multi30k_conv",
    "multi30k_rnn",
    "pairs",
    "thrones",
    "translate_de",
    "translate_zh",
]


def multi30k() -> RunConfig:
    """English to German captions, with the size of Transformer-Tiny (Wu et al. 2021)."""
    return RunConfig(
        recipe="multi30k",
        data=DataConfig(
            problem="translate-multi30k",
            vocab_size=10_000,
            max_len=128,
            max_tokens=4096,
            bucket_width=4,
        ),
        model=_translator(d_model=128, n_heads=4, n_layers=4, d_ff=256, dropout=0.3),
        optimiser=OptimiserConfig(lr=5e-3, label_smoothing=0.1, clip=1.0),
        schedule=ScheduleConfig(kind="noam", warmup=2000),
        loop=LoopConfig(epochs=150, average=0.9995, evaluate_every=500, patience=20),
    )


def multi30k_rnn() -> RunConfig:
    """The same captions with the recurrent model that the Transformer replaced, at equal size."""
    return replace(
        multi30k(),
        recipe="multi30k-rnn",
        kind="rnn",
        model=_translator(d_model=256, n_heads=4, n_layers=2, d_ff=256, dropout=0.3),
        optimiser=OptimiserConfig(lr=1e-3, label_smoothing=0.1, clip=1.0),
        schedule=ScheduleConfig(kind="cosine", warmup=500),
        loop=LoopConfig(epochs=30, average=0.999, evaluate_every=500, patience=12),
    )


def multi30k_conv() -> RunConfig:
    """The same captions with the convolutional model of the same year, at equal size."""
    return replace(
        multi30k_rnn(),
        recipe="multi30k-conv",
        kind="conv",
        model=_translator(d_model=192, n_heads=4, n_layers=4, d_ff=256, dropout=0.3),
    )


def thrones() -> RunConfig:
    """One pair, learnt by heart: "When you play the game of thrones" → "you win or you die"."""
    return RunConfig(
        recipe="thrones",
        data=DataConfig(
            problem="translate-thrones", tokenizer="words", vocab_size=30, max_len=16, batch_size=1
        ),
        model=_translator(d_model=32, n_heads=4, n_layers=1, d_ff=64, dropout=0.0),
        optimiser=OptimiserConfig(lr=5e-3),
        schedule=ScheduleConfig(kind="constant", warmup=10),
        loop=LoopConfig(steps=100, evaluate_every=50),
    )


def pairs() -> RunConfig:
    """A user's own pairs (`--pairs FILE`: source, tab, target): translation or any other task."""
    return RunConfig(
        recipe="pairs",
        data=DataConfig(
            problem="translate-file", vocab_size=None, max_len=128, max_tokens=4096, bucket_width=4
        ),
        model=_translator(d_model=128, n_heads=4, n_layers=3, d_ff=256, dropout=0.1),
        optimiser=OptimiserConfig(lr=3e-3, label_smoothing=0.1, clip=1.0),
        schedule=ScheduleConfig(kind="cosine", warmup=200),
        loop=LoopConfig(epochs=20, least_steps=600, average=0.99),
    )


def translate_de() -> RunConfig:
    """English to German, everyday sentences and captions: the translator that ships."""
    return RunConfig(
        recipe="translate-de",
        data=DataConfig(
            problem="translate-de",
            vocab_size=6000,
            max_len=128,
            max_tokens=16_384,
            bucket_width=4,
        ),
        model=_translator(d_model=192, n_heads=6, n_layers=3, d_ff=768, dropout=0.1),
        optimiser=OptimiserConfig(lr=3e-3, label_smoothing=0.1, clip=1.0),
        schedule=ScheduleConfig(kind="cosine", warmup=1000),
        loop=LoopConfig(epochs=60, average=0.999, evaluate_every=500),
    )


def translate_zh() -> RunConfig:
    """English to Chinese, everyday sentences: as good as 29,000 pairs allow, and it ships."""
    return RunConfig(
        recipe="translate-zh",
        data=DataConfig(
            problem="translate-zh",
            vocab_size=5000,
            max_len=128,
            max_tokens=4096,
            bucket_width=4,
        ),
        model=_translator(d_model=128, n_heads=4, n_layers=3, d_ff=512, dropout=0.3),
        optimiser=OptimiserConfig(lr=3e-3, label_smoothing=0.1, clip=1.0),
        schedule=ScheduleConfig(kind="cosine", warmup=1000),
        loop=LoopConfig(epochs=80, average=0.999, evaluate_every=300),
    )


def _translator(
    *, d_model: int, n_heads: int, n_layers: int, d_ff: int, dropout: float
) -> ModelConfig:
    """The 2017 encoder-decoder, pre-norm; one table for both languages and the output."""
    return ModelConfig(
        architecture="seq2seq",
        d_model=d_model,
        n_layers=n_layers,
        init="xavier",
        attention=AttentionConfig(n_heads=n_heads, bias=True, output_bias=True),
        feed_forward=FeedForwardConfig(d_ff=d_ff, dropout=dropout),
        block=BlockConfig(norm_first=True, final_norm=True, dropout=dropout),
        positions=PositionConfig(kind="sinusoidal"),
        embedding=EmbeddingConfig(scale=True),
        output=OutputConfig(tied="all"),
    )
