"""Worked examples like those of real articles, computed by plain numpy, and misprints in them.

An article here is a small Transformer of one to three layers: attention with one or two heads,
masked or not, residual sums, layer norm, a feed-forward layer, then logits, probabilities, a
prediction and a loss. It prints some of its steps, each to 1–4 decimals, and leaves others out; its
author continued with the printed digits or with all of them.

`may_be` says what a printed number could be. It uses no bounds of the audit: it moves the inputs to
the ends of what their digits may stand for and evaluates the formula on exact numbers, whose
arithmetic `test_formulas` checks against numpy.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glassformer.audit.example import Example, PrintedDigits, PrintedStep
from glassformer.audit.example_file import read_example
from glassformer.audit.formulas import BoundedNumbers, Value, WordList, evaluate, exactly
from tests.audit.planting import softmax

Array = NDArray[np.float64]
Values = dict[str, Array]


class Writer:
    """Writes an article step by step, each with a formula and numbers, printed or not."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.steps: list[dict[str, Any]] = []
        self.values: Values = {}
        self.carries_rounded = bool(self.random.random() < 0.5)
        self.decimals = int(self.random.integers(1, 5))
        self.prints = float(self.random.choice([0.3, 0.6, 0.9]))

    def chance(self, share: float) -> bool:
        return bool(self.random.random() < share)

    def given(self, name: str, *shape: int) -> str:
        values = self.random.integers(-20, 21, size=shape) / 10
        self.values[name] = values
        self.steps.append({"id": name, "printed": values.tolist()})
        return name

    def step(self, name: str, formula: str, value: Array, *, printed: bool = False) -> str:
        """A step that is printed at random, or always."""
        step: dict[str, Any] = {"id": name, "formula": formula}
        self.values[name] = value
        if printed or self.chance(self.prints):
            decimals = int(np.clip(self.decimals + self.random.integers(-1, 2), 1, 4))
            rounded = np.round(value, decimals) + 0.0
            step |= {"printed": _cells(rounded), "decimals": decimals}
            if self.carries_rounded:
                self.values[name] = rounded
        self.steps.append(step)
        return name

    def __getitem__(self, name: str) -> Array:
        return self.values[name]


