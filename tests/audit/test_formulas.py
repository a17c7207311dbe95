"""The formula language: what it parses, what it computes, and the columns of its errors."""

import ast
import gc
import math
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from glassformer.audit.example_file import example_names, load_example
from glassformer.audit.formulas import (
    FUNCTIONS,
    BoundedNumbers,
    FormulaError,
    Value,
    WordList,
    evaluate,
    exactly,
    names_of,
    parse,
    show,
)
from glassformer.audit.formulas.terms import (
    Binary,
    FunctionCall,
    Index,
    Listing,
    Name,
    Negative,
    Node,
    Numeral,
    Text,
    walk,
)
from glassformer.nn import attend_written
from glassformer.nn.positions import sinusoidal_table
from glassformer.python_source import parse_expression

A = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 7.0]])
B = np.array([[1.0, -1.0], [0.5, 2.0], [3.0, 0.0]])
V = np.array([1.0, 2.0, 4.0])
KNOWN: dict[str, Value] = {
    "a": exactly(A), "b": exactly(B), "v": exactly(V), "w": WordList(("you", "win"))
}  # fmt: skip


def value(formula: str) -> np.ndarray:
    result = evaluate(parse(formula), KNOWN)
    assert isinstance(result, BoundedNumbers)
    return result.mid


@pytest.mark.parametrize(
    ("formula", "expected"),
    [
        ("1 + 2 * 3", 7),
        ("2 * 3 ^ 2", 18),
        ("-2 ^ 2", -4),
        ("2 ^ -1", 0.5),
        ("2 ^ 3 ^ 2", 512),
        ("8 / 4 / 2", 1),
        ("7 − 2 × 3", 1),
        ("a @ b", A @ B),
        ("aᵀ", A.T),
        ("a.T[0]", A.T[0]),
        ("a[1, 2]", 7),
        ("a[:, 1:]", A[:, 1:]),
        ("a[-1]", A[-1]),
        ("v[:, new] * v", V[:, None] * V),
        ("softmax(a)", np.exp(A) / np.exp(A).sum(1, keepdims=True)),
        ("softmax(a, axis=0)", np.exp(A) / np.exp(A).sum(0)),
        ("mean(a)", A.mean(1)),
        ("std(a, sample=1)", A.std(1, ddof=1)),
        ("a - mean(a, keep=1)", A - A.mean(1, keepdims=True)),
        (
            "layer_norm(a, 0.1)",
            (A - A.mean(1, keepdims=True)) / np.sqrt(A.var(1, keepdims=True) + 0.1),
        ),
        ("geometric_mean(v)", 2.0),
        ("round(2.675, 2)", 2.68),
        ("round(-2.5)", -3),
        ("relu(b)", np.maximum(B, 0)),
        ("silu(b)", torch.nn.functional.silu(torch.tensor(B)).numpy()),
        ("gelu(b)", torch.nn.functional.gelu(torch.tensor(B)).numpy()),
        ("concat(a, b.T)", np.concatenate([A, B.T], axis=1)),
        ("concat(a, b.T, axis=0)", np.concatenate([A, B.T], axis=0)),
        ("stack(v, v ^ 2)", np.stack([V, V**2], axis=1)),
        ("where(even(range(3)), v, 0)", [1, 0, 4]),
        ("mask(a[:, 0:2], causal(2))", [[1, -math.inf], [4, 5]]),
        ("argmax(v)", 2),
        ("[1, 2] @ [3, 4]", 11),
        ("embedding([1, 0], b)", B[[1, 0]]),
        ("count(set(lower(words('The cat, the Cat!'))))", 2),
        ("lookup(w, ['win', 'you'], [5, 6])", [6, 5]),
        ("columns(a) + rows(a)", 5),
        ("flatten(a)", A.ravel()),
        ("range(2, 5)", [2, 3, 4]),
    ],
)
def test_values(formula: str, expected: object) -> None:
    np.testing.assert_allclose(value(formula), np.asarray(expected, dtype=float), rtol=1e-14)


def test_sinusoids_are_those_of_the_model() -> None:
    expected = sinusoidal_table(7, 6).numpy()
    np.testing.assert_allclose(value("sinusoids(range(7), 6)"), expected, atol=1e-7)


