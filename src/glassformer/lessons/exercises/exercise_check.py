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
from glassformer.documents.heat_maps import shape_text
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
from glassformer.lessons.exercises.learner_file import Feedback, OutOfTimeError, limited_to

say = words(__name__)

ExerciseCases = Sequence[tuple[Any, ...]]
Draw = Callable[..., Tensor]
"""Draws a tensor of normal random numbers, given its shape."""
Replacements = Mapping[str, str]
"""From text of a solution to what a learner writes instead."""
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

    words: Words
    """Title, statement and slips, in both languages."""
    name: str
    reference: Callable[..., Any] = field(repr=False)
    """The right results, from the modules that everything else here uses."""
    drawn: Callable[[Draw], ExerciseCases] = field(repr=False)
    """Arguments of the calls that are compared: random numbers in several shapes."""
    seed: int = 0
    language: Language = "en"

    def cases(self) -> ExerciseCases:
        """The arguments, the same each time."""
        generator = torch.Generator().manual_seed(self.seed)
        return self.drawn(lambda *shape: torch.randn(*shape, generator=generator))

    @property
    def function(self) -> str:
        """The name of the function, in a learner's file and in `solutions`."""
        name: str = self.words.data[self.name]["function"]
        return name

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
    def slips(self) -> dict[str, Replacements]:
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
            return self._wrong("time", seconds=f"{self.seconds:g}", line=self._line(error))
        compared = [
            _Compared(case, call, self.exercise.reference(*copied(case, torch.float64)))
            for case, call in zip(cases, calls, strict=True)
        ]
        wrong = [case for case in compared if not case.agrees]
        if any(isinstance(case.given.error, NotImplementedError) for case in wrong):
            return self._wrong("unwritten", function=self.exercise.function)
        if wrong:
            return self._known_slip(compared) or self._described(wrong[0], compared)
        if any(call.changed for call in calls):
            return self._wrong("changed")
        return self._told((), say.both("right", count=len(cases)))

    def _known_slip(self, compared: list[_Compared]) -> Feedback | None:
        for keys in _one_or_two(self.exercise):
            if self._commits(keys, compared):
                first, *second = map(self.exercise.slip, keys)
                both = say.both("two slips", first=first, second=second[0]) if second else first
                return self._told(keys, both)
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
            return self._wrong("not imported", name=error.name, code=code, line=line)
        if error is not None and self._turns_all_axes(error, case.arguments):
            return self._wrong("all axes turned", line=self._line(error), arguments=shapes)
        if _only_axes_in_front(case, compared):
            return self._wrong("axes in front", arguments=shapes)
        if error is not None:
            said = " ".join(str(error).split())[:160]
            name = type(error).__name__
            return self._wrong(
                known_error(error) or "raised", error=f"{name}: {said}" if said else name,
                line=self._line(error), arguments=shapes,
            )  # fmt: skip
        key, facts = difference(case.given.result, case.right)
        return self._wrong(key, arguments=shapes, **facts)

    def _wrong(self, key: str, **facts: object) -> Feedback:
        return self._told((key,), say.both(key, **facts))

    def _told(self, hints: tuple[str, ...], text: Bilingual) -> Feedback:
        return Feedback(self.exercise.name, hints, text, self.exercise.language)

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


# --- results beside the right ones -------------------------------------------------------------

_TOLERANCE = 2e-5
"""Relative to the largest number: some hundred roundings of float32. A slip changes far more."""
_ERRORS = {
    "condition": r"Boolean value of Tensor",
    "largest and place": r"torch\.return_types",
    "size no whole number": r"tuple of ints|'float' object cannot be interpreted as an integer",
    "product": r"cannot be multiplied|for first two dimensions of batch2",
    "targets": r"Expected target size",
    "none argument": r"'NoneType'",
}
"""PyTorch's messages that do not say what to do, by the key of the sentence that does."""


