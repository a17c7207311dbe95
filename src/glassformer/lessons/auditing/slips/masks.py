"""Slips with masks: the wrong fill, the wrong side, too late, none at all."""

from collections.abc import Iterator

from glassformer.language import words
from glassformer.lessons.auditing.slips.slip import Part, Scene
from glassformer.lessons.formulas.tree import Call, Node, Partly, call

__all__ = ["mask_after_softmax", "mask_by_zero", "no_mask", "other_triangle"]

say = words("glassformer.lessons.auditing.audit")


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
