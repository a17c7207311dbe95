"""Which module is running: a stack of paths, kept by hooks during a recording."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import nn
from torch.nn.modules.module import (
    register_module_forward_hook,
    register_module_forward_pre_hook,
)

from glassformer.trace.budget import Budget
from glassformer.trace.names import join

__all__ = ["ModulePaths"]


class ModulePaths:
    """The paths of the modules now running, outermost first."""

    def __init__(self, root: nn.Module | None, budget: Budget) -> None:
        self.modules: list[tuple[str, nn.Module]] = (
            [] if root is None else list(root.named_modules(remove_duplicate=False))
        )
        """Every module of the root, by every path that leads to it."""
        self.ran: set[type[nn.Module]] = set()
        """The classes of the modules that ran."""
        self._budget = budget
        self._stack: list[tuple[str, int]] = []
        self._known: dict[int, list[str]] = {}
        self._blocks: dict[str, int] = {}

    def at(self, depth: int) -> str:
        """The path of the module `depth` calls outside the innermost; the root's is empty."""
        place = len(self._stack) - 1 - depth
        return self._stack[place][0] if place >= 0 else ""

    @contextmanager
    def followed(self) -> Iterator[None]:
        """Keep the stack while the block runs, for modules called in this thread."""
        for path, module in self.modules:
            self._known.setdefault(id(module), []).append(path)
            if isinstance(module, nn.ModuleList) and _alike(module):
                self._blocks[join(path, "0")] = len(module)
        thread = threading.get_ident()

        def enter(module: nn.Module, _args: Any) -> None:
            if threading.get_ident() == thread:
                self.ran.add(type(module))
                self._stack.append((self._path(module), self._budget.spent))

        def leave(_module: nn.Module, _args: Any, _output: Any) -> None:
            if threading.get_ident() == thread:
                path, before = self._stack.pop()
                if path in self._blocks:
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
        """The module's path; of several, the one below the module now running."""
        paths = self._known.get(id(module))
        if paths is None:
            return join(self.at(0), type(module).__name__)
        if len(paths) == 1:
            return paths[0]
        inside = join(self.at(0), "")
        return next((path for path in paths if path.startswith(inside)), paths[0])


def _alike(blocks: nn.ModuleList) -> bool:
    return len(blocks) > 1 and len({type(block) for block in blocks}) == 1
