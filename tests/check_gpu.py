"""What only a GPU can show: CUDA graphs of ours beside those that `torch.compile` records.

    python tests/check_gpu.py          (or: make check-gpu)

Needs an NVIDIA GPU, and torch, numpy, safetensors and tokenizers alone. Each check runs in its own
process, since an illegal memory access ends all CUDA work of the process in which it happens.
"""

import subprocess
import sys
from collections.abc import Callable

import torch
from torch import Tensor, nn

from glassformer.decoding import Beam, translate
from glassformer.decoding.fast.cuda_graphs import CudaRecorder
from glassformer.nn import Seq2Seq, build, presets

Step = Callable[[], Tensor]
N_REPLAYS = 20


def small_model(dropout: float) -> nn.Module:
    torch.manual_seed(0)
    layers = nn.Linear(256, 1024), nn.Dropout(dropout), nn.GELU(), nn.Linear(1024, 256)
    return nn.Sequential(*layers).cuda().train()


class Recorded:
    """A forward and backward pass of a small model, recorded by us."""

    def __init__(self, dropout: float) -> None:
        self.model = small_model(dropout)
        for parameter in self.model.parameters():
            parameter.grad = torch.zeros_like(parameter)
        self.inputs = torch.randn(128, 256, device="cuda")
        self.loss, self.replay = CudaRecorder(torch.device("cuda", 0))(self.work)

    def work(self) -> Tensor:
        for parameter in self.model.parameters():
            assert parameter.grad is not None
            parameter.grad.zero_()
        loss: Tensor = self.model(self.inputs).square().mean()
        loss.backward()
        return loss.detach()

    def result(self, seed: int) -> Tensor:
        """Loss and gradients of one replay, drawn from a seed."""
        torch.cuda.manual_seed(seed)
        self.replay()
        gradients = [p.grad for p in self.model.parameters() if p.grad is not None]
        return torch.cat([self.loss.flatten(), *(g.flatten() for g in gradients)]).clone()


def compiled_step(dropout: float) -> Step:
    """A training step that torch compiles and records."""
    model, inputs = small_model(dropout), torch.randn(64, 256, device="cuda")

    def loss() -> Tensor:
        found: Tensor = model(inputs).square().mean()
        return found

    compiled = torch.compile(loss, options={"triton.cudagraphs": True}, dynamic=False)

    def step() -> Tensor:
        found: Tensor = compiled()
        found.backward()
        model.zero_grad(set_to_none=True)
        return found.detach().clone()

    return step


def canaries() -> list[Tensor]:
    """All that is free in the allocator's caches, filled with a number that nobody computes."""
    torch.cuda.empty_cache()
    return [torch.full((2**size // 4,), 7.25, device="cuda") for size in range(12, 28)]


def check_ours_after_compiled(dropout: float) -> None:
    ours = Recorded(dropout)
    expected = [ours.result(seed) for seed in range(N_REPLAYS)]
    step = compiled_step(dropout)
    for _ in range(6):
        step()
    kept = canaries()
    for seed, before in enumerate(expected):
        assert torch.equal(ours.result(seed), before), f"replay {seed} differs"
    assert all(bool((tensor == 7.25).all()) for tensor in kept), "a replay wrote into free memory"


def check_ours_between_compiled(dropout: float) -> None:
    step = compiled_step(0.0)
    expected_loss = [step() for _ in range(6)][-1]
    ours = Recorded(dropout)
    expected = ours.result(0)
    for _ in range(N_REPLAYS):
        assert torch.equal(step(), expected_loss), "the compiled step differs"
        assert torch.equal(ours.result(0), expected), "our replay differs"


def check_decoding_around_compiled_training() -> None:
    """A translator answers by recorded steps before, between and after compiled training steps."""
    torch.manual_seed(0)
    sizes = {"vocab_size": 50, "d_model": 64, "n_heads": 4, "n_layers": 2}
    model = build(presets.vaswani_2017_base(**sizes)).cuda().eval()
    assert isinstance(model, Seq2Seq)
    sources = [[5, 6, 7, 8], [9, 10, 11]]

    def answer() -> list[list[int]]:
        search = Beam(size=4)
        with torch.no_grad():
            found = translate(model, sources, start=1, end=None, search=search, max_new=24)
        return [list(one.best.tokens) for one in found]

    expected = answer()
    step = compiled_step(0.1)
    for _ in range(4):
        step()
        assert answer() == expected
    torch.cuda.empty_cache()
    assert answer() == expected


CHECKS: dict[str, Callable[[], None]] = {
    "ours after compiled": lambda: check_ours_after_compiled(0.0),
    "ours after compiled, dropout": lambda: check_ours_after_compiled(0.1),
    "ours between compiled": lambda: check_ours_between_compiled(0.0),
    "ours between compiled, dropout": lambda: check_ours_between_compiled(0.1),
    "decoding around compiled training": check_decoding_around_compiled_training,
}


def main() -> int:
    if not torch.cuda.is_available():
        print("these checks need an NVIDIA GPU, and torch finds none here", file=sys.stderr)
        return 1
    if len(sys.argv) > 1:
        CHECKS[sys.argv[1]]()
        torch.cuda.synchronize()
        return 0
    print(f"torch {torch.__version__}, {torch.cuda.get_device_name()}")
    n_failed = 0
    for name in CHECKS:
        done = subprocess.run([sys.executable, __file__, name], capture_output=True, text=True)
        n_failed += done.returncode != 0
        print(f"{name:<40}{'ok' if done.returncode == 0 else 'FAILED'}", flush=True)
        if done.returncode:
            print("  " + "\n  ".join(done.stderr.strip().splitlines()[-4:]), flush=True)
    return 1 if n_failed else 0


if __name__ == "__main__":
    sys.exit(main())
