"""Slips inside a formula: the wrong divisor, mean, deviation, function, index or mask."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from glassformer.audit.formulas.terms import (
    Binary,
    Call,
    Node,
    Number,
    Partly,
    call,
    replace_each,
    walk,
)
from glassformer.audit.slip import Change, Part, Rule, Scene
from glassformer.language import words

say = words("glassformer.audit.audit")


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
            detail = scene.tell(
                "divided by {new} instead of {old}",
                new=new,
                old=node.right,
            )
            yield Binary("/", node.left, new, node.column), detail
    yield node.left, scene.tell("not divided by {old}", old=node.right)


def sample_deviation(node: Node, scene: Scene) -> Iterator[Part]:
    """n − 1 in place of n, or n in place of n − 1."""
    del scene
    if not isinstance(node, Call) or node.function not in ("std", "var"):
        return
    given = node.keyword("sample")
    if isinstance(given, Number) and given.value:
        detail = say.both("divided by n instead of n − 1")
        yield node.with_keyword("sample", 0), detail
    else:
        detail = say.both("divided by n − 1 instead of n")
        yield node.with_keyword("sample", 1), detail


def geometric_mean(node: Node, scene: Scene) -> Iterator[Part]:
    """The root of the product in place of the share of the sum."""
    if isinstance(node, Call) and node.function == "mean":
        detail = scene.tell(
            "the n-th root of the product of the numbers of {x}, not their sum divided by n",
            x=node.arguments[0],
        )
        yield Call("geometric_mean", node.arguments, node.keywords, node.column), detail


_REDUCTION_NAMES = {
    "mean": say.both("the mean"),
    "sum": say.both("the sum"),
    "max": say.both("the maximum"),
    "min": say.both("the minimum"),
}


def another_reduction(*pair: str) -> Rule:
    """One reduction for another, either way: the sum for the mean, the maximum for the mean."""

    def rule(node: Node, scene: Scene) -> Iterator[Part]:
        if not isinstance(node, Call) or node.function not in pair:
            return
        other = pair[0] if node.function == pair[1] else pair[1]
        new, old = _REDUCTION_NAMES[other], _REDUCTION_NAMES[node.function]
        of = scene.say(node.arguments[0])
        detail = say.both("{new} of {of} instead of {old}", new=new, of=of, old=old)
        yield Call(other, node.arguments, node.keywords, node.column), detail

    return rule


def another_base(node: Node, scene: Scene) -> Iterator[Part]:
    """The logarithm to base 10 or 2 where the natural one is meant."""
    del scene
    if isinstance(node, Call) and node.function in ("log", "log_softmax"):
        for base in (10, 2):
            detail = say.both("logarithm to base {base} instead of e", base=base)
            yield Binary("/", node, call("log", base)), detail


def no_exponential(node: Node, scene: Scene) -> Iterator[Part]:
    """Each score divided by their sum, without e^."""
    del scene
    if isinstance(node, Call) and node.function == "softmax":
        detail = say.both("scores divided by their sum")
        yield Call("proportion", node.arguments, node.keywords, node.column), detail


def root_left_out(node: Node, scene: Scene) -> Iterator[Part]:
    """The variance where the deviation is meant, or a number where its root is."""
    if isinstance(node, Call) and node.function == "std":
        detail = say.both("the variance instead of the deviation")
        yield Call("var", node.arguments, node.keywords, node.column), detail
    elif isinstance(node, Call) and node.function == "sqrt":
        x = node.arguments[0]
        yield x, scene.tell("{x} without its root", x=x)


def activation_left_out(node: Node, scene: Scene) -> Iterator[Part]:
    """Negative numbers that a ReLU would have made zero."""
    del scene
    if isinstance(node, Call) and node.function in _ACTIVATIONS:
        name = _ACTIVATIONS[node.function]
        yield node.arguments[0], say.both("without {name}", name=name)


_ACTIVATIONS = {
    "relu": "ReLU", "gelu": "GELU", "silu": "SiLU", "tanh": "tanh", "sigmoid": "sigmoid",
}  # fmt: skip


def another_activation(node: Node, scene: Scene) -> Iterator[Part]:
    """GELU for SiLU, |x| for ReLU, and their like."""
    del scene
    match node:
        case Call(function=used, arguments=(x,)) if used in _ACTIVATIONS:
            pass
        case Binary(operator="*", left=x, right=Call("sigmoid", (same,))) if x == same:
            used = "silu"  # as it is often written out
        case _:
            return
    right = _ACTIVATIONS[used]
    instead = {**_ACTIVATIONS, "abs": "|x|"}
    for function, name in instead.items():
        if function != used:
            yield (
                call(function, x),
                say.both("{name} instead of {right}", name=name, right=right),
            )
    if used != "gelu":  # the formula by which GELU is often approximated
        inner = Binary("+", x, Binary("*", Number(0.044715), Binary("^", x, Number(3.0))))
        tanh = call("tanh", Binary("*", Number(float(np.sqrt(2 / np.pi))), inner))
        half = Binary("*", Number(0.5), x)
        detail = say.both("GELU (its tanh formula) instead of {right}", right=right)
        yield Binary("*", half, Binary("+", Number(1.0), tanh)), detail


def wrong_sign(node: Node, scene: Scene) -> Iterator[Part]:
    """Added where it should be taken away, or the other way."""
    if isinstance(node, Binary) and node.operator in "+-":
        other = "-" if node.operator == "+" else "+"
        detail = scene.tell(
            "{wrong} {x} instead of {right} {x}",
            x=node.right,
            wrong=other,
            right=node.operator,
        )
        yield Binary(other, node.left, node.right, node.column), detail


def sine_for_cosine(node: Node, scene: Scene) -> Iterator[Part]:
    """One for the other."""
    del scene
    if isinstance(node, Call) and node.function in ("sin", "cos"):
        other = "cos" if node.function == "sin" else "sin"
        detail = say.both("{other} instead of {function}", other=other, function=node.function)
        yield Call(other, node.arguments, node.keywords, node.column), detail


def sine_and_cosine_exchanged(tree: Node, scene: Scene) -> Iterator[Change]:
    """Each in place of the other, throughout."""
    del scene
    other = {"sin": "cos", "cos": "sin"}
    waves = [part for part in walk(tree) if isinstance(part, Call) and part.function in other]
    if len({part.function for part in waves}) < 2:
        return
    tree = replace_each(tree, {part: Call(other[part.function], part.arguments) for part in waves})
    detail = say.both("sine where cosine belongs, and cosine where sine belongs")
    yield Change(tree, detail)


def wrong_index(node: Node, scene: Scene) -> Iterator[Part]:
    """An index of its own for each number where two share one: i for floor(i / 2)."""
    if not isinstance(node, Call) or node.function != "floor":
        return
    inside = node.arguments[0]
    if isinstance(inside, Binary) and inside.operator == "/":
        detail = scene.tell("{new} instead of {old}", new=inside.left, old=node)
        yield inside.left, detail


def from_one(node: Node, scene: Scene) -> Iterator[Part]:
    """Counted from 1 where 0 is the first."""
    if isinstance(node, Call) and node.function == "range" and node.keyword("stop") is None:
        detail = scene.tell("{x} counted from 1", x=node)
        yield Binary("+", node, Number(1.0)), detail


def mask_by_zero(node: Node, scene: Scene) -> Iterator[Part]:
    """0 where −∞ belongs: e^0 is 1, so the hidden position still gets its weight."""
    del scene
    if isinstance(node, Call) and node.function == "mask":
        scores, allowed = node.arguments
        detail = say.both("hidden scores are 0, not −∞")
        yield call("where", allowed, scores, 0.0), detail


def no_mask(node: Node, scene: Scene) -> Iterator[Part]:
    """The scores as if nothing were hidden."""
    if isinstance(node, Call) and node.function == "mask":
        scores = node.arguments[0]
        yield scores, scene.tell("{x} unmasked", x=scores)


def mask_after_softmax(node: Node, scene: Scene) -> Iterator[Part]:
    """Hidden weights made 0 once the softmax is done: the others no longer add up to one."""
    del scene
    if not isinstance(node, Call) or node.function != "softmax":
        return
    masked = node.arguments[0]
    if isinstance(masked, Partly):
        masked = masked.body
    if isinstance(masked, Call) and masked.function == "mask":
        scores, allowed = masked.arguments
        weights = Call("softmax", (scores,), node.keywords, node.column)
        detail = say.both("hidden weights set to 0 after the softmax: a row no longer adds up to 1")
        yield call("where", allowed, weights, 0.0), detail


def other_triangle(node: Node, scene: Scene) -> Iterator[Part]:
    """The past hidden and the future seen."""
    del scene
    if isinstance(node, Call) and node.function == "causal":
        detail = say.both("the past is hidden, the future is seen")
        yield call("opposite", node), detail
