"""How quick the page is, in real Chromium, on models of real sizes.

    python -m benchmarks.explorer_page

Clicks and edits are those on a Hugging Face GPT-2 of the small size (124 million random parameters,
20 tokens), the rest on the model of `explorer.py` (63 million, 20 + 20 tokens). All times are the
browser's own: from the event that a click or a key press is, to the frame in which the page shows
what was asked for. Each line has the goal beside it.
"""

import gzip
import json
import random
import urllib.request
from pathlib import Path
from statistics import median
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright

import glassformer.explorer
from benchmarks.chromium import chromium
from benchmarks.explorer import base_model, explored

LOADS, CLICKS, EDITS, MATRICES = 7, 100, 10, 60
LOOK_MS = 400
"""A reader looks at a step before clicking: until then it is there with all its pictures."""
GPT2_SMALL = """
import torch, transformers, glassformer
torch.manual_seed(0)
torch.set_num_threads(1)
model = transformers.GPT2LMHeadModel(transformers.GPT2Config()).eval()
ids = torch.randint(3, 50257, (1, 20))
glassformer.explore(model, ids, open_page=False)
"""
STATIC = Path(glassformer.explorer.__file__).parent / "static"
HELP = """
  window.began = 0;
  for (const name of ['click', 'keydown'])
    addEventListener(name, (event) => { window.began = event.timeStamp; }, true);
  // Milliseconds to the first frame in which something is so: until it is shown, the next begins.
  window.until = (isSo, from) => new Promise((done) => {
    const look = () => isSo()
      ? requestAnimationFrame((next) => done(next - (from ?? window.began)))
      : requestAnimationFrame(look);
    look();
  });
  // The same, begun before the click or key, so that nothing stands between it and the frame.
  window.watch = (isSo) => { window.watched = until(isSo); };
  window.heading = () => document.querySelector('aside h2')?.textContent ?? '';
  window.isAt = (module, short) => {
    const textOf = (place) => document.querySelector(place)?.textContent ?? '';
    return textOf('main h2 span') === short && textOf('main .module') === module
      && [...document.querySelectorAll('[role=grid]')]
        .every((grid) => grid.querySelector('[data-value]') !== null);
  };
  // When the numbers of the last matrix were there, before the page does anything with them.
  const {arrayBuffer} = Response.prototype;
  Response.prototype.arrayBuffer = async function () {
    const bytes = await arrayBuffer.call(this);
    window.arrived = performance.now();
    return bytes;
  };
  window.hasNumbers = () => document.querySelector('figure [role=gridcell][data-value]') !== null;
"""


def new_page(browser: Browser) -> Page:
    page = browser.new_context(viewport={"width": 1440, "height": 900}).new_page()
    page.add_init_script(HELP)
    return page


def interactive(browser: Browser, address: str, is_so: str) -> list[float]:
    """From the start of the navigation to a page that can be used, nothing cached."""
    times = []
    for _ in range(LOADS):
        page = new_page(browser)
        page.goto(address, wait_until="commit")
        times.append(page.evaluate(f"until(() => {is_so}, 0)"))
        page.context.close()
    return times


def clicks(page: Page, trace: dict[str, Any], address: str) -> list[float]:
    """A click on a number anywhere in the equation of any step, to its card."""
    chance = random.Random(0)
    steps = [s for s in trace["steps"] if s["role"] == "activation" and 0 not in s["shape"]]
    times = []
    for _ in range(CLICKS):
        go_to(page, address, chance.choice(steps))
        page.wait_for_timeout(LOOK_MS)
        panel = chance.choice(page.get_by_role("grid").all())
        box = panel.bounding_box()
        assert box is not None
        x, y = (chance.uniform(0.05, 0.95) for _ in range(2))
        page.evaluate("watch(() => heading() !== '')")
        panel.click(position={"x": box["width"] * x, "y": box["height"] * y})
        times.append(page.evaluate("window.watched"))
        page.keyboard.press("Escape")
        page.wait_for_function("() => heading() === ''")
    return times


def go_to(page: Page, address: str, step: dict[str, Any]) -> None:
    page.goto(f"{address}?step={step['name']}")
    page.wait_for_function(
        "([module, short]) => isAt(module, short)", arg=[step["module"], step["short"]]
    )


