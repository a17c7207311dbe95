"""Slips with masks: the wrong fill, the wrong side, none at all."""

from collections.abc import Iterator

from glassformer.lessons.auditing.slips.slip import Part, Scene
from glassformer.lessons.example import Bilingual
from glassformer.lessons.formulas.tree import Call, Node, call, show

__all__ = ["mask_by_zero", "no_mask", "other_triangle"]


def mask_by_zero(node: Node, scene: Scene) -> Iterator[Part]:
    """0 where −∞ belongs: e^0 is 1, so the hidden position still gets its weight."""
    del scene
    if isinstance(node, Call) and node.function == "mask":
        scores, allowed = node.arguments
        detail = Bilingual("hidden scores are 0, not −∞", "被掩盖的分数写成 0，应为 −∞")
        yield call("where", allowed, scores, 0.0), detail


def no_mask(node: Node, scene: Scene) -> Iterator[Part]:
    """The scores as if nothing were hidden."""
    del scene
    if isinstance(node, Call) and node.function == "mask":
        shown = show(node.arguments[0])
        yield node.arguments[0], Bilingual(f"{shown} unmasked", f"{shown} 没有加掩码")


def other_triangle(node: Node, scene: Scene) -> Iterator[Part]:
    """The past hidden and the future seen."""
    del scene
    if isinstance(node, Call) and node.function == "causal":
        detail = Bilingual("the past is hidden, the future is seen", "掩盖了过去，却看到了未来")
        yield call("opposite", node), detail
