"""What makes a softmax an attention: weights over positions, each with a key and a value.

    scores[i, j] = queries[i] · keys[j]        weights = softmax over j
    context[i] = Σ_j weights[i, j] · values[j]

The softmax runs over the axis that the keys bring into the scores, and the second product sums over
that axis. Keys and values come from the data: `softmax(x @ W1) @ W2` with two matrices of learned
numbers has the same two products, but it is a layer with a softmax inside, or a router. Queries may
be learned, as in attention pooling.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from glassformer.tracing.arithmetic.rules.sums import einsum_letters
from glassformer.tracing.capture.memory import Index, View, as_floats
from glassformer.tracing.capture.operator_calls import COPIES, PRODUCTS, SOFTMAXES
from glassformer.tracing.step_graph import StepGraph, behind, views_read, writer_of
from glassformer.tracing.steps import Operand, Step

_MASKS = frozenset(["add", "masked_fill", "where", "sub"])


@dataclass(frozen=True, slots=True)
class Attention:
    """An attention: its steps by stage, and the factors of its products."""

    stages: dict[str, Step]
    factors: dict[str, View]
    """The queries, keys and values as read by the products."""
    turned: dict[str, View]
    """Of steps that have their axes in another order: as (…, heads, queries, keys or width)."""

    @property
    def scores(self) -> Step:
        return self.stages["scores"]

    @property
    def weights(self) -> Step:
        return self.stages["weights"]

    @property
    def context(self) -> Step:
        return self.stages["context"]

    @property
    def scores_width(self) -> int:
        """How many products a score adds up: the width of a head."""
        return _made(self.scores).operands[-2].view.shape[-1]

    def changed(self, lead: Index) -> npt.NDArray[np.bool_]:
        """Which scores of a head the mask (or a bias) changed."""
        masked = self.stages.get("masked")
        before = None if masked is None else _input_of(masked)
        if masked is None or before is None or before.shape != masked.shape:
            return np.zeros(self.weights.shape[-2:], dtype=bool)
        return np.asarray(as_floats(masked.view.array[lead]) != as_floats(before.array[lead]))

    def hidden(self, lead: Index) -> npt.NDArray[np.bool_]:
        """Which keys a query may not look at: changed by the mask, and without any weight."""
        return np.asarray(self.changed(lead) & (as_floats(self.weights.view.array[lead]) == 0))

    @property
    def context_reads_weights(self) -> bool:
        """Whether the weights are multiplied with the values as they are, not masked afterwards."""
        read = _made(self.context).operands
        return any(_source(o.view) is _source(self.weights.view) for o in read)

    @property
    def is_cross(self) -> bool:
        """Whether queries and keys come from different sequences."""
        rows, columns = self.scores.labels[-2:]
        if rows is not None and columns is not None and rows != columns:
            return True
        (asking, *way), (asked, *other_way) = map(_way_back, _made(self.scores).operands[-2:])
        if asking is None or asked is None or asking is asked:
            return False
        # Queries are often a map of what the keys are: `to_queries(x) @ x.mT`.
        return asking not in other_way and asked not in way

    @property
    def is_causal(self) -> bool:
        """Whether no weight that multiplies a value (a sink has none) is on a later position."""
        read = views_read(_made(self.context))
        used = next((v for v in read if writer_of(v) is self.weights), read[0])
        used = self.weights.view if self.weights.is_view else used
        queries, keys = used.shape[-2:]
        later = np.triu_indices(queries, keys - queries + 1, keys)
        return not np.any(used.array[..., later[0], later[1]])


def find_attentions(graph: StepGraph) -> Iterator[Attention]:
    """Every softmax that is multiplied with values and comes from a product of queries and keys."""
    for weights in graph.steps:
        if weights.op not in SOFTMAXES or weights.call is None:
            continue
        axis = weights.call.axis("dim", weights.view.ndim)
        chain = _back_to_scores(graph, weights)
        weighing = _weighing(graph, weights, axis)
        if chain is None or weighing is None:
            continue
        *between, scores = chain
        at = _axis_at([weights, *chain], axis)
        factors = None if at is None else _queries_and_keys(scores, at)
        if factors is None:
            continue
        context, factors["values"] = weighing.context, weighing.values
        positions = weights.shape[axis]
        if not _come_from_data(graph, factors["keys"], factors["values"], positions):
            continue
        found = {"scores": scores, "weights": weights, "context": context}
        found |= {stage: writer_of(view) for stage, view in factors.items()}
        if between and between[-1].op in ("mul", "div"):
            found["scaled"] = between[-1]
        if between and between[0].op in _MASKS:
            found["masked"] = between[0]
        for side in ("queries", "keys"):
            found |= {f"{side}_{part}": step for part, step in _rotary(found[side])}
        orders = _orders([weights, *chain], axis, weighing)
        turned = {stage: _permuted(step.view, orders[id(step)])
                  for stage, step in found.items() if id(step) in orders}  # fmt: skip
        yield Attention(found, factors, turned)


# --- the two products ---


@dataclass(frozen=True, slots=True)
class _Weighing:
    """The product of the weights with the values."""

    context: Step
    factor: int
    """Which of the two factors the weights are."""
    path: list[Step]
    """From what the product reads back to the softmax: the steps (dropout, a cast) in between."""

    @property
    def values(self) -> View:
        return views_read(self.context)[-2:][1 - self.factor]

    def letter(self, axis: int | None) -> str | None:
        """The letter in the product of an axis of the weights; None if it cannot be followed."""
        view = views_read(self.context)[-2:][self.factor]
        own = _letters(self.context)[0][self.factor]
        at = (a for a in range(view.ndim) if _axis_at(self.path, _own_axis(view, a)) == axis)
        return next((own[a] for a in at), None)


def _weighing(graph: StepGraph, weights: Step, axis: int) -> _Weighing | None:
    """The product that sums the weights over their axis of positions."""
    waiting = [[weights]]
    while waiting:
        path = waiting.pop(0)
        step = path[0]
        for reader in graph.readers[graph.place[id(step)]]:
            if reader.op in PRODUCTS:
                read = views_read(reader)[-2:]
                for factor, view in enumerate(read if len(read) == 2 else []):
                    if writer_of(view) is not step:
                        continue
                    found = _Weighing(reader, factor, path)
                    letter = found.letter(axis)
                    if letter is not None and letter not in _letters(reader)[1]:
                        return found
            elif reader.op in (*COPIES, "mul") and reader.view.numel == weights.view.numel:
                waiting.append([reader, *path])
    return None


def _back_to_scores(graph: StepGraph, weights: Step) -> list[Step] | None:
    """From a softmax back to the nearest product: masks, scales, then the scores."""
    waiting: list[list[Step]] = [[weights]]
    seen = {id(weights)}
    while waiting:
        chain = waiting.pop(0)
        for view in views_read(chain[-1]):
            parent = writer_of(view)
            if view.numel != _numel_before(chain[-1]) or id(parent) in seen:
                continue
            seen.add(id(parent))
            if parent.op in PRODUCTS and not _mixes_heads(parent):
                return [*chain[1:], parent]
            if graph.up_to(parent) & graph.products:
                waiting.append([*chain, parent])
    return None


def _mixes_heads(product: Step) -> bool:
    """Whether it sums over a leading axis of scores: talking heads, not queries times keys."""
    for factor, view in enumerate(views_read(product)[-2:]):
        before = behind(writer_of(view), {*COPIES, "mul", "div"})
        summed = _summed_axes(product, factor)
        same = before.shape == writer_of(view).shape and len(views_read(before)) > 1
        if before.op in PRODUCTS and same and len(summed) == 1:
            own = _own_axis(view, summed[0])
            if own is not None and _owner(before, own) is None:
                return True
    return False


def _numel_before(step: Step) -> int:
    """The size of the scores before a step: `cat` may add a column that no key has, a sink."""
    parts = views_read(step) if step.op == "cat" else [step.view]
    return max(view.numel for view in parts)


def _queries_and_keys(scores: Step, axis: int) -> dict[str, View] | None:
    """The factors of the scores: the one with the softmax's axis is the keys.

    A matrix product reads its second factor transposed: shown with a row for each position.
    """
    factors = views_read(scores)[-2:]
    owner = _owner(scores, axis) if len(factors) == 2 else None
    if owner is None:
        return None
    if scores.op != "einsum" and factors[1].ndim > 1:
        *batch, rows, columns = range(factors[1].ndim)
        factors[1] = _permuted(factors[1], [*batch, columns, rows])
    return {"queries": factors[1 - owner], "keys": factors[owner]}


def _letters(product: Step) -> tuple[list[list[str]], list[str]]:
    """The letters of the axes of both factors and of the product, as in an einsum."""
    factors = views_read(product)
    if product.op == "einsum":
        assert product.call is not None
        equation = str(product.call.bound["equation"])
    else:
        factors = factors[-2:]
        rows, columns = (view.ndim > 1 for view in factors)
        equation = f"{'...ik' if rows else 'k'},{'...kj' if columns else 'k'}->"
        equation += f"...{'i' * rows}{'j' * columns}"
    letters, output = einsum_letters(equation, factors)
    return letters[-2:], output


def _owner(product: Step, axis: int) -> int | None:
    """Which factor alone brings an axis into a product."""
    letters, output = _letters(product)
    owners = [factor for factor, own in enumerate(letters) if output[axis] in own]
    return owners[0] if len(owners) == 1 else None


def _summed_axes(product: Step, factor: int) -> list[int]:
    """The axes of a factor that a product sums over."""
    letters, output = _letters(product)
    return [axis for axis, letter in enumerate(letters[factor]) if letter not in output]


def _permuted(view: View, axes: list[int]) -> View:
    shape, strides = (tuple(sizes[a] for a in axes) for sizes in (view.shape, view.strides))
    return View(view.version, shape, strides, view.offset, view.dtype, view.pairs)


# --- one axis through several steps ---


def _axis_at(path: list[Step], axis: int | None) -> int | None:
    """An axis of the first step's tensor as an axis of the last one's, each read by the one before.

    None if it cannot be followed.
    """
    for reader, parent in pairwise(path):
        view = next(view for view in views_read(reader) if writer_of(view) is parent)
        if axis is None:
            return None
        if view.shape != reader.shape:  # a copy in another shape
            same = view.shape[-1:] == reader.shape[-1:] or reader.op == "cat"
            is_last = axis == reader.view.ndim - 1 and same
            axis = view.ndim - 1 if is_last else None
        axis = None if axis is None else _own_axis(view, axis)
    return axis


def _own_axis(view: View, axis: int) -> int | None:
    """The axis of a step's own tensor that a view of it shows as this one."""
    whole = writer_of(view).view
    size, stride = view.shape[axis], view.strides[axis]
    if view.shape == whole.shape and (size == 1 or stride == whole.strides[axis]):
        return axis
    own = list(enumerate(zip(whole.shape, whole.strides, strict=True)))
    exact = (place for place, pair in own if pair == (size, stride))
    part = (place for place, (all_of_it, step) in own if step == stride and all_of_it > size > 1)
    return next(exact, next(part, None))


