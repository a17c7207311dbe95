"""One small function for every operator with a rule, including broadcast and unbatched cases."""

import warnings
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from tests.tracing.gradient_examples import GRADIENTS

Function = Callable[..., Any]

A = torch.tensor([[0.5, -1.25, 2.0], [3.0, 0.25, -0.75]])
B = torch.tensor([[1.5, 0.75, -2.0], [-0.5, 4.0, 1.0]])
ROW = torch.tensor([0.25, -3.0, 1.5])
POSITIVE = A.abs() + 0.1
WHOLE = torch.tensor([[7, -3, 12], [5, 8, -9]])
BYTES = torch.tensor([200, 100, 255], dtype=torch.uint8)
SIGNED = torch.tensor([100, -100, -128], dtype=torch.int8)
NOTHING = torch.empty(0, 3)
TIES = torch.arange(40) * 7 % 3
TURNS = torch.complex(A, B)
MASK = torch.tensor([[True, False, True], [False, True, True]])
CUBE = torch.linspace(-2, 3, 24).reshape(2, 3, 4).sin() * 3
INFINITE = torch.tensor([[float("nan"), float("inf"), 1.0], [float("-inf"), 0.0, -1.0]])
SQUARE = torch.linspace(-1, 2, 16).reshape(4, 4)
KERNEL = torch.tensor([[1.0, -2.0, 0.5], [0.25, 3.0, -1.0]]).repeat(3, 1, 1)
SHARES = torch.linspace(0.05, 0.95, 24).reshape(2, 4, 3)
IMAGE = torch.linspace(-1, 1, 2 * 4 * 6 * 6).reshape(2, 4, 6, 6).cos()

ELEMENTWISE: dict[str, Function] = {
    "add": lambda: torch.add(A, ROW, alpha=2),
    "sub": lambda: A - ROW,
    "rsub": lambda: torch.rsub(A, 2.0, alpha=3),
    "mul": lambda: A * ROW,
    "div": lambda: A / B,
    "div.floor": lambda: torch.div(A, B, rounding_mode="floor"),
    "div.trunc": lambda: torch.div(A, B, rounding_mode="trunc"),
    "floor_divide": lambda: WHOLE // 4,
    "remainder": lambda: WHOLE % 4,
    "pow": lambda: POSITIVE**1.5,
    "pow of a number": lambda: 2.0**A,
    "square": lambda: A.square(),
    "reciprocal": lambda: POSITIVE.reciprocal(),
    "rsqrt": lambda: POSITIVE.rsqrt(),
    "addcmul": lambda: torch.addcmul(A, B, ROW, value=0.5),
    "addcdiv": lambda: torch.addcdiv(A, B, POSITIVE, value=-2),
    "lerp": lambda: torch.lerp(A, B, 0.3) + torch.lerp(A, B, POSITIVE),
    "clamp": lambda: A.clamp(-0.5, 1.0),
    "clamp by a tensor": lambda: A.clamp(min=ROW),
    "clamp_min": lambda: A.clamp_min(0.0) + A.clamp_max(0.5),
    "exponentials": lambda: A.exp() + A.exp2() + A.expm1(),
    "logarithms": lambda: POSITIVE.log() + POSITIVE.log2() + POSITIVE.log10() + POSITIVE.log1p(),
    "roots": lambda: POSITIVE.sqrt() + A.erf() + A.abs() + A.sign(),
    "angles": lambda: A.sin() + A.cos() + A.tan() + (A / 4).asin() + (A / 4).acos() + A.atan(),
    "hyperbolas": lambda: A.sinh() + A.cosh() + A.tanh(),
    "rounding": lambda: A.floor() + A.ceil() + A.trunc() + A.round() + -A,
    "scaled error function": lambda: torch.special.erfcx(A),
    "log of the normal distribution": lambda: torch.special.log_ndtr(torch.cat([A, A * 20])),
    "kinds": lambda: INFINITE.isnan() | INFINITE.isinf() | ~INFINITE.isfinite(),
    "logical_not": lambda: A.logical_not(),
    "maximum": lambda: torch.maximum(A, B) + torch.minimum(A, ROW),
    "max.other": lambda: torch.max(A, B) + torch.min(A, B),
    "atan2": lambda: torch.atan2(A, B),
    "comparisons": lambda: (A < B, A <= 0.25, A > ROW, A >= B, A == 0.5, A != B),
    "a comparison in float32": lambda: torch.tensor([0.1, 0.2]) == 0.1,
    "logic": lambda: (A.logical_and(B), A.logical_or(B), A.logical_xor(B)),
    "bits": lambda: (WHOLE & 6, WHOLE | 3, ~WHOLE, MASK & ~MASK, MASK | MASK),
    "other spellings": lambda: (
        torch.subtract(A, B) + torch.multiply(A, B) + torch.divide(A, B) + torch.true_divide(A, B),
        torch.negative(A) + torch.absolute(A) + torch.clip(A, 0, 1),
        torch.special.erf(A) + torch.special.expm1(A),
        torch.bitwise_and(WHOLE, 5) + torch.bitwise_or(WHOLE, 5),
    ),
    "the sign of what is no number": lambda: INFINITE.sign(),
    "rounding to decimals": lambda: (A.round(decimals=1), (100 * A).round(decimals=-2)),
    "whole numbers that overflow": lambda: (
        BYTES + BYTES,
        BYTES * BYTES,
        -BYTES,
        ~BYTES,
        BYTES - 201,
        BYTES**2,
        BYTES << 1,
        SIGNED + SIGNED,
        SIGNED * SIGNED,
        -SIGNED,
        SIGNED.abs(),
        SIGNED - 100,
    ),
    "truth added up": lambda: (MASK + MASK, MASK.sum(dtype=torch.bool), MASK.byte() + 255),
    "bits moved": lambda: (WHOLE << 2, WHOLE >> 1, WHOLE ^ 5, MASK ^ ~MASK, WHOLE.fmod(4)),
    "bits moved, by name": lambda: (
        torch.bitwise_left_shift(WHOLE, 1) + torch.bitwise_right_shift(WHOLE, 2),
        torch.bitwise_xor(WHOLE, 3),
    ),
    "functions of one, written out": lambda: (
        A.erfc() + torch.special.erfc(B) + A.frac() + A.asinh() + (1 + POSITIVE).acosh(),
        (A / 4).atanh() + A.deg2rad() + A.rad2deg(),
        (POSITIVE / 4).logit() + torch.special.logit(A, 0.1),
    ),
    "functions of two, written out": lambda: (
        torch.hypot(A, ROW) + torch.logaddexp(A, B) + torch.fmod(A, B),
        torch.heaviside(A - 0.5, ROW),
        torch.xlogy(A.relu(), POSITIVE) + torch.special.xlogy(A.relu(), 2.0),
    ),
    "the larger number, NaN aside": lambda: (
        torch.fmax(INFINITE, A) + torch.fmin(INFINITE, B),
        torch.fmax(A, INFINITE),
    ),
    "signs and infinities": lambda: (
        torch.copysign(A, torch.tensor([-0.0, 0.0, -1.0])),
        torch.signbit(torch.tensor([-0.0, 0.0, -1.0])),
        A.angle(),
        INFINITE[1].isposinf() | INFINITE[1].isneginf(),
    ),
    "two to the power": lambda: (torch.ldexp(A, WHOLE), torch.frexp(A), torch.logaddexp2(A, B)),
    "logaddexp of nothing": lambda: (
        torch.logaddexp(INFINITE, INFINITE) + torch.logaddexp2(INFINITE, INFINITE)
    ),
    "named functions": lambda: (
        POSITIVE.lgamma() + POSITIVE.digamma() + (A / 4).erfinv() + torch.sinc(A),
        torch.i0(A) + torch.special.i1(A),
    ),
    "entropies": lambda: torch.special.entr(A.relu()) + torch.special.xlog1py(A.relu(), POSITIVE),
    "nan_to_num": lambda: (INFINITE.nan_to_num(), INFINITE.nan_to_num(1.0, 2.0, 3.0)),
}

