"""The config of a model: its architecture, sizes and parts, and which of them fit together."""

from __future__ import annotations

import sys
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from functools import cache, reduce
from types import NoneType
from typing import (
    Annotated,
    Any,
    Literal,
    TypedDict,
    TypeVar,
    Unpack,
    get_args,
    get_origin,
    get_type_hints,
)

from glassformer.errors import ConfigError, Fragment, UnknownNameError, expect_in, expect_ranges

# --- checking ---
# What every config does: check its values, and load from plain data.

T = TypeVar("T")

# Sizes are refused before anything is built: more would exhaust the memory.
Size = Annotated[int, "[1, 2^24]"]
Rows = Annotated[int, "[1, 2^31]"]
"""Of a table: of a recommender, people."""
Depth = Annotated[int, "[0, 10000]"]
Rate = Annotated[float, "[0, 1)"]
Positive = Annotated[float, "(0, ∞)"]


class Checked:
    """Rejects a value that the field's annotation does not allow; the error lists the choices."""

    def __post_init__(self) -> None:
        kind: Any = type(self)
        for name, hint in _hints(kind).items():
            value = getattr(self, name)
            if not _fits(value, hint):
                raise ConfigError(
                    "{kind}.{name} must be {in_words}, got {value!r}",
                    kind=kind.__name__,
                    name=name,
                    in_words=in_words(hint),
                    value=value,
                )
        expect_ranges(self)

    def _require(self, holds: bool, message: str, **fields: object) -> None:
        if not holds:
            raise ConfigError(message, **fields)


@cache
def _hints(cls: Any) -> dict[str, Any]:
    return get_type_hints(cls)


def _fits(value: object, hint: Any) -> bool:
    """Whether a value has the annotated type; an int passes for a float, ∞ and NaN do not."""
    options = get_args(hint)
    if get_origin(hint) is Literal:
        return any(value == option and type(value) is type(option) for option in options)
    if options:
        return any(_fits(value, option) for option in options)
    if hint is float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            return False
        return abs(value) <= sys.float_info.max
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, hint)


_IN_WORDS = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "a text",
    NoneType: "none",
}


def in_words(hint: Any) -> str:
    """What an annotation allows, for error messages."""
    options = get_args(hint)
    if not options:
        return Fragment.of(_IN_WORDS.get(hint, hint.__name__))
    said = map(repr if get_origin(hint) is Literal else in_words, options)
    return reduce(lambda one, other: Fragment.of("{one} or {other}", one=one, other=other), said)


def known_field(config: Any, name: str) -> None:
    """Refuse the name of a setting that a config does not have."""
    known = [f.name for f in fields(config)] if is_dataclass(config) else []
    if name not in known:
        raise UnknownNameError("setting", name, known)


def config_of(cls: type[T], config: object, settings: dict[str, Any]) -> T:
    """The config given, or one made from settings by name; both at once is an error."""
    if config is None:
        for name in settings:
            known_field(cls, name)
        return cls(**settings)
    if settings or not isinstance(config, cls):
        got = "both" if settings else f"{config!r:.60}"
        raise ConfigError(
            "expected {kind}(…) or its settings by name, got {got}", kind=cls.__name__, got=got
        )
    return config


def _from_dict(cls: Any, data: Any, where: str) -> Any:
    """A config, with nested ones, from plain data; `where` is its name in error messages."""
    if not isinstance(data, dict):
        raise ConfigError(
            "{where} must be an object with settings, got {data!r}", where=where, data=data
        )
    hints = _hints(cls)
    values: dict[str, Any] = {}
    for key, value in data.items():
        if key not in hints:
            raise UnknownNameError("setting", f"{where}.{key}", [f"{where}.{h}" for h in hints])
        hint = hints[key]
        nested = is_dataclass(hint) and isinstance(hint, type)
        values[key] = _from_dict(hint, value, f"{where}.{key}") if nested else value
    return cls(**values)


# --- the parts of a model ---


