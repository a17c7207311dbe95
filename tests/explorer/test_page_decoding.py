"""Decoding on the page, against the ledgers of the same searches made here."""

from __future__ import annotations

import math
import re
from functools import cache
from urllib.parse import quote

import pytest
from playwright.sync_api import Locator, Page, expect

import glassformer
from glassformer.decoding import Beam, Greedy, Ledger, Sampling, Search
from glassformer.tasks import Model, Translated
from tests.explorer.conftest import Visit

TEXT = "Two men are sitting at a table in front of a house."
SMALL = Beam(size=4, n_best=4, length_penalty=0.6, penalty="gnmt")


@cache
def model(name: str) -> Model:
    return glassformer.load(name)


def found(name: str, text: str, search: Search, max_new: int = 48) -> Translated:
    if model(name).task == "generate":
        return model(name).generate(text, search=search, max_new=max_new, ledger=True)
    return model(name).translate([text], search=search, max_new=max_new, ledger=True)[0]


def ledger_of(result: Translated) -> Ledger:
    assert result.ledger is not None
    return result.ledger


def decode(visit: Visit, name: str, text: str) -> Page:
    page = visit(f"#/{name}?text={quote(text)}&view=decoding")
    page.locator("[data-result='0']").wait_for()
    return page


def number(text: str) -> float:
    return float(text.replace("−", "-").replace(",", "").rstrip("."))


def settle(page: Page) -> None:
    """Wait until the page shows what its settings ask for: it is busy from the change on."""
    expect(page.locator(".found")).to_have_attribute("aria-busy", "false")


def slide(page: Page, name: str, value: float) -> None:
    page.get_by_role("slider", name=name, exact=True).fill(str(value))
    settle(page)


def cells(row: Locator) -> list[str]:
    return row.locator("td, th").all_inner_texts()


