"""What to say where the explorer's packages are not installed."""

from __future__ import annotations

from glassformer.errors import ConfigError

__all__ = ["not_installed"]


def not_installed(error: ModuleNotFoundError) -> ConfigError:
    """One clear line."""
    return ConfigError(
        f"the explorer needs {error.name}, which is not installed: "
        "pip install 'glassformer[explorer]'"
    )
