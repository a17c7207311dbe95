"""The card of a number: its arithmetic, its links back to a token and forward, its check."""

from __future__ import annotations

import re
from typing import Literal

import numpy as np
import pytest
from playwright.sync_api import Locator, Page, expect

from glassformer.tracing import Cell
from tests.explorer.access import Axe, assert_clean
from tests.explorer.conftest import Visit
from tests.explorer.reading import grid, panel, read, recorded, stand_still, wait_for_numbers

TOY = "I am not happy"
SENTENCE = "A man is sleeping on a bench."
SCORES = "encoder.blocks.0.attention.scores"
MOST_STEPS_BACK = 60


def link(model: str, text: str, step: str, index: str) -> str:
    return f"#/{model}?text={text.replace(' ', '+')}&step={step}&cell={index}"


def card_of(page: Page) -> Locator:
    return page.get_by_role("complementary", name="The selected number")


def section(page: Page, title: str) -> Locator:
    heading = page.get_by_role("heading", name=title, exact=True)
    return card_of(page).locator("section", has=heading)


def expect_cell(page: Page, cell: Cell) -> None:
    """That the card shows this cell, and its number to the last bit."""
    expect(card_of(page).get_by_role("heading", level=2)).to_have_text(cell.card().name)
    # Another step may have a cell of the same name: the line under it says which one this is.
    owner = re.escape(cell.step.module or cell.step.name)
    expect(card_of(page).locator("header .labels")).to_have_text(re.compile(rf"^{owner}(\W|$)"))
    value = card_of(page).locator("header .value").inner_text().split()[0]
    assert read(value) == np.float32(cell.value)


def follow(page: Page, cell: Cell) -> list[Cell]:
    """Click operands, always one that was computed or read, until there is none; the way."""
    way = [cell]
    for _ in range(MOST_STEPS_BACK):
        expect_cell(page, way[-1])
        if way[-1].role == "input":
            return way
        onward = [operand for operand in way[-1].operands if operand.role != "parameter"]
        chosen = max(onward, key=lambda operand: (operand.role == "input", abs(operand.value)))
        place = ",".join(map(str, chosen.index))
        number = chosen.step.number
        card_of(page).locator(f"[data-step='{number}'][data-index='{place}']").first.click()
        way.append(chosen)
    raise AssertionError(f"no input after {MOST_STEPS_BACK} clicks: {[c.name for c in way]}")


def test_from_an_output_to_a_token_by_operands_alone(visit: Visit) -> None:
    page = visit(link("toy", TOY, "logits", "0,1"))
    way = follow(page, recorded("toy", TOY)["logits"][0, 1])
    assert way[-1].role == "input"
    assert len(way) > 5
    expect(card_of(page)).to_contain_text("An input: it comes from your text.")
    trail = page.get_by_role("navigation", name="The way here").get_by_role("listitem")
    expect(trail).to_have_count(len(way) - 1)
    page.keyboard.press("Backspace")
    expect_cell(page, way[-2])
    trail.first.get_by_role("button").click()
    expect_cell(page, way[0])


def test_from_a_translators_score_to_a_weight(visit: Visit) -> None:
    page = visit(link("en-de", SENTENCE, SCORES, "0,0,1,2"))
    cell = recorded("en-de", SENTENCE)[SCORES][0, 0, 1, 2]
    expect_cell(page, cell)
    largest = cell.path()[1]
    page.keyboard.press("[")
    expect_cell(page, largest)
    name = largest.step.name.rpartition(".")[2]
    expect(page.get_by_role("heading", name=name, exact=False).first).to_be_visible()
    weight = max(largest.terms, key=lambda term: abs(term.value)).cells[-1]
    assert weight.role == "parameter"
    place = ",".join(map(str, weight.index))
    card_of(page).locator(f"[data-step='{weight.step.number}'][data-index='{place}']").first.click()
    expect_cell(page, weight)
    expect(card_of(page)).to_contain_text("A learnt number")


