"""A language model trained on one page: forward, backward, clip, step.

    python examples/train_minimal.py [STEPS]

Learns to continue the first scenes of Shakespeare's Coriolanus, character by character, in about a
minute on a CPU; prints the loss, then a sample. `glassformer train` runs the same loop with
checkpoints, validation, several processes and CUDA graphs (`glassformer.training.training_loop`).
"""

import math
import sys
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from glassformer.nn import (
    AttentionConfig,
    BlockConfig,
    FeedForwardConfig,
    ModelConfig,
    PositionConfig,
    build,
)
from glassformer.text import CharacterTokenizer, Tokenizer

BATCH, CONTEXT = 16, 64  # sequences per step, characters per sequence
WARMUP, PEAK = 20, 3e-3  # steps until the learning rate reaches its peak
TEXT = Path(__file__).with_name("coriolanus.txt")


def make_model(vocab_size: int) -> nn.Module:
    """A decoder-only Transformer of about 200,000 parameters."""
    return build(
        ModelConfig(
            architecture="language_model",
            vocab_size=vocab_size,
            max_len=CONTEXT,
            d_model=96,
            n_layers=2,
            init="normal",
            attention=AttentionConfig(n_heads=4),
            feed_forward=FeedForwardConfig(d_ff=384, activation="gelu"),
            # Queries and keys are rotated by an angle that grows with the position, so that scores
            # depend on the distance between two characters.
            positions=PositionConfig(kind="rotary"),
            # Pre-norm: deep stacks train without a long warm-up.
            block=BlockConfig(norm_first=True, final_norm=True, dropout=0.0),
        )
    )


def random_batch(ids: Tensor) -> tuple[Tensor, Tensor]:
    """Windows of the text, and the same windows one character later: the next characters."""
    starts = torch.randint(len(ids) - CONTEXT, (BATCH, 1))
    windows = ids[starts + torch.arange(CONTEXT + 1)]
    return windows[:, :-1], windows[:, 1:]


def learning_rate(step: int, n_steps: int) -> float:
    """A linear warm-up, since Adam's first estimates are noisy, then cosine decay."""
    if step < WARMUP:
        return PEAK * (step + 1) / WARMUP
    return PEAK * (1 + math.cos(math.pi * (step - WARMUP) / max(1, n_steps - WARMUP))) / 2


def train(model: nn.Module, ids: Tensor, n_steps: int) -> list[float]:
    """Returns the loss of each step, in nats per character."""
    optimiser = torch.optim.AdamW(model.parameters(), lr=PEAK, betas=(0.9, 0.99), weight_decay=0.1)
    losses = []
    model.train()
    for step in range(n_steps):
        inputs, targets = random_batch(ids)
        logits = model(inputs)  # (B, T, V): scores of the next character at each position
        loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten())
        optimiser.zero_grad()  # otherwise gradients of all steps would accumulate
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)  # one odd batch must not undo the rest
        for group in optimiser.param_groups:
            group["lr"] = learning_rate(step, n_steps)
        optimiser.step()
        losses.append(loss.item())
        if step % 50 == 0 or step == n_steps - 1:
            print(f"step {step:4d}  loss {losses[-1]:.3f}", flush=True)
    return losses


@torch.no_grad()
def sample(model: nn.Module, tokenizer: Tokenizer, prompt: str, n_tokens: int = 300) -> str:
    """Continue a text: sample the next character, append it, repeat."""
    model.eval()
    ids = torch.tensor([tokenizer.encode(prompt)])
    for _ in range(n_tokens):
        logits = model(ids[:, -CONTEXT:])[:, -1]  # it was trained on texts of this length
        # A temperature below 1 makes likely characters even likelier.
        drawn = torch.multinomial((logits / 0.8).softmax(dim=-1), num_samples=1)
        ids = torch.cat([ids, drawn], dim=1)
    return tokenizer.decode(ids[0].tolist())


def main(n_steps: int = 600) -> list[float]:
    torch.manual_seed(0)
    text = TEXT.read_text(encoding="utf-8")
    tokenizer = CharacterTokenizer.build([text])
    model = make_model(tokenizer.vocab_size)
    n_parameters = sum(parameter.numel() for parameter in model.parameters())
    print(f"{len(text):,} characters, {tokenizer.vocab_size} tokens, {n_parameters:,} parameters")
    losses = train(model, torch.tensor(tokenizer.encode(text)), n_steps)
    print(sample(model, tokenizer, "MARCIUS:\n"))
    return losses


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))
