"""Trained models and presets: `glassformer models`, `describe`, `evaluate` and `export`.

Below them the argument MODEL and its options, for all commands that read a text.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from glassformer.cli.output import AsJson, show_size
from glassformer.language import Language, in_language, padded, spoken, words

if TYPE_CHECKING:
    from glassformer.tasks import Model

say = words("glassformer.cli.messages")

_TASKS = {
    "Classifier": "classify",
    "Seq2Seq": "translate",
    "LanguageModel": "continue",
    "MatrixFactorisation": "recommend",
}
# The measures that a model may have, the most asked-for first.
_MEASURES = ("accuracy", "bleu", "rmse", "loss")


def models(*, as_json: AsJson = False) -> None:
    """List the models that ship: what each is for, its score, its size."""
    from glassformer.checkpoint import SHIPPED, shipped

    for name in shipped():
        row = _row(SHIPPED / name, "en" if as_json else spoken())
        task = padded(say(f"models {row['task']}"), 11)
        text = f"{name:<13}{task}{show_size(row['bytes']):>9}  {row['metric']}"
        sys.stdout.write(f"{json.dumps(row, ensure_ascii=False) if as_json else text}\n")


def _row(folder: Path, language: Language) -> dict[str, Any]:
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    about = config["about"]
    architecture = config["architectures"][0]
    return {
        "name": folder.name,
        "task": _TASKS.get(architecture, architecture),
        "metric": _metric(about, language) or say["models by hand"].say(language),
        "bytes": sum(file.stat().st_size for file in folder.iterdir()),
        "parameters": about.get("parameters"),
        "data": about.get("data"),
        "licence": about.get("licence"),
    }


def _metric(about: dict[str, Any], language: Language) -> str:
    """The main measure of each test split, or of validation if there is none."""
    scores: dict[str, dict[str, float]] = about.get("scores", {})
    tests = {part: values for part, values in scores.items() if part != "validation"} or scores
    found = []
    for part, values in tests.items():
        measure = next((name for name in _MEASURES if name in values), None)
        if measure is not None:
            value = f"{values[measure]:.2f}" if measure == "bleu" else f"{values[measure]:.4f}"
            name = say[f"models measure {measure}"]
            found.append(say.both("models score", measure=name, value=value, part=part))
    return say["models comma"].say(language).join(score.say(language) for score in found)


def describe(
    preset: str,
    /,
    *,
    as_json: AsJson = False,
    **sizes: float,
) -> None:
    """Show a preset's parts with their parameter counts, without building it."""
    from glassformer.nn.presets import preset as find

    # Options arrive as floats; 4.0 means 4.
    given = {
        name.replace("-", "_"): int(value) if value.is_integer() else value
        for name, value in sizes.items()
    }
    config = find(preset, **given)
    text = json.dumps(config.to_dict(), indent=2) if as_json else config.describe()
    sys.stdout.write(text + "\n")


def evaluate(
    model: str,
    /,
    *,
    data: Path | None = None,
    split: str = "test",
    device: str = "auto",
    as_json: AsJson = False,
) -> None:
    """Score a model on the data that its recipe tests with."""
    from glassformer import checkpoint

    folder = checkpoint.find(model)  # refuses an unknown name before torch is imported

    from glassformer.training.evaluation import assess

    loaded = checkpoint.load(folder)
    for part, scores in assess(loaded, split, data=data, device=device).items():
        row = {
            "model": model,
            "split": part,
            "scores": scores.values,
            "signatures": scores.signatures,
        }
        if as_json:
            sys.stdout.write(json.dumps(row) + "\n")
            continue
        for name, value in scores.values.items():
            signature = scores.signatures.get(name, "")
            sys.stdout.write(f"{part:<18}{name:<22}{value:>9.4f}  {signature}".rstrip() + "\n")


def export(
    model: str,
    /,
    *,
    to: str,
    out: Annotated[Path, Parameter(name=["--out", "-o"])],
) -> None:
    """Write a model for another engine, and check it there."""
    from glassformer import checkpoint

    folder = checkpoint.find(model)  # refuses an unknown name before torch is imported

    from glassformer.export import export as write

    exported = write(checkpoint.load(folder), to, out, name=checkpoint.name_of(folder))
    sys.stderr.write(f"{say('export checked', found=in_language(exported.found))}\n")
    for file in exported.files:
        sys.stdout.write(f"{exported.folder / file}\n")


@Parameter(name="*")
@dataclass(frozen=True)
class ModelOptions:
    """How a model is opened."""

    ids: bool = False
    module: Annotated[Literal["glassformer"] | None, Parameter(name="--as")] = None


AS_IT_IS = ModelOptions()


def check_model(model: str) -> None:
    """Refuse an unknown name before torch is imported."""
    from glassformer.checkpoint import find

    if not Path(model).is_file():  # a checkpoint of nanoGPT or llama2.c
        find(model)


def open_model(model: str, options: ModelOptions, **more: Any) -> Model:
    """The model that the command names; `more` is passed to `load`."""
    from glassformer.tasks import load

    loaded = load(
        model,
        tokenizer="ids" if options.ids else None,
        as_glassformer=options.module is not None,
        **more,
    )
    if loaded.corpus == "digits":
        from glassformer.data.readers import digit_to_test

        loaded.samples = digit_to_test
    return loaded
