"""docs/architecture.md says which functions a walk of data enters: run each walk and look."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from benchmarks.house import walk
from tests.test_architecture import ALLOWED, PACKAGE

GUIDE = (Path(__file__).parent.parent / "docs/architecture.md").read_text(encoding="utf-8")
WALK = re.compile(r"<!-- walk: (.+) -->")
STOP = re.compile(r"\[`([\w/]+\.py): ([\w.]+)`\]\(\.\./src/glassformer/([\w/.]+)\)")


def sections() -> dict[str, list[tuple[str, str]]]:
    """The walks of the guide: name → (file, function) in order."""
    parts = WALK.split(GUIDE)[1:]
    found = {}
    for name, text in zip(parts[::2], parts[1::2], strict=True):
        stops = STOP.findall(text.partition("\n###")[0])
        assert all(said == linked for said, _, linked in stops)
        found[name] = [(file, function) for file, function, _ in stops]
    return found


def out_of_order(stops: list[tuple[str, str]], entered: list[tuple[str, str]]) -> list[str]:
    """Stops that are not entered, or are entered for the first time before the stop above them."""
    wrong, last = [], -1
    for stop in stops:
        later = [at for at, function in enumerate(entered) if function == stop and at > last]
        if later:
            last = later[0]
        elif stop in entered:
            wrong.append(f"{': '.join(stop)} is entered before the stop above it")
        else:
            wrong.append(f"{': '.join(stop)} is not entered")
    return wrong


def test_there_are_five_walks_and_every_room_is_in_the_picture() -> None:
    assert len(sections()) == 5
    assert all(len(stops) >= 9 for stops in sections().values())
    picture = GUIDE.split("```")[1]
    rooms = {room for room in ALLOWED if (PACKAGE / room).is_dir()}
    assert {room for room in rooms if not re.search(rf"\b{room}\b", picture)} == set()
    assert GUIDE.splitlines()[2].startswith(f"{len(rooms)} rooms")


def test_every_stop_is_a_function_of_its_file() -> None:
    for file, function in {stop for stops in sections().values() for stop in stops}:
        tree = ast.parse((PACKAGE / file).read_text(encoding="utf-8"))
        assert function in _functions(tree), f"{file} has no {function}"


def _functions(tree: ast.AST, inside: str = "") -> set[str]:
    found = set()
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            name = f"{inside}{node.name}"
            found |= {name} | _functions(node, f"{name}.")
        else:
            found |= _functions(node, inside)
    return found


# Long walks rarely change without one of their stops being renamed, which the test above finds.
LONG = ("train imdb-small", "audit by-hand", "page:")


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow if name.startswith(LONG) else ())
        for name in sections()
    ],
)
def test_a_walk_of_the_guide_is_the_real_one(name: str) -> None:
    # Each part of a walk counts the functions that it enters itself, so a stop may come again.
    entered = [stop for part in name.split(" + ") for stop in walk(part).entered]
    assert out_of_order(sections()[name], entered) == []


def test_the_check_finds_what_is_missing_or_misplaced() -> None:
    entered = [("a.py", "f"), ("b.py", "g")]
    assert out_of_order(entered, entered) == []
    assert out_of_order(entered[::-1], entered) == ["a.py: f is entered before the stop above it"]
    assert out_of_order([("a.py", "h")], entered) == ["a.py: h is not entered"]
