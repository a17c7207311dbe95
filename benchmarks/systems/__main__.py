"""Run the checks and write the page; see the package."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.systems import (  # noqa: F401  # they register their checks
    attention_rows,
    model_rows,
    property_rows,
    reading_rows,
    text_rows,
)
from benchmarks.systems.checked_rows import CHECKS, Check
from glassformer.claims.specimens import one_thread, seeded
from glassformer.files import write_whole
from glassformer.lessons.course import row_ids

STORED = Path(__file__).with_name("stored_rows.json")
SECTIONS = {
    "A": "Attention core", "B": "Properties", "R": "Recommender", "D": "Text to vectors",
    "E": "Blocks and stacks", "F": "Classifier", "G": "Sequence to sequence",
    "H": "Worked examples", "I": "Presentation",
}  # fmt: skip
_HEADS = ("row", "what it is", "shown by", "command", "must come out", "came out")


@dataclass(frozen=True)
class Result:
    """What came out of a check."""

    value: str
    passed: bool
    date: str | None = None
    """When it was measured, if it is a stored result."""


def run(check: Check, *, slow: bool = False) -> Result:
    """Check a row now; a slow one is recalled unless `slow`."""
    if check.slow and not slow:
        return recall(check)
    with one_thread(), seeded(0):
        value, passed = check.measure()
    return Result(value, bool(passed))


def recall(check: Check) -> Result:
    """The stored result of a slow row."""
    known = json.loads(STORED.read_text(encoding="utf-8"))
    return Result(**known[check.id])


def remember(check: Check, result: Result) -> None:
    known = json.loads(STORED.read_text(encoding="utf-8")) if STORED.exists() else {}
    known[check.id] = asdict(result) | {"date": datetime.now(UTC).date().isoformat()}
    write_whole(STORED, json.dumps(known, ensure_ascii=False, indent=1, sort_keys=True) + "\n")


def page(results: dict[str, Result]) -> str:
    """The page, one table per section."""
    return "\n".join(_page_lines(results)) + "\n"


def _page_lines(results: dict[str, Result]) -> Iterator[str]:
    good = sum(result.passed for result in results.values())
    yield "# What the texts describe, checked"
    yield ""
    yield (
        "Written by `python -m benchmarks.systems -o docs/systems.md`. The five texts describe "
        f"{len(results)} things. Each row says what it is, what shows it here (lessons, claims, "
        "the code, a test), the command for a reader, what must come out, and what came out when "
        "this page was written. *Stored* marks figures that take minutes, data or a GPU, with the "
        "command that measured them. `glassformer lesson --row A09` opens what shows a row."
    )
    yield ""
    yield f"**{good} of {len(results)} came out as they must.**"
    for letter, title in SECTIONS.items():
        chosen = [id_ for id_ in results if id_.startswith(letter)]
        if chosen:
            yield from (
                "",
                f"## {letter}. {title}",
                "",
                _line(_HEADS),
                _line(["---"] * len(_HEADS)),
            )
            yield from (_line(cells(CHECKS[id_], results[id_])) for id_ in chosen)


def cells(check: Check, result: Result) -> tuple[str, ...]:
    """A row of the page."""
    mark = "✓" if result.passed else "✗"
    return (
        check.id,
        check.row.name.en,
        "; ".join(_shown_by(check)),
        f"`{check.command}`",
        check.must,
        f"{mark} {result.value}{_origin(check, result)}",
    )


def _shown_by(check: Check) -> Iterator[str]:
    if check.row.lessons:
        yield "lesson " + ", ".join(check.row.lessons)
    if check.claims:
        yield "claim " + ", ".join(check.claims)
    yield f"`{check.code}`"
    yield f"`{check.test.partition('::')[2]}`"


def _origin(check: Check, result: Result) -> str:
    notes = [f"`{one.command}`, {one.where}, {one.date}" for one in check.origins]
    if result.date is not None:
        notes.append(f"`python -m benchmarks.systems {check.id} --slow`, {result.date}")
    return f" (*stored*: {'; '.join(dict.fromkeys(notes))})" if notes else ""


def _line(row: Iterable[str]) -> str:
    escaped = (cell.replace("|", r"\|").replace("<", "&lt;").replace("\n", " ") for cell in row)
    return f"| {' | '.join(escaped)} |"


def main() -> int:
    """The command; 1 if a row did not come out as it must."""
    parser = argparse.ArgumentParser(description="Check the rows of the texts.")
    parser.add_argument("rows", nargs="*", type=str.upper, metavar="ROW")
    parser.add_argument(
        "--slow", action="store_true", help="run the slow ones, too, and store them"
    )
    parser.add_argument("-o", "--output", type=Path, help="write the page")
    chosen = parser.parse_args()
    unknown = set(chosen.rows) - set(CHECKS)
    if unknown or (chosen.rows and chosen.output):
        parser.error(f"unknown row: {', '.join(unknown)}" if unknown else "a page needs all rows")
    results: dict[str, Result] = {}
    for id_ in chosen.rows or row_ids():
        start = time.perf_counter()
        results[id_] = run(CHECKS[id_], slow=chosen.slow)
        if CHECKS[id_].slow and chosen.slow:
            remember(CHECKS[id_], results[id_])
        mark = "✓" if results[id_].passed else "✗"
        print(
            f"{mark} {id_} {results[id_].value}  [{time.perf_counter() - start:.1f} s]", flush=True
        )
    if chosen.output is not None:
        write_whole(chosen.output, page(results))
    return 0 if all(result.passed for result in results.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
