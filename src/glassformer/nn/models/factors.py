"""Recommending: a vector for each person and each film, whose dot product is the rating.

No Transformer, but the same idea: what matches has a large dot product.
Dims: N pairs, D width.
"""

import torch
from torch import nn

from glassformer.errors import InputError
from glassformer.nn.config import ModelConfig
from glassformer.nn.shapes import Float, Int, Tensor


class MatrixFactorisation(nn.Module):
    """rating = mean + what the person tends to give + what the film tends to get + person · film.

    `vocab_size` is the number of people, `target_vocab_size` that of films, `d_model` the width.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        n_people, n_films = config.vocab_size, config.target_vocab_size or config.vocab_size
        self.people = nn.Embedding(n_people, config.d_model)
        self.films = nn.Embedding(n_films, config.d_model)
        self.of_person = nn.Embedding(n_people, 1)
        self.of_film = nn.Embedding(n_films, 1)
        self.mean = nn.Parameter(torch.full((1,), 3.5))
        for table in (self.people, self.films):
            nn.init.normal_(table.weight, std=0.1)
        for table in (self.of_person, self.of_film):
            nn.init.zeros_(table.weight)

    def forward(self, person: Int[Tensor, " N"], film: Int[Tensor, " N"]) -> Float[Tensor, " N"]:
        """The rating of each pair."""
        try:
            match = (self.people(person) * self.films(film)).sum(dim=-1)
        except IndexError:  # found by the lookup itself, as in TokenEmbedding
            raise InputError(
                f"people must be in 0..{self.people.num_embeddings - 1} and films in "
                f"0..{self.films.num_embeddings - 1}, got up to {int(person.max())} and "
                f"{int(film.max())}"
            ) from None
        habits = self.of_person(person) + self.of_film(film)
        rating: Tensor = self.mean + habits.squeeze(-1) + match
        return rating