@dataclass(frozen=True, kw_only=True)
class AttentionConfig(Checked):
    """One attention layer: heads, scores and the four linear maps."""

    n_heads: Size = 8
    """Number of heads."""
    d_head: Size | None = None
    """Width of a head's queries and keys; default: d_model / n_heads (narrow heads)."""
    d_value: Size | None = None
    """Width of a head's values; default: d_head."""
    n_kv_heads: Size | None = None
    """Key/value heads, each shared by several query heads; default: n_heads."""
    score: Literal["dot", "additive"] = "dot"
    """How a query is compared with a key: their dot product, or v·tanh(q + k)."""
    divisor: Literal["sqrt_head", "sqrt_model", "none"] | float = "sqrt_head"
    """What dot-product scores are divided by: √d_head, √d_model, nothing, or a number."""
    bias: bool = False
    """Whether the maps to queries, keys and values have a bias."""
    output_map: bool = True
    """Whether the concatenated heads go through a linear map back to d_model (W_O)."""
    output_bias: bool = False
    """Whether the output map has a bias."""
    dropout: Rate = 0.0
    """Dropout rate of attention weights."""

    def __post_init__(self) -> None:
        super().__post_init__()
        kv_heads = self.n_kv_heads or self.n_heads
        self._require(
            self.n_heads % kv_heads == 0,
            "n_heads must be a multiple of n_kv_heads, got {n_heads} and {kv_heads}",
            n_heads=self.n_heads,
            kv_heads=kv_heads,
        )
        self._require(
            self.score == "dot" or self.divisor in ("sqrt_head", "none"),
            "additive scores are not divided, got divisor={divisor!r}",
            divisor=self.divisor,
        )
        if not isinstance(self.divisor, str):
            expect_in(self.divisor, "divisor", "(0, ∞)")

    def head_width(self, d_model: int) -> int:
        """E, the width of one head's queries and keys."""
        if self.d_head is not None:
            return self.d_head
        if d_model % self.n_heads:
            raise ConfigError(
                "d_model must be a multiple of n_heads, got {d_model} and {n_heads}; "
                "change one of them or set d_head",
                d_model=d_model,
                n_heads=self.n_heads,
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
    """The network applied to each position separately."""

    d_ff: Annotated[int, "[1, 2^26]"] = 2048
    """Width between the two layers."""
    n_layers: Literal[1, 2] = 2
    """Two layers (linear, activation, linear), or one (linear, activation; d_ff is not used)."""
    activation: Literal["relu", "gelu", "gelu_tanh", "swiglu"] = "relu"
    """The nonlinearity; gelu is exact, gelu_tanh its approximation, swiglu has a gate."""
    bias: bool = True
    """Whether the linear maps have a bias."""
    dropout: Rate = 0.0
    """Dropout rate after the activation (in torch.nn, but not in the paper)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._require(
            self.n_layers == 2 or self.activation != "swiglu",
            "swiglu needs a feed-forward of two layers, got n_layers=1",
        )


@dataclass(frozen=True, kw_only=True)
class BlockConfig(Checked):
    """How sublayers are connected: norms, their place, dropout."""

    norm: Literal["layer", "rms", "plain", "none"] = "layer"
    """LayerNorm, RMSNorm, plain (x − mean) / (std + eps) without parameters, or no norm."""
    norm_first: bool = False
    """Pre-norm, x + f(norm(x)); otherwise post-norm, norm(x + f(x)), as in the 2017 paper."""
    norm_eps: Positive = 1e-5
    """Epsilon of the norms."""
    final_norm: bool = False
    """A norm after the last block; pre-norm stacks need one."""
    dropout: Rate = 0.1
    """Dropout rate of each sublayer's output and of the embedded input."""


@dataclass(frozen=True, kw_only=True)
class PositionConfig(Checked):
    """How a model knows the order of its input."""

    kind: Literal["learned", "sinusoidal", "rotary", "none"] = "sinusoidal"
    """Learned vectors, fixed sinusoids, rotation of queries and keys, or none."""
    base: Positive = 10_000.0
    """Wavelengths of sinusoids and rotations range from 2π to nearly 2π times this."""


@dataclass(frozen=True, kw_only=True)
class EmbeddingConfig(Checked):
    """From ids to vectors."""

    scale: bool = False
    """Multiply token vectors by √d_model, as the 2017 paper does."""
    n_types: Annotated[int, "[0, ∞)"] = 0
    """Segment types, each with a learned vector (BERT has 2)."""
    norm: bool = False
    """A norm on the sum of token, position and type vectors (BERT)."""


@dataclass(frozen=True, kw_only=True)
class OutputConfig(Checked):
    """From vectors to logits."""

    n_classes: Size = 2
    """Classes of a classifier."""
    pooling: Literal["mean", "max", "first"] = "mean"
    """How a classifier reduces many vectors to one; padding is ignored."""
    tied: Literal["none", "output", "all"] = "none"
    """Tie the output map to the token table; "all": also both embeddings of a seq2seq."""
    bias: bool = False
    """Whether the map to the vocabulary or the classes has a bias."""
    transform: bool = False
    """Dense, GELU and norm before the map to the vocabulary; of a classifier, dense and tanh before
    the map to the classes (BERT)."""
    flattened: bool = False
    """One prediction from all positions flattened into one row of max_len·d_model numbers, as in
    the by-hand text. It fixes the length and cannot be trained in parallel; the paper maps each
    position separately."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._require(
            self.tied == "none" or not self.flattened,
            "a flattened output layer is wider than the token table and cannot be tied to it, got "
            "flattened=True and tied={tied!r}",
            tied=self.tied,
        )


def places_of_patches(rows: int, columns: int) -> tuple[str, ...]:
    """Names of patches in the order in which a model reads them: `y0x0`, `y0x1`, …"""
    return tuple(f"y{row}x{column}" for row in range(rows) for column in range(columns))


@dataclass(frozen=True, kw_only=True)
class ImageConfig(Checked):
    """Images as sequences of square patches."""

    size: Size = 32
    """Height and width in pixels."""
    patch: Size = 4
    """Height and width of a patch in pixels."""
    channels: Size = 3
    """Numbers per pixel."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._require(
            self.size % self.patch == 0,
            "image size must be a multiple of the patch, got {size} and {patch}",
            size=self.size,
            patch=self.patch,
        )

    @property
    def n_patches(self) -> int:
        """The number of positions of an image."""
        return int((self.size // self.patch) ** 2)

    @property
    def patch_places(self) -> tuple[str, ...]:
        """The place of each patch: `y0x1` is the second one of the first row."""
        return places_of_patches(self.size // self.patch, self.size // self.patch)


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


class Sizes(TypedDict, total=False):
    """The sizes of a model by their plain names, wherever they are in its config."""

    vocab_size: int
    target_vocab_size: int | None
    d_model: int
    n_heads: int
    n_kv_heads: int | None
    d_head: int | None
    d_value: int | None
    d_ff: int
    n_layers: int
    max_len: int
    n_classes: int
    dropout: float
    """Everywhere that the model has dropout."""
    pad_id: int | None
    base: float


_SECTIONS = {
    **dict.fromkeys(("n_heads", "n_kv_heads", "d_head", "d_value"), "attention"),
    "d_ff": "feed_forward",
    "n_classes": "output",
    "base": "positions",
    "dropout": "block",
}


@dataclass(frozen=True, kw_only=True)
class ModelConfig(Checked):
    """A complete model: its arithmetic is determined by this config alone."""

    architecture: Architecture = "encoder"
    """Which model to build."""
    vocab_size: Rows = 1000
    """Rows of the token table (of the source in a seq2seq, of people in a recommender)."""
    target_vocab_size: Rows | None = None
    """Rows of the target's token table (of films in a recommender); default: vocab_size."""
    d_model: Size = 512
    """Width of the residual stream."""
    n_layers: Depth = 6
    """Blocks (of the encoder in a seq2seq)."""
    n_decoder_layers: Depth | None = None
    """Blocks of the decoder; default: n_layers."""
    max_len: Size = 512
    """Longest sequence: learned positions end there, and texts are truncated to it."""
    pad_id: int | None = None
    """Id of padding, which an encoder ignores in attention and pooling unless a mask is given. A
    causal stack needs no mask for right padding; for left padding, pass one."""
    init: Initialisation = "xavier"
    """Initialisation: N(0, 0.02²), Xavier uniform or Kaiming normal."""
    attention: AttentionConfig = field(default_factory=AttentionConfig)
    """The attention layers."""
    feed_forward: FeedForwardConfig = field(default_factory=FeedForwardConfig)
    """The feed-forward layers."""
    block: BlockConfig = field(default_factory=BlockConfig)
    """How sublayers are connected."""
    positions: PositionConfig = field(default_factory=PositionConfig)
    """How the model knows the order of its input."""
    embedding: EmbeddingConfig = field(default_factory=EmbeddingConfig)
    """From ids to vectors."""
    output: OutputConfig = field(default_factory=OutputConfig)
    """From vectors to logits."""
    image: ImageConfig = field(default_factory=ImageConfig)
    """The images of an image classifier."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.architecture != "recommender":  # it has no attention
            self.attention.head_width(self.d_model)
            self._check_largest_matrix()
        if self.architecture not in ("attention", "recommender"):
            self._check_residual_widths()
        if self.pad_id is not None:
            self._require(
                0 <= self.pad_id < self.vocab_size,
                "pad_id must be in 0..{last}, got {pad_id}",
                last=self.vocab_size - 1,
                pad_id=self.pad_id,
            )
        if self.positions.kind == "rotary":
            width = self.attention.head_width(self.d_model)
            self._require(
                width % 2 == 0, "rotary positions need an even head width, got {width}", width=width
            )
        self._require(
            not self.output.flattened or self.architecture == "seq2seq",
            "the flattened output layer belongs to a seq2seq, got {architecture!r}",
            architecture=self.architecture,
        )
        one_vocabulary = self.target_vocab_size in (None, self.vocab_size)
        self._require(
            self.output.tied != "all" or one_vocabulary,
            "tied='all' needs one vocabulary for source and target, got {source} and {target}",
            source=self.vocab_size,
            target=self.target_vocab_size,
        )

    def _check_residual_widths(self) -> None:
        """Residual connections need sublayers that return d_model numbers."""
        heads = self.attention
        width = heads.n_heads * (heads.d_value or heads.head_width(self.d_model))
        self._require(
            heads.output_map or width == self.d_model,
            "without an output map the concatenated heads ({width}) must be as wide as d_model "
            "({d_model}), since they are added to the residual stream",
            width=width,
            d_model=self.d_model,
        )

    def _check_largest_matrix(self) -> None:
        """The number of elements must fit torch's 64-bit counter, whatever the single sizes."""
        heads = self.attention
        joined = heads.n_heads * max(heads.head_width(self.d_model), heads.d_value or 1)
        rows = max(self.vocab_size, self.target_vocab_size or 1, self.max_len, joined)
        width = self.d_model * (self.max_len if self.output.flattened else 1)
        n_numbers = width * max(rows, self.feed_forward.d_ff, self.image.n_patches)
        self._require(
            n_numbers < 2**58,
            "these sizes give a matrix of {n_numbers:.0e} numbers; reduce d_model or another size",
            n_numbers=n_numbers,
        )

    def with_(self, **changes: Any) -> ModelConfig:
        """A copy with some fields changed; nested ones as `attention__n_heads=4`."""
        flat: dict[str, Any] = {}
        nested: dict[str, dict[str, Any]] = {}
        for key, value in changes.items():
            section, _, name = key.partition("__")
            known_field(self, section)
            if name:
                known_field(getattr(self, section), name)
                nested.setdefault(section, {})[name] = value
            else:
                flat[key] = value
        for section, values in nested.items():
            flat[section] = replace(flat.get(section, getattr(self, section)), **values)
        return replace(self, **flat)

    def sized(self, **sizes: Unpack[Sizes]) -> ModelConfig:
        """A copy with different sizes, and dependent sizes adjusted.

        If d_model is given alone, a feed-forward that was a multiple of it stays that multiple, and
        the number of heads stays, or becomes the largest smaller number that divides d_model.
        Dependent sizes are set last, so that an error names the size that was given.
        """
        changes: dict[str, Any] = {}
        for name, value in sizes.items():
            if name not in Sizes.__annotations__:
                raise UnknownNameError("size", name, Sizes.__annotations__)
            section = _SECTIONS.get(name)
            changes[name if section is None else f"{section}__{name}"] = value
        if "dropout" in sizes:
            for section in ("attention", "feed_forward"):
                if getattr(self, section).dropout:
                    changes[f"{section}__dropout"] = sizes["dropout"]
        if "d_model" not in sizes:
            return self.with_(**changes)
        n_heads = self.attention.n_heads
        heads_follow = "n_heads" not in sizes and self.attention.d_head is None
        if heads_follow:
            changes["attention__n_heads"] = changes.get("attention__n_kv_heads") or 1
        resized = self.with_(**changes)
        if heads_follow:
            kv_heads = resized.attention.n_kv_heads or 1
            fitting = [
                n for n in range(kv_heads, n_heads + 1, kv_heads) if resized.d_model % n == 0
            ]
            resized = resized.with_(attention__n_heads=max(fitting, default=kv_heads))
        times, rest = divmod(self.feed_forward.d_ff, self.d_model)
        if "d_ff" not in sizes and not rest:
            resized = resized.with_(feed_forward__d_ff=times * resized.d_model)
        return resized

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> ModelConfig:
        """The inverse of `to_dict`; unknown keys are errors.

        Missing keys get their defaults, so that folders written before a setting existed still
        load.
        """
        config: ModelConfig = _from_dict(cls, data, "config")
        return config

    def describe(self) -> str:
        """The module tree with parameter counts, without allocating the parameters."""
        from glassformer.nn.description import describe_config

        return describe_config(self)
