"""Slides: every step, all of its prose, nothing outside the file; and how a browser shows it."""

from __future__ import annotations

import re
import shutil
from html import unescape
from pathlib import Path

import pytest

from benchmarks.chromium import chromium
from glassformer.audit.audit_report import audit_document
from glassformer.cli import run
from glassformer.documents import render, render_text
from glassformer.documents.parts import (
    Document,
    Figure,
    HeatMap,
    Paragraph,
    Part,
    Section,
    Table,
    plain,
)
from glassformer.language import Language
from glassformer.lessons import LESSONS
from tests.audit.audits import audit_of
from tests.lessons.shared_lessons import lesson

SLIDE = re.compile(r'<section class="slide.*?</section>', re.DOTALL)


def slides_of(document: Document) -> list[str]:
    return SLIDE.findall(render_text(document, "slides"))


def words_of(markup: str) -> str:
    return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]+>", "", markup)))


@pytest.mark.parametrize(("name", "language"), [("masked", "en"), ("by-hand", "zh")])
def test_every_step_and_every_sentence_is_in_the_deck(name: str, language: Language) -> None:
    """What a slide has no room for is in its notes."""
    document = lesson(name, language).document()
    deck = slides_of(document)
    notes = words_of("".join(re.findall(r"<aside>(.*?)</aside>", "".join(deck), re.DOTALL)))
    for section in document.parts:
        if not isinstance(section, Section):
            continue
        assert any(f">{section.number}</span>" in slide for slide in deck)
        for part in section.parts:
            if isinstance(part, Paragraph):
                assert re.sub(r"\s+", " ", plain(part.text)) in notes
    numbers = "".join(deck)
    for part in document.walk():
        if isinstance(part, Figure):
            assert part.drawing.svg(alone=False) in numbers
        elif isinstance(part, HeatMap):
            assert part.caption in unescape(numbers)


def test_the_file_needs_nothing_else() -> None:
    page = render_text(lesson("masked").document(), "slides")
    assert not re.search(r"\b(?:src|href)=|url\(|@import|https?://(?!www\.w3\.org)", page)
    assert page.count("<script>") == 1
    assert "@page { size: 1920px 1080px" in page
    assert "prefers-color-scheme: dark" in page


def test_a_long_table_is_continued_with_its_heads() -> None:
    rows = tuple((f"word {n}", str(n)) for n in range(60))
    table = Table("", ("word", "number"), rows)
    deck = slides_of(Document("t", (Section("s", (table,), 1),)))
    assert len(deck) > 3
    shown = "".join(deck)
    assert all(f'<td class="short">word {n}</td>' in shown for n in range(60))
    assert shown.count("number</th>") == len(deck) - 1  # all but the title


def test_a_short_paragraph_is_not_left_alone() -> None:
    """It joins the slide before it, which is shrunk, unless it introduces what follows."""
    tall = Table("", ("n",), tuple((str(n),) for n in range(11)))
    said = [Paragraph(f"Sentence {n}.") for n in range(3)]

    def sentences(*parts: Part) -> list[list[str]]:
        """Those that each slide shows, and those in its notes."""
        deck = slides_of(Document("t", (Section("s", parts, 1),)))[1:]
        return [re.findall(r"\d(?=\.)|<aside>", slide) for slide in deck]

    assert sentences(said[0], tall, said[1]) == [["0", "1", "<aside>", "0", "1"]]
    assert sentences(said[0], tall, said[1], tall) == [
        ["0", "<aside>", "0"], ["1", "<aside>", "1"],
    ]  # fmt: skip


def test_a_sentence_in_brackets_keeps_the_closing_one() -> None:
    said = ["甲。（乙是括号里的一句话。）", "One. (Two in brackets.)", "She asks: “Why?”"]
    rest = " 后面还有" * 60 + "。"
    table = Table("", ("n",), (("1",),))
    for text in said:
        shown = words_of(slides_of(Document("t", (
            Section("s", (Paragraph(text + rest), table), 1),
        )))[1].partition("<aside>")[0])  # fmt: skip
        assert text in shown and "后面" not in shown


def test_a_tall_table_stands_beside_its_sentences() -> None:
    """What follows it continues under the sentences, on the same slide."""
    tall = Table("", ("n", "square"), tuple((str(n), str(n * n)) for n in range(12)))
    said = [Paragraph(f"Sentence {n}. " * 3) for n in range(3)]
    deck = slides_of(Document("t", (Section("s", (said[0], tall, said[1]), 1),)))[1:]
    (shown,) = (slide.partition("<aside>")[0] for slide in deck)
    left, _, right = shown.partition("<figure>")
    assert 'class="beside"' in left and "Sentence 0" in left and "Sentence 1" in left
    assert "Sentence" not in right and ">121<" in right
    wide = Table(
        "", tuple(f"column {n}" for n in range(8)), tuple(("12345",) * 8 for _ in range(12))
    )
    assert len(slides_of(Document("t", (Section("s", (said[0], wide), 1),)))[1:]) == 2


