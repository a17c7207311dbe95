"""Answers that come late: the newest wish wins, and what is no longer wanted is given up."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, Request, Route, expect

from tests.explorer.conftest import Visit
from tests.explorer.reading import grid, stand_still, wait_for_numbers

TOY = "#/toy?text=I am not happy&step=encoder.blocks.0.attention.scores"
CARD = re.compile(r"/cell\?")
EQUATION = re.compile(r"/steps/\d+/equation")


@pytest.fixture(autouse=True)
def _requests_are_watched(page: Page) -> None:
    """Requests go by way of the test from the start.

    Where they come to do so on an open page, the browser may miss to tell of one in a hundred.
    """
    page.route("**/api/**", lambda route: route.fallback())


def is_run(model: str) -> Callable[[Request], bool]:
    """Tells the requests to run a model."""

    def check(request: Request) -> bool:
        return request.url.endswith("/api/traces") and f'"{model}"' in (request.post_data or "")

    return check


def hold_runs(page: Page, model: str) -> list[Route]:
    """Keep the server from hearing of runs of a model: they take for ever. The list fills."""
    held: list[Route] = []
    is_held = is_run(model)

    def handle(route: Route) -> None:
        if is_held(route.request):
            held.append(route)
        else:
            route.continue_()

    page.route("**/api/traces", handle)
    return held


def test_a_newer_run_ends_an_older_one(visit: Visit) -> None:
    page = visit(TOY)
    selected = page.get_by_role("treeitem", selected=True)
    expect(selected).to_contain_text("scores")
    hold_runs(page, "en-de")
    choice = page.locator("#run-model")
    with page.expect_request(is_run("en-de")):
        choice.select_option("en-de")
    with page.expect_event("requestfailed", is_run("en-de")):
        choice.select_option("toy")
    expect(page.get_by_role("button", name="Run", exact=True)).to_be_visible()
    expect(page).to_have_url(re.compile("#/toy"))
    expect(page.get_by_role("alert")).to_have_count(0)


def test_a_step_can_be_selected_during_a_run_that_can_still_be_cancelled(visit: Visit) -> None:
    page = visit(TOY)
    selected = page.get_by_role("treeitem", selected=True)
    expect(selected).to_contain_text("scores")
    hold_runs(page, "en-de")
    with page.expect_request(is_run("en-de")):
        page.locator("#run-model").select_option("en-de")
    page.get_by_role("treeitem", name="scaled").first.click()
    expect(selected).to_contain_text("scaled")
    with page.expect_event("requestfailed", is_run("en-de")):
        page.get_by_role("button", name="Cancel").click()
    expect(page.get_by_role("progressbar")).to_have_count(0)
    expect(page).to_have_url(re.compile("#/toy.*scaled"))


def test_enter_twice_runs_once(visit: Visit) -> None:
    page = visit("")
    # The start runs the toy itself, for its first screen: that one is not meant.
    expect(page.get_by_role("table", name="scores")).to_be_visible()
    held = hold_runs(page, "toy")
    card = page.get_by_role("article", name="Toy")
    with page.expect_request(is_run("toy")):
        card.get_by_role("textbox").press("Enter")
    expect(card.get_by_role("button", name="Cancel")).to_be_visible()
    card.get_by_role("textbox").press("Enter")
    page.evaluate("new Promise(requestAnimationFrame)")
    assert len(held) == 1
    held[0].continue_()
    expect(page.get_by_role("treeitem", selected=True)).to_contain_text("scores")


def test_two_quick_backs_go_back_twice(visit: Visit) -> None:
    page = visit(TOY)
    selected = page.get_by_role("treeitem", selected=True)
    expect(selected).to_contain_text("scores")
    page.locator("#run-model").select_option("en-de")
    expect(page).to_have_url(re.compile("#/en-de"))
    page.locator("#run-model").select_option("toy")
    expect(page).to_have_url(re.compile("#/toy"))
    entries = page.evaluate("history.length")
    hold_runs(page, "en-de")
    with page.expect_request(is_run("en-de")):
        page.evaluate("history.back()")
    with page.expect_event("requestfailed", is_run("en-de")):
        page.evaluate("history.back()")
    expect(page.locator("#run-text")).to_have_value("I am not happy")
    expect(page).to_have_url(re.compile("#/toy.*scores"))
    page.unroute("**/api/traces")
    page.evaluate("history.forward()")
    expect(page).to_have_url(re.compile("#/en-de"))
    expect(page.locator("#run-model")).to_have_value("en-de")
    assert page.evaluate("history.length") == entries


def hold(page: Page, addresses: re.Pattern[str]) -> list[Route]:
    """Keep the server from hearing of some requests, until the list's routes are let go."""
    held: list[Route] = []
    page.route(addresses, lambda route: held.append(route))
    return held


