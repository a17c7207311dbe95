"""People, films, and the stars they gave: MovieLens."""

from glassformer.data import find
from glassformer.data.ratings import RatingExamples, read_ratings, read_titles, split_ratings
from glassformer.text import Tokenizer
from glassformer.training.config import RunConfig
from glassformer.training.loss import squared_error
from glassformer.training.problems.problem import HeldOut, Problem, about_corpora

__all__ = ["rate_movielens"]


def rate_movielens(config: RunConfig, tokenizer: Tokenizer | None = None) -> Problem:
    """How many stars a person gives a film."""
    assert tokenizer is None, "ratings have no tokens"
    found = find("movielens", config.data.folder)
    ratings = read_ratings(found)
    train, valid, test = (
        RatingExamples(part) for part in split_ratings(ratings, config.data.validation)
    )
    return Problem(
        task="rate",
        train=train,
        valid=HeldOut(valid) if len(valid) else None,
        tests={"test": HeldOut(test)},
        model=config.model.with_(
            vocab_size=int(ratings.people.max()) + 1,
            target_vocab_size=int(ratings.films.max()) + 1,
        ),
        tokenizer=None,
        labels=read_titles(found),
        checksums=dict(found.corpus.files),
        measure=squared_error,
        about=about_corpora(["movielens"]),
    )
