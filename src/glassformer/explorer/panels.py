"""Matrices on the screen: two axes of a step, or of an operand as its operator saw it."""

from __future__ import annotations

import base64
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from glassformer.colours import Scale
from glassformer.documents.heat_maps import may_have_holes, scale_of, slice_scale
from glassformer.errors import InputError
from glassformer.explorer.schemas import (
    Equation,
    PanelInfo,
    Thumbnail,
    TraceInfo,
)
from glassformer.tracing import Cell, Operand, Step
from glassformer.tracing.arithmetic.expressions import Axis, Entry, Lookup, walk
from glassformer.tracing.capture.memory import Index, View, as_floats
from glassformer.tracing.formula import escaped, symbol_to_tex

MOST_CELLS = 1 << 22
"""The most cells in one response: 2,048 × 2,048."""
MOST_MASKED = 1 << 14
"""The most cells at once that are looked through for unwritten memory, one by one."""


def operand_of(step: Step, place: int) -> Operand:
    operands = step.operands
    if not 0 <= place < len(operands):
        raise InputError(
            "{name} has no operand {place}: it was made from {count}",
            name=step.name,
            place=place,
            count=len(operands),
        )
    return operands[place]


def sides(shape: Index) -> tuple[int, int]:
    """Rows and columns; a vector is one row, a single number 1×1."""
    return (shape[-2] if len(shape) > 1 else 1), (shape[-1] if shape else 1)


def fitting_lead(shape: Index, lead: Index, name: str) -> Index:
    """Check the indices of the leading axes; all 0 if none are given."""
    sizes = shape[:-2]
    whole = lead or (0,) * len(sizes)
    fits = len(whole) == len(sizes) and all(
        0 <= place < size for place, size in zip(whole, sizes, strict=True)
    )
    if not fits:
        raise InputError(
            "{name} has no slice at {at}: its shape is {shape}, so give {count} positions "
            "within {sizes}",
            name=name,
            at=list(lead),
            shape=list(shape),
            count=len(sizes),
            sizes=list(sizes),
        )
    return whole


def slice_of(view: View, lead: Index) -> npt.NDArray[np.generic]:
    """The two-dimensional slice."""
    values: npt.NDArray[np.generic] = view.array[lead]
    return values.reshape(sides(view.shape))


@dataclass(frozen=True)
class Window:
    """Rows and columns of a slice of a step, or of an operand as the step's operator saw it."""

    step: Step
    operand: int | None
    lead: Index
    rows: str | None
    columns: str | None

    @property
    def view(self) -> View:
        """The tensor that it is a window of."""
        return self.step.view if self.operand is None else operand_of(self.step, self.operand).view

    def numbers(self, view: View) -> npt.NDArray[np.generic]:
        """As float32, or float64 where that would lose precision; `view` may be an earlier one."""
        lead, down, across = self._place(view, MOST_CELLS)
        part = slice_of(view, lead)[down, across]
        with np.errstate(invalid="ignore"):  # a float16 never written may be a signalling NaN
            return np.ascontiguousarray(part, dtype=lossless(part))

    def holes(self) -> npt.NDArray[np.uint8]:
        """1 where a cell is memory that nothing has written to yet."""
        view = self.view
        lead, down, across = self._place(view, MOST_MASKED)
        mask = np.zeros((down.stop - down.start, across.stop - across.start), np.uint8)
        if may_have_holes(view):
            for row, column in np.ndindex(mask.shape):
                place = (*lead, down.start + row, across.start + column)[-view.ndim :]
                mask[row, column] = Cell(*view.owner(place if view.ndim else ())).is_unwritten
        return mask

    def _place(self, view: View, most: int) -> tuple[Index, slice, slice]:
        lead = fitting_lead(view.shape, self.lead, self.step.name)
        n_rows, n_columns = sides(view.shape)
        down = parse_range(self.rows, n_rows, "rows")
        across = parse_range(self.columns, n_columns, "columns")
        count = (down.stop - down.start) * (across.stop - across.start)
        if count > most:
            raise InputError(
                "{count:,} cells are too many at once: ask for at most {most:,}",
                count=count,
                most=most,
            )
        return lead, down, across


def parse_range(text: str | None, size: int, name: str) -> slice:
    """A range such as `0:64`, clipped to `size`; None: everything."""
    if text is None:
        return slice(0, size)
    first, colon, last = text.partition(":")
    if not (colon and first.isascii() and first.isdigit() and last.isascii() and last.isdigit()):
        raise InputError(
            "{name} must be a range such as 0:64, got {text!r:.40}", name=name, text=text
        )
    start, stop = min(int(first[:18]), size), min(int(last[:18]), size)
    if stop < start:
        raise InputError("{name} ends before it begins: {text!r:.40}", name=name, text=text)
    return slice(start, stop)


