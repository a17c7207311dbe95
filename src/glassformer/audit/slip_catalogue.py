"""The catalogue: every slip that the audit knows, the likelier ones first.

If two slips explain the printed digits equally well, both are reported; if one kind offers several
rewritings that do, the first is. Names are those that a reader of the article would use.

Rules that need to look at the numbers are in `formula_slips`; those for slips between computing and
printing (rounding, cutting off, copying, losing a token) are here, before the table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise

import numpy as np

from glassformer.audit import formula_slips as computing
from glassformer.audit.example import PrintedDigits
from glassformer.audit.formulas.bounds import Array, BoundedNumbers, WordList
from glassformer.audit.formulas.formula_functions import round_half_up
from glassformer.audit.formulas.terms import (
    Binary,
    FunctionCall,
    Known,
    Listing,
    Name,
    Negative,
    Node,
    Numeral,
    Partly,
    Text,
    call,
)
from glassformer.audit.slip import (
    SIZES,
    Change,
    Part,
    Scene,
    Slip,
    SlipRule,
    anywhere,
    either,
    rewriting,
    take_rows,
)
from glassformer.language import Bilingual, words

say = words("glassformer.audit.audit")

# --- between computing and printing ---

_ROUNDED_CALLS = {"softmax", "mean", "std", "var", "sum", "geometric_mean"}


def rounded_before_use(node: Node, scene: Scene) -> Iterator[Part]:
    """A value rounded to a few decimals before it is used."""
    worth = isinstance(node, Name | Partly) or (
        isinstance(node, FunctionCall) and node.function in _ROUNDED_CALLS
    )
    value = scene.numbers(node) if worth else None
    if value is None:
        return
    for decimals in range(5):
        finite = value[np.isfinite(value)] * 10.0**decimals
        if np.allclose(finite, np.rint(finite), rtol=0, atol=1e-9):
            return  # further rounding changes nothing
        if not np.rint(finite).any():
            continue  # nothing would be left: that is a term or factor left out
        detail = scene.tell("{x} rounded to {decimals} decimals first", x=node, decimals=decimals)
        yield call("round", node, decimals), detail


def cut_off(tree: Node, scene: Scene) -> Iterator[Change]:
    """Digits truncated instead of rounded."""
    if scene.compared is None:
        return
    right, digits = scene.compared
    scale = Known(10.0**digits.decimals)
    cut = Binary("/", call("truncate", Binary("*", tree, scale)), scale)
    yield Change(cut, _cut_off(right.mid, digits))


def _cut_off(right: Array, digits: PrintedDigits) -> Bilingual:
    """The first number that shows the truncation."""
    for at in np.ndindex(right.shape):
        number, printed, places = right[at], digits.values[at], int(digits.decimals[at])
        if np.isfinite(number) and abs(number - printed) > digits.half[at]:
            more = f"{number:.{max(places, 0) + 2}f}"
            shown = f"{printed:.{max(places, 0)}f}"
            return say.both("{more} printed as {shown}", more=more, shown=shown)
    return say.both("further digits dropped")


def fitted_to_one(tree: Node, scene: Scene) -> Iterator[Change]:
    """Weights rounded so that each row adds up to one: the largest remainders are rounded up."""
    del tree
    if not isinstance(scene.right, BoundedNumbers) or not isinstance(scene.printed, PrintedDigits):
        return
    right = scene.right.mid
    if right.ndim < 1 or not np.all(np.isfinite(right)) or not np.allclose(right.sum(-1), 1):
        return
    scale = 10.0**scene.decimals
    lower = np.floor(right * scale)
    rank = np.argsort(np.argsort(-(right * scale - lower), axis=-1, kind="stable"), axis=-1)
    missing = np.rint(scale - lower.sum(axis=-1, keepdims=True))
    fitted = (lower + (rank < missing)) / scale
    yield Change(Known(fitted), _fitted(right, fitted, scene.decimals))


def _fitted(right: Array, fitted: Array, decimals: int) -> Bilingual:
    """A number that was rounded the other way, and what the row would add up to otherwise."""
    rounded = round_half_up(right, decimals)
    moved = np.argwhere(np.abs(rounded - fitted) > 0.1 * 10.0**-decimals)
    if not len(moved):
        return say.both("so that each row adds up to 1")
    at = tuple(moved[0])
    number, usual, instead = f"{right[at]:.3g}", rounded[at], fitted[at]
    total = f"{rounded[at[:-1]].sum():.{decimals}f}"
    places = f".{decimals}f"
    return say.both(
        "{number} became {instead:{places}} instead of {usual:{places}}, because the rounded "
        "numbers would otherwise add up to {total}, not 1",
        number=number,
        places=places,
        instead=instead,
        usual=usual,
        total=total,
    )


def sign_lost(tree: Node, scene: Scene) -> Iterator[Change]:
    """The right size with the wrong sign."""
    if isinstance(scene.printed, PrintedDigits):
        yield Change(Negative(tree), say.both("the opposite sign"))


def point_moved(tree: Node, scene: Scene) -> Iterator[Change]:
    """The right digits with the decimal point one place off."""
    if isinstance(scene.printed, PrintedDigits):
        detail = say.both("ten times too large")
        yield Change(Binary("*", tree, Numeral(10.0)), detail)
        detail = say.both("ten times too small")
        yield Change(Binary("/", tree, Numeral(10.0)), detail)


def digits_exchanged(tree: Node, scene: Scene) -> Iterator[Change]:
    """Two adjacent digits swapped, as in typing."""
    del tree
    if scene.compared is None:
        return
    right, digits = scene.compared[0].mid, scene.compared[1]
    typed = np.array(right)  # a copy, writable even for a single number
    unlike = np.isfinite(right - digits.values) & (np.abs(right - digits.values) > digits.half)
    for at in map(tuple, np.argwhere(unlike)):
        typed[at] = _as_typed(float(right[at]), float(digits.values[at]), int(digits.decimals[at]))
    moved = [tuple(at) for at in np.argwhere(typed != right)]
    if moved:
        number, places = float(right[moved[0]]), int(digits.decimals[moved[0]])
        was, now = (f"{part:.{max(places, 0)}f}" for part in (number, typed[moved[0]]))
        yield Change(Known(typed), say.both("{now} instead of {was}", now=now, was=was))


def _as_typed(right: float, printed: float, decimals: int) -> float:
    """The printed number, if swapping two digits of the right one gives it."""
    unit = 10.0**-decimals
    # A half may have been rounded up or down.
    for whole in {np.floor(right / unit + 0.5 - 1e-6), np.floor(right / unit + 0.5 + 1e-6)}:
        text = f"{whole * unit:.{max(decimals, 0)}f}"
        places = [i for i, character in enumerate(text) if character.isdigit()]
        for i, j in pairwise(places):
            swapped = list(text)
            swapped[i], swapped[j] = swapped[j], swapped[i]
            if text[i] != text[j] and abs(float("".join(swapped)) - printed) < 1e-9:
                return printed
    return right


def token_dropped(tree: Node, scene: Scene) -> Iterator[Change]:
    """A word, or its row or number, is missing; the others are right."""
    if isinstance(scene.right, WordList) and isinstance(scene.printed, WordList):
        fold = str.casefold if scene.step.ignore_case else str
        right = [fold(word or "") for word in scene.right.items]
        printed = [fold(word or "") for word in scene.printed.items]
        kept = _kept(len(printed), len(right), lambda i, j: printed[i] == right[j])
        if kept is not None:
            lost = [i for i in range(len(right)) if i not in kept]
            words = ", ".join(f"“{scene.right.items[i]}”" for i in lost)
            detail = say.both("{words} is missing", words=words)
            yield Change(Listing(tuple(Text(word or "") for word in scene.printed.items)), detail)
    elif isinstance(scene.right, BoundedNumbers) and isinstance(scene.printed, PrintedDigits):
        yield from _rows_dropped(tree, scene.right.mid, scene.printed)


def _rows_dropped(tree: Node, right: Array, digits: PrintedDigits) -> Iterator[Change]:
    shown, slack = digits.values, digits.half + 1e-9
    if min(right.ndim, shown.ndim) < 1 or right.shape[1:] != shown.shape[1:]:
        return
    kept = _kept(
        len(shown), len(right), lambda i, j: bool(np.all(np.abs(right[j] - shown[i]) <= slack[i]))
    )
    if kept is not None:
        lost = ", ".join(str(i) for i in range(len(right)) if i not in kept)
        yield Change(take_rows(tree, kept), say.both("item {lost} is missing", lost=lost))


def _kept(printed: int, right: int, same: Callable[[int, int], bool]) -> list[int] | None:
    """Where the printed items are among the right ones, if some are missing and none is moved."""
    if not 0 < printed < right:
        return None
    places: list[int] = []
    for i in range(printed):
        first = places[-1] + 1 if places else 0
        place = next((j for j in range(first, right) if same(i, j)), None)
        if place is None:
            return None
        places.append(place)
    return places


# --- the table ---

_ONE_OF_MANY = 4.0  # any of many products may be the one, so a fit by chance is likelier
_ACTIVATIONS = {
    "relu": "ReLU", "gelu": "GELU", "silu": "SiLU", "tanh": "tanh", "sigmoid": "sigmoid",
}  # fmt: skip
_TANH_GELU = "0.5 * x * (1 + tanh(0.7978845608028654 * (x + 0.044715 * x ^ 3)))"


def _part(kind: str, name: str, *rules: SlipRule, not_below: tuple[str, ...] = ()) -> Slip:
    """A slip made in some part of the formula."""
    return Slip(kind, say[name], anywhere(either(*rules), not_below=not_below))


def _whole(
    kind: str, name: str, rewrite: Callable[[Node, Scene], Iterator[Change]], doubt: float = 1.5
) -> Slip:
    """A slip made with the whole result."""
    return Slip(kind, say[name], rewrite, doubt)


def _another_activation() -> Iterator[SlipRule]:
    forms = [(function, f"{function}(x)") for function in _ACTIVATIONS]
    for used, written in (*forms, ("silu", "x * sigmoid(x)")):
        right = _ACTIVATIONS[used]
        for function, name in {**_ACTIVATIONS, "abs": "|x|"}.items():
            if function != used:
                said = "{name} instead of {right}"
                yield rewriting(written, f"{function}(x)", said, name=name, right=right)
        if used == "sigmoid":
            yield rewriting(written, "softmax(x)", "{name} instead of {right}",
                            name="softmax", right=right)  # fmt: skip
        if used != "gelu":
            said = "GELU (its tanh approximation) instead of {right}"
            yield rewriting(written, _TANH_GELU, said, right=right)


ROUNDING = _part("rounding", "rounded before use", rounded_before_use)

FITTED = _whole("fitted", "rounded to add up to 1", fitted_to_one, doubt=0.5)

CATALOGUE: tuple[Slip, ...] = (
    _whole("pasted", "wrong matrix pasted", computing.another_matrix(own=False)),
    _part("divisor", "wrong divisor", computing.wrong_divisor, not_below=("floor",)),
    _part("divisor", "wrong divisor", computing.mean_over_another_number),
    _part(
        "inverse", "multiplication and division confused",
        rewriting("a / b", "a * b", "multiplied by {b}, not divided"),
        rewriting("a * b", "a / b", "divided by {b}, not multiplied"),
        rewriting("a * b", "b / a", "divided by {a}, not multiplied"),
    ),
    _part("axis", "wrong axis", computing.wrong_axis),
    _whole("axis", "wrong axis", computing.wrong_axis_throughout),
    _part("exchanged", "factors swapped", computing.factors_exchanged),
    _part(
        "transposed", "wrongly transposed", computing.transposed,
        rewriting("transpose(x)", "x", "{x} is not transposed"), not_below=SIZES,
    ),
    _whole("transposed", "wrongly transposed", computing.result_transposed),
    _part(
        "sample", "sample and population deviation confused",
        *(
            rewriting(f"{function}(x)", f"{function}(x, sample={missing})", said)
            for function in ("std", "var")
            for missing, said in enumerate(
                ("divided by n instead of n − 1", "divided by n − 1 instead of n")
            )
        ),
    ),
    _part(
        "geometric", "geometric instead of arithmetic mean",
        rewriting("mean(x)", "geometric_mean(x)",
                  "the n-th root of the product of the numbers in {x}, not their sum over n"),
    ),
    _part(
        "sum_for_mean", "sum and mean confused",
        rewriting("mean(x)", "sum(x)", "the sum of {x} instead of the mean"),
        rewriting("sum(x)", "mean(x)", "the mean of {x} instead of the sum"),
    ),
    _part(
        "max_for_mean", "maximum and mean confused",
        rewriting("mean(x)", "max(x)", "the maximum of {x} instead of the mean"),
        rewriting("max(x)", "mean(x)", "the mean of {x} instead of the maximum"),
    ),
    _part(
        "base", "logarithm to the wrong base",
        *(
            rewriting(f"{function}(x)", f"{function}(x) / log({base})",
                      "logarithm to base {base} instead of e", base=base)
            for function in ("log", "log_softmax")
            for base in ("10", "2")
        ),
    ),
    _part(
        "power", "power of the wrong base",
        rewriting("exp(x)", "10 ^ x", "10 to the power {x}, not e"),
        rewriting("exp(x)", "2 ^ x", "2 to the power {x}, not e"),
    ),
    _part("rows", "rows mixed up", computing.rows_mixed),
    _whole("rows", "rows mixed up", computing.rows_exchanged),
    _part(
        "zero_mask", "masked with zero instead of minus infinity",
        rewriting("mask(x, allowed)", "where(allowed, x, 0)", "hidden scores are 0, not −∞"),
    ),
    _part(
        "late_mask", "masked after the softmax",
        rewriting("softmax(mask(x, allowed))", "where(allowed, softmax(x), 0)",
                  "hidden weights set to 0 after the softmax: a row no longer adds up to 1"),
    ),
    _part(
        "triangle", "mask the wrong way round",
        rewriting("causal(n)", "opposite(causal(n))", "the past is hidden, the future is visible"),
    ),
    _part(
        "no_mask", "mask forgotten",
        rewriting("mask(x, allowed)", "x", "{x} unmasked"),
    ),
    _part(
        "sine", "sine and cosine confused",
        rewriting("sin(x)", "cos(x)", "cosine instead of sine"),
        rewriting("cos(x)", "sin(x)", "sine instead of cosine"),
    ),
    _whole("sine", "sine and cosine exchanged", computing.sine_and_cosine_exchanged),
    _part(
        "index", "exponent with the wrong index",
        rewriting("n * floor(i / n)", "i", "{new} instead of {old}"),
        rewriting("floor(i / n)", "i", "{new} instead of {old}"),
    ),
    _whole("token", "a token dropped", token_dropped),
    _part(
        "no_exp", "softmax without the exponential",
        rewriting("softmax(x)", "proportion(x)", "scores divided by their sum"),
    ),
    _part("joined", "joined in the wrong order", computing.joined_otherwise),
    _part("joined", "joined in the wrong order", computing.waves_in_halves),
    _part("slice", "slice of another head or position", computing.another_slice),
    _part("slice", "slice of another head or position", computing.another_slice_throughout),
    _part("operand", "wrong matrix used", computing.another_operand, not_below=SIZES),
    _whole("operand", "operands swapped", computing.operands_exchanged),
    ROUNDING,
    FITTED,
    _whole("cut_off", "truncated instead of rounded", cut_off),
    _part("factor", "a factor left out", computing.factor_left_out),
    _part(
        "term", "a term left out",
        rewriting("a + b", "a", "without {b}"),
        rewriting("a - b", "a", "without {b}"),
        rewriting("a + b", "b", "without {a}"),
    ),
    _whole("term", "a term left out", computing.product_missed(twice=False), _ONE_OF_MANY),
    _part(
        "twice", "a term added twice",
        rewriting("a + b", "a + b + b", "{b} twice"),
        rewriting("a - b", "a - b - b", "{b} twice"),
        rewriting("a + b", "a + b + a", "{a} twice"),
    ),
    _whole("twice", "a term added twice", computing.product_missed(twice=True), _ONE_OF_MANY),
    _part(
        "sign", "plus and minus confused",
        rewriting("a + b", "a - b", "- {b} instead of + {b}"),
        rewriting("a - b", "a + b", "+ {b} instead of - {b}"),
    ),
    _part(
        "elementwise", "elementwise instead of matrix product",
        rewriting("a @ b", "a * b", "{a} times {b} element by element"),
    ),
    _part(
        "root", "a square root left out",
        rewriting("std(x)", "var(x)", "the variance instead of the standard deviation"),
        rewriting("sqrt(x)", "x", "{x} without the square root"),
    ),
    _whole("root", "a square root left out", computing.roots_left_out),
    _part(
        "no_power", "a power left out",
        rewriting("a ^ b", "a", "{a} without the power {b}"),
        rewriting("a ^ b", "a * b", "{a} times {b}, not to the power {b}"),
    ),
    _part(
        "activation", "activation left out",
        *(
            rewriting(f"{function}(x)", "x", "without {name}", name=name)
            for function, name in _ACTIVATIONS.items()
        ),
    ),
    _part("other_activation", "wrong activation", *_another_activation()),
    _whole("pasted", "wrong matrix pasted", computing.another_matrix(own=True)),
    _part(
        "from_one", "counted from one",
        rewriting("range(n)", "range(n) + 1", "{old} counted from 1"),
    ),
    _whole("sign_lost", "wrong sign", sign_lost),
    _whole("point", "decimal point moved", point_moved),
    _whole("digits", "digits swapped", digits_exchanged),
)  # fmt: skip
