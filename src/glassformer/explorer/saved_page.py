"""A page in one file: the explorer, read-only, with the answers about one trace inside it.

The answers come from the functions behind the server's routes, computed in advance for every cell.
Each step is one compressed chunk, which the page unpacks when the step is first shown
(`web/src/lib/static.ts`). Steps that do not fit into `max_bytes` and `max_cells` are left out, and
the page says so.
"""

from __future__ import annotations

import base64
import html
import json
import re
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import fields
from functools import cache, partial
from itertools import islice, product
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel

from glassformer.documents import render
from glassformer.documents.heat_maps import unwritten_places
from glassformer.documents.renderer import words_in
from glassformer.documents.trace_data import Addresses, Cells, json_number
from glassformer.errors import TraceError, stop_if_cancelled
from glassformer.explorer import schemas
from glassformer.explorer.cell_cards import (
    card_info,
    cell_ref,
    dependents_of,
    meaning_info,
    path_of,
)
from glassformer.explorer.map_info import map_info, pruned_map
from glassformer.explorer.open_traces import OpenTrace
from glassformer.explorer.overview import describe
from glassformer.explorer.panels import equation, lossless, thumbnail
from glassformer.explorer.trace_edits import changes_of
from glassformer.language import LANGUAGES, Language
from glassformer.tracing import Cell, Step, Trace
from glassformer.tracing.arithmetic.expressions import Entry, Expression, Operation, Reduce
from glassformer.tracing.capture.memory import View, flat_place, index_of, lattice
from glassformer.tracing.cells import Region
from glassformer.tracing.formula import leaf_of
from glassformer.tracing.influence import Readers

MOST_BYTES = 8 << 20
"""What the numbers and the answers may take in the file, compressed and in base64."""
MOST_CELLS = 10_000
"""A card takes about two milliseconds, so all of them about 20 seconds."""
TEMPLATE = Path(__file__).parent / "static" / "saved.html"
_CELL_BYTES = 128
"""What a card takes at least, to decide before it is made."""
_ID = "saved"
_MOST_SLICES = 64
"""Slices of a step (heads) whose sentence is in the file."""
_WORDS = re.compile(r"\b(?:if|else|otherwise|others)\b")
"""English words in a card; a card without any reads the same in every language."""

Floats = npt.NDArray[np.float64]


def page_text(
    trace: Trace,
    *,
    steps: Sequence[str] | None = None,
    lang: str = "en",
    title: str | None = None,
    max_bytes: int = MOST_BYTES,
    max_cells: int = MOST_CELLS,
) -> str:
    """The page of a trace; with `steps`, of these and what they read."""
    words_in(lang)  # refuses a language that there is not
    chosen = None if steps is None else [trace[name] for name in steps]
    opened = OpenTrace(trace, "trace", "module")
    return page_of(
        opened, chosen, "zh" if lang == "zh" else "en", title, max_bytes=max_bytes,
        max_cells=max_cells,
    )  # fmt: skip


def page_of(
    opened: OpenTrace,
    chosen: Sequence[Step] | None = None,
    language: Language = "en",
    title: str | None = None,
    *,
    max_bytes: int = MOST_BYTES,
    max_cells: int = MOST_CELLS,
) -> str:
    """The page of an open trace, with its text and its answer."""
    data = Snapshot(opened, chosen, max_bytes, max_cells).data()
    return page_with({"title": title, **data}, language, title)


def page_with(data: dict[str, Any], language: Language, title: str | None = None) -> str:
    """The page around its data."""
    parts = {
        "lang": "zh-CN" if language == "zh" else "en",
        "language": language,
        "title": html.escape(title or words_in(language)["title"]),
        "data": _inert(data),
    }
    template = TEMPLATE.read_text(encoding="utf-8")
    return re.sub(r"@@(lang|language|title|data)@@", lambda mark: parts[mark[1]], template)


def _inert(data: dict[str, Any]) -> str:
    """JSON that cannot end the script element it stands in, nor open a comment there."""
    text = _json(data)
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _json(data: object) -> str:
    return json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _packed(content: bytes) -> str:
    return base64.b64encode(zlib.compress(content, 9)).decode("ascii")


