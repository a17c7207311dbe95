"""Do words that belong together get a large product? "the cat walks on the street", trained.

Basic self-attention has no parameters: what attends to what is decided by the embeddings alone,
v_i · v_j. The text expects v_cat · v_walks to become large and positive, since a verb must find
out who does it, and the products of "the" with other words small or negative, since it helps none
of them. The task here asks just that, on all sentences "the NOUN VERB on the PLACE": from the
output of each word, which word it is; from the output of the verb, who does it (or, as a control,
where, or both). Nothing in the task mentions "the", nor any product.

A product says less than the text hopes. On average nouns and verbs get large ones and nouns and
places do not, but a product that the task never asks for may end up anywhere: single pairs of a
noun and a place exceed those of noun and verb. And where the verb is asked for both, noun and place
become related most of all, though no question connects them: both are what the verb looks for.
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

SENTENCE = ("the", "cat", "walks", "on", "the", "street")
NOUNS = ("cat", "dog", "bird", "girl")
VERBS = ("walks", "runs", "sits", "sleeps")
PLACES = ("street", "roof", "grass", "floor")

Question = Literal["who", "where", "who and where"]

_WORDS = (*NOUNS, *VERBS, *PLACES, "the", "on")
_VERB_AT = 2
# The candidates for an answer, and where the right one stands in a sentence.
_ANSWERS = {"who": (NOUNS, 1), "where": (PLACES, 5)}


@dataclass(frozen=True)
class Relatedness:
    """The products of all word vectors, before and after training."""

    words: tuple[str, ...]
    products: Float[Tensor, "V V"]
    untrained: Float[Tensor, "V V"]
    sentence_weights: Float[Tensor, "T T"]
    """Attention weights of "the cat walks on the street" after training."""
    accuracy: float
    """Share of verbs from which the answer is read correctly; of two questions, the lower one."""

    def product(self, one: str, other: str) -> float:
        """v_one · v_other after training."""
        return float(self.products[self.words.index(one), self.words.index(other)])

    def mean_product(self, some: tuple[str, ...], others: tuple[str, ...]) -> float:
        """The average product of two groups of words; equal words are left out."""
        pairs = self.products_between(some, others)
        return sum(pairs) / len(pairs)

    def products_between(self, some: tuple[str, ...], others: tuple[str, ...]) -> list[float]:
        """The products of two groups of words, pair by pair; equal words are left out."""
        return [self.product(a, b) for a, b in product(some, others) if a != b]


def learn_relatedness(
    asks: Question = "who", *, d_model: int = 16, steps: int = 200, seed: int = 0
) -> Relatedness:
    """Train the embeddings on all 64 sentences, and read the products off."""
    ids = _all_sentences()
    asked = [question for question in _ANSWERS if question in asks]
    answers = [ids[:, at] - _WORDS.index(group[0]) for group, at in (_ANSWERS[q] for q in asked)]
    with seeded(seed):
        table = nn.Parameter(torch.randn(len(_WORDS), d_model) / d_model**0.5)
        to_word = nn.Linear(d_model, len(_WORDS))
        to_answers = [nn.Linear(d_model, len(_ANSWERS[question][0])) for question in asked]
    untrained = (table @ table.T).detach()

    def loss() -> Tensor:
        outputs = basic_self_attention(table[ids])
        which_word = F.cross_entropy(to_word(outputs).flatten(0, 1), ids.flatten())
        readings = zip(to_answers, answers, strict=True)
        verb = outputs[:, _VERB_AT]
        return which_word + sum(F.cross_entropy(read(verb), right) for read, right in readings)

    parameters = [table, *to_word.parameters()]
    parameters += [parameter for read in to_answers for parameter in read.parameters()]
    fit(parameters, loss, steps=steps, learning_rate=0.03)
    with torch.no_grad():
        verb = basic_self_attention(table[ids])[:, _VERB_AT]
        vectors = table[torch.tensor([_WORDS.index(word) for word in SENTENCE])]
        return Relatedness(
            words=_WORDS,
            products=table @ table.T,
            untrained=untrained,
            sentence_weights=torch.softmax(vectors @ vectors.T, dim=-1),
            accuracy=min(accuracy(r(verb), a) for r, a in zip(to_answers, answers, strict=True)),
        )


def _all_sentences() -> Int[Tensor, "B T"]:
    sentences = [
        ("the", noun, verb, "on", "the", place)
        for noun, verb, place in product(NOUNS, VERBS, PLACES)
    ]
    return torch.tensor([[_WORDS.index(word) for word in sentence] for sentence in sentences])
