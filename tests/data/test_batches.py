"""Batches: shifted targets, padding that is not scored, random numbers per example."""

from pathlib import Path

import numpy as np
import pytest
import torch

from glassformer.data.batches import (
    IGNORED,
    EpochRNG,
    LabelledTexts,
    MaskedTexts,
    SentencePairs,
    Windows,
)
from glassformer.data.token_store import TokenStore, write_store

PAD, UNKNOWN, START, END, MASK = range(5)
CHANCE = EpochRNG(seed=0, epoch=0)


def store(folder: Path, name: str, sequences: list[list[int]]) -> TokenStore:
    write_store(folder, name, sequences, vocab_size=100, key="k")
    return TokenStore(folder, name, key="k")


@pytest.fixture
def pairs(tmp_path: Path) -> SentencePairs:
    source = store(tmp_path, "source", [[10, 11, END], [12, END]])
    target = store(tmp_path, "target", [[START, 20, END], [START, 21, 22, 23, END]])
    return SentencePairs(source, target, pad_id=PAD)


def test_trap_24_labels_are_the_target_one_step_ahead(pairs: SentencePairs) -> None:
    batch = pairs.batch(np.array([0, 1]), CHANCE)
    assert batch.source.tolist() == [[10, 11, END], [12, END, PAD]]
    assert batch.target.tolist() == [[START, 20, END, PAD], [START, 21, 22, 23]]
    assert batch.labels.tolist() == [[20, END, IGNORED, IGNORED], [21, 22, 23, END]]


def test_trap_23_the_end_token_is_scored_and_padding_is_not(pairs: SentencePairs) -> None:
    batch = pairs.batch(np.array([0, 1]), CHANCE)
    assert (batch.labels == END).sum() == 2
    assert not (batch.labels == PAD).any()
    assert batch.n_scored == 6
    assert batch.n_tokens == 6 + 5


def test_widths_are_padded_up_to_a_multiple(tmp_path: Path) -> None:
    texts = LabelledTexts(
        store(tmp_path, "t", [[5] * 9, [5]]), np.array([0, 1]), pad_id=PAD, pad_multiple=8
    )
    assert texts.batch(np.array([0]), CHANCE).ids.shape == (1, 16)
    assert texts.batch(np.array([1]), CHANCE).ids.shape == (1, 8)


def test_no_width_is_padded_beyond_max_len(tmp_path: Path) -> None:
    long = store(tmp_path, "t", [[5] * 9])
    one, labels = np.array([0]), np.array([0])
    kept = {"pad_id": PAD, "pad_multiple": 8}
    texts = LabelledTexts(long, labels, max_len=10, **kept)
    masked = MaskedTexts(long, mask_id=MASK, special_ids=frozenset(range(5)), max_len=10, **kept)
    pair = SentencePairs(long, long, max_len=9, **kept).batch(one, CHANCE)
    assert texts.batch(one, CHANCE).ids.shape == masked.batch(one, CHANCE).ids.shape == (1, 10)
    assert (pair.source.shape, pair.target.shape) == ((1, 9), (1, 8))


def test_targets_are_padded_to_a_multiple_after_the_shift(tmp_path: Path) -> None:
    side = store(tmp_path, "s", [[START, 20, 21, 22, END]])
    batch = SentencePairs(side, side, pad_id=PAD, pad_multiple=4).batch(np.array([0]), CHANCE)
    assert batch.source.shape == (1, 8)
    assert batch.target.shape == (1, 4)


def test_dropped_words_become_unknown_and_padding_stays(tmp_path: Path) -> None:
    texts = LabelledTexts(
        store(tmp_path, "t", [[7] * 500, [7]]),
        np.array([0, 1]),
        pad_id=PAD,
        word_dropout=0.3,
        unknown_id=UNKNOWN,
    )
    ids = texts.batch(np.array([0, 1]), CHANCE).ids
    share = (ids[0] == UNKNOWN).float().mean()
    assert 0.2 < share < 0.4
    assert (ids[1, 1:] == PAD).all()


def test_every_token_of_running_text_is_predicted_once(tmp_path: Path) -> None:
    text = list(range(5, 28))
    windows = Windows(store(tmp_path, "t", [text]), 5, moving=False)
    batch = windows.batch(np.arange(len(windows)), CHANCE)
    scored = batch.labels != IGNORED
    assert batch.labels[scored].tolist() == text[1:]
    assert batch.n_scored == len(text) - 1
    answers = torch.where(scored, batch.labels, batch.ids + 1)
    assert (answers == batch.ids + 1).all()


def test_windows_move_from_epoch_to_epoch_and_stay_inside_the_text(tmp_path: Path) -> None:
    text = list(range(5, 95))
    windows = Windows(store(tmp_path, "t", [text]), 8, moving=True)
    starts = set()
    for epoch in range(40):
        batch = windows.batch(np.arange(len(windows)), EpochRNG(0, epoch))
        assert (batch.labels == batch.ids + 1).all()
        starts.add(int(batch.ids[0, 0]))
    assert starts == set(range(5, 14))


def test_chosen_words_are_masked_replaced_or_kept(tmp_path: Path) -> None:
    text = [int(i) for i in np.random.default_rng(0).integers(5, 100, 4000)]
    texts = MaskedTexts(
        store(tmp_path, "t", [text]), PAD, MASK, special_ids=frozenset(range(5)), share=0.25
    )
    batch = texts.batch(np.array([0]), CHANCE)
    given, words = batch.ids.flatten()[batch.at], torch.tensor(text)[batch.at]
    assert (batch.labels == words).all()
    assert abs(batch.n_scored / 4000 - 0.25) < 0.03
    assert abs((given == MASK).float().mean() - 0.8) < 0.05
    assert abs((given == words).float().mean() - 0.1) < 0.04
    others = torch.ones(4000, dtype=torch.bool)
    others[batch.at] = False
    assert (batch.ids.flatten()[others] == torch.tensor(text)[others]).all()


def test_a_text_with_nothing_masked_still_makes_a_batch(tmp_path: Path) -> None:
    texts = MaskedTexts(store(tmp_path, "t", [[END]]), PAD, MASK, special_ids=frozenset(range(5)))
    batch = texts.batch(np.array([0]), CHANCE)
    assert batch.n_scored == 0
    assert batch.labels.tolist() == [IGNORED]


def test_random_numbers_belong_to_the_example_not_to_the_batch() -> None:
    together = CHANCE.uniform(np.array([3, 4, 5]), 7, stream=1)
    alone = CHANCE.uniform(np.array([4]), 9, stream=1)
    assert (together[1] == alone[0, :7]).all()
    assert (EpochRNG(0, 1).uniform(np.array([4]), 9, stream=1) != alone).all()
    assert (CHANCE.uniform(np.array([4]), 9, stream=2) != alone).all()
    many = CHANCE.uniform(np.arange(200), 200, stream=0)
    assert abs(many.mean() - 0.5) < 0.01
    assert abs(many.std() - 12**-0.5) < 0.01


def test_an_unscored_batch_has_the_same_inputs_and_no_labels(pairs: SentencePairs) -> None:
    batch = pairs.batch(np.array([0]), CHANCE)
    none = batch.unscored()
    assert none.source is batch.source
    assert none.n_scored == 0
    assert (none.labels == IGNORED).all()