COMPLEX: dict[str, Function] = {
    "written as parts": lambda: (TURNS.reciprocal() + TURNS.square(), 1 - TURNS, 2j - TURNS),
    "real beside complex": lambda: (A + TURNS, A - TURNS, torch.rsub(TURNS, A), A / TURNS),
    "gathered": lambda: (TURNS.sum(1), TURNS.mean(0, keepdim=True), torch.concat([TURNS, TURNS])),
    "chosen": lambda: (
        TURNS[torch.tensor([1, 0])],
        TURNS.index_select(1, torch.tensor([2, 0])),
        TURNS.gather(1, torch.tensor([[0], [2]])),
        torch.cat([TURNS, TURNS]),
    ),
    "directions": lambda: (TURNS.sgn(), (TURNS * 0).sgn()),
    "copied": lambda: (torch.zeros_like(TURNS).copy_(TURNS), torch.zeros_like(TURNS).copy_(A)),
    "products": lambda: (
        TURNS @ TURNS.mT,
        torch.mm(TURNS, TURNS.mT),
        torch.bmm(TURNS[None], TURNS.mT[None]),
        torch.mv(TURNS, TURNS[0]),
        torch.dot(TURNS[0], TURNS[1]),
        torch.vdot(TURNS[0], TURNS[1]),
    ),
    "arithmetic": lambda: (
        TURNS + A,
        torch.sub(TURNS, TURNS.mT.mT.clone(), alpha=2),
        -TURNS,
        1 + TURNS,
        A - TURNS,
        TURNS * TURNS[:1],
        TURNS * 2,
        TURNS * (1 + 2j),
        A * TURNS,
        TURNS * A,
        torch.negative(TURNS),
        TURNS / 2,
        TURNS / (TURNS + 3),
        A / (TURNS + 3),
        TURNS.exp(),
    ),
    "parts": lambda: (TURNS.real * 2, TURNS.imag * 2, torch.view_as_real(TURNS) * 2),
    "sizes": lambda: (TURNS.abs(), TURNS.angle(), torch.complex(A, B), torch.polar(POSITIVE, B)),
    "conjugates": lambda: (TURNS.conj() * TURNS, TURNS.conj_physical(), TURNS.conj().imag * 2),
    "conjugate transposes": lambda: (TURNS.mH * 2, TURNS.H @ TURNS, TURNS.adjoint().contiguous()),
    "casts": lambda: (
        A.to(torch.complex64),
        TURNS.to(torch.complex128),
        torch.ops.aten._to_copy(A, dtype=torch.complex64),
    ),
    "copies": lambda: (
        TURNS.clone(),
        TURNS.mT.contiguous(),
        TURNS.mT.reshape(6),
        TURNS.mT.flatten(),
    ),
    "rotary positions": lambda: torch.view_as_real(
        torch.view_as_complex(CUBE.view(2, 3, 2, 2)) * torch.polar(torch.ones(3, 2), B.mT)
    ).flatten(2),
}

ACTIVATIONS: dict[str, Function] = {
    name: lambda f=function: (f(CUBE), f(torch.tensor(0.7)))
    for name, function in {
        "relu": F.relu,
        "relu6": F.relu6,
        "hardtanh": F.hardtanh,
        "leaky_relu": F.leaky_relu,
        "elu": F.elu,
        "selu": F.selu,
        "celu": lambda x: F.celu(x, 1.5),
        "gelu": F.gelu,
        "gelu by tanh": lambda x: F.gelu(x, approximate="tanh"),
        "silu": F.silu,
        "sigmoid": torch.sigmoid,
        "log_sigmoid": F.logsigmoid,
        "softplus": lambda x: F.softplus(x, beta=2, threshold=3),
        "mish": F.mish,
        "hardsigmoid": F.hardsigmoid,
        "hardswish": F.hardswish,
        "tanh": torch.tanh,
        "threshold": lambda x: F.threshold(x, 0.1, -20),
        "hardshrink": F.hardshrink,
        "softshrink": lambda x: F.softshrink(x, 0.3),
    }.items()
} | {
    "prelu": lambda: F.prelu(CUBE, torch.tensor([0.1, 0.2, 0.3])),
    "glu": lambda: F.glu(CUBE, dim=-1) + F.glu(CUBE, -1),
    "far tails": lambda: (F.gelu(CUBE * 40), F.silu(CUBE * 400), F.softplus(CUBE * 100)),
}

