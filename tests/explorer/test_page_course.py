"""The course on the page: a path, what a lesson needs and leads to, switches, questions, code."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

from playwright.sync_api import Page, Request, Route, expect

from glassformer.documents.parts import HeatMap, Question
from glassformer.lessons import LESSONS
from tests.explorer.conftest import Visit
from tests.lessons.shared_lessons import lesson


def test_the_list_is_a_path(visit: Visit, axe: Callable[[Page], list[str]]) -> None:
    page = visit("#/lesson")
    cards = page.locator("[data-lesson]")
    expect(cards).to_have_count(len(LESSONS))
    for at, (name, entry) in enumerate(LESSONS.items()):
        card = cards.nth(at)
        expect(card).to_have_attribute("data-lesson", name)
        expect(card).to_contain_text(f"{at + 1} · {entry.minutes} min")
        for need in entry.needs:
            expect(card).to_contain_text(LESSONS[need].title.en)
    assert axe(page) == []


def test_a_lesson_says_what_it_follows_and_ends_with_the_next(visit: Visit) -> None:
    page = visit("#/lesson/masked/1?lang=zh")
    about = page.get_by_role("region", name="关于这一课")
    made = lesson("masked", "zh")
    assert made.place is not None and made.place.next is not None
    expect(about).to_contain_text(made.place.text)
    expect(about).to_contain_text(made.place.able)
    expect(about.get_by_role("link", name=made.place.needs[0][1])).to_be_visible()
    expect(page.locator(".ending")).to_have_count(0)
    page.get_by_role("button", name=made.steps[-1].title).click()
    expect(about).to_have_count(0)
    page.locator(".ending a").click()
    expect(page).to_have_url(re.compile(rf"#/lesson/{made.place.next[0]}/1"))


def test_a_question_is_checked_and_its_numbers_are_hidden_until_then(
    visit: Visit, axe: Callable[[Page], list[str]]
) -> None:
    page = visit("#/lesson/illustrated/5")
    form = page.locator("[data-question='1']")
    expect(page.locator("[data-asked]")).to_have_count(3)
    fields = form.locator("input")
    for field, number in zip(fields.all(), ("4", "12", "10"), strict=True):
        field.fill(number)
    form.get_by_role("button", name="Check").click()
    expect(form.get_by_role("status")).to_contain_text(
        "✗ Not yet: these are the numbers in the row"
    )
    expect(page.locator("[data-asked]")).to_have_count(3)
    assert axe(page) == []
    fields.nth(1).fill("16")
    fields.nth(2).fill("12")
    fields.nth(2).press("Enter")
    expect(form.get_by_role("status")).to_contain_text("✓ Right.")
    expect(page.locator("[data-asked]")).to_have_count(0)
    page.keyboard.press("Control+Home")
    page.get_by_role("button", name="Next").click()
    page.get_by_role("button", name="Next").click()
    form = page.locator("[data-question='2']")
    expect(form.locator("input").first).to_have_value("")
    form.get_by_role("button", name="Show the answer").click()
    expect(form).to_contain_text("The answer: 3e−04 0.881 0.119")
    expect(page.locator("[data-asked]")).to_have_count(0)


def test_a_row_hidden_for_another_steps_question_says_where_it_is_asked(
    visit: Visit, axe: Callable[[Page], list[str]]
) -> None:
    page = visit("#/lesson/illustrated/6")
    note = page.get_by_text("The row “?” is the answer to question 1.")
    expect(page.locator("[data-asked]")).to_have_count(3)
    assert axe(page) == []
    note.get_by_role("button", name="To the question (step 5)").click()
    expect(page).to_have_url(re.compile(r"#/lesson/illustrated/5"))
    expect(note).to_have_count(0)
    page.get_by_role("button", name="Next").click()
    note.get_by_role("button", name="Show the answer").click()
    expect(page.locator("[data-asked]")).to_have_count(0)
    expect(note).to_have_count(0)


def test_a_question_shows_the_matrices_that_it_is_computed_from(visit: Visit) -> None:
    """What the step itself does not show: weights and values for the context asked for."""
    page = visit("#/lesson/illustrated/9")
    question = page.locator("[data-question]")
    needed = {one.step.name for one in given_of("illustrated", 8)}
    shown = {
        one.step.name for one in lesson("illustrated").steps[8].parts if isinstance(one, HeatMap)
    }
    assert needed - shown
    expect(question.get_by_role("grid")).to_have_count(len(needed - shown))
    question.get_by_role("grid").first.get_by_role("button").first.click()
    expect(page.get_by_role("complementary", name="The selected number")).to_be_visible()


def test_a_number_of_a_lesson_is_edited_in_its_equation(visit: Visit) -> None:
    """The lesson tells of its run as it was; the edit is seen where all of the run is."""
    page = visit("#/lesson/illustrated/1")
    page.locator("article").get_by_role("grid").first.get_by_role("button").first.click()
    page.get_by_role("button", name="Change this number (F2)").click()
    page.get_by_role("textbox", name="New value of").fill("3")
    page.keyboard.press("Enter")
    bar = page.get_by_role("region", name="Edits")
    expect(bar).to_contain_text("steps changed")
    expect(bar).not_to_contain_text("the same answer")
    expect(page.get_by_role("button", name="Equation")).to_have_attribute("aria-current", "page")


def given_of(name: str, step: int) -> tuple[HeatMap, ...]:
    (question,) = (one for one in lesson(name).steps[step].parts if isinstance(one, Question))
    return question.given


def test_a_lesson_is_handed_out(visit: Visit, axe: Callable[[Page], list[str]]) -> None:
    page = visit("#/lesson/masked/1?lang=zh")
    assert axe(page) == []
    with page.expect_download() as waiting:
        page.locator("[data-format='worksheet']").click()
    assert waiting.value.suggested_filename == "masked-worksheet.html"
    assert LESSONS["masked"].title.zh in waiting.value.path().read_text(encoding="utf-8")


def test_a_lesson_named_in_prose_is_a_link(visit: Visit) -> None:
    page = visit("#/lesson/illustrated/6?lang=zh")
    page.locator("article").get_by_role("link", name=LESSONS["scaling"].title.zh).click()
    expect(page).to_have_url(re.compile(r"#/lesson/scaling/1"))
    expect(page.locator("article")).to_contain_text("1")


def test_code_stands_below_a_formula(visit: Visit) -> None:
    page = visit("#/lesson/illustrated/2")
    expect(page.locator("article .formula code")).to_have_text(
        "projected_queries = self.to_queries(x)"
    )


def test_a_switch_makes_the_lesson_anew_and_is_in_the_address(
    page: Page, visit: Visit, expected_problems: list[str]
) -> None:
    """With a switch put into the answer of the server: the lesson itself has none."""
    expected_problems.append("the server responded with a status of 400")
    asked: list[str] = []

    def with_switch(route: Route) -> None:
        asked.append(route.request.url)
        chosen = "b" if "set=shown%3Db" in route.request.url else "a"
        answer = route.fetch(url=re.sub(r"&set=.*", "", route.request.url))
        values = [{"name": "a", "label": "all"}, {"name": "b", "label": "few"}]
        choice = {"name": "shown", "label": "what is shown", "values": values, "chosen": chosen}
        route.fulfill(json=answer.json() | {"choices": [choice]})

    page.route(re.compile(r"/api/lessons/illustrated\?"), with_switch)
    visit("#/lesson/illustrated/5")
    few = page.get_by_role("radio", name="few")
    expect(few).to_have_attribute("aria-checked", "false")
    few.click()
    expect(few).to_have_attribute("aria-checked", "true")
    expect(page).to_have_url(re.compile(r"#/lesson/illustrated/5\?set=shown%3Db"))
    assert len(asked) == 2
    sent: list[Request] = []
    page.on("request", lambda request: sent.append(request))
    page.locator("[data-question='1'] input").first.fill("4")
    page.get_by_role("button", name="Check").click()
    expect(page.locator("[data-question='1'] .wrong")).to_be_visible()
    (answers,) = [one for one in sent if one.url.endswith("/answers")]
    assert json.loads(answers.post_data or "")["settings"] == ["shown=b"]
    page.reload()
    expect(page.get_by_role("radio", name="few")).to_have_attribute("aria-checked", "true")
