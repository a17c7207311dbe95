"""`train --watch` as its users have it: a run in its own process, watched in Chromium."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import BrowserContext, Page, expect

from glassformer.colours import Scale
from glassformer.training.snapshots import read_attention
from tests.explorer.access import Axe, assert_accessible
from tests.explorer.conftest import PATIENCE
from tests.explorer.reading import pixels_of

STEPS = 240
PROGRAM = """
from glassformer.__main__ import main
from glassformer.explorer import training_watch

# A browser on a busy machine takes longer.
training_watch._FAREWELL_S, training_watch._QUIET_S = 60.0, 5.0
main()
"""


@pytest.fixture
def run(tmp_path: Path, context: BrowserContext) -> Iterator[tuple[Path, str]]:
    """A run that learns one pair by heart, and the address of its page; its browser waits."""
    folder = tmp_path / "run"
    settings = {"steps": STEPS, "evaluate_every": 40, "log_every": 10}
    command = [sys.executable, "-c", PROGRAM, "train", "thrones", "--out", str(folder)]
    command += ["--watch", *(f"--loop.{name}={value}" for name, value in settings.items())]
    process = subprocess.Popen(
        command, env=os.environ | {"OMP_NUM_THREADS": "1"}, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stderr is not None
    for line in process.stderr:
        if found := re.search(r"http://127\.0\.0\.1:\d+/#/training", line):
            break
    else:
        pytest.fail(f"no address was printed; the run ended with {process.wait()}")
    yield folder, found[0]
    rest, _ = process.communicate(timeout=120)
    assert process.returncode == 0
    assert json.loads(rest)["steps"] == STEPS


def number(text: str) -> float:
    return float(text.replace("−", "-").replace(",", ""))


def picture(page: Page) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    return pixels_of(page.locator("[data-update] canvas"))[..., :3]


def test_a_run_is_watched_from_its_first_update_to_its_end(
    run: tuple[Path, str], context: BrowserContext, axe: Axe
) -> None:
    folder, address = run
    page = context.new_page()
    page.set_default_timeout(PATIENCE)
    failures: list[str] = []
    page.on("pageerror", lambda error: failures.append(str(error)))
    page.goto(address)
    # The run imports and prepares in a process of its own: on a busy machine that takes a while.
    expect(page.get_by_role("heading", name="Training thrones")).to_be_visible(timeout=60_000)
    expect(page.locator("[data-curve=loss]")).to_be_visible()
    expect(page.locator("[data-state]")).to_have_text("finished", timeout=60_000)

    lines = (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    records = [json.loads(line) for line in lines]
    losses = [record["loss"] for record in records if "loss" in record]
    expect(page.locator("[data-fact=update]")).to_have_text(f"{STEPS} of {STEPS}")
    shown = number(page.locator("[data-fact=loss]").inner_text())
    assert shown == pytest.approx(losses[-1], rel=1e-3)
    curve = page.locator("[data-curve=loss]").get_attribute("d") or ""
    assert len(re.findall("[ML]", curve)) == len(losses)

    # The run and its server are gone; what was fetched can still be looked at.
    slider = page.get_by_role("slider", name="Snapshot")
    pictures = []
    for place, update in ((0, 0), (STEPS // 40, STEPS)):
        slider.fill(str(place))
        expect(page.locator("[data-update]")).to_have_attribute("data-update", str(update))
        expected = [
            [Scale("probability").colour(float(x)) for x in row]
            for row in read_attention(folder, update, "encoder")[0, 0]
        ]
        pictures.append(picture(page))
        assert np.abs(pictures[-1] - np.array(expected)).max() <= 3
    assert np.abs(pictures[0] - pictures[1]).max() > 20, "attention did not change"
    assert_accessible(page, axe)
    assert failures == []
