"""Operators that move cells (copies, casts, joins, padding), fill in constants, or weight cells.

Most of them need no rule of their own. An operator that moves cells is run once more on the flat
positions of its operands' cells, which shows which cell went where. For a linear operator
(interpolation, Fourier transforms, their gradients), its derivative in float64 gives the weights,
which depend on sizes and settings alone.
"""

from __future__ import annotations

import math
import weakref
from bisect import bisect_right
from collections.abc import Callable
from typing import TypeVar, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from glassformer.tracing.arithmetic import expressions as e
from glassformer.tracing.arithmetic.rules.rule_registry import (
    Build,
    broadcast,
    cell,
    given,
    mechanism,
    rule,
    unwritten,
)
from glassformer.tracing.capture.memory import Index, View, as_real, flat_place, index_of
from glassformer.tracing.capture.operator_calls import Call

# --- constants: from settings alone, or taken as given ---

unwritten(
    "empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "empty_permuted"
)
# Python numbers turned into a tensor.
given("lift_fresh", "lift_fresh_copy", "tensor", "_efficientzerotensor")


def _constant(value: e.Scalar) -> Build:
    def build(_call: Call, _index: Index) -> e.Expression:
        return e.Number(value)

    return build


rule("zeros", "zeros_like", "new_zeros", "zero", constant=True)(_constant(0))
rule("ones", "ones_like", "new_ones", constant=True)(_constant(1))


@rule("full", "full_like", "new_full", constant=True)
def full(call: Call, _index: Index) -> e.Expression:
    return e.Number(_held(call, call.number_of("fill_value")))


def _held(call: Call, value: e.Scalar) -> e.Scalar:
    """A fill value in the tensor's dtype: an integer tensor truncates it."""
    made = call.made()
    if made.dtype.is_floating_point:
        return value
    return bool(value) if made.dtype == torch.bool else int(value)


@rule("scalar_tensor", constant=True)
def scalar_tensor(call: Call, _index: Index) -> e.Expression:
    return e.Number(call.number_of("s"))


@rule("fill")
def fill(call: Call, _index: Index) -> e.Expression:
    """The fill value: a number, or the one cell of a tensor."""
    value = call.operand("value")
    return broadcast(value, ()) if isinstance(value, View) else e.Number(_held(call, value))


@rule("arange", constant=True)
def arange(call: Call, index: Index) -> e.Expression:
    """start + i · step."""
    start, step = call.bound.get("start", 0), call.bound.get("step", 1)
    return e.Number(start + index[0] * step)


def _spaced(call: Call, index: Index) -> e.Expression:
    """start + i / (steps − 1) · (end − start); `logspace` raises a base to that power."""
    start, end = (broadcast(call.operand(name), ()) for name in ("start", "end"))
    share = index[0] / max(1, call.integer("steps") - 1)
    value = start + share * (end - start)
    if call.operator.name == "logspace":
        value = float(call.number_of("base")) ** value
    made = call.made()
    return value if made.dtype.is_floating_point else e.Convert(made.dtype, value)


rule("linspace", "logspace", constant=True)(_spaced)
for _ends in ("Tensor_Tensor", "Tensor_Scalar", "Scalar_Tensor"):
    rule(f"linspace.{_ends}", f"logspace.{_ends}")(_spaced)


@rule("eye", constant=True)
def eye(_call: Call, index: Index) -> e.Expression:
    """1 on the diagonal, 0 elsewhere."""
    return e.Number(int(index[0] == index[1]))


def _triangle_indices(places: Callable[..., tuple[npt.NDArray[np.int64], ...]]) -> Build:
    def build(call: Call, index: Index) -> e.Expression:
        rows, offset, columns = (call.integer(name) for name in ("row", "offset", "col"))
        return e.Number(int(places(rows, offset, columns)[index[0]][index[1]]))

    return build


