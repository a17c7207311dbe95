"""A page saved as one file: complete, inert, and with the answers that the server gives."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import torch
from playwright.sync_api import BrowserContext, Page, expect

from glassformer.documents import render
from glassformer.explorer.cell_cards import (
    card_info,
    dependents_of,
    find_cell,
    path_of,
    term_page,
)
from glassformer.explorer.open_traces import OpenTrace
from glassformer.explorer.overview import describe
from glassformer.explorer.panels import equation
from glassformer.explorer.saved_page import TEMPLATE, page_of, page_text
from glassformer.explorer.schemas import Edit
from glassformer.explorer.state import State
from glassformer.tracing import Trace, trace
from glassformer.tracing.capture.memory import index_of
from tests.explorer.conftest import PATIENCE
from tests.explorer.saved import data_of, step_names
from tests.tracing.operator_examples import EXAMPLES
from tests.tracing.render.toys import traced

# --- the file ---


class Outline(HTMLParser):
    """The elements of a page as a browser would open them, before scripts run."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.addresses: list[str] = []
        self.texts: dict[str, list[str]] = {"script": [], "style": [], "title": []}
        self.policy = ""
        self._inside = ""
        self.language: str | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self._inside = tag
        values = dict(attrs)
        self.addresses += [str(value) for name, value in attrs if name in ("src", "href")]
        if values.get("http-equiv") == "Content-Security-Policy":
            self.policy = str(values["content"])
        if tag == "html":
            self.language = values["lang"]

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""

    def handle_data(self, data: str) -> None:
        if self._inside in self.texts:
            self.texts[self._inside].append(data)


def outline_of(page: str) -> Outline:
    outline = Outline()
    outline.feed(page)
    return outline


NASTY = ["</script><script>alert(1)</script>", "<!--", "]]>&amp;\u2028"]


def test_no_text_of_a_trace_becomes_markup() -> None:
    t = trace(lambda x: x + 1, torch.ones(3, 2), axis_labels={"x": NASTY})
    page = page_text(t, title="<img src=x onerror=alert(1)> @@data@@")
    plain, empty = outline_of(page), outline_of(TEMPLATE.read_text(encoding="utf-8"))
    assert plain.tags == empty.tags and "img" not in plain.tags
    assert plain.addresses == ["data:,"]
    assert plain.texts["title"] == ["<img src=x onerror=alert(1)> @@data@@"]
    assert NASTY in data_of(page)["trace"]["trace"]["labels"]


def test_the_policy_allows_the_pages_own_script_and_style_alone() -> None:
    outline = outline_of(page_text(traced("illustrated")))

    def digest(text: str) -> str:
        return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"

    rules = dict(rule.strip().split(" ", 1) for rule in outline.policy.split(";"))
    assert rules["default-src"] == "'none'"
    assert rules["script-src"] == digest(outline.texts["script"][-1])
    assert rules["style-src-elem"] == digest(outline.texts["style"][0])
    assert "connect-src" not in rules and rules["form-action"] == "'none'"


def test_the_language_and_the_title_are_the_files() -> None:
    t = traced("illustrated")
    chinese = outline_of(page_text(t, lang="zh"))
    assert (chinese.language, chinese.texts["title"]) == ("zh-CN", ["模型里的每一个数"])
    english = outline_of(page_text(t, title="Mine"))
    assert (english.language, english.texts["title"]) == ("en", ["Mine"])


def test_no_path_of_this_machine_is_in_the_file() -> None:
    page = page_text(traced("decoder"), max_cells=200)
    told = page + json.dumps(data_of(page))
    assert str(Path.cwd()) not in told and "site-packages" not in told
    assert "glassformer/nn/attention.py" in told


def test_every_computed_cell_of_a_small_trace_has_its_card() -> None:
    t = traced("illustrated")
    data = data_of(page_text(t))
    assert data["left"] == {"steps": 0, "values": [], "numbers": 0, "cells": 0, "cell_steps": 0}
    for number, chunk in data["steps"].items():
        step = data["trace"]["trace"]["steps"][number]
        assert (chunk["cards"] is None) == step["is_view"] == (chunk["shows"] is not None)
        if step["role"] == "activation" and not step["is_view"]:
            count = math.prod(step["shape"])
            assert len(chunk["cards"]["each"]["exact"]) == len(chunk["dependents"]) == count


