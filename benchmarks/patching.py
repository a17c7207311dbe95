"""An activation-patching sweep, layer × position, beside TransformerLens on the same weights.

    pip install -c constraints.txt transformer-lens==4.3.0   # needed here and for its slow tests
    python benchmarks/patching.py [--layers 12] [--width 768] [--tokens 32] [--repeats 3]

GPT-2 at the size of its smallest checkpoint, random weights, two texts that differ in every token;
the residual stream before each layer is patched at each position, and the difference of two logits
watched. Each side runs in a process of its own, by turns. It takes the time from the two texts to
the table: its own capture of both runs included, the making of the model not. Peak memory is what
the process takes at most above what it held before. Times are the best of the repeats, on the clock
and of the processor, which other work on the machine disturbs less; ratios are those of each round,
from the smallest to the largest. The tables are compared, relative to the largest effect.

- `ours`: `glassformer.experiments.sweep`.
- `theirs`: `transformer_lens.patching.get_act_patch_resid_pre`.
- `theirs, batched`: hooks by hand on a batch of copies, one position patched in each copy: what a
  user who knows TransformerLens well would write.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

SIDES = ("ours", "theirs", "theirs, batched")


def model_of(sizes: argparse.Namespace) -> Any:
    import transformers

    config = transformers.GPT2Config(
        vocab_size=sizes.vocabulary, n_embd=sizes.width, n_layer=sizes.layers,
        n_head=sizes.width // 64, bos_token_id=0, eos_token_id=0,
        attn_implementation="eager",  # TransformerLens needs it; the trace writes attention out
    )  # fmt: skip
    torch.manual_seed(0)
    return transformers.GPT2LMHeadModel(config).eval()


def texts(sizes: argparse.Namespace) -> tuple[Tensor, Tensor]:
    ids = torch.randperm(sizes.vocabulary, generator=torch.Generator().manual_seed(1))
    return ids[None, : sizes.tokens], ids[None, sizes.tokens : 2 * sizes.tokens]


def ours(model: Any, corrupted: Tensor, clean: Tensor) -> Callable[[], Tensor]:
    from glassformer.experiments import difference, sweep
    from glassformer.tracing import trace

    def run() -> Tensor:
        one, other = trace(model, corrupted), trace(model, clean)
        logits = one["logits"]
        return sweep(one, other, measure=difference(logits[0, -1, 5], logits[0, -1, 7])).values

    return run


def theirs(model: Any, corrupted: Tensor, clean: Tensor) -> Callable[[], Tensor]:
    from transformer_lens import patching

    bridge = bridged(model)

    def run() -> Tensor:
        with torch.no_grad():
            _, cache = bridge.run_with_cache(clean)
            found: Tensor = patching.get_act_patch_resid_pre(
                bridge, corrupted, cache, lambda logits: logits[0, -1, 5] - logits[0, -1, 7]
            )
        return found

    return run


def theirs_batched(model: Any, corrupted: Tensor, clean: Tensor) -> Callable[[], Tensor]:
    bridge = bridged(model)
    places = torch.arange(corrupted.shape[1])

    def run() -> Tensor:
        rows = []
        with torch.no_grad():
            _, cache = bridge.run_with_cache(clean)

            def put(resid: Tensor, hook: Any) -> Tensor:
                resid[places, places] = cache[hook.name][0]
                return resid

            for layer in range(bridge.cfg.n_layers):
                hooks = [(f"blocks.{layer}.hook_resid_pre", put)]
                copies = corrupted.expand(len(places), -1)
                logits = bridge.run_with_hooks(copies, fwd_hooks=hooks)[:, -1]
                rows.append(logits[:, 5] - logits[:, 7])
        return torch.stack(rows)

    return run


def bridged(model: Any) -> Any:
    """The model in TransformerLens, which wants a tokenizer with it."""
    import transformers
    from tokenizers import Tokenizer, models
    from transformer_lens.model_bridge import TransformerBridge

    words = Tokenizer(models.WordLevel({"w0": 0}, unk_token="w0"))
    own = {"bos_token": "w0", "eos_token": "w0", "pad_token": "w0", "unk_token": "w0"}
    with tempfile.TemporaryDirectory() as folder:
        transformers.PreTrainedTokenizerFast(tokenizer_object=words, **own).save_pretrained(folder)
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder, add_bos_token=True)
    return TransformerBridge.boot_transformers("gpt2", hf_model=model, tokenizer=tokenizer).eval()


def measure(side: str, sizes: argparse.Namespace) -> dict[str, Any]:
    """Seconds, peak bytes and the table of one side, in this process."""
    corrupted, clean = texts(sizes)
    make = {"ours": ours, "theirs": theirs, "theirs, batched": theirs_batched}[side]
    run = make(model_of(sizes), corrupted, clean)
    with torch.no_grad():
        torch.ones(512, 512) @ torch.ones(512, 512)  # the threads are there
    before = _memory("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak counts from here on
    began, worked = time.perf_counter(), time.process_time()
    table = run()
    seconds, worked = time.perf_counter() - began, time.process_time() - worked
    peak = _memory("VmHWM") - before
    return {"seconds": seconds, "processor": worked, "bytes": peak, "table": table.tolist()}


def _compared(runs: list[dict[str, Any]], ours: list[dict[str, Any]], what: str) -> str:
    """The best time, and the ratios to ours of the same round."""
    ratios = [run[what] / own[what] for run, own in zip(runs, ours, strict=True)]
    best = min(run[what] for run in runs)
    return f"{best:7.2f} s ({min(ratios):.2f} to {max(ratios):.2f} × ours)"


def _memory(what: str) -> int:
    """Bytes that the process holds (VmRSS) or held at most (VmHWM); of Linux."""
    status = Path("/proc/self/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith(what))
    return int(line.split()[1]) * 1024


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    for name, default in (
        ("layers", 12), ("width", 768), ("tokens", 32), ("vocabulary", 50257), ("repeats", 3)
    ):  # fmt: skip
        options.add_argument(f"--{name}", type=int, default=default)
    options.add_argument("--side", choices=SIDES)
    sizes = options.parse_args()
    if sizes.side is not None:
        sys.stdout.write(json.dumps(measure(sizes.side, sizes)))
        return
    found: dict[str, list[dict[str, Any]]] = {side: [] for side in SIDES}
    for _ in range(sizes.repeats):
        for side in SIDES:
            command = [sys.executable, str(Path(__file__)), *sys.argv[1:], "--side", side]
            done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
            found[side].append(json.loads(done.stdout))
            sys.stderr.write(f"{side}: {found[side][-1]['seconds']:.2f} s\n")
    tables = {side: torch.tensor(runs[0]["table"]) for side, runs in found.items()}
    scale = float((tables["ours"] - tables["ours"].mean()).abs().max())
    say = sys.stdout.write
    say(
        f"GPT-2 of {sizes.layers} layers, width {sizes.width}, {sizes.tokens} tokens, "
        f"{tables['ours'].numel()} patches, {torch.get_num_threads()} threads, "
        f"torch {torch.__version__}\n"
    )
    for side, runs in found.items():
        peak = max(run["bytes"] for run in runs) / 1024**2
        apart = float((tables[side] - tables["ours"]).abs().max()) / scale
        clock, busy = (_compared(runs, found["ours"], what) for what in ("seconds", "processor"))
        say(
            f"{side:16} {clock}  processor {busy}  peak {peak:5.0f} MiB  "
            f"table within {apart:.0e} of ours\n"
        )
        if apart > 1e-3:
            raise SystemExit(f"{side} has another table than ours")


if __name__ == "__main__":
    main()
