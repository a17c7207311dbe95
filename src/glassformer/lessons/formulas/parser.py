"""Tokens to syntax tree: a precedence parser for the formulas of worked examples.

From loose to tight: `+ -`, then `* / @`, then a leading `-`, then `^` (which groups to the right),
then what follows a value: `[…]` for rows and cells, `.T` or `ᵀ` for the transpose. Nothing is ever
handed to Python's own `eval`.
"""

from glassformer.lessons.formulas.tokens import FormulaError, Token, tokenise
from glassformer.lessons.formulas.tree import (
    Binary,
    Call,
    Index,
    Listing,
    Name,
    Negative,
    Node,
    Number,
    Slice,
    Text,
)

__all__ = ["parse"]

_LOOSE, _TIGHT, _PREFIX, _POWER = 1, 2, 3, 4
_BINDS = {"+": _LOOSE, "-": _LOOSE, "*": _TIGHT, "/": _TIGHT, "@": _TIGHT, "^": _POWER}
_DEEPEST = 100  # nesting; a guard against a file that would exhaust the stack


def parse(formula: str) -> Node:
    """The tree of a formula; raises `FormulaError` with the column of the first mistake."""
    parser = _Parser(tokenise(formula))
    tree = parser.expression(0)
    parser.take_end()
    return tree


class _Parser:
    def __init__(self, tokens: list[Token]) -> None:
        self._tokens = tokens
        self._at = 0
        self._depth = 0

    @property
    def _next(self) -> Token:
        return self._tokens[self._at]

    def _sees(self, sign: str) -> bool:
        return self._next.kind == "sign" and self._next.text == sign

    def _take(self) -> Token:
        token = self._next
        self._at += token.kind != "end"
        return token

    def _expect(self, sign: str) -> Token:
        if not self._sees(sign):
            raise self._unexpected(repr(sign))
        return self._take()

    def _unexpected(self, expected: str) -> FormulaError:
        token = self._next
        got = "the end of the formula" if token.kind == "end" else repr(token.text)
        return FormulaError(f"expected {expected}, got {got}", token.column)

    def take_end(self) -> None:
        if self._next.kind != "end":
            raise self._unexpected("an operator or the end of the formula")

    def expression(self, loosest: int) -> Node:
        """Values joined by operators that bind tighter than `loosest`."""
        self._depth += 1
        if self._depth > _DEEPEST:
            raise FormulaError(f"nested deeper than {_DEEPEST} levels", self._next.column)
        left = self._value()
        while self._next.kind == "sign" and _BINDS.get(self._next.text, 0) > loosest:
            sign = self._take()
            binds = _BINDS[sign.text]
            # Right-grouping ^ lets another ^ (or a minus) into its right side, the others do not.
            right = self.expression(_PREFIX - 1 if sign.text == "^" else binds)
            left = Binary(sign.text, left, right, sign.column)
        self._depth -= 1
        return left

    def _value(self) -> Node:
        if self._sees("-"):
            sign = self._take()
            return Negative(self.expression(_PREFIX), sign.column)
        node = self._atom()
        while self._sees("[") or self._sees(".T"):
            sign = self._take()
            if sign.text == ".T":
                node = Call("transpose", (node,), (), sign.column)
            else:
                node = Index(node, self._indices(), sign.column)
        return node

    def _atom(self) -> Node:
        token = self._next
        if token.kind == "number":
            return Number(float(self._take().text), token.column)
        if token.kind == "text":
            return Text(self._take().text[1:-1], token.column)
        if token.kind == "name":
            self._take()
            return self._call(token) if self._sees("(") else Name(token.text, token.column)
        if self._sees("("):
            self._take()
            inside = self.expression(0)
            self._expect(")")
            return inside
        if self._sees("["):
            self._take()
            return Listing(self._items("]"), token.column)
        raise self._unexpected("a value")

    def _items(self, closing: str) -> tuple[Node, ...]:
        items: list[Node] = []
        while not self._sees(closing):
            items.append(self.expression(0))
            if not self._sees(closing):
                self._expect(",")
        self._take()
        return tuple(items)

    def _call(self, name: Token) -> Call:
        self._expect("(")
        arguments: list[Node] = []
        keywords: list[tuple[str, Node]] = []
        while not self._sees(")"):
            part = self.expression(0)
            if isinstance(part, Name) and self._sees("="):
                self._take()
                keywords.append((part.name, self.expression(0)))
            elif keywords:
                raise FormulaError("expected 'name=value' after another of its kind", part.column)
            else:
                arguments.append(part)
            if not self._sees(")"):
                self._expect(",")
        self._take()
        return Call(name.text, tuple(arguments), tuple(keywords), name.column)

    def _indices(self) -> tuple[int | Slice | None, ...]:
        parts: list[int | Slice | None] = [self._index()]
        while self._sees(","):
            self._take()
            parts.append(self._index())
        self._expect("]")
        return tuple(parts)

    def _index(self) -> int | Slice | None:
        if self._next.kind == "name" and self._next.text in ("new", "None"):
            self._take()
            return None
        start = None if self._sees(":") else self._whole()
        if not self._sees(":"):
            return start
        self._take()
        stop = None if self._sees(",") or self._sees("]") else self._whole()
        return Slice(start, stop)

    def _whole(self) -> int:
        sign = -1 if self._sees("-") else 1
        if sign < 0:
            self._take()
        if self._next.kind != "number" or not self._next.text.isdigit():
            raise self._unexpected("a whole number, ':' or 'new'")
        return sign * int(self._take().text)
