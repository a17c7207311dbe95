"""One training step of a small network: forward pass, gradients, update, and a smaller loss."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import nn

from glassformer.documents.parts import Figure, Paragraph
from glassformer.language import Language
from glassformer.lessons.figures.sheet import (
    SMALL,
    ColouredNumbers,
    FigurePart,
    Label,
    MatrixFigure,
    ModelBox,
    TableFigure,
    heading,
    numbers_of,
    speaker,
)
from glassformer.lessons.lesson import LessonStep, Parts, Speaker, formula, number
from glassformer.lessons.lesson_steps import heat_map
from glassformer.lessons.row_questions import with_question
from glassformer.nn.config import FeedForwardConfig
from glassformer.nn.layers import FeedForward
from glassformer.nn.tensors import Float, Tensor
from glassformer.picture import Box, Picture, Role
from glassformer.tracing import Cell, Trace
from glassformer.tracing.gradients import trace_training_step

_RATE = 0.1
_X, _WANTED = (1.0, 2.0), (1.0, 0.0)
_W_1 = ((0.5, 0.2), (-0.4, -0.1), (0.1, 0.3))
_W_2 = ((0.3, -0.2, 0.4), (0.1, 0.5, -0.3))


class TwoSteps(NamedTuple):
    """The step of the lesson, and the one after it."""

    first: Trace
    second: Trace


def _network() -> FeedForward:
    network = FeedForward(len(_X), FeedForwardConfig(d_ff=len(_W_1)))
    with torch.no_grad():
        for parameter in network.parameters():
            nn.init.zeros_(parameter)
        network.expand.weight.copy_(torch.tensor(_W_1))
        assert network.contract is not None
        network.contract.weight.copy_(torch.tensor(_W_2))
    return network


def two_steps(rate: float = _RATE) -> TwoSteps:
    """Two steps of gradient descent on one example, with every number."""
    network = _network()
    optimiser = torch.optim.SGD(network.parameters(), lr=rate)
    x, wanted = torch.tensor([[_X]]), torch.tensor([[_WANTED]])

    def squared_error(output: Float[Tensor, "B T D"]) -> Float[Tensor, ""]:
        error = output - wanted
        squared = error * error
        return squared.mean()

    def step() -> Trace:
        return trace_training_step(network, x, loss=squared_error, optimiser=optimiser)

    return TwoSteps(step(), step())


def steps(say: Speaker) -> Iterator[LessonStep]:
    run, following = two_steps()
    yield from _forward_steps(run, say)
    error = run["gradients.error"][0]
    direction = say("small" if float(error) < 0 else "large")
    said = say("error", place=1, value=error, direction=direction)
    share = error.operands[0]
    yield say.step("gradient", "error", _parts(said, [share, error], ["gradients.error"], say))
    second = run["gradients.contract.weight"][0, 0]
    names = ["activated", "gradients.contract.weight"]
    step = say.step("gradient", "second", _parts(say("second"), [second], names, say))
    given = {"H_relu": heat_map(run["activated"], say), "∂error": heat_map(error.step, say)}
    yield with_question(step, second.step, 2, "H_relu.T @ ∂error", given, say)
    passed = [run["gradients.activated"][0], run["gradients.expanded"][0]]
    passed.append(run["gradients.expand.weight"][0, 1])
    names = ["gradients.expanded", "gradients.expand.weight"]
    yield say.step("gradient", "hidden", _parts(say("hidden"), passed, names, say))
    moved = run["update.contract.weight.weight"][0, 0]
    said = say("update", rate=_RATE, before=run["contract.weight"][0, 0], after=moved)
    names = ["contract.weight", "update.contract.weight.weight"]
    step = say.step("update", "update", _parts(said, [moved], names, say))
    given = {"W_2": heat_map(run["contract.weight"], say), "∂W_2": heat_map(second.step, say)}
    yield with_question(step, moved.step, 2, f"W_2 - {_RATE} * ∂W_2", given, say)
    after = following["loss"][()]
    said = say("again", before=run["loss"][()], after=after)
    step = say.step("loss", "again", _parts(said, [after], [], say))
    # Here and not before: it shows what the reader was asked for.
    yield step.with_(
        Paragraph(say("graph")), Figure("graph", graph_figure(run, say.language))
    )  # fmt: skip


def _forward_steps(run: Trace, say: Speaker) -> Iterator[LessonStep]:
    linear, output = run["expanded"][0], run["contracted"][0]
    said = say("forward", place=1, linear=linear, output=output, wanted=_WANTED[0])
    names = ["x", "expand.weight", "expanded", "activated", "contract.weight", "contracted"]
    cells = [linear, run["activated"][0], output]
    yield say.step("feed-forward", "forward", _parts(said, cells, names, say))
    said = say("loss", wanted=say.listed(list(map(number, _WANTED))), value=run["loss"][()])
    cells = [run["error"][0], run["squared"][0], run["loss"][()]]
    yield say.step("loss", "loss", _parts(said, cells, [], say))


def _parts(said: str, cells: list[Cell], names: list[str], say: Speaker) -> Parts:
    """Prose, the formulas of the cells, and the named steps with these cells framed."""
    yield said
    yield from map(formula, cells)
    run = cells[0].step.trace
    for name in names:
        step = run[name]
        yield heat_map(step, say, next((cell for cell in cells if cell.step is step), None))


# --- the step as a computation graph ------------------------------------------------------------


class _GraphStage(NamedTuple):
    """An operation of the graph: what it gives, with which parameter, and how it passes back."""

    name: str
    step: str
    passed_back: str
    parameter: str = ""


_GRAPH = (
    _GraphStage("linear", "expanded", "", "expand.weight"),
    _GraphStage("ReLU", "activated", "back through ReLU"),
    _GraphStage("linear", "contracted", "back through W_2", "contract.weight"),
    _GraphStage("minus wanted", "error", "back through a difference"),
    _GraphStage("mean of squares", "loss", "back through the squares"),
)
_SAME_GRADIENT = {"contracted": "error"}
"""Subtracting a constant changes no gradient, so the trace has one step for both."""
_MATRICES = {"expand.weight": "W_1", "contract.weight": "W_2"}


def graph_figure(run: Trace, language: Language) -> Picture:
    """A training step as a graph: numbers on their way down, then gradients on their way back up.

    Beside each red arrow stands what the gradient is multiplied by on its way.
    """
    say, table, last = speaker(language), TableFigure(46, 14), len(_GRAPH)
    table.put(heading(say("forward"), "score"), 0, 1)
    table.put(heading(say("gradients"), "query"), 0, 2, beat=1)
    values, slopes = [_put_node(table, run, "x", 1, 1, "score")], [FigurePart(0, 0)]
    table.put(Label(say("node x")), 1, 0, align="end")
    for place, one in enumerate(_GRAPH):
        row, beat = 2 * place + 3, last - place
        box = table.put(ModelBox(say(one.name), "quiet", bold=False), row - 1, 1)
        values.append(_put_node(table, run, one.step, row, 1, "score"))
        table.put(Label(say(f"node {one.step}")), row, 0, align="end")
        table.join(values[-2], box, "score")
        table.join(box, values[-1], "score")
        gradient = f"gradients.{_SAME_GRADIENT.get(one.step, one.step)}"
        slopes.append(_put_node(table, run, gradient, row, 2, "query", beat))
        if one.passed_back:
            table.join(slopes[-1], slopes[-2], "query", beat=beat)
            table.note(say(one.passed_back), _right_of_arrow, slopes[-1], box, role="query",
                       anchor="start", beat=beat)  # fmt: skip
        if one.parameter:
            matrix, gradient = one.parameter, f"gradients.{one.parameter}"
            given = _put_node(table, run, matrix, row - 1, 0, "value")
            made = _put_node(table, run, gradient, row - 1, 3, "query", beat)
            table.join(given, box, "value", sideways=True)
            table.join(slopes[-1], made, "query", sideways=True, beat=beat)
    table.put(Label(say("graph legend"), "query"), 2 * last + 2, 0, span=4, beat=1)
    return table.drawing(say("graph figure"))


def _put_node(
    table: TableFigure, run: Trace, name: str, row: int, column: int, role: Role, beat: int = 0
) -> FigurePart:
    """The numbers of a step; a parameter and its gradient as x · W uses them, with a title."""
    numbers, parameter = numbers_of(run[name]), _MATRICES.get(name.removeprefix("gradients."), "")
    if parameter:
        numbers = ColouredNumbers(numbers.values.T, numbers.scale)
    title = f"∂{parameter}" if parameter and name.startswith("gradients.") else parameter
    return table.put(MatrixFigure(numbers, role, cell=SMALL, title=title), row, column, beat=beat)


def _right_of_arrow(slope: Box, box: Box) -> tuple[float, float]:
    return slope.x + 10, box.y
