"""Typed results of the tasks: frozen records of plain values, one per text, in input order.

`to_text` is what the command prints, `to_dict` what it writes with --json.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from glassformer.decoding import Ledger

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
class Classified:
    """The class of one text."""

    input: str
    label: str
    probability: float
    probabilities: dict[str, float]
    """Of every class; they sum to 1, unless several classes may hold at once."""
    cut: bool = False
    """Whether the text was longer than the model reads, so that part of it was left out."""
    attention: Attention | None = None
    """If it was asked for."""
    unknown: bool = False
    """Whether every token is unknown to the vocabulary, so that the answer means nothing."""

    @property
    def undecided(self) -> bool:
        """Whether another class is as probable within rounding: `label` is then only the first."""
        exclude_each_other = abs(sum(self.probabilities.values()) - 1) < 1e-3
        return exclude_each_other and is_tie(self.probabilities.values())

    def to_text(self) -> str:
        label = UNDECIDED if self.undecided else self.label
        return f"{label}\t{self.probability:.4f}"

    def to_dict(self) -> dict[str, Any]:
        return {"input": self.input, "label": self.label, "probability": self.probability} | _said(
            cut=self.cut, undecided=self.undecided
        )


@dataclass(frozen=True)
class Word:
    """A word that may fill a gap."""

    text: str
    probability: float
    id: int


@dataclass(frozen=True)
class Filled:
    """A text with gaps, and the likeliest words for each."""

    input: str
    text: str
    """With the likeliest word in each gap."""
    gaps: tuple[tuple[Word, ...], ...]
    """For each gap, best first."""
    cut: bool = False
    unknown: bool = False

    def to_text(self) -> str:
        """A line per word; gaps one after the other."""
        return "\n".join(
            f"{w.probability:.4f}\t{_one_line(w.text)}" for gap in self.gaps for w in gap
        )

    def to_dict(self) -> dict[str, Any]:
        gaps = [[{"word": w.text, "probability": w.probability} for w in gap] for gap in self.gaps]
        return {"input": self.input, "text": self.text, "gaps": gaps} | _said(cut=self.cut)


@dataclass(frozen=True)
class LabelledToken:
    """One token of a text and its class."""

    token: str
    label: str
    probability: float


@dataclass(frozen=True)
class Tagged:
    """The class of each token of one text."""

    input: str
    tokens: tuple[LabelledToken, ...]
    """Without start and end."""
    cut: bool = False
    unknown: bool = False

    def to_text(self) -> str:
        """`token/label` for each token."""
        return " ".join(f"{one.token}/{one.label}" for one in self.tokens)

    def to_dict(self) -> dict[str, Any]:
        tokens = [
            {"token": one.token, "label": one.label, "probability": one.probability}
            for one in self.tokens
        ]
        return {"input": self.input, "tokens": tokens} | _said(cut=self.cut)


@dataclass(frozen=True)
class Scored:
    """The one number that a model gives to a text: a regression, or a re-ranker's logit."""

    input: str
    score: float
    cut: bool = False
    unknown: bool = False

    def to_text(self) -> str:
        return f"{self.score:.6g}"

    def to_dict(self) -> dict[str, Any]:
        return {"input": self.input, "score": self.score} | _said(cut=self.cut)


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
class Translated:
    """The translation of one text."""

    input: str
    alternatives: tuple[Alternative, ...]
    """Best first."""
    cut: bool = False
    """Whether the text was longer than the model reads, so that its end was left out."""
    ledger: Ledger | None = None
    """Every candidate of every step, if it was asked for."""
    attention: Attention | None = None
    """Of one pass over the source and the best translation, if it was asked for."""
    unknown: bool = False
    """Whether every token is unknown to the vocabulary, so that the answer means nothing."""

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

    def to_dict(self) -> dict[str, Any]:
        """Lists the alternatives where there are several."""
        data: dict[str, Any] = {"input": self.input, "text": self.text, "score": self.score}
        if len(self.alternatives) > 1:
            data["alternatives"] = [{"text": a.text, "score": a.score} for a in self.alternatives]
        return data | _said(cut=self.cut)


class Generated(Translated):
    """The continuation of one text; its own text is not repeated."""

    def to_text(self) -> str:
        """The prompt with each continuation."""
        return "\n".join(self.input + alternative.text for alternative in self.alternatives)


@dataclass(frozen=True)
class Embedded:
    """One text as a unit vector: texts of similar meaning have a large dot product."""

    input: str
    vector: tuple[float, ...]
    cut: bool = False
    """Whether the text was longer than the model reads, so that its end was left out."""
    unknown: bool = False
    """Whether every token is unknown to the vocabulary, so that the answer means nothing."""

    def to_text(self) -> str:
        """JSON in any case: vectors are for programs."""
        return as_json(self.to_dict())

    def to_dict(self) -> dict[str, Any]:
        return {"input": self.input, "vector": list(self.vector)} | _said(cut=self.cut)


@dataclass(frozen=True)
class Recommendation:
    """One film, and how a person is expected to like it."""

    title: str
    stars: float


@dataclass(frozen=True)
class Recommended:
    """Films for one person, best first; those that were named are not among them."""

    input: str
    films: tuple[Recommendation, ...]
    cut: bool = False
    unknown: bool = False

    def to_text(self) -> str:
        """One film per line."""
        return "\n".join(f"{film.stars:.2f}\t{film.title}" for film in self.films)

    def to_dict(self) -> dict[str, Any]:
        films = [{"title": film.title, "stars": film.stars} for film in self.films]
        return {"input": self.input, "films": films}


@dataclass(frozen=True)
class Unread:
    """The answer to a text without a token to read."""

    input: str
    nothing: dict[str, Any]
    """The fields of the answer, empty."""
    cut: bool = False
    unknown: bool = False

    def to_text(self) -> str:
        return as_json(self.to_dict()) if "vector" in self.nothing else ""

    def to_dict(self) -> dict[str, Any]:
        return {"input": self.input, **self.nothing}


def as_json(data: dict[str, Any]) -> str:
    """JSON on one line."""
    return json.dumps(data, ensure_ascii=False)


def _one_line(text: str) -> str:
    """Line breaks in what a model wrote become spaces: one answer, one line."""
    return " ".join(text.splitlines())


def _said(*, cut: bool, undecided: bool = False) -> dict[str, Any]:
    """Fields that appear only where they apply."""
    return {name: True for name, applies in (("cut", cut), ("undecided", undecided)) if applies}
