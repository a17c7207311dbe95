"""One output of attention as a diagram, and where one vector acts in it."""

from __future__ import annotations

from dataclasses import dataclass

from glassformer.lessons.example import Language
from glassformer.lessons.walks.figures.canvas import Box, Canvas, Drawing
from glassformer.lessons.walks.figures.grids import Grid, Numbers, Place, draw_grid, numbers_of
from glassformer.lessons.walks.figures.style import Role
from glassformer.lessons.walks.figures.words import FIGURE_WORDS
from glassformer.lessons.walks.phrases import Speaker
from glassformer.trace import Step, Trace

__all__ = ["basic_figure", "key_query_value_figure", "roles_figure"]

_CHOSEN = 1
"""The diagrams follow the second input, as the texts do."""
_BELOW = "₁₂₃₄₅₆₇₈₉"
_CELL = (32.0, 28.0)
_ASIDE = 82.0
"""How far keys stand left, and values right, of their input."""


@dataclass(frozen=True)
class _Parts:
    """The steps that a diagram shows: with three maps, or all the same without."""

    x: Step
    queries: Step
    keys: Step
    values: Step
    scores: Step
    weights: Step
    outputs: Step

    @property
    def mapped(self) -> bool:
        """Whether queries, keys and values are vectors of their own."""
        return self.keys is not self.x


def basic_figure(run: Trace, language: Language) -> Drawing:
    """Attention without parameters: `run` is a trace of `basic_self_attention`."""
    (outputs,) = run.outputs.values()
    x = run["x"]
    parts = _Parts(x, x, x, x, run["scores"], run["weights"], outputs)
    return _Diagram(parts, "basic figure", language).draw()


def key_query_value_figure(run: Trace, language: Language) -> Drawing:
    """Attention of one head with three maps."""
    queries, keys, values = (run[f"projected_{kind}"] for kind in ("queries", "keys", "values"))
    parts = _Parts(run["x"], queries, keys, values, run["scaled"], run["weights"], run["context"])
    return _Diagram(parts, "key-query-value figure", language).draw()


class _Diagram:
    """From the inputs below to one output above."""

    def __init__(self, parts: _Parts, title: str, language: Language) -> None:
        self.parts = parts
        self.say = Speaker(language, FIGURE_WORDS)
        self.n = parts.x.shape[-2]
        self.pitch = 306.0 if parts.mapped else 220.0
        self.bottom = 496.0 if parts.mapped else 372.0
        width = 110 + self.n * self.pitch
        self.canvas = Canvas(width, self.bottom + 72, self.say(title))

    def draw(self) -> Drawing:
        """The whole diagram, from below."""
        middles = [104 + self.pitch * (place + 0.5) for place in range(self.n)]
        inputs = [self._vector(self.parts.x, place, x, self.bottom, "input", "x")
                  for place, x in enumerate(middles)]  # fmt: skip
        for level, said in ((322.0, "dot"), (262.0, "scores"), (222.0, "softmax"),
                            (180.0, "weights"), (122.0, "mixed"), (50.0, "output")):  # fmt: skip
            self.canvas.text(14, level, self.say(said), size=13, anchor="start", role="quiet")
        if self.parts.mapped:
            keys, values, query = self._mapped(inputs, middles)
        else:
            keys, values, query = inputs, inputs, inputs[_CHOSEN]
        self._scores(keys, query, middles)
        self._mixture(values, middles)
        return self.canvas.done()

    def _vector(
        self, step: Step, place: int, x: float, top: float, role: Role, letter: str
    ) -> Grid:
        numbers = numbers_of(step).rows(place)
        width = numbers.values.shape[1] * (_CELL[0] + 2) - 2
        where = Place(x - width / 2, top, _CELL, 12)
        grid = draw_grid(self.canvas, numbers, where, role=role)
        name = f"{letter}{_BELOW[place]}"
        if role == "input":
            self.canvas.text(grid.box.x, grid.box.bottom + 17, name, bold=True, role=role)
        elif role == "query":
            self.canvas.text(grid.box.x + 16, grid.box.top - 14, name, bold=True, role=role)
        else:
            self.canvas.text(grid.box.left - 16, grid.box.y, name, bold=True, role=role)
        return grid

    def _mapped(
        self, inputs: list[Grid], middles: list[float]
    ) -> tuple[list[Grid], list[Grid], Grid]:
        """Keys and values above the inputs; of the queries, that of the chosen one."""
        keys, values = [], []
        for place, x in enumerate(middles):
            keys.append(self._vector(self.parts.keys, place, x - _ASIDE, 374, "key", "k"))
            values.append(self._vector(self.parts.values, place, x + _ASIDE, 374, "value", "v"))
            top = inputs[place].box.top - 5
            self.canvas.line((x - 62, top), (x - _ASIDE, 409), role="key", arrow=True)
            self.canvas.line((x + 62, top), (x + _ASIDE, 409), role="value", arrow=True)
        x = middles[_CHOSEN]
        query = self._vector(self.parts.queries, _CHOSEN, x, 434, "query", "q")
        start = inputs[_CHOSEN].box.top - 5
        self.canvas.line((x, start), (x, query.box.bottom + 5), role="query", arrow=True)
        return keys, values, query

    def _scores(self, keys: list[Grid], query: Grid, middles: list[float]) -> None:
        """Query times key in each column, then one softmax over all."""
        bus = 346.0
        offset = -_ASIDE if self.parts.mapped else 0.0
        start = query.box.x if self.parts.mapped else query.box.x + 20
        self.canvas.line((start, query.box.top - 4), (start, bus), role="query")
        first, last = middles[0] + offset + 20, middles[-1] + offset + 20
        self.canvas.line((min(first, start), bus), (max(last, start), bus), role="query")
        scores, weights = numbers_of(self.parts.scores), numbers_of(self.parts.weights)
        for place, middle in enumerate(middles):
            x = middle + offset
            self.canvas.line((x + 20, bus), (x + 8, 332), role="query", arrow=True)
            self.canvas.line((x, keys[place].box.top - 4), (x, 333), role="key", arrow=True)
            self._node(x, 322, "·")
            self.canvas.line((x, 311), (x, 282), arrow=True)
            self._number(scores, place, x, 262, "score")
            self.canvas.line((x, 244), (x, 234), role="quiet")
            self.canvas.line((x, 210), (x, 199), arrow=True)
            self._number(weights, place, x, 180, "output")
            sign = f"w{_BELOW[_CHOSEN]}{_BELOW[place]}"
            self.canvas.text(x - 34, 180, sign, size=13, anchor="end", role="quiet")
        left, right = middles[0] + offset - 40, middles[-1] + offset + 40
        self.canvas.box(Box(left, 211, right - left, 22), "part", "score", corner=11)
        self.canvas.text((left + right) / 2, 222, "softmax", size=13, role="score")

    def _mixture(self, values: list[Grid], middles: list[float]) -> None:
        """Every value times its weight, all added."""
        offset = -_ASIDE if self.parts.mapped else 0.0
        target = middles[_CHOSEN]
        for place, middle in enumerate(middles):
            x = middle + offset
            box = values[place].box
            up = middle + _ASIDE if self.parts.mapped else box.right - 12
            role: Role = "value" if self.parts.mapped else "input"
            self.canvas.line((up, box.top - 4), (up, 122), (x + 12, 122), role=role, arrow=True)
            self.canvas.line((x, 162), (x, 134), arrow=True)
            self._node(x, 122, "×")
            self.canvas.line((x, 111), (target, 88), role="weighted", arrow=place == _CHOSEN)
        output = numbers_of(self.parts.outputs).rows(_CHOSEN)
        width = output.values.shape[1] * (_CELL[0] + 2) - 2
        where = Place(target - width / 2, 36, _CELL, 12)
        grid = draw_grid(self.canvas, output, where, role="output")
        self._node(target, 84, "+")
        name = f"y{_BELOW[_CHOSEN]}"
        self.canvas.text(grid.box.right + 18, grid.box.y, name, bold=True, role="output")

    def _node(self, x: float, y: float, sign: str) -> None:
        self.canvas.dot(x, y, 11, fill="var(--gf-soft)")
        self.canvas.ring(x, y, 11)
        self.canvas.text(x, y, sign, size=16, bold=True)

    def _number(self, numbers: Numbers, place: int, x: float, y: float, role: Role) -> None:
        one = Numbers(numbers.values[_CHOSEN : _CHOSEN + 1, place : place + 1], numbers.scale)
        draw_grid(self.canvas, one, Place(x - 23, y - 15), role=role)


