"""What a claim is: words, an experiment that gives figures, and a rule that judges the figures.

An experiment knows nothing of verdicts and a rule sees only the figures, so a stored result is
judged by the same rule as a fresh one and no verdict can be hard-coded.

Counts (steps, multiply-adds) and seconds are two different things. A claim about cost is judged by
its counts, says so, and reports the seconds too; if the seconds contradict it by more than timing
noise, "holds" becomes "holds in part".
"""

from __future__ import annotations

import inspect
import json
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import files
from string import Formatter
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

from glassformer.claims.costs import DISTURBED
from glassformer.errors import ConfigError, DataError
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
class VerdictRule:
    """From figures to a verdict: the first condition that is met decides."""

    holds: Decision
    partly: Decision = _never
    decidable: Decision = _always

    def judge(self, figures: Figures) -> Verdict:
        if not self.decidable(figures):
            return "not decidable here"
        if self.holds(figures):
            return "holds"
        return "holds in part" if self.partly(figures) else "fails"


@dataclass(frozen=True)
class Stored:
    """Figures of a slow experiment, and how to reproduce them."""

    figures: Figures
    command: str
    date: str
    where: str


@dataclass(frozen=True)
class Seconds:
    """Timings that accompany a verdict based on counts."""

    measure: Callable[[], Figures]
    """Seconds and their ratios; `spread` is the largest spread of the timings."""
    margin: Callable[[Figures], float]
    """By what factor the timings support the claim; below 1 they contradict it."""
    basis: Bilingual
    """What the verdict is based on instead: "multiply-adds counted"."""
    said: Bilingual
    against: Bilingual
    """What to say if the seconds contradict the counts."""
    stored: tuple[Stored, ...] = ()
    """One result per machine: timings take minutes and differ between machines."""

    def contradict(self, timing: Figures) -> bool:
        """Whether the timings contradict the claim by more than their own spread."""
        return self.margin(timing) * (1 + timing["spread"]) < 1


def with_seconds(counted: Verdict, seconds: Seconds, timings: Iterable[Figures]) -> Verdict:
    """The verdict on the counts, corrected by the timings."""
    if counted == "holds" and any(map(seconds.contradict, timings)):
        return "holds in part"
    return counted


@dataclass(frozen=True)
class ClaimSwitch:
    """A parameter of an experiment that a reader may turn; each value takes seconds at most."""

    name: str
    label: Bilingual
    values: tuple[float, ...]
    default: float


@dataclass(frozen=True)
class Claim:
    """One statement of a text, and the experiment that decides it."""

    id: str
    texts: tuple[str, ...]
    says: Bilingual
    """The statement, in our words."""
    found: Bilingual
    """What was measured, with a placeholder for each figure, such as `{gap:.1e}`."""
    remark: Bilingual | None
    """The condition of a claim that holds in part, or why it cannot be decided."""
    measure: Callable[..., Figures]
    """The experiment; its arguments are the switches."""
    rule: VerdictRule
    slow: bool = False
    command: str | None = None
    """The command that runs a slow one."""
    stored: Stored | None = None
    seconds: Seconds | None = None
    switches: tuple[ClaimSwitch, ...] = ()

    def run(
        self, *, slow: bool = False, settings: Mapping[str, str] = MappingProxyType({})
    ) -> Outcome:
        """Measure now; timings are repeated only if `slow`, otherwise the stored ones are used.

        `settings` are switches by name; timings belong to the experiment as it stands, so a turned
        one has none. If the data it needs is missing, the stored result is returned and says so, so
        that one claim does not end a run of many.
        """
        turned = self.turned(settings)
        start = time.perf_counter()
        try:
            figures = self.measure(**turned)
        except DataError as error:
            if self.stored is None:
                raise
            return replace(self.recall(), missing=str(error))
        verdict = self.rule.judge(figures)
        timings: tuple[Figures | Stored, ...] = ()
        if self.seconds is not None and not turned:
            timings = (self.seconds.measure(),) if slow else self.seconds.stored
            verdict = with_seconds(verdict, self.seconds, map(_figures, timings))
        seconds = time.perf_counter() - start
        return Outcome(self, verdict, figures, seconds, timings, settings=turned)

    def recall(self) -> Outcome:
        """The stored result, judged now; without one there is no verdict."""
        if self.stored is None:
            return Outcome(self, "not measured yet", {})
        return Outcome(self, self.rule.judge(self.stored.figures), self.stored.figures)

    def turned(self, settings: Mapping[str, str]) -> dict[str, float]:
        """The switches that `settings` turn away from their defaults; raises for unknown ones."""
        known = {switch.name: switch for switch in self.switches}
        turned = {}
        for name, value in settings.items():
            if name not in known:
                raise ConfigError(
                    "claim {id} has no switch {name!r}; its switches: {choices}",
                    id=self.id, name=name, choices=", ".join(known) or "–",
                )  # fmt: skip
            values = {str(one): one for one in known[name].values}
            if value not in values:
                raise ConfigError(
                    "claim {id} has no {name} {value!r}; choose {choices}",
                    id=self.id, name=name, value=value, choices=", ".join(values),
                )  # fmt: skip
            if values[value] != known[name].default:
                turned[name] = values[value]
        return turned


