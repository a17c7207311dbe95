"""Reads formulas back from what a person sees, and computes them without the trace's evaluator.

A formula is read from its text (LaTeX and MathML are first brought into the same form, by what the
eye sees: braces vanish, a fraction bar brackets both of its sides) and computed in float64. Cells
are looked up in the tensors of the trace, by the printed names and positions.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from xml.etree import ElementTree

import numpy as np
import torch
from numpy.typing import NDArray

Numbers = NDArray[Any]
Node = Callable[["Reading", dict[str, int]], float]
_LETTERS = {"ₖ": "k", "ₗ": "l", "ₘ": "m", "ₙ": "n", "ⱼ": "j", "ₚ": "p", "ₛ": "s"}
_TOKEN = re.compile(r"\s*(?:[ΣΠ∑∏]|\d+(?:\.\d+)?(?:e[-+]?\d+)?|[^\W\d_]\w*|.)", re.DOTALL)
_COMPARISONS: dict[str, Callable[[float, float], bool]] = {
    "=": lambda a, b: a == b,
    "≠": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "≤": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    "≥": lambda a, b: a >= b,
}


class UnreadableError(Exception):
    """A formula in a notation that is not read back here, such as a cell of a reshaped view."""


def _as_dtype(name: str) -> Callable[[float], float]:
    dtype = getattr(torch, name)
    return lambda x: float(torch.tensor(x, dtype=torch.float64).to(dtype).double())


_FUNCTIONS: dict[str, Callable[..., float]] = {
    **{name: getattr(np, name) for name in ("exp", "log", "log2", "log10", "log1p", "expm1")},
    **{name: getattr(np, name) for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh")},
    **{name: getattr(np, name) for name in ("floor", "ceil", "trunc", "sign", "isnan", "exp2")},
    "erf": math.erf,
    "round": np.rint,
    "max": lambda *row: float(np.max(row)),
    "min": lambda *row: float(np.min(row)),
    "argmax": lambda *row: int(np.argmax(row)),
    "argmin": lambda *row: int(np.argmin(row)),
    "any": lambda *row: any(row),
    "all": lambda *row: all(row),
    "not": lambda x: not x,
    "abs": abs,
    "sqrt": lambda x: math.sqrt(x) if x >= 0 else math.nan,
    "√": lambda x: math.sqrt(x) if x >= 0 else math.nan,
    **{
        name: _as_dtype(name)
        for name in ("float64", "float32", "bfloat16", "float16", "int64", "int32", "bool")
    },
}


@dataclass
class Reading:
    """One formula being computed: its cells, its letters and named parts, and its magnitude."""

    cells: Callable[[str, list[int]], float] = field(default=lambda name, _: _unknown(name))
    sizes: Mapping[str, int] = field(default_factory=dict)
    parts: Mapping[str, float] = field(default_factory=dict)
    largest: float = 0.0
    """The largest sum of |terms| so far: rounding is relative to it."""

    def note(self, size: float) -> None:
        if math.isfinite(size):
            self.largest = max(self.largest, abs(size))


def _unknown(name: str) -> float:
    raise UnreadableError(f"no cells called {name}")


class Reader:
    """Reads text by the usual precedence: ^, then a minus sign, then · × /, then + −."""

    def __init__(self, text: str, symbols: tuple[str, ...] = ()) -> None:
        self._text = text
        self._symbols = sorted(symbols, key=len, reverse=True)
        self._at = 0

    def whole(self) -> Node:
        node = self._choice()
        if self._text[self._at :].strip():
            raise UnreadableError(f"not read: {self._text[self._at :][:60]!r}")
        return node

    # --- tokens ---

    def _peek(self) -> str:
        found = _TOKEN.match(self._text, self._at)
        return "" if found is None else found.group().strip()

    def _next(self) -> str:
        found = _TOKEN.match(self._text, self._at)
        if found is None:
            raise UnreadableError("the formula ends early")
        self._at = found.end()
        return found.group().strip()

    def _take(self, *tokens: str) -> str:
        seen = self._peek()
        return self._next() if seen in tokens else ""

    def _expect(self, token: str) -> None:
        if self._next() != token:
            raise UnreadableError(f"no {token} before {self._text[self._at :][:40]!r}")

    # --- from weak to strong ---

    def _choice(self) -> Node:
        if not self._take("if"):
            return self._logic()
        condition = self._logic()
        self._expect(":")
        yes = self._choice()
        self._expect(",")
        self._expect("else")
        no = self._choice()
        return lambda r, at: yes(r, at) if condition(r, at) else no(r, at)

    def _logic(self) -> Node:
        left = self._comparison()
        while sign := self._take("and", "or", "xor"):
            left = _logical(sign, left, self._comparison())
        return left

    def _comparison(self) -> Node:
        left = self._bits()
        while sign := self._take(*_COMPARISONS):
            left = _compared(sign, left, self._bits())
        return left

    def _bits(self) -> Node:
        left = self._sum()
        while sign := self._take("&"):
            left = _logical(sign, left, self._sum())
        return left

    def _sum(self) -> Node:
        left = self._product()
        while sign := self._take("+", "−", "-"):
            left = _added(left, self._product(), 1 if sign == "+" else -1)
        return left

    def _product(self) -> Node:
        left = self._signed()
        while sign := self._take("·", "×", "/", "÷", "mod"):
            left = _times(sign, left, self._signed())
        return left

    def _signed(self) -> Node:
        if not self._take("−", "-"):
            return self._power()
        body = self._signed()
        return lambda r, at: -body(r, at)

    def _power(self) -> Node:
        base = self._atom()
        if not self._take("^"):
            return base
        exponent = self._signed()
        return lambda r, at: _raised(base(r, at), exponent(r, at))

    def _atom(self) -> Node:
        for symbol in self._symbols:
            start = self._at + len(self._text[self._at :]) - len(self._text[self._at :].lstrip())
            end = start + len(symbol)
            after = self._text[end : end + 1]
            if self._text.startswith(symbol, start) and not re.match(r"[\w′.]", after):
                self._at = end
                return self._cell(symbol)
        token = self._next()
        if token == "(":
            inside = self._choice()
            self._expect(")")
            return inside
        if token == "|":
            body = self._choice()
            self._expect("|")
            return lambda r, at: abs(body(r, at))
        if token in "ΣΠ∑∏":
            return self._big(token)
        return self._plain(token)

    def _plain(self, token: str) -> Node:
        if token == "∞":
            return lambda _r, _at: math.inf
        if token[0].isdigit():
            value = float(token)
            return lambda _r, _at: value
        if token in ("NaN", "True", "False"):
            known = {"NaN": math.nan, "True": 1.0, "False": 0.0}[token]
            return lambda _r, _at: known
        if token == "√" and self._peek() != "(":
            return _called("√", (), [self._atom()])
        if len(token) == 1 and token not in _FUNCTIONS:
            return lambda _r, at: float(at[token]) if token in at else _unknown(token)
        return self._call(token)

    def _call(self, token: str) -> Node:
        name = "".join(mark for mark in token.partition("_")[0] if mark not in _LETTERS)
        below = token.removeprefix(name)
        letters = [_LETTERS.get(mark, mark) for mark in below if mark != "_"] + self._below()
        if name not in _FUNCTIONS or self._peek() != "(":
            raise UnreadableError(f"unknown word {token!r}")
        return _called(name, tuple(letters), self._arguments("(", ")"))

    def _arguments(self, opening: str, closing: str) -> list[Node]:
        self._expect(opening)
        found = [self._choice()]
        while self._take(","):
            found.append(self._choice())
        self._expect(closing)
        return found

    def _below(self) -> list[str]:
        letters = []
        while self._text[self._at : self._at + 1] in (*_LETTERS, "_"):
            mark = self._text[self._at]
            self._at += 1 if mark in _LETTERS else 2
            letters.append(_LETTERS.get(mark) or self._text[self._at - 1])
        return letters

    def _big(self, sign: str) -> Node:
        letters = tuple(self._below())
        body = self._product()
        if sign in "Π∏":
            return lambda r, at: float(np.prod([body(r, a) for a in _runs(r, at, letters)]))
        return lambda r, at: _summed(r, [body(r, a) for a in _runs(r, at, letters)])

    def _cell(self, symbol: str) -> Node:
        if self._text[self._at : self._at + 1] != "[":
            return lambda r, _at: r.parts[symbol] if symbol in r.parts else r.cells(symbol, [])
        self._expect("[")
        places = [self._place()]
        while self._take(","):
            places.append(self._place())
        self._expect("]")
        return lambda r, at: r.cells(symbol, [int(place(r, at)) for place in places])

    def _place(self) -> Node:
        """A position, where 12c is 12·c."""
        found = re.compile(r"[\dklmnjpscgbidt÷+−\- ]*(?: mod \d+)?(?=[,\]])").match(
            self._text, self._at
        )
        if found is None or not found.group().strip():
            return self._choice()
        self._at = found.end()
        return Reader(re.sub(r"(\d)([a-z])(?!od)", r"\1·\2", found.group())).whole()


# --- nodes ---


def _logical(sign: str, left: Node, right: Node) -> Node:
    def node(r: Reading, at: dict[str, int]) -> float:
        a, b = left(r, at), right(r, at)
        if sign == "&":
            return int(a) & int(b)
        return {"and": bool(a and b), "or": bool(a or b), "xor": bool(a) != bool(b)}[sign]

    return node


def _compared(sign: str, left: Node, right: Node) -> Node:
    return lambda r, at: _COMPARISONS[sign](left(r, at), right(r, at))


def _added(left: Node, right: Node, sign: int) -> Node:
    def node(r: Reading, at: dict[str, int]) -> float:
        a, b = left(r, at), right(r, at)
        r.note(abs(a) + abs(b))
        return a + sign * b

    return node


def _times(sign: str, left: Node, right: Node) -> Node:
    def node(r: Reading, at: dict[str, int]) -> float:
        a, b = np.float64(left(r, at)), np.float64(right(r, at))
        if sign == "/" and b:
            r.note(r.largest / abs(b))  # rounding above the bar is divided as well
        with np.errstate(all="ignore"):
            made = {"/": np.divide, "÷": np.floor_divide, "mod": np.mod}.get(sign, np.multiply)
            return float(made(a, b))

    return node


def _raised(base: float, exponent: float) -> float:
    with np.errstate(all="ignore"):
        return float(np.float64(base) ** np.float64(exponent))


def _runs(r: Reading, at: dict[str, int], letters: tuple[str, ...]) -> list[dict[str, int]]:
    if any(letter not in r.sizes for letter in letters):
        raise UnreadableError(f"the size of {letters} is not known")
    every = np.ndindex(*(r.sizes[letter] for letter in letters))
    return [{**at, **dict(zip(letters, place, strict=True))} for place in every]


def _summed(r: Reading, terms: list[float]) -> float:
    r.note(math.fsum(map(abs, filter(math.isfinite, terms))))
    return float(np.sum(np.array(terms, dtype=np.float64)))


def _called(name: str, letters: tuple[str, ...], arguments: list[Node]) -> Node:
    def node(r: Reading, at: dict[str, int]) -> float:
        places = _runs(r, at, letters) if letters else [at]
        row = [argument(r, place) for place in places for argument in arguments]
        with np.errstate(all="ignore"):
            made = float(_FUNCTIONS[name](*map(np.float64, row)))
        r.note(made)
        return made

    return node


# --- other formats, as the eye sees them ---

_TEX = {
    r"\cdot": "·", r"\times": "×", r"\neq": "≠", r"\leq": "≤", r"\geq": "≥", r"\infty": "∞",
    r"\wedge": " and ", r"\vee": " or ", r"\oplus": " xor ", r"\bmod": " mod ", r"\left|": "|",
    r"\right|": "|", r"\left(": "(", r"\right)": ")", r"\mathrm{NaN}": "NaN", r"\displaystyle": "",
    r"\mathbin{/}": "/", r"\mathbin{\&}": "&",
}  # fmt: skip


def from_tex(tex: str) -> str:
    """LaTeX of numbers as text: fractions and roots in brackets, other braces gone."""
    cases = re.compile(r"\\begin\{cases\}((?:(?!\\begin\{cases\}).)*?)\\end\{cases\}", re.DOTALL)
    while found := cases.search(tex):
        (yes, condition), (no, _) = (row.split("&") for row in found.group(1).split(r"\\"))
        tex = f"{tex[: found.start()]}(if {condition}: {yes}, else {no}){tex[found.end() :]}"
    tex = re.sub(r"\\left\\lfloor \\frac", r"\\floored", tex).replace(r"\right\rfloor", "")
    tex = re.sub(r"\\neg ([\d.]+|\((?:[^()])*\))", r"not(\1)", tex)
    for command, shape in (("frac", "(({0}) / ({1}))"), ("floored", "(({0}) ÷ ({1}))")):
        while (start := tex.rfind(f"\\{command}{{")) >= 0:
            above, end = _braced(tex, start + len(command) + 1)
            below, end = _braced(tex, end)
            tex = tex[:start] + shape.format(above, below) + tex[end:]
    while (start := tex.rfind(r"\sqrt{")) >= 0:
        inside, end = _braced(tex, start + len(r"\sqrt"))
        tex = f"{tex[:start]}√({inside}){tex[end:]}"
    for command, sign in _TEX.items():
        tex = tex.replace(command, sign)
    tex = re.sub(r"\\operatorname\{([^}]*)\}", lambda m: m[1].replace("\\", ""), tex)
    tex = re.sub(r"\\(exp|log|sin|cos|tan|sinh|cosh|tanh|max|min)\b", r"\1", tex)
    while (start := tex.rfind("^{")) >= 0:
        inside, end = _braced(tex, start + 1)
        tex = f"{tex[:start]}^({inside}){tex[end:]}"
    return tex.replace("{", "").replace("}", "")


def _braced(tex: str, start: int) -> tuple[str, int]:
    """What stands inside the braces that open at `start`, and where they end."""
    assert tex[start] == "{"
    depth = 0
    for place in range(start, len(tex)):
        depth += {"{": 1, "}": -1}.get(tex[place], 0)
        if not depth:
            return tex[start + 1 : place], place + 1
    raise UnreadableError("braces do not match")


def from_mathml(mathml: str) -> str:
    """MathML of numbers as text: fractions, roots and exponents in brackets."""
    return _flat(ElementTree.fromstring(f"<mrow>{mathml}</mrow>"))


def _flat(node: ElementTree.Element) -> str:
    inside = [_flat(part) for part in node]
    if node.tag == "mfrac":
        return f"(({inside[0]}) / ({inside[1]}))"
    if node.tag == "msqrt":
        return f"√({''.join(inside)})"
    if node.tag == "msup":
        return f"{inside[0]}^({inside[1]})"
    if node.tag == "mtable":
        (yes, condition), (no, _) = ([_flat(cell) for cell in row] for row in node)
        return f"(if {condition}: {yes}, else {no})"
    text = (node.text or "") + "".join(inside)
    if node.tag == "mrow" and inside and inside[0].strip() == "{":
        return "".join(inside[1:])
    return f" {text} " if node.tag == "mo" else text


_MARKS = {letter: mark for mark, letter in _LETTERS.items()}


def from_json(data: Any) -> str:
    """The expression of a card's JSON as text, in the names of steps."""
    if not isinstance(data, dict):
        return str(data)
    parts = {key: from_json(part) for key, part in data.items() if isinstance(part, dict)}
    match data["kind"]:
        case "number":
            return f"({_plain_number(data['value'])})"
        case "entry":
            return str(data["cell"])
        case "lookup":
            return f"{data['step']}[{', '.join(map(from_json, data['index']))}]"
        case "operation":
            sign = {"*": "·", "-": "−", "//": "÷", "%": " mod "}.get(
                data["operator"], data["operator"]
            )
            return f"({parts['left']} {sign} {parts['right']})"
        case "function":
            inside = ", ".join(map(from_json, data["arguments"]))
            return f"{data['name']}({inside})" if data["name"] != "neg" else f"(−({inside}))"
        case "reduce":
            below = "".join(_MARKS.get(a["letter"], f"_{a['letter']}") for a in data["axes"])
            kind = {"sum": "Σ", "product": "Π"}.get(data["reduction"], data["reduction"])
            return f"({kind}{below} ({parts['body']}))"
        case "choose":
            return f"(if {parts['condition']}: {parts['yes']}, else {parts['no']})"
        case "convert":
            return f"{data['dtype']}({parts['body']})"
        case "named":
            return f"({parts['body']})"
    raise UnreadableError(f"unknown kind {data['kind']}")


def _plain_number(value: float) -> str:
    if isinstance(value, float) and math.isinf(value):
        return "∞" if value > 0 else "−∞"
    return "NaN" if value != value else repr(value)
