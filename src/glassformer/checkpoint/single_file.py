"""Models that come as one file: the .pt of nanoGPT and minGPT, the .bin of llama2.c.

    checkpoint.load_nanogpt("out/ckpt.pt")
    checkpoint.load_mingpt("model.pt", n_heads=6)
    checkpoint.load_llama2c("stories15M.bin")

A .pt file is a pickle. It is opened by torch's reader of plain tensors, which runs nothing that the
file names, and only because the caller named the file: no folder that is loaded may lead here.
"""

import math
import os
import pickletools
import re
import struct
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, Literal, TypeVar

import numpy as np
import torch
from torch import Tensor

from glassformer.checkpoint.model_folder import Checkpoint
from glassformer.errors import CheckpointError, GlassformerError
from glassformer.files import as_path, open_regular
from glassformer.nn import LanguageModel, ModelConfig, build
from glassformer.nn.attention import Implementation, set_attention
from glassformer.nn.description import parameter_shapes
from glassformer.nn.foreign.nanogpt import (
    Llama2cHeader,
    config_from_llama2c,
    config_from_nanogpt,
    llama2c_arrays,
    load_meta_llama,
    load_nanogpt_weights,
    plain_names,
)
from glassformer.text import Tokenizer

T = TypeVar("T")

_MAGIC = 0x616B3432  # "ak42", of versions from 1 on

_MOST_PICKLE = 4 * 2**20  # bytes; a tensor takes about 200 there, its numbers are elsewhere
_MOST_BUILDS = 16  # a state dict has one, for its metadata
# The only names in the pickle of plain tensors. torch's own reader allows more of them, such as
# bytearray, which allocates as many bytes as it is told.
_GLOBALS = re.compile(
    r"collections OrderedDict|torch\._utils _rebuild_(?:tensor_v2|parameter)|torch \w+Storage"
)


def load_nanogpt(
    file: str | os.PathLike[str],
    *,
    tokenizer: Tokenizer | None = None,
    attention: Implementation = "fused",
) -> Checkpoint:
    """Read the `ckpt.pt` of nanoGPT's train.py, compiled or not, with or without biases."""
    path = as_path(file, CheckpointError, "a checkpoint")
    data = _load_tensors(path)
    arguments = data.get("model_args")
    heads = arguments.get("n_head") if isinstance(arguments, Mapping) else None
    if not isinstance(heads, int):
        raise CheckpointError(
            f"{path} is not a checkpoint of nanoGPT: expected model_args with n_head; "
            "for a bare state dict, use load_mingpt(file, n_heads=…)"
        )
    return _gpt(path, data.get("model"), heads, "gelu", tokenizer, attention)


def load_mingpt(
    file: str | os.PathLike[str],
    *,
    n_heads: int,
    tokenizer: Tokenizer | None = None,
    attention: Implementation = "fused",
) -> Checkpoint:
    """Read the `model.pt` of minGPT, a bare state dict: it does not say how many heads it has."""
    path = as_path(file, CheckpointError, "a checkpoint")
    if type(n_heads) is not int or n_heads < 1:
        raise CheckpointError(f"n_heads must be a whole number of 1 or more, got {n_heads!r}")
    return _gpt(path, _load_tensors(path), n_heads, "gelu_tanh", tokenizer, attention)


def load_llama2c(
    file: str | os.PathLike[str],
    *,
    tokenizer: Tokenizer | None = None,
    attention: Implementation = "fused",
) -> Checkpoint:
    """Read a float32 model of llama2.c: the legacy .bin (version 0), or version 1."""
    path = as_path(file, CheckpointError, "a checkpoint")
    try:
        with open_regular(path) as opened:
            header, version = _read_header(path, opened)
            config = _named(path, lambda: config_from_llama2c(header))
            state = dict(_read_arrays(path, opened, header, version))
    except OSError as error:
        if isinstance(error, GlassformerError):
            raise
        raise CheckpointError(f"cannot read {path}: {error.strerror}") from None
    return _filled(path, config, lambda model: load_meta_llama(model, state), tokenizer, attention)


def _gpt(
    path: Path,
    state: object,
    n_heads: int,
    activation: Literal["gelu", "gelu_tanh"],
    tokenizer: Tokenizer | None,
    attention: Implementation,
) -> Checkpoint:
    if not isinstance(state, Mapping) or not all(
        isinstance(name, str) and _is_stored(tensor) for name, tensor in state.items()
    ):
        raise CheckpointError(f"{path} does not hold a state dict of plain tensors")
    named = plain_names(state)
    config = _named(path, lambda: config_from_nanogpt(named, n_heads, activation))
    return _filled(
        path, config, lambda model: load_nanogpt_weights(model, named), tokenizer, attention
    )


def _is_stored(tensor: object) -> bool:
    """Whether every number of a tensor is in the file: a stride of 0 makes many of one."""
    return (
        isinstance(tensor, Tensor)
        and tensor.layout is torch.strided
        and tensor.device.type == "cpu"
        and tensor.numel() * tensor.element_size() <= tensor.untyped_storage().nbytes()
    )


def _filled(
    path: Path,
    config: ModelConfig,
    load: Callable[[LanguageModel], None],
    tokenizer: Tokenizer | None,
    attention: Implementation,
) -> Checkpoint:
    """The model of a config with its weights; a file of n bytes has no more than n numbers."""
    wanted = sum(math.prod(shape) for shape in parameter_shapes(config).values())
    if wanted > path.stat().st_size:
        raise CheckpointError(
            f"{path} holds fewer numbers than the {wanted:,} that its shapes ask for"
        )
    model = build(config)
    assert isinstance(model, LanguageModel)
    _named(path, lambda: load(model))
    set_attention(model, attention)
    return Checkpoint(model.eval(), config, tokenizer=tokenizer)


