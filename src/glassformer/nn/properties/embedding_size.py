"""How wide an embedding must be: n > 8.33 ln N, and where the 8.33 comes from.

The rule is Su Jianlin's (2020). Say that N words have vectors whose n numbers are of size 1, so
that they lie on a sphere of radius √n, evenly; and that a pair of words occurs with
probability exp(u_i · v_j) / Z. Since u · v = n cos θ, the entropy of a pair is

    H = 2 ln N + ln E[exp(n cos θ)] − E[n cos θ · exp(n cos θ)] / E[exp(n cos θ)],

over the angle θ between random directions in n dimensions, whose density is as sinⁿ⁻² θ. For large
n all is decided where cos θ + ln sin θ is largest: cos θ = sin² θ, hence cos θ = (√5 − 1)/2, the
golden ratio's inverse 1/φ. There H = 2 ln N + n ln sin θ = 2 ln N − (n/2) ln φ = 2 ln N − 0.2406 n.
The vectors can hold every pair where H < 0: n > (4 / ln φ) ln N = 8.312 ln N. The printed
8.33 is 2 / 0.24, from the rounded 0.24. A rule of thumb: it bounds capacity, not usefulness.
"""

import math

import torch

from glassformer.errors import ConfigError

PRINTED_CONSTANT = 8.33
"""The constant as the by-hand text prints it: 2 / 0.24."""

DERIVED_CONSTANT = 4 / math.log((1 + math.sqrt(5)) / 2)
"""4 / ln φ = 8.312…, the same without rounding on the way."""


def least_embedding_size(vocab_size: int, constant: float = PRINTED_CONSTANT) -> float:
    """The bound n > constant · ln(vocab_size); 26.1 for the 23 words of the by-hand text."""
    if vocab_size < 1:
        raise ConfigError(f"vocab_size must be at least 1, got {vocab_size}")
    return constant * math.log(vocab_size)


def pair_entropy(vocab_size: int, width: int) -> float:
    """H for N words in n dimensions without the large-n approximation, in nats."""
    if vocab_size < 1:
        raise ConfigError(f"vocab_size must be at least 1, got {vocab_size}")
    return 2 * math.log(vocab_size) - entropy_lost_by_angle(width)


def entropy_lost_by_angle(width: int, n_angles: int = 20_000) -> float:
    """What H loses because words prefer small angles; near 0.2406 · width, by integration over θ.

    The midpoint rule in logarithms: exp(n cos θ) alone overflows at n = 710.
    """
    if width < 2:
        raise ConfigError(f"directions have an angle in 2 dimensions or more, got {width}")
    angles = (torch.arange(n_angles, dtype=torch.float64) + 0.5) * (math.pi / n_angles)
    log_density = (width - 2) * angles.sin().log()
    products = width * angles.cos()
    log_mean = torch.logsumexp(log_density + products, 0) - torch.logsumexp(log_density, 0)
    preferred = torch.softmax(log_density + products, dim=0)
    return float((preferred * products).sum() - log_mean)
