"""The configuration of a training run: nested frozen dataclasses, complete and validated.

A recipe gives one of these; `--section.key value` and TOML files change its fields. The sentence
under a field is its help text.
"""

from dataclasses import dataclass, field
from typing import Literal

from glassformer.errors import ConfigError, expect_fields
from glassformer.nn import ModelConfig
from glassformer.training.problems import COUNT, DataConfig, Kind

Switch = Literal["auto", "on", "off"]

AttentionKernel = Literal["auto", "cudnn", "flash", "efficient"]

_LEAST_BETWEEN = 20  # steps: after fewer, a score says little, and patience soon runs out


@dataclass(frozen=True, kw_only=True)
class OptimiserConfig:
    """The optimiser."""

    kind: Literal["adamw", "muon"] = "adamw"
    """AdamW for everything, or Muon for the blocks' matrices and AdamW for the rest."""
    lr: float = 1e-3
    """Peak learning rate (of AdamW)."""
    muon_lr: float = 0.02
    """Peak learning rate of Muon."""
    beta1: float = 0.9
    """Decay of the running mean of the gradient."""
    beta2: float = 0.98
    """Decay of the running mean of the squared gradient."""
    eps: float = 1e-9
    """Added to the root of the mean square in the denominator."""
    weight_decay: float = 0.0
    """Decoupled decay of matrices; norms and biases have none."""
    clip: float = 1.0
    """Largest gradient norm; 0: no clipping."""
    label_smoothing: float = 0.0
    """Share of the target probability spread evenly over all tokens."""
    r_drop: float = 0.0
    """R-Drop: weight of the KL divergence between two passes with other dropout; 0: one pass."""

    def __post_init__(self) -> None:
        expect_fields(self, "lr muon_lr eps", "(0, ∞)", "optimiser.")
        expect_fields(self, "beta1 beta2 label_smoothing", "[0, 1)", "optimiser.")
        expect_fields(self, "weight_decay clip r_drop", "[0, ∞)", "optimiser.")


@dataclass(frozen=True, kw_only=True)
class ScheduleConfig:
    """The learning-rate schedule: a linear warm-up, then one of four curves."""

    kind: Literal["constant", "linear", "cosine", "noam"] = "cosine"
    """After the warm-up: constant, linear, half a cosine, or 1/√step (Vaswani et al. 2017)."""
    warmup: int = 100
    """Steps until the peak; the first one is already above 0."""
    floor: float = 0.0
    """Share of the peak at which linear and cosine end."""

    def __post_init__(self) -> None:
        expect_fields(self, "warmup", "[0, ∞)", "schedule.")
        expect_fields(self, "floor", "[0, 1]", "schedule.")


@dataclass(frozen=True, kw_only=True)
class LoopConfig:
    """How long and on what device; when to evaluate and save."""

    seed: int = 0
    """Seed of initialisation, data order and dropout."""
    epochs: float = 10.0
    """Passes over the training data; ignored if steps is set."""
    steps: int | None = None
    """Number of steps."""
    least_steps: int = 0
    """Fewest steps, however few the examples: epochs of a small file are short."""
    accumulate: int = 1
    """Gradient accumulation: batches per step, for steps that do not fit into memory."""
    device: str = "auto"
    """cpu, cuda, mps, or auto."""
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    """Precision of the computation; parameters are float32. auto: bfloat16 on CUDA."""
    compile: Literal["auto", "on", "tuned", "off"] = "auto"
    """Compile model and loss; auto: on CUDA, for long runs whose batches have one shape; tuned:
    also autotune every kernel, which takes minutes."""
    graphs: Switch = "auto"
    """Record steps as CUDA graphs, one per batch shape; auto: on CUDA, if shapes are few."""
    attention: AttentionKernel = "auto"
    """The kernel that fused attention prefers on CUDA; auto: as torch chooses."""
    sharding: Literal["none", "fsdp"] = "none"
    """With several processes: each has the whole model (DDP), or a shard of it (FSDP2)."""
    evaluate_every: int | None = None
    """Steps between evaluations; none: one epoch, but at least 20."""
    select: Literal["best", "last"] = "best"
    """Which weights are kept: the best by validation, or the last."""
    patience: int | None = None
    """Evaluations without a better score after which the run stops; none: never."""
    ema: float = 0.0
    """Decay of the EMA of the weights, which is then evaluated and kept; 0: no EMA."""
    save_every: int | None = None
    """Steps between checkpoints; none: as evaluate_every."""
    keep: int = 2
    """Checkpoints kept."""
    log_every: int = 20
    """Steps between lines of metrics.jsonl."""
    watch: bool = False
    """Save the attention on a sample at each evaluation, for the explorer."""
    beam: int = 4
    """Beams of the final translation; validation is greedy."""
    length_penalty: float = 1.0
    """Of beam search: 0 ranks by log-probability, 1 by its mean over the tokens."""

    def __post_init__(self) -> None:
        expect_fields(self, "steps accumulate evaluate_every patience", COUNT, "loop.")
        expect_fields(self, "save_every keep log_every beam", COUNT, "loop.")
        expect_fields(self, "least_steps length_penalty", "[0, ∞)", "loop.")
        expect_fields(self, "epochs", "(0, ∞)", "loop.")
        expect_fields(self, "ema", "[0, 1)", "loop.")
        expect_fields(self, "seed", "[0, 2^63)", "loop.")  # torch takes a signed 64-bit number

    def n_steps(self, per_epoch: int) -> tuple[int, int]:
        """The total number of steps, and the number between two evaluations."""
        total = self.steps or max(1, self.least_steps, round(self.epochs * per_epoch))
        return total, self.evaluate_every or max(per_epoch, _LEAST_BETWEEN)


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """A complete run: nothing that affects its result is decided elsewhere."""

    recipe: str
    """The recipe that this came from."""
    data: DataConfig
    """The training data."""
    model: ModelConfig
    """The model; sizes that follow from the data are filled in."""
    kind: Kind = "transformer"
    """A Transformer, or a baseline of the same size."""
    optimiser: OptimiserConfig = field(default_factory=OptimiserConfig)
    """The optimiser."""
    schedule: ScheduleConfig = field(default_factory=ScheduleConfig)
    """The learning-rate schedule."""
    loop: LoopConfig = field(default_factory=LoopConfig)
    """How long and on what device."""
    first: "RunConfig | None" = None
    """Pretraining: its tokenizer and the weights that both models share are taken over."""

    def __post_init__(self) -> None:
        self.data.check_model(self.kind, self.model.architecture)
        for name in ("r_drop", "label_smoothing"):
            if getattr(self.optimiser, name) and not self.data.predicts_probabilities:
                raise ConfigError(
                    "optimiser.{name} needs predicted probabilities; ratings are plain numbers",
                    name=name,
                )
        if self.loop.sharding == "fsdp" and self.optimiser.kind == "muon":
            raise ConfigError(
                "muon needs whole matrices, and loop.sharding = fsdp splits them; set "
                "optimiser.kind to adamw"
            )
