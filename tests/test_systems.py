"""The rows of the texts: each has a check, what the checks name exists, and they pass.

`python -m benchmarks.systems` runs all of them; the quick ones run here, too.
"""

import ast
import json
import shlex
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest

from benchmarks.systems.__main__ import STORED, Result, cells, page, recall, run
from benchmarks.systems.checked_rows import CHECKS, DESCRIBED, small
from glassformer.claims import claims
from glassformer.cli import app, course_commands, text_checks
from glassformer.lessons import LESSONS
from glassformer.lessons.course import row_ids

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "systems.md").read_text(encoding="utf-8")
COSTLY = {
    *("B05", "B06", "B08", "B09", "B13", "B14", "R02", "R04", "R05", "E02", "E11", "E14", "F07"),
    *("G02", "G04", "G07", "G08", "G10", "G11", "G12", "H04", "H05", "H08", "I02", "I03", "I04"),
    *("I05", "I06", "I07", "I09", "I10"),
}
"""They train a model or make a long lesson: a second or more."""


@cache
def names_in(file: str) -> set[str]:
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def test_every_row_has_one_check_and_a_place_on_the_page() -> None:
    assert list(DESCRIBED) == row_ids()
    assert set(CHECKS) == set(row_ids()) and len(CHECKS) == 109
    listed = [line.split(" | ")[0].removeprefix("| ") for line in PAGE.splitlines()]
    assert [id_ for id_ in listed if id_ in CHECKS] == row_ids()
    assert PAGE.count("| ✓ ") == 109 and "✗" not in PAGE


@pytest.mark.parametrize("id_", row_ids())
def test_what_a_check_names_exists(id_: str) -> None:
    check = CHECKS[id_]
    module, _, name = check.code.partition(":")
    assert hasattr(import_module(module), name)
    file, _, test = check.test.partition("::")
    assert test in names_in(file)
    assert set(check.row.lessons) <= set(LESSONS) and set(check.claims) <= set(claims())
    assert all(check.origins) and len(check.origins) >= len(check.stored)


@pytest.mark.parametrize("id_", row_ids())
def test_the_page_says_what_the_check_says(id_: str) -> None:
    (line,) = [line for line in PAGE.splitlines() if line.startswith(f"| {id_} | ")]
    known = cells(CHECKS[id_], Result("", passed=True))[:-1]
    assert line.startswith(f"| {' | '.join(cell.replace('<', '&lt;') for cell in known)} | ")


@pytest.mark.parametrize("id_", row_ids())
def test_the_command_of_a_row_is_one(id_: str) -> None:
    program, *words = shlex.split(CHECKS[id_].command)
    if program != "glassformer":
        assert (ROOT / words[-1]).is_file()
        return
    if words[0] == "train":  # its settings are those of the recipe
        from glassformer.training.recipes import recipe

        assert recipe(words[1])
        return
    command, bound, _ = app.parse_args(words, print_error=False, exit_on_error=False)
    assert command.__name__ == words[0] and bound is not None


@pytest.mark.parametrize("id_", row_ids())
def test_both_commands_find_a_row(id_: str, capsys: pytest.CaptureFixture[str]) -> None:
    course_commands._shown_by(id_)
    lines = "".join(capsys.readouterr()).splitlines()
    assert lines[0].startswith(f"{id_}  ") and len(lines) > 1
    rest, answered = text_checks._without_claims((id_,))
    assert answered == (rest == ())
    assert CHECKS[id_].claims if rest else f"{id_}: " in capsys.readouterr().out


@pytest.mark.usefixtures("as_users_run_it")  # A15 counts on our own messages about shapes
@pytest.mark.parametrize("id_", [id_ for id_ in row_ids() if id_ not in COSTLY])
def test_what_must_come_out_comes_out(id_: str) -> None:
    assert run(CHECKS[id_]).passed


@pytest.mark.slow
@pytest.mark.parametrize("id_", sorted(COSTLY))
def test_what_must_come_out_comes_out_of_costly_rows(id_: str) -> None:
    assert run(CHECKS[id_]).passed


def test_stored_rows_are_those_that_are_slow() -> None:
    known = json.loads(STORED.read_text(encoding="utf-8"))
    assert set(known) == {check.id for check in CHECKS.values() if check.slow}
    assert all(recall(CHECKS[id_]).passed for id_ in known)


def test_a_row_that_fails_is_seen_on_the_page() -> None:
    made = page({"A01": Result("4", passed=False), "F01": recall(CHECKS["F01"])})
    assert "**1 of 2 came out as they must.**" in made
    assert "| ✗ 4 |" in made and "F01 --slow" in made


def test_a_difference_is_told_by_its_order_of_magnitude() -> None:
    assert [small(x) for x in (0.0, 1.2e-7, 1e-6, 0.03)] == [
        "0", "below 1e-06", "below 1e-06", "below 1e-01",
    ]  # fmt: skip
