"""Pictures of every screen of the explorer: both languages, light and dark, desktop and phone.

    python benchmarks/screenshots.py                 all of them, into runs/screenshots
    python benchmarks/screenshots.py map attention   some screens
    python benchmarks/screenshots.py --docs          the ones that the documentation shows

Needs Chromium. Written as WebP; one that is larger than 150 kB is an error.
"""

from __future__ import annotations

import argparse
import io
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from PIL import Image
from playwright.sync_api import Browser, Locator, Page, sync_playwright

from benchmarks.chromium import chromium
from glassformer.explorer.api import create_api
from glassformer.explorer.open_traces import OpenTrace
from glassformer.explorer.server import prepare
from glassformer.explorer.state import State
from glassformer.explorer.training_watch import WatchedRun
from glassformer.tracing import trace

ROOT = Path(__file__).parents[1]
EVERY = ROOT / "runs" / "screenshots"
DOCS = ROOT / "docs" / "screenshots"
MOST_BYTES = 150_000
PATIENCE_MS = 180_000

DE = "#/en-de?text=A dog runs through the snow."
SCORES = "encoder.blocks.0.attention.scores"
TOY = f"#/toy?text=I am not happy&step={SCORES}"
SCREENS = {
    "start": "#/",
    "tour": "#/",
    "toy": f"{TOY}&cell=0,0,3,2",
    "equation": f"{DE}&step={SCORES}&cell=0,1,2,3",
    "cross": f"{DE}&step=decoder.blocks.1.cross_attention.weights",
    "review": "#/imdb?text=A wonderful film, beautifully shot and moving.",
    "shakespeare": "#/shakespeare?text=To be, or not to",
    "chinese": "#/en-zh?text=Where is the station?&step=decoder.blocks.1.attention.weights",
    "edit": f"{TOY}&cell=0,0,3,2&edits={SCORES}[0,0,3,2]=-4",
    "slider": f"{TOY}&cell=0,0,3,2",
    "menu": f"{TOY}&cell=0,0,3,2",
    "unknown": "#/toy?text=I am not glad",
    "attention": f"{DE}&view=attention",
    "head": f"{DE}&view=attention&step=decoder.blocks.1.cross_attention.weights&lead=0,2",
    "flat": "#/imdb?text=A wonderful film, beautifully shot and moving.&view=attention",
    "decoding": f"{DE}&view=decoding",
    "decoding-why": f"{DE}&view=decoding",
    "map": f"{DE}&view=map",
    "map-toy": "#/toy?text=I am not happy&view=map",
    "map-block": f"{DE}&view=map",
    "map-part": f"{DE}&view=map",
    "map-list": f"{DE}&view=map",
    "words": f"{DE}&view=experiments",
    "compare": f"{DE}&view=experiments&tab=compare&other=A cat runs through the snow.",
    "compare-step": f"{DE}&view=experiments&tab=compare&other=A cat runs through the snow.",
    "sweep": f"{DE}&view=experiments&tab=sweep",
    "lens": "#/shakespeare?text=To be, or not to&view=experiments&tab=lens",
    "parts": f"{TOY}&view=experiments&tab=parts",
    "claims": "#/claims",
    "claim": "#/claims/C74",
    "audits": "#/audit",
    "audit": "#/audit/by-hand",
    "audit-file": "#/audit",
    "lessons": "#/lesson",
    "lesson": "#/lesson/illustrated/6",
    "run": f"{DE}&view=walk",
    "export": TOY,
    "playlist": TOY,
    "keys": TOY,
    "error": "#/tyo?text=hello",
    "too-long": "#/toy?text=" + "happy " * 50,
    "module": "#/trace/{module}",
    "module-map": "#/trace/{module}?view=map",
    "gpt2": "#/trace/{gpt2}",
    "gpt2-map": "#/trace/{gpt2}?view=map",
    "gpt2-attention": "#/trace/{gpt2}?view=attention",
    "saved": "{saved}",
    "no-training": "#/training",
    "training": "#/training",
    "training-runs": "#/training",
    "lecture": f"{TOY}&cell=0,0,3,2&lecture=1",
    "lecture-equation": f"{DE}&step={SCORES}&cell=0,1,2,3&lecture=1",
    "lecture-map": f"{DE}&view=map&lecture=1",
    "lecture-attention": f"{DE}&view=attention&lecture=1",
    "lecture-lesson": "#/lesson/illustrated/6?lecture=1",
    "lecture-playlist": f"{TOY}&cell=0,0,3,2",
}
"""Links; `{module}` and `{gpt2}` are traces of modules, `{saved}` is the file of a saved page."""
OF_RUN = ("training", "training-runs")
TRAINING = ["--loop.steps=200", "--loop.evaluate_every=25", "--loop.log_every=5"]
RATES = (0.0003, 0.003, 0.001)
"""Of the runs of one folder; the last one is shown."""
SIZES = {"desktop": (1440, 900), "phone": (390, 844)}
HALL = {"hall": (1920, 1080)}
"""A projector, for lecture mode alone."""


