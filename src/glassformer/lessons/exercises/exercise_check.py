"""What an exercise is, and how an answer to it is judged.

A slip is found as the audit finds one: by committing it. Each known slip is an edit of our
solution; where a learner's results are not those of the reference, they are compared with those of
the solution with one slip in it, then with two. What fits no known slip is described: an exception
with its line, a shape, a type, NaN, the first number that differs.
"""

from __future__ import annotations

import inspect
import linecache
import re
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, combinations
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from glassformer.documents import render_text
from glassformer.documents.parts import Code, Document, Paragraph, with_code
from glassformer.errors import ConfigError
from glassformer.language import Bilingual, Language, Words, words
from glassformer.lessons.course import LESSONS
from glassformer.lessons.exercises import solutions
from glassformer.lessons.exercises.exercise_track import (
    functions_in,
    parts_of,
    signature,
    sizes,
    solution,
)
from glassformer.lessons.exercises.feedback import Feedback
from glassformer.lessons.exercises.result_comparison import (
    axes_of,
    copied,
    difference,
    is_same,
    kind,
    known_error,
)
from glassformer.lessons.exercises.time_limit import OutOfTimeError, limited_to

say = words("glassformer.lessons.exercises.feedback")

Edit = Mapping[str, str]
"""What stands in a solution, and what a learner writes in its place."""
_IMPORTS = {
    "torch": "import torch", "math": "import math", "nn": "from torch import nn",
    "F": "import torch.nn.functional as F", "Tensor": "from torch import Tensor",
}  # fmt: skip
"""What a learner may use without having imported it, and the line that does."""
SECONDS = 10.0
"""For all calls of a learner's function together."""


@dataclass(frozen=True)
class Exercise:
    """A function to write, how it is checked, and the slips that are known."""

    name: str
    function: str
    """The name of the function, in a learner's file and in `solutions`."""
    words: Words
    """Title, statement and slips, in both languages."""
    cases: Callable[[], Sequence[tuple[Any, ...]]] = field(repr=False)
    """Arguments of the calls that are compared: random numbers in several shapes."""
    reference: Callable[..., Any] = field(repr=False)
    """The right results, from the modules that everything else here uses."""
    language: Language = "en"

    @property
    def title(self) -> Bilingual:
        return self.words[f"{self.name} title"]

    @property
    def statement(self) -> Bilingual:
        return self.words[f"{self.name} statement"]

    @property
    def lesson(self) -> str:
        """The lesson that explains it."""
        name: str = self.words.data[self.name]["lesson"]
        return name

    @property
    def slips(self) -> dict[str, Edit]:
        """The known slips; an edit that several exercises share stands under `any`."""
        own = dict(self.words.data[self.name]["edits"])
        shared = own.pop("shared", [])
        return own | {key: self.words.data["any"]["edits"][key] for key in shared}

    def with_slips(self, *keys: str) -> Callable[..., Any]:
        """Our solution with these slips in it."""
        edit = {old: new for key in keys for old, new in self.slips[key].items()}
        source = self._source
        if edit:
            every = re.compile("|".join(map(re.escape, edit)))
            source = every.sub(lambda found: edit[found[0]], source)
        names = dict(vars(solutions))
        exec(source, names)  # noqa: S102  our own solution
        function: Callable[..., Any] = names[self.function]
        return function

    def places(self, key: str) -> set[int]:
        """Where a slip is committed: the places in the source that it changes."""
        found = (
            one for old in self.slips[key] for one in re.finditer(re.escape(old), self._source)
        )
        return {at for one in found for at in range(*one.span())}

    @property
    def _source(self) -> str:
        """Our solution, after the earlier ones that it calls."""
        return "\n\n".join(map(solution, (*parts_of(self.function), self.function)))

    def slip(self, key: str) -> Bilingual:
        """The hint for a known slip; one that several exercises share stands under `any`."""
        own = f"{self.name} slip {key}"
        return self.words[own if own in self.words else f"any slip {key}"]

    def check(self, function: Callable[..., Any], *, seconds: float = SECONDS) -> Feedback:
        """Judge a function: right, or a hint. It is called in this process."""
        if not callable(function):
            raise ConfigError("expected a function, got {kind}", kind=type(function).__name__)
        return _ExerciseJudge(self, function, seconds).judge()

    def document(self) -> Document:
        """The task: what is to be written, and its signature."""
        paragraphs = self.statement.say(self.language).split("\n")
        command, file = f"glassformer exercise {self.name}", f"{self.function}.py"
        begin = say["how to begin"].say(self.language)
        begin = begin.format(start=f"{command} -o {file}", check=f"{command} {file}")
        return Document(
            self.title.say(self.language),
            (
                *(Paragraph(with_code(paragraph)) for paragraph in paragraphs),
                Code(signature(self.function)),
                *(Paragraph(with_code(said), "quiet") for said in (*self._help(), begin) if said),
            ),
            self.language,
        )

    def _help(self) -> Iterator[str]:
        """What the letters stand for, which lesson explains it, and what our solution calls."""
        yield sizes(self)
        title = LESSONS[self.lesson].title.say(self.language)
        yield say["lesson"].say(self.language, name=self.lesson, title=title)
        names = [f"`{name}`" for name in functions_in(self.function)]
        listed = ("、" if self.language == "zh" else ", ").join(names)
        yield say["uses" if names else "uses none"].say(self.language, names=listed)

    def __str__(self) -> str:
        return render_text(self.document(), "terminal")

    def _repr_markdown_(self) -> str:
        """For notebooks."""
        return render_text(self.document(), "md")


