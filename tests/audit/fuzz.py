"""The audit tried on examples with one wrong number, for every printed step.

    python -m tests.audit.fuzz            # the shipped examples and 200 articles: minutes
    python -m tests.audit.fuzz 10         # the shipped examples and 10 articles

A misprint is decidable if no digits behind the printed inputs could give it (`articles.may_be`).
Prints how many were planted, how many of them are decidable, how many were found, which other steps
were called wrong, and the CPU seconds of the slowest report.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from importlib import resources
from typing import Any

import numpy as np

from glassformer.audit.audit_report import audit_document
from glassformer.audit.example import Example, PrintedDigits
from glassformer.audit.example_file import example_names, read_example
from glassformer.audit.formulas import FormulaError
from glassformer.audit.judgement import audit
from glassformer.audit.verdicts import Audit
from glassformer.documents import render_text
from tests.audit.articles import Misprint, article, may_be, misprints


@dataclass
class Figures:
    """What a campaign found."""

    clean: int = 0
    alarms: list[str] = field(default_factory=list)
    planted: int = 0
    decidable: int = 0
    found: int = 0
    found_in_all: int = 0
    missed: list[str] = field(default_factory=list)
    blamed: list[str] = field(default_factory=list)
    unfinished: int = 0
    worst: float = 0.0
    worst_name: str = ""

    def lines(self) -> str:
        share = self.decidable / max(self.planted, 1)
        return "\n".join(
            (
                f"clean examples: {self.clean}, false alarms: {len(self.alarms)} {self.alarms[:5]}",
                f"wrong numbers planted: {self.planted}, decidable: {self.decidable} ({share:.1%})",
                f"decidable ones found: {self.found}, missed: {len(self.missed)} {self.missed[:5]}",
                f"found of all: {self.found_in_all}",
                f"another step called wrong: {len(self.blamed)} {self.blamed[:5]}",
                f"searches that ended with their budget: {self.unfinished}",
                f"slowest report: {self.worst:.2f} s of CPU ({self.worst_name})",
            )
        )


def shipped(name: str) -> dict[str, Any]:
    """A shipped example file, with the steps that it borrows from others."""
    folder = resources.files("glassformer.audit") / "examples"
    data: dict[str, Any] = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
    steps: list[dict[str, Any]] = []
    for step in data["steps"]:
        if "from" not in step:
            steps.append(step)
            continue
        other = shipped(step["from"])
        steps += [
            {"case": other.get("case", "keep"), **part}
            for part in other["steps"]
            if "steps" not in step or part["id"] in step["steps"]
        ]
    return {**data, "steps": steps}


def report(example: Example, figures: Figures, name: str) -> Audit:
    """An audit, rendered in every format and language; records its CPU time."""
    start = time.process_time()
    found = audit(example)
    for language in ("en", "zh"):
        made = audit_document(found, language)
        assert all(render_text(made, to) for to in ("md", "html", "tex"))
        json.dumps(found.to_dict(language), allow_nan=False)
    seconds = time.process_time() - start
    if seconds > figures.worst:
        figures.worst, figures.worst_name = seconds, name
    return found


def decidable(misprint: Misprint, example: Example) -> bool:
    """Whether no digits behind the printed inputs give the wrong number."""
    step = example[misprint.step]
    digits = step.printed
    if not isinstance(digits, PrintedDigits):
        return False
    try:
        low, high = may_be(example, step, misprint.at)
    except FormulaError:
        return False
    value, half = float(digits.values[misprint.at]), float(digits.half[misprint.at])
    room = 0.05 * (high - low) + 1e-9 * max(abs(value), 1)  # the ends reached are not all ends
    return bool(value - half > high + room or value + half < low - room)


def campaign(
    examples: Iterable[tuple[str, dict[str, Any], bool]], figures: Figures, *, every: int = 1
) -> Figures:
    """`examples` are names, files, and whether a file is known to be right."""
    for seed, (name, data, right) in enumerate(examples):
        before = report(read_example(json.dumps(data), name, name), figures, name)
        wrong_before = {result.step.id for result in before.results if result.verdict == "wrong"}
        if right:
            figures.clean += 1
            figures.alarms += [f"{name}.{id_}" for id_ in sorted(wrong_before)]
        for at, misprint in enumerate(misprints(data, seed)):
            if at % every == seed % every:
                _judge(misprint, name, wrong_before, figures)
    return figures


def _judge(misprint: Misprint, name: str, wrong_before: set[str], figures: Figures) -> None:
    example = misprint.example()
    where = f"{name}.{misprint.step}{list(misprint.at)}"
    found = report(example, figures, where)
    figures.planted += 1
    wrong = {result.step.id for result in found.results if result.verdict == "wrong"}
    figures.found_in_all += misprint.step in wrong
    if decidable(misprint, example):
        figures.decidable += 1
        if misprint.step in wrong:
            figures.found += 1
        else:
            figures.missed.append(where)
    if misprint.step in wrong - wrong_before:
        others = wrong - wrong_before - {misprint.step}
        figures.blamed += [f"{where} → {id_}" for id_ in sorted(others)]
    figures.unfinished += sum(
        result.note is not None and "not searched" in result.note.en for result in found.results
    )


def everything(articles: int) -> Iterable[tuple[str, dict[str, Any], bool]]:
    """The shipped examples, then this many articles."""
    for name in example_names():
        yield name, shipped(name), False
    for seed in range(articles):
        yield f"article-{seed}", article(seed), True


if __name__ == "__main__":
    np.seterr(all="ignore")
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    sys.stdout.write(campaign(everything(count), Figures()).lines() + "\n")