@dataclass(frozen=True)
class Shot:
    """One picture."""

    screen: str
    language: str
    theme: str
    size: str

    @property
    def name(self) -> str:
        return f"{self.screen}-{self.language}-{self.theme}-{self.size}.webp"


FOR_DOCS = [
    Shot("start", "en", "light", "desktop"),
    Shot("start", "zh", "light", "desktop"),
    Shot("map", "en", "light", "desktop"),
    Shot("equation", "en", "light", "desktop"),
    Shot("equation", "zh", "dark", "desktop"),
    Shot("toy", "en", "light", "phone"),
    Shot("edit", "en", "light", "desktop"),
    Shot("attention", "en", "light", "desktop"),
    Shot("attention", "zh", "dark", "phone"),
    Shot("decoding", "en", "dark", "desktop"),
    Shot("lesson", "zh", "light", "desktop"),
    Shot("lesson", "en", "light", "phone"),
    Shot("shakespeare", "en", "dark", "desktop"),
    Shot("export", "en", "light", "desktop"),
    Shot("training", "zh", "light", "desktop"),
    Shot("claim", "en", "light", "desktop"),
    Shot("audit", "zh", "light", "desktop"),
    Shot("lecture", "en", "light", "hall"),
    Shot("lecture-map", "zh", "dark", "hall"),
]


@contextmanager
def explorer(watched: Path | None = None, opened: Sequence[OpenTrace] = ()) -> Iterator[str]:
    """A server on a free port, on the shipped models or beside a run; its address."""
    state = State()
    state.watched = None if watched is None else WatchedRun(watched)
    for one in opened:
        state.store.add(one)
    serving = prepare(lambda: create_api(state), port=0)
    serving.start()
    try:
        yield serving.address
    finally:
        serving.stop()


def opened_module() -> OpenTrace:
    """A module of the reader's own."""
    torch.manual_seed(0)
    module = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()
    labels = {"src": ["the", "cat", "sat", "down"]}
    return OpenTrace(trace(module, torch.randn(1, 4, 8), axis_labels=labels), "layer", "module")


def opened_gpt2() -> OpenTrace:
    """A GPT-2 of 12 layers with 12 heads, with random parameters."""
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    config = GPT2Config(vocab_size=500, n_embd=96, bos_token_id=0, eos_token_id=0)
    module = GPT2LMHeadModel(config).eval()
    labels = {
        "input_ids": ["The", "cat", "sat", "on", "the", "mat", "because", "it", "was", "tired", "."]
    }
    ids = torch.randint(1, 500, (1, len(labels["input_ids"])))
    return OpenTrace(trace(module, ids, axis_labels=labels), "GPT-2", "module")


def train(folder: Path) -> Path:
    """A short run to look at, and two others beside it."""
    calm = os.environ | {"OMP_NUM_THREADS": "1"}  # so small a model only waits for more threads
    for rate in RATES:
        command = [sys.executable, "-m", "glassformer", "train", "thrones", *TRAINING]
        told = [f"--optimiser.lr={rate}", "--out", str(folder / f"rate-{rate}")]
        subprocess.run(
            [*command, *told, "--watch"], check=True, stdout=subprocess.DEVNULL, env=calm
        )
    return folder / f"rate-{RATES[-1]}"


def button(page: Page, english: str, chinese: str) -> Locator:
    """The button of this name."""
    return page.get_by_role("button", name=re.compile(f"^({english}|{chinese})$"))


def take_tour(page: Page) -> None:
    """To its third stop."""
    button(page, "Tour: 60 seconds", "60 秒导览").click()
    for _ in range(2):
        settle(page)
        page.keyboard.press("ArrowRight")


def show_playlist(page: Page) -> None:
    page.keyboard.press("Shift+P")
    button(page, "Present", "演示").click()
    page.get_by_role("menuitem").last.click()


def click_map(page: Page, across: float, down: float) -> None:
    """At a place of the picture, as shares of its width and height."""
    box = page.locator("canvas[data-camera]").bounding_box()
    assert box is not None
    page.mouse.click(box["x"] + across * box["width"], box["y"] + down * box["height"])


def zoom_in(page: Page) -> None:
    """Into the first block of the encoder; on a phone it is smaller."""
    size = page.viewport_size
    assert size is not None
    click_map(page, 0.25, 0.82 if size["width"] > 500 else 0.7)


def zoom_twice(page: Page) -> None:
    """Into the attention of that block."""
    zoom_in(page)
    settle(page)
    click_map(page, 0.5, 0.55)


def compare_a_step(page: Page) -> None:
    page.locator("main li button.entry").first.click()


def compare_runs(page: Page) -> None:
    """All runs of the folder in one plot."""
    for box in page.locator("main fieldset input[type=checkbox]").all():
        box.check()


def open_audit(page: Page) -> None:
    """A file, and its first wrong number."""
    shipped = ROOT / "src" / "glassformer" / "audit" / "examples" / "masked.json"
    page.locator("input[type=file]").set_input_files(shipped)
    page.locator("[data-count]").first.wait_for()
    page.keyboard.press("j")


