"""The best of what a beam search completed: what sorting each text's list would give."""

import numpy as np
import pytest

from glassformer.decoding.endings import Ended, Endings


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("n_best", [1, 3, 100])
def test_the_best_are_those_of_sorted_lists_and_of_equal_ones_the_earliest(
    seed: int, n_best: int
) -> None:
    draw = np.random.default_rng(seed)
    endings = Endings()
    lists: dict[int, list[tuple[float, int]]] = {text: [] for text in range(4)}
    for n in (3, 0, 12, 1, 30):
        texts, tokens = draw.integers(4, size=n), draw.integers(1_000_000, size=n)
        scores = np.where(draw.random(n) < 0.2, -np.inf, -draw.integers(3, size=n).astype(float))
        endings.add(Ended(texts, tokens, tokens, tokens, 2 * scores, scores))
        for text, score, token in zip(texts, scores, tokens, strict=True):
            lists[int(text)].append((float(score), int(token)))
    expected = [
        (text, token)
        for text, found in lists.items()
        for _, token in sorted(found, key=lambda one: -one[0])[:n_best]
    ]
    best = endings.best(n_best)
    assert list(zip(best.texts.tolist(), best.tokens.tolist(), strict=True)) == expected
    assert np.array_equal(best.totals, 2 * best.scores)
    assert np.array_equal(best.places, best.tokens)
