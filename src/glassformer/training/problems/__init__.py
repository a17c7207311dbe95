"""The problems that can be learnt, by the name that `data.problem` gives."""

from collections.abc import Callable

from glassformer.errors import UnknownNameError
from glassformer.text import Tokenizer
from glassformer.training.config import RunConfig
from glassformer.training.problems.classify import classify_csv, classify_imdb
from glassformer.training.problems.language import (
    continue_file,
    continue_shakespeare,
    continue_wikitext2,
)
from glassformer.training.problems.mask import mask_imdb
from glassformer.training.problems.pictures import classify_digits
from glassformer.training.problems.problem import HeldOut, Problem
from glassformer.training.problems.rate import rate_movielens
from glassformer.training.problems.translate import (
    translate_de,
    translate_file,
    translate_multi30k,
    translate_thrones,
    translate_zh,
)

__all__ = ["PROBLEMS", "HeldOut", "Problem", "prepare"]

PROBLEMS: dict[str, Callable[[RunConfig, Tokenizer | None], Problem]] = {
    "classify-imdb": classify_imdb,
    "classify-csv": classify_csv,
    "classify-digits": classify_digits,
    "mask-imdb": mask_imdb,
    "rate-movielens": rate_movielens,
    "translate-thrones": translate_thrones,
    "translate-file": translate_file,
    "translate-multi30k": translate_multi30k,
    "translate-de": translate_de,
    "translate-zh": translate_zh,
    "continue-shakespeare": continue_shakespeare,
    "continue-wikitext2": continue_wikitext2,
    "continue-file": continue_file,
}


def prepare(config: RunConfig, tokenizer: Tokenizer | None = None) -> Problem:
    """Read, split and tokenise what a config names (or find it done).

    A `tokenizer` that an earlier run learnt is used instead of a new one.
    """
    name = config.data.problem
    if name not in PROBLEMS:
        raise UnknownNameError("problem", name, PROBLEMS)
    return PROBLEMS[name](config, tokenizer)
