"""Checkpoints of nanoGPT, minGPT and llama2.c: the logits are those of the model that wrote them.

The models here are independent implementations in plain torch, with the parameter names and the
order of those programs.
"""

import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
import transformers
from torch import Tensor, nn

from glassformer import checkpoint
from glassformer.errors import CheckpointError
from tests.bounded import GIB, run_bounded
from tests.nn.oracles import share

VOCABULARY, WIDTH, HEADS, LAYERS, LENGTH = 11, 8, 2, 2, 7
IDS = torch.tensor([[1, 5, 9, 3, 0, 7], [2, 2, 10, 4, 6, 8]])


# --- nanoGPT and minGPT ---


class Norm(nn.Module):
    def __init__(self, bias: bool) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.rand(WIDTH) + 0.5)
        self.bias = nn.Parameter(torch.randn(WIDTH)) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        return F.layer_norm(x, (WIDTH,), self.weight, self.bias, 1e-5)


class GPTBlock(nn.Module):
    def __init__(self, bias: bool, gelu: str, mask: bool) -> None:
        super().__init__()
        self.gelu = gelu
        self.ln_1, self.ln_2 = Norm(bias), Norm(bias)
        self.attn = nn.ModuleDict(
            {
                "c_attn": nn.Linear(WIDTH, 3 * WIDTH, bias),
                "c_proj": nn.Linear(WIDTH, WIDTH, bias),
            }
        )
        if mask:  # the buffer of the causal mask, as in minGPT
            self.attn.register_buffer("bias", torch.ones(LENGTH, LENGTH).tril()[None, None])
        self.mlp = nn.ModuleDict(
            {
                "c_fc": nn.Linear(WIDTH, 4 * WIDTH, bias),
                "c_proj": nn.Linear(4 * WIDTH, WIDTH, bias),
            }
        )

    def forward(self, x: Tensor) -> Tensor:
        n, t, _ = x.shape
        joint = self.attn["c_attn"](self.ln_1(x)).split(WIDTH, dim=2)
        q, k, v = (y.view(n, t, HEADS, WIDTH // HEADS).transpose(1, 2) for y in joint)
        scores = q @ k.transpose(-2, -1) * (WIDTH // HEADS) ** -0.5
        later = torch.ones(t, t, dtype=torch.bool).triu(1)
        mixed = scores.masked_fill(later, float("-inf")).softmax(-1) @ v
        x = x + self.attn["c_proj"](mixed.transpose(1, 2).reshape(n, t, WIDTH))
        hidden = F.gelu(self.mlp["c_fc"](self.ln_2(x)), approximate=self.gelu)
        result: Tensor = x + self.mlp["c_proj"](hidden)
        return result


class GPT(nn.Module):
    def __init__(self, *, bias: bool, tied: bool, gelu: str, mask: bool = False) -> None:
        super().__init__()
        self.transformer = nn.ModuleDict(
            {
                "wte": nn.Embedding(VOCABULARY, WIDTH),
                "wpe": nn.Embedding(LENGTH, WIDTH),
                "h": nn.ModuleList(GPTBlock(bias, gelu, mask) for _ in range(LAYERS)),
                "ln_f": Norm(bias),
            }
        )
        self.lm_head = nn.Linear(WIDTH, VOCABULARY, bias=False)
        if tied:
            self.transformer["wte"].weight = self.lm_head.weight

    def forward(self, ids: Tensor) -> Tensor:
        parts = self.transformer
        x = parts["wte"](ids) + parts["wpe"](torch.arange(ids.size(1)))
        for block in parts["h"]:  # type: ignore[attr-defined]  # a ModuleList
            x = block(x)
        result: Tensor = self.lm_head(parts["ln_f"](x))
        return result


def same_logits(ours: nn.Module, theirs: nn.Module) -> None:
    with torch.no_grad():
        assert share(ours.double()(IDS), theirs.double()(IDS)) < 1e-13


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("prefix", ["", "_orig_mod."])
def test_nanogpt(bias: bool, tied: bool, prefix: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    theirs = GPT(bias=bias, tied=tied, gelu="none")
    arguments = {"n_layer": LAYERS, "n_head": HEADS, "n_embd": WIDTH, "block_size": LENGTH}
    optimiser = torch.optim.AdamW(theirs.parameters())
    theirs(IDS).sum().backward()
    optimiser.step()
    saved = {
        "model": {prefix + name: tensor for name, tensor in theirs.state_dict().items()},
        "optimizer": optimiser.state_dict(),
        "model_args": arguments | {"bias": bias, "vocab_size": VOCABULARY, "dropout": 0.0},
        "iter_num": 5,
        "best_val_loss": torch.tensor(1.5),
        "config": {"learning_rate": 6e-4},
    }
    torch.save(saved, tmp_path / "ckpt.pt")
    loaded = checkpoint.load_nanogpt(tmp_path / "ckpt.pt")
    assert loaded.config.output.tied == ("output" if tied else "none")
    assert not loaded.model.training
    same_logits(loaded.model, theirs)
    back = checkpoint.load(checkpoint.save(tmp_path / "ours", loaded))
    same_logits(back.model, theirs)


def test_mingpt(tmp_path: Path) -> None:
    torch.manual_seed(0)
    theirs = GPT(bias=True, tied=False, gelu="tanh", mask=True)
    assert any(name.endswith(".attn.bias") for name in theirs.state_dict())
    torch.save(theirs.state_dict(), tmp_path / "model.pt")
    loaded = checkpoint.load_mingpt(tmp_path / "model.pt", n_heads=HEADS)
    same_logits(loaded.model, theirs)
    with pytest.raises(CheckpointError, match=r"use load_mingpt"):
        checkpoint.load_nanogpt(tmp_path / "model.pt")
    with pytest.raises(CheckpointError, match=r"d_model must be a multiple of n_heads"):
        checkpoint.load_mingpt(tmp_path / "model.pt", n_heads=3)
    for heads in (0, "2", None):
        with pytest.raises(CheckpointError, match="n_heads must be a whole number"):
            checkpoint.load_mingpt(tmp_path / "model.pt", n_heads=heads)  # type: ignore[arg-type]


class Evil:
    """A pickle that executes code when it is loaded."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (Path(self.path),)


def _compressed(path: Path) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as opened:
        opened.writestr("archive/data.pkl", b"0" * 10_000)


def _many_of_one() -> dict[str, Tensor]:
    """A state dict of a few bytes with a tensor of 2^50 elements."""
    state = dict(GPT(bias=True, tied=True, gelu="none").state_dict())
    state["transformer.wte.weight"] = torch.zeros(1).expand(2**30, 2**20)
    return state


def _pickled(pickled: bytes) -> Callable[[Path], object]:
    """A file as torch.save writes it, with another pickle in it."""

    def write(path: Path) -> None:
        torch.save({}, path)
        with zipfile.ZipFile(path) as opened:
            parts = {item.filename: opened.read(item) for item in opened.infolist()}
        (name,) = (name for name in parts if name.endswith("data.pkl"))
        with zipfile.ZipFile(path, "w") as opened:
            for part, data in (parts | {name: pickled}).items():
                opened.writestr(part, data)

    return write


def _with_another(path: Path, name: str) -> None:
    torch.save({}, path)
    with zipfile.ZipFile(path, "a") as opened:
        opened.writestr(name, BOMB)


DICT = b"ccollections\nOrderedDict\n"
# bytearray(bytearray(2 * 10**9)), of a few hundred bytes
BOMB = b"\x80\x02}X\x01\0\0\0ac__builtin__\nbytearray\nq\0h\0J\0\x94\x35\x77\x85R\x85Rs."
BAD: dict[str, Callable[[Path], object]] = {
    "two gigabytes": _pickled(BOMB),
    "a name from the stack": _pickled(b"\x80\x04\x8c\x08builtins\x8c\x03set\x93."),
    "an OrderedDict of another": _pickled(b"\x80\x02" + DICT + b"q\0)Rq\1h\0h\1\x85R."),
    "many attributes": _pickled(b"\x80\x02" + DICT + b")R" + b"}b" * 17 + b"."),
    "an endless pickle": _pickled(b"\x80\x02" + b"N0" * 2**21 + b"}."),
    "two pickles": lambda p: _with_another(p, "ARCHIVE/DATA.PKL"),
    "half a pickle": _pickled(b"\x80\x02}X\xff\0\0\0a"),
    "no pickle": _pickled(b"\xff\xfe"),
    "nothing": lambda p: p.write_bytes(b""),
    "no zip": lambda p: p.write_bytes(b"\x80\x02}q\x00."),
    "a compressed zip": _compressed,
    "a zip of another program": lambda p: zipfile.ZipFile(p, "w").close(),
    "something that runs": lambda p: torch.save({"model": Evil(str(p) + ".ran")}, p),
    "a list": lambda p: torch.save([1], p),
    "numbers for tensors": lambda p: torch.save({"lm_head.weight": 5}, p),
    "another model": lambda p: torch.save({"a": torch.ones(2)}, p),
    "one number shown as many": lambda p: torch.save(_many_of_one(), p),
    "whole numbers": lambda p: torch.save(
        {n: t.int() for n, t in GPT(bias=True, tied=False, gelu="none").state_dict().items()}, p
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_file_is_one_line_and_nothing_is_executed(name: str, tmp_path: Path) -> None:
    path = tmp_path / "model.pt"
    BAD[name](path)
    with pytest.raises(CheckpointError, match=r"model\.pt") as caught:
        checkpoint.load_mingpt(path, n_heads=HEADS)
    assert "\n" not in str(caught.value)
    assert [file.name for file in tmp_path.iterdir()] == ["model.pt"]


def test_what_is_no_tensor_of_the_file_is_refused_before_a_model_is_built(tmp_path: Path) -> None:
    path = tmp_path / "model.pt"
    for state in ([1], {"lm_head.weight": 5}, _many_of_one()):
        torch.save({"model_args": {"n_head": HEADS}, "model": state}, path)
        with pytest.raises(CheckpointError, match="not contain a state dict of plain tensors"):
            checkpoint.load_nanogpt(path)


_OPEN = """
from glassformer import checkpoint
from glassformer.errors import CheckpointError

try:
    checkpoint.load_mingpt(sys.argv[1], n_heads=2)
except CheckpointError as error:
    print(error)
"""


def test_a_file_of_a_few_bytes_takes_no_gigabytes(tmp_path: Path) -> None:
    path = tmp_path / "model.pt"
    _pickled(BOMB)(path)
    ran = run_bounded(_OPEN, str(path))
    assert "its pickle names '__builtin__.bytearray'" in ran.printed
    assert ran.peak < GIB, f"{ran.peak:,} bytes"


# --- llama2.c ---


def llama(kv_heads: int, tied: bool) -> Any:
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=VOCABULARY, hidden_size=16, intermediate_size=12, num_hidden_layers=LAYERS,
        num_attention_heads=4, num_key_value_heads=kv_heads, max_position_embeddings=LENGTH,
        rms_norm_eps=1e-5, tie_word_embeddings=tied, rope_theta=10_000.0,
    )  # fmt: skip
    model = transformers.LlamaForCausalLM(config).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.normal_(1 if "norm" in name else 0, 0.3)
    return model


def neighbours(matrix: Tensor, n_heads: int) -> Tensor:
    """From Hugging Face's order of a head's rows to that of llama2.c, row by row."""
    width = matrix.size(0) // n_heads
    rows = []
    for head in range(n_heads):
        for pair in range(width // 2):
            rows += [matrix[head * width + pair], matrix[head * width + pair + width // 2]]
    return torch.stack(rows)


def parts_of(model: Any) -> dict[str, list[Tensor]]:
    config, layers = model.config, model.model.layers
    return {
        "att_norm": [layer.input_layernorm.weight for layer in layers],
        "ffn_norm": [layer.post_attention_layernorm.weight for layer in layers],
        "wq": [neighbours(x.self_attn.q_proj.weight, config.num_attention_heads) for x in layers],
        "wk": [neighbours(x.self_attn.k_proj.weight, config.num_key_value_heads) for x in layers],
        "wv": [layer.self_attn.v_proj.weight for layer in layers],
        "wo": [layer.self_attn.o_proj.weight for layer in layers],
        "w1": [layer.mlp.gate_proj.weight for layer in layers],
        "w2": [layer.mlp.down_proj.weight for layer in layers],
        "w3": [layer.mlp.up_proj.weight for layer in layers],
        "norm": [model.model.norm.weight],
        "table": [model.model.embed_tokens.weight],
        "output": [] if config.tie_word_embeddings else [model.lm_head.weight],
    }


def binary(model: Any, version: int) -> bytes:
    """The file that llama2.c's export.py writes for a model."""
    config, parts = model.config, parts_of(model)
    tied = config.tie_word_embeddings
    sizes = [config.hidden_size, config.intermediate_size, LAYERS, config.num_attention_heads]
    sizes += [config.num_key_value_heads, VOCABULARY, LENGTH]
    rotations = torch.zeros(LENGTH, config.hidden_size // config.num_attention_heads // 2)
    if version == 0:
        sizes[5] = VOCABULARY if tied else -VOCABULARY
        head = struct.pack("<7i", *sizes)
        order = ("table", "att_norm", "wq", "wk", "wv", "wo", "ffn_norm", "w1", "w2", "w3", "norm")
        tensors = [tensor for name in order for tensor in parts[name]]
        tensors += [rotations, rotations, *parts["output"]]
    else:
        head = struct.pack("<Ii7iB", 0x616B3432, version, *sizes, int(tied)).ljust(256, b"\0")
        order = ("att_norm", "ffn_norm", "norm", "table", "wq", "wk", "wv", "wo", "w1", "w2", "w3")
        tensors = [tensor for name in (*order, "output") for tensor in parts[name]]
    numbers = (tensor.detach().numpy().astype("<f4").tobytes() for tensor in tensors)
    return head + b"".join(numbers)


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize("kv_heads", [4, 2])
@pytest.mark.parametrize("tied", [True, False])
def test_llama2c(version: int, kv_heads: int, tied: bool, tmp_path: Path) -> None:
    theirs = llama(kv_heads, tied)
    path = tmp_path / "stories.bin"
    path.write_bytes(binary(theirs, version))
    loaded = checkpoint.load_llama2c(path)
    with torch.no_grad():
        expected = theirs.double()(IDS).logits
        # Hugging Face computes its rotations in float32 whatever the precision of the rest.
        assert share(loaded.model.double()(IDS), expected) < 1e-6


def test_an_inconsistent_llama2c_file_is_one_line(tmp_path: Path) -> None:
    whole = binary(llama(2, tied=False), 0)
    path = tmp_path / "stories.bin"
    huge = struct.pack("<7i", *[2**30] * 7)
    cases = {
        "": b"",
        "it has 27 bytes": whole[:27],
        "cut": whole[:-4],
        "too long": whole + b"0000",
        "huge": huge + b"0" * 400,
        "negative": struct.pack("<7i", -1, *[2] * 6) + b"0" * 400,
        "heads": struct.pack("<7i", 10, 2, 1, 4, 4, 5, 5) + b"0" * 400,
        "version 2": struct.pack("<Ii", 0x616B3432, 2) + b"\0" * 300,
        "short": struct.pack("<Ii", 0x616B3432, 1) + b"\0" * 100,
    }
    for name, data in cases.items():
        path.write_bytes(data)
        with pytest.raises(CheckpointError, match=r"stories\.bin") as caught:
            checkpoint.load_llama2c(path)
        assert "\n" not in str(caught.value), name
    with pytest.raises(CheckpointError, match="No such file"):
        checkpoint.load_llama2c(tmp_path / "missing.bin")
    with pytest.raises(CheckpointError, match="must be given by a path"):
        checkpoint.load_llama2c(None)  # type: ignore[arg-type]


def test_numbers_are_read_in_the_byte_order_of_the_format(tmp_path: Path) -> None:
    theirs = llama(4, tied=True)
    path = tmp_path / "stories.bin"
    path.write_bytes(binary(theirs, 0))
    table = dict(checkpoint.load_llama2c(path).model.named_parameters())["decoder.embedding.weight"]
    first = np.frombuffer(path.read_bytes()[28:32], dtype="<f4")[0]
    assert float(table.detach()[0, 0]) == float(first)
