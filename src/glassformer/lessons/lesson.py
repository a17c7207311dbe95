"""What a lesson is and how it is written: steps of parts, sentences, and a textbook's notation.

A lesson is made in one language. Its numbers are cells of traces and stay cells, so that a format
can ask them for more (LaTeX, a live formula) and the explorer can link to them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import count
from typing import Any, SupportsFloat, TypeAlias

from glassformer.documents import render_text
from glassformer.documents.parts import (
    Document,
    Facts,
    Figure,
    Formula,
    HeatMap,
    Inline,
    Paragraph,
    Part,
    Question,
    Section,
    Table,
    plain,
    with_code,
)
from glassformer.errors import TraceError
from glassformer.language import Language, Sentences, Words, words
from glassformer.tracing import Cell, Step, Trace
from glassformer.tracing.arithmetic.expressions import Scalar
from glassformer.tracing.explanation import NOT_REPRODUCED, Card
from glassformer.tracing.formula import Names
from glassformer.tracing.formula import number as plain_number


@dataclass(frozen=True, slots=True)
class LessonStep:
    """One step; `role` says what happens in it (queries, scores, weights, …)."""

    role: str
    title: str
    parts: tuple[Part, ...]

    def with_(self, *parts: Part) -> LessonStep:
        """The same step with more parts at the end."""
        return LessonStep(self.role, self.title, (*self.parts, *parts))

    def with_code_once(self) -> LessonStep:
        """The same step, each line of code below the last formula that it computed."""
        shown: set[str] = set()
        parts: list[Part] = []
        for part in reversed(self.parts):
            if isinstance(part, Formula):
                part = replace(part, code="" if part.code in shown else part.code)
                shown.add(part.code)
            parts.append(part)
        return LessonStep(self.role, self.title, tuple(reversed(parts)))

    def to_dict(self) -> dict[str, Any]:
        parts = [part.to_dict() for part in self.parts]
        return {"role": self.role, "title": self.title, "parts": parts}


Parts: TypeAlias = Iterable[Part | str]
"""What a function that writes one step yields; a string is a paragraph, with code in backticks."""


def numbered_questions(steps: Iterable[LessonStep]) -> tuple[LessonStep, ...]:
    """The steps with their questions numbered from 1.

    Steps that follow at once and repeat the row that a question asks for, such as scores divided by
    1, hide it too until it is answered.
    """
    numbers = count(1)
    made: list[LessonStep] = []
    asked: list[Question] = []
    for step in steps:
        asked = [one for one in asked if one.is_repeated_in(step.parts)]
        own = [part for part in step.parts if isinstance(part, Question)]
        numbered = {id(part): replace(part, number=next(numbers)) for part in own}
        asked += numbered.values()
        parts = (numbered.get(id(part)) or _without(part, asked) for part in step.parts)
        made.append(LessonStep(step.role, step.title, tuple(parts)))
    return tuple(made)


def _without(part: Part, asked: Sequence[Question]) -> Part:
    """A part without the rows that are asked for."""
    if not isinstance(part, HeatMap):
        return part
    return replace(part, hidden={row: one.number for one in asked for row in one.rows_in(part)})


@dataclass(frozen=True, slots=True)
class LessonPlace:
    """Where a lesson stands in the course, in one language: what it follows, needs and leads to.

    `needs` and `next` are names and titles of lessons; `next` is None for the last one.
    """

    text: str
    able: str
    minutes: int
    needs: tuple[tuple[str, str], ...]
    next: tuple[str, str] | None

    def opening(self, say: Speaker) -> Facts:
        """What a reader wants to know before the first step."""
        needs = say("semicolon").join(
            say("named lesson", name=name, title=title) for name, title in self.needs
        )
        return Facts((
            (say("follows"), self.text),
            (say("able"), say("you will be able", able=self.able)),
            (say("needs"), needs or say("needs nothing")),
            (say("takes"), say("minutes", minutes=self.minutes)),
        ))  # fmt: skip

    def ending(self, say: Speaker) -> Paragraph:
        """What comes next."""
        if self.next is None:
            return Paragraph(with_code(say("course done")))
        name, title = self.next
        return Paragraph(with_code(say("comes next", name=name, title=title)))

    def to_dict(self) -> dict[str, Any]:
        def lesson(one: tuple[str, str]) -> dict[str, str]:
            return {"name": one[0], "title": one[1]}

        return {
            "text": self.text,
            "able": self.able,
            "minutes": self.minutes,
            "needs": [lesson(one) for one in self.needs],
            "next": None if self.next is None else lesson(self.next),
        }


@dataclass(frozen=True, slots=True)
class LessonChoice:
    """A switch that the reader turns: its values with their labels, and the one chosen."""

    name: str
    label: str
    values: tuple[tuple[str, str], ...]
    chosen: str

    def described(self, say: Speaker) -> tuple[str, Inline]:
        """The switch as a fact: what is chosen, and how to choose otherwise."""
        labels = dict(self.values)
        others = [value for value in labels if value != self.chosen]
        said = say(
            "turned to", label=self.label, chosen=labels[self.chosen], name=self.name,
            others=say("alternatively").join(f"`--set {self.name}={value}`" for value in others),
        )  # fmt: skip
        return say("switch"), with_code(said)

    def to_dict(self) -> dict[str, Any]:
        values = [{"name": name, "label": label} for name, label in self.values]
        return {"name": self.name, "label": self.label, "values": values, "chosen": self.chosen}


@dataclass(frozen=True, slots=True)
class Lesson:
    """A worked example in numbered steps; `place` is None for one outside the course."""

    name: str
    title: str
    summary: str
    language: Language
    steps: tuple[LessonStep, ...]
    place: LessonPlace | None = None
    choices: tuple[LessonChoice, ...] = ()

    def __repr__(self) -> str:
        return f"<lesson {self.name} ({self.language}): {self.title}, {len(self.steps)} steps>"

    def _repr_markdown_(self) -> str:
        """For notebooks: prose, tables, formulas in TeX, and the drawings."""
        return render_text(self.document(), "md", embedded=True)

    def document(self) -> Document:
        """The lesson for every format: one numbered section per step."""
        say = Speaker(self.language)
        sections = (
            Section(step.title, step.parts, number)
            for number, step in enumerate(self.steps, start=1)
        )
        opening: list[Part] = [Paragraph(self.summary)]
        ending: list[Part] = []
        if self.place is not None:
            facts = self.place.opening(say).items
            facts += tuple(choice.described(say) for choice in self.choices)
            opening.append(Facts(facts))
            ending.append(self.place.ending(say))
        if self.questions:
            ending.insert(0, Paragraph(self._answers(say), "quiet", is_answer=True))
        opening.append(Paragraph(self._how_to_read(say), "quiet"))
        label = say("lesson sheet")
        parts = (*opening, *sections, *ending)
        return Document(self.title, parts, self.language, label, self.to_dict, textbook)

    def to_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "title": self.title,
            "summary": self.summary,
            "language": self.language,
            "place": None if self.place is None else self.place.to_dict(),
            "choices": [choice.to_dict() for choice in self.choices],
            "steps": [step.to_dict() for step in self.steps],
        }

    @property
    def questions(self) -> tuple[Question, ...]:
        """What the reader is asked: `lesson.questions[0].answer(4, 16, 12)`."""
        return tuple(part for part in self.parts() if isinstance(part, Question))

    def _how_to_read(self, say: Speaker) -> str:
        """The notation of this lesson, and no more."""
        maps = [part for part in self.parts() if isinstance(part, HeatMap)]
        formulas = [part for part in self.parts() if isinstance(part, Formula)]
        written = " ".join(text for part in formulas for text in _written(part.card))
        code = " ".join(part.code for part in formulas)
        occurs = {
            "read frames": any(part.marked is not None for part in maps),
            "read powers": any(map(_POWER.search, _numbers(self.parts()))),
            "read places": "[" in written,
            "read heads": re.search(r"\[\d+, \d+, [^]]", written) is not None,
            "read sums": "Σ" in written,
            "read maps": "W_" in written,
            "read code": " @ " in code,
        }
        said = [say("how to read"), *(say(key) for key, is_used in occurs.items() if is_used)]
        return ("" if self.language == "zh" else " ").join(said)

    def _answers(self, say: Speaker) -> str:
        listed = (
            say("one answer", number=one.number, numbers=say("comma").join(one.answers))
            for one in self.questions
        )
        return say("answers", listed=" ".join(listed))

    def parts(self) -> Iterator[Part]:
        for step in self.steps:
            yield from step.parts

    def figures(self) -> list[Figure]:
        return self.document().figures()

    def traces(self) -> list[Trace]:
        """The traces that the numbers come from, in order of appearance."""
        return self.document().traces()


_POWER = re.compile(r"\de[−-]\d")


def _numbers(parts: Iterable[Part]) -> Iterator[str]:
    """What matrices and tables write."""
    for part in parts:
        if isinstance(part, HeatMap):
            yield from (cell.text for row in part.cells(coloured=False) for cell in row)
        elif isinstance(part, Table):
            yield from (plain(cell) for row in part.rows for cell in row)


def _written(card: Card) -> Iterator[str]:
    """What a formula writes on the left and on the right, in symbols."""
    yield from (card.name, card.formula)
    yield from (definition.symbols for definition in card.definitions)


# --- sentences -------------------------------------------------------------------------------
# Templates are in lesson.toml and in the TOML file of each lesson. `{row}` and `{column}` are
# labels of the chosen cell (tokens, where there are some), `{value}` is its number.

_COMMON = words(__name__)


class Speaker(Sentences):
    """The sentences of a lesson in one language; those of `tables` come before the common ones.

    Numbers, and what has one, such as a cell, are written as `number` writes them.
    """

    def __init__(self, language: Language, *tables: Words) -> None:
        super().__init__(language, *tables, _COMMON)

    def __call__(self, key: str, **fields: object) -> str:
        written = {name: self._written(field) for name, field in fields.items()}
        return self.filled(key, {"lessons": _LessonNames(self), **written})

    def _written(self, value: object) -> object:
        if isinstance(value, str) and value.startswith(_LESS_THAN):
            return self("less than", share=value.removeprefix(_LESS_THAN))
        return number(value) if isinstance(value, SupportsFloat) else value

    def step(self, role: str, key: str, parts: Parts, **facts: object) -> LessonStep:
        """A step with its title: the lesson's own for this key, or the usual one of a role."""
        made = [Paragraph(with_code(part)) if isinstance(part, str) else part for part in parts]
        own = f"{key} title"
        title = self(own, **facts) if own in self else self.title(key)
        return LessonStep(role, title, tuple(made))

    def table(
        self, rows: Iterable[Iterable[Inline]], *keys: str, more: Iterable[str] = (),
        caption: str = "",
    ) -> Table:  # fmt: skip
        """A table under the headings with these keys (or none), and `more` that are words as is."""
        heads = (*(self(key) if key else "" for key in keys), *more)
        return Table(caption, heads, tuple(map(tuple, rows)))

    def title(self, role: str) -> str:
        """The usual title of a step with this role."""
        return _COMMON[f"title {role}"].say(self.language)

    def quoted(self, token: str) -> str:
        """A token inside a sentence; one that ends in a number (`input 2`) is not quoted."""
        return token if token[-1:].isdigit() else self("quoted", text=token)