class Snapshot:
    """What goes into the file, and what is left out of it."""

    def __init__(
        self,
        opened: OpenTrace,
        chosen: Sequence[Step] | None,
        max_bytes: int,
        max_cells: int,
        id: str = _ID,  # noqa: A002 - the API's name
        first: Iterable[int] = (),
    ) -> None:
        """`first`: the steps whose cards are made before those of others, as far as they fit."""
        self._opened = opened
        self._id = id
        self._urgent = frozenset(first)
        self._addresses = Addresses()
        self._bytes = max_bytes
        self._cells = max_cells
        self._chosen = {step.number for step in opened.steps if chosen is None or step in chosen}
        self._wanted = self._chosen.union(
            *(self._addresses.read_by(opened.steps[number]) for number in self._chosen)
        )
        self._first = describe(opened).first if not chosen else chosen[-1].number
        self._flat: dict[int, Floats] = {}
        """The numbers of the steps that have theirs in the file."""
        self._followed: dict[Cell, Cell | None] = {}
        """The largest contribution to each cell on a path, found once."""
        self._values: dict[int, dict[str, Any]] = {}
        self._left: dict[str, Any] = {"steps": len(opened.steps) - len(self._wanted)}

    def data(self) -> dict[str, Any]:
        """All of it."""
        steps = [step for step in self._opened.steps if step.number in self._wanted]
        self._add_values(steps)
        chunks = self._chunks(steps)
        info = self._info()
        naming = self._opened.trace.naming
        opened = {
            "trace": info.model_dump(mode="json"),
            "symbols": [str(naming.symbol(step)) for step in self._opened.steps],
            "thumbnails": [
                thumbnail(step, info.steps[step.number].scale).model_dump() for step in steps
            ],
            "changes": changes_of(self._opened).model_dump(mode="json"),
            "map": pruned_map(map_info(self._opened), self._wanted).model_dump(mode="json"),
        }
        return {
            "left": self._left,
            "trace": _packed(_json(opened).encode()),
            "values": self._values,
            "steps": chunks,
        }

    def _info(self) -> schemas.TraceInfo:
        """The description, as if there were only the steps that are in the file."""
        told, wanted = describe(self._opened), self._wanted

        def kept(numbers: Iterable[int]) -> list[int]:
            return [number for number in numbers if number in wanted]

        def pruned(branch: schemas.BranchInfo) -> schemas.BranchInfo:
            inner = [pruned(below) for below in branch.branches]
            kept_parts = {
                "steps": kept(branch.steps),
                "parameters": kept(branch.parameters),
                "branches": [b for b in inner if b.steps or b.parameters or b.branches],
            }
            return branch.model_copy(update=kept_parts)

        return told.model_copy(
            update={
                "id": self._id,
                "root": self._id,
                "parent": None,
                "first": self._first,
                "tree": pruned(told.tree),
                "outputs": kept(told.outputs),
                "inputs": kept(told.inputs),
                "attention": [layer for layer in told.attention if layer.weights in wanted],
                "steps": [
                    step.model_copy(
                        update={
                            "readers": kept(step.readers),
                            "is_main": step.is_main and step.number in wanted,
                        }
                    )
                    for step in told.steps
                ],
            }
        )

    def _add_values(self, steps: list[Step]) -> None:
        """The numbers of the steps that fit: computed ones first, then small before large."""
        left: list[Step] = []
        for step in sorted(steps, key=lambda step: (step.role == "parameter", step.view.numel)):
            stop_if_cancelled()
            if step.is_view:
                continue  # its cells are those of other steps
            flat = step.view.array.reshape(-1)
            with np.errstate(invalid="ignore"):  # a float16 never written may be a signalling NaN
                numbers = np.ascontiguousarray(flat, dtype=lossless(flat))
                exact = numbers.astype(np.float64)
            # Random numbers hardly shrink: what is far too large is not even tried.
            data = _packed(numbers.tobytes()) if numbers.nbytes < 2 * self._bytes else None
            if data is None or len(data) > self._bytes:
                left.append(step)
                continue
            self._bytes -= len(data)
            dtype = "float32" if numbers.itemsize == 4 else "float64"
            self._values[step.number] = {"dtype": dtype, "data": data}
            if holes := unwritten_places(step):
                self._values[step.number]["unwritten"] = holes
            self._flat[step.number] = exact
        self._left["values"] = [step.name for step in left]
        self._left["numbers"] = sum(step.view.numel for step in left)

    def _chunks(self, steps: list[Step]) -> dict[int, str]:
        """What is known about each step; cards first of the small steps, as far as they fit."""
        chunks: dict[int, str] = {}
        missing: list[Step] = []
        equations = {step.number: self._equations(step) for step in steps}
        given = [step for step in steps if self._is_given(step)]
        others = [step for step in steps if not self._is_given(step)]
        others.sort(key=lambda step: (step.number not in self._urgent, step.view.numel))
        for step in [*others, *given]:
            writer = _StepWriter(self._opened, step, self._flat, self._addresses)
            answers: dict[str, Any] = {
                "equations": equations[step.number],
                "operands": [self._cells_of(operand.view) for operand in step.operands],
                "shows": self._cells_of(step.view) if step.is_view else None,
                "cards": writer.given() if self._is_given(step) else None,
                "dependents": None,
                "paths": None,
                "reads": [],
                "symbols": writer.symbols,
                "names": writer.own_names(),
                "meanings": self._meanings(step),
                "cell_meanings": None,
            }
            if step.number in self._chosen and not step.is_view:
                made = self._with_cells(step, answers, writer)
                if made is not None:
                    chunks[step.number] = made
                    continue
                if answers["cards"] is None:
                    missing.append(step)
            chunks[step.number] = _packed(_json(answers).encode())
            self._bytes -= len(chunks[step.number])
        self._left["cells"] = sum(step.view.numel for step in missing)
        self._left["cell_steps"] = len(missing)
        return chunks

    def _is_given(self, step: Step) -> bool:
        """Whether one card serves all its numbers: none computed, set by an edit, or renamed."""
        edited = any(edit.step == step.name for edit in self._opened.edits)
        has_parts = step.trace.naming.has_parts(step)
        return step.role != "activation" and not (step.is_view or edited or has_parts)

    def _with_cells(self, step: Step, answers: dict[str, Any], writer: _StepWriter) -> str | None:
        """The chunk with the answers about each cell, if it fits."""
        count = step.view.numel
        if count > self._cells or count * _CELL_BYTES > self._bytes:
            return None
        followed = None if self._is_given(step) else self._followed
        chunk = _packed(_json(answers | writer.cells(followed)).encode())
        if len(chunk) > self._bytes:
            return None
        self._cells -= count
        self._bytes -= len(chunk)
        return chunk

    def _equations(self, step: Step) -> list[dict[str, Any] | None]:
        """Of each slice; without the operands where these are not in the file."""
        info = describe(self._opened)
        whole = all(number in self._wanted for number in self._addresses.read_by(step))
        found: list[dict[str, Any] | None] = []
        for lead in product(*map(range, step.shape[:-2])):
            stop_if_cancelled()
            if found and self._cells <= 0:
                found.append(None)
                continue
            self._cells -= bool(found)
            made: schemas.Equation = equation(info, step, lead)
            if not whole:
                made = made.model_copy(update={"parts": made.parts[-1:]})
            found.append(made.model_dump(mode="json"))
        return found

    def _meanings(self, step: Step) -> dict[str, Any]:
        """What the step is for, in both languages: of its first slice, and of others as it fits."""
        told: dict[str, Any] = {}
        for language in LANGUAGES.values():
            first = meaning_info(step, language).model_dump(mode="json")
            told |= {"lesson": first["lesson"], "paper": first["paper"]}
            told[language] = [first["text"]]
            for lead in islice(product(*map(range, step.shape[:-2])), 1, _MOST_SLICES):
                told[language].append(meaning_info(step, language, lead).text)
        return told

    def _cells_of(self, view: View) -> dict[str, Any]:
        return _cells_data(self._addresses.along(view, (None,) * view.ndim))


