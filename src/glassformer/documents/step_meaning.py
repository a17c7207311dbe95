"""“What is this?”: two sentences on a step or a number, with the words and numbers of the run.

    meaning(trace["encoder.blocks.0.attention.scores"], "en").text
    meaning(trace["…scores"][0, 3, 2], "zh").text

What a step is for is said only where its role is known (`step_roles`); of any other step, what it
computes. The sentences follow from the trace alone, so an edited trace has other ones.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from glassformer.documents.attention_meaning import ATTENTION
from glassformer.documents.layer_meaning import LAYERS
from glassformer.documents.meaning_phrases import Phrasing, Tokens, UntoldError, digits
from glassformer.documents.renderer import meaning_of, words_in
from glassformer.documents.step_roles import floats, role_of
from glassformer.language import Bilingual, Language, words
from glassformer.tracing import Cell, Step
from glassformer.tracing.capture.memory import Index
from glassformer.tracing.explanation import Card

_TEXTS = words(__name__)
_SENTENCES = ATTENTION | LAYERS
_MOST_SUMMED = 4_096
"""Terms of the longest sum in which the largest is searched for."""
_PAPER = "https://arxiv.org/html/1706.03762v7#"


class LessonAnchor(NamedTuple):
    """A step of a lesson, from 1."""

    lesson: str
    step: int


@dataclass(frozen=True, slots=True)
class PaperPlace:
    """A section of “Attention Is All You Need”."""

    section: str

    @property
    def address(self) -> str:
        """`#S3.SS2.SSS1` is section 3.2.1."""
        parts = enumerate(self.section.split("."), start=1)
        return _PAPER + ".".join(f"{'S' * depth}{number}" for depth, number in parts)


_IN_PAPER = {
    role: section
    for section, roles in {
        "3.1": "residual norm",
        "3.2.1": "queries keys values packed paired scores scaled weights context",
        "3.2.2": "joined output",
        "3.2.3": "masked",
        "3.3": "hidden activated contracted",
        "3.4": "embedding logits probabilities",
        "3.5": "positions embedded",
    }.items()
    for role in roles.split()
}
LESSONS_ON = {
    "queries": ("illustrated", 2), "keys": ("illustrated", 3), "values": ("illustrated", 4),
    "scores": ("illustrated", 5), "scaled": ("illustrated", 6), "weights": ("illustrated", 7),
    "context": ("illustrated", 9), "masked": ("masked", 7), "joined": ("multi-head", 12),
    "output": ("multi-head", 13), "embedding": ("by-hand", 2), "positions": ("by-hand", 3),
    "embedded": ("by-hand", 4), "residual": ("by-hand", 14), "norm": ("by-hand", 15),
    "hidden": ("by-hand", 16), "activated": ("by-hand", 16), "contracted": ("by-hand", 16),
    "logits": ("by-hand", 27), "probabilities": ("by-hand", 28), "pooled": ("classifier", 5),
    "total": ("classifier", 5),
}  # fmt: skip
"""The lesson that explains a role, and the number of its step, from 1."""


@dataclass(frozen=True, slots=True)
class Meaning:
    """What a step or a number is for."""

    role: str
    text: str
    """Two sentences."""
    lesson: LessonAnchor | None
    paper: PaperPlace | None


def title_of(step: Step) -> Bilingual | None:
    """What a step's role is called; None for given numbers and plain operations."""
    return _TEXTS.get(f"title {role_of(step)}")


def operation_title(step: Step) -> Bilingual | None:
    """What a step without a role does or holds: “masking”, “token ids”; None if that is unknown."""
    role = role_of(step)
    if role == "input" and _token_ids(step) is not None:
        return _TEXTS["input ids"]
    if role != "operation":
        return None
    sources = [o.step for o in step.operands if o.step is not None and o.step.view.numel > 1]
    if step.op == "mul" and len(sources) == 1 and role_of(sources[0]) == "embedding":
        return _TEXTS["operation embedding"]
    english, chinese = _operator(Phrasing("en"), step), _operator(Phrasing("zh"), step)
    return None if chinese == step.op.strip("_") else Bilingual(en=english, zh=chinese)


