"""A folder that `save_pretrained` wrote: its module, tokenizer and image processor.

Whoever sends a folder decides what is in it. So nothing of it is run: no pickle is opened, no code
of its own imported, no address asked. Its files are bounded before they are read, and its config is
held against the shapes that the weights list before a module is built from it.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from glassformer.checkpoint import CONFIG, TOKENIZER, WEIGHTS
from glassformer.errors import CheckpointError, GlassformerError, NotInstalledError, did_you_mean
from glassformer.files import MOST_JSON, TensorEntry, read_object, read_tensor_entries
from glassformer.nn.attention import Implementation
from glassformer.text.tokenizer_limits import limits_of

INDEX = "model.safetensors.index.json"
_TOKENIZER_CONFIG, _PROCESSOR = "tokenizer_config.json", "preprocessor_config.json"
_ADAPTER = "adapter_config.json"
_VOCABULARIES = (
    TOKENIZER, "vocab.json", "vocab.txt", "merges.txt", "spiece.model", "tokenizer.model",
    "sentencepiece.bpe.model", "source.spm", "target.spm",
)  # fmt: skip
# What transformers reads of itself, beside the vocabulary and the weights.
_SIDE_FILES = (
    "generation_config.json", _TOKENIZER_CONFIG, _PROCESSOR, "processor_config.json",
    "video_preprocessor_config.json", "added_tokens.json", "special_tokens_map.json",
    "chat_template.jinja", "chat_template.json",
)  # fmt: skip
_PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".h5", ".msgpack")
_MOST_TOKENIZER = 48 * 2**20  # bytes: the largest vocabularies in use (262,000 tokens) take 33 MB
_MOST_SHARDS = 1_000
_COUNTS = re.compile(r"layer|depth|block|stage|expert|attention_types")
_WIDTHS = re.compile(
    r"hidden|width|dim|embd|embed|d_model|inner|intermediate|ffn|d_ff|head|chan|label"
)
_MODEL_WIDTH = re.compile(r"(hidden_size|d_model|n_embd|dim|embed_dim)")
_POSITIONS = re.compile(r"position|n_ctx|max_len|seq_len|source_pos|target_pos")
_LEAST_WIDTH = 2**14  # configs hold defaults of parts that the model lacks
_LEAST_VOCABULARY = 2**20  # likewise
_MOST_NUMBER = 2**31
POOLINGS = ("mean", "cls", "max", "lasttoken")
_SENTENCE_MODULES = ("Transformer", "Pooling", "Normalize")
_MOST_MODULES = 2**16  # bytes
_ATTENTION = {"written": "eager", "fused": "sdpa"}


@dataclass(frozen=True)
class OpenedFolder:
    """What a folder holds."""

    module: nn.Module
    tokenizer: Any = None
    """Of transformers."""
    processor: Any = None
    """Of images."""
    pooling: str = "mean"
    """How a sentence encoder pools its vectors; not always one of `POOLINGS`."""


def transformers_library() -> Any:
    """The library transformers, which the extra `hf` installs."""
    try:
        import transformers
    except ImportError:
        raise NotInstalledError(
            "a Hugging Face folder is opened by the library transformers: "
            "pip install 'glassformer[hf]'"
        ) from None
    return transformers


def is_hugging_face(config: Mapping[str, Any]) -> bool:
    """Whether a config.json was written by another program."""
    return config.get("model_type") != "glassformer" and (
        "model_type" in config or "architectures" in config or "auto_map" in config
    )


def read_config(path: Path) -> dict[str, Any]:
    """The config.json of a model folder, ours or another program's."""
    if not (path / CONFIG).is_file():
        raise CheckpointError(
            "{path} is not a model folder: it has no {config}", path=path, config=CONFIG
        )
    return read_object(path / CONFIG, error=CheckpointError, what="a model's config")


def open_folder(path: Path, attention: Implementation, dtype: torch.dtype) -> OpenedFolder:
    """The module of a folder in evaluation mode, with its tokenizer and image processor."""
    kind, entries = check_folder(path)
    transformers = transformers_library()
    with quietly():
        _check_enough(path, kind, entries)
        return OpenedFolder(
            _read_module(path, kind, attention, dtype).eval(),
            _read_tokenizer(path, transformers),
            _read_processor(path, transformers),
            _pooling(path),
        )


