"""Softmax and the norms, and their gradients: a cell relative to the rest of its row."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from glassformer.tracing.arithmetic import expressions as e
from glassformer.tracing.arithmetic.rules.rule_notation import RuleFormula, formula
from glassformer.tracing.arithmetic.rules.rule_registry import (
    LETTERS,
    Build,
    cell,
    rule,
    running,
)
from glassformer.tracing.capture.memory import Index, View
from glassformer.tracing.capture.operator_calls import Call

_NORMED = formula("(x − μ)/√(v + ε)·weight + bias")
_SCALE = formula("1/√(v + ε)")

# --- softmax ---


def _along(view: View, call: Call, index: Index) -> tuple[e.Entry, tuple[e.Axis, ...]]:
    """The row of a cell: its index with one axis running."""
    if not index:
        return cell(view), ()
    axis = call.axis("dim", view.ndim)
    j = e.Axis("j", view.shape[axis])
    return cell(view, *index[:axis], j, *index[axis + 1 :]), (j,)


def _of_row(written: RuleFormula) -> Build:
    """A formula of the cell x, its row's maximum m, and the sum Z of exp(xⱼ − m)."""

    def build(call: Call, index: Index) -> e.Expression:
        x = call.view("self")
        body, axes = _along(x, call, index)
        m = e.Named("m", e.Reduce("max", body, axes) if axes else body)
        exponentials = e.Function("exp", (body - m,))
        z = e.Named("Z", e.total(exponentials, *axes))
        return written.of(x=cell(x, *index), m=m, Z=z)

    return build


rule("softmax", "_softmax")(_of_row(formula("exp(x − m)/Z")))
rule("_safe_softmax")(_of_row(formula("0 if m == −∞ else exp(x − m)/Z")))  # 0 if all is masked
rule("log_softmax", "_log_softmax")(_of_row(formula("x − m − log(Z)")))


@rule("_softmax_backward_data")
def softmax_gradient(call: Call, index: Index) -> e.Expression:
    """yᵢ · (gᵢ − Σⱼ gⱼ · yⱼ)."""
    g, y = call.view("grad_output"), call.view("output")
    (incoming, axes), (outputs, _) = _along(g, call, index), _along(y, call, index)
    product = incoming * outputs
    mean = e.Named("ḡ", e.total(product, *axes)) if axes else product
    return cell(y, *index) * (cell(g, *index) - mean)


@rule("_log_softmax_backward_data")
def log_softmax_gradient(call: Call, index: Index) -> e.Expression:
    """gᵢ − exp(yᵢ) · Σⱼ gⱼ."""
    g, y = call.view("grad_output"), call.view("output")
    incoming, axes = _along(g, call, index)
    probability = e.Function("exp", (cell(y, *index),))
    return cell(g, *index) - probability * e.total(incoming, *axes)


# --- layer norm, RMS norm ---


def _moments(cells: e.Entry, axes: tuple[e.Axis, ...]) -> tuple[e.Named, e.Named]:
    """The mean μ and the biased variance σ² of a row."""
    count = math.prod(axis.size for axis in axes)
    mean = e.Named("μ", e.total(cells, *axes) / count)
    variance = e.Named("σ²", e.total((cells - mean) ** 2, *axes) / count)
    return mean, variance


def _normed(
    call: Call, x: e.Entry, mean: e.Expression, variance: e.Expression, at: Index
) -> e.Expression:
    """(x − μ) / √(σ² + ε) · γ + β, with γ and β taken at index `at`."""
    weight, bias = (call.maybe_view(name) for name in ("weight", "bias"))
    return _NORMED.of(
        x=x, μ=mean, v=variance, ε=float(call.number_of("eps")),
        weight=None if weight is None else cell(weight, *at),
        bias=None if bias is None else cell(bias, *at),
    )  # fmt: skip


def _last_axes(call: Call, index: Index) -> tuple[e.Entry, tuple[e.Axis, ...], int]:
    """The cells of the normalised axes, these axes, and the number of the first."""
    x = call.view("input")
    start = x.ndim - len(call.bound["normalized_shape"])
    axes = running(x.shape[start:])
    return cell(x, *index[:start], *axes), axes, start


