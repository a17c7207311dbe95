"""The start page: what it offers, and every shipped model run from it."""

from __future__ import annotations

import json
import re
import urllib.request
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.explorer.conftest import Live, Visit

CARDS = ["Toy", "Film reviews", "English → German", "English → Chinese", "Shakespeare"]


def get_api(live: Live, path: str, body: object = None) -> Any:
    """Ask the server beside the page: GET, or POST where there is a body."""
    data = None if body is None else json.dumps(body).encode()
    head = {"Content-Type": "application/json"}
    request = urllib.request.Request(f"{live.address}api/{path}", data, head)
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


def test_it_says_what_it_is_and_what_there_is(visit: Visit, live: Live) -> None:
    page = visit("")
    expect(page.get_by_role("heading", level=1)).to_have_text(
        "Click any number. Read the arithmetic that made it."
    )
    for name in CARDS:
        expect(page.get_by_role("article", name=name)).to_be_visible()
    own = page.get_by_role("article", name="Your own module")
    expect(own).to_contain_text("glassformer.explore(module")
    lessons = page.get_by_role("region", name="Lessons").get_by_role("link")
    expect(lessons).to_have_count(len(get_api(live, "lessons?language=en")))


def test_a_text_of_ones_own_stays_when_a_model_is_chosen_and_waits_for_the_button(
    visit: Visit,
) -> None:
    page = visit("")
    text = page.locator("#run-text")
    expect(text).to_have_value(re.compile("."))
    page.locator("#run-model").select_option("toy")  # an example gives way to the toy's
    expect(text).to_have_value("I am not happy")
    text.fill("A dull film.")
    page.locator("#run-model").select_option("imdb")
    expect(text).to_have_value("A dull film.")
    expect(page).to_have_url(re.compile("#/$|/$"))
    page.locator(".hero").get_by_role("button", name="Run", exact=True).click()
    expect(page).to_have_url(re.compile(r"#/imdb\?text=A\+dull\+film"))


def test_the_toy_is_already_traced_and_its_numbers_open_their_cards(visit: Visit) -> None:
    page = visit("")
    cell = page.get_by_role("table", name="scores").get_by_role("button", name="happy, not: 6")
    cell.click()
    card = page.get_by_role("complementary", name="The selected number")
    expect(card).to_contain_text("S[3, 2]")
    expect(page).to_have_url(re.compile(r"#/toy\?text=I\+am\+not\+happy&.*cell=0,0,3,2"))


@pytest.mark.parametrize(
    ("model", "text"),
    [
        ("toy", "we are not sad"),
        ("imdb", "A waste of time."),
        ("en-de", "Two children are playing."),
        ("en-zh", "Where is the station?"),
        ("shakespeare", "To be, or not to"),
    ],
)
def test_each_model_runs_on_a_text(visit: Visit, live: Live, model: str, text: str) -> None:
    page = visit("")
    card = page.locator(f"article[aria-labelledby='model-{model}']")
    card.get_by_role("textbox").fill(text)
    card.get_by_role("button", name="Run", exact=True).click()
    answer = page.get_by_role("region", name="Answer")
    expected = get_api(live, "traces", {"model": model, "text": text})["answer"]
    shown = answer.get_by_role("status").locator("strong")
    expect(shown).to_have_text(expected["text"].strip() or "␣")
    best = (expected["classes"] or expected["positions"][-1]["choices"])[0]
    assert best["text"] in answer.inner_text()
    expect(page.get_by_role("tree", name="Steps")).to_be_visible()
    expect(page.get_by_role("treeitem", selected=True)).to_contain_text("scores")


def test_an_example_fills_the_box(visit: Visit) -> None:
    page = visit("")
    card = page.get_by_role("article", name="Toy")
    card.get_by_role("button", name="we are not sad").click()
    expect(card.get_by_role("textbox")).to_have_value("we are not sad")


def test_a_text_that_is_too_long_gets_one_clear_line(
    visit: Visit, expected_problems: list[str]
) -> None:
    expected_problems.append("the server responded with a status of 4")
    page = visit("")
    card = page.get_by_role("article", name="Toy")
    card.get_by_role("textbox").fill("I am not happy " * 60)
    card.get_by_role("button", name="Run", exact=True).click()
    alert = page.get_by_role("alert")
    expect(alert).to_contain_text("16")
    page.get_by_role("button", name="Dismiss").click()
    expect(alert).to_have_count(0)
    expect(page.get_by_role("article", name="Toy")).to_be_visible()


@pytest.mark.browser_context_args(locale="zh-CN")
def test_a_refusal_is_said_in_the_pages_language(
    visit: Visit, expected_problems: list[str]
) -> None:
    expected_problems.append("the server responded with a status of 4")
    page = visit("")
    card = page.locator("article[aria-labelledby='model-imdb']")
    card.get_by_role("textbox").fill("good " * 1_200)
    card.get_by_role("button", name="运行", exact=True).click()
    expect(page.get_by_role("alert")).to_have_text("文本有 6000 个字符，最多 4000 个：请缩短文本。")
    card.get_by_role("textbox").fill("这部电影很好看")
    card.get_by_role("button", name="运行", exact=True).click()
    expect(page.get_by_role("region", name="答案")).to_contain_text("它的答案没有意义")
    expect(page).to_have_title("这部电影很好看 · Glassformer")