def article(seed: int) -> dict[str, Any]:
    """An article without a mistake."""
    w = Writer(seed)
    tokens, width = int(w.random.integers(2, 5)), int(w.random.choice([4, 6]))
    w.given("embedding", tokens, width)
    x = "embedding"
    if w.chance(0.5):
        angles = np.arange(tokens)[:, None] / 10000 ** (2 * (np.arange(width) // 2) / width)
        waves = np.where(np.arange(width) % 2 == 0, np.sin(angles), np.cos(angles))
        w.step("position", f"sinusoids(range({tokens}), {width})", waves)
        x = w.step("x", "embedding + position", w["embedding"] + w["position"])
    for layer in range(int(w.random.integers(1, 4))):
        x = _attention(w, x, layer)
        x = _feed_forward(w, x, layer)
    _prediction(w, x)
    return {"title": f"article {seed}", "steps": w.steps}


def _attention(w: Writer, x: str, layer: int) -> str:
    tokens, width = w[x].shape
    heads = int(w.random.choice([1, 2]))
    masked = w.chance(0.4)
    outputs = []
    for head in range(heads):
        at = f"{layer}_{head}"
        q, k, v = (_projection(w, x, f"{name}_{at}", width // heads) for name in "qkv")
        scores = w[q] @ w[k].T / np.sqrt(width // heads)
        scaled = w.step(f"scaled_{at}", f"{q} @ {k}.T / sqrt(columns({k}))", scores)
        if masked:
            hidden = np.where(np.tril(np.ones((tokens, tokens))) == 1, w[scaled], -np.inf)
            formula = f"mask({scaled}, causal({tokens}))"
            scaled = w.step(f"masked_{at}", formula, hidden)
        weights = w.step(f"weights_{at}", f"softmax({scaled})", softmax(w[scaled]))
        outputs.append(w.step(f"head_{at}", f"{weights} @ {v}", w[weights] @ w[v]))
    joined = outputs[0]
    if heads > 1:
        both = np.concatenate([w[name] for name in outputs], axis=1)
        joined = w.step(f"heads_{layer}", f"concat({', '.join(outputs)})", both)
    return _add_and_norm(w, x, joined, f"a{layer}")


def _projection(w: Writer, x: str, name: str, width: int) -> str:
    weight = w.given(f"w_{name}", w[x].shape[1], width)
    return w.step(name, f"{x} @ {weight}", w[x] @ w[weight])


def _feed_forward(w: Writer, x: str, layer: int) -> str:
    width = w[x].shape[1]
    up, down = w.given(f"up_{layer}", width, 3), w.given(f"down_{layer}", 3, width)
    bias = w.given(f"bias_{layer}", 3)
    inside = np.maximum(w[x] @ w[up] + w[bias], 0)
    hidden = w.step(f"hidden_{layer}", f"relu({x} @ {up} + {bias})", inside)
    out = w.step(f"out_{layer}", f"{hidden} @ {down}", w[hidden] @ w[down])
    return _add_and_norm(w, x, out, f"f{layer}")


def _add_and_norm(w: Writer, x: str, y: str, at: str) -> str:
    total = w.step(f"sum_{at}", f"{x} + {y}", w[x] + w[y])
    kind = w.random.random()
    if kind < 0.2:
        return total
    if kind < 0.6:
        rows = w[total]
        centred = rows - rows.mean(1, keepdims=True)
        normed = centred / np.sqrt(rows.var(1, keepdims=True) + 1e-5)
        return w.step(f"norm_{at}", f"layer_norm({total})", normed)
    stats = np.stack([w[total].mean(1), w[total].std(1)], axis=1)
    formula = f"stack(mean({total}), std({total}))"
    moments = w.step(f"stats_{at}", formula, stats, printed=True)
    normed = (w[total] - w[moments][:, :1]) / (w[moments][:, 1:] + 0.01)
    formula = f"({total} - {moments}[:, 0:1]) / ({moments}[:, 1:2] + 0.01)"
    return w.step(f"norm_{at}", formula, normed)


def _prediction(w: Writer, x: str) -> None:
    table = w.given("vocabulary", w[x].shape[1], 5)
    logits = w.step("logits", f"{x}[-1] @ {table}", w[x][-1] @ w[table])
    p = w.step("p", f"softmax({logits})", softmax(w[logits]), printed=True)
    w.step("likeliest", f"argmax({p})", np.array(float(np.argmax(w[p]))), printed=True)
    target = int(np.argmax(w[p]))
    loss = w.step("loss", f"-log({p}[{target}])", np.asarray(-np.log(w[p][target])), printed=True)
    w.step("perplexity", f"exp({loss})", np.exp(w[loss]), printed=True)
    size = np.asarray(np.abs(w[x]).mean())
    w.step("size", f"mean(flatten(abs({x})))", size, printed=True)


def _cells(values: Array) -> Any:
    if values.ndim:
        return [_cells(value) for value in values]
    return "-inf" if np.isneginf(values) else float(values)


@dataclass(frozen=True)
class Misprint:
    """An example file with one wrong number, in one cell of one step."""

    data: dict[str, Any]
    step: str
    at: tuple[int, ...]

    def example(self) -> Example:
        return read_example(json.dumps(self.data), "misprint", "misprint")


def misprints(data: dict[str, Any], seed: int) -> Iterator[Misprint]:
    """One in every step that is computed and printed; kind and cell are random."""
    random = np.random.default_rng(seed)
    for number, step in enumerate(data["steps"]):
        if "formula" not in step or "printed" not in step or "unchecked" in step:
            continue
        places = list(_places(step["printed"], ()))
        for at in (places[i] for i in random.permutation(len(places))):
            changed = json.loads(json.dumps(data))
            decimals = _decimals(step, at)
            new = _misprint(_cell(step["printed"], at), decimals, random)
            if new is not None:
                changed["steps"][number]["printed"] = _with(step["printed"], at, new)
                yield Misprint(changed, step["id"], at)
                break


def _places(cells: Any, at: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    if isinstance(cells, list):
        for i, cell in enumerate(cells):
            yield from _places(cell, (*at, i))
    elif isinstance(cells, int | float):
        yield at


def _cell(cells: Any, at: tuple[int, ...]) -> Any:
    for i in at:
        cells = cells[i]
    return cells


def _with(cells: Any, at: tuple[int, ...], new: float) -> Any:
    if not at:
        return new
    return [_with(cell, at[1:], new) if i == at[0] else cell for i, cell in enumerate(cells)]


def _decimals(step: dict[str, Any], at: tuple[int, ...]) -> int | None:
    decimals = step.get("decimals")
    return decimals[at[-1]] if isinstance(decimals, list) else decimals


def _misprint(value: float, decimals: int | None, random: np.random.Generator) -> float | None:
    """A wrong digit, two digits swapped, the wrong sign, or the point one place off."""
    if decimals is None:  # significant digits
        return value * 10
    text = f"{abs(value):.{decimals}f}"
    digits = [i for i, character in enumerate(text) if character.isdigit()]
    kind = random.choice(["digit", "exchanged", "sign", "point"])
    changed = list(text)
    if kind == "exchanged" and len(digits) > 1:
        i = int(random.integers(len(digits) - 1))
        a, b = digits[i], digits[i + 1]
        changed[a], changed[b] = changed[b], changed[a]
    elif kind == "point" and value:
        return round(value * 10, decimals)
    elif kind == "sign" and value:
        return -value
    if "".join(changed) == text:
        i = int(random.choice(digits))
        changed[i] = str((int(text[i]) + int(random.integers(1, 10))) % 10)
    new = float("".join(changed)) * (-1 if value < 0 else 1)
    return None if new == value else new


def may_be(example: Example, step: PrintedStep, at: tuple[int, ...]) -> tuple[float, float]:
    """The least and greatest value that a printed number may stand for, given the printed inputs.

    The inputs are moved to the ends of their digits, each in the direction in which the number
    grows, several times because that direction may change; and to random ends. All of these can be
    reached, so the true range is no smaller.
    """
    printed, words, between = _before(example, step)
    centre = {name: digits.values for name, digits in printed.items()}
    half = {name: np.where(digits.shown, digits.half, 0.0) for name, digits in printed.items()}
    assert step.tree is not None
    tree = step.tree

    def value(inputs: Values) -> float:
        known: dict[str, Value] = {name: exactly(part) for name, part in inputs.items()}
        known |= words
        for before in between:
            assert before.tree is not None
            known[before.id] = evaluate(before.tree, known)
        found = evaluate(tree, known)
        return float(found.mid[at]) if isinstance(found, BoundedNumbers) else np.nan

    places = [
        (name, at_)
        for name in centre
        for at_ in np.ndindex(centre[name].shape)
        if half[name][at_] > 0
    ]

    def moved(ends: Array) -> Values:
        inputs = {name: part.copy() for name, part in centre.items()}
        for (name, place), end in zip(places, ends, strict=True):
            inputs[name][place] += end * half[name][place]
        return inputs

    def slopes(ends: Array) -> Array:
        """The direction in which each input makes the number grow."""
        found = np.zeros(len(places))
        here = value(moved(ends))
        for i in range(len(places)):
            other = ends.copy()
            other[i] = -ends[i] if ends[i] else 1.0
            found[i] = np.sign(value(moved(other)) - here) * np.sign(other[i])
        return found

    random = np.random.default_rng(0)
    reached = [value(centre)]
    for direction in (1.0, -1.0):
        ends = np.zeros(len(places))
        for _ in range(3):
            ends = direction * np.nan_to_num(slopes(ends))
            reached.append(value(moved(ends)))
    for _ in range(20):
        reached.append(value(moved(random.choice([-1.0, 1.0], len(places)))))
    reached = [number for number in reached if not np.isnan(number)]
    return (min(reached), max(reached)) if reached else (-np.inf, np.inf)


def _before(
    example: Example, step: PrintedStep
) -> tuple[dict[str, PrintedDigits], dict[str, Value], list[PrintedStep]]:
    """What a step is computed from: printed numbers, words, and steps that are not printed."""
    numbers: dict[str, PrintedDigits] = {}
    words: dict[str, Value] = {}
    between: set[str] = set()
    waiting = list(step.inputs)
    while waiting:
        before = example[waiting.pop()]
        if isinstance(before.printed, WordList):
            words[before.id] = before.printed
        elif before.printed is not None:
            numbers[before.id] = before.printed
        elif before.id not in between:
            between.add(before.id)
            waiting.extend(before.inputs)
    return numbers, words, [each for each in example.in_order if each.id in between]
