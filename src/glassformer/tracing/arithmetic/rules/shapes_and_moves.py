"""Numbers moved, not changed (copies, casts, joins, padding), made from settings, or weighed.

Most of these operators need no rule of their own. Of those that move cells, the operator itself,
run once more on the places of its operands' cells, says which cell came where. Of those that are
linear (interpolation, Fourier transforms, their gradients), its derivative in float64 gives the
weights, which depend on sizes and settings alone.
"""

from __future__ import annotations

import math
import weakref
from bisect import bisect_right
from collections.abc import Callable
from typing import TypeVar, cast

import numpy as np
import torch
from torch import Tensor

from glassformer.tracing.arithmetic.expressions import (
    Axis,
    Convert,
    Expression,
    Number,
    Operation,
    Scalar,
    sum_of,
    total,
)
from glassformer.tracing.arithmetic.rules.rule_registry import (
    Build,
    broadcast,
    cell,
    given,
    mechanism,
    rule,
    unwritten,
)
from glassformer.tracing.capture.memory import Index, View, as_real
from glassformer.tracing.capture.operator_calls import Call

# --- made from settings alone, or taken as they come ---

unwritten(
    "empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "empty_permuted"
)
# Python numbers that became a tensor.
given("lift_fresh", "lift_fresh_copy", "tensor", "_efficientzerotensor")


def _constant(value: Scalar) -> Build:
    def build(_call: Call, _index: Index) -> Expression:
        return Number(value)

    return build


rule("zeros", "zeros_like", "new_zeros", "zero", constant=True)(_constant(0))
rule("ones", "ones_like", "new_ones", constant=True)(_constant(1))


@rule("full", "full_like", "new_full", constant=True)
def full(call: Call, _index: Index) -> Expression:
    """The fill value."""
    return Number(_held(call, call.number_of("fill_value")))


def _held(call: Call, value: Scalar) -> Scalar:
    """A fill value as the tensor holds it: one of whole numbers cuts it."""
    made = call.outputs[0]
    assert made is not None
    if made.dtype.is_floating_point:
        return value
    return bool(value) if made.dtype == torch.bool else int(value)


@rule("scalar_tensor", constant=True)
def scalar_tensor(call: Call, _index: Index) -> Expression:
    """The number itself."""
    return Number(call.number_of("s"))


@rule("fill")
def fill(call: Call, _index: Index) -> Expression:
    """The fill value: a number, or the one cell of a tensor."""
    value = call.operand("value")
    return broadcast(value, ()) if isinstance(value, View) else Number(_held(call, value))


@rule("arange", constant=True)
def arange(call: Call, index: Index) -> Expression:
    """start + i · step."""
    start, step = call.bound.get("start", 0), call.bound.get("step", 1)
    return Number(start + index[0] * step)


def _spaced(call: Call, index: Index) -> Expression:
    """start + i / (steps − 1) · (end − start); for `logspace` a base to the power of that."""
    start, end = (broadcast(call.operand(name), ()) for name in ("start", "end"))
    share = index[0] / max(1, call.integer("steps") - 1)
    value = start + Number(share) * (end - start)
    if call.operator.name == "logspace":
        value = float(call.number_of("base")) ** value
    made = call.outputs[0]
    assert made is not None
    return value if made.dtype.is_floating_point else Convert(made.dtype, value)


rule("linspace", "logspace", constant=True)(_spaced)
for _ends in ("Tensor_Tensor", "Tensor_Scalar", "Scalar_Tensor"):
    rule(f"linspace.{_ends}", f"logspace.{_ends}")(_spaced)


@rule("eye", constant=True)
def eye(_call: Call, index: Index) -> Expression:
    """1 on the diagonal, 0 elsewhere."""
    return Number(int(index[0] == index[1]))


def _triangle_indices(lower: bool) -> Build:
    def build(call: Call, index: Index) -> Expression:
        rows, columns = call.integer("row"), call.integer("col")
        offset = call.integer("offset")
        places = [
            (i, j)
            for i in range(rows)
            for j in range(columns)
            if (j - i <= offset if lower else j - i >= offset)
        ]
        return Number(places[index[1]][index[0]])

    return build


rule("tril_indices", constant=True)(_triangle_indices(lower=True))
rule("triu_indices", constant=True)(_triangle_indices(lower=False))


# --- copied or moved ---


def _cast(value: Expression, source: View, call: Call, output: int = 0) -> Expression:
    """The value, converted where the copy has another dtype."""
    made = call.outputs[output]
    if made is None or made.dtype == source.dtype:
        return value
    return Convert(made.dtype, value)


@rule("clone", "contiguous", "to", "_to_copy", "type_as")
def copy(call: Call, index: Index) -> Expression:
    """The same cell of the source."""
    source = call.view(call.operator.parameters[0])
    return _cast(broadcast(source, index), source, call)


