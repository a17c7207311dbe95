"""Sequences read back, and the best of those completed, are what copying and sorting give."""

import numpy as np
import pytest

from glassformer.decoding.beam import COMPLETED, BackPointers, best_completed


@pytest.mark.parametrize("seed", range(5))
def test_back_pointers_give_what_copying_gives(seed: int) -> None:
    draw = np.random.default_rng(seed)
    pointers = BackPointers(6)
    copied: list[list[list[int]]] = [[[]] for _ in range(6)]
    expected: list[tuple[int, int, list[int]]] = []
    for n_steps, n_beams in enumerate((3, 3, 5, 5, 2, 2), start=1):
        n_sequences, n_parents = len(copied), len(copied[0])
        tokens = draw.integers(100, size=(n_sequences, n_beams))
        parents = draw.integers(n_parents, size=(n_sequences, n_beams))
        pointers.add(tokens, parents)
        copied = [
            [[*copied[i][parents[i, j]], int(tokens[i, j])] for j in range(n_beams)]
            for i in range(n_sequences)
        ]
        rows = draw.permutation(n_sequences)[: max(2, n_sequences - 1)]
        pointers.keep(rows)
        copied = [copied[row] for row in rows]
        sequences, beams = (x.ravel() for x in np.indices((len(copied), n_beams)))
        places = pointers.places(sequences, beams)
        expected += [
            (n_steps, int(place), copied[i][j])
            for place, i, j in zip(places, sequences, beams, strict=True)
        ]
    draw.shuffle(expected)
    lengths, stood, said = zip(*expected, strict=True)
    assert pointers.read(np.array(lengths), np.array(stood)) == list(said)


def test_there_are_no_tokens_before_the_first_step() -> None:
    pointers = BackPointers(2)
    nothing = np.zeros(1, dtype=np.int64)
    assert pointers.read(nothing, pointers.places(nothing + 1, nothing)) == [[]]
    assert pointers.read(nothing[:0], nothing[:0]) == []


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("n_best", [1, 3, 100])
def test_the_best_are_those_of_sorted_lists_and_of_equal_ones_the_earliest(
    seed: int, n_best: int
) -> None:
    draw = np.random.default_rng(seed)
    parts = []
    lists: dict[int, list[tuple[float, int]]] = {text: [] for text in range(4)}
    for n in (3, 0, 12, 1, 30):
        texts, tokens = draw.integers(4, size=n), draw.integers(1_000_000, size=n)
        scores = np.where(draw.random(n) < 0.2, -np.inf, -draw.integers(3, size=n).astype(float))
        columns = (texts, tokens, tokens, tokens, 2 * scores, scores)
        parts.append(np.array([*zip(*columns, strict=True)], COMPLETED))
        for text, score, token in zip(texts, scores, tokens, strict=True):
            lists[int(text)].append((float(score), int(token)))
    expected = [
        (text, token)
        for text, found in lists.items()
        for _, token in sorted(found, key=lambda one: -one[0])[:n_best]
    ]
    best = best_completed(np.concatenate(parts), n_best)
    assert best[["sequence", "token"]].tolist() == expected
    assert np.array_equal(best["total"], 2 * best["score"])
    assert np.array_equal(best["place"], best["token"])
