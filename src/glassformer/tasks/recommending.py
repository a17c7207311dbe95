"""What a person would like: films ranked by the stars that a factor model expects.

A person is either one that the model was trained on, `#17`, or described by films that were liked,
`Toy Story; Heat (1995)`. For the latter a vector is found that gives those films five stars, as
short as possible; then the person is like any other. Knows titles and vectors, no files.
Dims: F films, L films liked, D width.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

import torch

from glassformer.errors import InputError, UnknownNameError, expect_whole
from glassformer.nn import MatrixFactorisation
from glassformer.nn.tensors import Float, Tensor, float64_device
from glassformer.tasks.answers import Recommendation, Recommended

_BEST = 5.0
_STIFFNESS = 1.0  # what a longer vector costs: stars squared by length squared
_YEAR = re.compile(r"\s*\(\d{4}\)\s*$")
_ARTICLE = re.compile(r"^(.*), (The|A|An)$", re.IGNORECASE)


class Person(NamedTuple):
    """Someone to recommend to."""

    number: int | None
    """Of a person in the training data."""
    liked: tuple[int, ...]
    """Otherwise, films."""


class Titles:
    """The films of a model, found by what people call them."""

    def __init__(self, titles: Sequence[str]) -> None:
        self.titles = tuple(titles)
        self._numbers: dict[str, int] = {}
        for number, title in enumerate(titles):
            for name in _names(title):
                self._numbers.setdefault(name, number)  # without a year, the first of that name

    def __contains__(self, asked: str) -> bool:
        return _plain(asked) in self._numbers

    def find(self, asked: str) -> int:
        """The number of a film, whatever the case; the year may be left out."""
        name = _plain(asked)
        if name in self._numbers:
            return self._numbers[name]
        raise UnknownNameError("film", name, self._numbers)


def _plain(asked: str) -> str:
    return " ".join(asked.lower().split())


def _names(title: str) -> list[str]:
    """`Matrix, The (1999)` is asked for as `the matrix`, too."""
    plain = _YEAR.sub("", title)
    names = [title.lower(), plain.lower()]
    if article := _ARTICLE.match(plain):
        spoken = f"{article[2]} {article[1]}".lower()
        names += [spoken, spoken + title[len(plain) :].lower()]
    return names


def read_person(text: str, titles: Titles, n_people: int) -> Person:
    """`#17` is the seventeenth person of the training data; anything else, films with `;`."""
    if text.strip().startswith("#"):
        number = text.strip()[1:]
        is_short = number.isdecimal() and len(number) < 20  # Python refuses to read 5,000 digits
        if not is_short or not 1 <= int(number) <= n_people:
            raise InputError(
                "people are #1 to #{n_people}, got {text!r}", n_people=n_people, text=text.strip()
            )
        return Person(int(number) - 1, ())
    # "Steins;Gate the Movie" is one film.
    asked = [text] if text in titles else [part for part in text.split(";") if part.strip()]
    if not asked:
        raise InputError("name at least one film that was liked, or a person such as #1")
    return Person(None, tuple(dict.fromkeys(titles.find(part) for part in asked)))


def recommend(model: MatrixFactorisation, titles: Titles, text: str, n: int) -> Recommended:
    """The n films that a person would like most; those that were named are left out."""
    expect_whole(n, "n")
    person = read_person(text, titles, model.people.num_embeddings)
    stars = expected_stars(model, person)
    stars[list(person.liked)] = -torch.inf
    best = stars.topk(min(n, len(stars) - len(person.liked)))
    pairs = zip(best.indices.tolist(), best.values.tolist(), strict=True)
    return Recommended(text, tuple(Recommendation(titles.titles[i], given) for i, given in pairs))


def describe_person(
    model: MatrixFactorisation, liked: Sequence[int]
) -> tuple[Float[Tensor, " D"], float]:
    """The vector and the habit of someone who gave these films five stars.

    Minimises Σ (5 − mean − habit of film − habit − vector · film)² + stiffness · (|vector|² +
    habit²) over both: a system of D + 1 equations.
    """
    table = model.films.weight
    device = float64_device(table.device)
    films = torch.tensor(liked, device=table.device)
    vectors = table[films].to(device).double()
    inputs = torch.cat([vectors, vectors.new_ones(len(liked), 1)], dim=-1)
    mean, habits = (x.to(device).double() for x in (model.mean, model.of_film.weight[films]))
    missing = _BEST - mean - habits.squeeze(-1)
    stiff = _STIFFNESS * torch.eye(inputs.size(-1), dtype=inputs.dtype, device=device)
    solved = torch.linalg.solve(inputs.T @ inputs + stiff, inputs.T @ missing)
    return solved[:-1].to(table), float(solved[-1])


def expected_stars(model: MatrixFactorisation, person: Person) -> Float[Tensor, " F"]:
    """The stars of every film; more than five are five to a reader, but still rank."""
    if person.number is not None:
        vector = model.people.weight[person.number]
        habit = float(model.of_person.weight[person.number])
    else:
        vector, habit = describe_person(model, person.liked)
    films = model.films.weight @ vector
    return films + model.of_film.weight.squeeze(-1) + model.mean + habit
