"""Explanations of dot products with 3, 64 and 512 terms.

    python examples/explain_lengths.py

Prints the three explanations that docs/trace.md shows: a score of "illustrated self-attention"
(head width 3), a score of the base Transformer (head width 64), and one of its queries (model
width 512), the last two with random parameters.
"""

import torch

from glassformer import build
from glassformer.nn import MultiHeadAttention, presets
from glassformer.tracing import Trace, trace


def illustrated() -> Trace:
    """The worked example of three inputs."""
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
    return trace(attention, x)


def base_transformer() -> Trace:
    """One attention layer of the base Transformer, with random parameters."""
    torch.manual_seed(0)
    config = presets.vaswani_2017_base()
    attention = MultiHeadAttention(config.d_model, config.attention)
    attention.implementation = "written"
    return trace(attention, torch.randn(1, 4, config.d_model))


def main() -> None:
    base = base_transformer()
    cells = (
        illustrated()["scores"][0, 1, 2],
        base["scores"][3, 0, 1],
        base["projected_queries"][0, 7],
    )
    for cell in cells:
        print(cell.explain(), end="\n\n")


if __name__ == "__main__":
    main()
