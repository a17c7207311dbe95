"""LaTeX for xelatex: heat maps are coloured tables, figures TikZ; long tables may break."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate, groupby
from xml.etree import ElementTree

from glassformer.colours import hex_colour, ink_on
from glassformer.documents import parts as p
from glassformer.documents.renderer import Renderer, tex_lines
from glassformer.errors import TraceError
from glassformer.language import columns_of
from glassformer.picture import STYLE, Picture
from glassformer.tracing.formula import escaped

_ROWS, _COLUMNS = 16, 16
_CHARACTERS = 120
"""Wider than a line of the page, which has about 90: such a table is scaled to three quarters."""
_PREAMBLE = r"""\documentclass[a4paper]{article}
\usepackage{amsmath,amssymb}
\usepackage{fontspec}
\usepackage[table]{xcolor}
\usepackage[margin=2cm]{geometry}
\usepackage{adjustbox,longtable,array,tikz,varwidth}
\setlength{\parindent}{0pt}
\setlength{\parskip}{0.6em}
\sloppy
"""
# Chinese fonts are loaded only if the text contains Chinese.
_CHINESE = r"""\usepackage{xeCJK}
\IfFontExistsTF{Noto Serif CJK SC}{\setCJKmainfont{Noto Serif CJK SC}}{}
\IfFontExistsTF{Noto Sans CJK SC}{\setCJKsansfont{Noto Sans CJK SC}}{}
\IfFontExistsTF{Noto Sans Mono CJK SC}{\setCJKmonofont{Noto Sans Mono CJK SC}}{}
"""
# Characters missing from text fonts, set in math mode. The order matters: −∞ before the minus.
_SIGNS = {
    "−∞": r"-\infty", "∞": r"\infty", "−": "-", "∂": r"\partial", "→": r"\to", "×": r"\times",
    "✓": r"\checkmark", "✗": r"\times", "↳": r"\hookrightarrow", "·": r"\cdot",
    "◐": r"\circleddash", p.UNWRITTEN: r"\varnothing", "≠": r"\neq", "≤": r"\le", "≥": r"\ge",
    "√": r"\surd", "ᵀ": r"^{\top}", "⇥": r"\mapsto", "½": r"\tfrac{1}{2}",
    "⅓": r"\tfrac{1}{3}", "⅔": r"\tfrac{2}{3}",
    "Σ": r"\Sigma", "α": r"\alpha", "μ": r"\mu", "σ": r"\sigma", "≈": r"\approx", "∈": r"\in",
    "ε": r"\varepsilon", "ḡ": r"\bar{g}", "Π": r"\Pi",
    "ₖ": "_{k}", "ₗ": "_{l}", "ₘ": "_{m}", "ₙ": "_{n}", "ⱼ": "_{j}",
}  # fmt: skip
_BREAKS = re.compile(r"[/.,(=]|\\_")  # the underscore of a name, not a subscript
_SIGN = re.compile("|".join(_SIGNS))
_SUPERSCRIPTS = {ord(sign): str(digit) for digit, sign in enumerate("⁰¹²³⁴⁵⁶⁷⁸⁹")} | {ord("⁻"): "-"}
_SUBSCRIPTS = {ord(sign): str(digit) for digit, sign in enumerate("₀₁₂₃₄₅₆₇₈₉")}
_COLOURS: dict[p.Look, str] = {
    "good": "1A7F37", "bad": "B42318", "caution": "915C00", "quiet": "555555",
    "deleted": "B42318", "inserted": "1A7F37",
}  # fmt: skip
_HEADINGS = ("section", "subsection*", "subsubsection*", "paragraph*")


class Latex(Renderer[str]):
    """`whole=False` leaves out the preamble, for inclusion in another document."""

    def __init__(self, document: p.Document, *, whole: bool = True) -> None:
        super().__init__(document)
        self._whole = whole

    def render(self) -> str:
        title = rf"{{\centering\LARGE {_prose(self.document.title)}\par}}\bigskip"
        made = self.write_all(self.document.parts)
        body = "\n\n".join([title, *made] if self.document.title else made) + "\n"
        if not self._whole:
            return body
        chinese = _CHINESE if re.search("[\u2e80-\U0010ffff]", body) else ""
        return f"{_PREAMBLE}{chinese}\\begin{{document}}\n{body}\\end{{document}}\n"

    def write_all(self, parts: Sequence[p.Part]) -> list[str]:
        """Matrices and tables of numbers that follow one another share a line where they fit."""
        made: list[str] = []
        for are_numbers, group in groupby(parts, _is_numbers):
            written = super().write_all(list(group))
            if are_numbers and len(written) > 1:
                beside = "\\hspace{1.5em}\n".join(written)
                written = [rf"{{\raggedright\lineskip=0.6em {beside}\par}}"]
            made += written
        return made

    def paragraph(self, part: p.Paragraph) -> str:
        said = p.Span(part.text, part.look) if isinstance(part.text, str) else part.text
        return rf"{{\small {_inline(said)}}}" if part.look == "quiet" else _inline(said)

    def remark(self, part: p.Remark) -> str:
        lead = rf"\textbf{{{_looking(_prose(self.lead(part).strip()), part.look)}}}"
        return rf"\begin{{quote}}\small {lead}\quad {_prose(part.text)}\end{{quote}}"

    def formula(self, part: p.Formula) -> str:
        """Math that TeX may break across lines; continuation lines are indented."""
        lines = [_formula_line(line) for line in tex_lines(part, self.words)]
        if part.code:
            said = _looking(_prose(self.words["in code"]), "quiet")
            lines.append(rf"{{\small\raggedright {said}{_typewriter(part.code)}\par}}")
        return "\n\n\\nopagebreak\n".join(lines)

    def heatmap(self, part: p.HeatMap) -> str:
        """A table no wider than the page; columns that would shrink it too much are left out."""
        ends = accumulate(max(columns_of(head), 5) + 2 for head in part.matrix.columns)
        fitting = max(1, min(_COLUMNS, sum(end <= _CHARACTERS for end in ends)))
        heads = ["", *map(_prose, part.matrix.columns[:fitting])]
        rows = [
            [_prose(label), *map(_heat_cell, line)] for label, line in part.lines(_ROWS, fitting)
        ]
        lines = [" & ".join(line) for line in [heads, *rows]]
        note = part.notes(self.words, _ROWS, fitting)
        return _fitted(part.caption, "r" * len(heads), lines) + (
            rf" {{\small {_prose(note)}}}" if note else ""
        )

    def table(self, part: p.Table) -> str:
        """Columns of numbers are scaled to the page; prose is wrapped and may span pages."""
        heads = " & ".join(rf"\textbf{{{_inline(head)}}}" for head in part.heads)
        lines = [" & ".join(map(_inline, row)) for row in part.rows]
        lines = [heads, *lines] if part.has_heads else lines
        lines[1:2] = [rf"\hline\rule{{0pt}}{{2.7ex}}{line}" for line in lines[1:2]]  # off the line
        widths = part.widths()
        if not any(widths):
            columns = "".join("r" if numeric else "l" for numeric in part.is_numeric())
            return _fitted(part.caption, columns, lines)
        inside = " \\\\\n".join(lines)
        title = rf"{{\small\itshape {_prose(part.caption)}}}" if part.caption else ""
        columns = "".join(_paragraph_columns(part, widths))
        return f"{title}{{\\small\\begin{{longtable}}{{{columns}}}\n{inside}\n\\end{{longtable}}}}"

    def facts(self, part: p.Facts) -> str:
        lines = (rf"\textbf{{{_prose(label)}}}\quad {_inline(said)}" if label else _inline(said)
                 for label, said in part.items)  # fmt: skip
        return r"{\small " + "\\\\\n".join(lines) + r"\par}"

    def question(self, part: p.Question) -> str:
        """The task, and a rule to write each number on."""
        blank = r"\underline{\hspace{1.6cm}}"
        blanks = r"\quad ".join(f"{_prose(label)}~{blank}" for label in part.labels)
        asked = rf"\textbf{{{_prose(self.task(part))}}}\\[4pt] {blanks}"
        return rf"\begin{{minipage}}{{\linewidth}}{asked}\end{{minipage}}"

    def code(self, part: p.Code) -> str:
        """Typewriter type, spaces preserved."""
        lines = (_typewriter(line).replace(" ", "~") for line in part.text.splitlines())
        return r"{\small " + "\\\\\n".join(lines) + r"\par}"

    def figure(self, part: p.Figure) -> str:
        """A TikZ picture with type a little smaller than the text's, no larger than the page."""
        size = r"scale=0.64,max width=\linewidth,max totalheight=0.8\textheight"
        drawn = f"\\begin{{adjustbox}}{{{size}}}\n{tikz(part.drawing, _prose)}\n\\end{{adjustbox}}"
        title = rf"{{\small\itshape {_prose(part.caption)}}}\\[2pt]"
        return rf"\begin{{minipage}}{{\linewidth}}{title}{drawn}\end{{minipage}}"

    def section(self, part: p.Section) -> str:
        """A heading; LaTeX numbers the numbered ones."""
        kind = _HEADINGS[min(self.depth, len(_HEADINGS) - 1)]
        kind = kind if part.number is not None or kind.endswith("*") else f"{kind}*"
        page = "\\clearpage\n" if part.new_page else ""
        heading = rf"{page}\{kind}{{{_inline(part.title)}}}"
        return "\n\n".join([heading, *self.inside(part)])


