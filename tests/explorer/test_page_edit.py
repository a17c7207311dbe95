"""What if: a number is set, everything downstream is computed anew, and it can be undone."""

from __future__ import annotations

import re

import numpy as np
import pytest
from playwright.sync_api import Locator, Page, expect
from starlette.testclient import TestClient

from glassformer.tracing import Trace
from tests.explorer.access import Axe, assert_clean
from tests.explorer.conftest import Visit
from tests.explorer.reading import (
    agree,
    grid,
    panel,
    recorded,
    shown,
    stand_still,
    wait_for_numbers,
)

TOY = "I am not happy"
WEIGHT = "encoder.blocks.0.attention.to_keys.weight"
NEW_VALUE = -0.5


def link(text: str, step: str, index: str, model: str = "toy") -> str:
    return f"#/{model}?text={text.replace(' ', '+')}&step={step}&cell={index}"


def bar(page: Page) -> Locator:
    return page.get_by_role("region", name="Edits")


def begin(page: Page) -> None:
    """F2, once there is a number that it can be about."""
    expect(page.get_by_role("button", name="Change this number (F2)")).to_be_visible()
    page.keyboard.press("F2")


def set_to(page: Page, value: str) -> None:
    box = page.get_by_role("textbox", name="New value of")
    expect(box).to_be_focused()
    box.fill(value)
    page.keyboard.press("Enter")


def answer_of(trace: Trace) -> int:
    return int(np.argmax(trace["logits"].view.array[0]))


def answer_on(page: Page) -> str:
    return page.get_by_role("region", name="Answer").get_by_role("status").inner_text()


def strongest_weight(trace: Trace) -> tuple[int, int]:
    """The weight of the keys that matters to the answer: without it the model forgets “not”."""
    values = np.abs(trace[WEIGHT].view.array)
    row, column = np.unravel_index(int(values.argmax()), values.shape)
    return int(row), int(column)


def test_a_weight_is_set_and_the_answer_changes_and_comes_back(visit: Visit) -> None:
    trace = recorded("toy", TOY)
    row, column = strongest_weight(trace)
    edited = trace.edit({(WEIGHT, (row, column)): NEW_VALUE})
    assert answer_of(edited) != answer_of(trace)
    page = visit(link(TOY, WEIGHT, f"{row},{column}"))
    before = answer_on(page)
    assert "sad" in before
    begin(page)
    set_to(page, str(NEW_VALUE))
    expect(bar(page)).to_contain_text("sad")
    expect(bar(page)).to_contain_text("happy")
    expect(page.get_by_role("region", name="Answer").get_by_role("status")).to_contain_text("happy")
    page.get_by_role("treeitem", name="logits").click()
    expect(grid(page, "logits").get_by_role("gridcell")).to_have_count(2)
    panel(page, "logits").get_by_role("button", name="Nine digits").click()
    assert agree(grid(page, "logits"), edited["logits"].view.array) == 2
    page.get_by_role("button", name="Undo").click()
    expect(bar(page)).to_have_count(0)
    assert answer_on(page) == before
    assert agree(grid(page, "logits"), trace["logits"].view.array) == 2


SCORES = "encoder.blocks.0.attention.scores"
WEIGHTS = "decoder.blocks.0.cross_attention.weights"


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        # another text: every word that changed, and what it is computed after
        (f"{WEIGHTS}[0,3,2,5]=20", "after the words of the first translation"),
        # the same text, with the token whose probability changed most
        ("encoder.blocks.1[]=0", "%→"),
    ],
)
def test_a_translation_is_shown_before_and_after(visit: Visit, edit: str, said: str) -> None:
    page = visit(f"#/en-de?text=My+little+sister+is+not+reading+a+book.&edits={edit}")
    expect(bar(page)).to_be_visible()
    page.get_by_role("button", name="steps changed").wait_for()
    expect(bar(page)).not_to_contain_text("the same answer")
    answer = page.get_by_role("region", name="Answer")
    expect(answer.or_(bar(page)).filter(has_text=said)).not_to_have_count(0)
    tokens = answer.get_by_role("group", name="The text, token by token").get_by_role("button")
    moved = tokens.filter(has_text=re.compile(r"% → .*%"))
    expect(moved).not_to_have_count(0)
    for one in (bar(page), moved.first):
        before, after = re.findall(r"([\d.]+)% ?→ ?([\d.]+)%", one.inner_text().replace("\n", ""))[
            0
        ]
        assert before != after


