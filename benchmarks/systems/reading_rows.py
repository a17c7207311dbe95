"""H: worked examples, and I: presentation."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import numpy as np
import torch

from benchmarks.systems.checked_rows import Measured, check, gap, lesson, percent, small
from examples.make_notebooks import LANGUAGES, notebook_file, notebooks
from glassformer.audit import Audit, audit, example_names, load_example
from glassformer.documents.parts import Figure, HeatMap, Table
from glassformer.lessons import switches
from glassformer.lessons.by_hand import by_hand_trace, names_of
from glassformer.lessons.course import LESSONS
from glassformer.lessons.illustrated import illustrated_trace
from glassformer.lessons.lesson import Speaker
from glassformer.lessons.training_step import two_steps
from glassformer.nn import build, count_parameters, describe, presets
from glassformer.tasks import load
from glassformer.tracing import Trace

_ROOT = Path(__file__).parents[2]


@cache
def _audit(name: str) -> Audit:
    return audit(load_example(name))


def _illustrated() -> Trace:
    return illustrated_trace(Speaker("en"))[0]


def _rounded(values: torch.Tensor, decimals: int = 1) -> list[list[float]]:
    return [[round(float(x), decimals) for x in row] for row in values]


@check("H01")
def _eight_steps() -> Measured:
    counts = _audit("illustrated").counts
    scores = _illustrated()["scores"].value[0, 0]
    said = (
        f"scores of input 1: {scores[0].tolist()}; {counts['agrees']} printed steps agree, "
        f"{counts['wrong']} is wrong (rounded weights)"
    )
    return said, scores.tolist() == [[2, 4, 4], [4, 16, 12], [4, 12, 10]] and counts["agrees"] == 10


@check("H02")
def _vector_form() -> Measured:
    run = _illustrated()
    weights, values = run["weights"].value[0, 0], run["values"].value[0, 0]
    weighted = values[:, None] * weights.T[:, :, None]
    found = gap(weighted.sum(dim=0), run["context"].value[0, 0])
    return f"{tuple(weighted.shape)}; difference {small(found)}", weighted.shape == (
        3,
        3,
        3,
    ) and found < 1e-5


@check("H03")
def _both_softmaxes() -> Measured:
    run = _illustrated()
    values, weights = run["values"].value[0, 0], run["weights"].value[0, 0]
    coarse = torch.tensor([[0.0, 0.5, 0.5], [0.0, 1.0, 0.0], [0.0, 0.9, 0.1]]) @ values
    exact = _rounded(weights @ values, 4)[0]
    said = f"output 1: {exact} exact, {_rounded(coarse)[0]} rounded"
    return said, _rounded(coarse) == [[2.0, 7.0, 1.5], [2.0, 8.0, 0.0], [2.0, 7.8, 0.3]] and exact[
        1
    ] == 6.6831


@check("H04")
def _by_hand() -> Measured:
    counts = _audit("by-hand").counts
    said = ", ".join(f"{count} {verdict}" for verdict, count in counts.items())
    return said, counts["agrees"] == 9 and counts["wrong"] == 16


@check("H05")
def _mistakes() -> Measured:
    results = [_audit(name) for name in example_names()]
    wrong = [step for result in results for step in result.results if step.verdict == "wrong"]
    named = sum(step.slip("en") is not None for step in wrong)
    return f"{named} of {len(wrong)} wrong steps in {len(results)} examples", named == len(
        wrong
    ) > 30


@check("H06")
def _masked() -> Measured:
    maps = {
        part.step.name: part.step for part in lesson("masked").parts() if isinstance(part, HeatMap)
    }
    masked = next(step for name, step in maps.items() if name.endswith("masked")).value[0]
    x = np.arange(1.0, 10.0).reshape(3, 3)
    wanted = np.where(np.tri(3) > 0, x @ x.T, -np.inf)
    right = all(np.array_equal(head.numpy(), wanted) for head in masked)
    return f"{masked.shape[0]} heads; row 2: {masked[0, 1].tolist()}", right and masked.shape[
        0
    ] == 2


@check("H07")
def _prediction() -> Measured:
    run, names = by_hand_trace(), names_of(load_example("by-hand"))
    shares = run["probabilities"].value[0]
    word = names.vocabulary[int(shares.argmax())]
    return f"“{word}” with {percent(float(shares.max()))}", word == "you" and abs(
        float(shares.sum()) - 1
    ) < 1e-5


@check("H08")
def _checker() -> Measured:
    totals: dict[str, int] = {}
    for name in example_names():
        for verdict, count in _audit(name).counts.items():
            totals[verdict] = totals.get(verdict, 0) + count
    said = f"{len(example_names())} examples: " + ", ".join(f"{n} {v}" for v, n in totals.items())
    return said, totals["agrees"] > 40 and totals["wrong"] > 30


# --- I ---


def _figures(name: str) -> list[str]:
    return [part.name for part in lesson(name).parts() if isinstance(part, Figure)]


def _drawn(wanted: dict[str, set[str]]) -> Measured:
    """Whether the lessons draw these figures."""
    missing = [
        f"{name}-{one}" for name, some in wanted.items() for one in some - set(_figures(name))
    ]
    said = "; ".join(f"{name}: {', '.join(sorted(some))}" for name, some in wanted.items())
    return said if not missing else f"missing: {', '.join(missing)}", not missing


@check("I01")
def _step_figures() -> Measured:
    figures = [part for part in lesson("illustrated").parts() if isinstance(part, Figure)]
    moving = sum(getattr(part.drawing, "beats", 0) > 0 for part in figures)
    return f"{len(figures)} figures, {moving} animated", len(figures) == 10 and moving == 9


@check("I02")
def _notebook() -> Measured:
    script = _ROOT / "examples" / "notebooks" / "illustrated.py"
    made = notebooks(script.read_text(encoding="utf-8"))
    same = [
        [cell["source"] for cell in made[language]["cells"]]
        == [
            cell["source"]
            for cell in json.loads(notebook_file(script, language).read_text("utf-8"))["cells"]
        ]
        for language in LANGUAGES
    ]
    cells = sum(cell["cell_type"] == "code" for cell in made["en"]["cells"])
    return f"{cells} cells of code ran, in {len(same)} languages", all(same) and cells > 5


@check("I03")
def _diagrams() -> Measured:
    return _drawn(
        {
            "roles": {"basic", "key-query-value"},
            "multi-head": {"reshape", "stages"},
            "heads": {"fold"},
        }
    )


@check("I04")
def _block_figures() -> Measured:
    return _drawn({"classifier": {"block", "classifier"}})


@check("I05")
def _film_figures() -> Measured:
    return _drawn({"films": {"score", "map"}})


@check("I06")
def _architecture() -> Measured:
    stages = {name for name in _figures("by-hand") if name.startswith("architecture-")}
    return ", ".join(sorted(stages)), len(stages) >= 4


@check("I07")
def _tables() -> Measured:
    steps = lesson("by-hand").steps
    shown = sum(any(isinstance(part, HeatMap | Table) for part in step.parts) for step in steps)
    return f"{len(steps)} steps, {shown} with a table", shown > 25 and "strip" in _figures(
        "by-hand"
    )


@check("I08")
def _printed_model() -> Measured:
    model = build(presets.by_hand_2024())
    tree = describe(model)
    total = f"{count_parameters(model):,}"
    return (
        f"{len(tree.splitlines())} lines, {total} parameters",
        total in tree and "encoder" in tree,
    )


@check("I09")
def _switches() -> Measured:
    steps = len(lesson("switches").steps)
    ran = sum(
        len(LESSONS["switches"].make("en", off=[name]).steps) == steps - 1
        for name in switches.SWITCHES
    )
    return f"{ran} of {len(switches.SWITCHES)} left out one at a time", ran == len(
        switches.SWITCHES
    ) == 10


@check("I10")
def _language_model() -> Measured:
    model = load("shakespeare")
    parameters = count_parameters(model.module)
    found = model.generate("ROMEO:", max_new=40)
    said = found.text.strip().splitlines()[0]
    return f"{parameters:,} parameters: “{said}”", 500_000 < parameters < 2_000_000 and len(
        found.text
    ) > 10


@check("I11")
def _gradients() -> Measured:
    both = two_steps()
    before, after = (float(run["loss"].value) for run in (both.first, both.second))
    slope = float(both.first["gradients.contract.weight"].value[0, 0])
    nudge = 1e-3
    with both.first.edit({both.first["contract.weight"][0, 0]: 0.3 + nudge}) as edited:
        measured = (float(edited["loss"].value) - before) / nudge
    said = f"loss {before:.4f} → {after:.4f}; gradient {slope:.3f}, measured {measured:.3f}"
    return said, after < before / 2 and abs(slope - measured) < 1e-3