# --- the order of the axes ---


def _orders(chain: list[Step], keys: int, weighing: _Weighing) -> dict[int, list[int]]:
    """How to turn the steps from the weights back to the scores, and the context, by identity.

    A step whose axes are (…, heads, queries, keys), or cannot be told, is left out.
    """
    weights, scores = chain[0], chain[-1]
    asking = _asking_axes(scores, _axis_at(chain, keys))
    if len(asking) != 1:
        return {}
    axes = range(weights.view.ndim)
    queries = next((axis for axis in axes if _axis_at(chain, axis) == asking[0]), None)
    if queries is None:
        return {}
    lead = [axis for axis in axes if axis not in (queries, keys)]
    if len(lead) == 2 and _heads_first(weighing, lead):
        lead.reverse()
    found = {
        id(step): [_axis_at(chain[:length], axis) for axis in (*lead, queries, keys)]
        for length, step in enumerate(chain, start=1)
    }
    context = weighing.context
    width = [a for a in range(context.view.ndim) if _owner(context, a) == 1 - weighing.factor]
    output = _letters(context)[1]
    found[id(context)] = [
        *(_place_of(weighing.letter(axis), output) for axis in (*lead, queries)),
        width[0] if len(width) == 1 else None,
    ]
    told = {key: [a for a in order if a is not None] for key, order in found.items()}
    in_order = [*range(len(lead) + 2)]
    return {key: order for key, order in told.items() if sorted(order) == in_order != order}


