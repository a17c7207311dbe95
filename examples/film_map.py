"""A map of the MovieLens films by the factors that `glassformer train movielens` learns.

    GLASSFORMER_DATA=… python examples/film_map.py docs/figures/film-map.svg

Trains the recipe (seconds on a CPU); prints its error on held-out ratings, what the two main
directions of the film vectors correlate with, and recommendations for one person; then plots the
best-known films along the two directions in which mean rating and popularity grow. The picture is
derived from the MovieLens data set (ml-latest-small, F. M. Harper and J. A. Konstan 2015), whose
terms apply to it too: research use, no commercial use without permission, redistribution under the
same terms.
"""

import csv
import io
import re
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file

from glassformer.data.corpora import find, read_text
from glassformer.data.readers import Ratings, read_ratings
from glassformer.documents.data_charts import Axes, MapPoint, draw_map
from glassformer.training import recipe, train

RATED_OFTEN, SHOWN, PERSON = 50, 48, 0
KINDS = {
    "animation, children": ("Animation", "Children"),
    "science fiction": ("Sci-Fi",),
    "horror, thriller": ("Horror", "Thriller"),
    "comedy": ("Comedy",),
    "romance": ("Romance",),
    "action, adventure": ("Action", "Adventure"),
}
LONGEST = 24
Numbers = NDArray[np.float64]
Weights = dict[str, NDArray[np.float32]]


@dataclass(frozen=True)
class Film:
    """`kind` is the first of KINDS that matches the film's genres."""

    title: str
    year: int
    kind: str


def read_films(data: Path, ratings_file: Path) -> list[Film]:
    """The rated films, by index."""
    rated = {int(row["movieId"]) for row in rows_of(ratings_file)}
    by_id = {int(row["movieId"]): row for row in rows_of(data)}
    films = []
    for id_ in sorted(rated):
        found = re.match(r"(.*) \((\d{4})\)\s*$", by_id[id_]["title"])
        title, year = (found[1], int(found[2])) if found else (by_id[id_]["title"], 0)
        genres = set(by_id[id_]["genres"].split("|"))
        kind = next((kind for kind, names in KINDS.items() if genres & set(names)), "drama")
        films.append(Film(short_title(title), year, kind))
    return films


def short_title(listed: str) -> str:
    """`The Godfather` for `Godfather, The`; of a long title with a colon, the telling part."""
    plain = re.sub(r"^(.*), (The|A|An)$", r"\2 \1", listed.partition(" (")[0])
    plain = re.sub(r"^Star Wars: Episode (\w+).*", r"Star Wars \1", plain)
    if len(plain) <= LONGEST or ":" not in plain:
        return plain
    before, _, after = plain.partition(": ")
    return after if before.endswith(" Rings") else before


def rows_of(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(read_text(path), newline="")))


def principal(vectors: Numbers) -> Numbers:
    """The vectors projected onto their first two principal components."""
    centred = vectors - vectors.mean(axis=0)
    _, _, directions = np.linalg.svd(centred, full_matrices=False)
    return np.asarray(centred @ directions[:2].T)


def along(vectors: Numbers, fact: Numbers, apart_from: Numbers | None = None) -> Numbers:
    """The direction of the vectors, of length 1, that predicts a fact best (least squares).

    With `apart_from`, at a right angle to that direction.
    """
    centred = vectors - vectors.mean(axis=0)
    if apart_from is not None:
        centred = centred - np.outer(centred @ apart_from, apart_from)
    direction, *_ = np.linalg.lstsq(centred, fact - fact.mean(), rcond=None)
    return np.asarray(direction / np.linalg.norm(direction))


def unique_titles(films: list[Film]) -> list[str]:
    """Titles without duplicates: of those that were shortened to one, the year tells them apart."""
    counts = Counter(film.title for film in films)
    return [
        f"{film.title} ({film.year})" if counts[film.title] > 1 else film.title for film in films
    ]


def correlations(positions: Numbers, facts: dict[str, Numbers]) -> str:
    """What a direction correlates with, strongest first."""
    found = {name: float(np.corrcoef(positions, fact)[0, 1]) for name, fact in facts.items()}
    ranked = sorted(found.items(), key=lambda item: -abs(item[1]))
    return ", ".join(f"{name} {share:+.2f}" for name, share in ranked)


def recommended(
    weights: dict[str, NDArray[np.float32]], ratings: Ratings, person: int
) -> list[int]:
    """Films that a person has not rated, by predicted rating."""
    match = weights["films.weight"] @ weights["people.weight"][person]
    expected = match + weights["of_film.weight"][:, 0]
    expected[ratings.films[ratings.people == person]] = -np.inf
    return [int(film) for film in np.argsort(-expected)[:8]]


def main() -> None:
    found = find("movielens")
    ratings = read_ratings(found)
    films = read_films(
        found.file("movielens/movies.csv.xz"), found.file("movielens/ratings.csv.xz")
    )
    with tempfile.TemporaryDirectory() as folder:
        scores = train(recipe("movielens"), Path(folder) / "run").scores
        weights = load_file(Path(folder) / "run" / "model" / "model.safetensors")
    print(f"RMSE on held-out ratings: {scores['test']['rmse']:.4f}")
    counts = np.bincount(ratings.films, minlength=len(films))
    often = np.flatnonzero(counts >= RATED_OFTEN)
    places = principal(weights["films.weight"][often].astype(np.float64))
    stars = np.bincount(ratings.films, ratings.stars, len(films)) / counts
    facts = {
        "year": np.array([films[film].year for film in often], dtype=np.float64),
        "number of ratings": np.log(counts[often]),
        "mean rating": stars[often],
    }
    for axis in (0, 1):
        print(f"direction {axis + 1} correlates with: {correlations(places[:, axis], facts)}")
    liked = [films[film].title for film in recommended(weights, ratings, PERSON)]
    print(f"for person {PERSON + 1}, unseen: {'; '.join(liked)}")
    order = np.argsort(-counts[often], kind="stable")[:SHOWN]
    vectors = weights["films.weight"][often].astype(np.float64)
    rated = along(vectors, facts["mean rating"])
    known = along(vectors, facts["number of ratings"], apart_from=rated)
    across, up = (vectors - vectors.mean(axis=0)) @ rated, (vectors - vectors.mean(axis=0)) @ known
    shown = [films[often[at]] for at in order]
    points = [
        MapPoint(float(across[at]), float(up[at]), title, film.kind)
        for at, film, title in zip(order, shown, unique_titles(shown), strict=True)
    ]
    axes = Axes(
        f"rated higher (r = {np.corrcoef(across, facts['mean rating'])[0, 1]:.2f})",
        f"rated more often (r = {np.corrcoef(up, facts['number of ratings'])[0, 1]:.2f})",
    )
    title = "Well-known films by their learned vectors: how well rated, how often"
    Path(sys.argv[1]).write_text(draw_map(title, points, axes, height=720).svg(), encoding="utf-8")


if __name__ == "__main__":
    main()
