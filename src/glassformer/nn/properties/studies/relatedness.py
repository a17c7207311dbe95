"""Do words that belong together get a large product? "the cat walks on the street", trained.

Basic self-attention has no parameters: what attends to what is decided by the embeddings alone,
v_i · v_j. The text expects v_cat · v_walks to become large and positive, since a verb must find
out who does it, and the products of "the" with other words small or negative, since it helps none
of them. The task here asks just that, on all sentences "the NOUN VERB on the PLACE": from the
output of each word, which word it is; from the output of the verb, who does it (or, as a control,
where). Nothing in the task mentions "the", nor any product.
"""

from dataclasses import dataclass
from itertools import product
from typing import Literal

import torch
import torch.nn.functional as F
from torch import nn

from glassformer.nn.attention import basic_self_attention
from glassformer.nn.properties.studies.training import accuracy, fit, seeded
from glassformer.nn.shapes import Float, Int, Tensor

__all__ = ["NOUNS", "PLACES", "SENTENCE", "VERBS", "Question", "Relatedness", "learn_relatedness"]

SENTENCE = ("the", "cat", "walks", "on", "the", "street")
NOUNS = ("cat", "dog", "bird", "girl")
VERBS = ("walks", "runs", "sits", "sleeps")
PLACES = ("street", "roof", "grass", "floor")

Question = Literal["who", "where"]

_WORDS = (*NOUNS, *VERBS, *PLACES, "the", "on")
_VERB_AT = 2


@dataclass(frozen=True)
class Relatedness:
    """The products of all word vectors, before and after training."""

    words: tuple[str, ...]
    products: Float[Tensor, "V V"]
    untrained: Float[Tensor, "V V"]
    sentence_weights: Float[Tensor, "T T"]
    """Attention weights of "the cat walks on the street" after training."""
    accuracy: float
    """Share of verbs from which the answer is read correctly."""

    def product(self, one: str, other: str) -> float:
        """v_one · v_other after training."""
        return float(self.products[self.words.index(one), self.words.index(other)])

    def mean_product(self, some: tuple[str, ...], others: tuple[str, ...]) -> float:
        """The average product of two groups of words; equal words are left out."""
        pairs = [self.product(a, b) for a, b in product(some, others) if a != b]
        return sum(pairs) / len(pairs)


def learn_relatedness(
    asks: Question = "who", *, d_model: int = 16, steps: int = 200, seed: int = 0
) -> Relatedness:
    """Train the embeddings on all 64 sentences, and read the products off."""
    ids = _all_sentences()
    candidates, answer_at = (NOUNS, 1) if asks == "who" else (PLACES, 5)
    answers = ids[:, answer_at] - _WORDS.index(candidates[0])
    with seeded(seed):
        table = nn.Parameter(torch.randn(len(_WORDS), d_model) / d_model**0.5)
        to_word = nn.Linear(d_model, len(_WORDS))
        to_answer = nn.Linear(d_model, len(candidates))
    untrained = (table @ table.T).detach()

    def loss() -> Tensor:
        outputs = basic_self_attention(table[ids])
        which_word = F.cross_entropy(to_word(outputs).flatten(0, 1), ids.flatten())
        return which_word + F.cross_entropy(to_answer(outputs[:, _VERB_AT]), answers)

    parameters = [table, *to_word.parameters(), *to_answer.parameters()]
    fit(parameters, loss, steps=steps, learning_rate=0.03)
    with torch.no_grad():
        answered = to_answer(basic_self_attention(table[ids])[:, _VERB_AT])
        vectors = table[torch.tensor([_WORDS.index(word) for word in SENTENCE])]
        return Relatedness(
            words=_WORDS,
            products=table @ table.T,
            untrained=untrained,
            sentence_weights=torch.softmax(vectors @ vectors.T, dim=-1),
            accuracy=accuracy(answered, answers),
        )


def _all_sentences() -> Int[Tensor, "B T"]:
    sentences = [
        ("the", noun, verb, "on", "the", place)
        for noun, verb, place in product(NOUNS, VERBS, PLACES)
    ]
    return torch.tensor([[_WORDS.index(word) for word in sentence] for sentence in sentences])
