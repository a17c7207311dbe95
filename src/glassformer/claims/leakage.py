"""What a missing causal mask does: predictions that look perfect, and generation that fails.

A decoder learns to predict the next token at every position at once. Without the mask, a position
sees the token that it is to predict, and copies it. While every earlier token is given (teacher
forcing), that cannot be told from knowledge; when the model continues its own text (free-running),
there is nothing to copy.

Two kinds of text. *Noise* cannot be predicted: whoever does has seen the answer. *Counting* (up by
one, two or three, starting again after the last token) can: an honest model must guess the second
token, and knows all that follow.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import torch
import torch.nn.functional as F

from glassformer.claims.specimens import accuracy, causal, fit, language_model
from glassformer.nn import LanguageModel
from glassformer.nn.tensors import Float, Int, Tensor

TextKind = Literal["noise", "counting"]

N_TOKENS, TEXT_LENGTH, PROMPT_LENGTH = 8, 9, 3


@dataclass(frozen=True)
class NextTokenResult:
    """A language model after a short training, measured on new texts."""

    loss: float
    """Of the last training step, in nats; ln 8 is guessing."""
    teacher_forced: float
    """Share of next tokens right where every earlier token is given."""
    free_running: float
    """Share of the tokens right that the model writes after a prompt, reading its own output."""
    model: LanguageModel = field(compare=False, repr=False)
    texts: Int[Tensor, "B T"] = field(compare=False, repr=False)
    """The new texts on which it was measured."""


def learn_next_token(
    kind: TextKind, *, masked: bool, steps: int = 200, seed: int = 0
) -> NextTokenResult:
    """Train one small decoder with the causal mask or without it."""
    model = language_model(seed).train()
    causal(model, masked)
    generator = torch.Generator().manual_seed(seed)

    def loss() -> Float[Tensor, ""]:
        text = draw_texts(kind, 32, generator)
        return F.cross_entropy(model(text[:, :-1]).flatten(0, 1), text[:, 1:].flatten())

    last = fit(model.parameters(), loss, steps=steps, learning_rate=0.01)
    model.eval()
    texts = draw_texts(kind, 500, generator)
    written = continue_texts(model, texts[:, :PROMPT_LENGTH])
    with torch.no_grad():
        forced = accuracy(model(texts[:, :-1]), texts[:, 1:])
    new = slice(PROMPT_LENGTH, TEXT_LENGTH)
    free = float((written[:, new] == texts[:, new]).double().mean())
    return NextTokenResult(last, forced, free, model, texts)


def draw_texts(kind: TextKind, count: int, generator: torch.Generator) -> Int[Tensor, "B T"]:
    if kind == "noise":
        return torch.randint(N_TOKENS, (count, TEXT_LENGTH), generator=generator)
    first = torch.randint(N_TOKENS, (count, 1), generator=generator)
    step = torch.randint(1, 4, (count, 1), generator=generator)
    return (first + step * torch.arange(TEXT_LENGTH)) % N_TOKENS


@torch.no_grad()
def continue_texts(model: LanguageModel, prompts: Int[Tensor, "B P"]) -> Int[Tensor, "B T"]:
    """Each prompt with the most probable tokens after it, one by one, up to the trained length."""
    written = prompts
    while written.size(1) < TEXT_LENGTH:
        following = model(written)[:, -1:].argmax(dim=-1)
        written = torch.cat([written, following], dim=1)
    return written
