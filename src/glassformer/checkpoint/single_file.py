"""Single-file formats: the .pt of nanoGPT and minGPT, the .bin of llama2.c.

    checkpoint.load_nanogpt("out/ckpt.pt")
    checkpoint.load_mingpt("model.pt", n_heads=6)
    checkpoint.load_llama2c("stories15M.bin")

A .pt file is a pickle. It is opened with torch's loader of plain tensors, which executes nothing
that the file names, and only because the caller named the file: no model folder leads here.
"""

import math
import os
import pickletools
import re
import struct
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from glassformer.checkpoint.model_folder import Checkpoint, name_errors
from glassformer.errors import CheckpointError, ConfigError, Fragment
from glassformer.files import as_path, open_regular, os_errors_as
from glassformer.nn import LanguageModel, ModelConfig, build, presets
from glassformer.nn.attention import Implementation, set_attention
from glassformer.nn.description import parameter_shapes
from glassformer.nn.foreign import (
    config_from_nanogpt,
    load_meta_llama,
    load_nanogpt_weights,
    plain_names,
)
from glassformer.text import Tokenizer


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
            "{path} is not a nanoGPT checkpoint: expected model_args with n_head; for a bare state "
            "dict, use load_mingpt(file, n_heads=…)",
            path=path,
        )
    return _gpt(path, data.get("model"), heads, "gelu", tokenizer, attention)


def load_mingpt(
    file: str | os.PathLike[str],
    *,
    n_heads: int,
    tokenizer: Tokenizer | None = None,
    attention: Implementation = "fused",
) -> Checkpoint:
    """Read the `model.pt` of minGPT, a bare state dict, which does not tell the number of heads."""
    path = as_path(file, CheckpointError, "a checkpoint")
    if type(n_heads) is not int or n_heads < 1:
        raise CheckpointError(
            "n_heads must be a whole number of 1 or more, got {n_heads!r}", n_heads=n_heads
        )
    return _gpt(path, _load_tensors(path), n_heads, "gelu_tanh", tokenizer, attention)


def load_llama2c(
    file: str | os.PathLike[str],
    *,
    tokenizer: Tokenizer | None = None,
    attention: Implementation = "fused",
) -> Checkpoint:
    """Read a float32 model of llama2.c: the legacy .bin (version 0), or version 1."""
    path = as_path(file, CheckpointError, "a checkpoint")
    with _opened(path) as opened:
        header, version = _read_header(path, opened)
        with name_errors(path):
            config = _llama2c_config(header)
        state = dict(_read_arrays(path, opened, header, version))
    return _filled(path, config, lambda model: load_meta_llama(model, state), tokenizer, attention)


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    unreadable = "cannot read {path}: {reason}"
    with os_errors_as(CheckpointError, unreadable, path=path), open_regular(path) as opened:
        yield opened


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
        raise CheckpointError("{path} does not contain a state dict of plain tensors", path=path)
    named = plain_names(state)
    with name_errors(path):
        config = config_from_nanogpt(named, n_heads, activation)
    return _filled(
        path, config, lambda model: load_nanogpt_weights(model, named), tokenizer, attention
    )


def _is_stored(tensor: object) -> bool:
    """Whether every number of a tensor is in the file: a stride of 0 would repeat one."""
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
    """Build the model and load its weights; a file of n bytes has at most n numbers."""
    wanted = sum(math.prod(shape) for shape in parameter_shapes(config).values())
    if wanted > path.stat().st_size:
        raise CheckpointError(
            "{path} contains fewer numbers than the {wanted:,} that its shapes require",
            path=path,
            wanted=wanted,
        )
    model = build(config)
    assert isinstance(model, LanguageModel)
    with name_errors(path):
        load(model)
    set_attention(model, attention)
    return Checkpoint(model.eval(), config, tokenizer=tokenizer)


# --- pickles ---

