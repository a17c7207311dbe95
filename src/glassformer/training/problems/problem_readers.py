"""From a problem's settings to its examples: which function prepares which problem.

The ratings of MovieLens, which are neither text nor classes, are read here.
"""

from collections.abc import Callable
from typing import Any

from glassformer.data.batches import RatingExamples
from glassformer.data.corpora import find
from glassformer.data.readers import read_ratings, read_titles, split_ratings
from glassformer.nn import ModelConfig
from glassformer.text import Tokenizer
from glassformer.training import problems
from glassformer.training.learner import squared_error
from glassformer.training.problems.classification import classify_digits, classify_texts
from glassformer.training.problems.language_modelling import continue_text, mask_imdb
from glassformer.training.problems.prepared_problem import HeldOut, PreparedProblem, about_corpora
from glassformer.training.problems.translation import translate_pairs
from glassformer.training.run_config import RunConfig


def rate_movielens(
    data: problems.MovieLens, model: ModelConfig, given: Tokenizer | None
) -> PreparedProblem:
    """How many stars a person gives a film, from MovieLens."""
    assert given is None, "ratings have no tokens"
    found = find("movielens", data.folder)
    ratings = read_ratings(found)
    train, valid, test = (RatingExamples(part) for part in split_ratings(ratings, data.validation))
    return PreparedProblem(
        task="rate",
        train=train,
        valid=HeldOut(valid) if len(valid) else None,
        tests={"test": HeldOut(test)},
        model=model.with_(
            vocab_size=int(ratings.people.max()) + 1,
            target_vocab_size=int(ratings.films.max()) + 1,
        ),
        tokenizer=None,
        labels=read_titles(found),
        checksums=dict(found.corpus.files),
        measure=squared_error,
        about=about_corpora(["movielens"]),
    )


# Each takes settings of its own class, which the type of a dictionary cannot express.
Reader = Callable[[Any, ModelConfig, Tokenizer | None], PreparedProblem]

READERS: dict[type[problems.DataConfig], Reader] = {
    problems.ClassifiedTexts: classify_texts,
    problems.DigitImages: classify_digits,
    problems.MaskedReviews: mask_imdb,
    problems.MovieLens: rate_movielens,
    problems.TranslationPairs: translate_pairs,
    problems.RunningText: continue_text,
}
"""By the class of the settings, or the one that it derives from."""


def prepare(config: RunConfig, tokenizer: Tokenizer | None = None) -> PreparedProblem:
    """Read, split and tokenise the data of a config, or find the result in the cache.

    `tokenizer`: that of the pretraining run, instead of a new one.
    """
    read = next(read for kind, read in READERS.items() if isinstance(config.data, kind))
    return read(config.data, config.model, tokenizer)
