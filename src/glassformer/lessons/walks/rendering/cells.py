"""What all formats share: how a number stands in a matrix, and a formula as lines of text."""

from __future__ import annotations

import math

from glassformer.lessons.walks.lesson import Formula, HeatMap
from glassformer.lessons.walks.phrases import Speaker
from glassformer.trace import text

__all__ = ["cell_text", "formula_lines"]

_LONGEST_LINE = 88


def cell_text(part: HeatMap, number: float) -> str:
    """A number as it stands in a matrix: three decimals, ✓ and · for yes and no."""
    if part.is_truth:
        return "✓" if number else "·"
    if math.isfinite(number) and 0 < abs(number) < 5e-4:
        return f"{number:.0e}".replace("-", "−")
    shown = text.number(number if abs(number) >= 10 else round(number, 3), 4)
    return shown.replace("-", "−")


def formula_lines(part: Formula, say: Speaker) -> list[str]:
    """Symbols, numbers, value, one below another; then what the symbols stand for."""
    shown = part.shown
    lines = [f"{shown.name} = {shown.symbols}"]
    lines += _ending(shown.numbers, shown.value, "  ")
    for place, part_of in enumerate(shown.definitions):
        lead = f"{say('where')} " if place == 0 else ""
        lines.append(f"{lead}{part_of.symbol} = {part_of.symbols}")
        lines += _ending(part_of.numbers, part_of.value, "  ")
    return lines


def _ending(numbers: str, value: str, indent: str) -> list[str]:
    if numbers == value:
        return [f"{indent}= {value}"]
    whole = f"{indent}= {numbers} = {value}"
    if len(whole) <= _LONGEST_LINE:
        return [whole]
    return [f"{indent}= {numbers}", f"{indent}= {value}"]
