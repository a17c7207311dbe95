"""Which module is running (a stack of paths, kept by hooks), and what its steps are called."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from torch import nn
from torch.nn.modules.module import (
    register_module_forward_hook,
    register_module_forward_pre_hook,
)

from glassformer.tracing.capture.memory import Budget
from glassformer.tracing.capture.operator_calls import Call

# --- names ---
# One name per step: the module path plus the variable that its source line assigns.
#
# Only the operator whose result is assigned gets the variable's name. The others are named after
# the module that ran them, or after the operator. Repeats are numbered: `x`, `x.2`, `x.3`.


class UniqueNames:
    """Hands out each name only once."""

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
    """A dotted path; that of the root is empty."""
    return f"{path}.{name}" if path else name


def name_calls(calls: Iterable[Call]) -> list[tuple[list[str], str]]:
    """For each call in order: the wanted names of its outputs, and the module they belong to.

    The operators of one visit to a line are consecutive; the last one computes what is assigned.
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
    """The number of outputs that a call returned."""
    return len(call.outputs) - len(call.unreturned)


def _wanted(call: Call, is_result: bool) -> tuple[list[str], str]:
    origin, outputs = call.origin, max(1, _returned(call))
    owner = origin.owner
    if origin.forced:
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
    """One name per output: with the schema's names (`values`, `indices`) if it has any."""
    words = [item.name for item in call.operator.func._schema.returns]
    if _returned(call) < 2 or len(words) != _returned(call):
        return [name] * max(1, len(call.outputs))
    return [f"{name}.{word}" if word else name for word in words]


class ModulePaths:
    """The paths of the modules currently running, outermost first."""

    def __init__(self, root: nn.Module | None, budget: Budget) -> None:
        self.modules: list[tuple[str, nn.Module]] = (
            [] if root is None else list(root.named_modules(remove_duplicate=False))
        )
        """Every module of the root, under every path that leads to it."""
        self.ran: set[type[nn.Module]] = set()
        """The classes of the modules that ran."""
        self._budget = budget
        self._stack: list[tuple[str, int]] = []
        self._known: dict[int, list[str]] = {}
        self._blocks: dict[str, int] = {}
        self._in_stacks: set[str] = set()
        self._blocks_running = 0
        self.on_block: Callable[[Any], None] | None = None
        """Called with the output of each block of a stack, unless it is inside another block."""

    def at(self, depth: int) -> str:
        """The path of the module `depth` calls outside the innermost one; empty for the root."""
        place = len(self._stack) - 1 - depth
        return self._stack[place][0] if place >= 0 else ""

    @contextmanager
    def followed(self) -> Iterator[None]:
        """Maintain the stack while the block runs, for modules called in this thread."""
        for path, module in self.modules:
            self._known.setdefault(id(module), []).append(path)
            if isinstance(module, nn.ModuleList) and _alike(module):
                self._blocks[join(path, "0")] = len(module)
                self._in_stacks |= {join(path, name) for name, _ in module.named_children()}
        thread = threading.get_ident()

        def enter(module: nn.Module, _args: Any) -> None:
            if threading.get_ident() == thread:
                self.ran.add(type(module))
                self._stack.append((self._path(module), self._budget.spent))
                self._blocks_running += self._stack[-1][0] in self._in_stacks

        def leave(_module: nn.Module, _args: Any, output: Any) -> None:
            if threading.get_ident() == thread:
                path, before = self._stack.pop()
                self._blocks_running -= path in self._in_stacks
                if path in self._in_stacks and not self._blocks_running and self.on_block:
                    self.on_block(output)
                if path in self._blocks and self.on_block is None:  # else blocks keep unequal parts
                    self._budget.foresee(before, self._blocks[path], path)

        entered = register_module_forward_pre_hook(enter)
        left = register_module_forward_hook(leave, always_call=True)
        try:
            yield
        finally:
            entered.remove()
            left.remove()
            self._stack.clear()

    def _path(self, module: nn.Module) -> str:
        """The module's path; of several, the one below the module currently running."""
        paths = self._known.get(id(module))
        if paths is None:
            return join(self.at(0), type(module).__name__)
        if len(paths) == 1:
            return paths[0]
        inside = join(self.at(0), "")
        return next((path for path in paths if path.startswith(inside)), paths[0])


def _alike(blocks: nn.ModuleList) -> bool:
    return len(blocks) > 1 and len({type(block) for block in blocks}) == 1
