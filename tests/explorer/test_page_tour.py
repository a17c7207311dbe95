"""The tour: 60 seconds on the toy, by mouse and by keys, in both languages."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.explorer.access import Axe, assert_clean
from tests.explorer.conftest import Visit

STOPS = 6


def test_it_never_starts_by_itself(visit: Visit) -> None:
    page = visit("")
    expect(page.get_by_role("button", name="Tour: 60 seconds")).to_be_visible()
    expect(page.get_by_role("dialog", name="Tour")).to_have_count(0)


@pytest.mark.parametrize(
    ("address", "start", "onwards"),
    [("", "Tour: 60 seconds", "Next"), ("#/?lang=zh", "60 秒导览", "下一步")],
)
def test_the_answer_turns_and_the_reader_is_next(
    visit: Visit, axe: Axe, address: str, start: str, onwards: str
) -> None:
    page = visit(address)
    page.get_by_role("button", name=start).click()
    tour = page.get_by_role("dialog", name=re.compile("^(Tour|导览)$"))
    answer = page.locator("[data-tour=answer]").get_by_role("status")
    expect(tour).to_contain_text("1")
    expect(answer.locator("strong")).to_have_text("sad")
    assert_clean(page, axe)
    for _ in range(2):
        tour.get_by_role("button", name=onwards).click()
    card = page.locator("[data-tour=card]")
    expect(card).to_contain_text("0.9926")
    tour.get_by_role("button", name=onwards).click()
    expect(answer.locator("strong")).to_have_text("happy")
    assert_clean(page, axe)
    for _ in range(2):
        tour.get_by_role("button", name=onwards).click()
    expect(answer.locator("strong")).to_have_text("sad")
    expect(tour.get_by_role("button", name=onwards)).to_have_count(0)
    page.keyboard.press("Escape")
    expect(tour).to_have_count(0)
    expect(page.locator("#run-text")).to_be_focused()
    assert page.evaluate("localStorage.getItem('glassformer.tour')") == "taken"


def test_keys_go_on_and_back_and_end_it(visit: Visit) -> None:
    page = visit("")
    page.get_by_role("button", name="Tour: 60 seconds").click()
    tour = page.get_by_role("dialog", name="Tour")
    expect(tour).to_contain_text(f"1 of {STOPS}")
    for place in (2, 3, 4):
        page.keyboard.press("ArrowRight")
        expect(tour).to_contain_text(f"{place} of {STOPS}")
    strong = page.locator("[data-tour=answer] strong")
    expect(strong).to_have_text("happy")
    page.keyboard.press("ArrowLeft")
    expect(tour).to_contain_text(f"3 of {STOPS}")
    expect(strong).to_have_text("sad")
    expect(tour.locator("[aria-live=polite]")).to_contain_text(
        "gives 99% of its attention to “not”"
    )
    page.keyboard.press("Escape")
    expect(tour).to_have_count(0)
    expect(page.locator("[data-tour=card]")).to_be_visible()  # Esc ended the tour only


def test_the_light_is_on_the_element_that_is_spoken_of(visit: Visit) -> None:
    page = visit("")
    page.emulate_media(reduced_motion="reduce")
    page.get_by_role("button", name="Tour: 60 seconds").click()
    targets = ("answer", "equation", "card", "card", "answer", "form")
    for place, target in enumerate(targets, start=1):
        expect(page.get_by_role("dialog", name="Tour")).to_contain_text(f"{place} of {STOPS}")
        element = page.locator(f"[data-tour={target}]")
        expect(element).to_be_visible()
        page.wait_for_function(
            """(target) => {
              const light = document.querySelector('.light')?.getBoundingClientRect();
              const shown = document.querySelector(`[data-tour=${target}]`).getBoundingClientRect();
              return light && Math.abs(light.left + 10 - shown.left) < 4
                && Math.abs(light.top + 10 - shown.top) < 4;
            }""",
            arg=target,
        )
        page.keyboard.press("ArrowRight")
    expect(page.get_by_role("dialog", name="Tour")).to_have_count(0)


def test_the_help_offers_it_again(visit: Visit) -> None:
    page = visit("#/toy?text=I+am+not+happy")
    page.evaluate("localStorage.setItem('glassformer.tour', 'taken')")
    page.reload()
    page.get_by_role("button", name="Keys", exact=True).click()
    page.get_by_role("dialog", name="Keys").get_by_role("button", name="The tour again").click()
    expect(page.get_by_role("dialog", name="Tour")).to_contain_text("I am not happy")