@rule("layer_norm", "native_layer_norm")
def layer_norm(call: Call, index: Index) -> e.Expression:
    """(x − μ) / √(σ² + ε) · γ + β, σ² biased."""
    cells, axes, start = _last_axes(call, index)
    return _normed(call, cell(cells.view, *index), *_moments(cells, axes), index[start:])


def _statistics(moments: Callable[[Call, Index], tuple[e.Named, e.Named]], *norms: str) -> None:
    """The rules of what norms return beside their result: μ, and 1 / √(σ² + ε)."""

    @rule(*norms, output=1)
    def mean(call: Call, index: Index) -> e.Expression:
        return moments(call, index)[0].body

    @rule(*norms, output=2)
    def scale(call: Call, index: Index) -> e.Expression:
        return _SCALE.of(v=moments(call, index)[1], ε=float(call.number_of("eps")))


_statistics(lambda call, index: _moments(*_last_axes(call, index)[:2]), "native_layer_norm")


@rule("rms_norm")
def rms_norm(call: Call, index: Index) -> e.Expression:
    """x / √(mean of x² + ε) · γ."""
    cells, axes, start = _last_axes(call, index)
    x, weight, eps = cells.view, call.maybe_view("weight"), call.bound.get("eps")
    mean = e.total(cells**2, *axes) / math.prod(axis.size for axis in axes)
    computed_in = torch.promote_types(x.dtype, torch.float32)
    return _RMS_NORMED.of(
        x=cell(x, *index), s=e.Named("s", mean),
        ε=torch.finfo(computed_in).eps if eps is None else float(eps),
        weight=None if weight is None else cell(weight, *index[start:]),
    )  # fmt: skip


_RMS_NORMED = formula("x/√(s + ε)·weight")


class _LayerNorm:
    """The quantities that the gradient of a layer norm is made of, for one position (or all)."""

    def __init__(self, call: Call, lead: tuple[int | e.Axis, ...]) -> None:
        self.x, self.g = call.view("input"), call.view("grad_out")
        self.gain = call.maybe_view("weight")
        self.lead = lead
        mean = call.view("mean")
        at = (*lead, *([0] * (mean.ndim - len(lead))))
        self.mean, self.root = cell(mean, *at), cell(call.view("rstd"), *at)

    def normed(self, *place: int | e.Axis) -> e.Expression:
        """x̂ = (x − μ) · r, r = 1 / √(σ² + ε)."""
        return (cell(self.x, *self.lead, *place) - self.mean) * self.root

    def incoming(self, *place: int | e.Axis) -> e.Expression:
        """ĝ = g · γ."""
        g = cell(self.g, *self.lead, *place)
        return g if self.gain is None else g * cell(self.gain, *place)


_LAYER_NORM_GRADIENT = formula("r·(g − mean − x·tilt)")


@rule("native_layer_norm_backward")
def layer_norm_gradient(call: Call, index: Index) -> e.Expression:
    """r · (ĝᵢ − mean ĝ − x̂ᵢ · mean (ĝ · x̂)), with ĝ = g · γ and x̂ = (x − μ) · r."""
    x = call.view("input")
    start = x.ndim - len(call.bound["normalized_shape"])
    norm, own, axes = _LayerNorm(call, index[:start]), index[start:], running(x.shape[start:])
    size = math.prod(axis.size for axis in axes)
    product = norm.incoming(*axes) * norm.normed(*axes)
    return _LAYER_NORM_GRADIENT.of(
        r=norm.root, g=norm.incoming(*own), x=norm.normed(*own),
        mean=e.Named("ḡ", e.total(norm.incoming(*axes), *axes) / size),
        tilt=e.Named("t", e.total(product, *axes) / size),
    )  # fmt: skip


def _over_positions(call: Call, index: Index) -> tuple[_LayerNorm, tuple[e.Axis, ...]]:
    x = call.view("input")
    axes = running(x.shape[: x.ndim - len(index)])
    return _LayerNorm(call, axes), axes


