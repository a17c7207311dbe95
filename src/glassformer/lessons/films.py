"""Films and tastes: what a dot product means, with hand-made and then learned features."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache

import torch
from torch import nn

from glassformer.claims.training_studies import Tastes, learn_tastes
from glassformer.documents.data_charts import Axes, MapPoint, draw_map
from glassformer.documents.parts import Figure, Paragraph, with_code
from glassformer.language import Language
from glassformer.lessons.figures.sheet import (
    FigurePart,
    Label,
    MatrixFigure,
    TableFigure,
    cell_number,
    heading,
    numbers_of,
    speaker,
)
from glassformer.lessons.lesson import (
    LessonStep,
    Parts,
    Speaker,
    formula,
    number,
    percent,
    place_labels,
)
from glassformer.lessons.lesson_steps import heat_map
from glassformer.nn.tensors import Float, Int, Tensor
from glassformer.picture import Picture, Role
from glassformer.tasks import load
from glassformer.tracing import Trace, trace

_FEATURES = ("romance", "action", "comedy")
# Romance, action, comedy: our own guesses, from −1 to 1.
FILMS: dict[str, tuple[float, float, float]] = {
    "Titanic": (0.9, 0.2, -0.5),
    "Casablanca": (0.9, -0.2, -0.4),
    "Before Sunrise": (1.0, -0.9, 0.0),
    "Notting Hill": (0.8, -0.8, 0.7),
    "Roman Holiday": (0.8, -0.6, 0.6),
    "Some Like It Hot": (0.4, -0.2, 1.0),
    "Airplane!": (-0.4, -0.2, 1.0),
    "Modern Times": (0.1, -0.3, 1.0),
    "Rush Hour": (-0.7, 0.8, 0.8),
    "True Lies": (0.1, 0.9, 0.5),
    "Die Hard": (-0.5, 1.0, -0.1),
    "Speed": (0.0, 1.0, -0.4),
    "Terminator 2": (-0.7, 1.0, -0.4),
    "The Matrix": (-0.1, 0.9, -0.7),
}
_PEOPLE: dict[str, tuple[float, float, float]] = {"Ada": (0.8, -0.6, 0.5), "Ben": (-0.4, 0.9, 0.3)}
_ADA, _SHOWN_FILM = 0, 0
_N_OTHERS = 118
_SOURCE = "A dog runs through the snow."
_LAYER, _HEAD, _WRITTEN = 1, 3, 1


class _Scores(nn.Module):
    """Scores of every film for every person: features times tastes."""

    def __init__(self, people: Float[Tensor, "P N"], films: Float[Tensor, "M N"]) -> None:
        super().__init__()
        self.people = nn.Parameter(people)
        self.films = nn.Parameter(films)

    def forward(self, chosen: Int[Tensor, " P"]) -> Float[Tensor, "M P"]:
        """Scores of all films for the chosen people."""
        tastes = self.people[chosen]
        scores = self.films @ tastes.mT
        return scores


@lru_cache(maxsize=2)
def learn_films(*, shuffled: bool = False) -> Tastes:
    """From the likes of Ada, Ben and others with random tastes; `shuffled` is the control."""
    content = torch.tensor(list(FILMS.values()))
    others = torch.randn(_N_OTHERS, len(_FEATURES), generator=torch.Generator().manual_seed(0))
    tastes = torch.cat([torch.tensor(list(_PEOPLE.values())), others])
    return learn_tastes(content, tastes=tastes, chance=0.2, shuffled=shuffled, steps=300)


def _run(people: Tensor, features: Tensor) -> Trace:
    chosen = torch.arange(len(_PEOPLE))
    return trace(_Scores(people, features), chosen, axis_labels={"chosen": list(_PEOPLE)})


def steps(say: Speaker) -> Iterator[LessonStep]:
    titles = tuple(say(f"films {title}") for title in FILMS)
    features = torch.tensor(list(FILMS.values()))
    run = _run(torch.tensor(list(_PEOPLE.values())), features)
    names = tuple(say(name) for name in _FEATURES)
    maps = [
        heat_map(run["films"], say, rows=titles, columns=names, title=say("films caption")),
        heat_map(run["tastes"], say, rows=tuple(_PEOPLE), columns=names,
                 title=say("people caption")),
    ]  # fmt: skip
    guess = Paragraph(say("guess", person=tuple(_PEOPLE)[_ADA]))
    yield say.step("inputs", "features", [say("features"), *maps, guess])
    yield say.step("scores", "score", _score(run, titles, names, say))
    learned = learn_films()
    yield say.step("training", "learned", _learned_step(learned, say))
    yield say.step("map", "map", _map_step(learned, titles, say))
    yield say.step("real", "real", _real(say))
    yield say.step("recommend", "recommend", _recommend(learned, run, titles, say))
    yield say.step("weights", "words", _words(say))


def _score(run: Trace, titles: tuple[str, ...], names: tuple[str, ...], say: Speaker) -> Parts:
    cell = run["scores"][_SHOWN_FILM, _ADA]
    person, film = tuple(_PEOPLE)[_ADA], titles[_SHOWN_FILM]
    yield say("score", person=person, film=film, value=cell)
    yield Figure("score", score_figure(run, film, person, names, say.language))
    yield formula(cell)
    yield heat_map(
        run["scores"], say, cell, rows=titles, columns=tuple(_PEOPLE), title=say("scores caption")
    )
    scores = run["scores"].value[:, _ADA]
    best = int(scores.argmax())
    yield say("best", person=person, film=titles[best], value=scores[best])


def _learned_step(learned: Tastes, say: Speaker) -> Parts:
    known = percent(learned.known.double().mean())
    yield say(
        "learned", people=len(learned.people), known=known, guessed=percent(learned.guessed)
    )  # fmt: skip


def _map_step(learned: Tastes, titles: tuple[str, ...], say: Speaker) -> Parts:
    """Each film at its two learned features, coloured by its largest hand-made feature."""
    words = speaker(say.language)
    kinds = [_FEATURES[features.index(max(features))] for features in FILMS.values()]
    points = [
        MapPoint(float(x), float(y), title, say(kind))
        for (x, y), title, kind in zip(learned.films, titles, kinds, strict=True)
    ]
    across, up = (
        words("feature named", feature=words(key), nearest=say(name), r=number(r, 2))
        for key, (name, r) in zip(
            ("first feature", "second feature"), _nearest(learned), strict=True
        )
    )
    rows = (
        (title, number(x, 3), number(y, 3))
        for (x, y), title in zip(learned.films, titles, strict=True)
    )
    control = percent(learn_films(shuffled=True).explained)
    yield Paragraph(say("map", explained=percent(learned.explained), control=control))
    yield Figure("map", draw_map(
        words("map figure"), points, Axes(across, up), width=820, height=520
    ))  # fmt: skip
    yield say.table(rows, "film", more=[words("first feature"), words("second feature")])


def _nearest(learned: Tastes) -> list[tuple[str, float]]:
    """For each learned feature, the hand-made one it correlates with most, and how much."""
    made = torch.tensor(list(FILMS.values())).double()
    found = []
    for values in learned.films.double().T:
        both = torch.cat([values.unsqueeze(0), made.T])
        correlations = torch.corrcoef(both)[0, 1:]
        best = int(correlations.abs().argmax())
        found.append((_FEATURES[best], float(correlations[best])))
    return found


def _real(say: Speaker) -> Parts:
    """The same question for real ratings: stored figures, because the data is not shipped."""
    # Imported here because the claims import training, which no other step needs.
    from glassformer.claims.claim import stored_results

    (measured,), (by_genre,) = stored_results("movielens"), stored_results("movielens genres")
    figures, read = measured.figures, by_genre.figures
    order = sorted(read, key=lambda genre: -read[genre])
    rows = [(say(f"genre {genre}"), percent(read[genre])) for genre in order]
    yield say(
        "real", ratings=f"{figures['ratings']:,}", people=figures["people"],
        films=figures["films"], genres=figures["genres"], mean=percent(figures["mean"]),
        control=percent(figures["control"]), best=rows[0][0], worst=rows[-1][0],
    )  # fmt: skip
    yield say.table(rows, "genre", "picked right")
    source = say("real source", command=measured.command, date=measured.date)
    yield Paragraph(with_code(source), "quiet")


def _recommend(learned: Tastes, run: Trace, titles: tuple[str, ...], say: Speaker) -> Parts:
    guessed, true = _run(learned.people, learned.films)["scores"], run["scores"]
    unseen = [place for place in range(len(titles)) if not learned.known[_ADA, place]]
    unseen.sort(key=lambda place: -float(guessed.value[place, _ADA]))
    rows = (
        (titles[place], *(number(scores.value[place, _ADA], 3) for scores in (guessed, true)))
        for place in unseen
    )
    taste = list(map(number, learned.people[_ADA]))
    yield say("recommend", person=tuple(_PEOPLE)[_ADA], numbers=say.listed(taste))
    yield formula(guessed[unseen[0], _ADA])
    yield say.table(rows, "film", "learned score", "true score")


@lru_cache(maxsize=1)
def _translated() -> Trace:
    return load("en-de").trace(_SOURCE)


def _words(say: Speaker) -> Parts:
    """Why a course on Transformers begins with dot products: a translator's attention."""
    run = _translated()
    layers = [step for step in run if step.name.endswith(".cross_attention.weights")]
    weights = layers[_LAYER]
    target, source = (
        [label.replace("␣", "") for label in place_labels(weights, axis)] for axis in (-2, -1)
    )
    shares = weights.value[0, _HEAD, _WRITTEN]
    looked = int(shares.argmax())
    yield say("words")
    yield say(
        "words example", source=_SOURCE, word=target[_WRITTEN + 1], looked=source[looked],
        share=percent(shares[looked]), count=len(layers) * weights.shape[1],
        head=_HEAD + 1, layer=_LAYER + 1,
    )  # fmt: skip
    yield heat_map(
        weights, say, head=_HEAD, rows=(*target[1:], "<end>"), columns=source,
        title=say("words caption"),
    )  # fmt: skip


