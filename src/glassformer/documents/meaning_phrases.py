"""The phrases that sentences about steps are put together from: tokens, shares, rows of numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from glassformer.language import Language, Sentences, words
from glassformer.tracing import Step
from glassformer.tracing.capture.memory import Index
from glassformer.tracing.explanation import Card
from glassformer.tracing.formula import number as plain_number
from glassformer.tracing.steps import Head

Floats = np.ndarray[Any, np.dtype[np.float64]]
_MOST_NAMED = 3
"""Tokens that a list names; the others are counted."""
_SPACE = "␣"
_ENDINGS = {1: "st", 2: "nd", 3: "rd"}


def digits(value: object) -> str:
    """A number inside a sentence: three significant digits, a true minus sign."""
    return plain_number(float(value), 3).replace("-", "−")  # type: ignore[arg-type]


def percent(share: float) -> str:
    """A share in whole percent; what would wrongly read 0% or 100% has more digits."""
    if 0 < share < 0.01:
        return f"{100 * share:.2g}%" if share >= 1e-6 else "< 0.0001%"
    if 0.995 <= share < 1:
        return f"{100 * share:.2f}".rstrip("0").rstrip(".") + "%" if share < 0.9999 else "> 99.99%"
    return f"{100 * share:.0f}%"


@dataclass(frozen=True, slots=True)
class Tokens:
    """What the positions along an axis are called."""

    labels: tuple[str, ...] | None
    count: int
    is_plain_row: bool = False
    """Whether nothing tells that the positions are tokens."""

    @property
    def speaking(self) -> int:
        """A position for an example: that of the longest word, the last of equals."""
        if self.labels is None:
            return self.count - 1
        sizes = [len(label) * self.is_word(place) for place, label in enumerate(self.labels)]
        return max(range(self.count), key=lambda place: (sizes[place], place))

    def is_word(self, place: int) -> bool:
        """Whether a word stands there: no punctuation, number or special token."""
        return self.labels is not None and self.labels[place].strip(_SPACE).isalpha()


def tokens_at(step: Step, axis: int) -> Tokens:
    return Tokens(step.token_labels(axis), step.shape[axis])


def tokens_along(step: Step) -> tuple[int | None, Tokens]:
    """The axis of a step that runs over tokens, and their names; None where there is none."""
    labels, shape = step.labels, step.shape
    heads = {a for a, texts in enumerate(labels) if texts and isinstance(texts[0], Head)}
    for axis, texts in enumerate(labels[:-1]):
        if texts is not None and axis not in heads:
            return axis, Tokens(texts, shape[axis])
    free = [axis for axis in range(len(shape) - 1) if axis not in heads]
    if len(shape) == 3 and _is_position_first(step):
        free = [0]
    if not free:
        return None, Tokens(None, 1, is_plain_row=True)
    if (alone := tokens_at(step, free[-1])).labels is not None and step.role == "activation":
        return free[-1], alone
    count = shape[free[-1]]
    read = {given.shape for given in step.trace.inputs.values()}
    return free[-1], Tokens(None, count, is_plain_row=len(shape) == 2 and (1, count) not in read)


def _is_position_first(step: Step) -> bool:
    """Whether positions come before texts: the inputs tell, and one text needs no axis."""
    positions, texts = step.shape[:2]
    given = {source.shape[:2] for source in step.trace.inputs.values() if len(source.shape) > 1}
    return texts == 1 < positions or (
        (texts, positions) in given and (positions, texts) not in given
    )


class UntoldError(Exception):
    """The structure of a step gives no ground for a sentence: a plainer one is said of it."""


class Phrasing(Sentences):
    """The sentences of step_meaning.toml in one language; counts are written with commas."""

    def __init__(self, language: Language) -> None:
        super().__init__(language, words("glassformer.documents.step_meaning"))

    def __call__(self, key: str, **fields: object) -> str:
        return self.filled(key, {name: _shown(name, field) for name, field in fields.items()})

    def cell(self, key: str, step: Step, index: Index, **fields: object) -> str:
        """A sentence about one number: what it names and is not given is found by `_CellFields`."""
        return self.filled(key, _CellFields(self, step, index, fields))

    # --- tokens ---

    def nth(self, place: int) -> str:
        """Which one, counted from 1: `1st`, `2nd`, `11th`."""
        ending = "th" if place // 10 % 10 == 1 else _ENDINGS.get(place % 10, "th")
        return self(f"ordinal {ending}", place=place)

    def token(self, tokens: Tokens, place: int) -> str:
        """A token in quotes, with its position where it occurs twice; else the position."""
        nth = self.nth(place + 1)
        if tokens.labels is None:
            return self("row number" if tokens.is_plain_row else "position", nth=nth)
        label = tokens.labels[place]
        text = label.strip(_SPACE) or label
        again = [t for t in tokens.labels if (t.strip(_SPACE) or t) == text]
        key = "token" if len(again) == 1 else "token again"
        return self(key, text=text, nth=nth)

    def listed(self, items: Sequence[str]) -> str:
        """`a, b and c`; of many only the first, and how many more."""
        if len(items) > _MOST_NAMED + 1:
            rest = len(items) - _MOST_NAMED
            items = [*items[:_MOST_NAMED], self("more", count=rest)]
        return super().listed(items)

    def side(self, name: str, tokens: Tokens) -> str:
        """`the source (“the” … “road”)`: one side of cross-attention."""
        if tokens.labels is None:
            return self[f"side {name}"]
        ends = (tokens.labels[0], tokens.labels[-1])
        first, last = (label.strip(_SPACE) or label for label in ends)
        said = self("side range", first=first, last=last)
        return self(f"side {name} words", words=said)

    def named(self, tokens: Tokens, places: Sequence[int]) -> str:
        return self.listed([self.token(tokens, place) for place in places])

    def in_head(self, step: Step, lead: Index, said: str) -> str:
        """With the head that is meant, where there are several."""
        if len(step.shape) < 3 or step.shape[-3] < 2 or len(lead) < 1:
            return said
        return self("in head", head=lead[-1] + 1, said=self.continued(said))

    def continued(self, said: str) -> str:
        """A sentence that no longer stands at the start."""
        starts = ("The ", "Row ", "Number ", "Entry ", "For ")
        return said[0].lower() + said[1:] if said.startswith(starts) else said

    # --- rows of numbers ---

    def answers(self, keys: Tokens, row: Floats, allowed: Sequence[int]) -> str:
        """Who answers a query with what: `“not” answers with 6, the others with 0`."""
        shown = {place: digits(row[place]) for place in allowed}
        best = _largest(row, allowed, shown)
        others = [place for place in allowed if place not in best]
        value, named = shown[best[0]], self.named(keys, best)
        if len(allowed) == 1:
            return self("row only", best=named, value=value)
        if not others:
            return self("row flat", count=len(allowed), value=value)
        least, most = (shown[pick(others, key=lambda at: row[at])] for pick in (min, max))
        fields = {"best": named, "value": value, "least": least}
        if len(best) > 1:
            if least == most:
                return self("row tied same", **fields)
            return self("row tied range", **fields, most=most)
        if len(others) == 1:
            return self("row one", **fields, other=self.token(keys, others[0]))
        return (
            self("row same", **fields) if least == most else self("row range", **fields, most=most)
        )

    def attends(
        self, row: str, keys: Tokens, shares: Floats, allowed: Sequence[int], then: bool = False
    ) -> str:
        """Whom a token attends to, and how much; with `then`, also the second."""
        if not allowed or not shares.any():
            return self("attends nothing", row=row)
        shown = {place: percent(float(shares[place])) for place in allowed}
        best = _largest(shares, allowed, shown)
        named, share = self.named(keys, best), shown[best[0]]
        if len(allowed) == 1:
            return self("attends only", row=row, best=named)
        if len(best) == len(allowed):
            same = len({float(shares[place]) for place in allowed}) == 1
            if len(allowed) == 2:
                key = "attends flat two" if same else "attends flat nearly two"
            else:
                key = "attends flat" if same else "attends flat nearly"
            return self(key, row=row, count=len(allowed), share=share)
        if len(best) > 1:
            return self("attends tied", row=row, best=named, share=share)
        key = "attends mostly" if shares[best[0]] >= 0.5 else "attends most"
        said = self(key, row=row, best=named, share=share)
        others = sorted((at for at in allowed if at not in best), key=lambda at: -shares[at])
        is_clear = shares[others[0]] >= 0.01
        if not then or not is_clear or shown[others[0]] in [shown[place] for place in others[1:]]:
            return said
        second = self.token(keys, others[0])
        return self("attends then", said=said, second=second, share=shown[others[0]])

    def rank(
        self, name: Callable[[int], str], row: Floats, allowed: Sequence[int], place: int
    ) -> str:
        """Where a number stands among those of its row, compared at full precision."""
        if len(allowed) == 1:
            return self("rank only")
        among = np.asarray(allowed)
        above = among[row[among] > row[place]]
        equal = [int(at) for at in among[row[among] == row[place]] if at != place]
        fields = {"count": len(allowed)}
        if len(equal) == len(allowed) - 1:
            return self("rank flat", **fields)
        if not len(above) and equal:
            others = self.listed([name(at) for at in equal])
            return self("rank tied", **fields, others=others)
        if not len(above):
            return self("rank largest", **fields)
        if len(above) == len(allowed) - 1:
            return self("rank smallest", **fields)
        key = "rank larger one" if len(above) == 1 else "rank larger"
        return self(key, **fields, above=len(above))

    def one_number(self, tokens: Tokens, values: Floats) -> str:
        """Vectors of one number each: which token has which."""
        places = range(len(values))
        shown = {place: digits(values[place]) for place in places}
        best = _largest(values, places, shown)
        others = {shown[place] for place in places if place not in best}
        if not others:
            return self("vector one flat", value=shown[0])
        fields = {"best": self.named(tokens, best), "value": shown[best[0]]}
        if len(others) == 1 and len(best) == 1:
            return self("vector one", **fields, least=others.pop())
        return self(
            "vector one range", **fields | {"best": self.token(tokens, best[0])},
            least=shown[int(np.argmin(values))],
        )  # fmt: skip

    def one_vector(self, tokens: Tokens, place: int, vector: Floats, heads: int = 1) -> str:
        """The length of a vector, and its largest number; `heads`: those that share it."""
        top, each = int(np.argmax(np.abs(vector))), len(vector) // heads
        shared = self("vector heads", heads=heads, each=each) if heads > 1 else ""
        return self(
            "vector long", row=self.token(tokens, place), width=len(vector), heads=shared,
            length=digits(np.linalg.norm(vector)), place=top + 1, value=digits(vector[top]),
        )  # fmt: skip

    def numbers(self, values: np.ndarray[Any, Any]) -> str:
        """How many numbers there are, and from where to where they go."""
        least, most = span(values).values()
        if values.size == 1:
            return self("numbers one", value=least)
        if least == most:
            return self("numbers equal", count=values.size, value=least)
        return self("numbers range", count=values.size, least=least, most=most)


# --- what a template may name of a number ---


class _CellFields(dict[str, object]):
    """Fields given, and facts of a number that a template names besides: a method for each."""

    def __init__(
        self, say: Phrasing, step: Step, index: Index, fields: Mapping[str, object]
    ) -> None:
        super().__init__({name: _shown(name, field) for name, field in fields.items()})
        self._say, self._step, self._index = say, step, index

    def __missing__(self, name: str) -> object:
        return _shown(name, getattr(self, name)())

    def place(self) -> int:
        return self._index[-1] + 1

    def width(self) -> int:
        return self._step.shape[-1]

    def row(self) -> str:
        """The token that the number belongs to."""
        axis, tokens = tokens_along(self._step)
        return self._say.token(tokens, 0 if axis is None else self._index[axis])

    def value(self) -> str:
        return digits(self._step.view.array[self._index])

    def sum(self) -> str:
        """How many products were added up, and whether a bias."""
        count = len(_products(self._step, self._index)[1])
        bias = self._say["sum bias"] if has_bias(self._step) else ""
        if count > 1:
            return self._say("sum products", count=count, bias=bias)
        if bias:
            return self._say("sum products one", bias=bias)
        return self._say["sum products alone"]

    def part(self) -> str:
        return largest_part(self._say, self._step, self._index)


def _shown(name: str, field: object) -> object:
    return f"{field:,}" if isinstance(field, int) and name != "id" else field


def has_bias(step: Step) -> bool:
    return step.op == "addmm" or any(operand.argument == "bias" for operand in step.operands)


def _products(step: Step, index: Index) -> tuple[list[Floats], Floats]:
    """What a number of a linear map multiplies, and the products that it adds up."""
    factors, products = Card(step[index]).factors()
    if not len(products):
        raise UntoldError
    return factors, products


def largest_part(say: Phrasing, step: Step, index: Index) -> str:
    factors, products = _products(step, index)
    if len(products) == 1:
        first, second = (digits(row[0]) for row in factors)
        return say("sum one", first=first, second=second)
    if not products.any():
        return say("sum zero")
    return say("sum part", part=digits(products[int(np.argmax(np.abs(products)))]))


def span(values: np.ndarray[Any, Any]) -> dict[str, str]:
    """The smallest and the largest number; of infinite ones none is named."""
    with np.errstate(invalid="ignore"):
        least, most = values.min(), values.max()
        if not np.isfinite([float(least), float(most)]).all():
            finite = np.asarray(values, dtype=np.float64)
            finite = finite[np.isfinite(finite)]
            if finite.size:
                least, most = finite.min(), finite.max()
    return {"least": digits(least), "most": digits(most)}


def largest_terms(terms: Floats) -> list[int]:
    """The places of the largest term in magnitude, and of those that read the same."""
    best = digits(terms[int(np.argmax(np.abs(terms)))])
    return [place for place, term in enumerate(terms) if digits(term) == best]


def _largest(row: Floats, places: Sequence[int], shown: dict[int, str]) -> list[int]:
    """The places of the largest number, and of those that read the same."""
    best = max(places, key=lambda at: row[at])
    return [at for at in places if shown[at] == shown[best]]