class _StepWriter:
    """The answers about the cells of one step, with cells as references."""

    def __init__(
        self, opened: OpenTrace, step: Step, flat: dict[int, Floats], addresses: Addresses
    ) -> None:
        self._opened = opened
        self._step = step
        self._flat = flat
        self._addresses = addresses
        self._reads: set[int] = set()
        self._sight = step.trace.naming.sight(step)
        self._link = cache(partial(cell_ref, sight=self._sight))
        self._links: dict[int, tuple[schemas.CellRef, Any]] = {}
        """References by the identity of their link: the cards of a step share most of theirs."""
        self._names: dict[int, list[str]] = {}
        self.symbols: dict[int, str] = {}
        """What steps are called in the formulas of this one, where it is not the usual symbol."""
        self._symbol(step)

    def given(self) -> dict[str, Any] | None:
        """The card that all numbers of a step share which were not computed.

        The page fills in what follows from the number itself: `exact`, `recomputed`, the index.
        """
        if not self._step.view.numel:
            return None
        last = self._cell(self._step.view.numel - 1)
        shared = self._fields(card_info(self._opened, last, link=self._link), last)
        if places := _written(last):
            before, _, after = shared["tex"].rpartition(",".join(places))
            shared["tex"] = [before, after]
        for field in ("exact", "recomputed"):
            del shared[field]
        return {"shared": shared, "each": {}, "zh": {}}

    def cells(self, followed: dict[Cell, Cell | None] | None) -> dict[str, Any]:
        """For each cell what was made from it; of computed ones also card and path.

        `followed`: the contributions that paths of other steps have found; None without cards.
        """
        readers, link = Readers(self._step), cache(cell_ref)
        meanings: dict[Language, list[str]] = {language: [] for language in LANGUAGES.values()}
        dependents: list[Any] = []
        paths: list[Any] = []
        cards: list[dict[str, Any]] = []
        chinese: dict[str, dict[int, Any]] = {}
        for place in range(self._step.view.numel):
            stop_if_cancelled()
            cell = self._cell(place)
            dependents.append(self._data(dependents_of(cell, readers, link)))
            for language, texts in meanings.items():
                texts.append(meaning_info(cell, language).text)
            if followed is None:
                continue
            card = card_info(self._opened, cell, link=self._link)
            cards.append(self._fields(card, cell))
            paths.append(self._data(path_of(cell, followed, link)))
            if _has_words(card):
                said = self._fields(card_info(self._opened, cell, "zh", self._link), cell)
                for field, value in said.items():
                    if value != cards[-1][field]:
                        chinese.setdefault(field, {})[place] = value
        told: dict[str, Any] = {
            "dependents": dependents,
            "reads": sorted(self._reads),
            "cell_meanings": meanings,
        }
        if followed is not None:
            told |= {"cards": _by_field(cards) | {"zh": chinese}, "paths": paths}
        return told

    def own_names(self) -> list[str] | None:
        """The names of its cells, where they are those of its parts."""
        has_parts = self._step.trace.naming.has_parts(self._step)
        return self._names_in(self._step) if has_parts else None

    def _names_in(self, step: Step) -> list[str]:
        if step.number not in self._names:
            cells = (Cell(step, index_of(at, step.shape)) for at in range(step.view.numel))
            self._names[step.number] = [str(leaf_of(cell, self._sight)) for cell in cells]
        return self._names[step.number]

    def _expected_name(self, cell: Cell) -> str:
        """What the page calls a cell by itself: the step's symbol, the places on its axes."""
        symbol, places = self._symbol(cell.step), ", ".join(_written(cell))
        return f"{symbol}[{places}]" if places else symbol

    def _symbol(self, step: Step) -> str:
        symbol = str(self._sight.symbol(step))
        if symbol != str(step.trace.naming.symbol(step)):
            self.symbols[step.number] = symbol
        return symbol

    def _cell(self, place: int) -> Cell:
        return Cell(self._step, index_of(place, self._step.shape))

    def _fields(self, card: schemas.CardInfo, cell: Cell) -> dict[str, Any]:
        told = {field: self._data(value) for field, value in card if field not in ("cell", "sum")}
        told["sum"] = None if card.sum is None else self._sum(card.sum, cell)
        return told

    def _data(self, answer: object) -> Any:
        """An answer as JSON has it; a cell as its step and place, with its value if need be."""
        if isinstance(answer, schemas.CellRef):
            if id(answer) not in self._links:
                self._links[id(answer)] = answer, self._reference(answer)
            return self._links[id(answer)][1]
        if isinstance(answer, BaseModel):
            return {field: self._data(value) for field, value in answer}
        if isinstance(answer, Region):
            return {field.name: self._data(getattr(answer, field.name)) for field in fields(answer)}
        if isinstance(answer, float):
            return json_number(answer)
        if isinstance(answer, list | tuple):
            return [self._data(part) for part in answer]
        return answer

    def _reference(self, link: schemas.CellRef) -> dict[str, Any]:
        step = self._opened.steps[link.step]
        place = flat_place(tuple(link.index), step.shape)
        self._reads.add(link.step)
        told: list[Any] = [link.step, place]
        is_named = link.name == self._expected_name(Cell(step, tuple(link.index)))
        if link.step not in self._flat or not is_named:
            told.append(None if link.step in self._flat else json_number(link.value))
        return {"$": told if is_named else [*told, link.name]}

    def _sum(self, told: schemas.SumInfo, cell: Cell) -> dict[str, Any]:
        """A sum; the factors of a dot product as the cells they are, where they are cells."""
        answers: dict[str, Any] = {
            field: self._data(value)
            for field, value in told
            if field not in ("factors", "products")
        }
        rows = [np.array(row, dtype=np.float64) for row in told.factors]
        products = np.array(told.products, dtype=np.float64)
        with np.errstate(all="ignore"):
            follow = len(rows) == 2 and np.array_equal(rows[0] * rows[1], products, equal_nan=True)
        terms = cell.terms.values
        first = len(rows) == 2 and np.array_equal(terms[: len(products)], products, equal_nan=True)
        entries = _dot_product(cell.expression) if rows else None
        answers["factors"] = [
            self._row(row, None if entries is None else entries[side])
            for side, row in enumerate(rows)
        ]
        answers["products"] = None if follow else self._data(told.products)
        answers["after"] = [json_number(x) for x in terms[len(products) :]] if first else None
        return answers

    def _row(self, row: Floats, entry: Entry | None) -> Any:
        if entry is not None:
            cells = self._addresses.of(entry)
            if cells.step is not None and cells.step in self._flat:
                places = lattice(cells.base, cells.sizes, cells.strides).reshape(-1)
                if np.array_equal(self._flat[cells.step][places], row, equal_nan=True):
                    return _cells_data(cells) | self._row_names(
                        self._opened.steps[cells.step], places
                    )
        return [json_number(number) for number in row]

    def _row_names(self, step: Step, places: npt.NDArray[np.int64]) -> dict[str, Any]:
        """The names of some cells of a step, where they are those of its parts."""
        if not step.trace.naming.has_parts(step):
            self._symbol(step)
            return {}
        names = self._names_in(step)
        return {"names": [names[place] for place in places.tolist()]}


