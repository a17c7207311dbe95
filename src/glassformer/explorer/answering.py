"""What the model says, read off the trace's own outputs, so that an edit changes it.

A classifier's probabilities are the softmax of the recorded logits. What a model that writes would
put in each place is the softmax of the logits recorded there, after the text that it was given:
for a translator, the recorded target.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from glassformer.decoding import Greedy
from glassformer.explorer.opened import OpenTrace
from glassformer.explorer.references import cell_ref
from glassformer.explorer.schemas import Answer, AnswerPosition, Choice
from glassformer.tasks import Model
from glassformer.tasks.reading import count_unknown
from glassformer.text import Tokenizer
from glassformer.trace import Step
from glassformer.trace.render.matrices import shape_text

__all__ = ["answer_of"]

MOST_CHOICES = 5
MOST_CLASSES = 20
MOST_CONTINUED = 40
"""Tokens of a continuation."""
NO_ANSWER = "—"
"""Where an edit left no chances: NaN and infinite logits have no best one."""


def answer_of(opened: OpenTrace) -> Answer:
    """The answer of a trace, worked out once."""
    if opened.answer is None:
        opened.answer = _answer(opened)
    return opened.answer


def _answer(opened: OpenTrace) -> Answer:
    output = next(iter(opened.trace.outputs.values()))
    model = opened.loaded
    if model is None or opened.task == "module":
        shapes = [shape_text(step.shape) for step in opened.trace.outputs.values()]
        return Answer(task="module", text=", ".join(shapes), output=output.number)
    said = _class(model, output) if opened.task == "classify" else _written(opened, model, output)
    unknown, total = count_unknown(model.checkpoint, opened.text)
    return said.model_copy(update={"n_tokens": total, "n_unknown": unknown})


def _class(model: Model, output: Step) -> Answer:
    chances = _softmax(output.view.array[0])
    if not chances.any():
        return Answer(task="classify", text=NO_ANSWER, output=output.number)
    names = model.checkpoint.labels or tuple(str(place) for place in range(len(chances)))
    classes = [
        Choice(
            text=names[place], probability=float(chances[place]), cell=cell_ref(output[0, place])
        )
        for place in _best(chances, MOST_CLASSES)
    ]
    return Answer(task="classify", text=classes[0].text, classes=classes, output=output.number)


def _written(opened: OpenTrace, model: Model, output: Step) -> Answer:
    """One position for each token that was read; the last one is what comes next."""
    tokenizer = model.checkpoint.target_tokenizer or model.checkpoint.tokenizer
    assert tokenizer is not None and opened.reading is not None
    read = [int(id_) for id_ in opened.reading.arguments[-1][0]]
    chances = _softmax(output.view.array[0])
    positions = [
        _position(tokenizer, output, place, chances[place], read) for place in range(len(read))
    ]
    best = [int(row.argmax()) for row in chances]
    continuation = None
    if opened.task == "generate":
        text = tokenizer.decode(best[-1:])
        if not opened.edits:
            said = model.generate(opened.text, max_new=MOST_CONTINUED, search=Greedy())
            continuation = said.text
    else:
        end = tokenizer.special.end
        text = tokenizer.decode(best[: best.index(end)] if end in best else best)
    if not chances[-1 if opened.task == "generate" else slice(None)].any(axis=-1).all():
        text = NO_ANSWER
    return Answer(
        task=opened.task,
        text=text,
        continuation=continuation,
        positions=positions,
        output=output.number,
    )


def _position(
    tokenizer: Tokenizer,
    output: Step,
    place: int,
    chances: npt.NDArray[np.float64],
    read: list[int],
) -> AnswerPosition:
    best = _best(chances, MOST_CHOICES)
    names = tokenizer.display_tokens(best)
    following = tokenizer.display_tokens(read[place + 1 : place + 2])
    return AnswerPosition(
        after=tokenizer.display_tokens([read[place]])[0],
        chosen=following[0] if following else None,
        choices=[
            Choice(text=name, probability=float(chances[id_]), cell=cell_ref(output[0, place, id_]))
            for name, id_ in zip(names, best, strict=True)
        ],
    )


def _best(chances: npt.NDArray[np.float64], most: int) -> list[int]:
    return [int(place) for place in np.argsort(-chances, kind="stable")[:most]]


def _softmax(logits: npt.NDArray[np.generic]) -> npt.NDArray[np.float64]:
    """Over the last axis; numbers that an edit made infinite or NaN give no chance."""
    values = np.asarray(logits, dtype=np.float64)
    with np.errstate(all="ignore"):
        powers = np.exp(values - values.max(axis=-1, keepdims=True))
        chances: npt.NDArray[np.float64] = powers / powers.sum(axis=-1, keepdims=True)
    return np.nan_to_num(chances, nan=0.0)
