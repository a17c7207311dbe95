"""Lecture mode: large type and nothing else, a playlist stepped by a clicker, pictures as files."""

from __future__ import annotations

import json
import re
import struct
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from playwright.sync_api import Download, Page, expect
from starlette.testclient import TestClient

from tests.explorer.access import Axe, assert_clean, settle
from tests.explorer.conftest import Live, Visit

TOY = "#/toy?text=I am not happy"
CELL = f"{TOY}&step=encoder.blocks.0.attention.scores&cell=0,0,3,2"
DE = "#/en-de?text=A dog runs."
VIEWS = {
    "equation": CELL,
    "model": f"{DE}&view=map",
    "attention": f"{DE}&view=attention&step=encoder.blocks.0.attention.weights&cell=0,1,2,3",
    "lesson": "#/lesson/illustrated/6?",
    "decoding": f"{DE}&view=decoding",
    "run": f"{TOY}&view=walk&at=3",
}
LONGER = "#/en-de?text=A dog runs through the snow."
SCREENS = (1920, 1080), (960, 540)
"""A projector, and a projector with the page at 200 %."""
SVG = "{http://www.w3.org/2000/svg}"
TEXT_SIZES = """() => {
  const sizes = [];
  const walker = document.createTreeWalker(document.querySelector('.page'), NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const element = node.parentElement;
    if (node.data.trim() === '') continue;
    if (element.closest('.hidden-visually, nav.steps, .katex, [role=img]')) continue;
    if (!element.checkVisibility({ opacityProperty: true, visibilityProperty: true })) continue;
    const size = parseFloat(getComputedStyle(element).fontSize) * element.currentCSSZoom;
    sizes.push([size, node.data.trim().slice(0, 40)]);
  }
  return sizes;
}"""


def lecture(visit: Visit, link: str, language: str = "en") -> Page:
    """A view in lecture mode, by its link."""
    page = visit(f"{link}&lecture=1{'&lang=zh' if language == 'zh' else ''}")
    settle(page)
    return page


def pin(page: Page, link: str, live: Live) -> None:
    """Open a view and pin it with the key."""
    page.goto(live.address + link)
    page.locator("main").wait_for()
    if "lesson" in link:
        expect(page.get_by_role("heading", name="Scaling the scores")).to_be_visible()
    settle(page)
    before = pinned(page)
    page.keyboard.press("Shift+P")
    expect(page.get_by_text(f"view {before + 1} of the playlist")).to_be_attached()


def pinned(page: Page) -> int:
    kept = page.evaluate("localStorage.getItem('glassformer.playlist')")
    return 0 if kept is None else len(json.loads(kept)["views"])


def open_playlist(page: Page) -> Any:
    page.get_by_role("button", name="Present").click()
    page.get_by_role("menuitem", name="Playlist (").click()
    dialog = page.get_by_role("dialog", name="Playlist")
    expect(dialog).to_be_visible()
    return dialog


def three_views(page: Page, live: Live) -> None:
    for link in (CELL, f"{DE}&view=map", "#/lesson/illustrated/6"):
        pin(page, link, live)


def titles(page: Page) -> list[str]:
    fields = page.get_by_role("textbox", name=re.compile("^Title of view")).all()
    return [field.input_value() for field in fields]


# --- the mode ---


@pytest.mark.parametrize("view", VIEWS)
def test_no_text_is_smaller_than_24_px(visit: Visit, view: str) -> None:
    page = visit(VIEWS[view] + "&lecture=1")
    for width, height in SCREENS:
        page.set_viewport_size({"width": width, "height": height})
        settle(page)
        sizes = page.evaluate(TEXT_SIZES)
        if view != "model":  # that one is a canvas
            assert len(sizes) > 3
        small = [one for one in sizes if one[0] < 24]
        assert not small, width
        for part in ("banner", "tree", "contentinfo"):
            expect(page.get_by_role(part)).to_have_count(0)