def _written(cell: Cell) -> list[str]:
    """The places of a cell that its name has: an axis of size 1 is never written."""
    sizes = zip(cell.index, cell.step.shape, strict=True)
    return [str(place) for place, size in sizes if size != 1]


def _has_words(card: schemas.CardInfo) -> bool:
    texts: list[str] = [card.formula, card.tex, card.numbers]
    for part in card.definitions:
        texts += [part.symbols, part.numbers]
    for term in card.sum.shown if card.sum is not None else ():
        texts += [term.symbols, term.numbers]
    return any(map(_WORDS.search, texts))


def _dot_product(expression: Expression | None) -> tuple[Entry, Entry] | None:
    """The two rows of cells that a dot product multiplies."""
    match expression:
        case Operation(operator="+", left=left, right=right):
            return _dot_product(left) or _dot_product(right)
        case Reduce(
            kind="sum", body=Operation(operator="*", left=Entry() as a, right=Entry() as b)
        ):
            return a, b
    return None


def _cells_data(cells: Cells) -> dict[str, Any]:
    if cells.step is None:
        return {"pairs": [part for pair in cells.pairs for part in pair]}
    return {
        "step": cells.step,
        "base": cells.base,
        "sizes": list(cells.sizes),
        "strides": list(cells.strides),
    }


