"""Example files: JSON → `Example`, or one line that names file, step and what is expected."""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path
from typing import Any, NoReturn

from glassformer.errors import ConfigError, UnknownNameError, did_you_mean, expect
from glassformer.lessons.example import Bilingual, Digits, Example, Step
from glassformer.lessons.formulas import FUNCTIONS, Words, names_of, parse
from glassformer.lessons.formulas.functions import NAMES, written_out
from glassformer.lessons.formulas.tree import Call, Node, walk
from glassformer.lessons.printed import read_digits

__all__ = ["STEP_KEYS", "example_names", "load_example", "read_example"]

STEP_KEYS = {
    "id", "title", "formula", "inputs", "printed", "words", "decimals", "significant", "rounded",
    "shape", "rows", "columns", "unchecked", "order", "case",
}  # fmt: skip
_EXAMPLE_KEYS = {"title", "note", "case", "steps"}
_MOST_BYTES = 5_000_000
_MOST_STEPS = 1000


def example_names() -> list[str]:
    """The shipped examples."""
    folder = resources.files("glassformer.lessons") / "examples"
    names = [entry.name.removesuffix(".json") for entry in folder.iterdir()]
    return sorted(name for name in names if not name.startswith((".", "_")))


def load_example(name_or_file: str | Path) -> Example:
    """A shipped example by name, or a file."""
    expect(name_or_file, (str, Path), "the name or the file of an example")
    if str(name_or_file) in example_names():
        return read_example(_shipped(str(name_or_file)), str(name_or_file), str(name_or_file))
    path = Path(name_or_file)
    if not path.is_file():
        if path.suffix or len(path.parts) > 1:
            raise ConfigError(f"{path}: expected a file with a worked example, there is none")
        raise UnknownNameError("example", str(name_or_file), example_names())
    if path.stat().st_size > _MOST_BYTES:
        raise ConfigError(f"{path}: expected at most {_MOST_BYTES} bytes")
    try:
        text = path.read_text(encoding="utf-8-sig")  # editors on Windows begin with a mark
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: expected UTF-8 text ({error.reason})") from error
    return read_example(text, path.stem, str(path))


def _shipped(name: str) -> str:
    file = resources.files("glassformer.lessons") / "examples" / f"{name}.json"
    return file.read_text(encoding="utf-8")


def read_example(text: str, name: str, source: str) -> Example:
    """An example from its JSON text; `source` is how messages call it."""
    expect(text, str, "the text of an example in JSON")
    data = _parse_json(text, source)
    if not isinstance(data, dict):
        raise ConfigError(f"{source}: expected an object with 'title' and 'steps'")
    _check_keys(data, _EXAMPLE_KEYS, source)
    title = _bilingual(data.get("title", name), f"{source}: title")
    raw = _expand(data.get("steps"), source)
    if not raw:
        raise ConfigError(f"{source}: expected a list of steps under 'steps'")
    if len(raw) > _MOST_STEPS:
        raise ConfigError(f"{source}: expected at most {_MOST_STEPS} steps, got {len(raw)}")
    steps = tuple(_step(part, data, f"{source}: step {i + 1}") for i, part in enumerate(raw))
    example = Example(name, title, steps, source)
    _check_names(example)
    _check_cycles(example)
    return example


def _parse_json(text: str, source: str) -> Any:
    def refuse(constant: str) -> NoReturn:
        raise ConfigError(f'{source}: expected numbers, got {constant} ("-inf" stands for −∞)')

    try:
        data = json.loads(text, parse_constant=refuse)
        json.dumps(data, ensure_ascii=False).encode("utf-8")
        return data
    except ConfigError:
        raise
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise ConfigError(f"{source}: expected JSON; {where}: {error.msg}") from error
    except UnicodeEncodeError as error:
        half = error.object[error.start : error.end]
        raise ConfigError(f"{source}: expected Unicode, got half a character, {half!r}") from error
    except ValueError as error:  # a whole number of thousands of digits
        raise ConfigError(f"{source}: expected numbers that people can read: {error}") from error
    except RecursionError as error:
        raise ConfigError(f"{source}: nested too deeply") from error


def _expand(steps: Any, source: str) -> list[Any]:
    """Steps borrowed from a shipped example: `{"from": "masked"}`, some with `"steps": […]`."""
    if not isinstance(steps, list):
        return []
    expanded: list[Any] = []
    for part in steps:
        if not isinstance(part, dict) or "from" not in part:
            expanded.append(part)
            continue
        name, wanted = part["from"], part.get("steps")
        _check_keys(part, {"from", "steps"}, source)
        if wanted is not None and not isinstance(wanted, list):
            raise ConfigError(f"{source}: expected a list of steps from {name!r}, got {wanted!r}")
        if name not in example_names():
            near = did_you_mean(str(name), example_names())
            raise ConfigError(f"{source}: steps from unknown example {name!r}{near}")
        data = json.loads(_shipped(name))
        found = [step for step in data["steps"] if wanted is None or step.get("id") in wanted]
        if wanted is not None and len(found) != len(wanted):
            raise ConfigError(f"{source}: {name!r} has not all of the steps {wanted}")
        expanded += [{"case": data.get("case", "keep"), **step} for step in found]
    return expanded


def _step(data: Any, example: dict[str, Any], where: str) -> Step:
    if not isinstance(data, dict) or not isinstance(data.get("id"), str):
        raise ConfigError(f"{where}: expected an object with a name under 'id'")
    where = f"{where.split(': step')[0]}: step {data['id']!r}"
    if not data["id"].isidentifier() or data["id"] in ("new", "None"):
        raise ConfigError(f"{where}: expected letters, digits and _ in a name")
    _check_keys(data, STEP_KEYS, where)
    try:
        return _read_step(data, example, where)
    except RecursionError:
        raise ConfigError(f"{where}: expected a shorter formula") from None
    except ConfigError as error:
        message = str(error)
        raise ConfigError(
            message if message.startswith(where) else f"{where}: {message}"
        ) from error


