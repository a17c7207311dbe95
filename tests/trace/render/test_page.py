"""The page: complete, inert, and with the same arithmetic as everywhere else."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from html import unescape
from html.parser import HTMLParser
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
import torch

from glassformer.trace import Cell, Step, Trace, trace
from glassformer.trace.evaluate import FUNCTIONS
from glassformer.trace.formula import number
from glassformer.trace.render import write_html
from glassformer.trace.render.addresses import all_steps, index_of
from glassformer.trace.render.html.encoding import Encoder
from glassformer.trace.render.html.page import page_text
from tests.trace.operator_examples import EXAMPLES
from tests.trace.render.browser import dumped
from tests.trace.render.toys import TOYS, traced


def data_of(page: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert found
    data: dict[str, Any] = json.loads(found[1])
    return data


def leaves(tree: list[Any], holes: Iterator[int]) -> Iterator[tuple[int, int]]:
    """The cells that an encoded tree reads, both sides of a choice included."""
    match tree:
        case ["n", _]:
            return
        case ["e", step, axes]:
            base = next(holes)
            for at in _places([(letter, size) for letter, size, _ in axes]):
                yield step, base + sum(at[letter] * stride for letter, _, stride in axes)
        case ["t", _, pairs, parts]:
            yield from zip(pairs[::2], pairs[1::2], strict=True)
            for part in parts:
                if isinstance(part, list):
                    yield from leaves(part, holes)
        case ["l", step, parts]:
            yield step, next(holes)
            for part in parts:
                if isinstance(part, list):
                    yield from leaves(part, holes)
        case ["o", _, left, right]:
            yield from leaves(left, holes)
            yield from leaves(right, holes)
        case ["f", _, parts] | ["c", *parts]:
            for part in parts:
                yield from leaves(part, holes)
        case ["r", _, body, *_] | ["v" | "d", _, body]:
            yield from leaves(body, holes)
        case _:
            raise AssertionError(tree)


def _places(axes: list[tuple[str, int]]) -> Iterator[dict[str, int]]:
    if not axes:
        yield {}
        return
    (letter, size), *rest = axes
    for place in range(size):
        for at in _places(rest):
            yield {letter: place, **at}


def cells_of(step: Step) -> Iterator[Cell]:
    for place in range(math.prod(step.shape)):
        yield Cell(step, index_of(step.shape, place))


@pytest.mark.parametrize("name", EXAMPLES)
def test_encoded_arithmetic_reads_the_cells_of_the_expression(name: str) -> None:
    t = trace(EXAMPLES[name])
    steps, encoder = all_steps(t), Encoder()
    for step in t.steps:
        for cell in cells_of(step):
            if cell.expression is None:
                continue
            template, holes = encoder.cell(cell.expression)
            left = iter(holes)
            read = {
                Cell(steps[number], index_of(steps[number].shape, place))
                for number, place in leaves(json.loads(template), left)
            }
            assert next(left, None) is None, "every hole belongs to a leaf"
            assert set(cell.operands) <= read


def test_every_computed_cell_of_a_small_trace_has_its_arithmetic() -> None:
    for toy in TOYS:
        data = data_of(page_text(traced(toy)))
        assert data["left"] == {"steps": 0, "values": [], "numbers": 0, "cells": 0, "cell steps": 0}
        for step in data["steps"]:
            assert (step["cells"] is not None) == (step["view"] or step["role"] == "activation")


class Outline(HTMLParser):
    """The elements of a page as a browser would open them, before scripts run."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.addresses += [str(value) for name, value in attrs if name in ("src", "href")]


def test_no_text_of_a_trace_becomes_markup(tmp_path: Path) -> None:
    nasty = ["</script><script>alert(1)</script>", "<!--", "]]>&amp;\u2028"]
    t = trace(lambda x: x + 1, torch.ones(3, 2), axis_labels={"x": nasty})
    page = page_text(t, title="<img src=x onerror=alert(1)>")
    outline = Outline()
    outline.feed(page)
    assert outline.tags.count("script") == 2
    assert "img" not in outline.tags
    assert outline.addresses == ["data:,"]
    assert data_of(page)["steps"][0]["labels"][0] == nasty


def test_what_does_not_fit_is_left_out_and_named() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Linear(64, 64))
    t = trace(model, torch.randn(20, 64))
    page = page_text(t, max_bytes=30_000)
    data = data_of(page)
    assert len(page) < 130_000
    assert set(data["left"]["values"]) == {"0.weight", "1.weight"}
    assert data["left"]["numbers"] == 2 * 64 * 64
    assert (data["left"]["cells"], data["left"]["cell steps"]) == (2 * 20 * 64, 2)
    by_name = {step["name"]: step for step in data["steps"]}
    assert by_name["0.weight"]["values"] is None and by_name["0"]["cells"] is None


