"""One name for every step: module path plus the variable that its source line assigns.

Only the operator whose result the line assigns takes the variable's name. The others are named
after the module that ran them, or after the operator. Repeats are counted: `x`, `x.2`, `x.3`.
"""

from __future__ import annotations

from collections.abc import Iterable

from glassformer.trace.calls import Call

__all__ = ["UniqueNames", "join", "name_calls"]


class UniqueNames:
    """The names given so far; no name is given twice."""

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._repeats: dict[str, int] = {}

    def take(self, wanted: str) -> str:
        """The wanted name, or the next free repeat of it."""
        name = wanted
        while name in self._taken:
            self._repeats[wanted] = self._repeats.get(wanted, 1) + 1
            name = f"{wanted}.{self._repeats[wanted]}"
        self._taken.add(name)
        return name


def join(path: str, name: str) -> str:
    """A dotted path; the root has none."""
    return f"{path}.{name}" if path else name


def name_calls(calls: Iterable[Call]) -> list[tuple[list[str], str]]:
    """For each call in order: the wanted names of its outputs, and the module they belong to.

    Operators of one visit to a line come together; the last one made what the line assigns.
    """
    calls = list(calls)
    last = {call.origin.visit: call for call in calls}
    wanted = [_wanted(call, is_result=last[call.origin.visit] is call) for call in calls]
    return [
        (names[: _returned(call)] + [join(module, name) for name in call.unreturned], module)
        if _returned(call)
        else (names, module)
        for call, (names, module) in zip(calls, wanted, strict=True)
    ]


def _returned(call: Call) -> int:
    """How many of a call's outputs it returned."""
    return len(call.outputs) - len(call.unreturned)


def _wanted(call: Call, is_result: bool) -> tuple[list[str], str]:
    origin, outputs = call.origin, max(1, _returned(call))
    owner = origin.owner
    if origin.forced is not None:
        return [join(owner, origin.forced)], owner
    targets = origin.targets
    if is_result and len(targets) == outputs and None not in targets:
        return [join(owner, str(target)) for target in targets], owner
    if is_result and len(targets) == 1 and targets[0] is not None:
        return _numbered(call, join(owner, targets[0])), owner
    if origin.module and (origin.module != owner or origin.line is None):
        return _numbered(call, origin.module), origin.module
    if is_result and origin.output:
        return _numbered(call, join(owner, "output")), owner
    return _numbered(call, join(owner, call.operator.name.strip("_"))), owner


def _numbered(call: Call, name: str) -> list[str]:
    """One name for each output: the schema's words for them (`values`, `indices`) where it has."""
    words = [item.name for item in call.operator.func._schema.returns]
    if _returned(call) < 2 or len(words) != _returned(call):
        return [name] * max(1, len(call.outputs))
    return [f"{name}.{word}" if word else name for word in words]
