"""Slips with whole matrices: the wrong axis, the wrong way round, the wrong one, the wrong row."""

from collections.abc import Iterator

import numpy as np

from glassformer.lessons.auditing.slips.slip import Change, Part, Scene, take_rows
from glassformer.lessons.example import Bilingual, Digits
from glassformer.lessons.formulas.functions import REDUCTIONS
from glassformer.lessons.formulas.tree import (
    Binary,
    Call,
    Known,
    Name,
    Node,
    Number,
    Partly,
    call,
    show,
)
from glassformer.lessons.formulas.values import Numbers

__all__ = [
    "another_matrix",
    "factor_left_out",
    "number_by_number",
    "rows_exchanged",
    "rows_mixed",
    "term_left_out",
    "transposed",
    "wrong_axis",
]

_ALONG = {*REDUCTIONS, "softmax", "log_softmax", "argmax"}


def wrong_axis(node: Node, scene: Scene) -> Iterator[Part]:
    """Along columns where rows are meant, or the other way."""
    if not isinstance(node, Call) or node.function not in _ALONG:
        return
    x = scene.numbers(node.arguments[0])
    given = node.keyword("axis")
    if x is None or (given is not None and not isinstance(given, Number)):
        return
    axis = int(given.value) if isinstance(given, Number) else -1
    for other in range(x.ndim):
        if other != axis % x.ndim:
            detail = Bilingual(
                f"{node.function} along axis {other} instead of {axis % x.ndim}",
                f"{node.function} 沿第 {other} 轴计算，应沿第 {axis % x.ndim} 轴",
            )
            yield node.with_keyword("axis", other), detail


def transposed(node: Node, scene: Scene) -> Iterator[Part]:
    """A matrix the wrong way round: turned where it should not be, or not where it should."""
    if isinstance(node, Call) and node.function == "transpose":
        shown = show(node.arguments[0])
        detail = Bilingual(f"{shown} is not transposed", f"{shown} 没有转置")
        yield node.arguments[0], detail
    elif isinstance(node, Name | Partly):
        value = scene.numbers(node)
        if value is not None and value.ndim == 2:
            detail = Bilingual(f"{node.name} is transposed", f"{node.name} 被转置")
            yield call("transpose", node), detail


def result_transposed(tree: Node, scene: Scene) -> Iterator[Change]:
    """The result itself, rows as columns."""
    if isinstance(scene.right, Numbers) and len(scene.right.shape) == 2:
        detail = Bilingual("rows and columns of the result exchanged", "结果的行与列互换")
        yield Change(call("transpose", tree), detail)


def another_matrix(tree: Node, scene: Scene) -> Iterator[Change]:
    """Another matrix of the page in place of the result, to the last printed digit."""
    del tree
    shape = scene.printed.values.shape if isinstance(scene.printed, Digits) else None
    for name, value in scene.others.items():
        if isinstance(value, Numbers) and value.shape == shape and shape != ():
            detail = Bilingual(f"the numbers are those of {name}", f"这些数字属于 {name}")
            yield Change(Known(value.mid), detail)


def another_operand(node: Node, scene: Scene) -> Iterator[Part]:
    """Another matrix of the page used in place of an operand."""
    if not isinstance(node, Name | Partly):
        return
    value = scene.numbers(node)
    for name, other in scene.others.items():
        if (
            value is not None
            and value.ndim > 0
            and name != node.name
            and isinstance(other, Numbers)
            and other.shape == value.shape
        ):
            detail = Bilingual(f"{name} used for {node.name}", f"误用 {name} 代替 {node.name}")
            yield Name(name), detail


def factor_left_out(node: Node, scene: Scene) -> Iterator[Part]:
    """A product that was never carried out: one factor stands alone."""
    del scene
    if isinstance(node, Binary) and node.operator in "@*":
        for kept, lost in ((node.left, node.right), (node.right, node.left)):
            if not isinstance(kept, Number):
                detail = Bilingual(
                    f"{show(kept)} alone, without {show(lost)}",
                    f"只写了 {show(kept)}，缺少 {show(lost)}",
                )
                yield kept, detail


def number_by_number(node: Node, scene: Scene) -> Iterator[Part]:
    """Multiplied number by number where the matrix product is meant."""
    del scene
    if isinstance(node, Binary) and node.operator == "@":
        detail = Bilingual(f"{show(node)} number by number", f"{show(node)} 按元素相乘")
        yield Binary("*", node.left, node.right, node.column), detail


def term_left_out(node: Node, scene: Scene) -> Iterator[Part]:
    """A sum with a term missing: a forgotten bias, residual or mean."""
    del scene
    if isinstance(node, Binary) and node.operator in "+-":
        yield node.left, _without(node.right)
        if node.operator == "+":
            yield node.right, _without(node.left)


def _without(lost: Node) -> Bilingual:
    return Bilingual(f"without {show(lost)}", f"缺少 {show(lost)}")


def rows_mixed(node: Node, scene: Scene) -> Iterator[Part]:
    """A range that takes in the next row, as happens in a spreadsheet."""
    if not isinstance(node, Call) or node.function not in REDUCTIONS:
        return
    x = scene.numbers(node.arguments[0])
    if x is None or x.ndim != 2 or x.shape[0] < 2:
        return
    axis = node.keyword("axis")
    if axis is None or (isinstance(axis, Number) and axis.value in (1, -1)):
        detail = Bilingual(
            f"{node.function} of each row together with the row below",
            f"{node.function} 把每一行与下一行合在一起计算",
        )
        yield node.with_keyword("rows", 2), detail


def rows_exchanged(tree: Node, scene: Scene) -> Iterator[Change]:
    """The right rows in another order; which order is read off the printed ones."""
    if not isinstance(scene.right, Numbers) or not isinstance(scene.printed, Digits):
        return
    right, digits = scene.right, scene.printed
    if right.shape != digits.values.shape or not right.shape or not digits.shown.all():
        return
    order: list[int] = []
    for i, (row, half) in enumerate(zip(digits.values, digits.half + 1e-9, strict=True)):
        fits = [
            j
            for j in range(len(right.low))
            if j not in order
            and np.all((right.low[j] <= row + half) & (right.high[j] >= row - half))
        ]
        if not fits:
            return
        order.append(i if i in fits else fits[0])
    moved = [i for i, j in enumerate(order) if i != j]
    if moved:
        places = ", ".join(f"{i} ← {order[i]}" for i in moved)
        detail = Bilingual(f"rows in another order: {places}", f"行的次序不同：{places}")
        yield Change(take_rows(tree, order), detail)
