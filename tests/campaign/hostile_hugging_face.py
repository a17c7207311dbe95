"""Hostile folders of Hugging Face: code of their own, sizes that lie, files that never end.

A folder that runs anything of its own leaves a file `executed` in itself.
"""

import json
import pickle
import random
import shutil
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.campaign.hostile_folders import (
    NESTED,
    TOKENIZER_PARTS,
    Spoil,
    byte_file,
    mutated_json,
    special_file,
    text_file,
)

EXECUTED = "executed"
_CONFIG, _TOKENIZER, _WEIGHTS = "config.json", "tokenizer.json", "model.safetensors"
_INDEX, _GENERATION = "model.safetensors.index.json", "generation_config.json"
_TOKENIZER_CONFIG, _PROCESSOR = "tokenizer_config.json", "preprocessor_config.json"
_KINDS = ("gpt2", "bert", "bart", "t5", "llama", "bert_masked", "vit", "clip")
_TEXTS = {"bert_masked": "the [MASK] sat on the mat"}
_TEXT = "x" * 200 + " the cat sat on the mat"


@dataclass(frozen=True)
class Case:
    """A folder and what it is asked."""

    name: str
    folder: Path
    text: str


def hostile_hugging_face(folder: Path, count: int, seed: int = 0) -> Iterator[Case]:
    """Folders of `save_pretrained`, spoiled one at a time: the one before is removed."""
    from tests.tasks.foreign_folders import FOLDERS, picture

    rng = random.Random(seed)
    whole = {kind: FOLDERS[kind].write(folder / "whole" / kind) for kind in _KINDS}
    image = str(picture(folder / "picture.png"))
    spoils = [*_SET_PIECES, *[_mutated] * max(0, count - len(_SET_PIECES))][:count]
    for at, (kind, spoil) in enumerate(
        piece if isinstance(piece, tuple) else (rng.choice(_KINDS), piece) for piece in spoils
    ):
        place = folder / f"foreign{at}"
        shutil.copytree(whole[kind], place)
        name = spoil(place, rng)
        text = image if FOLDERS[kind].tokenizer is None else _TEXTS.get(kind, _TEXT)
        yield Case(f"{at} {kind}: {name}", place, text)
        shutil.rmtree(place)
    shutil.rmtree(folder / "whole")


def _mutated(place: Path, rng: random.Random) -> str:
    """A part of one of the JSON files replaced, or bytes of the weights."""
    file = rng.choice(sorted(place.glob("*.json")) * 2 + [place / _WEIGHTS])
    if file.suffix == ".json":
        data = json.loads(file.read_text(encoding="utf-8"))
        for _ in range(rng.choice((1, 1, 2, 4))):
            data = mutated_json(data, rng)
        file.write_text(json.dumps(data), encoding="utf-8")
        return f"mutated {file.name}"
    data = bytearray(file.read_bytes())
    (length,) = struct.unpack("<Q", data[:8])
    if rng.random() < 0.5:  # the header, as the library reads it
        header = mutated_json(json.loads(data[8 : 8 + length]), rng)
        head = json.dumps(header).encode()
        data[: 8 + length] = struct.pack("<Q", len(head)) + head
    else:
        data[rng.randrange(min(4000, len(data)))] ^= 1 << rng.randrange(8)
    file.write_bytes(bytes(data))
    return f"broken {file.name}"


# --- pieces ---


def _changed(name: str, **changes: Any) -> Spoil:
    """A JSON file with some values replaced; it is made if there is none."""

    def make(place: Path, rng: random.Random) -> str:
        file = place / name
        data = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
        file.write_text(json.dumps(data | changes), encoding="utf-8")
        return f"{name} with {json.dumps(changes)[:60]}"

    return make


def _sparse(name: str, size: int = 8 * 2**30) -> Spoil:
    """A file that claims gigabytes, and takes none of the disk."""

    def make(place: Path, rng: random.Random) -> str:
        with (place / name).open("wb") as opened:
            opened.truncate(size)
        return f"{name} of {size} bytes"

    return make


