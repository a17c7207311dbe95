"""Does the library run here? One training step of every preset, with torch and its like alone.

    python benchmarks/one_step.py

Needs torch, numpy, safetensors and tokenizers, and nothing else: for machines on which nothing can
be installed. Prints the versions and, for each preset and device, the loss before and after.
"""

import platform
import sys

import torch
from torch import Tensor

from glassformer.nn import ModelConfig, build, presets

SIZES = {
    "illustrated": {},
    "by_hand_2024": {},
    "bert": {"vocab_size": 50, "d_model": 32, "n_heads": 4, "n_layers": 2, "d_ff": 64},
    "llama": {"vocab_size": 50, "d_model": 32, "n_heads": 4, "n_layers": 2, "d_ff": 64},
}
SMALL = {"vocab_size": 50, "d_model": 32, "n_heads": 4, "n_layers": 2}
EXPECTED_ABSENT = {"cyclopts", "rich", "jaxtyping"}


def inputs(config: ModelConfig, device: str) -> tuple[Tensor, ...]:
    if config.architecture == "attention":
        return (torch.randn(2, 9, config.d_model, device=device),)
    length = config.max_len if config.output.flattened else 9
    ids = torch.randint(1, config.vocab_size, (2, length), device=device)
    return (ids, ids) if config.architecture == "seq2seq" else (ids,)


def one_step(config: ModelConfig, device: str) -> tuple[float, float]:
    torch.manual_seed(0)
    model = build(config).to(device).eval()  # no dropout: the second loss answers for the step
    given = inputs(config, device)
    optimiser = torch.optim.SGD(model.parameters(), lr=1e-3)
    before = model(*given).square().mean()
    before.backward()
    optimiser.step()
    with torch.no_grad():
        after = model(*given).square().mean()
    return float(before.detach()), float(after)


def main() -> None:
    print(f"Python {platform.python_version()}, torch {torch.__version__}")
    devices = ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]
    for name in presets.PRESETS:
        config = presets.preset(name, **SIZES.get(name, SMALL))
        for device in devices:
            before, after = one_step(config, device)
            assert after < before, f"{name} on {device}: the step did not lower the loss"
            print(f"{name:<22}{device:<6}{before:>12.6f} → {after:.6f}")
    needed = sorted(EXPECTED_ABSENT & set(sys.modules))
    assert not needed, f"imported without need: {needed}"


if __name__ == "__main__":
    main()
