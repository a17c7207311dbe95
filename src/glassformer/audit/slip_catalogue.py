"""The catalogue: every slip that the audit knows, the likelier first.

Where two explain the printed digits equally well, both are named; where one kind offers several
rewritings that do, the first is. Names are those a reader of the article would use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from glassformer.audit import formula_slips as formulas
from glassformer.audit import matrix_slips as matrices
from glassformer.audit import print_slips as printing
from glassformer.audit.formulas.terms import Node
from glassformer.audit.slip import Change, Rule, Scene, Slip, anywhere
from glassformer.language import words

say = words("glassformer.audit.audit")

_SIZES = ("rows", "columns", "count")  # which matrix it is makes no difference to its size


def _part(kind: str, name: str, rule: Rule, not_below: tuple[str, ...] = ()) -> Slip:
    """A slip made in some part of the formula."""
    return Slip(kind, say[name], anywhere(rule, not_below=not_below))


def _whole(
    kind: str,
    name: str,
    rewrite: Callable[[Node, Scene], Iterator[Change]],
    doubt: float = 1.5,
) -> Slip:
    """A slip made with the whole result."""
    return Slip(kind, say[name], rewrite, doubt)


_ONE_OF_MANY = 4.0  # any of the products may be the one: a fit by chance is likelier


ROUNDING = _part("rounding", "rounded before use", printing.rounded_before_use)

FITTED = _whole("fitted", "rounded to add up to 1", printing.fitted_to_one, doubt=0.5)

CATALOGUE: tuple[Slip, ...] = (
    _whole("pasted", "another matrix pasted", matrices.another_matrix(own=False)),
    _part("divisor", "wrong divisor", formulas.wrong_divisor, ("floor",)),
    _part("axis", "wrong axis", matrices.wrong_axis),
    _part("exchanged", "factors exchanged", matrices.factors_exchanged),
    _part("transposed", "transposed", matrices.transposed, _SIZES),
    _whole("transposed", "transposed", matrices.result_transposed),
    _part(
        "sample",
        "sample and population deviation confused",
        formulas.sample_deviation,
    ),
    _part(
        "geometric",
        "geometric for arithmetic mean",
        formulas.geometric_mean,
    ),
    _part(
        "sum_for_mean",
        "sum and mean confused",
        formulas.another_reduction("mean", "sum"),
    ),
    _part(
        "max_for_mean",
        "maximum and mean confused",
        formulas.another_reduction("mean", "max"),
    ),
    _part("base", "logarithm to another base", formulas.another_base),
    _part("rows", "rows mixed up", matrices.rows_mixed),
    _whole("rows", "rows mixed up", matrices.rows_exchanged),
    _part(
        "zero_mask",
        "masked by zero instead of minus infinity",
        formulas.mask_by_zero,
    ),
    _part("late_mask", "masked after the softmax", formulas.mask_after_softmax),
    _part("triangle", "mask the wrong way round", formulas.other_triangle),
    _part("no_mask", "mask forgotten", formulas.no_mask),
    _part("sine", "sine and cosine confused", formulas.sine_for_cosine),
    _whole("sine", "sine and cosine exchanged", formulas.sine_and_cosine_exchanged),
    _part("index", "exponent of the wrong index", formulas.wrong_index),
    _whole("token", "a token dropped", printing.token_dropped),
    _part(
        "no_exp",
        "softmax without the exponential",
        formulas.no_exponential,
    ),
    _part("joined", "joined in another order", matrices.joined_otherwise),
    _part("slice", "slice of another head or place", matrices.another_slice),
    _part("operand", "another matrix used", matrices.another_operand, _SIZES),
    ROUNDING,
    FITTED,
    _whole("cut_off", "cut off instead of rounded", printing.cut_off),
    _part("factor", "a factor left out", matrices.factor_left_out),
    _part("term", "a term left out", matrices.term_left_out),
    _whole("term", "a term left out", matrices.product_missed(twice=False), _ONE_OF_MANY),
    _part("twice", "a term added twice", matrices.term_twice),
    _whole("twice", "a term added twice", matrices.product_missed(twice=True), _ONE_OF_MANY),
    _part("sign", "plus and minus confused", formulas.wrong_sign),
    _part(
        "elementwise",
        "multiplied number by number",
        matrices.number_by_number,
    ),
    _part("root", "a root left out", formulas.root_left_out),
    _part("activation", "activation left out", formulas.activation_left_out),
    _part("other_activation", "another activation", formulas.another_activation),
    _whole("pasted", "another matrix pasted", matrices.another_matrix(own=True)),
    _part("from_one", "counted from one", formulas.from_one),
    _whole("sign_lost", "sign lost", printing.sign_lost),
    _whole("point", "decimal point moved", printing.point_moved),
    _whole("digits", "digits exchanged", printing.digits_exchanged),
)
