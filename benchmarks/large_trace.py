"""A large model in the trace: what it takes to keep every number, and to keep those of one block.

    python benchmarks/large_trace.py [--layers 22] [--width 2048] [--hidden 5632] [--tokens 32]
                                     [--vocabulary 32000] [--only model.layers.11]

A Llama with random weights in float32, 1.1 billion parameters by default, as a Hugging Face module.
It prints the estimate before each run, the time of the plain pass and of the trace, the memory of
the whole process at its highest, the time to explain a number that was kept and one that was not,
and `verify` on a sample of cells; it ends with status 1 if a cell is wrong or a number that was
dropped does not come back to the same bits. `--layers 2 --width 64 --hidden 128 --vocabulary 100
--only model.layers.1` rehearses it in seconds.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from collections.abc import Callable
from typing import Any, TypeVar

import torch

from glassformer.tracing import Trace, estimate, trace

Made = TypeVar("Made")


def timed(what: str, run: Callable[[], Made]) -> Made:
    start = time.perf_counter()
    made = run()
    print(f"{what:44} {time.perf_counter() - start:8.2f} s   peak {peak():6.2f} GiB")
    return made


def peak() -> float:
    """The most memory that this process ever held, in GiB."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1024**3


def llama(options: argparse.Namespace) -> Any:
    import transformers

    config = transformers.LlamaConfig(
        hidden_size=options.width, intermediate_size=options.hidden,
        num_hidden_layers=options.layers, num_attention_heads=max(1, options.width // 64),
        num_key_value_heads=max(1, options.width // 512), vocab_size=options.vocabulary,
        use_cache=False,
    )  # fmt: skip
    torch.manual_seed(0)
    return transformers.LlamaForCausalLM(config).eval()


def look(traced: Trace, name: str) -> str:
    step = traced[name]
    return str(step[tuple(size // 2 for size in step.shape)].explain())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    for name, default in (
        ("layers", 22), ("width", 2048), ("hidden", 5632), ("tokens", 32), ("vocabulary", 32000)
    ):  # fmt: skip
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--only", default="model.layers.11")
    options = parser.parse_args()
    model = timed("model", lambda: llama(options))
    n_parameters = sum(parameter.numel() for parameter in model.parameters())
    print(f"{n_parameters:,} parameters, {options.tokens} tokens, float32")
    ids = torch.randint(options.vocabulary, (1, options.tokens))
    with torch.no_grad():
        timed("plain pass", lambda: model(ids))
    print(f"estimate, everything kept: {estimate(model, ids)}")
    print(f"estimate, {options.only} kept: {estimate(model, ids, only=[options.only])}")
    part = timed(f"trace, only={options.only}", lambda: trace(model, ids, only=[options.only]))
    elsewhere = "model.layers.0.self_attn.scores"
    timed("explain a score that was kept", lambda: look(part, f"{options.only}.self_attn.scores"))
    timed("explain a score that was dropped", lambda: look(part, elsewhere))
    whole = timed("trace, everything kept", lambda: trace(model, ids))
    chosen = [name for name in whole.names if name.startswith("model.layers.0.")]
    same = all(torch.equal(whole[name].value, part[name].value) for name in chosen)
    print(f"layer 0, dropped and computed again: {'the same bits' if same else 'OTHER NUMBERS'}")
    report = timed("verify 2,000 cells", lambda: part.verify(2_000))
    print(str(report).partition("\n")[0])
    return 0 if same and report.ok else 1


if __name__ == "__main__":
    sys.exit(main())
