"""Fused layers expanded into their steps: attention, dropout, and recurrent layers.

`scaled_dot_product_attention` is one kernel that hides its scores. The trace runs the five lines of
the textbook instead; the result differs from the kernel's only by rounding. A boolean mask is True
where a query may attend; a floating-point mask is added to the scores. `flex_attention` gets the
same five names; its user-defined functions run on all pairs of positions at once. Dropout, which
hides its random numbers, is expanded as well.

torch runs an LSTM, GRU or RNN as one operator, too. The trace runs the same arithmetic in the same
order, with a name for every gate of every time step: `layer0.t3.forget_gate`; the second direction
of a layer is `layer0.reverse`. Packed sequences of different lengths are sorted by length, so that
later time steps have fewer rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from glassformer.tracing.capture.operator_calls import Operator

Naming = Callable[[str], AbstractContextManager[None]]


def attention(
    named: Naming,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """scores, scaled, masked, weights, context; each step under its name."""
    if enable_gqa:
        groups = query.size(-3) // key.size(-3)
        with named("keys"):
            key = _repeat_heads(key, groups)
        with named("values"):
            value = _repeat_heads(value, query.size(-3) // value.size(-3))
    factor = 1 / math.sqrt(query.size(-1)) if scale is None else scale
    with named("scores"):
        scores = query @ key.transpose(-2, -1)
    with named("scaled"):
        scaled = scores * factor
    if is_causal:
        attn_mask = _causal_mask(named, query.size(-2), key.size(-2), query.device)
    if attn_mask is None:
        with named("weights"):
            weights = scaled.softmax(-1)
    else:
        with named("masked"):
            if attn_mask.dtype == torch.bool:
                masked = torch.where(attn_mask, scaled, -math.inf)
            else:
                masked = scaled + attn_mask
        with named("weights"):
            weights = torch.ops.aten._safe_softmax(masked, -1)
    if dropout_p > 0:
        with named("dropped"):
            weights = dropout(weights, dropout_p)
    with named("context"):
        return weights @ value


def flexible_attention(
    named: Naming,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    score_mod: Callable[..., Tensor],
    block_mask: tuple[Any, ...],
    scale: float,
    kernel_options: dict[str, Any],
    score_buffers: tuple[Tensor, ...] = (),
    mask_buffers: tuple[Tensor, ...] = (),
) -> tuple[Tensor, Tensor, Tensor]:
    """scores, scaled, masked, weights, context; returns each row's log-sum and maximum as well.

    `score_mod` modifies each scaled score by its position; the last part of the mask says which
    pairs may attend.
    """
    # torch's own: indexing by a position that vmap maps over.
    from torch._dynamo._trace_wrapped_higher_order_op import TransformGetItemToIndex

    groups = query.size(1) // key.size(1)
    if groups > 1:
        with named("keys"):
            key = _repeat_heads(key, groups)
        with named("values"):
            value = _repeat_heads(value, groups)
    precise = torch.promote_types(query.dtype, torch.float32)
    with named("scores"):
        scores = query.to(precise) @ key.to(precise).transpose(-2, -1)
    with named("scaled"):
        scaled = scores * scale
    with named("positions"):
        places = [torch.arange(size, device=scores.device) for size in scores.shape]
    with TransformGetItemToIndex():
        with named("score_mod"):
            changed = _on_all_pairs(score_mod, 1, len(score_buffers))(
                scaled, *places, *score_buffers
            )
        with named("mask_mod"):
            allowed = _on_all_pairs(block_mask[-1], 0, len(mask_buffers))(*places, *mask_buffers)
    with named("masked"):
        masked = torch.where(allowed, changed, -math.inf)
    with named("weights"):
        weights = torch.ops.aten._safe_softmax(masked, -1)
    with named("context"):
        context = weights.to(query.dtype) @ value.to(query.dtype)
    if not (kernel_options.get("OUTPUT_LOGSUMEXP") or kernel_options.get("OUTPUT_MAX")):
        return context, context.new_empty(0), context.new_empty(0)  # not requested
    with named("log_sum"):  # the kernel's logarithms are to base 2
        log_sum = masked.logsumexp(-1) / math.log(2)
    with named("largest_score"):
        largest = masked.amax(-1) / math.log(2)
    return context, log_sum, largest


def _on_all_pairs(
    function: Callable[..., Tensor], scores: int, buffers: int
) -> Callable[..., Tensor]:
    """A function of one score and its batch, head, query and key, vectorised over all of them."""
    for axis in (3, 2, 1, 0):
        places = [0 if axis == place else None for place in range(4)]
        function = torch.vmap(function, (*[0] * scores, *places, *[None] * buffers))
    return function


def _repeat_heads(heads: Tensor, groups: int) -> Tensor:
    """Repeat each head `groups` times, once for each query head that shares it."""
    *batch, count, length, width = heads.shape
    spread = heads.unsqueeze(-3).expand(*batch, count, groups, length, width)
    return spread.reshape(*batch, count * groups, length, width)


def _causal_mask(named: Naming, queries: int, keys: int, device: torch.device) -> Tensor:
    """Query i may attend to keys 0…i; both are counted from the start, as in the kernel."""
    everywhere = torch.ones(queries, keys, dtype=torch.bool, device=device)
    with named("causal_mask"):
        return everywhere.tril()


def dropout(x: Tensor, p: float, train: bool = True, *, in_place: bool = False) -> Tensor:
    """Dropout as a random mask of 0s and 1s, which an edit does not redraw, and a product.

    Like torch's, a dropout with p = 1 draws no random numbers, so later draws stay the same.
    """
    assert train and p > 0, "a dropout that drops nothing is not expanded"
    if p < 1:
        kept = torch.empty_like(x).bernoulli_(1 - p)
        factor = kept / (1 - p)
    else:
        factor = torch.zeros((), dtype=x.dtype, device=x.device)
    return x.mul_(factor) if in_place else x * factor


# --- recurrent layers ---

_KINDS = ("lstm", "gru", "rnn_tanh", "rnn_relu")


def is_recurrent(operator: Operator) -> bool:
    """Whether an operator is a recurrent layer over whole sequences, or a single recurrent cell."""
    return operator.name.removesuffix("_cell") in _KINDS


def recurrent(
    named: Naming, operator: Operator, args: Sequence[Any], kwargs: dict[str, Any]
) -> Any:
    """The operator's result: outputs and last states of a layer, or a cell's next state."""
    given = {**operator.defaults, **dict(zip(operator.parameters, args, strict=False)), **kwargs}
    kind = operator.name.removesuffix("_cell")
    states = tuple(given["hx"]) if kind == "lstm" else (given["hx"],)
    if operator.name == kind:
        made = _layers(named, kind, states, given)
    else:
        weights = _LayerWeights(*(given[name] for name in ("w_ih", "w_hh", "b_ih", "b_hh")))
        x = given["input"]
        gates = _step(named, "input_gates", functional.linear, x, weights.ih, weights.ih_bias)
        made = _CELLS[kind](named, gates, states, weights)
    return made if len(made) > 1 else made[0]


def _step(named: Naming, name: str, function: Callable[..., Tensor], *args: Any) -> Tensor:
    """A result under its name."""
    with named(name):
        return function(*args)


class _LayerWeights(NamedTuple):
    """The parameters of one layer in one direction."""

    ih: Tensor
    hh: Tensor
    ih_bias: Tensor | None = None
    hh_bias: Tensor | None = None
    projection: Tensor | None = None


def _layers(
    named: Naming, kind: str, states: tuple[Tensor, ...], given: dict[str, Any]
) -> tuple[Tensor, ...]:
    """All layers over a sequence, each in one or two directions."""
    packed = given.get("batch_sizes")
    batch_first = packed is None and given["batch_first"] and given["input"].ndim == 3
    x: Tensor = given["input" if packed is None else "data"]
    x = x.transpose(0, 1) if batch_first else x
    sizes: list[int] | None = None if packed is None else packed.tolist()
    directions = 2 if given["bidirectional"] else 1
    all_weights = _weights(kind, states, given)
    lasts: list[tuple[Tensor, ...]] = []
    for layer in range(given["num_layers"]):
        runs = []
        for direction in range(directions):
            place = layer * directions + direction
            before = tuple(state[place] for state in states)
            name = f"layer{layer}" + (".reverse" if direction else "")
            outputs, last = _run(named, name, kind, x, sizes, before, all_weights[place])
            runs.append(outputs)
            lasts.append(last)
        if layer == given["num_layers"] - 1:
            ends = [list(end) for end in zip(*lasts, strict=True)]
            words = ("last_hidden", "last_cell")
            final = [
                _step(named, word, torch.stack, end) for word, end in zip(words, ends, strict=False)
            ]
            joined = _joined(runs, sizes)  # gets the name of the layer's own output
            return (joined.transpose(0, 1) if batch_first else joined, *final)
        x = _step(named, f"layer{layer}.output", _joined, runs, sizes)
        if given["train"] and given["dropout"]:
            x = torch.dropout(x, given["dropout"], train=True)
    raise AssertionError("a recurrent layer has at least one layer")


def _joined(runs: list[list[Tensor]], sizes: list[int] | None) -> Tensor:
    """The outputs of all time steps, the two directions side by side."""
    joined = [torch.stack(run) if sizes is None else torch.cat(run) for run in runs]
    return joined[0] if len(joined) == 1 else torch.cat(joined, -1)


def _run(
    named: Naming,
    name: str,
    kind: str,
    x: Tensor,
    sizes: list[int] | None,
    states: tuple[Tensor, ...],
    weights: _LayerWeights,
) -> tuple[list[Tensor], tuple[Tensor, ...]]:
    """One layer in one direction: its output at each time step, and its last state.

    `sizes`: the number of packed sequences that reach each time step.
    """
    projected = _step(
        named, f"{name}.input_gates", functional.linear, x, weights.ih, weights.ih_bias
    )
    gates = projected.unbind(0) if sizes is None else projected.split(sizes)
    outputs: dict[int, Tensor] = {}
    order = range(len(gates))
    first, ended = states, list[tuple[Tensor, ...]]()
    for time in reversed(order) if name.endswith("reverse") else order:

        def at(step: str, time: int = time) -> AbstractContextManager[None]:
            return named(f"{name}.t{time}.{step}")

        if sizes is not None:
            if time == len(order) - 1 and name.endswith("reverse"):
                states = tuple(state[: sizes[-1]] for state in first)
            states = _resized(at, states, first, sizes[time], ended)
        states = _CELLS[kind](at, gates[time], states, weights)
        outputs[time] = states[0]
    if ended:  # back in the order of the sequences: those that ended last come first
        words = ("last_hidden", "last_cell")
        parts = zip(states, *reversed(ended), strict=True)
        states = tuple(
            _step(named, f"{name}.{word}", torch.cat, part)
            for word, part in zip(words, parts, strict=False)
        )
    return [outputs[time] for time in order], states


def _resized(
    named: Naming,
    states: tuple[Tensor, ...],
    first: tuple[Tensor, ...],
    size: int,
    ended: list[tuple[Tensor, ...]],
) -> tuple[Tensor, ...]:
    """The states of the sequences that have this time step; others end or begin here."""
    now = len(states[0])
    if size < now:
        ended.append(tuple(state[size:] for state in states))
        return tuple(state[:size] for state in states)
    if size > now:
        words = ("hidden_before", "cell_before")
        pairs = [(state, start[now:size]) for state, start in zip(states, first, strict=True)]
        named_pairs = zip(words, pairs, strict=False)
        return tuple(_step(named, word, torch.cat, pair) for word, pair in named_pairs)
    return states


def _weights(kind: str, states: tuple[Tensor, ...], given: dict[str, Any]) -> list[_LayerWeights]:
    """The flat list of parameters, by layer and direction."""
    projected = kind == "lstm" and states[0].size(2) != states[1].size(2)
    biases = 2 if given["has_biases"] else 0
    size = 2 + biases + projected
    found = []
    for start in range(0, len(given["params"]), size):
        part = given["params"][start : start + size]
        ih_bias, hh_bias = part[2:4] if biases else (None, None)
        projection = part[-1] if projected else None
        found.append(_LayerWeights(part[0], part[1], ih_bias, hh_bias, projection))
    return found


def _lstm(
    named: Naming, gates: Tensor, states: tuple[Tensor, ...], weights: _LayerWeights
) -> tuple[Tensor, ...]:
    """c ← f · c + i · g;  h ← o · tanh(c)."""
    step, (hidden, cell) = partial(_step, named), states
    from_hidden = step("hidden_gates", functional.linear, hidden, weights.hh, weights.hh_bias)
    both = step("gates", torch.add, from_hidden, gates)
    chosen, kept, new, shown = both.chunk(4, -1)
    chosen = step("input_gate", torch.sigmoid, chosen)
    kept = step("forget_gate", torch.sigmoid, kept)
    new = step("candidate", torch.tanh, new)
    shown = step("output_gate", torch.sigmoid, shown)
    old = step("kept_cell", torch.mul, kept, cell)
    added = step("added_cell", torch.mul, chosen, new)
    cell = step("cell", torch.add, old, added)
    squashed = step("squashed_cell", torch.tanh, cell)
    hidden = step("hidden", torch.mul, shown, squashed)
    if weights.projection is not None:
        hidden = step("projected_hidden", functional.linear, hidden, weights.projection)
    return hidden, cell


def _gru(
    named: Naming, gates: Tensor, states: tuple[Tensor, ...], weights: _LayerWeights
) -> tuple[Tensor, ...]:
    """h ← (h − n) · z + n with n = tanh(x + r · h): update gate z, reset gate r."""
    step, (hidden,) = partial(_step, named), states
    from_hidden = step("hidden_gates", functional.linear, hidden, weights.hh, weights.hh_bias)
    (r, z, n), (r_hidden, z_hidden, n_hidden) = gates.chunk(3, -1), from_hidden.chunk(3, -1)
    reset_sum = step("reset_sum", torch.add, r_hidden, r)
    reset = step("reset_gate", torch.sigmoid, reset_sum)
    update_sum = step("update_sum", torch.add, z_hidden, z)
    update = step("update_gate", torch.sigmoid, update_sum)
    let_in = step("let_in", torch.mul, n_hidden, reset)
    candidate_sum = step("candidate_sum", torch.add, n, let_in)
    candidate = step("candidate", torch.tanh, candidate_sum)
    difference = step("difference", torch.sub, hidden, candidate)
    kept = step("kept_difference", torch.mul, difference, update)
    return (step("hidden", torch.add, kept, candidate),)


def _rnn(squash: Callable[[Tensor], Tensor]) -> Callable[..., tuple[Tensor, ...]]:
    def cell(
        named: Naming, gates: Tensor, states: tuple[Tensor, ...], weights: _LayerWeights
    ) -> tuple[Tensor, ...]:
        """h ← tanh(W x + U h), or ReLU."""
        step, (hidden,) = partial(_step, named), states
        from_hidden = step("hidden_gates", functional.linear, hidden, weights.hh, weights.hh_bias)
        both = step("gates", torch.add, from_hidden, gates)
        return (step("hidden", squash, both),)

    return cell


_CELLS: dict[str, Callable[..., tuple[Tensor, ...]]] = {
    "lstm": _lstm,
    "gru": _gru,
    "rnn_tanh": _rnn(torch.tanh),
    "rnn_relu": _rnn(torch.relu),
}