def check_folder(path: Path) -> tuple[Any, dict[str, TensorEntry]]:
    """The class of a folder's module, and its tensors; refuses a folder that cannot be opened."""
    config = read_config(path)
    _check_adapter(path)
    _check_quantisation(path, config)
    _check_file_sizes(path, _SIDE_FILES, MOST_JSON)
    entries = weight_entries(path)
    _check_sizes(path, config, entries)
    return _architecture(path, config, transformers_library()), entries


def open_tokenizer(path: Path) -> Any:
    """The tokenizer of a folder alone."""
    transformers = transformers_library()
    with quietly():
        return _read_tokenizer(path, transformers)


def weight_entries(path: Path) -> dict[str, TensorEntry]:
    """The tensors that a folder's safetensors list; pickles are never opened."""
    if (path / INDEX).is_file():
        index = read_object(path / INDEX, error=CheckpointError, what="an index of weights")
        names = index.get("weight_map")
        shards = sorted({str(name) for name in names.values()}) if isinstance(names, dict) else []
        if not 1 <= len(shards) <= _MOST_SHARDS or any(
            Path(name).name != name or not name.endswith(".safetensors") for name in shards
        ):
            raise CheckpointError("{path} is not an index of weights", path=path / INDEX)
    elif (path / WEIGHTS).is_file():
        shards = [WEIGHTS]
    else:
        raise _no_weights(path)
    entries: dict[str, TensorEntry] = {}
    for shard in shards:
        entries |= read_tensor_entries(path / shard, error=CheckpointError)
    return entries


def _no_weights(path: Path) -> CheckpointError:
    held = sorted(file.name for file in path.iterdir() if file.suffix in _PICKLES)
    if not held:
        return CheckpointError(
            "{path} is not a complete model folder: it has no {weights}", path=path, weights=WEIGHTS
        )
    named = read_config(path).get("architectures")
    kind = named[0] if isinstance(named, list) and named else ""
    is_name = isinstance(kind, str) and kind.isidentifier()  # it is advised as code to run
    return CheckpointError(
        "{path} has its weights as {held}, a format that can run code, and no {weights}; where you "
        "trust it, convert it in Python: transformers.{kind}.from_pretrained({folder!r})"
        ".save_pretrained({folder!r})",
        path=path,
        held=held[0],
        weights=WEIGHTS,
        kind=kind if is_name else "AutoModel",  # which leaves out the head
        folder=str(path),
    )


def _check_adapter(path: Path) -> None:
    """Refuse an adapter, which names another model to be opened in its place."""
    if (path / _ADAPTER).exists():
        raise CheckpointError(
            "{path} holds an adapter ({file}), which is no model by itself: merge it into its "
            "model first (merge_and_unload), and save that",
            path=path,
            file=_ADAPTER,
        )


def _check_quantisation(path: Path, config: Mapping[str, Any]) -> None:
    parts = (config, *(part for part in config.values() if isinstance(part, Mapping)))
    key = "quantization_config"
    found = next((part[key] for part in parts if part.get(key) is not None), None)
    if found is None:
        return
    method = found.get("quant_method", "?") if isinstance(found, Mapping) else "?"
    raise CheckpointError(
        "{path} is quantised ({method}): its numbers are packed, and cannot be traced; "
        "take the checkpoint it was made from, or save it dequantised",
        path=path,
        method=method,
    )