def _by_field(cards: list[dict[str, Any]]) -> dict[str, Any]:
    """Cards field by field: what all of them share once, the rest as columns."""
    shared: dict[str, Any] = {}
    each: dict[str, list[Any]] = {}
    for field, value in (cards[0] if cards else {}).items():
        column = [card[field] for card in cards]
        if field != "exact" and all(other == value for other in column):
            shared[field] = value
        else:
            each[field] = column
    return {"shared": shared, "each": each}


# --- exports ---
# What is on the screen as a file: the page itself, or what the trace's renderers make.


MEDIA_TYPES = {
    "md": "text/markdown; charset=utf-8",
    "tex": "application/x-tex; charset=utf-8",
    "html": "text/html; charset=utf-8",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    "json": "application/json",
}
MOST_BYTES_EXPORTS = 256 * 1024**2


def export_file(opened: OpenTrace, wanted: schemas.ExportRequest) -> bytes:
    """The file's content."""
    steps = [opened.step(number) for number in dict.fromkeys(wanted.steps)]
    if wanted.format == "html":
        return page_of(opened, steps or None, wanted.language).encode()
    options: dict[str, Any] = {"max_bytes": MOST_BYTES_EXPORTS} if wanted.format == "json" else {}
    made = render(steps or opened.trace, to=wanted.format, lang=wanted.language, **options)
    if not isinstance(made, str | bytes):
        raise TraceError("there is no {format} file of this", format=wanted.format)
    return made.encode() if isinstance(made, str) else made


def file_name(opened: OpenTrace, wanted: schemas.ExportRequest) -> str:
    """A plain name: letters of the model and of a single step."""
    parts = [opened.model]
    if len(wanted.steps) == 1:
        parts.append(opened.step(wanted.steps[0]).name)
    plain = re.sub(r"[^A-Za-z0-9.-]+", "-", "-".join(parts)).strip("-.")[:80]
    return f"{plain or 'trace'}.{wanted.format}"
