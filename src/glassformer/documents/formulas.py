"""A card's arithmetic line by line: symbols, numbers, value, then what the symbols stand for."""

from __future__ import annotations

from html import escape

from glassformer.documents.trace_words import Words, phrases_in
from glassformer.tracing.explanation import Card
from glassformer.tracing.formula import equals, summands, to_mathml, to_tex, to_text
from glassformer.tracing.formula.notation import Value

_LONGEST_LINE = 88


def text_lines(card: Card, words: Words) -> list[str]:
    """Plain text."""
    lines: list[str] = []
    sign: str = card.relation
    for place, equation in enumerate(card.equations):
        left, symbols, numbers, value = (
            to_text(side, card.digits, phrases_in(words)) for side in equation
        )
        lead = f"{words['where']} " if place == 1 else ""
        lines.append(f"{lead}{left} {sign} {symbols}")
        whole = f"  {sign} {numbers} {sign} {value}"
        if numbers == value:
            lines.append(f"  {sign} {value}")
        elif len(whole) <= _LONGEST_LINE:
            lines.append(whole)
        else:
            lines += [f"  {sign} {numbers}", f"  {sign} {value}"]
        sign = "="
    return lines or [f"{card.name} = {card.value}"]


def tex_lines(card: Card, words: Words) -> list[str]:
    """TeX mathematics; a line that continues the one above begins with its sign."""
    phrases = phrases_in(words)
    lines: list[str] = []
    sign = r"\neq" if card.relation == "≠" else "="
    for equation in card.equations:
        left, symbols, numbers, value = (to_tex(side, card.digits, phrases) for side in equation)
        lines.append(f"{left} {sign} {symbols}")
        lines.append(f"{'' if numbers == value else f'{sign} {numbers} '}{sign} {value}")
        sign = "="
    given = equals(card.name_tree, Value(card.cell.value))
    return lines or [to_tex(given, card.digits, phrases)]


def mathml_lines(card: Card, words: Words) -> list[str]:
    """MathML, each line in a `<div>`."""
    phrases = phrases_in(words)
    lines: list[str] = []
    sign: str = card.relation
    for place, equation in enumerate(card.equations):
        left, symbols, value = (
            to_mathml(side, card.digits, phrases)
            for side in (equation.left, equation.symbols, equation.value)
        )
        lead = f'<span class="where">{escape(words["where"])}</span>' if place == 1 else ""
        lines.append(f"<div>{lead}{_math(f'{left}<mo>{sign}</mo>{symbols}')}</div>")
        terms = [to_mathml(term, card.digits, phrases) for term in summands(equation.numbers)]
        # Each term is mathematics of its own, since browsers break lines only between such; its
        # sign begins it and still has space on both sides.
        signs = [sign, *("+" for _ in terms[1:])]
        shown = [] if terms == [value] else list(zip(signs, terms, strict=True))
        pieces = (_math(f'<mo form="infix">{s}</mo>{x}') for s, x in [*shown, (sign, value)])
        lines.append(f'<div class="numbers">{" ".join(pieces)}</div>')
        sign = "="
    given = equals(card.name_tree, Value(card.cell.value))
    return lines or [f"<div>{_math(to_mathml(given, card.digits, phrases))}</div>"]


def _math(inside: str) -> str:
    return f'<math display="inline" displaystyle="true"><mrow>{inside}</mrow></math>'