PRODUCTS: dict[str, Function] = {
    "linear": lambda: F.linear(CUBE, torch.ones(5, 4) * 0.3, torch.arange(5.0)),
    "linear of a flattened": lambda: F.linear(CUBE.flatten(1), torch.arange(24.0).view(2, 12)),
    "a sum over split axes": lambda: CUBE.view(2, 3, 2, 2).sum((1, 3)) + CUBE.flatten().sum(),
    "linear of a vector": lambda: F.linear(ROW, B, torch.tensor([1.0, 2.0])),
    "inner": lambda: (torch.inner(A, B), torch.inner(CUBE, SQUARE), torch.inner(A, ROW[0])),
    "of nothing": lambda: (NOTHING.mT @ NOTHING, F.linear(NOTHING.mT, NOTHING.mT, ROW)),
    "grouped": lambda: F.grouped_mm(
        SQUARE, SQUARE.repeat(3, 1, 1) * A.mT[:, :1, None], offs=torch.tensor([1, 1, 4]).int()
    ),
    "grouped by columns": lambda: F.grouped_mm(
        SQUARE.repeat(2, 1, 1) * A[:, :1, None], SQUARE, offs=torch.tensor([1, 4]).int()
    ),
    "grouped along the sum": lambda: F.grouped_mm(
        SQUARE, SQUARE.mT, offs=torch.tensor([1, 1, 4]).int()
    ),
    "grouped in three axes": lambda: F.grouped_mm(SQUARE[None], SQUARE.mT[None]),
    "bilinear": lambda: F.bilinear(A, B, KERNEL[:2].repeat(1, 2, 1)[:, :3], ROW[:2]),
    "distances": lambda: (
        [torch.cdist(CUBE, CUBE.flip(1), p) for p in (1, 2, 3, torch.inf)]
        + [torch.cdist(BYTES[None].float(), SIGNED[None].float(), 0)]
    ),
    "matmul": lambda: CUBE @ CUBE.mT,
    "matmul, batch broadcast": lambda: CUBE.unsqueeze(1) @ SQUARE,
    "matrix by vector": lambda: A @ ROW,
    "vector by matrix": lambda: ROW @ A.T,
    "dot": lambda: ROW @ ROW + torch.dot(ROW, ROW) + torch.vdot(ROW, ROW) + torch.inner(ROW, ROW),
    "mm": lambda: torch.mm(A, B.T) + torch.mv(SQUARE[:2, :3], ROW),
    "bmm": lambda: torch.bmm(CUBE, CUBE.mT),
    "addmm": lambda: torch.addmm(torch.ones(2), A, B.T, beta=0.5, alpha=2),
    "addmm without its first": lambda: torch.addmm(torch.full((2, 2), torch.nan), A, B.T, beta=0),
    "baddbmm": lambda: torch.baddbmm(torch.ones(1), CUBE, CUBE.mT, alpha=0.25),
    "addbmm": lambda: torch.addbmm(torch.ones(3, 3), CUBE, CUBE.mT),
    "addmv": lambda: torch.addmv(torch.ones(2), A, ROW),
    "outer": lambda: torch.outer(ROW, ROW) + torch.ger(ROW, ROW),
    "einsum": lambda: torch.einsum("bij,bkj->bik", CUBE, CUBE),
    "einsum, dots": lambda: torch.einsum("...ij,jk->...ik", CUBE, SQUARE),
    "einsum, implicit": lambda: torch.einsum("ij,jk", A, B.T),
    "einsum, diagonal": lambda: (torch.einsum("ii->", SQUARE), torch.einsum("ii->i", SQUARE)),
    "einsum, three": lambda: torch.einsum("ij,kj,k->i", A, B, torch.tensor([1.0, -2.0])),
    "einsum, outer sum": lambda: torch.einsum("i,j->", ROW, ROW),
    "einsum of nothing": lambda: torch.einsum("ki,kj->ij", NOTHING, NOTHING),
}


def _running_statistics() -> tuple[Tensor, ...]:
    """Batch norm writes to its statistics without returning them."""
    mean, variance = torch.zeros(3), torch.ones(3)
    normed = F.batch_norm(CUBE, mean, variance, training=True, momentum=0.3)
    return normed, mean * 2, variance * 2


def _native_norms() -> tuple[Any, ...]:
    """The operators that a backward pass sees instead of a norm."""
    gain, bias, aten = torch.tensor([1.0, 0.5, -2.0]), torch.tensor([0.0, 1.0, 0.5]), torch.ops.aten
    moments = [(torch.zeros(3), torch.ones(3)) for _ in range(4)]
    normed = (
        aten.native_batch_norm(CUBE, gain, bias, *moments[0], True, 0.3, 1e-5),
        aten._native_batch_norm_legit(CUBE, gain, bias, *moments[1], True, 0.3, 1e-5),
        aten._batch_norm_with_update(CUBE, gain, bias, *moments[2], 0.3, 1e-5),
        aten._native_batch_norm_legit(CUBE, gain, bias, *moments[3], False, 0.3, 1e-5),
        aten.native_group_norm(CUBE, gain, bias, 2, 3, 4, 3, 1e-5),
    )
    return normed[0][0], normed, [mean * 2 + variance for mean, variance in moments]


