"""Slips inside a formula: the wrong divisor, mean, deviation, function or index."""

from collections.abc import Iterator

import numpy as np

from glassformer.lessons.auditing.slips.slip import Part, Scene
from glassformer.lessons.example import Bilingual
from glassformer.lessons.formulas.tree import Binary, Call, Node, Number, call, show

__all__ = [
    "activation_left_out",
    "from_one",
    "geometric_mean",
    "no_exponential",
    "root_left_out",
    "sample_deviation",
    "sine_for_cosine",
    "wrong_divisor",
    "wrong_index",
    "wrong_sign",
]


def wrong_divisor(node: Node, scene: Scene) -> Iterator[Part]:
    """Divided by the root of another size, by a size itself, or not at all."""
    if not isinstance(node, Binary) or node.operator != "/":
        return
    divisor = scene.numbers(node.right)
    if divisor is None or divisor.ndim:
        return
    instead: list[Node] = [call("sqrt", size) for size in scene.sizes() if size > 1]
    instead += [Number(float(size)) for size in scene.sizes() if size > 1]
    for new in instead:
        value = scene.numbers(new)
        if value is not None and not np.isclose(value, divisor):
            yield Binary("/", node.left, new, node.column), _divided(show(new), node.right)
    detail = Bilingual(f"not divided by {show(node.right)}", f"没有除以 {show(node.right)}")
    yield node.left, detail


def _divided(new: str, old: Node) -> Bilingual:
    return Bilingual(f"divided by {new} instead of {show(old)}", f"除以 {new}，应除以 {show(old)}")


def sample_deviation(node: Node, scene: Scene) -> Iterator[Part]:
    """n − 1 in place of n, or n in place of n − 1."""
    del scene
    if not isinstance(node, Call) or node.function not in ("std", "var"):
        return
    given = node.keyword("sample")
    if isinstance(given, Number) and given.value:
        detail = Bilingual("divided by n instead of n − 1", "除以 n，应除以 n − 1")
        yield node.with_keyword("sample", 0), detail
    else:
        detail = Bilingual("divided by n − 1 instead of n", "除以 n − 1，应除以 n")
        yield node.with_keyword("sample", 1), detail


def geometric_mean(node: Node, scene: Scene) -> Iterator[Part]:
    """The root of the product in place of the share of the sum."""
    del scene
    if isinstance(node, Call) and node.function == "mean":
        shown = show(node.arguments[0])
        detail = Bilingual(f"of {shown}", f"用于 {shown}")
        yield Call("geometric_mean", node.arguments, node.keywords, node.column), detail


def no_exponential(node: Node, scene: Scene) -> Iterator[Part]:
    """Each score divided by their sum, without e^."""
    del scene
    if isinstance(node, Call) and node.function == "softmax":
        detail = Bilingual("scores divided by their sum", "分数直接除以总和")
        yield Call("proportion", node.arguments, node.keywords, node.column), detail


def root_left_out(node: Node, scene: Scene) -> Iterator[Part]:
    """The variance where the deviation is meant, or a number where its root is."""
    del scene
    if isinstance(node, Call) and node.function == "std":
        detail = Bilingual("the variance instead of the deviation", "用方差代替了标准差")
        yield Call("var", node.arguments, node.keywords, node.column), detail
    elif isinstance(node, Call) and node.function == "sqrt":
        shown = show(node.arguments[0])
        yield node.arguments[0], Bilingual(f"{shown} without its root", f"{shown} 没有开方")


def activation_left_out(node: Node, scene: Scene) -> Iterator[Part]:
    """Negative numbers that a ReLU would have made zero."""
    del scene
    if isinstance(node, Call) and node.function in ("relu", "tanh", "sigmoid"):
        detail = Bilingual(f"without {node.function}", f"没有应用 {node.function}")
        yield node.arguments[0], detail


def wrong_sign(node: Node, scene: Scene) -> Iterator[Part]:
    """Added where it should be taken away, or the other way."""
    del scene
    if isinstance(node, Binary) and node.operator in "+-":
        other = "-" if node.operator == "+" else "+"
        detail = Bilingual(
            f"{other} {show(node.right)} instead of {node.operator} {show(node.right)}",
            f"{other} {show(node.right)}，应为 {node.operator} {show(node.right)}",
        )
        yield Binary(other, node.left, node.right, node.column), detail


def sine_for_cosine(node: Node, scene: Scene) -> Iterator[Part]:
    """One for the other."""
    del scene
    if isinstance(node, Call) and node.function in ("sin", "cos"):
        other = "cos" if node.function == "sin" else "sin"
        detail = Bilingual(f"{other} instead of {node.function}", f"{other} 代替了 {node.function}")
        yield Call(other, node.arguments, node.keywords, node.column), detail


def wrong_index(node: Node, scene: Scene) -> Iterator[Part]:
    """An index of its own for each number where two share one: i for floor(i / 2)."""
    del scene
    if not isinstance(node, Call) or node.function != "floor":
        return
    inside = node.arguments[0]
    if isinstance(inside, Binary) and inside.operator == "/":
        detail = Bilingual(
            f"{show(inside.left)} instead of {show(node)}",
            f"用 {show(inside.left)} 代替了 {show(node)}",
        )
        yield inside.left, detail


def from_one(node: Node, scene: Scene) -> Iterator[Part]:
    """Counted from 1 where 0 is the first."""
    del scene
    if isinstance(node, Call) and node.function == "range" and node.keyword("stop") is None:
        detail = Bilingual(f"{show(node)} counted from 1", f"{show(node)} 从 1 开始计数")
        yield Binary("+", node, Number(1.0)), detail
