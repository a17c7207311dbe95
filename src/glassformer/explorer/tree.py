"""The modules of a trace as a tree, folded to what matters.

A module without steps of its own (a linear layer, whose product is a step of the attention around
it) gives its parameters to the module around it; a list of blocks gives its name to each block.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import nn

from glassformer.explorer.schemas import BranchInfo
from glassformer.trace import Step, Trace

__all__ = ["tree_of"]


@dataclass
class _Branch:
    name: str
    path: str
    steps: list[int] = field(default_factory=list)
    parameters: list[int] = field(default_factory=list)
    branches: dict[str, _Branch] = field(default_factory=dict)


def tree_of(trace: Trace, steps: list[Step], first: int) -> BranchInfo:
    """The tree; unfolded are its upper levels and the way to the step that is shown first."""
    root = _Branch("", "")
    for step in steps:
        if step.role == "parameter" or (step.call is None and not step.is_view):
            continue
        _find(root, step.module).steps.append(step.number)
    for step in steps:
        if step.call is None and not step.is_view:
            _nearest(root, step.module).parameters.append(step.number)
    function = trace.recording.program.function
    module = function if isinstance(function, nn.Module) else None
    return _told(root, module, f"{steps[first].module}.", 0)


def _find(root: _Branch, path: str) -> _Branch:
    branch = root
    for name in path.split(".") if path else []:
        inner = f"{branch.path}.{name}" if branch.path else name
        branch = branch.branches.setdefault(name, _Branch(name, inner))
    return branch


def _nearest(root: _Branch, path: str) -> _Branch:
    """The innermost branch on the way to a module that has steps."""
    branch = nearest = root
    for name in path.split(".") if path else []:
        if name not in branch.branches:
            break
        branch = branch.branches[name]
        if branch.steps:
            nearest = branch
    return nearest


def _told(branch: _Branch, module: nn.Module | None, way: str, depth: int) -> BranchInfo:
    inner: list[_Branch] = []
    for below in branch.branches.values():
        inner.extend(_unfolded(below))
    on_the_way = not branch.path or way.startswith(f"{branch.path}.")
    return BranchInfo(
        name=branch.name,
        path=branch.path,
        kind=_kind(module, branch.path),
        steps=branch.steps,
        parameters=branch.parameters,
        branches=[_told(below, module, way, depth + 1) for below in inner],
        is_open=on_the_way or depth < 2,
    )


def _unfolded(branch: _Branch) -> list[_Branch]:
    """The branch, or what is inside it where it holds nothing itself."""
    if branch.steps or branch.parameters or len(branch.branches) == 0:
        return [branch]
    inside = [part for below in branch.branches.values() for part in _unfolded(below)]
    if not all(part.name.split(".")[0].isdigit() for part in inside):
        return [branch]
    for part in inside:
        part.name = f"{branch.name}.{part.name}"
    return inside


def _kind(module: nn.Module | None, path: str) -> str:
    try:
        return "" if module is None else type(module.get_submodule(path)).__name__
    except AttributeError:
        return ""
