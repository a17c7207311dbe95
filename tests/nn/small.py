"""Small models: every preset shrunk, every architecture, and matching inputs."""

from typing import Any

import torch
from torch import Tensor, nn

from glassformer.nn import (
    AttentionConfig,
    BlockConfig,
    FeedForwardConfig,
    ImageConfig,
    ModelConfig,
    OutputConfig,
    build,
    presets,
)

SIZES: dict[str, dict[str, Any]] = {
    "vaswani_2017_base": {"vocab_size": 13, "d_model": 8, "n_heads": 2, "n_layers": 2, "d_ff": 16},
    "torch_nn_transformer": {
        "vocab_size": 13,
        "d_model": 8,
        "n_heads": 2,
        "n_layers": 2,
        "d_ff": 16,
    },
    "bloem_2019": {"vocab_size": 13, "d_model": 8, "n_heads": 2, "n_layers": 2, "max_len": 16},
    "bloem_2024": {"vocab_size": 13, "d_model": 8, "n_heads": 2, "n_layers": 2, "max_len": 16},
    "by_hand_2024": {},
    "illustrated": {},
    "gpt2": {"vocab_size": 13, "d_model": 8, "n_heads": 2, "n_layers": 2, "max_len": 16},
    "bert": {
        "vocab_size": 13,
        "d_model": 8,
        "n_heads": 2,
        "n_layers": 2,
        "d_ff": 16,
        "max_len": 16,
    },
    "llama": {
        "vocab_size": 13,
        "d_model": 16,
        "n_heads": 4,
        "n_kv_heads": 2,
        "n_layers": 2,
        "d_ff": 24,
        "max_len": 16,
    },
}


def shrunk(name: str, **changes: Any) -> ModelConfig:
    """The preset with this name at test size, without dropout."""
    config = presets.preset(name, **SIZES[name])
    return config.with_(
        block__dropout=0.0, attention__dropout=0.0, feed_forward__dropout=0.0
    ).with_(**changes)


def tiny(architecture: Any, **changes: Any) -> ModelConfig:
    """A small config of any architecture."""
    return ModelConfig(
        architecture=architecture,
        vocab_size=13,
        d_model=8,
        n_layers=2,
        max_len=16,
        attention=AttentionConfig(n_heads=2, bias=True, output_bias=True),
        feed_forward=FeedForwardConfig(d_ff=16),
        block=BlockConfig(dropout=0.0),
        output=OutputConfig(n_classes=3, bias=True),
        image=ImageConfig(size=8, patch=4, channels=2),
    ).with_(**changes)


ARCHITECTURES: dict[str, ModelConfig] = {
    "attention": tiny("attention"),
    "encoder": tiny("encoder"),
    "classifier": tiny("classifier"),
    "image_classifier": tiny("image_classifier"),
    "masked_language_model": tiny("masked_language_model"),
    "language_model": tiny("language_model"),
    "seq2seq": tiny("seq2seq", vocab_size=11, target_vocab_size=13, n_decoder_layers=1),
    "additive": tiny("classifier", attention__score="additive"),
    "pre-norm": tiny("encoder", block__norm_first=True, block__final_norm=True),
}
EVERY: dict[str, ModelConfig] = {**{name: shrunk(name) for name in SIZES}, **ARCHITECTURES}
"""Every preset and every architecture, small, by name."""


def make(config: ModelConfig, seed: int = 0, attention: Any = "fused") -> nn.Module:
    """The model with every parameter random, including norms and biases.

    In float64: that two ways to compute a model agree is algebra, and holds to 1e-12 on every
    processor; in float32 the order of summation decides how many digits agree.
    """
    torch.manual_seed(seed)
    model = build(config, attention)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() == 1:
                parameter.fill_(float("norm" in name and name.endswith("weight")))
                parameter.add_(torch.randn_like(parameter), alpha=0.1)
    return model.double()


def random_ids(config: ModelConfig, *shape: int, seed: int = 1) -> Tensor:
    """Ids of both vocabularies, never 0 (which some configs take for padding)."""
    generator = torch.Generator().manual_seed(seed)
    top = min(config.vocab_size, config.target_vocab_size or config.vocab_size)
    return torch.randint(1, top, shape, generator=generator)


def inputs_for(
    config: ModelConfig, n_batch: int = 2, length: int = 6, dtype: torch.dtype = torch.float64
) -> tuple[Tensor, ...]:
    """Arguments for the model of a config; vectors have the dtype of `make`."""
    generator = torch.Generator().manual_seed(0)
    if config.architecture == "attention":
        vectors = torch.randn(n_batch, length, config.d_model, generator=generator, dtype=dtype)
        return (vectors,)
    if config.architecture == "image_classifier":
        image = config.image
        shape = (n_batch, image.channels, image.size, image.size)
        return (torch.randn(*shape, generator=generator, dtype=dtype),)
    if config.architecture == "seq2seq":
        n_target = config.max_len if config.output.flattened else length - 1
        return random_ids(config, n_batch, length), random_ids(config, n_batch, n_target, seed=2)
    return (random_ids(config, n_batch, length),)
