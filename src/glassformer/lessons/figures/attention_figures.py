"""Figures of one head: step by step with three inputs, as a diagram, and for words moved about."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np

from glassformer.language import Language
from glassformer.lessons.figures.sheet import (
    SLIM,
    BarColumn,
    ColouredNumbers,
    FigurePart,
    Label,
    Length,
    MatrixFigure,
    ModelBox,
    Point,
    Sign,
    Swatch,
    TableFigure,
    cell_number,
    heading,
    numbers_of,
    speaker,
)
from glassformer.lessons.lesson import Speaker, lesson_card
from glassformer.picture import Box, Canvas, Picture, Role, text_width
from glassformer.tracing import Step, Trace

Kind = Literal["queries", "keys", "values"]
_ROLES: dict[Kind, Role] = {"queries": "query", "keys": "key", "values": "value"}
_SYMBOLS: dict[Kind, str] = {"queries": "W_Q", "keys": "W_K", "values": "W_V"}
_BELOW = "₁₂₃₄₅₆₇₈₉"
_CHOSEN = 1
"""The diagrams follow the second input, like the texts."""


# --- three inputs, step by step --------------------------------------------------------------


class _Lanes(TableFigure):
    """One row per input, named in the first column; the other columns have headings."""

    def __init__(self, names: Sequence[str] = (), across: float = 28) -> None:
        super().__init__(across, 20)
        self._next = 0
        if names:
            self.add([Label(name) for name in names])

    def add(
        self,
        pieces: Sequence[FigurePart],
        said: str = "",
        role: Role = "ink",
        beats: Sequence[int] = (),
    ) -> Sequence[FigurePart]:
        """A column of pieces, one per row."""
        beats = beats or [0] * len(pieces)
        if said:
            self.put(heading(said, role), 0, self._next, beat=beats[0] if len({*beats}) < 2 else 0)
        for lane, (piece, beat) in enumerate(zip(pieces, beats, strict=True)):
            self.put(piece, lane + 1, self._next, beat=beat)
        self._next += 1
        return pieces


def _names(run: Trace, language: Language) -> list[str]:
    say = speaker(language)
    return [say("numbered", number=place + 1) for place in range(run["x"].shape[-2])]


def _rows(numbers: ColouredNumbers, role: Role) -> list[MatrixFigure]:
    return [MatrixFigure(numbers.rows(row), role) for row in range(len(numbers.values))]


def inputs_figure(run: Trace, language: Language) -> Picture:
    say, lanes = speaker(language), _Lanes(_names(run, language))
    lanes.add(_rows(numbers_of(run["x"]), "input"), say("inputs"), "input")
    return lanes.drawing(say("inputs figure"))


def derive_figure(run: Trace, language: Language) -> Picture:
    """A key, a query and a value from each input."""
    say, lanes = speaker(language), _Lanes(_names(run, language))
    inputs = lanes.add(_rows(numbers_of(run["x"]), "input"), say("inputs"), "input")
    lanes.add([FigurePart(24, 0) for _ in inputs])
    kinds: tuple[Kind, ...] = ("keys", "queries", "values")
    for beat, kind in enumerate(kinds, start=1):
        made = _rows(numbers_of(run[f"projected_{kind}"]), _ROLES[kind])
        title = f"{say(kind)} = x {_SYMBOLS[kind]}"
        lanes.add(made, title, _ROLES[kind], [beat] * len(made))
        for one, other in zip(inputs, made, strict=True) if beat == 1 else ():
            lanes.join(one, other, sideways=True, beat=beat)
    return lanes.drawing(say("derive figure"))


def _product(
    left: MatrixFigure, right: MatrixFigure, made: MatrixFigure, *, cells: bool
) -> TableFigure:
    """A matrix product, built row by row, with frames around what is multiplied.

    With `cells`, the frames follow the first cell of each row and the column that it comes from.
    """
    table = TableFigure(22, 22)
    signs = Label("×", "ink", 22), Label("=", "ink", 22)
    for place, piece in enumerate((left, signs[0], right, signs[1], made)):
        table.put(piece, 0, place)
    for row in range(made.n_rows):
        made_here = [right.column(0), made.cell(row, 0)] if cells else [made.row(row)]
        for section in (left.row(row), *made_here):
            table.frame(section, "query", beat=-row - 1)
    return table


def _by_row(row: int) -> int:
    return row + 1


def projection_figure(run: Trace, kind: Kind, language: Language) -> Picture:
    """Inputs times a matrix, row by row."""
    say, names, step = speaker(language), _names(run, language), run[f"projected_{kind}"]
    weight = numbers_of(run[f"to_{kind}.weight"])
    table = _product(
        MatrixFigure(numbers_of(run["x"]), "input", title=say("inputs"), rows=names),
        MatrixFigure(ColouredNumbers(weight.values.T, weight.scale), title=_SYMBOLS[kind]),
        MatrixFigure(numbers_of(step), _ROLES[kind], title=say(kind), beat=_by_row), cells=True,
    )  # fmt: skip
    room = table.put(FigurePart(0, 20), 1, 0, span=5)
    for row, name in enumerate(names):
        shown = lesson_card(step[row, 0])
        said = say("row sum", name=name, numbers=shown.numbers, value=shown.value)
        beat = row + 1 if name == names[-1] else -row - 1
        table.note(said.replace("-", "−"), lambda at: (at.x, at.y), room, size=15, beat=beat)
    return table.drawing(say(f"{kind} figure"))


def scores_figure(run: Trace, language: Language) -> Picture:
    """The query of input 1 meets every key."""
    say, lanes = speaker(language), _Lanes()
    title = say("of input", what=say("query"), number=1)
    query = MatrixFigure(numbers_of(run["projected_queries"]).rows(0), "query", title=title)
    query.above = 0  # its title stands between two lanes
    keys = _rows(numbers_of(run["projected_keys"]), "key")
    lanes.add([FigurePart(0, 0), query, FigurePart(0, 0)])
    lanes.add([FigurePart(20, 0) for _ in keys])
    lanes.add(keys, say("keys"), "key")
    lanes.add([FigurePart(10, 0) for _ in keys])
    lanes.put(heading(say("scores"), "score"), 0, 4)
    for place, key in enumerate(keys):
        beat, cell = place + 1, run["scores"][0, 0, 0, place]
        score = MatrixFigure(numbers_of(run["scores"]).cell(0, place), "score")
        lanes.put(score, place + 1, 4, beat=beat)
        said = Label(f"= {lesson_card(cell).numbers}", "ink", 14)
        lanes.put(said, place + 1, 5, align="start", beat=beat)
        lanes.join(query, key, "query", sideways=True, beat=beat)
        lanes.join(key, score, "key", sideways=True, beat=beat)
    return lanes.drawing(say("scores figure"))


def softmax_figure(run: Trace, language: Language) -> Picture:
    """From scores to weights that sum to one."""
    say, lanes = speaker(language), _Lanes(_names(run, language), across=46)
    scaled, weights = numbers_of(run["scaled"]), numbers_of(run["weights"])
    row = [float(number) for number in scaled.values[0]]
    powers, n = [math.exp(number - max(row)) for number in row], range(len(row))
    scores = [MatrixFigure(scaled.cell(0, place), "score") for place in n]
    raised = [Label(f"{power:.3f}", "ink", 15) for power in powers]
    shares = [MatrixFigure(weights.cell(0, place), "output") for place in n]
    lanes.add(scores, say("scores"), "score")
    lanes.add(raised, f"e^(s − {cell_number(max(row))})", "quiet", [1 for _ in n])
    lanes.add(shares, say("weights"), "output", [3 for _ in n])
    for place in n:
        bar = BarColumn([Length(float(weights.values[0, place]))], "output", most=1, room=240)
        lanes.put(bar, place + 1, 4, align="start", beat=3)
        lanes.join(scores[place], raised[place], sideways=True, beat=1)
        lanes.join(raised[place], shares[place], sideways=True, beat=3)
    last = len(row) + 1
    lanes.put(Label(say("sum of rows")), last, 1, align="end", beat=2)
    total = lanes.put(Label(f"{sum(powers):.3f}", "ink", 15, bold=True), last, 2, beat=2)
    lanes.rule(total, total, total, beat=2)
    lanes.put(Label("1", "ink", 15, bold=True), last, 3, beat=3)
    return lanes.drawing(say("softmax figure"))


def weighted_figure(run: Trace, language: Language) -> Picture:
    """Weight times value, for each input."""
    say, names = speaker(language), _names(run, language)
    weights, lanes = numbers_of(run["weights"]), _Lanes(names)
    beats = [place + 1 for place in range(len(names))]
    lanes.add(
        _rows(ColouredNumbers(weights.values[:1].T, weights.scale), "score"),
        say("weights"),
        "score",
    )
    lanes.add([Label("×", "ink", 20) for _ in names])
    lanes.add(_rows(numbers_of(run["projected_values"]), "value"), say("values"), "value")
    lanes.add([Label("=", "ink", 20) for _ in names], beats=beats)
    lanes.add(_rows(_summands(run), "weighted"), say("weighted values"), "weighted", beats)
    return lanes.drawing(say("weighted figure"))


def _summands(run: Trace) -> ColouredNumbers:
    """The summands of output 1, one row per input, from the trace."""
    context = run["context"]
    cells = [context[0, 0, 0, entry] for entry in range(context.shape[-1])]
    values = np.array([[term.value for term in cell.terms] for cell in cells]).T
    return ColouredNumbers(values, numbers_of(run["projected_values"]).scale)


def sum_figure(run: Trace, language: Language) -> Picture:
    """The weighted values, added column by column."""
    say, names, table = speaker(language), _names(run, language), TableFigure(down=26)
    title, beat = say("weighted values"), len(names) + 1
    whole = MatrixFigure(_summands(run), "weighted", title=title, rows=names, beat=_by_row)
    output = numbers_of(run["context"]).rows(0)
    table.put(whole, 0, 0)
    made = table.put(
        MatrixFigure(output, "output", rows=[say("output of", number=1)]), 1, 0, beat=beat
    )
    table.rule(made, made, made, beat=beat)
    table.note("+", lambda at: (at.left - 24, at.top - 9), made, size=22, beat=beat)
    return table.drawing(say("sum figure"))


def repeat_figure(run: Trace, language: Language) -> Picture:
    """All rows of weights at once, and all outputs."""
    say, names = speaker(language), _names(run, language)
    weights, values, outputs = (
        numbers_of(run[step]) for step in ("weights", "projected_values", "context")
    )
    table = _product(
        MatrixFigure(weights, "score", title=say("weights"), rows=names, beat=_by_row),
        MatrixFigure(values, "value", title=say("values")),
        MatrixFigure(outputs, "output", title=say("outputs"), beat=_by_row), cells=False,
    )  # fmt: skip
    return table.drawing(say("repeat figure"))


# --- one output as a diagram -----------------------------------------------------------------


@dataclass(frozen=True)
class _Attention:
    """The steps that a diagram shows; without projections, queries, keys and values are x."""

    x: Step
    queries: Step
    keys: Step
    values: Step
    scores: Step
    weights: Step
    outputs: Step

    @property
    def mapped(self) -> bool:
        return self.keys is not self.x


def basic_figure(run: Trace, language: Language) -> Picture:
    """Attention without parameters: `run` is a trace of `basic_self_attention`."""
    (outputs,) = run.outputs.values()
    x = run["x"]
    steps = _Attention(x, x, x, x, run["scores"], run["weights"], outputs)
    return _diagram(steps, language).drawing(speaker(language)("basic figure"))


def key_query_value_figure(run: Trace, language: Language) -> Picture:
    """Attention of one head with three projections."""
    queries, keys, values = (run[f"projected_{kind}"] for kind in ("queries", "keys", "values"))
    x, outputs = run["x"], run["context"]
    steps = _Attention(x, queries, keys, values, run["scaled"], run["weights"], outputs)
    return _diagram(steps, language).drawing(speaker(language)("key-query-value figure"))


class _Vector(MatrixFigure):
    """A row of numbers with its symbol beside it."""

    def __init__(self, step: Step, place: int, role: Role, letter: str) -> None:
        super().__init__(numbers_of(step).rows(place), role, cell=SLIM)
        self._symbol, self._own = f"{letter}{_BELOW[place]}", role
        room = text_width(self._symbol, 14) + 10
        self.below = 24 if role == "input" else 0
        self.before, self.after = room * (role == "key"), room * (role in ("value", "output"))

    def draw(self, canvas: Canvas) -> None:
        super().draw(canvas)
        box = self.box
        x, y = {
            "input": (box.x, box.bottom + 15), "key": (box.left - 15, box.y),
            "query": (box.x + 16, box.top - 13),
        }.get(self._own, (box.right + 15, box.y))  # fmt: skip
        canvas.text(x, y, self._symbol, bold=True, role=self._own)


_OUTPUT, _PLUS, _TIMES, _WEIGHTS, _SOFTMAX, _SCORES, _DOT, _KEYS, _QUERY, _INPUTS = range(10)
_LEVELS = {
    _OUTPUT: "output", _TIMES: "mixed", _WEIGHTS: "weights", _SOFTMAX: "softmax",
    _SCORES: "scores", _DOT: "dot",
}  # fmt: skip


def _diagram(steps: _Attention, language: Language) -> TableFigure:
    """From the inputs at the bottom to one output at the top.

    Each input has three columns, with its key in the first and its value in the third. Without
    projections a vector is its own key and value and takes the place of the key.
    """
    say, n, mapped = speaker(language), steps.x.shape[-2], steps.mapped
    table = TableFigure(14 if mapped else 30, 20)
    for level, said in _LEVELS.items():
        table.put(Label(say(said)), level, 0, align="start")
    at = [1 + 3 * place for place in range(n)]
    keys, values, query = _vectors(table, steps, at)
    dots = [table.put(Sign("·"), _DOT, column) for column in at]
    _query_lines(table, query, dots, 0.0 if mapped else 24.0)
    softmax = table.put(
        ModelBox("softmax", "score", bold=False), _SOFTMAX, 1, span=at[-1], align="fill"
    )
    output = _Vector(steps.outputs, _CHOSEN, "output", "y")
    middle, span = at[_CHOSEN], 3 if mapped else 1
    plus = table.put(Sign("+"), _PLUS, middle, span=span)
    table.join(plus, table.put(output, _OUTPUT, middle, span=span), "weighted")
    scores, weights = numbers_of(steps.scores), numbers_of(steps.weights)

    def up_and_left(value: Box, times: Box) -> list[Point]:
        x = value.x + (0 if mapped else 60)
        return [(x, value.top - 4), (x, times.y), (times.right + 2, times.y)]

    for place, column in enumerate(at):
        score = table.put(MatrixFigure(scores.cell(_CHOSEN, place), "score"), _SCORES, column)
        sign = f"w{_BELOW[_CHOSEN]}{_BELOW[place]}"
        weight = MatrixFigure(weights.cell(_CHOSEN, place), "output", rows=[sign])
        table.put(weight, _WEIGHTS, column)
        times = table.put(Sign("×"), _TIMES, column)
        table.join(keys[place], dots[place], "key")
        table.join(dots[place], score)
        table.join(score, softmax, straight=True, gaps=(0, 0), arrow=False)
        table.join(softmax, weight, straight=True, gaps=(0, 2))
        table.join(weight, times)
        table.line(up_and_left, values[place], times, role="value" if mapped else "input")
        table.join(times, plus, "weighted", gaps=(0, 0), arrow=False)
    return table


def _vectors(
    table: TableFigure, steps: _Attention, at: Sequence[int]
) -> tuple[list[_Vector], list[_Vector], _Vector]:
    """Keys, values and the chosen query; with projections, above their inputs."""
    keys, values, queries = [], [], []
    for place, column in enumerate(at):
        x = _Vector(steps.x, place, "input", "x")
        if not steps.mapped:
            keys.append(table.put(x, _KEYS, column))
            continue
        table.put(x, _INPUTS, column, span=3)
        keys.append(table.put(_Vector(steps.keys, place, "key", "k"), _KEYS, column))
        values.append(table.put(_Vector(steps.values, place, "value", "v"), _KEYS, column + 2))
        queries.append(_Vector(steps.queries, place, "query", "q"))
        table.put(FigurePart(20, 0), _KEYS, column + 1)
        if place == _CHOSEN:
            table.join(x, table.put(queries[-1], _QUERY, column, span=3), "query")
        table.line(partial(_from_corner, -1), x, keys[-1], role="key")
        table.line(partial(_from_corner, 1), x, values[-1], role="value")
    return (keys, values, queries[_CHOSEN]) if steps.mapped else (keys, keys, keys[_CHOSEN])


def _from_corner(side: int, x: Box, made: Box) -> list[Point]:
    start = x.x + side * (x.width / 2 - 12)
    return [(start, x.top - 4), (made.x, made.bottom + 5)]


def _query_lines(
    table: TableFigure, query: FigurePart, dots: Sequence[FigurePart], aside: float
) -> None:
    """The query goes to every dot product along one line below them."""

    def corner(dot: Box) -> Point:
        return dot.right + 10, dot.bottom + 8

    def along(query: Box, first: Box, last: Box) -> list[Point]:
        x, y = query.x + aside, corner(first)[1]
        ends = corner(first)[0], corner(last)[0], x
        return [(x, query.top - 4), (x, y), (min(ends), y), (max(ends), y)]

    table.line(along, query, dots[0], dots[-1], role="query", arrow=False)
    for dot in dots:
        table.line(lambda at: [corner(at), (at.x + 9, at.y + 9)], dot, role="query")


def roles_figure(run: Trace, language: Language) -> Picture:
    """The second input's row and column of scores, and its share of each output."""
    say, n, table = speaker(language), run["x"].shape[-2], TableFigure(44, 18)
    rows, columns = ([f"{letter}{sign}" for sign in _BELOW[:n]] for letter in "qk")
    scores = numbers_of(run["scores"])
    query, key = (MatrixFigure(scores, rows=rows, columns=columns) for _ in range(2))
    cells = [run["context"][0, 0, place, 1] for place in range(n)]
    shares = []
    for place, cell in enumerate(cells):
        share, whole = cell.terms[_CHOSEN].value, float(cell.value)
        shares.append(Length(whole, f"y{_BELOW[place]}", f"{share:.2f} / {whole:.2f}", share))
    pieces: tuple[tuple[str, Role, FigurePart], ...] = (
        ("as query", "query", query), ("as key", "key", key),
        ("as value", "value", BarColumn(shares, "output", room=130)),
    )  # fmt: skip
    for place, (said, role, piece) in enumerate(pieces):
        table.put(heading(say(said), role), 0, place, beat=place + 1)
        table.put(piece, 1, place, beat=place + 1)
    table.frame(query.row(_CHOSEN), "query", beat=1)
    table.frame(key.column(_CHOSEN), "key", beat=2)
    legend = table.put(TableFigure(), 2, 2, beat=3)
    legend.put(Swatch(say("share of"), "value", "bar"), 0, 0)
    legend.put(Swatch(say("whole"), "output", "part"), 0, 1)
    return table.drawing(say("roles figure"))


_LINES: tuple[Role, ...] = ("query", "key", "value", "score", "output", "input", "weighted")


def order_figure(one: Step, other: Step, moved: Sequence[int], say: Speaker, title: str) -> Picture:
    """Outputs of two sentences side by side, with a line between equal words.

    Row i of `other` belongs to the word in row moved[i] of `one`.
    """
    table = TableFigure(110, 16)
    left, right = (
        table.put(
            MatrixFigure(
                step, "output", title=say("of outputs", number=place + 1),
                rows=step.labels[-2] or (),
            ),
            0, place,
        )
        for place, step in enumerate((one, other))
    )  # fmt: skip
    words = max(len(word) for word in other.labels[-2] or ("",)) * 8 + 14
    for row, source in enumerate(moved):
        ends = left.row(source), right.row(row)
        table.join(*ends, _LINES[source], sideways=True, gaps=(9, words + 3), width=2)
    return table.drawing(title)
