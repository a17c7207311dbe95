"""What a model answers: typed results, one per text in input order; and the options of each task.

The results are frozen records of plain values: `to_text` is what the command prints, `to_dict` what
it writes with --json. `answer_lines` is `glassformer run` without its command line: options by
name, lines from bytes, a few batches at a time through the model, in constant memory.
"""

import io
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any, BinaryIO, Literal

from torch import Tensor

from glassformer.decoding import Beam, Ledger, Sampling
from glassformer.errors import ConfigError, Fragment

if TYPE_CHECKING:
    from glassformer.tasks.model import Model

# --- results ---

UNDECIDED = "undecided"
_ROUNDING = 1e-6
"""Probabilities that differ by less are equal: float32 has no more digits to tell them apart."""


def is_tie(probabilities: Iterable[float]) -> bool:
    """Whether the two largest probabilities are equal within rounding."""
    best = sorted(probabilities, reverse=True)[:2]
    return len(best) == 2 and best[0] - best[1] < _ROUNDING


Attention = dict[str, Tensor]
"""Attention weights by the name of the layer, each (1, H, Q, K)."""


@dataclass(frozen=True)
class TextAnswer:
    """An answer to one text."""

    input: str
    cut: bool = field(default=False, kw_only=True)
    """Whether the text was longer than the model reads, so that part of it was left out."""
    unknown: bool = field(default=False, kw_only=True)
    """Whether every token is unknown to the vocabulary, so that the answer means nothing."""

    def to_text(self) -> str:
        raise NotImplementedError

    def fields(self) -> dict[str, Any]:
        """The answer itself, as plain data."""
        raise NotImplementedError

    def to_dict(self) -> dict[str, Any]:
        """The text and its answer; `cut` appears only where it applies."""
        return {"input": self.input, **self.fields()} | ({"cut": True} if self.cut else {})


@dataclass(frozen=True)
class Classified(TextAnswer):
    """The class of one text."""

    label: str
    probability: float
    probabilities: dict[str, float]
    """Of every class; they sum to 1, unless several classes may hold at once."""
    attention: Attention | None = None
    """If it was asked for."""

    @property
    def undecided(self) -> bool:
        """Whether another class is as probable within rounding: `label` is then only the first."""
        exclude_each_other = abs(sum(self.probabilities.values()) - 1) < 1e-3
        return exclude_each_other and is_tie(self.probabilities.values())

    def to_text(self) -> str:
        label = UNDECIDED if self.undecided else self.label
        return f"{label}\t{self.probability:.4f}"

    def fields(self) -> dict[str, Any]:
        return {"label": self.label, "probability": self.probability}

    def to_dict(self) -> dict[str, Any]:
        return super().to_dict() | ({"undecided": True} if self.undecided else {})


@dataclass(frozen=True)
class Word:
    """A word that may fill a gap."""

    text: str
    probability: float
    id: int


@dataclass(frozen=True)
class Filled(TextAnswer):
    """A text with gaps, and the likeliest words for each."""

    text: str
    """With the likeliest word in each gap."""
    gaps: tuple[tuple[Word, ...], ...]
    """For each gap, best first."""

    def to_text(self) -> str:
        """A line per word; gaps one after the other."""
        return "\n".join(
            f"{w.probability:.4f}\t{_one_line(w.text)}" for gap in self.gaps for w in gap
        )

    def fields(self) -> dict[str, Any]:
        gaps = [[{"word": w.text, "probability": w.probability} for w in gap] for gap in self.gaps]
        return {"text": self.text, "gaps": gaps}


@dataclass(frozen=True)
class LabelledToken:
    """One token of a text and its class."""

    token: str
    label: str
    probability: float


@dataclass(frozen=True)
class Tagged(TextAnswer):
    """The class of each token of one text."""

    tokens: tuple[LabelledToken, ...]
    """Without start and end."""

    def to_text(self) -> str:
        """`token/label` for each token."""
        return " ".join(f"{one.token}/{one.label}" for one in self.tokens)

    def fields(self) -> dict[str, Any]:
        return {"tokens": [asdict(token) for token in self.tokens]}


@dataclass(frozen=True)
class Scored(TextAnswer):
    """The one number that a model gives to a text: a regression, or a re-ranker's logit."""

    score: float

    def to_text(self) -> str:
        return f"{self.score:.6g}"

    def fields(self) -> dict[str, Any]:
        return {"score": self.score}


@dataclass(frozen=True)
class Alternative:
    """One text that a model wrote."""

    text: str
    score: float
    """What texts are ranked by: with a beam the mean log-probability of a token, else the sum."""
    log_probability: float
    """Of the whole text."""
    ended: bool
    """Whether the model ended it; otherwise it was cut at its maximum length."""
    ids: tuple[int, ...]
    """Its tokens, without start and end."""


@dataclass(frozen=True)
class Translated(TextAnswer):
    """The translation of one text."""

    alternatives: tuple[Alternative, ...]
    """Best first."""
    ledger: Ledger | None = None
    """Every candidate of every step, if it was asked for."""
    attention: Attention | None = None
    """Of one pass over the source and the best translation, if it was asked for."""

    @property
    def text(self) -> str:
        return self.alternatives[0].text

    @property
    def score(self) -> float:
        return self.alternatives[0].score

    def to_text(self) -> str:
        """One line per alternative, with scores if there are several."""
        if len(self.alternatives) == 1:
            return _one_line(self.text)
        return "\n".join(f"{a.score:.4f}\t{_one_line(a.text)}" for a in self.alternatives)

    def fields(self) -> dict[str, Any]:
        """Lists the alternatives where there are several."""
        data: dict[str, Any] = {"text": self.text, "score": self.score}
        if len(self.alternatives) > 1:
            data["alternatives"] = [{"text": a.text, "score": a.score} for a in self.alternatives]
        return data


