"""Lessons on the page: every number is the lesson's, and opens the card of the same cell."""

from __future__ import annotations

import re
from collections.abc import Callable

from playwright.sync_api import Page, Route, expect

import glassformer
from glassformer.explorer.open_lessons import Lessons
from glassformer.lessons import Formula, HeatMap, make_lesson
from glassformer.tracing import trace
from glassformer.tracing.formula import to_tex
from tests.explorer.conftest import Live, Visit

LESSON = make_lesson("illustrated")


def at(visit: Visit, step: int, name: str = "illustrated", language: str = "en") -> Page:
    page = visit(f"#/lesson/{name}/{step + 1}" + ("?lang=zh" if language == "zh" else ""))
    page.locator(".walk article").wait_for()
    return page


def test_the_list_leads_to_a_lesson_and_back(visit: Visit) -> None:
    page = visit("#/lesson")
    page.locator("[data-lesson=illustrated]").click()
    expect(page.locator("article h3")).to_have_text(f"1{LESSON.steps[0].title}")
    expect(page).to_have_url(re.compile(r"#/lesson/illustrated/1"))
    page.get_by_role("button", name="All lessons").click()
    expect(page.get_by_role("heading", name="Lessons", exact=True)).to_be_visible()


def test_no_heading_is_empty_while_a_lesson_is_being_made(
    page: Page, visit: Visit, axe: Callable[[Page], list[str]]
) -> None:
    held: list[Route] = []
    page.route(re.compile(r"/api/lessons/illustrated\b"), lambda route: held.append(route))
    visit("#/lesson/illustrated/1")
    expect(page.get_by_text("The lesson is being")).to_be_visible()
    assert axe(page) == []
    expect(page.locator("nav h2")).to_have_count(0)
    held[0].continue_()
    expect(page.locator("nav h2")).to_have_text(LESSON.title)


def test_every_step_has_the_lessons_own_numbers(visit: Visit) -> None:
    page = at(visit, 0)
    for number, step in enumerate(LESSON.steps):
        expect(page.locator("article h3")).to_contain_text(step.title)
        expect(page.get_by_text(f"Step {number + 1} of {len(LESSON.steps)}")).to_be_visible()
        matrices = [part for part in step.parts if isinstance(part, HeatMap)]
        grids = page.locator("article table[role=grid]:not(form *)")
        expect(grids).to_have_count(len(matrices))
        if any(isinstance(part, Formula) for part in step.parts):
            expect(page.locator("article .cell .katex").first).to_be_visible()
        for place, part in enumerate(matrices):
            shown = (
                grids.nth(place)
                .locator("[data-value]")
                .evaluate_all("cells => cells.map((cell) => Number(cell.dataset.value))")
            )
            rows = enumerate(part.matrix.values)
            assert shown == [float(x) for at, row in rows if at not in part.hidden for x in row]
        for formula in [part for part in step.parts if isinstance(part, Formula)]:
            numbers = to_tex(formula.card.number_tree, formula.card.digits)
            annotations = page.locator("article annotation").all_text_contents()
            assert any(numbers in one for one in annotations)
        if number + 1 < len(LESSON.steps):
            page.keyboard.press("j")


def test_j_and_k_and_the_buttons_turn_the_page(visit: Visit) -> None:
    page = at(visit, 3)
    expect(page.locator("article h3")).to_contain_text(LESSON.steps[3].title)
    page.keyboard.press("k")
    expect(page.locator("article h3")).to_contain_text(LESSON.steps[2].title)
    page.get_by_role("button", name="Next").click()
    expect(page.locator("article h3")).to_contain_text(LESSON.steps[3].title)
    expect(page).to_have_url(re.compile(r"#/lesson/illustrated/4"))
    page.go_back()
    expect(page.locator("article h3")).to_contain_text(LESSON.steps[2].title)


def test_a_formula_and_a_cell_open_their_cards(visit: Visit) -> None:
    place, step = next(
        (number, step) for number, step in enumerate(LESSON.steps) if step.role == "scores"
    )
    formula = next(part for part in step.parts if isinstance(part, Formula))
    page = at(visit, place)
    page.locator("button.cell").first.click()
    card = page.get_by_role("complementary", name="The selected number")
    expect(card).to_contain_text("Indices count from 0")
    expect(card).to_contain_text(formula.cell.card().name)
    expect(card).to_contain_text(formula.card.value)
    expect(page).to_have_url(re.compile(r"#/lesson/illustrated/"))
    page.locator("article [data-at='2,1']:not(form *)").last.click()
    expect(card).to_contain_text("S[2, 1]")
    matrix = next(part for part in step.parts if isinstance(part, HeatMap))
    expect(card).to_contain_text(f"{matrix.matrix.values[2, 1]:g}")


