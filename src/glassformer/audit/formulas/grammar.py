"""A formula read by Python's own parser: text → graph, or an error with the column.

The language is Python's arithmetic, with `^` for powers, `new` for a new axis, and any other word
as a name. A formula is split into tokens, every word is replaced by a placeholder that Python
accepts as a name, and `ast.parse` works out the structure: precedence, brackets, arguments, slices.
Its tree is converted node by node through an allow list. Nothing of a formula is ever run as
Python.
"""

from __future__ import annotations

import ast
import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass

from glassformer.audit.formulas.terms import (
    Binary,
    FormulaError,
    FunctionCall,
    Index,
    Listing,
    Name,
    Negative,
    Node,
    Numeral,
    Slice,
    Text,
)
from glassformer.errors import Fragment
from glassformer.python_source import parse_expression

# Signs as pasted from articles, and what they are in Python.
_SIGNS = {
    "−": "-", "×": "*", "·": "*", "ᵀ": ".T", "÷": "/", "（": "(", "）": ")", "，": ",", "^": "**",
}  # fmt: skip
_PATTERN = re.compile(
    r"""(?P<space>\s+)
    |(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)
    |(?P<name>[^\W\dᵀ][^\Wᵀ]*)
    |(?P<text>"[^"]*"|'[^']*')
    |(?P<sign>\.T\b|\*\*|[-+*/@^()\[\],:=−×·ᵀ÷（），])""",
    re.VERBOSE,
)
_OPERATORS: dict[type[ast.operator], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.MatMult: "@", ast.Pow: "^",
}  # fmt: skip
_CLOSING = {"(": ")", "[": "]"}
_ENDS_VALUE = (")", "]", ".T")

# A formula may come from anyone: its length, numbers, brackets and operators are limited before
# Python sees it, so that its parser cannot overflow the stack in any version.
_MOST_CHARACTERS = 10_000
_MOST_DIGITS = 100  # of one number; float64 holds 17
_MOST_OPERATORS = 1_000
_DEEPEST = 100  # brackets in brackets, signs before signs


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str
    column: int
    python: str


def parse(formula: str) -> Node:
    """The graph of a formula; raises `FormulaError` with the column of the first mistake."""
    tokens, end = list(_tokens(formula)), len(formula) + 1
    made: Node | None = None
    # A sum is built here, term by term: for Python, one of n terms is n levels deep.
    for sign, term in _check(tokens, end):
        node = _Reader(term, end).read()
        made = (
            node if made is None or sign is None else Binary(sign.python, made, node, sign.column)
        )
    assert made is not None
    return made


def _tokens(formula: str) -> Iterator[_Token]:
    if len(formula) > _MOST_CHARACTERS:
        raise FormulaError(
            "expected a formula of at most {most} characters, got {n}",
            most=_MOST_CHARACTERS,
            n=len(formula),
        )
    at = count = 0
    while at < len(formula):
        match, column = _PATTERN.match(formula, at), at + 1
        if match is None:
            raise FormulaError(
                "expected a number, a name or one of + - * / @ ^ ( ) [ ], got {sign!r}",
                column,
                sign=formula[at],
            )
        kind, text, at = match.lastgroup or "", match.group(), match.end()
        if text == "**":
            raise FormulaError("expected ^ for a power, got '**'", column)
        if kind == "number" and len(text) > _MOST_DIGITS:
            raise FormulaError(
                "expected a number of at most {most} digits, got {n}",
                column,
                most=_MOST_DIGITS,
                n=len(text),
            )
        if kind != "space":
            sign = _SIGNS.get(text, text)
            yield _Token(kind, text, column, sign if kind == "sign" else f"_{count}")
            count += 1


def _check(tokens: list[_Token], end: int) -> list[tuple[_Token | None, list[_Token]]]:
    """The terms of the formula, each with the sign before it.

    Checks that brackets match, that an operator stands between values, and the depth.
    """
    terms: list[tuple[_Token | None, list[_Token]]] = [(None, [])]
    open_: list[str] = []
    operators = signs = 0
    after_value = False
    for token in tokens:
        sign, is_value = token.python, token.kind != "sign"
        if is_value and after_value:
            what = Fragment.of("an operator or {sign!r}", sign=open_[-1]) if open_ else _CONTINUED
            raise _unexpected(what, token)
        if sign in ("+", "-") and after_value and not open_:
            terms.append((token, []))
            operators = signs = 0
            after_value = False
            continue
        terms[-1][1].append(token)
        after_value = is_value or sign in _ENDS_VALUE
        signs = signs + 1 if sign in ("-", "**") else 0 if is_value else signs
        operators += not is_value and sign not in "()[],:="
        if sign in _CLOSING:
            open_.append(_CLOSING[sign])
        elif sign in (")", "]") and (not open_ or open_.pop() != sign):
            raise FormulaError("expected no {sign!r} that nothing opens", token.column, sign=sign)
        if len(open_) + signs > _DEEPEST:
            raise FormulaError("nested deeper than {most} levels", token.column, most=_DEEPEST)
        if operators > _MOST_OPERATORS:
            raise FormulaError(
                "expected at most {most} operators in a term", token.column, most=_MOST_OPERATORS
            )
    if open_:
        raise _unfinished(repr(open_[-1]), end)
    return terms


