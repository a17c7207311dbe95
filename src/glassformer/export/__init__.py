"""Exports for the engines that people deploy with: ONNX, CTranslate2, Hugging Face, torch.export.

    export(checkpoint, "ctranslate2", "out/en-de")

An export first checks whether the format can represent the model, is written under a temporary
name, run by its engine, and moved into place only if the engine's output matches the model's. Each
engine is imported only by the module of its name.
"""

import os
import tomllib
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from string import Template
from typing import Any

from glassformer import __version__
from glassformer.checkpoint import TARGET_TOKENIZER, TOKENIZER, Checkpoint
from glassformer.errors import (
    ExportError,
    Fragment,
    UnknownNameError,
    expect,
)
from glassformer.export.compatibility import facts_of, tokenizer_of_both
from glassformer.files import as_path, os_errors_as, replaced_folder
from glassformer.modes import evaluating
from glassformer.nn import ModelConfig
from glassformer.text import SubwordTokenizer

__all__ = ["TARGETS", "Exported", "export"]

TARGETS = {
    "ctranslate2": "ctranslate2",
    "hf": "hugging_face_export",
    "onnx": "onnx",
    "torch": "torch_program",
}


@dataclass(frozen=True)
class Exported:
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
    checkpoint = _on_cpu(checkpoint)
    unwritable = "cannot write the export to {place}: {reason}"
    with os_errors_as(ExportError, unwritable, place=place), replaced_folder(place) as work:
        with evaluating(checkpoint.model.modules()):  # an engine has no dropout
            engine.write(checkpoint, work)
            found = engine.verify(checkpoint, work)
        if target != "hf":  # which writes only tokenizers that transformers can open
            _write_tokenizers(checkpoint, work)
        files = sorted(file.name for file in work.iterdir())
        text = _card(checkpoint, name, target, found)
        (work / "README.md").write_text(text, encoding="utf-8")
        if place.exists():
            place.rmdir()  # fails if something was put there meanwhile
    return Exported(place, target, found, (*files, "README.md"))


def _engine(target: str) -> Any:
    return import_module(f"glassformer.export.{TARGETS[target]}")


def _others(config: ModelConfig, refused: str) -> str:
    """The targets that can represent a model that one target refused."""
    fitting = []
    for target in TARGETS.keys() - {refused}:
        with suppress(ExportError):
            _engine(target).check(config)
            fitting.append(target)
    names = ", ".join(sorted(fitting))
    return Fragment.of("; targets that can represent it: {names}", names=names) if fitting else ""


def _on_cpu(checkpoint: Checkpoint) -> Checkpoint:
    """The checkpoint with its model on the CPU, copied if it is elsewhere."""
    model = checkpoint.model
    if all(parameter.is_cpu for parameter in model.parameters()):
        return checkpoint
    return replace(checkpoint, model=deepcopy(model).cpu())


def _write_tokenizers(checkpoint: Checkpoint, folder: Path) -> None:
    """Beside the model, as in its own folder: without them no one could feed it text."""
    tokenizers = {TOKENIZER: checkpoint.tokenizer, TARGET_TOKENIZER: checkpoint.target_tokenizer}
    for name, tokenizer in tokenizers.items():
        if tokenizer is not None:
            tokenizer.save(folder / name)


# --- the README.md of an export ---

_OPENERS = {
    "seq2seq": "AutoModelForSeq2SeqLM",
    "language_model": "AutoModelForCausalLM",
    "masked_language_model": "AutoModelForMaskedLM",
}


_OUTPUTS = {
    "classifier": "(texts, classes)",
    "encoder": "(texts, tokens, width)",
}


def _card(checkpoint: Checkpoint, name: str, target: str, found: str) -> str:
    """The text of README.md; `found` says how the export was checked."""
    known = {
        name: fact
        for name, fact in checkpoint.about.items()
        if isinstance(fact, str | int | float) and fact != "" and name != "cut"  # among the facts
    }
    known |= facts_of(checkpoint)
    if isinstance(checkpoint.tokenizer, SubwordTokenizer):
        known |= {"texts to ids": '`tokenizers.Tokenizer.from_file("tokenizer.json")`'}
    facts = "".join(f"- {key}: {value}\n" for key, value in known.items())
    return (
        f"# {name}, for {target}\n\nExported by Glassformer {__version__} from a "
        f"{type(checkpoint.model).__name__}. Checked after writing: {found}.\n\n"
        f"```python\n{_example(checkpoint, target)}\n```\n\n{facts}"
    )


def _example(checkpoint: Checkpoint, target: str) -> str:
    """Code that uses the export from within its folder."""
    architecture = checkpoint.config.architecture
    usage = tomllib.loads(Path(__file__).with_name("usage.toml").read_text(encoding="utf-8"))
    code = usage[target]
    if target == "onnx":
        code = code[architecture]
    elif target == "torch":
        code = code.get(architecture, code["others"])
    elif target == "hf":
        writes = architecture in ("seq2seq", "language_model")
        code = code[
            "ids" if tokenizer_of_both(checkpoint) is None else "text" if writes else "vectors"
        ]
    return (
        Template(code)
        .substitute(
            opener=_OPENERS.get(architecture, "AutoModel"),
            tokenizer=TOKENIZER,
            answers=TARGET_TOKENIZER if checkpoint.target_tokenizer else TOKENIZER,
            text="You win or you die.",
            max_len=checkpoint.config.max_len,
            cut=checkpoint.about.get("cut", "end"),
            labels=list(checkpoint.labels) or "range(len(probabilities[0]))",
            output=_OUTPUTS.get(architecture, "(texts, tokens, vocabulary)"),
        )
        .rstrip()
    )
