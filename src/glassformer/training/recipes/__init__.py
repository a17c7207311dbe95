"""Recipes: functions that return complete configs, by name.

A recipe is a starting point that is known to work: every field of it can be changed.
"""

from collections.abc import Callable

from glassformer.errors import UnknownNameError
from glassformer.training.config import RunConfig
from glassformer.training.recipes.classification import (
    csv,
    digits,
    imdb,
    imdb_lstm,
    imdb_pretrain,
    imdb_small,
)
from glassformer.training.recipes.language import shakespeare, shakespeare_small, text, wikitext2
from glassformer.training.recipes.recommendation import movielens
from glassformer.training.recipes.translation import (
    multi30k,
    multi30k_conv,
    multi30k_rnn,
    pairs,
    thrones,
    translate_de,
    translate_zh,
)

__all__ = ["RECIPES", "recipe"]

RECIPES: dict[str, Callable[[], RunConfig]] = {
    make.__name__.replace("_", "-"): make
    for make in (
        imdb,
        imdb_pretrain,
        imdb_small,
        imdb_lstm,
        multi30k,
        multi30k_rnn,
        multi30k_conv,
        translate_de,
        translate_zh,
        shakespeare,
        shakespeare_small,
        wikitext2,
        thrones,
        digits,
        movielens,
        text,
        csv,
        pairs,
    )
}


def recipe(name: str) -> RunConfig:
    """The config of the recipe of this name."""
    if not isinstance(name, str) or name not in RECIPES:
        raise UnknownNameError("recipe", name, RECIPES)
    return RECIPES[name]()
