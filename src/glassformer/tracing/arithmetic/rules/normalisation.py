"""Softmax and the norms, and their gradients: a cell relative to the rest of its row."""

from __future__ import annotations

from collections.abc import Callable

import torch

from glassformer.tracing.arithmetic import expressions as e
from glassformer.tracing.arithmetic.rules.rule_notation import formula
from glassformer.tracing.arithmetic.rules.rule_registry import (
    LETTERS,
    Build,
    cell,
    rule,
    running,
)
from glassformer.tracing.capture.memory import Index, View
from glassformer.tracing.capture.operator_calls import Call

# --- softmax ---


def _along(view: View, call: Call, index: Index) -> tuple[e.Entry, tuple[e.Axis, ...]]:
    """The row of a cell: its index with one axis running."""
    if not index:
        return cell(view), ()
    axis = call.axis("dim", view.ndim)
    j = e.Axis("j", view.shape[axis])
    return cell(view, *index[:axis], j, *index[axis + 1 :]), (j,)


def _softmax(text: str) -> Build:
    """A formula of the cell x, its row's maximum m, and the sum Z of exp(xⱼ − m)."""
    written = formula(f"m = largest(row); Z = Σ(exp(row − m)); {text}")

    def build(call: Call, index: Index) -> e.Expression:
        x = call.view("self")
        row, axes = _along(x, call, index)
        return written.of(x=cell(x, *index), row=row, axes=axes)

    return build


rule("softmax", "_softmax")(_softmax("exp(x − m)/Z"))
rule("_safe_softmax")(_softmax("0 if m == −∞ else exp(x − m)/Z"))  # 0 if all is masked
rule("log_softmax", "_log_softmax")(_softmax("x − m − log(Z)"))


def _softmax_gradient(text: str) -> Build:
    """A formula of the cell's output y and gradient g, and their rows."""
    written = formula(text)

    def build(call: Call, index: Index) -> e.Expression:
        g, y = call.view("grad_output"), call.view("output")
        (gs, axes), (ys, _) = _along(g, call, index), _along(y, call, index)
        return written.of(g=cell(g, *index), y=cell(y, *index), gs=gs, ys=ys, axes=axes)

    return build


rule("_softmax_backward_data")(_softmax_gradient("ḡ = Σ(gs·ys); y·(g − ḡ)"))
rule("_log_softmax_backward_data")(_softmax_gradient("g − exp(y)·Σ(gs)"))


# --- layer norm, RMS norm ---

_MOMENTS = "μ = mean(row); σ² = mean((row − μ)²);"
_NORMED = formula(f"{_MOMENTS} (x − μ)/√(σ² + ε)·weight + bias")
_NORMED_BY_GIVEN = formula("(x − mean)/√(variance + ε)·weight + bias")
_MEAN, _VARIANCE = formula("mean(row)"), formula(f"{_MOMENTS} σ²")
_SCALE = formula(f"{_MOMENTS} 1/√(σ² + ε)")

_Row = tuple[e.Entry, tuple[e.Axis, ...]]
"""The cells that a norm looks at together, and the axes along which they run."""


def _settings(call: Call, at: Index) -> dict[str, e.Expression | e.Scalar | None]:
    """ε, and γ and β at index `at`."""
    given = {name: call.maybe_view(name) for name in ("weight", "bias")}
    parts = {name: None if view is None else cell(view, *at) for name, view in given.items()}
    return {"ε": float(call.number_of("eps")), **parts}


def _normed(call: Call, index: Index, of_row: _Row, at: Index) -> e.Expression:
    """(x − μ) / √(σ² + ε) · γ + β, σ² biased."""
    row, axes = of_row
    return _NORMED.of(x=cell(row.view, *index), row=row, axes=axes, **_settings(call, at))


def _last_axes(call: Call, index: Index) -> _Row:
    """The cells of the normalised axes."""
    x = call.view("input")
    start = x.ndim - len(call.bound["normalized_shape"])
    axes = running(x.shape[start:])
    return cell(x, *index[:start], *axes), axes


@rule("layer_norm", "native_layer_norm")
def layer_norm(call: Call, index: Index) -> e.Expression:
    """(x − μ) / √(σ² + ε) · γ + β."""
    row, axes = _last_axes(call, index)
    return _normed(call, index, (row, axes), index[len(index) - len(axes) :])


def _statistics(rows: Callable[[Call, Index], _Row], *norms: str) -> None:
    """The rules of what norms return beside their result: μ, and 1 / √(σ² + ε)."""

    @rule(*norms, output=1)
    def mean(call: Call, index: Index) -> e.Expression:
        row, axes = rows(call, index)
        return _MEAN.of(row=row, axes=axes)

    @rule(*norms, output=2)
    def scale(call: Call, index: Index) -> e.Expression:
        row, axes = rows(call, index)
        return _SCALE.of(row=row, axes=axes, ε=float(call.number_of("eps")))