def test_the_word_that_an_edit_displaced_stays_among_the_candidates(client: TestClient) -> None:
    text = "My little sister is not reading a book."
    edit = {"step": WEIGHTS, "index": [0, 3, 2, 5], "value": 20}
    first = client.post("/api/traces", json={"model": "en-de", "text": text}).json()
    then = client.post(f"/api/traces/{first['id']}/edits", json={"edits": [edit]}).json()
    for position in then["answer"]["positions"][:-1]:
        assert position["chosen"] in [choice["text"] for choice in position["choices"]]
    assert any(len(position["choices"]) == 6 for position in then["answer"]["positions"])


def test_edits_are_not_told_over_a_lesson(visit: Visit) -> None:
    page = visit(f"#/toy?text=I am not happy&edits={WEIGHT}[0,0]=1")
    expect(bar(page)).to_be_visible()
    page.get_by_role("button", name="Lessons").click()
    expect(page.get_by_role("heading", name="Lessons", exact=True)).to_be_visible()
    expect(bar(page)).to_have_count(0)
    page.get_by_role("button", name="Equation").click()
    expect(bar(page)).to_be_visible()


def test_a_number_is_written_as_it_was_typed(visit: Visit) -> None:
    page = visit(
        f"#/toy?text=I am not happy&step={SCORES}&cell=0,0,3,2&edits={SCORES}[0,0,3,2]=-2.6"
    )
    card = page.get_by_role("complementary", name="The selected number")
    expect(card).to_contain_text("−2.6")
    expect(page.locator("body")).not_to_contain_text("2.5999")


def test_an_intermediate_number_is_set_and_what_follows_is_marked(visit: Visit) -> None:
    trace = recorded("toy", TOY)
    scores = "encoder.blocks.0.attention.scores"
    edited = trace.edit({(scores, (0, 0, 0, 0)): 9.0})
    page = visit(link(TOY, scores, "0,0,0,0"))
    page.get_by_role("button", name="Change this number (F2)").click()
    set_to(page, "9")
    expect(bar(page)).to_be_visible()
    changed = grid(page, "scores").locator(".changed")
    expect(changed).to_have_count(1)
    expect(changed).to_have_text("9")
    page.get_by_role("treeitem", name="weights").click()
    weights = grid(page, "weights")
    wait_for_numbers(weights)
    panel(page, "weights").get_by_role("button", name="Nine digits").click()
    after, before = (
        one["encoder.blocks.0.attention.weights"].view.array[0, 0] for one in (edited, trace)
    )
    assert agree(weights, after) >= 8
    marked = sum(bool(after[place] != before[place]) for place in shown(weights))
    expect(weights.locator(".changed")).to_have_count(marked)
    hold = page.get_by_role("button", name="Hold to see before")
    hold.hover()
    page.mouse.down()
    expect(weights.locator(".changed")).to_have_count(0)
    assert agree(weights, before) >= 8
    page.mouse.up()
    expect(weights.locator(".changed").first).to_be_visible()
    assert agree(weights, after) >= 8
    count = page.get_by_role("button", name="steps changed")
    count.click()
    first = page.get_by_role("list", name="What changed").get_by_role("listitem").first
    expect(first).to_contain_text("scores")
    expect(first).to_contain_text("1 of 16 numbers")


def test_edits_add_up_and_reset_forgets_them_all(visit: Visit) -> None:
    page = visit(link(TOY, "logits", "0,0"))
    for index, value in (("0", "1"), ("1", "2")):
        grid(page, "logits").get_by_role("gridcell").nth(int(index)).click()
        expect(page.get_by_role("heading", name=f"z[{index}]")).to_be_visible()
        begin(page)
        set_to(page, value)
        expect(bar(page).get_by_role("button", name=f"logits[0, {index}]")).to_be_visible()
    links = bar(page).get_by_role("listitem")
    expect(links).to_have_count(2)
    links.first.get_by_role("button").click()
    expect(page.get_by_role("heading", name="z[0]")).to_be_visible()
    expect(page.get_by_text("This number was set by hand")).to_be_visible()
    page.get_by_role("button", name="Reset").click()
    expect(bar(page)).to_have_count(0)


@pytest.mark.parametrize(
    ("step", "index", "wrong", "said"),
    [
        ("logits", "0,0", ("a lot", ""), "Write a number"),
        ("ids", "0,1", ("1.5", "-1"), "whole number"),
    ],
)
def test_what_is_no_value_is_said_in_one_line(
    visit: Visit, step: str, index: str, wrong: tuple[str, ...], said: str
) -> None:
    page = visit(link(TOY, step, index))
    dialog = page.get_by_role("dialog")
    for typed in wrong:
        begin(page)
        set_to(page, typed)
        expect(dialog).to_contain_text(said)
        expect(page.get_by_role("textbox", name="New value of")).to_have_attribute(
            "aria-invalid", "true"
        )
        page.keyboard.press("Escape")
        expect(dialog).to_have_count(0)
        expect(bar(page)).to_have_count(0)