class _LessonNames:
    """Lessons inside a sentence: `{lessons[scaling]}` in a template."""

    def __init__(self, say: Speaker) -> None:
        self._say = say

    def __getitem__(self, name: str) -> str:
        from glassformer.lessons.course import LESSONS

        title = LESSONS[name].title.say(self._say.language)
        return self._say("lesson in a sentence", name=name, title=title)


# --- notation --------------------------------------------------------------------------------
# The trace's symbols with indices counted from 1, and W transposed to the way x · W uses it.

# Unnamed operators inside the sinusoids, when these are traced alone.
_GIVEN = {"div": "exponent", "to": "position"}


@lru_cache(maxsize=16)
def textbook(trace: Trace) -> Names:
    """The names that a lesson uses for the steps of a trace."""
    return Names(trace, textbook=True, given=_GIVEN)


def number(value: Scalar | SupportsFloat, digits: int = 4) -> str:
    """A number inside a sentence or a table, with a true minus sign; up to a million without e."""
    value = value if isinstance(value, int) else float(value)
    if isinstance(value, float) and 10**digits <= abs(value) < 1e6:
        value = int(float(f"{value:.{digits}g}"))
        return str(value).replace("-", "−")
    return plain_number(value, digits).replace("-", "−")


_LESS_THAN = "< "


