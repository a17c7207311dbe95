"""Models for the engines that people deploy with: ONNX, CTranslate2, Hugging Face, torch.export.

    export(checkpoint, "ctranslate2", "out/en-de")

Every export is asked for a fit before anything is written, written under a temporary name, run by
the engine it is for, and put in place only if the engine answers as the model does. The engines
are imported by the module of their name and by nothing else.
"""

import os
import shutil
import tempfile
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any

from glassformer.checkpoint import TARGET_TOKENIZER, TOKENIZER, Checkpoint
from glassformer.errors import ExportError, GlassformerError, UnknownNameError, expect
from glassformer.export.export_card import card
from glassformer.files import as_path
from glassformer.modes import evaluating
from glassformer.nn import ModelConfig

__all__ = ["TARGETS", "Exported", "export"]

TARGETS = {
    "ctranslate2": "ctranslate2",
    "hf": "hugging_face_folder",
    "onnx": "onnx",
    "torch": "torch_program",
}


@dataclass(frozen=True)
class Exported:
    """What was written, and what its engine said to it."""

    folder: Path
    target: str
    found: str
    """How the export was checked, in one sentence."""
    files: tuple[str, ...]


def export(
    checkpoint: Checkpoint,
    target: str,
    folder: str | os.PathLike[str],
    *,
    name: str = "model",
) -> Exported:
    """Write a model for another engine and check it there; the folder must be new or empty."""
    expect(checkpoint, Checkpoint, "a Checkpoint, such as checkpoint.load gives", ExportError)
    place = as_path(folder, ExportError, "an export's folder")
    if not isinstance(target, str) or target not in TARGETS:
        raise UnknownNameError("export target", target, TARGETS)
    engine = _engine(target)
    try:
        engine.check(checkpoint.config)
    except ExportError as error:
        raise ExportError(
            "{error}{others}", error=error, others=_others(checkpoint.config, target)
        ) from None
    if place.exists() and (not place.is_dir() or any(place.iterdir())):
        raise ExportError(
            "{place} is not empty; choose a folder that does not exist yet", place=place
        )
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(prefix=f".{place.name}.", dir=place.parent))
    except OSError as error:
        raise ExportError(
            "cannot write the export to {place}: {reason}", place=place, reason=error.strerror
        ) from error
    checkpoint = _on_cpu(checkpoint)
    try:
        with evaluating(checkpoint.model.modules()):  # an engine has no dropout
            engine.write(checkpoint, work)
            found = engine.verify(checkpoint, work)
        if target != "hf":  # that one knows which tokenizers its readers can open
            _write_tokenizers(checkpoint, work)
        files = sorted(file.name for file in work.iterdir())
        text = card(checkpoint, name, target, found)
        (work / "README.md").write_text(text, encoding="utf-8")
        work.chmod(0o755)  # mkdtemp makes it private
        if place.exists():
            place.rmdir()
        work.rename(place)
    except OSError as error:
        if isinstance(error, GlassformerError):
            raise
        raise ExportError(
            "cannot write the export to {place}: {reason}",
            place=place,
            reason=error.strerror or error,
        ) from error
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return Exported(place, target, found, (*files, "README.md"))


def _engine(target: str) -> Any:
    return import_module(f"glassformer.export.{TARGETS[target]}")


def _others(config: ModelConfig, refused: str) -> str:
    """Which targets can hold a model that one has refused."""
    fitting = []
    for target in TARGETS.keys() - {refused}:
        with suppress(ExportError):
            _engine(target).check(config)
            fitting.append(target)
    return f"; {' and '.join(sorted(fitting))} can hold it" if fitting else ""


def _on_cpu(checkpoint: Checkpoint) -> Checkpoint:
    """Where engines are asked; a model that is elsewhere stays there, a copy of it comes."""
    model = checkpoint.model
    if all(parameter.is_cpu for parameter in model.parameters()):
        return checkpoint
    return replace(checkpoint, model=deepcopy(model).cpu())


def _write_tokenizers(checkpoint: Checkpoint, folder: Path) -> None:
    """Beside the model, as in its own folder: without them nobody could give it a text."""
    tokenizers = {TOKENIZER: checkpoint.tokenizer, TARGET_TOKENIZER: checkpoint.target_tokenizer}
    for name, tokenizer in tokenizers.items():
        if tokenizer is not None:
            tokenizer.save(folder / name)
