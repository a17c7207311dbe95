"""Our modules beside torch.nn's: the same weights, the same input, the same run; ratio last.

    python benchmarks/speed.py [--device cuda]

Times are medians over interleaved repetitions, so that a busy moment hits both sides. A ratio
above 1 means that ours is faster.
"""

import argparse
import time
from collections.abc import Callable
from statistics import median

import torch
from torch import Tensor, nn

from glassformer.nn import (
    AttentionConfig,
    MultiHeadAttention,
    Seq2Seq,
    causal_mask,
    padding_mask,
    presets,
    set_attention,
)
from glassformer.nn.foreign import load_torch_multihead_attention, load_torch_transformer

Step = Callable[[], Tensor]


def measure(sides: dict[str, Step], repetitions: int, device: str) -> dict[str, float]:
    """Median seconds of each side, taken in turns."""
    times: dict[str, list[float]] = {name: [] for name in sides}
    for turn in range(repetitions + 2):
        for name, step in sides.items():
            began = time.perf_counter()
            step()
            if device == "cuda":
                torch.cuda.synchronize()
            if turn >= 2:  # the first turns warm caches and kernels up
                times[name].append(time.perf_counter() - began)
    return {name: median(taken) for name, taken in times.items()}


def training_step(module: nn.Module, forward: Callable[[], Tensor]) -> Step:
    def step() -> Tensor:
        module.zero_grad(set_to_none=True)
        loss = forward().square().mean()
        loss.backward()
        return loss

    return step


def attention_sides(device: str) -> dict[str, Step]:
    """One attention layer of the base size, 32 sentences of 64 tokens, forward and backward."""
    theirs = nn.MultiheadAttention(512, 8, batch_first=True).to(device)
    config = AttentionConfig(n_heads=8, bias=True, output_bias=True)
    ours = MultiHeadAttention(512, config).to(device)
    load_torch_multihead_attention(ours, theirs.state_dict())
    written = set_attention(MultiHeadAttention(512, config).to(device), "written")
    x = torch.randn(32, 64, 512, device=device)
    hidden = ~causal_mask(64, device=device)
    return {
        "torch.nn": training_step(
            theirs, lambda: theirs(x, x, x, attn_mask=hidden, need_weights=False)[0]
        ),
        "ours, fused": training_step(ours, lambda: ours(x, causal=True)),
        "ours, written": training_step(written, lambda: written(x, causal=True)),
    }


def transformer_sides(device: str) -> dict[str, Step]:
    """The base encoder-decoder, 16 pairs of 32 tokens with padding, forward and backward."""
    config = presets.torch_nn_transformer(vocab_size=10, dropout=0.0)
    theirs = nn.Transformer(batch_first=True, dropout=0.0).to(device)
    ours = Seq2Seq(config).to(device)
    load_torch_transformer(ours, theirs.state_dict())
    source, target = (torch.randn(16, 32, 512, device=device) for _ in range(2))
    lengths = torch.arange(17, 33, device=device)
    tokens = torch.arange(32, device=device) < lengths[:, None]
    mask, hidden = padding_mask(tokens), ~causal_mask(32, device=device)

    def run_ours() -> Tensor:
        memory = ours.encoder.transform(source, mask=mask)
        return ours.decoder.transform(target, memory=memory, memory_mask=mask)

    def run_theirs() -> Tensor:
        result: Tensor = theirs(
            source,
            target,
            tgt_mask=hidden,
            src_key_padding_mask=~tokens,
            memory_key_padding_mask=~tokens,
        )
        return result

    return {
        "torch.nn": training_step(theirs, run_theirs),
        "ours, fused": training_step(ours, run_ours),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--repetitions", type=int, default=15)
    options = parser.parse_args()
    print(f"torch {torch.__version__}, {options.device}, {torch.get_num_threads()} threads")
    for title, make in (
        ("attention layer", attention_sides),
        ("base encoder-decoder", transformer_sides),
    ):
        taken = measure(make(options.device), options.repetitions, options.device)
        reference = taken["torch.nn"]
        for name, seconds in taken.items():
            print(f"{title:<22}{name:<15}{1e3 * seconds:>9.2f} ms {reference / seconds:>7.2f}×")


if __name__ == "__main__":
    main()
