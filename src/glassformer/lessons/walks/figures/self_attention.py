"""Self-attention with three inputs, step by step: from the inputs to all outputs."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from glassformer.lessons.example import Language
from glassformer.lessons.walks.figures.canvas import Box, Canvas, Drawing
from glassformer.lessons.walks.figures.grids import (
    Grid,
    Numbers,
    Place,
    cell_number,
    draw_grid,
    numbers_of,
)
from glassformer.lessons.walks.figures.style import Role
from glassformer.lessons.walks.figures.words import FIGURE_WORDS
from glassformer.lessons.walks.phrases import Speaker
from glassformer.lessons.walks.textbook import lesson_card
from glassformer.trace import Cell, Trace

__all__ = [
    "Kind",
    "derive_figure",
    "inputs_figure",
    "projection_figure",
    "repeat_figure",
    "scores_figure",
    "softmax_figure",
    "sum_figure",
    "weighted_figure",
]

Kind = Literal["queries", "keys", "values"]
_LABEL = 76.0
"""Room for the names of the rows."""
_TOP = 62.0
_LANE = 62.0
"""From one input to the next, where each has a lane of its own."""
_ROLES: dict[Kind, Role] = {"queries": "query", "keys": "key", "values": "value"}
_SYMBOLS: dict[Kind, str] = {"queries": "W_Q", "keys": "W_K", "values": "W_V"}


def _speaker(language: Language) -> Speaker:
    return Speaker(language, FIGURE_WORDS)


def _names(run: Trace, say: Speaker) -> list[str]:
    return [say("numbered", number=place + 1) for place in range(run["x"].shape[-2])]


def _lanes(
    canvas: Canvas, numbers: Numbers, left: float, *, role: Role, first_beat: int | None = None
) -> list[Grid]:
    """Each row of a matrix in the lane of its input; from `first_beat` on one a beat."""
    lanes = []
    for row in range(len(numbers.values)):
        place = Place(left, _TOP + row * _LANE)
        beat = first_beat + row if first_beat is not None else None
        if beat is None:
            lanes.append(draw_grid(canvas, numbers.rows(row), place, role=role))
            continue
        with canvas.appearing(beat):
            lanes.append(draw_grid(canvas, numbers.rows(row), place, role=role))
    return lanes


def _lane_labels(canvas: Canvas, names: list[str], right: float = _LABEL) -> None:
    for row, name in enumerate(names):
        canvas.text(right, _TOP + row * _LANE + 15, name, size=13, anchor="end", role="quiet")


def _lane_title(canvas: Canvas, lanes: list[Grid], said: str, role: Role) -> None:
    canvas.text(lanes[0].box.x, 28, said, bold=True, role=role)


def inputs_figure(run: Trace, language: Language) -> Drawing:
    """The inputs, a row each."""
    say = _speaker(language)
    numbers = numbers_of(run["x"])
    canvas = Canvas(330, _TOP + 3 * _LANE - 16, say("inputs figure"))
    _lane_labels(canvas, _names(run, say))
    lanes = _lanes(canvas, numbers, _LABEL + 20, role="input")
    _lane_title(canvas, lanes, say("inputs"), "input")
    return canvas.done()


def derive_figure(run: Trace, language: Language) -> Drawing:
    """Three vectors from each input."""
    say = _speaker(language)
    canvas = Canvas(880, _TOP + 3 * _LANE - 16, say("derive figure"))
    _lane_labels(canvas, _names(run, say))
    lanes = _lanes(canvas, numbers_of(run["x"]), _LABEL + 20, role="input")
    _lane_title(canvas, lanes, say("inputs"), "input")
    kinds: tuple[Kind, ...] = ("keys", "queries", "values")
    left = lanes[0].box.right + 76
    for number, kind in enumerate(kinds):
        with canvas.appearing(number + 1):
            made = _lanes(canvas, numbers_of(run[f"projected_{kind}"]), left, role=_ROLES[kind])
            title = f"{say(kind)} = x {_SYMBOLS[kind]}"
            _lane_title(canvas, made, title, _ROLES[kind])
            for grid in made:
                target = grid.box
                if number == 0:
                    start = lanes[0].box.right + 10
                    canvas.line((start, target.y), (target.left - 10, target.y), arrow=True)
        left = made[0].box.right + 34
    return canvas.done()


def projection_figure(run: Trace, kind: Kind, language: Language) -> Drawing:
    """Inputs times a matrix, row by row."""
    say = _speaker(language)
    role = _ROLES[kind]
    canvas = Canvas(712, 262, say(f"{kind} figure"))
    inputs = draw_grid(
        canvas, numbers_of(run["x"]), Place(_LABEL + 20, 78), title=say("inputs"), role="input",
        rows=_names(run, say),
    )  # fmt: skip
    weight = numbers_of(run[f"to_{kind}.weight"])
    maps = draw_grid(
        canvas, Numbers(weight.values.T, weight.scale), Place(inputs.box.right + 58, 62),
        title=_SYMBOLS[kind],
    )  # fmt: skip
    step = run[f"projected_{kind}"]
    made = draw_grid(
        canvas, numbers_of(step), Place(maps.box.right + 58, 78), title=say(kind), role=role,
        beat=lambda row, _: row + 1,
    )  # fmt: skip
    canvas.text(inputs.box.right + 29, inputs.box.y, "×", size=22)
    canvas.text(maps.box.right + 29, inputs.box.y, "=", size=22)
    last = made.n_rows - 1
    for row in range(made.n_rows):
        with canvas.during(row + 1):
            canvas.box(inputs.row(row).grown(5), role="query", corner=6)
            canvas.box(maps.column(0).grown(5), role="query", corner=6)
            canvas.box(made.cell(row, 0).grown(3), role="query", corner=6)
        with canvas.appearing(row + 1) if row == last else canvas.during(row + 1):
            name = say("numbered", number=row + 1)
            canvas.text(356, 232, f"{name}:  {_arithmetic(step[row, 0])}", size=15)
    return canvas.done()


def _arithmetic(cell: Cell) -> str:
    shown = lesson_card(cell)
    return f"{shown.numbers} = {shown.value}".replace("-", "−")


def scores_figure(run: Trace, language: Language) -> Drawing:
    """The query of input 1 meets every key."""
    say = _speaker(language)
    canvas = Canvas(830, _TOP + 3 * _LANE - 10, say("scores figure"))
    query = draw_grid(
        canvas, numbers_of(run["projected_queries"]).rows(0), Place(24, _TOP + _LANE),
        title=say("of input", what=say("query"), number=1), role="query",
    )  # fmt: skip
    keys = _lanes(canvas, numbers_of(run["projected_keys"]), 288, role="key")
    _lane_title(canvas, keys, say("keys"), "key")
    scores = numbers_of(run["scores"])
    canvas.text(540, 28, say("scores"), bold=True, role="score")
    for row, key in enumerate(keys):
        y = key.box.y
        with canvas.appearing(row + 1):
            start = (query.box.right + 8, query.box.y)
            canvas.line(start, (key.box.left - 8, y), role="query", arrow=True)
            canvas.line((key.box.right + 8, y), (508, y), role="key", arrow=True)
            one = Numbers(scores.values[:1, row : row + 1], scores.scale)
            draw_grid(canvas, one, Place(517, y - 15), role="score")
            cell = run["scores"][0, 0, 0, row]
            canvas.text(584, y, f"= {lesson_card(cell).numbers}", size=14, anchor="start")
    return canvas.done()


def softmax_figure(run: Trace, language: Language) -> Drawing:
    """From scores to shares of one."""
    say = _speaker(language)
    canvas = Canvas(700, _TOP + 3 * _LANE + 24, say("softmax figure"))
    _lane_labels(canvas, _names(run, say))
    scaled, weights = numbers_of(run["scaled"]), numbers_of(run["weights"])
    row = [float(number) for number in scaled.values[0]]
    largest = max(row)
    powers = [math.exp(number - largest) for number in row]
    lefts = (_LABEL + 30, 300.0, 480.0)
    heads: tuple[tuple[str, Role], ...] = (
        (say("scores"), "score"),
        (f"e^(s − {cell_number(largest)})", "quiet"),
        (say("weights"), "output"),
    )
    for left, (said, role) in zip(lefts, heads, strict=True):
        canvas.text(left + 23, 28, said, bold=True, role=role)
    for place, power in enumerate(powers):
        y = _TOP + place * _LANE + 15
        score = Numbers(scaled.values[:1, place : place + 1], scaled.scale)
        draw_grid(canvas, score, Place(lefts[0], y - 15), role="score")
        with canvas.appearing(1):
            canvas.line((lefts[0] + 60, y), (lefts[1] - 34, y), arrow=True)
            canvas.text(lefts[1] + 23, y, _three(power), size=15)
        with canvas.appearing(3):
            canvas.line((lefts[1] + 74, y), (lefts[2] - 14, y), arrow=True)
            share = Numbers(weights.values[:1, place : place + 1], weights.scale)
            draw_grid(canvas, share, Place(lefts[2], y - 15), role="output")
            width = max(1.5, 260 * float(weights.values[0, place]))
            canvas.bar(Box(lefts[2] + 62, y - 9, width, 18), "output")
    with canvas.appearing(2):
        bottom = _TOP + 3 * _LANE - 12
        canvas.line((lefts[1] - 14, bottom), (lefts[1] + 60, bottom), role="ink")
        canvas.text(lefts[1] + 23, bottom + 20, _three(sum(powers)), size=15, bold=True)
        canvas.text(lefts[1] - 40, bottom + 20, say("sum of rows"), size=13, role="quiet")
    with canvas.appearing(3):
        canvas.text(lefts[2] + 23, bottom + 20, "1", size=15, bold=True)
    return canvas.done()


def _three(number: float) -> str:
    return f"{number:.3f}"


def weighted_figure(run: Trace, language: Language) -> Drawing:
    """Weight times value, for each input."""
    say = _speaker(language)
    canvas = Canvas(660, _TOP + 3 * _LANE - 10, say("weighted figure"))
    names = _names(run, say)
    _lane_labels(canvas, names)
    weights, values = numbers_of(run["weights"]), numbers_of(run["projected_values"])
    shares = Numbers(weights.values[:1].T, weights.scale)
    left = _lanes(canvas, shares, _LABEL + 30, role="score")
    middle = _lanes(canvas, values, 240, role="value")
    _lane_title(canvas, left, say("weights"), "score")
    _lane_title(canvas, middle, say("values"), "value")
    weighted = _summands(run)
    right = _lanes(canvas, weighted, 486, role="weighted", first_beat=1)
    _lane_title(canvas, right, say("weighted values"), "weighted")
    for row in range(len(names)):
        y = middle[row].box.y
        canvas.text(196, y, "×", size=20)
        with canvas.appearing(row + 1):
            canvas.text(434, y, "=", size=20)
    return canvas.done()


def _summands(run: Trace) -> Numbers:
    """What output 1 is the sum of: a row for each input, as the trace has them."""
    context = run["context"]
    cells = [context[0, 0, 0, entry] for entry in range(context.shape[-1])]
    values = np.array([[term.value for term in cell.terms] for cell in cells]).T
    return Numbers(values, numbers_of(run["projected_values"]).scale)


def sum_figure(run: Trace, language: Language) -> Drawing:
    """The weighted values, added column by column."""
    say = _speaker(language)
    canvas = Canvas(380, 250, say("sum figure"))
    weighted = _summands(run)
    grid = draw_grid(
        canvas, weighted, Place(150, 56), title=say("weighted values"), role="weighted",
        rows=_names(run, say), beat=lambda row, _: row + 1,
    )  # fmt: skip
    beat = len(weighted.values) + 1
    with canvas.appearing(beat):
        canvas.text(grid.box.left - 24, grid.box.bottom + 26, "+", size=22)
        y = grid.box.bottom + 26
        canvas.line((grid.box.left - 8, y), (grid.box.right + 8, y), role="ink")
        draw_grid(
            canvas, numbers_of(run["context"]).rows(0), Place(150, y + 16), role="output",
            rows=[say("output of", number=1)],
        )  # fmt: skip
    return canvas.done()


def repeat_figure(run: Trace, language: Language) -> Drawing:
    """All rows of weights, and with them all outputs."""
    say = _speaker(language)
    canvas = Canvas(690, 206, say("repeat figure"))
    names = _names(run, say)

    def by_row(row: int, _: int) -> int:
        return row + 1

    weights = draw_grid(
        canvas, numbers_of(run["weights"]), Place(_LABEL + 20, 64), title=say("weights"),
        role="score", rows=names, beat=by_row,
    )  # fmt: skip
    values = draw_grid(
        canvas, numbers_of(run["projected_values"]), Place(weights.box.right + 60, 64),
        title=say("values"), role="value",
    )  # fmt: skip
    outputs = draw_grid(
        canvas, numbers_of(run["context"]), Place(values.box.right + 60, 64),
        title=say("outputs"), role="output", beat=by_row,
    )  # fmt: skip
    canvas.text(weights.box.right + 30, weights.box.y, "×", size=22)
    canvas.text(values.box.right + 30, weights.box.y, "=", size=22)
    for row in range(len(names)):
        with canvas.during(row + 1):
            canvas.box(weights.row(row).grown(5), role="query", corner=6)
            canvas.box(outputs.row(row).grown(5), role="query", corner=6)
    return canvas.done()
