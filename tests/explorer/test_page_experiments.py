"""Experiments by hand: slide, switch off, ask the words, compare, sweep; the library's numbers."""

from __future__ import annotations

import re
from urllib.parse import unquote

import numpy as np
import pytest
from playwright.sync_api import Locator, Page, expect

from glassformer.experiments import ablate, contributions, patch, sweep, words
from glassformer.tracing import Trace
from tests.explorer.access import Axe, assert_accessible, assert_clean
from tests.explorer.conftest import Live, Visit
from tests.explorer.reading import grid, recorded, stand_still, wait_for_numbers

TOY, OTHER = "I am not happy", "you are very sad"
RUN = f"#/toy?text={TOY.replace(' ', '+')}"
ATTENTION = "encoder.blocks.0.attention"
SCORE = f"{RUN}&step={ATTENTION}.scores&cell=0,0,3,2"


def bar(page: Page) -> Locator:
    return page.get_by_role("region", name="Edits")


def answer(page: Page) -> Locator:
    return page.get_by_role("region", name="Answer").first.get_by_role("status")


def numbers(found: Locator, name: str) -> list[float]:
    return [float(one.get_attribute(f"data-{name}") or "nan") for one in found.all()]


def chances(trace: Trace) -> dict[str, float]:
    sad, happy = trace["logits"].value.softmax(-1)[0].tolist()
    return {"sad": sad, "happy": happy}


# --- the slider ---


def test_the_answer_moves_with_the_slider_and_letting_go_is_an_edit(
    visit: Visit, live: Live
) -> None:
    page = visit(SCORE)
    page.get_by_role("button", name="Change this number (F2)").click()
    slider = page.get_by_role("slider")
    box = slider.bounding_box()
    assert box is not None
    height = box["y"] + box["height"] / 2
    n_open = len(live.state.store)
    page.mouse.move(box["x"] + 0.65 * box["width"], height)  # where the 6 is, between −20 and 20
    page.mouse.down()
    said = page.get_by_role("dialog").get_by_role("region", name="Answer")
    for place in (0.6, 0.55, 0.5, 0.45):
        page.mouse.move(box["x"] + place * box["width"], height)
    expect(said.get_by_role("status")).to_contain_text("happy")
    assert len(live.state.store) == n_open  # a moving answer opens no traces
    value = float(page.get_by_role("textbox", name="New value of").input_value())
    assert value < 0
    edited = recorded("toy", TOY).edit({(f"{ATTENTION}.scores", (0, 0, 3, 2)): value})
    share = f"{100 * chances(edited)['happy']:.0f}%"
    expect(said.get_by_role("listitem").filter(has_text="happy")).to_contain_text(share)
    expect(bar(page)).to_have_count(0)
    page.mouse.up()
    expect(bar(page)).to_contain_text("scores[0, 0, 3, 2]")
    expect(page).to_have_url(re.compile("edits=.*%3D-"))
    page.keyboard.press("Escape")
    expect(answer(page)).to_contain_text("happy")
    page.get_by_role("button", name="Undo").click()
    expect(bar(page)).to_have_count(0)


def test_sliding_again_replaces_the_edit_and_arrow_keys_slide(visit: Visit, axe: Axe) -> None:
    page = visit(SCORE)
    page.get_by_role("button", name="Change this number (F2)").click()
    slider = page.get_by_role("slider")
    slider.focus()
    for _ in range(2):
        page.keyboard.press("ArrowLeft")
        expect(page.get_by_text("Undo takes it back")).to_be_visible()
    expect(page.get_by_text("Set to 5.6.")).to_be_visible()
    expect(bar(page).get_by_role("listitem")).to_have_count(1)
    expect(bar(page)).to_contain_text("5.6")
    assert_clean(page, axe)
    page.keyboard.press("Enter")  # what the slider set is not set again
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(bar(page).get_by_role("listitem")).to_have_count(1)


# --- in words ---


