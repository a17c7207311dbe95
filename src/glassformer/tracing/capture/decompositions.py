"""Operators expressed by simpler ones that have rules, where torch has no decomposition.

The trace then shows intermediate numbers that the kernel hides: the rows of an embedding bag, the
time steps of a CTC loss. The decompositions are differentiable, too.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache, partial, reduce
from typing import Any, Literal

import torch
from torch import Tensor
from torch._decomp import decomposition_table
from torch.nn import functional
from torch.utils._python_dispatch import _disable_current_modes

from glassformer.tracing.arithmetic import rules
from glassformer.tracing.capture.fused_layers import is_recurrent
from glassformer.tracing.capture.operator_calls import Operator

Decomposition = Callable[..., Any]


def _ours(func: torch._ops.OpOverload) -> Decomposition | None:
    name = func._schema.name
    if func._schema.is_mutable and not name.endswith("_"):
        return None  # an `out=` variant
    return _OWN.get(name) or _OWN.get(f"{name}.{func._overloadname}")


def _of_torch(func: torch._ops.OpOverload) -> Decomposition | None:
    """Those in `torch._refs` are not used: they consist of primitives without rules."""
    theirs = None if func._schema.is_mutable else decomposition_table.get(func)
    aten = theirs is not None and theirs.__module__ == "torch._decomp.decompositions"
    return theirs if aten else None


def sigmoid(z: Tensor) -> Tensor:
    """1 / (1 + exp(−z)) for complex numbers; for real ones there is a rule."""
    return torch.ones_like(z) / ((-z).exp() + 1)


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


def rrelu(
    x: Tensor,
    lower: float = 1 / 8,
    upper: float = 1 / 3,
    training: bool = False,
    *_: object,
    in_place: bool = False,
) -> Any:
    """Outside training, a leaky ReLU of the mean slope, which draws no random numbers."""
    if training:
        return NotImplemented
    return functional.leaky_relu(x, (lower + upper) / 2, in_place)


def embedding_bag(
    weight: Tensor,
    indices: Tensor,
    offsets: Tensor,
    _by_frequency: bool = False,
    mode: int = 0,
    _sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int = -1,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The sum of each bag's rows, their mean (mode 1), or the maximum of each column (mode 2).

    Also returns the bag of each index, the bag sizes and, in mode 2, the index of each maximum.
    """
    bags = len(offsets) - int(include_last_offset)
    number = torch.arange(len(indices), device=offsets.device)
    bag_of_each = torch.searchsorted(offsets[:bags], number, right=True) - 1
    bag = bag_of_each
    if padding_idx >= 0:
        kept = indices != padding_idx
        indices, bag = indices[kept], bag[kept]
        per_sample_weights = None if per_sample_weights is None else per_sample_weights[kept]
    rows = torch.embedding(weight, indices)
    if per_sample_weights is not None:
        rows = rows * per_sample_weights[:, None]
    nothing = rows.new_zeros(bags, weight.shape[1])
    sizes = torch.bincount(bag, minlength=bags)
    if mode == 2:
        places = bag[:, None].expand_as(rows)
        made = nothing.scatter_reduce(0, places, rows, "amax", include_self=False)
        return made, bag_of_each, sizes, _rows_of_largest(rows, made, bag, places, indices)
    made = nothing.index_add(0, bag, rows)
    if mode == 1:
        made = made / sizes.clamp(min=1)[:, None]
    return made, bag_of_each, sizes, sizes


def _rows_of_largest(
    rows: Tensor, largest: Tensor, bag: Tensor, places: Tensor, indices: Tensor
) -> Tensor:
    """For each bag and column, the index whose row has the maximum; 0 for an empty bag."""
    count = len(rows)
    at = torch.where(rows == largest[bag], torch.arange(count, device=rows.device)[:, None], count)
    nowhere = torch.full(largest.shape, count, device=rows.device)
    first = nowhere.scatter_reduce(0, places, at, "amin")
    return torch.cat([indices, indices.new_zeros(1)])[first]


