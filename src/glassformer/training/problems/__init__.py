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
from glassformer.training.problems.problem import HeldOut, Problem
from glassformer.training.problems.translate import translate_de, translate_multi30k, translate_zh

__all__ = ["PROBLEMS", "HeldOut", "Problem", "prepare"]

PROBLEMS: dict[str, Callable[[RunConfig, Tokenizer | None], Problem]] = {
    "classify-imdb": classify_imdb,
    "classify-csv": classify_csv,
    "mask-imdb": mask_imdb,
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
