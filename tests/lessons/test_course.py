"""The course: an order in which nothing comes before what it needs, complete and real."""

import re
from pathlib import Path

import pytest

from glassformer.errors import UnknownNameError
from glassformer.language import words
from glassformer.lessons import LESSONS
from glassformer.lessons.course import row, row_ids

PACKAGE = Path(__file__).parents[2] / "src" / "glassformer" / "lessons"
HAN = re.compile("[\u4e00-\u9fff]")
SIZES = {"A": 25, "B": 16, "R": 5, "D": 11, "E": 14, "F": 7, "G": 12, "H": 8, "I": 11}


def test_what_a_lesson_needs_comes_before_it() -> None:
    """So the order has no cycle either."""
    seen: set[str] = set()
    for name, entry in LESSONS.items():
        assert set(entry.needs) <= seen, name
        seen.add(name)


def test_every_lesson_is_in_the_course_once() -> None:
    """Every module with a function `steps` and prose beside it is a lesson."""
    found = {
        file.stem
        for file in PACKAGE.glob("*.py")
        if re.search(r"^def steps\(", file.read_text(encoding="utf-8"), re.MULTILINE)
    }
    modules = [entry.module for entry in LESSONS.values()]
    assert sorted(modules) == sorted(found)
    listed = words("glassformer.lessons.course").data["lesson"]
    assert len(listed) == len(LESSONS) == len(set(modules))


@pytest.mark.parametrize("name", LESSONS)
def test_an_entry_is_complete_in_both_languages(name: str) -> None:
    entry = LESSONS[name]
    assert 3 <= entry.minutes <= 60
    assert entry.rows and len(set(entry.rows)) == len(entry.rows)
    assert entry.able.en[0].islower() and not entry.able.en.endswith(".")  # ends a sentence
    for said in (entry.able, entry.title, entry.summary):
        assert said.en and not HAN.search(said.en)
        assert HAN.search(said.zh)
    text = entry.text
    assert all((text.title.en, text.title.zh, text.author.en, text.author.zh, text.where.en))


def test_every_row_is_real() -> None:
    wanted = [f"{part}{number:02}" for part, size in SIZES.items() for number in range(1, size + 1)]
    assert row_ids() == wanted and len(wanted) == 109
    for entry in LESSONS.values():
        assert set(entry.rows) <= set(wanted)


def test_a_row_is_found_in_any_case() -> None:
    found = row("h06")
    assert (found.id, found.lessons) == ("H06", ("masked",))
    assert row("H08").command == "glassformer audit"
    with pytest.raises(UnknownNameError, match="unknown row 'H99'"):
        row("H99")
