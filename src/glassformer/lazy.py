"""Public names of a package that are imported when they are first used.

A package's `__init__` has its imports under `if TYPE_CHECKING:`, where readers, editors and type
checkers find them, and below:

    if not TYPE_CHECKING:
        __getattr__, __dir__ = on_first_use(__name__)

So whoever wants one part does not wait for the others: `glassformer recipes` needs the configs of
`glassformer.nn`, but not torch.
"""

import ast
import inspect
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any


def on_first_use(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """The `__getattr__` and the `__dir__` of a package, from the imports that it is read with."""
    module = sys.modules[package]
    homes = _imports_for_types(inspect.getsource(module))

    def find(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        home = homes[name]
        is_part = home == package
        value = (
            import_module(f"{package}.{name}") if is_part else getattr(import_module(home), name)
        )
        setattr(module, name, value)  # from now on without us
        return value

    def names() -> list[str]:
        return sorted(module.__all__)

    return find, names


def _imports_for_types(source: str) -> dict[str, str]:
    """For each name that is imported under `if TYPE_CHECKING:` the module it comes from."""
    return {
        alias.name: statement.module
        for part in ast.parse(source).body
        if isinstance(part, ast.If) and ast.unparse(part.test) == "TYPE_CHECKING"
        for statement in part.body
        if isinstance(statement, ast.ImportFrom) and statement.module
        for alias in statement.names
    }
