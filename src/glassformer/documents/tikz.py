r"""Drawings as TikZ pictures, so that LaTeX needs no other program to show them.

A drawing writes itself as SVG with few means: rectangles, circles, polygons, paths of lines and
quadratic curves, lines of text, and classes whose colours stand in its style. This module reads
those and writes `\draw` and `\node` in the colours of the light theme, in points of the drawing.
What is visible only during one beat of an animation is left out, as in print.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from xml.etree import ElementTree

from glassformer.documents.parts import Drawing
from glassformer.errors import TraceError

Properties = dict[str, str]

_SVG = "{http://www.w3.org/2000/svg}"
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
        for selectors, body in _RULE.findall(_without_media(sheet)):
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


def _without_media(sheet: str) -> str:
    """The sheet without its at-rules, which nest braces."""
    kept, at = [], 0
    for found in re.finditer(r"@[^{]*\{", sheet):
        if found.start() < at:
            continue
        kept.append(sheet[at : found.start()])
        depth, at = 1, found.end()
        while depth:
            depth += {"{": 1, "}": -1}.get(sheet[at], 0)
            at += 1
    return "".join([*kept, sheet[at:]])


def _declarations(body: str) -> Properties:
    pairs = (line.partition(":") for line in body.split(";") if ":" in line)
    return {key.strip(): value.strip() for key, _, value in pairs}


def _resolved(value: str, known: Mapping[str, str]) -> str:
    """A value with each `var(--name, otherwise)` replaced."""
    while (found := _VARIABLE.search(value)) is not None:
        chosen = known.get(found[1], found[2])
        if chosen is None:
            raise TraceError(f"a drawing uses {found[1]}, which its style does not define")
        value = value[: found.start()] + chosen + value[found.end() :]
    return value


def tikz(drawing: Drawing, prose: Callable[[str], str]) -> str:
    """A `tikzpicture`; `prose` escapes text for LaTeX."""
    root = ElementTree.fromstring(drawing.svg(alone=False))  # noqa: S314  our own SVG
    style = _Style(drawing.style)
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
    """What is drawn, in order, without the ground and what is visible during one beat alone."""
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
    raise TraceError(f"a drawing has <{tag}>, which LaTeX does not know")


def _segments(path: str) -> Iterator[str]:
    """The pieces of a path; a quadratic curve becomes the cubic one that is equal to it."""
    if _COMMAND.sub("", path).strip():
        raise TraceError(f"a drawing has the path {path!r}, which LaTeX does not know")
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
        raise TraceError(f"a drawing has the colour {colour!r}; expected #RRGGBB")
    red, green, blue = (int(digits[at : at + 2], 16) for at in (0, 2, 4))
    return f"{{rgb,255:red,{red};green,{green};blue,{blue}}}"


def _n(number: float) -> str:
    return f"{number:.2f}".rstrip("0").rstrip(".")
