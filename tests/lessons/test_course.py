"""The course: an order in which nothing comes before what it needs, complete and real."""

import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from glassformer.claims import ROWS, claims
from glassformer.cli import run
from glassformer.errors import UnknownNameError
from glassformer.language import Bilingual, words
from glassformer.lessons import LESSONS, course, make_lesson
from glassformer.lessons.course import row, row_ids
from glassformer.lessons.lesson import LessonStep, Speaker

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


# --- switches ---


@pytest.fixture
def switched(monkeypatch: pytest.MonkeyPatch) -> None:
    """The lesson masked with a switch, whatever other lessons have."""
    from glassformer.lessons import masked

    whole = masked.steps

    def steps(say: Speaker, *, shown: str = "all") -> Iterator[LessonStep]:
        yield from list(whole(say))[: None if shown == "all" else int(shown)]

    class Labelled(dict[str, Bilingual]):
        file = words("glassformer.lessons.masked").file

        def __contains__(self, key: object) -> bool:
            return str(key).startswith("choice") or super().__contains__(key)

        def __missing__(self, key: str) -> Bilingual:
            return Bilingual(key, f"选择 {key}")

    labelled = Labelled(words("glassformer.lessons.masked"))
    monkeypatch.setattr(course, "words", lambda m: labelled if m.endswith(".masked") else words(m))
    monkeypatch.setattr(masked, "steps", steps)
    monkeypatch.setattr(masked, "CHOICES", {"shown": ("all", "2", "3")}, raising=False)


@pytest.mark.usefixtures("switched")
def test_a_switch_is_turned(capsys: pytest.CaptureFixture[str]) -> None:
    assert len(make_lesson("masked").steps) > 3
    made = make_lesson("masked", shown="2")
    assert len(made.steps) == 2
    (choice,) = made.choices
    assert (choice.name, choice.chosen) == ("shown", "2")
    assert [name for name, _ in choice.values] == ["all", "2", "3"]
    assert run(["lesson", "masked", "--set", "shown=3", "--to", "md"]) == 0
    out = capsys.readouterr().out
    assert "## 3. " in out and "## 4. " not in out
    assert "`--set shown=all`" in out and "`--set shown=3`" not in out


@pytest.mark.usefixtures("switched")
@pytest.mark.parametrize(
    ("pair", "message"),
    [
        ("shown=4", "the lesson masked has no shown '4'; choose shown=all|2|3"),
        ("off=heads", "the lesson masked has no switch 'off'; its switches: shown=all|2|3"),
        ("say=x", "has no switch 'say'"),
        ("shown", "expected NAME=VALUE after --set, got 'shown'"),
        ("=2", "expected NAME=VALUE"),
    ],
)
def test_a_wrong_switch_is_named_with_the_choices(
    pair: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["lesson", "masked", "--set", pair]) == 2
    err = capsys.readouterr().err
    assert message in err and err.count("\n") == 1


@pytest.mark.parametrize("name", LESSONS)
def test_every_switch_has_a_keyword_and_labels(name: str) -> None:
    entry = LESSONS[name]
    steps = importlib.import_module(f"glassformer.lessons.{entry.module}").steps
    said = words(f"glassformer.lessons.{entry.module}")
    for choice, values in entry.choices.items():
        keyword = inspect.signature(steps).parameters[choice]
        assert keyword.default == values[0] and len(values) > 1
        assert {f"choice {choice}", *(f"choice {choice} {one}" for one in values)} <= set(said)


# --- rows ---


def test_every_row_is_shown_by_something() -> None:
    for id_ in row_ids():
        found = row(id_)
        assert found.lessons or found.command or id_ in ROWS, id_
    assert set(ROWS) <= set(row_ids())
    assert {one for ids in ROWS.values() for one in ids} <= set(claims())


def test_a_row_opens_its_only_lesson(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["lesson", "--row", "h06"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("Masked attention with two heads\n")
    assert err.splitlines()[0] == "H06  masked attention with two heads"


def test_a_row_lists_its_lessons_and_claims(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["lesson", "--row", "A05", "--lang", "zh"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert "glassformer lesson illustrated  (三个输入的自注意力)" in out
    assert "glassformer lesson roles" in out and "glassformer claims A05  (C27, C28)" in out


def test_a_row_without_a_claim_names_what_shows_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["claims", "D01", "h08"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("D01: no claim is about this") and "lesson by-hand" in lines[0]
    assert lines[1].endswith("glassformer audit")
    assert run(["claims", "H08", "C11", "--json"]) == 0
    out, err = capsys.readouterr()
    assert '"C11"' in out and err.startswith("H08: no claim")
    assert run(["claims", "Z01"]) == 2