def _is_numbers(part: p.Part) -> bool:
    return isinstance(part, p.HeatMap) or (isinstance(part, p.Table) and not any(part.widths()))


def _prose(said: str) -> str:
    """Escape text; characters missing from text fonts are set in math mode."""
    powers = re.sub(r"[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+", _power, escaped(said))
    powers = re.sub(r"[₀₁₂₃₄₅₆₇₈₉]+", _index, powers)
    return _SIGN.sub(lambda found: f"${_SIGNS[found[0]]}$", powers)


def _power(found: re.Match[str]) -> str:
    return f"$^{{{found[0].translate(_SUPERSCRIPTS)}}}$"


def _index(found: re.Match[str]) -> str:
    return f"$_{{{found[0].translate(_SUBSCRIPTS)}}}$"


def _typewriter(said: str) -> str:
    """Code with line breaks allowed where a reader expects them."""
    broken = _BREAKS.sub(lambda found: rf"{found[0]}\allowbreak{{}}", _prose(said))
    return rf"\texttt{{{broken}}}"


def _looking(said: str, look: p.Look) -> str:
    colour = _COLOURS.get(look)
    return said if colour is None else rf"\textcolor[HTML]{{{colour}}}{{{said}}}"


def _inline(inline: p.Inline) -> str:
    return "".join(map(_span, p.spans(inline)))


