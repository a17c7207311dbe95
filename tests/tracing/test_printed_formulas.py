"""Every printed “=” holds: formulas are read back from what is shown and computed independently.

python -m tests.tracing.test_printed_formulas            # 300 cells of every model
python -m tests.tracing.test_printed_formulas llava 50   # of one
"""

import math
import random
import re
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

from glassformer.tracing import Trace, trace
from glassformer.tracing.arithmetic import expressions as e
from glassformer.tracing.cells import Cell
from glassformer.tracing.explanation import Card, expression_data
from glassformer.tracing.formula import exact_number, to_mathml, to_tex, to_text
from glassformer.tracing.formula.notation import Fraction, Power, TermList, Value, written_letters
from glassformer.tracing.steps import Step
from tests.tracing.printed_formulas import (
    Reader,
    Reading,
    UnreadableError,
    from_json,
    from_mathml,
    from_tex,
)
from tests.tracing.unseen_models import MODELS

ALL, DIGITS = 10**6, 17
QUICK = ("residual", "gated", "seq2seq", "bfloat16 llava")


def numbers_of(step: Step) -> np.ndarray[Any, Any]:
    return step.value.double().numpy()


def cells_by(steps: dict[str, Step]) -> Any:
    """Looks up a cell by a printed symbol and its positions; axes of one cell may be left out."""

    def look_up(symbol: str, index: list[int]) -> float:
        if symbol not in steps:
            raise UnreadableError(f"no cells called {symbol}")
        values = numbers_of(steps[symbol])
        if len(index) != values.ndim:
            values = values.squeeze()
        if len(index) != values.ndim:
            raise UnreadableError(f"{symbol} is shown as a reshaped view")
        if any(not 0 <= place < size for place, size in zip(index, values.shape, strict=True)):
            return math.nan  # a cell that does not exist: the formula is false
        return float(values[tuple(index)])

    return look_up


def letters_of(expression: e.Expression, without_single: bool) -> dict[str, int]:
    """The size of every letter; a letter of two sizes cannot be read back."""
    sizes: dict[str, int] = {}
    for letter, size in _axes(expression, without_single):
        if sizes.setdefault(letter, size) != size:
            raise UnreadableError("a letter with two sizes")
    return sizes


def _axes(expression: Any, without_single: bool) -> Iterator[tuple[str, int]]:
    """The axes of all reductions; formulas are printed without those of a single cell."""
    if isinstance(expression, e.Reduce):
        letters = written_letters(expression) if without_single else None
        for axis in expression.axes:
            if letters is None or axis.letter in letters:
                yield axis.letter if letters is None else letters[axis.letter], axis.size
    if isinstance(expression, tuple):
        for part in expression:
            yield from _axes(part, without_single)
    elif not isinstance(expression, e.Axis):
        for name in getattr(expression, "__match_args__", ()):
            yield from _axes(getattr(expression, name), without_single)


def _steps_in(data: Any, traced: Trace) -> Iterator[Step]:
    """The steps that an expression's JSON names."""
    if isinstance(data, dict):
        name = data.get("step") or str(data.get("cell", "")).partition("[")[0]
        if name and name in traced:
            yield traced[name]
    for part in data.values() if isinstance(data, dict) else data if isinstance(data, list) else ():
        yield from _steps_in(part, traced)


def complaints(cell: Cell, unread: list[str]) -> Iterator[str]:
    """What is printed of a cell and does not hold."""
    card = Card(cell, ALL, DIGITS)
    if card.expression is None or card.is_unwritten:
        return
    if card.relation != "=":
        yield f"the rule gives {card.recomputed}, stored is {cell.value}"
        return
    yield from _senseless(card)
    stored = float(cell.value)
    known = {d.symbol: d.value for d in card.definitions}
    steps = {str(symbol): step for symbol, step in card._symbols.steps.items()}
    shown = [("numbers", card.numbers, stored), ("formula", card.formula, stored)]
    shown += [("TeX", from_tex(to_tex(card.number_tree, DIGITS)), stored)]
    shown += [("MathML", from_mathml(to_mathml(card.number_tree, DIGITS)), stored)]
    for part in card.definitions:
        shown += [(f"{part.symbol} in numbers", part.numbers, part.value)]
        shown += [(f"{part.symbol} in symbols", part.symbols, part.value)]
    data = expression_data(card.expression)
    names = {step.name: step for step in _steps_in(data, cell.step.trace)}
    shown += [("JSON", from_json(data), stored)]
    for form, text, wanted in shown:
        try:
            by_name = names if form == "JSON" else steps
            is_plain = form in ("numbers", "TeX", "MathML") or "in numbers" in form
            sizes = {} if is_plain else letters_of(card.expression, form != "JSON")
            reading = Reading(cells_by(by_name), sizes, known)
            found = float(Reader(text, () if is_plain else (*by_name, *known)).whole()(reading, {}))
        except UnreadableError as reason:
            unread.append(f"{cell.step.op} {form}: {reason}: {text[:100]}")
            continue
        if not _agree(found, wanted, max(reading.largest, abs(wanted)), cell.step.dtype):
            yield f"{form} gives {found}, printed is {wanted}: {text[:200]}"


