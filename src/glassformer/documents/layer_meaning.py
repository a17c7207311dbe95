"""What the steps around attention are for: embeddings, sums, norms, feed-forward, the answer."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from weakref import WeakKeyDictionary

import numpy as np

from glassformer.documents.attention_meaning import (
    StepSentence,
    plus_bias,
    role_cell,
    rows_of,
)
from glassformer.documents.meaning_phrases import (
    Floats,
    Phrasing,
    Tokens,
    UntoldError,
    digits,
    largest_part,
    largest_terms,
    percent,
    span,
    tokens_along,
)
from glassformer.documents.step_roles import (
    branch_kind,
    floats,
    picked_position,
    reduced_axis,
    residual_sides,
    role_of,
)
from glassformer.tracing import Operand, Step, Trace
from glassformer.tracing.attention_structure import unmoved
from glassformer.tracing.capture.memory import Index
from glassformer.tracing.capture.operator_calls import ACTIVATIONS
from glassformer.tracing.explanation import Card
from glassformer.tracing.step_graph import writer_of

_SMOOTH = {"gelu": "GELU", "silu": "SiLU", "relu": "ReLU"}


def _operand(step: Step, *names: str) -> Operand:
    found = _optional(step, *names)
    if found is None:
        raise UntoldError
    return found


def _optional(step: Step, *names: str) -> Operand | None:
    return next((o for o in step.operands if o.argument in names), None)


def _row_index(step: Step, lead: Index, axis: int | None, place: int) -> Index:
    """The index of a token's vector in a slice."""
    return tuple(
        place if a == axis else lead[a] if a < len(lead) else 0 for a in range(len(step.shape) - 1)
    )


# --- embeddings and positions ---


def _example(say: Phrasing, step: Step, lead: Index) -> tuple[str, Floats]:
    """The token for an example, and its vector."""
    axis, tokens = tokens_along(step)
    place = tokens.speaking
    return say.token(tokens, place), rows_of(step, lead, axis)[place]


def looked_up(say: Phrasing, step: Step, lead: Index) -> str:
    """Embeddings of tokens, or of segments."""
    table, ids = _operand(step, "weight"), _operand(step, "indices")
    axis, tokens = tokens_along(step)
    if axis is None:
        raise UntoldError
    row, vector = _example(say, step, lead)
    at = _row_index(step, lead, axis, tokens.speaking)
    return say(
        f"{role_of(step)} step", entries=table.view.shape[0], row=row, id=int(ids.view.array[at]),
        width=len(vector), least=digits(vector.min()), most=digits(vector.max()),
    )  # fmt: skip


def looked_up_cell(say: Phrasing, step: Step, index: Index) -> str:
    role, id_ = role_of(step), int(_operand(step, "indices").view.array[index[:-1]])
    unnamed = role == "embedding" and tokens_along(step)[1].labels is None
    return say.cell(f"{role} cell{' position' if unnamed else ''}", step, index, id=id_)


def positions(say: Phrasing, step: Step, _lead: Index) -> str:
    count, width = (1, *step.shape)[-2:]
    words = _words_there(step, count)
    fields = {"count": count, "width": width}
    if words is None:
        return say("positions step", **fields)
    return say("positions step words", **fields, first=words[0], second=words[1])


def _words_there(step: Step, count: int) -> tuple[str, str] | None:
    """Two neighbouring words of the text that these are the positions of."""
    readers = (s for s in step.trace.steps if any(o.step is step for o in s.operands))
    for reader in readers:
        labels = tokens_along(reader)[1].labels
        if labels is not None and len(labels) == count:
            texts = [label.strip("␣") for label in labels]
            pairs = pairwise(texts)
            return next(((a, b) for a, b in pairs if a != b and (a + b).isalpha()), None)
    return None


def positions_cell(say: Phrasing, step: Step, index: Index) -> str:
    return say.cell("positions cell", step, index, nth=say.nth((0, *index)[-2] + 1))


def _word_and_place(step: Step) -> tuple[Operand, Operand]:
    """The two summands of an embedding with its position."""
    first, second = step.operands
    assert first.step is not None
    is_place = str(step.trace.naming.symbol(first.step)) == "e_pos"
    return (second, first) if is_place else (first, second)


def embedded(say: Phrasing, step: Step, lead: Index) -> str:
    axis, tokens = tokens_along(step)
    place = tokens.speaking
    token, where = (np.broadcast_to(floats(o.view), step.shape) for o in _word_and_place(step))
    at = _row_index(step, lead, axis, place)
    lengths = (digits(np.linalg.norm(side[at])) for side in (token, where))
    return say("embedded step", row=say.token(tokens, place), stream=next(lengths),
                 branch=next(lengths))  # fmt: skip


