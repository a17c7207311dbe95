"""Do the exercises accept what is right, and name the slip of what is wrong?

    python -m benchmarks.exercise_hints           # a line per exercise
    python -m benchmarks.exercise_hints --details # and one per wrong answer, with its hint

The wrong answers are those of tests/lessons/wrong_answers.toml, written as learners write them.
"""

from __future__ import annotations

import argparse
import math
import sys
import tomllib
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F

from glassformer.lessons import EXERCISES, exercise
from glassformer.lessons.exercises import solutions

_ANSWERS = Path(__file__).parents[1] / "tests" / "lessons" / "wrong_answers.toml"


def wrong_answers() -> list[dict[str, Any]]:
    """Each with its exercise, its code, and the hints that it should get."""
    answers: list[dict[str, Any]] = tomllib.loads(_ANSWERS.read_text(encoding="utf-8"))["answer"]
    return answers


def written(code: str) -> Callable[..., Any]:
    """The function `f` of a learner's code, which may use the solutions of earlier exercises."""
    names = {"torch": torch, "F": F, "math": math, **vars(solutions)}
    exec(compile(code, "answer", "exec"), names)
    function: Callable[..., Any] = names["f"]
    return function


def main() -> int:
    """The command; 1 if a solution is refused or a wrong answer gets another hint."""
    parser = argparse.ArgumentParser(description="Check solutions and hints of the exercises.")
    parser.add_argument("--details", action="store_true", help="each wrong answer and its hint")
    details = parser.parse_args().details
    by_exercise = defaultdict(list)
    for answer in wrong_answers():
        by_exercise[answer["exercise"]].append(answer)
    failed = named = 0
    print("| exercise | our solution | wrong answers | named right |\n| --- | --- | --- | --- |")
    for name in EXERCISES:
        task = exercise(name)
        accepted = task.check(getattr(solutions, task.function)).is_right
        found = [(one, task.check(written(one["code"]))) for one in by_exercise[name]]
        right = sum(list(hint.hints) == one["hints"] for one, hint in found)
        named += right
        failed += (not accepted) + len(found) - right
        print(f"| {name} | {'right' if accepted else 'refused'} | {len(found)} | {right} |")
        for one, hint in found if details else ():
            mark = "✓" if list(hint.hints) == one["hints"] else "✗"
            print(f"|  | {mark} {', '.join(one['hints'])} |  | {hint.text.en} |")
    print(f"\n{named} of {len(wrong_answers())} wrong answers get the hint that names their slip.")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
