"""A card's arithmetic line by line: symbols, numbers, value, then what the symbols stand for."""

from __future__ import annotations

from functools import partial
from html import escape

from glassformer.documents.trace_words import TraceWords
from glassformer.tracing.explanation import Card
from glassformer.tracing.formula import equals, summands, to_mathml, to_tex, to_text
from glassformer.tracing.formula.notation import Value

_LONGEST_LINE = 88


def text_lines(card: Card, words: TraceWords) -> list[str]:
    """Plain text."""
    write = partial(to_text, digits=card.digits, language=words.language, within="equation")
    lines: list[str] = []
    sign: str = card.relation
    for place, equation in enumerate(card.equations):
        left, symbols, numbers, value = map(write, equation)
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


def legend_text(card: Card, words: TraceWords) -> str:
    """`with Q: projected_queries, K: projected_keys`; empty where the symbols are the names."""
    entries = ", ".join(f"{symbol}: {name}" for symbol, name in card.legend.items())
    return words["legend"].format(legend=entries) if entries else ""


def tex_lines(card: Card, words: TraceWords) -> list[str]:
    """TeX math; a continuation line begins with its sign."""
    write = partial(to_tex, digits=card.digits, language=words.language, within="equation")
    lines: list[str] = []
    sign = r"\neq" if card.relation == "≠" else "="
    for equation in card.equations:
        left, symbols, numbers, value = map(write, equation)
        lines.append(f"{left} {sign} {symbols}")
        lines.append(f"{'' if numbers == value else f'{sign} {numbers} '}{sign} {value}")
        sign = "="
    given = equals(card.name_tree, Value(card.cell.value))
    return lines or [write(given)]


def mathml_lines(card: Card, words: TraceWords) -> list[str]:
    """MathML, each line in a `<div>`."""
    write = partial(to_mathml, digits=card.digits, language=words.language, within="equation")
    lines: list[str] = []
    sign: str = card.relation
    for place, equation in enumerate(card.equations):
        left, symbols, value = map(write, (equation.left, equation.symbols, equation.value))
        lead = f'<span class="where">{escape(words["where"])}</span>' if place == 1 else ""
        lines.append(f"<div>{lead}{_math(f'{left}<mo>{sign}</mo>{symbols}')}</div>")
        summed = list(summands(equation.numbers))
        terms = [write(term, within="sum" if len(summed) > 1 else "equation") for term in summed]
        # Each term is a <math> of its own, since browsers break lines only between them. The
        # sign that begins it is marked as infix to keep its spacing.
        signs = [sign, *("+" for _ in terms[1:])]
        shown = [] if terms == [value] else list(zip(signs, terms, strict=True))
        pieces = (_math(f'<mo form="infix">{s}</mo>{x}') for s, x in [*shown, (sign, value)])
        lines.append(f'<div class="numbers">{" ".join(pieces)}</div>')
        sign = "="
    given = equals(card.name_tree, Value(card.cell.value))
    return lines or [f"<div>{_math(write(given))}</div>"]


def _math(inside: str) -> str:
    return f'<math display="inline" displaystyle="true"><mrow>{inside}</mrow></math>'
