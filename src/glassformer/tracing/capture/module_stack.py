"""Which module is running (a stack of paths, kept by hooks), and what its steps are called."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import groupby
from typing import Any

from torch import nn
from torch.nn.modules.module import (
    register_module_forward_hook,
    register_module_forward_pre_hook,
)

from glassformer.errors import Fragment
from glassformer.tracing.capture.memory import Budget
from glassformer.tracing.capture.operator_calls import Call

# --- names ---
# One name per step: the module path plus the variable that its source line assigns.
#
# Only the operator whose result is assigned gets the variable's name. The others are named after
# the module that ran them, or after the operator; in a fused layer that is written out, below the
# variable (`dropped.bernoulli`). Repeats are numbered: `x`, `x.2`, `x.3`.


class UniqueNames:
    """Hands out each name only once."""

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._kept: set[str] = set()
        self._repeats: dict[str, int] = {}

    def keep(self, names: Iterable[str]) -> None:
        """Keep free names for those who take them as `kept`; all others get repeats from 1 on."""
        self._kept.update(name for name in names if name not in self._taken)

    def take(self, wanted: str, *, kept: bool = False) -> str:
        """The wanted name, or the next free repeat of it."""
        first = 1 if wanted in self._kept else 2
        if kept:
            self._kept.discard(wanted)
        name = wanted
        while name in self._taken or name in self._kept:
            number = self._repeats.get(wanted, first - 1) + 1
            self._repeats[wanted], name = number, f"{wanted}.{number}"
        self._taken.add(name)
        return name


def join(path: str, name: str) -> str:
    """A dotted path; that of the root is empty."""
    return f"{path}.{name}" if path else name


def name_calls(calls: Iterable[Call]) -> Iterator[tuple[list[str], str]]:
    """For each call in order: the wanted names of its outputs, and the module they belong to.

    The operators of one visit to a line are consecutive; the last one computes what is assigned.
    """
    calls = list(calls)
    last = {call.origin.visit: call for call in calls}
    parts = set(_parts(calls))
    for call in calls:
        returned = len(call.outputs) - len(call.unreturned)
        is_result = call not in parts if call.origin.forced else last[call.origin.visit] is call
        names, module = _wanted(call, returned, is_result)
        yield names[:returned] + [join(module, name) for name in call.unreturned], module


def _parts(calls: list[Call]) -> Iterator[Call]:
    """In fused layers that are written out: calls whose results the same line reads again.

    Such a layer may be one visit as a whole, or each of its operators one.
    """
    for (_, forced), run in groupby(calls, lambda call: (call.origin.owner, call.origin.forced)):
        line = list(run) if forced else []
        read = {view.version for call in line for view in call.inputs()}
        for call in line:
            if any(view is not None and view.version in read for view in call.outputs):
                yield call


def _wanted(call: Call, returned: int, is_result: bool) -> tuple[list[str], str]:
    """The names of what a call returned, and the module they belong to."""
    origin = call.origin
    owner, targets = origin.owner, origin.targets if is_result else ()
    plain = call.operator.name.strip("_")
    if origin.forced:
        name = join(owner, origin.forced)
        return [name if is_result else join(name, plain)] * returned, owner
    if targets and len(targets) == max(1, returned) and None not in targets:
        return [join(owner, str(target)) for target in targets], owner
    if len(targets) == 1 and targets[0] is not None:
        name = join(owner, targets[0])
    elif origin.module and (origin.module != owner or origin.line is None):
        name = owner = origin.module
    else:
        name = join(owner, "output" if is_result and origin.output else plain)
    words = [item.name for item in call.operator.func._schema.returns]
    if returned < 2 or len(words) != returned:
        return [name] * returned, owner
    return [f"{name}.{word}" if word else name for word in words], owner


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
            kinds = {type(block) for block in module} if isinstance(module, nn.ModuleList) else ()
            if isinstance(module, nn.ModuleList) and len(module) > 1 == len(kinds):
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
                    count, spent = self._blocks[path], self._budget.spent
                    how = Fragment.of("with {n} blocks like {path} about", n=count, path=path)
                    self._budget.expect(before + (spent - before) * count, how)

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
