"""Add a trained model to the package, in half precision and with a model card.

    python examples/ship_model.py RUN_FOLDER NAME

RUN_FOLDER is the output of `glassformer train … --out`. The figures on the card are those that the
run measured; none is entered by hand.
"""

import sys
from pathlib import Path
from typing import Any

import torch

from glassformer import checkpoint
from glassformer.nn import count_parameters

PACKAGE = Path(__file__).parent.parent / "src" / "glassformer"
MODELS = PACKAGE / "models"
FOLDERS = {"digits": PACKAGE / "lessons" / "digits"}
"""Models that a lesson needs lie beside it; all others are shipped by name."""

PURPOSES = {
    "imdb": "Says whether a film review is positive or negative.",
    "en-de": "Translates English into German: everyday sentences and captions of pictures.",
    "en-zh": "Translates English into Chinese: short everyday sentences, as well as about 29,000 "
    "pairs allow.",
    "shakespeare": "Continues a text in the manner of Shakespeare's plays, character by character.",
    "digits": "Says which digit an image of 8 by 8 pixels shows; the lesson `images` looks inside.",
}
LANGUAGES = {"imdb": "en", "en-de": "en, de", "en-zh": "en, zh", "shakespeare": "en"}


def card(name: str, about: dict[str, Any], n_parameters: int) -> str:
    lines = [
        "---",
        "library_name: glassformer",
        *([f"language: [{LANGUAGES[name]}]"] if name in LANGUAGES else []),
        "---",
        "",
        f"# {name}",
        "",
        f"{PURPOSES[name]} {n_parameters:,} parameters, stored as bfloat16.",
        "",
        f"    glassformer {'lesson images' if name in FOLDERS else f'run {name}'}"
        + ("" if name in FOLDERS else ' "…"'),
        "",
        "## Scores",
        "",
        "| set | measured |",
        "| --- | --- |",
    ]
    for split, scores in about["scores"].items():
        figures = ", ".join(f"{metric} {value:.4g}" for metric, value in scores.items())
        lines.append(f"| {split} | {figures} |")
    lines.append("")
    for metric, signature in about["signatures"].items():
        lines.append(f"{metric}: `{signature}`  ")
    lines += [
        "",
        "Measured on the float32 weights at the end of the run; the model was chosen on the",
        "validation set.",
        "",
        "## How it was made",
        "",
        f"- Data: {about['data']}.",
        f"- Licence of the data: {about['licence']}. Cite {about['cite']}.",
        f"- Command: `glassformer train {about['recipe']}`, seed {about['seed']}.",
        f"- Hardware: {about['hardware']}, torch {about['torch']}; {about['train_seconds']:.0f} s "
        f"of training, {about['steps']:,} steps.",
        "- The checksums of the data files are in config.json.",
        "",
    ]
    return "\n".join(lines)


def main() -> None:
    run, name = Path(sys.argv[1]), sys.argv[2]
    trained = checkpoint.load(run / "model" if (run / "model").is_dir() else run)
    text = card(name, trained.about, count_parameters(trained.model))
    folder = FOLDERS.get(name, MODELS / name)
    print(checkpoint.save(folder, trained, card=text, dtype=torch.bfloat16))


if __name__ == "__main__":
    main()