def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Tensor | list[int],
    target_lengths: Tensor | list[int],
    blank: int = 0,
    _zero_infinity: bool = False,
) -> tuple[Tensor, Tensor]:
    """−log of the total probability of all alignments, time step by time step.

    The states are a sequence's labels with blanks before, between and after them.
    """
    times, lengths = (torch.as_tensor(given) for given in (input_lengths, target_lengths))
    labels = targets if targets.ndim == 2 else _below_each_other(targets, lengths.tolist())
    states = labels.new_full((len(labels), 2 * labels.shape[1] + 1), blank)
    states[:, 1::2] = labels
    number = torch.arange(states.shape[1], device=states.device)
    # A label may directly follow another one, unless they are the same.
    skips = (states != blank) & (number > 1) & (states != states.roll(2, 1))
    emitted = log_probs.gather(2, states.expand(len(log_probs), -1, -1))
    certain = torch.where(number == 0, 0.0, _IMPOSSIBLE).to(log_probs.dtype)
    reached = torch.where((times > 0)[:, None] & (number < 2), emitted[0], _IMPOSSIBLE)
    reached = torch.where((times > 0)[:, None], reached, certain)
    for time, now in enumerate(emitted[1:], 1):
        before = functional.pad(reached, (2, 0), value=_IMPOSSIBLE)
        skipped = torch.where(skips, before[:, :-2], _IMPOSSIBLE)
        joined = torch.logsumexp(torch.stack([reached, before[:, 1:-1], skipped]), 0) + now
        reached = torch.where((time < times)[:, None], joined, reached)
    last = reached.gather(1, 2 * lengths[:, None].long())
    label = reached.gather(1, (2 * lengths[:, None].long() - 1).clamp(min=0))
    label = torch.where(lengths[:, None] > 0, label, _IMPOSSIBLE)
    loss = -torch.logaddexp(last, label).squeeze(1)
    return torch.where(loss > -_IMPOSSIBLE / 2, math.inf, loss), log_probs.detach()


def _below_each_other(targets: Tensor, lengths: list[int]) -> Tensor:
    """Concatenated sequences, padded to the longest."""
    rows = list(targets.split([int(length) for length in lengths]))
    return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)


_IMPOSSIBLE = -1e30
"""The log of probability 0. −∞ would have no gradient."""


def trilinear(
    i1: Tensor,
    i2: Tensor,
    i3: Tensor,
    expand1: list[int],
    expand2: list[int],
    expand3: list[int],
    sumdim: list[int],
    _unroll_dim: int = 1,
) -> Tensor:
    """Σ of the products of three tensors, each expanded by the axes it lacks."""
    product: Tensor = (
        reduce(Tensor.unsqueeze, expand1, i1)
        * reduce(Tensor.unsqueeze, expand2, i2)
        * reduce(Tensor.unsqueeze, expand3, i3)
    )
    return product.sum(sumdim) if sumdim else product


def pairwise_distances(x: Tensor, p: float = 2.0) -> Tensor:
    """The distance of each row from each later row."""
    first, second = torch.triu_indices(len(x), len(x), 1).unbind()
    distances: Tensor = torch.linalg.vector_norm(x[first] - x[second], p, -1)
    return distances


def distances(a: Tensor, b: Tensor, p: float, _mode: int | None = None) -> Tensor:
    """The distance of each row of a from each row of b."""
    gaps = a.unsqueeze(-2) - b.unsqueeze(-3)
    between: Tensor = torch.linalg.vector_norm(gaps, p, -1)
    return between


def cross(a: Tensor, b: Tensor, *, dim: int = -1) -> Tensor:
    """a₁b₂ − a₂b₁ and its cyclic permutations."""
    a, b = torch.broadcast_tensors(a, b)
    return a.roll(2, dim) * b.roll(1, dim) - a.roll(1, dim) * b.roll(2, dim)


