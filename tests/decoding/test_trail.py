"""Texts read back from a trail are those that copying every text at every step gives."""

import numpy as np
import pytest

from glassformer.decoding.trail import Trail


@pytest.mark.parametrize("seed", range(5))
def test_a_trail_is_what_copying_gives(seed: int) -> None:
    draw = np.random.default_rng(seed)
    trail = Trail(6)
    copied: list[list[list[int]]] = [[[]] for _ in range(6)]
    expected: list[tuple[int, int, list[int]]] = []
    for n_rivals in (3, 3, 5, 5, 2, 2):
        n_texts, n_parents = len(copied), len(copied[0])
        tokens = draw.integers(100, size=(n_texts, n_rivals))
        parents = draw.integers(n_parents, size=(n_texts, n_rivals))
        trail.add(tokens, parents)
        copied = [
            [[*copied[i][parents[i, j]], int(tokens[i, j])] for j in range(n_rivals)]
            for i in range(n_texts)
        ]
        rows = draw.permutation(n_texts)[: max(2, n_texts - 1)]
        trail.keep(rows)
        copied = [copied[row] for row in rows]
        texts, rivals = (x.ravel() for x in np.indices((len(copied), n_rivals)))
        places = trail.places(texts, rivals)
        expected += [
            (trail.n_steps, int(place), copied[i][j])
            for place, i, j in zip(places, texts, rivals, strict=True)
        ]
    draw.shuffle(expected)
    n_steps, stood, said = zip(*expected, strict=True)
    assert trail.read(np.array(n_steps), np.array(stood)) == list(said)


def test_nothing_was_said_before_the_first_step() -> None:
    trail = Trail(2)
    nothing = np.zeros(1, dtype=np.int64)
    assert trail.read(nothing, trail.places(nothing + 1, nothing)) == [[]]
    assert trail.read(nothing[:0], nothing[:0]) == []
