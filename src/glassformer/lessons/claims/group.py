"""A group of claims: experiments from a module, words from the TOML file beside it.

The words of C01 stand under `[C01]` in the file of its group: `texts`, `says`, `found` and, where
the claim may hold in part or stay open, `remark`; of a claim whose seconds are measured, too,
`basis`, `timed` and `against`; each in both languages.
"""

import json
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from importlib.resources import files
from typing import Any

from glassformer.language import words
from glassformer.lessons.claims.claim import Claim, Decision, Figures, Rule, Seconds, Stored

__all__ = ["Group", "stored_results"]

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
    return files("glassformer.lessons.claims").joinpath(name).read_text(encoding="utf-8")


def stored_results(name: str) -> tuple[Stored, ...]:
    """The stored results of a claim, or of an experiment that a claim refers to.

    Timings have one for each machine.
    """
    return _stored().get(name, ())


@cache
def _stored() -> dict[str, tuple[Stored, ...]]:
    data: dict[str, list[dict[str, Any]]] = json.loads(_read("stored.json"))
    return {id_: tuple(Stored(**result) for result in results) for id_, results in data.items()}
