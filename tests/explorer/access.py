"""A screen as different readers have it: light, dark, on a phone, and by axe's rules in each."""

from __future__ import annotations

from collections.abc import Callable

from playwright.sync_api import Page, expect

__all__ = ["Axe", "assert_accessible", "assert_clean", "settle"]

Axe = Callable[[Page], list[str]]
WAITING = "[role=progressbar], [aria-busy=true], .cells [role=gridcell]:not([data-value])"


def settle(page: Page) -> None:
    """Until nothing is fetched or computed, and what changed has been drawn."""
    page.wait_for_load_state("networkidle")
    expect(page.locator(WAITING)).to_have_count(0)
    page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def assert_clean(page: Page, axe: Axe) -> None:
    """That axe finds nothing on the page as it is, once it has settled."""
    settle(page)
    found = axe(page)
    assert not found, "\n".join(found)


def assert_accessible(page: Page, axe: Axe) -> None:
    """That axe finds nothing light, dark and narrow, and that nothing is wider than a phone."""
    assert_clean(page, axe)
    page.emulate_media(color_scheme="dark")
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    assert_clean(page, axe)
    page.set_viewport_size({"width": 390, "height": 844})
    settle(page)
    widths = "[document.documentElement.scrollWidth, document.body.scrollWidth, innerWidth]"
    root, body, window = page.evaluate(widths)
    assert max(root, body) <= window == 390
    assert_clean(page, axe)
