"""A whole model: which one it is, its sizes, its parts, and which of them fit together."""

from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, TypedDict, Unpack

from glassformer.errors import UnknownNameError
from glassformer.nn.config.checking import Checked, at_most, from_dict, known_field, positive
from glassformer.nn.config.parts import (
    AttentionConfig,
    BlockConfig,
    EmbeddingConfig,
    FeedForwardConfig,
    ImageConfig,
    OutputConfig,
    PositionConfig,
)

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
    """The sizes of a model by their plain names, wherever in its config they stand."""

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
    """Wherever the model has dropout."""
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
        for name in ("vocab_size", "target_vocab_size"):
            positive(self, name, most=2**31)  # there are more people than words
        for name in ("d_model", "max_len"):
            positive(self, name)
        for name in ("n_layers", "n_decoder_layers"):
            depth = getattr(self, name)
            self._require(depth is None or depth >= 0, f"{name} must not be negative, got {depth}")
            at_most(self, name, 10_000)
        if self.architecture != "recommender":  # it attends to nothing
            self.attention.head_width(self.d_model)
            self._check_largest_matrix()
        if self.architecture not in ("attention", "recommender"):
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

    def _check_largest_matrix(self) -> None:
        """torch counts the numbers of a tensor in 64 bits; each size alone is far below that."""
        heads = self.attention
        joined = heads.n_heads * max(heads.head_width(self.d_model), heads.d_value or 1)
        rows = max(self.vocab_size, self.target_vocab_size or 1, self.max_len, joined)
        width = self.d_model * (self.max_len if self.output.flattened else 1)
        n_numbers = width * max(rows, self.feed_forward.d_ff, self.image.n_patches)
        self._require(
            n_numbers < 2**58,
            f"these sizes give a matrix of {n_numbers:.0e} numbers; make d_model or others smaller",
        )

    def with_(self, **changes: Any) -> "ModelConfig":
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

    def sized(self, **sizes: Unpack[Sizes]) -> "ModelConfig":
        """A copy with other sizes; what follows from them follows.

        Where d_model is given alone, a feed-forward that was a multiple of it stays that multiple,
        and there are as many heads as before, or the most below that can divide it. A size that
        follows is set last: an error then names the size that was given.
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
        """Plain JSON data."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "ModelConfig":
        """The config that `to_dict` was called on; unknown keys are errors.

        A missing key has its default, so that a folder written before a setting existed loads.
        """
        return from_dict(cls, data, "config")

    def describe(self) -> str:
        """The module tree with its parameter counts, without allocating the parameters."""
        from glassformer.nn.description import (
            describe_config,  # the models know configs, not we them
        )

        return describe_config(self)