def test_a_long_sum_shows_its_largest_terms_and_what_the_others_add_up_to(visit: Visit) -> None:
    name = "encoder.blocks.0.attention.projected_queries"
    page = visit(link("en-de", SENTENCE, name, "0,1,2"))
    cell = recorded("en-de", SENTENCE)[name][0, 1, 2]
    terms = sorted(cell.terms, key=lambda term: -abs(term.value))
    part = section(page, f"Sum of {len(terms)} terms")
    rows = part.locator("li:has(.value)")
    expect(rows).to_have_count(8)
    for row, term in zip(rows.all(), terms, strict=False):
        assert read(row.locator(".value").inner_text().lstrip("+")) == pytest.approx(
            term.value, rel=1e-3
        )
        links = [link.get_attribute("data-index") for link in row.get_by_role("button").all()]
        assert links == [",".join(map(str, operand.index)) for operand in term.cells]
    others = part.locator(".others")
    expect(others).to_contain_text(f"{len(terms) - 8} others")
    rest = sum(term.value for term in terms[8:])
    assert read(others.locator(".number").inner_text().lstrip("+")) == pytest.approx(
        rest, rel=1e-3, abs=1e-9
    )


@pytest.mark.parametrize(("choice", "by_size"), [("All by size", True), ("All in order", False)])
def test_all_terms_can_be_scrolled_through(visit: Visit, choice: str, by_size: bool) -> None:
    name = "encoder.blocks.0.attention.projected_queries"
    page = visit(link("en-de", SENTENCE, name, "0,1,2"))
    terms = list(recorded("en-de", SENTENCE)[name][0, 1, 2].terms)
    if by_size:
        terms.sort(key=lambda term: -abs(term.value))
    card_of(page).get_by_text(choice).click()
    whole = card_of(page).get_by_role("region", name=f"Sum of {len(terms)} terms")
    rows = whole.locator("li:has(.value)")
    expect(rows.first).to_be_visible()
    assert rows.count() < 20
    first = rows.first.locator(".value").inner_text()
    assert read(first.lstrip("+")) == pytest.approx(terms[0].value, rel=1e-3)
    whole.evaluate("(region) => region.scrollTo(0, region.scrollHeight)")
    last = f"{terms[-1].value:+.4g}".replace("-", "−")
    expect(rows.last.locator(".value")).to_have_text(last)


def test_the_number_is_checked_in_float64(visit: Visit) -> None:
    page = visit(link("en-de", SENTENCE, SCORES, "0,0,1,2"))
    cell = recorded("en-de", SENTENCE)[SCORES][0, 0, 1, 2]
    shown = section(page, "Check").locator("dd")
    recomputed = shown.nth(1).inner_text()
    assert float(recomputed.replace("−", "-")) == pytest.approx(cell.recomputed, rel=1e-11)
    expect(shown.nth(2)).to_contain_text("✓")
    assert float(shown.nth(2).inner_text().strip("✓ ").replace("−", "-")) == pytest.approx(
        cell.difference, rel=0.1
    )
    bfloat16 = cell.at_precisions(2).bfloat16
    assert read(shown.nth(3).inner_text()) == pytest.approx(bfloat16, rel=1e-6)


def test_a_softmax_has_its_maximum_and_its_sum_defined_and_linked(visit: Visit) -> None:
    name = "encoder.blocks.0.attention.weights"
    page = visit(link("toy", TOY, name, "0,0,1,2"))
    cell = recorded("toy", TOY)[name][0, 0, 1, 2]
    terms = card_of(page).locator("dl.definitions dt")
    wanted = [f"{symbol} = {value:.4g}" for symbol, (_, _, value) in cell.definitions.items()]
    expect(terms).to_have_text(wanted)
    links = section(page, "Formula").get_by_role("button")
    assert links.count() >= 1 + 4 + 4
    expect(card_of(page).locator(".katex").first).to_be_visible()
    expect(section(page, "Source")).to_contain_text("softmax")


def test_precedents_and_dependents_are_outlined(visit: Visit) -> None:
    page = visit(link("toy", TOY, SCORES, "0,0,1,2"))
    expect(panel(page, "projected_queries").locator(".outline.precedent")).to_have_count(1)
    expect(panel(page, "projected_keys").locator(".outline.precedent")).to_have_count(1)
    expect(panel(page, "scores").locator(".outline.selected")).to_have_count(1)
    used = section(page, "Used by")
    used.locator(".step").first.click()
    expect(page.get_by_role("heading", name="scaled")).to_be_visible()
    expect(panel(page, "scaled").locator(".outline.dependent")).to_have_count(1)
    page.reload()  # the link says which step is shown, and of which the card is
    expect(page.get_by_role("heading", name="scaled")).to_be_visible()
    expect(card_of(page).get_by_role("heading", level=2)).to_have_text("S[1, 2]")
    expect(panel(page, "scaled").locator(".outline.dependent")).to_have_count(1)
    page.keyboard.press("]")
    expect(card_of(page).get_by_role("heading", level=2)).to_have_text("S_scaled[1, 2]")


