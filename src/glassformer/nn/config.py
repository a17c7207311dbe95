"""What a model is made of, as data: nested frozen dataclasses, checked when they are made.

A config knows sizes and conventions and nothing of tensors. The sentence under a field is its
documentation, in the API pages and in the command's help. `ModelConfig.to_dict` and `from_dict`
carry it through JSON; a key that does not exist is an error, never ignored.
"""

from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from typing import Any, Literal, TypeVar, get_args, get_type_hints

from glassformer.errors import ConfigError, UnknownNameError

__all__ = [
    "AttentionConfig",
    "BlockConfig",
    "EmbeddingConfig",
    "FeedForwardConfig",
    "ImageConfig",
    "ModelConfig",
    "OutputConfig",
    "PositionConfig",
]

T = TypeVar("T")

Initialisation = Literal["normal", "xavier", "kaiming"]
Architecture = Literal[
    "attention",
    "encoder",
    "classifier",
    "image_classifier",
    "masked_language_model",
    "language_model",
    "seq2seq",
    "recommender",
]


class _Checked:
    """Rejects a value that the field's annotation does not allow, and names the choices."""

    def __post_init__(self) -> None:
        for name, hint in get_type_hints(type(self)).items():
            value = getattr(self, name)
            if not _fits(value, hint):
                raise ConfigError(
                    f"{type(self).__name__}.{name} must be {_in_words(hint)}, got {value!r}"
                )

    def _require(self, holds: bool, message: str) -> None:
        if not holds:
            raise ConfigError(message)


@dataclass(frozen=True, kw_only=True)
class AttentionConfig(_Checked):
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
            _positive(self, name)
        _probability(self, "dropout")
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
class FeedForwardConfig(_Checked):
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
        _positive(self, "d_ff")
        _probability(self, "dropout")
        self._require(
            self.n_layers == 2 or self.activation != "swiglu",
            "swiglu needs a feed-forward of two layers, got n_layers=1",
        )


@dataclass(frozen=True, kw_only=True)
class BlockConfig(_Checked):
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
        _probability(self, "dropout")
        self._require(self.norm_eps > 0, f"norm_eps must be above 0, got {self.norm_eps}")