def test_the_result_of_an_equation_shows_all_its_rows(visit: Visit) -> None:
    """Nobody scrolls on a projector: what it is made from is lower instead, with its tokens."""
    page = visit("#/toy")
    page.set_viewport_size({"width": 1920, "height": 1080})
    page = lecture(visit, f"{LONGER}&step=encoder.blocks.0.attention.scores")
    figures = page.locator(".parts figure")
    rows = figures.last.locator(".scroller")
    assert rows.evaluate("one => one.scrollHeight <= one.clientHeight")
    expect(figures.last.get_by_role("gridcell")).to_have_count(64)
    expect(figures.first.locator(".beside")).to_contain_text("dog")


def test_a_key_and_a_button_enter_and_escape_leaves(visit: Visit) -> None:
    page = visit(TOY)
    settle(page)
    page.keyboard.press("p")
    expect(page.get_by_role("banner")).to_have_count(0)
    expect(page).to_have_url(re.compile("lecture=1"))
    expect(page.get_by_text("Lecture mode is on.")).to_be_attached()
    expect(page.locator("main")).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.get_by_role("banner")).to_be_visible()
    expect(page).not_to_have_url(re.compile("lecture"))
    present = page.get_by_role("button", name="Present")
    expect(present).to_be_focused()
    page.keyboard.press("Enter")
    page.keyboard.press("Enter")  # the first of its menu
    expect(page.get_by_role("banner")).to_have_count(0)
    page.get_by_role("button", name="Leave the lecture").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("banner")).to_be_visible()


def test_a_link_opens_it_and_escape_closes_the_card_first(visit: Visit) -> None:
    page = lecture(visit, CELL)
    card = page.get_by_role("complementary", name="The selected number")
    expect(card).to_contain_text("S[3, 2]")
    page.keyboard.press("Escape")
    expect(card).to_have_count(0)
    expect(page.get_by_role("banner")).to_have_count(0)
    page.keyboard.press("Escape")
    expect(page.get_by_role("banner")).to_be_visible()


@pytest.mark.parametrize("screen", SCREENS)
def test_the_card_lies_beside_its_cell_which_is_lit(visit: Visit, screen: tuple[int, int]) -> None:
    page = lecture(visit, CELL)
    page.set_viewport_size({"width": screen[0], "height": screen[1]})
    settle(page)
    card = page.get_by_role("complementary", name="The selected number").bounding_box()
    cell = page.locator(".outline.selected").bounding_box()
    assert card is not None
    assert cell is not None
    apart_x = card["x"] >= cell["x"] + cell["width"] or card["x"] + card["width"] <= cell["x"]
    apart_y = card["y"] >= cell["y"] + cell["height"] or card["y"] + card["height"] <= cell["y"]
    assert apart_x or apart_y
    scores = page.get_by_role("grid", name="scores")
    expect(scores.locator(".dim")).to_have_count(16 - 7)  # but its row and its column
    # an operand: what the number was made from
    keys = page.get_by_role("grid", name="projected_keys")
    expect(keys.locator(".dim")).to_have_count(4 - 1)
    page.keyboard.press("Escape")
    expect(page.locator(".dim")).to_have_count(0)


LARGE_CELL = (
    "#/en-de?text=A dog runs through the snow.&step=encoder.blocks.0.attention.scores&cell=0,1,2,3"
)


def test_a_narrower_card_leaves_the_matrix_of_its_cell_in_view(visit: Visit) -> None:
    page = lecture(visit, LARGE_CELL)
    page.set_viewport_size({"width": 1920, "height": 1080})
    settle(page)
    card = page.get_by_role("complementary", name="The selected number").bounding_box()
    scores = page.get_by_role("grid", name="scores").bounding_box()
    assert card is not None
    assert scores is not None
    assert card["x"] >= scores["x"] + scores["width"]
    # numbers are dimmed cell by cell, heat maps under a mask that leaves the operand lit
    queries = page.get_by_role("grid", name="projected_queries")
    expect(queries.locator("mask rect")).to_have_count(2)