def copied(value: Any, dtype: torch.dtype | None = None) -> Any:
    """Arguments with tensors of their own; those of floats as `dtype`, if given."""
    match value:
        case Tensor():
            return value.clone().to(dtype if dtype and value.is_floating_point() else value.dtype)
        case tuple() | list():
            return type(value)(copied(item, dtype) for item in value)
        case dict():
            return {key: copied(item, dtype) for key, item in value.items()}
    return value


def is_same(given: Any, wanted: Any) -> bool:
    """Whether two results are the same: kind, shape, and numbers up to rounding."""
    if isinstance(wanted, Tensor):
        return (
            isinstance(given, Tensor)
            and given.shape == wanted.shape
            and _sort(given) == _sort(wanted)
            and not bool(_places(given, wanted).any())
        )
    if isinstance(wanted, tuple | list):
        return (
            isinstance(given, tuple | list)
            and len(given) == len(wanted)
            and all(map(is_same, given, wanted))
        )
    if isinstance(wanted, dict):
        return given.keys() == wanted.keys() and all(is_same(given[k], wanted[k]) for k in wanted)
    try:
        return bool(given == wanted)
    except Exception:  # objects of a learner's may compare in any way
        return False


def _sort(x: Tensor) -> str:
    return "bool" if x.dtype == torch.bool else "float" if x.is_floating_point() else "int"


def _places(given: Tensor, wanted: Tensor) -> Tensor:
    """Where two tensors of one shape differ by more than rounding."""
    one, other = given.detach().double(), wanted.detach().double()
    finite = other[other.isfinite()].abs()
    scale = max(1.0, float(finite.max())) if finite.numel() else 1.0
    return ~torch.isclose(one, other, rtol=0.0, atol=_TOLERANCE * scale, equal_nan=True)


def difference(given: Any, wanted: Any) -> tuple[str, dict[str, object]]:
    """What tells a wrong result from the right one: the key of a sentence, and its facts."""
    if given is None:
        return "nothing", {}
    if isinstance(wanted, tuple):
        if not isinstance(given, tuple | list):
            return "tuple", {"wanted": len(wanted), "kind": type(given).__name__}
        if len(given) != len(wanted):
            return "tuple length", {"wanted": len(wanted), "given": len(given)}
        pairs = zip(given, wanted, strict=True)
        return next(difference(one, other) for one, other in pairs if not is_same(one, other))
    if not isinstance(wanted, Tensor):
        return "value", {"given": _written(given), "wanted": _written(wanted)}
    if isinstance(given, tuple | list) and any(is_same(one, wanted) for one in given):
        return "with others", {"count": len(given)}
    if not isinstance(given, Tensor):
        return "type", {"kind": type(given).__name__}
    if given.shape != wanted.shape:
        return "shape", {"given": tuple(given.shape), "wanted": tuple(wanted.shape)}
    if _sort(given) != _sort(wanted):
        return "dtype", {"given": given.dtype, "wanted": say[f"sort {_sort(wanted)}"]}
    place = tuple(_places(given, wanted).nonzero()[0].tolist())
    if bool(given[place].isnan()):
        return "nan", {"place": list(place), "wanted": _number(wanted[place])}
    return "differs", {
        "place": list(place),
        "given": _number(given[place]),
        "wanted": _number(wanted[place]),
        "count": int(_places(given, wanted).sum()),
        "all": wanted.numel(),
    }


def _written(value: Any) -> str:
    return f"{' '.join(repr(value).split()):.60}"


def _number(x: Tensor) -> str:
    return str(x.item()) if _sort(x) != "float" else f"{x.item():.6g}"


def kind(argument: Any) -> str:
    """An argument as a hint shows it: `tensor 3×4`, a number itself."""
    match argument:
        case Tensor():
            return f"tensor {shape_text(argument.shape)}".rstrip()
        case bool() | int() | float() | None:
            return str(argument)
    return "…"


def known_error(error: BaseException) -> str | None:
    """The key of the hint for a well-known exception; None for others."""
    found = (key for key, pattern in _ERRORS.items() if re.search(pattern, str(error)))
    return next(found, None)


def axes_of(arguments: Sequence[Any]) -> int:
    """The most axes of any argument."""
    return max((one.dim() for one in arguments if isinstance(one, Tensor)), default=0)