def _agree(found: float, wanted: float, size: float, dtype: torch.dtype) -> bool:
    """Equal but for the roundings of the operator; a whole number exactly."""
    if not (math.isfinite(found) and math.isfinite(wanted)):
        return found == wanted or (math.isnan(found) and math.isnan(wanted))
    if not dtype.is_floating_point:
        return abs(found - wanted) <= 1e-6 * max(1.0, size)
    return abs(found - wanted) <= 16 * torch.finfo(dtype).eps * max(size, 1e-30)


def _senseless(card: Card) -> Iterator[str]:
    """Two names side by side, or a cell that is said to be a function of itself."""
    tex = re.sub(r"\\(sum|prod)_\{[^}]*\}", "", to_tex(card.tree))
    if found := re.search(r"[}\d]\s*\\(mathrm|text)\{(?!otherwise|if)", tex):
        yield f"two names side by side: {tex[max(0, found.start() - 30) : found.end() + 30]}"
    own = rf"(?<![\w.′]){re.escape(card.name)}(?![\w.′\[(])"
    if not card.is_copy and re.search(own, card.formula):
        yield f"{card.name} = {card.formula[:150]}"


def sampled(traced: Trace, count: int, seed: int) -> Iterator[Cell]:
    """Cells at random: first a step, so that large tensors do not crowd out small ones."""
    chance = random.Random(seed)
    steps = [step for step in traced.steps if step.view.numel and step.rule is not None]
    for _ in range(count):
        step = chance.choice(steps)
        yield step[tuple(chance.randrange(size) for size in step.shape)]


def examined(name: str, count: int, seed: int = 0) -> tuple[list[str], list[str]]:
    """What is false in a model's trace, and which formulas were not read back."""
    torch.manual_seed(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model, inputs = MODELS[name]()
        traced = trace(model, **inputs)
        wrong: list[str] = []
        unread: list[str] = []
        for cell in sampled(traced, count, seed):
            found = [f"{cell.name} ({cell.step.op}): {line}" for line in complaints(cell, unread)]
            wrong += found
    return wrong, unread


@pytest.mark.parametrize("name", QUICK)
def test_what_is_printed_holds(name: str) -> None:
    wrong, unread = examined(name, 60)
    assert wrong == []
    assert len(unread) < 60 // 3


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_what_is_printed_of_unseen_models_holds(name: str) -> None:
    wrong, unread = examined(name, 300)
    assert wrong == []
    assert len(unread) < 300 // 3


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1 + 2 × 3 − 4 / 2", 5),
        ("−2^2", -4),
        ("(-2)^2 / 2 × 3", 6),
        ("max(1, |-3|) − √(4)", 1),
        ("if 1 < 2: 3, else if 2 < 1: 4, else 5", 3),
        ("(2 ≤ 2) + (3 = 2)", 1),
        ("exp(0) + log1p(0)", 1),
    ],
)
def test_the_reader_reads(text: str, value: float) -> None:
    assert Reader(text).whole()(Reading(), {}) == value


def test_the_reader_sees_what_the_eye_sees() -> None:
    """Without brackets, a power takes only the last factor, and a product is not below the bar."""
    assert Reader(from_tex(r"{2 \times 10^{1}}^{2}")).whole()(Reading(), {}) != 400
    assert Reader(from_tex(r"\frac{1 + 2}{3} \cdot 2")).whole()(Reading(), {}) == 2
    fraction = "<mfrac><mrow><mn>1</mn><mo>+</mo><mn>2</mn></mrow><mrow><mn>4</mn></mrow></mfrac>"
    assert Reader(from_mathml(fraction)).whole()(Reading(), {}) == 0.75