def _span(span: p.Span) -> str:
    if span.look == "code":
        return _typewriter(span.text)
    arrow = r" $\to$" if span.look == "deleted" else ""
    said = _looking(_prose(span.text), span.look) + arrow
    command = {"strong": "textbf", "inserted": "textbf", "emphasis": "textit"}
    return rf"\{command[span.look]}{{{said}}}" if span.look in command else said


def _formula_line(line: str) -> str:
    indent = r"\hangindent=3em\hspace*{1.5em}" if line.startswith(("=", r"\neq")) else ""
    return rf"{{\interlinepenalty10000{indent} $\displaystyle {line}$\par}}"  # on one page


def _heat_cell(cell: p.HeatCell) -> str:
    if cell.is_blank:
        return r"\fbox{\rule{0pt}{1.4ex}\hspace{2.2em}}"
    mantissa, _, power = cell.text.partition("e")
    inside = _SIGN.sub(lambda found: _SIGNS[found[0]], mantissa)
    if power:
        inside += rf" \cdot 10^{{{int(power.replace('−', '-'))}}}"
    inside = r"$\mathrm{NaN}$" if cell.text == "NaN" else f"${inside}$"
    if cell.is_marked:
        inside = rf"\fbox{{{inside}}}"
    if cell.colour is None:
        return inside
    ink, ground = hex_colour(ink_on(cell.colour))[1:], hex_colour(cell.colour)[1:]
    return rf"\cellcolor[HTML]{{{ground}}}\textcolor[HTML]{{{ink}}}{{{inside}}}"


def _fitted(caption: str, columns: str, lines: Sequence[str]) -> str:
    """A table no wider than the page, under its caption; as wide as it needs."""
    inside = " \\\\\n".join(lines)
    title = rf"{{\small\itshape {_prose(caption)}}}\\[2pt]" if caption else ""
    first = "" if caption else "[t]"  # what stands beside it begins on its first line
    table = f"\\begin{{tabular}}{first}{{{columns}}}\n{inside}\n\\end{{tabular}}"
    return (
        rf"\begin{{varwidth}}[t]{{\linewidth}}{title}"
        rf"\begin{{adjustbox}}{{max width=\linewidth}}\small {table}\end{{adjustbox}}"
        r"\end{varwidth}"
    )


def _paragraph_columns(part: p.Table, widths: Sequence[int]) -> list[str]:
    """Columns that fill the page: short ones fit their text, prose shares the rest by length."""
    needed = [
        0.0 if width else size * 0.0115 + 0.025
        for size, width in zip(part.sizes(), widths, strict=True)
    ]
    room = max(0.4, 1 - sum(needed)) / sum(widths)
    shares = (size or room * width for size, width in zip(needed, widths, strict=True))
    return [
        rf">{{\raggedright\arraybackslash}}p{{\dimexpr {share:.3f}\linewidth-2\tabcolsep\relax}}"
        for share in shares
    ]


