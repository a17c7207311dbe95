"""The configuration of a training run: nested frozen dataclasses, complete and validated.

A recipe gives one of these; `--section.key value` and TOML files change its fields. The sentence
under a field is its help text.
"""

from dataclasses import dataclass, field
from typing import Annotated, Literal

from glassformer.errors import ConfigError, expect_ranges
from glassformer.nn import ModelConfig
from glassformer.nn.config import Positive, Rate
from glassformer.training.problems import Count, DataConfig, Kind

Switch = Literal["auto", "on", "off"]
NonNegative = Annotated[float, "[0, ∞)"]
Steps = Annotated[int, "[0, ∞)"]

AttentionKernel = Literal["auto", "cudnn", "flash", "efficient"]

_LEAST_BETWEEN = 20  # steps: after fewer, a score says little, and patience soon runs out


@dataclass(frozen=True, kw_only=True)
class OptimiserConfig:
    """The optimiser."""

    kind: Literal["adamw", "muon"] = "adamw"
    """AdamW for everything, or Muon for the blocks' matrices and AdamW for the rest."""
    lr: Positive = 1e-3
    """Peak learning rate (of AdamW)."""
    muon_lr: Positive = 0.02
    """Peak learning rate of Muon."""
    beta1: Rate = 0.9
    """Decay of the running mean of the gradient."""
    beta2: Rate = 0.98
    """Decay of the running mean of the squared gradient."""
    eps: Positive = 1e-9
    """Added to the root of the mean square in the denominator."""
    weight_decay: NonNegative = 0.0
    """Decoupled decay of matrices; norms and biases have none."""
    clip: NonNegative = 1.0
    """Largest gradient norm; 0: no clipping."""
    label_smoothing: Rate = 0.0
    """Share of the target probability spread evenly over all tokens."""
    r_drop: NonNegative = 0.0
    """R-Drop: weight of the KL divergence between two passes with other dropout; 0: one pass."""

    def __post_init__(self) -> None:
        expect_ranges(self, "optimiser.")


@dataclass(frozen=True, kw_only=True)
class ScheduleConfig:
    """The learning-rate schedule: a linear warm-up, then one of four curves."""

    kind: Literal["constant", "linear", "cosine", "noam"] = "cosine"
    """After the warm-up: constant, linear, half a cosine, or 1/√step (Vaswani et al. 2017)."""
    warmup: Steps = 100
    """Steps until the peak; the first one is already above 0."""
    floor: Annotated[float, "[0, 1]"] = 0.0
    """Share of the peak at which linear and cosine end."""

    def __post_init__(self) -> None:
        expect_ranges(self, "schedule.")


@dataclass(frozen=True, kw_only=True)
class LoopConfig:
    """How long and on what device; when to evaluate and save."""

    seed: Annotated[int, "[0, 2^63)"] = 0  # torch takes a signed 64-bit number
    """Seed of initialisation, data order and dropout."""
    epochs: Positive = 10.0
    """Passes over the training data; ignored if steps is set."""
    steps: Count | None = None
    """Number of steps."""
    least_steps: Steps = 0
    """Fewest steps, however few the examples: epochs of a small file are short."""
    accumulate: Count = 1
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
    evaluate_every: Count | None = None
    """Steps between evaluations; none: one epoch, but at least 20."""
    select: Literal["best", "last"] = "best"
    """Which weights are kept: the best by validation, or the last."""
    patience: Count | None = None
    """Evaluations without a better score after which the run stops; none: never."""
    ema: Rate = 0.0
    """Decay of the EMA of the weights, which is then evaluated and kept; 0: no EMA."""
    save_every: Count | None = None
    """Steps between checkpoints; none: as evaluate_every."""
    keep: Count = 2
    """Checkpoints kept."""
    log_every: Count = 20
    """Steps between lines of metrics.jsonl."""
    watch: bool = False
    """Save the attention on a sample at each evaluation, for the explorer."""
    test: bool = True
    """Score the weights on the test data at the end; false for a trial run, where that takes
    longer than the training."""
    beam: Count = 4
    """Beams of the final translation; validation is greedy."""
    length_penalty: NonNegative = 1.0
    """Of beam search: 0 ranks by log-probability, 1 by its mean over the tokens."""

    def __post_init__(self) -> None:
        expect_ranges(self, "loop.")

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
