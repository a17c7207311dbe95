"""What layers cost: parameters and multiply-adds by formula, embedding size, measured time.

The formulas follow "Transformers from scratch", with k for the width: one head has 3k² parameters,
h narrow heads 3 h k (k/h) = 3k², and the map that joins them k² more. Tests compare them with the
modules.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from timeit import Timer

import torch

from glassformer.errors import ConfigError, expect_whole
from glassformer.nn.config import AttentionConfig


def attention_parameters(d_model: int, config: AttentionConfig) -> dict[str, int]:
    """Parameters of each map of an attention layer; with narrow heads k² each, for any h."""
    d_head = config.head_width(d_model)
    d_value = config.d_value or d_head
    n_kv_heads = config.n_kv_heads or config.n_heads
    counts = {
        "to_queries": _linear(d_model, config.n_heads * d_head, config.bias),
        "to_keys": _linear(d_model, n_kv_heads * d_head, config.bias),
        "to_values": _linear(d_model, n_kv_heads * d_value, config.bias),
    }
    if config.output_map:
        counts["to_output"] = _linear(config.n_heads * d_value, d_model, config.output_bias)
    if config.score == "additive":
        counts["score_vector"] = config.n_heads * d_head
    return counts


@dataclass(frozen=True)
class AttentionCost:
    """Multiply-adds of one attention layer over one sequence, by step."""

    projections: int
    """Queries, keys and values."""
    scores: int
    """Every query with every key."""
    context: int
    """The weighted sums of values."""
    output: int
    """The map that joins the heads."""

    @property
    def multiply_adds(self) -> int:
        """All four products together; the softmax is not among them."""
        return self.projections + self.scores + self.context + self.output


def attention_cost(n_positions: int, d_model: int, config: AttentionConfig) -> AttentionCost:
    """What self-attention over n_positions costs; a causal mask, as written, saves nothing.

    h full-width heads cost h times one head, narrow ones as much as one.
    """
    d_head = config.head_width(d_model)
    d_value = config.d_value or d_head
    n_kv_heads = config.n_kv_heads or config.n_heads
    pairs = config.n_heads * n_positions**2
    widths = config.n_heads * d_head + n_kv_heads * (d_head + d_value)
    joined = config.n_heads * d_value
    return AttentionCost(
        projections=n_positions * d_model * widths,
        scores=pairs * d_head,
        context=pairs * d_value,
        output=n_positions * joined * d_model if config.output_map else 0,
    )


def _linear(n_inputs: int, n_outputs: int, bias: bool) -> int:
    return n_inputs * n_outputs + n_outputs * bias


# --- embedding size ---
# How wide an embedding must be: n > 8.33 ln N, and where the 8.33 comes from.
#
# The rule is Su Jianlin's (2020). Let N words have vectors of n numbers of size 1, so that they lie
# evenly on a sphere of radius √n, and let a pair of words occur with probability
# exp(u_i · v_j) / Z. Since u · v = n cos θ, the entropy of a pair is
#
#     H = 2 ln N + ln E[exp(n cos θ)] − E[n cos θ · exp(n cos θ)] / E[exp(n cos θ)],
#
# over the angle θ between random directions in n dimensions, with density ∝ sinⁿ⁻² θ. For large n
# the maximum of cos θ + ln sin θ decides: cos θ = sin² θ, hence cos θ = (√5 − 1)/2 = 1/φ, the
# inverse of the golden ratio. There H = 2 ln N + n ln sin θ = 2 ln N − (n/2) ln φ = 2 ln N −
# 0.2406 n. The vectors can represent every pair if H < 0: n > (4 / ln φ) ln N = 8.312 ln N. The
# printed 8.33 is 2 / 0.24, from the rounded 0.24. It is a rule of thumb: it bounds capacity, not
# usefulness.


PRINTED_CONSTANT = 8.33
"""The constant as the by-hand text prints it: 2 / 0.24."""

DERIVED_CONSTANT = 4 / math.log((1 + math.sqrt(5)) / 2)
"""4 / ln φ = 8.312…, without intermediate rounding."""


_N_ANGLES = 20_000


def least_embedding_size(vocab_size: int, constant: float = PRINTED_CONSTANT) -> float:
    """The bound n > constant · ln(vocab_size); 26.1 for the 23 words of the by-hand text."""
    expect_whole(vocab_size, "vocab_size")
    return constant * math.log(vocab_size)


def pair_entropy(vocab_size: int, width: int) -> float:
    """H for N words in n dimensions without the large-n approximation, in nats."""
    expect_whole(vocab_size, "vocab_size")
    return 2 * math.log(vocab_size) - entropy_lost_by_angle(width)


def entropy_lost_by_angle(width: int) -> float:
    """What H loses because words prefer small angles: about 0.2406 · width, integrated over θ.

    By the midpoint rule in logarithms, because exp(n cos θ) overflows at n = 710.
    """
    if width < 2:
        raise ConfigError(
            "directions have an angle in 2 dimensions or more, got {width}", width=width
        )
    angles = (torch.arange(_N_ANGLES, dtype=torch.float64) + 0.5) * (math.pi / _N_ANGLES)
    log_density = (width - 2) * angles.sin().log()
    products = width * angles.cos()
    log_mean = torch.logsumexp(log_density + products, 0) - torch.logsumexp(log_density, 0)
    preferred = torch.softmax(log_density + products, dim=0)
    return float((preferred * products).sum() - log_mean)


# --- timing ---
# How long calls take, robust against a busy machine.
#
# On a CPU, process time is measured, without the time spent waiting for a core; on a GPU,
# wall-clock time. A call of a millisecond is too short to time alone: a loop of calls that takes a
# fifth of a second is timed, several times. Other work on the machine only ever makes a loop
# slower, so the shortest is the best estimate of the cost. How much longer the median loop took
# says whether the machine was quiet enough for the figure to mean anything.


DISTURBED = 0.25
"""Above this spread, a timing says more about other work on the machine than about the call."""


@dataclass(frozen=True)
class Timing:
    """Several loops over calls of one function."""

    best: float
    """Seconds per call in the shortest loop."""
    typical: float
    """Seconds per call in the median loop."""

    @property
    def spread(self) -> float:
        """How much longer the median loop took than the shortest, as a fraction."""
        return self.typical / self.best - 1


def time_calls(functions: Sequence[Callable[[], object]], *, repeats: int = 11) -> list[Timing]:
    """Seconds per call of each function, after warm-up loops that find out how many calls to make.

    The functions take turns, so that a busy moment of the machine slows all of them down.
    """
    timers = [Timer(function, timer=_clock) for function in functions]
    loops = [(timer, timer.autorange()[0]) for timer in timers]
    rounds = [[timer.timeit(calls) / calls for timer, calls in loops] for _ in range(repeats)]
    return [Timing(min(times), median(times)) for times in zip(*rounds, strict=True)]


def _clock() -> float:
    if not torch.cuda.is_available():
        return time.process_time()
    torch.cuda.synchronize()  # wait for the kernels to finish
    return time.perf_counter()


def growth(seconds: Mapping[int, float]) -> float:
    """The exponent p that fits seconds ≈ c · lengthᵖ best: 1 is linear, 2 is quadratic growth."""
    lengths = [math.log(length) for length in seconds]
    logs = [math.log(value) for value in seconds.values()]
    middle, level = sum(lengths) / len(lengths), sum(logs) / len(logs)
    across = sum((x - middle) * (y - level) for x, y in zip(lengths, logs, strict=True))
    return across / sum((x - middle) ** 2 for x in lengths)