# --- drawings ---
# Drawings as TikZ pictures, so that LaTeX needs no other program to show them.
#
# A drawing writes itself as SVG with few means: rectangles, circles, polygons, paths of lines and
# quadratic curves, lines of text, and classes whose colours stand in its style. This module reads
# those and writes `\draw` and `\node` in the colours of the light theme, in points of the drawing.
# What is visible only during one beat of an animation is left out, as in print.


Properties = dict[str, str]

_SVG = "{http://www.w3.org/2000/svg}"
_AT_RULE = re.compile(r"@[^{}]*\{(?:[^{}]*\{[^{}]*\})*[^{}]*\}")
_RULE = re.compile(r"([^{}]+)\{([^{}]*)\}")
_VARIABLE = re.compile(r"var\((--[\w-]+)(?:,\s*((?:[^()]|\([^()]*\))+))?\)")
_NUMBER = r"-?\d+(?:\.\d+)?"
_COMMAND = re.compile(rf"([MLQZHV])\s*((?:{_NUMBER}[\s,]*)*)")
_ANCHORS = {"start": "base west", "middle": "base", "end": "base east"}
_DEFAULT_SIZE = 12.0


class _Style:
    """The rules of a style sheet outside media queries: what a class, or a tag, looks like."""

    def __init__(self, sheet: str) -> None:
        self._rules: list[tuple[str, Properties]] = []
        self.variables: Properties = {}
        for selectors, body in _RULE.findall(_AT_RULE.sub("", sheet)):
            found = _declarations(body)
            for selector in selectors.split(","):
                self._rules.append((selector.split()[-1], found))
            self.variables |= {key: value for key, value in found.items() if key.startswith("--")}

    def of(self, tag: str, classes: list[str], own: Properties) -> Properties:
        """The properties of an element; variables are those of the light theme."""
        names = {tag, *(f".{name}" for name in classes)}
        found: Properties = {}
        for selector, properties in self._rules:
            if selector in names:
                found |= properties
        found |= own
        known = self.variables | found
        return {key: _resolved(value, known) for key, value in found.items()}


def _declarations(body: str) -> Properties:
    pairs = (line.partition(":") for line in body.split(";") if ":" in line)
    return {key.strip(): value.strip() for key, _, value in pairs}


def _resolved(value: str, known: Mapping[str, str]) -> str:
    """A value with each `var(--name, otherwise)` replaced."""
    while (found := _VARIABLE.search(value)) is not None:
        chosen = known.get(found[1], found[2])
        if chosen is None:
            raise TraceError(
                "a drawing uses {name}, which its style does not define", name=found[1]
            )
        value = value[: found.start()] + chosen + value[found.end() :]
    return value


def tikz(drawing: Picture, prose: Callable[[str], str]) -> str:
    """A `tikzpicture`; `prose` escapes text for LaTeX."""
    root = ElementTree.fromstring(drawing.svg(alone=False))  # noqa: S314  our own SVG
    style = _Style(STYLE)
    height, width = (float(root.get(name, "0")) for name in ("height", "width"))
    lines = [
        r"\begin{tikzpicture}[x=1bp,y=-1bp,line join=round]",
        rf"\path[use as bounding box] (0,0) rectangle ({_n(width)},{_n(height)});",
    ]
    for tag, element in _elements(root):
        own = _declarations(element.get("style", "")) | {
            name: element.get(name, "")
            for name in ("fill", "stroke", "stroke-width", "stroke-dasharray", "font-weight")
            if element.get(name)
        }
        look = style.of(tag, element.get("class", "").split(), own)
        lines.append(_text(element, look, prose) if tag == "text" else _shape(tag, element, look))
    return "\n".join([*lines, r"\end{tikzpicture}"])


def _elements(parent: ElementTree.Element) -> Iterator[tuple[str, ElementTree.Element]]:
    """The shapes in order, without the background and those visible during one beat alone."""
    for element in parent:
        tag, classes = element.tag.removeprefix(_SVG), element.get("class", "").split()
        if tag in ("title", "style") or "paper" in classes or "only" in classes:
            continue
        if tag == "g":
            yield from _elements(element)
        else:
            yield tag, element


