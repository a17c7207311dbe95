"""`glassformer models`: the trained models that ship."""

import json
import sys
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from glassformer.cli.output import show_size

__all__ = ["models"]

_TASKS = {
    "Classifier": "classify",
    "Seq2Seq": "translate",
    "LanguageModel": "continue",
    "MatrixFactorisation": "recommend",
}
# The measure that people ask for first, of those that a model may have.
_MEASURES = ("accuracy", "bleu", "rmse", "loss")


def models(*, as_json: Annotated[bool, Parameter(name="--json", negative=())] = False) -> None:
    """List the models that ship: what each is for, its score, its size.

    Parameters
    ----------
    as_json:
        Write one JSON object a line.
    """
    from glassformer.checkpoint import SHIPPED, shipped

    for name in shipped():
        row = _row(SHIPPED / name)
        text = f"{name:<13}{row['task']:<11}{show_size(row['bytes']):>9}  {row['metric']}"
        sys.stdout.write(f"{json.dumps(row, ensure_ascii=False) if as_json else text}\n")


def _row(folder: Path) -> dict[str, Any]:
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    about = config["about"]
    architecture = config["architectures"][0]
    return {
        "name": folder.name,
        "task": _TASKS.get(architecture, architecture),
        "metric": _metric(about) or about.get("what", ""),
        "bytes": sum(file.stat().st_size for file in folder.iterdir()),
        "parameters": about.get("parameters"),
        "data": about.get("data"),
        "licence": about.get("licence"),
    }


def _metric(about: dict[str, Any]) -> str:
    """The main measure of each test part (of validation, where there is no test part)."""
    scores: dict[str, dict[str, float]] = about.get("scores", {})
    tests = {part: values for part, values in scores.items() if part != "validation"} or scores
    found = []
    for part, values in tests.items():
        measure = next((name for name in _MEASURES if name in values), None)
        if measure is not None:
            value = f"{values[measure]:.2f}" if measure == "bleu" else f"{values[measure]:.4f}"
            found.append(f"{measure} {value} on {part}")
    return ", ".join(found)
