"""Images as tokens: a digit cut into patches, read by the same encoder that reads words."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import as_file, files
from typing import Any

import numpy as np
import torch
from torch import nn

from glassformer.claims.specimens import permutation
from glassformer.colours import Scale
from glassformer.documents.parts import Figure, Table
from glassformer.lessons.figures.sheet import (
    ColouredNumbers,
    FigurePart,
    FigureSection,
    Label,
    MatrixFigure,
    TableFigure,
)
from glassformer.lessons.lesson import (
    LessonStep,
    Parts,
    Speaker,
    formula,
    number,
    percent,
    points,
)
from glassformer.lessons.lesson_steps import heat_map
from glassformer.nn import ImageClassifier
from glassformer.nn.attention import set_attention
from glassformer.nn.tensors import Float, Tensor
from glassformer.picture import Box, Canvas, Picture
from glassformer.tasks import load
from glassformer.tracing import Trace, trace

CHOICES: dict[str, tuple[str, ...]] = {"digit": ("3", "0", "5")}
_SIDE = 4
"""Patches along a side of the image."""
_PATCH = 2
"""Pixels along a side of a patch."""
_LAYER = 0
_FOLDER = files(__package__)


class _PatchReader(nn.Module):
    """The classifier with the softmax that turns its scores into probabilities."""

    def __init__(self, model: ImageClassifier) -> None:
        super().__init__()
        self.model = model

    def forward(self, images: Float[Tensor, "B C Y X"]) -> Float[Tensor, "B N"]:
        logits = self.model(images)
        probabilities = torch.softmax(logits, dim=-1)
        return probabilities


@lru_cache(maxsize=1)
def classifier() -> _PatchReader:
    """The shipped classifier of digits: its folder lies beside this module."""
    with as_file(_FOLDER / "digits") as folder:
        module = load(folder).module
    assert isinstance(module, ImageClassifier)
    set_attention(module.eval(), "written")
    return _PatchReader(module)


@lru_cache(maxsize=1)
def stored_scores() -> dict[str, Any]:
    """What was measured after training."""
    about: dict[str, Any] = json.loads((_FOLDER / "digits" / "config.json").read_text("utf-8"))
    scores: dict[str, Any] = about["about"]["scores"]
    return scores


@lru_cache(maxsize=1)
def _stored() -> dict[str, Any]:
    """One test image of each digit, by examples/digit_samples.py."""
    found: dict[str, Any] = json.loads((_FOLDER / "image_patches.json").read_text("utf-8"))
    return found


def image(digit: str) -> Float[Tensor, "1 1 Y X"]:
    """A test image of a digit."""
    pixels = torch.tensor(_stored()["samples"][digit]["pixels"], dtype=torch.float32) / 16
    return pixels.view(1, 1, _SIDE * _PATCH, _SIDE * _PATCH)


@torch.no_grad()
def shares(images: Float[Tensor, "B C Y X"]) -> Float[Tensor, "B N"]:
    found: Tensor = classifier()(images)
    return found.double()


def patch(images: Float[Tensor, "B C Y X"], number: int) -> Float[Tensor, "B C P P"]:
    """A view of one patch, counted in reading order."""
    row, column = divmod(number, _SIDE)
    rows = slice(row * _PATCH, (row + 1) * _PATCH)
    return images[..., rows, column * _PATCH : (column + 1) * _PATCH]


def shuffled(pixels: Float[Tensor, "1 1 Y X"]) -> Float[Tensor, "1 1 Y X"]:
    """The same patches in another order."""
    mixed = pixels.clone()
    for place, source in enumerate(permutation(_SIDE**2).tolist()):
        patch(mixed, place).copy_(patch(pixels, source))
    return mixed


@dataclass(frozen=True)
class ReadDigit:
    """A digit, and the trace of the classifier over it."""

    digit: str
    pixels: Float[Tensor, "1 1 Y X"]
    run: Trace

    @property
    def answer(self) -> int:
        return int(self.run["probabilities"].value[0].argmax())

    @property
    def share(self) -> float:
        return float(self.run["probabilities"].value[0].max())

    @property
    def fullest(self) -> int:
        """The patch with the most ink."""
        inks = [float(patch(self.pixels, at).sum()) for at in range(_SIDE**2)]
        return max(range(len(inks)), key=inks.__getitem__)


def steps(say: Speaker, *, digit: str = "3") -> Iterator[LessonStep]:
    pixels = image(digit)
    read = ReadDigit(digit, pixels, trace(classifier(), pixels))
    yield say.step("inputs", "cut", _cut(read, say))
    yield say.step("embedded", "vectors", _vectors(read, say))
    yield say.step("weights", "attention", _attention(read, say))
    yield say.step("probabilities", "answer", _answer(read, say))
    yield say.step("order", "order", _order(read, say))
    yield say.step("ablation", "occlusion", _occlusion(read, say))


def _cut(read: ReadDigit, say: Speaker) -> Parts:
    yield say(
        "cut", digit=read.digit, pixels=_SIDE * _PATCH, patches=_SIDE**2, side=_PATCH,
        numbers=_PATCH**2,
    )  # fmt: skip
    yield Figure("patches", patches_figure(read.pixels, say("cut figure")))
    places = _counted(_SIDE * _PATCH)
    yield heat_map(
        read.run["images"], say, title=say("pixels caption"), rows=places, columns=places
    )


def _counted(count: int) -> list[str]:
    return [str(at + 1) for at in range(count)]


def _vectors(read: ReadDigit, say: Speaker) -> Parts:
    at = read.fullest
    vectors = read.run["model.encoder.embedding.vectors"]
    chosen = vectors[0, at, 0]
    summed = read.run["model.encoder.summed"][0, at, 0]
    facts = {
        "patch": at + 1, "row": at // _SIDE + 1, "column": at % _SIDE + 1,
        "numbers": _PATCH**2, "width": vectors.shape[-1],
        "value": chosen, "sum": summed,
        "pixels": say.listed(list(map(number, patch(read.pixels, at).flatten()))),
    }  # fmt: skip
    yield say("vectors", **facts)
    yield formula(chosen)
    yield say("position", **facts)
    yield formula(summed)


def _square(written: Sequence[str]) -> Table:
    """One entry per patch, laid out as the picture is."""
    rows = tuple((str(at + 1), *written[at * _SIDE : (at + 1) * _SIDE]) for at in range(_SIDE))
    return Table("", ("", *_counted(_SIDE)), rows)


def _attention(read: ReadDigit, say: Speaker) -> Parts:
    at, weights = read.fullest, read.run[f"model.encoder.blocks.{_LAYER}.attention.weights"]
    row = weights.value[0, 0, at]
    most = int(row.argmax())
    chosen = weights[0, 0, at, most]
    yield say(
        "attention", patch=at + 1, most=most + 1, weight=percent(chosen),
        equal=percent(1 / _SIDE**2),
    )  # fmt: skip
    grid = ColouredNumbers(row.double().view(_SIDE, _SIDE).numpy(), Scale("probability"))
    drawing = grid_figure(read.pixels, grid, say("weights figure"), marked=at, write=percent)
    yield Figure("weights", drawing, _square(list(map(percent, row))))
    yield formula(chosen)


def _answer(read: ReadDigit, say: Speaker) -> Parts:
    probabilities, logits = read.run["probabilities"], read.run["model.logits"].value[0]
    rows = (
        (str(place), number(logits[place]), percent(probabilities.value[0, place]))
        for place in probabilities.value[0].argsort(descending=True)[:3].tolist()
    )
    facts = {
        "digit": read.digit, "answer": read.answer, "percent": percent(read.share),
        "accuracy": percent(stored_scores()["test"]["accuracy"]), "count": _stored()["n_test"],
    }  # fmt: skip
    key = "answer right" if str(read.answer) == read.digit else "answer wrong"
    yield say("answer", **facts)
    yield say.table(rows, "digit", "logit", "probability")
    yield formula(probabilities[0, read.answer])
    yield say(key, **facts)


def _order(read: ReadDigit, say: Speaker) -> Parts:
    """Shuffle the patches: the same parts in another order."""
    mixed = shuffled(read.pixels)
    found = shares(mixed)[0]
    key = "order same" if int(found.argmax()) == read.answer else "order changes"
    yield say(
        key, answer=read.answer, before=percent(read.share), then=percent(found[read.answer]),
        other=int(found.argmax()), other_share=percent(found.max()),
    )  # fmt: skip
    yield Figure("shuffled", patches_figure(mixed, say("order figure")))


def covered(read: ReadDigit) -> list[float]:
    """The probability of the answer when each patch in turn is blank."""
    copies = read.pixels.repeat(_SIDE**2, 1, 1, 1)
    for at in range(_SIDE**2):
        patch(copies[at : at + 1], at).zero_()
    return [float(share) for share in shares(copies)[:, read.answer]]


def _occlusion(read: ReadDigit, say: Speaker) -> Parts:
    found = covered(read)
    changes = torch.tensor([share - read.share for share in found], dtype=torch.float64)
    most = int(changes.abs().argmax())
    yield say(
        "occlusion", answer=read.answer, most=most + 1, then=percent(found[most]),
        before=percent(read.share),
    )  # fmt: skip
    largest = float(changes.abs().max()) or 1.0
    grid = ColouredNumbers(changes.view(_SIDE, _SIDE).numpy(), Scale("signed", largest))
    drawing = grid_figure(read.pixels, grid, say("occlusion figure"), marked=most, write=points)
    yield Figure("occlusion", drawing, _square(list(map(points, changes))))
    yield say("moral")


# --- an image, drawn ----------------------------------------------------------------------------


class _Pixels(FigurePart):
    """An image or a patch: dark on light, as on paper, in both themes."""

    def __init__(self, pixels: Float[Tensor, "1 1 Y X"], side: float) -> None:
        super().__init__(pixels.size(-1) * side, pixels.size(-2) * side)
        self._pixels, self._side = pixels[0, 0], side

    def pixel(self, row: int, column: int, size: int = 1) -> Box:
        side = self._side
        return Box(
            self.box.left + column * side, self.box.top + row * side, size * side, size * side
        )

    def patch(self, number: int) -> FigureSection:
        row, column = divmod(number, _SIDE)
        return FigureSection(lambda: self.pixel(row * _PATCH, column * _PATCH, _PATCH))

    def draw(self, canvas: Canvas) -> None:
        for (row, column), value in np.ndenumerate(self._pixels.numpy()):
            shade = round(245 - 225 * float(value))
            canvas.fill(self.pixel(row, column), f"#{shade:02X}{shade:02X}{shade:02X}", corner=0)


def patches_figure(pixels: Float[Tensor, "1 1 Y X"], title: str) -> Picture:
    """An image with the cuts between its patches, and the patches as a numbered sequence."""
    table, sequence = TableFigure(50), TableFigure(16, 2)
    whole = table.put(_Pixels(pixels, 26), 0, 0)
    for at in range(_SIDE**2):
        table.frame(whole.patch(at), "query", by=0, corner=0)
        row, column = divmod(at, 2 * _SIDE)
        cut = sequence.put(_Pixels(patch(pixels, at), 15), 2 * row, column)
        sequence.frame(cut, "query", by=1, corner=3)
        sequence.put(Label(str(at + 1), "ink", 12), 2 * row + 1, column)
    table.put(sequence, 0, 1)
    return table.drawing(title)


def grid_figure(
    pixels: Float[Tensor, "1 1 Y X"], numbers: ColouredNumbers, title: str, *, marked: int,
    write: Callable[[float], str],
) -> Picture:  # fmt: skip
    """The image beside one number per patch; the marked patch is framed in both."""
    table = TableFigure(40)
    whole = table.put(_Pixels(pixels, 26), 0, 0)
    beside = table.put(MatrixFigure(numbers, "line", cell=(50, 50), write=write), 0, 1)
    for section in (whole.patch(marked), beside.cell(*divmod(marked, _SIDE))):
        table.frame(section, "query", by=1, corner=3)
    return table.drawing(title)