def _text(element: ElementTree.Element, look: Properties, prose: Callable[[str], str]) -> str:
    size = float(element.get("font-size") or look.get("font-size", "").removesuffix("px")
                 or _DEFAULT_SIZE)  # fmt: skip
    turn = re.search(rf"translate\(({_NUMBER})[ ,]({_NUMBER})\)", element.get("transform", ""))
    x, y = turn.groups() if turn else (element.get("x", "0"), element.get("y", "0"))
    options = [f"anchor={_ANCHORS[element.get('text-anchor') or 'start']}", "inner sep=0pt"]
    options += ["rotate=90"] if turn else []
    options.append(f"text={_colour(look.get('fill', '#000000'))}")
    weight = look.get("font-weight", "")
    bold = r"\bfseries" if weight == "bold" or weight > "5" else ""
    font = rf"\sffamily\fontsize{{{_n(size)}bp}}{{{_n(1.2 * size)}bp}}\selectfont{bold}"
    said = prose("".join(element.itertext()))
    return rf"\node[{','.join(options)},font={{{font}}}] at ({x},{y}) {{{said}}};"


def _shape(tag: str, element: ElementTree.Element, look: Properties) -> str:
    options = []
    fill, stroke = look.get("fill", "#000000"), look.get("stroke", "none")
    if fill != "none" and not (tag == "path" and "fill" not in look):
        options.append(f"fill={_colour(fill)}")
    if stroke != "none":
        width = look.get("stroke-width", "1").removesuffix("px")
        options += [f"draw={_colour(stroke)}", f"line width={_n(float(width))}bp"]
    if dashes := look.get("stroke-dasharray"):
        on, off = dashes.replace(",", " ").split()
        options.append(f"dash pattern=on {on}bp off {off}bp")
    return rf"\path[{','.join(options)}] {_route(tag, element)};"


def _route(tag: str, element: ElementTree.Element) -> str:
    def number(name: str) -> float:
        return float(element.get(name, "0"))

    if tag == "rect":
        x, y, width, height = map(number, ("x", "y", "width", "height"))
        corner = min(number("rx"), width / 2, height / 2)
        rounded = f"[rounded corners={_n(corner)}bp] " if corner else ""
        return f"{rounded}({_n(x)},{_n(y)}) rectangle ({_n(x + width)},{_n(y + height)})"
    if tag == "circle":
        return f"({_n(number('cx'))},{_n(number('cy'))}) circle[radius={_n(number('r'))}bp]"
    if tag == "polygon":
        corners = element.get("points", "").split()
        return f"{' -- '.join(f'({corner})' for corner in corners)} -- cycle"
    if tag == "path":
        return "".join(_segments(element.get("d", "")))
    raise TraceError("a drawing has <{tag}>, which LaTeX does not know", tag=tag)


def _segments(path: str) -> Iterator[str]:
    """The pieces of a path; a quadratic curve becomes the cubic one that is equal to it."""
    if _COMMAND.sub("", path).strip():
        raise TraceError("a drawing has the path {path!r}, which LaTeX does not know", path=path)
    x = y = 0.0
    for command, written in _COMMAND.findall(path):
        if command == "Z":
            yield " -- cycle"
            continue
        given = [float(number) for number in re.findall(_NUMBER, written)]
        if command in "HV":
            x, y = (given[-1], y) if command == "H" else (x, given[-1])
            yield f" -- ({_n(x)},{_n(y)})"
        elif command == "Q":
            bx, by, ex, ey = given
            first = f"({_n(x + 2 / 3 * (bx - x))},{_n(y + 2 / 3 * (by - y))})"
            second = f"({_n(ex + 2 / 3 * (bx - ex))},{_n(ey + 2 / 3 * (by - ey))})"
            yield f" .. controls {first} and {second} .. ({_n(ex)},{_n(ey)})"
            x, y = ex, ey
        else:
            for x, y in zip(given[::2], given[1::2], strict=True):
                yield f"{' -- ' if command == 'L' else ''}({_n(x)},{_n(y)})"
                command = "L"  # further pairs after M are lines


def _colour(colour: str) -> str:
    """A colour as TikZ takes it without a definition."""
    digits = colour.removeprefix("#")
    if not re.fullmatch("[0-9A-Fa-f]{6}", digits):
        raise TraceError("a drawing has the colour {colour!r}; expected #RRGGBB", colour=colour)
    red, green, blue = (int(digits[at : at + 2], 16) for at in (0, 2, 4))
    return f"{{rgb,255:red,{red};green,{green};blue,{blue}}}"


def _n(number: float) -> str:
    return f"{number:.2f}".rstrip("0").rstrip(".")
