"""What a claim is: words, an experiment that gives figures, and a rule that judges the figures.

The experiment knows no verdict, and the rule sees nothing but the figures: so a stored result is
judged by the same rule as a fresh one, and nobody can write a verdict down.

What is counted (steps, multiply-adds) and what a stopwatch says are two statements. A claim about
cost is judged by what is counted, says so, and reports the seconds beside it; seconds that say the
opposite take a "holds" back to "holds in part", unless they differ by no more than the timings of a
busy machine do anyway.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import Any, Literal, TypeAlias

from glassformer.claims.costs import DISTURBED
from glassformer.errors import DataError
from glassformer.language import Bilingual, Language, words

say = words("glassformer.claims.claim_report")

Figures: TypeAlias = Mapping[str, float]
"""What was measured, by name; yes and no are 1 and 0."""

Decision: TypeAlias = Callable[[Figures], bool]

Verdict: TypeAlias = Literal[
    "holds", "holds in part", "fails", "not decidable here", "not measured yet"
]


def _never(_: Figures) -> bool:
    return False


def _always(_: Figures) -> bool:
    return True


@dataclass(frozen=True)
class Rule:
    """From figures to a verdict: the first condition that is met decides."""

    holds: Decision
    partly: Decision = _never
    decidable: Decision = _always

    def judge(self, figures: Figures) -> Verdict:
        """The verdict that these figures ask for."""
        if not self.decidable(figures):
            return "not decidable here"
        if self.holds(figures):
            return "holds"
        return "holds in part" if self.partly(figures) else "fails"


@dataclass(frozen=True)
class Stored:
    """Figures of an experiment that takes long, and how to get them again."""

    figures: Figures
    command: str
    date: str
    where: str


@dataclass(frozen=True)
class Seconds:
    """The stopwatch beside a verdict that rests on what was counted."""

    measure: Callable[[], Figures]
    """Seconds and their ratios; `spread` is the largest spread of the timings behind them."""
    margin: Callable[[Figures], float]
    """By what factor they say the same as the claim; below 1 they say the opposite."""
    basis: Bilingual
    """What the verdict rests on instead: "multiply-adds counted"."""
    said: Bilingual
    against: Bilingual
    """What to say where the seconds do not follow what was counted."""
    stored: tuple[Stored, ...] = ()
    """Timings take minutes and differ by machine: one for each machine measured on."""

    def contradict(self, timing: Figures) -> bool:
        """Whether the seconds say the opposite, by more than their own spread."""
        return self.margin(timing) * (1 + timing["spread"]) < 1


def with_seconds(counted: Verdict, seconds: Seconds, timings: Iterable[Figures]) -> Verdict:
    """The verdict on what was counted, once the stopwatch has been asked."""
    if counted == "holds" and any(map(seconds.contradict, timings)):
        return "holds in part"
    return counted


@dataclass(frozen=True)
class Claim:
    """One statement of a text, and the experiment that decides it."""

    id: str
    texts: tuple[str, ...]
    says: Bilingual
    """The statement, in our words."""
    found: Bilingual
    """What was measured, with a place for each figure, such as `{gap:.1e}`."""
    remark: Bilingual | None
    """The condition of a claim that holds in part; the reason, where it cannot be decided."""
    measure: Callable[[], Figures]
    rule: Rule
    slow: bool = False
    command: str | None = None
    """What to type for a slow one."""
    stored: Stored | None = None
    seconds: Seconds | None = None

    def run(self, *, slow: bool = False) -> Outcome:
        """Measure now; the stopwatch of a claim that has one is read anew only if `slow`.

        Where the data that it reads is not there, the stored result stands in and says so: one
        such claim must not end a run of many.
        """
        start = time.perf_counter()
        try:
            figures = self.measure()
        except DataError as error:
            if self.stored is None:
                raise
            return replace(self.recall(), missing=str(error))
        verdict = self.rule.judge(figures)
        timings: tuple[Figures | Stored, ...] = ()
        if self.seconds is not None:
            timings = (self.seconds.measure(),) if slow else self.seconds.stored
            verdict = with_seconds(verdict, self.seconds, map(_figures, timings))
        return Outcome(self, verdict, figures, time.perf_counter() - start, timings)

    def recall(self) -> Outcome:
        """The stored result, judged now; without one, there is no verdict."""
        if self.stored is None:
            return Outcome(self, "not measured yet", {})
        return Outcome(self, self.rule.judge(self.stored.figures), self.stored.figures)


@dataclass(frozen=True)
class Outcome:
    """What came of a claim."""

    claim: Claim
    verdict: Verdict
    figures: Figures
    seconds: float | None = None
    """How long it took; none where a stored result was read."""
    timings: tuple[Figures | Stored, ...] = ()
    """What the stopwatch says, measured now or stored."""
    missing: str | None = None
    """Why it could not be measured now, where a stored result stands in."""

    @property
    def taken_back(self) -> bool:
        """Whether what was counted holds and the seconds say otherwise."""
        timed = self.claim.seconds
        counted = self.claim.rule.judge(self.figures) if timed is not None else self.verdict
        return counted != self.verdict

    def sentence(self, language: Language) -> str:
        """What was measured, and where the verdict has one, its condition or reason."""
        if self.verdict == "not measured yet":
            return say["command is"].say(language, command=self.claim.command)
        sentences = [self.claim.found.say(language).format_map(self.figures)]
        if self.claim.seconds is not None:
            rests = "taken back" if self.taken_back else "rests on"
            sentences.append(say[rests].say(language, basis=self.claim.seconds.basis))
            sentences += [_timed(self.claim.seconds, timing, language) for timing in self.timings]
        if self.verdict in ("holds in part", "not decidable here") and self.claim.remark:
            sentences.append(self.claim.remark.say(language))
        if self.missing is not None:
            sentences.append(say["stands in"].say(language, reason=self.missing))
        said = say["between sentences"].say(language).join(sentences)
        if self.seconds is None and self.claim.stored is not None:
            said += _origin(self.claim.stored, language)
        return said

    def to_dict(self, language: Language = "en") -> dict[str, Any]:
        """Plain JSON data."""
        stored = self.claim.stored if self.seconds is None else None
        return {
            "id": self.claim.id,
            "texts": list(self.claim.texts),
            "claim": self.claim.says.say(language),
            "verdict": self.verdict,
            "found": self.sentence(language),
            "figures": dict(self.figures),
            "timings": [dict(_figures(timing)) for timing in self.timings],
            "seconds": None if self.seconds is None else round(self.seconds, 3),
            "stored": None
            if stored is None
            else {"command": stored.command, "date": stored.date, "where": stored.where},
        }


def _figures(timing: Figures | Stored) -> Figures:
    return timing.figures if isinstance(timing, Stored) else timing


def _timed(seconds: Seconds, timing: Figures | Stored, language: Language) -> str:
    """The seconds, what they say against the claim, if anything, and where they come from."""
    figures = _figures(timing)
    sentences = [seconds.said.say(language).format_map(figures)]
    if seconds.contradict(figures):
        sentences.append(seconds.against.say(language))
    if figures["spread"] > DISTURBED:
        sentences.append(say["disturbed"].say(language, spread=figures["spread"]))
    said = say["between sentences"].say(language).join(sentences)
    return said + (_origin(timing, language) if isinstance(timing, Stored) else "")


def _origin(stored: Stored, language: Language) -> str:
    fields = {"command": stored.command, "where": stored.where, "date": stored.date}
    return say["origin"].say(language, **fields)


# --- group ---
# A group of claims: experiments from a module, words from the TOML file beside it.
#
# The words of C01 stand under `[C01]` in the file of its group: `texts`, `says`, `found` and, where
# the claim may hold in part or stay open, `remark`; of a claim whose seconds are measured, too,
# `basis`, `timed` and `against`; each in both languages.


Experiment = Callable[[], Figures]


class Group:
    """The claims under one heading."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._words = words(f"{__package__}.{name}")
        self.title = self._words["title"]
        self.claims: dict[str, Claim] = {}

    def claim(
        self, id_: str, rule: Rule | Decision, *, command: str | None = None
    ) -> Callable[[Experiment], Experiment]:
        """Register an experiment under a claim's id; one with a `command` is slow.

        A rule that is a bare condition says when the claim holds; otherwise it fails.
        """

        def register(measure: Experiment) -> Experiment:
            self.claims[id_] = Claim(
                id=id_,
                texts=tuple(self._words.data[id_]["texts"]),
                says=self._words[f"{id_} says"],
                found=self._words[f"{id_} found"],
                remark=self._words.get(f"{id_} remark"),
                measure=measure,
                rule=rule if isinstance(rule, Rule) else Rule(rule),
                slow=command is not None,
                command=command,
                stored=next(iter(stored_results(id_)), None),
            )
            return measure

        return register

    def seconds(
        self, id_: str, margin: Callable[[Figures], float]
    ) -> Callable[[Experiment], Experiment]:
        """Register the stopwatch beside a claim whose verdict rests on what is counted."""

        def register(measure: Experiment) -> Experiment:
            timed = Seconds(
                measure=measure,
                margin=margin,
                basis=self._words[f"{id_} basis"],
                said=self._words[f"{id_} timed"],
                against=self._words[f"{id_} against"],
                stored=stored_results(id_),
            )
            self.claims[id_] = replace(self.claims[id_], seconds=timed, stored=None)
            return measure

        return register

    @property
    def described(self) -> set[str]:
        """Ids that the file of words knows."""
        return {key for key in self._words.data if key != "title"}


def _read(name: str) -> str:
    return files("glassformer.claims").joinpath(name).read_text(encoding="utf-8")


def stored_results(name: str) -> tuple[Stored, ...]:
    """The stored results of a claim, or of an experiment that a claim refers to.

    Timings have one for each machine.
    """
    return _stored().get(name, ())


@cache
def _stored() -> dict[str, tuple[Stored, ...]]:
    data: dict[str, list[dict[str, Any]]] = json.loads(_read("stored.json"))
    return {id_: tuple(Stored(**result) for result in results) for id_, results in data.items()}