def test_the_largest_contribution_is_followed_to_the_input(visit: Visit) -> None:
    page = visit(link("toy", TOY, "logits", "0,1"))
    cell = recorded("toy", TOY)["logits"][0, 1]
    page.get_by_role("button", name="Follow the largest contribution").click()
    path = cell.path()
    steps = section(page, "Along the largest contributions").get_by_role("listitem")
    expect(steps).to_have_count(len(path))
    steps.last.get_by_role("button").click()
    expect_cell(page, path[-1])


def test_an_operand_panel_explains_its_own_cell(visit: Visit) -> None:
    page = visit(link("toy", TOY, SCORES, "0,0,1,2"))
    expect_cell(page, recorded("toy", TOY)[SCORES][0, 0, 1, 2])  # the address's own card is there
    keys = recorded("toy", TOY)["encoder.blocks.0.attention.projected_keys"]
    grid(page, "projected_keys").get_by_role("gridcell", name="column 'not'").click()
    expect_cell(page, keys[0, 2, 0])


def test_a_card_is_copied_as_latex_markdown_and_link(visit: Visit, page: Page) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    visit(link("en-de", SENTENCE, SCORES, "0,0,1,2"))
    cell = recorded("en-de", SENTENCE)[SCORES][0, 0, 1, 2]

    def copied(name: str) -> str:
        card_of(page).get_by_role("button", name=name, exact=True).click()
        # The button takes back what the one before it said.
        expect(card_of(page).get_by_text("Copied")).to_be_visible()
        text: str = page.evaluate("navigator.clipboard.readText()")
        return text

    assert copied("LaTeX") == (
        r"S_{0,1,2} = \sum_{k} Q_{1,k} \cdot K_{2,k} = " + f"{cell.value:.9g}"
    )
    assert copied("Markdown").startswith(f"**S[0, 1, 2]** = {cell.value:.9g} (float32)")
    assert "cell=0,0,1,2" in copied("Link")
    expect(card_of(page)).to_contain_text("This address works on this computer only")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_on_the_card_of_a_long_sum(
    visit: Visit, axe: Axe, scheme: Literal["light", "dark"]
) -> None:
    page = visit("")
    page.emulate_media(color_scheme=scheme)
    visit(link("en-de", SENTENCE, SCORES, "0,0,1,2"))
    expect(card_of(page)).to_be_visible()
    page.keyboard.press("[")
    expect(page.get_by_role("navigation", name="The way here")).to_be_visible()
    card_of(page).get_by_text("All in order").click()
    page.get_by_role("button", name="Follow the largest contribution").click()
    expect(
        section(page, "Along the largest contributions").get_by_role("listitem").first
    ).to_be_visible()
    assert_clean(page, axe)


@pytest.mark.browser_context_args(viewport={"width": 390, "height": 844}, has_touch=True)
def test_on_a_phone_the_card_is_a_sheet_that_can_be_pulled_up(visit: Visit) -> None:
    page = visit(link("toy", TOY, SCORES, "0,0,1,2"))
    card = card_of(page).get_by_role("article")
    before = card.bounding_box()
    page.get_by_role("button", name="Show more of the card").tap()
    expect(page.get_by_role("button", name="Show less of the card")).to_be_visible()
    after = card.bounding_box()
    assert before is not None and after is not None
    assert before["y"] > 300 and after["y"] < 120
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_a_button_that_goes_down_asks_for_the_card_and_a_click_for_no_other(visit: Visit) -> None:
    page = visit(f"#/toy?text={TOY.replace(' ', '+')}&step={SCORES}")
    cell = grid(page, "scores").get_by_role("gridcell").first
    wait_for_numbers(grid(page, "scores"))
    stand_still(page)
    asked: list[str] = []
    page.on(
        "request", lambda request: asked.append(request.url) if "/cell?" in request.url else None
    )
    cell.hover()
    with page.expect_response("**/cell?*"):
        page.mouse.down()
    expect(card_of(page)).to_have_count(0)
    page.mouse.up()
    expect(card_of(page).get_by_role("heading", level=2)).to_have_text("S[0, 0]")
    expect(section(page, "Used by").get_by_role("button").first).to_be_visible()
    assert len(asked) == 1
