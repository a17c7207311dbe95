"""Our matrix factorisation on MovieLens: beside scikit-surprise's SVD, and what its vectors know.

    GLASSFORMER_DATA=… python benchmarks/movielens.py          (needs: pip install scikit-surprise)
    GLASSFORMER_DATA=… python benchmarks/movielens.py genres

The first tests both on the same fifth of the ratings; ratio last. SVD has its default settings and
learns from all others; ours holds some of those out, to choose its best update by.

The second asks whether the film vectors, learned from ratings alone, reflect what films are about.
A linear map reads from the vectors whether a film has a genre; it is fitted to four fifths of the
films rated often and judged on the others, each fifth in turn. The figure is the share of pairs, a
film of the genre and one that is not, in which the first gets the higher score (the area under the
ROC curve): one half is guessing. The control is the same with the genres dealt out at random. The
last line is what `src/glassformer/claims/stored.json` holds.
"""

import json
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file

from glassformer.data.corpora import find
from glassformer.data.readers import Ratings, read_genres, read_ratings, split_ratings
from glassformer.training import RunResult, recipe, train

RATED_OFTEN, FEWEST, FOLDS, ROUNDS, RIDGE = 50, 30, 5, 5, 30.0
Numbers = NDArray[np.float64]
Truths = NDArray[np.bool_]


def theirs(seed: int) -> float:
    """RMSE of SVD with its defaults."""
    from surprise import SVD, Dataset, Reader, accuracy

    fit, _, test = split_ratings(read_ratings(find("movielens")), 0.0)
    learnt = Dataset.load_from_df(Frame(fit), Reader(rating_scale=(0.5, 5))).build_full_trainset()
    model = SVD(random_state=seed).fit(learnt)
    rows = list(zip(test.people.tolist(), test.films.tolist(), test.stars.tolist(), strict=True))
    return float(accuracy.rmse(model.test(rows), verbose=False))


class Frame:
    """What surprise asks of a table: its rows."""

    def __init__(self, ratings: Ratings) -> None:
        self._columns = (ratings.people.tolist(), ratings.films.tolist(), ratings.stars.tolist())

    def itertuples(self, index: bool = False) -> list[tuple[int, int, float]]:
        assert not index
        return list(zip(*self._columns, strict=True))


def ours() -> tuple[RunResult, Numbers]:
    """The recipe's run, and the vectors of the films."""
    with tempfile.TemporaryDirectory() as folder:
        result = train(recipe("movielens"), Path(folder) / "run")
        weights = load_file(Path(folder) / "run" / "model" / "model.safetensors")
    return result, weights["films.weight"].astype(np.float64)


def ranked_right(scores: Numbers, has: Truths) -> float:
    """Share of pairs of one that has it and one that has not in which the first scores higher."""
    ranks = np.empty(len(scores))
    ranks[np.argsort(scores, kind="stable")] = np.arange(1, len(scores) + 1)
    least = has.sum() * (has.sum() + 1) / 2
    return float((ranks[has].sum() - least) / (has.sum() * (~has).sum()))


def read_from(vectors: Numbers, has: Truths, chance: np.random.Generator) -> float:
    """How well a linear map reads a property from vectors that it was not fitted to."""
    spread = (vectors - vectors.mean(axis=0)) / vectors.std(axis=0)
    inputs = np.column_stack([spread, np.ones(len(spread))])
    fold = chance.permutation(len(inputs)) % FOLDS
    scores = np.empty(len(inputs))
    for held_out in range(FOLDS):
        fitted = inputs[fold != held_out]
        gram = fitted.T @ fitted + RIDGE * np.eye(inputs.shape[1])
        map_ = np.linalg.solve(gram, fitted.T @ np.where(has[fold != held_out], 1.0, -1.0))
        scores[fold == held_out] = inputs[fold == held_out] @ map_
    return ranked_right(scores, has)


def genres() -> None:
    """What the learned vectors know of each genre."""
    found = find("movielens")
    ratings, listed = read_ratings(found), read_genres(found)
    counts = np.bincount(ratings.films, minlength=len(listed))
    often = np.flatnonzero(counts >= RATED_OFTEN)
    vectors = ours()[1][often]
    chance = np.random.default_rng(0)
    read: dict[str, float] = {}
    control = []
    for genre in sorted(set().union(*(listed[film] for film in often))):
        has = np.array([genre in listed[film] for film in often])
        if min(has.sum(), (~has).sum()) >= FEWEST:
            read[genre] = float(np.mean([read_from(vectors, has, chance) for _ in range(ROUNDS)]))
            dealt = [read_from(vectors, chance.permutation(has), chance) for _ in range(ROUNDS)]
            control.append(float(np.mean(dealt)))
            shares = f"{read[genre]:.3f}   dealt out {control[-1]:.3f}"
            print(f"{genre:<12} {has.sum():>4} films   {shares}")
    mean = float(np.mean(list(read.values())))
    figures = {"people": int(ratings.people.max()) + 1, "ratings": len(ratings)}
    figures |= {"films": len(often), "genres": len(read)}
    means = {"mean": mean, "control": float(np.mean(control))}
    print("movielens", json.dumps(figures | _rounded(means)))
    print("movielens genres", json.dumps(_rounded(read)))


def _rounded(shares: dict[str, float]) -> dict[str, float]:
    return {name: round(share, 4) for name, share in shares.items()}


def main() -> None:
    """Both models on the same split."""
    began = time.perf_counter()
    svd = [theirs(seed) for seed in range(3)]
    middle = time.perf_counter()
    mine = ours()[0].scores["test"]["rmse"]
    end = time.perf_counter()
    print(f"scikit-surprise SVD, 3 seeds   RMSE {np.mean(svd):.4f}   {(middle - began) / 3:.1f} s")
    print(f"glassformer train movielens    RMSE {mine:.4f}   {end - middle:.1f} s")
    print(f"ours / theirs                       {mine / np.mean(svd):.4f}")


if __name__ == "__main__":
    genres() if sys.argv[1:] == ["genres"] else main()
