"""The functions and comparisons of expressions in the words of a spreadsheet."""

from __future__ import annotations

import math
from collections.abc import Sequence

from glassformer.trace.expressions import Number, Operation
from glassformer.trace.render.workbook.pieces import (
    ADD,
    ATOM,
    COMPARE,
    MULTIPLY,
    POWER,
    InexpressibleError,
    Piece,
    truth,
    value,
)

__all__ = ["INFINITE", "INFINITY", "call", "compare_infinity"]

INFINITY = 1e200
INFINITE = "1E+100"
"""What lies beyond counts as infinite."""
_OVERFLOW = 460
"""exp of this is 1E+200: beyond it an exponential is infinite, and Excel would refuse."""

_PLAIN = {
    "log10": "LOG10",
    "sqrt": "SQRT",
    "erf": "ERF",
    "sin": "SIN",
    "cos": "COS",
    "tan": "TAN",
    "asin": "ASIN",
    "acos": "ACOS",
    "atan": "ATAN",
    "sinh": "SINH",
    "cosh": "COSH",
    "tanh": "TANH",
    "abs": "ABS",
    "floor": "INT",
    "trunc": "TRUNC",
    "max": "MAX",
    "min": "MIN",
    "%": "MOD",
}

_TEMPLATES = {
    "sign": ("IFERROR(SIGN({0}),0)", ATOM),  # the sign of what is no number is 0
    "exp2": ("2^({0})", POWER),
    "log1p": ("LN(1+({0}))", ATOM),
    "log2": ("LOG({0},2)", ATOM),
    "neg": ("-({0})", ADD),
    "ceil": ("-INT(-({0}))", ADD),
    # Halves go to the even neighbour, as torch rounds; ROUND alone takes them away from 0.
    "round": ("IF(ABS({0}-TRUNC({0}))=0.5,2*ROUND(({0})/2,0),ROUND({0},0))", ATOM),
    "atan2": ("ATAN2({1},{0})", ATOM),  # a spreadsheet takes x first
    "//": ("INT(({0})/({1}))", ATOM),
    # A spreadsheet's bits are those of numbers from 0 to 2^48: below 0, count from 2^47 down.
    "&": ("MOD(_xlfn.BITAND(MOD({0},2^47),MOD({1},2^47))+2^46,2^47)-2^46", ADD),
    "|": ("MOD(_xlfn.BITOR(MOD({0},2^47),MOD({1},2^47))+2^46,2^47)-2^46", ADD),
}

_TRUTHS = {
    "isnan": "ISERROR({0})",
    "isinf": f"IFERROR(ABS({{0}})>={INFINITE},FALSE)",
    "isfinite": f"IFERROR(ABS({{0}})<{INFINITE},FALSE)",
}


def call(name: str, arguments: Sequence[Piece], *, bounded: bool = False) -> Piece:
    """A function of pieces; `bounded` says that an exponential cannot overflow."""
    texts = [value(piece) for piece in arguments]
    shapes = frozenset(shape for piece in arguments for shape in piece.shapes)
    if name in _PLAIN:
        return Piece(f"{_PLAIN[name]}({','.join(texts)})", ATOM, False, shapes)
    if name in _TEMPLATES:
        template, strength = _TEMPLATES[name]
        plain = name == "neg" and arguments[0].strength == ATOM
        text = f"-{texts[0]}" if plain else template.format(*texts)
        return Piece(text, strength, False, shapes)
    if name in _TRUTHS:
        return Piece(_TRUTHS[name].format(*texts), COMPARE, True, shapes)
    match name:
        case "exp":
            inner = texts[0] if bounded else f"MIN({texts[0]},{_OVERFLOW})"
            return Piece(f"EXP({inner})", ATOM, False, shapes)
        case "expm1":
            return Piece(f"EXP(MIN({texts[0]},{_OVERFLOW}))-1", ADD, False, shapes)
        case "log":  # the logarithm of 0 is −∞, of what is below 0 an error
            minus_infinity = -INFINITY
            return Piece(f"IF({texts[0]}=0,{minus_infinity:.0E},LN({texts[0]}))", ATOM)
        case "not":
            return Piece(f"NOT({truth(arguments[0])})", ATOM, True)
        case "and" | "or":
            both = ",".join(truth(piece) for piece in arguments)
            return Piece(f"{name.upper()}({both})", ATOM, True)
        case "xor":
            left, right = (truth(piece) for piece in arguments)
            return Piece(f"({left})<>({right})", COMPARE, True)
        case _:
            raise InexpressibleError(f"a spreadsheet has no {name}")


# What `x ∘ ±∞` says of an encoded x; None where it holds for every x or for none.
_BEYOND: dict[tuple[str, bool], str | None] = {
    ("=", True): f">={INFINITE}",
    ("≥", True): f">={INFINITE}",
    ("=", False): f"<=-{INFINITE}",
    ("≤", False): f"<=-{INFINITE}",
    ("≠", True): f"<{INFINITE}",
    ("<", True): f"<{INFINITE}",
    ("≠", False): f">-{INFINITE}",
    (">", False): f">-{INFINITE}",
}


def compare_infinity(operation: Operation, left: Piece, right: Piece) -> Piece | None:
    """A comparison with an infinite constant, by the threshold; None if it is none."""
    constant, other = operation.right, left
    if not _is_infinite(constant):
        constant, other = operation.left, right
    if not (isinstance(constant, Number) and _is_infinite(constant)):
        return None
    sign = operation.operator
    if constant is operation.left:
        sign = {"<": ">", ">": "<", "≤": "≥", "≥": "≤"}.get(sign, sign)  # type: ignore[assignment]  # mirrored signs are signs
    test = _BEYOND.get((sign, float(constant.value) > 0))
    if test is None:
        return None
    return Piece(f"{value(other, MULTIPLY)}{test}", COMPARE, True, other.shapes)


def _is_infinite(expression: object) -> bool:
    return isinstance(expression, Number) and math.isinf(float(expression.value))
