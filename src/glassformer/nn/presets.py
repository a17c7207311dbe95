"""The conventions of each text and paper, as complete configs that take sizes.

A preset fixes conventions (where norms stand, what scores are divided by, what is tied); its
arguments are sizes, so that a test or a laptop can shrink it: `gpt2(d_model=64, n_layers=2)`; see
`ModelConfig.sized`. Its docstring says where it departs from what it is named after.
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
    """A config at its own sizes, or at those given."""

    __name__: str

    def __call__(self, **sizes: Unpack[Sizes]) -> ModelConfig:
        """The config."""


PRESETS: dict[str, Preset] = {}


def preset(name: str, **sizes: Any) -> ModelConfig:
    """The preset of this name, with some sizes changed."""
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
    and the output, token vectors times √d_model. Departures: the paper does not say whether the
    four maps of attention have biases (here they have, as in torch.nn) nor how parameters start
    (here Xavier).
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
    """The conventions of `torch.nn.Transformer`: the paper's, and three more.

    A norm after the last block of encoder and decoder, dropout inside the feed-forward and on
    attention weights. torch.nn.Transformer itself has no embeddings and no output layer; here
    they are those of the paper.
    """
    return vaswani_2017_base().with_(
        block__final_norm=True, feed_forward__dropout=0.1, attention__dropout=0.1
    )


@_with_sizes
def bloem_2024() -> ModelConfig:
    """The classifier of "Transformers from scratch" (Bloem), scores divided by √(k/h).

    Learned positions, post-norm, feed-forward of width 4k, global average pooling. Departures:
    padding is left out of attention and pooling where pad_id is given, and parameters start by
    Xavier, not by torch's defaults. The text does not state k and the number of words it trained
    with; the defaults here are ours.
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
    """The same classifier with the divisor of its first printed code: √k, the whole width.

    With h heads the scores are then √h times smaller than intended, and the softmax flatter.
    """
    return bloem_2024().with_(attention__divisor="sqrt_model")


@_with_sizes
def by_hand_2024() -> ModelConfig:
    """The Transformer computed by hand: width 6, one head of width 4, six positions.

    As that text computes: scores divided by √d_model (the paper: √d_head), a feed-forward of one
    layer (the paper: two), norms without parameters and with epsilon outside the root, the whole
    decoder output flattened into one prediction (the paper: one for each position). The 23 words
    have ids 1 to 23; 0 is padding, 24 unknown, 25 start, 26 end. The decoder attends as the
    paper's does, since the text's own wording (encoder output as query) cannot be computed.
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
    """The single head of "illustrated self-attention": inputs of 4, keys and values of 3 numbers.

    Plain dot products, no bias, no output map: the attention alone, not a Transformer.
    """
    return ModelConfig(
        architecture="attention",
        d_model=4,
        attention=AttentionConfig(n_heads=1, d_head=3, d_value=3, divisor="none", output_map=False),
    )


@_with_sizes
def gpt2() -> ModelConfig:
    """GPT-2 small (Radford et al. 2019): pre-norm, learned positions, tied output.

    Departure: GPT-2 starts the maps back into the residual stream at 0.02 / √(2 n_layers); here
    all matrices start at 0.02.
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
    """BERT base (Devlin et al. 2018) as a masked-word model; sentence-pair prediction left out."""
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

    n_kv_heads below n_heads gives the grouped heads of its successors. A decoder: it has no
    encoder, whatever the by-hand text says.
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
