"""Numbers read off the page, and the same ones recorded in the test's own process."""

from __future__ import annotations

from functools import cache

import numpy as np
import numpy.typing as npt
from playwright.sync_api import Locator, Page, expect

from glassformer.tasks import load
from glassformer.tracing import Trace

__all__ = [
    "agree",
    "grid",
    "panel",
    "pixels_of",
    "read",
    "recorded",
    "show_exact",
    "shown",
    "stand_still",
    "wait_for_numbers",
]

_PIXELS = """(canvas) => {
  const copy = document.createElement('canvas');
  [copy.width, copy.height] = [canvas.width, canvas.height];
  const context = copy.getContext('2d', {willReadFrequently: true});
  context.drawImage(canvas, 0, 0);
  return [...context.getImageData(0, 0, copy.width, copy.height).data];
}"""

Cells = dict[tuple[int, int], str]


@cache
def recorded(model: str, text: str, target: str | None = None) -> Trace:
    """The run as this process records it, without any server."""
    return load(model, attention="written").trace(text, target=target)


def pixels_of(canvas: Locator) -> npt.NDArray[np.int64]:
    """Red, green, blue and opacity of each pixel, from a copy: to read one often makes it slow."""
    found: list[int] = canvas.evaluate(_PIXELS)
    height = int(canvas.get_attribute("height") or 0)
    return np.array(found, dtype=np.int64).reshape(height, -1, 4)


def grid(page: Page, name: str) -> Locator:
    """The matrix of that name."""
    return page.get_by_role("grid", name=name, exact=True)


def panel(page: Page, name: str) -> Locator:
    """The panel around a matrix: its title and its buttons."""
    return page.locator("figure", has=grid(page, name))


def stand_still(page: Page) -> None:
    """Until nothing above the matrices moves them any more: symbols have their final height."""
    expect(page.locator("main :is(.formula, figcaption) .katex").first).to_be_visible()
    page.evaluate(
        """document.fonts.ready.then(() => new Promise((done) =>
             requestAnimationFrame(() => requestAnimationFrame(() => done()))))"""
    )


def wait_for_numbers(matrix: Locator) -> None:
    """Until each cell that is an element has its number; how wide the cells are hangs on them."""
    expect(matrix.get_by_role("gridcell").first).to_be_attached()
    expect(matrix.locator("[role=gridcell]:not([data-value])")).to_have_count(0)


def show_exact(page: Page, name: str) -> Locator:
    """A matrix with nine digits in each cell, zoomed in if it was not."""
    frame, matrix = panel(page, name), grid(page, name)
    wait_for_numbers(matrix)
    stand_still(page)
    numbers = frame.get_by_role("button", name="Show the numbers")
    if numbers.count():
        numbers.click()
    frame.get_by_role("button", name="Nine digits").click()
    return matrix


def shown(matrix: Locator) -> Cells:
    """The texts of the cells that are elements now, by row and column."""
    found: list[list[str]] = matrix.evaluate(
        """(matrix) => [...matrix.querySelectorAll('[role=gridcell]')].map((cell) => [
             cell.parentElement.getAttribute('aria-rowindex'),
             cell.getAttribute('aria-colindex'),
             cell.textContent.trim(),
           ])"""
    )
    return {(int(row) - 1, int(column) - 1): text for row, column, text in found}


def read(text: str) -> np.float32:
    """A number as the page writes it."""
    plain = text.replace("\N{MINUS SIGN}", "-").replace("∞", "inf")
    return np.float32(plain)


def agree(matrix: Locator, expected: npt.NDArray[np.generic]) -> int:
    """That each cell that is shown is the trace's number, to the last bit; how many there are."""
    wait_for_numbers(matrix)
    cells = shown(matrix)
    wrong = {
        place: (text, expected[place])
        for place, text in cells.items()
        if not np.array_equal(read(text), np.float32(expected[place]), equal_nan=True)
    }
    assert not wrong
    return len(cells)
