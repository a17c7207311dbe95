"""How cells look: fill by role for what may be changed, heat colours for what is computed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from glassformer.trace.render.colours import BLUE, ORANGE, WHITE, hex_colour, scale_of
from glassformer.trace.render.workbook.functions import INFINITE
from glassformer.trace.render.workbook.layout import LEFT, Block
from glassformer.trace.steps import Step

if TYPE_CHECKING:
    from xlsxwriter import Workbook
    from xlsxwriter.worksheet import Worksheet

__all__ = ["Formats"]

_FLOAT, _WHOLE = "0.0000", "0"
_FILL = {"parameter": "#DDEBF7", "input": "#E2EFDA", "constant": "#EDEDED", "activation": "#FFFFFF"}
_INK = {"parameter": "#1F4E9E", "input": "#2E6B1F", "constant": "#444444", "activation": "#000000"}


class Formats:
    """The cell formats of a workbook, each made once."""

    def __init__(self, book: Workbook) -> None:
        make = book.add_format
        self.title = make({"bold": True, "font_size": 14})
        self.name = make({"bold": True, "font_size": 12})
        self.quiet = make({"font_color": "#555555"})
        self.link = make({"font_color": "#1F4E9E", "underline": 1})
        self.column = make({"align": "right", "font_color": "#555555", "bottom": 1})
        self.column_head = make({"bold": True, "bottom": 1})
        self.row = make({"font_color": "#555555", "right": 1})
        self.auxiliary = make({"num_format": _FLOAT, "italic": True, "font_color": "#7A4B00"})
        self.by_role: dict[str, Any] = {}
        self._whole: dict[str, Any] = {}
        for role, fill in _FILL.items():
            look = {"font_color": _INK[role], "border": 1, "border_color": "#D0D0D0"}
            if role != "activation":
                look["bg_color"] = fill
            self.by_role[role] = make({**look, "num_format": _FLOAT})
            self._whole[role] = make({**look, "num_format": _WHOLE})
        self._frozen = make({"num_format": _FLOAT, "pattern": 14, "fg_color": "#D9D9D9"})
        self.unwritten = make({"num_format": _FLOAT, "pattern": 4, "font_color": "#999999"})
        self._minus_infinity = make({"num_format": '"−∞"', "font_color": "#999999"})
        self._infinity = make({"num_format": '"∞"', "font_color": "#999999"})

    def of(self, step: Step, *, is_formula: bool) -> Any:
        """The format of a step's numbers."""
        if step.role == "activation" and not is_formula:
            return self._frozen
        table = self.by_role if step.dtype.is_floating_point else self._whole
        return table[step.role]

    def colour(self, sheet: Worksheet, block: Block) -> None:
        """Heat colours over a block of computed numbers; −∞ in words."""
        if block.step.role != "activation" or block.rows == 0 or block.columns == 0:
            return
        area = (block.top, LEFT, block.top + block.rows - 1, LEFT + block.columns - 1)
        for sign, format_ in (("<=", self._minus_infinity), (">=", self._infinity)):
            bound = f"-{INFINITE}" if sign == "<=" else INFINITE
            rule = {"type": "cell", "criteria": sign, "value": f"={bound}", "format": format_}
            sheet.conditional_format(*area, {**rule, "stop_if_true": True})
        scale = scale_of(block.step)
        if scale is None:
            return
        look: dict[str, Any] = {"type": "3_color_scale", "min_type": "num", "max_type": "num"}
        if scale.kind == "probability":
            look |= {"type": "2_color_scale", "min_value": 0, "max_value": 1}
            look |= {"min_color": hex_colour(WHITE), "max_color": hex_colour(ORANGE)}
        else:
            look |= {"mid_type": "num", "min_value": -scale.limit, "mid_value": 0}
            look |= {"max_value": scale.limit, "min_color": hex_colour(BLUE)}
            look |= {"mid_color": hex_colour(WHITE), "max_color": hex_colour(ORANGE)}
        sheet.conditional_format(*area, look)
