"""What a slip is: a name in two languages, and a rewriting of the formula that commits it.

A slip is found by committing it: the formula is rewritten the way the mistake would have it,
computed, and compared with the printed digits. To add one, write a rule, as two formulas with
`rewriting` or as a function that yields rewritten parts, and put it into a `Slip`;
`audit(example, slips=(*CATALOGUE, mine))` tries it wherever it applies.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from string import Formatter

import numpy as np

from glassformer.audit.example import PrintedDigits, PrintedStep
from glassformer.audit.formulas import FormulaError, parse
from glassformer.audit.formulas.bounds import Array, BoundedNumbers, Value, WordList
from glassformer.audit.formulas.terms import (
    Binary,
    FunctionCall,
    Listing,
    Name,
    Node,
    Numeral,
    Partly,
    replace_each,
    show,
    walk,
)
from glassformer.language import Bilingual, Language, words

say = words("glassformer.audit.audit")


SIZES = ("rows", "columns", "count")
"""Which matrix is asked for its size makes no difference."""
_LARGEST_SIZE = 100_000


def _close_up(zh: str) -> str:
    """Chinese sets no space before or after quotation marks."""
    return re.sub(r"(?<=[\u3001-\uff1b]) (?=“)|(?<=”) (?=[\u3001-\uff1b])", "", zh)


@dataclass(frozen=True)
class Change:
    """A rewritten formula, and what was done to it."""

    tree: Node
    detail: Bilingual


@dataclass(frozen=True, eq=False)
class Scene:
    """What a slip may use: the step, what is printed, and what else is on the page."""

    step: PrintedStep
    right: Value
    printed: PrintedDigits | WordList
    others: dict[str, Value]
    evaluate: Callable[[Node], Value]
    called: Mapping[str, Bilingual] = field(default_factory=dict)
    _said: dict[Node, Bilingual] = field(default_factory=dict, init=False, repr=False)

    def say(self, node: Node) -> Bilingual:
        """A part of the formula, written for a reader who has the article, not the example file.

        Steps appear by title and sizes as numbers: `sqrt(columns(key))` becomes √4.
        """
        if node not in self._said:
            self._said[node] = Bilingual(
                show(self._readable(node, "en")), show(self._readable(node, "zh"))
            )
        return self._said[node]

    def tell(self, template: str | Bilingual, **parts: Node | str | int) -> Bilingual:
        """A sentence in both languages, with parts of the formula in its placeholders."""
        template = say[template] if isinstance(template, str) else template
        said = {
            name: self.say(part) if isinstance(part, Node) else part for name, part in parts.items()
        }
        told = template.format(**said)
        return Bilingual(told.en, _close_up(told.zh))

    def _readable(self, node: Node, language: Language) -> Node:
        def called(id_: str) -> str:
            return self.called[id_].say(language) if id_ in self.called else id_

        plain: dict[Node, Node] = {}
        for part in walk(node, lambda inside: not isinstance(inside, Partly)):
            match part:
                case Name(name=name) | Partly(name=name):
                    plain[part] = Name(called(name))
                case FunctionCall(
                    function="transpose", arguments=(Name(name=name) | Partly(name=name),)
                ):
                    plain[part] = Name(f"{called(name)}ᵀ")
                case FunctionCall(function="sqrt" | "range" as function, arguments=(inside,)):
                    size = self._size(inside)
                    if size is None:
                        continue
                    plain[part] = Name(f"√{size:g}" if function == "sqrt" else f"0…{size - 1:g}")
                case _:
                    size = self._size(part)
                    if size is not None:
                        plain[part] = Numeral(size)
        return replace_each(node, plain)

    def _size(self, node: Node) -> float | None:
        """A literal number, or what stands for one, such as a count of rows."""
        if isinstance(node, Numeral):
            return node.value
        counts = isinstance(node, FunctionCall) and node.function in SIZES
        size = self.numbers(node) if counts or isinstance(node, Name | Partly) else None
        return None if size is None or size.ndim else float(size)

    def numbers(self, node: Node) -> Array | None:
        """The value of a part of the formula, if it has one and is numeric."""
        try:
            value = self.evaluate(node)
        except FormulaError:
            return None
        return value.mid if isinstance(value, BoundedNumbers) else None

    @property
    def compared(self) -> tuple[BoundedNumbers, PrintedDigits] | None:
        """The right numbers and the printed ones, where they have one shape."""
        right, digits = self.right, self.printed
        if not isinstance(right, BoundedNumbers) or not isinstance(digits, PrintedDigits):
            return None
        return (right, digits) if right.shape == digits.values.shape else None

    def alike(self, shape: tuple[int, ...]) -> dict[str, BoundedNumbers]:
        """The other vectors and matrices on the page that have a shape."""
        return {
            name: value
            for name, value in self.others.items()
            if isinstance(value, BoundedNumbers) and value.shape == shape and shape
        }

    def sizes(self) -> list[int]:
        """The row and column counts of everything on the page, and whole numbers given as sizes."""
        found: set[int] = set()
        for value in self.others.values():
            if isinstance(value, BoundedNumbers):
                found.update(value.shape)
                if not value.shape and 1 < value.mid < _LARGEST_SIZE and value.mid % 1 == 0:
                    found.add(int(value.mid))
        return sorted(found)

    @property
    def decimals(self) -> int:
        """The largest number of decimals that the step shows."""
        return int(np.max(self.printed.decimals)) if isinstance(self.printed, PrintedDigits) else 0


@dataclass(frozen=True)
class Slip:
    """A common mistake. `kind` names it for programs, `name` for readers.

    `doubt` is by how many nats a fit must outweigh chance: less for a slip that nearly every author
    makes and that may show in a single digit only.
    """

    kind: str
    name: Bilingual
    rewrite: Callable[[Node, Scene], Iterator[Change]]
    doubt: float = 1.5


Part = tuple[Node, Bilingual]
SlipRule = Callable[[Node, Scene], Iterator[Part]]


def anywhere(
    rule: SlipRule, *, not_below: tuple[str, ...] = ()
) -> Callable[[Node, Scene], Iterator[Change]]:
    """A rule for one node, tried on every part of the formula; equal parts change together.

    `not_below` lists functions whose arguments are left alone.
    """

    def rewrite(tree: Node, scene: Scene) -> Iterator[Change]:
        for node in _parts(tree, not_below):
            for new, detail in rule(node, scene):
                yield Change(replace_each(tree, {node: new}), detail)

    return rewrite


def rewriting(before: str, after: str, detail: str | Bilingual, **fields: str) -> SlipRule:
    """A rule given as two formulas: `rewriting("softmax(x)", "proportion(x)", …)`.

    Names stand for any part, the same name for equal parts. A step that is not printed in full is
    matched by its formula. A call of a single name in `after` keeps the keywords of the call that
    it replaces. `detail` may name the parts, `{new}` and `{old}`; a string is a key of audit.toml.
    """
    pattern, made = parse(before), parse(after)
    said = say[detail] if isinstance(detail, str) else detail
    wanted = {name for _, name, _, _ in Formatter().parse(said.en) if name} - fields.keys()

    def rule(node: Node, scene: Scene) -> Iterator[Part]:
        parts = _match(pattern, node)
        if parts is not None:
            new = _filled(made, parts, node)
            known = {**parts, "new": new, "old": node}
            yield new, scene.tell(said, **fields, **{name: known[name] for name in wanted})

    return rule


def _match(pattern: Node, node: Node) -> dict[str, Node] | None:
    found: dict[str, Node] = {}
    pairs = [(pattern, node)]
    for wanted, part in pairs:  # grows
        if isinstance(wanted, Name):
            if found.setdefault(wanted.name, part) != part:
                return None
            continue
        if isinstance(part, Partly) and wanted is not pattern:
            part = part.body
        match wanted, part:
            case Binary(operator=one), Binary(operator=other) if one == other:
                pairs += zip(wanted.below, part.below, strict=True)
            case FunctionCall(), FunctionCall() if (wanted.function, len(wanted.arguments)) == (
                part.function, len(part.arguments),
            ):  # fmt: skip
                pairs += zip(wanted.arguments, part.arguments, strict=True)
            case _:
                return None
    return found


def _filled(made: Node, parts: Mapping[str, Node], old: Node) -> Node:
    keywords = dict(old.keywords) if isinstance(old, FunctionCall) else {}

    def put(node: Node) -> Node:
        match node:
            case Name(name=name):
                return parts[name]
            case FunctionCall(function=function, arguments=(Name(name=name),), keywords=own):
                kept = {**keywords, **dict(own)}
                return FunctionCall(function, (parts[name],), tuple(kept.items()))
        return node

    exchanged = {part: new for part in walk(made) if (new := put(part)) is not part}
    return replace_each(made, exchanged)


def either(*rules: SlipRule) -> SlipRule:
    """All that any of the rules yields."""

    def rule(node: Node, scene: Scene) -> Iterator[Part]:
        for one in rules:
            yield from one(node, scene)

    return rule


def take_rows(tree: Node, rows: list[int]) -> Node:
    """Selected rows of a formula's value, in this order."""
    return FunctionCall("embedding", (Listing(tuple(Numeral(float(row)) for row in rows)), tree))


def _parts(tree: Node, not_below: tuple[str, ...]) -> Iterator[Node]:
    return walk(
        tree, lambda node: not (isinstance(node, FunctionCall) and node.function in not_below)
    )
