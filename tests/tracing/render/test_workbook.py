"""The workbook computes what torch computes, and follows a change of a number."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from glassformer.documents import workbook_layout
from glassformer.errors import TraceError
from glassformer.tracing import Cell, Step, Trace, trace
from glassformer.tracing.arithmetic.expressions import Number
from glassformer.tracing.capture.memory import index_of
from glassformer.tracing.gradients import trace_training_step
from tests.tracing.operator_examples import EXAMPLES
from tests.tracing.render.calculator import Calculator
from tests.tracing.render.libreoffice import recalculate
from tests.tracing.render.toys import TOYS, traced, traced_in_float64
from tests.tracing.render.xlsx import Sheet, read_workbook, with_number, write_workbook

Read = Callable[[str, str], float | str]


def places(t: Trace, steps: list[Step] | None = None) -> workbook_layout.Layout:
    return workbook_layout.lay_out(t, t.steps if steps is None else steps, ["Index"])


def worst_difference(t: Trace, wanted: Trace, read: Read) -> float:
    """The largest |sheet − torch| / max(1, |torch|) over every computed cell."""
    worst, blocks = 0.0, places(t).blocks
    for step in t.steps:
        block = blocks[step.number]
        for place, number in enumerate(wanted[step.name].value.reshape(-1).tolist()):
            shown = read(block.sheet, workbook_layout.cell_name(*block.at(place)))
            assert isinstance(shown, float), f"{step.name}: {shown}"
            if math.isinf(number):
                assert shown * number > 0 and abs(shown) >= 1e100, step.name
            else:
                worst = max(worst, abs(shown - number) / max(1.0, abs(number)))
    return worst


@pytest.fixture(scope="module")
def books(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The workbook of each toy."""
    folder = tmp_path_factory.mktemp("books")
    return {toy: write_workbook(traced(toy), folder / f"{toy}.xlsx") for toy in TOYS}


@pytest.mark.parametrize("toy", TOYS)
def test_every_formula_gives_what_torch_gives_in_float64(toy: str, books: dict[str, Path]) -> None:
    t, book = traced(toy), read_workbook(books[toy])
    assert worst_difference(t, traced_in_float64(toy), Calculator(book).value) < 1e-9


@pytest.mark.parametrize("toy", TOYS)
def test_the_file_holds_the_numbers_of_the_run(toy: str, books: dict[str, Path]) -> None:
    t, book = traced(toy), read_workbook(books[toy])
    assert worst_difference(t, t, lambda sheet, cell: book[sheet][cell].value) < 1e-15


@pytest.mark.parametrize("toy", TOYS)
def test_every_computed_cell_is_a_formula_and_every_given_one_a_number(
    toy: str, books: dict[str, Path]
) -> None:
    t, book = traced(toy), read_workbook(books[toy])
    for block in places(t).blocks.values():
        formula = book[block.sheet][workbook_layout.cell_name(*block.at(0))].formula
        assert (formula is not None) == (block.step.role == "activation"), block.step


def edited(t: Trace) -> tuple[Step, tuple[int, ...], float]:
    """A parameter's cell that matters, and a new number for it."""
    step = next(step for name, step in t.parameters.items() if "keys" in name or "embed" in name)
    return step, (1,) * len(step.shape), 0.75


@pytest.mark.parametrize("toy", TOYS)
def test_a_changed_parameter_changes_what_it_should(
    toy: str, books: dict[str, Path], tmp_path: Path
) -> None:
    t, wanted = traced(toy), traced_in_float64(toy)
    step, index, number = edited(t)
    block = places(t).blocks[step.number]
    cell = workbook_layout.cell_name(*block.at(index[0] * step.shape[-1] + index[1]))
    with_number(books[toy], tmp_path / "new.xlsx", block.sheet, cell, number)
    calculator = Calculator(read_workbook(tmp_path / "new.xlsx"))
    after = wanted.edit({(step.name, index): number})
    assert worst_difference(t, after, calculator.value) < 1e-9
    assert worst_difference(t, wanted, calculator.value) > 1e-4


def test_a_changed_id_looks_up_another_row(books: dict[str, Path], tmp_path: Path) -> None:
    t, wanted = traced("decoder"), traced_in_float64("decoder")
    (step,) = t.inputs.values()
    block = places(t).blocks[step.number]
    cell = workbook_layout.cell_name(*block.at(2))
    with_number(books["decoder"], tmp_path / "new.xlsx", block.sheet, cell, 7.0)
    calculator = Calculator(read_workbook(tmp_path / "new.xlsx"))
    after = wanted.edit({(step.name, (0, 2)): 7})
    assert worst_difference(t, after, calculator.value) < 1e-9


