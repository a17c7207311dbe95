"""The short film at the top of the README: map → equation → card → slider, on the toy model.

    python -m benchmarks.film                      docs/screenshots/film.webp

Needs Chromium. Written as an animated WebP. The page's clock is stopped and moved on by one frame
per picture, so the film does not depend on the speed of the machine.
"""

from __future__ import annotations

import argparse
import io
import re
from pathlib import Path

from PIL import Image
from playwright.sync_api import Locator, Page, ViewportSize, sync_playwright

from benchmarks.chromium import chromium
from benchmarks.screenshots import DOCS, explorer

SIZE: ViewportSize = {"width": 1366, "height": 800}
FRAME_MS = 100
MOST_BYTES = 3_000_000
TOY = "#/toy?text=I am not happy"
MAP = f"{TOY}&view=map"
WEIGHTS = "encoder.blocks.0.attention.weights"
SCORES = "encoder.blocks.0.attention.scores"

POINTER = """() => {
  const dot = document.createElement('div');
  dot.id = 'film-pointer';
  dot.style.cssText = `position:fixed; z-index:9999; width:26px; height:26px; margin:-13px;
    border-radius:50%; background:#d8432266; border:2px solid #d84322; pointer-events:none`;
  document.body.append(dot);
  addEventListener('mousemove', (e) => {
    dot.style.left = `${e.clientX}px`; dot.style.top = `${e.clientY}px`; }, true);
}"""


class Film:
    """Frames of a page whose time this class moves on."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.frames: list[Image.Image] = []
        self.durations: list[int] = []
        self.pointer = (SIZE["width"] / 2, SIZE["height"] * 0.8)

    def take(self, ms: int = FRAME_MS) -> None:
        """A picture, shown for so long; one that changes nothing lengthens the one before."""
        frame = Image.open(io.BytesIO(self.page.screenshot())).convert("RGB")
        if self.frames and self.frames[-1].tobytes() == frame.tobytes():
            self.durations[-1] += ms
            return
        self.frames.append(frame)
        self.durations.append(ms)

    def run(self, ms: int) -> None:
        """Let time pass on the page."""
        for _ in range(ms // FRAME_MS):
            self.page.clock.run_for(FRAME_MS)
            self.take()

    def settle(self) -> None:
        """Until nothing is fetched, without a picture."""
        self.page.wait_for_load_state("networkidle")
        self.page.clock.run_for(1500)
        self.page.wait_for_load_state("networkidle")

    def move(self, x: float, y: float, steps: int = 7) -> None:
        """The pointer goes there, slower at both ends."""
        x0, y0 = self.pointer
        for step in range(1, steps + 1):
            share = step / steps
            eased = share * share * (3 - 2 * share)
            self.page.mouse.move(x0 + (x - x0) * eased, y0 + (y - y0) * eased)
            self.page.clock.run_for(FRAME_MS)
            self.take()
        self.pointer = (x, y)

    def click(self, target: Locator) -> None:
        box = target.bounding_box()
        assert box is not None
        self.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        self.page.mouse.down()
        self.page.mouse.up()

    def save(self, path: Path) -> None:
        for quality in (82, 74, 66):
            self.frames[0].save(
                path,
                save_all=True,
                append_images=self.frames[1:],
                duration=self.durations,
                loop=0,
                quality=quality,
                method=6,
            )
            if path.stat().st_size <= MOST_BYTES:
                return
        raise SystemExit(f"{path}: {path.stat().st_size:,} bytes, more than {MOST_BYTES:,}")


def shoot(page: Page, address: str) -> Film:
    """The scenes, in order."""
    film = Film(page)
    page.goto(address + MAP)
    for scene in (_map, _equation, _card, _slider):
        scene(film)
    return film


def _map(film: Film) -> None:
    film.page.wait_for_selector("canvas[data-camera]")
    film.settle()
    film.page.evaluate(POINTER)
    film.page.mouse.move(*film.pointer)
    film.run(800)
    film.click(film.page.get_by_role("button", name="Play", exact=True))
    film.run(7600)


def _equation(film: Film) -> None:
    film.page.evaluate(f"location.hash = '{TOY}&step={WEIGHTS}'")
    film.page.wait_for_selector("main h2:has-text('weights')")
    film.settle()
    film.run(1500)


def _card(film: Film) -> None:
    film.click(_cell(film.page))
    film.page.wait_for_selector("aside, [role=complementary]")
    film.settle()
    film.run(3000)


def _slider(film: Film) -> None:
    """Drag the score of “not” down: the answer turns."""
    film.page.evaluate(f"location.hash = '{TOY}&step={SCORES}&cell=0,0,3,2'")
    film.page.wait_for_selector("main h2:has-text('scores')")
    film.settle()
    film.run(1000)
    film.page.keyboard.press("F2")
    slider = film.page.get_by_role("slider")
    slider.wait_for()
    film.settle()
    box = slider.bounding_box()
    assert box is not None
    height = box["y"] + box["height"] / 2
    film.move(box["x"] + 0.65 * box["width"], height)  # where the 6 is, between −20 and 20
    film.page.mouse.down()
    for percent in range(64, 43, -1):
        film.page.mouse.move(box["x"] + percent / 100 * box["width"], height)
        film.page.wait_for_load_state("networkidle")
        film.run(FRAME_MS)
    film.page.mouse.up()
    film.settle()
    film.run(1200)
    film.page.keyboard.press("Escape")
    film.settle()
    film.run(3000)


def _cell(page: Page) -> Locator:
    """How much “happy” attends to “not”."""
    return page.get_by_role("gridcell", name=re.compile("happy.*not.*0.99")).last


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("-o", "--output", type=Path, default=DOCS / "film.webp")
    given = parser.parse_args()
    with sync_playwright() as playwright, explorer() as address:
        browser = playwright.chromium.launch(
            executable_path=chromium(),
            args=["--no-sandbox", "--disable-background-networking"],
        )
        page = browser.new_context(viewport=SIZE, locale="en-GB").new_page()
        page.clock.install()
        film = shoot(page, address)
        browser.close()
    film.save(given.output)
    seconds = sum(film.durations) / 1000
    print(
        f"{given.output}: {seconds:.0f} s, {len(film.frames)} frames, "
        f"{given.output.stat().st_size:,} bytes"
    )


if __name__ == "__main__":
    main()
