"""MovieLens: who gave which film how many stars."""

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from glassformer.data.batches import Chance, RatingBatch
from glassformer.data.corpora import Found
from glassformer.data.examples import Examples
from glassformer.data.text_files import read_text
from glassformer.data.token_store import Ids
from glassformer.errors import DataError


@dataclass(frozen=True)
class Ratings:
    """Numbers of people and films (from 0, in the order of their ids) and the stars given."""

    people: Ids
    films: Ids
    stars: NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.stars)

    def some(self, indices: Ids) -> "Ratings":
        """A selection."""
        return Ratings(self.people[indices], self.films[indices], self.stars[indices])


def read_ratings(found: Found) -> Ratings:
    """All ratings, in the order of the file."""
    path = found.file("movielens/ratings.csv.xz")
    rows = csv.DictReader(io.StringIO(read_text(path), newline=""))
    try:
        table = [(int(r["userId"]), int(r["movieId"]), float(r["rating"])) for r in rows]
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(
            "{path}, line {line_num}: expected a rating, got {error!r}",
            path=path,
            line_num=rows.line_num,
            error=error,
        ) from None
    people, films, stars = (np.array(column) for column in zip(*table, strict=True))
    _, person_numbers = np.unique(people, return_inverse=True)
    _, film_numbers = np.unique(films, return_inverse=True)
    return Ratings(
        person_numbers.astype(np.int64), film_numbers.astype(np.int64), stars.astype(np.float32)
    )


def read_titles(found: Found) -> tuple[str, ...]:
    """The title of each film that was rated, by its number."""
    titles = {int(row["movieId"]): row["title"] for row in _rows(found, "movies.csv.xz")}
    rated = {int(row["movieId"]) for row in _rows(found, "ratings.csv.xz")}
    return tuple(titles.get(film, f"film {film}") for film in sorted(rated))


def read_genres(found: Found) -> tuple[frozenset[str], ...]:
    """The genres of each film that was rated, by its number."""
    genres = {int(row["movieId"]): row["genres"] for row in _rows(found, "movies.csv.xz")}
    rated = {int(row["movieId"]) for row in _rows(found, "ratings.csv.xz")}
    return tuple(frozenset(genres.get(film, "").split("|")) for film in sorted(rated))


def _rows(found: Found, name: str) -> Iterator[dict[str, str]]:
    path = found.file(f"movielens/{name}")
    return csv.DictReader(io.StringIO(read_text(path), newline=""))


def split_ratings(ratings: Ratings, validation: float) -> tuple[Ratings, Ratings, Ratings]:
    """A fifth to test with, some of the rest to choose by, drawn by a fixed seed."""
    order = np.random.default_rng(2018).permutation(len(ratings))
    n_test = len(ratings) // 5
    n_valid = round((len(ratings) - n_test) * validation)
    test, valid, train = np.split(order, [n_test, n_test + n_valid])
    return ratings.some(train), ratings.some(valid), ratings.some(test)


@dataclass(frozen=True)
class RatingExamples(Examples[RatingBatch]):
    """Ratings to be guessed."""

    ratings: Ratings

    @property
    def lengths(self) -> Ids:
        """All the same."""
        return np.ones(len(self.ratings), dtype=np.int64)

    def batch(self, indices: Ids, chance: Chance, width: int = 0) -> RatingBatch:  # noqa: ARG002  no luck in it
        """Some ratings."""
        some = self.ratings.some(indices)
        return RatingBatch(
            labels=torch.from_numpy(some.stars),
            n_scored=len(some),
            n_tokens=len(some),
            people=torch.from_numpy(some.people),
            films=torch.from_numpy(some.films),
        )
