"""A model as a folder: config.json, model.safetensors, tokenizer.json, README.md.

This file finds folders and opens none of them, so it does not import torch. `model_folder` reads
and writes a folder; `single_file` reads the single-file formats of nanoGPT, minGPT and llama2.c.
"""

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from glassformer.errors import CheckpointError, Fragment, UnknownNameError
from glassformer.files import as_path
from glassformer.lazy import on_first_use

if TYPE_CHECKING:
    from glassformer.checkpoint.model_folder import Checkpoint, load, load_foreign, save
    from glassformer.checkpoint.single_file import load_llama2c, load_mingpt, load_nanogpt

__all__ = [
    "CARD",
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

_HOMES = {
    "glassformer.checkpoint.model_folder": "Checkpoint load load_foreign save",
    "glassformer.checkpoint.single_file": "load_llama2c load_mingpt load_nanogpt",
}

if not TYPE_CHECKING:
    __getattr__, __dir__ = on_first_use(__name__, _HOMES)

CONFIG, WEIGHTS, CARD = "config.json", "model.safetensors", "README.md"
TOKENIZER, TARGET_TOKENIZER = "tokenizer.json", "target_tokenizer.json"
SHIPPED = Path(__file__).parent.parent / "models"


def shipped() -> list[str]:
    """The names of the models that ship with the package."""
    return sorted(folder.name for folder in SHIPPED.iterdir() if (folder / CONFIG).is_file())


def find(name_or_folder: str | os.PathLike[str]) -> Path:
    """The model folder at a path, inside the run folder at a path, or of a shipped name."""
    if not isinstance(name_or_folder, str | os.PathLike):
        raise CheckpointError(
            "a model is given by its name or its folder, got {kind}",
            kind=type(name_or_folder).__name__,
        )
    path, name, names = Path(name_or_folder), str(name_or_folder), shipped()
    if name in names and not (path / CONFIG).is_file():  # a data folder may also be called imdb
        return SHIPPED / name
    if path.is_dir():
        of_run = path / "model"
        is_run = (of_run / CONFIG).is_file() and not (path / WEIGHTS).is_file()
        if not is_run and (unfinished := _unfinished_run(path)):
            raise CheckpointError(
                "{path} does not contain a model yet{unfinished}", path=path, unfinished=unfinished
            )
        return of_run if is_run else path
    if re.fullmatch(r"\w[\w.-]*/[\w.-]+", name) and not path.parent.exists():
        raise CheckpointError(
            "there is no model folder {name}, and nothing is downloaded: a model of the Hugging "
            "Face hub is opened from the folder that its save_pretrained wrote",
            name=name,
        )
    if os.sep in name or "/" in name:
        raise CheckpointError(
            "there is no model folder {name}{unfinished}",
            name=name,
            unfinished=_unfinished_run(path.parent),
        )
    raise UnknownNameError("model", name, names)


def name_of(folder: str | os.PathLike[str]) -> str:
    """A model's name: its folder's, or its run's, since every run calls its folder "model"."""
    path = as_path(folder, CheckpointError, "a model folder")
    return path.resolve().parent.name if path.name == "model" else path.name


def _unfinished_run(folder: Path) -> str:
    """How to resume, if a folder contains an unfinished training run; otherwise empty."""
    is_run = (folder / "metrics.jsonl").is_file() and not (folder / WEIGHTS).is_file()
    if not is_run or (folder / "model").is_dir():
        return ""
    return Fragment.of(
        ": the run in {folder} is unfinished; resume it with: glassformer train RECIPE "
        "--out {folder} --resume",
        folder=folder,
    )
