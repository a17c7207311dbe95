"""The claims on the page: the gallery and its filters, a claim, its switches, rows and lessons."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, Route, expect

from glassformer.claims import claims, find
from glassformer.lessons.course import row
from tests.explorer.access import Axe, assert_accessible, assert_clean
from tests.explorer.conftest import Visit
from tests.lessons.shared_lessons import lesson

pytestmark = pytest.mark.usefixtures("as_users_run_it")  # the page measures claims about errors


def test_the_gallery_measures_and_filters(visit: Visit, axe: Axe) -> None:
    page = visit("#/claims")
    cards = page.locator("[data-claim]")
    expect(cards).to_have_count(len(claims()))
    # Stored results need no measuring; the first claims are measured one after another.
    expect(page.locator("[data-claim=C63] [data-verdict]")).to_have_text("◐ holds in part")
    first = page.locator("[data-claim=C01]")
    expect(first.locator("[data-verdict]")).to_have_text("✓ holds")
    expect(first).to_contain_text(claims()["C01"].says.en)

    words = page.get_by_role("searchbox", name="Words")
    words.fill("G11")
    expect(cards).to_have_count(1)
    expect(page.locator("main [role=status]")).to_contain_text(f"1 of {len(claims())} claims")
    expect(page.locator("[data-claim=C74] img")).to_be_visible()  # what is shown comes first
    words.fill("no claim says this")
    page.get_by_role("button", name="Show all").click()
    expect(cards).to_have_count(len(claims()))

    page.locator(".filter").get_by_label("Text").select_option("001")
    expected = [claim.id for claim in claims().values() if "001" in claim.texts]
    expect(cards).to_have_count(len(expected))
    page.get_by_label("with switches").check()
    expect(page.get_by_text("No claim fits.")).to_be_visible()
    page.get_by_role("button", name="Show all").click()
    page.get_by_role("radio", name=re.compile("holds in part")).click()
    verdicts = page.locator("[data-claim] [data-verdict]")
    expect(verdicts.first).to_have_text("◐ holds in part")
    assert set(verdicts.all_inner_texts()) == {"◐ holds in part"}
    words.fill("C63")
    expect(cards).to_have_count(1)
    assert axe(page) == []  # other claims are still being measured: it does not settle
    page.emulate_media(color_scheme="dark")
    page.set_viewport_size({"width": 390, "height": 844})
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    assert axe(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") == 390


def test_a_claim_has_its_figure_code_and_links(visit: Visit, axe: Axe) -> None:
    page = visit("#/claims/C74?lang=zh")
    claim = claims()["C74"]
    expect(page.get_by_role("heading", level=2)).to_contain_text(claim.says.zh)
    expect(page.locator("article [data-verdict]")).to_have_text("✓ 成立")
    expect(page.locator("[data-figure=C74]")).to_be_visible()
    expect(page.locator("article")).to_contain_text("def without_a_mask_the_answers_are_seen")
    expect(page.locator("article")).to_contain_text("glassformer claims C74")
    expect(page.get_by_role("link", name=re.compile("G11"))).to_have_attribute(
        "href", "#/claims/G11"
    )
    assert_accessible(page, axe)
    page.get_by_role("link", name=re.compile("G11")).click()
    expect(page).to_have_url(re.compile("#/claims/G11"))
    expect(page.get_by_role("heading", level=2)).to_have_text(f"G11 {row('G11').name.zh}")
    expect(page.locator("[data-claim]")).to_have_count(len(find(["G11"])))


def test_a_switch_runs_the_experiment_again_and_is_in_the_address(visit: Visit) -> None:
    page = visit("#/claims/C30")
    verdict = page.locator("article [data-verdict]")
    expect(verdict).to_have_text("✓ holds")
    page.get_by_role("radiogroup", name="times larger").get_by_role("radio", name="2").first.click()
    expect(verdict).to_have_text("✗ fails")
    expect(page).to_have_url(re.compile(r"#/claims/C30\?set=times%3D2&set=width%3D64"))
    turned = claims()["C30"].run(settings={"times": "2"})
    expect(page.locator("article")).to_contain_text(turned.sentence("en"))
    expect(page.locator("article")).to_contain_text(turned.command)
    page.reload()
    expect(verdict).to_have_text("✗ fails")
    page.get_by_role("button", name="Reset").click()
    expect(verdict).to_have_text("✓ holds")
    page.go_back()
    expect(verdict).to_have_text("✗ fails")


def test_a_link_to_a_claim_never_shows_the_gallery(visit: Visit, page: Page) -> None:
    held: list[Route] = []
    page.route("**/api/models*", lambda route: held.append(route))  # the claims come first
    visit("#/claims/C30?lang=zh")
    expect(page.locator("article [data-verdict]")).to_have_text("✓ 成立")
    assert held
    held[0].continue_()
    expect(page).to_have_url(re.compile(r"#/claims/C30"))


def test_a_stored_result_says_so_with_its_command(visit: Visit) -> None:
    page = visit("#/claims/c63")  # ids in either case
    stored = claims()["C63"].stored
    assert stored is not None
    expect(page.locator("article")).to_contain_text("A stored result, of")
    expect(page.locator("article")).to_contain_text(stored.command)
    expect(page.get_by_role("radiogroup")).to_have_count(0)


def test_claims_are_stepped_by_keys(visit: Visit) -> None:
    page = visit("#/claims/C33")
    expect(page.locator("article[data-claim=C33] [data-verdict]")).to_be_visible()
    page.keyboard.press("j")
    expect(page.locator("article[data-claim=C34] [data-verdict]")).to_be_visible()
    page.keyboard.press("k")
    page.keyboard.press("k")
    expect(page).to_have_url(re.compile("#/claims/C32"))


def test_a_measuring_can_be_cancelled(visit: Visit) -> None:
    page = visit("#/claims/C53")
    expect(page.locator("article [data-verdict]")).to_be_visible()
    page.get_by_role("radio", name="200").click()
    page.get_by_role("button", name="Cancel").click()
    expect(page.get_by_text("Measuring …")).to_have_count(0)
    expect(page.locator("article .found")).to_contain_text("after 100 steps")


@pytest.mark.parametrize("name", ["D01", "X99"])
def test_a_row_without_claims_and_an_unknown_one(visit: Visit, axe: Axe, name: str) -> None:
    page = visit(f"#/claims/{name}")
    if name == "X99":
        expect(page.get_by_role("alert")).to_have_text("There is no claim or row “X99”.")
    else:
        expect(page.get_by_role("heading", level=2)).to_contain_text(row(name).name.en)
        expect(page.get_by_text("No claim bears on it")).to_be_visible()
        for lesson in row(name).lessons:
            expect(page.locator(f"a[href='#/lesson/{lesson}/1']")).to_be_visible()
    assert_clean(page, axe)


def test_claims_are_reached_from_the_bar_and_from_lessons(visit: Visit) -> None:
    page = visit(f"#/lesson/mask/{len(lesson('mask').steps)}")
    page.locator("summary", has_text="Claims of the texts").click()
    page.locator("details a[href='#/claims/C74']").click()
    expect(page.locator("article[data-claim=C74]")).to_be_visible()
    page.get_by_role("link", name=lesson("mask").title).click()
    expect(page).to_have_url(re.compile("#/lesson/mask/1"))
    page.get_by_role("navigation", name="Views").get_by_role("button", name="Claims").click()
    expect(page).to_have_url(re.compile("#/claims$"))
