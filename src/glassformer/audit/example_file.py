"""Example files: JSON → `Example`, or a one-line error that names file, step and remedy."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from glassformer.audit.example import Example, PrintedDigits, PrintedStep, Quotation
from glassformer.audit.formulas import (
    BoundedNumbers,
    FormulaError,
    Value,
    WordList,
    names_of,
    parse,
)
from glassformer.audit.formulas.bounds import (
    MOST_CHARACTERS,
    MOST_NUMBERS,
    Array,
    check_size,
    shape_of,
)
from glassformer.audit.formulas.evaluator import FormulaEvaluator, Work, WorkSpentError
from glassformer.audit.formulas.formula_functions import function_of, written_out
from glassformer.audit.formulas.terms import FunctionCall, Node, walk
from glassformer.audit.quotation import Notation
from glassformer.errors import ConfigError, Fragment, UnknownNameError, did_you_mean, expect
from glassformer.files import parse_object, read_bytes
from glassformer.language import Bilingual

STEP_KEYS = {
    "id", "title", "formula", "inputs", "printed", "words", "decimals", "significant", "rounded",
    "shape", "rows", "columns", "unchecked", "order", "case", "approximate", "between", "produces",
    "as_printed", "indices", "code", "result", "whole",
}  # fmt: skip
_EXAMPLE_KEYS = {"title", "note", "case", "steps"}
# An example may come from anyone, so its size is limited before anything is built from it.
MOST_BYTES = 5_000_000
_MOST_STEPS = 1000
_MOST_FORMULAS = 200_000  # characters of all formulas together
_MOST_LETTERS = 100  # of a step's name
_MOST_SHOWN = 100  # characters of a value that an error repeats


def example_names() -> list[str]:
    """The names of the shipped examples."""
    folder = resources.files("glassformer.audit") / "examples"
    names = [entry.name.removesuffix(".json") for entry in folder.iterdir()]
    return sorted(name for name in names if not name.startswith((".", "_")))


def load_example(name_or_file: str | Path) -> Example:
    """A shipped example by name, or a file."""
    expect(name_or_file, (str, Path), "the name or the file of an example")
    given, path = str(name_or_file), Path(name_or_file)
    if given in example_names():
        return replace(read_example(_shipped(given), given, given), shipped=True)
    if not given or (not path.suffix and len(path.parts) == 1 and not _exists(path)):
        raise UnknownNameError("example", given, example_names())
    return _read(read_bytes(path, error=ConfigError, most=MOST_BYTES), path.stem, str(path))


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # a name that is too long
        return False


def example_of_bytes(raw: bytes, name: str) -> Example:
    """An example from the bytes of a file called `name`, which need not exist here."""
    if len(raw) > MOST_BYTES:
        raise ConfigError(
            "{path} is larger than {most:,} bytes, the limit for such a file",
            path=name,
            most=MOST_BYTES,
        )
    return _read(raw, name.removesuffix(".json") or "example", name)


def read_example(text: str, name: str, source: str) -> Example:
    """An example from its JSON text; `source` is its name in error messages."""
    expect(text, str, "the text of an example in JSON")
    return _read(text.encode("utf-8", "surrogatepass"), name, source)


def _shipped(name: str) -> str:
    file = resources.files("glassformer.audit") / "examples" / f"{name}.json"
    return file.read_text(encoding="utf-8")


@contextmanager
def _located(where: str) -> Iterator[None]:
    """Put the place in front of error messages."""
    try:
        yield
    except (ConfigError, UnknownNameError) as error:
        raise ConfigError("{where}: {error}", where=where, error=error) from error


def _in_step(name: str) -> AbstractContextManager[None]:
    return _located(Fragment.of("step {name!r}", name=name))


def _shown(value: Any) -> str:
    """A value of a file as error messages repeat it."""
    text = repr(value)
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}…"


def _read(raw: bytes, name: str, source: str) -> Example:
    data = parse_object(raw, source, error=ConfigError, what="a worked example")
    with _located(source):
        try:
            json.dumps(data, ensure_ascii=False).encode()
        except UnicodeEncodeError as error:
            raise ConfigError(
                "expected Unicode, got half a character, {half!r}", half=error.object[error.start]
            ) from error
        _check_keys(data, _EXAMPLE_KEYS)
        title = _bilingual(data.get("title", name), "title")
        raw_steps = _expand(data.get("steps"))
        _check_sizes(raw_steps)
        work = Work()
        steps = tuple(_step(part, data, i + 1, work) for i, part in enumerate(raw_steps))
        example = Example(name, title, steps, source)
        _check_names(example)
        _ = example.in_order  # refuses a step that leads back to itself
        return example


def _check_sizes(steps: list[Any]) -> None:
    if not steps:
        raise ConfigError("expected a list of steps under 'steps'")
    if len(steps) > _MOST_STEPS:
        raise ConfigError("expected at most {most} steps, got {n}", most=_MOST_STEPS, n=len(steps))
    written = sum(len(str(part.get("formula", ""))) for part in steps if isinstance(part, dict))
    if written > _MOST_FORMULAS:
        raise ConfigError(
            "expected at most {most} characters of formulas, got {n}",
            most=_MOST_FORMULAS,
            n=written,
        )


def _expand(steps: Any) -> list[Any]:
    """Steps borrowed from a shipped example: `{"from": "masked"}`, some with `"steps": […]`."""
    if not isinstance(steps, list):
        return []
    expanded: list[Any] = []
    for part in steps:
        if not isinstance(part, dict) or "from" not in part:
            expanded.append(part)
            continue
        name, wanted = part["from"], part.get("steps")
        _check_keys(part, {"from", "steps"})
        if wanted is not None and not isinstance(wanted, list):
            raise ConfigError(
                "expected a list of steps from {name}, got {value}",
                name=_shown(name),
                value=_shown(wanted),
            )
        if name not in example_names():
            raise UnknownNameError("example", str(name)[:_MOST_SHOWN], example_names())
        data = json.loads(_shipped(name))
        found = [step for step in data["steps"] if wanted is None or step.get("id") in wanted]
        if wanted is not None and len(found) != len(wanted):
            raise ConfigError(
                "{name!r} does not have all of the steps {value}", name=name, value=_shown(wanted)
            )
        expanded += [{"case": data.get("case", "keep"), **step} for step in found]
    return expanded


def _step(data: Any, example: dict[str, Any], number: int, work: Work) -> PrintedStep:
    if not isinstance(data, dict) or not isinstance(data.get("id"), str):
        raise ConfigError("step {number}: expected an object with a name under 'id'", number=number)
    with _in_step(data["id"][:_MOST_LETTERS]):
        return _read_step(data, example, work)


def _read_step(data: dict[str, Any], example: dict[str, Any], work: Work) -> PrintedStep:
    _check_id(data["id"])
    _check_keys(data, STEP_KEYS)
    formula, reason, decimals = data.get("formula"), data.get("unchecked"), data.get("decimals")
    tree = None if formula is None else _formula(formula)
    inputs = () if tree is None else tuple(names_of(tree))
    declared = data.get("inputs")
    if declared is not None and (
        not isinstance(declared, list) or sorted(map(str, declared)) != sorted(inputs)
    ):
        raise ConfigError(
            "expected the inputs of the formula, {names}, got {value}",
            names=[*inputs],
            value=_shown(declared),
        )
    printed = _printed(data, work, given=tree is None)
    quoted = _quoted(data, has_formula=tree is not None)
    if quoted is not None and printed is not None:
        raise ConfigError("expected either printed numbers or a printed formula or code, got both")
    if tree is None and printed is None and reason is None and quoted is None:
        raise ConfigError("expected a formula, or printed numbers, or words")
    case = {"case": example.get("case"), **data}
    return PrintedStep(
        id=data["id"],
        title=_bilingual(data.get("title", data["id"]), "title"),
        formula=formula,
        tree=tree,
        inputs=inputs,
        printed=printed,
        decimals=_whole_number(decimals, "decimals", 0) if isinstance(decimals, int) else None,
        unchecked=None if reason is None else _bilingual(reason, "unchecked"),
        rows=_labels(data, "rows", printed, 0),
        columns=_labels(data, "columns", printed, -1),
        any_order=_choice(data, "order", ("as printed", "any")) == "any",
        ignore_case=_choice(case, "case", ("keep", "ignore")) == "ignore",
        between=_between(data),
        produces=_labels(data, "produces", None, 0),
        quoted=quoted,
    )


def _check_id(id_: str) -> None:
    if len(id_) > _MOST_LETTERS:
        raise ConfigError("expected a name of at most {most} letters", most=_MOST_LETTERS)
    if id_ in ("new", "None"):
        raise ConfigError("formulas use {name!r} for a new axis: expected another name", name=id_)
    if not id_.isidentifier():
        raise ConfigError("expected letters, digits and _ in a name")


def _formula(text: Any) -> Node:
    if not isinstance(text, str):
        raise ConfigError("expected the formula as a string, got {value}", value=_shown(text))
    tree = parse(text)
    for node in walk(tree):  # refuses an unknown function before anything is computed
        if isinstance(node, FunctionCall) and written_out(node) is None:
            function_of(node)
    return tree


_MOST_LINES = 100


def _value(
    data: dict[str, Any], key: str, default: Any, fits: Callable[[Any], bool], expected: str
) -> Any:
    """The value of a key, or its default; refused unless it fits."""
    value = data.get(key)
    if value is None:
        return default
    if not fits(value):
        raise ConfigError(
            "expected {key!r} {what}, got {value}", key=key, what=expected, value=_shown(value)
        )
    return value


def _is_strings(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(part, str) for part in value)


def _quoted(data: dict[str, Any], *, has_formula: bool) -> Quotation | None:
    """A formula or code that the article prints."""
    formula, code, result = data.get("as_printed"), data.get("code"), data.get("result")
    if formula is not None:
        indices = _labels(data, "indices", None, 0)
        if not isinstance(formula, str) or not has_formula or code is not None:
            raise ConfigError("expected 'as_printed' as a string, next to the right 'formula'")
        if any(len(letter) != 1 for letter in indices) or len(set(indices)) != len(indices):
            raise ConfigError(
                "expected one letter for each of 'indices', got {value}", value=_shown([*indices])
            )
        Notation(formula)
        return Quotation(formula, "notation", indices)
    code = _value(data, "code", None, _is_strings, "as a list of lines")
    if code is None:
        return None
    if not 0 < len(code) <= _MOST_LINES or sum(map(len, code)) > 100 * _MOST_LINES:
        raise ConfigError(
            "expected 1 to {most} lines of code, of at most 100 characters on average, got {n}",
            most=_MOST_LINES,
            n=len(code),
        )
    if result is not None and (not isinstance(result, str) or not has_formula):
        raise ConfigError("expected 'result' as an expression, next to the right 'formula'")
    return Quotation("\n".join(code), "python", (), result, _flag(data, "whole"))


def _printed(data: dict[str, Any], work: Work, *, given: bool) -> PrintedDigits | WordList | None:
    if "words" in data:
        return _words(data)
    shape = _value(data, "shape", None, _is_sizes, "as a list of sizes")
    cells = data.get("printed")
    if cells is None:
        if shape is None:
            return None
        cells = "..."
    decimals, significant = data.get("decimals"), data.get("significant")
    exact = given and not data.get("rounded", False)
    if not exact and decimals is None and significant is None:
        raise ConfigError('expected "decimals" (or "significant") next to printed numbers')
    values = _read_numbers(cells, tuple(shape) if shape else None, work)
    approximate = _flag(data, "approximate")
    if exact and decimals is None and significant is None:
        none = np.zeros(values.shape, dtype=np.int64)
        return PrintedDigits(values, none, exact=True, approximate=approximate)
    places = _places(values, decimals, significant)
    _check_precision(values, places)
    return PrintedDigits(values, places, exact, approximate)


def _is_sizes(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(n, int) and n > 0 for n in value)


def _words(data: dict[str, Any]) -> WordList:
    words = data["words"]
    listed = [words] if isinstance(words, str) else words
    if not _is_strings(listed):
        raise ConfigError(
            "expected a string or a list of strings under 'words', got {value}", value=_shown(words)
        )
    if data.get("printed") is not None:
        raise ConfigError("expected either 'words' or 'printed', got both")
    if len(listed) > MOST_NUMBERS or sum(map(len, listed)) > MOST_CHARACTERS:
        raise ConfigError(
            "expected at most {most} words and {letters} letters under 'words'",
            most=MOST_NUMBERS,
            letters=MOST_CHARACTERS,
        )
    return WordList(tuple(listed), single=isinstance(words, str))


def _flag(data: dict[str, Any], key: str) -> bool:
    return bool(
        _value(data, key, False, lambda value: isinstance(value, bool), "to be true or false")
    )


def _labels(
    data: dict[str, Any], key: str, printed: PrintedDigits | WordList | None, axis: int
) -> tuple[str, ...]:
    labels = _value(data, key, [], _is_strings, "as a list of strings")
    if labels and isinstance(printed, PrintedDigits) and printed.values.shape:
        size = printed.values.shape[axis]
        if len(labels) != size:
            raise ConfigError(
                "expected {size} labels under {key!r}, got {n}", size=size, key=key, n=len(labels)
            )
    return tuple(labels)


def _between(data: dict[str, Any]) -> tuple[float, float] | None:
    ends = _value(data, "between", None, _are_ends, "as the least and the greatest number")
    return None if ends is None else (float(ends[0]), float(ends[1]))


def _are_ends(value: Any) -> bool:
    return (
        isinstance(value, list)
        and len(value) == 2
        and all(type(end) in (int, float) and abs(end) < _LARGEST for end in value)
        and value[0] <= value[1]
    )


def _choice(data: dict[str, Any], key: str, known: tuple[str, ...]) -> str:
    expected = Fragment.of("to be one of {names}", names=", ".join(known))
    return str(_value(data, key, known[0], lambda value: value in known, expected))


def _bilingual(value: Any, key: str) -> Bilingual:
    if isinstance(value, str):
        return Bilingual(value, value)
    texts = value if isinstance(value, dict) and set(value) == {"en", "zh"} else {}
    if texts and all(isinstance(text, str) and text for text in texts.values()):
        return Bilingual(texts["en"], texts["zh"])
    raise ConfigError(
        '{key}: expected a string or {{"en": …, "zh": …}}, got {value}',
        key=key,
        value=_shown(value),
    )


def _check_keys(data: dict[str, Any], known: set[str]) -> None:
    for key in data:
        if key not in known:
            name = key[:_MOST_SHOWN]
            near = did_you_mean(name, sorted(known))
            raise ConfigError("unknown key {name!r}{near}", name=name, near=near)


def _check_names(example: Example) -> None:
    ids: set[str] = set()
    for step in example.steps:
        if step.id in ids:
            with _in_step(step.id):
                raise ConfigError("expected a name not used before")
        ids.add(step.id)
    for step in example.steps:
        for name in step.inputs:
            if name not in ids:
                near = did_you_mean(name, (other.id for other in example.steps))
                with _in_step(step.id):
                    raise FormulaError("missing input {name!r}{near}", name=name, near=near)


# --- printed numbers -------------------------------------------------------------------------
# A cell is a number, `null` where nothing is printed, `"-inf"`, or a formula of numbers alone such
# as `"2*1/6"`, where the article prints one. `"..."` stands for as many unprinted cells (or rows)
# as the declared shape leaves open.

_ELLIPSIS = ("...", "…")
_MINUS_INFINITY = ("-inf", "−∞", "-∞", "-Infinity")
_MOST_FORMULA = 200  # characters of a formula in a cell
_MOST_DECIMALS = 12  # beyond that float64 itself is the limit
_LARGEST = 1e100  # beyond that products overflow


def _read_numbers(cells: Any, shape: tuple[int, ...] | None, work: Work) -> Array:
    if shape is not None:
        check_size(shape)
    check_size(_shape_of(cells))
    nested = _fill(cells, shape)
    found = _shape_of(nested)
    check_size(found)
    if shape is not None and found != shape:
        raise ConfigError(
            "expected the declared {shape}, got {found}",
            shape=shape_of(shape),
            found=shape_of(found),
        )
    flat: list[float] = []
    _collect(nested, found, flat, [], work)
    return np.array(flat, dtype=np.float64).reshape(found)


def _fill(cells: Any, shape: tuple[int, ...] | None) -> Any:
    """Replace each "..." and each missing row by the unprinted cells that it stands for."""
    if shape and (cells is None or cells in _ELLIPSIS):
        cells = [None] * shape[0]
    if not isinstance(cells, list):
        return cells
    dots = [i for i, cell in enumerate(cells) if isinstance(cell, str) and cell in _ELLIPSIS]
    if dots:
        if not shape:
            raise ConfigError('expected a "shape" next to printed "..."')
        open_ = shape[0] - (len(cells) - 1)
        if len(dots) > 1 or open_ < 0:
            raise ConfigError(
                'expected one "..." and at most {most} other cells', most=shape[0] - 1
            )
        cells = cells[: dots[0]] + [None] * open_ + cells[dots[0] + 1 :]
    if shape and len(cells) != shape[0]:
        return cells  # of the wrong size: refused by the caller
    below = shape[1:] if shape else None
    return [_fill(cell, below) for cell in cells]


def _shape_of(cells: Any) -> tuple[int, ...]:
    """The shape of the first cells; `_collect` checks that the others have it too."""
    shape: list[int] = []
    while isinstance(cells, list):
        if not cells:
            raise ConfigError("expected at least one number, got an empty list")
        shape.append(len(cells))
        cells = cells[0]
    return tuple(shape)


def _collect(
    cells: Any, shape: tuple[int, ...], flat: list[float], at: list[int], work: Work
) -> None:
    if shape:
        if not isinstance(cells, list) or len(cells) != shape[0]:
            found = str(len(cells)) if isinstance(cells, list) else Fragment.of("a single number")
            raise ConfigError(
                "ragged rows: expected {n} cells at {at}, got {found}",
                n=shape[0],
                at=at,
                found=found,
            )
        for i, cell in enumerate(cells):
            _collect(cell, shape[1:], flat, [*at, i], work)
        return
    flat.append(_read_cell(cells, at, work))


def _read_cell(cell: Any, at: list[int], work: Work) -> float:
    if cell is None:
        return math.nan
    if isinstance(cell, str):
        if cell in _MINUS_INFINITY:
            return -math.inf
        value = _printed_formula(cell, work)
        if isinstance(value, BoundedNumbers) and not value.shape and np.isfinite(value.mid):
            return float(value.mid)
    elif isinstance(cell, int | float) and not isinstance(cell, bool) and abs(cell) < _LARGEST:
        return float(cell)
    elif isinstance(cell, list):
        raise ConfigError("ragged rows: expected a number at {at}, got a list", at=at)
    hint = Fragment.of(' ("-inf" stands for −∞)') if cell == -math.inf else ""
    where = Fragment.of("a number at {at}", at=at) if at else Fragment.of("a number")
    raise ConfigError(
        "expected {where}, got {value}{hint}", where=where, value=_shown(cell), hint=hint
    )


def _printed_formula(cell: str, work: Work) -> Value:
    if len(cell) > _MOST_FORMULA:
        raise ConfigError(
            "expected a printed formula of at most {most} characters, got {n}",
            most=_MOST_FORMULA,
            n=len(cell),
        )
    try:
        work.take(10 * len(cell))
        return FormulaEvaluator({}, work=work).value(parse(cell))
    except WorkSpentError:
        raise FormulaError("expected fewer printed formulas") from None


def _places(values: Array, decimals: Any, significant: Any) -> np.ndarray:
    if significant is not None:
        if decimals is not None:
            raise ConfigError('expected either "decimals" or "significant", got both')
        digits = _whole_number(significant, "significant", 1)
        with np.errstate(all="ignore"):
            leading = np.floor(np.log10(np.abs(values)))
        leading = np.where(np.isfinite(leading), leading, 0)
        return np.asarray(digits - 1 - leading, dtype=np.int64)
    if isinstance(decimals, list):
        if not values.shape or len(decimals) != values.shape[-1]:
            raise ConfigError(
                "expected decimals for each of {columns} columns, got {n}",
                columns=values.shape[-1] if values.shape else 1,
                n=len(decimals),
            )
        each = [_whole_number(part, "decimals", 0) for part in decimals]
        return np.broadcast_to(np.array(each, dtype=np.int64), values.shape).copy()
    return np.full(values.shape, _whole_number(decimals, "decimals", 0), dtype=np.int64)


def _whole_number(value: Any, what: str, least: int) -> int:
    if (
        isinstance(value, bool)
        or not isinstance(value, int)
        or not least <= value <= _MOST_DECIMALS
    ):
        raise ConfigError(
            'expected "{key}" as a whole number from {least} to {most}, got {value}',
            key=what,
            least=least,
            most=_MOST_DECIMALS,
            value=_shown(value),
        )
    return value


def _check_precision(values: Array, places: np.ndarray) -> None:
    """Refuse a number with more decimals than its step declares."""
    finite = np.isfinite(values)
    scaled = np.where(finite, values, 0.0) * 10.0**places
    off = finite & (np.abs(scaled - np.rint(scaled)) > 1e-6 * np.maximum(1.0, np.abs(scaled)))
    if off.any():
        at = tuple(int(part) for part in np.argwhere(off)[0])
        value, place = float(values[at]), int(places[at])
        raise ConfigError(
            "expected at most {most} decimals at {at}, got {value!r}",
            most=place,
            at=[*at],
            value=value,
        )