# Functions that spreadsheets lack, or (−0) cannot tell: their cells are numbers there.
NOT_IN_SPREADSHEETS = {
    "copysign", "signbit", "frexp", "lgamma", "digamma", "erfinv", "i0", "special_i1",
    "special_erfcx", "special_log_ndtr",
}  # fmt: skip


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_rule_becomes_a_formula_that_gives_its_value(name: str, tmp_path: Path) -> None:
    """Each formula computed once from the numbers that stand in the file."""
    t = trace(EXAMPLES[name])
    book = read_workbook(write_workbook(t, tmp_path / "book.xlsx"))
    calculator, blocks = Calculator(book, one_step=True), places(t).blocks
    for step in t.steps:
        block = blocks[step.number]
        for place in range(math.prod(step.shape)):
            cell = workbook_layout.cell_name(*block.at(place))
            if book[block.sheet][cell].formula is None:
                known = step.role == "constant" or step.rule in NOT_IN_SPREADSHEETS
                assert known or _is_number(step, place), (
                    f"the workbook has no formula for {step.rule}: write the function that it uses "
                    "in documents/workbook_formulas.py; if spreadsheets have nothing like it, name "
                    "the operator in NOT_IN_SPREADSHEETS"
                )
                continue
            wanted = step[index_of(place, step.shape)]
            shown = calculator.formula(block.sheet, cell)
            check_number(wanted, shown)


def _is_number(step: Step, place: int) -> bool:
    return isinstance(step.expression(index_of(place, step.shape)), Number)


def check_number(cell: Cell, shown: float) -> None:
    wanted = cell.recomputed
    if cell.step.dtype == torch.int64 and not all(math.isfinite(o.value) for o in cell.operands):
        return  # NaN and ∞ cut to a whole number: a spreadsheet keeps them as they are
    if math.isnan(wanted):
        assert math.isnan(shown), cell
    elif math.isinf(wanted):
        assert shown * wanted > 0 and abs(shown) >= 1e100, cell
    else:
        assert shown == pytest.approx(wanted, rel=1e-9, abs=1e-9), cell


@pytest.mark.slow
@pytest.mark.parametrize("toy", TOYS)
def test_libreoffice_computes_what_torch_computes(toy: str, tmp_path: Path) -> None:
    """Before and after one weight is changed in the file."""
    t, wanted = traced(toy), traced_in_float64(toy)
    step, index, number = edited(t)
    block = places(t).blocks[step.number]
    cell = workbook_layout.cell_name(*block.at(index[0] * step.shape[-1] + index[1]))
    write_workbook(t, tmp_path / "book.xlsx")
    with_number(tmp_path / "book.xlsx", tmp_path / "new.xlsx", block.sheet, cell, number)
    after = wanted.edit({(step.name, index): number})
    files = recalculate([tmp_path / "book.xlsx", tmp_path / "new.xlsx"], tmp_path)
    for file, torch_says in zip(files, (wanted, after), strict=True):
        book = read_workbook(file)

        def shown(sheet: str, cell: str, book: dict[str, Sheet] = book) -> float | str:
            return book[sheet][cell].value

        assert worst_difference(t, torch_says, shown) < 1e-9


@pytest.mark.slow
def test_libreoffice_computes_every_rule(tmp_path: Path) -> None:
    """The whole chain of each example; compared with float32 as far as float32 goes."""
    traces = {name: trace(function) for name, function in EXAMPLES.items()}
    paths = [tmp_path / f"{number}.xlsx" for number in range(len(traces))]
    for t, path in zip(traces.values(), paths, strict=True):
        write_workbook(t, path)
    for t, file in zip(traces.values(), recalculate(paths, tmp_path), strict=True):
        book, blocks = read_workbook(file), places(t).blocks
        for step in t.steps:
            for place in range(math.prod(step.shape)):
                cell = workbook_layout.cell_name(*blocks[step.number].at(place))
                shown = book[blocks[step.number].sheet][cell].value
                check_shown(step[index_of(place, step.shape)], shown)


def check_shown(cell: Cell, shown: float | str) -> None:
    number = float(cell.value)
    if math.isnan(number):
        assert isinstance(shown, str), cell
    elif math.isinf(number):
        assert not isinstance(shown, float) or abs(shown) >= 1e100, cell
    elif all(math.isfinite(operand.value) for operand in cell.operands):
        assert isinstance(shown, float), (cell, shown)
        assert shown == pytest.approx(number, rel=1e-4, abs=1e-5), cell


