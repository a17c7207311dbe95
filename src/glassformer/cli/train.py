"""`glassformer train`: a training run."""

from typing import Annotated

from cyclopts import Parameter

from glassformer.training.command import HELP, execute


def train(
    *recipe: Annotated[str, Parameter(allow_leading_hyphen=True, help=HELP)],
) -> None:
    """Train a model by a recipe; the result is one JSON object."""
    from glassformer.cli.watching import watch

    execute(recipe, watch)
