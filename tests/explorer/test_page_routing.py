"""Links: every state of the page has one, back goes back, and a dropped trace is run again."""

from __future__ import annotations

import re

from playwright.sync_api import expect

from tests.explorer.conftest import Live, Visit

SCORES = "encoder.blocks.0.attention.scores"
TOY = "#/toy?text=I am not happy"


def test_a_link_restores_model_text_step_slice_cell_and_language(visit: Visit) -> None:
    page = visit(
        "#/en-de?text=A dog runs.&step=decoder.blocks.1.cross_attention.weights"
        "&cell=0,2,1,1&lang=zh"
    )
    card = page.get_by_role("complementary", name="选中的数")
    expect(card).to_contain_text("A[2, 1, 1]")
    expect(page.get_by_role("treeitem", selected=True)).to_contain_text("weights")
    expect(page.locator("#run-text")).to_have_value("A dog runs.")
    expect(page.locator("html")).to_have_attribute("lang", "zh-CN")
    expect(page).to_have_url(re.compile(r"lead=0,2&cell=0,2,1,1&lang=zh$"))


def test_a_link_with_edits_makes_them_and_each_can_be_undone(visit: Visit) -> None:
    edited = f"{TOY}&step={SCORES}&edits={SCORES}[0,0,0,2]=-4;{SCORES}[0,0,1,2]=0.5"
    page = visit(edited)
    expect(page.get_by_role("treeitem", selected=True)).to_contain_text("scores")
    expect(page.get_by_role("treeitem", name="weights").first).to_contain_text("changed")
    expect(page).to_have_url(re.compile(r"edits=.*%3D-4%3B.*%3D0\.5"))
    page.get_by_role("button", name=re.compile("^Undo")).click()
    expect(page).to_have_url(re.compile(r"edits=[^&]*%3D-4(&|$)"))
    page.get_by_role("tree", name="Steps").focus()
    page.keyboard.press("Control+z")
    expect(page).not_to_have_url(re.compile("edits="))


def test_a_translation_of_the_readers_own_is_looked_at(visit: Visit) -> None:
    page = visit("#/toy?text=I am not happy")
    target = page.get_by_role("textbox", name="Translation to look at")
    expect(page.get_by_role("treeitem", selected=True)).to_contain_text("scores")
    expect(target).to_have_count(0)  # the toy does not translate
    page.locator("#run-model").select_option("en-de")
    expect(page).to_have_url(re.compile("#/en-de"))
    expect(target).to_have_value("")
    target.fill("Ein Hund läuft.")
    target.press("Enter")
    expect(page).to_have_url(re.compile("target=Ein"))
    page.reload()
    expect(target).to_have_value("Ein Hund läuft.")
    expect(page.get_by_role("region", name="Answer")).to_contain_text("läuft")
    target.fill("")
    target.press("Enter")
    expect(page).not_to_have_url(re.compile("target="))


def test_another_text_is_looked_at_where_the_one_before_was(visit: Visit) -> None:
    page = visit("#/en-de?text=A dog.&step=decoder.blocks.1.cross_attention.weights&lead=0,2")
    expect(page.locator("main h2")).to_contain_text("weights")
    text = page.locator("#run-text")
    text.fill("A cat.")
    text.press("Enter")
    expect(page).to_have_url(re.compile(r"text=A\+cat.*step=.*blocks\.1\.cross.*weights&lead=0,2"))
    page.get_by_role("button", name="Map", exact=True).click()
    text.fill("A horse.")
    text.press("Enter")
    expect(page).to_have_url(re.compile(r"text=A\+horse.*view=map"))


def test_back_and_forward(visit: Visit) -> None:
    page = visit("")
    page.get_by_role("article", name="Toy").get_by_role("button", name="Run").click()
    selected = page.get_by_role("treeitem", selected=True)
    expect(selected).to_contain_text("scores")
    page.keyboard.press("j")
    expect(selected).to_contain_text("scaled")
    page.go_back()
    expect(selected).to_contain_text("scores")
    page.go_back()
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    page.go_forward()
    expect(selected).to_contain_text("scores")
    page.go_forward()
    expect(selected).to_contain_text("scaled")


def test_a_lesson_has_a_link(visit: Visit) -> None:
    page = visit("#/lesson/illustrated/2")
    expect(page).to_have_url(re.compile(r"#/lesson/illustrated/2$"))
    tab = page.get_by_role("button", name="Lessons", exact=True)
    expect(tab).to_have_attribute("aria-current", "page")


def test_a_dropped_trace_is_run_again_in_silence(
    visit: Visit, live: Live, expected_problems: list[str]
) -> None:
    expected_problems.append("the server responded with a status of 410")
    page = visit(f"{TOY}&step={SCORES}")
    selected = page.get_by_role("treeitem", selected=True)
    expect(selected).to_contain_text("scores")
    opened = page.evaluate("performance.getEntriesByType('resource').map((one) => one.name)")
    for trace in {match[1] for one in opened if (match := re.search(r"/traces/([^/]+)/", one))}:
        live.state.store.remove(trace)
    page.keyboard.press("j")
    expect(selected).to_contain_text("scaled")
    expect(page.get_by_role("alert")).to_have_count(0)


def test_a_link_to_nothing_says_so_and_shows_the_start(
    visit: Visit, expected_problems: list[str]
) -> None:
    expected_problems.append("the server responded with a status of 404")
    page = visit("#/no-such-model?text=hello")
    expect(page.get_by_role("alert")).to_contain_text("no-such-model")
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    expect(page).to_have_url(re.compile("#/no-such-model"))  # loading it again tries again


def test_a_refused_edit_of_a_link_leaves_the_run(
    visit: Visit, expected_problems: list[str]
) -> None:
    expected_problems.append("the server responded with a status of 4")
    page = visit(f"{TOY}&step={SCORES}&cell=0,0,0,0&edits=no.such.step[0]=1")
    expect(page.get_by_role("treeitem", selected=True)).to_contain_text("scores")
    users = page.get_by_role("complementary").locator("section", has_text="Used by")
    expect(users.get_by_role("button").first).to_be_visible()  # asked for by the card: no news
    expect(page.get_by_role("alert")).to_contain_text("no.such.step")