def embedded_cell(say: Phrasing, step: Step, index: Index) -> str:
    stream, branch = (
        digits(np.broadcast_to(floats(o.view), step.shape)[index]) for o in _word_and_place(step)
    )
    return say.cell("embedded cell", step, index, stream=stream, branch=branch)


# --- linear maps ---


def mapped(say: Phrasing, step: Step, lead: Index) -> str:
    """What attention or the feed-forward part adds: whose vector is the longest."""
    axis, tokens = tokens_along(step)
    lengths = np.linalg.norm(rows_of(step, lead, axis), axis=-1)
    top = int(np.argmax(lengths))
    shown = {digits(length) for length in lengths}
    if len(lengths) == 1:
        said = say("sum single", length=digits(lengths[0]))
    elif len(shown) == 1:
        said = say("sum equal", count=len(lengths), length=digits(lengths[0]))
    else:
        said = say("sum longest", row=say.token(tokens, top), length=digits(lengths[top]))
    role = role_of(step)
    key = "output step one" if role == "output" and _has_one_head(step) else f"{role} step"
    return say(key, said=said, bias=plus_bias(say, step))


def _has_one_head(step: Step) -> bool:
    """Whether the attention that a step reads has a single head."""
    contexts = [found.context for found in step.trace.found_stages.attentions]
    read = [unmoved(operand.view) for operand in step.operands]
    return any(one in read and len(one.shape) > 2 and one.shape[-3] == 1 for one in contexts)


def hidden(say: Phrasing, step: Step, lead: Index) -> str:
    """Neurons, or their gates: how many are above 0 for an example."""
    row, vector = _example(say, step, lead)
    return say(f"{role_of(step)} step", width=len(vector), row=row,
                 count=int((vector > 0).sum()), bias=plus_bias(say, step))  # fmt: skip


def hidden_cell(say: Phrasing, step: Step, index: Index) -> str:
    after = next((s.op for s in step.trace.steps if any(o.step is step for o in s.operands)), "")
    if after != "relu":
        return say.cell("hidden cell", step, index, next=largest_part(say, step, index))
    following = say("hidden passes" if step.view.array[index] > 0 else "hidden cut")
    return say.cell("hidden cell", step, index, next=following)


def router(say: Phrasing, step: Step, lead: Index) -> str:
    """Scores of experts: the best for an example."""
    row, vector = _example(say, step, lead)
    top = int(np.argmax(vector))
    value = digits(vector[top])
    return say("router step", width=len(vector), row=row, best=top + 1, value=value)


def activated(say: Phrasing, step: Step, _lead: Index) -> str:
    values = floats(step.view)
    fields = {"total": values.size, "op": _SMOOTH.get(step.op, step.op)}
    if step.op == "relu":
        return say("activated relu", **fields, zero=int((values == 0).sum()))
    key = "activated smooth" if step.op in _SMOOTH else "activated other"
    return say(key, **fields, positive=int((values > 0).sum()))


def activated_cell(say: Phrasing, step: Step, index: Index) -> str:
    assert step.op in ACTIVATIONS
    before = float(step.operands[0].view.array[index])
    following = say("activated smoothly", op=_SMOOTH.get(step.op, step.op))
    if step.op == "relu":
        following = say("activated passes" if before > 0 else "activated cut")
    return say.cell("activated cell", step, index, before=digits(before), next=following)


def joined(say: Phrasing, step: Step, _lead: Index) -> str:
    heads = _joined_heads(step)
    if heads < 2:
        raise UntoldError
    return say("joined step", heads=heads, **span(step.view.array))


def _joined_heads(step: Step) -> int:
    source = writer_of(step.operands[0].view)
    return source.shape[-3] if len(source.shape) > 2 else 0


def joined_cell(say: Phrasing, step: Step, index: Index) -> str:
    card = Card(step[index])
    if not card.is_copy:
        raise UntoldError
    key = "joined cell" if _joined_heads(step) > 1 else "joined cell one"
    return say.cell(key, step, index, source=card.formula)


# --- sums and norms ---


def residual(say: Phrasing, step: Step, lead: Index) -> str:
    sides = _sides(step)
    axis, tokens = tokens_along(step)
    if axis is None:
        raise UntoldError
    lengths = [np.linalg.norm(floats(side.view), axis=-1) for side in sides]
    shown = tuple(
        slice(None) if a == axis else place
        for a, place in enumerate(_row_index(step, lead, axis, 0))
    )
    by_token = [found[shown] for found in lengths]
    top = int(np.argmax(by_token[1]))
    kind, branch = say[f"residual {branch_kind(sides[1])}"], digits(by_token[1][top])
    if len({digits(length) for length in by_token[1]}) == 1 < tokens.count:
        return say("residual step equal", kind=kind, count=tokens.count, branch=branch)
    row, stream = say.token(tokens, top), digits(by_token[0][top])
    return say("residual step", kind=kind, row=row, stream=stream, branch=branch)


