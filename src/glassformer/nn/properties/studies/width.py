"""How wide must the feed-forward be? Width 4k and others, on two tasks of different hardness.

The text calls 4k arbitrary: less may do and saves memory, but it should not be less than k. Here a
small classifier learns a function of two words: an easy one (the class of the second word), which
attention alone can do, and a hard one (a random class for each pair), which must be memorised.
"""

from dataclasses import dataclass
from itertools import product
from typing import Literal

import torch
import torch.nn.functional as F

from glassformer.nn.description import count_parameters
from glassformer.nn.models import Classifier
from glassformer.nn.presets import bloem_2024
from glassformer.nn.properties.studies.training import accuracy, fit, seeded
from glassformer.nn.shapes import Tensor

PairTask = Literal["second word", "random pairs"]

_N_WORDS, _N_CLASSES, _D_MODEL = 20, 8, 8


@dataclass(frozen=True)
class WidthResult:
    """What a feed-forward of one width costs and what it is worth."""

    task: PairTask
    d_model: int
    d_ff: int
    accuracy: float
    """On all pairs, which are those it was trained on: what fits into it."""
    loss: float
    parameters: int
    """Of the whole classifier."""
    activations: int
    """Numbers kept for each position between the two layers."""


def learn_at_width(
    d_ff: int, task: PairTask = "random pairs", *, steps: int = 250, seed: int = 0
) -> WidthResult:
    """Train a one-block classifier on all 400 pairs of 20 words; k is 8."""
    pairs = torch.tensor(list(product(range(_N_WORDS), repeat=2)))
    sizes = bloem_2024(
        vocab_size=_N_WORDS,
        d_model=_D_MODEL,
        n_heads=2,
        n_layers=1,
        max_len=2,
        n_classes=_N_CLASSES,
    )
    with seeded(seed):
        random_classes = torch.randint(_N_CLASSES, (len(pairs),))
        model = Classifier(sizes.with_(feed_forward__d_ff=d_ff))
    answers = random_classes if task == "random pairs" else pairs[:, 1] % _N_CLASSES

    def loss() -> Tensor:
        return F.cross_entropy(model(pairs), answers)

    last = fit(model.parameters(), loss, steps=steps, learning_rate=0.01)
    with torch.no_grad():
        right = accuracy(model(pairs), answers)
    return WidthResult(
        task=task,
        d_model=_D_MODEL,
        d_ff=d_ff,
        accuracy=right,
        loss=last,
        parameters=count_parameters(model),
        activations=d_ff,
    )
