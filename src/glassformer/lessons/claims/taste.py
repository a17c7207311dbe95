"""Do features learned from likes alone reflect content? A made audience decides.

Films have hidden content (how romantic, how funny), people hidden tastes for it, and a like is
taste · content + chance > 0; without chance, likes say nothing of the size of content. A model that
sees a part of the likes and nothing else fits one vector for each film and each
person, as a recommender does.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from glassformer.nn.properties.studies.training import fit, seeded

__all__ = ["content_recovered"]

_N_PEOPLE, _N_FILMS, _N_FEATURES = 120, 40, 2


def content_recovered(
    *, chance: float = 1.0, shuffled: bool = False, steps: int = 200, seed: int = 0
) -> float:
    """R² of the hidden content, read by a linear map from the learned film vectors.

    `shuffled` gives each like to a random film: the control, in which there is nothing to find.
    """
    with seeded(seed):
        content = torch.randn(_N_FILMS, _N_FEATURES)
        tastes = torch.randn(_N_PEOPLE, _N_FEATURES)
        likes = (tastes @ content.T + chance * torch.randn(_N_PEOPLE, _N_FILMS) > 0).float()
        if shuffled:
            likes = torch.stack([row[torch.randperm(_N_FILMS)] for row in likes])
        known = torch.rand(_N_PEOPLE, _N_FILMS) < 0.4
        people = nn.Parameter(0.1 * torch.randn(_N_PEOPLE, _N_FEATURES))
        films = nn.Parameter(0.1 * torch.randn(_N_FILMS, _N_FEATURES))

    def loss() -> Tensor:
        logits = people @ films.T
        size = people.square().mean() + films.square().mean()  # or the vectors grow for ever
        return F.binary_cross_entropy_with_logits(logits[known], likes[known]) + 0.01 * size

    fit([people, films], loss, steps=steps, learning_rate=0.05)
    return _explained(films.detach(), content)


def _explained(features: Tensor, content: Tensor) -> float:
    """Share of the content's variance that the best linear map of the features explains."""
    with_constant = F.pad(features, (0, 1), value=1.0)
    solution = torch.linalg.lstsq(with_constant, content).solution
    left = (content - with_constant @ solution).square().sum()
    return 1 - float(left / (content - content.mean(dim=0)).square().sum())
