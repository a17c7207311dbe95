"""`glassformer run`: what a model is for, on texts from the command line or lines from stdin."""

from typing import Annotated

from cyclopts import Parameter

from glassformer.cli.run_lines import lines_of, print_answers, stream_answers
from glassformer.cli.run_options import RunOptions

_NONE = RunOptions()


def run(
    model: str,
    /,
    *texts: str,
    as_json: Annotated[bool, Parameter(name="--json", negative=())] = False,
    batch_size: int = 32,
    weights: str = "float32",
    options: RunOptions = _NONE,
) -> None:
    """Classify, translate, continue or recommend; lines of stdin if no text is given."""
    from glassformer.checkpoint import find

    find(model)  # a wrong name is answered without waiting for torch

    from glassformer.decoding.fast.workers import check_batch_size
    from glassformer.tasks import load
    from glassformer.tasks.answers import check_options

    check_batch_size(batch_size)
    loaded = load(model, weights=weights)  # type: ignore[arg-type]  # checked there
    given = options.given()
    check_options(loaded, given)
    if loaded.task == "generate" and not as_json and given.get("n_samples", 1) == 1:
        stream_answers(loaded, lines_of(texts), given)
    else:
        print_answers(loaded, lines_of(texts), given, batch_size=batch_size, as_json=as_json)
