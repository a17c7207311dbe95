"""Glassformer: the Transformer from first principles, in which every number can be traced.

    import glassformer as gf
    t = gf.trace(module, x)                    # any nn.Module: every number and how it was made
    model = gf.load("toy")                     # one that ships, or a folder (Hugging Face's, too)
    model.trace("I am not happy")              # the same over a text; also explain, words, explore
    gf.explore(module, x)                      # the page, on any module or model

Each name below is imported when it is first used, so that `import glassformer` (and the command's
`--help`) does not import torch.
"""

from typing import TYPE_CHECKING

from glassformer.lazy import on_first_use

if TYPE_CHECKING:
    from glassformer import experiments, nn
    from glassformer.errors import GlassformerError
    from glassformer.explorer.explore_function import explore
    from glassformer.nn import ModelConfig, build, presets
    from glassformer.tasks import load, trace

__version__ = "0.1.0"

__all__ = [
    "GlassformerError",
    "ModelConfig",
    "__version__",
    "build",
    "experiments",
    "explore",
    "load",
    "nn",
    "presets",
    "trace",
]

_HOMES = {
    "glassformer": "experiments nn",
    "glassformer.errors": "GlassformerError",
    "glassformer.explorer.explore_function": "explore",
    "glassformer.nn": "ModelConfig build presets",
    "glassformer.tasks": "load trace",
}

if not TYPE_CHECKING:
    __getattr__, __dir__ = on_first_use(__name__, _HOMES)
