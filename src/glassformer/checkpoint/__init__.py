"""A model as a folder: `places` says where folders are, `folder` writes and reads one.

`one_file` reads what comes as a single file: nanoGPT, minGPT, llama2.c.
"""

from typing import TYPE_CHECKING

from glassformer.lazy import on_first_use

if TYPE_CHECKING:
    from glassformer.checkpoint.model_folder import Checkpoint, load, load_foreign, save
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
    from glassformer.checkpoint.single_file import load_llama2c, load_mingpt, load_nanogpt

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
    "load_llama2c",
    "load_mingpt",
    "load_nanogpt",
    "name_of",
    "save",
    "shipped",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = on_first_use(__name__)