NORMS: dict[str, Function] = {
    "native": _native_norms,
    "batch_norm in training": lambda: _running_statistics(),
    "weight_norm": lambda: (
        torch._weight_norm(A, POSITIVE[:, :1], 0),
        torch._weight_norm(CUBE, POSITIVE[:1, None, :].mT, 1),
    ),
    "softmax": lambda: CUBE.softmax(-1) + CUBE.softmax(1),
    "softmax of one number": lambda: torch.tensor(3.0).softmax(0),
    "_softmax": lambda: torch._softmax(CUBE, 2, False),
    "_safe_softmax": lambda: torch.ops.aten._safe_softmax(
        A.masked_fill(MASK[:, :1], -torch.inf), -1
    ),
    "softmax of nothing": lambda: torch.full((2, 3), -torch.inf).softmax(-1),
    "log_softmax": lambda: CUBE.log_softmax(1) + torch._log_softmax(CUBE, 1, False),
    "layer_norm": lambda: F.layer_norm(CUBE, (4,), torch.arange(4.0), torch.ones(4)),
    "layer_norm of two axes": lambda: F.layer_norm(CUBE, (3, 4)),
    "native_layer_norm": lambda: torch.native_layer_norm(CUBE, (4,), None, None, 1e-5),
    "rms_norm": lambda: F.rms_norm(CUBE, (4,), torch.arange(4.0)) + F.rms_norm(CUBE, (4,), eps=0.1),
    "batch_norm": lambda: F.batch_norm(CUBE, torch.zeros(3), torch.ones(3), torch.ones(3) * 2),
    "group_norm": lambda: F.group_norm(IMAGE, 2, torch.arange(4.0), torch.ones(4)),
    "norm": lambda: (CUBE.norm(), CUBE.norm(1, dim=1), CUBE.norm(float("inf"), dim=(0, 2))),
    "old norm": lambda: torch.ops.aten.norm.ScalarOpt_dim(CUBE, 2, [1], True),
    "vector norm": lambda: torch.linalg.vector_norm(CUBE, 3, dim=-1) + CUBE.norm(0, dim=-1),
    "normalize": lambda: F.normalize(CUBE, dim=-1),
}

REDUCTIONS: dict[str, Function] = {
    "of nothing": lambda: (
        NOTHING.sum(0),
        NOTHING.sum(),
        NOTHING.prod(0),
        NOTHING.mean(),
        NOTHING.any(0),
        NOTHING.all(),
    ),
    "cut before they are added": lambda: (
        A.sum(dtype=torch.int32),
        A.prod(1, dtype=torch.int64),
        A.cumsum(0, dtype=torch.int64),
    ),
    "nansum": lambda: (INFINITE[0].nansum(), INFINITE.nansum(1), INFINITE[0, 0].nansum()),
    "histc": lambda: (CUBE.histc(5, -2, 2), A.histc(4), WHOLE.float().histc(6, 0, 12)),
    "trace": lambda: torch.trace(SQUARE) + torch.trace(A),
    "sum": lambda: (CUBE.sum(), CUBE.sum(1), CUBE.sum((0, 2), keepdim=True), MASK.sum()),
    "prod": lambda: (CUBE.prod(), CUBE.prod(1)),
    "mean": lambda: (CUBE.mean(), CUBE.mean((0, -1)), torch.tensor(2.0).mean()),
    "max": lambda: (CUBE.max(), CUBE.max(1), CUBE.amax((0, 1)), torch.tensor(2.0).max()),
    "min": lambda: (CUBE.min(), CUBE.min(-1, keepdim=True), CUBE.amin(0), CUBE.aminmax(dim=1)),
    "argmax": lambda: (CUBE.argmax(), CUBE.argmax(1), CUBE.argmin(), CUBE.argmin(-1)),
    "any": lambda: (MASK.any(), MASK.any(0), MASK.all(), MASK.all(1), A.any(), MASK.all((0, 1))),
    "logsumexp": lambda: CUBE.logsumexp(-1),
    "logsumexp of nothing": lambda: (
        torch.full((2, 3), -torch.inf).logsumexp(1),
        INFINITE[1].logsumexp(0),
    ),
    "logcumsumexp": lambda: (CUBE.logcumsumexp(1), torch.tensor(2.0).logcumsumexp(0)),
    "bincount": lambda: (TIES.bincount(), TIES[:3].bincount(ROW, minlength=5)),
    "histc of equals": lambda: torch.tensor([2.0, 2.0]).histc(4),
    "count_nonzero": lambda: (A.relu().count_nonzero(), A.relu().count_nonzero(1)),
    "cumsum": lambda: (CUBE.cumsum(1), CUBE.cumprod(-1), CUBE.cummax(2)[0], CUBE.cummin(2)[0]),
    "var": lambda: (CUBE.var(), CUBE.var(1, unbiased=False), CUBE.std(-1), CUBE.std()),
    "var_mean": lambda: (torch.var_mean(CUBE, -1), torch.std_mean(CUBE, (0, 1))),
}

