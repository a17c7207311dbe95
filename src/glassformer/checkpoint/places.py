"""Where models are: the files of a model folder, the folders that ship. Opens no model."""

import os
from pathlib import Path

from glassformer.errors import CheckpointError, Fragment, UnknownNameError
from glassformer.files import as_path

__all__ = [
    "CARD",
    "CONFIG",
    "SHIPPED",
    "TARGET_TOKENIZER",
    "TOKENIZER",
    "WEIGHTS",
    "find",
    "name_of",
    "shipped",
]

CONFIG, WEIGHTS, CARD = "config.json", "model.safetensors", "README.md"
TOKENIZER, TARGET_TOKENIZER = "tokenizer.json", "target_tokenizer.json"
SHIPPED = Path(__file__).parent.parent / "models"


def shipped() -> list[str]:
    """The names of the models that ship with the package."""
    return sorted(folder.name for folder in SHIPPED.iterdir() if (folder / CONFIG).is_file())


def find(name_or_folder: str | os.PathLike[str]) -> Path:
    """The folder of a model: given by itself, by its training run, or by a name that ships."""
    if not isinstance(name_or_folder, str | os.PathLike):
        raise CheckpointError(
            "a model is given by its name or its folder, got {kind}",
            kind=type(name_or_folder).__name__,
        )
    path, name, names = Path(name_or_folder), str(name_or_folder), shipped()
    if name in names and not (path / CONFIG).is_file():  # a data folder may be called imdb, too
        return SHIPPED / name
    if path.is_dir():
        of_run = path / "model"
        is_run = (of_run / CONFIG).is_file() and not (path / WEIGHTS).is_file()
        if not is_run and (unfinished := _of_unfinished_run(path)):
            raise CheckpointError(
                "{path} holds no model yet{unfinished}", path=path, unfinished=unfinished
            )
        return of_run if is_run else path
    if os.sep in name or "/" in name:
        raise CheckpointError(
            "there is no model folder {name}{unfinished}",
            name=name,
            unfinished=_of_unfinished_run(path.parent),
        )
    raise UnknownNameError("model", name, names)


def name_of(folder: str | os.PathLike[str]) -> str:
    """What a model is called: every run calls its own "model", so there the run's name is told."""
    path = as_path(folder, CheckpointError, "a model folder")
    return path.resolve().parent.name if path.name == "model" else path.name


def _of_unfinished_run(folder: Path) -> str:
    """What to do where a folder holds a training run that has not come to its end."""
    is_run = (folder / "metrics.jsonl").is_file() and not (folder / WEIGHTS).is_file()
    if not is_run or (folder / "model").is_dir():
        return ""
    return Fragment.of(
        ": the run in {folder} has not ended; to go on: glassformer train RECIPE --out {folder} "
        "--resume",
        folder=folder,
    )