@dataclass(frozen=True)
class Outcome:
    """What came of a claim."""

    claim: Claim
    verdict: Verdict
    figures: Figures
    seconds: float | None = None
    """How long it took; None for a stored result."""
    timings: tuple[Figures | Stored, ...] = ()
    """Timings, measured now or stored."""
    missing: str | None = None
    """Why it could not be measured now, if this is a stored result."""
    settings: Mapping[str, float] = field(default_factory=dict)
    """The switches that were turned."""

    @property
    def command(self) -> str:
        """The command that measures this again."""
        turned = "".join(f" --set {name}={value}" for name, value in self.settings.items())
        return f"glassformer claims {self.claim.id}{turned}{' --slow' if self.claim.slow else ''}"

    @property
    def taken_back(self) -> bool:
        """Whether the counts support the claim and the seconds contradict it."""
        timed = self.claim.seconds
        counted = self.claim.rule.judge(self.figures) if timed is not None else self.verdict
        return counted != self.verdict

    def sentence(self, language: Language) -> str:
        """What was measured, with the condition or reason of the verdict if it has one."""
        if self.verdict == "not measured yet":
            return say["command is"].say(language, command=self.claim.command)
        sentences = [_filled(self.claim.found.say(language), self.figures)]
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


class _Prose(Formatter):
    """Numbers as a sentence writes them: `1 × 10⁻⁷` for `1e-07`, `0` for `0e+00`."""

    def format_field(self, value: Any, format_spec: str) -> str:
        said: str = super().format_field(value, format_spec)
        written = with_power_of_ten(said)
        return "0" if written != said and value == 0 else written


def with_power_of_ten(said: str) -> str:
    """A number as a sentence writes it: `1 × 10⁻⁷` for `1e-07`, anything else as it is."""
    mantissa, _, power = said.partition("e")
    if not power or not _DIGITS.fullmatch(mantissa):
        return said
    return f"{mantissa} × 10{str(int(power)).translate(_RAISED)}"


_DIGITS = re.compile(r"-?\d+(\.\d+)?")
_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def _filled(template: str, figures: Figures) -> str:
    return _Prose().vformat(template, (), figures)


def _figures(timing: Figures | Stored) -> Figures:
    return timing.figures if isinstance(timing, Stored) else timing


def _timed(seconds: Seconds, timing: Figures | Stored, language: Language) -> str:
    """The timings, whether they contradict the claim, and where they were measured."""
    figures = _figures(timing)
    sentences = [_filled(seconds.said.say(language), figures)]
    if seconds.contradict(figures):
        sentences.append(seconds.against.say(language))
    if figures["spread"] > DISTURBED:
        sentences.append(say["disturbed"].say(language, spread=figures["spread"]))
    said = say["between sentences"].say(language).join(sentences)
    return said + (_origin(timing, language) if isinstance(timing, Stored) else "")


def _origin(stored: Stored, language: Language) -> str:
    where = measured_on(stored, language)
    return say["origin"].say(language, command=stored.command, where=where, date=stored.date)


def measured_on(stored: Stored, language: Language) -> str:
    """The machine, in words of this language; the name of a device stays as it is."""
    known = say.get(f"measured on {stored.where}")
    return known.say(language) if known else stored.where


# --- groups ----------------------------------------------------------------------------------
# A group of claims: experiments from a module, words from the TOML file beside it. Under `[C01]`
# that file has `texts`, `says`, `found` and, if the claim may hold in part or stay open, `remark`;
# for a claim that is also timed, `basis`, `timed` and `against`; each in both languages. The labels
# of its switches are under `[C01.switch]`.

ExperimentFunction = Callable[..., Figures]


class Group:
    """The claims under one heading."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._words = words(f"{__package__}.{name}")
        self.title = self._words["title"]
        self.claims: dict[str, Claim] = {}

    def claim(
        self,
        id_: str,
        holds: Decision,
        *,
        partly: Decision = _never,
        decidable: Decision = _always,
        command: str | None = None,
        **switches: Sequence[float],
    ) -> Callable[[ExperimentFunction], ExperimentFunction]:
        """Register an experiment under a claim's id; a claim with a `command` is slow.

        The conditions are those of its `VerdictRule`. `switches` are the values that the arguments
        of the experiment may take besides their defaults.
        """

        def register(measure: ExperimentFunction) -> ExperimentFunction:
            self.claims[id_] = Claim(
                id=id_,
                texts=tuple(self._words.data[id_]["texts"]),
                says=self._words[f"{id_} says"],
                found=self._words[f"{id_} found"],
                remark=self._words.get(f"{id_} remark"),
                measure=measure,
                rule=VerdictRule(holds, partly, decidable),
                slow=command is not None,
                command=command,
                stored=next(iter(stored_results(id_)), None),
                switches=tuple(
                    ClaimSwitch(
                        name,
                        self._words[f"{id_} switch {name}"],
                        tuple(values),
                        inspect.signature(measure).parameters[name].default,
                    )
                    for name, values in switches.items()
                ),
            )
            return measure

        return register

    def seconds(
        self, id_: str, margin: Callable[[Figures], float]
    ) -> Callable[[ExperimentFunction], ExperimentFunction]:
        """Register the timings of a claim whose verdict is based on counts."""

        def register(measure: ExperimentFunction) -> ExperimentFunction:
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
        """The ids in the TOML file."""
        return {key for key in self._words.data if key != "title"}


def _read(name: str) -> str:
    return files("glassformer.claims").joinpath(name).read_text(encoding="utf-8")


def stored_results(name: str) -> tuple[Stored, ...]:
    """The stored results of a claim, or of an experiment that a claim refers to.

    Timings have one result per machine.
    """
    return _stored().get(name, ())


@cache
def _stored() -> dict[str, tuple[Stored, ...]]:
    data: dict[str, list[dict[str, Any]]] = json.loads(_read("stored.json"))
    return {id_: tuple(Stored(**result) for result in results) for id_, results in data.items()}