@dataclass(frozen=True, kw_only=True)
class PositionConfig(_Checked):
    """How a model knows the order of its input."""

    kind: Literal["learned", "sinusoidal", "rotary", "none"] = "sinusoidal"
    """Learned vectors, fixed sinusoids, rotation of queries and keys, or nothing."""
    base: float = 10_000.0
    """Wavelengths of sinusoids and rotations run from 2π to nearly 2π times this."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._require(self.base > 0, f"base must be above 0, got {self.base}")


@dataclass(frozen=True, kw_only=True)
class EmbeddingConfig(_Checked):
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
class OutputConfig(_Checked):
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
        _positive(self, "n_classes")
        self._require(
            self.tied == "none" or not self.flattened,
            "a flattened output layer is wider than the token table and cannot be tied to it, got "
            f"flattened=True and tied={self.tied!r}",
        )


@dataclass(frozen=True, kw_only=True)
class ImageConfig(_Checked):
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
            _positive(self, name)
        self._require(
            self.size % self.patch == 0,
            f"image size must be a multiple of the patch, got {self.size} and {self.patch}",
        )

    @property
    def n_patches(self) -> int:
        """How many positions an image becomes."""
        return int((self.size // self.patch) ** 2)


@dataclass(frozen=True, kw_only=True)
class ModelConfig(_Checked):
    """A complete model: nothing about its arithmetic is decided elsewhere."""

    architecture: Architecture = "encoder"
    """Which model to build."""
    vocab_size: int = 1000
    """Rows of the token table (of the source, in a seq2seq; of people, in a recommender)."""
    target_vocab_size: int | None = None
    """Rows of the target's token table (of films, in a recommender); none: as vocab_size."""
    d_model: int = 512
    """Width of the residual stream."""
    n_layers: int = 6
    """Blocks (of the encoder, in a seq2seq)."""
    n_decoder_layers: int | None = None
    """Blocks of the decoder; none: as n_layers."""
    max_len: int = 512
    """Longest sequence: learned positions end there, and texts are cut to it."""
    pad_id: int | None = None
    """Id of padding: an encoder leaves it out of attention and pooling where no mask is given. A
    causal stack needs no mask for padding on the right; for padding on the left, give one."""
    init: Initialisation = "xavier"
    """How parameters start: N(0, 0.02²), Xavier uniform or Kaiming normal."""
    attention: AttentionConfig = field(default_factory=AttentionConfig)
    """The attention layers."""
    feed_forward: FeedForwardConfig = field(default_factory=FeedForwardConfig)
    """The feed-forward layers."""
    block: BlockConfig = field(default_factory=BlockConfig)
    """How sublayers are joined."""
    positions: PositionConfig = field(default_factory=PositionConfig)
    """How order is known."""
    embedding: EmbeddingConfig = field(default_factory=EmbeddingConfig)
    """From ids to vectors."""
    output: OutputConfig = field(default_factory=OutputConfig)
    """From vectors to logits."""
    image: ImageConfig = field(default_factory=ImageConfig)
    """The images of an image classifier."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("vocab_size", "target_vocab_size", "d_model", "max_len"):
            _positive(self, name)
        for name in ("n_layers", "n_decoder_layers"):
            depth = getattr(self, name)
            self._require(depth is None or depth >= 0, f"{name} must not be negative, got {depth}")
        self.attention.head_width(self.d_model)
        if self.architecture != "attention":
            self._check_residual_widths()
        if self.pad_id is not None:
            self._require(
                0 <= self.pad_id < self.vocab_size,
                f"pad_id must be in 0..{self.vocab_size - 1}, got {self.pad_id}",
            )
        if self.positions.kind == "rotary":
            width = self.attention.head_width(self.d_model)
            self._require(width % 2 == 0, f"rotary positions need an even head width, got {width}")
        self._require(
            not self.output.flattened or self.architecture == "seq2seq",
            f"the flattened output layer belongs to a seq2seq, got {self.architecture!r}",
        )
        one_vocabulary = self.target_vocab_size in (None, self.vocab_size)
        self._require(
            self.output.tied != "all" or one_vocabulary,
            "tied='all' needs one vocabulary for source and target, got "
            f"{self.vocab_size} and {self.target_vocab_size}",
        )

    def _check_residual_widths(self) -> None:
        """Residual sums need sublayers that return d_model numbers."""
        heads = self.attention
        width = heads.n_heads * (heads.d_value or heads.head_width(self.d_model))
        self._require(
            heads.output_map or width == self.d_model,
            f"without an output map the joined heads ({width}) must be as wide as d_model "
            f"({self.d_model}), since they are added to it",
        )

    def with_(self, **changes: Any) -> "ModelConfig":
        """A copy with some fields changed; nested ones as `attention__n_heads=4`."""
        flat: dict[str, Any] = {}
        nested: dict[str, dict[str, Any]] = {}
        for key, value in changes.items():
            section, _, name = key.partition("__")
            _known_field(self, section)
            if name:
                _known_field(getattr(self, section), name)
                nested.setdefault(section, {})[name] = value
            else:
                flat[key] = value
        for section, values in nested.items():
            flat[section] = replace(flat.get(section, getattr(self, section)), **values)
        return replace(self, **flat)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON data."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "ModelConfig":
        """The config that `to_dict` was called on; unknown keys are errors.

        A missing key has its default, so that a folder written before a setting existed loads.
        """
        return _from_dict(cls, data, "config")

    def describe(self) -> str:
        """The module tree with its parameter counts, without allocating the parameters."""
        from glassformer.nn.describe import describe_config  # the models know configs, not we them

        return describe_config(self)


def _fits(value: object, hint: Any) -> bool:
    """Whether a value is of the annotated type; a whole number passes for a float."""
    options = get_args(hint)
    if getattr(hint, "__origin__", None) is Literal:
        return any(value == option and type(value) is type(option) for option in options)
    if options:
        return any(_fits(value, option) for option in options)
    if hint is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, hint)


def _in_words(hint: Any) -> str:
    options = get_args(hint)
    if getattr(hint, "__origin__", None) is Literal:
        return " or ".join(map(repr, options))
    if options:
        return " or ".join(_in_words(option) for option in options)
    return {int: "a whole number", float: "a number", bool: "true or false"}.get(
        hint, "none" if hint is type(None) else getattr(hint, "__name__", str(hint))
    )


def _positive(config: object, name: str) -> None:
    value = getattr(config, name)
    if value is not None and value < 1:
        raise ConfigError(f"{name} must be at least 1, got {value}")


def _probability(config: object, name: str) -> None:
    value = getattr(config, name)
    if not 0 <= value < 1:
        raise ConfigError(f"{name} must be in [0, 1), got {value}")


def _known_field(config: Any, name: str) -> None:
    known = [f.name for f in fields(config)] if is_dataclass(config) else []
    if name not in known:
        raise UnknownNameError("setting", name, known)


def _from_dict(cls: type[T], data: Any, where: str) -> T:
    if not isinstance(data, dict):
        raise ConfigError(f"{where} must be an object with settings, got {data!r}")
    hints = get_type_hints(cls)
    values: dict[str, Any] = {}
    for key, value in data.items():
        if key not in hints:
            raise UnknownNameError("setting", f"{where}.{key}", [f"{where}.{h}" for h in hints])
        hint = hints[key]
        nested = is_dataclass(hint) and isinstance(hint, type)
        values[key] = _from_dict(hint, value, f"{where}.{key}") if nested else value
    return cls(**values)
