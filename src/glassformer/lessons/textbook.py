"""How a lesson writes a step: the trace's symbols, places counted from 1, W as x · W uses it."""

from __future__ import annotations

from functools import lru_cache

from glassformer.errors import TraceError
from glassformer.tracing import Cell, Step, Trace
from glassformer.tracing.arithmetic.expressions import Scalar
from glassformer.tracing.explanation import NOT_REPRODUCED, Card
from glassformer.tracing.formula import ENGLISH, Names, Phrases, leaf_of
from glassformer.tracing.formula import number as plain_number

# The unnamed operators of the sinusoids, where they are traced alone.
_GIVEN = {"div": "exponent", "to": "position"}


@lru_cache(maxsize=16)
def textbook(trace: Trace) -> Names:
    """The names of a trace as a lesson writes them."""
    return Names(trace, textbook=True, given=_GIVEN)


def number(value: Scalar, digits: int = 4) -> str:
    """A number inside a sentence, with a minus that is not a hyphen."""
    return plain_number(value, digits).replace("-", "−")


def lesson_card(cell: Cell, phrases: Phrases = ENGLISH) -> Card:
    """A cell's arithmetic as a lesson shows it.

    A lesson prints "=" in many ways: a rule that does not reproduce its number has no place in it.
    """
    card = Card(cell, phrases=phrases, names=textbook(cell.step.trace))
    if card.relation != "=":
        raise TraceError(f"{cell.name}: {NOT_REPRODUCED}")
    return card


def cell_name(cell: Cell) -> str:
    """`S[3, 2]`."""
    return str(leaf_of(cell, textbook(cell.step.trace).sight(cell.step)))


def is_turned(step: Step) -> bool:
    """Whether a lesson shows a step transposed: the matrix of a linear map."""
    return textbook(step.trace).is_turned(step)


def step_title(step: Step) -> str:
    """`S (scores)`: the symbol, and the word where it tells more."""
    names = textbook(step.trace)
    symbol, word = str(names.symbol(step)), names.word(step)
    plain = step.role == "parameter" or word in symbol or symbol.startswith(("∂", "new "))
    return symbol if plain else f"{symbol} ({word})"


def place_labels(step: Step, axis: int) -> tuple[str, ...]:
    """What the places of an axis are called: their labels, else numbers from 1 (words: their ids).

    An axis of size 1 that names leave out has no number either.
    """
    at = len(step.shape) + axis
    if at < 0:
        return ("",)
    if (labels := step.labels[at]) is not None:
        return labels
    written = dict(textbook(step.trace).axes(step))
    if at not in written and axis != -1:
        return ("",)
    first = written.get(at, 1)
    return tuple(str(place + first) for place in range(step.shape[at]))
