"""What a slip is: a name in two languages, and a rewriting of the formula that commits it.

A slip is found by committing it: the formula is rewritten as the mistake would have it, computed,
and held against the printed digits. To add one, write a rule that yields rewritten parts and put it
into a `Slip`; `audit(example, slips=(*CATALOGUE, mine))` tries it wherever it can apply.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from glassformer.audit.example import Digits, Step
from glassformer.audit.formulas import FormulaError
from glassformer.audit.formulas.bounds import Array, Numbers, Value, Words
from glassformer.audit.formulas.terms import (
    Call,
    Listing,
    Name,
    Node,
    Number,
    Partly,
    replace_all,
    replace_each,
    show,
    walk,
)
from glassformer.language import Bilingual, Language, words

say = words("glassformer.audit.audit")


_SIZES = ("rows", "columns", "count")
_LARGEST_SIZE = 100_000


def _close_up(zh: str) -> str:
    """Chinese sets no space between its words and quotation marks."""
    return re.sub(r"(?<=[\u3001-\uff1b]) (?=“)|(?<=”) (?=[\u3001-\uff1b])", "", zh)


def _short(title: str) -> str:
    """A title without what is added to it: a sentence has no room for more."""
    title = re.split("[,;，；]", title)[0]
    return re.split("[:：]", title)[0] if len(title) > 30 else title


@dataclass(frozen=True)
class Change:
    """A rewritten formula, and what was done to it."""

    tree: Node
    detail: Bilingual


@dataclass(frozen=True, eq=False)
class Scene:
    """What a slip may look at: the step, what is printed, and what else is on the page."""

    step: Step
    right: Value
    printed: Digits | Words
    others: dict[str, Value]
    evaluate: Callable[[Node], Value]
    titles: Mapping[str, Bilingual] = field(default_factory=dict)
    _said: dict[Node, Bilingual] = field(default_factory=dict, init=False, repr=False)

    def say(self, node: Node) -> Bilingual:
        """A part of the formula for a reader who has the article but not the example file.

        Steps go by their titles, sizes by their numbers: `sqrt(columns(key))` is √4.
        """
        if node not in self._said:
            self._said[node] = Bilingual(
                show(self._readable(node, "en")), show(self._readable(node, "zh"))
            )
        return self._said[node]

    def tell(self, template: str, **parts: Node | str | int) -> Bilingual:
        """A sentence in both languages, with parts of the formula in its {places}."""
        said = {
            name: self.say(part) if isinstance(part, Node) else part for name, part in parts.items()
        }
        told = say.both(template, **said)
        return Bilingual(told.en, _close_up(told.zh))

    def title(self, id_: str, language: Language) -> str:
        """What a reader calls a step: its title in quotes, or its name where it has no title."""
        title = self.titles.get(id_)
        return id_ if title is None or title.en == id_ else f"“{_short(title.say(language))}”"

    def _readable(self, node: Node, language: Language) -> Node:
        plain: dict[Node, Node] = {}
        for part in walk(node, lambda inside: not isinstance(inside, Partly)):
            match part:
                case Name(name=name) | Partly(name=name):
                    plain[part] = Name(self.title(name, language))
                case Call(function="transpose", arguments=(Name(name=name) | Partly(name=name),)):
                    plain[part] = Name(f"{self.title(name, language)}ᵀ")
                case Call(function="sqrt" | "range" as function, arguments=(inside,)):
                    size = self._size(inside)
                    if size is None:
                        continue
                    plain[part] = Name(f"√{size:g}" if function == "sqrt" else f"range({size:g})")
                case _:
                    size = self._size(part)
                    if size is not None:
                        plain[part] = Number(size)
        return replace_each(node, plain)

    def _size(self, node: Node) -> float | None:
        """A number that is written, or that stands for one, such as a count of rows."""
        if isinstance(node, Number):
            return node.value
        counts = isinstance(node, Call) and node.function in _SIZES
        size = self.numbers(node) if counts or isinstance(node, Name | Partly) else None
        return None if size is None or size.ndim else float(size)

    def numbers(self, node: Node) -> Array | None:
        """The value of a part of the formula, if it has one and it consists of numbers."""
        try:
            value = self.evaluate(node)
        except FormulaError:
            return None
        return value.mid if isinstance(value, Numbers) else None

    def sizes(self) -> list[int]:
        """The numbers of rows and columns of everything on the page, and what is given as such."""
        found: set[int] = set()
        for value in self.others.values():
            if isinstance(value, Numbers):
                found.update(value.shape)
                if not value.shape and 1 < value.mid < _LARGEST_SIZE and value.mid % 1 == 0:
                    found.add(int(value.mid))
        return sorted(found)

    @property
    def decimals(self) -> int:
        """The most decimals that the step shows."""
        return int(np.max(self.printed.decimals)) if isinstance(self.printed, Digits) else 0


@dataclass(frozen=True)
class Slip:
    """A usual mistake. `kind` names it for programs, `name` for readers.

    `doubt` is how many nats a fit must outweigh chance by: less for a slip that nearly every author
    makes, in which a single digit may be all there is to see.
    """

    kind: str
    name: Bilingual
    rewrite: Callable[[Node, Scene], Iterator[Change]]
    doubt: float = 1.5


Part = tuple[Node, Bilingual]
Rule = Callable[[Node, Scene], Iterator[Part]]


def anywhere(
    rule: Rule, *, not_below: tuple[str, ...] = ()
) -> Callable[[Node, Scene], Iterator[Change]]:
    """A rule for one node, tried on every part of the formula; equal parts change together.

    `not_below` names functions whose arguments are left alone.
    """

    def rewrite(tree: Node, scene: Scene) -> Iterator[Change]:
        for node in _parts(tree, not_below):
            for new, detail in rule(node, scene):
                yield Change(replace_all(tree, node, new), detail)

    return rewrite


def take_rows(tree: Node, rows: list[int]) -> Node:
    """Some rows of a formula's value, in some order."""
    return Call("embedding", (Listing(tuple(Number(float(row)) for row in rows)), tree))


def _parts(tree: Node, not_below: tuple[str, ...]) -> Iterator[Node]:
    return walk(tree, lambda node: not (isinstance(node, Call) and node.function in not_below))
