"""How far two results may lie apart, from the arithmetic that made them, in one place.

Identities of algebra are tested in float64. Where float32 is the point of a test (the shipped
models, a kernel, a training run), processors differ in the order of their sums and in their
instructions, so a bound must hold for any order. It comes from the standard analysis of rounding
errors (Higham, Accuracy and Stability of Numerical Algorithms, chapters 3 and 4), never from what
one machine happened to give.
"""

import re

import torch

_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[-+]?\d+)?")


def of_a_sum(terms: int, magnitude: float, dtype: torch.dtype) -> float:
    """How far two sums of the same terms may lie apart, in whatever order each is formed.

    A floating-point operation is right to within u = eps/2 of its result. A sum of n terms, or a
    dot product of n products, thus differs from the exact one by at most γₙ Σ|terms|, where
    γₙ = n·u / (1 − n·u), whatever the order; two of them differ by at most twice that.
    `magnitude` is Σ|terms|, or a bound on it.
    """
    rounded = terms * torch.finfo(dtype).eps / 2
    assert rounded < 0.5, "so long a sum has no digit left"
    return 2 * rounded / (1 - rounded) * magnitude


def of_a_model(n_layers: int, width: int, dtype: torch.dtype) -> float:
    """How far two ways to compute a model may lie apart, as a share of its largest output.

    A block has seven sums in a row: queries and keys, scores, softmax, values, output, and the two
    of the feed-forward; what comes before and after the blocks counts as one more. Each is over
    `width` terms at most. Terms of both signs have a Σ|terms| of about √width times their sum, and
    a norm after each block keeps the values at one size, so that the errors of the sums add up.
    """
    n_sums = 7 * (n_layers + 1)
    return n_sums * of_a_sum(width, width**0.5, dtype)


def printed_alike(text: str, wanted: str) -> bool:
    """Whether two texts have the same words, and numbers that differ by rounding alone.

    A number that lies between two that can be printed is rounded up on one processor and down on
    another: one more or one less in the last place that either prints.
    """
    if _NUMBER.sub("0", text).split() != _NUMBER.sub("0", wanted).split():
        return False
    numbers = zip(_NUMBER.findall(text), _NUMBER.findall(wanted), strict=True)
    return all(
        abs(float(one) - float(other)) <= 1.01 * min(_last_place(one), _last_place(other))
        for one, other in numbers
    )


def _last_place(number: str) -> float:
    digits, _, exponent = number.partition("e")
    decimals = len(digits.partition(".")[2])
    return float(10.0 ** (int(exponent or 0) - decimals))
