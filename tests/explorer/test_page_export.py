"""Files of what is on the screen: the same that the trace writes, in both languages."""

from __future__ import annotations

import io
import json
import re
import zipfile
from pathlib import Path

from playwright.sync_api import Page, expect

from tests.explorer.conftest import Visit

LINK = "#/toy?text=I am not happy&step=encoder.blocks.0.attention.scores"
NAMES = {
    "md": "Markdown",
    "tex": "LaTeX",
    "html": "Web page (one file)",
    "xlsx": "Workbook with live formulas",
    "json": "JSON",
}


def open_dialog(visit: Visit) -> Page:
    page = visit(LINK)
    expect(page.get_by_role("treeitem", selected=True)).to_contain_text("scores")
    page.get_by_role("button", name="Export").click()
    expect(page.get_by_role("dialog", name="Export")).to_be_visible()
    return page


def save(page: Page) -> tuple[str, bytes]:
    with page.expect_download() as waiting:
        page.get_by_role("button", name="Download").click()
    name = waiting.value.suggested_filename
    return name, Path(waiting.value.path()).read_bytes()


def test_each_format_is_a_file_of_its_kind(visit: Visit) -> None:
    page = open_dialog(visit)
    for extension, label in NAMES.items():
        page.get_by_label("Format").select_option(label=label)
        name, data = save(page)
        assert name.endswith(f".{extension}")
        expect(page.get_by_text(re.compile(rf"Saved .*\.{extension} "))).to_be_visible()
        match extension:
            case "xlsx":
                sheets = zipfile.ZipFile(io.BytesIO(data)).namelist()
                assert "xl/workbook.xml" in sheets
            case "json":
                steps = json.dumps(json.loads(data))
                assert "encoder.blocks.0.attention.scores" in steps
            case "html":
                assert data.startswith(b"<!doctype html>")
                assert b'<script type="application/json" id="data">' in data
            case _:
                assert b"scores" in data


def test_the_preview_is_the_file_and_follows_the_choices(visit: Visit) -> None:
    page = open_dialog(visit)
    preview = page.locator("dialog pre")
    expect(preview).to_contain_text("scores")
    expect(preview).not_to_contain_text("feed_forward")
    _, data = save(page)
    assert preview.inner_text().split() == data.decode().split()
    assert "| **happy** | 0 | 0 | 6 | 0 |" in data.decode()
    page.get_by_label("The steps of encoder.blocks.0.attention").check()
    expect(preview).to_contain_text("attention.context")
    page.get_by_label("The whole run").check()
    expect(preview).to_contain_text("feed_forward")
    page.get_by_label("Language").select_option("zh")
    expect(preview).to_contain_text("计算所得")
    page.get_by_label("Format").select_option("tex")
    expect(preview).to_contain_text("\\documentclass")


def test_of_a_lesson_the_step_on_the_screen_is_meant(visit: Visit) -> None:
    page = visit("#/lesson/illustrated/1")
    page.locator("article [role=grid] button").first.click()
    card = page.get_by_role("complementary", name="The selected number")
    expect(card).to_be_visible()
    for _ in range(5):
        page.keyboard.press("j")
    expect(page.get_by_role("heading", name="Scaling the scores")).to_be_visible()
    page.get_by_role("button", name="Export").click()
    dialog = page.get_by_role("dialog", name="Export")
    expect(dialog).to_contain_text("This step and what it reads: scaled")
    expect(dialog).not_to_contain_text("lesson illustrated")


def test_the_keyboard_opens_and_closes_it(visit: Visit) -> None:
    page = visit(LINK)
    button = page.get_by_role("button", name="Export")
    button.focus()
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog", name="Export")
    expect(dialog).to_be_visible()
    assert page.evaluate("document.activeElement.closest('dialog') !== null")
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    expect(button).to_be_focused()


def test_a_refused_export_is_one_line(visit: Visit, expected_problems: list[str]) -> None:
    page = open_dialog(visit)
    expected_problems.append("the server responded with a status of 429")
    page.route(
        "**/export",
        lambda route: route.fulfill(status=429, json={"detail": "too much at once; try again"}),
    )
    page.get_by_role("button", name="Download").click()
    expect(page.get_by_role("alert")).to_have_text("too much at once; try again")


def test_a_file_that_is_being_made_is_given_up(visit: Visit) -> None:
    page = open_dialog(visit)
    page.get_by_label("Format").select_option("xlsx")
    page.route("**/export", lambda _: None)  # it takes for ever
    download, cancel = (page.get_by_role("button", name=name) for name in ("Download", "Cancel"))
    with page.expect_event("requestfailed", lambda request: request.url.endswith("/export")):
        download.click()
        cancel.click()
    expect(download).to_be_visible()
    expect(page.get_by_role("alert")).to_have_count(0)
    with page.expect_event("requestfailed", lambda request: request.url.endswith("/export")):
        download.click()
        page.get_by_role("button", name="Close").click()
    expect(page.get_by_role("dialog", name="Export")).to_be_hidden()
