"""The card of a trained model (README.md of its folder): from what, how good, how made."""

from collections.abc import Mapping
from typing import Any

from torch import nn

from glassformer.nn import describe

_TITLES = {
    "hardware": "Hardware",
    "train_seconds": "Seconds in training steps",
    "seconds": "Seconds in all",
    "seed": "Seed",
    "steps": "Updates",
    "kept_step": "Weights as after update",
    "parameters": "Parameters",
    "training_examples": "Training examples",
    "glassformer": "Glassformer",
    "torch": "PyTorch",
}


def model_card(about: Mapping[str, Any], model: nn.Module) -> str:
    """Markdown with a YAML head, from the facts of a run."""
    facts = "".join(
        f"- {title}: {_number(about[name])}\n" for name, title in _TITLES.items() if name in about
    )
    return (
        f"---\nlibrary_name: glassformer\ntags: [{about['recipe']}]\n---\n\n"
        f"# {about['recipe']}\n\n"
        f"## Data\n\n{_data(about)}\n"
        f"## Scores\n\n{_scores(about)}\n"
        f"## How it was made\n\n```\n{about['command']}\n```\n\n{facts}\n"
        f"## Parts\n\n```\n{describe(model)}\n```\n"
    )


def _data(about: Mapping[str, Any]) -> str:
    lines = [about.get("data", "")]
    for name, title in (("licence", "Licence"), ("cite", "Cite")):
        if about.get(name):
            lines.append(f"{title}: {about[name]}.")
    return "\n\n".join(line for line in lines if line) + "\n"


def _scores(about: Mapping[str, Any]) -> str:
    """A table by part and measure, then the signatures without which BLEU says little."""
    rows = ["| data | measure | score |", "| --- | --- | --- |"]
    for part, values in about.get("scores", {}).items():
        rows += [f"| {part} | {name} | {value:.4f} |" for name, value in values.items()]
    signatures = [f"{name}: `{text}`" for name, text in about.get("signatures", {}).items()]
    return "\n".join(rows) + "\n" + "".join(f"\n{line}\n" for line in signatures)


def _number(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)