def test_attention_is_that_of_the_model() -> None:
    random = np.random.default_rng(0)
    queries, keys, values = random.normal(size=(3, 1, 1, 4, 6))
    mask = torch.ones(4, 4).tril().bool()
    expected = attend_written(
        *(torch.from_numpy(part) for part in (queries, keys, values)), mask=mask, divisor=6**0.5
    )
    named: dict[str, Value] = {
        name: exactly(part[0, 0]) for name, part in {"q": queries, "k": keys, "v": values}.items()
    }
    formula = "softmax(mask(q @ k.T / sqrt(columns(k)), causal(rows(q)))) @ v"
    result = evaluate(parse(formula), named)
    assert isinstance(result, BoundedNumbers)
    np.testing.assert_allclose(result.mid, expected.context[0, 0].numpy(), rtol=1e-12)


@pytest.mark.parametrize(
    ("formula", "column", "message"),
    [
        ("a @", 4, "expected a value, got the end"),
        ("(a + v", 7, "expected '\\)'"),
        ("a b", 3, "expected an operator"),
        ("2 ** 3", 3, "\\^ for a power"),
        ("a $ b", 3, "got '\\$'"),
        ("softmx(a)", 1, "did you mean 'softmax'"),
        ("1 + nothing", 5, "unknown name 'nothing'"),
        ("a @ a", 3, "2 × 3 and 2 × 3"),
        ("a + b", 3, "one shape"),
        ("a + w", 3, "got 2 words"),
        ("mean(a, axis=2)", 1, "axis 2"),
        ("mean(a, along=1)", 1, "no 'along'"),
        ("softmax()", 1, "expects 'x'"),
        ("softmax(a, 0, 1)", 1, "at most 2"),
        ("a[5]", 2, "inside 2 × 3"),
        ("a[1.5]", 3, "a whole number"),
        ("causal(2.5)", 8, "a whole number"),
        ("where(a, a, a)", 7, "a mask"),
        ("[1, [2, 3]]", 1, "rows of one length"),
        ("lookup(['lose'], w, v[0:2])", 1, "'lose'"),
        ("softmax(1)", 1, "axis"),
        ("range(1000000)", 1, "expected 1 to 100000 numbers"),
        ("(" * 300 + "1" + ")" * 300, 101, "deeper"),
    ],
)
def test_a_mistake_is_reported_at_its_column(formula: str, column: int, message: str) -> None:
    with pytest.raises(FormulaError, match=message) as caught:
        evaluate(parse(formula), KNOWN)
    assert caught.value.column == column


def test_names_come_in_order_and_once() -> None:
    assert names_of(parse("softmax(q @ k.T / sqrt(columns(k))) @ v")) == ["q", "k", "v"]


def test_every_function_has_a_required_argument() -> None:
    for function in FUNCTIONS.values():
        assert function.parameters[0].default is None


trees: st.SearchStrategy[Node] = st.recursive(
    st.one_of(
        st.builds(Numeral, st.floats(0, 1e6, allow_nan=False)),
        st.builds(Name, st.sampled_from(["a", "b", "long_name"])),
    ),
    lambda inner: st.one_of(
        st.builds(Negative, inner),
        st.builds(Binary, st.sampled_from("+-*/@^"), inner, inner),
        st.builds(FunctionCall, st.sampled_from(["f", "g"]), st.tuples(inner)),
        st.builds(Index, inner, st.tuples(st.integers(-3, 3))),
    ),
    max_leaves=12,
)


@given(tree=trees)
def test_what_is_shown_can_be_parsed_back(tree: Node) -> None:
    assert parse(show(tree)) == tree


@given(text=st.text(alphabet="ab1.+-*/@^()[],:= 'T−ᵀ√$", max_size=30))
def test_any_text_is_read_or_refused_in_our_own_words(text: str) -> None:
    try:
        parse(text)
    except FormulaError as error:
        assert 0 < error.column <= len(text) + 1


def shipped_formulas() -> list[str]:
    steps = [step for name in example_names() for step in load_example(name).steps]
    return sorted({step.formula for step in steps if step.formula is not None})


