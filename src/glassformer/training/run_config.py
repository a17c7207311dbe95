"""The configuration of a training run: nested frozen dataclasses, complete and validated.

A recipe gives one of these; `--section.key value` and TOML files change its fields. The sentence
under a field is its help text.
"""

import math
from dataclasses import dataclass, field
from typing import Literal

from glassformer.errors import ConfigError
from glassformer.nn import ModelConfig
from glassformer.training.problems import DataConfig, Kind, check_counts

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
        _check_finite(self, "optimiser")
        for name in ("lr", "muon_lr", "eps"):
            if getattr(self, name) <= 0:
                raise ConfigError(
                    "optimiser.{name} must be above 0, got {value}",
                    name=name,
                    value=getattr(self, name),
                )
        for name in ("beta1", "beta2", "label_smoothing"):
            if not 0 <= getattr(self, name) < 1:
                raise ConfigError(
                    "optimiser.{name} must be in [0, 1), got {value}",
                    name=name,
                    value=getattr(self, name),
                )
        for name in ("weight_decay", "clip", "r_drop"):
            if getattr(self, name) < 0:
                raise ConfigError(
                    "optimiser.{name} must not be negative, got {value}",
                    name=name,
                    value=getattr(self, name),
                )


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
        _check_finite(self, "schedule")
        if self.warmup < 0:
            raise ConfigError(
                "schedule.warmup must not be negative, got {warmup}", warmup=self.warmup
            )
        if not 0 <= self.floor <= 1:
            raise ConfigError("schedule.floor must be from 0 to 1, got {floor}", floor=self.floor)


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
        _check_finite(self, "loop")
        check_counts(self, "loop", "steps", "accumulate", "evaluate_every", "patience")
        check_counts(self, "loop", "save_every", "keep", "log_every", "beam")
        if self.least_steps < 0:
            raise ConfigError(
                "loop.least_steps must not be negative, got {least_steps}",
                least_steps=self.least_steps,
            )
        if self.epochs <= 0:
            raise ConfigError("loop.epochs must be above 0, got {epochs}", epochs=self.epochs)
        if not 0 <= self.ema < 1:
            raise ConfigError("loop.ema must be in [0, 1), got {ema}", ema=self.ema)
        if self.length_penalty < 0:
            raise ConfigError(
                "loop.length_penalty must not be negative, got {length_penalty}",
                length_penalty=self.length_penalty,
            )
        if not 0 <= self.seed < 2**63:  # torch takes a signed number of 64 bits
            raise ConfigError("loop.seed must be from 0 to 2**63 - 1, got {seed}", seed=self.seed)

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


def _check_finite(config: object, section: str) -> None:
    """Refuse NaN too: comparisons with it are all false, so it would pass every check."""
    for name, value in vars(config).items():
        if isinstance(value, float) and not math.isfinite(value):
            raise ConfigError(
                "{section}.{name} must be a finite number, got {value}",
                section=section,
                name=name,
                value=value,
            )
