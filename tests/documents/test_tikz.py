"""Drawings in LaTeX: the same shapes in the same places, in the colours of the light theme."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest
import torch

from glassformer.documents import render_text
from glassformer.documents.latex import tikz
from glassformer.documents.parts import Document, Figure
from glassformer.errors import TraceError
from glassformer.experiments.charts import bars, heat_map
from glassformer.language import Language
from glassformer.picture import Picture
from tests.lessons.shared_lessons import lesson

SVG = "{http://www.w3.org/2000/svg}"


def sketch(markup: str) -> Picture:
    return Picture(90, 40, "t", markup, 0, "")


def drawn(markup: str) -> list[str]:
    """The lines inside the picture, after its bounding box."""
    lines = tikz(sketch(markup), str).splitlines()
    assert lines[0].startswith(r"\begin{tikzpicture}[x=1bp,y=-1bp")
    assert lines[1] == r"\path[use as bounding box] (0,0) rectangle (90,40);"
    assert lines[-1] == r"\end{tikzpicture}"
    return lines[2:-1]


INK, GREEN = "{rgb,255:red,29;green,36;blue,48}", "{rgb,255:red,23;green,105;blue,47}"


@pytest.mark.parametrize(
    ("markup", "expected"),
    [
        (
            '<rect class="frame" x="1" y="2" width="10" height="6" rx="2"/>',
            rf"\path[draw={INK},line width=2bp] [rounded corners=2bp] (1,2) rectangle (11,8);",
        ),
        (
            '<path class="frame" d="M1 2 L3 4 Q6 4 6 7 Z" style="--c:var(--gf-input);"/>',
            rf"\path[draw={GREEN},line width=2bp] (1,2) -- (3,4)"
            " .. controls (5,4) and (6,5) .. (6,7) -- cycle;",
        ),
        (
            '<circle cx="3" cy="4" r="5" style="fill:#17692f"/>',
            rf"\path[fill={GREEN}] (3,4) circle[radius=5bp];",
        ),
        (
            '<polygon fill="#1d2430" points="0,0 4,0 2,3"/>',
            rf"\path[fill={INK}] (0,0) -- (4,0) -- (2,3) -- cycle;",
        ),
        (
            '<path class="frame" d="M1 2V9H5" stroke-dasharray="5 4"/>',
            rf"\path[draw={INK},line width=2bp,dash pattern=on 5bp off 4bp]"
            " (1,2) -- (1,9) -- (5,9);",
        ),
    ],
)
def test_each_shape_is_where_it_was(markup: str, expected: str) -> None:
    assert drawn(markup) == [expected]


def test_text_stands_on_its_line() -> None:
    (line,) = drawn('<text x="5" y="9" font-size="13" text-anchor="end" font-weight="650">a</text>')
    assert line == (
        rf"\node[anchor=base east,inner sep=0pt,text={INK},font={{\sffamily\fontsize"
        r"{13bp}{15.6bp}\selectfont\bfseries}] at (5,9) {a};"
    )
    (turned,) = drawn('<text transform="translate(5 9) rotate(-90)" font-size="13">a</text>')
    assert "rotate=90" in turned and "at (5,9)" in turned


def test_what_shows_for_one_beat_alone_is_left_out() -> None:
    assert drawn('<g class="only"><circle cx="1" cy="1" r="1" fill="#1d2430"/></g>') == []
    assert len(drawn('<g class="in"><circle cx="1" cy="1" r="1" fill="#1d2430"/></g>')) == 1


@pytest.mark.parametrize(
    ("markup", "message"),
    [
        ('<ellipse fill="#1d2430"/>', "<ellipse>"),
        ('<path fill="#1d2430" d="M1 2 C3 4 5 6 7 8"/>', "C3 4"),
        ('<circle r="1" fill="red"/>', "'red'"),
        ('<circle r="1" style="fill:var(--green)"/>', "--green"),
    ],
)
def test_what_it_does_not_know_is_named(markup: str, message: str) -> None:
    with pytest.raises(TraceError, match=re.escape(message)):
        tikz(sketch(markup), str)


def shapes(svg: str) -> int:
    """Everything visible, counted by another route: the tree without its one-beat groups."""
    root = ElementTree.fromstring(re.sub(r'<g class="only".*?</g>', "", svg, flags=re.DOTALL))
    drawn = ("rect", "path", "circle", "polygon", "text")
    return sum(len(list(root.iter(f"{SVG}{tag}"))) for tag in drawn)


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("name", ["illustrated", "by-hand", "multi-head"])
def test_every_figure_of_a_lesson_is_drawn_whole(name: str, language: Language) -> None:
    figures = lesson(name, language).figures()
    assert figures
    for figure in figures:
        made = tikz(figure.drawing, str).splitlines()
        assert len(made) - 3 == shapes(figure.drawing.svg(alone=False))
    tex = render_text(lesson(name, language).document(), "tex")
    assert tex.count(r"\begin{tikzpicture}") == len(figures)
    assert re.search(r"\\usepackage\{[^}]*\btikz\b", tex.partition(r"\begin{document}")[0])


def test_pictures_of_experiments_are_drawn_too() -> None:
    pictures = [
        bars("t", ["a", "b"], [1.0, -2.0]),
        heat_map("t", ["a"], ["b", "c"], torch.tensor([[1.0, -1.0]])),
    ]
    document = Document("", tuple(Figure(f"f{n}", one) for n, one in enumerate(pictures)))
    assert render_text(document, "tex").count(r"\end{tikzpicture}") == 2
