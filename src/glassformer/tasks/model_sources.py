"""Where models come from: a shipped name, a folder of ours or of Hugging Face, a file, memory."""

from __future__ import annotations

import inspect
import os
from codecs import getincrementaldecoder
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from glassformer import checkpoint
from glassformer.checkpoint import Checkpoint
from glassformer.errors import CheckpointError, ConfigError
from glassformer.files import open_regular
from glassformer.nn import ModelConfig
from glassformer.nn.attention import Implementation
from glassformer.nn.tensors import as_device
from glassformer.tasks.answers import Task
from glassformer.tasks.foreign_tokenizer import as_tokenizer
from glassformer.tasks.forward_pass import Pass, Read
from glassformer.tasks.glassformer_model import GlassformerModel
from glassformer.tasks.hugging_face_folder import (
    OpenedFolder,
    is_hugging_face,
    open_folder,
    open_tokenizer,
    read_config,
)
from glassformer.tasks.hugging_face_model import HuggingFaceModel
from glassformer.tasks.model import Model
from glassformer.tasks.quantisation import Weights, check_weights, store
from glassformer.text import Tokenizer


def load(
    model: str | os.PathLike[str] | nn.Module,
    *,
    tokenizer: Any = None,
    device: torch.device | str = "cpu",
    attention: Implementation = "fused",
    weights: Weights = "float32",
    as_glassformer: bool = False,
) -> Model:
    """A model that ships, by its name; one of yours, by its folder; or a module in memory.

    A folder may be one that `save_pretrained` of transformers wrote: its module is used as it is,
    or with `as_glassformer` its weights in our own modules (BERT, GPT-2, Llama). A nanoGPT `.pt` or
    a llama2.c `.bin` is given by its file. `tokenizer` takes the place of the folder's own: ours,
    one of transformers or tokenizers, or "ids" for texts such as "3 17 5". `weights` says how the
    numbers are stored: int8 is smaller, and for some models faster on a CPU; bfloat16 needs a
    machine that has it. Both lose a little accuracy (docs/inference.md).
    """
    if isinstance(model, nn.Module):
        _refuse_options(device, attention, weights, as_glassformer)
        return _in_memory(model, tokenizer)
    check_weights(weights, device)
    if isinstance(model, str | os.PathLike) and Path(model).is_file():
        folder = Path(model)
        loaded = _single_file(folder, attention)
    else:
        folder = checkpoint.find(model)
        if not is_hugging_face(read_config(folder)):
            loaded = checkpoint.load(folder, attention=attention)
        elif as_glassformer:
            loaded = checkpoint.load_foreign(folder, attention=attention)
            tokenizer = open_tokenizer(folder) if tokenizer is None else tokenizer
        else:
            return _hugging_face(folder, tokenizer, device, attention, weights)
    store(loaded.model.to(as_device(device)), weights)
    return _ours(loaded, tokenizer, checkpoint.name_of(folder))


def _refuse_options(
    device: torch.device | str, attention: Implementation, weights: Weights, as_glassformer: bool
) -> None:
    """A module in memory is used as it is."""
    given = {
        "device": str(device) != "cpu",
        "attention": attention != "fused",
        "weights": weights != "float32",
        "as_glassformer": as_glassformer,
    }
    for option in (name for name, is_given in given.items() if is_given):
        raise ConfigError(
            "{option}= is for a model that is opened from a folder or file; a module in memory is "
            "used as it is",
            option=option,
        )


def _in_memory(module: nn.Module, tokenizer: Any) -> Model:
    name = type(module).__name__
    config = getattr(module, "config", None)
    if isinstance(config, ModelConfig):
        return _ours(Checkpoint(module, config), tokenizer, name)
    if hasattr(module, "base_model_prefix") and hasattr(module, "main_input_name"):
        return HuggingFaceModel(OpenedFolder(module), name, tokenizer)
    tables = (part for part in module.modules() if isinstance(part, nn.Embedding))
    vocab_size = next((table.num_embeddings for table in tables), None)
    return ModuleModel(module, as_tokenizer(tokenizer, vocab_size), name)


def _ours(loaded: Checkpoint, tokenizer: Any, name: str) -> Model:
    if tokenizer is not None:
        given = as_tokenizer(tokenizer, loaded.config.vocab_size)
        loaded = replace(loaded, tokenizer=given, target_tokenizer=None)
    return GlassformerModel(loaded, name)


def _single_file(file: Path, attention: Implementation) -> Checkpoint:
    """A pickle is opened only here, where the user named it, and nothing that it names is run."""
    if file.suffix == ".safetensors" or file.name == checkpoint.CONFIG:
        raise CheckpointError(
            "{file} is one file of a model: give its folder, {folder}",
            file=file,
            folder=file.absolute().parent,
        )
    if _is_text(file):
        raise CheckpointError(
            "{file} is a text file, not a model: MODEL is the name of a model that ships "
            "({names}), a model folder, a nanoGPT .pt or a llama2.c .bin",
            file=file,
            names=", ".join(checkpoint.shipped()),
        )
    if file.suffix == ".bin":
        return checkpoint.load_llama2c(file, attention=attention)
    return checkpoint.load_nanogpt(file, attention=attention)


def _is_text(file: Path) -> bool:
    with open_regular(file) as opened:
        beginning = opened.read(1024)
    try:
        getincrementaldecoder("utf-8")().decode(beginning)  # which may end within a character
    except UnicodeDecodeError:
        return False
    return b"\0" not in beginning


def _hugging_face(
    folder: Path,
    tokenizer: Any,
    device: torch.device | str,
    attention: Implementation,
    weights: Weights,
) -> Model:
    if weights == "int8":
        raise ConfigError("int8 weights are for models of glassformer; take float32 or bfloat16")
    dtype = torch.bfloat16 if weights == "bfloat16" else torch.float32
    opened = open_folder(folder, attention, dtype)
    opened.module.to(as_device(device))
    return HuggingFaceModel(opened, checkpoint.name_of(folder), tokenizer)


class ModuleModel(Model):
    """Any module that takes token ids first, with a tokenizer: it can be traced on texts."""

    tasks: tuple[Task, ...] = ()

    def __init__(self, module: nn.Module, tokenizer: Tokenizer | None, name: str) -> None:
        self.module, self.tokenizer, self.name = module, tokenizer, name
        self.kind = f"a {type(module).__name__}"

    def read(self, texts: Sequence[str]) -> list[Read]:
        encoded = self.reader.encode_batch(texts)
        return [Read(*each, empty=not each[1]) for each in zip(texts, encoded, strict=True)]

    def _ids_of(self, text: str) -> list[int]:
        return self.read([text])[0].ids

    def pass_over(self, ids: Sequence[int], target: Sequence[int] = ()) -> Pass:
        del target
        first = next(iter(inspect.signature(self.module.forward).parameters), "input")
        device = next((p.device for p in self.module.parameters()), torch.device("cpu"))
        labels = {first: self.reader.display_tokens(ids)} if len(ids) > 1 else {}
        return Pass(
            self.module, (torch.tensor([list(ids)], device=device),), labels=labels, ids=tuple(ids)
        )