def test_what_does_not_fit_is_left_out_and_named() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Linear(64, 64))
    t = trace(model, torch.randn(20, 64))
    page = page_text(t, max_bytes=30_000)
    data = data_of(page)
    assert len(page) < len(TEMPLATE.read_text(encoding="utf-8")) + 60_000
    assert set(data["left"]["values"]) == {"0.weight", "1.weight"}
    assert data["left"]["numbers"] == 2 * 64 * 64
    assert (data["left"]["cells"], data["left"]["cell_steps"]) == (2 * 20 * 64, 2)
    assert step_names(data)["0"]["cards"] is None
    few = data_of(page_text(t, max_cells=100))
    assert few["left"]["numbers"] == 0 and few["left"]["cells"] == 2 * 20 * 64


def test_chosen_steps_bring_what_they_read() -> None:
    t = traced("illustrated")
    data = data_of(page_text(t, steps=["weights"]))
    assert sorted(step_names(data)) == ["scaled", "weights"]
    assert data["left"]["steps"] == len(data["trace"]["trace"]["steps"]) - 2
    info = data["trace"]["trace"]
    assert info["steps"][info["first"]]["name"] == "weights"
    assert [len(chunk["equations"][0]["parts"]) for chunk in data["steps"].values()] == [1, 5]
    assert render(t["weights"], to="html", title="x") == page_text(t, steps=["weights"], title="x")


# --- in a browser ---


@pytest.fixture
def show(context: BrowserContext, tmp_path: Path) -> Iterator[Callable[[str, str], Page]]:
    """Open a page from a file; it may ask nobody for anything, nor fail in silence."""
    problems: list[str] = []
    context.on("console", lambda said: problems.append(f"console: {said.text}"))
    context.on("weberror", lambda error: problems.append(f"exception: {error.error}"))
    context.on(
        "request",
        lambda asked: (
            None
            if asked.url.startswith(("data:", "blob:", tmp_path.as_uri()))
            else problems.append(f"asked for {asked.url}")
        ),
    )

    def go(text: str, link: str = "") -> Page:
        path = tmp_path / "page.html"
        path.write_text(text, encoding="utf-8")
        page = context.new_page()
        page.set_default_timeout(PATIENCE)
        page.goto(path.as_uri() + link)
        page.locator("h2").first.wait_for()
        return page

    yield go
    assert not problems, "\n".join(problems)


EVERYTHING = """async (wanted) => {
  const ask = async (cell) => ({
    card: await glassformer.card('saved', cell),
    path: await glassformer.path('saved', cell).catch(() => null),
    dependents: await glassformer.dependents('saved', cell),
  });
  return Promise.all(wanted.map(ask));
}"""


def cells_of(opened: OpenTrace) -> list[dict[str, Any]]:
    """Every cell of every step, views included."""
    return [
        {"step": step.number, "index": list(index_of(place, step.shape))}
        for step in opened.steps
        for place in range(math.prod(step.shape))
    ]


def assert_says_the_same(page: Page, opened: OpenTrace, language: Any) -> None:
    """What the page answers about every cell is what the server would answer."""
    wanted = cells_of(opened)
    for place, told in zip(wanted, page.evaluate(EVERYTHING, wanted), strict=True):
        cell = find_cell(opened, place["step"], tuple(place["index"]), None)
        card = card_info(opened, cell, language).model_dump(mode="json")
        if told["card"]["sum"] is not None:
            told["card"]["sum"].pop("terms", None)  # for the page's own list of all terms
        assert told["card"] == card, place
        assert told["dependents"] == [d.model_dump(mode="json") for d in dependents_of(cell)]
        if not card["is_given"]:
            assert told["path"] == [ref.model_dump(mode="json") for ref in path_of(cell)]


@pytest.mark.parametrize("language", ["en", "zh"])
def test_every_card_is_the_servers(show: Callable[..., Page], language: Any) -> None:
    t = traced("illustrated")
    page = show(page_text(t, lang=language), f"#/?lang={language}")
    assert_says_the_same(page, OpenTrace(t, "trace", "module"), language)


def test_parts_of_a_packed_projection_keep_their_names(show: Callable[..., Page]) -> None:
    torch.manual_seed(0)
    attention = torch.nn.MultiheadAttention(4, 2, batch_first=True).eval()
    x = torch.randn(1, 2, 4)
    t = trace(attention, x, x, x)
    assert any(t.naming.has_parts(step) for step in t.steps)
    assert_says_the_same(show(page_text(t)), OpenTrace(t, "trace", "module"), "en")


