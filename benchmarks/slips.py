"""How well the audit names a slip: each planted in several formulas, by plain numpy.

    python -m benchmarks.slips            # the table of docs/audit.md
    python -m benchmarks.slips --details  # and what was said of each slip that got another name

Nothing here uses the formula language or the audit's own arithmetic: a case computes the right
numbers and the wrong ones as an author would. A slip counts as named right if the audit calls the
step wrong and the first cause it names is the planted one and nothing else.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from glassformer.audit import StepResult
from glassformer.audit.example_file import read_example
from glassformer.audit.judgement import audit

Array = NDArray[np.float64]
Values = dict[str, Array]
Compute = Callable[[Values], Array]

SEEDS = range(5)
SCENES = ("given", "rounded")


@dataclass(frozen=True)
class Case:
    """A slip in one formula. `says` is a word that the finding must hold."""

    slip: str
    kind: str
    formula: str
    right: Compute
    wrong: Compute
    decimals: int | None = 3
    significant: int | None = None
    says: str = ""


def softmax(x: Array) -> Array:
    powers = np.exp(x - x.max(axis=-1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=-1, keepdims=True))


def silu(x: Array) -> Array:
    return np.asarray(x / (1 + np.exp(-x)))


def gelu(x: Array) -> Array:
    return np.asarray(
        [part * 0.5 * (1 + math.erf(part / math.sqrt(2))) for part in x.ravel()]
    ).reshape(x.shape)


def relu(x: Array) -> Array:
    return np.maximum(x, 0.0)


def positions(even: Callable[[Array], Array], odd: Callable[[Array], Array]) -> Array:
    p, i = np.meshgrid(np.arange(5.0), np.arange(6), indexing="ij")
    angle = p / 10000 ** (2 * (i // 2) / 6)
    return np.where(i % 2 == 0, even(angle), odd(angle))


def interleaved(*parts: Array) -> Array:
    return np.asarray(np.stack(parts, axis=-1).reshape(*parts[0].shape[:-1], -1))


def scores(v: Values) -> Array:
    return np.asarray(v["q"] @ v["k"].T / np.sqrt(4))


def exchanged(v: Values) -> Array:
    return np.asarray(v["k"] @ v["q"].T / np.sqrt(4))


def masked(x: Array) -> Array:
    return np.where(np.tril(np.ones((5, 5), dtype=bool)), x, -np.inf)


def masked_late(x: Array) -> Array:
    return np.tril(softmax(x))


def cut(x: Array, decimals: int) -> Array:
    return np.asarray(np.trunc(np.round(x * 10.0**decimals, 6)) / 10.0**decimals)


def cut_significant(x: Array, digits: int) -> Array:
    places = digits - 1 - np.floor(np.log10(np.abs(x)))
    return np.asarray(np.trunc(np.round(x * 10.0**places, 6)) / 10.0**places)


def with_product_twice(a: Array, b: Array) -> Array:
    """One product of one entry counted twice: the largest, which would not go unseen."""
    result = a @ b
    place = np.argmax(np.abs(a[1] * b[:, 2]))
    result[1, 2] += a[1, place] * b[place, 2]
    return np.asarray(result)


def head(v: Values, columns: slice, others: slice | None = None) -> Array:
    weights = softmax(v["q"][:, columns] @ v["k"][:, columns].T)
    return weights @ v["v"][:, others or columns]


FIRST, SECOND = slice(0, 2), slice(2, 4)
_JOINED = "joined in another order"
_TURN = "joined column by column"

CASES: tuple[Case, ...] = (
    Case(
        "sine and cosine swapped throughout",
        "sine",
        "sinusoids(range(5), 6)",
        lambda _: positions(np.sin, np.cos),
        lambda _: positions(np.cos, np.sin),
        4,
        says="sine where cosine",
    ),
    Case(
        "sine and cosine swapped throughout",
        "sine",
        "stack(sin(u), cos(u))",
        lambda v: np.stack([np.sin(v["u"]), np.cos(v["u"])], -1),
        lambda v: np.stack([np.cos(v["u"]), np.sin(v["u"])], -1),
        4,
    ),
    Case(
        "sine and cosine swapped throughout",
        "sine",
        "concat(u * cos(n) - w * sin(n), u * sin(n) + w * cos(n))",
        lambda v: np.r_[
            v["u"] * np.cos(v["n"]) - v["w"] * np.sin(v["n"]),
            v["u"] * np.sin(v["n"]) + v["w"] * np.cos(v["n"]),
        ],
        lambda v: np.r_[
            v["u"] * np.sin(v["n"]) - v["w"] * np.cos(v["n"]),
            v["u"] * np.cos(v["n"]) + v["w"] * np.sin(v["n"]),
        ],
        4,
    ),
    Case(
        "queries and keys exchanged",
        "exchanged",
        "q @ transpose(k)",
        lambda v: v["q"] @ v["k"].T,
        lambda v: v["k"] @ v["q"].T,
    ),
    Case(
        "queries and keys exchanged",
        "exchanged",
        "softmax(q @ transpose(k) / sqrt(columns(k)))",
        lambda v: softmax(scores(v)),
        lambda v: softmax(exchanged(v)),
    ),
    Case(
        "queries and keys exchanged",
        "exchanged",
        "softmax(q @ transpose(k) / sqrt(columns(k))) @ v",
        lambda v: softmax(scores(v)) @ v["v"],
        lambda v: softmax(exchanged(v)) @ v["v"],
    ),
    Case(
        "heads " + _JOINED,
        "joined",
        "concat(h1, h2)",
        lambda v: np.hstack([v["h1"], v["h2"]]),
        lambda v: np.hstack([v["h2"], v["h1"]]),
        says="order 2, 1",
    ),
    Case(
        "heads " + _JOINED,
        "joined",
        "concat(h1, h2) @ wo",
        lambda v: np.hstack([v["h1"], v["h2"]]) @ v["wo"],
        lambda v: np.hstack([v["h2"], v["h1"]]) @ v["wo"],
    ),
    Case(
        "heads " + _JOINED,
        "joined",
        "concat(h1, h2, h3)",
        lambda v: np.hstack([v["h1"], v["h2"], v["h3"]]),
        lambda v: np.hstack([v["h3"], v["h1"], v["h2"]]),
        says="order 3, 1, 2",
    ),
    Case(
        "heads " + _TURN,
        "joined",
        "concat(h1, h2)",
        lambda v: np.hstack([v["h1"], v["h2"]]),
        lambda v: interleaved(v["h1"], v["h2"]),
        says="interleaved",
    ),
    Case(
        "heads " + _TURN,
        "joined",
        "concat(h1, h2) @ wo",
        lambda v: np.hstack([v["h1"], v["h2"]]) @ v["wo"],
        lambda v: interleaved(v["h1"], v["h2"]) @ v["wo"],
        says="interleaved",
    ),
    Case(
        "heads " + _TURN,
        "joined",
        "concat(h1, h2, h3)",
        lambda v: np.hstack([v["h1"], v["h2"], v["h3"]]),
        lambda v: interleaved(v["h1"], v["h2"], v["h3"]),
        says="interleaved",
    ),
    Case(
        "maximum for mean",
        "max_for_mean",
        "mean(x, axis=0)",
        lambda v: v["x"].mean(0),
        lambda v: v["x"].max(0),
    ),
    Case(
        "maximum for mean",
        "max_for_mean",
        "mean(x, axis=0) @ w1 + b",
        lambda v: v["x"].mean(0) @ v["w1"] + v["b"],
        lambda v: v["x"].max(0) @ v["w1"] + v["b"],
    ),
    Case(
        "maximum for mean",
        "max_for_mean",
        "x - mean(x, keep=1)",
        lambda v: v["x"] - v["x"].mean(1, keepdims=True),
        lambda v: v["x"] - v["x"].max(1, keepdims=True),
    ),
    Case(
        "sum for mean",
        "sum_for_mean",
        "mean(x, axis=0)",
        lambda v: v["x"].mean(0),
        lambda v: v["x"].sum(0),
    ),
    Case(
        "sum for mean",
        "sum_for_mean",
        "mean(x, axis=0) @ w1 + b",
        lambda v: v["x"].mean(0) @ v["w1"] + v["b"],
        lambda v: v["x"].sum(0) @ v["w1"] + v["b"],
    ),
    Case(
        "sum for mean",
        "sum_for_mean",
        "mean((u - w)^2)",
        lambda v: ((v["u"] - v["w"]) ** 2).mean(),
        lambda v: ((v["u"] - v["w"]) ** 2).sum(),
        4,
    ),
    Case(
        "logarithm to another base",
        "base",
        "-log(p)",
        lambda v: -np.log(v["p"]),
        lambda v: -np.log10(v["p"]),
        says="base 10",
    ),
    Case(
        "logarithm to another base",
        "base",
        "-log(p[2])",
        lambda v: -np.log(v["p"][2]),
        lambda v: -np.log2(v["p"][2]),
        4,
        says="base 2",
    ),
    Case(
        "logarithm to another base",
        "base",
        "-sum(p * log(r))",
        lambda v: -(v["p"] * np.log(v["r"])).sum(),
        lambda v: -(v["p"] * np.log2(v["r"])).sum(),
        4,
        says="base 2",
    ),
    Case(
        "logarithm to another base",
        "base",
        "log_softmax(x)",
        lambda v: np.log(softmax(v["x"])),
        lambda v: np.log10(softmax(v["x"])),
        says="base 10",
    ),
    Case(
        "|x| for ReLU",
        "other_activation",
        "relu(x @ w1 + b)",
        lambda v: relu(v["x"] @ v["w1"] + v["b"]),
        lambda v: np.abs(v["x"] @ v["w1"] + v["b"]),
        says="|x|",
    ),
    Case(
        "|x| for ReLU",
        "other_activation",
        "relu(x @ w1 + b) @ w2",
        lambda v: relu(v["x"] @ v["w1"] + v["b"]) @ v["w2"],
        lambda v: np.abs(v["x"] @ v["w1"] + v["b"]) @ v["w2"],
        says="|x|",
    ),
    Case(
        "|x| for ReLU",
        "other_activation",
        "u + relu(w)",
        lambda v: v["u"] + relu(v["w"]),
        lambda v: v["u"] + np.abs(v["w"]),
        says="|x|",
    ),
    Case(
        "GELU for SiLU",
        "other_activation",
        "silu(x @ w1)",
        lambda v: silu(v["x"] @ v["w1"]),
        lambda v: gelu(v["x"] @ v["w1"]),
        says="GELU",
    ),
    Case(
        "GELU for SiLU",
        "other_activation",
        "silu(x @ w1) * (x @ w3)",
        lambda v: silu(v["x"] @ v["w1"]) * (v["x"] @ v["w3"]),
        lambda v: gelu(v["x"] @ v["w1"]) * (v["x"] @ v["w3"]),
        says="GELU",
    ),
    Case(
        "GELU for SiLU",
        "other_activation",
        "(x * sigmoid(x)) @ w1",
        lambda v: silu(v["x"]) @ v["w1"],
        lambda v: gelu(v["x"]) @ v["w1"],
        says="GELU",
    ),
    Case(
        "mask after the softmax",
        "late_mask",
        "softmax(mask(s, causal(5)))",
        lambda v: softmax(masked(v["s"])),
        lambda v: masked_late(v["s"]),
    ),
    Case(
        "mask after the softmax",
        "late_mask",
        "softmax(mask(q @ transpose(k) / sqrt(columns(k)), causal(5)))",
        lambda v: softmax(masked(scores(v))),
        lambda v: masked_late(scores(v)),
    ),
    Case(
        "mask after the softmax",
        "late_mask",
        "softmax(mask(s, causal(5))) @ v",
        lambda v: softmax(masked(v["s"])) @ v["v"],
        lambda v: masked_late(v["s"]) @ v["v"],
    ),
    Case(
        "a term added twice",
        "twice",
        "x + y",
        lambda v: v["x"] + v["y"],
        lambda v: v["x"] + 2 * v["y"],
    ),
    Case(
        "a term added twice",
        "twice",
        "x @ w1 + b",
        lambda v: v["x"] @ v["w1"] + v["b"],
        lambda v: v["x"] @ v["w1"] + 2 * v["b"],
    ),
    Case(
        "a term added twice",
        "twice",
        "relu(x @ w1 + b) @ w2",
        lambda v: relu(v["x"] @ v["w1"] + v["b"]) @ v["w2"],
        lambda v: relu(v["x"] @ v["w1"] + 2 * v["b"]) @ v["w2"],
    ),
    Case(
        "a term added twice",
        "twice",
        "x @ w1",
        lambda v: v["x"] @ v["w1"],
        lambda v: with_product_twice(v["x"], v["w1"]),
        says="counted twice",
    ),
    Case(
        "slice of another head",
        "slice",
        "q[:, 0:2] @ transpose(k[:, 0:2])",
        lambda v: v["q"][:, FIRST] @ v["k"][:, FIRST].T,
        lambda v: v["q"][:, FIRST] @ v["k"][:, SECOND].T,
        says="k[:, 2:4]",
    ),
    Case(
        "slice of another head",
        "slice",
        "softmax(q[:, 0:2] @ transpose(k[:, 0:2])) @ v[:, 0:2]",
        lambda v: head(v, FIRST),
        lambda v: head(v, FIRST, SECOND),
        says="v[:, 2:4]",
    ),
    Case(
        "slice of another head",
        "slice",
        "x @ w1[:, 2:4]",
        lambda v: v["x"] @ v["w1"][:, SECOND],
        lambda v: v["x"] @ v["w1"][:, FIRST],
        says="w1[:, 0:2]",
    ),
    Case(
        "slices of another head throughout",
        "slice",
        "q[:, 0:2] @ transpose(k[:, 0:2])",
        lambda v: v["q"][:, FIRST] @ v["k"][:, FIRST].T,
        lambda v: v["q"][:, SECOND] @ v["k"][:, SECOND].T,
        says="and so on",
    ),
    Case(
        "slices of another head throughout",
        "slice",
        "softmax(q[:, 0:2] @ transpose(k[:, 0:2])) @ v[:, 0:2]",
        lambda v: head(v, FIRST),
        lambda v: head(v, SECOND),
        says="and so on",
    ),
    Case(
        "slices of another head throughout",
        "slice",
        "softmax(q[:, 2:4] @ transpose(k[:, 2:4])) @ v[:, 2:4]",
        lambda v: head(v, SECOND),
        lambda v: head(v, FIRST, SECOND),
        says="and so on",
    ),
    Case(
        "multiplied, not divided",
        "inverse",
        "softmax(s / 0.7)",
        lambda v: softmax(v["s"] / 0.7),
        lambda v: softmax(v["s"] * 0.7),
    ),
    Case(
        "multiplied, not divided",
        "inverse",
        "q @ transpose(k) / sqrt(columns(k))",
        scores,
        lambda v: v["q"] @ v["k"].T * 2,
    ),
    Case(
        "multiplied, not divided",
        "inverse",
        "x / sum(p)",
        lambda v: v["x"] / v["p"].sum(),
        lambda v: v["x"] * v["p"].sum(),
    ),
    Case(
        "a power of 2 or 10, not of e",
        "power",
        "exp(-mean(log(p)))",
        lambda v: np.exp(-np.log(v["p"]).mean()),
        lambda v: 2 ** -np.log(v["p"]).mean(),
        says="2 to the power",
    ),
    Case(
        "a power of 2 or 10, not of e",
        "power",
        "1 / (1 + exp(-u))",
        lambda v: 1 / (1 + np.exp(-v["u"])),
        lambda v: 1 / (1 + 10 ** -v["u"]),
        says="10 to the power",
    ),
    Case(
        "a power of 2 or 10, not of e",
        "power",
        "exp(x) / sum(exp(x), keep=1)",
        lambda v: softmax(v["x"]),
        lambda v: softmax(v["x"] * np.log(2)),
        says="2 to the power",
    ),
    Case(
        "not squared, or doubled",
        "no_power",
        "sum((u - w)^2)",
        lambda v: ((v["u"] - v["w"]) ** 2).sum(),
        lambda v: (2 * (v["u"] - v["w"])).sum(),
        says="times 2",
    ),
    Case(
        "not squared, or doubled",
        "no_power",
        "0.999 * u + 0.001 * w^2",
        lambda v: 0.999 * v["u"] + 0.001 * v["w"] ** 2,
        lambda v: 0.999 * v["u"] + 0.001 * v["w"],
        5,
        says="without the power",
    ),
    Case(
        "not squared, or doubled",
        "no_power",
        "mean((x - y)^2)",
        lambda v: ((v["x"] - v["y"]) ** 2).mean(1),
        lambda v: (v["x"] - v["y"]).mean(1),
        says="without the power",
    ),
    Case(
        "cut off, not rounded",
        "cut_off",
        "x @ w1",
        lambda v: v["x"] @ v["w1"],
        lambda v: cut(v["x"] @ v["w1"], 3),
    ),
    Case(
        "cut off, not rounded",
        "cut_off",
        "softmax(s)",
        lambda v: softmax(v["s"]),
        lambda v: cut(softmax(v["s"]), 4),
        4,
    ),
    Case(
        "cut off, not rounded",
        "cut_off",
        "std(x, axis=1)",
        lambda v: v["x"].std(1),
        lambda v: cut(v["x"].std(1), 3),
    ),
    Case(
        "cut off, not rounded",
        "cut_off",
        "x @ w1 + b",
        lambda v: v["x"] @ v["w1"] + v["b"],
        lambda v: cut_significant(v["x"] @ v["w1"] + v["b"], 4),
        None,
        4,
    ),
)


def givens(seed: int) -> Values:
    """The inputs of all formulas, with two decimals as articles print them."""
    random = np.random.default_rng(seed)

    def numbers(*shape: int) -> Array:
        return np.asarray(random.integers(-199, 200, size=shape) / 100)

    names = {
        "x": (5, 4), "y": (5, 4), "q": (5, 4), "k": (5, 4), "v": (5, 4), "s": (5, 5),
        "h1": (5, 3), "h2": (5, 3), "h3": (5, 3), "wo": (6, 4), "w1": (4, 6), "w2": (6, 4),
        "w3": (4, 6), "b": (6,), "u": (6,), "w": (6,), "n": (6,),
    }  # fmt: skip
    made = {name: numbers(*shape) for name, shape in names.items()}
    shares = np.asarray(random.integers(5, 95, size=(2, 6)) / 100)
    return {**made, "p": shares[0], "r": shares[1]}


def planted(case: Case, seed: int, scene: str) -> StepResult:
    """The audit's verdict on one planted slip.

    `rounded`: the printed inputs are themselves rounded, and the author went on with all digits.
    """
    values = givens(seed)
    used = values
    if scene == "rounded":
        noise = np.random.default_rng(seed + 1000)
        used = {
            name: value + noise.uniform(-0.00005, 0.00005, value.shape)
            for name, value in values.items()
        }
    steps: list[dict[str, object]] = []
    for name, value in values.items():
        step: dict[str, object] = {"id": name, "printed": value.tolist()}
        steps.append(step if scene == "given" else {**step, "rounded": True, "decimals": 4})
    printed = case.wrong(used)
    places: dict[str, int] = {}
    if case.decimals is not None:
        printed, places = np.round(printed, case.decimals), {"decimals": case.decimals}
    elif case.significant is not None:
        places = {"significant": case.significant}
    steps.append({"id": "judged", "formula": case.formula, "printed": printed.tolist(), **places})
    return audit(read_example(json.dumps({"steps": steps}), "planted", "planted"))["judged"]


def named_right(case: Case, result: StepResult) -> bool:
    """Whether the first cause named is the planted one, alone."""
    if result.verdict != "wrong" or not result.explanations:
        return False
    first = result.explanations[0]
    said = first.slips[0].detail.en
    return first.kinds == (case.kind,) and case.says in said


def table(seeds: Sequence[int] = SEEDS, *, details: bool = False) -> tuple[str, int, int]:
    """The table in Markdown, how many slips were named right, and of how many."""
    rows: dict[str, list[bool]] = {}
    formulas: dict[str, dict[str, None]] = {}
    for case in CASES:
        for seed in seeds:
            for scene in SCENES:
                result = planted(case, seed, scene)
                named = named_right(case, result)
                rows.setdefault(case.slip, []).append(named)
                formulas.setdefault(case.slip, {})[case.formula] = None
                if details and not named:
                    print(
                        case.slip, "|", case.formula, seed, scene, result.verdict, result.slip("en")
                    )
    lines = ["| slip | planted in | named right |", "| --- | --- | ---: |"]
    for slip, found in rows.items():
        where = ", ".join(f"`{formula}`" for formula in formulas[slip])
        name = slip.replace("|", "\\|")
        lines.append(f"| {name} | {where} | {sum(found)} of {len(found)} |")
    right, tried = sum(map(sum, rows.values())), sum(map(len, rows.values()))
    lines.append(f"| **all** | | **{right} of {tried}, {100 * right / tried:.1f} %** |")
    return "\n".join(lines), right, tried


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--details", action="store_true")
    print(table(details=parser.parse_args().details)[0])
