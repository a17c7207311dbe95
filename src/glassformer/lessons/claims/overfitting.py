"""Does a mask help against overfitting? A small classifier learns few texts and is shown others."""

import torch
import torch.nn.functional as F
from torch import Tensor

from glassformer.lessons.claims.made import causal
from glassformer.nn import Classifier, presets
from glassformer.nn.properties.studies.training import accuracy, fit, seeded

__all__ = ["held_out_accuracy"]

_N_WORDS, _LENGTH = 12, 8


def held_out_accuracy(*, masked: bool, n_texts: int = 64, seed: int = 0) -> float:
    """Share right on fresh texts: does a text have more words of the first half than of the second?

    The classifier is trained until it knows its few texts by heart; `masked` hides later words in
    every block.
    """
    config = presets.bloem_2024(
        vocab_size=_N_WORDS, d_model=16, n_heads=2, n_layers=1, max_len=_LENGTH
    )
    with seeded(seed):
        model = Classifier(config)
        texts, answers = _draw(n_texts)
        fresh, fresh_answers = _draw(1000)
    causal(model, masked)
    fit(
        model.parameters(),
        lambda: F.cross_entropy(model(texts), answers),
        steps=100,
        learning_rate=0.01,
    )
    with torch.no_grad():
        return accuracy(model(fresh), fresh_answers)


def _draw(n_texts: int) -> tuple[Tensor, Tensor]:
    texts = torch.randint(_N_WORDS, (n_texts, _LENGTH))
    return texts, ((texts < _N_WORDS // 2).sum(dim=1) > _LENGTH // 2).long()