def test_a_parameter_opens_the_cell_that_it_is_stored_in(visit: Visit) -> None:
    """Parameters stand as x · W uses them; the trace has them as PyTorch stores them."""
    part = next(part for part in LESSON.parts() if isinstance(part, HeatMap) and part.turned)
    page = at(visit, 0)
    grid = page.get_by_role("grid", name=part.caption)
    grid.locator("[data-at='3,1']").click()
    card = page.get_by_role("complementary", name="The selected number")
    expect(card).to_contain_text(part.step[1, 3].card().name)
    expect(grid.locator("td.open [data-at='3,1']")).to_have_count(1)


def test_a_lesson_outlives_its_traces(
    visit: Visit, live: Live, expected_problems: list[str]
) -> None:
    expected_problems.append("the server responded with a status of 410")
    page = at(visit, next(n for n, step in enumerate(LESSON.steps) if step.role == "scores"))
    card = page.get_by_role("complementary", name="The selected number")
    asked: list[str] = []

    def answer(route: Route) -> None:
        asked.append(route.request.url)
        route.fulfill(status=410, json={"detail": "the trace is gone"})

    for place in ("2,1", "0,2"):  # the lesson's trace is not open yet; it is
        made = live.state.lessons.get("illustrated", "en")
        gone = {part.trace for step in made.steps for part in step.parts if part.trace}
        page.route(re.compile("/api/traces/(" + "|".join(gone) + ")"), answer)
        live.state.lessons = Lessons(live.state.store)  # both as after a restart of the server
        asked.clear()
        page.locator(f"article [data-at='{place}']:not(form *)").last.click()
        expect(card).to_contain_text(f"S[{place.replace(',', ', ')}]")
        expect(page.get_by_role("alert")).to_have_count(0)
        assert asked


def test_the_language_changes_in_place(visit: Visit) -> None:
    page = at(visit, 4)
    page.get_by_role("button", name="中文").click()
    chinese = make_lesson("illustrated", "zh")
    expect(page.locator("article h3")).to_contain_text(chinese.steps[4].title)
    expect(page.get_by_text(f"第 5 步，共 {len(chinese.steps)} 步")).to_be_visible()


def test_a_run_is_walked_with_its_own_numbers(visit: Visit) -> None:
    page = visit("#/toy?text=I am not happy&view=walk&at=1")
    page.locator(".walk article").wait_for()
    found = glassformer.load("toy", attention="written").forward_pass("I am not happy")
    recorded = trace(found.module, *found.arguments)
    heading = page.locator("article h3")
    for _ in recorded.steps:
        if heading.inner_text().endswith("scores"):
            break
        page.keyboard.press("j")
    expect(heading).to_contain_text("scores")
    expect(page.locator("article")).to_contain_text("dot product")
    first = page.locator("article .first button")
    step = next(step for step in recorded.steps if step.name.endswith("attention.scores"))
    expect(first).to_contain_text("S[0, 0]")
    shown = first.locator("b").inner_text().replace("−", "-")
    assert float(shown) == float(step.value[0, 0, 0, 0])


def test_an_input_that_is_no_text_is_not_said_to_be_one(visit: Visit) -> None:
    page = at(visit, 0)
    page.locator("article [role=grid] button").first.click()
    card = page.get_by_role("complementary", name="The selected number")
    expect(card).to_contain_text("An input: it is given.")
    expect(card.get_by_text("Which words made this number?")).to_have_count(0)


def test_a_mask_says_yes_and_no_and_formulas_speak_the_lessons_language(visit: Visit) -> None:
    made = make_lesson("masked", "zh")
    step = next(
        at
        for at, one in enumerate(made.steps)
        if any(isinstance(part, HeatMap) and part.is_boolean for part in one.parts)
    )
    page = at(visit, step, "masked", "zh")
    mask = page.get_by_role("grid", name="hidden").first
    texts = mask.get_by_role("button").all_inner_texts()
    assert set(texts) == {"✓", "·"}
    formula = page.locator("article .formula").first
    expect(formula).to_contain_text("否则")
    expect(formula).not_to_contain_text("otherwise")
    expect(page.get_by_text("负无穷（−∞）请输入 -inf。").first).to_be_visible()
