"""What all formats share: how a number stands in a matrix, and a formula as lines of text."""

from __future__ import annotations

import math
from html import escape

from glassformer.lessons.example import Language
from glassformer.lessons.walks.lesson import Formula, HeatMap
from glassformer.lessons.walks.phrases import Speaker
from glassformer.trace.formula import equals, summands, text, to_mathml, to_tex, to_text
from glassformer.trace.formula.notation import Value
from glassformer.trace.render.words import phrases_in, words_in

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
    lines: list[str] = []
    for place, equation in enumerate(part.card.equations):
        left, symbols, numbers, value = map(to_text, equation)
        lead = f"{say('where')} " if place == 1 else ""
        lines += [f"{lead}{left} = {symbols}", *_ending(numbers, value, "  ")]
    return lines or [f"{part.card.name} = {part.card.value}"]


def _ending(numbers: str, value: str, indent: str) -> list[str]:
    if numbers == value:
        return [f"{indent}= {value}"]
    whole = f"{indent}= {numbers} = {value}"
    if len(whole) <= _LONGEST_LINE:
        return [whole]
    return [f"{indent}= {numbers}", f"{indent}= {value}"]


def formula_tex(part: Formula, language: Language) -> list[str]:
    """The same as lines of LaTeX mathematics, without the dollar signs."""
    phrases = phrases_in(words_in(language))
    lines: list[str] = []
    for equation in part.card.equations:
        left, symbols, numbers, value = (to_tex(side, phrases=phrases) for side in equation)
        lines.append(f"{left} = {symbols}")
        lines.append(f"= {value}" if numbers == value else f"= {numbers} = {value}")
    return lines or [to_tex(equals(part.card.name_tree, Value(part.cell.value)))]


def formula_mathml(part: Formula, say: Speaker) -> str:
    """The same as MathML, a line in each `<div>`."""
    phrases = phrases_in(words_in(say.language))
    lines: list[str] = []
    for place, equation in enumerate(part.card.equations):
        left, symbols, value = (to_mathml(equation[at], phrases=phrases) for at in (0, 1, 3))
        lead = f'<span class="where">{escape(say("where"))}</span>' if place == 1 else ""
        lines.append(f"<div>{lead}{_math(f'{left}<mo>=</mo>{symbols}')}</div>")
        terms = [to_mathml(term, phrases=phrases) for term in summands(equation.numbers)]
        # Each term is mathematics of its own, since browsers break lines only between such; its
        # sign begins it and still has space on both sides.
        signs = ["=", *("+" for _ in terms[1:])]
        shown = [] if terms == [value] else list(zip(signs, terms, strict=True))
        pieces = (_math(f'<mo form="infix">{s}</mo>{x}') for s, x in [*shown, ("=", value)])
        lines.append(f'<div class="numbers">{" ".join(pieces)}</div>')
    given = equals(part.card.name_tree, Value(part.cell.value))
    return "".join(lines) or f"<div>{_math(to_mathml(given))}</div>"


def _math(inside: str) -> str:
    return f'<math display="inline" displaystyle="true"><mrow>{inside}</mrow></math>'
