"""Training steps beside those of torch.nn and of GPT-2: same sizes, same run; ratio last.

    python benchmarks/training_speed.py [translator] [classifier] [lengths] [gpt2] [--small]
        [--tuned] [--ways graphs …] [--separate] [--attention auto|cudnn|flash|efficient]

Both sides get every switch: bfloat16 by autocast, float32 parameters, fused AdamW, output tied to
the token table, random ids, dropout 0.1 in the same places (GPT-2: none), and each way to make a
step: eager; model and loss compiled as one function; compiled with CUDA graphs; every operator
recorded as a CUDA graph; with `--tuned` also compiled with tuned kernels, which takes minutes. The
best way of each side counts; all ways of both sides take turns in every round.

`lengths` has the lengths of real reviews, and its unit is real tokens. Both sides get the batches
of our loader's length buckets; `theirs, padded` has 64 reviews per batch, padded to 512, as a loop
without buckets makes them. `--separate` makes our queries, keys and values by three products
instead of one; `--attention` makes ours prefer a kernel; `--ways` measures only the ways whose
names contain one of the words. On a CPU everything is float32 and small, without CUDA graphs.
"""

import argparse
import json
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import get_args

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from glassformer.data.batches import IGNORED, Batch, PairBatch, WindowBatch
from glassformer.data.loader import Order
from glassformer.decoding.fast.cuda_graphs import CudaRecorder
from glassformer.nn import ModelConfig, build, presets
from glassformer.training.acceleration import (
    Acceleration,
    RecordedWork,
    accelerated,
    attention_kernels,
    join_projections,
)
from glassformer.training.learner import model_loss
from glassformer.training.run_config import AttentionKernel

Step = Callable[[], None]
LENGTHS = Path(__file__).with_name("imdb_lengths.json")
WIDTHS = (128, 192, 256, 384, 512)


@dataclass(frozen=True)
class Device:
    """Where and how: precision, which variants, waiting for the end of the work."""

    small: bool
    ways: tuple[str, ...] = ()
    tuned: bool = False
    separate: bool = False
    attention: AttentionKernel = "auto"

    @property
    def is_cuda(self) -> bool:
        return torch.cuda.is_available()

    @property
    def name(self) -> str:
        return "cuda" if self.is_cuda else "cpu"

    def precision(self) -> torch.autocast:
        return torch.autocast(self.name, torch.bfloat16, enabled=self.is_cuda)

    def wait(self) -> None:
        if self.is_cuda:
            torch.cuda.synchronize()

    def ids(self, vocab_size: int, *shape: int) -> Tensor:
        return torch.randint(1, vocab_size, shape, device=self.name)


class TorchTranslator(nn.Module):
    """nn.Transformer with what it lacks: embeddings, sinusoids, a tied output."""

    positions: Tensor
    hidden: Tensor

    def __init__(self, vocab_size: int, n_layers: int) -> None:
        super().__init__()
        self.table = nn.Embedding(vocab_size, 512)
        self.transformer = nn.Transformer(
            num_encoder_layers=n_layers, num_decoder_layers=n_layers, batch_first=True
        )
        self.register_buffer("positions", sinusoids(512, 512))
        self.register_buffer("hidden", nn.Transformer.generate_square_subsequent_mask(512))

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        read, written = (self._embed(ids) for ids in (source, target))
        n = target.size(1)
        decoded = self.transformer(read, written, tgt_mask=self.hidden[:n, :n], tgt_is_causal=True)
        return F.linear(decoded, self.table.weight)

    def _embed(self, ids: Tensor) -> Tensor:
        vectors = self.table(ids) * math.sqrt(512) + self.positions[: ids.size(1)]
        return F.dropout(vectors, 0.1, self.training)


class TorchClassifier(nn.Module):
    """nn.TransformerEncoder with embeddings, learned positions, mean pooling."""

    def __init__(self, vocab_size: int, max_len: int) -> None:
        super().__init__()
        self.table = nn.Embedding(vocab_size, 128)
        self.positions = nn.Embedding(max_len, 128)
        layer = nn.TransformerEncoderLayer(128, 8, 512, dropout=0.1, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 6, enable_nested_tensor=False)
        self.to_classes = nn.Linear(128, 2)

    def forward(self, ids: Tensor, is_padding: Tensor | None = None) -> Tensor:
        at = torch.arange(ids.size(1), device=ids.device)
        vectors = F.dropout(self.table(ids) + self.positions(at), 0.1, self.training)
        encoded: Tensor = self.encoder(vectors, src_key_padding_mask=is_padding)
        if is_padding is not None:
            present = (~is_padding).unsqueeze(-1)
            pooled = (encoded * present).sum(1) / present.sum(1)
        else:
            pooled = encoded.mean(1)
        logits: Tensor = self.to_classes(pooled)
        return logits


