"""`glassformer export`: a model for another engine."""

import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

__all__ = ["export"]


def export(
    model: str,
    /,
    *,
    to: str,
    out: Annotated[Path, Parameter(name=["--out", "-o"])],
) -> None:
    """Write a model for another engine, and check it there.

    Parameters
    ----------
    model:
        A shipped model (toy, imdb, en-de, en-zh, shakespeare) or a model folder.
    to:
        onnx, ctranslate2, hf (a Hugging Face folder) or torch (torch.export).
    out:
        The folder to write; it must not exist yet, or be empty.
    """
    from glassformer import checkpoint

    folder = checkpoint.find(model)  # a wrong name is answered without waiting for torch

    from glassformer.export import export as write

    exported = write(checkpoint.load(folder), to, out, name=checkpoint.name_of(folder))
    sys.stderr.write(f"checked: {exported.found}\n")
    for file in exported.files:
        sys.stdout.write(f"{exported.folder / file}\n")
