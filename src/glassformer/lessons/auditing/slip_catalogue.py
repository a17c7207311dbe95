"""The catalogue: every slip that the audit knows, the likelier first.

Where two explain the printed digits equally well, both are named; where one kind offers several
rewritings that do, the first is. Names are those a reader of the article would use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from glassformer.lessons.auditing import formula_slips as formulas
from glassformer.lessons.auditing import matrix_slips as matrices
from glassformer.lessons.auditing import print_slips as printing
from glassformer.lessons.auditing.slip import Change, Rule, Scene, Slip, anywhere
from glassformer.lessons.example import Bilingual
from glassformer.lessons.formulas.terms import Node

_SIZES = ("rows", "columns", "count")  # which matrix it is makes no difference to its size


def _part(kind: str, en: str, zh: str, rule: Rule, not_below: tuple[str, ...] = ()) -> Slip:
    """A slip made in some part of the formula."""
    return Slip(kind, Bilingual(en, zh), anywhere(rule, not_below=not_below))


def _whole(
    kind: str,
    en: str,
    zh: str,
    rewrite: Callable[[Node, Scene], Iterator[Change]],
    doubt: float = 1.5,
) -> Slip:
    """A slip made with the whole result."""
    return Slip(kind, Bilingual(en, zh), rewrite, doubt)


_ONE_OF_MANY = 4.0  # any of the products may be the one: a fit by chance is likelier


ROUNDING = _part("rounding", "rounded before use", "先舍入后计算", printing.rounded_before_use)

FITTED = _whole(
    "fitted", "rounded to add up to 1", "为凑成总和 1 而舍入", printing.fitted_to_one, doubt=0.5
)

CATALOGUE: tuple[Slip, ...] = (
    _whole("pasted", "another matrix pasted", "贴错了矩阵", matrices.another_matrix(own=False)),
    _part("divisor", "wrong divisor", "除数有误", formulas.wrong_divisor, ("floor",)),
    _part("axis", "wrong axis", "轴有误", matrices.wrong_axis),
    _part("exchanged", "factors exchanged", "因子互换", matrices.factors_exchanged),
    _part("transposed", "transposed", "转置有误", matrices.transposed, _SIZES),
    _whole("transposed", "transposed", "转置有误", matrices.result_transposed),
    _part(
        "sample",
        "sample and population deviation confused",
        "样本标准差与总体标准差混淆",
        formulas.sample_deviation,
    ),
    _part(
        "geometric",
        "geometric for arithmetic mean",
        "几何平均代替了算术平均",
        formulas.geometric_mean,
    ),
    _part(
        "sum_for_mean",
        "sum and mean confused",
        "求和与求平均混淆",
        formulas.another_reduction("mean", "sum"),
    ),
    _part(
        "max_for_mean",
        "maximum and mean confused",
        "最大值与平均值混淆",
        formulas.another_reduction("mean", "max"),
    ),
    _part("base", "logarithm to another base", "对数的底有误", formulas.another_base),
    _part("rows", "rows mixed up", "行混淆", matrices.rows_mixed),
    _whole("rows", "rows mixed up", "行混淆", matrices.rows_exchanged),
    _part(
        "zero_mask",
        "masked by zero instead of minus infinity",
        "掩码用 0 代替了负无穷",
        formulas.mask_by_zero,
    ),
    _part(
        "late_mask",
        "masked after the softmax",
        "softmax 之后才加掩码",
        formulas.mask_after_softmax,
    ),
    _part("triangle", "mask the wrong way round", "掩码方向相反", formulas.other_triangle),
    _part("no_mask", "mask forgotten", "遗漏掩码", formulas.no_mask),
    _part("sine", "sine and cosine confused", "正弦与余弦混淆", formulas.sine_for_cosine),
    _whole(
        "sine",
        "sine and cosine exchanged",
        "正弦与余弦互换",
        formulas.sine_and_cosine_exchanged,
    ),
    _part("index", "exponent of the wrong index", "指数用错了下标", formulas.wrong_index),
    _whole("token", "a token dropped", "漏掉了词元", printing.token_dropped),
    _part(
        "no_exp",
        "softmax without the exponential",
        "softmax 缺少指数运算",
        formulas.no_exponential,
    ),
    _part("joined", "joined in another order", "拼接次序有误", matrices.joined_otherwise),
    _part("slice", "slice of another head or place", "取了别的切片", matrices.another_slice),
    _part("operand", "another matrix used", "用错了矩阵", matrices.another_operand, _SIZES),
    ROUNDING,
    FITTED,
    _whole("cut_off", "cut off instead of rounded", "截断代替了四舍五入", printing.cut_off),
    _part("factor", "a factor left out", "漏乘", matrices.factor_left_out),
    _part("term", "a term left out", "漏加", matrices.term_left_out),
    _whole("term", "a term left out", "漏加", matrices.product_missed(twice=False), _ONE_OF_MANY),
    _part("twice", "a term added twice", "重复相加", matrices.term_twice),
    _whole(
        "twice",
        "a term added twice",
        "重复相加",
        matrices.product_missed(twice=True),
        _ONE_OF_MANY,
    ),
    _part("sign", "plus and minus confused", "加减号混淆", formulas.wrong_sign),
    _part(
        "elementwise",
        "multiplied number by number",
        "误作按元素相乘",
        matrices.number_by_number,
    ),
    _part("root", "a root left out", "漏开方", formulas.root_left_out),
    _part("activation", "activation left out", "漏掉激活函数", formulas.activation_left_out),
    _part("other_activation", "another activation", "用错了激活函数", formulas.another_activation),
    _whole("pasted", "another matrix pasted", "贴错了矩阵", matrices.another_matrix(own=True)),
    _part("from_one", "counted from one", "从 1 开始计数", formulas.from_one),
    _whole("sign_lost", "sign lost", "正负号有误", printing.sign_lost),
    _whole("point", "decimal point moved", "小数点错位", printing.point_moved),
    _whole("digits", "digits exchanged", "数字颠倒", printing.digits_exchanged),
)