def _load_tensors(path: Path) -> dict[str, Any]:
    """The dictionary that torch.save wrote, if it holds nothing but tensors and plain data."""
    try:
        with open_regular(path) as opened, zipfile.ZipFile(opened) as packed:
            # torch.save packs nothing; what is packed may be a thousand times as large as the file.
            as_is = all(item.compress_type == zipfile.ZIP_STORED for item in packed.infolist())
            pickles = [  # torch looks names up whatever their case
                item for item in packed.infolist() if item.filename.lower().endswith("data.pkl")
            ]
            if as_is and len(pickles) == 1:
                with packed.open(pickles[0]) as pickled:
                    _check_pickle(path, pickled.read(_MOST_PICKLE + 1))
            else:
                as_is = False
    except OSError as error:
        if isinstance(error, GlassformerError):
            raise
        raise CheckpointError(f"cannot read {path}: {error.strerror}") from None
    except (zipfile.BadZipFile, ValueError, EOFError, NotImplementedError, RuntimeError):
        as_is = False
    if not as_is:
        raise CheckpointError(f"{path} is damaged or not a file that torch.save wrote")
    try:
        data = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    except Exception as error:  # pickle and torch raise whatever they met
        reason = str(error).partition("\n")[0]
        raise CheckpointError(f"{path} does not hold plain tensors: {reason:.120}") from None
    if not isinstance(data, dict):
        raise CheckpointError(f"{path} holds no state dict but a {type(data).__name__}")
    return data


def _check_pickle(path: Path, data: bytes) -> None:
    """Refuse a pickle that names, copies or is more than plain tensors need.

    Raises ValueError where it is no pickle.
    """
    wrong = f"{path} does not hold plain tensors: its pickle"
    if len(data) > _MOST_PICKLE:
        raise CheckpointError(f"{wrong} is larger than {_MOST_PICKLE:,} bytes")
    dicts: set[object] = set()  # where the memo holds the class OrderedDict
    is_dict, n_builds = False, 0
    for operation, argument, _ in pickletools.genops(data):
        name = operation.name
        # torch makes every OrderedDict empty; one made from another would copy it.
        if is_dict:
            if name in ("BINPUT", "LONG_BINPUT"):
                dicts.add(argument)
                continue
            if name != "EMPTY_TUPLE":
                raise CheckpointError(f"{wrong} makes an OrderedDict of something")
        if name == "GLOBAL" and not _GLOBALS.fullmatch(str(argument)):
            raise CheckpointError(f"{wrong} names {str(argument).replace(' ', '.')!r:.60}")
        if name in ("STACK_GLOBAL", "INST", "OBJ", "NEWOBJ", "NEWOBJ_EX", "EXT1", "EXT2", "EXT4"):
            raise CheckpointError(f"{wrong} has {name}, which torch.save does not write")
        n_builds += name == "BUILD"
        if n_builds > _MOST_BUILDS:
            raise CheckpointError(f"{wrong} sets attributes more than {_MOST_BUILDS} times")
        is_dict = argument == "collections OrderedDict" and name == "GLOBAL"
        is_dict = is_dict or (name in ("BINGET", "LONG_BINGET") and argument in dicts)


def _read_header(path: Path, opened: BinaryIO) -> tuple[Llama2cHeader, int]:
    """The sizes, and the version of the format; the file is left where the numbers begin."""
    head = opened.read(256)
    if len(head) < 28:
        raise CheckpointError(f"{path} is not a model of llama2.c: it has {len(head)} bytes")
    magic, version = struct.unpack("<Ii", head[:8])
    if magic != _MAGIC:
        sizes = Llama2cHeader._make((*struct.unpack("<7i", head[:28]), True))
        opened.seek(28)
        signed = sizes.vocab_size  # below 0: the output map is a matrix of its own
        return sizes._replace(vocab_size=abs(signed), shared=signed > 0), 0
    if version != 1 or len(head) < 256:
        raise CheckpointError(
            f"{path} is a llama2.c model of version {version}; versions 0 and 1 (float32) are read"
        )
    return Llama2cHeader._make((*struct.unpack("<7i", head[8:36]), head[36] != 0)), 1


def _read_arrays(
    path: Path, opened: BinaryIO, header: Llama2cHeader, version: int
) -> Iterator[tuple[str, Tensor]]:
    arrays = llama2c_arrays(header, version)
    wanted = 4 * sum(
        math.prod(shape) * (header.n_layers if "#" in name else 1) for name, shape in arrays
    )
    there = os.fstat(opened.fileno()).st_size - opened.tell()
    if wanted != there:
        raise CheckpointError(
            f"{path} is damaged or not a model of llama2.c: its sizes ask for {wanted:,} bytes of "
            f"numbers, {there:,} are there"
        )
    for name, shape in arrays:
        for layer in range(header.n_layers if "#" in name else 1):
            numbers = np.fromfile(opened, dtype="<f4", count=math.prod(shape))
            if name:
                native = numbers.astype(np.float32, copy=False).reshape(shape)
                yield name.replace("#", str(layer)), torch.from_numpy(native)


def _named(path: Path, read: Callable[[], T]) -> T:
    """Run a reading step; its error message gets the file's name in front."""
    try:
        return read()
    except GlassformerError as error:
        raise CheckpointError(f"{path}: {error}") from None
