"""Audits on the page: an example or a file, a verdict on each number, slips by keyboard, files."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from glassformer.audit import audit, example_names, load_example
from glassformer.audit.verdicts import printed_cells
from tests.explorer.access import Axe, assert_accessible
from tests.explorer.conftest import Visit

SMALL = {
    "title": {"en": "Small", "zh": "小例"},
    "steps": [
        {"id": "x", "printed": [[1, 2], [3, 4]]},
        {"id": "s", "formula": "x @ transpose(x)", "printed": [[5, 11], [11, 24]], "decimals": 0},
        {"id": "t", "formula": "s * 2", "printed": [[10, 22], [22, 48]], "decimals": 0},
    ],
}


def choose(page: Page, name: str, content: bytes) -> None:
    page.locator("input[type=file]").set_input_files(
        {"name": name, "mimeType": "application/json", "buffer": content}
    )


@pytest.mark.parametrize("language", ["en", "zh"])
def test_verdicts_stand_on_the_numbers(visit: Visit, axe: Axe, language: str) -> None:
    page = visit(f"#/audit/masked?lang={language}")
    expected = audit(load_example("masked"))
    step = page.locator("[data-step=masked_a1]")
    expect(step).to_have_attribute("data-verdict", "wrong")
    result = expected["masked_a1"]
    for cell in printed_cells(result):
        place = ",".join(map(str, cell.index))
        shown = step.locator(f"[data-cell='masked_a1[{place}]']")
        expect(shown).to_have_attribute("data-state", str(cell.verdict))
        expect(shown).to_contain_text(cell.text)
        if cell.verdict == "wrong":  # legible without colour: a sign, and the right number
            expect(shown).to_contain_text("✗")
            expect(shown).to_contain_text(str(cell.right))
    expect(step).to_contain_text(result.slip(language) or "")  # type: ignore[arg-type]
    for verdict, count in expected.counts.items():
        if count:
            expect(page.locator(f"[data-count={verdict}]")).to_contain_text(str(count))
    assert_accessible(page, axe)


def test_wrong_numbers_are_stepped_by_keys_and_explained(visit: Visit) -> None:
    page = visit("#/audit")
    choose(page, "mine.json", json.dumps(SMALL).encode())
    expect(page.locator("[data-step=s]")).to_be_visible()
    expect(page.locator("main [role=status]")).to_have_text("wrong numbers: 1")
    page.keyboard.press("j")
    expect(page).to_have_url(re.compile(r"#/audit/file\?at=s"))
    card = page.locator("[data-card='s[1,1]']")
    expect(card).to_contain_text("24")
    expect(card).to_contain_text("3·3 + 4·4 = 25")
    expect(card).to_be_in_viewport()
    expect(page.locator("[data-cell='s[1,1]']")).to_be_focused()
    expect(page.locator("main [role=status]")).to_have_text("wrong number 1 of 1")
    expect(page.locator("[data-cell='t[1,1]']")).to_have_attribute("data-state", "follows")
    page.locator("[data-cell='t[1,1]']").click()
    expect(page.locator("[data-card='t[1,1]']")).to_contain_text("24 · 2")
    expect(page.locator("[data-card='t[1,1]']")).to_contain_text("50")  # without the slip above
    page.locator("[data-step=t] .causes button").click()
    expect(page).to_have_url(re.compile(r"#/audit/file\?at=s$"))
    page.get_by_label("only what is wrong").check()
    expect(page.locator("[data-step=x]")).to_have_count(0)


def test_what_is_wrong_in_a_file_is_one_line(
    visit: Visit, axe: Axe, expected_problems: list[str]
) -> None:
    expected_problems.append("the server responded with a status of 400")
    page = visit("#/audit")
    choose(page, "broken.json", b'{"steps": [{"id": "s", "formula": "x +"}]}')
    alert = page.get_by_role("alert")
    expect(alert).to_contain_text("broken.json: step 's': column")
    assert "\n" not in alert.inner_text()
    choose(page, "large.json", b" " * 5_000_001)
    expect(alert).to_have_text("large.json: at most 5 MB are read.")
    assert_accessible(page, axe)
    choose(page, "good.json", json.dumps(SMALL).encode())
    expect(alert).to_have_count(0)
    expect(page.locator("[data-step=s]")).to_be_visible()


def test_a_dropped_file_is_audited(visit: Visit) -> None:
    page = visit("#/audit")
    data = page.evaluate_handle(
        "text => { const data = new DataTransfer();"
        " data.items.add(new File([text], 'dropped.json', { type: 'application/json' }));"
        " return data; }",
        json.dumps(SMALL),
    )
    page.dispatch_event(".audit", "drop", {"dataTransfer": data})
    expect(page.get_by_role("region", name="Summary")).to_contain_text("Small")


def test_shipped_examples_are_listed_and_saved(visit: Visit, tmp_path: Path) -> None:
    page = visit("#/")
    page.get_by_role("link", name="Audit an example").click()
    listed = page.get_by_role("list", name="Shipped examples")
    expect(listed.get_by_role("button")).to_have_count(len(example_names()))
    listed.get_by_role("button", name="by hand").click()
    expect(page).to_have_url(re.compile("#/audit/by-hand"))
    menu = page.get_by_label("Shipped example")
    expect(menu.locator("option")).to_have_count(len(example_names()) + 1)
    menu.select_option("illustrated")
    expect(page).to_have_url(re.compile("#/audit/illustrated"))
    page.locator("[data-step]").first.wait_for()
    with page.expect_download() as download:
        page.get_by_role("button", name="json", exact=True).click()
    assert download.value.suggested_filename == "audit-illustrated.json"
    file = tmp_path / "audit.json"
    download.value.save_as(file)
    assert json.loads(file.read_text(encoding="utf-8")) == json.loads(
        json.dumps(audit(load_example("illustrated")).to_dict("en"))
    )


def test_a_link_to_a_file_that_is_gone_shows_the_list(visit: Visit) -> None:
    page = visit("#/audit/file?at=s")
    expect(page.get_by_role("list", name="Shipped examples")).to_be_visible()
    expect(page).to_have_url(re.compile("#/audit$"))
