"""Glassformer: the Transformer from first principles, in which every number can be traced.

This module holds the version and the public names. Each name is imported on first use, so that
`import glassformer` (and the command's `--help`) does not import torch.
"""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_WHERE = {
    "GlassformerError": "glassformer.errors",
    "ModelConfig": "glassformer.nn",
    "build": "glassformer.nn",
    "load": "glassformer.checkpoint",
    "presets": "glassformer.nn.presets",
    "save": "glassformer.checkpoint",
}

__all__ = ["GlassformerError", "ModelConfig", "__version__", "build", "load", "presets", "save"]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'glassformer' has no attribute {name!r}")
    module = import_module(_WHERE[name])
    return module if module.__name__.endswith(f".{name}") else getattr(module, name)


def __dir__() -> list[str]:
    return sorted(__all__)