def _asking_axes(scores: Step, keys: int | None) -> list[int]:
    """The axes that only the queries bring into the scores."""
    axes = range(scores.view.ndim)
    owner = None if keys is None else _owner(scores, keys)
    return [] if owner is None else [axis for axis in axes if _owner(scores, axis) == 1 - owner]


def _heads_first(weighing: _Weighing, lead: list[int]) -> bool:
    """Whether the first of two leading axes is the heads: parts of the rows of a projection."""
    values = weighing.values
    width = writer_of(values).shape[-1:]
    own = _letters(weighing.context)[0][1 - weighing.factor]
    places = [_place_of(weighing.letter(axis), own) for axis in lead]
    inside = [place is not None and values.strides[place] < width[0] for place in places]
    return inside == [True, False]


def _place_of(letter: str | None, letters: list[str]) -> int | None:
    return letters.index(letter) if letter in letters else None


# --- where keys and values come from ---


def _come_from_data(graph: StepGraph, keys: View, values: View, positions: int) -> bool:
    """Whether keys and values belong to the same positions, rather than being learned matrices."""
    first, second = _source(keys), _source(values)
    roles = {step.role for step in (first, second) if step.call is None}
    if "parameter" in roles:
        return False
    if first.call is None and keys.strides[-1] > keys.strides[-2]:
        return False  # given as a matrix of columns: softmax(x @ W1), where W1 is an input
    if first.call is None and second.call is None:
        return True
    if all(graph.up_to(step) & graph.inputs for step in (first, second)):
        return True
    shared = _ancestors(first).keys() & _ancestors(second).keys()
    return any(positions in _ancestors(first)[key].shape for key in shared)