def test_a_long_row_times_a_long_column_is_one_array_formula(tmp_path: Path) -> None:
    a, b = torch.randn(2, 300, dtype=torch.float64), torch.randn(300, 2, dtype=torch.float64)
    t = trace(lambda a, b: a @ b, a, b)
    book = read_workbook(write_workbook(t, tmp_path / "book.xlsx"))
    block = places(t).blocks[t.steps[0].number]
    formula = book[block.sheet][workbook_layout.cell_name(*block.at(0))].formula
    assert formula is not None and formula.startswith("SUMPRODUCT(") and "TRANSPOSE(" in formula
    assert worst_difference(t, t, Calculator(book).value) < 1e-9


def test_a_sum_too_long_for_one_formula_goes_through_auxiliary_cells(tmp_path: Path) -> None:
    x = torch.randn(2, 500, dtype=torch.float64)
    t = trace(lambda x: x.where(x > 0, 0.5 * x).clamp(-1, 1).logsumexp((0, 1)), x)
    t2 = trace(lambda x: torch.einsum("ii->", torch.ones(40, 40, dtype=x.dtype) * x[0, 0]), x)
    for number, traced_ in enumerate((t, t2)):
        book = read_workbook(write_workbook(traced_, tmp_path / f"{number}.xlsx"))
        assert worst_difference(traced_, traced_, Calculator(book).value) < 1e-9


def test_a_training_step_is_live_down_to_the_new_weights(tmp_path: Path) -> None:
    """Forward, backward and AdamW: every gradient and every moment is a formula."""
    torch.manual_seed(0)
    layers = torch.nn.Linear(4, 5), torch.nn.GELU(), torch.nn.Linear(5, 3)
    model = torch.nn.Sequential(*layers).double()
    target = torch.tensor([0, 2])
    t = trace_training_step(
        model,
        torch.randn(2, 4, dtype=torch.float64),
        loss=lambda output: torch.nn.functional.cross_entropy(output, target),
        optimiser=torch.optim.AdamW(model.parameters()),
    )
    book = read_workbook(write_workbook(t, tmp_path / "book.xlsx"))
    assert worst_difference(t, t, Calculator(book).value) < 1e-12
    assert any(step.name.startswith("gradients.") for step in t.steps)


def test_what_no_sheet_can_hold_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    wide = trace(lambda x: x + 1, torch.zeros(2, 16_384))
    with pytest.raises(TraceError, match="16,384 columns; choose steps"):
        write_workbook(wide, tmp_path / "wide.xlsx")
    large = trace(lambda x: x + 1, torch.zeros(1_000, 600))
    with pytest.raises(TraceError, match="would hold 1,200,000 numbers"):
        write_workbook(large, tmp_path / "large.xlsx")
    assert list(tmp_path.iterdir()) == []


def test_chosen_steps_stand_on_the_numbers_of_the_others(tmp_path: Path) -> None:
    t = traced("illustrated")
    book = read_workbook(write_workbook(t, tmp_path / "b.xlsx", steps=["weights", "context"]))
    live = [t["weights"], t["context"]]
    blocks = places(t, live).blocks
    assert {block.step.name for block in blocks.values()} == {
        "scaled", "weights", "projected_values", "context",
    }  # fmt: skip
    formulas = {
        block.step.name: book[block.sheet][workbook_layout.cell_name(*block.at(0))].formula
        for block in blocks.values()
    }
    assert {name for name, formula in formulas.items() if formula} == {"weights", "context"}


def test_sheet_names_are_short_unique_and_plain() -> None:
    names = workbook_layout._SheetNames(["Index"])
    deep = "encoder.blocks.{}.a_very_long_attention_module_name"
    made = [names.of(deep.format(n)) for n in range(12)]
    made += [names.of("a:b[c]"), names.of("INDEX"), names.of(""), names.of("model")]
    assert len({name.casefold() for name in made}) == len(made)
    assert all(len(name) <= 31 and not set(name) & set("[]:*?/\\'") for name in made)


def test_the_same_trace_gives_the_same_file(tmp_path: Path) -> None:
    t = traced("illustrated")
    first, second = (write_workbook(t, tmp_path / name).read_bytes() for name in ("a", "b"))
    assert first == second


def test_both_languages_name_the_index(tmp_path: Path) -> None:
    t = traced("illustrated")
    for lang, name in (("en", "Index"), ("zh", "目录")):
        book = read_workbook(write_workbook(t, tmp_path / f"{lang}.xlsx", lang=lang))
        assert next(iter(book)) == name
