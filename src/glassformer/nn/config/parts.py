"""The parts of a model, each with its own settings."""

from dataclasses import dataclass
from typing import Literal

from glassformer.errors import ConfigError
from glassformer.nn.config.checking import Checked, positive, probability


@dataclass(frozen=True, kw_only=True)
class AttentionConfig(Checked):
    """One attention layer: its heads, its score and its four maps."""

    n_heads: int = 8
    """Number of heads."""
    d_head: int | None = None
    """Width of a head's queries and keys; none: d_model / n_heads (narrow heads)."""
    d_value: int | None = None
    """Width of a head's values; none: as d_head."""
    n_kv_heads: int | None = None
    """Heads of keys and values, each shared by several query heads; none: n_heads."""
    score: Literal["dot", "additive"] = "dot"
    """How a query is compared with a key: their dot product, or v·tanh(q + k)."""
    divisor: Literal["sqrt_head", "sqrt_model", "none"] | float = "sqrt_head"
    """What dot-product scores are divided by: √d_head, √d_model, nothing, or a number."""
    bias: bool = False
    """Whether the maps to queries, keys and values add a bias."""
    output_map: bool = True
    """Whether the joined heads go through a linear map back to d_model (W_O)."""
    output_bias: bool = False
    """Whether the output map adds a bias."""
    dropout: float = 0.0
    """Share of attention weights dropped in training."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("n_heads", "d_head", "d_value", "n_kv_heads"):
            positive(self, name)
        probability(self, "dropout")
        kv_heads = self.n_kv_heads or self.n_heads
        self._require(
            self.n_heads % kv_heads == 0,
            f"n_heads must be a multiple of n_kv_heads, got {self.n_heads} and {kv_heads}",
        )
        self._require(
            self.score == "dot" or self.divisor in ("sqrt_head", "none"),
            f"additive scores are not divided, got divisor={self.divisor!r}",
        )
        if not isinstance(self.divisor, str):
            self._require(self.divisor > 0, f"divisor must be above 0, got {self.divisor}")

    def head_width(self, d_model: int) -> int:
        """E, the width of one head's queries and keys."""
        if self.d_head is not None:
            return self.d_head
        if d_model % self.n_heads:
            raise ConfigError(
                f"d_model must be a multiple of n_heads, got {d_model} and {self.n_heads}; "
                "change one of them or set d_head"
            )
        return d_model // self.n_heads

    def score_divisor(self, d_model: int) -> float:
        """The number that scores are divided by."""
        if self.divisor == "sqrt_head":
            return float(self.head_width(d_model) ** 0.5)
        if self.divisor == "sqrt_model":
            return float(d_model**0.5)
        return 1.0 if self.divisor == "none" else float(self.divisor)


@dataclass(frozen=True, kw_only=True)
class FeedForwardConfig(Checked):
    """The network that each position goes through alone."""

    d_ff: int = 2048
    """Width between the two layers."""
    n_layers: Literal[1, 2] = 2
    """Two layers (linear, activation, linear), or one (linear, activation; d_ff is not used)."""
    activation: Literal["relu", "gelu", "gelu_tanh", "swiglu"] = "relu"
    """The nonlinearity; gelu is exact, gelu_tanh its approximation, swiglu has a gate."""
    bias: bool = True
    """Whether the linear maps add a bias."""
    dropout: float = 0.0
    """Share dropped after the activation (torch.nn does this, the paper does not)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        positive(self, "d_ff", most=2**26)  # four times as wide as the widest d_model
        probability(self, "dropout")
        self._require(
            self.n_layers == 2 or self.activation != "swiglu",
            "swiglu needs a feed-forward of two layers, got n_layers=1",
        )


@dataclass(frozen=True, kw_only=True)
class BlockConfig(Checked):
    """How sublayers are joined: norms, their place, dropout."""

    norm: Literal["layer", "rms", "plain", "none"] = "layer"
    """LayerNorm, RMSNorm, plain (x − mean) / (std + eps) without parameters, or no norm."""
    norm_first: bool = False
    """Pre-norm, x + f(norm(x)); otherwise post-norm, norm(x + f(x)), as in the 2017 paper."""
    norm_eps: float = 1e-5
    """Epsilon of the norms."""
    final_norm: bool = False
    """A norm after the last block; pre-norm stacks want one."""
    dropout: float = 0.1
    """Share dropped from each sublayer's output and from the embedded input."""

    def __post_init__(self) -> None:
        super().__post_init__()
        probability(self, "dropout")
        self._require(self.norm_eps > 0, f"norm_eps must be above 0, got {self.norm_eps}")


@dataclass(frozen=True, kw_only=True)
class PositionConfig(Checked):
    """How a model knows the order of its input."""

    kind: Literal["learned", "sinusoidal", "rotary", "none"] = "sinusoidal"
    """Learned vectors, fixed sinusoids, rotation of queries and keys, or nothing."""
    base: float = 10_000.0
    """Wavelengths of sinusoids and rotations run from 2π to nearly 2π times this."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._require(self.base > 0, f"base must be above 0, got {self.base}")


@dataclass(frozen=True, kw_only=True)
class EmbeddingConfig(Checked):
    """From ids to vectors."""

    scale: bool = False
    """Multiply token vectors by √d_model, as the 2017 paper does."""
    n_types: int = 0
    """Segment types with a vector each (BERT has 2)."""
    norm: bool = False
    """A norm on the sum of token, position and type vectors (BERT)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._require(self.n_types >= 0, f"n_types must not be negative, got {self.n_types}")


@dataclass(frozen=True, kw_only=True)
class OutputConfig(Checked):
    """From vectors to logits."""

    n_classes: int = 2
    """Classes of a classifier."""
    pooling: Literal["mean", "max", "first"] = "mean"
    """How a classifier makes one vector of many; padding is left out."""
    tied: Literal["none", "output", "all"] = "none"
    """Share the token table with the output map; "all": with both embeddings of a seq2seq."""
    bias: bool = False
    """Whether the map to the vocabulary or the classes adds a bias."""
    transform: bool = False
    """Dense, GELU and norm before the map to the vocabulary (BERT)."""
    flattened: bool = False
    """One prediction from all positions joined into one row: max_len·d_model numbers through one
    map, as in the by-hand text. It fixes the length and cannot be trained in parallel; the paper
    maps each position alone."""

    def __post_init__(self) -> None:
        super().__post_init__()
        positive(self, "n_classes")
        self._require(
            self.tied == "none" or not self.flattened,
            "a flattened output layer is wider than the token table and cannot be tied to it, got "
            f"flattened=True and tied={self.tied!r}",
        )


@dataclass(frozen=True, kw_only=True)
class ImageConfig(Checked):
    """Images as sequences of square patches."""

    size: int = 32
    """Height and width in pixels."""
    patch: int = 4
    """Height and width of a patch in pixels."""
    channels: int = 3
    """Numbers per pixel."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("size", "patch", "channels"):
            positive(self, name)
        self._require(
            self.size % self.patch == 0,
            f"image size must be a multiple of the patch, got {self.size} and {self.patch}",
        )

    @property
    def n_patches(self) -> int:
        """How many positions an image becomes."""
        return int((self.size // self.patch) ** 2)