@dataclass(frozen=True)
class _Call:
    """What a call gave: a result or an exception, and whether it changed its arguments."""

    result: Any = None
    error: BaseException | None = None
    changed: bool = False


@dataclass(frozen=True)
class _Compared:
    """One case: what the learner's function gave and what is right."""

    arguments: tuple[Any, ...]
    given: _Call
    right: Any

    @property
    def agrees(self) -> bool:
        return self.given.error is None and is_same(self.given.result, self.right)


class _ExerciseJudge:
    """One function on all cases of an exercise."""

    def __init__(self, exercise: Exercise, function: Callable[..., Any], seconds: float) -> None:
        self.exercise = exercise
        self.function = function
        self.seconds = seconds

    def judge(self) -> Feedback:
        cases = self.exercise.cases()
        try:
            with limited_to(self.seconds):
                calls = [_called(self.function, case) for case in cases]
        except OutOfTimeError as error:
            return self._wrong("time", say, seconds=f"{self.seconds:g}", line=self._line(error))
        compared = [
            _Compared(case, call, self.exercise.reference(*copied(case, torch.float64)))
            for case, call in zip(cases, calls, strict=True)
        ]
        wrong = [case for case in compared if not case.agrees]
        if any(isinstance(case.given.error, NotImplementedError) for case in wrong):
            return self._wrong("unwritten", say, function=self.exercise.function)
        if wrong:
            return self._known_slip(compared) or self._described(wrong[0], compared)
        if any(call.changed for call in calls):
            return self._wrong("changed", say)
        text = say.both("right", count=len(cases))
        return Feedback(self.exercise.name, (), text, self.exercise.language)

    def _known_slip(self, compared: list[_Compared]) -> Feedback | None:
        for keys in _one_or_two(self.exercise):
            if self._commits(keys, compared):
                hints = [self.exercise.slip(key) for key in keys]
                text = (
                    hints[0]
                    if len(hints) == 1
                    else say.both("two slips", first=hints[0], second=hints[1])
                )
                return Feedback(self.exercise.name, keys, text, self.exercise.language)
        return None

    def _commits(self, keys: tuple[str, ...], compared: list[_Compared]) -> bool:
        """Whether these slips give the learner's results, in every case and wrong ones in some."""
        function, shows = self.exercise.with_slips(*keys), False
        for case in compared:
            slipped = _called(function, copied(case.arguments, torch.float64))
            if (slipped.error is None) != (case.given.error is None):
                return False
            if slipped.error is None:
                if not is_same(case.given.result, slipped.result):
                    return False
                shows = shows or not case.agrees
        return shows

    def _described(self, case: _Compared, compared: list[_Compared]) -> Feedback:
        """What is wrong with a result that no known slip explains."""
        shapes = ", ".join(map(kind, case.arguments))
        error = case.given.error
        if isinstance(error, NameError) and error.name in _IMPORTS:
            code, line = _IMPORTS[error.name], self._line(error)
            return self._wrong("not imported", say, name=error.name, code=code, line=line)
        if error is not None and self._turns_all_axes(error, case.arguments):
            return self._wrong("all axes turned", say, line=self._line(error), arguments=shapes)
        if _only_axes_in_front(case, compared):
            return self._wrong("axes in front", say, arguments=shapes)
        if error is not None:
            said = " ".join(str(error).split())[:160]
            name = type(error).__name__
            return self._wrong(
                known_error(error) or "raised", say, error=f"{name}: {said}" if said else name,
                line=self._line(error), arguments=shapes,
            )  # fmt: skip
        key, facts = difference(case.given.result, case.right)
        return self._wrong(key, say, arguments=shapes, **facts)

    def _wrong(self, key: str, table: Words, **facts: object) -> Feedback:
        text = table.both(key, **facts)
        return Feedback(self.exercise.name, (key,), text, self.exercise.language)

    def _turns_all_axes(self, error: BaseException, arguments: Sequence[Any]) -> bool:
        """Whether `.T` stands in the line that failed, and a tensor has more than two axes."""
        line = self._line(error)
        code = getattr(inspect.unwrap(self.function), "__code__", None)
        text = linecache.getline(code.co_filename, line) if code and line != "?" else ""
        is_batched = any(isinstance(one, Tensor) and one.dim() > 2 for one in arguments)
        return is_batched and re.search(r"\.T\b", text) is not None

    def _line(self, error: BaseException) -> int | Literal["?"]:
        """The last line of the learner's own code before an exception."""
        code = getattr(inspect.unwrap(self.function), "__code__", None)
        frames = traceback.extract_tb(error.__traceback__)
        own = [
            frame
            for frame in frames
            if (frame.filename == code.co_filename if code else _is_elsewhere(frame.filename))
        ]
        return own[-1].lineno or "?" if own else "?"


