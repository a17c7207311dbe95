"""The syntax tree of a formula: what the parser builds, the evaluator walks, and slips rewrite.

Nodes are frozen and compare by content: two occurrences of `add_1` are equal, so a rewriting can
change all of them at once. The column where a node stands in its formula takes no part in that.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

__all__ = [
    "Binary",
    "Call",
    "Index",
    "Known",
    "Listing",
    "Name",
    "Negative",
    "Node",
    "Number",
    "Partly",
    "Slice",
    "Text",
    "call",
    "children",
    "names_of",
    "replace_all",
    "show",
    "walk",
]


def _column() -> int:
    """Where a node stands in its formula; two nodes are equal wherever they stand."""
    return field(default=0, compare=False, repr=False)


@dataclass(frozen=True)
class Number:
    """A number written in the formula."""

    value: float
    column: int = _column()


@dataclass(frozen=True)
class Text:
    """A string written in the formula, in quotes."""

    value: str
    column: int = _column()


@dataclass(frozen=True)
class Name:
    """The value of another step."""

    name: str
    column: int = _column()


@dataclass(frozen=True)
class Negative:
    """−body."""

    body: Node
    column: int = _column()


@dataclass(frozen=True)
class Binary:
    """left operator right; the operators are + - * / @ ^."""

    operator: str
    left: Node
    right: Node
    column: int = _column()


@dataclass(frozen=True)
class Call:
    """function(arguments, key=word, …)."""

    function: str
    arguments: tuple[Node, ...]
    keywords: tuple[tuple[str, Node], ...] = ()
    column: int = _column()

    def keyword(self, name: str) -> Node | None:
        """The value given for a keyword, if it is given."""
        return dict(self.keywords).get(name)

    def with_keyword(self, name: str, value: float) -> Call:
        """The same call with one keyword set."""
        kept = tuple(pair for pair in self.keywords if pair[0] != name)
        return Call(self.function, self.arguments, (*kept, (name, Number(value))), self.column)


@dataclass(frozen=True)
class Slice:
    """start:stop inside an index; either may be missing."""

    start: int | None = None
    stop: int | None = None


@dataclass(frozen=True)
class Index:
    """body[parts]; a part is a whole number, a slice, or None for a new axis of size 1."""

    body: Node
    parts: tuple[int | Slice | None, ...]
    column: int = _column()


@dataclass(frozen=True)
class Listing:
    """[item, item, …]: a vector of numbers, or a matrix of rows."""

    items: tuple[Node, ...]
    column: int = _column()


@dataclass(frozen=True)
class Partly:
    """A step that is printed in part or not at all: its formula, with what is printed laid over it.

    No formula of a user has this node. The audit puts it where a name stands for such a step, so
    that a slip made inside it can be found from what comes after it.
    """

    name: str
    body: Node
    column: int = _column()


@dataclass(frozen=True, eq=False)
class Known:
    """Numbers worked out by a slip, which no formula could write down."""

    values: np.ndarray
    column: int = _column()


Node: TypeAlias = Number | Text | Name | Negative | Binary | Call | Index | Listing | Partly | Known


def call(function: str, *arguments: Node | float, **keywords: float) -> Call:
    """A call written in code: numbers become nodes."""
    lifted = tuple(
        Number(float(part)) if isinstance(part, int | float) else part for part in arguments
    )
    return Call(function, lifted, tuple((key, Number(at)) for key, at in keywords.items()))


def children(node: Node) -> tuple[Node, ...]:
    """The nodes directly below one."""
    match node:
        case Negative(body=body) | Index(body=body) | Partly(body=body):
            return (body,)
        case Binary(left=left, right=right):
            return (left, right)
        case Call(arguments=arguments, keywords=keywords):
            return arguments + tuple(value for _, value in keywords)
        case Listing(items=items):
            return items
        case _:
            return ()


def walk(node: Node) -> Iterator[Node]:
    """The node and everything below it, from the outside in."""
    yield node
    for child in children(node):
        yield from walk(child)


def names_of(node: Node) -> list[str]:
    """The steps that a formula names, in order, each once."""
    return list(dict.fromkeys(part.name for part in walk(node) if isinstance(part, Name)))


def replace_all(node: Node, old: Node, new: Node) -> Node:
    """The tree with every node that equals `old` replaced; `new` itself is not searched."""
    if node == old:
        return new

    def inside(part: Node) -> Node:
        return replace_all(part, old, new)

    match node:
        case Negative(body=body, column=column):
            return Negative(inside(body), column)
        case Binary(operator=operator, left=left, right=right, column=column):
            return Binary(operator, inside(left), inside(right), column)
        case Call(function=function, arguments=arguments, keywords=keywords, column=column):
            pairs = tuple((key, inside(value)) for key, value in keywords)
            return Call(function, tuple(map(inside, arguments)), pairs, column)
        case Index(body=body, parts=parts, column=column):
            return Index(inside(body), parts, column)
        case Listing(items=items, column=column):
            return Listing(tuple(map(inside, items)), column)
        case Partly(name=name, body=body, column=column):
            return Partly(name, inside(body), column)
        case _:
            return node


_BINDS = {"+": 1, "-": 1, "*": 2, "/": 2, "@": 2, "^": 4}
_NEGATIVE_BINDS = 3


def show(node: Node, outside: int = 0) -> str:
    """The formula as one would write it; parsing the result gives the tree back."""
    match node:
        case Number(value=value):
            return f"{value:g}" if value == float(f"{value:g}") else repr(value)
        case Text(value=value):
            return f'"{value}"'
        case Name(name=name) | Partly(name=name):
            return name
        case Negative(body=body):
            return _wrap(f"-{show(body, _NEGATIVE_BINDS)}", _NEGATIVE_BINDS, outside)
        case Binary(operator=operator, left=left, right=right):
            binds = _BINDS[operator]
            # ^ groups to the right, the others to the left.
            first, second = (binds + 1, binds) if operator == "^" else (binds, binds + 1)
            space = "" if operator == "^" else " "
            text = f"{show(left, first)}{space}{operator}{space}{show(right, second)}"
            return _wrap(text, binds, outside)
        case Call(function=function, arguments=arguments, keywords=keywords):
            parts = [show(part) for part in arguments]
            parts += [f"{key}={show(value)}" for key, value in keywords]
            return f"{function}({', '.join(parts)})"
        case Index(body=body, parts=indices):
            return f"{show(body, 5)}[{', '.join(map(_show_index, indices))}]"
        case Listing(items=items):
            return f"[{', '.join(map(show, items))}]"
        case Known():
            return "…"


def _wrap(text: str, binds: int, outside: int) -> str:
    return f"({text})" if binds < outside else text


def _show_index(part: int | Slice | None) -> str:
    if isinstance(part, Slice):
        start = "" if part.start is None else part.start
        return f"{start}:{'' if part.stop is None else part.stop}"
    return "new" if part is None else str(part)
