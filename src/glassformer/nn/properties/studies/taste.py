"""Do features learned from likes alone reflect content? A made audience decides.

Films have hidden content (how romantic, how funny), people hidden tastes for it, and a like is
taste · content + chance > 0; without chance, likes say nothing of the size of content. A model that
sees a part of the likes and nothing else fits one vector for each film and each
person, as a recommender does.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn

from glassformer.nn.properties.studies.training import fit, seeded
from glassformer.nn.shapes import Bool, Float, Tensor

_N_PEOPLE, _N_FILMS, _N_FEATURES = 120, 40, 2
_KNOWN = 0.4
"""Share of the likes that the model sees."""


@dataclass(frozen=True)
class Tastes:
    """What was learned from a part of the likes, and what it was learned from."""

    people: Float[Tensor, "P N"]
    films: Float[Tensor, "M N"]
    """Learned features; the first varies most among the films."""
    likes: Float[Tensor, "P M"]
    known: Bool[Tensor, "P M"]
    content: Float[Tensor, "M C"]
    """What the model never saw."""

    @property
    def guessed(self) -> float:
        """Share of the likes that it did not see and gets right."""
        right = (self.people @ self.films.T > 0) == (self.likes > 0)
        return float(right[~self.known].double().mean())

    @property
    def explained(self) -> float:
        """Share of the content's variance that the best linear map of the features explains."""
        with_constant = F.pad(self.films, (0, 1), value=1.0)
        solution = torch.linalg.lstsq(with_constant, self.content).solution
        left = (self.content - with_constant @ solution).square().sum()
        return 1 - float(left / (self.content - self.content.mean(dim=0)).square().sum())


def content_recovered(
    *, chance: float = 1.0, shuffled: bool = False, steps: int = 200, seed: int = 0
) -> float:
    """R² of hidden content, read by a linear map from the learned film vectors.

    `shuffled` gives each like to a random film: the control, in which there is nothing to find.
    """
    return learn_tastes(chance=chance, shuffled=shuffled, steps=steps, seed=seed).explained


def learn_tastes(
    content: Float[Tensor, "M C"] | None = None,
    *,
    tastes: Float[Tensor, "P C"] | None = None,
    chance: float = 1.0,
    shuffled: bool = False,
    steps: int = 200,
    seed: int = 0,
) -> Tastes:
    """Fit two features to likes; content and tastes are drawn at random where none are given."""
    with seeded(seed):
        content = torch.randn(_N_FILMS, _N_FEATURES) if content is None else content
        if tastes is None:
            tastes = torch.randn(_N_PEOPLE, content.size(1))
        n_people, n_films = len(tastes), len(content)
        likes = (tastes @ content.T + chance * torch.randn(n_people, n_films) > 0).float()
        if shuffled:
            likes = torch.stack([row[torch.randperm(n_films)] for row in likes])
        known = torch.rand(n_people, n_films) < _KNOWN
        people = nn.Parameter(0.1 * torch.randn(n_people, _N_FEATURES))
        films = nn.Parameter(0.1 * torch.randn(n_films, _N_FEATURES))

    def loss() -> Tensor:
        logits = people @ films.T
        size = people.square().mean() + films.square().mean()  # or the vectors grow for ever
        return F.binary_cross_entropy_with_logits(logits[known], likes[known]) + 0.01 * size

    fit([people, films], loss, steps=steps, learning_rate=0.05)
    turn = torch.linalg.svd(films.detach()).Vh.T  # a turn of both leaves every product as it is
    return Tastes(people.detach() @ turn, films.detach() @ turn, likes, known, content)
