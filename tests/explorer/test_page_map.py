"""The model as one picture: zoom from the whole to the numbers, play, and the same as a list."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect
from starlette.testclient import TestClient

from glassformer.explorer.open_traces import OpenTrace
from glassformer.explorer.saved_page import page_of
from tests.explorer.access import Axe, assert_accessible, settle
from tests.explorer.conftest import Live, Visit
from tests.explorer.reading import recorded
from tests.tracing.mapped_models import newly_traced

TOY = "#/toy?text=I am not happy&view=map"
DE = "#/en-de?text=A dog runs.&view=map"


@dataclass(frozen=True)
class Shown:
    """The picture on a page, with the places of its boxes on the screen."""

    page: Page
    boxes: list[dict[str, Any]]

    @property
    def camera(self) -> tuple[float, float, float]:
        """The middle of the screen in the picture, and the zoom."""
        told = self.page.locator("canvas").get_attribute("data-camera") or ""
        x, y, zoom = map(float, told.split(","))
        return x, y, zoom

    def at(self, x: float, y: float) -> tuple[float, float]:
        """A point of the picture on the screen."""
        frame = self.page.locator("canvas").bounding_box()
        assert frame is not None
        middle_x, middle_y, zoom = self.camera
        return (
            (x - middle_x) * zoom + frame["x"] + frame["width"] / 2,
            (y - middle_y) * zoom + frame["y"] + frame["height"] / 2,
        )

    def click(self, kind: str, across: float = 0.5, nth: int = 0, name: str | None = None) -> None:
        """Click a box, so far from its left edge."""
        found = [
            box
            for box in self.boxes
            if box["kind"] == kind and (name is None or box["name"] == name)
        ]
        box = found[nth]
        self.page.mouse.click(
            *self.at(box["x"] + across * box["width"], box["y"] + box["height"] / 2)
        )
        settle(self.page)


@pytest.fixture
def show(page: Page, live: Live) -> Any:
    """Open a link to a picture and wait until it is drawn."""

    def go(link: str) -> Shown:
        with page.expect_response("**/map") as answer:
            page.goto(live.address + link)
        expect(page.locator("canvas")).to_have_attribute("data-camera", re.compile(r"^\d"))
        settle(page)
        return Shown(page, answer.value.json()["boxes"])

    return go


def crumbs(page: Page) -> list[str]:
    return (
        page.get_by_role("navigation", name="Where in the model")
        .locator("button")
        .all_inner_texts()
    )


def test_a_click_goes_closer_and_at_last_to_the_numbers(show: Any) -> None:
    shown: Shown = show(DE)
    page, whole = shown.page, shown.camera[2]
    assert crumbs(page) == ["Model"]
    shown.click("feed_forward", across=0.1)
    assert crumbs(page) == ["Model", "Encoder", "Block 1"]
    block = shown.camera[2]
    assert block > 1.5 * whole
    shown.click("step", name="weights")
    expect(page.locator("main h2")).to_contain_text("weights")
    expect(page).to_have_url(re.compile(r"step=encoder\.blocks\.0\.attention\.weights(?!.*view=)"))
    page.go_back()
    expect(page.locator("canvas")).to_be_visible()
    settle(page)
    assert shown.camera[2] == block  # as it was left


def test_on_a_phone_clicks_lead_into_a_block_that_is_lower_than_the_screen(
    show: Any, page: Page
) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    shown: Shown = show("#/en-de?text=A dog runs through the snow.&view=map")
    for _ in range(2):  # its block, then itself
        shown.click("attention", across=0.8)
    assert crumbs(page) == ["Model", "Encoder", "Block 1", "Self-attention"]


def test_a_click_in_the_columns_of_a_part_that_is_near_leads_to_what_it_gives(show: Any) -> None:
    shown: Shown = show(DE)
    page = shown.page
    shown.click("embedding", across=0.8)
    assert crumbs(page) == ["Model", "Encoder", "Embedding"]
    shown.click("embedding", across=0.8)
    expect(page.locator("main h2")).to_contain_text("summed")


def test_the_picture_is_in_the_address_and_old_links_lead_where_they_did(visit: Visit) -> None:
    page = visit("#/toy?text=I am not happy")
    expect(page.get_by_role("tree", name="Steps")).to_be_visible()
    page.get_by_role("button", name="Map", exact=True).click()
    expect(page).to_have_url(re.compile("view=map"))
    expect(page).to_have_title(re.compile("Map"))
    page.reload()
    expect(page.get_by_role("application", name=re.compile("Encoder × 1"))).to_be_visible()


def test_wheel_drag_and_keys_move_the_camera(show: Any) -> None:
    shown: Shown = show(TOY)
    page = shown.page
    x, y, zoom = shown.camera
    pointer = shown.at(100, 100)
    page.mouse.move(*pointer)
    page.mouse.wheel(0, -300)
    settle(page)
    assert shown.camera[2] > 1.4 * zoom
    assert shown.at(100, 100) == pytest.approx(pointer, abs=0.5)  # the point stays under it
    before = shown.camera
    page.mouse.down()
    page.mouse.move(pointer[0] + 60, pointer[1] + 30, steps=3)
    page.mouse.up()
    settle(page)
    assert shown.at(100, 100) == pytest.approx((pointer[0] + 60, pointer[1] + 30), abs=0.5)
    assert shown.camera[2] == before[2]
    page.get_by_role("application").focus()
    page.keyboard.press("0")
    settle(page)
    assert shown.camera == pytest.approx((x, y, zoom), abs=1e-3)
    page.keyboard.press("+")
    page.keyboard.press("ArrowRight")
    settle(page)
    assert shown.camera[2] > zoom
    assert shown.camera[0] > x
    page.get_by_role("button", name="Zoom out").click()
    page.get_by_role("button", name="Show all of it").click()
    settle(page)
    assert shown.camera == pytest.approx((x, y, zoom), abs=1e-3)


def test_play_goes_up_row_by_row(show: Any) -> None:
    page = show(TOY).page
    now = page.get_by_role("status").last
    page.get_by_role("button", name="One row up").click()
    expect(now).to_contain_text("Tokens")
    for name in ("Embedding", "residual stream", "Self-attention", "residual stream"):
        page.get_by_role("button", name="One row up").click()
        expect(now).to_contain_text(name)
    page.get_by_role("button", name="One row down").click()
    expect(now).to_contain_text("Each token collects from the tokens that it attends to.")
    page.get_by_role("button", name="Speed: 1×").click()
    page.get_by_role("button", name="Speed: 2×").click()
    page.get_by_role("button", name="Play", exact=True).click()
    expect(now).to_contain_text("Answer")  # it goes on by itself
    expect(page.get_by_role("button", name="Pause")).to_have_count(0)
    page.get_by_role("button", name="End the play").click()
    expect(page.locator("p.now")).to_have_count(0)


def test_columns_take_the_width_that_a_high_picture_leaves(show: Any, page: Page) -> None:
    page.set_viewport_size({"width": 1440, "height": 900})
    middle, _, zoom = show(DE).camera
    assert 0.75 < 2 * middle * zoom / 1440 < 1


def test_a_head_is_chosen_and_its_weight_explained(show: Any, page: Page) -> None:
    page.set_viewport_size({"width": 1280, "height": 1250})  # hardly wider than the server says
    shown: Shown = show(DE)
    page.get_by_label("Arcs").select_option("head 2")
    settle(page)
    shown.click("attention", across=0.1)
    shown.click("attention", across=0.9)
    attention = next(box for box in shown.boxes if box["kind"] == "attention")
    last = attention["x"] + attention["width"] - 34 - 42  # the lane, half a column
    page.mouse.click(*shown.at(last, attention["y"] + 60))
    card = page.get_by_role("complementary", name="The selected number")
    weights = recorded("en-de", "A dog runs.")["encoder.blocks.0.attention.weights"].value
    key = int(weights[0, 1, 4].argmax())
    expect(card).to_contain_text(f"A[1, 4, {key}]")
    expect(page).to_have_url(re.compile(f"cell=0,1,4,{key}&.*view=map"))


def test_the_list_has_every_box_as_a_button(show: Any) -> None:
    shown: Shown = show(TOY)
    page = shown.page
    page.get_by_role("button", name="As a list").click()
    outline = page.get_by_role("list", name="As a list")
    for name in ("Block 1", "Self-attention"):
        outline.get_by_text(name).click()
    names = {box["name"] for box in shown.boxes if box["kind"] == "step"}
    assert {"scores", "weights", "logits"} <= names
    outline.get_by_role("button", name="Show the numbers of scores").press("Enter")
    expect(page.locator("main h2")).to_contain_text("scores")


def test_the_tree_is_a_drawer_that_leads_to_the_box_of_a_step(show: Any) -> None:
    shown: Shown = show(DE)
    page, zoom = shown.page, shown.camera[2]
    page.get_by_role("button", name="Steps").click()
    page.get_by_role("tree", name="Steps").get_by_text("context", exact=True).first.click()
    expect(page.get_by_role("tree", name="Steps")).to_have_count(0)
    settle(page)
    assert shown.camera[2] > 1.5 * zoom
    expect(page).to_have_url(re.compile(r"step=encoder\.blocks\.0\.attention\.context.*view=map"))


@pytest.mark.parametrize("link", [TOY, f"{DE}&lang=zh"])
def test_the_picture_is_accessible(show: Any, axe: Axe, link: str) -> None:
    assert_accessible(show(link).page, axe)


def test_a_module_without_towers_is_a_graph(show: Any, live: Live, axe: Axe) -> None:
    opened = OpenTrace(newly_traced("LSTM"), "LSTM", "module")
    live.state.store.add(opened)
    shown: Shown = show(f"#/trace/{opened.id}?view=map")
    page = shown.page
    expect(page.get_by_role("application", name=re.compile("A graph of"))).to_be_visible()
    shown.click("group", name="layer0.t3")
    assert crumbs(page) == ["Model", "layer0.t3"]
    shown.click("step", name="layer0.t3.cell")
    expect(page.locator("main h2")).to_contain_text("layer0.t3.cell")


def test_the_start_page_shows_the_toys_picture_and_leads_into_it(visit: Visit, axe: Axe) -> None:
    page = visit("")
    expect(page.get_by_role("img", name=re.compile("Encoder × 1"))).to_be_visible()
    page.get_by_role("button", name="Open this map").click()
    expect(page).to_have_url(re.compile(r"#/toy\?text=I\+am\+not\+happy.*view=map"))
    expect(page.get_by_role("application")).to_be_visible()


def test_a_saved_page_has_the_picture(page: Page, tmp_path: Path, origins: set[str]) -> None:
    origins.add("")  # a file has none
    run = recorded("toy", "I am not happy")
    saved = tmp_path / "run.html"
    opened = OpenTrace(run, "toy", "module")
    saved.write_text(page_of(opened, [run["logits"]]), encoding="utf-8")
    page.goto(f"{saved.as_uri()}#/?view=map")
    page.get_by_role("button", name="Map", exact=True).click()
    expect(page.locator("canvas")).to_be_visible()
    page.get_by_role("button", name="As a list").click()
    page.get_by_text("Output head", exact=True).click()
    page.get_by_role("button", name="Show the numbers of logits").click()
    expect(page.locator("main h2")).to_contain_text("logits")


def test_the_map_of_the_api(client: TestClient) -> None:
    made = client.post("/api/traces", json={"model": "toy", "text": "I am not happy"}).json()
    found = client.get(f"/api/traces/{made['id']}/map").json()
    assert [tower["texts"] for tower in found["columns"]] == [["I", "am", "not", "happy"]]
    steps = {box["step"] for box in found["boxes"] if box["step"] is not None}
    assert steps <= set(range(len(made["steps"])))
    (arcs,) = found["arcs"]
    assert (arcs["weights"], arcs["n_heads"]) == (made["attention"][0]["weights"], 1)
    assert client.get("/api/traces/none/map").status_code == 410