def slides_of_step(name: str, number: int) -> list[str]:
    """What the slides of a lesson's step show."""
    deck = slides_of(lesson(name).document())
    own = [slide for slide in deck if f'<span class="number">{number}</span>' in slide]
    return [slide.partition("<aside>")[0] for slide in own]


def test_matrices_on_the_next_slide_take_their_formula_and_a_remark_along() -> None:
    told, shown = slides_of_step("by-hand", 5)
    assert "Every vector asks" in told and 'class="formula"' in told and "<table" not in told
    assert shown.count('class="formula"') == 1 and shown.count("<figure>") == 2
    assert "In the text:" in shown


def test_a_matrix_stands_beside_its_formula_and_sentences_above_both() -> None:
    (shown,) = slides_of_step("masked", 8)[:1]
    said, _, row = shown.partition('<div class="beside">')
    assert "The softmax turns" in said and 'class="formula"' not in said
    assert 'class="formula"' in row and "A (weights)" in row
    asked, drawn = slides_of_step("masked", 8)[1:]
    assert "Question 3" in asked and "<svg" not in asked and "<svg" in drawn


def test_remarks_stand_below_a_formula_and_its_matrix() -> None:
    shown = slides_of_step("by-hand", 8)[0]
    row = shown.index('<div class="beside">')
    assert row < shown.index("S (scores)") < shown.index("In the text:")


def test_a_question_on_a_slide_of_its_own_has_what_it_is_answered_from() -> None:
    asked = next(slide for slide in slides_of_step("masked", 5) if "Question 1" in slide)
    assert "x, 3×3" in asked and "S (scores), 3" not in asked
    asked = slides_of_step("multi-head", 7)[-1]
    assert "Q (queries)" in asked and "K (keys)" in asked and "of S (scores), head 2" in asked
    told, asked = slides_of_step("classifier", 5)
    assert "Question" in asked and "x, 3×4" in asked and "x, 3×4" not in told


def test_a_question_and_its_matrices_leave_remarks_that_would_not_fit_with_them() -> None:
    remarks, asked = slides_of_step("masked", 7)[1:]
    assert "Head 2: wrong" in remarks and "Question" not in remarks
    assert "S_scaled, 3×3, head 1" in asked and "Question 2" in asked


def test_a_formula_is_not_repeated_above_the_matrix_of_another_head() -> None:
    first, second = slides_of_step("heads", 2)[-2:]
    assert 'class="formula"' in first and "head 1" in first
    assert "A (weights), 6×6, head 2" in second and 'class="formula"' not in second


@pytest.mark.parametrize("said", ["“Is it so?” (classifier) learns", "“是吗？”（classifier）一课"])
def test_a_question_as_a_title_ends_no_sentence(said: str) -> None:
    table = Table("", ("n",), tuple((str(n),) for n in range(11)))
    parts = (Paragraph(f"{said}{' more' * 60}."), table)
    shown = slides_of(Document("t", (Section("s", parts, 1),)))[1]
    assert said in words_of(shown.partition("<aside>")[0])


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("heads", "However a single head chooses its weights, 50.0% is lost on average."),
        ("decoding", "Programs add logarithms for two reasons:"),
        ("mask", "The mask hides the answers:"),
        ("training", "first read the blue side downwards."),
        ("training-step", "The loss is half the sum of two squares: hence the ½."),
        ("images", "With it the first number of patch 3 is"),
        ("recurrence", "(its state[k] is the state before)."),
    ],
)
def test_the_sentences_that_a_slide_shows_make_sense_without_the_rest(name: str, said: str) -> None:
    deck = slides_of(lesson(name).document())
    assert any(said in words_of(slide.partition("<aside>")[0]) for slide in deck)


def test_a_tall_drawing_stands_beside_its_sentence() -> None:
    shown = slides_of_step("classifier", 4)[0]
    assert "Attention mixes the words" in shown and "<svg" in shown
    assert '<p class="quiet">A Transformer block</p>' in shown


def test_a_paragraph_shows_more_sentences_where_there_is_room() -> None:
    said = Paragraph(" ".join(f"Sentence {n} has some forty characters in it." for n in range(12)))

    def shown(rows: int) -> int:
        table = Table("", tuple(map(str, range(16))), tuple(("12345",) * 16 for _ in range(rows)))
        slide = slides_of(Document("t", (Section("s", (said, table), 1),)))[1]
        return slide.partition("<aside>")[0].count("Sentence")

    assert shown(3) == 8 and shown(9) == 4


def test_the_caption_of_a_table_beside_sentences_may_take_several_lines() -> None:
    tall = Table("a caption of many words " * 2, ("number n", "square of n"), (("1", "1"),) * 12)
    deck = slides_of(Document("t", (Section("s", (Paragraph("A sentence. " * 3), tall), 1),)))
    assert 'class="beside"' in deck[1] and len(deck) == 2


def test_a_short_paragraph_stands_below_a_drawing_that_stays_large() -> None:
    (shown,) = slides_of_step("images", 6)
    assert shown.index("Which part of the picture") < shown.index("<svg")
    assert shown.index("</svg>") < shown.index("Nothing in the encoder")


