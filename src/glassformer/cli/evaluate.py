"""`glassformer evaluate`: the score of a model, with the metric's signature."""

import json
import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

__all__ = ["evaluate"]


def evaluate(
    model: str,
    /,
    *,
    data: Path | None = None,
    split: str = "test",
    device: str = "auto",
    as_json: Annotated[bool, Parameter(name="--json", negative=())] = False,
) -> None:
    """Score a model on the data that its recipe tests with.

    Parameters
    ----------
    model:
        The name of a model that ships, or a model folder.
    data:
        Where the data sets are; unless given, $GLASSFORMER_DATA, then the cache folder.
    split:
        test (every test part), validation, or one part such as test_2016_flickr.
    device:
        cpu, cuda, mps or auto.
    as_json:
        Write one JSON object a part: {"model", "split", "scores", "signatures"}.
    """
    from glassformer import checkpoint

    folder = checkpoint.find(model)  # a wrong name is answered without waiting for torch

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