def _only_axes_in_front(case: _Compared, compared: list[_Compared]) -> bool:
    """Whether an answer is right for all inputs but those with more axes."""
    alike = [one for one in compared if len(one.arguments) == len(case.arguments)]
    has_fewer = [axes_of(one.arguments) < axes_of(case.arguments) for one in alike]
    return any(has_fewer) and [one.agrees for one in alike] == has_fewer


def _is_elsewhere(file: str) -> bool:
    """Whether a file is neither ours nor torch's: for a callable object, such as a module."""
    return not file.startswith((str(Path(__file__).parent), str(Path(torch.__file__).parent)))


def _one_or_two(exercise: Exercise) -> Iterator[tuple[str, ...]]:
    """Each slip; then each two that are committed in different places."""
    places = {key: exercise.places(key) for key in exercise.slips}
    pairs = ((a, b) for a, b in combinations(places, 2) if not places[a] & places[b])
    return chain(((key,) for key in places), pairs)


def _called(function: Callable[..., Any], arguments: tuple[Any, ...]) -> _Call:
    given = copied(arguments)
    try:
        with torch.no_grad():
            result = function(*given)
    except OutOfTimeError:
        raise
    except (Exception, SystemExit) as error:
        return _Call(error=error)
    return _Call(result, changed=not is_same(given, arguments))