def play_playlist(page: Page) -> None:
    """A lecture of two views with a note."""
    show_playlist(page)
    page.locator("dialog textarea").nth(0).fill("Which word does “happy” attend to, and why?")
    page.locator("dialog textarea").nth(1).fill("“happy”关注哪个词？为什么？")
    button(page, "Start the lecture", "开始讲课").click()


def explain_candidate(page: Page) -> None:
    """Of the third step, the second candidate."""
    page.locator("[data-spot]").nth(17).click()
    page.get_by_role("heading", name=re.compile("^(Why|原因)")).scroll_into_view_if_needed()


ACTIONS: dict[str, Callable[[Page], None]] = {
    "tour": take_tour,
    "slider": lambda page: page.keyboard.press("F2"),
    "menu": lambda page: page.locator("[aria-selected=true][role=gridcell]").click(button="right"),
    "map-block": zoom_in,
    "map-part": zoom_twice,
    "compare-step": compare_a_step,
    "training-runs": compare_runs,
    "audit-file": open_audit,
    "decoding-why": explain_candidate,
    "lecture-playlist": play_playlist,
    "map-list": lambda page: button(page, "As a list", "以列表显示").click(),
    "export": lambda page: button(page, "Export", "导出").click(),
    "playlist": show_playlist,
    "keys": lambda page: page.keyboard.press("?"),
}
"""What is done on a screen before its picture is taken."""


def picture(browser: Browser, address: str, shot: Shot, links: dict[str, str]) -> bytes:
    """Open a screen as someone with this language, theme and size would see it."""
    width, height = (SIZES | HALL)[shot.size]
    is_phone = shot.size == "phone"
    context = browser.new_context(
        viewport={"width": width, "height": height},
        color_scheme="dark" if shot.theme == "dark" else "light",
        locale="zh-CN" if shot.language == "zh" else "en-GB",
        is_mobile=is_phone,
        has_touch=is_phone,
        reduced_motion="reduce",
    )
    page = context.new_page()
    page.set_default_timeout(PATIENCE_MS)  # a claim is measured while one looks
    link = SCREENS[shot.screen].format_map(links)
    page.goto(link if "://" in link else address + link)
    settle(page)
    if shot.screen in ACTIONS:
        ACTIONS[shot.screen](page)
        settle(page)
    raw = page.screenshot()
    context.close()
    return compressed(raw)


def settle(page: Page) -> None:
    """Until nothing is fetched any more, formulas have their letters, the last frame is drawn."""
    page.wait_for_selector("main")
    page.wait_for_load_state("networkidle")
    page.evaluate("document.fonts.ready.then(() => null)")
    page.wait_for_timeout(500)


def compressed(raw: bytes) -> bytes:
    """WebP: exact where that is small enough, else at a quality that keeps small digits legible."""
    image = Image.open(io.BytesIO(raw)).convert("RGB")
    for options in ({"lossless": True}, {"quality": 90}, {"quality": 80}):
        out = io.BytesIO()
        image.save(out, "WEBP", method=6, **options)
        if out.tell() <= MOST_BYTES:
            return out.getvalue()
    raise SystemExit(f"a picture has {out.tell()} bytes: more than {MOST_BYTES}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("screens", nargs="*", choices=[*SCREENS, []], help="all if none is named")
    parser.add_argument("--docs", action="store_true", help="those that the documentation shows")
    given = parser.parse_args()
    shots = [
        Shot(*parts)
        for screen in given.screens or SCREENS
        for parts in product(
            [screen], ("en", "zh"), ("light", "dark"), HALL if "lecture" in screen else SIZES
        )
    ]
    folder = DOCS if given.docs else EVERY
    folder.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium(),
            args=["--no-sandbox", "--disable-background-networking"],
        )
        for shot, data in pictures(browser, FOR_DOCS if given.docs else shots):
            (folder / shot.name).write_bytes(data)
            print(f"{len(data):8,} {folder / shot.name}")
        browser.close()


def pictures(browser: Browser, shots: list[Shot]) -> Iterator[tuple[Shot, bytes]]:
    """The screens of the shipped models, then those of a run that is watched."""
    of_run = [shot for shot in shots if shot.screen in OF_RUN]
    others = [shot for shot in shots if shot.screen not in OF_RUN]
    with TemporaryDirectory() as folder:
        modules = [opened_module()]
        if any(shot.screen.startswith("gpt2") for shot in shots):
            modules.append(opened_gpt2())
        saved = Path(folder) / "saved.html"
        if any(shot.screen == "saved" for shot in shots):
            make = [sys.executable, "-m", "glassformer", "trace", "toy", "I am not happy"]
            subprocess.run([*make, "-o", str(saved)], check=True, capture_output=True)
        links = {"module": modules[0].id, "gpt2": modules[-1].id, "saved": saved.as_uri()}
        with explorer(opened=modules) as address:
            for shot in others:
                yield shot, picture(browser, address, shot, links)
        if of_run:
            with explorer(train(Path(folder) / "runs")) as address:
                for shot in of_run:
                    yield shot, picture(browser, address, shot, links)


if __name__ == "__main__":
    main()
