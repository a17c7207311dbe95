"""Reading and writing a model folder: config.json, model.safetensors, tokenizer.json, README.md.

Nothing in it is a pickle. A folder is written under a temporary name and renamed when complete, so
a reader never finds a partial one. Weights are checked against the hash in config.json: a damaged
file is an error, not a slightly different model.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import NoneType
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from glassformer import __version__
from glassformer.checkpoint import (
    CARD,
    CONFIG,
    TARGET_TOKENIZER,
    TOKENIZER,
    WEIGHTS,
)
from glassformer.errors import CheckpointError, GlassformerError, expect
from glassformer.files import as_path, read_object, read_tensor_entries, replaced_folder
from glassformer.nn import ModelConfig, build, describe, set_attention
from glassformer.nn.attention import Implementation
from glassformer.nn.description import build_unfilled, parameter_shapes
from glassformer.nn.foreign import (
    check_shapes,
    config_from_hugging_face,
    fill,
    load_hugging_face,
)
from glassformer.nn.tensors import as_device
from glassformer.text import Tokenizer, load_tokenizer

FORMAT = 1


@dataclass(frozen=True)
class Checkpoint:
    """A model and everything needed to use it."""

    model: nn.Module
    config: ModelConfig
    tokenizer: Tokenizer | None = None
    """For input texts, and for output texts unless there is a target_tokenizer."""
    target_tokenizer: Tokenizer | None = None
    """For output texts that have their own vocabulary."""
    labels: tuple[str, ...] = ()
    """Names of a classifier's classes."""
    about: dict[str, Any] = field(default_factory=dict)
    """Metadata as plain JSON: data, metric, command, hardware."""


def save(
    folder: str | os.PathLike[str],
    checkpoint: Checkpoint,
    *,
    card: str | None = None,
    dtype: torch.dtype | None = None,
) -> Path:
    """Write a model folder; replaces an existing model of ours, refuses any other folder.

    `dtype` stores the parameters in another precision (bfloat16 halves the file). `card` is the
    text of README.md, by default generated from the config.
    """
    target = as_path(folder, CheckpointError, "a model folder")
    _check_kinds(checkpoint, card, dtype)
    _check_replaceable(target)
    model = _unwrapped(checkpoint.model)
    try:
        with replaced_folder(target) as work:
            _write_files(work, replace(checkpoint, model=model), card, dtype)
    except (OSError, SafetensorError) as error:
        if isinstance(error, GlassformerError):
            raise
        reason = error.strerror if isinstance(error, OSError) else error
        raise CheckpointError(
            "cannot write the model to {target}: {reason}", target=target, reason=reason
        ) from error
    return target


def load(
    folder: str | os.PathLike[str],
    *,
    attention: Implementation = "fused",
    device: torch.device | str = "cpu",
) -> Checkpoint:
    """Read a model folder; the model is returned in evaluation mode."""
    path = as_path(folder, CheckpointError, "a model folder")
    place = as_device(device)
    data = _read_config(path)
    if "model_type" not in data:
        raise CheckpointError(
            "{path} is not a model folder: {config} has no model_type", path=path, config=CONFIG
        )
    if data["model_type"] != "glassformer":
        raise CheckpointError(
            "{path} is not a Glassformer model: {config} says model_type {model_type!r}; "
            "glassformer run, trace, explain, experiment and explore open it, in Python "
            "glassformer.load",
            path=path,
            config=CONFIG,
            model_type=data["model_type"],
        )
    if data.get("format") != FORMAT:
        raise CheckpointError(
            "{path} has format {format!r}, this version reads {ours}; it was written "
            "by Glassformer {version}",
            path=path,
            format=data.get("format"),
            ours=FORMAT,
            version=data.get("glassformer_version", "?"),
        )
    with name_errors(path):
        config = ModelConfig.from_dict(data.get("model", {}))
    labels, about = data.get("labels") or [], data.get("about") or {}
    _check_labels(path, labels, config)
    if not isinstance(about, dict):
        raise CheckpointError(
            "{path}: about must be an object in {config}, got {about!r:.40}",
            path=path,
            config=CONFIG,
            about=about,
        )
    shapes = _listed_shapes(path, config)
    with name_errors(path):
        check_shapes(parameter_shapes(config), shapes)
    weights = _read_weights(path, str(data.get("weights_sha256")))
    model = build_unfilled(config, attention)
    with name_errors(path):
        fill(model, weights)
    return Checkpoint(
        model=model.to(place).eval(),
        config=config,
        tokenizer=_read_tokenizer(path / TOKENIZER),
        target_tokenizer=_read_tokenizer(path / TARGET_TOKENIZER),
        labels=tuple(labels),
        about=about,
    )


