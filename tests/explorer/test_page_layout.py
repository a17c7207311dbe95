"""How the page shares out a screen: what is clicked stays in place, what is shown can be read."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.explorer.access import assert_clean, settle
from tests.explorer.conftest import Visit
from tests.explorer.reading import grid, panel, stand_still, wait_for_numbers

PHONE = {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True}
TURNED = {**PHONE, "viewport": {"width": 844, "height": 390}}
SCORES = "encoder.blocks.0.attention.scores"
SENTENCE = "The old man opens the door because he is tired."
LONG = (
    "The professor explained to the students how a neural network learns and why it sometimes fails"
    " on sentences that are much longer than everything it has ever seen before in its life."
)
SETTLED = """() => new Promise((done) => {
  let [last, same] = ['', 0];
  const look = () => {
    const now = JSON.stringify([...document.querySelectorAll('figure, .matrix')]
      .map((one) => one.getBoundingClientRect()));
    same = now === last ? same + 1 : 0;
    last = now;
    if (same > 20) done();
    else requestAnimationFrame(look);
  };
  look();
})"""


def link(model: str, text: str, step: str = SCORES, more: str = "") -> str:
    return f"#/{model}?text={text.replace(' ', '+')}&step={step}{more}"


def box(one: Locator) -> dict[str, Any]:
    found = one.bounding_box()
    assert found is not None
    return dict(found)


def click_in(page: Page, matrix: Locator, across: float, down: float) -> tuple[float, float]:
    """Click a cell, wait until its card has its room, and say where that was."""
    wait_for_numbers(matrix)
    if page.locator(".parts").count():
        stand_still(page)
    page.evaluate(SETTLED)
    field = box(matrix)
    x, y = field["x"] + across * field["width"], field["y"] + down * field["height"]
    page.mouse.click(x, y)
    expect(page.get_by_role("complementary", name="The selected number")).to_be_visible()
    page.locator(".columns.with-card").wait_for()
    page.evaluate(SETTLED)
    return x, y


def selected(page: Page) -> dict[str, Any]:
    return box(page.locator(".matrix [role=gridcell][aria-selected=true]"))


def test_a_small_equation_is_the_same_beside_a_card(visit: Visit) -> None:
    page = visit(link("toy", "I am not very sad", "encoder.embedding.looked_up"))
    x, y = click_in(page, grid(page, "looked_up"), 0.1, 0.9)
    cell = selected(page)
    assert cell["x"] <= x <= cell["x"] + cell["width"]
    assert cell["y"] <= y <= cell["y"] + cell["height"]


@pytest.mark.parametrize(
    ("text", "more", "down"),
    [(SENTENCE, "", 0.9), (LONG, "", 0.2), (SENTENCE, "&view=attention", 0.8)],
    ids=["equation", "long", "attention"],
)
def test_a_clicked_cell_stays_at_its_height(
    visit: Visit, text: str, more: str, down: float
) -> None:
    """A card takes a third of the width: what is beside it is laid out anew."""
    page = visit(link("en-de", text, more=more))
    _, y = click_in(page, page.locator(".matrix [role=grid]").last, 0.5, down)
    cell = selected(page)
    assert abs(cell["y"] + cell["height"] / 2 - y) <= 40
    aside = box(page.get_by_role("complementary", name="The selected number"))
    assert cell["x"] + cell["width"] <= aside["x"]
    assert cell["y"] + cell["height"] <= 900


def test_heat_maps_share_a_line_rather_than_be_squeezed(visit: Visit) -> None:
    page = visit(link("en-de", SENTENCE))
    page.set_viewport_size({"width": 1440, "height": 900})
    stand_still(page)
    page.evaluate(SETTLED)
    operand, result = box(panel(page, "projected_queries")), box(panel(page, "scores"))
    assert operand["x"] + operand["width"] < result["x"] < operand["x"] + 1000
    assert box(grid(page, "scores"))["height"] >= 13 * 24
    assert result["y"] + result["height"] <= 900
    expect(panel(page, "scores").locator(".beside span")).to_have_count(13)


def test_the_rows_of_a_long_sentences_scores_are_its_words(visit: Visit) -> None:
    page = visit(link("en-de", LONG))
    names = panel(page, "scores").locator(".beside span")
    expect(names).to_have_count(22)  # each second one
    expect(names.nth(10)).to_have_text("␣it")
    rows = grid(page, "scores").evaluate("(one) => one.clientHeight")
    assert rows >= 43 * 9


def test_the_words_behind_an_answer_close_with_the_next_run(visit: Visit) -> None:
    page = visit(link("toy", "I am not happy"))
    button = page.get_by_role("button", name="Which words made it say “sad”?")
    button.click()
    expect(page.get_by_role("button", name="Hide the words")).to_have_attribute(
        "aria-expanded", "true"
    )
    page.locator("#run-text").fill("I am very happy")
    page.keyboard.press("Enter")
    again = page.get_by_role("button", name="Which words made it say “happy”?")
    expect(again).to_have_attribute("aria-expanded", "false")


@pytest.mark.browser_context_args(**PHONE)
def test_a_tap_that_leaves_the_form_lands(visit: Visit) -> None:
    page = visit(link("en-de", "A dog runs."))
    page.locator("#run-text").tap()
    expect(page.locator("#run-target")).to_be_visible()
    tab = box(page.get_by_role("button", name="Map", exact=True))
    page.touchscreen.tap(tab["x"] + tab["width"] / 2, tab["y"] + tab["height"] / 2)
    expect(page).to_have_url(re.compile("view=map"))
    expect(page.locator("#run-target")).to_be_hidden()


@pytest.mark.parametrize(
    "screen",
    [
        pytest.param("upright", marks=pytest.mark.browser_context_args(**PHONE)),
        pytest.param("turned", marks=pytest.mark.browser_context_args(**TURNED)),
    ],
)
def test_a_phone_scrolls_the_bars_away(
    visit: Visit, screen: str, axe: Callable[[Page], list[str]]
) -> None:
    page = visit(link("en-de", "My dog is not in the house."))
    matrix = grid(page, "scores")
    wait_for_numbers(matrix)
    stand_still(page)
    page.evaluate(SETTLED)
    panel(page, "scores").scroll_into_view_if_needed()
    head = box(page.get_by_role("banner"))
    assert head["y"] + head["height"] <= 0
    field = box(matrix)
    page.touchscreen.tap(field["x"] + field["width"] / 2, field["y"] + field["height"] * 0.8)
    card = page.get_by_role("complementary", name="The selected number")
    expect(card).to_be_visible()
    page.locator(".columns.with-card").wait_for()
    page.evaluate(SETTLED)
    cell, sheet = selected(page), box(card)
    beside = cell["x"] + cell["width"] <= sheet["x"]
    above = cell["y"] >= 0 and cell["y"] + cell["height"] <= sheet["y"]
    assert beside if screen == "turned" else above
    assert page.evaluate("document.documentElement.scrollWidth") <= (
        844 if screen == "turned" else 390
    )
    assert_clean(page, axe)
    # another run begins at the top
    page.locator("#run-text").evaluate("(one) => one.focus({preventScroll: true})")
    page.locator("#run-text").fill("A dog runs.")
    page.keyboard.press("Enter")
    expect(page.locator(".said")).to_contain_text("Ein Hund")
    expect(page.get_by_role("banner")).to_be_in_viewport()


@pytest.mark.parametrize(
    "screen",
    [
        pytest.param("upright", marks=pytest.mark.browser_context_args(**PHONE)),
        pytest.param("turned", marks=pytest.mark.browser_context_args(**TURNED)),
    ],
)
def test_a_phone_has_room_for_the_map_and_its_legend(visit: Visit, screen: str) -> None:
    page = visit(link("en-de", "My dog is not in the house.", more="&view=map"))
    canvas, legend = page.locator("canvas"), page.locator("details.legend")
    expect(canvas).to_be_visible()
    expect(legend).to_be_visible()
    picture, below = box(canvas), box(legend)
    assert picture["height"] >= (220 if screen == "turned" else 500)
    assert picture["y"] + picture["height"] <= below["y"] + 1


@pytest.mark.browser_context_args(**PHONE)
def test_a_drawing_of_a_lesson_fits_a_phone(visit: Visit) -> None:
    page = visit("#/lesson/illustrated/5")
    drawing = page.locator("[data-figure]").first
    expect(drawing).to_be_visible()
    assert drawing.evaluate("(one) => one.clientWidth <= one.parentElement.clientWidth")


@pytest.mark.browser_context_args(**PHONE)
def test_a_tapped_head_comes_into_sight(visit: Visit) -> None:
    page = visit(link("en-de", "A dog runs.", more="&view=attention"))
    head = page.get_by_role("gridcell", name=re.compile("^Encoder, layer 2, head 3$"))
    head.tap()
    heading = page.get_by_role("heading", name="Encoder, layer 2, head 3")
    expect(heading).to_be_in_viewport()


def test_the_numbers_of_a_narrow_legend_are_whole(visit: Visit) -> None:
    page = visit(link("toy", "I am not happy", "encoder.blocks.0.attention.context"))
    wait_for_numbers(grid(page, "context"))
    stand_still(page)
    page.evaluate(SETTLED)
    legend = panel(page, "context").locator(".reading")
    assert legend.evaluate("(one) => one.scrollWidth <= one.clientWidth")


@pytest.mark.browser_context_args(viewport={"width": 1920, "height": 1080}, locale="zh-CN")
def test_no_column_of_weights_is_cut_on_a_large_screen(visit: Visit) -> None:
    text = "The cat does not drink milk because it is old."
    page = visit(link("en-zh", text, more="&view=attention"))
    matrix = page.locator(".matrix [role=grid]").last
    wait_for_numbers(matrix)
    page.evaluate(SETTLED)
    scroller = page.locator(".matrix .scroller").last
    assert scroller.evaluate("(one) => one.scrollWidth <= one.clientWidth")


@pytest.mark.browser_context_args(viewport={"width": 1920, "height": 1080})
def test_both_matrices_of_a_softmax_are_whole_in_a_lecture(visit: Visit) -> None:
    step = "encoder.blocks.0.attention.weights"
    page = visit(link("en-zh", "She is not at home today.", step, "&lecture=1"))
    for name in ("masked", "weights"):
        wait_for_numbers(grid(page, name))
    page.evaluate(SETTLED)
    for scroller in page.locator(".parts .scroller").all():
        assert scroller.evaluate("(one) => one.scrollHeight <= one.clientHeight")
    result = box(panel(page, "weights"))
    assert result["y"] + result["height"] <= 1080


RECORD = """
const draw = CanvasRenderingContext2D.prototype.fillText;
globalThis.drawn = [];
CanvasRenderingContext2D.prototype.fillText = function (text, x, y) {
  const {a, b} = this.getTransform();
  const at = new DOMPoint(x, y).matrixTransform(this.getTransform());
  const width = this.measureText(text).width * Math.hypot(a, b);
  const from = {left: 0, center: width / 2, right: width}[this.textAlign] ?? 0;
  drawn.push({text, x: at.x - from, y: at.y, width, aslant: b !== 0});
  draw.apply(this, arguments);
};
"""


@pytest.mark.browser_context_args(**TURNED)
def test_a_towers_name_ends_where_the_answer_begins(visit: Visit, page: Page) -> None:
    page.add_init_script(RECORD)
    visit(link("en-de", "My dog is not in the house.", more="&view=map"))
    expect(page.locator("canvas")).to_be_visible()
    settle(page)
    drawn = page.evaluate("drawn")
    name = [one for one in drawn if one["text"] == "Decoder"][-1]
    answer = [one for one in drawn if one["aslant"] and one["text"] == "Mein"][-1]
    assert name["x"] + name["width"] <= answer["x"]


@pytest.mark.browser_context_args(**PHONE)
def test_all_heads_are_whole_on_a_phone(visit: Visit) -> None:
    page = visit(link("en-de", "A dog runs.", more="&view=attention"))
    heads = page.locator(".grid button")
    expect(heads.first).to_be_visible()
    ends = heads.evaluate_all(
        "heads => heads.map((head) => head.getBoundingClientRect().right"
        " - head.closest('.grid').getBoundingClientRect().right)"
    )
    assert len(ends) == 54
    assert max(ends) <= 0