def test_a_number_and_the_answer_in_words_of_the_input(visit: Visit) -> None:
    page = visit(f"{RUN}&step=logits&cell=0,0")
    page.get_by_role("button", name="Which words made this number?").click()
    card = page.get_by_role("complementary")
    shares = card.locator("[data-score]")
    expect(shares).to_have_count(4)
    cell = recorded("toy", TOY)["logits"][0, 0]
    assert numbers(shares, "score") == pytest.approx(words(cell).scores, abs=1e-5)
    expect(shares.nth(2)).to_contain_text("+3.9")  # a number with its sign beside the colour
    card.get_by_label("Method").select_option("gradient")
    wanted = words(cell, "gradient")
    expect(card).to_contain_text(wanted.note())
    assert numbers(shares, "score") == pytest.approx(wanted.scores, abs=1e-5)
    page.get_by_role("button", name="Which words made it say “sad”?").click()
    above = page.get_by_role("region", name="Answer").locator("[data-score]")
    expect(above).to_have_count(4)
    page.get_by_role("button", name="中文").click()
    expect(card).to_contain_text(wanted.note("zh"))
    expect(card.get_by_label("方法")).to_be_visible()


# --- parts switched off or replaced ---


def open_menu(page: Page, matrix: str, place: int) -> Locator:
    wait_for_numbers(grid(page, matrix))
    stand_still(page)
    grid(page, matrix).get_by_role("gridcell").nth(place).click(button="right")
    return page.get_by_role("menu")


def test_every_method_has_a_name(visit: Visit) -> None:
    page = visit("#/toy?text=I am not happy&view=experiments")
    expect(page.locator(".words select option")).to_have_text(
        ["leave one out", "gradient × input", "integrated gradients", "attention rollout"]
    )


def test_a_head_is_switched_off_by_the_menu_and_stands_in_the_address(visit: Visit) -> None:
    page = visit(f"{RUN}&step={ATTENTION}.weights")
    menu = open_menu(page, "weights", 14)
    menu.get_by_role("group", name="head 1").get_by_role("menuitem", name="off").click()
    said = "head 1 of encoder layer 1 off"
    wanted = chances(ablate(recorded("toy", TOY), ATTENTION, head=0))
    best = max(wanted, key=lambda name: wanted[name])
    for _ in range(2):  # as it was done, and as its link restores it
        expect(bar(page)).to_contain_text(said)
        expect(answer(page)).to_contain_text(best)
        assert "context[*,0,*,*]=0" in unquote(page.url)
        page.reload()
    page.get_by_role("button", name="Undo").click()
    expect(bar(page)).to_have_count(0)
    expect(answer(page)).to_contain_text("sad")


def test_the_menu_by_keyboard_and_from_the_card(visit: Visit, axe: Axe) -> None:
    page = visit(f"{RUN}&step={ATTENTION}.weights&cell=0,0,3,2")
    wait_for_numbers(grid(page, "weights"))
    menu = page.get_by_role("menu")
    page.keyboard.press("Shift+F10")  # a link gives no cell the focus: the card's number is meant
    expect(menu.get_by_role("menuitem").first).to_be_focused()
    page.keyboard.press("Escape")
    expect(menu).to_have_count(0)
    cell = grid(page, "weights").locator("[tabindex='0']")
    cell.focus()
    page.keyboard.press("Shift+F10")
    expect(menu.get_by_role("menuitem").first).to_be_focused()
    assert_clean(page, axe)
    page.keyboard.press("Escape")
    expect(menu).to_have_count(0)
    expect(cell).to_be_focused()
    page.get_by_role("button", name="Switch off or replace").click()
    expect(menu.get_by_role("menuitem").first).to_be_focused()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    row = menu.get_by_role("group", name="row “happy”", exact=True)
    expect(row.get_by_role("menuitem", name="mean of this run", exact=True)).to_be_focused()
    page.keyboard.press("Enter")
    expect(bar(page)).to_contain_text("row “happy” of weights, encoder layer 1 = its mean")
    page.get_by_role("button", name="中文").click()
    expect(page.get_by_role("region", name="修改")).to_contain_text("各位置的平均值")


