"""The conventions of each text and paper, as complete configs that take sizes.

A preset fixes conventions (where norms stand, what scores are divided by, what is tied); its
arguments are sizes, so that a test or a laptop can shrink it. Its docstring says where it departs
from what it is named after. A size that follows from another is set last: an error then names the
one that was given.
"""

from collections.abc import Callable
from inspect import signature
from typing import Any

from glassformer.errors import UnknownNameError
from glassformer.nn.config import (
    AttentionConfig,
    BlockConfig,
    EmbeddingConfig,
    FeedForwardConfig,
    ModelConfig,
    OutputConfig,
    PositionConfig,
)

__all__ = [
    "PRESETS",
    "bert",
    "bloem_2019",
    "bloem_2024",
    "by_hand_2024",
    "gpt2",
    "illustrated",
    "llama",
    "preset",
    "torch_nn_transformer",
    "vaswani_2017_base",
]


def preset(name: str, **sizes: Any) -> ModelConfig:
    """The preset of this name, with some sizes changed."""
    if name not in PRESETS:
        raise UnknownNameError("preset", name, PRESETS)
    make = PRESETS[name]
    known = signature(make).parameters
    for size in sizes:
        if size not in known:
            raise UnknownNameError(f"size of preset {name}:", size, known)
    return make(**sizes)


def vaswani_2017_base(
    *,
    vocab_size: int = 37_000,
    d_model: int = 512,
    n_heads: int = 8,
    n_layers: int = 6,
    d_ff: int = 2048,
    max_len: int = 512,
    dropout: float = 0.1,
    pad_id: int | None = None,
) -> ModelConfig:
    """The base model of "Attention is all you need" (Vaswani et al. 2017), table 3.

    Post-norm, dropout on sublayer outputs and embedded inputs only, one table for both embeddings
    and the output, token vectors times √d_model. Departures: the paper does not say whether the
    four maps of attention have biases (here they have, as in torch.nn) nor how parameters start
    (here Xavier).
    """
    return ModelConfig(
        architecture="seq2seq",
        vocab_size=vocab_size,
        d_model=d_model,
        n_layers=n_layers,
        max_len=max_len,
        pad_id=pad_id,
        init="xavier",
        attention=AttentionConfig(n_heads=n_heads, bias=True, output_bias=True),
        feed_forward=FeedForwardConfig(d_ff=d_ff),
        block=BlockConfig(dropout=dropout),
        positions=PositionConfig(kind="sinusoidal"),
        embedding=EmbeddingConfig(scale=True),
        output=OutputConfig(tied="all"),
    )


def torch_nn_transformer(
    *,
    vocab_size: int = 37_000,
    d_model: int = 512,
    n_heads: int = 8,
    n_layers: int = 6,
    d_ff: int = 2048,
    max_len: int = 512,
    dropout: float = 0.1,
    pad_id: int | None = None,
) -> ModelConfig:
    """The conventions of `torch.nn.Transformer`: the paper's, and three more.

    A norm after the last block of encoder and decoder, dropout inside the feed-forward and on
    attention weights. torch.nn.Transformer itself has no embeddings and no output layer; here
    they are those of the paper.
    """
    paper = vaswani_2017_base(
        vocab_size=vocab_size,
        d_model=d_model,
        n_heads=n_heads,
        n_layers=n_layers,
        d_ff=d_ff,
        max_len=max_len,
        dropout=dropout,
        pad_id=pad_id,
    )
    return paper.with_(
        block__final_norm=True, feed_forward__dropout=dropout, attention__dropout=dropout
    )


def bloem_2024(
    *,
    vocab_size: int = 50_000,
    d_model: int = 128,
    n_heads: int = 8,
    n_layers: int = 6,
    max_len: int = 512,
    n_classes: int = 2,
    dropout: float = 0.0,
    pad_id: int | None = None,
) -> ModelConfig:
    """The classifier of "Transformers from scratch" (Bloem), scores divided by √(k/h).

    Learned positions, post-norm, feed-forward of width 4k, global average pooling. Departures:
    padding is left out of attention and pooling where pad_id is given, and parameters start by
    Xavier, not by torch's defaults. The text does not state k and the number of words it trained
    with; the defaults here are ours.
    """
    config = ModelConfig(
        architecture="classifier",
        vocab_size=vocab_size,
        d_model=d_model,
        n_layers=n_layers,
        max_len=max_len,
        pad_id=pad_id,
        init="xavier",
        attention=AttentionConfig(n_heads=n_heads, output_bias=True),
        block=BlockConfig(dropout=dropout),
        positions=PositionConfig(kind="learned"),
        output=OutputConfig(n_classes=n_classes, pooling="mean", bias=True),
    )
    return config.with_(feed_forward__d_ff=4 * d_model)


def bloem_2019(
    *,
    vocab_size: int = 50_000,
    d_model: int = 128,
    n_heads: int = 8,
    n_layers: int = 6,
    max_len: int = 512,
    n_classes: int = 2,
    dropout: float = 0.0,
    pad_id: int | None = None,
) -> ModelConfig:
    """The same classifier with the divisor of its first printed code: √k, the whole width.

    With h heads the scores are then √h times smaller than intended, and the softmax flatter.
    """
    corrected = bloem_2024(
        vocab_size=vocab_size,
        d_model=d_model,
        n_heads=n_heads,
        n_layers=n_layers,
        max_len=max_len,
        n_classes=n_classes,
        dropout=dropout,
        pad_id=pad_id,
    )
    return corrected.with_(attention__divisor="sqrt_model")