def lossless(part: npt.NDArray[np.generic]) -> str:
    """Little-endian float32 where it holds every number exactly."""
    if part.dtype.kind == "f":
        return "<f4" if part.dtype.itemsize <= 4 else "<f8"
    if part.dtype.kind in "iu" and part.size and np.abs(part.astype(np.float64)).max() > 2**24:
        return "<f8"
    return "<f4"


# --- equations ---
# A step as an equation of matrices: `Q × Kᵀ = S`, `x × Wᵀ + b = y`, `softmax( S ) = A`.
#
# Panels and the signs between them are listed once; what the screen shows and the LaTeX follow from
# the list. Panels are the step and its operands in the shape in which the operator saw them. Which
# slice of an operand belongs to a slice of the step is read off the arithmetic of the slice's first
# cell; which labels its axes have, off the steps that wrote its cells.


@dataclass(frozen=True)
class _Sign:
    """What stands between panels: on the screen (None: nothing), and in LaTeX."""

    text: str | None
    tex: str


Part = PanelInfo | _Sign
_TIMES, _PLUS, _COMMA = _Sign("×", r" \, "), _Sign("+", " + "), _Sign(",", ", ")
_SIGNS = {
    "add": ("+", "+"), "sub": ("−", "-"), "mul": ("⊙", r"\odot"), "div": ("÷", r"\oslash"),
    "maximum": ("max", r"\max"), "minimum": ("min", r"\min"),
    "eq": ("=", "="), "ne": ("≠", r"\neq"), "lt": ("<", "<"), "le": ("≤", r"\leq"),
    "gt": (">", ">"), "ge": ("≥", r"\geq"),
    "bitwise_and": ("∧", r"\wedge"), "__and__": ("∧", r"\wedge"),
    "bitwise_or": ("∨", r"\vee"), "__or__": ("∨", r"\vee"),
}  # fmt: skip
_SIGNS_OF_NUMBERS = {"mul": ("×", r"\cdot"), "div": ("÷", "/")}
_NAMES = {"_safe_softmax": "softmax", "_softmax": "softmax", "native_layer_norm": "layer_norm"}
_TEX_NAMES = {"layer_norm": "LayerNorm", "rms_norm": "RMSNorm", "relu": "ReLU", "gelu": "GELU"}
_MATMUL = ("matmul", "mm", "bmm")
_JOINED = ("cat", "concat", "concatenate")


def equation(info: TraceInfo, step: Step, lead: Index) -> Equation:
    """The equation of one slice of a step."""
    return _Equation(info, step, fitting_lead(step.shape, lead, step.name)).written()