LAYOUT: dict[str, Function] = {
    "reflection_pad": lambda: (
        [F.pad(IMAGE[0, :, :3, :4], sides, mode="reflect") for sides in [(2, 1), (1, 3, 2, 1)]]
        + [F.pad(IMAGE[:, :1, None, :2, :3].expand(2, 1, 3, 2, 3), (1,) * 6, mode="reflect")]
    ),
    "replication_pad": lambda: (
        [F.pad(IMAGE[0, :2, :3, :4], sides, mode="replicate") for sides in [(5, 1), (1, 3, 2, -1)]]
        + [F.pad(IMAGE[:, :1, None, :2, :3], (1,) * 6, mode="replicate")]
    ),
    "clone": lambda: CUBE.clone() + CUBE.transpose(1, 2).contiguous().mT,
    "casts": lambda: (A.to(torch.int64), A.to(torch.bfloat16).float(), INFINITE.to(torch.int64)),
    "reshape": lambda: CUBE.transpose(0, 2).reshape(6, 4) + CUBE.mT.flatten(1).reshape(6, 4),
    "cat": lambda: torch.cat([CUBE, CUBE[:, :1], CUBE * 2], dim=1),
    "cat of two types": lambda: torch.cat([WHOLE, A]),
    "concat": lambda: torch.concat([A, B]) + torch.concatenate([A, B]),
    "ravel": lambda: CUBE.mT.ravel() + CUBE.mT.type_as(CUBE).flatten() + CUBE.flatten(),
    "type_as": lambda: A.type_as(WHOLE),
    "_to_copy": lambda: torch.ops.aten._to_copy(A, dtype=torch.float64),
    "stack": lambda: torch.stack([A, B], dim=1),
    "repeat": lambda: A.repeat(2, 1, 3),
    "flip": lambda: CUBE.flip(0, 2),
    "roll": lambda: CUBE.roll((1, -2), (0, 2)) + CUBE.roll(5),
    "pad": lambda: F.pad(CUBE, (1, 2, 0, 1), value=0.5) + 0,
    "flip of no axis": lambda: CUBE.flip(()),
    "rows put elsewhere": lambda: (
        torch.diag(ROW) + torch.diag_embed(ROW),
        A.rot90(),
        torch.block_diag(A, ROW),
        A.tile(2, 2),
        torch.diagonal_scatter(SQUARE, torch.arange(4.0)),
        torch.slice_scatter(CUBE, CUBE[:, :1] * 2, 1, 1, 2),
        torch.select_scatter(A, ROW, 0, 1),
        A.repeat_interleave(torch.tensor([1, 2, 0]), 1),
    ),
    "pixels put elsewhere": lambda: (
        F.pixel_shuffle(IMAGE, 2),
        F.pixel_unshuffle(IMAGE, 3),
        F.channel_shuffle(IMAGE, 2),
        F.unfold(IMAGE, 3, stride=2, padding=1),
        torch.ops.aten.max_unpool2d(*torch.ops.aten.max_pool2d_with_indices(IMAGE, [2, 2]), [6, 6]),
        F.interpolate(IMAGE, scale_factor=1.5, mode="nearest-exact"),
    ),
    "copies that are views elsewhere": lambda: (
        torch.permute_copy(CUBE, (2, 0, 1)),
        torch.ops.aten.unbind_copy(CUBE, 1),
        torch.ops.aten.split_copy(CUBE, 2),
    ),
    "complex numbers put elsewhere": lambda: (
        TURNS.flip(1),
        torch.stack([TURNS, TURNS]),
        F.pad(TURNS, (1, 0), value=0.5),
    ),
    "interpolated": lambda: (
        F.interpolate(IMAGE, (4, 9), mode="bilinear"),
        F.interpolate(IMAGE, (9, 4), mode="bicubic", align_corners=True),
        F.interpolate(IMAGE, (4, 4), mode="bilinear", antialias=True),
        F.interpolate(IMAGE[0], 7, mode="linear"),
    ),
    "folded": lambda: F.fold(F.unfold(IMAGE, 2), (6, 6), 2),
    "Fourier transforms": lambda: (
        torch.fft.rfft(CUBE),
        torch.fft.fft2(CUBE),
        torch.fft.irfft(TURNS),
        torch.fft.ifft(TURNS),
    ),
    "cropping": lambda: F.pad(CUBE, (-1, 0)),
    "repeat_interleave": lambda: CUBE.repeat_interleave(3, dim=1),
    "unfold": lambda: CUBE.unfold(2, 2, 1) * 1,
    "dropout": lambda: F.dropout(A, 0.5, training=False) + 0,
    "dropout of nothing": lambda: torch.dropout(A, 0.0, train=True) + 0,
    "hstack": lambda: torch.hstack([A, B]) + torch.tile(A, (2,)),
}

SELECTION: dict[str, Function] = {
    "sort, of many equals": lambda: (
        torch.sort(TIES),
        torch.sort(TIES, descending=True),
        torch.argsort(TIES),
        TIES.topk(9),
        torch.sort(TIES, stable=True),
    ),
    "where it holds": lambda: torch.where(MASK),
    "where, with numbers": lambda: (
        torch.where(MASK, A, 2.0),
        torch.where(MASK, 2.0, A),
        torch.where(MASK, 1.0, 2.0),
    ),
    "where": lambda: torch.where(MASK, A, B) + torch.where(MASK, A, 0.0),
    "masked_fill": lambda: A.masked_fill(MASK, -torch.inf),
    "tril": lambda: SQUARE.tril() + SQUARE.triu(1) + SQUARE.tril(-1),
    "topk": lambda: (CUBE.topk(2), CUBE.topk(2, largest=False), CUBE.topk(2, dim=1)),
    "topk in any order": lambda: [
        torch.tensor([[0.04, 0.13, 0.12, 0.14], [0.35, 0.25, 0.15, 0.12]]).topk(k, sorted=False)
        for k in (2, 3, 4)
    ],
    "all true": lambda: (
        torch.ops.aten._is_all_true(CUBE > 0),
        torch.ops.aten._is_any_true(CUBE > 0),
    ),
    "sort": lambda: (CUBE.sort(), CUBE.sort(1, descending=True), CUBE.argsort(), A.sort()),
    "embedding": lambda: F.embedding(torch.tensor([[1, 0], [3, 3]]), SQUARE),
    "embedding, shortened": lambda: F.embedding(
        torch.tensor([[1, 0], [3, 3]]), SQUARE.clone(), max_norm=1.5
    ),
    "gather": lambda: SQUARE.gather(1, torch.tensor([[0, 2], [3, 1]])),
    "index_select": lambda: CUBE.index_select(1, torch.tensor([2, 0, 2])),
    "take": lambda: CUBE.take(torch.tensor([0, 5, 23])),
    "take from the end": lambda: CUBE.take(torch.tensor([-1, -24, 3])),
    "of one number": lambda: (
        A[0, 0].index_select(0, torch.tensor([0])),
        A[0, 0].index_add(0, torch.tensor([0]), B[0, 1]),
        A[0, 0].index_copy(0, torch.tensor([0]), B[0, :1].clone()),
    ),
    "masked_scatter": lambda: (
        A.masked_scatter(MASK, B),
        CUBE.masked_scatter(MASK[:, :, None], CUBE.flip(0)),
    ),
    "searchsorted": lambda: (
        torch.searchsorted(ROW.sort()[0], A),
        torch.bucketize(A, ROW.sort()[0], right=True),
        torch.searchsorted(SQUARE, (SQUARE.mT + 0.01).contiguous(), side="right"),
    ),
    "isin": lambda: (torch.isin(WHOLE, torch.tensor([5, 12])), torch.isin(WHOLE, 5, invert=True)),
    "the middle": lambda: (
        CUBE.median(),
        CUBE.median(1),
        CUBE.kthvalue(2, 1),
        A.nanmedian(1),
        A.nanmedian(),
        torch.tensor(2.0).median(0),
        TIES.reshape(4, 10).median(1),
    ),
    "distinct": lambda: torch.ops.aten._unique(TIES)[0] * 1,
    "index": lambda: CUBE[torch.tensor([1, 0]), :, torch.tensor([-1, 2])],
    "index in the middle": lambda: CUBE[:, torch.tensor([[2, 0], [1, 1]])],
    "index by mask": lambda: (A[MASK], CUBE[MASK], CUBE[:, torch.tensor([True, False, True])]),
    "index by mask and place": lambda: (
        CUBE[torch.tensor([True, True]), torch.tensor([2, 0])],
        CUBE[MASK, torch.tensor([3, 0, 1, 2])],
        CUBE[torch.tensor([True, False]), :, torch.tensor([-1, 2])],
    ),
    "_unsafe_index": lambda: torch.ops.aten._unsafe_index(CUBE, [None, torch.tensor([2, 0])]),
    "nearest": lambda: F.interpolate(CUBE, scale_factor=2),
    "masked_select": lambda: CUBE.masked_select(MASK[:, :, None]),
    "one_hot": lambda: F.one_hot(torch.tensor([2, 0]), 4),
    "take_along_dim": lambda: torch.take_along_dim(A, WHOLE.abs() % 3, 1),
}