CONTRASTS = """all => all.map((cell) => {
  const numbers = (text) => text.match(/[\\d.]+/g).map(Number);
  const mixed = (text) => numbers(text).map((n) => (text.startsWith('color') ? 255 * n : n));
  const panel = numbers(getComputedStyle(cell.closest('figure')).backgroundColor);
  const { color, backgroundColor } = getComputedStyle(cell);
  const [red, green, blue, opacity = 1] = numbers(backgroundColor);
  const ground = [red, green, blue].map((n, at) => opacity * n + (1 - opacity) * panel[at]);
  const linear = (n) => ((n /= 255) <= 0.04045 ? n / 12.92 : ((n + 0.055) / 1.055) ** 2.4);
  const light = ([r, g, b]) => 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
  const [low, high] = [light(mixed(color)), light(ground)].sort((a, b) => a - b);
  return (high + 0.05) / (low + 0.05);
})"""


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_dimmed_digits_can_be_read(visit: Visit, page: Page, theme: Any) -> None:
    page.emulate_media(color_scheme=theme)
    dim = lecture(visit, CELL).locator(".dim")
    expect(dim).not_to_have_count(0)
    assert min(dim.evaluate_all(CONTRASTS)) >= 3  # of large type


def test_a_click_finds_the_cell_under_the_pointer(visit: Visit) -> None:
    page = lecture(visit, f"{TOY}&step=encoder.blocks.0.attention.scores")
    cell = page.get_by_role("gridcell", name="scores, row 'am', column 'happy'")
    box = cell.bounding_box()
    assert box is not None
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    expect(page.get_by_role("complementary")).to_contain_text("S[1, 3]")


@pytest.mark.parametrize(
    ("view", "before", "after"),
    [
        ("equation", "scores", "scaled"),
        ("attention", "layer 1, head 2", "layer 1, head 3"),
        ("lesson", "Scaling the scores", "weights"),
    ],
)
def test_a_clicker_steps_in_a_view(visit: Visit, view: str, before: str, after: str) -> None:
    page = lecture(visit, VIEWS[view])
    heading = page.locator("main h2" if view == "equation" else "main h3").first
    expect(heading).to_contain_text(before)
    page.keyboard.press("PageDown")
    expect(heading).to_contain_text(after, ignore_case=True)
    page.keyboard.press("ArrowLeft")
    expect(heading).to_contain_text(before)


def test_a_clicker_leaves_no_card_of_another_step_behind(visit: Visit) -> None:
    page = lecture(visit, CELL)
    card = page.get_by_role("complementary", name="The selected number")
    expect(card).to_be_visible()
    page.keyboard.press("PageDown")
    expect(page.locator("main h2")).to_contain_text("scaled")
    expect(card).to_have_count(0)


def test_a_clicker_sends_the_tokens_up_and_goes_through_a_search(visit: Visit) -> None:
    page = lecture(visit, VIEWS["model"])
    page.keyboard.press("PageDown")
    expect(page.locator("p.now")).to_contain_text("Tokens")
    page.keyboard.press("PageDown")
    expect(page.locator("p.now")).to_contain_text("Embedding")
    page = lecture(visit, VIEWS["decoding"])
    now = page.locator(".head.now")
    expect(now).to_have_text("1")
    page.keyboard.press("PageDown")
    expect(now).to_have_text("2")


def test_in_a_grid_arrows_move_and_a_clicker_steps(visit: Visit) -> None:
    page = lecture(visit, f"{TOY}&step=encoder.blocks.0.attention.scores")
    cell = page.get_by_role("gridcell", name="scores, row 'I', column 'I'")
    cell.focus()
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("gridcell", name="scores, row 'I', column 'am'")).to_be_focused()
    page.keyboard.press("PageDown")
    expect(page.locator("main h2")).to_contain_text("scaled")


@pytest.mark.parametrize("view", VIEWS)
def test_it_is_accessible(visit: Visit, axe: Axe, view: str) -> None:
    """Colours hang on the scheme and names on the language: each is seen once."""
    page = lecture(visit, VIEWS[view])
    assert_clean(page, axe)
    page.emulate_media(color_scheme="dark")
    page = lecture(visit, VIEWS[view], "zh")
    expect(page.locator("html")).to_have_attribute("lang", "zh-CN")
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    assert_clean(page, axe)


