"""What the steps of attention are for, from queries to context, with the run's words and numbers.

Each function takes a step with its slice (the places of the axes before the last two), or the index
of one number, and answers two sentences.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from glassformer.documents.meaning_phrases import (
    Floats,
    Phrasing,
    Tokens,
    UntoldError,
    digits,
    has_bias,
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
    """One head of one attention: its weights, its mask, and the tokens on both sides."""

    steps: Attention
    lead: Index
    weights: Floats
    hidden: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]
    asking: Tokens
    asked: Tokens

    def allowed(self, row: int) -> list[int]:
        """The keys that a query may attend to."""
        return [int(place) for place in np.flatnonzero(~self.hidden[row])]

    @property
    def example(self) -> int:
        """The row for an example: with the largest weight, among those that have a choice.

        A word that attends to a word says more than a full stop that attends to the end.
        """
        choice = [len(self.allowed(row)) > 1 and bool(self.weights[row].any())
                  for row in range(len(self.weights))]  # fmt: skip
        rows = [row for row, has in enumerate(choice) if has] or list(range(len(self.weights)))

        def order(row: int) -> tuple[int, float, int]:
            words = self.asking.is_word(row) + self.asked.is_word(self.best(row))
            return words, round(float(self.weights[row].max()), 6), row

        return max(rows, key=order)

    def best(self, row: int) -> int:
        """The key that a query attends to most."""
        return int(np.argmax(self.weights[row]))


def _slice(step: Step, lead: Index) -> _Slice:
    found = attention_of(step)
    if found is None or len(found.weights.shape) < 2:
        raise UntoldError
    return _Slice(
        found, lead, floats(found.weights.view, lead), found.hidden(lead),
        tokens_at(found.scores, -2), tokens_at(found.scores, -1),
    )  # fmt: skip


# --- queries, keys, values ---


def projection(say: Phrasing, step: Step, lead: Index) -> str:
    """Queries, keys or values."""
    role = role_of(step)
    found = attention_reading(step)
    key = f"{role} step"
    if step.op not in LINEAR_MAPS:
        key = f"{role} step plain"
    elif found is not None and found.is_cross:
        key = f"{role} step cross"
    shared = 1 if found is None else _heads_sharing(found, step)
    sides = {} if found is None else _sides(say, found)
    return say(key, **sides, said=vectors(say, step, lead, shared), bias=plus_bias(say, step))


def _sides(say: Phrasing, found: Attention) -> dict[str, object]:
    """The two sides of cross-attention, each with its first and last word."""
    scores = found.scores
    return {
        "target": say.side("target", tokens_at(scores, -2)),
        "source": say.side("source", tokens_at(scores, -1)),
    }


def _heads_sharing(found: Attention, step: Step) -> int:
    """How many heads a projection is divided among afterwards."""
    each = found.context.shape[-1] if role_of(step) == "values" else found.scores_width
    return step.shape[-1] // each if step.shape[-1] % each == 0 else 1


def plus_bias(say: Phrasing, step: Step) -> str:
    return say["sum plus"] if has_bias(step) else ""


def vectors(say: Phrasing, step: Step, lead: Index, heads: int = 1) -> str:
    """One sentence on the vectors of a step: that of an example, or all if they are one number."""
    axis, tokens = tokens_along(step)
    rows = rows_of(step, lead, axis)
    if rows.shape[-1] == 1 and len(rows) > 1:
        return say.one_number(tokens, rows[:, 0])
    place = tokens.speaking
    return say.one_vector(tokens, place, rows[place], heads)


def rows_of(step: Step, lead: Index, axis: int | None) -> Floats:
    """The vectors of a slice, one for each token."""
    values = floats(step.view)
    if axis is None:
        return values.reshape(-1, values.shape[-1])[:1]
    at = tuple(
        slice(None) if a in (axis, values.ndim - 1) else (lead[a] if a < len(lead) else 0)
        for a in range(values.ndim)
    )
    found: Floats = values[at]
    return found


def role_cell(say: Phrasing, step: Step, index: Index) -> str:
    """What the template of the role says, where that needs nothing else."""
    return say.cell(f"{role_of(step)} cell", step, index)


def packed(say: Phrasing, step: Step, lead: Index) -> str:
    return say(f"{role_of(step)} step", width=step.shape[-1], said=vectors(say, step, lead))


def packed_cell(say: Phrasing, step: Step, index: Index) -> str:
    """As queries, keys or values, where the trace knows which part a number belongs to."""
    part, place = step.trace.naming.seat(step, index)
    found = [s for s in ("queries", "keys", "values") if s in stages_of(part)]
    if part is step or len(found) != 1:
        return role_cell(say, step, index)
    said = say.cell(f"{found[0]} cell", step, index, place=place[-1] + 1)
    return say.in_head(part, place[:-2], said) if len(place) > 3 else said


def rotated(say: Phrasing, step: Step, lead: Index) -> str:
    found = [kind for kind in ("queries", "keys") if f"{kind}_rotated" in stages_of(step)]
    kind = say[f"rotated {found[0] if len(found) == 1 else 'both'}"]
    said = say.in_head(step, lead, vectors(say, step, lead))
    return say("rotated step", kind=kind, said=said)


def rotated_cell(say: Phrasing, step: Step, index: Index) -> str:
    cosine, sine = (digits(operand.view.array[index]) for operand in step.operands[:2])
    return say.cell("rotated cell", step, index, cosine=cosine, sine=sine)


# --- scores ---


def scores(say: Phrasing, step: Step, lead: Index) -> str:
    head = _slice(step, lead)
    row = head.example
    allowed = head.allowed(row)
    name = say.token(head.asking, row)
    if not allowed:
        said = say("scores nothing", row=name)
    else:
        pronoun = say.attends(say["it"], head.asked, head.weights[row], allowed)
        answers = say.answers(head.asked, floats(step.view, lead)[row], allowed)
        key = "scores asks" if len(allowed) == head.asked.count else "scores asks some"
        said = say(key, row=name, answers=answers, attends=pronoun)
    width = head.steps.scores_width
    key = "cross" if head.steps.is_cross else "one" if width == 1 else ""
    fields = {**_sides(say, head.steps), "width": width, "said": say.in_head(step, lead, said)}
    return say(f"scores step {key}".strip(), **fields)


def scores_cell(say: Phrasing, step: Step, index: Index) -> str:
    head = _slice(step, index[:-2])
    if head.hidden[index[-2:]]:
        return say.cell("scores cell hidden", step, index, **_pair(say, head, index))
    rank = _rank(say, head, floats(step.view, index[:-1]), index)
    return say.cell("scores cell", step, index, **_pair(say, head, index), rank=rank)


def _pair(say: Phrasing, head: _Slice, index: Index) -> dict[str, str]:
    """A query, a key, and the weight between them."""
    row, column = index[-2:]
    return {
        "row": say.token(head.asking, row), "column": say.token(head.asked, column),
        "share": percent(float(head.weights[row, column])),
    }  # fmt: skip


def _rank(say: Phrasing, head: _Slice, row: Floats, index: Index) -> str:
    allowed = head.allowed(index[-2])
    return say.rank(lambda place: say.token(head.asked, place), row, allowed, index[-1])


def scaled(say: Phrasing, step: Step, lead: Index) -> str:
    """The scores before and after; the factor where the operator was given one number."""
    head, factor = _slice(step, lead), _factor(step)
    key = "other" if factor is None else "same" if factor == 1 else step.op
    return _changed(say, step, head, f"scaled {key}", _written(factor, head.steps.scores_width))


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


def _changed(say: Phrasing, step: Step, head: _Slice, key: str, factor: str = "") -> str:
    """The score of the example, before and after."""
    at = (*head.lead, head.example, head.best(head.example))
    before = digits(_before(step).array[at])
    return say.cell(key, step, at, **_pair(say, head, at), before=before, factor=factor)


def _before(step: Step) -> View:
    """The scores that a scaling or a mask was given."""
    for operand in step.operands:
        if operand.view.shape == step.shape and operand.view.dtype.is_floating_point:
            return operand.view
    raise UntoldError


def changed_cell(say: Phrasing, step: Step, index: Index) -> str:
    """A score after scaling, or with a bias."""
    head = _slice(step, index[:-2])
    pair, before = _pair(say, head, index), digits(_before(step).array[index])
    weight = say(f"scaled {'no ' if head.hidden[index[-2:]] else ''}weight", **pair)
    return say.cell(f"{role_of(step)} cell", step, index, **pair, before=before, weight=weight)


def biased(say: Phrasing, step: Step, lead: Index) -> str:
    return _changed(say, step, _slice(step, lead), "biased step")


def masked(say: Phrasing, step: Step, lead: Index) -> str:
    head = _slice(step, lead)
    if not head.hidden.any():
        return say("masked step none", count=head.asked.count)
    values = floats(step.view, lead)
    rows = [row for row in range(len(values)) if head.hidden[row].any()]
    row = rows[len(rows) // 2]
    seen = say.named(head.asked, head.allowed(row)) or say["masked nothing"]
    return say(
        "masked step", fill=digits(values[head.hidden].min()), count=int(head.hidden.sum()),
        total=head.hidden.size, row=say.token(head.asking, row), seen=seen,
    )  # fmt: skip


def masked_cell(say: Phrasing, step: Step, index: Index) -> str:
    head, (row, column) = _slice(step, index[:-2]), index[-2:]
    before = digits(_before(step).array[index])
    later = column > row and not head.steps.is_cross and head.asking.count == head.asked.count
    key = "" if not head.hidden[row, column] else "later" if later else "hidden"
    pair = _pair(say, head, index)
    return say.cell(f"masked cell {key}".strip(), step, index, **pair, before=before)


# --- weights and context ---


def weights(say: Phrasing, step: Step, lead: Index) -> str:
    head = _slice(step, lead)
    key = "cross" if head.steps.is_cross else ""
    if not head.weights[head.example].any():
        key = "zero"
    return _attending(say, step, head, f"weights step {key}".strip())


def _attending(say: Phrasing, step: Step, head: _Slice, key: str) -> str:
    """A sentence that ends with what the token of the example attends to."""
    row = head.example
    name = say.token(head.asking, row)
    said = say.attends(name, head.asked, head.weights[row], head.allowed(row), then=True)
    return say(key, **_sides(say, head.steps), said=say.in_head(step, head.lead, said))


def weights_cell(say: Phrasing, step: Step, index: Index) -> str:
    head = _read_slice(step, index[:-2])
    pair = _pair(say, head, index)
    if head.hidden[index[-2:]]:
        return say("weights cell hidden", **pair)
    rank = _rank(say, head, head.weights[index[-2]], index)
    following = index[-2] + 1
    if head.steps.is_cross and head.asking.labels is not None and following < head.asking.count:
        word = say.token(head.asking, following)
        return say("weights cell writes", **pair, rank=rank, next=word)
    return say("weights cell", **pair, rank=rank)


def _read_slice(step: Step, lead: Index) -> _Slice:
    """A slice whose weights are those that the context reads."""
    head = _slice(step, lead)
    if not head.steps.context_reads_weights:
        raise UntoldError
    return head


def context(say: Phrasing, step: Step, lead: Index) -> str:
    head = _read_slice(step, lead)
    return _attending(say, step, head, f"context step{' cross' if head.steps.is_cross else ''}")


def context_cell(say: Phrasing, step: Step, index: Index) -> str:
    """The largest of the parts that the tokens have in a number."""
    head, values = _read_slice(step, index[:-2]), step.operands[-1].view
    if step.op == "einsum" or values.shape[:-2] != step.shape[:-2]:
        raise UntoldError
    column: Floats = floats(values, index[:-2])[:, index[-1]]
    shares = head.weights[index[-2]]
    if len(column) != len(shares):
        raise UntoldError
    parts = shares * column
    allowed, largest = head.allowed(index[-2]), largest_terms(parts)
    top = largest[0]
    key = "" if len(largest) == 1 else "tied"
    if len(allowed) == 1:
        key, largest, top = "one", allowed, largest[0]
    elif not parts.any():
        key = "zero"
    return say.cell(
        f"context cell {key}".strip(), step, index, row=say.token(head.asking, index[-2]),
        count=len(allowed), weight=digits(shares[top]), factor=digits(column[top]),
        part=digits(parts[top]), column=say.named(head.asked, largest),
    )  # fmt: skip


StepSentence = Callable[[Phrasing, Step, Index], str]
ATTENTION: dict[str, tuple[StepSentence, StepSentence]] = {
    **dict.fromkeys(("queries", "keys", "values"), (projection, role_cell)),
    **dict.fromkeys(("packed", "paired"), (packed, packed_cell)),
    "rotated": (rotated, rotated_cell),
    "scores": (scores, scores_cell),
    "scaled": (scaled, changed_cell),
    "masked": (masked, masked_cell),
    "biased": (biased, changed_cell),
    "weights": (weights, weights_cell),
    "context": (context, context_cell),
}
"""For each role the sentences of a slice of a step, and of a number of it."""
