"""“What is this?” on steps and cards, from the server and in a saved page."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from glassformer.documents.step_meaning import meaning
from glassformer.explorer.model_list import open_text
from glassformer.explorer.saved_page import page_of
from glassformer.language import Language
from glassformer.tasks import load
from tests.explorer.access import Axe, assert_accessible
from tests.explorer.conftest import Visit

SCORES = "encoder.blocks.0.attention.scores"
ADDRESS = f"#/toy?text=I+am+not+happy&step={SCORES}"
ASKED = "“happy” asks; “not” answers with 6, the others with 0"


def test_the_step_says_what_it_is_for(visit: Visit, axe: Axe) -> None:
    page = visit(f"{ADDRESS}&cell=0,0,3,2")
    main = page.get_by_role("main")
    expect(main).to_contain_text(ASKED)
    expect(main.get_by_role("heading", level=2)).to_contain_text("attention scores")
    card = page.get_by_role("complementary", name="The selected number")
    expect(card).to_contain_text("“happy” asks, “not” answers with 6")
    paper = main.get_by_role("link", name="Paper, 3.2.1")
    expect(paper).to_have_attribute("href", "https://arxiv.org/html/1706.03762v7#S3.SS2.SSS1")
    assert_accessible(page, axe)


def test_it_follows_cells_steps_heads_and_edits(visit: Visit) -> None:
    page = visit("#/en-de?text=A+dog+runs.&step=encoder.blocks.0.attention.weights")
    main = page.get_by_role("main")
    expect(main).to_contain_text("In head 1, ")
    main.get_by_role("group", name="Head").get_by_role("button", name="Next").click()
    expect(main).to_contain_text("In head 2, ")
    page.keyboard.press("j")
    expect(main).to_contain_text("The context of each token")
    page.goto(page.url.split("#")[0] + f"{ADDRESS}&edits={SCORES}[0,0,3,2]=0&cell=0,0,3,2")
    card = page.get_by_role("complementary", name="The selected number")
    expect(card).to_contain_text("This number was set by hand: 0.")


def test_it_speaks_chinese_and_so_do_the_names_of_steps(visit: Visit, axe: Axe) -> None:
    page = visit(f"{ADDRESS}&cell=0,0,3,2&lang=zh")
    main = page.get_by_role("main")
    expect(main).to_contain_text("它把 99% 的注意力放在“not”上")
    expect(main.get_by_role("heading", level=2)).to_contain_text("注意力分数")
    expect(page.get_by_role("treeitem", selected=True)).to_contain_text("注意力分数")
    assert_accessible(page, axe)


def test_the_lesson_opens_at_the_step_that_explains_it(visit: Visit) -> None:
    page = visit(ADDRESS)
    page.get_by_role("main").get_by_role("link", name="Lesson").click()
    expect(page.get_by_role("main")).to_contain_text("Scores: queries meet keys")


@pytest.mark.parametrize("language", ["en", "zh"])
def test_a_saved_page_says_the_same(
    page: Page, tmp_path: Path, expected_problems: list[str], language: Language
) -> None:
    expected_problems.append("left the origin: file:")  # it is a file
    opened = open_text(load("toy", attention="written"), "toy", "I am not happy", None)
    file = tmp_path / "saved.html"
    file.write_text(page_of(opened, [opened.trace[SCORES]], language), encoding="utf-8")
    page.goto(f"{file.as_uri()}#/trace/saved?step={SCORES}&cell=0,0,3,2&lang={language}")
    step = opened.trace[SCORES]
    expect(page.get_by_role("main")).to_contain_text(meaning(step, language).text)
    card = page.locator("article.card")
    expect(card).to_contain_text(meaning(step[0, 3, 2], language).text)
    expect(card.get_by_role("link", name="Lesson")).to_have_count(0)