rule("tril_indices", constant=True)(_triangle_indices(np.tril_indices))
rule("triu_indices", constant=True)(_triangle_indices(np.triu_indices))


# --- copies and moves ---


def _cast(value: e.Expression, source: View, call: Call, output: int = 0) -> e.Expression:
    """The value, converted if the copy has another dtype."""
    made = call.outputs[output]
    if made is None or made.dtype == source.dtype:
        return value
    return e.Convert(made.dtype, value)


@rule("clone", "contiguous", "to", "_to_copy", "type_as")
def copy(call: Call, index: Index) -> e.Expression:
    """The same cell of the source, or a number that vmap made a tensor."""
    source = call.operand(call.operator.parameters[0])
    if not isinstance(source, View):
        return e.Number(source)
    return _cast(broadcast(source, index), source, call)


@rule("copy")
def copy_into(call: Call, index: Index) -> e.Expression:
    """The source's cell, written into another tensor."""
    source = call.view("src")
    return _cast(broadcast(source, index), source, call)


@rule("reshape", "flatten", "ravel")
def reshape(call: Call, index: Index) -> e.Expression:
    """The cell at the same row-major position."""
    source = call.view("self")
    return cell(source, *index_of(flat_place(index, call.made().shape), source.shape))


@rule("cat", "concat", "concatenate")
def cat(call: Call, index: Index) -> e.Expression:
    """The cell of the piece that contains this position."""
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
def pad(call: Call, index: Index) -> e.Expression:
    """The source's cell, or the padding value outside it."""
    source, amounts = call.view("self"), call.bound["pad"]
    at = list(index)
    last = len(index) - 1 - source.pairs  # complex numbers have a last axis of two parts
    for place in range(len(amounts) // 2):
        at[last - place] -= amounts[2 * place]
    inside = all(0 <= place < size for place, size in zip(at, source.shape, strict=True))
    if inside:
        return cell(source, *at)
    return e.Number(0) if source.pairs and index[-1] else e.Number(call.number_of("value"))


_Made = TypeVar("_Made")
_latest: dict[object, weakref.ref[Call]] = {}


def remembered(call: Call, make: Callable[[Call], _Made]) -> _Made:
    """`make(call)`, cached until another call is asked for.

    The cells of a step are usually asked for one after the other. The result refers to the trace,
    so the call itself keeps it: a cache in this module would keep the trace alive.
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


# Arguments that say where numbers go and are not moved themselves.
_WHERE = frozenset(["index", "indices", "mask", "repeats", "lengths"])


class _Moves:
    """For each cell of a call's outputs, the operand cell that was moved there."""

    def __init__(self, call: Call) -> None:
        self._views: list[View] = []
        self._starts: list[int] = []
        self._next = 1  # the operator fills in 0 where it moves nothing
        with torch.no_grad():
            made = call.again(self._places)
        self._made = [None if tensor is None else tensor.cpu().numpy() for tensor in made]

    def _places(self, name: str, view: View) -> Tensor:
        """Consecutive numbers for a tensor's cells, continuing from the previous tensor."""
        if name.partition(".")[0] in _WHERE:
            return view.given(view.tensor_on_cpu())
        shape = view.shape[:-1] if view.pairs else view.shape
        count = math.prod(shape)
        self._views.append(view)
        self._starts.append(self._next)
        self._next += count
        # Some of these operators accept floating-point tensors only; float64 counts exactly.
        return torch.arange(self._next - count, self._next, dtype=torch.float64).reshape(shape)

    def source(self, output: int, index: Index) -> tuple[View, Index] | None:
        """The operand, and the index of its cell that was moved to an index of an output."""
        made = self._made[output]
        assert made is not None, "an output without numbers has no cells"
        place = int(made[index])
        if place == 0:
            return None
        which = bisect_right(self._starts, place) - 1
        view = self._views[which]
        shape = view.shape[:-1] if view.pairs else view.shape
        return view, index_of(place - self._starts[which], shape)


def moved(output: int) -> Build:
    """The cell that the operator moved here, or 0 if none."""

    def build(call: Call, index: Index) -> e.Expression:
        made = call.made(output)
        *place, part = index if made.pairs else (*index, 0)
        found = remembered(call, _Moves).source(output, tuple(place))
        if found is None:
            return e.Number(0)
        view, at = found
        if view.pairs:
            return cell(view, *at, part)
        # The imaginary part of a real number is 0.
        return e.Number(0) if part else _cast(cell(view, *at), view, call, output)

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
"""Operators whose every output cell is one cell of an operand, or 0."""

mechanism(moved, *MOVES.split())


@rule("_pack_padded_sequence", output=1)
def rows_per_time_step(call: Call, index: Index) -> e.Expression:
    """The number of sequences that reach this time step."""
    lengths = call.view("lengths")
    k = e.Axis("k", lengths.numel)
    return e.total(e.Operation(">", cell(lengths, k), e.Number(index[0])), k)


@rule("tril", "triu")
def triangle(call: Call, index: Index) -> e.Expression:
    """The cell on the kept side of the diagonal, 0 on the other."""
    beyond = index[-1] - index[-2] - call.integer("diagonal")
    keeps = beyond <= 0 if call.operator.name == "tril" else beyond >= 0
    return cell(call.view("self"), *index) if keeps else e.Number(0)


# --- linear maps: sums of cells with fixed weights ---

# A weight this far below the largest is a rounding error: cos(π/2) is 6e-17.
_NOTHING = 1e-12


class _LinearWeights:
    """The derivatives of a linear operator's cells, one output cell at a time."""

    def __init__(self, call: Call) -> None:
        self._name = call.operator.name
        self._operands: list[Tensor] = []
        self.views: list[View] = []
        with torch.enable_grad():
            self._made = call.again(self._operand)

    def _operand(self, _name: str, view: View) -> Tensor:
        if not view.dtype.is_floating_point:
            return view.given(view.tensor_on_cpu())
        dtype = torch.float64
        # Anti-aliasing kernels round their weights to the dtype of the cells; the other
        # interpolations compute them in float32 if the cells have at most as many digits.
        if self._name.endswith(("_aa", "_aa_backward")):
            dtype = view.dtype
        elif "upsample" in self._name and view.dtype != torch.float64:
            dtype = torch.float32
        zeros = torch.zeros(view.shape, dtype=dtype, requires_grad=True)
        self._operands.append(zeros)
        self.views.append(view)
        return torch.view_as_complex(zeros) if view.pairs else zeros

    def row(self, output: int, index: Index) -> list[Tensor]:
        """For each operand, the weights of its cells in an output cell."""
        made = self._made[output]
        assert made is not None
        found = torch.autograd.grad(
            as_real(made)[index], self._operands, retain_graph=True, materialize_grads=True
        )
        return list(found)


def _weighted(output: int) -> Build:
    """Σ weight · cell."""

    def build(call: Call, index: Index) -> e.Expression:
        weights = remembered(call, _LinearWeights)
        terms: list[e.Expression] = []
        for view, row in zip(weights.views, weights.row(output, index), strict=True):
            values = row.cpu().numpy()
            for at in np.argwhere(np.abs(values) > _NOTHING * np.abs(values).max(initial=0)):
                place = tuple(at.tolist())
                weight, part = float(values[place]), cell(view, *place)
                negated = -part
                terms.append(negated if weight == -1 else weight * part)
        return e.sum_of(terms)

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
    adaptive_max_pool2d_backward adaptive_max_pool3d_backward fractional_max_pool2d_backward
    fractional_max_pool3d_backward
    _upsample_bilinear2d_aa_backward _upsample_bicubic2d_aa_backward
    _upsample_lanczos2d_aa_backward
"""
"""Operators that are linear in their floating-point operands."""

mechanism(_weighted, *LINEAR_MAPS.split())