def test_full_screen_is_asked_for(visit: Visit) -> None:
    page = lecture(visit, TOY)
    page.evaluate("document.documentElement.requestFullscreen = async () => { asked = true }")
    page.evaluate("globalThis.asked = false")
    page.keyboard.press("f")
    assert page.evaluate("asked")


# --- the playlist ---


def test_views_are_pinned_ordered_named_and_remembered(page: Page, live: Live, axe: Axe) -> None:
    three_views(page, live)
    open_playlist(page)
    assert_clean(page, axe)
    assert titles(page) == [
        "attention scores · I am not happy",
        "Map · A dog runs.",
        "Scaling the scores · Self-attention with three inputs",
    ]
    page.get_by_role("textbox", name="Title of view 1").fill("Who asks whom?")
    page.get_by_role("textbox", name="Note for view 1, English").fill("The query and the key.")
    page.get_by_role("textbox", name="Note for view 1, Chinese").fill("查询与键。")
    down = page.get_by_role("button", name="Move view 1 down")
    down.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Move view 2 down")).to_be_focused()
    page.keyboard.press("Enter")
    assert titles(page)[2] == "Who asks whom?"
    # by the pointer, back to the first place
    handles = page.get_by_role("img", name="Drag to another place")
    handles.nth(2).drag_to(page.get_by_role("dialog").get_by_role("listitem").first)
    assert titles(page)[0] == "Who asks whom?"
    page.get_by_role("button", name="Remove view 2").click()
    expect(page.get_by_role("textbox", name="Title of view 2")).to_be_focused()
    page.reload()
    assert pinned(page) == 2
    open_playlist(page)
    assert titles(page) == [
        "Who asks whom?",
        "Scaling the scores · Self-attention with three inputs",
    ]
    note = page.get_by_role("textbox", name="Note for view 1, Chinese")
    assert note.input_value() == "查询与键。"


def test_a_clicker_steps_through_it_with_notes_and_a_counter(page: Page, live: Live) -> None:
    three_views(page, live)
    open_playlist(page)
    page.get_by_role("textbox", name="Note for view 1, English").fill("Look at the query.")
    page.get_by_role("textbox", name="Note for view 1, Chinese").fill("看查询。")
    page.get_by_role("button", name="Start the lecture").click()
    bar = page.get_by_role("region", name="Lecture", exact=True)
    expect(bar).to_contain_text("Look at the query.")
    expect(bar).to_contain_text("1 / 3")
    expect(page.get_by_role("complementary")).to_contain_text("S[3, 2]")
    page.keyboard.press("PageDown")
    expect(bar).to_contain_text("2 / 3")
    expect(page.get_by_role("application")).to_be_visible()
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("heading", name="Scaling the scores")).to_be_visible()
    expect(bar).to_contain_text("3 / 3")
    page.keyboard.press("PageDown")  # the last one stays
    expect(bar).to_contain_text("3 / 3")
    page.keyboard.press("PageUp")
    page.keyboard.press("PageUp")
    expect(bar).to_contain_text("1 / 3")
    page.reload()  # a link finds its place in the list again
    expect(bar).to_contain_text("1 / 3")
    settle(page)
    sizes = page.evaluate(TEXT_SIZES)
    assert min(sizes)[0] >= 24
    page.go_back()
    expect(bar).to_contain_text("2 / 3")


def test_a_view_that_is_not_in_the_list_has_no_note_of_it(page: Page, live: Live) -> None:
    three_views(page, live)
    open_playlist(page)
    page.get_by_role("button", name="Start the lecture").click()
    bar = page.get_by_role("region", name="Lecture", exact=True)
    expect(bar).to_contain_text("1 / 3")
    page.get_by_role("complementary").get_by_role("button", name="Close").click()
    expect(bar).not_to_contain_text("Not in the list")  # still the same run
    page.evaluate("link => { location.hash = link }", f"{LONGER}&view=map&lecture=1")
    expect(bar).to_contain_text("Not in the list; last shown: 1 / 3")
    page.keyboard.press("PageDown")  # the clicker goes on
    expect(bar).to_contain_text("2 / 3")


