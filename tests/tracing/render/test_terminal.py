"""What a person sees in a terminal."""

from __future__ import annotations

import math
import re

import pytest
import torch
from rich.cells import cell_len

from glassformer.documents import render_text
from glassformer.errors import TraceError, UnknownNameError
from glassformer.tracing import trace
from tests.tracing.operator_examples import EXAMPLES
from tests.tracing.render.toys import TOYS, traced

ANSI = re.compile(r"\x1b\[[0-9;]*m")


def test_a_heat_map_shows_every_value_under_its_label() -> None:
    shown = render_text(traced("illustrated")["weights"], colour=False, width=80)
    heading, _, facts, _, labels, *lines = shown.splitlines()
    assert heading.startswith("weights  attention weights ──")
    assert facts == "1×1×3×3 · `_safe_softmax` · computed"
    assert labels.split() == ["我", "am", "</script>"]
    for line, row in zip(lines, traced("illustrated")["weights"].value[0, 0], strict=True):
        assert [float(part) for part in line.split()[1:]] == pytest.approx(row.tolist(), rel=1e-3)


def test_columns_are_straight_with_chinese_labels() -> None:
    head, *rows = render_text(traced("illustrated")["scores"], colour=False).splitlines()[4:]
    ends = [
        [cell_len(line[: m.end()]) for m in re.finditer(r"\S+", line)] for line in (head, *rows)
    ]
    assert ends[0] == ends[1][1:] == ends[2][1:] == ends[3][1:]


def test_what_does_not_fit_is_counted() -> None:
    t = trace(lambda x: x * 2, torch.randn(40, 512))
    shown = render_text(t.steps[0], colour=False, width=70)
    columns = len(shown.splitlines()[4].split())
    assert f"… {512 - columns} more columns" in shown
    assert "… 8 more rows" in shown
    assert max(map(cell_len, shown.splitlines())) <= 70
    chinese = render_text(t.steps[0], colour=False, width=70, lang="zh")
    assert f"还有 {512 - columns} 列" in chinese and "还有 8 行" in chinese


def test_infinities_and_nan_are_marked() -> None:
    t = trace(lambda x: x.log(), torch.tensor([[0.0, -1.0, 1.0, math.inf]]))
    plain = render_text(t.steps[0], colour=False, width=80)
    assert plain.splitlines()[5].split() == ["0", "-∞", "NaN", "0", "∞"]
    coloured = render_text(t.steps[0], colour=True, width=80)
    assert re.search(r"\x1b\[[0-9;]*45m +NaN", coloured), "NaN stands out"


def test_colours_diverge_about_zero_and_probabilities_do_not() -> None:
    t = trace(lambda x: (x * 1, x.softmax(-1)), torch.tensor([[-2.0, 0.0, 2.0]]))
    signed = re.findall(r"48;2;(\d+);(\d+);(\d+)m", render_text(t.steps[0], colour=True))
    low, zero, high = (tuple(map(int, colour)) for colour in signed)
    assert low[2] > low[0] and high[0] > high[2], "blue below, orange above"
    assert min(zero) > 240, "zero is white"
    shares = re.findall(r"48;2;(\d+);(\d+);(\d+)m", render_text(t.steps[1], colour=True))
    light = [sum(map(int, colour)) for colour in shares]
    assert light == sorted(light)


def test_no_color_is_respected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("NO_COLOR", "1")
    assert "48;2" not in render_text(traced("illustrated")["scores"], width=80)


@pytest.mark.parametrize("length", [3, 64, 512])
def test_the_card_of_a_dot_product(length: int) -> None:
    torch.manual_seed(0)
    t = trace(lambda a, b: a @ b, torch.randn(2, length), torch.randn(length, 2))
    cell = t.steps[0][1, 0]
    shown = render_text(cell, colour=False, width=100)
    assert "Σₖ a[1, k]·b[k, 0]" in shown
    assert f"{cell.recomputed:.17g}" in shown
    if length == 3:
        assert "others" not in shown
        return
    assert f"{length - 8} more" in shown
    terms = sorted((abs(term.value) for term in cell.terms), reverse=True)
    bars = re.findall(r"(-?[0-9.]+) +█+ ", shown)
    assert sorted((abs(float(bar)) for bar in bars), reverse=True) == pytest.approx(
        terms[:8], rel=1e-3
    )
    rest = re.search(rf"(-?[0-9.]+) +{length - 8} more", shown)
    assert rest
    assert sum(map(float, bars)) + float(rest[1]) == pytest.approx(cell.recomputed, abs=2e-2)


def test_a_card_names_the_source_line_without_the_machine() -> None:
    shown = render_text(traced("illustrated")["scores"][0, 0], colour=False, width=100)
    assert re.search(r" glassformer/nn/attention\.py:\d+ ", shown)
    assert "scores = queries @ " in shown


def test_markup_in_labels_stays_text() -> None:
    t = trace(lambda x: x + 1, torch.ones(2, 2), axis_labels={"x": ["[bold]a", "[/]"]})
    shown = render_text(t.steps[0], colour=False)
    assert "[bold]a" in shown and "[/]" in shown


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_the_tree_lists_every_step(lang: str) -> None:
    for toy in TOYS:
        shown = render_text(traced(toy), colour=False, lang=lang, width=120)
        for step in traced(toy).steps:
            assert step.name.rpartition(".")[2] in shown


def test_every_rule_has_a_card() -> None:
    for function in EXAMPLES.values():
        step = trace(function).steps[-1]
        shown = render_text(step[(0,) * len(step.shape)], colour=False, width=100)
        assert step.name in shown


def test_bad_requests_say_what_is_wrong() -> None:
    step = traced("decoder")["decoder.blocks.0.attention.weights"]
    with pytest.raises(TraceError, match=r"no slice at \(5,\): its shape is \(1, 2, 5, 5\)"):
        render_text(step, at=(5,))
    with pytest.raises(UnknownNameError, match="unknown language 'de'"):
        render_text(step, lang="de")


def test_a_slice_can_be_chosen() -> None:
    step = traced("decoder")["decoder.blocks.0.attention.weights"]
    shown = render_text(step, at=(1,), colour=False, width=100)
    assert "slice [0, 1] of 2" in shown
    last = [float(part) for part in shown.splitlines()[-1].split()[1:]]
    assert last == pytest.approx(step.value[0, 1, -1].tolist(), rel=1e-3)