def test_a_head_of_the_attention_view_has_the_menu(visit: Visit) -> None:
    page = visit(f"{RUN}&view=attention")
    page.locator("[data-head]").first.click(button="right")
    menu = page.get_by_role("menu")
    menu.get_by_role("group", name="head 1").get_by_role("menuitem", name="off").click()
    expect(bar(page)).to_contain_text("head 1 of encoder layer 1 off")


# --- two runs ---


def test_two_texts_side_by_side_and_a_row_copied_from_the_other(visit: Visit) -> None:
    page = visit(f"{RUN}&view=experiments&tab=compare")
    page.get_by_label("Another text (B)").fill(OTHER)
    page.get_by_role("button", name="Compare").click()
    steps = page.get_by_role("list", name="Steps that differ")
    steps.get_by_role("button", name=f"{ATTENTION}.projected_keys").click()
    difference = grid(page, "projected_keys, B − A")
    wait_for_numbers(difference)
    one, other = recorded("toy", TOY), recorded("toy", OTHER)
    keys = [run[f"{ATTENTION}.projected_keys"].view.array[0] for run in (one, other)]
    shown = numbers(difference.get_by_role("gridcell"), "value")
    assert shown == pytest.approx((keys[1] - keys[0]).ravel().tolist(), abs=1e-6)
    difference.get_by_role("gridcell").nth(2).click(button="right")
    row = page.get_by_role("menu").get_by_role("group", name="this number")
    row.get_by_role("menuitem", name="from B").click()
    wanted = chances(patch(one, other, f"{ATTENTION}.projected_keys", position=2))
    best = max(wanted, key=lambda name: wanted[name])
    for _ in range(2):
        expect(bar(page)).to_contain_text(f"from “{OTHER}”")
        expect(answer(page)).to_contain_text(best)
        assert "=other" in unquote(page.url) and "other=you+are+very+sad" in page.url
        page.reload()


def test_each_of_two_texts_has_its_own_words(visit: Visit) -> None:
    page = visit(f"{RUN}&view=experiments&tab=compare&other=I+am+very+happy")
    page.get_by_role("button", name=f"{ATTENTION}.scores").click()
    words = {
        name: [
            (cell.get_attribute("aria-label") or "").split(", row ")[1].split("'")[1]
            for cell in grid(page, f"scores, {name}").get_by_role("gridcell").all()[::4]
        ]
        for name in ("A", "B", "B − A")
    }
    assert words["A"] == ["I", "am", "not", "happy"]
    assert words["B"] == ["I", "am", "very", "happy"]
    assert words["B − A"] == ["I", "am", "not → very", "happy"]
    wait_for_numbers(grid(page, "scores, B"))
    grid(page, "scores, B").get_by_role("gridcell").nth(2).click()  # its card is in its run
    expect(page.get_by_role("complementary")).to_contain_text("very")
    assert "text=I+am+very+happy" in page.url


def test_texts_of_different_lengths_say_what_is_compared(visit: Visit) -> None:
    page = visit(f"{RUN}&view=experiments&tab=compare&other=we+are+not+very+happy")
    expect(page.get_by_text("only the tokens that both have are compared")).to_be_visible()
    page.get_by_role("button", name=f"{ATTENTION}.weights").click()
    expect(page.get_by_text("4 numbers, those of the tokens")).to_be_visible()  # not, happy
    for name, cells in [("A", 16), ("B", 25)]:
        expect(grid(page, f"weights, {name}").get_by_role("gridcell")).to_have_count(cells)
    expect(grid(page, "weights, B − A")).to_have_count(0)


# --- sweeps, layers, parts ---