def _source(view: View) -> Step:
    """The step behind a view and its copies."""
    return behind(writer_of(view), COPIES)


def _ancestors(step: Step) -> dict[int, Step]:
    """The steps and given tensors that a step was computed from, by identity."""
    found: dict[int, Step] = {}
    waiting = [step]
    while waiting:
        step = waiting.pop()
        if id(step) not in found:
            found[id(step)] = step
            waiting += map(writer_of, views_read(step))
    return found


def _rotary(rotated: Step) -> Iterator[tuple[str, Step]]:
    """x · cos + turned(x) · sin, where `turned` swaps the halves of x and negates one."""
    while (rotated.op in COPIES or _joins_positions(rotated)) and views_read(rotated):
        rotated = writer_of(views_read(rotated)[-1])
    if rotated.op in ("cat", "stack"):  # only a part of each head is rotated, or one half each
        parts = [writer_of(view) for view in views_read(rotated)]
        if {part.op for part in parts} == {"add", "sub"} and all(map(_is_of_products, parts)):
            yield "rotated", rotated
            return
        rotated = next((part for part in parts if part.op == "add"), rotated)
    if rotated.op != "add" or not _is_of_products(rotated):
        return
    halves = [writer_of(view) for view in views_read(rotated)]
    for half, other in (halves, halves[::-1]):
        for turned in (writer_of(view) for view in views_read(half)):
            near = (
                {writer_of(view).op for view in views_read(turned)} if turned.op != "mul" else set()
            )
            if turned.op in ("cat", "stack", "reshape", "flatten") and "neg" in near:
                yield "turned", turned
                yield "sine_part", half
                yield "cosine_part", other
                yield "rotated", rotated
                return


def _joins_positions(step: Step) -> bool:
    """Whether it appends whole vectors to others: to those in a cache."""
    read = views_read(step)
    return step.op == "cat" and bool(read) and read[-1].shape[-1:] == step.shape[-1:]


def _is_of_products(step: Step) -> bool:
    """Whether it adds or subtracts two products."""
    return [writer_of(view).op for view in views_read(step)] == ["mul", "mul"]


# --- what the products read ---


def _input_of(step: Step) -> View | None:
    """The operand that a scaling, a mask or a softmax continues: of its shape, and computed."""
    stages = step.trace.found_stages.every
    found = [
        (o.view, o.step)
        for o in step.operands
        if o.view.shape == step.shape and o.step is not None and o.view.dtype.is_floating_point
    ]
    for view, before in found:
        chained = {"scores", "scaled", "masked"}.intersection(stages.get(id(before), ()))
        if chained or before.op in COPIES:
            return view
    computed = [view for view, before in found if not step.trace.is_fixed(before)]
    return computed[0] if len(computed) == 1 else None


def _made(step: Step) -> Step:
    """The step of the run behind one that is shown with its axes in another order."""
    return writer_of(step.view) if step.is_view else step


def unmoved(view: View) -> Step | None:
    """The step that a product's factor was written by, before copies and joins with a cache."""
    return behind(writer_of(view), {*COPIES, "cat"}) if view.numel else None


def _way_back(operand: Operand) -> list[Step | None]:
    """The step that queries or keys are a linear map of (None if unknown), then those up to it."""
    step, way = unmoved(operand.view), list[Step | None]()
    for _ in range(6):
        way.append(step)
        if step is None or step.op in ("linear", "addmm", "mm"):
            break
        given = [o.step for o in step.operands if o.step is not None and o.step.role != "constant"]
        step = next((s for s in given if s.role == "activation"), None)
    if step is None:
        return [None, *way]
    return [next((o.step for o in step.operands if o.argument in ("input", "mat1")), None), *way]
