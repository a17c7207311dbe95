"""Scores of a model's answers: BLEU, accuracy, perplexity, RMSE. Plain functions on plain data.

BLEU is sacrebleu's, over the whole corpus and on raw text, and always comes with its signature,
without which it cannot be compared. sacrebleu is imported on first use.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Literal

from glassformer.errors import ConfigError, InputError, NotInstalledError


@dataclass(frozen=True)
class Score:
    """A corpus score from 0 to 100, and the signature that says how it was computed."""

    value: float
    signature: str

    def __str__(self) -> str:
        return f"{self.value:.2f} ({self.signature})"


def bleu(
    hypotheses: Sequence[str],
    references: Sequence[str],
    *,
    form: Literal["cased", "lower", "tokenised"] = "cased",
    language: str | None = None,
) -> Score:
    """Corpus BLEU of translations against one raw reference each.

    `cased`: sacrebleu's default. `lower`: the same, ignoring case. `tokenised`: the texts are
    taken as tokens separated by spaces and are lowercased, as the literature on Multi30k reports
    it (tokenise both with sacremoses first). `language` is that of the translations: Chinese and
    Japanese are split by rules of their own.
    """
    _check_pairs(hypotheses, references)
    if form not in ("cased", "lower", "tokenised"):
        raise ConfigError("form must be 'cased', 'lower' or 'tokenised', got {form!r}", form=form)
    metric = _sacrebleu().BLEU(
        lowercase=form != "cased",
        tokenize="none" if form == "tokenised" else None,
        trg_lang=language or "",
        force=form == "tokenised",  # tokenised texts are what was asked for, not a mistake
    )
    score = metric.corpus_score(list(hypotheses), [list(references)])
    return Score(float(score.score), str(metric.get_signature()))


def chrf(hypotheses: Sequence[str], references: Sequence[str]) -> Score:
    """Corpus chrF: F-score of character n-grams, kinder to inflected languages."""
    _check_pairs(hypotheses, references)
    metric = _sacrebleu().CHRF()
    score = metric.corpus_score(list(hypotheses), [list(references)])
    return Score(float(score.score), str(metric.get_signature()))


def accuracy(predicted: Sequence[object], expected: Sequence[object]) -> float:
    """Share of predictions that are right."""
    _check_pairs(predicted, expected)
    return sum(p == e for p, e in zip(predicted, expected, strict=True)) / len(expected)


def perplexity(total_loss: float, n_tokens: int) -> float:
    """exp of the mean loss: the sum over all tokens of a corpus divided by their number, once.

    A mean of batch means would depend on the batch size.
    """
    if n_tokens < 1:
        raise InputError("perplexity needs at least one token, got {n_tokens}", n_tokens=n_tokens)
    return math.exp(total_loss / n_tokens)


def rmse(predicted: Sequence[float], expected: Sequence[float]) -> float:
    """Root of the mean squared error."""
    _check_pairs(predicted, expected)
    squares = ((p - e) ** 2 for p, e in zip(predicted, expected, strict=True))
    return math.sqrt(sum(squares) / len(expected))


def _sacrebleu() -> ModuleType:
    try:
        import sacrebleu
    except ImportError:
        raise NotInstalledError(
            "BLEU and chrF need sacrebleu: pip install 'glassformer[metrics]'"
        ) from None
    return sacrebleu


def _check_pairs(answers: Sequence[object], references: Sequence[object]) -> None:
    if isinstance(answers, str) or isinstance(references, str):
        raise InputError("expected lists of texts, got one string: write [text]")
    if len(answers) != len(references):
        raise InputError(
            "each answer needs one reference, got {n_answers} answers and "
            "{n_references} references",
            n_answers=len(answers),
            n_references=len(references),
        )
    if not references:
        raise InputError("a score needs at least one answer, got none")
