"""Public names of a package, imported on first use (PEP 562).

    _HOMES = {"glassformer.nn.models": "Classifier build"}  # the names that each module defines
    if not TYPE_CHECKING:
        __getattr__, __dir__ = on_first_use(__name__, _HOMES)

So `glassformer recipes` can read the configs of `glassformer.nn` without importing torch.
"""

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def on_first_use(
    package: str, names_of: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """The `__getattr__` and `__dir__` of a package; a submodule's home is the package itself."""
    module = sys.modules[package]
    homes = {name: home for home, names in names_of.items() for name in names.split()}

    def find(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        home = homes[name]
        value = (
            import_module(f"{package}.{name}")
            if home == package
            else getattr(import_module(home), name)
        )
        setattr(module, name, value)  # the next access does not come here
        return value

    return find, lambda: sorted(module.__all__)