def residual_cell(say: Phrasing, step: Step, index: Index) -> str:
    stream, branch = _sides(step)
    return say.cell(
        "residual cell", step, index, kind=say[f"residual {branch_kind(branch)}"],
        stream=digits(stream.view.array[index]), branch=digits(branch.view.array[index]),
    )  # fmt: skip


def _sides(step: Step) -> tuple[Operand, Operand]:
    sides = residual_sides(step)
    if sides is None:
        raise UntoldError
    return sides


def _norm_parts(step: Step, given: Floats) -> tuple[float, float, float]:
    """Mean, standard deviation (or root mean square), and what the vector is divided by."""
    assert step.call is not None
    eps = step.call.bound.get("eps")
    epsilon = float(eps) if eps is not None else float(np.finfo(np.float32).eps)
    mean = 0.0 if "rms" in step.op else float(given.mean())
    square = float(((given - mean) ** 2).mean())
    return mean, float(np.sqrt(square)), float(np.sqrt(square + epsilon))


def _normed(step: Step) -> Floats:
    """The vectors that a norm was given."""
    return floats(_operand(step, "input").view)


def _norm_kind(step: Step) -> str:
    if _optional(step, "weight") is None:
        return "plain"
    return "scaled" if _optional(step, "bias") is None else "shifted"


def norm(say: Phrasing, step: Step, lead: Index) -> str:
    axis, tokens = tokens_along(step)
    given = _normed(step)
    place = tokens.speaking
    vector = given[_row_index(step, lead, axis, place)]
    mean, deviation, _ = _norm_parts(step, vector)
    kind = _norm_kind(step)
    after = "" if kind == "plain" else say[f"norm {kind}"]
    return say(
        "norm rms" if "rms" in step.op else "norm layer", row=say.token(tokens, place),
        after=after, mean=digits(mean), deviation=digits(deviation),
    )  # fmt: skip


def norm_cell(say: Phrasing, step: Step, index: Index) -> str:
    given = _normed(step)[index[:-1]]
    mean, deviation, divisor = _norm_parts(step, given)
    gain, shift = (
        "" if operand is None else digits(operand.view.array[index[-1]])
        for operand in (_optional(step, "weight"), _optional(step, "bias"))
    )
    key = f"norm ending {_norm_kind(step)}"
    ending = say.cell(key, step, index, gain=gain, shift=shift) if gain else ""
    shown = digits(divisor)
    if shown != digits(deviation):  # a vector of small numbers, for which ε counts
        shown = say("norm with epsilon", divisor=shown)
    return say.cell(
        "norm rms cell" if "rms" in step.op else "norm layer cell", step, index, mean=digits(mean),
        before=digits(given[index[-1]]), divisor=shown, ending=ending,
        distance=digits((given[index[-1]] - mean) / divisor),
    )  # fmt: skip


# --- the answer ---


def _answer_name(say: Phrasing, step: Step) -> Callable[[int], str]:
    """What an answer is called: its label, else its number."""
    labels = step.labels[-1]

    def name(place: int) -> str:
        if labels is None:
            return say("entry", id=place)
        return say("token", text=labels[place].strip("␣") or labels[place])

    return name


def _has_rows(step: Step) -> bool:
    """Whether there are several answers: one for each token, or for each text."""
    return len(step.shape) > 2 or (len(step.shape) == 2 and step.shape[0] > 1)


def softmax(logits: Floats) -> Floats:
    """The probabilities of logits, row by row; infinite or NaN ones have none."""
    with np.errstate(all="ignore"):
        powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
        found: Floats = powers / powers.sum(axis=-1, keepdims=True)
    return np.nan_to_num(found, nan=0.0)


def answer(say: Phrasing, step: Step, lead: Index) -> str:
    """Logits or probabilities: the best answer, of several rows that of the last."""
    role = role_of(step)
    values = floats(step.view, lead)
    row = values if values.ndim < 2 else values[-1]
    if role == "logits" and len(row) == 1:
        return say("logits step single", value=digits(row[0]))
    shares = softmax(row) if role == "logits" else row
    top = int(np.argmax(row))
    name, shown = _answer_name(say, step), digits(row[top])
    tied = [int(at) for at in np.flatnonzero(np.isclose(row, row[top], rtol=1e-6, atol=1e-6))]
    fields = {"value": shown, "share": percent(float(shares[top]))}
    if len(tied) > 1:
        said = say(f"{role} tied", **fields, answer=say.listed([name(at) for at in tied]))
    else:
        said = say(f"{role} best", **fields, answer=name(top))
    if _has_rows(step):
        tokens = tokens_along(step)[1]
        last = say.token(tokens, tokens.count - 1)
        place = "after" if _is_next(step, tokens) else "at"
        said = say(f"logits {place}", row=last, said=say.continued(said))
    return say(f"{role} step", count=len(row), said=said)


