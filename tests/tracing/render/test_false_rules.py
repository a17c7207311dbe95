"""Where a rule does not reproduce the stored number, no format prints "="."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import pytest
import torch

from glassformer.documents import render_text
from glassformer.documents.trace_documents import page_text
from glassformer.errors import TraceError
from glassformer.explorer.cell_cards import card_info
from glassformer.explorer.open_traces import OpenTrace
from glassformer.lessons.lesson import lesson_card
from glassformer.tracing import Cell, Trace, trace
from glassformer.tracing.arithmetic.expressions import Expression, Number, Operation
from glassformer.tracing.capture.memory import Index, flat_place
from glassformer.tracing.steps import Step
from tests.explorer.saved import data_of
from tests.tracing.render.xlsx import read_workbook, write_workbook

SAID = "this rule does not reproduce the stored number"


@pytest.fixture(params=[True, False], ids=["false rule", "true rule"])
def is_false(request: pytest.FixtureRequest) -> bool:
    assert isinstance(request.param, bool)
    return request.param


def _falsify(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make every rule give 1 more than it should."""
    honest = Step.expression

    def one_more(step: Step, index: Index, *, unedited: bool = False) -> Expression | None:
        found = honest(step, index, unedited=unedited)
        return None if found is None else Operation("+", found, Number(1.0))

    monkeypatch.setattr(Step, "expression", one_more)


@pytest.fixture
def t(is_false: bool, monkeypatch: pytest.MonkeyPatch) -> Trace:
    """A linear map; the false rule gives 1 more than it should."""
    torch.manual_seed(0)
    traced = trace(torch.nn.Linear(3, 2), torch.ones(1, 3))
    if is_false:
        _falsify(monkeypatch)
    return traced


@pytest.fixture
def cell(t: Trace) -> Cell:
    return t.steps[-1][0, 1]


def test_the_cell_knows(cell: Cell, is_false: bool) -> None:
    assert cell.reproduced is not is_false
    assert cell.to_dict()["reproduced"] is not is_false


def test_the_explanation(cell: Cell, is_false: bool) -> None:
    head, *lines = cell.explain().splitlines()
    assert head.startswith(f"{cell.name} = ")  # what is stored is stored
    assert (SAID in cell.explain()) is is_false
    if is_false:
        assert not any(line.startswith("  = ") for line in lines)
        added = next(
            line for line in lines if line.startswith("  ≠") and "×" not in line and "Σ" not in line
        )
        assert added.endswith(f"= {cell.value + 1:.4g}")  # the sum shown is the sum of its terms


def test_documents(cell: Cell, is_false: bool) -> None:
    in_tex = f"{cell.value:.4g}"
    in_text = in_tex.replace("-", "−")
    for shown, sign, value in (
        (render_text(cell, "md"), "≠", in_text),
        (render_text(cell, "md", tex=True), r"\neq", in_tex),
        (render_text(cell, "tex", whole=False), r"\neq", in_tex),
    ):
        _, _, arithmetic = shown.partition("\n")  # the title says what is stored
        assert (SAID in shown) is is_false
        assert (f"{sign} {value}" in arithmetic) is is_false
        assert (f"= {value}" in arithmetic) is not is_false


def test_the_terminal(cell: Cell, is_false: bool) -> None:
    shown = render_text(cell, width=100, colour=False)
    assert (SAID in shown) is is_false
    value = f"{cell.value:.4g}".replace("-", "−")
    assert (f" ≠ {value}" in shown) is is_false


def test_the_explorers_card(t: Trace, cell: Cell, is_false: bool) -> None:
    info = card_info(OpenTrace(t, "linear", "module"), cell)
    assert info.reproduced is not is_false
    assert (r"\neq" in info.tex) is is_false


def test_a_workbook_keeps_the_numbers(t: Trace, is_false: bool, tmp_path: Path) -> None:
    """A formula with another result than the run must not replace the number."""
    sheets = read_workbook(write_workbook(t, tmp_path / "t.xlsx"))
    cells = [cell for sheet in sheets.values() for cell in sheet.values()]
    stored = t.steps[-1][0, 1].value
    found = [c for c in cells if isinstance(c.value, float) and abs(c.value - stored) < 1e-6]
    assert found
    assert all((c.formula is None) is is_false for c in found)
    assert any(SAID in str(c.value) for c in cells) is is_false


def test_the_page_of_a_trace(t: Trace, cell: Cell, is_false: bool) -> None:
    assert _is_reproduced_on_the_page(cell) is not is_false


def _is_reproduced_on_the_page(cell: Cell) -> bool:
    """What the card in the file says."""
    cards = data_of(page_text(cell.step.trace))["steps"][cell.step.number]["cards"]
    place = flat_place(cell.index, cell.step.shape)
    shared = cards["shared"].get("reproduced")
    return bool(cards["each"]["reproduced"][place] if shared is None else shared)


def test_a_mask_fill_excuses_no_error_on_the_page(
    is_false: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """−1e9 is among a softmax's operands: counted as one, it would hide an error of 1."""
    t = trace(torch.nn.Softmax(-1), torch.tensor([0.5, 1.0, -1e9]))
    if is_false:
        _falsify(monkeypatch)
    cell = t.steps[-1][1]
    assert cell.reproduced is not is_false
    assert _is_reproduced_on_the_page(cell) is not is_false


def test_an_overflow_is_no_error_on_the_page() -> None:
    mask = torch.full((1,), torch.finfo(torch.float16).min, dtype=torch.float16)
    t = trace(lambda x: x + x, mask)
    assert t.steps[-1][0].reproduced
    assert _is_reproduced_on_the_page(t.steps[-1][0])


def test_a_lesson_is_not_written_from_it(cell: Cell, is_false: bool) -> None:
    expected = pytest.raises(TraceError, match=SAID) if is_false else nullcontext()
    with expected:
        assert lesson_card(cell).formula
