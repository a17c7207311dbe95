"""The steps of one attention, of one Add & Norm, of one feed-forward: the same in every lesson."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from glassformer.lessons.walks.lesson import LessonStep, Paragraph, Part, formula
from glassformer.lessons.walks.phrases import Speaker
from glassformer.lessons.walks.steps import Facts, heat_map, role_step
from glassformer.lessons.walks.textbook import number
from glassformer.trace import Cell, Step, Trace

__all__ = ["AttentionWalk", "feed_forward_step", "norm_step"]

# Given the role and the chosen cell: what else is to be said there (a remark on a text).
Remarks = Callable[[str, Cell], Sequence[Part]]


def _nothing(_role: str, _cell: Cell) -> Sequence[Part]:
    return ()


@dataclass(frozen=True)
class AttentionWalk:
    """One attention of a trace, walked through from queries to output.

    `query` and `key` choose the positions whose score is followed, `entry` a dimension.
    """

    trace: Trace
    path: str
    say: Speaker
    query: int
    key: int
    entry: int = 0
    head: int = 0
    unit: str = "word"
    remarks: Remarks = field(default=_nothing)

    def step(self, name: str) -> Step:
        """A step of this attention."""
        return self.trace[f"{self.path}.{name}" if self.path else name]

    def _has(self, name: str) -> bool:
        return (f"{self.path}.{name}" if self.path else name) in self.trace

    def walk(self) -> Iterator[LessonStep]:
        """All steps that the module made, in order."""
        for kind, place in (("queries", self.query), ("keys", self.key), ("values", self.key)):
            yield self.projection(kind, place)
        yield self.scores()
        yield self.scaled()
        if self._has("hidden"):
            yield self.masked()
        yield self.weights()
        yield self.context()
        if self._has("output"):
            yield self.output()

    def projection(self, kind: str, place: int) -> LessonStep:
        """Queries, keys or values."""
        step = self.step(f"projected_{kind}")
        entry = self.entry + self.head * self._head_width(step)
        cell = step[place, entry]
        matrix = heat_map(self.step(f"to_{kind}.weight"), self.say)
        unit = self.say(self.unit)
        return self._made(kind, cell, beside=[matrix], facts={"unit": unit})

    def _head_width(self, step: Step) -> int:
        return step.shape[-1] // self.step("scores").shape[-3]

    def _scored(self, name: str) -> Cell:
        return self.step(name)[0, self.head, self.query, self.key]

    def scores(self) -> LessonStep:
        """Queries times keys."""
        return self._made("scores", self._scored("scores"))

    def scaled(self) -> LessonStep:
        """Divided by the root of the width, or left alone."""
        cell = self._scored("scaled")
        divisor = self.divisor()
        if divisor == 1.0:
            return self._made("scaled", cell, phrase="scaled by one")
        return self._made("scaled", cell, facts={"divisor": number(divisor)})

    def divisor(self) -> float:
        """What the recorded division divided by."""
        call = self.step("scaled").call
        assert call is not None
        return float(call.bound["other"])

    def masked(self) -> LessonStep:
        """−∞ where the mask hides; the mask beside it."""
        cell = self._scored("masked")
        hidden = self.step("hidden")
        if hidden.shape[-2] == 1:  # one row for all queries: padding
            return self._made(
                "masked", cell, phrase="masked padding", title=self.say.title("masked padding")
            )
        future = self.step("masked")[0, self.head, self.query, self.query + 1]
        beside = [heat_map(hidden, self.say, rows=self._labels())]
        return self._made("masked", future, beside=beside)

    def _labels(self) -> tuple[str, ...] | None:
        return self.step("scores").labels[-2]

    def weights(self) -> LessonStep:
        """Softmax along each row."""
        return self._made("weights", self._scored("weights"))

    def context(self) -> LessonStep:
        """Weights times values."""
        return self._made("context", self.step("context")[0, self.head, self.query, self.entry])

    def output(self) -> LessonStep:
        """The map after the heads."""
        cell = self.step("output")[self.query, self.entry]
        matrix = heat_map(self.step("to_output.weight"), self.say)
        return self._made("output", cell, beside=[matrix])

    def _made(
        self,
        role: str,
        cell: Cell,
        *,
        beside: Sequence[Part] = (),
        phrase: str | None = None,
        title: str | None = None,
        facts: Facts | None = None,
    ) -> LessonStep:
        return role_step(
            role,
            cell,
            self.say,
            beside=beside,
            after=self.remarks(role, cell),
            phrase=phrase,
            title=title,
            facts=facts,
        )


def norm_step(
    trace: Trace,
    path: str,
    say: Speaker,
    place: int,
    entry: int,
    remarks: Remarks = _nothing,
    title: str | None = None,
    phrase: str = "norm",
) -> LessonStep:
    """A plain norm: mean, deviation, quotient of one row."""
    normed, mean, deviation = (trace[f"{path}.{name}"] for name in ("normed", "mean", "deviation"))
    divisor = formula(trace[f"{path}.divisor"][place, 0])
    width = normed.shape[-1]
    cell = normed[place, entry]
    said: Facts = {
        "n": width,
        "less": width - 1,
        "mean": number(mean[place, 0].value),
        "deviation": number(deviation[place, 0].value),
    }
    beside = [heat_map(mean, say, mean[place, 0]), heat_map(deviation, say, deviation[place, 0])]
    return role_step(
        "norm", cell, say, before=[divisor], beside=beside, after=remarks("norm", cell),
        phrase=phrase, title=title, facts=said,
    )  # fmt: skip


def feed_forward_step(
    trace: Trace,
    path: str,
    say: Speaker,
    place: int,
    entry: int,
    remarks: Remarks = _nothing,
    note: str | None = None,
) -> LessonStep:
    """Linear map and ReLU; `note` says where unprinted weights come from."""
    expanded, activated = trace[f"{path}.expanded"], trace[f"{path}.activated"]
    cell = activated[place, entry]
    before = number(expanded[place, entry].value)
    beside = [heat_map(expanded, say, expanded[place, entry])]
    return role_step(
        "feed-forward",
        cell,
        say,
        before=[Paragraph(note)] if note else [],
        beside=beside,
        after=remarks("feed-forward", cell),
        facts={"linear": before},
    )
