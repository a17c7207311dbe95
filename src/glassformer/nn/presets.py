"""Presets: the conventions of each paper and text as complete configs.

A preset fixes conventions (where norms are, what scores are divided by, what is tied); its
arguments are sizes, so that a test or a laptop can shrink it: `gpt2(d_model=64, n_layers=2)`, see
`ModelConfig.sized`. Its docstring says where it differs from the original.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any, Protocol, Unpack, runtime_checkable

from glassformer.errors import UnknownNameError
from glassformer.nn.config import (
    AttentionConfig,
    BlockConfig,
    EmbeddingConfig,
    FeedForwardConfig,
    ModelConfig,
    OutputConfig,
    PositionConfig,
    Sizes,
)


@runtime_checkable
class Preset(Protocol):
    """A config with its original sizes, or those given."""

    __name__: str

    def __call__(self, **sizes: Unpack[Sizes]) -> ModelConfig: ...


PRESETS: dict[str, Preset] = {}


def preset(name: str, **sizes: Any) -> ModelConfig:
    """The preset with this name, with some sizes changed."""
    if name not in PRESETS:
        raise UnknownNameError("preset", name, PRESETS)
    return PRESETS[name](**sizes)


def _with_sizes(conventions: Callable[[], ModelConfig]) -> Preset:
    @wraps(conventions)
    def sized(**sizes: Unpack[Sizes]) -> ModelConfig:
        return conventions().sized(**sizes)

    PRESETS[conventions.__name__] = sized
    return sized


@_with_sizes
def vaswani_2017_base() -> ModelConfig:
    """The base model of "Attention is all you need" (Vaswani et al. 2017), table 3.

    Post-norm, dropout on sublayer outputs and embedded inputs only, one table for both embeddings
    and the output, token vectors times √d_model. The paper does not say whether the four maps of
    attention have biases (here they do, as in torch.nn) nor how parameters are initialised (here
    Xavier).
    """
    return ModelConfig(
        architecture="seq2seq",
        vocab_size=37_000,
        d_model=512,
        n_layers=6,
        max_len=512,
        init="xavier",
        attention=AttentionConfig(n_heads=8, bias=True, output_bias=True),
        feed_forward=FeedForwardConfig(d_ff=2048),
        block=BlockConfig(dropout=0.1),
        positions=PositionConfig(kind="sinusoidal"),
        embedding=EmbeddingConfig(scale=True),
        output=OutputConfig(tied="all"),
    )


@_with_sizes
def torch_nn_transformer() -> ModelConfig:
    """The conventions of `torch.nn.Transformer`: the paper's and three more.

    A norm after the last block of encoder and decoder, dropout in the feed-forward and on attention
    weights. torch.nn.Transformer itself has no embeddings and no output layer; here they are the
    paper's.
    """
    return vaswani_2017_base().with_(
        block__final_norm=True, feed_forward__dropout=0.1, attention__dropout=0.1
    )


@_with_sizes
def bloem_2024() -> ModelConfig:
    """The classifier of "Transformers from scratch" (Bloem), scores divided by √(k/h).

    Learned positions, post-norm, feed-forward of width 4k, global average pooling. Differences:
    padding is ignored in attention and pooling if pad_id is given, and parameters are initialised
    by Xavier, not by torch's defaults. The text does not state k and the vocabulary size; the
    defaults here are ours.
    """
    return ModelConfig(
        architecture="classifier",
        vocab_size=50_000,
        d_model=128,
        n_layers=6,
        max_len=512,
        init="xavier",
        attention=AttentionConfig(n_heads=8, output_bias=True),
        feed_forward=FeedForwardConfig(d_ff=4 * 128),
        block=BlockConfig(dropout=0.0),
        positions=PositionConfig(kind="learned"),
        output=OutputConfig(n_classes=2, pooling="mean", bias=True),
    )


@_with_sizes
def bloem_2019() -> ModelConfig:
    """The same classifier with the divisor of its first published code: √k, the whole width.

    With h heads the scores are then √h times smaller than intended, and the softmax is flatter.
    """
    return bloem_2024().with_(attention__divisor="sqrt_model")


@_with_sizes
def by_hand_2024() -> ModelConfig:
    """The Transformer computed by hand: width 6, one head of width 4, six positions.

    As in that text: scores divided by √d_model (the paper: √d_head), a feed-forward of one layer
    (the paper: two), norms without parameters and with epsilon outside the root, the whole decoder
    output flattened into one prediction (the paper: one per position). The 23 words have ids 1 to
    23; 0 is padding, 24 unknown, 25 start, 26 end. The decoder attends as in the paper, since the
    text's own wording (encoder output as query) cannot be computed.
    """
    return ModelConfig(
        architecture="seq2seq",
        vocab_size=27,
        d_model=6,
        n_layers=1,
        max_len=6,
        pad_id=0,
        init="xavier",
        attention=AttentionConfig(n_heads=1, d_head=4, divisor="sqrt_model"),
        feed_forward=FeedForwardConfig(n_layers=1, d_ff=6),
        block=BlockConfig(norm="plain", norm_eps=1e-4, dropout=0.0),
        positions=PositionConfig(kind="sinusoidal"),
        output=OutputConfig(flattened=True),
    )


@_with_sizes
def illustrated() -> ModelConfig:
    """The single head of "illustrated self-attention": inputs of width 4, keys and values of 3.

    Plain dot products, no bias, no output map: one attention layer, not a Transformer.
    """
    return ModelConfig(
        architecture="attention",
        d_model=4,
        attention=AttentionConfig(n_heads=1, d_head=3, d_value=3, divisor="none", output_map=False),
    )


@_with_sizes
def gpt2() -> ModelConfig:
    """GPT-2 small (Radford et al. 2019): pre-norm, learned positions, tied output.

    Difference: GPT-2 initialises the maps back into the residual stream with standard deviation
    0.02 / √(2 n_layers); here it is 0.02 for all matrices.
    """
    return ModelConfig(
        architecture="language_model",
        vocab_size=50_257,
        d_model=768,
        n_layers=12,
        max_len=1024,
        init="normal",
        attention=AttentionConfig(n_heads=12, bias=True, output_bias=True, dropout=0.1),
        feed_forward=FeedForwardConfig(d_ff=4 * 768, activation="gelu_tanh"),
        block=BlockConfig(norm_first=True, final_norm=True, dropout=0.1),
        positions=PositionConfig(kind="learned"),
        output=OutputConfig(tied="output"),
    )


@_with_sizes
def bert() -> ModelConfig:
    """BERT base (Devlin et al. 2018) as a masked language model; no next-sentence prediction."""
    return ModelConfig(
        architecture="masked_language_model",
        vocab_size=30_522,
        d_model=768,
        n_layers=12,
        max_len=512,
        pad_id=0,
        init="normal",
        attention=AttentionConfig(n_heads=12, bias=True, output_bias=True, dropout=0.1),
        feed_forward=FeedForwardConfig(d_ff=3072, activation="gelu"),
        block=BlockConfig(norm_eps=1e-12, dropout=0.1),
        positions=PositionConfig(kind="learned"),
        embedding=EmbeddingConfig(n_types=2, norm=True),
        output=OutputConfig(tied="output", bias=True, transform=True),
    )


@_with_sizes
def llama() -> ModelConfig:
    """LLaMA 7B (Touvron et al. 2023): RMSNorm, SwiGLU, rotary positions, no biases, no dropout.

    n_kv_heads below n_heads gives the grouped heads of its successors. It has only a decoder,
    although the by-hand text says otherwise.
    """
    return ModelConfig(
        architecture="language_model",
        vocab_size=32_000,
        d_model=4096,
        n_layers=32,
        max_len=2048,
        init="normal",
        attention=AttentionConfig(n_heads=32),
        feed_forward=FeedForwardConfig(d_ff=11_008, activation="swiglu", bias=False),
        block=BlockConfig(norm="rms", norm_first=True, norm_eps=1e-6, final_norm=True, dropout=0.0),
        positions=PositionConfig(kind="rotary"),
    )