def edits(page: Page, trace: dict[str, Any], address: str) -> list[float]:
    """Enter in the box, to the recomputed numbers and the bar that names the edit."""
    steps = [s for s in trace["steps"] if s["short"] in ("scores", "weights") and not s["is_view"]]
    times = []
    for number in range(EDITS):
        step = steps[number % len(steps)]
        go_to(page, address, step)
        page.get_by_role("grid", name=step["short"], exact=True).locator("[tabindex='0']").press(
            "F2"
        )
        page.get_by_role("textbox", name="New value").fill("0.5")
        page.evaluate("watch(() => document.querySelector('section.bar li') !== null)")
        page.keyboard.press("Enter")
        times.append(page.evaluate("window.watched"))
        page.get_by_role("button", name="Reset").click()
        page.wait_for_function("() => document.querySelector('section.bar li') === null")
    return times


def draws(page: Page, trace: dict[str, Any], address: str) -> tuple[list[float], list[float]]:
    """The first drawing of 512×512 matrices, their colours worked out, all in sight.

    The drawing alone, and from the arrival of the numbers, what the page does before included.
    """
    steps = [s for s in trace["steps"] if s["role"] == "parameter" and s["shape"] == [512, 512]]
    alone: list[float] = []
    since: list[float] = []
    for step in steps[:MATRICES]:
        page.goto("about:blank")
        go_to(page, address, step)
        found: list[list[float]] = page.evaluate(
            """performance.getEntriesByName('glassformer:draw')
               .filter(({detail}) => detail.rows === 512 && detail.columns === 512)
               .map(({startTime, duration}) => [duration, startTime + duration - arrived])"""
        )
        alone.append(max(duration for duration, _ in found))
        since.append(max(after for _, after in found))
    return alone, since


def bundle() -> float:
    """Kilobytes of what the start page names and of the formulas, without fonts, compressed."""
    start = STATIC / "index.html"
    named = start.read_text(encoding="utf-8")
    files = [start, *(path for path in (STATIC / "assets").iterdir() if path.suffix != ".woff2")]
    files = [path for path in files if path.name in named or path == start or "katex" in path.name]
    return sum(len(gzip.compress(path.read_bytes(), mtime=0)) for path in files) / 1e3


def high(times: list[float]) -> float:
    """The 95th percentile."""
    return sorted(times)[int(len(times) * 0.95)]


def trace_at(link: str) -> dict[str, Any]:
    """What the server says of the trace that a link shows."""
    origin, _, rest = link.partition("#")
    with urllib.request.urlopen(f"{origin}api/traces/{rest.rpartition('/')[2]}") as answer:
        return json.load(answer)  # type: ignore[no-any-return]


def main() -> None:
    """Print the table."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        with base_model() as link:
            origin = link.partition("#")[0]
            start = interactive(browser, origin, "document.querySelector('main article') !== null")
            opened = interactive(browser, link, "hasNumbers()")
            drawn, since = draws(new_page(browser), trace_at(link), link)
        with explored(GPT2_SMALL) as link:
            page = new_page(browser)
            trace = trace_at(link)
            to_card = clicks(page, trace, link)
            to_edit = edits(page, trace, link)
        browser.close()
    rows = [
        ("start page interactive", median(start), "ms", f"median of {LOADS}", 1000),
        ("trace of 63 M parameters interactive", median(opened), "ms", f"median of {LOADS}", 1000),
        ("click to card", median(to_card), "ms", f"median of {CLICKS}", 50),
        ("", high(to_card), "ms", f"95th percentile; the slowest {max(to_card):.1f}", 80),
        ("edit to recomputed", median(to_edit), "ms", f"median of {EDITS}", 1000),
        ("", max(to_edit), "ms", "the slowest", 1000),
        ("512 × 512 drawn", median(drawn), "ms", f"median of {len(drawn)}", 16),
        ("", high(drawn), "ms", "95th percentile", 16),
        ("", max(drawn), "ms", "the slowest", 16),
        ("the same since its numbers came", median(since), "ms", f"median of {len(since)}", 16),
        ("", high(since), "ms", "95th percentile", 16),
        ("", max(since), "ms", "the slowest", 16),
        ("start and formulas, gzipped", bundle(), "kB", "without fonts", 250),
    ]
    for name, figure, unit, what, goal in rows:
        verdict = "" if figure < goal else "   missed"
        print(f"{name:36} {figure:7.1f} {unit}  goal {goal:4}  ({what}){verdict}")


if __name__ == "__main__":
    main()