def meaning(what: Step | Cell, language: Language, lead: Index | None = None) -> Meaning:
    """What a step, of which a slice is shown, or a number of it is for."""
    step = what.step if isinstance(what, Cell) else what
    role, phrasing = role_of(step), Phrasing(language)
    if isinstance(what, Cell):
        text = _cell_text(phrasing, role, what)
    else:
        n_lead = max(0, len(step.shape) - 2)
        lead = (0,) * n_lead if lead is None else lead
        text = _step_text(phrasing, role, step, lead)
        if by_hand := sum(index[: len(lead)] == lead for index in step.pinned):
            key = "operation by hand one" if by_hand == 1 else "operation by hand"
            text += phrasing(key, count=by_hand)
    lesson = LessonAnchor(*LESSONS_ON[role]) if role in LESSONS_ON else None
    return Meaning(role, text, lesson, PaperPlace(_IN_PAPER[role]) if role in _IN_PAPER else None)


def _step_text(say: Phrasing, role: str, step: Step, lead: Index) -> str:
    if not step.view.numel:
        return say("operation empty")
    if role in _SENTENCES and _is_finite(step, lead):
        with suppress(UntoldError):
            return _SENTENCES[role][0](say, step, lead)
    return _plain_step(say, role, step)


def _is_finite(step: Step, lead: Index) -> bool:
    """Sentences compare numbers: an edit may leave NaN. A mask's −∞ is expected."""
    return not np.isnan(floats(step.view, lead)).any()


def _cell_text(say: Phrasing, role: str, cell: Cell) -> str:
    step, index = cell.step, cell.index
    if index in step.pinned:
        return say("operation edited", value=digits(cell.value))
    if role in _SENTENCES and _is_finite(step, index[:-2]):
        with suppress(UntoldError):
            return _SENTENCES[role][1](say, step, index)
    return _plain_cell(say, role, cell)


# --- given numbers and plain operations ---


def _plain_step(say: Phrasing, role: str, step: Step) -> str:
    numbers = say.numbers(step.view.array)
    if role == "input" and (tokens := _token_ids(step)) is not None:
        place = tokens.speaking
        id_ = int(step.view.array.reshape(-1)[place])
        row = say.token(tokens, place)
        return say("input step tokens", count=tokens.count, row=row, id=id_)
    if role in ("parameter", "input", "constant"):
        return say(f"{role} step", numbers=numbers)
    if step.is_view:
        source, _ = step.view.owner((0,) * len(step.shape))
        return say("operation view", source=step.trace.naming.short(source), numbers=numbers)
    fields: dict[str, object] = {"op": _operator(say, step), "operands": _operands(say, step)}
    if not fields["operands"]:
        return say("operation step alone", **fields, numbers=numbers)
    if str(step.dtype) == "torch.bool":
        true = int(floats(step.view).sum())
        return say("operation step truth", **fields, count=step.view.numel, true=true)
    return say("operation step", **fields, numbers=numbers)


def _token_ids(step: Step) -> Tokens | None:
    """The tokens of a text whose ids an input is."""
    labels = step.labels[-1] if step.shape and not step.dtype.is_floating_point else None
    is_one_text = labels is not None and step.view.numel == len(labels)
    return Tokens(labels, len(labels)) if labels is not None and is_one_text else None


def _operator(say: Phrasing, step: Step) -> str:
    op = step.op.strip("_")
    return say.get(f"operator {op}") or meaning_of(words_in(say.language), op) or op


def _operands(say: Phrasing, step: Step) -> str:
    names = [o.argument if o.step is None else step.trace.naming.short(o.step)
             for o in step.operands]  # fmt: skip
    return say.listed(list(dict.fromkeys(names)))


def _plain_cell(say: Phrasing, role: str, cell: Cell) -> str:
    step, value = cell.step, digits(cell.value)
    if isinstance(cell.value, bool):
        value = say["operation true" if cell.value else "operation false"]
    if role == "input" and (tokens := _token_ids(step)) is not None:
        return say("input cell token", row=say.token(tokens, cell.index[-1]), id=int(cell.value))
    if role in ("parameter", "input", "constant"):
        return say(f"{role} cell", value=value)
    fields = {"op": _operator(say, step), "operands": _operands(say, step), "value": value}
    if not fields["operands"]:
        return say("operation cell alone", **fields)
    card = Card(cell)
    if card.is_copy:
        return say("operation cell copy", value=value, source=card.formula)
    if card.expression is None or not 1 < len(card.terms) <= _MOST_SUMMED:
        return say("operation cell", **fields)
    parts = card.terms.values
    fields["count"] = f"{len(parts):,}"
    if not np.count_nonzero(parts):
        return say("operation cell zero", **fields)
    return say("operation cell sum", **fields, part=digits(parts[int(np.argmax(np.abs(parts)))]))
