"""Language models: Shakespeare by characters, WikiText-2, a user's own text."""

from dataclasses import replace

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

__all__ = ["shakespeare", "shakespeare_small", "text", "wikitext2"]


def shakespeare() -> RunConfig:
    """Tiny Shakespeare by characters, at the size of nanoGPT's run (10 million parameters)."""
    return RunConfig(
        recipe="shakespeare",
        data=DataConfig(
            problem="continue-shakespeare",
            tokenizer="characters",
            vocab_size=256,
            max_len=256,
            batch_size=64,
        ),
        model=_writer(d_model=384, n_heads=6, n_layers=6, dropout=0.2),
        optimiser=OptimiserConfig(
            kind="muon", lr=1e-3, muon_lr=0.02, weight_decay=0.1, beta2=0.99, eps=1e-8
        ),
        schedule=ScheduleConfig(kind="cosine", warmup=100, floor=0.05),
        loop=LoopConfig(steps=2500, evaluate_every=250, average=0.99),
    )


def shakespeare_small() -> RunConfig:
    """The same with a million parameters: the language model that ships."""
    large = shakespeare()
    return replace(
        large,
        recipe="shakespeare-small",
        model=_writer(d_model=128, n_heads=4, n_layers=5, dropout=0.1),
        loop=LoopConfig(steps=5000, evaluate_every=250, average=0.995),
    )


def wikitext2() -> RunConfig:
    """WikiText-2 by subwords."""
    return RunConfig(
        recipe="wikitext2",
        data=DataConfig(problem="continue-wikitext2", vocab_size=8000, max_len=256, batch_size=64),
        model=_writer(d_model=384, n_heads=6, n_layers=6, dropout=0.3),
        optimiser=OptimiserConfig(
            kind="muon", lr=1e-3, muon_lr=0.02, weight_decay=0.1, beta2=0.99, eps=1e-8
        ),
        schedule=ScheduleConfig(kind="cosine", warmup=100, floor=0.05),
        loop=LoopConfig(epochs=15, average=0.99),
    )


def text() -> RunConfig:
    """A language model of a user's own text file (`--text FILE`), in any language."""
    return RunConfig(
        recipe="text",
        data=DataConfig(problem="continue-file", vocab_size=None, max_len=128, batch_size=32),
        model=_writer(d_model=128, n_heads=4, n_layers=4, dropout=0.1),
        optimiser=OptimiserConfig(kind="muon", lr=2e-3, weight_decay=0.1, beta2=0.99, eps=1e-8),
        schedule=ScheduleConfig(kind="cosine", warmup=50, floor=0.05),
        loop=LoopConfig(epochs=5, least_steps=400, patience=4, save_every=200),
    )


def _writer(*, d_model: int, n_heads: int, n_layers: int, dropout: float) -> ModelConfig:
    """A decoder: pre-norm, rotary positions, no biases, output tied to the token table."""
    return ModelConfig(
        architecture="language_model",
        d_model=d_model,
        n_layers=n_layers,
        init="normal",
        attention=AttentionConfig(n_heads=n_heads, dropout=dropout),
        feed_forward=FeedForwardConfig(d_ff=4 * d_model, activation="gelu", bias=False),
        block=BlockConfig(norm="rms", norm_first=True, final_norm=True, dropout=dropout),
        positions=PositionConfig(kind="rotary"),
        output=OutputConfig(tied="output"),
    )