@rule("native_layer_norm_backward", output=1, sums_like="input")
def layer_norm_gain_gradient(call: Call, index: Index) -> e.Expression:
    """Σ g · x̂ over the positions."""
    norm, axes = _over_positions(call, index)
    product = cell(norm.g, *axes, *index) * norm.normed(*index)
    return e.total(product, *axes)


@rule("native_layer_norm_backward", output=2, sums_like="input")
def layer_norm_bias_gradient(call: Call, index: Index) -> e.Expression:
    """Σ g over the positions."""
    norm, axes = _over_positions(call, index)
    return e.total(cell(norm.g, *axes, *index), *axes)


# --- batch norm, group norm ---

_WITH_MOMENTS = ("native_batch_norm", "_native_batch_norm_legit", "_batch_norm_with_update")


def _moments_of_channel(call: Call, channel: int) -> tuple[e.Named, e.Named]:
    x = call.view("input")
    axes = tuple(e.Axis(LETTERS[axis], size) for axis, size in enumerate(x.shape) if axis != 1)
    return _moments(cell(x, axes[0], channel, *axes[1:]), axes)


@rule("batch_norm", *_WITH_MOMENTS)
def batch_norm(call: Call, index: Index) -> e.Expression:
    """(x − μ) / √(σ² + ε) · γ + β with the channel's μ and σ²: running, or of the batch."""
    channel, x = index[1], cell(call.view("input"), *index)
    mean, variance = call.maybe_view("running_mean"), call.maybe_view("running_var")
    own = call.bound.get("training", True)  # some variants have no flag and always train
    if own or mean is None or variance is None:
        return _normed(call, x, *_moments_of_channel(call, channel), (channel,))
    return _normed(call, x, cell(mean, channel), cell(variance, channel), (channel,))


_statistics(lambda call, index: _moments_of_channel(call, index[0]), *_WITH_MOMENTS)


_MOVED = formula("(1 − momentum)·old + momentum·new")


@rule("native_batch_norm", "_native_batch_norm_legit", output=3)
@rule("_batch_norm_with_update", output=4)
@rule("batch_norm", output=1)
def running_mean(call: Call, index: Index) -> e.Expression:
    """(1 − momentum) · old + momentum · μ of the batch."""
    return _moved(call, "running_mean", index, _moments_of_channel(call, index[0])[0])


@rule("native_batch_norm", "_native_batch_norm_legit", output=4)
@rule("_batch_norm_with_update", output=5)
@rule("batch_norm", output=2)
def running_variance(call: Call, index: Index) -> e.Expression:
    """(1 − momentum) · old + momentum · σ² of the batch, divided by n − 1."""
    x, variance = call.view("input"), _moments_of_channel(call, index[0])[1]
    count = x.numel // x.shape[1]
    return _moved(call, "running_var", index, variance * count / (count - 1))


def _moved(call: Call, name: str, index: Index, new: e.Expression) -> e.Expression:
    old = cell(call.view(name), *index)
    if not call.bound.get("training", True):  # despite its schema, it then writes nothing
        return old
    return _MOVED.of(momentum=float(call.number_of("momentum")), old=old, new=new)


def _moments_of_group(call: Call, batch: int, channel: int) -> tuple[e.Named, e.Named]:
    """The moments of a channel's group."""
    x, groups = call.view("input"), _groups(call)
    width = x.shape[1] // groups
    channels = e.Axis("s", width, start=channel // width * width)
    rest = running(x.shape[2:])
    return _moments(cell(x, batch, channels, *rest), (channels, *rest))


def _groups(call: Call) -> int:
    return call.integer("num_groups" if "num_groups" in call.bound else "group")


@rule("group_norm", "native_group_norm")
def group_norm(call: Call, index: Index) -> e.Expression:
    """Layer norm over the channels of a group and all positions."""
    moments = _moments_of_group(call, *index[:2])
    return _normed(call, cell(call.view("input"), *index), *moments, (index[1],))


def _moments_of_numbered_group(call: Call, index: Index) -> tuple[e.Named, e.Named]:
    width = call.view("input").shape[1] // _groups(call)
    return _moments_of_group(call, index[0], index[1] * width)


_statistics(_moments_of_numbered_group, "native_group_norm")
