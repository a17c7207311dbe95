"""The examples that people learn from do what they say."""

import math
import runpy
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"


def test_the_minimal_training_loop_learns() -> None:
    """From equal odds for all characters to far better ones, in forty updates."""
    example = runpy.run_path(str(EXAMPLES / "train_minimal.py"))
    vocab_size = (
        example["CharacterTokenizer"].build([example["TEXT"].read_text("utf-8")]).vocab_size
    )
    losses = example["main"](40)
    assert len(losses) == 40
    assert abs(losses[0] - math.log(vocab_size)) < 0.3  # small weights know nothing
    assert sum(losses[-5:]) / 5 < losses[0] - 1.0  # of ten seeds, 1.60 to 1.67 below


@pytest.mark.slow  # it trains for half a minute; the experiments have tests of their own
def test_the_induction_heads_are_what_copies() -> None:
    """Of five seeds of the training: right 100 %, without them 2 to 6 %, recovered 100 %."""
    figures = runpy.run_path(str(EXAMPLES / "induction.py"))["main"]()
    assert figures["before"] > 0.8
    assert figures["after"] < 0.5
    assert figures["recovered"] > 0.8  # what was looked up in the first layer stands at its place