CREATION: dict[str, Function] = {
    "filled with whole numbers": lambda: (
        torch.full((2,), 2.7, dtype=torch.int32),
        torch.zeros(2, dtype=torch.int64).fill_(-2.7),
        torch.full((2,), 2, dtype=torch.bool),
    ),
    "zeros": lambda: torch.zeros(2) + torch.zeros_like(ROW[:2]) + ROW.new_zeros(2),
    "ones": lambda: torch.ones(2) + torch.ones_like(ROW[:2]) + ROW.new_ones(2),
    "full": lambda: torch.full((2,), 3.5) + torch.full_like(ROW[:2], 2) + ROW.new_full((2,), 1),
    "arange": lambda: (torch.arange(4), torch.arange(1, 4), torch.arange(0.5, 3, 0.5)),
    "linspace": lambda: torch.linspace(0, 1, 5) + torch.linspace(2, 2, 1),
    "between two cells": lambda: [
        make(start, end, 4)
        for make in (torch.linspace, torch.logspace)
        for start, end in ((ROW[0], 2.0), (-1.0, ROW[2]), (ROW[0], ROW[2]), (0.0, 2.0))
    ],
    "eye": lambda: torch.eye(3) + torch.eye(3, 3),
    "indices": lambda: (torch.tril_indices(3, 4), torch.triu_indices(3, 3, 1)),
    "scalar_tensor": lambda: torch.scalar_tensor(2.5) + 0,
    "tensor": lambda: torch.tensor([1.0, 2.0]) * 2,
}

CONVOLUTION: dict[str, Function] = {
    "conv1d": lambda: F.conv1d(CUBE, torch.ones(2, 3, 3) * 0.1, torch.ones(2), padding=1),
    "conv1d, strided": lambda: F.conv1d(CUBE, torch.ones(2, 3, 2), stride=2, dilation=2, padding=2),
    "conv1d, no batch": lambda: F.conv1d(CUBE[0], torch.ones(2, 3, 2)),
    "conv1d, same": lambda: F.conv1d(CUBE, torch.arange(27.0).reshape(3, 3, 3), padding="same"),
    "conv2d": lambda: F.conv2d(IMAGE, torch.ones(3, 4, 2, 2), stride=2),
    "conv2d, grouped": lambda: F.conv2d(IMAGE, torch.ones(4, 2, 3, 2), padding=(1, 0), groups=2),
    "conv3d": lambda: F.conv3d(IMAGE[:, None], torch.ones(1, 1, 2, 2, 2)),
    "transposed": lambda: F.conv_transpose1d(CUBE, KERNEL, torch.ones(2)),
    "transposed, strided": lambda: F.conv_transpose1d(CUBE[0], KERNEL, stride=2, output_padding=1),
    "transposed, dilated": lambda: F.conv_transpose1d(CUBE, KERNEL, dilation=2, padding=1),
    "transposed, all of it": lambda: F.conv_transpose1d(CUBE, KERNEL, stride=4, dilation=6),
    "transposed, planes": lambda: F.conv_transpose2d(
        IMAGE, torch.arange(48.0).reshape(4, 2, 3, 2), stride=(2, 1), padding=(1, 0), groups=2
    ),
    "transposed, solids": lambda: F.conv_transpose3d(IMAGE[:, None], torch.ones(1, 1, 2, 2, 2)),
}