_MAX_PICKLE = 4 * 2**20  # bytes; a tensor takes about 200, its numbers are stored elsewhere
_MAX_BUILDS = 16  # a state dict has one, for its metadata
# The only names in a pickle of plain tensors. torch's own loader allows more, such as bytearray,
# which allocates as many bytes as the file asks for.
_GLOBALS = re.compile(
    r"collections OrderedDict|torch\._utils _rebuild_(?:tensor_v2|parameter)|torch \w+Storage"
)


def _load_tensors(path: Path) -> dict[str, Any]:
    """The dictionary that torch.save wrote, if it contains only tensors and plain data."""
    try:
        with _opened(path) as opened, zipfile.ZipFile(opened) as archive:
            # torch.save does not compress; compressed data could expand a thousandfold.
            is_plain = all(item.compress_type == zipfile.ZIP_STORED for item in archive.infolist())
            pickles = [  # torch looks names up case-insensitively
                item for item in archive.infolist() if item.filename.lower().endswith("data.pkl")
            ]
            if is_plain and len(pickles) == 1:
                with archive.open(pickles[0]) as pickled:
                    _check_pickle(path, pickled.read(_MAX_PICKLE + 1))
            else:
                is_plain = False
    except (zipfile.BadZipFile, ValueError, EOFError, NotImplementedError, RuntimeError):
        is_plain = False
    if not is_plain:
        raise CheckpointError("{path} is damaged or was not written by torch.save", path=path)
    try:
        data = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    except Exception as error:  # pickle and torch let all kinds of exceptions through
        reason = str(error).partition("\n")[0][:120]
        raise CheckpointError(
            "{path} does not contain plain tensors: {reason}", path=path, reason=reason
        ) from None
    if not isinstance(data, dict):
        raise CheckpointError(
            "{path} contains a {kind}, not a state dict", path=path, kind=type(data).__name__
        )
    return data


def _check_pickle(path: Path, data: bytes) -> None:
    """Refuse a pickle that names, copies or is more than plain tensors need.

    Raises ValueError if it is not a pickle.
    """

    def refused(template: str, **fields: object) -> CheckpointError:
        reason = Fragment.of(template, **fields)
        return CheckpointError(
            "{path} does not contain plain tensors: {reason}", path=path, reason=reason
        )

    if len(data) > _MAX_PICKLE:
        raise refused("its pickle is larger than {most:,} bytes", most=_MAX_PICKLE)
    dicts: set[object] = set()  # memo entries that hold the class OrderedDict
    is_dict, n_builds = False, 0
    for operation, argument, _ in pickletools.genops(data):
        name = operation.name
        # torch creates every OrderedDict empty; one created from another would copy it.
        if is_dict:
            if name in ("BINPUT", "LONG_BINPUT"):
                dicts.add(argument)
                continue
            if name != "EMPTY_TUPLE":
                raise refused("its pickle fills an OrderedDict on construction")
        if name == "GLOBAL" and not _GLOBALS.fullmatch(str(argument)):
            raise refused("its pickle names {it!r:.60}", it=str(argument).replace(" ", "."))
        if name in ("STACK_GLOBAL", "INST", "OBJ", "NEWOBJ", "NEWOBJ_EX", "EXT1", "EXT2", "EXT4"):
            raise refused("its pickle has {name}, which torch.save does not write", name=name)
        n_builds += name == "BUILD"
        if n_builds > _MAX_BUILDS:
            raise refused("its pickle sets attributes more than {most} times", most=_MAX_BUILDS)
        is_dict = argument == "collections OrderedDict" and name == "GLOBAL"
        is_dict = is_dict or (name in ("BINGET", "LONG_BINGET") and argument in dicts)


# --- llama2.c ---
# A header of sizes, then the arrays as float32 in a fixed order, without names.

_MAGIC = 0x616B3432  # "ak42", from version 1 on


class Llama2cHeader(NamedTuple):
    dim: int
    hidden_dim: int
    n_layers: int
    n_heads: int
    n_kv_heads: int
    vocab_size: int
    max_len: int
    shared: bool
    """Whether the output map is the token table."""