def test_a_note_is_in_the_language_of_the_page(page: Page, live: Live) -> None:
    pin(page, CELL, live)
    open_playlist(page)
    page.get_by_role("textbox", name="Note for view 1, English").fill("Look.")
    page.get_by_role("textbox", name="Note for view 1, Chinese").fill("看。")
    page.get_by_role("dialog").get_by_role("button", name="Close").click()
    page.get_by_role("button", name="中文").click()
    page.keyboard.press("p")
    expect(page.get_by_role("region", name="讲课", exact=True)).to_contain_text("看。")


def test_it_is_saved_as_a_file_and_opened_again(page: Page, live: Live, tmp_path: Path) -> None:
    three_views(page, live)
    open_playlist(page)
    with page.expect_download() as waiting:
        page.get_by_role("button", name="Save as a file").click()
    saved = tmp_path / waiting.value.suggested_filename
    waiting.value.save_as(saved)
    kept = json.loads(saved.read_text(encoding="utf-8"))
    assert [view["link"] for view in kept["views"]][1] == (
        "#/en-de?text=A+dog+runs.&step=encoder.blocks.0.attention.scores&view=map"
    )
    before = titles(page)
    page.get_by_role("button", name="Remove all").click()
    assert titles(page) == []
    page.locator("input[type=file]").set_input_files(saved)
    expect(page.get_by_text("3 views opened.")).to_be_attached()
    assert titles(page) == before
    for text, line in [
        ("{", "This file is not a playlist: it is not JSON."),
        ('{"a": 1}', "This file is not a playlist of the explorer."),
        (
            '{"format": "glassformer-playlist", "version": 1, '
            '"views": [{"link": "#/", "title": ""}]}',
            "The link of view 1 in this file does not lead to a view.",
        ),
    ]:
        saved.write_text(text, encoding="utf-8")
        page.locator("input[type=file]").set_input_files(saved)
        expect(page.get_by_role("alert")).to_have_text(line)
        assert titles(page) == before


def test_what_was_removed_comes_back_until_the_list_is_changed(page: Page, live: Live) -> None:
    three_views(page, live)
    dialog = open_playlist(page)
    before = titles(page)
    undo = dialog.get_by_role("button", name="Undo")
    expect(undo).to_have_count(0)
    dialog.get_by_role("button", name="Remove all").click()
    expect(dialog.get_by_text("The playlist is empty now.")).to_be_visible()
    dialog.get_by_role("button", name="Close").click()
    open_playlist(page)
    undo.click()
    assert titles(page) == before
    assert pinned(page) == len(before)
    expect(undo).to_have_count(0)
    dialog.get_by_role("button", name="Remove view 1").first.click()
    assert titles(page) == before[1:]
    undo.click()
    assert titles(page) == before
    dialog.get_by_role("button", name="Remove view 1").first.click()
    dialog.get_by_role("button", name="Pin").click()
    expect(undo).to_have_count(0)


def test_it_is_a_page_of_its_own(
    page: Page, live: Live, tmp_path: Path, origins: set[str], axe: Axe
) -> None:
    origins.add("")  # a file has none
    for link in (CELL, f"{TOY}&view=map", "#/lesson/illustrated/6", f"{DE}&view=experiments"):
        pin(page, link, live)
    open_playlist(page)
    page.get_by_role("textbox", name="Note for view 1, English").fill("Look at the query.")
    with page.expect_download() as waiting:
        page.get_by_role("button", name="Web page (one file)").click()
    expect(page.get_by_text("Not in the page, because they need a server")).to_be_visible()
    saved = tmp_path / "playlist.html"
    waiting.value.save_as(saved)
    page.goto(saved.as_uri())
    expect(page.get_by_role("complementary")).to_contain_text("S[3, 2]")
    page.get_by_role("button", name="Start the lecture (views: 3)").click()
    bar = page.get_by_role("region", name="Lecture", exact=True)
    expect(bar).to_contain_text("Look at the query.")
    expect(bar).to_contain_text("1 / 3")
    assert_clean(page, axe)
    page.keyboard.press("PageDown")
    expect(page.get_by_role("application", name=re.compile("Encoder × 1"))).to_be_visible()
    page.keyboard.press("PageDown")
    expect(page.get_by_role("heading", name="Scaling the scores")).to_be_visible()
    expect(page.get_by_role("alert")).to_have_count(0)
    page.keyboard.press("Escape")
    open_playlist(page)
    expect(page.get_by_role("textbox")).to_have_count(0)  # it can be read, not changed