class Gpt2Block(nn.Module):
    """Pre-norm, one joined map to queries, keys and values, as GPT-2 codes write it."""

    def __init__(self, d_model: int, n_heads: int) -> None:
        super().__init__()
        self.n_heads = n_heads
        self.norms = nn.ModuleList(nn.LayerNorm(d_model) for _ in range(2))
        self.to_qkv, self.back = nn.Linear(d_model, 3 * d_model), nn.Linear(d_model, d_model)
        self.wide, self.narrow = nn.Linear(d_model, 4 * d_model), nn.Linear(4 * d_model, d_model)

    def forward(self, x: Tensor) -> Tensor:
        joined = self.to_qkv(self.norms[0](x)).unflatten(-1, (3, self.n_heads, -1))
        q, k, v = (part.transpose(1, 2) for part in joined.unbind(2))
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        middle: Tensor = x + self.back(attended.transpose(1, 2).flatten(2))
        wide = F.gelu(self.wide(self.norms[1](middle)), approximate="tanh")
        after: Tensor = middle + self.narrow(wide)
        return after


class Gpt2(nn.Module):
    """GPT-2 without dropout, output tied."""

    def __init__(self, vocab_size: int, max_len: int, n_layers: int) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocab_size, 768), nn.Embedding(max_len, 768)
        self.blocks = nn.ModuleList(Gpt2Block(768, 12) for _ in range(n_layers))
        self.norm = nn.LayerNorm(768)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.tokens(ids) + self.positions(torch.arange(ids.size(1), device=ids.device))
        for block in self.blocks:
            x = block(x)
        return F.linear(self.norm(x), self.tokens.weight)


def sinusoids(length: int, width: int) -> Tensor:
    angles = torch.arange(length)[:, None] / 10_000 ** (torch.arange(0, width, 2) / width)
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)


def plain_loss(model: nn.Module, inputs: tuple[Tensor, ...], labels: Tensor) -> Tensor:
    """What a user of torch writes."""
    return F.cross_entropy(model(*inputs).flatten(0, -2), labels.flatten())


Loss = Callable[[nn.Module, tuple[Tensor, ...], Tensor], Tensor]
Batches = list[tuple[tuple[Tensor, ...], Tensor]]


def our_loss(model: nn.Module, inputs: tuple[Tensor, ...], labels: Tensor) -> Tensor:
    """What our loop computes."""
    return model_loss(model, inputs, labels).objective / labels.numel()


def make_step(device: Device, model: nn.Module, batches: Batches, loss: Loss) -> Step:
    """One optimiser step per call, over the batches in turn."""
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    at = 0

    def step() -> None:
        nonlocal at
        inputs, labels = batches[at % len(batches)]
        at += 1
        with device.precision():
            objective = loss(model, inputs, labels)
        objective.backward()
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)

    return step


def make_recorded_step(device: Device, model: nn.Module, batches: Batches, loss: Loss) -> Step:
    """The same with forward and backward recorded, as the training loop does it on a GPU."""
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    parameters = list(model.parameters())
    for parameter in parameters:
        parameter.grad = torch.zeros_like(parameter)

    def work(batch: Batch, factor: Tensor) -> Tensor:
        inputs = tuple(x for x in batch.inputs if x is not None)
        with device.precision():
            objective = loss(model, inputs, batch.labels)
        (objective * factor).backward()
        return objective.detach()

    recorded = RecordedWork(work, parameters, CudaRecorder(torch.device("cuda", 0)))
    given = [as_batch(*batch) for batch in batches]
    one = torch.ones((), device=device.name)
    at = 0

    def step() -> None:
        nonlocal at
        recorded(given[at % len(given)], one)
        at += 1
        optimiser.step()
        optimiser.zero_grad(set_to_none=False)

    return step


def as_batch(inputs: tuple[Tensor, ...], labels: Tensor) -> Batch:
    if len(inputs) == 2:
        return PairBatch(labels, 1, 1, *inputs)
    return WindowBatch(labels, 1, 1, *inputs)


@dataclass(frozen=True)
class Peer:
    """A model, its loss and its batches: one side of a comparison."""

    build: Callable[[], nn.Module]
    loss: Loss
    batches: Batches
    tokens_per_step: float