def addr(own: Tensor, vec1: Tensor, vec2: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """β · c + α · a[i] · b[j]."""
    product = torch.outer(vec1, vec2)
    product = product if alpha == 1 else alpha * product
    return product if beta == 0 else own * beta + product


def renorm(x: Tensor, p: float, dim: int, maxnorm: float) -> Tensor:
    """Each slice rescaled to `maxnorm` if its norm is larger."""
    others = [axis for axis in range(x.ndim) if axis != dim % x.ndim]
    norms = torch.linalg.vector_norm(x, p, others, keepdim=True)
    return torch.where(norms > maxnorm, x * (maxnorm / (norms + 1e-7)), x)


def sample_volume(
    x: Tensor, grid: Tensor, interpolation: int, padding: int, align_corners: bool
) -> Tensor:
    """Trilinear interpolation of the eight cells around each grid point; or the nearest cell."""
    sizes = x.shape[2:]
    at = [
        _position(grid[..., 2 - axis], size, padding, align_corners)
        for axis, size in enumerate(sizes)
    ]
    if interpolation == 1:
        return _cells_at(x, [place.round() for place in at])
    low = [place.floor() for place in at]
    made: Tensor | None = None
    for corner in range(8):
        ups = [corner >> axis & 1 for axis in (2, 1, 0)]
        places = [start + up for start, up in zip(low, ups, strict=True)]
        # Not 1 − |place − where|: at a cell itself the kernel has a slope, |0| none.
        near = [
            where - start if up else start + 1 - where
            for start, up, where in zip(low, ups, at, strict=True)
        ]
        part = _cells_at(x, places) * (near[0] * near[1] * near[2])[:, None]
        made = part if made is None else made + part
    assert made is not None
    return made


def _position(share: Tensor, size: int, padding: int, align_corners: bool) -> Tensor:
    """−1 … 1 as a position on an axis; outside: unchanged (0), clamped (1) or reflected (2)."""
    place = (share + 1) / 2 * (size - 1) if align_corners else ((share + 1) * size - 1) / 2
    if padding == 2:
        low, span = (0.0, size - 1.0) if align_corners else (-0.5, float(size))
        if span == 0:
            place = place * 0
        else:
            shifted = place - low
            away = torch.where(shifted < 0, -shifted, shifted)
            rest, turns = away % span, (away / span).floor()
            place = torch.where(turns % 2 == 0, rest, span - rest) + low
    if not padding:
        return place
    held = torch.where(place <= 0, 0.0, place)  # at the edge itself the kernel's slope is 0
    return torch.where(held >= size - 1, size - 1.0, held)


def _cells_at(x: Tensor, places: list[Tensor]) -> Tensor:
    """x[n, :, z, y, x] at integer positions; 0 outside."""
    inside = torch.ones_like(places[0], dtype=torch.bool)
    held = []
    for place, size in zip(places, x.shape[2:], strict=True):
        inside = inside & (place >= 0) & (place < size)
        held.append(place.clamp(0, size - 1).long())
    batch = torch.arange(len(x), device=x.device).reshape(-1, *[1] * (places[0].ndim - 1))
    found = x[batch, :, held[0], held[1], held[2]].movedim(-1, 1)
    return torch.where(inside[:, None], found, 0.0)


def repeated_places(repeats: Tensor, *, output_size: int | None = None) -> Tensor:
    """0 repeated `repeats[0]` times, then 1 repeated `repeats[1]` times, …."""
    ends = repeats.cumsum(0)
    count = output_size if output_size is not None else int(ends[-1]) if len(ends) else 0
    places = torch.arange(count, device=repeats.device)
    return torch.searchsorted(ends, places, right=True).to(repeats.dtype)


def linear_cross_entropy(
    x: Tensor,
    matrix: Tensor,
    target: Tensor,
    bias: Tensor | None,
    weight: Tensor | None,
    reduction: str,
    ignore_index: int,
    label_smoothing: float,
    *_: Any,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The loss of a linear layer's logits, which the chunked kernel never stores all at once."""
    logits = functional.linear(x, matrix, bias)
    loss = functional.cross_entropy(
        logits, target, weight, ignore_index=ignore_index, reduction=reduction,
        label_smoothing=label_smoothing,
    )  # fmt: skip
    return loss, loss, loss, loss


def linear_cross_entropy_each(
    x: Tensor,
    matrix: Tensor,
    target: Tensor,
    bias: Tensor | None,
    weight: Tensor | None,
    ignore_index: int,
    *_: Any,
) -> Tensor:
    """The loss of each position."""
    return linear_cross_entropy(x, matrix, target, bias, weight, "none", ignore_index, 0.0)[0]


def narrow(x: Tensor, dim: int, start: Tensor, length: int) -> Tensor:
    """A view whose place is a number of a tensor, read in Python."""
    return x.narrow(dim, int(start), length)


def tensor_split(x: Tensor, where: Tensor, dim: int = 0) -> tuple[Tensor, ...]:
    """Views between the numbers of a tensor, read in Python."""
    return x.tensor_split(where.tolist(), dim)


_SMALLEST_SCALE = 6.1e-5  # the kernel's lower limit; it does not affect the zero point


def linear_dynamic(x: Tensor, packed: Any, reduce_range: bool = False) -> Tensor:
    """A linear layer in integers: x is quantised to 8 bits by its own minimum and maximum."""
    with _disable_current_modes():  # the packed weights are constants of the layer
        weight, bias = torch.ops.quantized.linear_unpack(packed)
        whole, scales, zeros = _dequantised_parts(weight)
    least, most = x.min().clamp(max=0), x.max().clamp(min=0)
    levels = 127 if reduce_range else 255
    scale = (most.double() - least.double()) / levels
    scale = torch.where(scale == 0, 0.1, scale)  # if all of x is 0, as in the kernel
    zero = (-least.double() / scale).round()
    scale = scale.clamp(min=_SMALLEST_SCALE)
    numbers = (x / scale.float()).round() + zero.float()
    numbers = numbers.clamp(0, levels)
    product = (numbers - zero.float()) @ (whole - zeros).mT
    made = product * (scale.float() * scales)
    return made if bias is None else made + bias


def _dequantised_parts(weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """A quantised matrix's integers, and the scale and zero point of its rows (or of all)."""
    whole = weight.int_repr().float()
    if weight.qscheme() == torch.per_tensor_affine:
        return whole, torch.tensor(weight.q_scale()), torch.tensor(float(weight.q_zero_point()))
    scales = weight.q_per_channel_scales().float()
    return whole, scales, weight.q_per_channel_zero_points().float()[:, None]


_OWN: dict[str, Decomposition] = {
    "aten::sigmoid": sigmoid,
    "aten::rrelu": rrelu,
    "aten::rrelu_": partial(rrelu, in_place=True),
    "aten::narrow.Tensor": narrow,
    "aten::tensor_split.tensor_indices_or_sections": tensor_split,
    "aten::_embedding_bag": embedding_bag,
    "aten::_embedding_bag_forward_only": embedding_bag,
    "aten::_ctc_loss": ctc_loss,
    "aten::_trilinear": trilinear,
    "aten::_pdist_forward": pairwise_distances,
    "aten::linalg_cross": cross,
    "aten::addr": addr,
    "aten::renorm": renorm,
    "aten::grid_sampler_3d": sample_volume,
    "aten::_cdist_forward": distances,
    "aten::repeat_interleave.Tensor": repeated_places,
    "torch_nn::_linear_cross_entropy_batch_chunked": linear_cross_entropy,
    "torch_nn::_linear_cross_entropy_batch_chunked_no_reduction": linear_cross_entropy_each,
    "quantized::linear_dynamic": linear_dynamic,
}


# --- ways ---
# How an operator runs under the recorder: whole, expanded, or decomposed.


# In-place operators that change a tensor's metadata but no number.
LAYOUT_ALONE = frozenset([
    "detach", "as_strided", "requires_grad", "retain_grad", "squeeze", "unsqueeze", "transpose",
    "swapaxes", "swapdims", "t",
])  # fmt: skip

Way = Literal["whole", "attention", "recurrent", "dropout", "decomposed", "unseen"]


def way_of(operator: Operator, args: tuple[Any, ...]) -> Way:
    """How a call of an operator runs under the recorder."""
    way = _way_of(operator)
    if way == "whole" and _is_written_out_if_complex(operator) and _any_complex(args):
        return "decomposed"
    return way


@cache
def _way_of(operator: Operator) -> Way:
    if operator.func.namespace == "prim":
        return "unseen"
    if operator.name == "scaled_dot_product_attention":
        return "attention"
    if is_recurrent(operator):
        return "recurrent"
    if operator.name == "dropout":
        return "dropout"
    return "decomposed" if rules.must_decompose(operator) else "whole"


@cache
def _is_written_out_if_complex(operator: Operator) -> bool:
    return rules.must_decompose(operator, is_complex=True)


def _any_complex(values: Iterable[Any]) -> bool:
    for value in values:
        if isinstance(value, Tensor):
            if value.is_complex():
                return True
        elif isinstance(value, list) and _any_complex(value):
            return True
    return False


def is_idle(operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether this is a dropout that drops nothing and just returns its input."""
    if not operator.name.endswith("dropout") or "train" not in operator.parameters:
        return False
    given = {**dict(zip(operator.parameters, args, strict=False)), **kwargs}
    return not given["train"] or given["p"] == 0


_ONEDNN = threading.RLock()


@contextmanager
def without_onednn(off: bool = True) -> Iterator[None]:
    """Run the block without oneDNN kernels, which would hide a whole recurrent layer."""
    if not off:
        yield
        return
    with _ONEDNN:
        enabled = torch._C._get_mkldnn_enabled()
        torch._C._set_mkldnn_enabled(False)
        try:
            yield
        finally:
            torch._C._set_mkldnn_enabled(enabled)


def decompose(func: torch._ops.OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run an operator as the smaller ones it is made of; NotImplemented if that is impossible."""
    if (ours := _ours(func)) is not None:
        made = ours(*args, **kwargs)
        if made is not NotImplemented:
            return made
    whole = torch._C.DispatchKey.CompositeImplicitAutograd
    # Prefer the composite kernel that the model itself would run over torch's Python decomposition,
    # which returns other shapes for some operators and releases.
    if torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), whole):
        return func._op_dk(whole, *args, **kwargs)
    made = func.decompose(*args, **kwargs)
    if made is NotImplemented and (theirs := _of_torch(func)) is not None:
        return theirs(*args, **kwargs)
    return made
