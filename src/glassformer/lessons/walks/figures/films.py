"""Films and tastes: a score as a dot product."""

from __future__ import annotations

from collections.abc import Sequence

from glassformer.lessons.example import Language
from glassformer.lessons.walks.figures.canvas import Canvas, Drawing
from glassformer.lessons.walks.figures.grids import (
    Numbers,
    Place,
    cell_number,
    draw_grid,
    numbers_of,
)
from glassformer.lessons.walks.figures.style import Role
from glassformer.lessons.walks.figures.words import FIGURE_WORDS
from glassformer.lessons.walks.phrases import Speaker
from glassformer.trace import Trace

__all__ = ["score_figure"]


def score_figure(
    run: Trace, film: int, person: int, names: tuple[str, str], features: Sequence[str],
    language: Language,
) -> Drawing:  # fmt: skip
    """A film's features, a person's tastes, their products and the sum."""
    say = Speaker(language, FIGURE_WORDS)
    canvas = Canvas(640, 286, say("score figure"))
    left, step = 250.0, 48.0
    films, tastes = numbers_of(run["films"]).rows(film), numbers_of(run["people"]).rows(person)
    cell = run["scores"][person, film]
    for place, feature in enumerate(features):
        canvas.text(left + place * 96 + 23, 28, feature, size=13, role="quiet")
    owners: tuple[tuple[Numbers, str, Role], ...] = (
        (films, names[0], "input"),
        (tastes, names[1], "query"),
    )
    for row, (numbers, name, owner) in enumerate(owners):
        y = 50 + row * step
        canvas.text(left - 24, y + 15, name, size=14, bold=True, anchor="end", role=owner)
        for place in range(len(features)):
            one = numbers.columns(place, place + 1)
            draw_grid(canvas, one, Place(left + place * 96, y), role=owner)
    for place, term in enumerate(cell.terms):
        x = left + place * 96 + 23
        with canvas.appearing(place + 1):
            canvas.line((x, 134), (x, 160), arrow=True)
            role: Role = "output" if term.value >= 0 else "key"
            canvas.text(x, 176, _signed(term.value), size=15, bold=True, role=role)
    with canvas.appearing(len(features) + 1):
        middle = left + 96 + 23
        canvas.line((left - 10, 196), (left + 2 * 96 + 56, 196), role="ink")
        said = say("liked" if float(cell.value) > 0 else "disliked")
        score = cell_number(float(cell.value))
        canvas.text(middle, 222, f"= {score}", size=18, bold=True)
        canvas.text(middle, 252, said, size=15, role="quiet")
    return canvas.done()


def _signed(number: float) -> str:
    shown = cell_number(number)
    return shown if shown.startswith("−") else f"+{shown}"