POOLING: dict[str, Function] = {
    "pooling at random places": lambda: (
        torch.ops.aten.fractional_max_pool2d(IMAGE, [2, 3], [3, 2], SHARES[:2, :4, :2].clone()),
        torch.ops.aten.fractional_max_pool3d(
            IMAGE[:, :, None].expand(2, 4, 3, 6, 6), [1, 2, 2], [2, 4, 3], SHARES.clone()
        ),
        torch.ops.aten._adaptive_avg_pool2d(IMAGE, [4, 3]),
        torch.ops.aten._adaptive_avg_pool3d(IMAGE, [2, 4, 3]),
    ),
    "max_pool1d": lambda: F.max_pool1d(CUBE, 2) + F.max_pool1d(CUBE, 3, 2, padding=1),
    "max_pool2d": lambda: (
        F.max_pool2d(IMAGE, 3, 2, 1) + F.max_pool2d(IMAGE, (2, 4), ceil_mode=True)[..., :3, :1]
    ),
    "max_pool2d, dilated": lambda: F.max_pool2d(IMAGE[0], 2, 1, dilation=(3, 2)),
    "max_pool3d": lambda: F.max_pool3d(IMAGE, 2),
    "max_pool, and where": lambda: (
        F.max_pool1d(CUBE, 2, 1, return_indices=True),
        F.max_pool2d(IMAGE, (3, 2), (2, 3), (1, 0), dilation=(1, 2), return_indices=True),
        F.max_pool3d(IMAGE, 2, return_indices=True),
    ),
    "avg_pool1d": lambda: (F.avg_pool1d(CUBE, 2), F.avg_pool1d(CUBE, 3, 1, 1)),
    "avg_pool2d": lambda: (
        F.avg_pool2d(IMAGE, 3, 2, 1),
        F.avg_pool2d(IMAGE, (4, 2), ceil_mode=True, padding=(2, 0)),
        F.avg_pool2d(IMAGE, 3, 2, 1, count_include_pad=False),
        F.avg_pool2d(IMAGE, 2, divisor_override=3),
    ),
    "avg_pool3d": lambda: F.avg_pool3d(IMAGE, 2),
    "adaptive_avg_pool": lambda: (
        F.adaptive_avg_pool1d(CUBE, 3),
        F.adaptive_avg_pool2d(IMAGE, (4, 1)),
        F.adaptive_avg_pool2d(IMAGE, 1),
        F.adaptive_avg_pool3d(IMAGE, (3, 4, None)),
    ),
    "adaptive_max_pool": lambda: (
        F.adaptive_max_pool1d(CUBE, 3),
        F.adaptive_max_pool2d(IMAGE, (4, 5), return_indices=True),
        F.adaptive_max_pool3d(IMAGE, 2),
    ),
    "lp_pool": lambda: F.lp_pool2d(IMAGE, 2, 2),
}


def _accumulated() -> Tensor:
    out = torch.zeros(4, 4)
    out.index_put_((torch.tensor([0, 0, 2]),), torch.ones(3, 4), accumulate=True)
    return out


def _written() -> tuple[Tensor, ...]:
    """Every way of writing into a tensor that already has numbers."""
    out = torch.zeros(4, 4)
    out[0] = 5
    out[:, 1] += 2
    out[1:3, 2:] = SQUARE[:2, :2]
    out[torch.tensor([3, 0]), torch.tensor([3, 0])] = torch.tensor([7.0, 8.0])
    out[out > 6] = -1
    out.scatter_(1, torch.tensor([[0], [1], [2], [3]]), 9.0)
    out.scatter_add_(0, torch.tensor([[1, 1, 2, 3]]), torch.ones(1, 4))
    out.index_add_(0, torch.tensor([0, 0]), SQUARE[:2])
    out.index_copy_(1, torch.tensor([2]), SQUARE[:, :1])
    out.index_fill_(0, torch.tensor([1]), 0.5)
    out.masked_fill_(out > 8, 8)
    out.clamp_(max=7).mul_(2).add_(1, alpha=3)
    before = out.clone()
    out.zero_()
    out.copy_(torch.arange(4)).fill_diagonal_(4)
    return before, out, out.sum()


def _reduced_by_index() -> list[Tensor]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch calls the operator new
        return [
            A.index_reduce(0, torch.tensor([1, 1]), B, how, include_self=keep)
            for how in ("prod", "mean", "amax", "amin")
            for keep in (True, False)
        ]


WRITING: dict[str, Function] = {
    "writes": _written,
    "accumulated": _accumulated,
    "fill": lambda: torch.empty(3).fill_(2.5) * 1,
    "out=": lambda: torch.add(A, B, out=torch.empty(2, 3)),
    "scatter_reduce": lambda: tuple(
        torch.zeros(2, 3).scatter_reduce(1, WHOLE.abs() % 2, A, how, include_self=keep)
        for how in ("sum", "prod", "mean", "amax", "amin")
        for keep in (True, False)
    ),
    "scatter": lambda: torch.scatter(A, 1, torch.tensor([[0], [2]]), B),
    "put": lambda: (
        A.put(torch.tensor([[0, -1]]), torch.tensor([[7.0, 8.0]])),
        A.put(torch.tensor([1, 1]), ROW[:2].clone(), accumulate=True),
    ),
    "index_reduce": _reduced_by_index,
    "scatter of one number": lambda: torch.scatter(torch.tensor(1.0), 0, torch.tensor(0), 5.0),
    "index_add, scaled": lambda: torch.index_add(A, 0, torch.tensor([1, 1]), B, alpha=-2),
    "index_fill from the end": lambda: A.index_fill(1, torch.tensor([-1]), 4.0),
    "index_put from the end": lambda: A.index_put(
        (torch.tensor([0, -1]), torch.tensor([-3, 1])), torch.tensor([7.0, 8.0])
    ),
    "index_put on outer axes": lambda: torch.ops.aten.index_put(
        CUBE, [torch.tensor([[1], [0]]), None, torch.tensor([3, 0])], torch.tensor(7.0)
    ),
    "index_put by mask and place": lambda: CUBE.index_put(
        (torch.tensor([True, True]), torch.tensor([2, 0])), torch.arange(4.0)
    ),
}

