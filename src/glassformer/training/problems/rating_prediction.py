"""People, films, and the stars they gave: MovieLens."""

from glassformer.data import find
from glassformer.data.examples import RatingExamples
from glassformer.data.readers import read_ratings, read_titles, split_ratings
from glassformer.nn import ModelConfig
from glassformer.text import Tokenizer
from glassformer.training.loss import squared_error
from glassformer.training.problems.prepared_problem import HeldOut, PreparedProblem, about_corpora
from glassformer.training.problems.problem_definitions import MovieLens


def rate_movielens(
    data: MovieLens, model: ModelConfig, tokenizer: Tokenizer | None = None
) -> PreparedProblem:
    """How many stars a person gives a film."""
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
