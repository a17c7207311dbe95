"""Random worked examples, correct or with one planted mistake, computed by plain numpy.

Nothing here uses the formula language or the audit's own arithmetic: `right` computes a small
Transformer step by step, `PLANTS` are mistakes as an author would make them.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Values = dict[str, Array]

DECIMALS = {
    "query": 3, "key": 3, "value": 3, "scores": 4, "scaled": 4, "weights": 4, "context": 4,
    "hidden": 3, "total": 3, "stats": 4, "normed": 3, "positions": 4, "masked": 2,
    "masked_weights": 4, "proportions": 3, "few": 1, "pooled": 3, "heads": 3, "first": 3,
    "losses": 4, "squares": 3,
}  # fmt: skip

FORMULAS = {
    "query": "x @ w_query",
    "key": "x @ w_key",
    "value": "x @ w_value",
    "scores": "query @ transpose(key)",
    "scaled": "scores / sqrt(columns(key))",
    "weights": "softmax(scaled)",
    "context": "weights @ value",
    "hidden": "relu(context @ w_hidden + bias)",
    "total": "hidden + x",
    "stats": "stack(mean(total, axis=1), std(total, axis=1))",
    "normed": "(total - stats[:, 0:1]) / (stats[:, 1:2] + 0.001)",
    "positions": "sinusoids(range(5), 6)",
    "masked": "mask(scaled, causal(5))",
    "masked_weights": "softmax(mask(scaled, causal(5)))",
    "proportions": "softmax(logits)",
    "few": "softmax(logits)",
    "pooled": "mean(total, axis=0)",
    "heads": "concat(query, value)",
    "first": "query[:, 0:2] @ transpose(key[:, 0:2])",
    "losses": "log(1 + exp(logits))",
    "squares": "sum(total^2)",
}


def softmax(x: Array, axis: int = -1) -> Array:
    powers = np.exp(x - x.max(axis=axis, keepdims=True))
    return np.asarray(powers / powers.sum(axis=axis, keepdims=True))


def sinusoids(
    *,
    each_own_index: bool = False,
    plain_index: bool = False,
    only_sine: bool = False,
    first: int = 0,
) -> Array:
    table = np.zeros((5, 6))
    for p in range(5):
        for i in range(6):
            index = i / 2 if plain_index else i if each_own_index else i // 2
            angle = (p + first) / 10000 ** (2 * index / 6)
            table[p, i] = np.sin(angle) if i % 2 == 0 or only_sine else np.cos(angle)
    return table


CAUSAL = np.tril(np.ones((5, 5), dtype=bool))


def givens(seed: int) -> Values:
    random = np.random.default_rng(seed)

    def matrix(*shape: int) -> Array:
        return random.integers(-99, 100, size=shape) / 100

    return {
        "x": matrix(5, 6) + 1.5,
        "w_query": matrix(6, 4), "w_key": matrix(6, 4), "w_value": matrix(6, 4),
        "w_hidden": matrix(4, 6), "bias": matrix(6),
        "logits": matrix(6) * 2,
    }  # fmt: skip


def compute(name: str, v: Values) -> Array:
    """The right value of a step from the values before it."""
    match name:
        case "query" | "key" | "value":
            return v["x"] @ v[f"w_{name}"]
        case "scores":
            return v["query"] @ v["key"].T
        case "scaled":
            return v["scores"] / 2.0
        case "weights":
            return softmax(v["scaled"])
        case "context":
            return v["weights"] @ v["value"]
        case "hidden":
            return np.asarray(np.maximum(v["context"] @ v["w_hidden"] + v["bias"], 0))
        case "total":
            return v["hidden"] + v["x"]
        case "stats":
            return np.stack([v["total"].mean(1), v["total"].std(1)], axis=1)
        case "normed":
            return (v["total"] - v["stats"][:, :1]) / (v["stats"][:, 1:] + 0.001)
        case "positions":
            return sinusoids()
        case "masked":
            return np.where(CAUSAL, v["scaled"], -np.inf)
        case "masked_weights":
            return softmax(np.where(CAUSAL, v["scaled"], -np.inf))
        case "proportions" | "few":
            return softmax(v["logits"])
        case "pooled":
            return np.asarray(v["total"].mean(0))
        case "heads":
            return np.hstack([v["query"], v["value"]])
        case "first":
            return v["query"][:, :2] @ v["key"][:, :2].T
        case "losses":
            return np.asarray(np.log(1 + np.exp(v["logits"])))
        case "squares":
            return np.asarray((v["total"] ** 2).sum(-1))
    raise AssertionError(name)


@dataclass(frozen=True)
class Plant:
    """A mistake: its kind, its step, and what it computes from the values before it."""

    kind: str
    step: str
    commit: Callable[[Values], Array]


def _window(v: Values) -> Array:
    total = v["total"]
    std = [total[i : i + 2].std() for i in range(len(total))]
    return np.stack([total.mean(1), std], axis=1)


def _fitted(v: Values) -> Array:
    weights = softmax(v["logits"]) * 10
    low = np.floor(weights)
    for j in np.argsort(-(weights - low), kind="stable")[: round(10 - low.sum())]:
        low[j] += 1
    return np.asarray(low / 10)


def _cut(values: Array) -> Array:
    return np.trunc(np.round(values * 1000, 6)) / 1000


def _with(array: Array, at: Any, value: Any) -> Array:
    changed = array.copy()
    changed[at] = value
    return changed


def _swap_digits(v: Values) -> Array:
    right = np.round(v["x"] @ v["w_key"], 3)
    for at in np.ndindex(right.shape):
        text = f"{right[at]:.3f}"
        if text[-1] != text[-2]:
            return _with(right, at, float(text[:-2] + text[-1] + text[-2]))
    raise AssertionError("no two different digits")


PLANTS = (
    Plant("pasted", "value", lambda v: v["query"]),
    Plant("divisor", "scaled", lambda v: v["scores"] / np.sqrt(6)),
    Plant("divisor", "scaled", lambda v: v["scores"] / 4),
    Plant("divisor", "scaled", lambda v: v["scores"]),
    Plant("divisor", "pooled", lambda v: v["total"].sum(0) / 6),
    Plant("inverse", "scaled", lambda v: v["scores"] * 2),
    Plant("power", "losses", lambda v: np.log(1 + 10 ** v["logits"])),
    Plant("no_power", "squares", lambda v: v["total"].sum(-1)),
    Plant("no_power", "squares", lambda v: (2 * v["total"]).sum(-1)),
    Plant("axis", "weights", lambda v: softmax(v["scaled"], axis=0)),
    Plant("exchanged", "scores", lambda v: v["key"] @ v["query"].T),
    Plant(
        "transposed",
        "masked_weights",
        lambda v: softmax(np.where(CAUSAL, v["scaled"].T, -np.inf)),
    ),
    Plant("sum_for_mean", "pooled", lambda v: v["total"].sum(0)),
    Plant("max_for_mean", "pooled", lambda v: v["total"].max(0)),
    Plant("base", "losses", lambda v: np.log10(1 + np.exp(v["logits"]))),
    Plant("joined", "heads", lambda v: np.hstack([v["value"], v["query"]])),
    Plant("slice", "first", lambda v: v["query"][:, :2] @ v["key"][:, 2:].T),
    Plant("slice", "first", lambda v: v["query"][:, 2:] @ v["key"][:, 2:].T),
    Plant("twice", "total", lambda v: v["hidden"] + 2 * v["x"]),
    Plant("late_mask", "masked_weights", lambda v: np.tril(softmax(v["scaled"]))),
    Plant(
        "other_activation",
        "hidden",
        lambda v: np.abs(v["context"] @ v["w_hidden"] + v["bias"]),
    ),
    Plant("sine", "positions", lambda v: sinusoids()[:, [1, 0, 3, 2, 5, 4]]),
    Plant(
        "sample",
        "stats",
        lambda v: np.stack([v["total"].mean(1), v["total"].std(1, ddof=1)], 1),
    ),
    Plant(
        "geometric",
        "stats",
        lambda v: np.stack([np.exp(np.log(v["total"]).mean(1)), v["total"].std(1)], 1),
    ),
    Plant("rows", "stats", _window),
    Plant("rows", "context", lambda v: (v["weights"] @ v["value"])[[0, 2, 1, 3, 4]]),
    Plant("zero_mask", "masked", lambda v: np.where(CAUSAL, v["scaled"], 0.0)),
    Plant("zero_mask", "masked_weights", lambda v: softmax(np.where(CAUSAL, v["scaled"], 0.0))),
    Plant("triangle", "masked", lambda v: np.where(CAUSAL.T, v["scaled"], -np.inf)),
    Plant("no_mask", "masked_weights", lambda v: softmax(v["scaled"])),
    Plant("sine", "positions", lambda v: sinusoids(only_sine=True)),
    Plant("index", "positions", lambda v: sinusoids(each_own_index=True)),
    Plant("index", "positions", lambda v: sinusoids(plain_index=True)),
    Plant("joined", "positions", lambda v: sinusoids()[:, [0, 2, 4, 1, 3, 5]]),
    Plant("from_one", "positions", lambda v: sinusoids(first=1)),
    Plant("no_exp", "proportions", lambda v: v["logits"] / v["logits"].sum()),
    Plant("operand", "key", lambda v: v["x"] @ v["w_value"]),
    Plant("rounding", "scaled", lambda v: np.round(v["scores"], 1) / 2),
    Plant("rounding", "context", lambda v: np.round(v["weights"], 1) @ v["value"]),
    Plant("fitted", "few", _fitted),
    Plant("cut_off", "query", lambda v: _cut(v["x"] @ v["w_query"])),
    Plant("factor", "context", lambda v: v["value"]),
    Plant("term", "total", lambda v: v["hidden"]),
    Plant("sign", "total", lambda v: v["hidden"] - v["x"]),
    Plant("root", "stats", lambda v: np.stack([v["total"].mean(1), v["total"].var(1)], 1)),
    Plant("activation", "hidden", lambda v: v["context"] @ v["w_hidden"] + v["bias"]),
    Plant("sign_lost", "key", lambda v: -(v["x"] @ v["w_key"])),
    Plant("point", "query", lambda v: v["x"] @ v["w_query"] * 10),
    Plant("digits", "key", _swap_digits),
    Plant("not_softmax", "proportions", lambda v: softmax(v["logits"])[::-1] * 0.9 + 0.001),
)  # fmt: skip


def make(seed: int, plant: Plant | None = None, *, carry_rounded: bool = True) -> dict[str, Any]:
    """An example file; with `carry_rounded` its author continues with the printed digits."""
    values = givens(seed)
    steps: list[dict[str, Any]] = [
        {"id": name, "printed": value.tolist()} for name, value in values.items()
    ]
    for name, decimals in DECIMALS.items():
        wrong = plant is not None and plant.step == name
        value = plant.commit(values) if plant is not None and wrong else compute(name, values)
        with np.errstate(invalid="ignore"):
            printed = np.round(value, decimals)
        # An author continues with a mistake as printed.
        values[name] = printed if carry_rounded or wrong else value
        steps.append(
            {
                "id": name,
                "formula": FORMULAS[name],
                "printed": _cells(printed),
                "decimals": decimals,
            }
        )
    return {"title": "made at random", "steps": steps}


def _cells(values: Array) -> Any:
    if values.ndim:
        return [_cells(value) for value in values]
    return "-inf" if np.isneginf(values) else float(values)


def text(data: dict[str, Any]) -> str:
    return json.dumps(data)
