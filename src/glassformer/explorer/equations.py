"""A step as an equation of matrices: `Q × Kᵀ = S`, `x × Wᵀ + b = y`, `softmax( S ) = A`.

The panels are made in `drawing`; here is what stands between them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from glassformer.explorer.drawing import PanelMaker
from glassformer.explorer.panels import fitting_lead
from glassformer.explorer.schemas import Equation, PanelInfo, TraceInfo
from glassformer.trace import Step
from glassformer.trace.formula import escaped, symbol_to_tex
from glassformer.trace.memory import Index

__all__ = ["equation"]

Part = PanelInfo | str
_SIGNS = {
    "add": ("+", "+"), "sub": ("−", "-"), "mul": ("⊙", r"\odot"), "div": ("÷", r"\oslash"),
    "maximum": ("max", r"\max"), "minimum": ("min", r"\min"),
    "eq": ("=", "="), "ne": ("≠", r"\neq"), "lt": ("<", "<"), "le": ("≤", r"\leq"),
    "gt": (">", ">"), "ge": ("≥", r"\geq"),
    "bitwise_and": ("∧", r"\wedge"), "__and__": ("∧", r"\wedge"),
    "bitwise_or": ("∨", r"\vee"), "__or__": ("∨", r"\vee"),
}  # fmt: skip
_NAMES = {"_safe_softmax": "softmax", "_softmax": "softmax", "native_layer_norm": "layer_norm"}
_TEX_NAMES = {"layer_norm": "LayerNorm", "rms_norm": "RMSNorm", "relu": "ReLU", "gelu": "GELU"}
_MATMUL = ("matmul", "mm", "bmm")


def equation(info: TraceInfo, step: Step, lead: Index) -> Equation:
    """The equation of one slice of a step."""
    return _Writer(info, step, fitting_lead(step.shape, lead, step.name)).equation()


class _Writer:
    def __init__(self, info: TraceInfo, step: Step, lead: Index) -> None:
        self._step = step
        self._lead = lead
        self._operands = step.operands
        self._draw = PanelMaker(info, step, lead)

    def equation(self) -> Equation:
        made = self._draw.own()
        if not self._operands:
            return Equation(
                step=self._step.number, lead=list(self._lead), tex=self._own_symbol(), parts=[made]
            )
        write = self._form()
        parts, tex = write()
        return Equation(
            step=self._step.number,
            lead=list(self._lead),
            tex=f"{self._own_symbol()} = {tex}",
            parts=[*parts, "=", made],
        )

    def _own_symbol(self) -> str:
        return symbol_to_tex(self._step.trace.naming.sight(self._step).symbol(self._step))

    def _form(self) -> Callable[[], tuple[list[Part], str]]:
        op, count = self._step.op, len(self._operands)
        if op == "linear":
            return self._linear
        if op in _MATMUL and count == 2:
            return self._product
        if op in _SIGNS:
            return self._between
        if op == "embedding":
            return self._embedding
        if op == "masked_fill":
            return self._masked
        return self._function

    def _product(self) -> tuple[list[Part], str]:
        left, right = self._draw.operand(0), self._draw.operand(1)
        return [left, "×", right], rf"{_tex(left)} \, {_tex(right)}"

    def _linear(self) -> tuple[list[Part], str]:
        given, weight = self._named("input"), self._named("weight")
        x = self._draw.operand(given)
        w = self._draw.operand(weight, transposed=True)
        parts: list[Part] = [x, "×", w]
        tex = rf"{_tex(x)} \, {_tex(w)}"
        bias = self._named("bias", missing=True)
        if bias is not None:
            b = self._draw.operand(bias)
            parts += ["+", b]
            tex += f" + {_tex(b)}"
        return parts, tex

    def _between(self) -> tuple[list[Part], str]:
        """An operator between two tensors, or a tensor and a number."""
        sign, tex_sign = _SIGNS[self._step.op]
        panels = [self._draw.operand(place) for place in range(len(self._operands))]
        factor = self._setting("alpha", 1)  # add and sub: how often the second is taken
        times, tex_times = (
            ("", "") if factor == 1 else (f" {factor:.6g} ·", rf"{factor:.6g} \cdot ")
        )
        parts: list[Part]
        if len(panels) == 2:
            parts = [panels[0], f"{sign}{times}", panels[1]]
            tex = f"{_tex(panels[0])} {tex_sign} {tex_times}{_tex(panels[1])}"
        else:
            number = self._number()
            sign = {"⊙": "×"}.get(sign, sign)
            tex_sign = {r"\odot": r"\cdot", r"\oslash": "/"}.get(tex_sign, tex_sign)
            parts = [panels[0], f"{sign}{times} {number}"]
            tex = f"{_tex(panels[0])} {tex_sign} {tex_times}{number}"
        rounding = self._setting("rounding_mode", None)  # div: floor or trunc
        if rounding is None:
            return parts, tex
        return [f"{rounding}(", *parts, ")"], rf"\operatorname{{{rounding}}}({tex})"

    def _setting(self, name: str, default: Any) -> Any:
        """What the operator was told beside its tensors."""
        assert self._step.call is not None
        return self._step.call.bound.get(name, default)

    def _number(self) -> str:
        """The number that the operator was given beside its tensor."""
        value = self._setting("other", None)
        return f"{value:.6g}" if isinstance(value, int | float) else "…"

    def _embedding(self) -> tuple[list[Part], str]:
        table, ids = (
            self._draw.operand(self._named("weight")),
            self._draw.operand(self._named("indices")),
        )
        return [table, "[", ids, "]"], f"{_tex(table)}[{_tex(ids)}]"

    def _masked(self) -> tuple[list[Part], str]:
        given = self._draw.operand(self._named("self"))
        mask = self._draw.operand(self._named("mask"))
        assert self._step.call is not None
        value = self._step.call.bound.get("value")
        fill = (
            "−∞"
            if value == float("-inf")
            else f"{value:.4g}"
            if isinstance(value, int | float)
            else "…"
        )
        tex_fill = fill.replace("−∞", r"-\infty")
        return (
            [given, f"{fill} ⟵", mask],
            rf"\operatorname{{fill}}({_tex(given)}, {_tex(mask)}, {tex_fill})",
        )

    def _function(self) -> tuple[list[Part], str]:
        op = _NAMES.get(self._step.op, self._step.op)
        order = sorted(
            range(len(self._operands)),
            key=lambda place: self._operands[place].argument not in ("input", "self"),
        )
        parts: list[Part] = [f"{op}("]
        for count, place in enumerate(order):
            parts += [","] if count else []
            parts.append(self._draw.operand(place))
        inside = ", ".join(_tex(part) for part in parts if isinstance(part, PanelInfo))
        name = escaped(_TEX_NAMES.get(op, op))
        return [*parts, ")"], rf"\operatorname{{{name}}}({inside})"

    def _named(self, argument: str, missing: bool = False) -> int | None:
        for place, operand in enumerate(self._operands):
            if operand.argument == argument:
                return place
        assert missing, f"{self._step.op} without {argument}"
        return None


def _tex(panel: PanelInfo) -> str:
    return panel.symbol or rf"\mathrm{{{escaped(panel.title)}}}"
