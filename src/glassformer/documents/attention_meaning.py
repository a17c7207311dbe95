"""What the steps of attention are for, from queries to context, with the run's words and numbers.

Each function takes a step with its slice (the places of the axes before the last two), or the index
of one number, and answers two sentences.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from glassformer.documents.meaning_phrases import (
    Phrasing,
    Row,
    Tokens,
    digits,
    largest_terms,
    percent,
    tokens_along,
    tokens_at,
)
from glassformer.documents.step_roles import (
    attention_of,
    attention_reading,
    floats,
    role_of,
    stages_of,
)
from glassformer.tracing import Step
from glassformer.tracing.attention_structure import Attention
from glassformer.tracing.capture.memory import Index, View
from glassformer.tracing.capture.operator_calls import LINEAR_MAPS


@dataclass(frozen=True, slots=True)
class _Slice:
    """One head of one attention: its weights, who may look at whom, and the names of both."""

    steps: Attention
    lead: Index
    weights: Row
    hidden: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]
    asking: Tokens
    asked: Tokens

    def allowed(self, row: int) -> list[int]:
        """The keys that a query may look at."""
        return [int(place) for place in np.flatnonzero(~self.hidden[row])]

    @property
    def example(self) -> int:
        """The row for an example: with the largest weight, among those that have a choice."""
        choice = [len(self.allowed(row)) > 1 and bool(self.weights[row].any())
                  for row in range(len(self.weights))]  # fmt: skip
        rows = [row for row, has in enumerate(choice) if has] or list(range(len(self.weights)))
        return max(rows, key=lambda row: (round(float(self.weights[row].max()), 6), row))

    def best(self, row: int) -> int:
        """The key that a query attends to most."""
        return int(np.argmax(self.weights[row]))


def _slice(step: Step, lead: Index) -> _Slice | None:
    found = attention_of(step)
    if found is None or len(found.weights.shape) < 2:
        return None
    return _Slice(
        found, lead, floats(found.weights.view, lead), found.hidden(lead),
        tokens_at(found.scores, -2), tokens_at(found.scores, -1),
    )  # fmt: skip


# --- queries, keys, values ---


def projection(p: Phrasing, step: Step, lead: Index) -> str:
    """Queries, keys or values."""
    role = role_of(step)
    found = attention_reading(step)
    key = f"{role} step"
    if step.op not in LINEAR_MAPS:
        key = f"{role} step plain"
    elif found is not None and found.is_cross:
        key = f"{role} step cross"
    shared = 1 if found is None else _heads_sharing(found, step)
    sides = {} if found is None else _sides(p, found)
    return p.say(key, **sides, said=vectors(p, step, lead, shared), bias=plus_bias(p, step))


def _sides(p: Phrasing, found: Attention) -> dict[str, object]:
    """What asks and what is asked in cross-attention, with its first and last word."""
    scores = found.scores
    return {
        "target": p.side("target", tokens_at(scores, -2)),
        "source": p.side("source", tokens_at(scores, -1)),
    }


def _heads_sharing(found: Attention, step: Step) -> int:
    """How many heads a projection is divided among afterwards."""
    each = found.context.shape[-1] if role_of(step) == "values" else found.scores_width
    return step.shape[-1] // each if step.shape[-1] % each == 0 else 1


def plus_bias(p: Phrasing, step: Step) -> str:
    return p.plain("sum plus") if has_bias(step) else ""


def has_bias(step: Step) -> bool:
    return step.op == "addmm" or any(operand.argument == "bias" for operand in step.operands)


def row_name(p: Phrasing, step: Step, index: Index) -> str:
    """The token that a number belongs to."""
    axis, tokens = tokens_along(step)
    return p.token(tokens, 0 if axis is None else index[axis])


def vectors(p: Phrasing, step: Step, lead: Index, heads: int = 1) -> str:
    """One sentence on the vectors of a step: that of an example, or all if they are one number."""
    axis, tokens = tokens_along(step)
    rows = rows_of(step, lead, axis)
    if rows.shape[-1] == 1 and len(rows) > 1:
        return p.one_number(tokens, rows[:, 0])
    place = tokens.speaking
    return p.one_vector(tokens, place, rows[place], heads)


def rows_of(step: Step, lead: Index, axis: int | None) -> Row:
    """The vectors of a slice, one for each token."""
    values = floats(step.view)
    if axis is None:
        return values.reshape(-1, values.shape[-1])[:1]
    at = tuple(
        slice(None) if a in (axis, values.ndim - 1) else (lead[a] if a < len(lead) else 0)
        for a in range(values.ndim)
    )
    found: Row = values[at]
    return found


def projection_cell(p: Phrasing, step: Step, index: Index) -> str:
    return p.say(
        f"{role_of(step)} cell", place=index[-1] + 1, row=row_name(p, step, index),
        value=digits(step.view.array[index]),
    )  # fmt: skip


def packed(p: Phrasing, step: Step, lead: Index) -> str:
    return p.say("packed step", width=step.shape[-1], said=vectors(p, step, lead))


def packed_cell(p: Phrasing, step: Step, index: Index) -> str:
    """As queries, keys or values, where the trace knows which part a number belongs to."""
    part, place = step.trace.naming.seat(step, index)
    found = [s for s in ("queries", "keys", "values") if s in stages_of(part)]
    row, value = row_name(p, step, index), digits(step.view.array[index])
    if part is step or len(found) != 1:
        width = step.shape[-1]
        return p.say("packed cell", place=index[-1] + 1, width=width, row=row, value=value)
    said = p.say(f"{found[0]} cell", place=place[-1] + 1, row=row, value=value)
    return p.in_head(part, place[:-2], said) if len(place) > 3 else said


def rotated(p: Phrasing, step: Step, lead: Index) -> str:
    found = [kind for kind in ("queries", "keys") if f"{kind}_rotated" in stages_of(step)]
    kind = p.plain(f"rotated {found[0] if len(found) == 1 else 'both'}")
    said = p.in_head(step, lead, vectors(p, step, lead))
    return p.say("rotated step", kind=kind, said=said)


def rotated_cell(p: Phrasing, step: Step, index: Index) -> str:
    parts = [float(operand.view.array[index]) for operand in step.operands]
    return p.say(
        "rotated cell", place=index[-1] + 1, row=row_name(p, step, index),
        value=digits(step.view.array[index]), cosine=digits(parts[0]), sine=digits(parts[1]),
    )  # fmt: skip


# --- scores ---


def scores(p: Phrasing, step: Step, lead: Index) -> str | None:
    head = _slice(step, lead)
    if head is None:
        return None
    row = head.example
    allowed = head.allowed(row)
    name = p.token(head.asking, row)
    pronoun = p.attends(p.plain("it"), head.asked, head.weights[row], allowed)
    key = "scores asks" if len(allowed) == head.asked.count else "scores asks some"
    if not allowed:
        said = p.say("scores nothing", row=name)
    else:
        values = floats(step.view, lead)[row]
        answers = p.answers(head.asked, values, allowed)
        said = p.say(key, row=name, answers=answers, attends=pronoun)
    said = p.in_head(step, lead, said)
    width = head.steps.scores_width
    if head.steps.is_cross:
        return p.say("scores step cross", **_sides(p, head.steps), width=width, said=said)
    return p.say("scores step one" if width == 1 else "scores step", width=width, said=said)


def scores_cell(p: Phrasing, step: Step, index: Index) -> str | None:
    head = _slice(step, index[:-2])
    if head is None:
        return None
    fields = _pair(p, head, index) | {"value": digits(step.view.array[index])}
    if head.hidden[index[-2:]]:
        return p.say("scores cell hidden", **fields)
    row = floats(step.view, index[:-1])
    rank = _rank(p, head, row, index)
    return p.say("scores cell", **fields, rank=rank, share=_share(head, index))


def _pair(p: Phrasing, head: _Slice, index: Index) -> dict[str, object]:
    row, column = index[-2:]
    return {"row": p.token(head.asking, row), "column": p.token(head.asked, column)}


def _share(head: _Slice, index: Index) -> str:
    return percent(float(head.weights[index[-2:]]))


def _rank(p: Phrasing, head: _Slice, row: Row, index: Index) -> str:
    return p.rank(lambda place: p.token(head.asked, place), row, head.allowed(index[-2]), index[-1])


def scaled(p: Phrasing, step: Step, lead: Index) -> str | None:
    """The scores before and after; the factor where the operator was given one number."""
    head, before = _slice(step, lead), _before(step)
    if head is None or before is None:
        return None
    at = (*lead, head.example, head.best(head.example))
    factor = _factor(step)
    key = "other" if factor is None else "same" if factor == 1 else step.op
    return p.say(
        f"scaled {key}", **_pair(p, head, at), before=digits(before.array[at]),
        value=digits(step.view.array[at]), factor=_written(factor, head.steps.scores_width),
    )  # fmt: skip


def _written(factor: float | None, width: int) -> str:
    """A factor; as the root of the width of a head where it is that."""
    if factor is None:
        return ""
    roots = {f"√{width}": width**0.5, f"1/√{width}": width**-0.5}
    name = next((name for name, root in roots.items() if np.isclose(factor, root, rtol=1e-5)), "")
    return f"{name} = {digits(factor)}" if name and factor != 1 else digits(factor)


def _factor(step: Step) -> float | None:
    """The one number that the scores are divided by or multiplied with."""
    if step.call is None or step.op not in ("div", "mul"):
        return None
    other = step.call.bound.get("other")
    if isinstance(other, View):
        return float(floats(other).reshape(-1)[0]) if other.numel == 1 else None
    return float(other) if isinstance(other, int | float) else None


def _before(step: Step) -> View | None:
    """The scores that a scaling or a mask was given."""
    for operand in step.operands:
        if operand.view.shape == step.shape and operand.view.dtype.is_floating_point:
            return operand.view
    return None


def changed_cell(p: Phrasing, step: Step, index: Index) -> str | None:
    """A score after scaling, or with a bias."""
    head, before = _slice(step, index[:-2]), _before(step)
    if head is None or before is None:
        return None
    pair = _pair(p, head, index)
    is_hidden = head.hidden[index[-2:]]
    weight = (
        p.say("scaled no weight", **pair)
        if is_hidden
        else p.say("scaled weight", share=_share(head, index))
    )
    return p.say(
        f"{role_of(step)} cell", **pair, before=digits(before.array[index]),
        value=digits(step.view.array[index]), weight=weight,
    )  # fmt: skip


def biased(p: Phrasing, step: Step, lead: Index) -> str | None:
    head, before = _slice(step, lead), _before(step)
    if head is None or before is None:
        return None
    at = (*lead, head.example, head.best(head.example))
    values = {"before": digits(before.array[at]), "value": digits(step.view.array[at])}
    return p.say("biased step", **_pair(p, head, at), **values)


def masked(p: Phrasing, step: Step, lead: Index) -> str | None:
    head = _slice(step, lead)
    if head is None:
        return None
    if not head.hidden.any():
        return p.say("masked step none", count=head.asked.count)
    values = floats(step.view, lead)
    rows = [row for row in range(len(values)) if head.hidden[row].any()]
    row = rows[len(rows) // 2]
    seen = p.named(head.asked, head.allowed(row)) or p.plain("masked nothing")
    return p.say(
        "masked step", fill=digits(values[head.hidden].min()), count=int(head.hidden.sum()),
        total=head.hidden.size, row=p.token(head.asking, row), seen=seen,
    )  # fmt: skip


def masked_cell(p: Phrasing, step: Step, index: Index) -> str | None:
    head, before = _slice(step, index[:-2]), _before(step)
    if head is None or before is None:
        return None
    fields = _pair(p, head, index) | {"value": digits(step.view.array[index])}
    if not head.hidden[index[-2:]]:
        return p.say("masked cell", **fields, share=_share(head, index))
    row, column = index[-2:]
    later = column > row and not head.steps.is_cross and head.asking.count == head.asked.count
    key = "masked cell later" if later else "masked cell hidden"
    return p.say(key, **fields, before=digits(before.array[index]))


# --- weights and context ---


def weights(p: Phrasing, step: Step, lead: Index) -> str | None:
    head = _slice(step, lead)
    if head is None:
        return None
    row = head.example
    name = p.token(head.asking, row)
    said = p.attends(name, head.asked, head.weights[row], head.allowed(row), then=True)
    said = p.in_head(step, lead, said)
    if not head.weights[row].any():
        return p.say("weights step zero", said=said)
    if head.steps.is_cross:
        return p.say("weights step cross", **_sides(p, head.steps), said=said)
    return p.say("weights step", said=said)


def weights_cell(p: Phrasing, step: Step, index: Index) -> str | None:
    head = _slice(step, index[:-2])
    if head is None or not head.steps.context_reads_weights:
        return None
    pair = _pair(p, head, index)
    if head.hidden[index[-2:]]:
        return p.say("weights cell hidden", **pair)
    rank = _rank(p, head, head.weights[index[-2]], index)
    fields = {**pair, "share": _share(head, index), "rank": rank}
    following = index[-2] + 1
    if head.steps.is_cross and head.asking.labels is not None and following < head.asking.count:
        return p.say("weights cell writes", **fields, next=p.token(head.asking, following))
    return p.say("weights cell", **fields)


def context(p: Phrasing, step: Step, lead: Index) -> str | None:
    head = _slice(step, lead)
    if head is None or not head.steps.context_reads_weights:
        return None
    row = head.example
    name = p.token(head.asking, row)
    said = p.attends(name, head.asked, head.weights[row], head.allowed(row), then=True)
    said = p.in_head(step, lead, said)
    if head.steps.is_cross:
        return p.say("context step cross", **_sides(p, head.steps), said=said)
    return p.say("context step", said=said)


def context_cell(p: Phrasing, step: Step, index: Index) -> str | None:
    """The largest of the parts that the tokens have in a number."""
    head = _slice(step, index[:-2])
    values = step.operands[-1].view
    if head is None or not head.steps.context_reads_weights:
        return None
    if step.op == "einsum" or values.shape[:-2] != step.shape[:-2]:
        return None
    column: Row = floats(values, index[:-2])[:, index[-1]]
    shares = head.weights[index[-2]]
    if len(column) != len(shares):
        return None
    parts = shares * column
    allowed = head.allowed(index[-2])
    largest = largest_terms(parts)
    top = largest[0]
    fields: dict[str, object] = {
        "place": index[-1] + 1, "row": p.token(head.asking, index[-2]),
        "value": digits(step.view.array[index]), "count": len(allowed),
    }  # fmt: skip
    factors = {"weight": digits(shares[top]), "factor": digits(column[top])}
    if len(allowed) == 1:
        alone = p.token(head.asked, allowed[0])
        return p.say("context cell one", **fields, **factors, column=alone)
    if not parts.any():
        return p.say("context cell zero", **fields)
    key = "context cell" if len(largest) == 1 else "context cell tied"
    whose = p.named(head.asked, largest)
    return p.say(key, **fields, **factors, part=digits(parts[top]), column=whose)


StepSentence = Callable[[Phrasing, Step, Index], str | None]
ATTENTION: dict[str, tuple[StepSentence, StepSentence]] = {
    **dict.fromkeys(("queries", "keys", "values"), (projection, projection_cell)),
    "packed": (packed, packed_cell),
    "rotated": (rotated, rotated_cell),
    "scores": (scores, scores_cell),
    "scaled": (scaled, changed_cell),
    "masked": (masked, masked_cell),
    "biased": (biased, changed_cell),
    "weights": (weights, weights_cell),
    "context": (context, context_cell),
}
"""For each role the sentences of a slice of a step, and of a number of it."""
