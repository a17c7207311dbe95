"""Bounds are sound: for any operands within their bounds, the result lies within its own.

The point values are computed by the same formula on exact numbers, whose arithmetic
`test_formulas` checks against numpy.
"""

from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glassformer.audit.formulas import BoundedNumbers, Node, evaluate, exactly, parse
from glassformer.audit.formulas.affine import _quotient, _softmax, affine, closer
from glassformer.audit.formulas.evaluator import FormulaEvaluator, Work
from glassformer.audit.formulas.formula_functions import write_out

FORMULAS = [
    "x + y", "x - y", "x * y", "x / y", "x @ y", "x ^ 2", "x ^ 3", "abs(x) ^ y", "-x", "abs(x)",
    "sin(x * 3)", "cos(x * 3)", "exp(x)", "sqrt(abs(x))", "relu(x)", "floor(x)", "round(x, 1)",
    "truncate(x, 1)", "tanh(x)", "sigmoid(x)", "silu(x)", "gelu(x)", "sum(x)", "mean(x, axis=0)",
    "std(x)",
    "std(x, sample=1)", "var(x)", "std(x, rows=2)", "geometric_mean(exp(x))", "max(x)", "min(x)",
    "softmax(x)", "softmax(x, axis=0)", "softmax(mask(x, causal(3)))", "log_softmax(x)",
    "proportion(exp(x))", "argmax(x)", "layer_norm(x, 0.01)", "concat(x, y)", "stack(x[0], y[1])",
    "transpose(x) @ y[0]", "x - x", "x * x - x ^ 2", "x - mean(x, keep=1)", "[x[0], y[1]]",
    "x / (1 + exp(y))", "layer_norm(layer_norm(x))", "softmax(layer_norm(x) @ y)",
    "-log(softmax(x))", "relu(x @ y) - abs(y)", "var(x, keep=1) + x", "where(even(range(3)), x, y)",
    "flatten(x)[0:4]", "x[0] @ y", "softmax(x @ y.T / 2) @ y", "sinusoids(x[0], 4)",
]  # fmt: skip


def nearer(tree: Node, ranges: Mapping[str, BoundedNumbers]) -> BoundedNumbers:
    """Affine bounds of the written-out formula, as in the audit."""
    evaluator = FormulaEvaluator(ranges)
    found = closer(
        write_out(tree), evaluator.value, lambda _, shape: np.zeros(shape, dtype=bool), Work()
    )
    assert found is not None
    return found


@pytest.mark.parametrize("formula", FORMULAS)
@given(seed=st.integers(0, 2**32 - 1), width=st.sampled_from([0.005, 0.1, 1.0]))
@settings(max_examples=12)
def test_bounds_hold(formula: str, seed: int, width: float) -> None:
    random = np.random.default_rng(seed)
    tree = parse(formula)
    ranges: dict[str, BoundedNumbers] = {}
    for name in ("x", "y"):
        mid = random.normal(size=(3, 3)) * 2
        low, high = mid - random.random((3, 3)) * width, mid + random.random((3, 3)) * width
        ranges[name] = BoundedNumbers(mid, low, high)
    bounds = evaluate(tree, ranges)
    assert isinstance(bounds, BoundedNumbers)
    closest = nearer(tree, ranges)
    assert np.all(closest.low >= bounds.low) and np.all(closest.high <= bounds.high)
    for _ in range(20):
        # Corners as well as points inside: the extremes are usually at a corner.
        share = (
            random.integers(0, 2, (2, 3, 3)) if random.random() < 0.5 else random.random((2, 3, 3))
        )
        points = {
            name: exactly(part.low + share[i] * (part.high - part.low))
            for i, (name, part) in enumerate(ranges.items())
        }
        result = evaluate(tree, points)
        assert isinstance(result, BoundedNumbers)
        room = 1e-12 * np.maximum(1, np.abs(result.mid))
        assert np.all(result.mid >= closest.low - room)
        assert np.all(result.mid <= closest.high + room)


def test_doubts_that_are_the_same_cancel() -> None:
    x = BoundedNumbers(np.array([1.0, 2.0]), np.array([0.9, 1.9]), np.array([1.1, 2.1]))
    for formula, widest in {"x - x": 0.0, "x + 1 - x": 0.0, "x - mean(x, keep=1)": 0.2}.items():
        found = nearer(parse(formula), {"x": x})
        assert np.all(found.high - found.low <= widest + 1e-12), formula