_statistics(_last_axes, "native_layer_norm")
_RMS_NORMED = formula("s = mean(row²); x/√(s + ε)·weight")


@rule("rms_norm")
def rms_norm(call: Call, index: Index) -> e.Expression:
    """x / √(mean of x² + ε) · γ."""
    row, axes = _last_axes(call, index)
    x, weight, eps = row.view, call.maybe_view("weight"), call.bound.get("eps")
    computed_in = torch.promote_types(x.dtype, torch.float32)
    return _RMS_NORMED.of(
        x=cell(x, *index), row=row, axes=axes,
        ε=torch.finfo(computed_in).eps if eps is None else float(eps),
        weight=None if weight is None else cell(weight, *index[len(index) - len(axes) :]),
    )  # fmt: skip


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


_LAYER_NORM_GRADIENT = formula("ḡ = mean(gs); t = mean(gs·xs); r·(g − ḡ − x·t)")


@rule("native_layer_norm_backward")
def layer_norm_gradient(call: Call, index: Index) -> e.Expression:
    """r · (ĝᵢ − mean ĝ − x̂ᵢ · mean (ĝ · x̂)), with ĝ = g · γ and x̂ = (x − μ) · r."""
    x = call.view("input")
    start = x.ndim - len(call.bound["normalized_shape"])
    norm, own, axes = _LayerNorm(call, index[:start]), index[start:], running(x.shape[start:])
    return _LAYER_NORM_GRADIENT.of(
        r=norm.root, g=norm.incoming(*own), x=norm.normed(*own), gs=norm.incoming(*axes),
        xs=norm.normed(*axes), axes=axes,
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


def _channel(call: Call, channel: int) -> _Row:
    x = call.view("input")
    axes = tuple(e.Axis(LETTERS[axis], size) for axis, size in enumerate(x.shape) if axis != 1)
    return cell(x, axes[0], channel, *axes[1:]), axes


@rule("batch_norm", *_WITH_MOMENTS)
def batch_norm(call: Call, index: Index) -> e.Expression:
    """(x − μ) / √(σ² + ε) · γ + β with the channel's μ and σ²: running, or of the batch."""
    at = index[1:2]
    mean, variance = call.maybe_view("running_mean"), call.maybe_view("running_var")
    own = call.bound.get("training", True)  # some variants have no flag and always train
    if own or mean is None or variance is None:
        return _normed(call, index, _channel(call, *at), at)
    return _NORMED_BY_GIVEN.of(
        x=cell(call.view("input"), *index), mean=cell(mean, *at), variance=cell(variance, *at),
        **_settings(call, at),
    )  # fmt: skip


_statistics(lambda call, index: _channel(call, index[0]), *_WITH_MOMENTS)


_MOVED = formula("(1 − momentum)·old + momentum·new")


@rule("native_batch_norm", "_native_batch_norm_legit", output=3)
@rule("_batch_norm_with_update", output=4)
@rule("batch_norm", output=1)
def running_mean(call: Call, index: Index) -> e.Expression:
    """(1 − momentum) · old + momentum · μ of the batch."""
    row, axes = _channel(call, index[0])
    return _moved(call, "running_mean", index, e.Named("μ", _MEAN.of(row=row, axes=axes)))


@rule("native_batch_norm", "_native_batch_norm_legit", output=4)
@rule("_batch_norm_with_update", output=5)
@rule("batch_norm", output=2)
def running_variance(call: Call, index: Index) -> e.Expression:
    """(1 − momentum) · old + momentum · σ² of the batch, divided by n − 1."""
    row, axes = _channel(call, index[0])
    count = row.view.numel // row.view.shape[1]
    new = _VARIANCE.of(row=row, axes=axes) * count / (count - 1)
    return _moved(call, "running_var", index, new)


def _moved(call: Call, name: str, index: Index, new: e.Expression) -> e.Expression:
    old = cell(call.view(name), *index)
    if not call.bound.get("training", True):  # despite its schema, it then writes nothing
        return old
    return _MOVED.of(momentum=float(call.number_of("momentum")), old=old, new=new)


def _groups(call: Call) -> int:
    return call.integer("num_groups" if "num_groups" in call.bound else "group")


def _group(call: Call, batch: int, channel: int) -> _Row:
    """The cells of a channel's group."""
    x = call.view("input")
    width = x.shape[1] // _groups(call)
    channels = e.Axis("s", width, start=channel // width * width)
    rest = running(x.shape[2:])
    return cell(x, batch, channels, *rest), (channels, *rest)


@rule("group_norm", "native_group_norm")
def group_norm(call: Call, index: Index) -> e.Expression:
    """Layer norm over the channels of a group and all positions."""
    return _normed(call, index, _group(call, *index[:2]), index[1:2])


def _numbered_group(call: Call, index: Index) -> _Row:
    width = call.view("input").shape[1] // _groups(call)
    return _group(call, index[0], index[1] * width)


_statistics(_numbered_group, "native_group_norm")