def _with_code(**files: Mapping[str, Any]) -> Spoil:
    """JSON files that name a module beside them, which says if it is imported."""

    def make(place: Path, rng: random.Random) -> str:
        code = f"open({str(place / EXECUTED)!r}, 'w')\nclass Evil: ...\n"
        for name in ("evil", "modeling_gpt2", "tokenization_evil", "configuration_evil"):
            (place / f"{name}.py").write_text(code, encoding="utf-8")
        for name, changes in files.items():
            _changed(f"{name}.json", **changes)(place, rng)
        return f"code named in {', '.join(files)}"

    return make


class _Opens:
    """A pickle that makes a file when it is loaded."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)

    def __reduce__(self) -> Any:
        return open, (self.path, "w")


def _pickled(*names: str, keep: bool = False) -> Spoil:
    """Pickles in place of the weights, or beside them."""

    def make(place: Path, rng: random.Random) -> str:
        if not keep:
            (place / _WEIGHTS).unlink()
        for name in names:
            (place / name).write_bytes(pickle.dumps(_Opens(place / EXECUTED)))
        return f"{', '.join(names)} {'beside' if keep else 'without'} safetensors"

    return make


def _header(**tensors: Any) -> Spoil:
    """Weights of this header and no numbers."""
    head = json.dumps(tensors).encode()
    return byte_file(_WEIGHTS, struct.pack("<Q", len(head)) + head)


def _index(*shards: str) -> Spoil:
    def make(place: Path, rng: random.Random) -> str:
        (place / _INDEX).write_text(
            json.dumps({"weight_map": {f"w{at}": shard for at, shard in enumerate(shards)}})
        )
        return f"an index of {len(shards)} shards, {shards[0][:40]!r}"

    return make


def _steps(parts: Mapping[str, Any]) -> Spoil:
    """The tokenizer as it is, with other steps."""
    return _changed(_TOKENIZER, **parts)


_AUTO = {
    "auto_map": {
        "AutoConfig": "evil.Evil",
        "AutoModel": "evil.Evil",
        "AutoModelForCausalLM": "evil.Evil",
        "AutoTokenizer": ["evil.Evil", "evil.Evil"],
        "AutoImageProcessor": "evil.Evil",
    }
}
_MAY_NOT_END = (
    _CONFIG, _TOKENIZER, _WEIGHTS, _INDEX, _GENERATION, _TOKENIZER_CONFIG,
    "special_tokens_map.json", "added_tokens.json", "adapter_config.json", "modules.json",
    "chat_template.jinja", "vocab.json", "merges.txt", "1_Pooling",
)  # fmt: skip
_NEVER_ENDS = ("fifo", "folder", "loop", "/dev/zero")
_CONFIGS: tuple[Mapping[str, Any], ...] = (
    {"vocab_size": 2**40}, {"vocab_size": -1}, {"vocab_size": 1e12}, {"vocab_size": "1" * 4000},
    {"n_layer": 10**6}, {"n_layer": 2**62}, {"n_layer": -5}, {"n_layer": 1e9}, {"n_layer": [10**9]},
    {"n_embd": 2**24}, {"n_embd": 0}, {"n_embd": "2**40"}, {"n_inner": 2**40}, {"n_head": 0},
    {"n_head": 2**31}, {"n_positions": 2**40}, {"n_positions": 0}, {"n_positions": 2**24},
    {"num_labels": 10**8}, {"id2label": {str(n): "x" for n in range(200_000)}},
    {"id2label": {"x": 1}}, {"id2label": {"99999999999": "x"}}, {"id2label": None},
    {"architectures": ["os"]}, {"architectures": ["PreTrainedModel"]},
    {"architectures": "x" * 9999},
    {"architectures": ["__class__"]}, {"architectures": [None]}, {"architectures": ["Trainer"]},
    {"architectures": ["T5ForConditionalGeneration"]}, {"architectures": ["BertModel"]},
    {"architectures": []}, {"architectures": {"a": 1}},
    {"model_type": "../../evil"}, {"model_type": None}, {"model_type": ["gpt2"]},
    {"model_type": "t5"}, {"model_type": "timm_wrapper", "architecture": "../evil"},
    {"dtype": "os.system"}, {"torch_dtype": "float8_e4m3fn"}, {"dtype": {"": "int8"}},
    {"activation_function": "exec"}, {"activation_function": "x" * 10**6},
    {"_attn_implementation": "kernels-community/evil"}, {"attn_implementation": "http://127.0.0.1"},
    {"_attn_implementation_internal": "kernels-community/evil"},
    {"quantization_config": {"quant_method": "bitsandbytes", "load_in_8bit": True}},
    {"quantization_config": 5}, {"quantization_config": {"quant_method": "gptq", "dataset": "x"}},
    {"text_config": {"n_layer": 10**9}}, {"pruned_heads": {"0": list(range(1000))}},
    {"rope_scaling": {"type": "dynamic", "factor": 1e300}}, {"layer_norm_epsilon": "nan"},
    {"is_encoder_decoder": True}, {"is_decoder": True}, {"use_cache": "x"}, {"return_dict": False},
    {"problem_type": "../x"}, {"name_or_path": "http://127.0.0.1:9/x"},
    {"custom_pipelines": {"text-classification": {"impl": "evil.Evil"}}},
    {"pad_token_id": 2**62}, {"bos_token_id": -7}, {"eos_token_id": [1] * 100_000},
    {"output_attentions": True}, {"output_hidden_states": True}, {"chunk_size_feed_forward": 10**9},
    {"tie_word_embeddings": "x"}, {"torchscript": True}, {"task_specific_params": 5},
    {"transformers_version": "9" * 999}, {"base_model_tp_plan": {"x": "y"}, "tp_size": 10**9},
)  # fmt: skip
_GENERATIONS: tuple[Mapping[str, Any], ...] = (
    {"max_length": 10**12}, {"max_new_tokens": 10**12}, {"num_beams": 10**6},
    {"num_return_sequences": 10**9}, {"custom_generate": "evil"}, {"cache_implementation": "evil"},
    {"decoder_start_token_id": 2**40}, {"eos_token_id": -1}, {"temperature": "x"},
    {"bad_words_ids": [[2**40]]}, {"suppress_tokens": [2**62]},
    {"forced_decoder_ids": [[0, 2**40]]},
    {"watermarking_config": {"a": 1}}, {"assistant_model": "../x"}, {"compile_config": {"a": 1}},
    {"stop_strings": ["x"] * 10_000}, {"constraints": [1]}, {"penalty_alpha": 1e308},
)  # fmt: skip
_TOKENIZER_CONFIGS: tuple[Mapping[str, Any], ...] = (
    {"model_max_length": -5}, {"model_max_length": 0}, {"model_max_length": "x"},
    {"tokenizer_class": "../evil"}, {"tokenizer_class": "BertModel"}, {"tokenizer_class": None},
    {"tokenizer_class": "BertTokenizer"}, {"tokenizer_class": "T5Tokenizer"},
    {"added_tokens_decoder": {str(2**40): {"content": "x"}}},
    {"added_tokens_decoder": {"x": {"content": "x"}}}, {"added_tokens_decoder": {"0": 5}},
    {"added_tokens_decoder": {str(n): {"content": f"<t{n}>"} for n in range(300, 9_000)}},
    {"pad_token": {"__type": "AddedToken", "content": "x" * 10**6}}, {"pad_token": 5},
    {"extra_special_tokens": {"a": 5}}, {"extra_special_tokens": ["x"] * 10_000},
    {"chat_template": "{% for i in range(10**9) %}x{% endfor %}"}, {"chat_template": 5},
    {"tokenizer_file": "/etc/passwd"}, {"name_or_path": "/etc"}, {"vocab_file": "/dev/zero"},
    {"padding_side": "up"}, {"truncation_side": 5}, {"fix_mistral_regex": True},
    {"model_input_names": ["x"]}, {"model_input_names": 5}, {"clean_up_tokenization_spaces": "x"},
    {"from_slow": True}, {"use_fast": False}, {"processor_class": "Evil"},
)  # fmt: skip
_PROCESSORS: tuple[Mapping[str, Any], ...] = (
    {"size": {"height": 2**20, "width": 2**20}}, {"size": {"height": 4096, "width": 4096}},
    {"size": 10**9}, {"size": -1}, {"size": "x"}, {"size": {"shortest_edge": 2**30}},
    {"crop_size": {"height": 10**6, "width": 10**6}, "do_center_crop": True},
    {"image_mean": [0.5] * 10**6}, {"image_mean": "x"}, {"image_std": [0, 0, 0]}, {"resample": 99},
    {"rescale_factor": "x"}, {"image_processor_type": "evil.Evil"}, {"image_processor_type": 5},
    {"do_pad": True, "pad_size": {"height": 10**6, "width": 10**6}}, {"do_convert_rgb": "x"},
    {"image_processor_type": "PreTrainedModel"}, {"size_divisor": 10**9},
)  # fmt: skip
_LIE = {"dtype": "F32", "shape": [2**40, 2**40], "data_offsets": [0, 0]}
_SET_PIECES: tuple[tuple[str, Spoil] | Spoil, ...] = (
    ("gpt2", _with_code(config=_AUTO)),
    ("gpt2", _with_code(config={**_AUTO, "model_type": "evil"})),
    ("gpt2", _with_code(config={"model_type": "evil", "architectures": ["Evil"]})),
    ("gpt2", _with_code(tokenizer_config={**_AUTO, "tokenizer_class": "Evil"})),
    ("bert", _with_code(tokenizer_config=_AUTO, config=_AUTO)),
    ("vit", _with_code(preprocessor_config={**_AUTO, "image_processor_type": "Evil"})),
    ("gpt2", _with_code(generation_config={"custom_generate": "."})),
    ("clip", _with_code(processor_config=_AUTO, video_preprocessor_config=_AUTO)),
    ("bert", _with_code(modules=_AUTO)),
    ("gpt2", _pickled("pytorch_model.bin")),
    ("gpt2", _pickled("pytorch_model.bin", keep=True)),
    ("bert", _pickled("model.safetensors")),
    ("bert", _pickled("training_args.bin", "optimizer.pt", keep=True)),
    ("bert", _pickled("tf_model.h5", "flax_model.msgpack")),
    ("t5", _pickled("spiece.model", keep=True)),
    ("gpt2", _index("../../evil.safetensors")),
    ("gpt2", _index("/etc/passwd")),
    ("gpt2", _index("pytorch_model.bin")),
    ("gpt2", _index(*(f"{at}.safetensors" for at in range(2_000)))),
    ("gpt2", _index("model.safetensors")),
    ("gpt2", text_file(_INDEX, '{"weight_map": 5}')),
    *(("gpt2", special_file(name, kind)) for name in _MAY_NOT_END for kind in _NEVER_ENDS),
    *(("vit", special_file(_PROCESSOR, kind)) for kind in _NEVER_ENDS),
    *(("gpt2", _sparse(name)) for name in _MAY_NOT_END[:-1]),
    *(("gpt2", _sparse(name, 10 * 2**20)) for name in (_CONFIG, _GENERATION, _TOKENIZER_CONFIG)),
    ("vit", _sparse(_PROCESSOR)),
    *(("gpt2", text_file(name, NESTED)) for name in (_CONFIG, _TOKENIZER, _GENERATION, _INDEX)),
    ("gpt2", text_file(_TOKENIZER_CONFIG, NESTED)),
    ("vit", text_file(_PROCESSOR, NESTED)),
    ("gpt2", _header(x=_LIE)),
    ("gpt2", _header(x={**_LIE, "shape": [0, 2**62]})),
    ("gpt2", _header(x={**_LIE, "dtype": "evil"})),
    ("gpt2", _header(**{f"t{at}": {**_LIE, "shape": [0]} for at in range(200_000)})),
    ("gpt2", _header()),
    *(("gpt2", _changed(_CONFIG, **changes)) for changes in _CONFIGS),
    *(("bart", _changed(_GENERATION, **changes)) for changes in _GENERATIONS),
    *(("bert", _changed(_TOKENIZER_CONFIG, **changes)) for changes in _TOKENIZER_CONFIGS),
    *(("vit", _changed(_PROCESSOR, **changes)) for changes in _PROCESSORS),
    *((kind, _steps(parts)) for kind in ("gpt2", "bert") for parts in TOKENIZER_PARTS),
)
