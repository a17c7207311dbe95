"""Both languages, both themes, the phone, and axe on every screen."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.explorer.access import Axe, assert_accessible
from tests.explorer.conftest import Visit

CELL = "#/toy?text=I am not happy&step=encoder.blocks.0.attention.weights&cell=0,0,1,2"
# Each with what comes last on it: a screen that is still empty has nothing wrong with it.
SCREENS = {
    "start": ("#/", "table[aria-label=scores] button"),
    "map": (CELL, "aside button.step"),
    "translation": ("#/en-de?text=A dog runs.", "main .formula .katex"),
    "attention": ("#/toy?text=I am not happy&view=attention", ".shown .cells [data-value]"),
    "decoding": ("#/en-de?text=A dog runs.&view=decoding", "[data-result='0']"),
    "lessons": ("#/lesson", "main li a"),
    "lesson": ("#/lesson/illustrated/4", "article [role=grid] button"),
}
PHONE = {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True}


@pytest.mark.parametrize("screen", SCREENS)
def test_axe_finds_nothing_light_dark_or_narrow(visit: Visit, axe: Axe, screen: str) -> None:
    link, last = SCREENS[screen]
    page = visit(link)
    expect(page.locator(last).first).to_be_visible()
    assert_accessible(page, axe)


def test_axe_finds_nothing_in_the_export_dialog(visit: Visit, axe: Axe) -> None:
    page = visit(CELL)
    page.get_by_role("button", name="Export").click()
    expect(page.locator("dialog pre")).to_contain_text("weights")
    assert_accessible(page, axe)
    expect(page.get_by_role("dialog", name="Export")).to_be_visible()


def test_the_language_is_switched_in_place_and_remembered(visit: Visit) -> None:
    page = visit(CELL)
    expect(page.get_by_role("button", name="Map")).to_be_visible()
    page.get_by_role("button", name="中文").click()
    expect(page.get_by_role("button", name="结构图")).to_be_visible()
    expect(page.get_by_role("complementary", name="选中的数")).to_be_visible()
    expect(page.locator("html")).to_have_attribute("lang", "zh-CN")
    page.goto(page.url.split("#")[0])
    expect(page.get_by_role("heading", level=1)).to_contain_text("点击任意一个数")
    page.get_by_role("button", name="English").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Click any number")


def test_the_words_in_a_card_are_the_languages(visit: Visit) -> None:
    page = visit("#/toy?text=I am not happy&step=encoder.blocks.0.attention.masked&cell=0,0,1,2")
    formula = page.get_by_role("complementary").get_by_role("group", name="Formula")
    expect(formula).to_contain_text("otherwise")
    page.get_by_role("button", name="中文").click()
    chinese = page.get_by_role("complementary").get_by_role("group", name="公式")
    expect(chinese).to_contain_text("否则")


@pytest.mark.browser_context_args(locale="zh-CN")
def test_a_chinese_browser_gets_a_chinese_page(visit: Visit) -> None:
    page = visit("")
    expect(page.get_by_role("heading", level=1)).to_contain_text("点击任意一个数")
    expect(page.get_by_role("article", name="玩具模型")).to_be_visible()


def test_the_theme_is_chosen_and_remembered(visit: Visit) -> None:
    page = visit("")
    root = page.locator("html")
    page.get_by_role("button", name="Colours: as the system").click()
    expect(root).to_have_attribute("data-theme", "light")
    page.get_by_role("button", name="Colours: light").click()
    expect(root).to_have_attribute("data-theme", "dark")
    page.reload()
    expect(root).to_have_attribute("data-theme", "dark")


def test_the_keys_are_listed(visit: Visit) -> None:
    page = visit(CELL)
    expect(page.get_by_role("complementary")).to_be_visible()
    page.keyboard.press("?")
    dialog = page.get_by_role("dialog", name="Keys")
    expect(dialog).to_contain_text("Explain the number")
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    expect(page.get_by_role("complementary")).to_be_visible()


@pytest.mark.browser_context_args(**PHONE)
def test_on_a_phone_the_tree_is_a_drawer_and_the_card_a_sheet(visit: Visit) -> None:
    page = visit(CELL)
    card = page.get_by_role("complementary", name="The selected number")
    expect(card.get_by_role("heading", level=2)).to_be_visible()
    box = card.bounding_box()
    assert box is not None
    assert box["width"] == 390
    assert box["y"] > 300
    tree = page.get_by_role("tree", name="Steps")
    expect(tree).to_be_hidden()
    page.get_by_role("button", name="Steps").tap()
    expect(tree).to_be_visible()
    tree.get_by_text("scaled").tap()
    expect(tree).to_be_hidden()
    expect(page.get_by_role("heading", name=re.compile("scaled"))).to_be_visible()


@pytest.mark.browser_context_args(**PHONE)
def test_on_a_phone_the_box_for_a_target_comes_with_the_text(visit: Visit) -> None:
    page = visit("#/en-de?text=A dog runs.")
    target = page.locator("#run-target")
    expect(target).to_be_attached()
    expect(target).to_be_hidden()
    page.locator("#run-text").tap()
    expect(target).to_be_visible()
    text, below = (page.locator(name).bounding_box() for name in ("#run-text", "#run-target"))
    assert text is not None and below is not None
    assert text["y"] + text["height"] <= below["y"]


@pytest.mark.browser_context_args(viewport={"width": 844, "height": 390})
def test_on_a_low_screen_the_page_scrolls_to_a_view_that_fills_it(visit: Visit) -> None:
    page = visit("#/en-de?text=A dog runs.&view=map")
    canvas = page.locator("canvas[data-camera]")
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    assert box is not None
    assert box["height"] > 200


def test_the_top_bar_has_room_for_the_text_and_the_run_button(visit: Visit) -> None:
    page = visit("#/en-de?text=A dog runs.")
    on_top = """(button) => {
      const {x, y, width, height} = button.getBoundingClientRect();
      return button.contains(document.elementFromPoint(x + width / 2, y + height / 2));
    }"""
    for width in (1280, 1366, 1440, 1600):
        page.set_viewport_size({"width": width, "height": 800})
        assert page.get_by_role("button", name="Run", exact=True).evaluate(on_top), width
        box = page.locator("#run-text").bounding_box()
        assert box is not None and box["width"] > 240, width
