"""Our matrix factorisation beside scikit-surprise's SVD, on the same split; ratio last.

    GLASSFORMER_DATA=… python benchmarks/movielens.py     (needs: pip install scikit-surprise)

Both are tested on the same fifth of the ratings. SVD has its default settings and learns from all
others; ours holds some of those out, to choose its best update by.
"""

import tempfile
import time
from pathlib import Path

import numpy as np
from surprise import SVD, Dataset, Reader, accuracy

from glassformer.data import find
from glassformer.data.ratings import Ratings, read_ratings, split_ratings
from glassformer.training import recipe, train


def theirs(seed: int) -> float:
    """RMSE of SVD with its defaults."""
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


def ours() -> float:
    """RMSE of the recipe."""
    with tempfile.TemporaryDirectory() as folder:
        return train(recipe("movielens"), Path(folder) / "run").scores["test"]["rmse"]


def main() -> None:
    began = time.perf_counter()
    svd = [theirs(seed) for seed in range(3)]
    middle = time.perf_counter()
    mine = ours()
    end = time.perf_counter()
    print(f"scikit-surprise SVD, 3 seeds   RMSE {np.mean(svd):.4f}   {(middle - began) / 3:.1f} s")
    print(f"glassformer train movielens    RMSE {mine:.4f}   {end - middle:.1f} s")
    print(f"ours / theirs                       {mine / np.mean(svd):.4f}")


if __name__ == "__main__":
    main()