def test_many_layers_of_normalisation_keep_bounds_that_say_something() -> None:
    mid = np.array([[0.3, -1.2, 2.0, 0.7]])
    x = BoundedNumbers(mid, mid - 0.005, mid + 0.005)
    tree = parse("layer_norm(x + relu(layer_norm(x + relu(layer_norm(x)))))")
    plain = evaluate(tree, {"x": x})
    assert isinstance(plain, BoundedNumbers)
    found = nearer(tree, {"x": x})
    assert np.all(found.high - found.low < 0.5 * (plain.high - plain.low))


def test_what_is_not_printed_may_be_anything() -> None:
    unknown = BoundedNumbers(
        np.array([1.0, np.nan]), np.array([1.0, -np.inf]), np.array([1.0, np.inf])
    )
    weights = evaluate(parse("softmax(x)"), {"x": unknown})
    assert isinstance(weights, BoundedNumbers)
    assert weights.low.tolist() == [0.0, 0.0]
    assert weights.high.tolist() == [1.0, 1.0]
    nothing = evaluate(parse("x @ [1, 0]"), {"x": unknown})
    assert isinstance(nothing, BoundedNumbers)
    assert (float(nothing.low), float(nothing.high)) == (1.0, 1.0)  # zero times it is zero


@pytest.mark.parametrize("side", [1.0, -1.0])
def test_an_inverse_whose_middle_lies_outside_the_bounds(side: float) -> None:
    """y = −0.1 + ε ± 3, known from elsewhere to lie from 0.5 to 2; and its mirror image."""
    mid, one = np.array([-0.1 * side]), np.array([1.0])
    low, high = sorted([np.array([0.5 * side]), np.array([2.0 * side])])
    exact = affine(one, np.zeros((1, 1)), 0 * one)
    found = _quotient(exact, affine(mid, one[None], 3 * one, low, high))
    assert found is not None
    for y in np.linspace(low, high, 31):
        for doubt in np.linspace(-1, 1, 21):
            if np.abs(y - mid - doubt) <= 3:
                line = found.mid + found.parts[0] * doubt
                assert np.abs(1 / y - line) <= found.rest + 1e-12


def test_softmax_bounds_are_tight() -> None:
    """Not only sound but tight: each bound is reached at a corner."""
    x = BoundedNumbers(np.zeros(3), np.full(3, -0.5), np.full(3, 0.5))
    weights = evaluate(parse("softmax(x)"), {"x": x})
    assert isinstance(weights, BoundedNumbers)
    e = np.exp(1.0)
    np.testing.assert_allclose(weights.high, e / (e + 2))
    np.testing.assert_allclose(weights.low, 1 / (1 + 2 * e))


@given(
    seed=st.integers(0, 2**32 - 1), width=st.sampled_from([0.01, 0.1, 0.5, 2.0]),
    own=st.sampled_from([0.0, 0.05, 0.5]), axis=st.sampled_from([0, 1]),
)  # fmt: skip
def test_a_softmax_of_shared_doubts_stays_within_its_form(
    seed: int, width: float, own: float, axis: int
) -> None:
    """For any ε, a weight is within `rest` of its line and within its bounds."""
    random = np.random.default_rng(seed)
    mid, parts = 3 * random.normal(size=(3, 4)), width * random.normal(size=(5, 3, 4))
    rest = own * np.abs(random.normal(size=(3, 4)))
    form = _softmax(affine(mid, parts, rest), axis)
    assert form is not None
    for _ in range(20):
        doubts = random.choice([-1.0, 1.0, *random.uniform(-1, 1, 2)], size=5)
        scores = mid + np.tensordot(doubts, parts, 1) + rest * random.choice([-1, 1], (3, 4))
        powers = np.exp(scores - scores.max(axis=axis, keepdims=True))
        weights = powers / powers.sum(axis=axis, keepdims=True)
        line = form.mid + np.tensordot(doubts, form.parts, 1)
        assert np.all(np.abs(weights - line) <= form.rest + 1e-12)
        assert np.all((form.low - 1e-12 <= weights) & (weights <= form.high + 1e-12))


def test_doubts_that_all_scores_share_leave_a_softmax_certain() -> None:
    form = _softmax(affine(np.array([[1.0, 2.0]]), np.full((1, 1, 2), 0.5), np.zeros((1, 2))), 1)
    assert form is not None
    assert float((form.high - form.low).max()) < 1e-12
