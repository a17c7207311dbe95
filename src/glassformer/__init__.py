"""Glassformer: the Transformer from first principles, in which every number can be traced.

    import glassformer as gf
    t = gf.trace(module, x)                    # any nn.Module: every number and how it was made
    model = gf.load("toy")                     # one that ships, or a folder (Hugging Face's, too)
    model.trace("I am not happy")              # the same over a text; also explain, words, explore
    gf.explore(module, x)                      # the page, on any module or model

Each name below is imported when it is first used, so that `import glassformer` (and the command's
`--help`) does not import torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from glassformer import experiments, nn
    from glassformer.errors import GlassformerError
    from glassformer.explorer.explore_function import explore
    from glassformer.nn import ModelConfig, build, presets
    from glassformer.tasks import load, trace

__version__ = "0.1.0"

# Where each public name is defined; a module stands for itself.
_HOMES = {
    "GlassformerError": "glassformer.errors",
    "ModelConfig": "glassformer.nn",
    "build": "glassformer.nn",
    "experiments": None,
    "explore": "glassformer.explorer.explore_function",
    "load": "glassformer.tasks",
    "nn": None,
    "presets": "glassformer.nn",
    "trace": "glassformer.tasks",
}

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


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'glassformer' has no attribute {name!r}")
    home = _HOMES[name]
    value = (
        import_module(f"glassformer.{name}") if home is None else getattr(import_module(home), name)
    )
    globals()[name] = value  # from now on without us
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