def _read_header(path: Path, opened: BinaryIO) -> tuple[Llama2cHeader, int]:
    """The sizes and the version of the format; leaves the file at the first number."""
    head = opened.read(256)
    if len(head) < 28:
        raise CheckpointError(
            "{path} is not a llama2.c model: it has {n} bytes", path=path, n=len(head)
        )
    magic, version = struct.unpack("<Ii", head[:8])
    if magic != _MAGIC:
        sizes = Llama2cHeader._make((*struct.unpack("<7i", head[:28]), True))
        opened.seek(28)
        signed = sizes.vocab_size  # negative: the output map is a separate matrix
        return sizes._replace(vocab_size=abs(signed), shared=signed > 0), 0
    if version != 1 or len(head) < 256:
        raise CheckpointError(
            "{path} is a llama2.c model of version {version}; expected version 0 or 1 (float32)",
            path=path,
            version=version,
        )
    return Llama2cHeader._make((*struct.unpack("<7i", head[8:36]), head[36] != 0)), 1


def _llama2c_config(header: Llama2cHeader) -> ModelConfig:
    if not all(0 < size < 2**31 for size in header[:7]):
        raise ConfigError(
            "the sizes of a llama2.c model must be above 0, got {sizes}", sizes=header[:7]
        )
    return presets.llama(
        vocab_size=header.vocab_size,
        d_model=header.dim,
        n_heads=header.n_heads,
        n_kv_heads=header.n_kv_heads,
        n_layers=header.n_layers,
        d_ff=header.hidden_dim,
        max_len=header.max_len,
    ).with_(block__norm_eps=1e-5, output__tied="output" if header.shared else "none")


def _array_shapes(header: Llama2cHeader, version: int) -> list[tuple[str, tuple[int, ...]]]:
    """Meta's name and the shape of each array, in file order.

    `#` in a name stands for all layers, one after another; an array without a name is skipped
    (version 0 stores tables of rotations).
    """
    width = header.dim // header.n_heads
    d_queries, d_keys = header.n_heads * width, header.n_kv_heads * width
    d, f = header.dim, header.hidden_dim
    shapes: Mapping[str, tuple[int, ...]] = {
        "tok_embeddings": (header.vocab_size, d),
        "layers.#.attention_norm": (d,),
        "layers.#.attention.wq": (d_queries, d),
        "layers.#.attention.wk": (d_keys, d),
        "layers.#.attention.wv": (d_keys, d),
        "layers.#.attention.wo": (d, d_queries),
        "layers.#.ffn_norm": (d,),
        "layers.#.feed_forward.w1": (f, d),
        "layers.#.feed_forward.w2": (d, f),
        "layers.#.feed_forward.w3": (f, d),
        "norm": (d,),
        "": (header.max_len, width // 2),
        "output": (header.vocab_size, d),
    }
    norms = ["layers.#.attention_norm", "layers.#.ffn_norm", "norm"]
    in_order: Sequence[str] = [name for name in shapes if name != "output"]
    if version == 0:
        in_order = [*in_order[:-1], "", ""]
    else:
        in_order = [*norms, *(name for name in in_order if name and name not in norms)]
    if not header.shared:
        in_order = [*in_order, "output"]
    return [(f"{name}.weight" if name else "", shapes[name]) for name in in_order]


def _read_arrays(
    path: Path, opened: BinaryIO, header: Llama2cHeader, version: int
) -> Iterator[tuple[str, Tensor]]:
    arrays = _array_shapes(header, version)
    wanted = 4 * sum(
        math.prod(shape) * (header.n_layers if "#" in name else 1) for name, shape in arrays
    )
    actual = os.fstat(opened.fileno()).st_size - opened.tell()
    if wanted != actual:
        raise CheckpointError(
            "{path} is damaged or not a llama2.c model: its header implies {wanted:,} bytes of "
            "numbers, it has {actual:,}",
            path=path,
            wanted=wanted,
            actual=actual,
        )
    for name, shape in arrays:
        for layer in range(header.n_layers if "#" in name else 1):
            numbers = np.fromfile(opened, dtype="<f4", count=math.prod(shape))
            if name:
                native = numbers.astype(np.float32, copy=False).reshape(shape)
                yield name.replace("#", str(layer)), torch.from_numpy(native)