@pytest.mark.parametrize(("name", "text"), [("en-de", TEXT), ("en-zh", "I like to read books.")])
def test_the_beam_is_the_ledger_of_the_search(visit: Visit, name: str, text: str) -> None:
    page = decode(visit, name, text)
    result = found(name, text, SMALL)
    for place, alternative in enumerate(result.alternatives):
        expect(page.locator(f"[data-result='{place}']")).to_have_text(alternative.text)
    steps = ledger_of(result).steps
    expect(page.get_by_text(f"Step 1 of {len(steps)}")).to_be_visible()
    for step in (0, len(steps) // 2, len(steps) - 1):
        page.get_by_role("slider", name="Step", exact=True).fill(str(step + 1))
        rows = page.locator("tbody tr")
        expect(rows).to_have_count(len(steps[step].candidates))
        for place, candidate in enumerate(steps[step].candidates):
            shown = cells(rows.nth(place))
            assert number(shown[2]) == candidate.parent + 1
            assert number(shown[3]) == pytest.approx(math.exp(candidate.log_probability), rel=1e-3)
            assert number(shown[4]) == pytest.approx(candidate.log_probability, rel=1e-3)
            assert number(shown[5]) == pytest.approx(candidate.total, rel=1e-3)
            assert number(shown[6]) == pytest.approx(candidate.score, rel=1e-3)
            assert shown[7] == candidate.fate


def test_the_way_to_the_best_result_is_marked(visit: Visit) -> None:
    page = decode(visit, "en-de", TEXT)
    result = found("en-de", TEXT, SMALL)
    ledger = ledger_of(result)
    ends = [
        (step, candidate)
        for step, one in enumerate(ledger.steps)
        for candidate in one.candidates
        if candidate.fate == "ended"
    ]
    step, best = max(ends, key=lambda end: end[1].score)
    assert best.score == pytest.approx(result.score)
    for at, candidate in enumerate(ledger.path(step, best)):
        place = ledger.steps[at].candidates.index(candidate)
        page.get_by_role("slider", name="Step", exact=True).fill(str(at + 1))
        expect(page.locator(f"[data-spot='{at}:{place}']")).to_have_class(re.compile(r"\bbest\b"))
        expect(page.locator(f"[data-spot^='{at}:'].best")).to_have_count(1)
    expect(page.locator(".why")).to_contain_text("This is result 1.")
    penalty = ((5 + step + 1) / 6) ** 0.6
    said = page.locator(".why").inner_text()
    told = re.search(r"\^0\.6 = ([\d.]+)\. Score: (−[\d.]+) ÷ [\d.]+ = (−[\d.]+)", said)
    assert told is not None
    assert number(told[1]) == pytest.approx(penalty, rel=1e-3)
    assert number(told[2]) / penalty == pytest.approx(best.score, rel=1e-3)
    assert number(told[3]) == pytest.approx(best.score, rel=1e-3)


def test_the_settings_are_live(visit: Visit) -> None:
    page = decode(visit, "en-de", TEXT)
    slide(page, "Beam", 2)
    expect(page.locator("[data-result]")).to_have_count(2)
    narrow = found("en-de", TEXT, Beam(size=2, n_best=2, length_penalty=0.6, penalty="gnmt"))
    expect(page.locator("[data-result='1']")).to_have_text(narrow.alternatives[1].text)
    slide(page, "Length penalty", 0)
    plain = found("en-de", TEXT, Beam(size=2, n_best=2, length_penalty=0.0, penalty="gnmt"))
    score = page.locator("li.best .score").inner_text()
    assert number(score.removeprefix("score ")) == pytest.approx(plain.score, rel=1e-3)
    page.get_by_text("greedy", exact=True).click()
    settle(page)
    expect(page.locator("[data-result]")).to_have_count(1)
    greedy = found("en-de", TEXT, Greedy())
    expect(page.locator("[data-result='0']")).to_have_text(greedy.text)


def test_sampling_shows_chances_before_and_after(visit: Visit) -> None:
    page = decode(visit, "shakespeare", "KING RICHARD:")
    page.get_by_text("sampling", exact=True).click()
    settle(page)
    slide(page, "At most (tokens)", 8)
    slide(page, "Temperature", 1.5)
    slide(page, "Top-k", 5)
    slide(page, "Seed", 7)
    search = Sampling(temperature=1.5, top_k=5, seed=7)
    result = found("shakespeare", "KING RICHARD:", search, max_new=8)
    shown = page.locator("[data-result='0']").inner_text()
    assert shown.removeprefix("KING RICHARD:").split() == result.text.split()
    steps = ledger_of(result).steps
    for step in (0, 3, len(steps) - 1):
        page.get_by_role("slider", name="Step", exact=True).fill(str(step + 1))
        for place, candidate in enumerate(steps[step].candidates):
            bar = page.locator(f".bars [data-place='{place}']")
            before, after = bar.locator(".number").all_inner_texts()
            assert candidate.draw_probability is not None
            assert number(before) == pytest.approx(math.exp(candidate.log_probability), rel=1e-3)
            assert number(after) == pytest.approx(candidate.draw_probability, rel=1e-3, abs=1e-9)
            is_drawn = "drawn" in bar.locator(".mark").inner_text()
            assert is_drawn == (candidate.fate != "dropped")


def test_keys_step_through_and_move_among_candidates(visit: Visit) -> None:
    page = decode(visit, "en-de", TEXT)
    page.keyboard.press("j")
    page.keyboard.press("j")
    expect(page.get_by_text("Step 3 of")).to_be_visible()
    page.keyboard.press("k")
    expect(page.get_by_text("Step 2 of")).to_be_visible()
    page.locator("[data-spot='1:0']").click()
    page.keyboard.press("ArrowDown")
    expect(page.locator("[data-spot='1:1']")).to_be_focused()
    second = ledger_of(found("en-de", TEXT, SMALL)).steps[1].candidates[1]
    said = re.search(r"= (−[\d.]+)\.", page.locator(".why p").first.inner_text())
    assert said is not None
    assert number(said[1]) == pytest.approx(second.total, rel=1e-3)


def test_a_classifier_has_nothing_to_decode(visit: Visit) -> None:
    page = visit(f"#/imdb?text={quote('A fine film.')}&view=decoding")
    expect(page.get_by_text("imdb classifies: it answers in one pass")).to_be_visible()
    page.get_by_role("button", name="English → German").click()
    expect(page.locator("[data-result='0']")).to_be_visible()
