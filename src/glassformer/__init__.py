"""Glassformer: the Transformer from first principles, in which every number can be traced.

This module holds the version and the public names. Each name is imported on first use, so that
`import glassformer` (and the command's `--help`) does not import torch.
"""

from typing import TYPE_CHECKING

from glassformer.lazy import on_first_use

if TYPE_CHECKING:
    from glassformer.errors import GlassformerError
    from glassformer.explorer.explore_function import explore
    from glassformer.nn import ModelConfig, build, presets
    from glassformer.tasks import load

__version__ = "0.1.0"

__all__ = ["GlassformerError", "ModelConfig", "__version__", "build", "explore", "load", "presets"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = on_first_use(__name__)