@pytest.mark.slow
@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("name", ["by_hand", "decoder"])
def test_every_card_of_a_larger_model(show: Callable[..., Page], name: str, language: Any) -> None:
    t = traced(name)
    assert_says_the_same(
        show(page_text(t), f"#/?lang={language}"), OpenTrace(t, "trace", "module"), language
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", EXAMPLES)
def test_every_card_of_every_rule(show: Callable[..., Page], name: str) -> None:
    t = trace(EXAMPLES[name])
    page = show(page_text(t))
    assert_says_the_same(page, OpenTrace(t, "trace", "module"), "en")
    page.get_by_role("button", name="中文").click()
    assert_says_the_same(page, OpenTrace(t, "trace", "module"), "zh")


def test_every_matrix_and_equation_is_the_servers(show: Callable[..., Page]) -> None:
    t = traced("by_hand")
    opened = OpenTrace(t, "trace", "module")
    info = describe(opened)
    page = show(page_text(t, max_cells=200))
    for step in opened.steps:
        if 0 in step.shape:
            continue
        lead = [size - 1 for size in step.shape[:-2]]
        asked = {"step": step.number, "lead": lead}
        told = page.evaluate("(p) => glassformer.equation('saved', p.step, p.lead)", asked)
        assert told == equation(info, step, tuple(lead)).model_dump(mode="json")
        views = [(None, step.view), *enumerate(o.view for o in step.operands)]
        for operand, view in views:
            place = {**asked, "lead": [0] * len(view.shape[:-2]), "operand": operand}
            values = page.evaluate(
                "async (p) => [...(await glassformer.values('saved', p)).data]", place
            )
            first = view.array[(0,) * len(view.shape[:-2])].reshape(-1)
            assert values == pytest.approx([float(x) for x in first], abs=0, nan_ok=True)


def test_the_terms_of_a_long_sum_are_all_there(show: Callable[..., Page]) -> None:
    torch.manual_seed(0)
    t = trace(torch.nn.Linear(12, 2), torch.randn(1, 12))
    page = show(page_text(t))
    step = t.steps[-1]
    place = {"step": step.number, "index": [0, 1]}
    for order in ("size", "index"):
        told = page.evaluate(
            "([p, order]) => glassformer.terms('saved', p, { order })", [place, order]
        )
        known = term_page(step[0, 1], 0, 100, order == "size", "en")
        assert told["total"] == known.total == 13
        for shown, term in zip(told["terms"], known.terms, strict=True):
            assert shown["value"] == term.value
            assert shown["share"] == pytest.approx(term.share)
            if len(term.cells) == 2:
                assert shown["cells"] == [cell.model_dump(mode="json") for cell in term.cells]
                assert shown["numbers"].replace("−", "-") == term.numbers
    page.goto(page.url.partition("#")[0] + f"#/trace/saved?step={step.name}&cell=0,1")
    page.get_by_text("All in order").click()
    expect(
        page.get_by_role("region", name="Sum of 13 terms").get_by_role("listitem").nth(0)
    ).to_be_visible()


def test_a_reader_follows_keys_links_and_switches(show: Callable[..., Page]) -> None:
    page = show(page_text(traced("illustrated")), "#/trace/saved?step=scores&cell=0,0,1,2")
    card = page.get_by_role("complementary")
    title = card.get_by_role("heading").first
    expect(title).to_have_text("S[1, 2]")
    card.get_by_role("button", name=re.compile(r"K\[")).first.click()
    expect(title).to_contain_text("K[")
    expect(page).not_to_have_url(re.compile("cell=0,0,1,2"))  # the address follows the card
    page.go_back()
    expect(title).to_have_text("S[1, 2]")
    page.keyboard.press("[")
    expect(title).not_to_have_text("S[1, 2]")
    page.keyboard.press("Backspace")
    expect(title).to_have_text("S[1, 2]")
    page.get_by_role("button", name="中文").click()
    expect(card.get_by_text("公式")).to_be_visible()
    assert page.evaluate("document.documentElement.lang") == "zh-CN"
    page.reload()
    expect(title).to_have_text("S[1, 2]")
    page.locator("#map-search").fill("weights")
    expect(page.get_by_role("treeitem")).to_have_count(1)


def language_of(page: Page) -> str:
    return str(page.evaluate("document.documentElement.lang"))


def test_the_language_is_the_readers_unless_the_link_names_one(
    show: Callable[..., Page],
) -> None:
    page = show(page_text(traced("illustrated"), lang="zh"))  # the browser is English
    assert language_of(page) == "en"
    page = show(page_text(traced("illustrated"), lang="en"), "#/?lang=zh")
    assert language_of(page) == "zh-CN"
    page = show(page_text(traced("illustrated"), lang="en"))  # that was the choice of a link
    assert language_of(page) == "en"
    page.get_by_role("button", name="中文").click()
    page = show(page_text(traced("illustrated"), lang="en"))  # this one is the reader's
    assert language_of(page) == "zh-CN"


@pytest.mark.browser_context_args(locale="fr-FR")
def test_a_reader_of_neither_language_has_the_one_that_the_page_was_written_in(
    show: Callable[..., Page],
) -> None:
    assert language_of(show(page_text(traced("illustrated"), lang="zh"))) == "zh-CN"


def test_a_file_offers_nothing_that_needs_a_server(show: Callable[..., Page]) -> None:
    page = show(page_text(traced("illustrated")), "#/trace/saved?step=scores&cell=0,0,1,2")
    for name in ("Export", "Edit this number", "Run", "Undo"):
        expect(page.get_by_role("button", name=name, exact=True)).to_have_count(0)
    expect(page.get_by_role("textbox")).to_have_count(0)
    page.keyboard.press("F2")
    page.get_by_role("gridcell").last.dblclick()
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page.get_by_text("start glassformer explore")).to_be_visible()


