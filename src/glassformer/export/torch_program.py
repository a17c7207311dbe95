"""Models as torch.export programs: one file that runs without our code.

program = torch.export.load("model.pt2").module()
"""

from pathlib import Path

import torch
from torch import Tensor
from torch.export import Dim

from glassformer.checkpoint import Checkpoint
from glassformer.errors import ExportError
from glassformer.export.compatibility import agreement, padded, probe_ids, traced
from glassformer.nn import ModelConfig

FILE = "model.pt2"


def check(config: ModelConfig) -> None:
    """Refuse a model that does not read texts, or reads texts of one length only."""
    if config.architecture in ("attention", "image_classifier", "recommender"):
        raise ExportError(
            "there is no torch export for the architecture {architecture}",
            architecture=config.architecture,
        )
    if config.output.flattened:
        raise ExportError("there is no torch export for a flattened output layer")


def write(checkpoint: Checkpoint, folder: Path) -> None:
    """Trace one pass over a batch, for any batch size and length."""
    model, config = checkpoint.model, checkpoint.config
    batch, length = Dim("batch"), Dim("length", max=config.max_len)
    shape = {0: batch, 1: length}
    shapes = {"ids": shape, "is_token": shape}
    if config.architecture == "seq2seq":
        target = {0: batch, 1: Dim("target", max=config.max_len)}
        shapes = {"source": shape, "target": target, "source_is_token": shape}
    arguments = _inputs(checkpoint, 3)
    with traced():
        program = torch.export.export(model, (), arguments, dynamic_shapes=shapes)
    torch.export.save(program, folder / FILE)


def verify(checkpoint: Checkpoint, folder: Path) -> str:
    """Load the file and compare logits; returns the result in words, raises if they differ."""
    program = torch.export.load(folder / FILE).module()
    differences = []
    for n in (2, 5):
        inputs = _inputs(checkpoint, n)
        with torch.inference_mode():
            ours, theirs = checkpoint.model(**inputs), program(**inputs)
        differences.append(float((ours - theirs).abs().max() / ours.abs().max()))
    return agreement("torch.export", differences, 1e-5)


def _inputs(checkpoint: Checkpoint, n: int) -> dict[str, Tensor]:
    ids, is_token = padded(probe_ids(checkpoint, n + 1)[1:])
    if checkpoint.config.architecture != "seq2seq":
        return {"ids": ids, "is_token": is_token}
    target = ids[:, : max(2, ids.size(1) // 2)].contiguous()
    return {"source": ids, "target": target, "source_is_token": is_token}
