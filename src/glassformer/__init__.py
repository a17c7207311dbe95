"""Glassformer: the Transformer from first principles, in which every number can be traced.

This module holds the version and the public names. Each name is imported on first use, so that
`import glassformer` (and the command's `--help`) does not import torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from glassformer.errors import GlassformerError
    from glassformer.explorer.embedding import explore
    from glassformer.nn import ModelConfig, build, presets
    from glassformer.tasks import load

__version__ = "0.1.0"

__all__ = ["GlassformerError", "ModelConfig", "__version__", "build", "explore", "load", "presets"]

_HOMES = {
    "GlassformerError": "glassformer.errors",
    "ModelConfig": "glassformer.nn",
    "build": "glassformer.nn",
    "explore": "glassformer.explorer.embedding",
    "load": "glassformer.tasks",
    "presets": "glassformer.nn",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'glassformer' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