_CONTINUED = "an operator or the end of the formula"


def _unexpected(what: str, token: _Token) -> FormulaError:
    return FormulaError("expected {what}, got {sign!r}", token.column, what=what, sign=token.text)


def _unfinished(what: str, end: int) -> FormulaError:
    return FormulaError("expected {what}, got the end of the formula", end, what=what)


class _Reader:
    """Python's syntax tree of the placeholders, converted to ours."""

    def __init__(self, tokens: list[_Token], end: int) -> None:
        self._tokens = tokens
        self._end = end
        self._starts: list[int] = []  # of each token in what Python parses
        length = 0
        for token in tokens:
            self._starts.append(length)
            length += len(token.python) + 1

    def read(self) -> Node:
        source = " ".join(token.python for token in self._tokens)
        try:
            return self._node(parse_expression(source))
        except SyntaxError as error:
            raise self._unexpected(error.offset or 0) from None
        except (RecursionError, MemoryError):
            raise FormulaError("nested too deeply") from None

    def _unexpected(self, offset: int) -> FormulaError:
        """Our own message, because Python's speak of Python."""
        place = self._place(offset - 1) if offset else len(self._tokens)
        before = self._tokens[place - 1] if place else None
        if before is None or (before.kind == "sign" and before.python not in _ENDS_VALUE):
            expected = "a value"
        else:
            expected = _CONTINUED
        if place == len(self._tokens):
            return _unfinished(expected, self._end)
        token = self._tokens[place]
        if token.kind != "sign":  # Python points at the start of what it cannot parse
            return FormulaError(
                "expected a formula, got none from {sign!r} on", token.column, sign=token.text
            )
        return _unexpected(expected, token)

    def _place(self, offset: int) -> int:
        return max(bisect_right(self._starts, offset) - 1, 0)

    def _token(self, node: ast.expr | ast.keyword) -> _Token:
        """The first token of a node."""
        return self._tokens[self._place(node.col_offset)]

    def _after(self, node: ast.expr, signs: tuple[str, ...]) -> _Token:
        """The first of some signs after a node; only closing brackets may stand between."""
        assert node.end_col_offset is not None
        place = self._place(node.end_col_offset - 1) + 1
        return next(token for token in self._tokens[place:] if token.python in signs)

    def _refused(self, node: ast.expr, expected: str = "a value") -> FormulaError:
        return _unexpected(expected, self._token(node))

    def _node(self, node: ast.expr) -> Node:
        token = self._token(node)
        match node:
            case ast.Name():
                return _atom(token)
            case ast.UnaryOp(op=ast.USub(), operand=body):
                return Negative(self._node(body), token.column)
            case ast.BinOp():
                return self._binary(node)
            case ast.Attribute(value=body):
                column = self._after(body, (".T",)).column
                return FunctionCall("transpose", (self._node(body),), (), column)
            case ast.List(elts=items):
                return Listing(tuple(map(self._node, items)), token.column)
            case ast.Subscript(value=body, slice=inside):
                column = self._after(body, ("[",)).column
                parts = inside.elts if isinstance(inside, ast.Tuple) else [inside]
                return Index(self._node(body), tuple(map(self._index, parts)), column)
            case ast.Call(func=ast.Name()) if token.kind == "name":
                return self._call(node, token)
            case ast.Tuple():
                raise FormulaError("expected one value in brackets, got several", token.column)
        raise self._refused(node)

    def _binary(self, node: ast.BinOp) -> Node:
        """A chain of operators, from its first operand on: Python nests a long chain deeply."""
        chain: list[ast.BinOp] = []
        left: ast.expr = node
        while isinstance(left, ast.BinOp):
            chain.append(left)
            left = left.left
        made = self._node(left)
        for part in reversed(chain):
            sign = _OPERATORS.get(type(part.op))
            if sign is None:
                raise self._refused(part.right, "an operator")
            column = self._after(part.left, ("**" if sign == "^" else sign,)).column
            made = Binary(sign, made, self._node(part.right), column)
        return made

    def _call(self, node: ast.Call, function: _Token) -> FunctionCall:
        keywords = []
        for part in node.keywords:
            token = self._token(part)
            if part.arg is None or token.kind != "name":
                raise _unexpected("a name", token)
            keywords.append((token.text, self._node(part.value)))
        arguments = tuple(map(self._node, node.args))
        return FunctionCall(function.text, arguments, tuple(keywords), function.column)

    def _index(self, node: ast.expr) -> int | Slice | None:
        token = self._token(node)
        if isinstance(node, ast.Slice) and node.step is None:
            start, stop = (
                None if end is None else self._whole(end) for end in (node.lower, node.upper)
            )
            return Slice(start, stop)
        if isinstance(node, ast.Name) and token.text in ("new", "None"):
            return None
        return self._whole(node)

    def _whole(self, node: ast.expr) -> int:
        sign = 1
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            node, sign = node.operand, -1
        token = self._token(node)
        if not isinstance(node, ast.Name) or not token.text.isdigit():
            raise self._refused(node, "a whole number, ':' or 'new'")
        return sign * int(token.text)


def _atom(token: _Token) -> Node:
    if token.kind == "number":
        return Numeral(float(token.text), token.column)
    if token.kind == "text":
        return Text(token.text[1:-1], token.column)
    return Name(token.text, token.column)
