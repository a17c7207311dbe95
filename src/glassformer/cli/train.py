"""`glassformer train`: a training run."""

from typing import Annotated

from cyclopts import Parameter


def train(
    *recipe: Annotated[str, Parameter(allow_leading_hyphen=True)],
) -> None:
    """Train a model by a recipe; the result is one JSON object."""
    from glassformer.cli.watching import watch
    from glassformer.training.command import execute

    execute(recipe, watch)
