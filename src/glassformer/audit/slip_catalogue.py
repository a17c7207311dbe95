"""The catalogue: every slip that the audit knows, the likelier ones first.

If two slips explain the printed digits equally well, both are reported; if one kind offers several
rewritings that do, the first is. Names are those that a reader of the article would use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from glassformer.audit import formula_slips as computing
from glassformer.audit import print_slips as printing
from glassformer.audit.formulas.terms import Node
from glassformer.audit.slip import Change, Rule, Scene, Slip, anywhere, either, rewriting
from glassformer.language import words

say = words("glassformer.audit.audit")

_SIZES = ("rows", "columns", "count")  # which matrix is asked for its size makes no difference
_ONE_OF_MANY = 4.0  # any of many products may be the one, so a fit by chance is likelier
_ACTIVATIONS = {
    "relu": "ReLU", "gelu": "GELU", "silu": "SiLU", "tanh": "tanh", "sigmoid": "sigmoid",
}  # fmt: skip
_TANH_GELU = "0.5 * x * (1 + tanh(0.7978845608028654 * (x + 0.044715 * x ^ 3)))"


def _part(kind: str, name: str, *rules: Rule, not_below: tuple[str, ...] = ()) -> Slip:
    """A slip made in some part of the formula."""
    return Slip(kind, say[name], anywhere(either(*rules), not_below=not_below))


def _whole(
    kind: str, name: str, rewrite: Callable[[Node, Scene], Iterator[Change]], doubt: float = 1.5
) -> Slip:
    """A slip made with the whole result."""
    return Slip(kind, say[name], rewrite, doubt)


def _another_activation() -> Iterator[Rule]:
    forms = [(function, f"{function}(x)") for function in _ACTIVATIONS]
    for used, written in (*forms, ("silu", "x * sigmoid(x)")):
        right = _ACTIVATIONS[used]
        for function, name in {**_ACTIVATIONS, "abs": "|x|"}.items():
            if function != used:
                said = "{name} instead of {right}"
                yield rewriting(written, f"{function}(x)", said, name=name, right=right)
        if used != "gelu":
            said = "GELU (its tanh approximation) instead of {right}"
            yield rewriting(written, _TANH_GELU, said, right=right)


ROUNDING = _part("rounding", "rounded before use", printing.rounded_before_use)

FITTED = _whole("fitted", "rounded to add up to 1", printing.fitted_to_one, doubt=0.5)

CATALOGUE: tuple[Slip, ...] = (
    _whole("pasted", "wrong matrix pasted", computing.another_matrix(own=False)),
    _part("divisor", "wrong divisor", computing.wrong_divisor, not_below=("floor",)),
    _part("axis", "wrong axis", computing.wrong_axis),
    _whole("axis", "wrong axis", computing.wrong_axis_throughout),
    _part("exchanged", "factors swapped", computing.factors_exchanged),
    _part("transposed", "wrongly transposed", computing.transposed, not_below=_SIZES),
    _whole("transposed", "wrongly transposed", computing.result_transposed),
    _part("sample", "sample and population deviation confused", computing.sample_deviation),
    _part(
        "geometric", "geometric instead of arithmetic mean",
        rewriting("mean(x)", "geometric_mean(x)",
                  "the n-th root of the product of the numbers in {x}, not their sum over n"),
    ),
    _part(
        "sum_for_mean", "sum and mean confused",
        rewriting("mean(x)", "sum(x)", "the sum of {x} instead of the mean"),
        rewriting("sum(x)", "mean(x)", "the mean of {x} instead of the sum"),
    ),
    _part(
        "max_for_mean", "maximum and mean confused",
        rewriting("mean(x)", "max(x)", "the maximum of {x} instead of the mean"),
        rewriting("max(x)", "mean(x)", "the mean of {x} instead of the maximum"),
    ),
    _part(
        "base", "logarithm to the wrong base",
        *(
            rewriting(f"{function}(x)", f"{function}(x) / log({base})",
                      "logarithm to base {base} instead of e", base=base)
            for function in ("log", "log_softmax")
            for base in ("10", "2")
        ),
    ),
    _part("rows", "rows mixed up", computing.rows_mixed),
    _whole("rows", "rows mixed up", computing.rows_exchanged),
    _part(
        "zero_mask", "masked with zero instead of minus infinity",
        rewriting("mask(x, allowed)", "where(allowed, x, 0)", "hidden scores are 0, not −∞"),
    ),
    _part(
        "late_mask", "masked after the softmax",
        rewriting("softmax(mask(x, allowed))", "where(allowed, softmax(x), 0)",
                  "hidden weights set to 0 after the softmax: a row no longer adds up to 1"),
    ),
    _part(
        "triangle", "mask the wrong way round",
        rewriting("causal(n)", "opposite(causal(n))", "the past is hidden, the future is visible"),
    ),
    _part(
        "no_mask", "mask forgotten",
        rewriting("mask(x, allowed)", "x", "{x} unmasked"),
    ),
    _part(
        "sine", "sine and cosine confused",
        rewriting("sin(x)", "cos(x)", "cosine instead of sine"),
        rewriting("cos(x)", "sin(x)", "sine instead of cosine"),
    ),
    _whole("sine", "sine and cosine exchanged", computing.sine_and_cosine_exchanged),
    _part(
        "index", "exponent with the wrong index",
        rewriting("n * floor(i / n)", "i", "{new} instead of {old}"),
        rewriting("floor(i / n)", "i", "{new} instead of {old}"),
    ),
    _whole("token", "a token dropped", printing.token_dropped),
    _part(
        "no_exp", "softmax without the exponential",
        rewriting("softmax(x)", "proportion(x)", "scores divided by their sum"),
    ),
    _part("joined", "joined in the wrong order", computing.joined_otherwise),
    _part("joined", "joined in the wrong order", computing.waves_in_halves),
    _part("slice", "slice of another head or position", computing.another_slice),
    _part("operand", "wrong matrix used", computing.another_operand, not_below=_SIZES),
    _whole("operand", "operands swapped", computing.operands_exchanged),
    ROUNDING,
    FITTED,
    _whole("cut_off", "truncated instead of rounded", printing.cut_off),
    _part("factor", "a factor left out", computing.factor_left_out),
    _part(
        "term", "a term left out",
        rewriting("a + b", "a", "without {b}"),
        rewriting("a - b", "a", "without {b}"),
        rewriting("a + b", "b", "without {a}"),
    ),
    _whole("term", "a term left out", computing.product_missed(twice=False), _ONE_OF_MANY),
    _part(
        "twice", "a term added twice",
        rewriting("a + b", "a + b + b", "{b} twice"),
        rewriting("a - b", "a - b - b", "{b} twice"),
        rewriting("a + b", "a + b + a", "{a} twice"),
    ),
    _whole("twice", "a term added twice", computing.product_missed(twice=True), _ONE_OF_MANY),
    _part(
        "sign", "plus and minus confused",
        rewriting("a + b", "a - b", "- {b} instead of + {b}"),
        rewriting("a - b", "a + b", "+ {b} instead of - {b}"),
    ),
    _part(
        "elementwise", "elementwise instead of matrix product",
        rewriting("a @ b", "a * b", "{a} times {b} element by element"),
    ),
    _part(
        "root", "a square root left out",
        rewriting("std(x)", "var(x)", "the variance instead of the standard deviation"),
        rewriting("sqrt(x)", "x", "{x} without the square root"),
    ),
    _part(
        "activation", "activation left out",
        *(
            rewriting(f"{function}(x)", "x", "without {name}", name=name)
            for function, name in _ACTIVATIONS.items()
        ),
    ),
    _part("other_activation", "wrong activation", *_another_activation()),
    _whole("pasted", "wrong matrix pasted", computing.another_matrix(own=True)),
    _part("from_one", "counted from one", computing.from_one),
    _whole("sign_lost", "wrong sign", printing.sign_lost),
    _whole("point", "decimal point moved", printing.point_moved),
    _whole("digits", "digits swapped", printing.digits_exchanged),
)  # fmt: skip