_HIDES_LATER: WeakKeyDictionary[Trace, dict[int, bool]] = WeakKeyDictionary()
"""By the number of tokens; found once, since every cell of the logits asks."""


def _is_next(step: Step, tokens: Tokens) -> bool:
    """Whether the answer at a position is the token after it: no position sees later ones."""
    known = _HIDES_LATER.setdefault(step.trace, {})
    if tokens.count not in known:
        known[tokens.count] = any(
            not found.is_cross
            and found.weights.shape[-2:] == (tokens.count, tokens.count)
            and found.hidden((0,) * (len(found.weights.shape) - 2))[
                np.triu_indices(tokens.count, 1)
            ].all()
            for found in step.trace.found_stages.attentions
        )
    return known[tokens.count]


def answer_cell(say: Phrasing, step: Step, index: Index) -> str:
    role, row = role_of(step), floats(step.view, index[:-1])
    if role == "logits" and len(row) == 1:
        return say.cell("logits cell single", step, index)
    shares, name = softmax(row) if role == "logits" else row, _answer_name(say, step)
    key = f"{role} cell"
    if _has_rows(step):
        key += " after" if _is_next(step, tokens_along(step)[1]) else " at"
    return say.cell(
        key, step, index, answer=name(index[-1]), share=percent(float(shares[index[-1]])),
        rank=say.rank(name, row, range(len(row)), index[-1]),
    )  # fmt: skip


# --- one vector for the text ---


def total(say: Phrasing, step: Step, _lead: Index) -> str:
    axis = reduced_axis(step)
    assert axis is not None
    return say("total step", count=step.operands[0].view.shape[axis], **span(step.view.array))


def total_cell(say: Phrasing, step: Step, index: Index) -> str:
    operand, axis = step.operands[0], reduced_axis(step)
    assert axis is not None and operand.step is not None
    column = floats(operand.view, index[:axis])[:, index[-1]]
    if not column.any():
        return say.cell("total cell zero", step, index, count=len(column))
    largest = largest_terms(column)
    row = say.named(tokens_along(operand.step)[1], largest)
    key, part = f"total cell{' tied' if len(largest) > 1 else ''}", digits(column[largest[0]])
    return say.cell(key, step, index, count=len(column), part=part, row=row)


def _mean_parts(step: Step, index: Index) -> tuple[float, float]:
    """The sum over the tokens, and what it is divided by."""
    operand = step.operands[0]
    if step.op == "mean":
        axis = reduced_axis(step)
        assert axis is not None
        column = floats(operand.view, index[:axis])[:, index[-1]]
        return float(column.sum()), float(len(column))
    counts = np.broadcast_to(floats(step.operands[1].view), step.shape)
    return float(operand.view.array[index]), float(counts[index])


def pooled(say: Phrasing, step: Step, _lead: Index) -> str:
    _, count = _mean_parts(step, (0,) * len(step.shape))
    return say("pooled step", count=digits(count), width=step.shape[-1], **span(step.view.array))


def pooled_cell(say: Phrasing, step: Step, index: Index) -> str:
    added, count = _mean_parts(step, index)
    return say.cell("pooled cell", step, index, total=digits(added), count=digits(count))


def _picked(say: Phrasing, step: Step) -> tuple[str, int]:
    source = next(o.step for o in step.operands if o.argument in ("input", "self", "mat1"))
    place = picked_position(step.operands)
    assert source is not None and place is not None
    tokens = tokens_along(source)[1]
    return say.token(tokens, place), tokens.count - 1


def picked(say: Phrasing, step: Step, _lead: Index) -> str:
    row, others = _picked(say, step)
    return say("picked step" if others else "picked step one", row=row, others=others)


def picked_cell(say: Phrasing, step: Step, index: Index) -> str:
    return say.cell("picked cell", step, index, row=_picked(say, step)[0])


LAYERS: dict[str, tuple[StepSentence, StepSentence]] = {
    **dict.fromkeys(("embedding", "segments"), (looked_up, looked_up_cell)),
    "positions": (positions, positions_cell),
    "embedded": (embedded, embedded_cell),
    **dict.fromkeys(("output", "contracted"), (mapped, role_cell)),
    "hidden": (hidden, hidden_cell),
    "gate": (hidden, role_cell),
    "router": (router, role_cell),
    "activated": (activated, activated_cell),
    "joined": (joined, joined_cell),
    "residual": (residual, residual_cell),
    "norm": (norm, norm_cell),
    **dict.fromkeys(("logits", "probabilities"), (answer, answer_cell)),
    "total": (total, total_cell),
    "pooled": (pooled, pooled_cell),
    "picked": (picked, picked_cell),
}
"""For each role the sentences of a slice of a step, and of a number of it."""
