"""How quick the picture of a model is: its layout, and its frames in real Chromium.

    python -m benchmarks.explorer_map

The model is a Hugging Face GPT-2 of 12 layers and 12 heads on 24 tokens, with random parameters.
Layout is everything from the trace to the message. A frame's work is the time of the page's own
code in it; 60 frames per second leave 16.7 ms for that and for the browser's painting.
"""

from __future__ import annotations

import shutil
import time
from itertools import pairwise
from statistics import median, quantiles

import torch
import transformers
from playwright.sync_api import Page, sync_playwright

from glassformer.explorer.api import create_api
from glassformer.explorer.map_info import map_info
from glassformer.explorer.open_traces import OpenTrace
from glassformer.explorer.overview import described
from glassformer.explorer.server import prepare
from glassformer.explorer.state import State
from glassformer.tracing import trace

FRAMES = 120
# Wraps what the page asks the browser for, so that the work of each frame is measured.
WATCH = """
  window.work = []; window.frames = [];
  const ask = window.requestAnimationFrame.bind(window);
  window.requestAnimationFrame = (draw) => ask((now) => {
    const start = performance.now();
    draw(now);
    window.work.push(performance.now() - start);
    window.frames.push(now);
  });
"""


def opened_model() -> OpenTrace:
    config = transformers.GPT2Config(
        n_layer=12, n_head=12, n_embd=384, vocab_size=500, bos_token_id=1, eos_token_id=2
    )
    torch.manual_seed(0)
    model = transformers.GPT2LMHeadModel(config).eval()
    ids = torch.randint(3, 500, (1, 24))
    return OpenTrace(trace(model, input_ids=ids, use_cache=False), "gpt2", "module")


def moves(page: Page, kind: str) -> None:
    """Drag or turn the wheel, an event per frame."""
    page.evaluate("window.work = []; window.frames = []")
    page.mouse.move(700, 500)
    if kind == "pan":
        page.mouse.down()
    for at in range(FRAMES):
        if kind == "pan":
            page.mouse.move(700 + at % 40, 500 - at % 60)
        else:
            page.mouse.wheel(0, -40 if at < FRAMES / 2 else 40)
    if kind == "pan":
        page.mouse.up()
    page.wait_for_timeout(200)


def report(page: Page, what: str) -> None:
    work: list[float] = page.evaluate("window.work")
    frames: list[float] = page.evaluate("window.frames")
    apart = [b - a for a, b in pairwise(frames) if b > a]
    tail = quantiles(work, n=20)[-1]
    print(
        f"{what}: {len(work)} frames, work median {median(work):.1f} ms, 95 % {tail:.1f} ms; "
        f"frames {median(apart):.1f} ms apart (median)"
    )


def main() -> None:
    opened = opened_model()
    described(opened)  # the page asks for this first
    start = time.perf_counter()
    found = map_info(opened)
    took = time.perf_counter() - start
    print(f"layout, 12 layers: {took:.2f} s, {len(found.boxes)} boxes (goal: under 1 s)")
    state = State.of()
    state.store.add(opened)
    serving = prepare(lambda: create_api(state), port=0)
    serving.start()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        page.add_init_script(WATCH)
        page.goto(f"{serving.address}#/trace/{opened.id}?view=map")
        page.locator("canvas").wait_for()
        page.wait_for_load_state("networkidle")
        for kind in ("pan", "zoom"):
            moves(page, kind)
            report(page, f"{kind}, whole model")
        page.mouse.click(640, 700)
        page.wait_for_timeout(1500)
        for kind in ("pan", "zoom"):
            moves(page, kind)
            report(page, f"{kind}, one block")
        browser.close()
    serving.stop()


if __name__ == "__main__":
    main()