def begins(node: Node) -> tuple[str, ...]:
    """The text of a formula at the column of a node."""
    match node:
        case Name(name=name):
            return (name,)
        case FunctionCall(function="transpose"):
            return "transpose", ".T", "ᵀ"
        case FunctionCall(function=function):
            return (function,)
        case Binary(operator=sign):
            return sign, {"*": "×", "-": "−"}.get(sign, sign)
        case Index() | Listing():
            return ("[",)
        case Negative():
            return "-", "−"
        case Text():
            return "'", '"'
        case _:
            return tuple("0123456789.")


def test_shipped_formulas_are_what_they_show_with_every_node_at_its_column() -> None:
    formulas = shipped_formulas()
    assert len(formulas) > 70
    for formula in formulas:
        tree = parse(formula)
        assert parse(show(tree)) == tree
        for node in walk(tree):
            assert formula[node.column - 1 :].startswith(begins(node)), (formula, node)


@pytest.mark.parametrize("name", ["in", "lambda", "is", "None_", "ﬁ", "模型", "new_1", "_0", "T"])
def test_any_word_may_name_a_step(name: str) -> None:
    """Also Python's keywords, and letters that Python would normalise."""
    assert names_of(parse(f"softmax({name} @ {name}.T)")) == [name]


@pytest.mark.parametrize(
    "formula",
    [
        "a if b else c", "a == b", "a < b", "not a", "a or b", "lambda: a", "f(*a)", "f(^a)",
        "[a for a in b]", "{a}", "a.b", "a; b", "a := b", "(a, b)", "a,", "f(a)(b)", "2(a)",
        "'f'(a)", "f'{a}'", "'a' 'b'", "0x1f", "1_000", "1j", "a[b]", "a[1:2:3]", "a[1:2, b]", "+a",
        "f(1=2)", "f(a=1, b)", "f(a.b=1)", "", "()", "a[]", "a.T.x", "a // b", "a % b", "a ^ ",
        "…", "~a",
    ],
)  # fmt: skip
def test_what_is_python_but_no_formula_is_refused(formula: str) -> None:
    with pytest.raises(FormulaError) as caught:
        parse(formula)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "opening", ["(", "[", "f(", "-", "-(", "f(a, k=", "a @ (b + ", "2 ^ ", "f(["]
)
@pytest.mark.parametrize("closed", [True, False])
def test_nesting_is_bounded_whatever_it_is_made_of(opening: str, closed: bool) -> None:
    """No formula overflows our stack or that of Python's parser."""
    closing = "".join({"(": ")", "[": "]"}.get(sign, "") for sign in reversed(opening))
    formula = opening * (9_000 // (len(opening) + len(closing)))
    with pytest.raises(FormulaError, match=r"deep|operators"):
        parse(formula + "a" + (closing * formula.count(opening) if closed else ""))


@pytest.mark.parametrize("sign", ["+", "-", "*", "/", "@"])
def test_a_long_chain_of_operators_is_read_from_the_left(sign: str) -> None:
    tree = parse(sign.join(["a"] * 900))
    for _ in range(899):
        assert isinstance(tree, Binary) and tree.operator == sign and tree.right == Name("a")
        tree = tree.left
    assert tree == Name("a")


class _Finalised:
    """Garbage whose end runs Python, so that another thread may take its turn just then."""

    def __init__(self) -> None:
        self.itself = self

    def __del__(self) -> None:
        sum(range(200))


def test_several_threads_read_formulas_at_once() -> None:
    formula = " + ".join(["exp(a[1]) * (b * c)"] * 60)  # `parse` hands Python's part to this:
    switch, thresholds = sys.getswitchinterval(), gc.get_threshold()

    def read(_: int) -> bool:
        _Finalised()
        return isinstance(parse_expression(formula), ast.BinOp)

    sys.setswitchinterval(1e-6)
    gc.set_threshold(50)
    try:
        with ThreadPoolExecutor(4) as threads:
            assert all(threads.map(read, range(600)))
    finally:
        sys.setswitchinterval(switch)
        gc.set_threshold(*thresholds)
