"""`glassformer explain`: the arithmetic of one number."""

import sys
from typing import Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

__all__ = ["explain"]


def explain(
    model: str,
    text: str,
    /,
    *,
    at: str,
    depth: Annotated[int, Parameter(validator=Number(gte=1))] = 1,
    terms: Annotated[int | None, Parameter(validator=Number(gte=1))] = None,
    target: str | None = None,
    as_json: Annotated[bool, Parameter(name="--json", negative=())] = False,
) -> None:
    """Show the arithmetic of one number: formula, real operands, source line.

    Parameters
    ----------
    model:
        A shipped model (toy, imdb, en-de, en-zh, shakespeare) or a model folder.
    text:
        What the model reads.
    at:
        The number: a step and its indices, such as 'logits[0,1]'. A leading index of a batch of
        one may be left out.
    depth:
        How many levels of operands to show.
    terms:
        How many terms of a long sum to show, the largest first chosen: 8, with --json 4096.
    target:
        For a translator: the target text, instead of the one it produces.
    as_json:
        Write the cell as JSON.
    """
    from glassformer.checkpoint import find

    find(model)  # a wrong name is answered without waiting for torch

    from glassformer.cli.tracing import trace_text
    from glassformer.trace.address import find_cell
    from glassformer.trace.cells import MOST_LISTED
    from glassformer.trace.formula import MOST_TERMS
    from glassformer.trace.render.data import json_text

    cell = find_cell(trace_text(model, text, target), at)
    if as_json:
        data = cell.to_dict(depth, terms or MOST_LISTED)
        sys.stdout.write(json_text(data, indent=1) + "\n")
    else:
        sys.stdout.write(cell.explain(depth, terms or MOST_TERMS) + "\n")