@dataclass(frozen=True)
class Entrant:
    """One way to make a step of one side, ready to be timed."""

    side: str
    way: str
    step: Step
    n_steps: int
    tokens_per_step: float
    attention: AttentionKernel


def speeds(device: Device, entrants: list[Entrant]) -> list[float]:
    """Tokens per second of each, median of five rounds.

    In each round all take turns: a GPU that becomes hot and slow is so for all of them.
    """
    found: list[list[float]] = [[] for _ in entrants]
    for _ in range(5):
        for entrant, mine in zip(entrants, found, strict=True):
            device.wait()
            began = time.perf_counter()
            with attention_kernels(entrant.attention):
                for _ in range(entrant.n_steps):
                    entrant.step()
            device.wait()
            mine.append(entrant.n_steps * entrant.tokens_per_step / (time.perf_counter() - began))
    return [median(mine) for mine in found]


def compare(device: Device, title: str, sides: dict[str, Peer], n_shapes: int = 1) -> None:
    """Tokens per second of each side in each way, then ours by each other side, best by best."""
    torch.compiler.reset()
    entrants = [
        enter(device, side, peer, way, acceleration)
        for way, acceleration in ways(device, n_shapes).items()
        for side, peer in sides.items()
    ]
    best = dict.fromkeys(sides, 0.0)
    for entrant, speed in zip(entrants, speeds(device, entrants), strict=True):
        name = f"{entrant.side}, {entrant.way}"
        print(f"{title:<12}{name:<40}{speed:>14,.0f} tokens/s", flush=True)
        best[entrant.side] = max(best[entrant.side], speed)
    for side in sides:
        if side != "ours":
            print(
                f"{title:<12}{f'ours / {side}':<40}{best['ours'] / best[side]:>14.3f}×", flush=True
            )


def enter(device: Device, side: str, peer: Peer, way: str, acceleration: Acceleration) -> Entrant:
    """Build the model, compile or record its step, and run it until nothing is left to warm up."""
    torch.manual_seed(0)
    model = peer.build().to(device.name).train()
    is_ours = side == "ours"
    if is_ours:
        join_projections(model, not device.separate)
    attention = device.attention if is_ours else "auto"
    loss = accelerated(peer.loss, acceleration)
    make = make_recorded_step if acceleration.recorded else make_step
    with attention_kernels(attention):
        step = make(device, model, peer.batches, loss)
        for _ in range(max(4, 2 * len(peer.batches))):
            step()
    n_steps = len(peer.batches) if len(peer.batches) > 1 else (2 if device.small else 20)
    return Entrant(side, way, step, n_steps, peer.tokens_per_step, attention)


def ways(device: Device, n_shapes: int) -> dict[str, Acceleration]:
    """All ways to make a step, for every side alike.

    Compiled without graphs, batches of several shapes would be compiled again and again, so that
    way is for one shape only.
    """
    found = {"eager": Acceleration()}
    if n_shapes == 1:
        found["compiled"] = Acceleration(compiled=True)
    if device.is_cuda:
        graphs = Acceleration(compiled=True, graphs=True, n_shapes=n_shapes)
        found["compiled, CUDA graphs"] = graphs
        if device.tuned:
            found["tuned, CUDA graphs"] = replace(graphs, tuned=True)
        found["recorded"] = Acceleration(graphs=True, n_shapes=n_shapes)
    return {
        way: acceleration
        for way, acceleration in found.items()
        if not device.ways or any(word in way for word in device.ways)
    }


def translator(device: Device) -> None:
    """The base encoder-decoder, 128 × (64 + 64) tokens, vocabulary 32,000."""
    n_texts, n_layers, vocab_size = (2, 1, 1000) if device.small else (128, 6, 32_000)
    config = presets.torch_nn_transformer(vocab_size=vocab_size, n_layers=n_layers)
    ids = device.ids(vocab_size, n_texts, 64), device.ids(vocab_size, n_texts, 65)
    batch: Batches = [((ids[0], ids[1][:, :-1].contiguous()), ids[1][:, 1:].contiguous())]
    n_tokens = n_texts * 128
    theirs = Peer(lambda: TorchTranslator(vocab_size, n_layers), plain_loss, batch, n_tokens)
    ours = Peer(lambda: build(config), our_loss, batch, n_tokens)
    compare(device, "translator", {"theirs": theirs, "ours": ours})


def our_classifier(pad_id: int | None = None) -> ModelConfig:
    """With dropout wherever nn.TransformerEncoderLayer has it."""
    config = presets.bloem_2024(dropout=0.1, pad_id=pad_id)
    return config.with_(attention__dropout=0.1, feed_forward__dropout=0.1)