def test_a_small_number_is_raised_in_brackets() -> None:
    """1.5e-05² is not 1.5 × 10⁻⁵², and an exponent beside a fraction belongs to the whole of it."""
    card = Card(trace(torch.square, torch.tensor([1.5e-05])).steps[-1][0])
    assert to_tex(card.number_tree) == r"{(1.5 \times 10^{-5})}^{2}"
    assert from_mathml(to_mathml(card.number_tree)).replace(" ", "") == "(1.5×10^(−5))^(2)"
    half = Power(Fraction(Value(1), Value(2)), Value(2))
    assert to_tex(half) == r"{\left(\frac{1}{2}\right)}^{2}"
    assert to_text(Power(Power(Value(2), Value(3)), Value(2))) == "(2^3)^2"


def test_a_lookup_in_a_transposed_or_cut_matrix_names_the_cells_of_the_matrix() -> None:
    """The experts' weights are stored as (expert, out, in) and multiplied transposed."""
    table = torch.randn(5, 6)
    ids = torch.tensor([2, 0])
    turned = trace(lambda table, ids: table.T[ids], table, ids).steps[-1][0, 3]
    assert turned.formula == "table[3, ids[0]]"
    assert turned.to_dict()["expression"] == {
        "kind": "lookup",
        "step": "table",
        "index": [3, {"kind": "entry", "cell": "ids[0]"}],
    }
    cut = trace(lambda table, ids: table[1:, 2:][ids], table, ids).steps[-1][1, 3]
    assert cut.formula == "table[1 + ids[1], 5]"
    flat = trace(lambda table, ids: table.flatten()[ids], table, ids).steps[-1][1]
    assert flat.formula == "table[ids[1] ÷ 6, ids[1] mod 6]"
    rows = trace(lambda table, ids: table.view(3, 10)[:, ids], table, ids).steps[-1][1, 1]
    assert rows.formula == "view(table)[1, ids[1]]"


def main() -> None:
    names = [sys.argv[1]] if len(sys.argv) > 1 else list(MODELS)
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 300
    for name in names:
        wrong, unread = examined(name, count)
        sys.stdout.write(f"{name}: {count} cells, {len(wrong)} wrong, {len(unread)} unread\n")
        sys.stdout.writelines(f"  {line}\n" for line in wrong[:12])
        sys.stdout.writelines(f"  ? {line}\n" for line in sorted(set(unread))[:12])
        sys.stdout.flush()


if __name__ == "__main__":
    main()


def test_a_running_sum_says_where_it_ends() -> None:
    x = torch.arange(12.0).reshape(3, 4)
    cell = trace(lambda x: x.cumsum(-1), x).steps[-1][1, 2]
    assert cell.formula == "Σₖ≤₂ x[1, k]"
    assert r"\sum_{k \le 2} x_{1,k}" in cell._repr_markdown_()
    assert trace(lambda x: x.cummax(0).values, x).steps[0][2, 3].formula == "maxₖ≤₂(x[k, 3])"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (float(np.float32(-2.6)), "-2.6"),
        (float(np.float32(1 / 3)), "0.33333334"),
        (float(np.float32(123456.78)), "123456.78"),
        (123456792.0, "123456792"),  # stored as it is
        (1 / 3, "0.333333333"),  # a float64
        (1e300, "1e+300"),
        (math.nan, "NaN"),
        (-0.0, "0"),
        (7, "7"),
        (True, "True"),
    ],
)
def test_a_stored_number_has_the_fewest_digits_that_restore_it(value: float, text: str) -> None:
    assert exact_number(value) == text


@pytest.mark.parametrize(("rest", "has_brackets"), [(-0.5, True), (0.5, False)])
def test_a_negative_sum_of_the_terms_left_out_is_in_brackets(
    rest: float, has_brackets: bool
) -> None:
    shown = to_mathml(TermList("Σ", (Value(1.0), Value(2.0)), 28, rest))
    assert ("<mo>(</mo><mn>−0.5</mn><mo>)</mo>" in shown) == has_brackets