@rule("copy")
def copy_into(call: Call, index: Index) -> Expression:
    """The source's cell, written into another tensor."""
    source = call.view("src")
    return _cast(broadcast(source, index), source, call)


@rule("reshape", "flatten", "ravel")
def reshape(call: Call, index: Index) -> Expression:
    """The cell at the same place when both are read row by row."""
    source, made = call.view("self"), call.outputs[0]
    assert made is not None
    place = 0
    for size, position in zip(made.shape, index, strict=True):
        place = place * size + position
    at: list[int] = []
    for size in reversed(source.shape):
        place, position = divmod(place, size)
        at.append(position)
    return cell(source, *reversed(at))


@rule("cat", "concat", "concatenate")
def cat(call: Call, index: Index) -> Expression:
    """The cell of the piece that holds this position."""
    pieces = [piece for piece in call.views("tensors") if piece.shape != (0,)]
    axis = call.axis("dim", len(index))
    place = index[axis]
    for piece in pieces:
        if place < piece.shape[axis]:
            at = (*index[:axis], place, *index[axis + 1 :])
            return _cast(cell(piece, *at), piece, call)
        place -= piece.shape[axis]
    raise AssertionError("the index was checked against the output's shape")


@rule("constant_pad_nd")
def pad(call: Call, index: Index) -> Expression:
    """The source's cell, or the padding value outside it."""
    source, amounts = call.view("self"), call.bound["pad"]
    at = list(index)
    last = len(index) - 1 - source.pairs  # of complex numbers the last axis has the two parts
    for place in range(len(amounts) // 2):
        at[last - place] -= amounts[2 * place]
    inside = all(0 <= place < size for place, size in zip(at, source.shape, strict=True))
    if inside:
        return cell(source, *at)
    return Number(0) if source.pairs and index[-1] else Number(call.number_of("value"))


_Made = TypeVar("_Made")
_latest: dict[object, weakref.ref[Call]] = {}


def remembered(call: Call, make: Callable[[Call], _Made]) -> _Made:
    """What `make` gives for a call, kept until it is asked for another call.

    The cells of a step are mostly asked for one after the other. What is made refers to the trace,
    so the call itself keeps it: a trace that nobody holds any more is not held here.
    """
    kept = call.remembered
    if kept is not None and kept[0] is make:
        return cast(_Made, kept[1])
    before = _latest[make]() if make in _latest else None
    if before is not None:
        before.remembered = None
    made = make(call)
    call.remembered = (make, made)
    _latest[make] = weakref.ref(call)
    return made


# Arguments that say where numbers go, and are not moved themselves.
_WHERE = frozenset(["index", "indices", "mask", "repeats", "lengths"])


class _Moves:
    """Which cell of which operand stands where in each output of a call."""

    def __init__(self, call: Call) -> None:
        self._views: list[View] = []
        self._starts: list[int] = []
        self._next = 1  # 0 is what the operator fills in where it moves nothing
        with torch.no_grad():
            made = call.again(self._places)
        self._made = [None if tensor is None else tensor.cpu().numpy() for tensor in made]

    def _places(self, name: str, view: View) -> Tensor:
        """The numbers of a tensor's cells, counted on from those of the tensor before."""
        if name in _WHERE:
            return view.given(view.tensor_on_cpu())
        shape = view.shape[:-1] if view.pairs else view.shape
        count = math.prod(shape)
        self._views.append(view)
        self._starts.append(self._next)
        self._next += count
        # Some of these operators take floating-point numbers alone; float64 counts exactly.
        return torch.arange(self._next - count, self._next, dtype=torch.float64).reshape(shape)

    def source(self, output: int, index: Index) -> tuple[View, Index] | None:
        """The operand and the cell of it that stands at an index of an output."""
        made = self._made[output]
        assert made is not None, "an output without numbers has no cells"
        place = int(made[index])
        if place == 0:
            return None
        which = bisect_right(self._starts, place) - 1
        view = self._views[which]
        shape = view.shape[:-1] if view.pairs else view.shape
        at = np.unravel_index(place - self._starts[which], shape)
        return view, tuple(int(part) for part in at)


def moved(output: int) -> Build:
    """The cell that the operator moved here, or 0 where it moved none."""

    def build(call: Call, index: Index) -> Expression:
        made = call.outputs[output]
        assert made is not None
        *place, part = index if made.pairs else (*index, 0)
        found = remembered(call, _Moves).source(output, tuple(place))
        if found is None:
            return Number(0)
        view, at = found
        if view.pairs:
            return cell(view, *at, part)
        # A real number among complex ones has no imaginary part.
        return Number(0) if part else _cast(cell(view, *at), view, call, output)

    return build


MOVES = """
    stack repeat tile flip roll rot90 repeat_interleave.self_int repeat_interleave.self_Tensor
    pixel_shuffle pixel_unshuffle channel_shuffle native_channel_shuffle im2col reflection_pad1d
    reflection_pad2d reflection_pad3d replication_pad1d replication_pad2d replication_pad3d
    upsample_nearest1d upsample_nearest2d upsample_nearest3d _upsample_nearest_exact1d
    _upsample_nearest_exact2d _upsample_nearest_exact3d max_unpool2d max_unpool3d diag diag_embed
    block_diag diagonal_scatter slice_scatter select_scatter as_strided_scatter slice_backward
    select_backward diagonal_backward alias_copy as_strided_copy detach_copy diagonal_copy
    expand_copy narrow_copy permute_copy select_copy slice_copy split_copy split_with_sizes_copy
    squeeze_copy t_copy transpose_copy unbind_copy unfold_copy unsqueeze_copy view_copy
    _reshape_copy masked_scatter_backward _pack_padded_sequence
"""
"""Operators that give each cell of theirs from one cell of an operand, or 0."""

mechanism(moved, *MOVES.split())


@rule("_pack_padded_sequence", output=1)
def rows_per_time_step(call: Call, index: Index) -> Expression:
    """How many sequences are as long as this time step."""
    lengths = call.view("lengths")
    k = Axis("k", lengths.numel)
    return total(Operation(">", cell(lengths, k), Number(index[0])), k)


@rule("tril", "triu")
def triangle(call: Call, index: Index) -> Expression:
    """The cell on this side of the diagonal, 0 on the other."""
    beyond = index[-1] - index[-2] - call.integer("diagonal")
    keeps = beyond <= 0 if call.operator.name == "tril" else beyond >= 0
    return cell(call.view("self"), *index) if keeps else Number(0)


# --- weighed: sums of cells with fixed weights ---

# A weight this far below the largest one is rounding: cos(π/2) is 6e-17.
_NOTHING = 1e-12


class _Weights:
    """The derivatives of a linear operator's cells, one row at a time."""

    def __init__(self, call: Call) -> None:
        self._name = call.operator.name
        self._operands: list[Tensor] = []
        self.views: list[View] = []
        with torch.enable_grad():
            self._made = call.again(self._operand)

    def _operand(self, _name: str, view: View) -> Tensor:
        if not view.dtype.is_floating_point:
            return view.given(view.tensor_on_cpu())
        # The kernels against aliasing use weights that are rounded to the cells' own precision.
        rounded = self._name.endswith(("_aa", "_aa_backward"))
        dtype = view.dtype if rounded else torch.float64
        zeros = torch.zeros(view.shape, dtype=dtype, requires_grad=True)
        self._operands.append(zeros)
        self.views.append(view)
        return torch.view_as_complex(zeros) if view.pairs else zeros

    def row(self, output: int, index: Index) -> list[Tensor]:
        """For each operand the weights with which its cells enter an output cell."""
        made = self._made[output]
        assert made is not None
        found = torch.autograd.grad(
            as_real(made)[index], self._operands, retain_graph=True, materialize_grads=True
        )
        return list(found)


def _weighted(output: int) -> Build:
    """Σ weight · cell."""

    def build(call: Call, index: Index) -> Expression:
        weights = remembered(call, _Weights)
        terms: list[Expression] = []
        for view, row in zip(weights.views, weights.row(output, index), strict=True):
            values = row.cpu().numpy()
            for at in np.argwhere(np.abs(values) > _NOTHING * np.abs(values).max(initial=0)):
                place = tuple(at.tolist())
                weight, part = float(values[place]), cell(view, *place)
                negated = -part
                terms.append(negated if weight == -1 else Number(weight) * part)
        return sum_of(terms)

    return build


LINEAR_MAPS = """
    upsample_linear1d upsample_bilinear2d upsample_trilinear3d upsample_bicubic2d
    _upsample_bilinear2d_aa _upsample_bicubic2d_aa _upsample_lanczos2d_aa _fft_r2c _fft_c2r
    _fft_c2c col2im upsample_nearest1d_backward upsample_nearest2d_backward
    upsample_nearest3d_backward _upsample_nearest_exact1d_backward
    _upsample_nearest_exact2d_backward _upsample_nearest_exact3d_backward
    upsample_linear1d_backward upsample_bilinear2d_backward upsample_trilinear3d_backward
    upsample_bicubic2d_backward reflection_pad1d_backward reflection_pad2d_backward
    reflection_pad3d_backward replication_pad1d_backward replication_pad2d_backward
    replication_pad3d_backward unfold_backward
    avg_pool2d_backward avg_pool3d_backward _adaptive_avg_pool2d_backward
    _adaptive_avg_pool3d_backward max_pool2d_with_indices_backward max_pool3d_with_indices_backward
    adaptive_max_pool2d_backward adaptive_max_pool3d_backward
    _upsample_bilinear2d_aa_backward _upsample_bicubic2d_aa_backward
    _upsample_lanczos2d_aa_backward
"""
"""Operators that are linear in their floating-point operands, and in nothing else."""

mechanism(_weighted, *LINEAR_MAPS.split())
