"""From three input vectors to a model that has learned a sentence: the same modules throughout.

    python examples/first_steps.py

1. Self-attention on three inputs, every matrix printed (the numbers of "illustrated
   self-attention").
2. An encoder-decoder with random parameters learns one pair of sentences and says its half.
"""

import time

import torch
import torch.nn.functional as F
from rich.console import Console
from rich.table import Table
from rich.text import Text
from torch import Tensor

from glassformer import build, presets
from glassformer.nn import MultiHeadAttention, Seq2Seq, attend_written, record_attention
from glassformer.text import WordTokenizer

console = Console(highlight=False)


def show(title: str, matrix: Tensor, rows: list[str], columns: list[str] | None = None) -> None:
    """A matrix as a heat map with its values: blue below zero, orange above."""
    table = Table(title=title, title_justify="left", box=None, padding=(0, 1))
    table.add_column("")
    for column in columns or [str(j) for j in range(matrix.size(1))]:
        table.add_column(column, justify="right")
    largest = float(matrix.abs().max()) or 1.0
    for name, numbers in zip(rows, matrix.tolist(), strict=True):
        cells = [Text(f"{x:.4g}", style=_colour(x / largest)) for x in numbers]
        table.add_row(name, *cells)
    console.print(table)
    console.print()


def _colour(share: float) -> str:
    pale = int(255 - 160 * abs(share))
    red, blue = (255, pale) if share >= 0 else (pale, 255)
    return f"black on rgb({red},{max(pale, 180)},{blue})"


def worked_example() -> None:
    """The 3 × 4 example: what each line of the attention code computes."""
    console.rule("1. Self-attention on three inputs")
    attention = build(presets.illustrated(), attention="written")
    assert isinstance(attention, MultiHeadAttention)
    x = torch.tensor([[1.0, 0, 1, 0], [0, 2, 0, 2], [1, 1, 1, 1]])
    with torch.no_grad():
        w_key = torch.tensor([[0.0, 0, 1], [1, 1, 0], [0, 1, 0], [1, 1, 0]])
        w_query = torch.tensor([[1.0, 0, 1], [1, 0, 0], [0, 0, 1], [0, 1, 1]])
        w_value = torch.tensor([[0.0, 2, 0], [0, 3, 0], [1, 0, 3], [1, 1, 0]])
        attention.to_keys.weight.copy_(w_key.T)
        attention.to_queries.weight.copy_(w_query.T)
        attention.to_values.weight.copy_(w_value.T)
        queries, keys, values = x @ w_query, x @ w_key, x @ w_value
        attended = attend_written(queries[None], keys[None], values[None], divisor=1.0)
        output = attention(x[None])[0]
    names = [f"input {i + 1}" for i in range(3)]
    show("queries = x · W_Q", queries, names)
    show("keys = x · W_K", keys, names)
    show("values = x · W_V", values, names)
    show("scores = queries · keysᵀ", queries @ keys.T, names, names)
    show("weights = softmax(scores), each row sums to 1", attended.weights[0], names, names)
    show("outputs = weights · values", attended.context[0], names)
    assert torch.allclose(output, attended.context[0])


def learned_example() -> None:
    """A small encoder-decoder learns one pair, then says the answer word by word."""
    console.rule("2. An encoder-decoder learns a sentence")
    question, answer = "When you play the game of thrones", "you win or you die"
    words = WordTokenizer.build([question, answer], case="keep")
    start, end = words.special.start, words.special.end
    assert start is not None and end is not None
    torch.manual_seed(0)
    config = presets.vaswani_2017_base(
        vocab_size=words.vocab_size, d_model=32, n_heads=4, n_layers=2, d_ff=64, dropout=0.0
    )
    model = build(config)
    assert isinstance(model, Seq2Seq)
    source = torch.tensor([words.encode(question)])
    target = torch.tensor([words.encode(answer, start=True, end=True)])
    optimiser = torch.optim.AdamW(model.parameters(), lr=3e-3)
    began = time.perf_counter()
    for step in range(61):
        logits = model(source, target[:, :-1])  # the answer to position t is token t + 1
        loss = F.cross_entropy(logits[0], target[0, 1:])
        if step % 20 == 0:
            console.print(f"step {step:>3}   loss {loss.item():.4f}")
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    console.print(f"trained in {time.perf_counter() - began:.1f} s\n")

    model.eval()
    with torch.no_grad(), record_attention(model) as weights:
        memory, cache, said = model.encode(source), model.start_cache(), [start]
        while said[-1] != end and len(said) < 10:
            logits = model.decode(torch.tensor([[said[-1]]]), memory, cache=cache)
            said.append(int(logits[0, -1].argmax()))
    console.print(f"[bold]{question}[/bold] → [bold]{words.decode(said)}[/bold]\n")
    looked = torch.cat([w[0, 0] for w in weights["decoder.blocks.1.cross_attention"]])
    said_words = words.display_tokens(said[1:])
    show("where each word looked (last block, head 0)", looked, said_words, question.split())


if __name__ == "__main__":
    worked_example()
    learned_example()
