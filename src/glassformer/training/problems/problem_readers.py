"""From a problem's settings to its examples: which function reads which problem."""

from collections.abc import Callable
from typing import Any

from glassformer.nn import ModelConfig
from glassformer.text import Tokenizer
from glassformer.training.problems import problem_definitions
from glassformer.training.problems.classification import (
    classify_csv,
    classify_digits,
    classify_imdb,
)
from glassformer.training.problems.language_modelling import (
    continue_file,
    continue_shakespeare,
    continue_wikitext2,
)
from glassformer.training.problems.masked_words import mask_imdb
from glassformer.training.problems.prepared_problem import PreparedProblem
from glassformer.training.problems.rating_prediction import rate_movielens
from glassformer.training.problems.translation import (
    translate_de,
    translate_file,
    translate_multi30k,
    translate_thrones,
    translate_zh,
)
from glassformer.training.run_config import RunConfig

# Each takes settings of its own class, which no type of a dictionary can say.
Reader = Callable[[Any, ModelConfig, Tokenizer | None], PreparedProblem]

READERS: dict[type[problem_definitions.DataConfig], Reader] = {
    problem_definitions.ImdbReviews: classify_imdb,
    problem_definitions.LabelledTable: classify_csv,
    problem_definitions.DigitImages: classify_digits,
    problem_definitions.MaskedReviews: mask_imdb,
    problem_definitions.MovieLens: rate_movielens,
    problem_definitions.ThronesPair: translate_thrones,
    problem_definitions.PairsFile: translate_file,
    problem_definitions.Multi30k: translate_multi30k,
    problem_definitions.EnglishGerman: translate_de,
    problem_definitions.EnglishChinese: translate_zh,
    problem_definitions.TinyShakespeare: continue_shakespeare,
    problem_definitions.WikiText2: continue_wikitext2,
    problem_definitions.TextFile: continue_file,
}


def prepare(config: RunConfig, tokenizer: Tokenizer | None = None) -> PreparedProblem:
    """Read, split and tokenise what a config names (or find it done).

    A `tokenizer` that pretraining learnt is used instead of a new one.
    """
    return READERS[type(config.data)](config.data, config.model, tokenizer)
