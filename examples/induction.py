"""Which heads of a small language model copy? Train one, find them, switch them off, patch them.

    python examples/induction.py

The texts are random letters that come again: "q f k a q f k a …". To say what follows the second
"q", a model has to look back at what followed the first. Olsson et al. (2022), "In-context learning
and induction heads", found that two layers do it together: a head of the first marks each letter
with the one before it, and an induction head of the second looks for its own letter among these
marks. Training takes about half a minute; the rest is `glassformer.experiments`.
"""

from __future__ import annotations

import string

import torch
from torch import Tensor, nn

import glassformer as gf
from glassformer.experiments import Sweep, ablate, average, difference, head_scores, sweep
from glassformer.tracing import Trace

LETTERS = string.ascii_lowercase
PERIOD = 9  # letters until a text comes again
SECOND = "decoder.blocks.1.attention"


def texts(count: int, period: int, length: int, generator: torch.Generator) -> Tensor:
    """(count, length): random letters, different within a period, again and again."""
    one = torch.rand(count, len(LETTERS), generator=generator).argsort(-1)[:, :period]
    return one.repeat(1, -(-length // period))[:, :length]


def train(seed: int = 0) -> nn.Module:
    """A model of two layers; periods vary, so that counting back does not help."""
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    model = gf.build(
        "gpt2", vocab_size=len(LETTERS), d_model=64, n_heads=4, n_layers=2, max_len=24, dropout=0.0
    )
    optimiser = torch.optim.AdamW(model.parameters(), lr=2e-3)
    for _ in range(600):
        period = int(torch.randint(6, 12, (), generator=generator))
        ids = texts(64, period, 24, generator)
        logits = model(ids)[:, period - 1 : -1]  # what comes for the first time cannot be known
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, period:].flatten())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return model.eval()


def read(model: nn.Module, ids: Tensor) -> Trace:
    """The trace of one text, with letters on its axes."""
    labels = {"ids": [LETTERS[id_] for id_ in ids.tolist()], "output": LETTERS}
    return gf.trace(model, ids[None], axis_labels=labels)


def accuracy(runs: list[Trace]) -> float:
    """How often the likeliest next letter is the right one, where it can be known."""
    right = []
    for run in runs:
        ids, best = run.inputs["ids"].value[0], run.outputs["output"].value[0].argmax(-1)
        right.append((best[PERIOD:-1] == ids[PERIOD + 1 :]).double().mean())
    return float(torch.stack(right).mean())


def patched(model: nn.Module, ids: Tensor) -> Sweep:
    """Two texts that differ at place 3 of the first round; the second round stops before it."""
    clean = torch.cat([ids[:PERIOD], ids[:3]])
    corrupted = clean.clone()
    corrupted[3] = next(id_ for id_ in range(len(LETTERS)) if id_ not in clean)
    one, other = read(model, corrupted), read(model, clean)
    logits = one.outputs["output"]
    letters = (LETTERS[int(text[3])] for text in (clean, corrupted))
    right, wrong = (logits[0, -1, letter] for letter in letters)
    return sweep(one, other, measure=difference(right, wrong))


def main(seed: int = 0) -> dict[str, float]:
    model = train(seed)
    samples = texts(6, PERIOD, 2 * PERIOD, torch.Generator().manual_seed(1))
    runs = [read(model, ids) for ids in samples]
    found = {score: head_scores(runs, score) for score in ("previous", "induction")}
    print(*found.values(), sep="\n\n")

    copying = [head for head in range(4) if found["induction"].values[1, head] > 0.3]
    before = accuracy(runs)
    after = accuracy([ablate(run, SECOND, head=copying) for run in runs])
    print(f"\nright: {before:.0%}; without heads {copying} of layer 1: {after:.0%}\n")

    swept = [patched(model, ids) for ids in samples]
    recovered = float(torch.stack([one.recovered[1, 3] for one in swept]).mean())
    print(average(swept))
    print(f"\nplace 3, patched before layer 1, brings back {recovered:.0%} of the difference")
    return {"before": before, "after": after, "recovered": recovered}


if __name__ == "__main__":
    main()