def test_it_is_printed_with_a_page_for_each_view(page: Page, live: Live) -> None:
    three_views(page, live)
    open_playlist(page)
    page.get_by_role("textbox", name="Note for view 2, English").fill("Two towers.")
    page.evaluate("window.print = () => {}")  # the dialog of the browser
    page.get_by_role("button", name="PDF").click()
    pages = page.locator(".printed-pages section")
    expect(pages).to_have_count(3)
    expect(pages.nth(1)).to_contain_text("Two towers.")
    expect(page.get_by_role("banner")).to_be_visible()  # and the page is as it was
    expect(page).to_have_url(re.compile("#/lesson/illustrated/6$"))
    pdf = page.pdf(prefer_css_page_size=True, print_background=True)
    boxes = re.findall(rb"/MediaBox \[([\d. ]+)\]", pdf)
    assert [[float(side) for side in box.split()] for box in boxes] == [[0, 0, 1440, 810]] * 3
    assert b"/FontFile2" in pdf  # text, not pixels
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    expect(pages).to_have_count(0)


def test_a_card_is_printed_whole(page: Page, live: Live) -> None:
    """Where it is higher than the view, it is made smaller: paper does not scroll."""
    pin(page, f"{DE}&step=encoder.blocks.0.attention.weights&cell=0,1,2,3", live)
    open_playlist(page)
    page.evaluate(
        """() => {
          window.print = () => {};
          window.hidden = [];
          new MutationObserver(() => {
            const card = document.querySelector('aside .body');
            if (card) window.hidden.push(card.scrollHeight - card.clientHeight);
          }).observe(document.body, { attributeFilter: ["style"], subtree: true });
        }"""
    )
    page.get_by_role("button", name="PDF").click()
    expect(page.locator(".printed-pages section")).to_have_count(1)
    hidden = page.evaluate("window.hidden")
    assert min(hidden) <= 0 < max(hidden)
    page.evaluate("dispatchEvent(new Event('afterprint'))")


# --- pictures ---


def saved_picture(page: Page, where: str, kind: str) -> Download:
    page.locator(where).get_by_role("button", name="Save picture").click()
    with page.expect_download() as waiting:
        page.get_by_role("menuitem", name=kind).click()
    return waiting.value


PICTURES = {
    "equation": (CELL, "main", ["scores", "happy", "6", "K"]),
    "card": (CELL, "aside", ["S[3, 2]", "Formula"]),
    "model": (f"{DE}&view=map", "main", ["Encoder", "Decoder", "Self-attention"]),
    "attention": (VIEWS["attention"], "main", ["Encoder, layer 1, head 2", "looks from"]),
}


@pytest.mark.parametrize("which", PICTURES)
def test_a_picture_is_an_svg_of_its_own(
    visit: Visit, tmp_path: Path, which: str, origins: set[str]
) -> None:
    origins.add("")  # a file has none
    link, where, words = PICTURES[which]
    page = visit(link)
    settle(page)
    download = saved_picture(page, where, "SVG")
    saved = tmp_path / download.suggested_filename
    download.save_as(saved)
    root = ElementTree.parse(saved).getroot()
    assert root.tag == f"{SVG}svg"
    written = " ".join("".join(text.itertext()) for text in root.iter(f"{SVG}text"))
    for word in words:
        assert word in written
    assert not list(root.iter(f"{SVG}foreignObject"))
    text = saved.read_text(encoding="utf-8")
    assert not re.findall(r'(?:href="|url\()(?!data:|#)[^")]*', text)
    assert not re.search(r"var\(|rgba\(|color\(|oklab\(", text)  # what other programs cannot read
    page.goto(saved.as_uri())  # and a browser draws it
    assert page.evaluate("document.documentElement.getBBox().width") > 200