def by_hand_2024(
    *, vocab_size: int = 27, d_model: int = 6, d_head: int = 4, max_len: int = 6, n_heads: int = 1
) -> ModelConfig:
    """The Transformer computed by hand: width 6, one head of width 4, six positions.

    As that text computes: scores divided by √d_model (the paper: √d_head), a feed-forward of one
    layer (the paper: two), norms without parameters and with epsilon outside the root, the whole
    decoder output flattened into one prediction (the paper: one for each position). The 23 words
    have ids 1 to 23; 0 is padding, 24 unknown, 25 start, 26 end. The decoder attends as the
    paper's does, since the text's own wording (encoder output as query) cannot be computed.
    """
    config = ModelConfig(
        architecture="seq2seq",
        vocab_size=vocab_size,
        d_model=d_model,
        n_layers=1,
        max_len=max_len,
        pad_id=0,
        init="xavier",
        attention=AttentionConfig(n_heads=n_heads, d_head=d_head, divisor="sqrt_model"),
        feed_forward=FeedForwardConfig(n_layers=1),
        block=BlockConfig(norm="plain", norm_eps=1e-4, dropout=0.0),
        positions=PositionConfig(kind="sinusoidal"),
        output=OutputConfig(flattened=True),
    )
    return config.with_(feed_forward__d_ff=d_model)


def illustrated(*, d_model: int = 4, d_head: int = 3, d_value: int = 3) -> ModelConfig:
    """The single head of "illustrated self-attention": inputs of 4, keys and values of 3 numbers.

    Plain dot products, no bias, no output map: the attention alone, not a Transformer.
    """
    return ModelConfig(
        architecture="attention",
        d_model=d_model,
        attention=AttentionConfig(
            n_heads=1, d_head=d_head, d_value=d_value, divisor="none", output_map=False
        ),
    )


def gpt2(
    *,
    vocab_size: int = 50_257,
    d_model: int = 768,
    n_heads: int = 12,
    n_layers: int = 12,
    max_len: int = 1024,
    dropout: float = 0.1,
) -> ModelConfig:
    """GPT-2 small (Radford et al. 2019): pre-norm, learned positions, tied output.

    Departure: GPT-2 starts the maps back into the residual stream at 0.02 / √(2 n_layers); here
    all matrices start at 0.02.
    """
    config = ModelConfig(
        architecture="language_model",
        vocab_size=vocab_size,
        d_model=d_model,
        n_layers=n_layers,
        max_len=max_len,
        init="normal",
        attention=AttentionConfig(n_heads=n_heads, bias=True, output_bias=True, dropout=dropout),
        feed_forward=FeedForwardConfig(activation="gelu_tanh"),
        block=BlockConfig(norm_first=True, final_norm=True, dropout=dropout),
        positions=PositionConfig(kind="learned"),
        output=OutputConfig(tied="output"),
    )
    return config.with_(feed_forward__d_ff=4 * d_model)


def bert(
    *,
    vocab_size: int = 30_522,
    d_model: int = 768,
    n_heads: int = 12,
    n_layers: int = 12,
    d_ff: int = 3072,
    max_len: int = 512,
    dropout: float = 0.1,
    pad_id: int | None = 0,
) -> ModelConfig:
    """BERT base (Devlin et al. 2018) as a masked-word model; sentence-pair prediction left out."""
    return ModelConfig(
        architecture="masked_language_model",
        vocab_size=vocab_size,
        d_model=d_model,
        n_layers=n_layers,
        max_len=max_len,
        pad_id=pad_id,
        init="normal",
        attention=AttentionConfig(n_heads=n_heads, bias=True, output_bias=True, dropout=dropout),
        feed_forward=FeedForwardConfig(d_ff=d_ff, activation="gelu"),
        block=BlockConfig(norm_eps=1e-12, dropout=dropout),
        positions=PositionConfig(kind="learned"),
        embedding=EmbeddingConfig(n_types=2, norm=True),
        output=OutputConfig(tied="output", bias=True, transform=True),
    )


def llama(
    *,
    vocab_size: int = 32_000,
    d_model: int = 4096,
    n_heads: int = 32,
    n_kv_heads: int | None = None,
    n_layers: int = 32,
    d_ff: int = 11_008,
    max_len: int = 2048,
    base: float = 10_000.0,
) -> ModelConfig:
    """LLaMA 7B (Touvron et al. 2023): RMSNorm, SwiGLU, rotary positions, no biases, no dropout.

    n_kv_heads below n_heads gives the grouped heads of its successors. A decoder: it has no
    encoder, whatever the by-hand text says.
    """
    return ModelConfig(
        architecture="language_model",
        vocab_size=vocab_size,
        d_model=d_model,
        n_layers=n_layers,
        max_len=max_len,
        init="normal",
        attention=AttentionConfig(n_heads=n_heads, n_kv_heads=n_kv_heads),
        feed_forward=FeedForwardConfig(d_ff=d_ff, activation="swiglu", bias=False),
        block=BlockConfig(norm="rms", norm_first=True, norm_eps=1e-6, final_norm=True, dropout=0.0),
        positions=PositionConfig(kind="rotary", base=base),
    )


PRESETS: dict[str, Callable[..., ModelConfig]] = {
    make.__name__: make
    for make in (
        vaswani_2017_base,
        torch_nn_transformer,
        bloem_2019,
        bloem_2024,
        by_hand_2024,
        illustrated,
        gpt2,
        bert,
        llama,
    )
}
