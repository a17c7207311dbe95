"""From three input vectors to a trained translator, with the same modules and every number traced.

    python examples/first_steps.py [PAGE.html]

1. Self-attention on three inputs (the numbers of "illustrated self-attention").
2. A small encoder-decoder learns one pair of sentences and generates the second.
3. A trained translator, and the arithmetic of one of its numbers; all of them as a page.
"""

import sys
import time
from pathlib import Path

import torch
import torch.nn.functional as F

from glassformer import build
from glassformer.documents import render, render_text
from glassformer.nn import MultiHeadAttention, Seq2Seq, presets
from glassformer.tasks import load
from glassformer.text import WordTokenizer
from glassformer.tracing import trace


def heading(text: str) -> None:
    print(f"\n{text}\n{'─' * len(text)}\n")


def worked_example() -> None:
    """The 3 × 4 example: the result of each line of the attention code."""
    heading("1. Self-attention on three inputs")
    attention = build(presets.illustrated(), attention="written")
    assert isinstance(attention, MultiHeadAttention)
    with torch.no_grad():
        for part, columns in (
            (attention.to_queries, [[1, 1, 0, 0], [0, 0, 0, 1], [1, 0, 1, 1]]),
            (attention.to_keys, [[0, 1, 0, 1], [0, 1, 1, 1], [1, 0, 0, 0]]),
            (attention.to_values, [[0, 0, 1, 1], [2, 3, 0, 1], [0, 0, 3, 0]]),
        ):
            part.weight.copy_(torch.tensor(columns))
    x = torch.tensor([[[1.0, 0, 1, 0], [0, 2, 0, 2], [1, 1, 1, 1]]])
    traced = trace(attention, x, axis_labels={"x": ["input 1", "input 2", "input 3"]})
    for name in ("projected_queries", "projected_keys", "scores", "weights", "context"):
        print(render_text(traced[name]))
    print(traced["weights"][0, 0, 1].explain())


def learned_example() -> None:
    """A small encoder-decoder learns one pair, then generates the answer word by word."""
    heading("2. An encoder-decoder learns a sentence")
    question, answer = "When you play the game of thrones", "you win or you die"
    words = WordTokenizer.build([question, answer])
    start, end = words.special.start, words.special.end
    assert start is not None and end is not None
    torch.manual_seed(0)
    model = build(
        presets.vaswani_2017_base(
            vocab_size=words.vocab_size, d_model=32, n_heads=4, n_layers=2, d_ff=64, dropout=0.0
        )
    )
    assert isinstance(model, Seq2Seq)
    source = torch.tensor([words.encode(question)])
    target = torch.tensor([words.encode(answer, start=True, end=True)])
    optimiser = torch.optim.AdamW(model.parameters(), lr=3e-3)
    began = time.perf_counter()
    for step in range(41):
        logits = model(source, target[:, :-1])  # the label of position t is token t + 1
        loss = F.cross_entropy(logits[0], target[0, 1:])
        if step % 10 == 0:
            print(f"step {step:>2}   loss {loss.item():.4f}")
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    print(f"trained in {time.perf_counter() - began:.1f} s\n")

    model.eval()
    with torch.no_grad():
        memory, cache, generated = model.encode(source), model.start_cache(), [start]
        while generated[-1] != end and len(generated) < 10:
            logits = model.decode(torch.tensor([[generated[-1]]]), memory, cache=cache)
            generated.append(int(logits[0, -1].argmax()))
    print(f"{question} → {words.decode(generated)}")


def trained_example(page: Path | None) -> None:
    """The shipped translator: its output, its attention, and the arithmetic of one number."""
    heading("3. A trained translator")
    translator = load("en-de")
    sentence = "A man is riding a bicycle."
    print(f"{sentence} → {translator.translate([sentence])[0].text}\n")
    traced = translator.trace(sentence)
    weights = traced["decoder.blocks.2.cross_attention.weights"]
    print(render_text(weights, at=(0, 0)))
    print(weights[0, 2, 3].explain())
    if page is not None:
        render(traced, path=page)
        print(f"\nEvery number of this run, each with its arithmetic: open {page} in a browser.")


if __name__ == "__main__":
    worked_example()
    learned_example()
    trained_example(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
