"""Fused layers written out: attention and recurrent layers, as a textbook writes them.

`scaled_dot_product_attention` is one kernel that hides its scores. The trace runs the five lines of
the textbook instead; the result differs from the kernel's only by rounding. A boolean mask is True
where a query may attend; a floating-point mask is added to the scores. `flex_attention` gets the
same five names; its user-defined functions run on all pairs of positions at once.

torch runs an LSTM, GRU or RNN as one operator, too. The trace runs the same arithmetic in the same
order, with a name for every gate of every time step: `layer0.t3.forget_gate`; the second direction
of a layer is `layer0.reverse`. Packed sequences of different lengths are sorted by length, so that
later time steps have fewer rows.

Names come from this file: a step is called as the variable that its line assigns
(`source_lines.find_origin`), below what `inside` says. The line shown is that of the model.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from glassformer.tracing.capture.operator_calls import Operator

Inside = Callable[[str], AbstractContextManager[None]]
"""Puts a path before the names of the steps in its block."""


def attention(
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
    """scores, scaled, masked, weights, context."""
    keys, values = key, value
    if enable_gqa:
        keys = _repeat_heads(key, query.size(-3) // key.size(-3))
        values = _repeat_heads(value, query.size(-3) // value.size(-3))
    transposed = keys.transpose(-2, -1)
    scores = query @ transposed
    scaled = scores * (1 / math.sqrt(query.size(-1)) if scale is None else scale)
    if is_causal:
        ones = torch.ones(query.size(-2), key.size(-2), dtype=torch.bool, device=query.device)
        causal_mask = ones.tril()  # query i may attend to keys 0…i, counted from the start
        attn_mask = causal_mask
    if attn_mask is None:
        weights = scaled.softmax(-1)
    else:
        if attn_mask.dtype == torch.bool:
            masked = torch.where(attn_mask, scaled, -math.inf)
        else:
            masked = scaled + attn_mask
        weights = torch.ops.aten._safe_softmax(masked, -1)
    dropped = torch.dropout(weights, dropout_p, train=True) if dropout_p > 0 else weights
    context = dropped @ values
    return context


def flexible_attention(
    inside: Inside,
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

    keys, values = key, value
    if (groups := query.size(1) // key.size(1)) > 1:
        keys = _repeat_heads(key, groups)
        values = _repeat_heads(value, groups)
    precise = torch.promote_types(query.dtype, torch.float32)
    precise_queries = query.to(precise)
    precise_keys = keys.to(precise)
    transposed = precise_keys.transpose(-2, -1)
    scores = precise_queries @ transposed
    scaled = scores * scale
    positions = [torch.arange(size, device=scores.device) for size in scores.shape]
    with TransformGetItemToIndex():
        with inside("score_mod"):
            change = _on_all_pairs(score_mod, 1, len(score_buffers))
            changed = change(scaled, *positions, *score_buffers)
        with inside("mask_mod"):
            allow = _on_all_pairs(block_mask[-1], 0, len(mask_buffers))
            allowed = allow(*positions, *mask_buffers)
    masked = torch.where(allowed, changed, -math.inf)
    weights = torch.ops.aten._safe_softmax(masked, -1)
    rounded_weights = weights.to(query.dtype)
    rounded_values = values.to(query.dtype)
    context = rounded_weights @ rounded_values
    if not (kernel_options.get("OUTPUT_LOGSUMEXP") or kernel_options.get("OUTPUT_MAX")):
        return context, context.new_empty(0), context.new_empty(0)  # not requested
    natural_log_sum = masked.logsumexp(-1)
    log_sum = natural_log_sum / math.log(2)  # the kernel's logarithms are to base 2
    natural_maximum = masked.amax(-1)
    largest_score = natural_maximum / math.log(2)
    return context, log_sum, largest_score


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


# --- recurrent layers ---


class _LayerWeights(NamedTuple):
    """The parameters of one layer in one direction."""

    ih: Tensor
    hh: Tensor
    ih_bias: Tensor | None = None
    hh_bias: Tensor | None = None
    projection: Tensor | None = None


States = tuple[Tensor, ...]
"""The hidden state, and the cell of an LSTM."""


def _lstm(gates: Tensor, states: States, weights: _LayerWeights) -> States:
    """c ← f · c + i · g;  h ← o · tanh(c)."""
    hidden, cell = states
    hidden_gates = functional.linear(hidden, weights.hh, weights.hh_bias)
    gates = hidden_gates + gates
    chosen, kept, new, shown = gates.chunk(4, -1)
    input_gate = torch.sigmoid(chosen)
    forget_gate = torch.sigmoid(kept)
    candidate = torch.tanh(new)
    output_gate = torch.sigmoid(shown)
    kept_cell = forget_gate * cell
    added_cell = input_gate * candidate
    cell = kept_cell + added_cell
    squashed_cell = torch.tanh(cell)
    hidden = output_gate * squashed_cell
    if weights.projection is None:
        return hidden, cell
    projected_hidden = functional.linear(hidden, weights.projection)
    return projected_hidden, cell


def _gru(gates: Tensor, states: States, weights: _LayerWeights) -> States:
    """h ← (h − n) · z + n with n = tanh(x + r · h): update gate z, reset gate r."""
    (hidden,) = states
    hidden_gates = functional.linear(hidden, weights.hh, weights.hh_bias)
    (r, z, n), (r_hidden, z_hidden, n_hidden) = gates.chunk(3, -1), hidden_gates.chunk(3, -1)
    reset_sum = r_hidden + r
    reset_gate = torch.sigmoid(reset_sum)
    update_sum = z_hidden + z
    update_gate = torch.sigmoid(update_sum)
    let_in = n_hidden * reset_gate
    candidate_sum = n + let_in
    candidate = torch.tanh(candidate_sum)
    difference = hidden - candidate
    kept_difference = difference * update_gate
    hidden = kept_difference + candidate
    return (hidden,)


def _rnn(gates: Tensor, states: States, weights: _LayerWeights) -> Tensor:
    """W x + U h."""
    hidden_gates = functional.linear(states[0], weights.hh, weights.hh_bias)
    gates = hidden_gates + gates
    return gates


def _rnn_tanh(gates: Tensor, states: States, weights: _LayerWeights) -> States:
    """h ← tanh(W x + U h)."""
    hidden = torch.tanh(_rnn(gates, states, weights))
    return (hidden,)


def _rnn_relu(gates: Tensor, states: States, weights: _LayerWeights) -> States:
    """h ← ReLU(W x + U h)."""
    hidden = torch.relu(_rnn(gates, states, weights))
    return (hidden,)


_CELLS: dict[str, Callable[[Tensor, States, _LayerWeights], States]] = {
    "lstm": _lstm,
    "gru": _gru,
    "rnn_tanh": _rnn_tanh,
    "rnn_relu": _rnn_relu,
}


def is_recurrent(operator: Operator) -> bool:
    """Whether an operator is a recurrent layer over whole sequences, or a single recurrent cell."""
    return operator.name.removesuffix("_cell") in _CELLS


def recurrent(
    inside: Inside, operator: Operator, args: Sequence[Any], kwargs: dict[str, Any]
) -> Any:
    """The operator's result: outputs and last states of a layer, or a cell's next state."""
    given = {**operator.defaults, **dict(zip(operator.parameters, args, strict=False)), **kwargs}
    kind = operator.name.removesuffix("_cell")
    states = tuple(given["hx"]) if kind == "lstm" else (given["hx"],)
    if operator.name == kind:
        return _layers(inside, kind, states, given)
    weights = _LayerWeights(*(given[name] for name in ("w_ih", "w_hh", "b_ih", "b_hh")))
    input_gates = functional.linear(given["input"], weights.ih, weights.ih_bias)
    made = _CELLS[kind](input_gates, states, weights)
    return made if len(made) > 1 else made[0]


def _layers(inside: Inside, kind: str, states: States, given: dict[str, Any]) -> States:
    """All layers over a sequence, each in one or two directions."""
    packed = given.get("batch_sizes")
    batch_first = packed is None and given["batch_first"] and given["input"].ndim == 3
    x: Tensor = given["input" if packed is None else "data"]
    x = x.transpose(0, 1) if batch_first else x
    sizes: list[int] | None = None if packed is None else packed.tolist()
    directions = ("", ".reverse") if given["bidirectional"] else ("",)
    all_weights = _weights(kind, states, given)
    lasts: list[States] = []
    runs: list[list[Tensor]] = []
    for layer in range(given["num_layers"]):
        if layer:
            with inside(f"layer{layer - 1}"):
                output = _side_by_side(runs, sizes)
                dropped = torch.dropout(output, given["dropout"], given["train"])
                x = dropped
        runs = []
        for direction in directions:
            start = tuple(state[len(lasts)] for state in states)
            name = f"layer{layer}{direction}"
            outputs, last = _run(inside, name, kind, x, sizes, start, all_weights[len(lasts)])
            runs.append(outputs)
            lasts.append(last)
    ends = _last_states(torch.stack, lasts)
    joined = (_side_by_side(runs, sizes),)
    return (joined[0].transpose(0, 1) if batch_first else joined[0], *ends)


def _side_by_side(runs: list[list[Tensor]], sizes: list[int] | None) -> Tensor:
    """The outputs of all time steps, the two directions side by side."""
    join = torch.stack if sizes is None else torch.cat
    if len(runs) == 1:
        return join(runs[0])
    return torch.cat([join(run) for run in runs], -1)


def _last_states(join: Callable[[list[Tensor]], Tensor], states: Sequence[States]) -> States:
    """States of several layers, or of sequences that end at different times, in one."""
    last_hidden = join([one[0] for one in states])
    if len(states[0]) == 1:
        return (last_hidden,)
    last_cell = join([one[1] for one in states])
    return last_hidden, last_cell


def _run(
    inside: Inside,
    name: str,
    kind: str,
    x: Tensor,
    sizes: list[int] | None,
    first: States,
    weights: _LayerWeights,
) -> tuple[list[Tensor], States]:
    """One layer in one direction: its output at each time step, and its last state.

    `sizes`: the number of packed sequences that reach each time step.
    """
    backwards = name.endswith("reverse")
    with inside(name):
        input_gates = functional.linear(x, weights.ih, weights.ih_bias)
    gates = input_gates.unbind(0) if sizes is None else input_gates.split(sizes)
    outputs: dict[int, Tensor] = {}
    ended: list[States] = []
    states = first
    if sizes is not None and backwards:
        states = tuple(state[: sizes[-1]] for state in first)
    for time in reversed(range(len(gates))) if backwards else range(len(gates)):
        with inside(f"{name}.t{time}"):
            if sizes is not None:
                states = _resized(states, first, sizes[time], ended)
            states = _CELLS[kind](gates[time], states, weights)
        outputs[time] = states[0]
    if ended:  # back in the order of the sequences: those that ended last come first
        with inside(name):
            states = _last_states(torch.cat, [states, *reversed(ended)])
    return [outputs[time] for time in range(len(gates))], states


def _resized(states: States, first: States, size: int, ended: list[States]) -> States:
    """The states of the sequences that have this time step; others end or begin here."""
    now = len(states[0])
    if size < now:
        ended.append(tuple(state[size:] for state in states))
        return tuple(state[:size] for state in states)
    if size == now:
        return states
    hidden_before = torch.cat([states[0], first[0][now:size]])
    if len(states) == 1:
        return (hidden_before,)
    cell_before = torch.cat([states[1], first[1][now:size]])
    return hidden_before, cell_before


def _weights(kind: str, states: States, given: dict[str, Any]) -> list[_LayerWeights]:
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
