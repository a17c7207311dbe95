"""Classifiers of texts: film reviews, a user's own table."""

from dataclasses import replace

from glassformer.nn import (
    AttentionConfig,
    BlockConfig,
    FeedForwardConfig,
    ImageConfig,
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

__all__ = ["csv", "digits", "imdb", "imdb_lstm", "imdb_pretrain", "imdb_small"]


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
            word_dropout=0.3,
        ),
        model=_reader(d_model=128, n_heads=4, n_layers=6, d_ff=256, dropout=0.3),
        optimiser=OptimiserConfig(
            lr=3e-4, weight_decay=0.1, label_smoothing=0.1, beta2=0.98, clip=1.0
        ),
        schedule=ScheduleConfig(kind="cosine", warmup=200),
        loop=LoopConfig(epochs=12, average=0.995),
    )


def imdb_small() -> RunConfig:
    """A classifier for two CPU cores and ten minutes: two blocks of four heads."""
    return RunConfig(
        recipe="imdb-small",
        data=DataConfig(
            problem="classify-imdb",
            tokenizer="words",
            vocab_size=20_000,
            max_len=256,
            cut="middle",
            batch_size=32,
            bucket_width=32,
            word_dropout=0.3,
        ),
        model=_reader(d_model=64, n_heads=4, n_layers=2, d_ff=128, dropout=0.2),
        optimiser=OptimiserConfig(lr=2e-3, weight_decay=0.1, label_smoothing=0.1),
        schedule=ScheduleConfig(kind="cosine", warmup=100),
        loop=LoopConfig(epochs=3, average=0.99),
    )


def imdb_lstm() -> RunConfig:
    """The recurrent baseline: the same reviews and about as many parameters, read word by word."""
    plain = imdb()
    return replace(
        plain,
        recipe="imdb-lstm",
        kind="lstm",
        model=_reader(d_model=160, n_heads=4, n_layers=2, d_ff=256, dropout=0.3),
        optimiser=replace(plain.optimiser, lr=1e-3),
        loop=LoopConfig(epochs=6, average=0.995),
    )


def imdb_pretrain() -> RunConfig:
    """Masked words on all 75,000 training reviews, then the classifier; no outside data."""
    model = _reader(d_model=384, n_heads=6, n_layers=8, d_ff=1536, dropout=0.1)
    texts = DataConfig(
        problem="mask-imdb",
        tokenizer="words",
        vocab_size=30_000,
        max_len=512,
        cut="middle",
        validation=0.02,
        max_tokens=65_536,
        bucket_width=64,
        pad_multiple=64,
        hidden=0.3,
    )
    masked_words = RunConfig(
        recipe="imdb-masked-words",
        data=texts,
        model=replace(
            model,
            architecture="masked_language_model",
            output=OutputConfig(tied="output", bias=True),
        ),
        optimiser=OptimiserConfig(kind="muon", lr=1e-3, muon_lr=0.02, weight_decay=0.01),
        schedule=ScheduleConfig(kind="linear", warmup=300),
        loop=LoopConfig(epochs=20, select="last"),
    )
    return RunConfig(
        recipe="imdb-pretrain",
        data=replace(
            texts,
            problem="classify-imdb",
            validation=0.1,
            max_tokens=None,
            batch_size=32,
            word_dropout=0.1,
        ),
        model=model.with_(block__dropout=0.2),
        optimiser=OptimiserConfig(lr=1e-4, weight_decay=0.1, label_smoothing=0.1, clip=1.0),
        schedule=ScheduleConfig(kind="linear", warmup=200),
        loop=LoopConfig(epochs=4, average=0.998, evaluate_every=350),
        first=masked_words,
    )


def digits() -> RunConfig:
    """Handwritten digits as sequences of patches: the same encoder, another kind of token."""
    model = _reader(d_model=64, n_heads=4, n_layers=4, d_ff=128, dropout=0.1)
    return RunConfig(
        recipe="digits",
        data=DataConfig(problem="classify-digits", batch_size=64),
        model=replace(
            model,
            architecture="image_classifier",
            init="xavier",
            image=ImageConfig(size=8, patch=2, channels=1),
        ),
        optimiser=OptimiserConfig(lr=1e-3, weight_decay=0.1, label_smoothing=0.1),
        schedule=ScheduleConfig(kind="cosine", warmup=100),
        loop=LoopConfig(epochs=60, evaluate_every=100, average=0.99),
    )


def csv() -> RunConfig:
    """A classifier of a user's own table (`--csv FILE --text-column … --label-column …`)."""
    return RunConfig(
        recipe="csv",
        data=DataConfig(
            problem="classify-csv",
            vocab_size=None,
            max_len=256,
            cut="middle",
            batch_size=32,
            bucket_width=32,
            word_dropout=0.2,
        ),
        model=_reader(d_model=64, n_heads=4, n_layers=2, d_ff=128, dropout=0.2),
        optimiser=OptimiserConfig(lr=1e-3, weight_decay=0.1, label_smoothing=0.1),
        schedule=ScheduleConfig(kind="cosine", warmup=50),
        loop=LoopConfig(epochs=10, patience=4),
    )


def _reader(*, d_model: int, n_heads: int, n_layers: int, d_ff: int, dropout: float) -> ModelConfig:
    """An encoder that reads a text, pre-norm, with learned positions."""
    return ModelConfig(
        architecture="classifier",
        d_model=d_model,
        n_layers=n_layers,
        init="normal",
        attention=AttentionConfig(n_heads=n_heads, output_bias=True),
        feed_forward=FeedForwardConfig(d_ff=d_ff, activation="gelu"),
        block=BlockConfig(norm_first=True, final_norm=True, dropout=dropout),
        positions=PositionConfig(kind="learned"),
        output=OutputConfig(pooling="mean", bias=True),
    )
