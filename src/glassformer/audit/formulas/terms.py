"""The syntax graph of a formula, which the evaluator computes and slips rewrite.

Nodes are frozen and compare by content: two occurrences of `add_1` are equal, so a rewriting can
change all of them at once. The column of a node in its formula does not count.

A part may be used many times: `layer_norm(x)` needs x three times, and a step that is not printed
is written out wherever it is used. As a tree, a chain of fourteen residual sums would have
thousands of nodes. So parts are shared, every node carries a digest of its content, and everything
here and in the evaluator visits a part once, by that digest. Nothing here recurses, so only the
size of the example limits the depth of a graph.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import TypeAlias, cast

import numpy as np

from glassformer.errors import ConfigError


class FormulaError(ConfigError):
    """A formula that cannot be parsed or computed; with the column, if known."""

    def __init__(self, message: str, column: int = 0, **fields: object) -> None:
        fields = {name: _shortened(value) for name, value in fields.items()}
        if column:
            error = ConfigError(message, **fields)
            super().__init__("column {column}: {error}", column=column, error=error)
        else:
            super().__init__(message, **fields)
        self.column = column


_MOST_SHOWN = 100  # characters of a word or a sign that an error repeats


def _shortened(value: object) -> object:
    if type(value) is str and len(value) > _MOST_SHOWN:
        return f"{value[:_MOST_SHOWN]}…"
    return value


def _column() -> int:
    """The column of a node in its formula, which does not count for equality."""
    return field(default=0, repr=False)


class _Content:
    """Equality by content in constant time, by a digest of the node and its children."""

    __match_args__: tuple[str, ...]  # of a dataclass: its fields, of which the last is the column
    column: int
    digest: bytes
    below: tuple[Node, ...]
    shown: tuple[str, int] | None = None  # its text and binding strength, once computed

    def __post_init__(self) -> None:
        below: list[Node] = []
        whole = repr((type(self).__name__, _signed(self._parts(), below)))
        digest = hashlib.blake2b(whole.encode(), digest_size=16).digest()
        object.__setattr__(self, "digest", digest)
        object.__setattr__(self, "below", tuple(below))

    def _parts(self) -> tuple[object, ...]:
        return tuple(getattr(self, name) for name in self.__match_args__[:-1])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Content) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)


def _signed(part: object, below: list[Node]) -> object:
    """The content of a node, its children as digests; these are appended to `below`."""
    if isinstance(part, tuple):
        return [_signed(inside, below) for inside in part]
    if isinstance(part, _Content):
        below.append(cast("Node", part))
        return part.digest
    return part


@dataclass(frozen=True, eq=False)
class Numeral(_Content):
    """A number written in the formula."""

    value: float
    column: int = _column()

    def _parts(self) -> tuple[object, ...]:
        return (float(self.value),)  # 2 is 2.0


@dataclass(frozen=True, eq=False)
class Text(_Content):
    """A string written in the formula, in quotes."""

    value: str
    column: int = _column()


@dataclass(frozen=True, eq=False)
class Name(_Content):
    """The value of another step."""

    name: str
    column: int = _column()


@dataclass(frozen=True, eq=False)
class Negative(_Content):
    """−body."""

    body: Node
    column: int = _column()


@dataclass(frozen=True, eq=False)
class Binary(_Content):
    """left operator right; the operators are + - * / @ ^."""

    operator: str
    left: Node
    right: Node
    column: int = _column()


@dataclass(frozen=True, eq=False)
class FunctionCall(_Content):
    """function(arguments, key=word, …)."""

    function: str
    arguments: tuple[Node, ...]
    keywords: tuple[tuple[str, Node], ...] = ()
    column: int = _column()

    def keyword(self, name: str) -> Node | None:
        """The value given for a keyword, if it is given."""
        return dict(self.keywords).get(name)

    def whole(self, name: str, default: int) -> int | None:
        """The same for a whole number, or what stands for it; None if it is computed."""
        given = self.keyword(name)
        if given is None:
            return default
        return int(given.value) if isinstance(given, Numeral) else None

    def with_keyword(self, name: str, value: float) -> FunctionCall:
        """The same call with one keyword set."""
        kept = tuple(pair for pair in self.keywords if pair[0] != name)
        return FunctionCall(
            self.function, self.arguments, (*kept, (name, Numeral(value))), self.column
        )


@dataclass(frozen=True)
class Slice:
    """start:stop inside an index; either may be missing."""

    start: int | None = None
    stop: int | None = None


@dataclass(frozen=True, eq=False)
class Index(_Content):
    """body[parts]; a part is a whole number, a slice, or None for a new axis of size 1."""

    body: Node
    parts: tuple[int | Slice | None, ...]
    column: int = _column()

    @property
    def places(self) -> tuple[int | slice | None, ...]:
        """The parts as numpy takes them."""
        return tuple(
            slice(part.start, part.stop) if isinstance(part, Slice) else part for part in self.parts
        )


@dataclass(frozen=True, eq=False)
class Listing(_Content):
    """[item, item, …]: a vector of numbers, or a matrix of rows."""

    items: tuple[Node, ...]
    column: int = _column()


@dataclass(frozen=True, eq=False)
class Partly(_Content):
    """A step that is printed in part or not at all: its formula, overridden by what is printed.

    Parsing never gives this node. The audit puts it in place of the name of such a step, so that a
    slip inside the step can be found from later ones.
    """

    name: str
    body: Node
    column: int = _column()


_COUNTER = count()


@dataclass(frozen=True, eq=False)
class Known(_Content):
    """Numbers computed by a slip, which no formula could express. Equals only itself."""

    values: np.ndarray
    column: int = _column()

    def _parts(self) -> tuple[object, ...]:
        return (next(_COUNTER),)


Node: TypeAlias = (
    Numeral | Text | Name | Negative | Binary | FunctionCall | Index | Listing | Partly | Known
)


def call(function: str, *arguments: Node | float, **keywords: float) -> FunctionCall:
    """A call built in code; plain numbers become nodes."""
    lifted = tuple(
        Numeral(float(part)) if isinstance(part, int | float) else part for part in arguments
    )
    return FunctionCall(function, lifted, tuple((key, Numeral(at)) for key, at in keywords.items()))


def walk(node: Node, enter: Callable[[Node], bool] = lambda _: True) -> Iterator[Node]:
    """The node and everything below it, from the outside in, equal parts once.

    Parts below a node for which `enter` is false are skipped, unless they are reached otherwise.
    """
    seen: set[bytes] = set()
    waiting = [node]
    while waiting:
        part = waiting.pop()
        if part.digest not in seen:
            seen.add(part.digest)
            yield part
            if enter(part):
                waiting.extend(reversed(part.below))


def upwards(root: Node, known: Container[bytes] = ()) -> list[Node]:
    """The same from the leaves up: each node after those below it.

    Without the nodes whose digests are `known`, and without what only they need.
    """
    done: dict[bytes, Node] = {}
    waiting = [] if root.digest in known else [root]
    while waiting:
        node = waiting[-1]
        missing = [
            part for part in node.below if part.digest not in done and part.digest not in known
        ]
        if missing and node.digest not in done:
            waiting.extend(reversed(missing))
        else:
            done.setdefault(node.digest, node)
            waiting.pop()
    return list(done.values())


def names_of(node: Node) -> list[str]:
    """The steps that a formula refers to, in order, each once."""
    return [part.name for part in walk(node) if isinstance(part, Name)]


def rebuild(
    root: Node,
    after: Callable[[Node], Node] = lambda node: node,
    known: Mapping[bytes, Node] | None = None,
) -> Node:
    """The graph rebuilt from the leaves up; `after` may replace each node once it is built.

    `known` maps nodes that are replaced as they are, without descending into them.
    """
    made: dict[bytes, Node] = dict(known or {})
    for node in upwards(root, made):
        below = tuple(made[part.digest] for part in node.below)
        same = all(new.digest == old.digest for new, old in zip(below, node.below, strict=True))
        made[node.digest] = after(node if same else _with_below(node, below))
    return made[root.digest]


def _with_below(node: Node, below: tuple[Node, ...]) -> Node:
    children = iter(below)

    def put(part: object) -> object:
        if isinstance(part, tuple):
            return tuple(map(put, part))
        return next(children) if isinstance(part, _Content) else part

    made: Callable[..., Node] = type(node)
    return made(*map(put, node._parts()), node.column)


def replace_each(node: Node, exchanged: Mapping[Node, Node]) -> Node:
    """The formula with every node that equals a key replaced; replacements are not searched."""
    return rebuild(node, known={old.digest: new for old, new in exchanged.items()})


_BINDS = {"+": 1, "-": 1, "*": 2, "/": 2, "@": 2, "^": 4}
_NEGATIVE_BINDS = 3
_ATOM = 5


_LONGEST = 1000  # characters of a formula as text; nested ones would have no end


def show(node: Node) -> str:
    """The formula as text that parses back to it.

    A very long formula is shortened, with "…" for its longest parts.
    """
    waiting: list[Node] = [node]
    while waiting:
        part = waiting[-1]
        if part.shown is None and not isinstance(part, Partly):
            missing = [below for below in part.below if below.shown is None]
            if missing:
                waiting.extend(reversed(missing))
                continue
        waiting.pop()
        if part.shown is None:
            text, binds = _show(part)
            fits = len(text) <= 3 * _LONGEST
            object.__setattr__(part, "shown", (text, binds) if fits else ("…", _ATOM))
    return _shown(node)[0]


def _shown(node: Node) -> tuple[str, int]:
    assert node.shown is not None
    return node.shown


def _show(node: Node) -> tuple[str, int]:
    """The text of a node and its binding strength, from those of its children."""
    within = _LONGEST
    if not isinstance(node, Partly) and sum(len(_shown(part)[0]) for part in node.below) > within:
        within //= max(len(node.below), 4)

    def inside(part: Node, binds: int = 0) -> str:
        text, own = _shown(part)
        if len(text) > within:
            return "…"
        return f"({text})" if own < binds else text

    match node:
        case Numeral(value=value):
            return f"{value:g}" if value == float(f"{value:g}") else repr(value), _ATOM
        case Text(value=value):
            return f'"{value}"', _ATOM
        case Name(name=name) | Partly(name=name):
            return name, _ATOM
        case Negative(body=body):
            return f"-{inside(body, _NEGATIVE_BINDS)}", _NEGATIVE_BINDS
        case Binary(operator=operator, left=left, right=right):
            binds = _BINDS[operator]
            # ^ groups to the right, the others to the left.
            first, second = (binds + 1, binds) if operator == "^" else (binds, binds + 1)
            space = "" if operator == "^" else " "
            return f"{inside(left, first)}{space}{operator}{space}{inside(right, second)}", binds
        case FunctionCall(function=function, arguments=arguments, keywords=keywords):
            parts = [inside(part) for part in arguments]
            parts += [f"{key}={inside(value)}" for key, value in keywords]
            return f"{function}({', '.join(parts)})", _ATOM
        case Index(body=body, parts=indices):
            return f"{inside(body, _ATOM)}[{', '.join(map(_show_index, indices))}]", _ATOM
        case Listing(items=items):
            return f"[{', '.join(map(inside, items))}]", _ATOM
        case Known():
            return "…", _ATOM


def _show_index(part: int | Slice | None) -> str:
    if isinstance(part, Slice):
        start = "" if part.start is None else part.start
        return f"{start}:{'' if part.stop is None else part.stop}"
    return "new" if part is None else str(part)