class _Equation:
    """One slice of a step, with its operands."""

    def __init__(self, info: TraceInfo, step: Step, lead: Index) -> None:
        self._info = info
        self._step = step
        self._lead = lead
        self._operands = step.operands
        self._settings = {} if step.call is None else step.call.bound
        self._names = step.trace.naming
        self._sight = self._names.sight(step)

    def written(self) -> Equation:
        tex = symbol_to_tex(self._sight.symbol(self._step))
        parts: list[PanelInfo | str] = [self._own()]
        if self._operands:
            side = self._side()
            tex = f"{tex} = {''.join(map(_tex, side))}"
            shown = [part.text if isinstance(part, _Sign) else part for part in side]
            parts = [*(part for part in shown if part is not None), "=", *parts]
        return Equation(step=self._step.number, lead=list(self._lead), tex=tex, parts=parts)

    def _side(self) -> list[Part]:
        """The other side of the equation."""
        op = self._step.op
        if op == "linear":
            x, matrix = self._panel("input"), self._panel("weight", transposed=True)
            with_bias = any(operand.argument == "bias" for operand in self._operands)
            bias: list[Part] = [_PLUS, self._panel("bias")] if with_bias else []
            return [x, _TIMES, matrix, *bias]
        if op in _MATMUL and len(self._operands) == 2:
            return [self._panel(0), _TIMES, self._panel(1)]
        if op in _SIGNS:
            return self._between()
        if op == "embedding":
            table, ids = self._panel("weight"), self._panel("indices")
            return [table, _Sign("[", "["), ids, _Sign("]", "]")]
        return self._masked() if op == "masked_fill" else self._function()

    def _between(self) -> list[Part]:
        """An operator between two tensors, or a tensor and a number."""
        op = self._step.op
        first, *others = (self._panel(place) for place in range(len(self._operands)))
        factor = self._settings.get("alpha", 1)  # add and sub: how often the second is taken
        times, tex_times = (
            ("", "") if factor == 1 else (f" {factor:.6g} ·", rf"{factor:.6g} \cdot ")
        )
        parts: list[Part]
        if others:
            sign, tex = _SIGNS[op]
            parts = [first, _Sign(f"{sign}{times}", f" {tex} {tex_times}"), *others]
        else:
            sign, tex = _SIGNS_OF_NUMBERS.get(op, _SIGNS[op])
            value = self._settings.get("other")
            number = f"{value:.6g}" if isinstance(value, int | float) else "…"
            parts = [first, _Sign(f"{sign}{times} {number}", f" {tex} {tex_times}{number}")]
        rounding = self._settings.get("rounding_mode")  # div: floor or trunc
        return parts if rounding is None else _called(rounding, parts)

    def _masked(self) -> list[Part]:
        given, mask, value = self._panel("self"), self._panel("mask"), self._settings.get("value")
        fill = f"{value:.4g}".replace("-inf", "−∞") if isinstance(value, int | float) else "…"
        tex = fill.replace("−∞", r"-\infty")
        start, end = _Sign(None, r"\operatorname{fill}("), _Sign(None, f", {tex})")
        return [start, given, _Sign(f"{fill} ⟵", ", "), mask, end]

    def _function(self) -> list[Part]:
        op = _NAMES.get(self._step.op, self._step.op)
        # What holds no number takes no part: the keys before the first, in a fresh cache.
        places = [n for n, operand in enumerate(self._operands) if 0 not in operand.view.shape]
        order = sorted(
            places or range(len(self._operands)),
            key=lambda place: self._operands[place].argument not in ("input", "self"),
        )
        panels = [self._panel(place) for place in order]
        if op in _JOINED and len(panels) == 1:
            return [panels[0]]
        return _called(op, [part for panel in panels for part in (_COMMA, panel)][1:])

    # --- panels ---

    def _own(self) -> PanelInfo:
        """The step itself."""
        told = self._info.steps[self._step.number]
        rows, columns = [None, None, *told.labels][-2:]
        return PanelInfo.copy_of(
            told,
            step=told.number,
            operand=None,
            title=told.short,
            symbol=self._symbol(self._step),
            lead=self._lead,
            rows=rows,
            columns=columns,
            transposed=False,
            scale=slice_scale(told.scale, self._step.view, self._lead),
        )

    def _panel(self, which: int | str, transposed: bool = False) -> PanelInfo:
        """An operand by its place or argument; `transposed`: the formula has it turned over."""
        arguments = [operand.argument for operand in self._operands]
        place = arguments.index(which) if isinstance(which, str) else which
        operand = self._operands[place]
        owner = operand.step
        told = None if owner is None else self._info.steps[owner.number]
        down, across = _axes(operand)
        title, symbol = operand.argument, None
        if owner is not None:  # of a packed projection, its part
            view = operand.view
            seen = self._names.find(view, (0,) * view.ndim)[0] if view.numel else owner
            title, symbol = self._names.short(seen), self._symbol(seen)
        if symbol is not None and (transposed or _is_turned(operand)):
            symbol = rf"{symbol}^\top"
        lead = self._operand_lead(operand)
        return PanelInfo(
            step=None if owner is None else owner.number,
            operand=place,
            title=title,
            symbol=symbol,
            shape=list(operand.view.shape),
            lead=list(lead),
            rows=None if told is None or down is None else told.labels[down],
            columns=None if told is None or across is None else told.labels[across],
            transposed=transposed,
            role="activation" if owner is None else owner.role,
            scale=slice_scale(
                scale_of(self._step) if told is None else told.scale, operand.view, lead
            ),
        )

    def _symbol(self, step: Step) -> str | None:
        """In LaTeX; None where it is the name."""
        symbol = self._sight.symbol(step)
        return None if str(symbol) == self._names.short(step) else symbol_to_tex(symbol)

    def _operand_lead(self, operand: Operand) -> Index:
        """The slice of the operand that the step's slice reads first."""
        n_lead = max(0, len(operand.view.shape) - 2)
        if n_lead == 0 or operand.view.numel == 0 or 0 in self._step.shape:
            return (0,) * n_lead
        corner = (*self._lead, *(0 for _ in self._step.shape[len(self._lead) :]))
        expression = self._step.expression(corner, unedited=True)
        for part in walk(expression) if expression is not None else ():
            if isinstance(part, Entry | Lookup) and part.view is operand.view:
                whole = [
                    p if isinstance(p, int) else p.start if isinstance(p, Axis) else 0
                    for p in part.index
                ]
                return tuple(whole[:n_lead])
        return _broadcast_lead(operand.view.shape, self._lead)