def test_what_was_left_out_is_said_where_it_is_missed(show: Callable[..., Page]) -> None:
    t = trace(torch.nn.Linear(64, 8), torch.ones(2, 64))
    page = show(page_text(t, max_cells=4), f"#/trace/saved?step={t.steps[-1].name}")
    page.get_by_text("Left out to keep the file small").click()
    expect(page.get_by_text("the arithmetic of 16 numbers in 1 steps")).to_be_visible()
    page.get_by_role("gridcell").last.click()
    expect(page.get_by_role("alert")).to_contain_text("was left out of the saved page")
    few = page_text(traced("illustrated"), steps=["weights"])
    page = show(few, "#/trace/saved?step=scores")
    expect(page.get_by_role("alert")).to_contain_text("This step is not in the saved page.")
    expect(page.get_by_role("treeitem", selected=True)).to_contain_text("weights")


def test_an_edited_run_keeps_its_edits(show: Callable[..., Page]) -> None:
    from glassformer.explorer.trace_edits import edit_trace

    opened = OpenTrace(traced("illustrated"), "illustrated", "module")
    runs = State("toy").other_runs(opened)
    edited = edit_trace(opened, [Edit(step="scores", index=[0, 0, 1, 2], value=7.0)], runs)
    page = show(page_of(edited), "#/trace/saved?step=scores&cell=0,0,1,2")
    expect(page.get_by_role("region", name="Edits")).to_contain_text("scores[0, 0, 1, 2]")
    expect(page.get_by_role("complementary")).to_contain_text("7")
    expect(page.get_by_role("button", name="Reset")).to_have_count(0)
    expect(page.get_by_role("button", name="Experiments")).to_have_count(0)


@pytest.mark.browser_context_args(viewport={"width": 390, "height": 844}, has_touch=True)
def test_a_small_screen_shows_it_without_sideways_scrolling(
    show: Callable[..., Page], axe: Callable[[Page], list[str]]
) -> None:
    page = show(page_text(traced("illustrated")), "#/trace/saved?step=scores&cell=0,0,1,2")
    expect(page.get_by_role("complementary")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert axe(page) == []


def test_another_script_is_refused(context: BrowserContext, tmp_path: Path) -> None:
    page = page_text(traced("illustrated"))
    path = tmp_path / "attacked.html"
    path.write_text(page.replace("</body>", "<script>document.title='x'</script></body>"))
    said: list[str] = []
    opened = context.new_page()
    opened.on("console", lambda message: said.append(message.text))
    opened.goto(path.as_uri())
    opened.locator("h2").first.wait_for()
    assert any("Content Security Policy" in line for line in said)
    assert opened.title() != "x"


def test_it_is_written_whole(tmp_path: Path) -> None:
    t: Trace = traced("illustrated")
    path = tmp_path / "page.html"
    render(t, path=path, lang="zh", max_cells=0)
    assert path.read_text(encoding="utf-8") == page_text(t, lang="zh", max_cells=0)