def load_foreign(
    folder: str | os.PathLike[str], *, attention: Implementation = "fused"
) -> Checkpoint:
    """Read a Hugging Face folder of a BERT, GPT-2 or Llama (config.json, model.safetensors)."""
    path = as_path(folder, CheckpointError, "a model folder")
    data = _read_config(path)
    with name_errors(path):
        config = config_from_hugging_face(data)
    shapes = _listed_shapes(path, config)
    with name_errors(path):
        _check_enough(shapes, config)
    weights = _read_weights(path, None)
    model = build(config)
    with name_errors(path):
        load_hugging_face(model, data["model_type"], weights)
    set_attention(model, attention)
    named = data.get("id2label") if config.architecture == "classifier" else None
    names = named if isinstance(named, dict) else {}  # in any order: "10" may precede "2"
    labels = tuple(str(names.get(str(number), number)) for number in range(len(names)))
    tokenizer = _read_tokenizer(path / TOKENIZER)
    return Checkpoint(model.eval(), config, tokenizer=tokenizer, labels=labels)


def _check_kinds(checkpoint: Checkpoint, card: str | None, dtype: torch.dtype | None) -> None:
    """Refuse to write anything that could not be read back."""
    expect(checkpoint, Checkpoint, "a Checkpoint(model, config, …)", CheckpointError)
    expect(checkpoint.model, nn.Module, "a model in the Checkpoint", CheckpointError)
    expect(checkpoint.config, ModelConfig, "a ModelConfig in the Checkpoint", CheckpointError)
    for tokenizer in (checkpoint.tokenizer, checkpoint.target_tokenizer):
        expect(tokenizer, (Tokenizer, NoneType), "a Tokenizer or None", CheckpointError)
    expect(checkpoint.labels, (tuple, list), "labels as a tuple of names", CheckpointError)
    for label in checkpoint.labels:
        expect(label, str, "labels that are names", CheckpointError)
    expect(checkpoint.about, dict, "about as a dictionary", CheckpointError)
    expect(card, (str, NoneType), "card as a text", CheckpointError)
    expect(dtype, (torch.dtype, NoneType), "dtype such as torch.bfloat16", CheckpointError)
    if dtype is not None and not dtype.is_floating_point:
        raise CheckpointError(
            "parameters are floating-point numbers, got the dtype {dtype}", dtype=dtype
        )
    try:
        json.dumps(checkpoint.about)
    except (TypeError, ValueError, RecursionError) as error:
        raise CheckpointError("about must be plain JSON data: {error}", error=error) from None


def _unwrapped(model: nn.Module) -> nn.Module:
    """The model inside the wrappers of torch.compile and data parallelism."""
    for wrapper in ("_orig_mod", "module"):
        inner = getattr(model, wrapper, None)
        if isinstance(inner, nn.Module):
            return _unwrapped(inner)
    return model


def _write_files(
    work: Path, checkpoint: Checkpoint, card: str | None, dtype: torch.dtype | None
) -> None:
    # A shared parameter is listed once, by its first name; building the model ties it again.
    tensors = {
        name: parameter.detach().to("cpu", dtype).contiguous()
        for name, parameter in checkpoint.model.named_parameters()
    }
    save_file(tensors, work / WEIGHTS, metadata={"format": "pt"})
    (work / WEIGHTS).chmod(0o644)  # safetensors writes it readable by its owner only
    config = {
        "model_type": "glassformer",
        "architectures": [type(checkpoint.model).__name__],
        "format": FORMAT,
        "glassformer_version": __version__,
        "weights_sha256": _sha256(work / WEIGHTS),
        "labels": list(checkpoint.labels),
        "about": checkpoint.about,
        "model": checkpoint.config.to_dict(),
    }
    text = json.dumps(config, indent=2, ensure_ascii=False) + "\n"
    (work / CONFIG).write_text(text, encoding="utf-8")
    (work / CARD).write_text(card or _default_card(checkpoint), encoding="utf-8")
    if checkpoint.tokenizer is not None:
        checkpoint.tokenizer.save(work / TOKENIZER)
    if checkpoint.target_tokenizer is not None:
        checkpoint.target_tokenizer.save(work / TARGET_TOKENIZER)
    for file in work.iterdir():
        with file.open("rb") as written:
            os.fsync(written.fileno())


