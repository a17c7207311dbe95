"""Recommending films: whom, by which titles, and that the arithmetic is that of the model."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from glassformer import checkpoint, cli
from glassformer.checkpoint import Checkpoint
from glassformer.errors import ConfigError, InputError, UnknownNameError
from glassformer.nn import AttentionConfig, MatrixFactorisation, ModelConfig, build
from glassformer.tasks import GlassformerModel, load
from glassformer.tasks.recommending import Titles, describe_person, read_person

TITLES = ("Toy Story (1995)", "Matrix, The (1999)", "Heat (1995)", "Heat (1986)", "Alien (1979)")


@pytest.fixture
def recommender() -> GlassformerModel:
    torch.manual_seed(0)
    config = ModelConfig(
        architecture="recommender",
        vocab_size=7,
        target_vocab_size=len(TITLES),
        d_model=3,
        attention=AttentionConfig(n_heads=1),
    )
    model = build(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_()
    return GlassformerModel(Checkpoint(model, config, labels=TITLES), "films")


def factors(model: GlassformerModel) -> MatrixFactorisation:
    inner = model.module
    assert isinstance(inner, MatrixFactorisation)
    return inner


def test_a_known_person_gets_what_the_model_expects(recommender: GlassformerModel) -> None:
    (answer,) = recommender.recommend(["#3"], n=5)
    inner = factors(recommender)
    for film in answer.films:
        number = torch.tensor([TITLES.index(film.title)])
        assert film.stars == pytest.approx(inner(torch.tensor([2]), number).item(), abs=1e-5)
    stars = [film.stars for film in answer.films]
    assert stars == sorted(stars, reverse=True) and len(stars) == len(TITLES)


def test_a_described_person_minimises_what_is_said(recommender: GlassformerModel) -> None:
    """The gradient of the stated sum, taken by autograd, is zero at the vector found."""
    inner = factors(recommender)
    liked = [0, 2]
    with torch.no_grad():
        vector, habit = describe_person(inner, liked)
    person = torch.cat([vector.double(), torch.tensor([habit]).double()]).requires_grad_()
    films = inner.films.weight[liked].detach().double()
    known = (inner.mean + inner.of_film.weight[liked].squeeze(-1)).detach().double()
    misses = 5 - known - person[-1] - films @ person[:-1]
    (misses.square().sum() + person.square().sum()).backward()
    assert person.grad is not None and person.grad.abs().max() < 1e-5


def test_the_arithmetic_is_done_where_the_model_is(recommender: GlassformerModel) -> None:
    """A default device stands in for a GPU: what is made beside the model must follow the model."""
    expected = recommender.recommend(["heat; alien"])
    with torch.device("meta"):
        assert recommender.recommend(["heat; alien"]) == expected


def test_films_that_were_named_are_not_recommended(recommender: GlassformerModel) -> None:
    (answer,) = recommender.recommend(["toy story; THE MATRIX ;"])
    assert {film.title for film in answer.films} == set(TITLES[2:])


@pytest.mark.parametrize(
    ("asked", "number"),
    [
        ("Toy Story (1995)", 0), ("the  matrix", 1), ("The Matrix (1999)", 1), ("matrix, the", 1),
        ("heat", 2), ("heat (1986)", 3),
    ],
)  # fmt: skip
def test_titles_are_found_as_people_write_them(asked: str, number: int) -> None:
    assert Titles(TITLES).find(asked) == number


def test_a_semicolon_may_be_part_of_a_title() -> None:
    titles = Titles(("Steins;Gate the Movie (2013)", "Heat (1995)"))
    assert read_person("steins;gate the movie", titles, 1).liked == (0,)
    assert read_person("Heat; Heat (1995)", titles, 1).liked == (1,)


def test_films_without_titles_are_numbered(recommender: GlassformerModel) -> None:
    plain = GlassformerModel(replace(recommender.checkpoint, labels=()), "films")
    (answer,) = plain.recommend(["film 0"], n=9)
    assert sorted(film.title for film in answer.films) == ["film 1", "film 2", "film 3", "film 4"]


def test_mistakes(recommender: GlassformerModel) -> None:
    with pytest.raises(UnknownNameError, match=r"unknown film 'allien'; did you mean 'alien'"):
        recommender.recommend(["Allien"])
    for wrong in ("#0", "#8", "#x", "#" + "9" * 5000):
        with pytest.raises(InputError, match="people are #1 to #7"):
            recommender.recommend([wrong])
    with pytest.raises(InputError, match="name at least one film"):
        recommender.recommend([" ; "])
    with pytest.raises(ConfigError, match="n must be at least 1"):
        recommender.recommend(["heat"], n=0)
    with pytest.raises(ConfigError, match="films is a recommender: it cannot translate"):
        recommender.translate(["heat"])


def test_a_saved_recommender_runs(
    recommender: GlassformerModel, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = str(checkpoint.save(tmp_path / "films", recommender.checkpoint))
    expected = recommender.recommend(["heat"])[0]
    assert load(folder).recommend(["heat"]) == [expected]
    assert cli.run(["run", folder, "heat", "#2", "--films", "2"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"{expected.films[0].stars:.2f}\t{expected.films[0].title}"
    assert len(lines) == 4
    assert cli.run(["run", folder, "heat", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == expected.to_dict()
    assert cli.run(["run", folder, "heat", "--beam", "2"]) == 2
    assert "--beam is not for films, a recommender; it takes --films" in capsys.readouterr().err