def test_an_id_that_no_word_has_is_refused_by_the_server_in_one_line(
    visit: Visit, expected_problems: list[str]
) -> None:
    expected_problems.append("the server responded with a status of 4")
    page = visit(link(TOY, "ids", "0,1"))
    begin(page)
    set_to(page, "99999")
    note = page.get_by_role("dialog").locator("#edit-note.problem")
    expect(note).to_contain_text("cannot be computed from the edited numbers")
    text = note.inner_text()
    assert "\n" not in text and "Traceback" not in text


def test_another_word_by_its_id_changes_the_answer(visit: Visit) -> None:
    trace = recorded("toy", TOY)
    other = recorded("toy", "I am very happy")
    word = int(other["ids"].view.array[0, 2])
    page = visit(link(TOY, "ids", "0,2"))
    begin(page)
    set_to(page, str(word))
    expect(page.get_by_role("region", name="Answer").get_by_role("status")).to_contain_text("happy")
    assert answer_of(trace) != answer_of(other)


def test_nudges_change_what_is_typed(visit: Visit) -> None:
    page = visit(link(TOY, WEIGHT, "0,0"))
    begin(page)
    box = page.get_by_role("textbox", name="New value of")
    box.fill("2")
    for name, value in (("+10%", "2.2"), ("× −1", "-2.2"), ("−10%", "-1.98"), ("0", "0")):
        page.get_by_role("dialog").get_by_role("button", name=name, exact=True).click()
        expect(box).to_have_value(value)


def test_by_keyboard_alone(visit: Visit) -> None:
    """From the page's first focus to a number, its card, another value, and back."""
    page = visit("#/toy?text=I+am+not+happy&step=encoder.blocks.0.attention.scores")
    expect(grid(page, "scores")).to_be_visible()
    for _ in range(60):
        page.keyboard.press("Tab")
        if grid(page, "scores").locator(":focus").count():
            break
    expect(grid(page, "scores").locator(":focus")).to_have_count(1)
    for key in ("ArrowRight", "ArrowRight", "Enter"):
        page.keyboard.press(key)
    expect(page.get_by_role("heading", name="S[0, 2]")).to_be_visible()
    page.keyboard.press("F2")
    set_to(page, "0")
    expect(bar(page)).to_be_visible()
    expect(grid(page, "scores").locator(":focus")).to_have_count(1)
    expect(page.get_by_role("button", name="scaled × 1")).to_be_visible()
    page.keyboard.press("]")
    expect(page.get_by_role("heading", name="S_scaled[0, 2]")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("complementary", name="The selected number")).to_have_count(0)
    for _ in range(60):
        page.keyboard.press("Tab")
        if page.get_by_role("button", name="Undo").evaluate("(b) => b === document.activeElement"):
            break
    page.keyboard.press("Enter")
    expect(bar(page)).to_have_count(0)


def test_axe_finds_nothing_in_the_box_and_the_bar(visit: Visit, axe: Axe) -> None:
    page = visit(link(TOY, "encoder.blocks.0.attention.scores", "0,0,0,0"))
    begin(page)
    expect(page.get_by_role("dialog")).to_be_visible()
    assert_clean(page, axe)
    set_to(page, "9")
    page.get_by_role("button", name="steps changed").click()
    expect(page.get_by_role("list", name="What changed")).to_be_visible()
    assert_clean(page, axe)


@pytest.mark.browser_context_args(viewport={"width": 390, "height": 844}, has_touch=True)
def test_a_long_press_edits_on_a_phone(visit: Visit) -> None:
    page = visit("#/toy?text=I+am+not+happy&step=encoder.blocks.0.attention.scores")
    matrix = grid(page, "scores")
    wait_for_numbers(matrix)
    stand_still(page)
    matrix.scroll_into_view_if_needed()
    box = matrix.bounding_box()
    assert box is not None
    touch = page.context.new_cdp_session(page)
    point = {"x": box["x"] + 10, "y": box["y"] + 10}
    touch.send("Input.dispatchTouchEvent", {"type": "touchStart", "touchPoints": [point]})
    expect(page.get_by_role("dialog")).to_be_visible()
    touch.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    expect(page.get_by_role("textbox", name="New value of S[0, 0]")).to_be_visible()
