"""`glassformer train`: a training run."""

from typing import Annotated

from cyclopts import Parameter

__all__ = ["train"]


def train(*arguments: Annotated[str, Parameter(allow_leading_hyphen=True, show=False)]) -> None:
    """Train a model by a recipe; the result is one JSON object.

    glassformer train RECIPE [--out DIR] [--resume] [--config FILE] [--plot] [--watch]
    [--section.key VALUE …]

    The run folder (runs/RECIPE unless given) keeps the config, the metrics, states to resume from
    and the trained model. `glassformer recipes` lists the recipes, `glassformer recipes NAME` all
    settings of one. `--watch` shows the run on a local page as it goes: loss, score, and how
    attention changes. On your own data: `train text --text FILE`, and
    `train csv --csv FILE --text-column NAME --label-column NAME`.
    """
    from glassformer.cli.watching import watch
    from glassformer.training.command import execute

    execute(arguments, watch)