def _read_step(data: dict[str, Any], example: dict[str, Any], where: str) -> Step:
    formula = data.get("formula")
    tree = None
    if formula is not None:
        if not isinstance(formula, str):
            raise ConfigError(f"expected the formula as a text, got {formula!r}")
        tree = parse(formula)
        _check_functions(tree)
    inputs = tuple(names_of(tree)) if tree is not None else ()
    declared = data.get("inputs")
    if declared is not None and (
        not isinstance(declared, list) or sorted(map(str, declared)) != sorted(inputs)
    ):
        raise ConfigError(f"expected the inputs of the formula, {list(inputs)}, got {declared}")
    reason = data.get("unchecked")
    printed = _printed(data, given=tree is None)
    if tree is None and printed is None and reason is None:
        raise ConfigError("expected a formula, or printed numbers, or words")
    decimals = data.get("decimals")
    return Step(
        id=data["id"],
        title=_bilingual(data.get("title", data["id"]), f"{where}: title"),
        formula=formula,
        tree=tree,
        inputs=inputs,
        printed=printed,
        decimals=decimals if isinstance(decimals, int) else None,
        unchecked=None if reason is None else _bilingual(reason, f"{where}: unchecked"),
        rows=_labels(data, "rows", printed, 0),
        columns=_labels(data, "columns", printed, -1),
        any_order=_choice(data, "order", ("as printed", "any")) == "any",
        ignore_case=_choice({"case": example.get("case"), **data}, "case", ("keep", "ignore"))
        == "ignore",
    )


def _printed(data: dict[str, Any], *, given: bool) -> Digits | Words | None:
    if "words" in data:
        words = data["words"]
        listed = [words] if isinstance(words, str) else words
        if not isinstance(listed, list) or not all(isinstance(word, str) for word in listed):
            raise ConfigError(f"expected a text or a list of texts under 'words', got {words!r}")
        if data.get("printed") is not None:
            raise ConfigError("expected either 'words' or 'printed', got both")
        return Words(tuple(listed), single=isinstance(words, str))
    cells = data.get("printed")
    shape = data.get("shape")
    if shape is not None:
        if not isinstance(shape, list) or not all(isinstance(n, int) and n > 0 for n in shape):
            raise ConfigError(f"expected 'shape' as a list of sizes, got {shape!r}")
        cells = "..." if cells is None else cells
    if cells is None:
        return None
    exact = given and not data.get("rounded", False)
    if not exact and data.get("decimals") is None and data.get("significant") is None:
        raise ConfigError('expected "decimals" (or "significant") beside printed numbers')
    return read_digits(
        cells, tuple(shape) if shape else None, data.get("decimals"), data.get("significant"), exact
    )


def _labels(
    data: dict[str, Any], key: str, printed: Digits | Words | None, axis: int
) -> tuple[str, ...]:
    labels = data.get(key, [])
    if not isinstance(labels, list) or not all(isinstance(label, str) for label in labels):
        raise ConfigError(f"expected {key!r} as a list of texts, got {labels!r}")
    if labels and isinstance(printed, Digits) and printed.values.shape:
        size = printed.values.shape[axis]
        if len(labels) != size:
            raise ConfigError(f"expected {size} labels under {key!r}, got {len(labels)}")
    return tuple(labels)


def _choice(data: dict[str, Any], key: str, known: tuple[str, ...]) -> str:
    value = data.get(key) or known[0]
    if value not in known:
        raise ConfigError(f"expected {key!r} to be one of {', '.join(known)}, got {value!r}")
    return str(value)


def _bilingual(value: Any, where: str) -> Bilingual:
    if isinstance(value, str):
        return Bilingual(value, value)
    texts = value if isinstance(value, dict) and set(value) == {"en", "zh"} else {}
    if texts and all(isinstance(text, str) and text for text in texts.values()):
        return Bilingual(texts["en"], texts["zh"])
    raise ConfigError(f'{where}: expected a text or {{"en": …, "zh": …}}, got {value!r}')


def _check_keys(data: dict[str, Any], known: set[str], where: str) -> None:
    for key in data:
        if key not in known:
            raise ConfigError(f"{where}: unknown key {key!r}{did_you_mean(key, sorted(known))}")


def _check_functions(tree: Node) -> None:
    """A formula with an unknown function is refused before anything is computed."""
    for node in walk(tree):
        if isinstance(node, Call) and node.function not in FUNCTIONS and written_out(node) is None:
            near = did_you_mean(node.function, NAMES)
            raise ConfigError(f"column {node.column}: unknown function {node.function!r}{near}")


def _check_names(example: Example) -> None:
    ids: dict[str, None] = {}
    for step in example.steps:
        if step.id in ids:
            raise ConfigError(
                f"{example.source}: step {step.id!r}: expected a name not used before"
            )
        ids[step.id] = None
    for step in example.steps:
        for name in step.inputs:
            if name not in ids:
                raise ConfigError(
                    f"{example.source}: step {step.id!r}: missing input {name!r}"
                    f"{did_you_mean(name, ids)}"
                )


def _check_cycles(example: Example) -> None:
    for step in example.steps:
        if step.id in example.ancestors(step):
            raise ConfigError(
                f"{example.source}: step {step.id!r}: expected a formula of other steps, "
                "got one that leads back to itself"
            )
