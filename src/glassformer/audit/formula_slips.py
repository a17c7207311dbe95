"""Slips in computing: the wrong divisor, axis, matrix, row or function.

Those that two formulas can describe are in `slip_catalogue`; these need to look at the numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import reduce
from itertools import combinations, permutations

import numpy as np

from glassformer.audit.example import PrintedDigits
from glassformer.audit.formulas.bounds import BoundedNumbers
from glassformer.audit.formulas.formula_functions import REDUCTIONS
from glassformer.audit.formulas.terms import (
    Binary,
    FunctionCall,
    Index,
    Known,
    Name,
    Node,
    Numeral,
    Partly,
    Slice,
    call,
    rebuild,
    replace_each,
    walk,
)
from glassformer.audit.slip import Change, Part, Scene, take_rows
from glassformer.language import Bilingual, words

say = words("glassformer.audit.audit")

_NAMES = {
    "std": "standard deviation", "var": "variance", "mean": "mean", "sum": "sum",
    "max": "maximum", "min": "minimum", "geometric_mean": "geometric mean",
    "argmax": "position of the maximum",
}  # fmt: skip
_ALONG = {*REDUCTIONS, "softmax", "log_softmax", "argmax"}
_MOST_PARTS = 4  # joined parts whose 24 orders are tried; with more, one would fit by chance
_MOST_MISSED = 3  # entries with a missing product; in more of them it would be another slip


def wrong_divisor(node: Node, scene: Scene) -> Iterator[Part]:
    """Not divided at all; of one number, divided by a size or the root of another."""
    if not isinstance(node, Binary) or node.operator != "/":
        return
    divisor = scene.numbers(node.right)
    if divisor is None:
        return
    sizes = [size for size in scene.sizes() if size > 1 and not divisor.ndim]
    instead: list[Node] = [call("sqrt", size) for size in sizes]
    instead += [Numeral(float(size)) for size in sizes]
    for new in instead:
        value = scene.numbers(new)
        if value is not None and not np.isclose(value, divisor):
            detail = scene.tell("divided by {new} instead of {old}", new=new, old=node.right)
            yield Binary("/", node.left, new, node.column), detail
    yield node.left, scene.tell("not divided by {old}", old=node.right)


def mean_over_another_number(node: Node, scene: Scene) -> Iterator[Part]:
    """A mean whose sum was divided by the size of something else on the page."""
    if not isinstance(node, FunctionCall) or node.function != "mean":
        return
    x, axis = scene.numbers(node.arguments[0]), node.whole("axis", -1)
    if x is None or axis is None or not -x.ndim <= axis < x.ndim:
        return
    total = FunctionCall("sum", node.arguments, node.keywords, node.column)
    for size in scene.sizes():
        if size not in (1, x.shape[axis]):
            detail = scene.tell(
                "divided by {new} instead of {old}", new=Numeral(float(size)),
                old=Numeral(float(x.shape[axis])),
            )  # fmt: skip
            yield Binary("/", total, Numeral(float(size))), detail


def roots_left_out(tree: Node, scene: Scene) -> Iterator[Change]:
    """No square root taken, of several."""
    roots = [
        part for part in walk(tree) if isinstance(part, FunctionCall) and part.function == "sqrt"
    ]
    if len(roots) > 1:
        left, right = (root.arguments[0] for root in roots[:2])
        detail = scene.tell("{left} and {right} without the square root", left=left, right=right)
        yield Change(replace_each(tree, {root: root.arguments[0] for root in roots}), detail)


def sine_and_cosine_exchanged(tree: Node, scene: Scene) -> Iterator[Change]:
    """Each instead of the other, throughout."""
    del scene
    other = {"sin": "cos", "cos": "sin"}
    waves = [
        part for part in walk(tree) if isinstance(part, FunctionCall) and part.function in other
    ]
    if len({part.function for part in waves}) < 2:
        return
    tree = replace_each(
        tree, {part: FunctionCall(other[part.function], part.arguments) for part in waves}
    )
    detail = say.both("sine where cosine belongs, and cosine where sine belongs")
    yield Change(tree, detail)


def wrong_axis(node: Node, scene: Scene) -> Iterator[Part]:
    """Along columns instead of rows, or the reverse."""
    if not isinstance(node, FunctionCall) or node.function not in _ALONG:
        return
    x, axis = scene.numbers(node.arguments[0]), node.whole("axis", -1)
    if x is None or axis is None:
        return
    for other in range(x.ndim):
        if other != axis % x.ndim:
            detail = _along(_name(node.function), other, axis % x.ndim, x.ndim)
            yield node.with_keyword("axis", other), detail


def wrong_axis_throughout(tree: Node, scene: Scene) -> Iterator[Change]:
    """Mean and deviation of columns, say, where those of rows belong."""
    calls = [
        part for part in walk(tree) if isinstance(part, FunctionCall) and part.function in _ALONG
    ]
    inputs = [scene.numbers(part.arguments[0]) for part in calls]
    axes = {part.whole("axis", -1) for part in calls}
    if len(calls) < 2 or len(axes) != 1 or any(x is None or x.ndim != 2 for x in inputs):
        return
    (axis,) = axes
    if axis is None:
        return
    other = 1 - axis % 2
    named = {part.function: _name(part.function) for part in calls}.values()
    names = reduce(lambda one, more: say.both("{left} and {right}", left=one, right=more), named)
    new = rebuild(
        tree,
        lambda node: (
            node.with_keyword("axis", other)
            if isinstance(node, FunctionCall) and node.function in _ALONG
            else node
        ),
    )
    yield Change(new, _along(names, other, axis % 2, 2))


def _name(function: str) -> Bilingual:
    """What a reader calls a function of the formula language."""
    return say[_NAMES[function]] if function in _NAMES else Bilingual(function, function)


def _along(name: Bilingual, wrong: int, right: int, axes: int) -> Bilingual:
    if axes == 2:
        down = "{function} down the columns instead of along the rows"
        along = "{function} along the rows instead of down the columns"
        return say.both(down if wrong == 0 else along, function=name)
    return say.both(
        "{function} along axis {wrong} instead of {right}", function=name, wrong=wrong, right=right
    )


def transposed(node: Node, scene: Scene) -> Iterator[Part]:
    """A matrix transposed when it should not be."""
    value = scene.numbers(node) if isinstance(node, Name | Partly) else None
    if value is not None and value.ndim == 2:
        yield call("transpose", node), scene.tell("{x} is transposed", x=node)


def result_transposed(tree: Node, scene: Scene) -> Iterator[Change]:
    """The result itself transposed."""
    if _turned(tree) is not None:  # `factors_exchanged` gives the same numbers
        return
    if isinstance(scene.right, BoundedNumbers) and len(scene.right.shape) == 2:
        detail = say.both("rows and columns of the result swapped")
        yield Change(call("transpose", tree), detail)


def factors_exchanged(node: Node, scene: Scene) -> Iterator[Part]:
    """Queries and keys swapped: K Qᵀ instead of Q Kᵀ, or B A instead of A B."""
    if not isinstance(node, Binary) or node.operator != "@" or node.left == node.right:
        return
    detail = scene.tell("{left} and {right}", left=node.left, right=_turned(node) or node.right)
    other = _turned(node)
    if other is None:
        yield Binary("@", node.right, node.left, node.column), detail
    elif other != node.left:
        yield Binary("@", other, call("transpose", node.left), node.column), detail


def _turned(node: Node) -> Node | None:
    """B of a product A Bᵀ."""
    match node:
        case Binary(operator="@", right=FunctionCall(function="transpose", arguments=(inside,))):
            return inside
        case _:
            return None


def joined_otherwise(node: Node, scene: Scene) -> Iterator[Part]:
    """Heads joined in the wrong order, or with their columns interleaved."""
    if not isinstance(node, FunctionCall) or node.function not in ("concat", "stack", "flatten"):
        return
    parts = node.arguments
    if len(parts) == 1 and node.function == "flatten":
        detail = scene.tell("{x} read column by column", x=parts[0])
        yield call("flatten", call("transpose", parts[0])), detail
    if not 2 <= len(parts) <= _MOST_PARTS:
        return
    for order in permutations(range(len(parts))):
        if order != tuple(range(len(parts))):
            said = ", ".join(str(i + 1) for i in order)
            detail = say.both("parts in the order {said}", said=said)
            yield FunctionCall(node.function, tuple(parts[i] for i in order), node.keywords), detail
    values = [scene.numbers(part) for part in parts]
    if node.function == "concat" and node.keyword("axis") is None:
        yield from _interleaved(parts, [value.shape for value in values if value is not None])


def _interleaved(parts: tuple[Node, ...], shapes: list[tuple[int, ...]]) -> Iterator[Part]:
    if len(shapes) != len(parts) or len(set(shapes)) != 1 or not shapes[0] or shapes[0][-1] < 2:
        return
    before = (Slice(),) * (len(shapes[0]) - 1)
    columns = tuple(
        Index(part, (*before, Slice(i, i + 1))) for i in range(shapes[0][-1]) for part in parts
    )
    detail = say.both("interleaved column by column, not one part after the other")
    yield FunctionCall("concat", columns), detail


def waves_in_halves(node: Node, scene: Scene) -> Iterator[Part]:
    """All sines before all cosines, where the formula alternates them."""
    match node:
        case FunctionCall("where", (FunctionCall("even"), FunctionCall("sin"), _)):
            table = scene.numbers(node)
            if table is not None and table.ndim == 2:
                order = [*range(0, table.shape[1], 2), *range(1, table.shape[1], 2)]
                detail = say.both("all sines first, then all cosines, instead of alternating")
                yield call("transpose", take_rows(call("transpose", node), order)), detail


def another_slice(node: Node, scene: Scene) -> Iterator[Part]:
    """The rows or columns of another head."""
    if not isinstance(node, Index):
        return
    body = scene.numbers(node.body)
    if body is None:
        return
    at = -1
    for place, part in enumerate(node.parts):
        if part is None:
            continue
        at += 1
        if at >= body.ndim:
            return
        for new in _like(part, body.shape[at]):
            parts = (*node.parts[:place], new, *node.parts[place + 1 :])
            other = Index(node.body, parts, node.column)
            detail = scene.tell("{new} taken instead of {old}", new=other, old=node)
            yield other, detail


def another_slice_throughout(node: Node, scene: Scene) -> Iterator[Part]:
    """Queries and keys of another head: the same slice of several matrices."""
    if not isinstance(node, Binary) or node.operator != "@":
        return
    heads = [part for part in walk(node) if isinstance(part, Index)]
    if len(heads) < 2 or len({part.parts for part in heads}) != 1:
        return
    for others in zip(*(another_slice(part, scene) for part in heads), strict=False):
        exchanged: dict[Node, Node] = dict(zip(heads, (o for o, _ in others), strict=True))
        new, old = others[0][0], heads[0]
        detail = scene.tell("{new} taken instead of {old}, and so on", new=new, old=old)
        yield replace_each(node, exchanged), detail


def _like(part: int | Slice, size: int) -> Iterator[int | Slice]:
    """Other slices of the same width, a whole number of widths away."""
    if isinstance(part, int):
        yield from (i for i in range(size) if i != part % size)
        return
    start, stop, _ = slice(part.start, part.stop).indices(size)
    width = stop - start
    if 0 < width < size:
        for first in range(start % width, size - width + 1, width):
            if first != start:
                yield Slice(first, first + width)


def another_matrix(*, own: bool) -> Callable[[Node, Scene], Iterator[Change]]:
    """Another matrix of the page instead of the result, to the last printed digit.

    With `own`, one of the step's own inputs; those come later, because a part of the formula left
    out explains more.
    """

    def rewrite(tree: Node, scene: Scene) -> Iterator[Change]:
        del tree
        shape = scene.printed.values.shape if isinstance(scene.printed, PrintedDigits) else ()
        for name, value in scene.alike(shape).items():
            if own == (name in scene.step.inputs):
                detail = scene.tell("the numbers are those of {x}", x=Name(name))
                yield Change(Known(value.mid), detail)

    return rewrite


def another_operand(node: Node, scene: Scene) -> Iterator[Part]:
    """Another matrix of the page used as an operand."""
    value = scene.numbers(node) if isinstance(node, Name | Partly) else None
    for name in scene.alike(() if value is None else value.shape):
        new = Name(name)
        if isinstance(node, Name | Partly) and name != node.name:
            yield new, scene.tell("{new} used instead of {old}", new=new, old=node)


def operands_exchanged(tree: Node, scene: Scene) -> Iterator[Change]:
    """Two operands of one shape, each in the place of the other."""
    named = walk(tree, lambda node: not isinstance(node, Partly))
    for one, other in combinations([n for n in named if isinstance(n, Name | Partly)], 2):
        first, second = scene.numbers(one), scene.numbers(other)
        if first is None or second is None or not first.ndim or first.shape != second.shape:
            continue
        detail = scene.tell("{left} and {right}", left=one, right=other)
        yield Change(replace_each(tree, {one: other, other: one}), detail)


def factor_left_out(node: Node, scene: Scene) -> Iterator[Part]:
    """A product that was not carried out: one factor alone."""
    if isinstance(node, Binary) and node.operator in "@*":
        for kept, lost in ((node.left, node.right), (node.right, node.left)):
            if not isinstance(kept, Numeral):
                detail = scene.tell("{kept} alone, without {lost}", kept=kept, lost=lost)
                yield kept, detail


def product_missed(*, twice: bool) -> Callable[[Node, Scene], Iterator[Change]]:
    """One product of a matrix product left out of some entries, or counted twice.

    Which one follows from the printed number: it is the difference.
    """

    def rewrite(tree: Node, scene: Scene) -> Iterator[Change]:
        if not isinstance(tree, Binary) or tree.operator != "@" or scene.compared is None:
            return
        right, digits = scene.compared
        left, other = scene.numbers(tree.left), scene.numbers(tree.right)
        if left is None or other is None:
            return
        made = np.array(right.mid)
        # What unprinted digits of the inputs may change, as long as products can be told apart.
        slack = digits.half + np.minimum(right.high - right.low, 2 * digits.half) + 1e-9
        off = np.argwhere(np.abs(made - digits.values) > slack)
        if len(off) > _MOST_MISSED:
            return
        found = []
        for at in map(tuple, off):
            row = left[at[0]] if left.ndim == 2 else left
            column = other[:, at[-1]] if other.ndim == 2 else other
            products = row * column
            near = made[at] + (products if twice else -products)
            printed, half = digits.values[at], digits.half[at]
            fits = np.flatnonzero(np.abs(near - printed) <= slack[at])
            if fits.size:
                made[at] = np.clip(near[fits[0]], printed - half, printed + half)
                found.append(f"{row[fits[0]]:g}·{column[fits[0]]:g}")
        if found:
            said = ", ".join(found)
            detail = (
                say.both("{said} counted twice", said=said)
                if twice
                else say.both("{said} left out", said=said)
            )
            yield Change(Known(made), detail)

    return rewrite


def rows_mixed(node: Node, scene: Scene) -> Iterator[Part]:
    """A range that includes the next row, as happens in a spreadsheet."""
    if not isinstance(node, FunctionCall) or node.function not in REDUCTIONS:
        return
    x = scene.numbers(node.arguments[0])
    if x is None or x.ndim != 2 or x.shape[0] < 2:
        return
    if node.whole("axis", -1) in (1, -1):
        detail = say.both(
            "{name} of each row together with the row below", name=_name(node.function)
        )
        yield node.with_keyword("rows", 2), detail


def rows_exchanged(tree: Node, scene: Scene) -> Iterator[Change]:
    """The right rows in another order, which follows from the printed ones."""
    if scene.compared is None:
        return
    right, digits = scene.compared
    if not right.shape or not digits.shown.all():
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
        detail = say.both("rows in another order: {places}", places=places)
        yield Change(take_rows(tree, order), detail)