def _check_sizes(path: Path, config: Mapping[str, Any], entries: Mapping[str, TensorEntry]) -> None:
    """Refuse a config that names sizes which its weights do not have, before anything is built."""
    dims = [size for entry in entries.values() for size in entry.shape]
    n_numbers = sum(math.prod(entry.shape) for entry in entries.values())
    widest = max([_LEAST_WIDTH, *dims])
    found = list(_whole_numbers(config))
    width = max([value for name, value in found if _MODEL_WIDTH.fullmatch(name)], default=1)
    limits = [
        (_COUNTS, max(64, len(entries))),
        (_WIDTHS, widest),
        # A table of positions that is computed, not stored, is filled when the module is built.
        (_POSITIONS, (2**26 + 64 * n_numbers) // max(1, width)),
        (re.compile("vocab"), max(_LEAST_VOCABULARY, widest)),
        (re.compile(""), _MOST_NUMBER),
    ]
    for name, value in found:
        most = next(most for pattern, most in limits if pattern.search(name))
        if value > most:
            raise CheckpointError(
                "{path}: {config} has {name} = {value:,}, more than its weights can fill",
                path=path,
                config=CONFIG,
                name=name,
                value=value,
            )


def _whole_numbers(value: Any, name: str = "") -> Iterator[tuple[str, int]]:
    """The sizes in a config; a list of sizes counts as their sum."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if key not in ("id2label", "label2id", "task_specific_params") and "token" not in key:
                yield from _whole_numbers(inner, key)
    elif isinstance(value, list):
        numbers = [part for part in value if type(part) is int]
        if numbers and not _WIDTHS.search(name):
            yield name, sum(map(abs, numbers))
        for part in value:
            yield from _whole_numbers(part, name)
    elif type(value) is int:
        yield name, value


def _architecture(path: Path, config: Mapping[str, Any], transformers: Any) -> Any:
    """The class of transformers that a config names."""
    model_type, named = config.get("model_type"), config.get("architectures") or []
    known = transformers.models.auto.configuration_auto.CONFIG_MAPPING_NAMES
    if not isinstance(model_type, str) or model_type not in known:
        if "auto_map" in config:
            raise CheckpointError(
                "{path} needs code of its own (auto_map in {config}), which is never run",
                path=path,
                config=CONFIG,
            )
        raise CheckpointError(
            "{path}: transformers {version} does not know the architecture {model_type!r}{near}",
            path=path,
            version=transformers.__version__,
            model_type=model_type,
            near=did_you_mean(str(model_type), known, 3),
        )
    name = named[0] if isinstance(named, list) and named else None
    if name is None:
        return transformers.AutoModel
    kind = getattr(transformers, name, None) if isinstance(name, str) else None
    if not (isinstance(kind, type) and issubclass(kind, transformers.PreTrainedModel)):
        raise CheckpointError(
            "{path}: transformers {version} does not know the architecture {model_type!r}{near}",
            path=path,
            version=transformers.__version__,
            model_type=name,
            near="",
        )
    return kind


def _check_enough(path: Path, kind: Any, entries: Mapping[str, TensorEntry]) -> None:
    """Build the module without memory for its numbers, and count them."""
    transformers = transformers_library()
    try:
        config = transformers.AutoConfig.from_pretrained(
            path, local_files_only=True, trust_remote_code=False, attn_implementation="eager"
        )
        with torch.device("meta"):
            auto = kind is transformers.AutoModel
            module = kind.from_config(config) if auto else kind(config)
    except Exception as error:  # constructors raise anything for a bad config
        raise _library_failed(path, error) from None
    stored = {id(parameter): parameter for parameter in module.parameters()}
    for name, part in module.named_modules():  # what is computed, and what may be left out
        if "Sinusoidal" in type(part).__name__ or name.rpartition(".")[2] == "pooler":
            for parameter in part.parameters():
                stored.pop(id(parameter), None)
    wanted = sum(parameter.numel() for parameter in stored.values())
    actual = sum(math.prod(entry.shape) for entry in entries.values())
    if wanted > actual:
        raise CheckpointError(
            "{path}: {error}",
            path=path,
            error=CheckpointError(
                "the weights do not fit the module: {config} requires {wanted:,} numbers, "
                "{weights} has {actual:,}",
                config=CONFIG,
                wanted=wanted,
                weights=WEIGHTS,
                actual=actual,
            ),
        )


def _read_module(path: Path, kind: Any, attention: Implementation, dtype: torch.dtype) -> nn.Module:
    options = {
        "local_files_only": True,
        "use_safetensors": True,
        "dtype": dtype,
        "output_loading_info": True,
    }
    implementation = _ATTENTION[attention]
    try:
        try:
            module, info = kind.from_pretrained(path, attn_implementation=implementation, **options)
        except ValueError as error:
            if "attn_implementation" not in str(error) and "attention" not in str(error):
                raise
            module, info = kind.from_pretrained(path, attn_implementation="eager", **options)
        missing = sorted(info["missing_keys"])
        if missing and all(name.startswith("pooler.") or ".pooler." in name for name in missing):
            module, info = kind.from_pretrained(path, add_pooling_layer=False, **options)
            missing = sorted(info["missing_keys"])
    except Exception as error:  # transformers, safetensors and torch raise anything
        raise _library_failed(path, error) from None
    # Modules compute sinusoids themselves, so folders often leave them out.
    computed = {
        f"{name}.weight" for name, part in module.named_modules() if hasattr(part, "create_weight")
    }
    missing = [name for name in missing if name not in computed]
    if missing:
        raise CheckpointError(
            "{path}: the weights lack {name!r} and {n} more that {kind} needs",
            path=path,
            name=missing[0],
            n=len(missing) - 1,
            kind=type(module).__name__,
        )
    assert isinstance(module, nn.Module)
    return module


def _read_tokenizer(path: Path, transformers: Any) -> Any:
    held = [name for name in _VOCABULARIES if (path / name).is_file()]
    if not held and not (path / _TOKENIZER_CONFIG).is_file():
        return None
    _check_file_sizes(path, _SIDE_FILES, MOST_JSON)
    _check_file_sizes(path, held, _MOST_TOKENIZER)
    if TOKENIZER in held:
        data = read_object(
            path / TOKENIZER, error=CheckpointError, most=_MOST_TOKENIZER, what="a tokenizer.json"
        )
        try:
            limits_of(data)
        except GlassformerError as error:
            raise CheckpointError(
                "{path} is damaged or not a tokenizer.json: {error}",
                path=path / TOKENIZER,
                error=error,
            ) from None
    return _read_part(path, transformers.AutoTokenizer)


def _read_processor(path: Path, transformers: Any) -> Any:
    file = path / _PROCESSOR
    if not file.is_file() or "image_processor_type" not in read_object(
        file, error=CheckpointError, what="an image processor's config"
    ):
        return None
    return _read_part(path, transformers.AutoImageProcessor)


def _read_part(path: Path, kind: Any) -> Any:
    try:
        return kind.from_pretrained(path, local_files_only=True, trust_remote_code=False)
    except Exception as error:  # a missing library of a slow tokenizer, a damaged file
        raise _library_failed(path, error) from None


def _pooling(path: Path) -> str:
    """How sentence-transformers pools; without its files, the mean.

    What is not in `POOLINGS` is the name of a mode or module that we do not have.
    """
    listed = path / "modules.json"
    file = path / "1_Pooling" / CONFIG
    if listed.is_file():
        modules = _sentence_modules(listed)
        unknown = [kind for kind, _ in modules if kind not in _SENTENCE_MODULES]
        if unknown:
            return unknown[0]
        places = [place for kind, place in modules if kind == "Pooling"]
        if len(places) > 1:
            return "Pooling + Pooling"
        if places:
            file = path / places[0] / CONFIG
            if Path(places[0]).name != places[0] or not file.is_file():
                raise CheckpointError("{path} is not a list of modules", path=listed)
    if not file.is_file():
        return "mean"
    config = read_object(file, error=CheckpointError, what="a pooling config")
    named = config.get("pooling_mode")
    prefix = "pooling_mode_"
    modes = (
        [str(mode) for mode in (named if isinstance(named, list) else [named])]
        if named is not None
        else [key.removeprefix(prefix) for key, on in config.items() if on and prefix in key]
    )
    if not modes and any(prefix in key for key in config):
        return "none"
    short = [mode.removesuffix("_tokens").removesuffix("_token") for mode in modes or ["mean"]]
    # They differ by a factor, which normalising to length 1 removes.
    return " + ".join("mean" if mode == "mean_sqrt_len" else mode for mode in short)


def _sentence_modules(file: Path) -> list[tuple[str, str]]:
    """The kinds and folders of the modules that sentence-transformers would run in turn."""
    try:
        if file.stat().st_size > _MOST_MODULES:
            raise ValueError
        data = json.loads(file.read_text("utf-8"))
        return [(str(part["type"]).rpartition(".")[2], str(part.get("path", ""))) for part in data]
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise CheckpointError("{path} is not a list of modules", path=file) from None


def _check_file_sizes(path: Path, names: Iterable[str], most: int) -> None:
    for name in names:
        file = path / name
        if file.is_file() and file.stat().st_size > most:
            raise CheckpointError(
                "{path} is larger than {most:,} bytes, the limit for such a file",
                path=file,
                most=most,
            )


def _library_failed(path: Path, error: Exception) -> CheckpointError:
    reason = " ".join(str(error).split()) or type(error).__name__
    return CheckpointError(
        "{path} cannot be opened by transformers: {reason}", path=path, reason=reason[:300]
    )


@contextmanager
def quietly() -> Iterator[None]:
    """Silence the library's progress bars and advice; we report what matters."""
    transformers = transformers_library()
    logging = transformers.utils.logging
    before, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity(logging.CRITICAL)
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(before)
        if bars:
            logging.enable_progress_bar()
