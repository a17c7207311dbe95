"""Worksheets: blanks that can be computed from what is shown, given away nowhere, answered."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks.chromium import chromium
from glassformer.cli import run
from glassformer.documents import render, render_text
from glassformer.documents.parts import (
    ASKED,
    Document,
    Figure,
    Formula,
    HeatMap,
    Question,
    Remark,
    Section,
)
from glassformer.documents.worksheet import worksheet
from glassformer.language import Language
from glassformer.lessons.figures.sheet import cell_number as as_drawn
from glassformer.tracing import Cell
from glassformer.tracing.arithmetic.expressions import Entry
from glassformer.tracing.cells import leaves
from tests.lessons.shared_lessons import lesson

NAMES: tuple[tuple[str, Language], ...] = (
    ("illustrated", "zh"), ("masked", "en"), ("multi-head", "en"), ("by-hand", "zh"),
)  # fmt: skip


def sheet_of(name: str, language: Language) -> tuple[Document, Section]:
    """A worksheet without its answers, and the answers."""
    made = worksheet(lesson(name, language).document())
    *_, answers = made.parts
    assert isinstance(answers, Section) and answers.new_page
    return Document(made.title, made.parts[:-1], language), answers


def answers_in(answers: Section) -> list[Formula]:
    found = [part for one in answers.parts if isinstance(one, Section) for part in one.parts]
    assert all(isinstance(part, Formula) for part in found)
    return [part for part in found if isinstance(part, Formula)]


def numbers_shown(sheet: Document) -> tuple[set[Cell], set[Cell], set[Cell]]:
    """The cells whose numbers stand in a matrix, are blank, or are a question mark."""
    shown, blank, asked = set[Cell](), set[Cell](), set[Cell]()
    for part in sheet.walk():
        if isinstance(part, HeatMap):
            for row, line in enumerate(part.cells()):
                for column, cell in enumerate(line):
                    place = Cell(part.step, part.place(row, column))
                    kind = blank if cell.is_blank else asked if cell.text == ASKED else shown
                    kind.add(place)
    return shown, blank, asked


def numbers_written(sheet: Document) -> set[Cell]:
    """The cells whose digits stand in a formula that computes with them."""
    found: set[Cell] = set()
    for part in sheet.walk():
        if isinstance(part, Formula) and part.cell.expression is not None:
            said = render_text(Document("", (part,), sheet.language))
            cells = leaves(part.cell.expression)
            found |= {
                cell for cell in cells if f"{float(cell.value):.4g}".replace("-", "−") in said
            }
    return found


def numbers_drawn(figure: Figure) -> set[str]:
    return set(re.findall(r">([^<]+)</text>", figure.drawing.svg()))


def test_a_drawing_is_kept_unless_it_writes_a_blank() -> None:
    """The masked scores of a row are asked for, and drawn; which parts a model has tells none."""
    assert not [part for part in sheet_of("masked", "en")[0].walk() if isinstance(part, Figure)]
    kept = [part.name for part in sheet_of("by-hand", "zh")[0].walk() if isinstance(part, Figure)]
    assert "architecture-encoder" in kept and "strip" not in kept
    assert {part.name for part in sheet_of("mask", "en")[0].walk() if isinstance(part, Figure)}
    kept = [part.name for part in sheet_of("attention", "en")[0].walk() if isinstance(part, Figure)]
    assert "evenness" in kept  # 0.2 on its axis is not the weight 0.236


@pytest.mark.parametrize(("name", "language"), NAMES)
def test_a_blank_can_be_computed_and_is_given_away_nowhere(name: str, language: Language) -> None:
    sheet, answers = sheet_of(name, language)
    shown, blank, asked = numbers_shown(sheet)
    answered = {part.cell for part in answers_in(answers)}
    assert len(blank) >= 6 and blank == answered
    assert not blank & shown
    for part in sheet.walk():
        assert not isinstance(part, Remark | Question)
        if isinstance(part, Figure):
            assert not numbers_drawn(part) & {as_drawn(float(cell.value)) for cell in blank}
        if isinstance(part, Formula) and part.cell.expression is not None:
            assert not blank & {part.cell, *leaves(part.cell.expression)}
    for cell in blank:
        assert cell.expression is not None
        assert set(leaves(cell.expression)) <= shown | blank | asked | numbers_written(sheet)


@pytest.mark.parametrize("name", ["roses", "heads", "films"])
def test_a_weight_is_asked_for_beside_the_scores_that_its_row_writes_down(name: str) -> None:
    sheet, answers = sheet_of(name, "en")
    _, blank, _ = numbers_shown(sheet)
    assert len(blank) >= 2 and blank == {part.cell for part in answers_in(answers)}


@pytest.mark.parametrize(("name", "language"), NAMES)
def test_there_are_as_many_blanks_as_the_task_says(name: str, language: Language) -> None:
    """A row that is asked for once and shown again is no second task."""
    sheet, answers = sheet_of(name, language)
    maps = [part for part in sheet.walk() if isinstance(part, HeatMap)]
    blanks = [cell for part in maps for line in part.cells() for cell in line if cell.is_blank]
    assert len(blanks) == len(answers_in(answers))
    assert f" {len(blanks)} " in render_text(sheet, "md").split("\n\n")[2]


def test_the_answers_to_a_row_work_out_its_sum_once() -> None:
    """The weights of a row share their maximum and their sum; each has a quotient of its own."""
    _, answers = sheet_of("by-hand", "zh")
    (weights,) = (
        part for part in answers.parts if isinstance(part, Section) and "11" in str(part.title)
    )
    formulas = [part for part in weights.parts if isinstance(part, Formula)]
    assert [part.is_defined_above for part in formulas] == [False] + [True] * 5
    for to in ("md", "terminal", "html", "tex"):
        said = render_text(Document("", (weights,), "zh"), to)
        assert said.count("其中") == 1
        assert all(f"{float(part.cell.value):.3g}"[:4] in said for part in formulas[:2])


def test_question_marks_are_explained_where_there_are_any() -> None:
    sheets: tuple[tuple[str, Language], ...] = (
        ("masked", "en"), ("heads", "en"), ("order", "zh"), ("by-hand", "zh"),
    )  # fmt: skip
    for name, language in sheets:
        sheet, _ = sheet_of(name, language)
        text = render_text(sheet, "md")
        explained = "question mark" in text or "问号" in text
        assert explained == bool(numbers_shown(sheet)[2]) == (name != "heads")


@pytest.mark.parametrize("name", ["mask", "attention", "order"])
def test_numbers_that_are_nearly_zero_are_asked_for_last(name: str) -> None:
    sheet, _ = sheet_of(name, "en")
    _, blank, _ = numbers_shown(sheet)
    assert blank and all(abs(float(cell.value)) > 0.01 for cell in blank)


def test_of_equal_numbers_in_a_matrix_none_is_left() -> None:
    """Products of positions are equal along each diagonal: the corners stand there twice."""
    _, blank, _ = numbers_shown(sheet_of("positions", "en")[0])
    assert {cell.index for cell in blank} == {(0, 5), (5, 0)}


def test_what_repeats_a_blank_is_a_question_mark() -> None:
    """The heads side by side, which are copies, and the other sentence with the same words."""
    shown, blank, asked = numbers_shown(sheet_of("multi-head", "zh")[0])
    copies = [cell.expression for cell in shown if isinstance(cell.expression, Entry)]
    assert asked and not blank & {cell for copy in copies for cell in leaves(copy)}
    shown, blank, asked = numbers_shown(sheet_of("order", "zh")[0])
    told = {round(float(cell.value), 9) for cell in shown}
    assert asked and not told & {round(float(cell.value), 9) for cell in blank}


def test_the_joined_heads_of_masked_tell_no_entry_of_the_context() -> None:
    shown, blank, _ = numbers_shown(sheet_of("masked", "en")[0])
    context = {cell.index[2:] for cell in blank if cell.step.name == "attention.context"}
    joined = {cell.index[1:] for cell in shown if cell.step.name == "attention.joined"}
    second = {cell.index[2:] for cell in shown if cell.step.name == "attention.context"}
    assert context and not context & second
    assert not {(row, entry + head) for row, entry in context for head in (0, 3)} & joined


def test_a_drawing_with_answers_is_on_the_answer_sheet() -> None:
    """The text goes on about it."""
    sheet, answers = sheet_of("training-step", "zh")
    (drawing,) = (part for part in answers.parts if isinstance(part, Figure))
    assert drawing.name == "graph"
    assert f"图“{drawing.caption}”会透露答案" in render_text(sheet, "md")


def test_a_question_mark_tells_nothing_on_hovering(tmp_path: Path) -> None:
    render(lesson("masked").document(), "worksheet", tmp_path / "a.html")
    page = (tmp_path / "a.html").read_text(encoding="utf-8")
    assert ">?</td>" in page and not re.search(r'title="[^"]*">\?</td>', page)


def test_a_sheet_without_blanks_says_so() -> None:
    made = worksheet(lesson("recurrence").document())
    assert "There is nothing to fill in here" in render_text(made, "md")
    assert not any(isinstance(part, Section) and part.new_page for part in made.parts)


def test_the_rows_of_questions_are_blank() -> None:
    document = lesson("illustrated", "zh").document()
    asked = {
        cell for part in document.walk() if isinstance(part, Question) for cell in part.cells
    }  # fmt: skip
    _, blank, _ = numbers_shown(sheet_of("illustrated", "zh")[0])
    assert asked and len(asked & blank) >= len(asked) / 2  # others are told by later formulas


def test_the_sheet_itself_tells_no_answer_and_asks_for_what_is_blank() -> None:
    made = lesson("training-step").document()
    assert "Answers. Question 1: −0.315, −0.084." in render_text(made, "md")
    sheet = render_text(made, "worksheet")
    assert "Answers." not in sheet and "−0.315" not in sheet.partition("Answer sheet")[0]
    for name in ("illustrated", "by-hand"):
        document = lesson(name).document()
        _, blank, _ = numbers_shown(sheet_of(name, "en")[0])
        asked = [part for part in document.walk() if isinstance(part, Question)]
        text = render_text(document, "worksheet")
        assert all((part.text in text) == bool(blank & set(part.cells)) for part in asked)


def test_the_answers_are_right() -> None:
    """Recomputed in float64 from the numbers on the sheet."""
    _, answers = sheet_of("illustrated", "zh")
    for part in answers_in(answers):
        assert part.cell.recomputed == pytest.approx(float(part.cell.value), rel=1e-6)


def test_it_is_the_same_every_time() -> None:
    document = lesson("masked").document()
    assert render_text(document, "worksheet") == render_text(document, "worksheet")


def test_blanks_in_each_format(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    count = len(answers_in(sheet_of("masked", "en")[1]))
    blanks = {"html": r'<td class="blank"', "tex": r"\\hspace\{2\.2em\}", "md": r"\| ____ "}
    for ending, pattern in blanks.items():
        file = tmp_path / f"sheet.{ending}"
        assert run(["lesson", "masked", "--to", "worksheet", "-o", str(file)]) == 0
        text = file.read_text(encoding="utf-8")
        assert len(re.findall(pattern, text)) >= count
        assert "Answer sheet" in text
    capsys.readouterr()
    assert run(["lesson", "masked", "--to", "worksheet", "-o", str(tmp_path / "a.xlsx")]) == 1
    err = capsys.readouterr().err
    assert "ends in .html, .tex, .md, .txt" in err and err.count("\n") == 1


@pytest.mark.slow
def test_steps_follow_one_another_on_a_printed_page(tmp_path: Path) -> None:
    """A step that would not fit whole is continued on the next page; no page is empty."""
    from playwright.sync_api import sync_playwright

    render(lesson("by-hand").document(), "worksheet", tmp_path / "a.html")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        page = browser.new_page()
        page.goto((tmp_path / "a.html").as_uri())
        margin = "12mm"
        sides = {"top": margin, "bottom": margin, "left": margin, "right": margin}
        data = page.pdf(format="A4", margin=sides)  # type: ignore[arg-type]  # its own dict type
        browser.close()
    assert len(re.findall(rb"/Type /Page\b", data)) <= 34


@pytest.mark.slow
@pytest.mark.parametrize("name", ["switches", "films", "scaling"])
def test_a_printed_sheet_is_cut_off_nowhere(name: str, tmp_path: Path) -> None:
    """No table is wider than the paper, and what stands side by side stays together."""
    from playwright.sync_api import sync_playwright

    render(lesson(name).document(), "worksheet", tmp_path / "a.html")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 718, "height": 1000})  # A4 less 1 cm each side
        page.emulate_media(media="print")
        page.goto((tmp_path / "a.html").as_uri())
        cut = page.eval_on_selector_all(
            ".wide", "all => all.filter(one => one.scrollWidth > one.clientWidth + 1).length"
        )
        floating = page.eval_on_selector_all(
            ".row", "all => all.filter(one => getComputedStyle(one).display != 'block').length"
        )
        browser.close()
    assert (cut, floating) == (0, 0)
