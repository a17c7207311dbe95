"""Finished runs on the page (`explore --runs`): numbers that open, several runs, a film."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pytest
from playwright.sync_api import Page, expect

from glassformer.cli import run
from glassformer.errors import ConfigError, TrainingError, UnknownNameError
from glassformer.explorer.api import create_api
from glassformer.explorer.overview import describe
from glassformer.explorer.panels import Window
from glassformer.explorer.server import prepare
from glassformer.explorer.state import State
from glassformer.explorer.training_watch import WatchedRun
from glassformer.training.snapshots import newest_run, read_attention, read_watch
from tests.explorer.access import Axe, assert_accessible


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs of another seed each, side by side."""
    made = tmp_path_factory.mktemp("runs")
    settings = {"watch": "true", "steps": 60, "evaluate_every": 20, "log_every": 10}
    for seed in (1, 2):
        options = {**settings, "seed": seed}
        pairs = [part for name, value in options.items() for part in (f"--loop.{name}", str(value))]
        assert run(["train", "thrones", "--out", str(made / f"seed-{seed}"), *pairs]) == 0
    return made


@pytest.fixture
def address(folder: Path, origins: set[str]) -> Iterator[str]:
    state = State("toy")
    state.watched = WatchedRun(folder / "seed-1")
    serving = prepare(lambda: create_api(state), port=0)
    serving.start()
    origins.add(urlsplit(serving.address).netloc)
    yield f"{serving.address}#/training"
    serving.stop()


def test_a_snapshot_is_traced_with_the_weights_it_shows(folder: Path) -> None:
    watched = WatchedRun(folder / "seed-1")
    assert watched.info(0).models == watched.info(0).snapshots == [0, 20, 40, 60]
    for update in (0, 40):
        opened = watched.trace(update)
        sample = read_watch(folder / "seed-1").sample
        assert opened.loaded is not None and sample is not None
        special = opened.loaded.reader.special.silent
        words = [id_ for id_ in sample.inputs[0] if id_ not in special]
        assert opened.loaded.reader.encode(opened.text) == words
        answer = describe(opened).answer
        assert (answer.n_tokens, answer.n_unknown) == (len(words), 0)
        for one in describe(opened).attention:
            kept = read_attention(folder / "seed-1", update, one.part)[one.layer]
            step = opened.step(one.weights)
            heads = [Window(step, None, (0, h), None, None) for h in range(one.n_heads)]
            traced = np.stack([head.numbers(step.view) for head in heads])
            assert np.abs(traced - kept).max() < 1e-5  # float32, fused and written out
    with pytest.raises(TrainingError, match="has no model of step 7"):
        watched.trace(7)


def test_only_runs_of_the_folder_are_read(folder: Path) -> None:
    watched = WatchedRun(folder / "seed-1")
    assert watched.info(0).runs == ["seed-2"]
    assert len(watched.other("seed-2").metrics) > 5
    for name in ("../seed-1", "seed-1", "/etc", ""):
        with pytest.raises(UnknownNameError):
            watched.other(name)


def test_the_newest_run_of_a_folder_is_shown(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder / "seed-1")
    assert WatchedRun(newest_run(Path())).info(0).runs == ["seed-2"]
    assert newest_run(folder) == folder / "seed-2"
    assert newest_run(folder / "seed-1") == folder / "seed-1"
    with pytest.raises(ConfigError, match="holds no training run"):
        newest_run(tmp_path)


def test_a_weight_opens_as_a_cell_of_a_trace(page: Page, address: str, folder: Path) -> None:
    page.goto(address)
    picture = page.locator("[data-update='60']")
    picture.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    kept = read_attention(folder / "seed-1", 60, "encoder")[0, 0]
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"#/trace/.*cell=0,0,1,\d"))
    column = int(re.findall(r"cell=0,0,1,(\d)", page.url)[0])
    shown = f"{kept[1, column]:.3g}"[:4]
    expect(page.locator("aside, [role=complementary]").first).to_contain_text(shown)


def test_several_runs_share_a_plot_and_the_film_is_stepped(
    page: Page, address: str, axe: Axe
) -> None:
    page.goto(address)
    expect(page.locator("[data-curve=loss]")).to_be_visible()
    page.get_by_label("seed-2").check()
    other = page.locator("[data-curve='run:seed-2']").first
    expect(other).to_be_visible()
    before = other.get_attribute("d")
    page.get_by_label("logarithmic loss axis").check()
    expect(other).not_to_have_attribute("d", before or "")
    page.get_by_role("button", name="Previous snapshot").click()
    expect(page.locator("[data-update='40']")).to_be_visible()
    page.get_by_role("button", name="Next snapshot").click()
    expect(page.locator("[data-update='60']")).to_be_visible()
    # Motion is not wanted here: there is no button that plays.
    expect(page.get_by_role("button", name="Play")).to_have_count(0)
    assert_accessible(page, axe)
