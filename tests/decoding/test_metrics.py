"""Scores against numbers computed by hand, and common mistakes in reporting them."""

import math
import subprocess
import sys

import pytest

from glassformer.decoding.metrics import accuracy, bleu, chrf, perplexity, rmse
from glassformer.errors import ConfigError, InputError

REFERENCES = ["The cat sat on the mat.", "You win or you die."]


def test_bleu_of_the_reference_itself_is_100_and_signed() -> None:
    score = bleu(REFERENCES, REFERENCES)
    assert score.value == pytest.approx(100)
    assert "case:mixed" in score.signature and "tok:13a" in score.signature
    assert "nrefs:1" in score.signature
    assert score.signature in str(score)


def test_trap_25_bleu_is_of_the_corpus_and_not_a_mean_of_sentences() -> None:
    answers = ["The cat sat on the mat.", "You lose."]
    together = bleu(answers, REFERENCES).value
    each = [bleu([a], [r]).value for a, r in zip(answers, REFERENCES, strict=True)]
    assert together != pytest.approx(sum(each) / 2, abs=1)
    # By hand: 7 + 3 tokens (the stops are tokens) against 7 + 6. Matches: words 7 + 2, pairs
    # 6 + 0, triples 5 + 0, fours 4 + 0; of 10, 8, 6, 4 that there are.
    precisions = [9 / 10, 6 / 8, 5 / 6, 4 / 4]
    brevity = math.exp(1 - 13 / 10)
    assert together == pytest.approx(100 * brevity * math.prod(precisions) ** 0.25, abs=1e-6)


def test_the_lowercase_forms_ignore_case_and_say_so() -> None:
    shouted = [text.upper() for text in REFERENCES]
    assert bleu(shouted, REFERENCES).value < 5
    for score in (
        bleu(shouted, REFERENCES, form="lower"),
        bleu(shouted, REFERENCES, form="tokenised"),
    ):
        assert score.value == pytest.approx(100)
        assert "case:lc" in score.signature
    assert "tok:none" in bleu(shouted, REFERENCES, form="tokenised").signature


def test_chinese_is_split_by_its_own_rules() -> None:
    score = bleu(["我喜欢猫和狗。"], ["我喜欢猫和鸟。"], language="zh")
    assert "tok:zh" in score.signature
    assert 0 < score.value < 100


def test_chrf_of_the_reference_itself_is_100() -> None:
    score = chrf(REFERENCES, REFERENCES)
    assert score.value == pytest.approx(100)
    assert "chrF2" in score.signature or "nc:6" in score.signature


def test_the_small_scores_by_hand() -> None:
    assert accuracy(["a", "b", "c", "d"], ["a", "b", "x", "d"]) == 0.75
    assert rmse([1, 2, 5], [1, 4, 5]) == pytest.approx(math.sqrt(4 / 3))
    assert perplexity(total_loss=10 * math.log(8), n_tokens=10) == pytest.approx(8)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: bleu(["a"], ["a", "b"]), "1 answers and 2 references"),
        (lambda: bleu([], []), "at least one"),
        (lambda: bleu("a text", ["a text"]), "got one string"),
        (lambda: accuracy([], []), "at least one"),
        (lambda: perplexity(1.0, 0), "at least one token"),
    ],
)
def test_bad_input_is_one_clear_line(wrong: object, message: str) -> None:
    assert callable(wrong)
    with pytest.raises(InputError, match=message):
        wrong()
    with pytest.raises(ConfigError, match="form must be"):
        bleu(["a"], ["a"], form="loud")  # type: ignore[arg-type]  # that is the point


def test_sacrebleu_is_imported_only_when_asked_for() -> None:
    code = "import sys, glassformer.decoding.metrics; assert 'sacrebleu' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
