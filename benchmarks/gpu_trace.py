"""The trace on a GPU: what it costs beside the plain pass, and whether every number is right.

    python benchmarks/gpu_trace.py [--device cuda] [--layers 12] [--width 768] [--tokens 128]
                                   [--sample 20000] [--repetitions 9]

GPT-2 at the size of its smallest checkpoint (124 million parameters, random weights), in float32
and bfloat16, Hugging Face's module where it lies. For each dtype it prints

- the median time of a plain pass and of a trace (the recording: every operator with its values,
  names and source lines), and their ratio; the device waits before each clock is read;
- the memory of the device that the trace keeps beyond the plain pass;
- `verify`: cells recomputed in float64 from the operands shown, equally many of every step, with
  the largest relative difference and what the dtype allows; all cells of all steps with
  `--sample 0`;
- whether the logits are those of the plain pass, a replay equal bit for bit, and an edit's effect
  that of a forward hook.

It ends with status 1 if one of these fails. `--device cpu --layers 2 --width 64 --tokens 8
--vocabulary 100` rehearses it in seconds.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import torch
from torch import Tensor, nn

from glassformer.tracing import Trace, replay, trace
from glassformer.tracing.arithmetic.float64_values import limits


def model_of(options: argparse.Namespace, dtype: torch.dtype) -> Any:
    import transformers

    config = transformers.GPT2Config(
        vocab_size=options.vocabulary, n_embd=options.width, n_layer=options.layers,
        n_head=max(1, options.width // 64), n_positions=max(1024, options.tokens),
        bos_token_id=0, eos_token_id=0, use_cache=False,
    )  # fmt: skip
    torch.manual_seed(0)
    return transformers.GPT2LMHeadModel(config).eval().to(options.device, dtype)


def wait(device: str) -> None:
    if device.startswith("cuda"):
        torch.cuda.synchronize()


def held(device: str) -> int:
    return torch.cuda.memory_allocated() if device.startswith("cuda") else 0


def timed(run: Callable[[], Any], options: argparse.Namespace) -> float:
    """The median of some runs, in milliseconds, after two that warm up."""
    times = []
    for at in range(options.repetitions + 2):
        wait(options.device)
        began = time.perf_counter()
        made = run()
        wait(options.device)
        if at >= 2:
            times.append(1000 * (time.perf_counter() - began))
        if isinstance(made, Trace):
            made.close()
        del made
    return median(times)


def hooked(model: Any, ids: Tensor, layer: int) -> Tensor:
    """The logits without what a feed-forward layer writes, by a hook."""

    def nothing(_: nn.Module, __: Any, output: Tensor) -> Tensor:
        return torch.zeros_like(output)

    handle = model.transformer.h[layer].mlp.register_forward_hook(nothing)
    try:
        with torch.no_grad():
            logits: Tensor = model(ids).logits
        return logits.cpu()
    finally:
        handle.remove()


def check(options: argparse.Namespace, dtype: torch.dtype, say: Callable[[str], Any]) -> bool:
    """One dtype: times, memory, and every comparison."""
    model = model_of(options, dtype)
    ids = torch.randint(options.vocabulary, (1, options.tokens)).to(options.device)

    def plain() -> Tensor:
        with torch.no_grad():
            logits: Tensor = model(ids).logits
        return logits

    def traced() -> Trace:
        return trace(model, ids, max_bytes=options.most * 1024**3, compare=False)

    alone, recorded = timed(plain, options), timed(traced, options)
    before = held(options.device)
    run = traced()
    wait(options.device)
    kept = (held(options.device) - before) / 1024**2
    name = str(dtype).removeprefix("torch.")
    say(
        f"{name}: plain {alone:.1f} ms, trace {recorded:.1f} ms ({recorded / alone:.1f} ×), "
        f"{len(run.steps)} steps on {run['logits'].view.version.storage.device}, "
        f"{kept:.0f} MiB of the device kept\n"
    )
    report = run.verify(sample=options.sample or None)
    say(
        f"{name}: verified {report.cells} cells, worst {report.worst:.1e} at {report.worst_cell} "
        f"({limits(dtype).tolerance:.0e} allowed); {report.without_rule} cells without a rule\n"
    )
    if not report.ok:
        say(f"{report}\n")
    logits = plain().cpu()
    scale = float(logits.abs().max())
    gap = float((run["logits"].value - logits).abs().max()) / scale
    twin = replay(run)
    same = all(
        torch.equal(one.view.tensor(), other.view.tensor())
        for one, other in zip(run.steps, twin.steps, strict=True)
    )
    layer = options.layers // 2
    edited = run.edit({f"transformer.h.{layer}.mlp_out": 0.0})["logits"].value
    apart = float((edited - hooked(model, ids, layer)).abs().max()) / scale
    # The trace writes attention out, the plain pass has it fused: other roundings in each layer.
    allowed = 4 * options.layers * torch.finfo(dtype).eps
    say(
        f"{name}: logits within {gap:.1e} of the plain pass, an edit within {apart:.1e} of a hook "
        f"({allowed:.0e} allowed, relative to the largest); replay bit for bit: {same}\n"
    )
    return report.ok and not report.opaque and gap <= allowed and apart <= allowed and same


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--device", default="cuda")
    for name, default in (
        ("layers", 12), ("width", 768), ("tokens", 128), ("vocabulary", 50257),
        ("sample", 20_000), ("repetitions", 9), ("most", 8),
    ):  # fmt: skip
        options.add_argument(f"--{name}", type=int, default=default)
    chosen = options.parse_args()
    say = sys.stdout.write
    machine = chosen.device
    if chosen.device.startswith("cuda"):
        if not torch.cuda.is_available():
            raise SystemExit("no GPU is here: --device cpu rehearses it")
        machine = torch.cuda.get_device_name()
    say(f"{machine}, torch {torch.__version__}, {chosen.layers} layers, {chosen.tokens} tokens\n")
    good = [check(chosen, dtype, say) for dtype in (torch.float32, torch.bfloat16)]
    say("all right\n" if all(good) else "something is wrong\n")
    raise SystemExit(0 if all(good) else 1)


if __name__ == "__main__":
    main()