def test_a_table_of_numbers_stands_beside_a_matrix() -> None:
    numbers = Table("", ("word", "share"), (("cat", "0.5"), ("dog", "0.25")))
    matrix = next(part for part in lesson("masked").parts() if isinstance(part, HeatMap))
    deck = slides_of(Document("t", (Section("s", (numbers, matrix, numbers), 1),)))[1:]
    assert len(deck) == 1


def test_a_drawing_stands_below_its_sentence_where_it_stays_large() -> None:
    """Scaled by 1.5 at least, and otherwise on a slide of its own, under its caption."""
    (wide, tall) = (
        next(part for part in lesson(name).figures() if part.name == which)
        for name, which in (("recurrence", "growth"), ("multi-head", "heads"))
    )
    said = Paragraph("A sentence.")
    told, alone, drawn = slides_of(Document("t", tuple(
        Section(f"s{number}", (said, figure), number)
        for number, figure in enumerate((wide, tall), 1)
    )))[1:]  # fmt: skip
    assert 'class="slide drawing told"' in told and "A sentence." in told and ">s1" not in alone
    assert "A sentence." in alone and "<svg" not in alone
    assert f"</span>{tall.caption}" in unescape(drawn)


def test_an_audit_is_a_deck_too() -> None:
    deck = slides_of(audit_document(audit_of("masked"), "en"))
    assert len(deck) > 1


def test_without_a_browser_a_pdf_ends_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(shutil, "which", lambda _name: None)
    assert run(["lesson", "roles", "-o", str(tmp_path / "a.pdf")]) == 1
    err = capsys.readouterr().err
    assert "neither is installed" in err and err.count("\n") == 1
    assert not (tmp_path / "a.pdf").exists()


# --- in a browser ---

OVERFLOW = """() => [...document.querySelectorAll('.slide')].map((slide, n) => {
  const [body, room] = ['.body', '.room'].map((name) =>
    slide.querySelector(name).getBoundingClientRect());
  const zoom = Number(slide.querySelector('.body').style.zoom || 1);
  const right = Math.max(...[...slide.querySelectorAll('*')].map((e) =>
    e.getBoundingClientRect().right));
  const sizes = slide.classList.contains('drawing') ? [] :
    [...slide.querySelectorAll('.body p, td, th, pre, figcaption')].map((e) =>
      parseFloat(getComputedStyle(e).fontSize));
  return { number: n + 1, down: body.height - room.height, right, least: Math.min(...sizes, 99),
           zoom };
})"""


@pytest.mark.slow
@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("name", LESSONS)
def test_slides_fit_and_can_be_read_from_the_back(
    name: str, language: Language, tmp_path: Path
) -> None:
    """At 1920 × 1080 nothing leaves its slide, and type has 24 pixels or more."""
    from playwright.sync_api import sync_playwright

    render(lesson(name, language).document(), "slides", tmp_path / "a.html")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1920, "height": 1080})
        wrong: list[str] = []
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.goto((tmp_path / "a.html").as_uri())
        for slide in page.evaluate(OVERFLOW):
            assert slide["down"] <= 2 and slide["right"] <= 1921, slide
            assert slide["least"] * slide["zoom"] >= 24, slide
        page.keyboard.press("ArrowRight")
        page.wait_for_function("location.hash === '#2'")
        assert page.locator("#notes").is_hidden()
        page.keyboard.press("n")
        assert page.locator("#notes").is_visible() and page.locator("#notes").inner_text()
        page.mouse.click(100, 500)
        page.wait_for_function("location.hash === '#1'")
        for answer in page.locator("summary").all()[:1]:  # opening an answer turns no slide
            number = answer.evaluate("(e) => [...document.querySelectorAll('.slide')]"
                                     ".indexOf(e.closest('.slide')) + 1")  # fmt: skip
            page.evaluate(f"location.hash = '#{number}'")
            answer.click()
            assert answer.evaluate("(e) => e.parentElement.open")
            page.wait_for_function(f"location.hash === '#{number}'")
        drawn = page.locator(".slide.drawing svg")
        if drawn.count():
            number = drawn.first.evaluate("(e) => [...document.querySelectorAll('.slide')]"
                                          ".indexOf(e.closest('.slide')) + 1")  # fmt: skip
            page.evaluate(f"location.hash = '#{number}'")
            small = drawn.first.bounding_box()
            page.keyboard.press("z")
            large = drawn.first.bounding_box()
            assert small and large and large["width"] == pytest.approx(2 * small["width"], rel=0.01)
            page.keyboard.press("z")
            assert drawn.first.bounding_box() == small
        page.keyboard.press("End")
        assert page.locator(".slide.shown").count() == 1
        assert wrong == []
        browser.close()


@pytest.mark.slow
def test_a_pdf_has_a_page_for_each_slide(tmp_path: Path) -> None:
    document = lesson("masked").document()
    render(document, path=tmp_path / "a.pdf")
    data = (tmp_path / "a.pdf").read_bytes()
    assert data.startswith(b"%PDF")
    pages = re.findall(rb"/MediaBox \[0 0 1440 810\]", data)
    assert len(pages) == len(slides_of(document))
