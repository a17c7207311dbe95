"""From a problem's settings to its examples: which function reads which problem."""

from collections.abc import Callable
from typing import Any

from glassformer.nn import ModelConfig
from glassformer.text import Tokenizer
from glassformer.training.config import RunConfig
from glassformer.training.problems import definitions
from glassformer.training.problems.classify import classify_csv, classify_digits, classify_imdb
from glassformer.training.problems.language import (
    continue_file,
    continue_shakespeare,
    continue_wikitext2,
)
from glassformer.training.problems.mask import mask_imdb
from glassformer.training.problems.prepared_problem import PreparedProblem
from glassformer.training.problems.rate import rate_movielens
from glassformer.training.problems.translate import (
    translate_de,
    translate_file,
    translate_multi30k,
    translate_thrones,
    translate_zh,
)

# Each takes settings of its own class, which no type of a dictionary can say.
Reader = Callable[[Any, ModelConfig, Tokenizer | None], PreparedProblem]

READERS: dict[type[definitions.DataConfig], Reader] = {
    definitions.ImdbReviews: classify_imdb,
    definitions.LabelledTable: classify_csv,
    definitions.DigitImages: classify_digits,
    definitions.MaskedReviews: mask_imdb,
    definitions.MovieLens: rate_movielens,
    definitions.ThronesPair: translate_thrones,
    definitions.PairsFile: translate_file,
    definitions.Multi30k: translate_multi30k,
    definitions.EnglishGerman: translate_de,
    definitions.EnglishChinese: translate_zh,
    definitions.TinyShakespeare: continue_shakespeare,
    definitions.WikiText2: continue_wikitext2,
    definitions.TextFile: continue_file,
}


def prepare(config: RunConfig, tokenizer: Tokenizer | None = None) -> PreparedProblem:
    """Read, split and tokenise what a config names (or find it done).

    A `tokenizer` that pretraining learnt is used instead of a new one.
    """
    return READERS[type(config.data)](config.data, config.model, tokenizer)
