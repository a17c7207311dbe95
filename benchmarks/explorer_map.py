"""How quick the picture of a model is: its layout, and its frames in real Chromium.

    python -m benchmarks.explorer_map

The model is a Hugging Face GPT-2 of 12 layers and 12 heads on 24 tokens, with random parameters.
Layout is everything from the trace to the message. A frame's work is the time of the page's own
code in it; 60 frames per second leave 16.7 ms for that and for the browser's painting.
"""

from __future__ import annotations

import time
from itertools import pairwise
from statistics import median, quantiles

import torch
import transformers
from playwright.sync_api import Page, sync_playwright

from benchmarks.chromium import chromium
from glassformer.explorer.api import create_api
from glassformer.explorer.map_info import map_info
from glassformer.explorer.open_traces import OpenTrace
from glassformer.explorer.overview import described
from glassformer.explorer.server import prepare
from glassformer.explorer.state import State
from glassformer.tracing import trace

FRAMES = 120
GOAL_MS = 1000 / 60
# Wraps what the page asks the browser for, so that the work of each frame is measured; moves come
# from the page itself, one per frame, since those sent from outside wait for the sender.
WATCH = """
  const ask = window.requestAnimationFrame.bind(window);
  const work = [];
  window.requestAnimationFrame = (draw) => ask((now) => {
    const start = performance.now();
    draw(now);
    work.push(performance.now() - start);
  });
  window.moves = async (kind, count) => {
    const canvas = document.querySelector('canvas[data-camera]');
    canvas.setPointerCapture = () => {};
    const at = (name, x, y) => canvas.dispatchEvent(new PointerEvent(name,
      {bubbles: true, clientX: x, clientY: y, pointerId: 1, button: 0}));
    const frames = [];
    if (kind === 'pan') at('pointerdown', 700, 500);
    work.length = 0;
    for (let move = 0; move < count; move++) {
      if (kind === 'pan') at('pointermove', 700 + move % 40, 500 - move % 60);
      else canvas.dispatchEvent(new WheelEvent('wheel', {bubbles: true, cancelable: true,
        clientX: 700, clientY: 500, deltaY: move < count / 2 ? -40 : 40}));
      frames.push(await new Promise(ask));
      await new Promise((done) => setTimeout(done)); // between frames, as a hand's moves
    }
    if (kind === 'pan') at('pointerup', 700, 500);
    return {frames, work};
  };
"""


def opened_model() -> OpenTrace:
    config = transformers.GPT2Config(
        n_layer=12, n_head=12, n_embd=384, vocab_size=500, bos_token_id=1, eos_token_id=2
    )
    torch.manual_seed(0)
    model = transformers.GPT2LMHeadModel(config).eval()
    ids = torch.randint(3, 500, (1, 24))
    return OpenTrace(trace(model, input_ids=ids, use_cache=False), "gpt2", "module")


def report(page: Page, kind: str, what: str) -> None:
    """Drag or turn the wheel, an event per frame."""
    found: dict[str, list[float]] = page.evaluate("args => moves(...args)", [kind, FRAMES])
    work, apart = found["work"], [b - a for a, b in pairwise(found["frames"])]
    late = sum(one > 1.5 * GOAL_MS for one in apart)
    print(
        f"{kind}, {what}: {len(work)} frames, work median {median(work):.1f} ms, "
        f"95 % {quantiles(work, n=20)[-1]:.1f} ms; frames {median(apart):.1f} ms apart (median, "
        f"goal {GOAL_MS:.1f}), {late} of {len(apart)} late"
    )


def main() -> None:
    opened = opened_model()
    described(opened)  # the page asks for this first
    start = time.perf_counter()
    found = map_info(opened)
    took = time.perf_counter() - start
    print(f"layout, 12 layers: {took:.2f} s, {len(found.boxes)} boxes (goal: under 1 s)")
    state = State()
    state.store.add(opened)
    serving = prepare(lambda: create_api(state), port=0)
    serving.start()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        page.add_init_script(WATCH)
        page.goto(f"{serving.address}#/trace/{opened.id}?view=map")
        page.locator("canvas").wait_for()
        page.wait_for_load_state("networkidle")
        for kind in ("pan", "zoom"):
            report(page, kind, "whole model")
        page.mouse.click(640, 700)
        page.wait_for_timeout(1500)
        for kind in ("pan", "zoom"):
            report(page, kind, "one block")
        browser.close()
    serving.stop()


if __name__ == "__main__":
    main()