LOSSES: dict[str, Function] = {
    "smooth_l1_loss": lambda: (
        F.smooth_l1_loss(A, B, beta=2),
        F.smooth_l1_loss(A, B, beta=0.0, reduction="none"),
    ),
    "huber_loss": lambda: (F.huber_loss(A, B, delta=2), F.huber_loss(A, B, reduction="sum")),
    "binary_cross_entropy": lambda: (
        F.binary_cross_entropy(A.sigmoid(), B.sigmoid()),
        F.binary_cross_entropy(MASK.float(), B.sigmoid(), ROW.abs(), reduction="none"),
    ),
    "soft_margin_loss": lambda: F.soft_margin_loss(A, B.sign()),
    "cross_entropy": lambda: F.cross_entropy(A, torch.tensor([2, 0])),
    "cross_entropy, ignored": lambda: F.cross_entropy(A, torch.tensor([-100, 1])),
    "cross_entropy, weighted": lambda: F.cross_entropy(A, torch.tensor([2, 0]), POSITIVE[0]),
    "cross_entropy, smoothed": lambda: F.cross_entropy(
        CUBE, torch.tensor([[0, 1, 2, 0], [1, 1, 0, 2]]), label_smoothing=0.1
    ),
    "cross_entropy of probabilities": lambda: F.cross_entropy(A, B.softmax(-1)),
    "nll_loss": lambda: F.nll_loss(A, torch.tensor([2, 0]), reduction="none"),
    "nll_loss by its parts": lambda: (
        torch.ops.aten.nll_loss(A, torch.tensor([2, 0])),
        torch.ops.aten.nll_loss2d(IMAGE, torch.zeros(2, 6, 6, dtype=torch.int64)),
    ),
    "nll_loss, sum": lambda: F.nll_loss(A, torch.tensor([2, 0]), reduction="sum"),
    "mse_loss": lambda: F.mse_loss(A, B) + F.mse_loss(A, B, reduction="none"),
    "l1_loss": lambda: F.l1_loss(A, B) + F.l1_loss(A, B, reduction="sum"),
    "bce": lambda: F.binary_cross_entropy_with_logits(A, A.sigmoid()),
    "bce, weighted": lambda: F.binary_cross_entropy_with_logits(
        A, A.sigmoid(), weight=POSITIVE, pos_weight=ROW.abs(), reduction="none"
    ),
}


def _lstm() -> Any:
    torch.manual_seed(3)
    return torch.nn.LSTM(4, 3, num_layers=2, bidirectional=True, batch_first=True).eval()(CUBE)


def _gru() -> Any:
    torch.manual_seed(4)
    return torch.nn.GRU(4, 3)(CUBE)


RECURRENT: dict[str, Function] = {"lstm": _lstm, "gru": _gru}

ATTENTION: dict[str, Function] = {
    "plain": lambda: F.scaled_dot_product_attention(CUBE, CUBE, CUBE),
    "causal": lambda: F.scaled_dot_product_attention(CUBE, CUBE, CUBE, is_causal=True),
    "causal, more keys": lambda: F.scaled_dot_product_attention(
        CUBE[:, :2], CUBE, CUBE, is_causal=True
    ),
    "masked": lambda: F.scaled_dot_product_attention(
        CUBE, CUBE, CUBE, attn_mask=torch.tensor([[True, False, True], [False] * 3, [True] * 3])
    ),
    "biased": lambda: F.scaled_dot_product_attention(CUBE, CUBE, CUBE, attn_mask=SQUARE[:3, :3]),
    "scaled": lambda: F.scaled_dot_product_attention(CUBE, CUBE, CUBE, scale=0.7),
    "grouped": lambda: F.scaled_dot_product_attention(
        IMAGE, IMAGE[:, :2], IMAGE[:, 2:], enable_gqa=True
    ),
}


IDS = torch.tensor([3, 0, 1, 1, 2])

WRITTEN_OUT: dict[str, Function] = {
    "embedding_bag": lambda: (
        [
            F.embedding_bag(IDS, SQUARE, torch.tensor([0, 2, 2]), mode=mode)
            for mode in ("sum", "mean", "max")
        ]
        + [
            F.embedding_bag(
                IDS,
                SQUARE,
                torch.tensor([0, 2, 5]),
                mode="sum",
                per_sample_weights=CUBE[0, :, 0].new_tensor([1, 2, 3, 4, 5]),
                include_last_offset=True,
                padding_idx=1,
            )
        ]
    ),
    "ctc_loss": lambda: [
        F.ctc_loss(
            CUBE.reshape(6, 1, 4).expand(6, 2, 4).log_softmax(-1),
            targets,
            torch.tensor([6, 4]),
            torch.tensor([2, 3]),
            reduction="none",
        )
        for targets in (torch.tensor([[1, 1, 0], [3, 2, 1]]), torch.tensor([1, 1, 3, 2, 1]))
    ],
    "packed sequences": lambda: torch._pack_padded_sequence(CUBE, torch.tensor([3, 1]), True),
    "distances within": lambda: [F.pdist(SQUARE.cos(), p) for p in (1, 2, 3)],
    "cross": lambda: torch.linalg.cross(A, B) + torch.cross(A, ROW.expand(2, 3), dim=1),
    "addr": lambda: torch.addr(A, ROW[:2], ROW, beta=0.5, alpha=2),
    "renorm": lambda: torch.renorm(CUBE, 2, 1, 3.0),
}

FAMILIES: dict[str, dict[str, Function]] = {
    "written out": WRITTEN_OUT,
    "elementwise": ELEMENTWISE,
    "activations": ACTIVATIONS,
    "complex": COMPLEX,
    "products": PRODUCTS,
    "norms": NORMS,
    "reductions": REDUCTIONS,
    "layout": LAYOUT,
    "selection": SELECTION,
    "creation": CREATION,
    "convolution": CONVOLUTION,
    "pooling": POOLING,
    "writing": WRITING,
    "losses": LOSSES,
    "recurrent": RECURRENT,
    "attention": ATTENTION,
    "gradients": GRADIENTS,
}
EXAMPLES = {
    f"{family}: {name}": function
    for family, functions in FAMILIES.items()
    for name, function in functions.items()
}
