"""Sums of cells with fixed weights: interpolation, Fourier transforms, and their gradients.

The weights depend on sizes and settings alone. The operator itself gives them, as the derivative
of one output cell, in float64.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from glassformer.trace.calls import Call
from glassformer.trace.expressions import Expression, Function, Number, multiply, sum_of
from glassformer.trace.memory import Index, View, as_real
from glassformer.trace.rules.layout import remembered
from glassformer.trace.rules.operands import cell
from glassformer.trace.rules.registry import Build, mechanism

__all__ = ["LINEAR_MAPS"]

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
            return view.given()
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
            values = row.numpy()
            for at in np.argwhere(np.abs(values) > _NOTHING * np.abs(values).max(initial=0)):
                place = tuple(at.tolist())
                weight, part = float(values[place]), cell(view, *place)
                negated = Function("neg", (part,))
                terms.append(negated if weight == -1 else multiply(Number(weight), part))
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