def roles_figure(run: Trace, language: Language) -> Drawing:
    """The row, the column and the shares of the second input."""
    say = Speaker(language, FIGURE_WORDS)
    n = run["x"].shape[-2]
    names = [f"x{_BELOW[place]}" for place in range(n)]
    canvas = Canvas(884, 244, say("roles figure"))
    scores = numbers_of(run["scores"])
    parts: tuple[tuple[str, Role], ...] = (("as query", "query"), ("as key", "key"))
    for number, (key, role) in enumerate(parts):
        left = 60.0 + 275 * number
        with canvas.appearing(number + 1):
            grid = draw_grid(
                canvas, scores, Place(left, 88), rows=[f"q{sign}" for sign in _BELOW[:n]],
                columns=[f"k{sign}" for sign in _BELOW[:n]],
            )  # fmt: skip
            part = grid.row(_CHOSEN) if key == "as query" else grid.column(_CHOSEN)
            canvas.box(part.grown(5), role=role, corner=7)
            canvas.text(grid.box.x, 34, say(key), size=14, bold=True, role=role)
    with canvas.appearing(3):
        _shares(canvas, run, names, say)
    return canvas.done()


def _shares(canvas: Canvas, run: Trace, names: list[str], say: Speaker) -> None:
    """How much of each output comes from the second input's value: entry 1, as bars."""
    left, entry = 634.0, 1
    canvas.text(left + 86, 34, say("as value"), size=14, bold=True, role="value")
    cells = [run["context"][0, 0, place, entry] for place in range(len(names))]
    widest = max(abs(float(cell.value)) for cell in cells)
    for place, cell in enumerate(cells):
        y = 103 + place * 32
        share, whole = cell.terms[_CHOSEN].value, float(cell.value)
        canvas.text(left - 8, y, f"y{_BELOW[place]}", size=14, anchor="end", role="output")
        canvas.box(Box(left, y - 10, 120 * whole / widest, 20), "part", "output", corner=2)
        canvas.bar(Box(left, y - 10, 120 * share / widest, 20), "value")
        canvas.text(left + 130, y, f"{share:.2f} / {whole:.2f}", size=13, anchor="start")
    canvas.bar(Box(left, 214, 16, 14), "value")
    canvas.text(left + 24, 221, say("share of"), size=13, anchor="start", role="quiet")
    canvas.box(Box(left + 96, 214, 16, 14), "part", "output", corner=2)
    canvas.text(left + 120, 221, say("whole"), size=13, anchor="start", role="quiet")