def test_the_page_opens_on_the_last_attention_or_the_output() -> None:
    def opened(t: Trace, steps: list[str] | None = None) -> str:
        data = data_of(page_text(t, steps=steps))
        return str(data["steps"][data["start"]]["name"])

    assert opened(traced("illustrated")) == "weights"
    assert opened(traced("decoder")) == "decoder.blocks.0.attention.weights"
    assert opened(trace(lambda x: (x + 1) * 2, torch.ones(3))) == "mul"
    assert opened(traced("illustrated"), ["scaled"]) == "scaled"


def test_heads_and_notes_are_said_in_both_languages() -> None:
    layer = torch.nn.TransformerEncoderLayer(4, 2, 4, batch_first=True)
    data = data_of(page_text(trace(layer, torch.ones(1, 3, 4))))
    by_name = {step["name"]: step for step in data["steps"]}
    assert by_name["self_attn.scores"]["labels"][1] == [{"number": 0}, {"number": 1}]
    assert data["words"]["zh"]["head"] == "头 {number}"
    assert data["notes"]["en"][0].startswith("the module was in training mode")
    assert data["notes"]["zh"][0] == "模块处于训练模式，追踪时使用评估模式"


def test_chosen_steps_bring_what_they_read() -> None:
    t = traced("illustrated")
    data = data_of(page_text(t, steps=["weights"]))
    assert [step["name"] for step in data["steps"] if step] == ["scaled", "weights"]
    assert data["left"]["steps"] == len(data["steps"]) - 2


def test_no_path_of_this_machine_is_on_the_page() -> None:
    page = page_text(traced("decoder"))
    assert str(Path.cwd()) not in page and "site-packages" not in page
    assert "glassformer/nn/attention/functions.py:" in page


HARNESS = """
const all = JSON.parse(document.getElementById("data").textContent);
const plain = (parts) => parts.map((part) => part.text ?? part).join("");
const explained = (data) => {
  const tensors = new Tensors(data.steps);
  const look = (step, at) => tensors.values(step)[at];
  const filled = (text, values) => text.replace(/{(\\w+)}/g, (_, name) => values[name]);
  const words = (key, values) => filled(data.words.en[key], values);
  const own = new Expressions(look, (step) => data.steps[step], words);
  return data.steps.map((step, number) => {
    if (!step || !step.cells) return null;
    const inside = step.module ? step.module + "." : "";
    const rename = (name) => (name.startsWith(inside) ? name.slice(inside.length) : name);
    return Array.from(tensors.values(number), (_, at) => {
      const tree = tensors.tree(number, at);
      const value = own.evaluate(tree);
      return {
        value: Number.isFinite(value) ? value : String(value),
        symbols: plain(own.symbols(tree, rename)), numbers: plain(own.numbers(tree)),
        operands: own.operands(tree), terms: own.terms(tree).length,
      };
    });
  });
};
document.body.textContent = JSON.stringify(all.map(explained));
"""


def harness(traces: list[Trace]) -> str:
    """A page that explains every cell in JavaScript and writes down what it says."""
    assets = files("glassformer.trace.render.html")
    names = ("tensors.js", "numbers.js", "expressions.js", "writing.js")
    scripts = "".join(assets.joinpath(name).read_text("utf-8") for name in names)
    data = json.dumps([data_of(page_text(t, max_bytes=1 << 26)) for t in traces])
    inert = data.replace("<", "\\u003c")
    parts = f'<script type="application/json" id="data">{inert}</script>'
    head = "<!doctype html><meta charset=utf-8>"
    return f"{head}<body>{parts}<script>{scripts}{HARNESS}</script></body>"


@pytest.mark.slow
def test_the_page_says_what_python_says(tmp_path: Path) -> None:
    """Every cell of the toys and of every rule: value, formula, numbers, operands, terms."""
    traces = [*map(traced, TOYS), *map(trace, EXAMPLES.values())]
    page = tmp_path / "harness.html"
    page.write_text(harness(traces), encoding="utf-8")
    shown = re.search(r"<body>(.*)</body>", dumped(page, tmp_path), re.DOTALL)
    assert shown
    compared = 0
    for t, steps in zip(traces, json.loads(unescape(shown[1])), strict=True):
        known = all_steps(t)
        for step, cells in zip(known, steps, strict=True):
            if cells is None or step.is_view:
                continue
            for cell, said in zip(cells_of(step), cells, strict=True):
                compare(cell, said, known)
                compared += 1
    assert compared > 5_000