def test_a_sweep_is_a_picture_whose_squares_open(visit: Visit) -> None:
    page = visit(f"{RUN}&view=experiments&tab=sweep")
    page.get_by_label("One by one, each").select_option("position")
    page.get_by_role("button", name="Sweep", exact=True).click()
    squares = page.locator("[data-effect]")
    expect(squares).to_have_count(4)
    trace = recorded("toy", TOY)
    found = sweep(trace, measure=trace["logits"][0, 0])
    effects = found.effects[0].numpy()
    assert numbers(squares, "effect") == pytest.approx(effects.tolist(), abs=1e-5)
    strongest = int(np.abs(effects).argmax())
    squares.nth(strongest).click()
    token = TOY.split()[strongest]
    expect(bar(page)).to_contain_text(f"“{token}” of")
    edited = chances(found.trace(0, strongest))
    expect(answer(page)).to_contain_text(max(edited, key=lambda name: edited[name]))
    expect(squares).to_have_count(4)  # the picture stays, of the run before
    expect(page.locator(".about")).to_contain_text("“sad”")  # and what was swept
    squares.first.focus()
    page.keyboard.press("ArrowRight")  # squares are one tab stop
    expect(squares.nth(1)).to_be_focused()
    squares.nth((strongest + 1) % 4).click()
    expect(bar(page).get_by_role("listitem")).to_have_count(1)  # another one, not one more


def test_a_sweep_can_be_cancelled(visit: Visit) -> None:
    page = visit("#/en-de?text=A+dog.&view=experiments&tab=lens")
    held: list[object] = []
    page.route("**/experiments/sweep", lambda route: held.append(route))  # the server takes long
    page.get_by_role("tab", name="Sweep").click()  # so few heads are swept at once
    expect(page.get_by_role("progressbar", name="Layers done")).to_be_visible()
    page.get_by_role("button", name="Cancel").click()
    expect(page.get_by_role("button", name="Sweep", exact=True)).to_be_visible()
    expect(page.locator("[data-effect]")).to_have_count(0)
    page.unroute("**/experiments/sweep")
    page.get_by_role("button", name="Sweep", exact=True).click()
    expect(page.get_by_text("9 of 9 layers")).to_be_visible()
    expect(page.locator("[data-effect]")).to_have_count(9 * 6)
    heads = page.get_by_role("columnheader")
    expect(heads).to_have_text([f"head {number}" for number in range(1, 7)])
    last = page.get_by_role("rowheader").last
    expect(last).to_have_text("decoder layer 3, cross-attention")


def test_layers_and_parts_of_a_translation(visit: Visit) -> None:
    text = "A dog."
    page = visit(f"#/en-de?text={text.replace(' ', '+')}&view=experiments&tab=lens")
    table = page.get_by_role("table")
    expect(table.get_by_role("row")).to_have_count(5)  # positions; before and after three layers
    trace = recorded("en-de", text)
    said = page.get_by_role("region", name="Answer").first.get_by_role("status").inner_text()
    first = table.get_by_role("row").last.get_by_role("cell").first.inner_text().split("\n")[0]
    assert said.split("\n")[-1].startswith(first)
    page.get_by_role("tab", name="Parts").click()
    parts = page.get_by_role("list", name="Parts").locator("[data-value]")
    expect(parts).to_have_count(11)
    best = int(trace["logits"].value[0, 0].argmax())
    wanted = contributions(trace["logits"][0, 0, best])
    assert numbers(parts, "value") == pytest.approx(wanted.values, rel=1e-4, abs=1e-4)
    off = "decoder layer 2, cross-attention off"
    page.get_by_role("button", name=off).click()
    expect(bar(page)).to_contain_text("all of")


@pytest.mark.parametrize(
    "tab",
    [
        "compare",
        "sweep",
        pytest.param("words", marks=pytest.mark.slow),
        pytest.param("parts", marks=pytest.mark.slow),
    ],
)
def test_each_experiment_is_accessible(visit: Visit, axe: Axe, tab: str) -> None:
    page = visit(f"{RUN}&other={OTHER.replace(' ', '+')}&view=experiments&tab={tab}")
    if tab == "sweep":
        page.get_by_role("button", name="Sweep", exact=True).click()
        expect(page.locator("[data-effect]")).to_have_count(1)
    if tab == "compare":
        page.get_by_role("button", name=f"{ATTENTION}.projected_keys").click()
    assert_accessible(page, axe)