def _called(name: str, parts: list[Part]) -> list[Part]:
    """A function of some panels."""
    tex = rf"\operatorname{{{escaped(_TEX_NAMES.get(name, name))}}}("
    return [_Sign(f"{name}(", tex), *parts, _Sign(")", ")")]


def _tex(part: Part) -> str:
    if isinstance(part, _Sign):
        return part.tex
    return part.symbol or rf"\mathrm{{{escaped(part.title)}}}"


def _broadcast_lead(shape: Index, lead: Index) -> Index:
    """By counting from the right, as operators that broadcast do."""
    sizes = shape[:-2]
    padded = (0,) * max(0, len(sizes) - len(lead)) + lead[max(0, len(lead) - len(sizes)) :]
    return tuple(min(place, size - 1) for place, size in zip(padded, sizes, strict=True))


def _axes(operand: Operand) -> tuple[int | None, int | None]:
    """The axes of the step that wrote an operand along which its rows and columns run."""
    view = operand.view
    if operand.step is None or view.numel == 0:
        return None, None
    return _axis_of(view, len(view.shape) - 2), _axis_of(view, len(view.shape) - 1)


def _axis_of(view: View, axis: int) -> int | None:
    """The one axis of the writer that a move along an axis of the view changes, if it is whole."""
    at = _changed_axis(view, axis)
    owner, _ = view.owner((0,) * len(view.shape))
    return at if at is not None and owner.shape[at] == view.shape[axis] else None


def _changed_axis(view: View, axis: int) -> int | None:
    """The same, also where the view has only a part of it, such as one head."""
    if axis < 0 or view.shape[axis] < 2 or view.strides[axis] == 0:
        return None
    owner, first = view.owner((0,) * len(view.shape))
    other, moved = view.owner(tuple(int(a == axis) for a in range(len(view.shape))))
    if other is not owner:
        return None
    changed = [a for a, (x, y) in enumerate(zip(first, moved, strict=True)) if x != y]
    return changed[0] if len(changed) == 1 else None


def _is_turned(operand: Operand) -> bool:
    """Whether the operator read a matrix transposed."""
    view, writer = operand.view, operand.step
    if writer is None or view.numel == 0:
        return False
    n_axes = len(view.shape)
    down, across = _changed_axis(view, n_axes - 2), _changed_axis(view, n_axes - 1)
    if across is None:
        return False
    if down is not None:
        return across < down
    return len(writer.shape) > 1 and across == len(writer.shape) - 2


# --- thumbnails ---
# Small pictures of steps: the means of blocks, as bytes on the step's colour scale.


SIDE = 32
NOT_FINITE = 255
_SAMPLED = 256
"""Positions that are examined along a side, about; a longer side is sampled."""


def thumbnail(step: Step, scale: Scale | None) -> Thumbnail:
    """The first slice of a step: 0 is −limit (or 0), 254 the limit (or 1), 255 no finite number."""
    rows, columns = sides(step.shape)
    if scale is None or step.view.numel == 0:
        return Thumbnail(step=step.number, rows=0, columns=0, data="")
    whole = slice_of(step.view, (0,) * max(0, len(step.shape) - 2))
    values = as_floats(whole[:: max(1, rows // _SAMPLED), :: max(1, columns // _SAMPLED)])
    small = _block_means(_block_means(values, 0), 1)
    low = -scale.limit if scale.kind == "signed" else 0.0
    with np.errstate(invalid="ignore"):
        share = np.clip((small - low) / (scale.limit - low), 0, 1)
    data = np.where(np.isfinite(small), np.rint(np.nan_to_num(share) * 254), NOT_FINITE)
    return Thumbnail(
        step=step.number,
        rows=small.shape[0],
        columns=small.shape[1],
        data=as_base64(data),
    )


def as_base64(numbers: npt.NDArray[np.float64]) -> str:
    """Whole numbers from 0 to 255, a byte each."""
    return base64.b64encode(numbers.astype(np.uint8).tobytes()).decode("ascii")


def _block_means(values: npt.NDArray[np.float64], axis: int) -> npt.NDArray[np.float64]:
    """Means of up to SIDE blocks along an axis, over finite numbers."""
    size = values.shape[axis]
    if size <= SIDE:
        return values
    starts = (np.arange(SIDE) * size) // SIDE
    finite = np.isfinite(values)
    sums = np.add.reduceat(np.where(finite, values, 0.0), starts, axis=axis)
    counts = np.add.reduceat(finite.astype(np.float64), starts, axis=axis)
    with np.errstate(invalid="ignore", divide="ignore"):
        means: npt.NDArray[np.float64] = sums / counts
    return means
