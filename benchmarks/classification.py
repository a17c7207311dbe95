"""Classifying 5,000 reviews: ours, onnxruntime, nn.TransformerEncoder and Hugging Face.

    [GLASSFORMER_DATA=…] python benchmarks/classification.py [--n 5000] [--threads 2] [--rounds 2]

The shipped imdb reads test reviews of IMDb as ids; without the data, random ids of real lengths
(benchmarks/imdb_lengths.json). Every engine gets them sorted by length, at the batch size that was
its best in a trial over some of them (where a small one makes an engine several times slower,
smaller ones are not tried). Ours gives each core a batch of its own; the others may do so as well
as share one batch among all cores. Rounds alternate between engines, so that a busy machine slows
all of them alike. nn.TransformerEncoder runs in evaluation mode, with its fast path. Ratios come
last.

onnxruntime and nn.TransformerEncoder have our weights, and their answers are compared with ours.
No model of Hugging Face's is built like ours, so its peer is a BERT classifier of the same width,
depth, heads, feed-forward width, vocabulary and positions, whose weights are random: its answers
mean nothing, only its speed counts. Progress goes to stderr.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn

from glassformer import checkpoint
from glassformer.checkpoint import Checkpoint
from glassformer.data.corpora import find
from glassformer.data.imdb import read_reviews
from glassformer.decoding.fast.workers import by_length, cores_for, side_by_side
from glassformer.decoding.stepper import pad
from glassformer.errors import DataError
from glassformer.export import onnx as to_onnx
from glassformer.nn import Classifier
from glassformer.nn.blocks import Block
from glassformer.nn.models import pool
from glassformer.tasks import GlassformerModel

BATCH_SIZES = (32, 16, 8, 4, 2, 1)
HOPELESS = 4  # times as slow as with a larger batch: smaller ones still are not tried
TRIAL = 320  # texts, of which the best batch size is found
CPU = torch.device("cpu")
RANDOM = "Hugging Face BERT"  # the engines whose answers mean nothing

Texts = list[list[int]]
Engine = Callable[[Texts, int], Tensor]
"""Texts and batch size to one row of probabilities a text."""


def padded(batch: Texts) -> tuple[Tensor, Tensor]:
    ids, is_token = pad(batch, CPU)
    return ids, torch.ones_like(ids, dtype=torch.bool) if is_token is None else is_token


def in_batches(answer: Callable[[Texts], Tensor], n_at_once: int) -> Engine:
    """Texts of similar length together, the answers in the order of the texts."""

    def run(texts: Texts, batch_size: int) -> Tensor:
        batches = list(by_length([len(ids) for ids in texts], batch_size))
        answers = side_by_side(lambda batch: answer([texts[i] for i in batch]), batches, n_at_once)
        rows = torch.empty(len(texts), answers[0].size(1))
        for batch, found in zip(batches, answers, strict=True):
            rows[torch.tensor(batch)] = found
        return rows

    return run


def ours(loaded: Checkpoint) -> Engine:
    model = loaded.model
    return in_batches(lambda batch: model(*pad(batch, CPU)).softmax(-1), cores_for(model))


def onnxruntime(loaded: Checkpoint, threads: int, n_at_once: int) -> Engine:
    import onnxruntime as engine

    options = engine.SessionOptions()
    options.intra_op_num_threads = threads // n_at_once
    with tempfile.TemporaryDirectory() as folder:
        to_onnx.write(loaded, Path(folder))
        session = engine.InferenceSession(f"{folder}/model.onnx", options)

    def answer(batch: Texts) -> Tensor:
        ids, is_token = padded(batch)
        (found,) = session.run(None, {"ids": ids.numpy(), "is_token": is_token.numpy()})
        return torch.from_numpy(found)

    return in_batches(answer, n_at_once)


class TorchClassifier(nn.Module):
    """The same classifier around nn.TransformerEncoder; embedding, pooling and output are ours."""

    def __init__(self, model: Classifier) -> None:
        super().__init__()
        config, self.ours = model.config, model
        layer = nn.TransformerEncoderLayer(
            config.d_model,
            config.attention.n_heads,
            config.feed_forward.d_ff,
            activation=config.feed_forward.activation,
            layer_norm_eps=config.block.norm_eps,
            norm_first=config.block.norm_first,
            batch_first=True,
        )
        nests = not config.block.norm_first  # it refuses nested tensors otherwise, and warns
        self.layers = nn.TransformerEncoder(layer, config.n_layers, enable_nested_tensor=nests)
        for theirs, block in zip(self.layers.layers, model.encoder.blocks, strict=True):
            assert isinstance(block, Block)
            theirs.load_state_dict(torch_names(block))
        self.eval()

    def forward(self, ids: Tensor, is_token: Tensor) -> Tensor:
        encoder = self.ours.encoder
        positions = torch.arange(ids.size(1))
        embedded = encoder.embed(encoder.embedding(ids), positions, ids.size(1))
        encoded = self.layers(embedded, src_key_padding_mask=~is_token)
        if encoded.size(1) < ids.size(1):  # the fast path cuts what is padding in all texts
            is_token = is_token[:, : encoded.size(1)]
        if encoder.final_norm is not None:
            encoded = encoder.final_norm(encoded)
        pooled = pool(encoded, self.ours.config.output.pooling, is_token)
        logits: Tensor = self.ours.to_classes(pooled)
        return logits


def torch_names(block: Block) -> dict[str, Tensor]:
    """A block's parameters under the names of nn.TransformerEncoderLayer."""
    attention, feed = block.attention, block.feed_forward
    maps = (attention.to_queries, attention.to_keys, attention.to_values)
    assert attention.to_output is not None and feed.contract is not None
    outer = {
        "self_attn.out_proj": attention.to_output,
        "linear1": feed.expand,
        "linear2": feed.contract,
        "norm1": block.attention_norm,
        "norm2": block.feed_forward_norm,
    }
    state = {"self_attn.in_proj_weight": torch.cat([*(one.weight for one in maps)])}
    width = maps[0].weight.size(0)
    biases: list[Tensor] = [torch.zeros(width) if one.bias is None else one.bias for one in maps]
    state["self_attn.in_proj_bias"] = torch.cat(biases)
    for name, part in outer.items():
        assert isinstance(part.weight, Tensor)
        state[f"{name}.weight"] = part.weight
        bias = part.bias
        state[f"{name}.bias"] = (
            bias if isinstance(bias, Tensor) else torch.zeros(part.weight.size(0))
        )
    return state


