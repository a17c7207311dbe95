"""From a problem's settings to its examples: which function reads which problem.

The ratings of MovieLens, which are neither text nor classes, are read here.
"""

from collections.abc import Callable
from typing import Any

from glassformer.data.corpora import find
from glassformer.data.examples import RatingExamples
from glassformer.data.readers import read_ratings, read_titles, split_ratings
from glassformer.nn import ModelConfig
from glassformer.text import Tokenizer
from glassformer.training import problems
from glassformer.training.learner import squared_error
from glassformer.training.problems.classification import (
    classify_csv,
    classify_digits,
    classify_imdb,
)
from glassformer.training.problems.language_modelling import (
    continue_file,
    continue_shakespeare,
    continue_wikitext2,
    mask_imdb,
)
from glassformer.training.problems.prepared_problem import HeldOut, PreparedProblem, about_corpora
from glassformer.training.problems.translation import (
    translate_de,
    translate_file,
    translate_multi30k,
    translate_thrones,
    translate_zh,
)
from glassformer.training.run_config import RunConfig


def rate_movielens(
    data: problems.MovieLens, model: ModelConfig, tokenizer: Tokenizer | None = None
) -> PreparedProblem:
    """How many stars a person gives a film, from MovieLens."""
    assert tokenizer is None, "ratings have no tokens"
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
    problems.ImdbReviews: classify_imdb,
    problems.LabelledTable: classify_csv,
    problems.DigitImages: classify_digits,
    problems.MaskedReviews: mask_imdb,
    problems.MovieLens: rate_movielens,
    problems.ThronesPair: translate_thrones,
    problems.PairsFile: translate_file,
    problems.Multi30k: translate_multi30k,
    problems.EnglishGerman: translate_de,
    problems.EnglishChinese: translate_zh,
    problems.TinyShakespeare: continue_shakespeare,
    problems.WikiText2: continue_wikitext2,
    problems.TextFile: continue_file,
}


def prepare(config: RunConfig, tokenizer: Tokenizer | None = None) -> PreparedProblem:
    """Read, split and tokenise the data of a config, or find the result in the cache.

    `tokenizer`: that of the pretraining run, instead of a new one.
    """
    return READERS[type(config.data)](config.data, config.model, tokenizer)
