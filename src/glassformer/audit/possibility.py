"""Numbers that no input could give.

Checking each number against the printed inputs misses two things: inputs that are not printed, and
numbers that are possible one by one but not together. Some formulas, however, leave marks on their
results whatever the input: a softmax sums to one, a normalised row of n numbers has mean 0 and
squares that sum to at most n, equal rows leave a linear layer equal, and a layer produces only
tokens that it has a column for. Every bound allows for rounding, so numbers without such a mark are
certainly wrong.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from glassformer.audit.example import PrintedDigits, PrintedStep
from glassformer.audit.formulas import FormulaError
from glassformer.audit.formulas.bounds import Array, BoundedNumbers, WordList
from glassformer.audit.formulas.evaluator import Work, WorkSpentError
from glassformer.audit.formulas.terms import (
    Binary,
    FunctionCall,
    Index,
    Listing,
    Name,
    Node,
    Numeral,
    Partly,
    Text,
    call,
    walk,
)
from glassformer.audit.recomputation import FromPrint
from glassformer.audit.verdicts import CellMask, Committed, SlipExplanation
from glassformer.language import Bilingual, words

say = words("glassformer.audit.audit")

_NOTHING = Bilingual("", "")
_ROOM = 1e-9  # for the rounding of float64 itself, in numbers of the size of one
# Work in numbers computed: for a fraction in exact elimination, and for a pair of rows.
_EACH_FRACTION = 15
_BITS = 16  # bits of a fraction that cost as much as one number
_EACH_PAIR = 200


@dataclass(frozen=True, eq=False)
class Impossible:
    """A mark that the printed numbers lack, and the cells that cannot all be right."""

    kind: str
    name: Bilingual
    reason: Bilingual
    cells: CellMask

    def explanation(self) -> SlipExplanation:
        """In the form in which slips are reported."""
        return SlipExplanation((Committed(self.kind, self.name, self.reason),))


def impossible(from_print: FromPrint, step: PrintedStep, work: Work) -> Impossible | None:
    """The first mark of the step's formula that its printed numbers lack.

    Once `work` is spent, rows of linear layers are no longer compared.
    """
    digits = step.printed
    if not isinstance(digits, PrintedDigits) or step.id not in from_print.trees:
        return None
    page = _Page(from_print, step, digits, work)
    return next(filter(None, (check(page) for check in _CHECKS)), None)


@dataclass(frozen=True, eq=False)
class _Page:
    from_print: FromPrint
    step: PrintedStep
    digits: PrintedDigits
    work: Work

    @property
    def tree(self) -> Node:
        return self.from_print.trees[self.step.id]

    def numbers(self, node: Node) -> BoundedNumbers | None:
        try:
            value = self.from_print.evaluate(node)
        except FormulaError:
            return None
        return value if isinstance(value, BoundedNumbers) else None

    def nowhere(self) -> CellMask:
        return np.zeros(self.digits.values.shape, dtype=bool)


# --- probabilities ---------------------------------------------------------------------------

_NOT_SOFTMAX = say.both("not a valid softmax")


def _softmax(page: _Page) -> Impossible | None:
    """A softmax sums to one, and two weights differ by the factor e^(difference of scores)."""
    tree = page.tree
    if not isinstance(tree, FunctionCall) or tree.function not in ("softmax", "log_softmax"):
        return None
    along, scores = tree.whole("axis", -1), page.numbers(tree.arguments[0])
    if along is None or scores is None or not scores.shape:
        return None
    if scores.shape != page.digits.values.shape:
        return None
    low, high = (_lines(part, along) for part in page.digits.bounds)
    if tree.function == "log_softmax":
        low, high = np.exp(low), np.exp(high)
    low = np.maximum(low, 0.0)
    marks = [
        _sum(low, high, _lines(scores.low, along)),
        _ratio(page, tree.function, (low, high), scores, along),
    ]
    found = [mark for mark in marks if mark is not None]
    if not found:
        return None
    detail = Bilingual.joined((said for said, _ in found), "; ", "；")
    lines = np.zeros(low.shape, dtype=bool)
    for _, line in found:
        lines[line] = True
    return Impossible("not_softmax", _NOT_SOFTMAX, detail, _unlines(lines, page.digits, along))


_Mark = tuple[Bilingual, int]


def _sum(low: Array, high: Array, scores: Array) -> _Mark | None:
    """A row whose sum is not one, beyond what rounding can explain."""
    for line, (least, most) in enumerate(zip(low, high, strict=True)):
        shown = ~np.isnan(least)
        if not shown.any() or np.all(np.isneginf(scores[line]) & (least <= 0)):
            continue  # a fully masked row is 0 throughout
        middle = float(((least + most) / 2)[shown].sum())
        if least[shown].sum() > 1 + _ROOM or (shown.all() and most.sum() < 1 - _ROOM):
            return say.both("the sum is {middle:.4g}, not 1", middle=middle), line
    return None


def _ratio(
    page: _Page, function: str, bounds: tuple[Array, Array], scores: BoundedNumbers, axis: int
) -> _Mark | None:
    """Two weights whose ratio is impossible for these scores: the pair that is furthest off.

    least_i / most_j must not exceed e^(high_i − low_j). Both sides separate into a factor of i and
    a factor of j, so the worst pair is the worst i and the worst j; no table of pairs is needed.
    """
    weights = _lines(page.digits.values, axis)
    low, high, mid = (_lines(part, axis) for part in (scores.low, scores.high, scores.mid))
    worst, pair = _ROOM, None
    for line, (least, most) in enumerate(zip(*bounds, strict=True)):
        known = np.flatnonzero(~np.isnan(least) & np.isfinite(mid[line]))
        if not known.size:
            continue
        too_large = np.log(least[known]) - high[line][known]
        too_small = low[line][known] - np.log(np.maximum(most[known], 1e-300))
        first, second = int(np.argmax(too_large)), int(np.argmax(too_small))
        excess = too_large[first] + too_small[second]
        if excess > worst:
            worst, pair = float(excess), (line, int(known[first]), int(known[second]))
    if pair is None:
        return None
    line, i, j = pair
    a, b, p, q = mid[line][i], mid[line][j], weights[line][i], weights[line][j]
    what = say.both("scores {a:g} and {b:g} get {p:g} and {q:g}", a=a, b=b, p=p, q=q)
    if function == "log_softmax":
        more = _NOTHING
    elif (p - q) * (a - b) < 0:
        more = say.both(", the larger weight for the smaller score")
    else:
        more = say.both(
            ", but their ratio must be e^{gap:.3g} = {ratio:.3g}", gap=a - b, ratio=np.exp(a - b)
        )
    return what + more, line


_NOT_AVERAGE = say.both("not an average of the values")


def _average(page: _Page) -> Impossible | None:
    """The output of attention lies between the least and greatest of the values it averages."""
    tree = page.tree
    if not isinstance(tree, Binary) or tree.operator != "@" or not page.digits.values.ndim:
        return None
    weights = tree.left
    if isinstance(weights, Partly):
        step = page.from_print.example[weights.name]
        # Weights that may have been rounded before use need not sum to one.
        weights = weights.body if step.printed is None and step.decimals is None else weights
    if not isinstance(weights, FunctionCall) or weights.function != "softmax":
        return None
    scores, values = page.numbers(weights.arguments[0]), page.numbers(tree.right)
    if scores is None or values is None or len(values.shape) != 2:
        return None
    if weights.whole("axis", -1) not in (-1, len(scores.shape) - 1):
        return None
    if np.any(np.isneginf(scores.mid)) or any(
        isinstance(part, FunctionCall) and part.function == "mask" for part in walk(weights)
    ):
        return None  # a fully masked row averages nothing
    least, most = values.low.min(axis=0), values.high.max(axis=0)
    low, high = page.digits.bounds
    if low.shape[-1:] != least.shape:
        return None
    room = _ROOM * (1 + np.abs(page.digits.values))
    cells = (high < least - room) | (low > most + room)
    if not cells.any():
        return None
    at = tuple(np.argwhere(cells)[0])
    reason = say.both(
        "{number}, but the values being averaged lie between {least} and {most}",
        number=f"{page.digits.values[at]:g}",
        least=f"{least[at[-1]]:.4g}",
        most=f"{most[at[-1]]:.4g}",
    )
    return Impossible("not_average", _NOT_AVERAGE, reason, np.asarray(cells))


# --- normalised rows -------------------------------------------------------------------------

_NOT_NORMALISED = say.both("a row that is not normalised")


def _normalised(page: _Page) -> Impossible | None:
    """(x − mean) / (deviation + ε): mean 0 and squares that sum to at most n, for any x."""
    tree = page.tree
    if isinstance(tree, FunctionCall) and tree.function == "flatten":
        tree = tree.arguments[0]
    shape = _normalising(tree)
    value = page.numbers(tree)
    if shape is None or value is None or not 1 <= len(value.shape) <= 2:
        return None
    epsilon = page.numbers(shape.epsilon)
    if epsilon is None or epsilon.shape or not epsilon.low >= 0:
        return None
    if value.mid.size != page.digits.values.size:
        return None
    n = value.shape[-1]
    most = float(n - shape.missing)
    least = _smallest_sum_of_squares(page, shape, float(epsilon.high), most, value.shape[:-1])
    low, high = (part.reshape(-1, n) for part in page.digits.bounds)
    cells = np.zeros(low.shape, dtype=bool)
    said: list[Bilingual] = []
    for line in range(len(low)):
        reason = _row(low[line], high[line], most, float(least[line]))
        if reason is not None:
            cells[line] = ~np.isnan(low[line])
            where = say.both("row {line}: ", line=line) if len(low) > 1 else _NOTHING
            said.append(where + reason)
    if not said:
        return None
    more = len(said) - 1
    rows = " (and 1 more row)" if more == 1 else " (and {more} more rows)"
    also = say.both(rows, more=more) if more else _NOTHING
    marked = cells.reshape(page.digits.values.shape)
    return Impossible("not_normalised", _NOT_NORMALISED, said[0] + also, marked)


@dataclass(frozen=True)
class _Normalising:
    x: Node
    epsilon: Node
    missing: int  # 1 where the deviation is that of a sample
    inside: bool  # ε is added to the variance, not to the deviation


def _normalising(tree: Node) -> _Normalising | None:
    match tree:
        case Binary("/", Binary("-", x, FunctionCall("mean") as mean), below):
            epsilon: Node = Numeral(0.0)
        case _:
            return None
    match below:
        case FunctionCall("sqrt", (Binary("+", FunctionCall("var") as spread, epsilon),)):
            pass
        case Binary("+", FunctionCall("std") as spread, epsilon):
            pass
        case FunctionCall("std") as spread:
            pass
        case _:
            return None
    if not all(part.arguments == (x,) and _along_last(part) for part in (mean, spread)):
        return None
    return _Normalising(x, epsilon, spread.whole("sample", 0) or 0, spread.function == "var")


def _along_last(reduction: FunctionCall) -> bool:
    """Whether a mean or deviation runs along the rows and keeps the axis."""
    along = reduction.whole("axis", -1) in (-1, 1)
    return along and reduction.whole("keep", 0) == 1 and reduction.whole("rows", 1) == 1


def _smallest_sum_of_squares(
    page: _Page, shape: _Normalising, epsilon: float, most: float, rows: tuple[int, ...]
) -> Array:
    """How small ε can make the sum of squares: n · (deviation / (deviation + ε))²."""
    function = "var" if shape.inside else "std"
    spread = page.numbers(call(function, shape.x, keep=1, sample=shape.missing))
    if spread is None:
        return np.zeros(rows).ravel()
    low = np.broadcast_to(spread.low, (*rows, 1)).reshape(-1)
    share = np.where(low > 0, low / (low + epsilon), 0.0)
    return np.asarray(most * (share if shape.inside else share**2))


def _row(low: Array, high: Array, most: float, least: float) -> Bilingual | None:
    shown = ~np.isnan(low)
    if not shown.any():
        return None
    low, high, hidden = low[shown], high[shown], int((~shown).sum())
    smallest = np.where((low <= 0) & (high >= 0), 0.0, np.minimum(low**2, high**2))
    middle = ((low + high) / 2).tolist()
    total, squares = float(np.sum(middle)), float(np.sum(np.square(middle)))
    listed = ", ".join(f"{number:g}" for number in middle[:4])
    those = f"{listed}, …" if len(middle) > 4 else listed
    n = len(low) + hidden
    # Unprinted numbers must balance the sum of the printed ones, which needs squares of their own.
    rest = 0.0 if low.sum() <= 0 <= high.sum() else min(low.sum() ** 2, high.sum() ** 2)
    if not hidden and rest > _ROOM:
        return say.both("the sum is {total:.4g}, but a normalised row sums to 0", total=total)
    if smallest.sum() + (rest / hidden if hidden else 0.0) > most + _ROOM:
        alone = smallest.sum() > most + _ROOM
        rest_too = ", and the {hidden} that are not printed must balance their sum"
        return say.both(
            "the squares of {those} sum to {squares:.4g}{rest}; in a normalised row of {n} all "
            "squares together sum to at most {most:g}",
            those=those,
            squares=squares,
            rest=_NOTHING if alone else say.both(rest_too, hidden=hidden),
            n=n,
            most=most,
        )
    largest = np.maximum(low**2, high**2).sum()
    if not hidden and largest < least - _ROOM:
        return say.both(
            "the squares sum to {squares:.4g}; in a normalised row of {n} they sum to {least:.4g}",
            squares=squares,
            n=n,
            least=least,
        )
    return None


# --- rows of a shared linear layer -----------------------------------------------------------

_NOT_LINEAR = say.both("rows that no single linear layer can give")


def _linear(page: _Page) -> Impossible | None:
    """All rows pass through the same weights, even if the weights are not printed."""
    layer = _layer(page.tree)
    if layer is None or page.digits.values.ndim != 2:
        return None
    if layer.bias is not None:
        bias = page.numbers(layer.bias)
        if bias is None or len(bias.shape) != 1:
            return None  # a residual differs from row to row
    x, weights = page.numbers(layer.x), page.numbers(layer.weights)
    if x is None or weights is None or len(x.shape) != 2 or len(weights.shape) != 2:
        return None
    if x.shape[0] != len(page.digits.values) or not np.isnan(weights.mid).all():
        return None  # printed weights need no such check
    low, high = (np.array(part) for part in page.digits.bounds)
    low[np.isnan(low)], high[np.isnan(high)] = -np.inf, np.inf
    if layer.relu:
        low[low <= 0] = -np.inf  # a ReLU shows 0 for anything below
    found = None
    rows, columns = x.shape
    try:
        if _is_given(page, layer.x):
            ones = [np.ones((rows, 1))] if layer.bias is not None else []
            found = _dependent_rows(page, np.hstack([x.mid, *ones]), low, high)
        if found is None and isinstance(layer.weights, Name | Partly):
            between = page.from_print.example[layer.weights.name].between
            if between is not None:
                page.work.take(rows**2 * (_EACH_PAIR + columns))
                found = _steep_rows(page, x, between, low, high)
    except WorkSpentError:
        return None
    return found


_MOVING = ("embedding", "lookup", "transpose", "concat", "stack")


def _is_given(page: _Page, node: Node) -> bool:
    """Whether the numbers are printed exactly, and at most rearranged by the formula."""
    for part in walk(node):
        match part:
            case Name(name=name):
                step = page.from_print.example[name]
                exact = isinstance(step.printed, PrintedDigits) and step.printed.exact
                if not (isinstance(step.printed, WordList) or (exact and step.complete)):
                    return False
            case FunctionCall(function=function) if function in _MOVING:
                pass
            case Index() | Listing() | Numeral() | Text():
                pass
            case _:
                return False
    return True


@dataclass(frozen=True)
class _Layer:
    x: Node
    weights: Node
    bias: Node | None
    relu: bool


def _layer(tree: Node) -> _Layer | None:
    relu = False
    if isinstance(tree, FunctionCall) and tree.function == "relu":
        relu, tree = True, tree.arguments[0]
    match tree:
        case Binary("@", x, weights):
            return _Layer(x, weights, None, relu)
        case Binary("+", Binary("@", x, weights), bias) | Binary(
            "+", bias, Binary("@", x, weights)
        ):
            return _Layer(x, weights, bias, relu)
        case _:
            return None


def _dependent_rows(page: _Page, inputs: Array, low: Array, high: Array) -> Impossible | None:
    """A combination of input rows that is zero must be zero for the output rows too."""
    if not np.all(np.isfinite(inputs)):
        return None
    for factors in _relations(inputs, page.work):
        rows = np.flatnonzero(factors)
        c = factors[rows, None]
        ends = np.stack([c * low[rows], c * high[rows]])
        least, most = ends.min(axis=0).sum(axis=0), ends.max(axis=0).sum(axis=0)
        room = _ROOM * (np.abs(c) * (1 + _size(low[rows]) + _size(high[rows]))).sum(axis=0)
        wrong = np.flatnonzero((least > room) | (most < -room))
        if wrong.size:
            column = int(wrong[0])
            cells = page.nowhere()
            cells[np.ix_(rows, wrong)] = True
            return Impossible("not_linear", _NOT_LINEAR, _relation(factors, page, column), cells)
    return None


def _size(bounds: Array) -> Array:
    return np.abs(np.where(np.isfinite(bounds), bounds, 0.0))


def _relation(factors: Array, page: _Page, column: int) -> Bilingual:
    rows = np.flatnonzero(factors)
    printed = ", ".join(f"{page.digits.values[row, column]:g}" for row in rows)
    listed = ", ".join(map(str, rows))
    if len(rows) == 2 and factors[rows[0]] == -factors[rows[1]]:
        return say.both(
            "rows {listed} have equal inputs, but their outputs in column {column} are {printed}",
            listed=listed,
            printed=printed,
            column=column,
        )
    terms = [say.both("{factor:+g}·row {row}", factor=factors[row], row=row) for row in rows]
    return say.both(
        "{terms} is 0 for the inputs, but not for the outputs: {printed} in column {column}",
        terms=Bilingual.joined(terms, " ", " "),
        printed=printed,
        column=column,
    )


def _relations(rows: Array, work: Work) -> Iterator[Array]:
    """Whole numbers c with Σ c · row = 0 exactly, one vector per linear dependency.

    Fractions grow from column to column, and the work for each grows with its digits.
    """
    count = len(rows)
    table = [
        [Fraction(repr(float(cell))) for cell in row]
        + [Fraction(int(i == j)) for j in range(count)]
        for i, row in enumerate(rows)
    ]
    width, done = rows.shape[1], 0
    for column in range(width):
        pivot = next((i for i in range(done, count) if table[i][column]), None)
        if pivot is None:
            continue
        table[done], table[pivot] = table[pivot], table[done]
        for i in range(done + 1, count):
            factor = table[i][column] / table[done][column]
            if factor:
                bits = factor.numerator.bit_length() + factor.denominator.bit_length()
                work.take(len(table[i]) * (_EACH_FRACTION + bits // _BITS))
                table[i] = [a - factor * b for a, b in zip(table[i], table[done], strict=True)]
        done += 1
    for row in table[done:]:
        factors = row[width:]
        scale = math.lcm(*(part.denominator for part in factors))
        yield np.array([float(part * scale) for part in factors])


def _steep_rows(
    page: _Page, x: BoundedNumbers, between: tuple[float, float], low: Array, high: Array
) -> Impossible | None:
    """Two rows whose outputs differ more than weights in the given range allow.

    A bias cancels in the difference of two rows.
    """
    worst, found = _ROOM, None
    for i in range(len(low)):
        for j in range(len(low)):
            if i == j:
                continue
            change = np.stack([x.low[i] - x.high[j], x.high[i] - x.low[j]])
            corners = np.stack([end * weight for end in change for weight in between])
            possible = float(corners.max(axis=0).sum())
            room = _ROOM * (_size(low[i]) + _size(high[j]))
            excess = low[i] - high[j] - possible - room
            column = int(np.argmax(excess))
            if excess[column] > worst:
                size = float(np.abs(change).max(axis=0).sum())
                needed = float(low[i, column] - high[j, column]) / size
                worst, found = float(excess[column]), (i, j, column, possible, needed)
    if found is None:
        return None
    i, j, column, possible, needed = found
    cells = page.nowhere()
    cells[[i, j], column] = True
    values = page.digits.values
    gap = float(np.max(np.abs(x.mid[i] - x.mid[j])))
    first, second = f"{values[i, column]:g}", f"{values[j, column]:g}"
    least, most = between
    reason = say.both(
        "the inputs of rows {i} and {j} differ by at most {gap:.2g}, but their outputs in column "
        "{column} are {first} and {second}: weights between {least:g} and {most:g} allow a "
        "difference of at most {possible:.2g}, and this one needs a weight of at least "
        "{needed:.2g}",
        i=i,
        j=j,
        gap=gap,
        first=first,
        second=second,
        column=column,
        least=least,
        most=most,
        possible=possible,
        needed=needed,
    )
    return Impossible("not_linear", _NOT_LINEAR, reason, cells)


# --- tokens without a column -----------------------------------------------------------------


def _columns(page: _Page) -> Impossible | None:
    """A layer can only produce tokens that it has a column for."""
    fold: Callable[[str], str] = str.casefold if page.step.ignore_case else str
    columns = {fold(label) for label in page.step.columns}
    missing = [word for word in page.step.produces if fold(word) not in columns]
    if not missing or not columns:
        return None
    words = ", ".join(f"“{word}”" for word in dict.fromkeys(missing))
    name = say.both("a token without a column")
    reason = say.both(
        "{words} must be produced, but none of the {n_columns} columns stands for it",
        words=words,
        n_columns=len(columns),
    )
    return Impossible("no_column", name, reason, page.nowhere())


# --- ranges ----------------------------------------------------------------------------------

_RANGES = {
    "relu": (say.both("a ReLU is never below 0"), 0.0, np.inf),
    "abs": (say.both("an absolute value is never below 0"), 0.0, np.inf),
    "std": (say.both("a standard deviation is never below 0"), 0.0, np.inf),
    "var": (say.both("a variance is never below 0"), 0.0, np.inf),
    "exp": (say.both("e^x is never below 0"), 0.0, np.inf),
    "sqrt": (say.both("a square root is never below 0"), 0.0, np.inf),
    "softmax": (say.both("a probability is between 0 and 1"), 0.0, 1.0),
    "sigmoid": (say.both("a sigmoid is between 0 and 1"), 0.0, 1.0),
    "log_softmax": (
        say.both("the logarithm of a probability is never above 0"),
        -np.inf,
        0.0,
    ),
    "tanh": (say.both("tanh is between −1 and 1"), -1.0, 1.0),
    "sin": (say.both("a sine is between −1 and 1"), -1.0, 1.0),
    "cos": (say.both("a cosine is between −1 and 1"), -1.0, 1.0),
}  # fmt: skip


def _range(page: _Page) -> Impossible | None:
    """A number outside the range of the function."""
    tree = page.tree
    if not isinstance(tree, FunctionCall) or tree.function not in _RANGES:
        return None
    said, least, most = _RANGES[tree.function]
    low, high = page.digits.bounds
    cells = (high < least - _ROOM) | (low > most + _ROOM)
    if not cells.any():
        return None
    number = float(page.digits.values[cells][0])
    name = say.both("out of range")
    reason = say.both("{number:g}, but {said}", number=number, said=said)
    return Impossible("out_of_range", name, reason, np.asarray(cells))


_CHECKS = (_range, _softmax, _average, _normalised, _linear, _columns)


def _lines(values: Array, axis: int) -> Array:
    return np.moveaxis(values, axis, -1).reshape(-1, values.shape[axis])


def _unlines(lines: CellMask, digits: PrintedDigits, axis: int) -> CellMask:
    """Cells marked by line, back in the shape of the printed numbers; unprinted ones are not."""
    moved = np.moveaxis(digits.values, axis, -1).shape
    return np.asarray(np.moveaxis(lines.reshape(moved), -1, axis) & digits.shown)
