"""A model as a folder: `places` says where folders are, `folder` writes and reads one."""

from typing import TYPE_CHECKING

from glassformer.lazy import on_first_use

if TYPE_CHECKING:
    from glassformer.checkpoint.folder import Checkpoint, load, load_foreign, save
    from glassformer.checkpoint.places import (
        CONFIG,
        SHIPPED,
        TARGET_TOKENIZER,
        TOKENIZER,
        WEIGHTS,
        find,
        name_of,
        shipped,
    )

__all__ = [
    "CONFIG",
    "SHIPPED",
    "TARGET_TOKENIZER",
    "TOKENIZER",
    "WEIGHTS",
    "Checkpoint",
    "find",
    "load",
    "load_foreign",
    "name_of",
    "save",
    "shipped",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = on_first_use(__name__)