# --- a score, drawn -----------------------------------------------------------------------------


def score_figure(
    run: Trace, film: str, person: str, features: Sequence[str], language: Language
) -> Picture:
    """A film's features, a person's tastes, their products and the sum."""
    say, table = speaker(language), TableFigure(36, 14)
    cell, n = run["scores"][_SHOWN_FILM, _ADA], len(features)
    owners: tuple[tuple[str, str, int, Role], ...] = (
        (film, "films", _SHOWN_FILM, "input"), (person, "people", _ADA, "query"),
    )  # fmt: skip
    for row, (name, step, which, role) in enumerate(owners, start=1):
        table.put(heading(name, role), row, 0, align="end")
        for place in range(n):
            number = numbers_of(run[step]).cell(which, place)
            table.put(MatrixFigure(number, role), row, place + 1)
    products: list[FigurePart] = []
    for place, (feature, term) in enumerate(zip(features, cell.terms, strict=True)):
        table.put(Label(feature), 0, place + 1)
        shown, role = cell_number(term.value), "output" if term.value >= 0 else "key"
        signed = shown if shown.startswith("−") else f"+{shown}"
        products.append(Label(signed, role, 15, bold=True))
        products[-1].above = 30
        table.put(products[-1], 3, place + 1, beat=place + 1)
        table.line(
            lambda at: [(at.x, at.top - 32), (at.x, at.top - 4)], products[-1], beat=place + 1
        )
    score = float(cell.value)
    total = Label(f"= {cell_number(score)}", "ink", 18, bold=True)
    table.put(total, 4, 1, span=n, beat=n + 1)
    said = Label(say("liked" if score > 0 else "disliked"), size=15)
    table.put(said, 5, 1, span=n, beat=n + 1)
    table.rule(total, products[0], products[-1], beat=n + 1)
    return table.drawing(say("score figure"))