@pytest.mark.parametrize("which", ["equation", "model"])
def test_a_picture_is_a_png_of_twice_the_size(visit: Visit, tmp_path: Path, which: str) -> None:
    link, where, _ = PICTURES[which]
    page = visit(link)
    settle(page)
    sizes = []
    for kind in ("SVG", "PNG"):
        download = saved_picture(page, where, kind)
        saved = tmp_path / download.suggested_filename
        download.save_as(saved)
        if kind == "SVG":
            root = ElementTree.parse(saved).getroot()
            sizes.append((float(root.attrib["width"]), float(root.attrib["height"])))
        else:
            head = saved.read_bytes()[:24]
            assert head.startswith(b"\x89PNG")
            sizes.append(struct.unpack(">II", head[16:24]))
    assert sizes[1] == pytest.approx((2 * sizes[0][0], 2 * sizes[0][1]), abs=1)


def test_the_pictures_button_by_keyboard(visit: Visit) -> None:
    page = visit(CELL)
    settle(page)
    page.locator("main").get_by_role("button", name="Save picture").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("menuitem", name="PNG")).to_be_focused()
    page.keyboard.press("ArrowDown")
    with page.expect_download() as waiting:
        page.keyboard.press("Enter")
    assert waiting.value.suggested_filename == "encoder.blocks.0.attention.scores.svg"


def test_the_export_dialog_saves_the_picture_behind_it(visit: Visit) -> None:
    page = visit(CELL)
    settle(page)
    page.get_by_role("button", name="Export").click()
    dialog = page.get_by_role("dialog", name="Export")
    dialog.get_by_role("button", name="Save picture").click()
    with page.expect_download() as waiting:
        page.get_by_role("menuitem", name="SVG").click()
    root = ElementTree.parse(waiting.value.path()).getroot()
    words = " ".join("".join(text.itertext()) for text in root.iter(f"{SVG}text"))
    assert "attention scores" in words


# --- the server's part ---


def test_the_page_of_a_playlist_holds_what_its_views_show(client: TestClient) -> None:
    made = client.post("/api/traces", json={"model": "toy", "text": "I am not happy"}).json()
    numbers = {step["name"]: step["number"] for step in made["steps"]}
    scores = numbers["encoder.blocks.0.attention.scores"]
    wanted = {
        "views": [{"link": "#/trace/saved-0?step=logits", "title": "</script><b>", "note": {}}],
        "traces": [
            {
                "id": made["id"],
                "places": [{"step": scores, "lead": [0, 0], "index": [0, 0, 3, 2]}],
            }
        ],
        "lessons": [{"name": "illustrated"}],
    }
    answer = client.post("/api/playlist", json=wanted)
    assert answer.status_code == 200
    found = re.search(
        r'<script type="application/json" id="data">(.*?)</script>', answer.text, re.DOTALL
    )
    assert found is not None
    data = json.loads(found[1])
    assert data["playlist"][0]["title"] == "</script><b>"
    pinned_place = data["traces"][0]["pinned"][0]
    assert pinned_place["cell"]["card"]["zh"]["cell"]["value"] == 6
    assert pinned_place["equation"]["step"] == scores
    assert data["lessons"][0]["zh"]["language"] == "zh"


@pytest.mark.parametrize(
    ("changed", "status"),
    [
        ({"views": []}, 422),
        ({"views": [{"link": "javascript:alert(1)"}]}, 422),
        ({"views": [{"link": "#/", "title": "x" * 201}]}, 422),
        ({"traces": [{"id": "none"}]}, 410),
        ({"lessons": [{"name": "none"}]}, 404),
        ({"searches": [{"model": "none", "text": "a"}]}, 404),
    ],
)
def test_a_bad_playlist_is_refused(
    client: TestClient, changed: dict[str, Any], status: int
) -> None:
    wanted = {"views": [{"link": "#/trace/saved-0"}], **changed}
    answer = client.post("/api/playlist", json=wanted)
    assert answer.status_code == status
    assert "\n" not in answer.json()["detail"]