def percent(share: SupportsFloat) -> str:
    """A fraction as a percentage with one decimal; one that would round to 0 is `< 0.1%`.

    A `Speaker` puts that sign into words.
    """
    share = float(share)
    return f"{_LESS_THAN}0.1%" if 0 < share < 5e-4 else f"{share:.1%}"


def points(change: SupportsFloat) -> str:
    """A change of a fraction in percentage points, with its sign."""
    return f"{100 * float(change):+.1f}".replace("-", "−")


def lesson_card(cell: Cell) -> Card:
    """A cell's arithmetic as a lesson shows it; raises if the rule does not give the number.

    A lesson writes "=" in many places, so a rule that only comes near has no place in one.
    """
    card = Card(cell, names=textbook(cell.step.trace))
    if card.relation != "=":
        raise TraceError("{name}: {reason}", name=cell.name, reason=NOT_REPRODUCED)
    return card


def formula(cell: Cell) -> Formula:
    """The arithmetic of a cell as a part of a step."""
    return Formula(lesson_card(cell), code_of(cell.step))


# A kernel that our modules call by its own name, as a reader would write it.
KERNELS = {"torch.ops.aten._safe_softmax(scores, -1)": "torch.softmax(scores, dim=-1)"}
# Names in our source that stand for something shown before: there is no dropout in a lesson, and
# each head has its own keys.
_SAME = {
    "to_keys(attended)": "attended = x",
    "to_values(attended)": "attended = x",
    "@ shared_keys.mT": "shared_keys = keys",
    "kept @ values": "kept = weights",
    "contract(kept)": "kept = activated",
    "self.dropout(": "dropout is for training; here it changes nothing",
}