def _check_replaceable(target: Path) -> None:
    """An existing folder may be replaced only if it is empty or a model of ours."""
    if not target.exists():
        return
    if not target.is_dir():
        raise CheckpointError("{target} is a file; a model is saved as a folder", target=target)
    ours = {CONFIG, WEIGHTS, CARD, TOKENIZER, TARGET_TOKENIZER}
    held = sorted(file.name for file in target.iterdir())
    foreign = [name for name in held if name not in ours]
    if foreign:
        raise CheckpointError(
            "{target} contains {foreign!r}, which is not part of a model; choose another folder",
            target=target,
            foreign=foreign[0],
        )
    if held and (CONFIG not in held or _read_config(target).get("model_type") != "glassformer"):
        raise CheckpointError(
            "{target} contains {held!r} but no Glassformer model; choose another folder",
            target=target,
            held=held[0],
        )


def _read_config(path: Path) -> dict[str, Any]:
    if not path.is_dir():
        raise CheckpointError("there is no model folder {path}", path=path)
    file = path / CONFIG
    if not file.exists():
        raise CheckpointError(
            "{path} is not a model folder: it has no {config}", path=path, config=CONFIG
        )
    return read_object(file, error=CheckpointError, what="a model's config")


def _check_labels(path: Path, labels: Any, config: ModelConfig) -> None:
    """One label per class, or per film of a recommender; or no labels at all."""
    if not isinstance(labels, list) or not all(isinstance(label, str) for label in labels):
        raise CheckpointError(
            "{path}: labels must be a list of names, got {labels!r:.40}", path=path, labels=labels
        )
    expected = {
        "classifier": config.output.n_classes,
        "image_classifier": config.output.n_classes,
        "recommender": config.target_vocab_size or config.vocab_size,
    }.get(config.architecture, len(labels))
    if labels and len(labels) != expected:
        raise CheckpointError(
            "{path}: expected {expected} labels, got {n_labels}",
            path=path,
            expected=expected,
            n_labels=len(labels),
        )


def _listed_shapes(path: Path, config: ModelConfig) -> dict[str, tuple[int, ...]]:
    """The shapes in the header of the weights, if there are enough for the config's layers.

    Checked before anything is built: a config of a few bytes can name any size.
    """
    file = path / WEIGHTS
    if not file.exists():
        raise CheckpointError(
            "{path} is not a complete model folder: it has no {weights}", path=path, weights=WEIGHTS
        )
    entries = read_tensor_entries(file, error=CheckpointError)
    n_layers = config.n_layers + (config.n_decoder_layers or 0)
    if config.architecture != "recommender" and n_layers > len(entries):
        raise CheckpointError(
            "{path}: the weights do not fit the module: {config} requires {n_layers:,} "
            "layers, {weights} has {n_entries:,} tensors",
            path=path,
            config=CONFIG,
            n_layers=n_layers,
            weights=WEIGHTS,
            n_entries=len(entries),
        )
    return {name: entry.shape for name, entry in entries.items()}


def _check_enough(listed: Mapping[str, Sequence[int]], config: ModelConfig) -> None:
    """Refuse a config that requires more numbers than there are, whatever their names."""
    wanted, actual = _n_numbers(parameter_shapes(config)), _n_numbers(listed)
    if wanted > actual:
        raise CheckpointError(
            "the weights do not fit the module: {config} requires {wanted:,} numbers, "
            "{weights} has {actual:,}",
            config=CONFIG,
            wanted=wanted,
            weights=WEIGHTS,
            actual=actual,
        )


def _n_numbers(shapes: Mapping[str, Sequence[int]]) -> int:
    return sum(math.prod(shape) for shape in shapes.values())


def _read_weights(path: Path, expected_hash: str | None) -> dict[str, Tensor]:
    file = path / WEIGHTS
    try:
        tensors = load_file(file)
    except (SafetensorError, OSError) as error:
        raise CheckpointError(
            "{file} is damaged or not a safetensors file ({error}); copy it again",
            file=file,
            error=error,
        ) from None
    if expected_hash is not None and _sha256(file) != expected_hash:
        raise CheckpointError(
            "{file} is damaged: its hash differs from the one in {config}", file=file, config=CONFIG
        )
    return tensors


def _read_tokenizer(file: Path) -> Tokenizer | None:
    return load_tokenizer(file) if file.exists() else None


@contextmanager
def name_errors(path: Path) -> Iterator[None]:
    """Put the path in front of the message of any error inside."""
    try:
        yield
    except GlassformerError as error:
        raise CheckpointError("{path}: {error}", path=path, error=error) from None


def _sha256(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def _default_card(checkpoint: Checkpoint) -> str:
    facts = "".join(f"- {name}: {value}\n" for name, value in checkpoint.about.items())
    return (
        "---\nlibrary_name: glassformer\n---\n\n"
        f"# {type(checkpoint.model).__name__}\n\n{facts}\n"
        f"```\n{describe(checkpoint.model)}\n```\n"
    )