def compare(cell: Cell, said: dict[str, Any], steps: list[Step]) -> None:
    expression = cell.expression
    assert expression is not None
    wanted = cell.recomputed
    if math.isfinite(wanted) and abs(wanted) < 1e15:
        assert said["value"] == pytest.approx(wanted, rel=1e-12, abs=1e-12), cell
    assert said["terms"] == max(1, len(cell.terms)), cell
    read = {Cell(steps[n], index_of(steps[n].shape, at)) for n, at in said["operands"]}
    assert read == set(cell.operands), cell


@pytest.mark.slow
@pytest.mark.parametrize("lang", ["en", "zh"])
def test_the_card_of_a_cell_is_on_the_page(lang: str, tmp_path: Path) -> None:
    t = traced("illustrated")
    cell = t["scores"][1, 2]
    page = write_html(t, tmp_path / "page.html", lang=lang)
    shown = dumped(page, tmp_path, f"#/{cell.step.number}/5")
    card = shown[shown.index('<aside id="card"') : shown.index("</aside>")]
    assert {"en": "in symbols", "zh": "代入数值"}[lang] in card
    assert number(cell.recomputed, 16)[:15] in card
    for operand in cell.operands:
        assert f'title="{operand.name}"' in card
    assert card.count('href="#/') >= 2 * len(cell.operands)
    assert 'lang="zh-CN"' in shown


DRIVER = """
const at = (selector) => document.querySelector(selector);
const press = (key, more) => document.activeElement.dispatchEvent(
  new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true, ...more }));
const wait = () => new Promise((done) => setTimeout(done, 50));
const seen = {};
(async () => {
  at('td[tabindex="0"]').focus();
  press("ArrowRight"); press("ArrowDown");
  seen.moved = document.activeElement.dataset.at;
  press("Home");
  seen.home = document.activeElement.dataset.at;
  press("End", { ctrlKey: true });
  seen.end = document.activeElement.dataset.at;
  press("Enter"); await wait();
  seen.card = at("#card h2").textContent;
  seen.selected = at('[aria-selected="true"]').dataset.at;
  seen.stops = document.querySelectorAll('table[role="grid"] [tabindex="0"]').length;
  at("#card .formula a").click(); await wait();
  seen.operand = at("#card h2").textContent;
  seen.trail = at("#card .trail").textContent;
  history.back(); await wait();
  seen.back = at("#card h2").textContent;
  at("#language").click();
  seen.chinese = [
    document.documentElement.lang, at("#card h3").textContent, at("#title").textContent,
  ];
  at("#theme").click();
  seen.theme = document.documentElement.dataset.theme;
  at("#find").value = "weights"; at("#find").dispatchEvent(new Event("input"));
  const left = [...document.querySelectorAll("nav li[data-name]:not([hidden])")];
  seen.found = left.map((line) => line.dataset.name);
  document.body.textContent = JSON.stringify(seen);
})();
"""


@pytest.mark.slow
def test_the_page_follows_keys_clicks_and_switches(tmp_path: Path) -> None:
    t = traced("illustrated")
    page = page_text(t)
    # The page's own policy refuses any script but its own, so the driven copy goes without it.
    free = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", page)
    path = tmp_path / "driven.html"
    path.write_text(free.replace("</body>", f"<script>{DRIVER}</script></body>"), encoding="utf-8")
    scores = t["scores"].number
    shown = re.search(r"<body>(.*)</body>", dumped(path, tmp_path, f"#/{scores}"), re.DOTALL)
    assert shown
    seen = json.loads(unescape(shown[1]))
    assert (seen["moved"], seen["home"], seen["end"]) == ("4", "3", "8")
    assert seen["card"] == seen["back"] == "scores[0, 0, 2, 2]" and seen["selected"] == "8"
    assert seen["stops"] == 1, "one tab stop for the whole grid"
    assert seen["operand"] == "projected_queries[0, 2, 0]"
    assert "scores[0, 0, 2, 2] ← projected_queries[0, 2, 0]" in seen["trail"]
    assert seen["chinese"] == ["zh-CN", "公式", "模型里的每一个数"]
    assert seen["theme"] == "dark"
    assert seen["found"] == ["weights"]


@pytest.mark.slow
def test_the_policy_of_the_page_refuses_other_scripts(tmp_path: Path) -> None:
    page = page_text(traced("illustrated"))
    path = tmp_path / "attacked.html"
    path.write_text(page.replace("</body>", "<script>document.title='x'</script></body>"))
    with pytest.raises(AssertionError, match="Content Security Policy"):
        dumped(path, tmp_path)


def test_the_page_knows_every_function_of_a_formula() -> None:
    source = files("glassformer.trace.render.html").joinpath("expressions.js").read_text("utf-8")
    known = re.search(r"const FUNCTIONS = \{(.*?)\n\};", source, re.DOTALL)
    assert known
    assert {name for name in FUNCTIONS if not re.search(rf"\b{name}\b[:,]", known[1])} == set()