def code_of(step: Step) -> str:
    """The line of PyTorch that computed a step, as its source has it; empty if none did.

    Annotations are left out, a returned value gets the name that the trace gives it, a name that
    the lesson does not use is explained, and a gradient is that of the line it goes back through.
    """
    if step.name.startswith("update."):
        return "optimiser.step()"
    text = step.line.text if step.line is not None else ""
    text = re.sub(r"^(\w+): [\w.\[\]]+ = ", r"\1 = ", text)
    for kernel, written in KERNELS.items():
        text = text.replace(kernel, written)
    if step.name.startswith("gradients."):
        through = text.removeprefix("return ")
        return f"loss.backward()  # {through}" if through else "loss.backward()"
    text = re.sub(r"^return ", f"{step.name.rpartition('.')[2]} = ", text)
    note = next((said for piece, said in _SAME.items() if piece in text), "")
    return f"{text}  # {note}" if note and "cross_attention" not in step.name else text


def cell_name(cell: Cell) -> str:
    """`S[3, 2]`."""
    return Card(cell, names=textbook(cell.step.trace)).name


def is_turned(step: Step) -> bool:
    """Whether lessons show a step transposed, as they do the matrix of a linear map."""
    return textbook(step.trace).is_turned(step)


def step_title(step: Step, say: Speaker) -> str:
    """`S (scores)`: the symbol of its own formula, and the word if it adds anything.

    Without a prime, which tells it from its operands there: formulas that read it have none.
    """
    names = textbook(step.trace)
    symbol, word = str(replace(names.sight(step).symbol(step), primes=0)), names.word(step)
    plain = step.role == "parameter" or word in symbol or symbol.startswith(("∂", "new "))
    plain |= "_" in word  # `attention_sum`: a name of the code, not a word
    if plain:
        return symbol
    word = say(f"matrix {word}") if f"matrix {word}" in _COMMON else word
    return say("symbol and word", symbol=symbol, word=word)


def place_labels(step: Step, axis: int) -> tuple[str, ...]:
    """What the places along an axis are called: labels, else numbers from 1 (words: their ids).

    An axis of size 1 that names leave out gets no number either.
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