def test_quick_steps_add_up(visit: Visit) -> None:
    page = visit(TOY)
    selected = page.get_by_role("treeitem", selected=True)
    expect(selected).to_contain_text("scores")
    wait_for_numbers(grid(page, "scores"))
    stand_still(page)
    held = hold(page, EQUATION)
    with page.expect_request(EQUATION):
        page.keyboard.press("j")
    with page.expect_request(EQUATION):
        page.get_by_role("button", name="Next step").click()
    expect(selected).to_contain_text("scores")
    held[-1].continue_()
    expect(selected).to_contain_text("masked")


def test_a_quick_step_and_a_quick_layer_add_up(visit: Visit) -> None:
    page = visit("#/en-de?text=A man is sleeping.&step=encoder.blocks.1.attention.scores")
    expect(page.get_by_role("treeitem", selected=True)).to_contain_text("scores")
    wait_for_numbers(grid(page, "scores"))
    stand_still(page)
    held = hold(page, EQUATION)
    with page.expect_request(EQUATION):
        page.keyboard.press("j")
    with page.expect_request(EQUATION):
        page.get_by_role("button", name="Next layer").click()
    held[-1].continue_()
    expect(page).to_have_url(re.compile(r"step=encoder\.blocks\.2\.attention\.scaled"))


def test_a_card_that_was_closed_before_it_came_does_not_come(visit: Visit) -> None:
    page = visit(TOY)
    cell = grid(page, "scores").locator("[tabindex='0']")
    cell.focus()
    hold(page, CARD)
    with page.expect_request(CARD):
        cell.press("Enter")
    with page.expect_event("requestfailed", lambda request: CARD.search(request.url) is not None):
        page.keyboard.press("Escape")
    expect(page.get_by_role("complementary", name="The selected number")).to_have_count(0)
    expect(page.get_by_role("alert")).to_have_count(0)


def test_a_card_that_was_asked_for_ahead_in_vain_is_asked_for_again(
    visit: Visit, expected_problems: list[str]
) -> None:
    page = visit(TOY)
    expected_problems.append("429")
    wait_for_numbers(grid(page, "scores"))
    stand_still(page)
    page.route(CARD, lambda route: route.fulfill(status=429, json={"detail": "busy"}), times=1)
    grid(page, "scores").get_by_role("gridcell").first.hover()
    with page.expect_event("requestfinished", lambda request: CARD.search(request.url) is not None):
        page.mouse.down()
    page.evaluate("new Promise(requestAnimationFrame)")
    expect(page.get_by_role("alert")).to_have_count(0)
    page.mouse.up()
    expect(page.get_by_role("heading", name="S[0, 0]")).to_be_visible()


def test_the_box_is_for_the_number_that_was_asked_for_last(visit: Visit) -> None:
    page = visit(TOY)
    scores = grid(page, "scores")
    scores.locator("[tabindex='0']").focus()
    held = hold(page, CARD)
    for key in ("F2", "F2"):
        with page.expect_request(CARD):
            page.keyboard.press(key)
        page.keyboard.press("ArrowRight")
        expect(scores.locator(":focus")).not_to_have_attribute("aria-colindex", "1")
    box = page.get_by_role("textbox", name="New value of")
    held[1].continue_()
    expect(page.get_by_role("textbox", name="New value of S[0, 1]")).to_be_visible()
    with page.expect_event("requestfinished", lambda request: CARD.search(request.url) is not None):
        held[0].continue_()
    page.evaluate("new Promise(requestAnimationFrame)")
    expect(box).to_have_accessible_name("New value of S[0, 1]")


def test_a_card_does_not_wait_for_the_equation_around_it(visit: Visit) -> None:
    page = visit(TOY)
    selected = page.get_by_role("treeitem", selected=True)
    expect(selected).to_contain_text("scores")
    wait_for_numbers(grid(page, "projected_queries"))
    stand_still(page)
    held = hold(page, EQUATION)
    with page.expect_request(EQUATION):  # a frame after the card
        grid(page, "projected_queries").get_by_role("gridcell").first.click()
    card = page.get_by_role("complementary", name="The selected number")
    expect(card.get_by_role("heading", name="Q[0]", exact=True)).to_be_visible()
    expect(selected).to_contain_text("scores")
    assert "cell=" not in page.url  # the address has not moved before the screen has
    held[0].continue_()
    expect(selected).to_contain_text("projected_queries")
    expect(page).to_have_url(re.compile(r"step=.*projected_queries&cell=0,0,0$"))


def test_the_equation_of_a_card_that_was_closed_does_not_come(visit: Visit) -> None:
    page = visit(TOY)
    selected = page.get_by_role("treeitem", selected=True)
    expect(selected).to_contain_text("scores")
    wait_for_numbers(grid(page, "projected_queries"))
    stand_still(page)
    hold(page, EQUATION)
    with page.expect_request(EQUATION):
        grid(page, "projected_queries").get_by_role("gridcell").first.click()
    card = page.get_by_role("complementary", name="The selected number")
    with page.expect_event("requestfailed", lambda request: "/equation" in request.url):
        card.get_by_role("button", name="Close").click()
    expect(card).to_have_count(0)
    expect(selected).to_contain_text("scores")
    assert "cell=" not in page.url