def their_classifier() -> nn.Module:
    return TorchClassifier(50_000, 512)


def classifier(device: Device) -> None:
    """128 wide, 8 heads, depth 6, vocabulary 50,000, 64 × 512 tokens."""
    n_texts, length = (2, 64) if device.small else (64, 512)
    labels = torch.randint(0, 2, (n_texts,), device=device.name)
    batch: Batches = [((device.ids(50_000, n_texts, length),), labels)]
    n_tokens = n_texts * length
    theirs = Peer(their_classifier, plain_loss, batch, n_tokens)
    ours = Peer(lambda: build(our_classifier()), our_loss, batch, n_tokens)
    compare(device, "classifier", {"theirs": theirs, "ours": ours})


def lengths(device: Device) -> None:
    """The same classifier on texts as long as 6,400 real reviews; the unit is real tokens."""
    real = np.array(json.loads(LENGTHS.read_text(encoding="utf-8")))
    real = real[:4] if device.small else real
    padded: Batches = []
    for at in range(0, len(real), 64):
        some = torch.tensor(real[at : at + 64], device=device.name)
        ids = device.ids(50_000, len(some), 512)
        is_padding = torch.arange(512, device=device.name) >= some[:, None]
        answers = torch.randint(0, 2, (len(some),), device=device.name)
        padded.append(((ids, is_padding), answers))
    bucketed: Batches = []  # ours reads padding from the ids
    with_mask: Batches = []
    order = Order(real, max_tokens=64 * 512, widths=WIDTHS)
    for indices in order.epoch(0):
        some = torch.tensor(real[indices], device=device.name)
        rows, longest = order.shape_of(indices)
        width = min(width for width in WIDTHS if width >= longest)
        ids = device.ids(50_000, rows, width)
        ids[: len(some)][torch.arange(width, device=device.name) >= some[:, None]] = 0
        answers = torch.randint(0, 2, (rows,), device=device.name)
        answers[len(some) :] = IGNORED
        bucketed.append(((ids,), answers))
        with_mask.append(((ids, ids == 0), answers))
    n_tokens = float(real.sum())
    sides = {
        "theirs, padded": Peer(their_classifier, plain_loss, padded, n_tokens / len(padded)),
        "theirs": Peer(their_classifier, plain_loss, with_mask, n_tokens / len(with_mask)),
        "ours": Peer(
            lambda: build(our_classifier(pad_id=0)), our_loss, bucketed, n_tokens / len(bucketed)
        ),
    }
    compare(device, "lengths", sides, n_shapes=order.n_shapes)


def gpt2(device: Device) -> None:
    """GPT-2 124M, 32 × 1024 tokens, vocabulary 50,304, no dropout."""
    n_texts, length, n_layers = (1, 64, 1) if device.small else (32, 1024, 12)
    config = presets.gpt2(vocab_size=50_304, n_layers=n_layers, dropout=0.0)
    ids = device.ids(50_304, n_texts, length + 1)
    batch: Batches = [((ids[:, :-1].contiguous(),), ids[:, 1:].contiguous())]
    n_tokens = n_texts * length
    theirs = Peer(lambda: Gpt2(50_304, 1024, n_layers), plain_loss, batch, n_tokens)
    ours = Peer(lambda: build(config), our_loss, batch, n_tokens)
    compare(device, "gpt2", {"theirs": theirs, "ours": ours})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("which", nargs="*", default=["translator", "classifier", "lengths", "gpt2"])
    parser.add_argument("--small", action="store_true", help="tiny sizes: does it run?")
    parser.add_argument("--tuned", action="store_true", help="tuned kernels too: minutes more")
    parser.add_argument("--ways", nargs="+", default=[], help="only those named so")
    parser.add_argument("--separate", action="store_true", help="three products for q, k, v")
    parser.add_argument("--attention", choices=get_args(AttentionKernel), default="auto")
    options = parser.parse_args()
    device = Device(
        options.small or not torch.cuda.is_available(),
        tuple(options.ways),
        options.tuned,
        options.separate,
        options.attention,
    )
    where = torch.cuda.get_device_name() if device.is_cuda else "CPU, small sizes"
    print(f"torch {torch.__version__}, {where}", flush=True)
    torch.set_float32_matmul_precision("high")
    known = {f.__name__: f for f in (translator, classifier, lengths, gpt2)}
    for name in options.which:
        known[name](device)


if __name__ == "__main__":
    main()
