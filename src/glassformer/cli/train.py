"""`glassformer train`: a training run."""

from typing import Annotated

from cyclopts import Parameter

__all__ = ["train"]

_HELP = """A recipe, then any of

- `--out DIR`: the run folder (runs/RECIPE unless given)
- `--resume`: go on where the folder's run stopped
- `--config FILE`: settings from a TOML file, or from a run folder's config.json
- `--plot`: draw the run into its folder
- `--watch`: show the run on a local page as it goes: loss, score, and how attention changes
- `--section.key VALUE`: one setting
- `--text FILE`, `--pairs FILE`, or `--csv FILE --text-column NAME --label-column NAME`: your own
  data, for the recipes text, pairs and csv

`glassformer recipes` lists the recipes, `glassformer recipes NAME` all settings of one.
"""


def train(
    *recipe: Annotated[str, Parameter(allow_leading_hyphen=True, help=_HELP)],
) -> None:
    """Train a model by a recipe; the result is one JSON object."""
    from glassformer.cli.watching import watch
    from glassformer.training.command import execute

    execute(recipe, watch)