class Generated(Translated):
    """The continuation of one text; its own text is not repeated."""

    def to_text(self) -> str:
        """The prompt with each continuation."""
        return "\n".join(self.input + alternative.text for alternative in self.alternatives)


@dataclass(frozen=True)
class Embedded(TextAnswer):
    """One text as a unit vector: texts of similar meaning have a large dot product."""

    vector: tuple[float, ...]

    def to_text(self) -> str:
        """JSON in any case: vectors are for programs."""
        return as_json(self.to_dict())

    def fields(self) -> dict[str, Any]:
        return {"vector": list(self.vector)}


@dataclass(frozen=True)
class Recommendation:
    """One film, and how a person is expected to like it."""

    title: str
    stars: float


@dataclass(frozen=True)
class Recommended(TextAnswer):
    """Films for one person, best first; those that were named are not among them."""

    films: tuple[Recommendation, ...]

    def to_text(self) -> str:
        """One film per line."""
        return "\n".join(f"{film.stars:.2f}\t{film.title}" for film in self.films)

    def fields(self) -> dict[str, Any]:
        return {"films": [asdict(film) for film in self.films]}


@dataclass(frozen=True)
class Unread(TextAnswer):
    """The answer to a text without a token to read."""

    nothing: dict[str, Any]
    """The fields of the answer, empty."""

    def to_text(self) -> str:
        return as_json(self.to_dict()) if "vector" in self.nothing else ""

    def fields(self) -> dict[str, Any]:
        return self.nothing


def as_json(data: dict[str, Any]) -> str:
    """JSON on one line."""
    return json.dumps(data, ensure_ascii=False)


def _one_line(text: str) -> str:
    """Line breaks in what a model wrote become spaces: one answer, one line."""
    return " ".join(text.splitlines())


# --- tasks and their options ---

Task = Literal["classify", "translate", "generate", "fill", "tag", "score", "embed", "recommend"]
OPTIONS: dict[Task, tuple[str, ...]] = {
    "classify": (),
    "embed": (),
    "tag": (),
    "score": (),
    "fill": ("n_best",),
    "translate": ("max_new", "beam", "n_best", "length_penalty"),
    "generate": (
        "max_new", "temperature", "top_k", "top_p", "min_p", "repetition_penalty", "n_samples",
        "seed",
    ),
    "recommend": ("films",),
}  # fmt: skip
"""The options of each task, by name."""

NOTHING: dict[Task, dict[str, Any]] = {
    "classify": {"label": None, "probability": None},
    "embed": {"vector": None},
    "fill": {"text": None, "gaps": []},
    "tag": {"tokens": []},
    "score": {"score": None},
    "recommend": {"films": []},
}
"""The answer to an empty text."""

_BATCHES = 16  # read, sorted by length and answered together
_NOT_UTF8 = re.compile("[\udc80-\udcff]")  # how surrogateescape decodes invalid bytes
_END = 500_000  # characters kept at each end of a line; few models read more


def check_options(model: "Model", options: Iterable[str]) -> None:
    """Reject options that the task does not have, rather than ignore them."""
    for name in options:
        if name not in OPTIONS[model.task]:
            taken = ", ".join(f"--{one.replace('_', '-')}" for one in OPTIONS[model.task])
            raise ConfigError(
                "--{option} is not for {name}, {kind}; it takes {taken}",
                option=name.replace("_", "-"),
                name=model.name,
                kind=model.kind,
                taken=taken or Fragment.of("none of these options"),
            )


def beam_of(options: Mapping[str, Any]) -> Beam:
    """The beam search asked for; unless a size is given, at least `n_best` wide."""
    given = {name: options[name] for name in ("n_best", "length_penalty") if name in options}
    return Beam(size=options.get("beam", max(4, given.get("n_best", 1))), **given)


def sampling_of(options: Mapping[str, Any]) -> Sampling:
    """The sampling asked for; unless given, its temperature is 0.8."""
    given = {name: value for name, value in options.items() if name != "max_new"}
    return Sampling(**({"temperature": 0.8} | given))


def answer_lines(
    model: "Model",
    lines: Iterable[str],
    options: Mapping[str, Any],
    *,
    batch_size: int = 32,
    one_by_one: bool = False,
) -> Iterator[TextAnswer]:
    """One answer per line; lines are read and answered a few batches at a time."""
    remaining = iter(lines)
    per_batch = 1 if model.task == "recommend" else max(1, batch_size)
    at_once = 1 if one_by_one or model.task == "generate" else _BATCHES * per_batch
    while window := list(islice(remaining, at_once)):
        yield from model.answer(window, batch_size=batch_size, **options)


def decoded_lines(source: BinaryIO, not_utf8: Callable[[int], None]) -> Iterator[str]:
    """Lines of UTF-8; invalid bytes become U+FFFD, and `not_utf8` is called with the line's number.

    Of an overlong line only its two ends are kept, which bounds memory: classifiers read the
    beginning of a text that is too long for them, language models its end.
    """
    stream = io.TextIOWrapper(source, encoding="utf-8", errors="surrogateescape", newline="\n")
    number = 0
    while beginning := stream.readline(_END):
        number += 1
        newest, end = beginning, ""
        while newest and not newest.endswith("\n"):
            newest = stream.readline(_END)
            end = (end + newest)[-_END:]
        line = (beginning + end).removesuffix("\n").removesuffix("\r")
        if _NOT_UTF8.search(line):
            not_utf8(number)
            line = line.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
        yield line