def torch_encoder(loaded: Checkpoint, n_at_once: int) -> Engine:
    assert isinstance(loaded.model, Classifier)
    model = TorchClassifier(loaded.model)
    return in_batches(lambda batch: model(*padded(batch)).softmax(-1), n_at_once)


def hugging_face(loaded: Checkpoint, n_at_once: int) -> Engine:
    """A classifier of our size, the nearest they have, with random weights."""
    from transformers import BertConfig, BertForSequenceClassification

    config = loaded.config
    torch.manual_seed(0)
    theirs = BertConfig(
        vocab_size=config.vocab_size,
        hidden_size=config.d_model,
        num_hidden_layers=config.n_layers,
        num_attention_heads=config.attention.n_heads,
        intermediate_size=config.feed_forward.d_ff,
        hidden_act=config.feed_forward.activation,
        max_position_embeddings=config.max_len,
        num_labels=config.output.n_classes,
        attn_implementation="sdpa",
    )
    model = BertForSequenceClassification(theirs).eval()

    def answer(batch: Texts) -> Tensor:
        ids, is_token = padded(batch)
        logits: Tensor = model(input_ids=ids, attention_mask=is_token.long()).logits
        return logits.softmax(-1)

    return in_batches(answer, n_at_once)


def reviews(loaded: Checkpoint, n: int) -> tuple[Texts, str]:
    try:
        every = read_reviews(find("imdb"), "test")
        some = [review.text for review in every[:: max(1, len(every) // n)][:n]]
        return [read.ids for read in GlassformerModel(loaded).read(some)], "IMDb test"
    except DataError:
        known = json.loads((Path(__file__).parent / "imdb_lengths.json").read_text("utf-8"))
        torch.manual_seed(0)
        lengths = [min(known[i % len(known)], loaded.config.max_len) for i in range(n)]
        ids = [torch.randint(5, loaded.config.vocab_size, (m,)).tolist() for m in lengths]
        return ids, "random ids of real lengths"


def timed(name: str, run: Engine, texts: Texts, batch_size: int) -> float:
    began = time.perf_counter()
    run(texts, batch_size)
    taken = time.perf_counter() - began
    print(f"{len(texts)} texts, batch {batch_size}, {name}: {taken:.2f} s", file=sys.stderr)
    return taken


def best_batch_size(name: str, run: Engine, texts: Texts) -> int:
    """Found over texts from the whole range of lengths, the better of two tries at each size."""
    run(texts, BATCH_SIZES[0])  # warm
    found: dict[int, float] = {}
    for batch_size in BATCH_SIZES:
        found[batch_size] = timed(name, run, texts, batch_size)
        if found[batch_size] > HOPELESS * min(found.values()):
            break
        found[batch_size] = min(found[batch_size], timed(name, run, texts, batch_size))
    return min(found, key=found.__getitem__)


def measure(
    engines: dict[str, Engine], texts: Texts, sizes: dict[str, int], rounds: int
) -> dict[str, list[float]]:
    """Wall-clock times of each engine at its batch size."""
    taken: dict[str, list[float]] = {name: [] for name in engines}
    for _ in range(rounds):
        for name, run in engines.items():
            taken[name].append(timed(name, run, texts, sizes[name]))
    return taken


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=5_000)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=2)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    loaded = checkpoint.load(checkpoint.find("imdb"))
    texts, source = reviews(loaded, arguments.n)
    cores = arguments.threads
    engines = {
        "ours": ours(loaded),
        "onnxruntime, all cores a batch": onnxruntime(loaded, cores, 1),
        "onnxruntime, a core a batch": onnxruntime(loaded, cores, cores),
        "nn.TransformerEncoder, all cores a batch": torch_encoder(loaded, 1),
        "nn.TransformerEncoder, a core a batch": torch_encoder(loaded, cores),
        f"{RANDOM}, all cores a batch": hugging_face(loaded, 1),
        f"{RANDOM}, a core a batch": hugging_face(loaded, cores),
    }
    trial = texts[:: max(1, len(texts) // TRIAL)][:TRIAL]
    sizes = {name: best_batch_size(name, run, trial) for name, run in engines.items()}
    answers = {name: run(trial, sizes[name]) for name, run in engines.items()}
    best = {
        name: (min(taken), sizes[name])
        for name, taken in measure(engines, texts, sizes, arguments.rounds).items()
    }
    print(f"{len(texts)} texts ({source}), {sum(map(len, texts)):,} tokens")
    for name, (seconds, batch_size) in best.items():
        remark = "random weights: only its speed counts"
        if not name.startswith(RANDOM):
            worst = float((answers[name] - answers["ours"]).abs().max())
            remark = f"within {worst:.0e} of ours"
        print(f"{name:40} {seconds:7.2f} s  batch {batch_size:3}  {remark}")
    for name, (seconds, _) in best.items():
        if name != "ours":
            print(f"ours is {seconds / best['ours'][0]:.2f} times as fast as {name}")


if __name__ == "__main__":
    main()
