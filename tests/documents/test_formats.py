"""One document model: every kind of document in every format, and a new format in a few lines."""

from __future__ import annotations

import io
import json
import re
import zipfile
from pathlib import Path

import pytest
import torch

from glassformer.audit.audit_report import audit_document
from glassformer.claims.claim_report import claims_document
from glassformer.documents import FORMATS, Document, Renderer, render, render_text
from glassformer.documents.heat_maps import matrix
from glassformer.documents.parts import (
    Code,
    Facts,
    Formula,
    HeatMap,
    Paragraph,
    Section,
    Span,
    Table,
    Tree,
    plain,
    with_code,
)
from glassformer.documents.trace_data import trace_data
from glassformer.documents.trace_documents import TraceDocuments
from glassformer.errors import TraceError, UnknownNameError
from glassformer.tracing import Trace, trace
from tests.audit.audits import audit_of
from tests.claims.claim_runs import outcome_of
from tests.lessons.shared_lessons import lesson


class Toy(Renderer[str]):
    """A new format, whole: every part is a line."""

    def render(self) -> str:
        return "\n".join(self.write_all(self.document.parts))

    def paragraph(self, part: Paragraph) -> str:
        return f"text {plain(part.text)}"

    def formula(self, part: Formula) -> str:
        return f"formula {part.card.name} {part.card.formula}"

    def heatmap(self, part: HeatMap) -> str:
        return f"matrix {part.caption} {part.cells()[0][0].text}"

    def table(self, part: Table) -> str:
        return f"table {' '.join(plain(item) for row in part.rows for item in row)}"

    def code(self, part: Code) -> str:
        return f"code {part.text}"

    def section(self, part: Section) -> str:
        return "\n".join([f"section {plain(part.title)}", *self.inside(part)])


def documents() -> dict[str, Document]:
    """One of each kind."""
    t = trace(lambda x: x @ x, torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
    return {
        "lesson": lesson("masked").document(),
        "audit": audit_document(audit_of("masked"), "en"),
        "claim": claims_document([outcome_of("C11")], "en"),
        "card": TraceDocuments().document(t.steps[0][1, 0]),
    }


SAID = {
    "lesson": "Q[2, 1] = Σₖ x[2, k]·W_Q[k, 1]",
    "audit": "masked_a1_masked",
    "claim": "its derivative is 0 for each of the first three inputs",
    "card": "Σₖ x[1, k]·x[k, 0]",
}


@pytest.mark.parametrize("kind", SAID)
def test_a_new_format_is_one_class(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(FORMATS, "toy", f"{__name__}:Toy")
    shown = render_text(documents()[kind], "toy")
    assert SAID[kind].split(" = ")[-1] in shown
    assert all(line.split()[0] in ("text", "formula", "matrix", "table", "code", "section")
               for line in shown.splitlines() if line)  # fmt: skip


@pytest.mark.parametrize("kind", SAID)
@pytest.mark.parametrize("to", FORMATS)
def test_every_kind_of_document_has_every_format(to: str, kind: str) -> None:
    made = render(documents()[kind], to)
    if isinstance(made, bytes):
        with zipfile.ZipFile(io.BytesIO(made)) as book:
            made = book.read("xl/sharedStrings.xml").decode()
    assert isinstance(made, str)
    if to == "json":
        assert json.loads(made)
    elif to in ("terminal", "xlsx") and kind != "claim":  # a terminal breaks the lines of prose
        assert SAID[kind] in made


def test_a_workbook_is_no_text() -> None:
    with pytest.raises(TraceError, match="xlsx is no text"):
        render_text(documents()["card"], "xlsx")
    with pytest.raises(UnknownNameError, match="unknown format 'pdf'"):
        render_text(documents()["card"], "pdf")


def test_prose_that_a_narrow_terminal_has_no_room_for_stands_below_its_row() -> None:
    claim, long = "a claim of forty characters, or nearly so", "and a finding " * 12
    table = Table("", ("id", "claim", "found"), (("C01", claim, long), ("C02", "short", "")))
    wide, narrow = (
        render(Document("", (table,)), "terminal", width=width, colour=False) for width in (120, 60)
    )
    assert isinstance(wide, str)
    assert isinstance(narrow, str)
    assert "┃" in wide
    below = "    and a finding and a finding and a finding and a finding"
    head, rows = ["id   claim", "    found"], [f"C01  {claim}", below, below, below, "C02  short"]
    assert narrow.strip().splitlines() == head + rows


def test_a_file_has_neither_the_colours_nor_the_width_of_the_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "40")
    said = "a sentence of more than forty characters, which a narrow terminal breaks"
    path = render(Document("", (Paragraph(said),)), path=tmp_path / "a.txt")
    assert isinstance(path, Path) and path.read_text() == f"{said}\n"


# --- spans, tables, trees ---

SPANS = (
    Span("old", "deleted"), " ", Span("new", "inserted"), " ", Span("a|b`c", "code"), " <_x_> ",
    Span("bad", "bad"),
)  # fmt: skip


def test_looks_in_every_format() -> None:
    made = Document("", (Paragraph(SPANS),))
    assert render_text(made, "md") == "~~old~~ **new** `` a\\|b`c `` &lt;\\_x\\_&gt; bad\n"
    assert render_text(made, colour=False) == "old → new a|b`c <_x_> bad\n"
    page = render_text(made, "html")
    assert '<del>old</del> <ins>new</ins> <code class="whole">a|b`c</code> &lt;_x_&gt; ' in page
    long = render_text(Document("", (Paragraph((Span("a --long option " * 4, "code"),)),)), "html")
    assert "<code>a --long option" in long
    assert '<span class="bad">bad</span>' in page
    tex = render_text(made, "tex", whole=False)
    assert r"{old} $\to$ \textbf{" in tex and r"\texttt{a|b`c}" in tex


def test_facts_have_the_colon_of_their_language() -> None:
    chinese = Document("", (Facts((("用时", "约 10 分钟"),)),), "zh")
    assert render_text(chinese, "md") == "- 用时：约 10 分钟\n"
    english = Document("", (Facts((("Takes", "about 10 minutes"),)),))
    assert render_text(english, "md") == "- Takes: about 10 minutes\n"


def test_backticks_enclose_code() -> None:
    assert with_code("run `a b` now") == ("run ", Span("a b", "code"), " now")


def test_numbers_stand_on_the_right_and_text_on_the_left() -> None:
    table = Table("", ("a", "b", "c"), (("1", "−2.5e−3", "000"), ("…", Span("∞", "bad"), "x 1")))
    assert table.is_numeric() == [True, True, False]
    assert "| ---: | ---: | --- |" in render_text(Document("", (table,)), "md")


def test_latex_aligns_tables_at_their_heads_and_does_not_stretch_code() -> None:
    table = Table("", ("a",), (("1",),))
    assert r"\begin{tabular}[t]{r}" in render_text(Document("", (table,)), "tex", whole=False)
    parts = lesson("illustrated").document().walk()
    formula = next(part for part in parts if isinstance(part, Formula) and part.code)
    tex = render_text(Document("", (formula,)), "tex", whole=False)
    assert r"{\small\raggedright \textcolor" in tex


def test_a_formula_in_latex_stays_on_one_page() -> None:
    parts = lesson("illustrated").document().walk()
    formula = next(part for part in parts if isinstance(part, Formula))
    lines = render_text(Document("", (formula,)), "tex", whole=False).split("\\nopagebreak")
    assert len(lines) == 3  # symbols, numbers, code
    assert all(r"{\interlinepenalty10000" in line and r"\par}" in line for line in lines[:2])


def test_a_figure_carries_its_numbers_to_formats_without_drawings() -> None:
    (figure,) = (one for one in lesson("recurrence").figures() if one.name == "distances")
    assert figure.numbers is not None
    heads = [plain(head) for head in figure.numbers.heads]
    document = Document("", (figure,))
    told = render_text(document, colour=False)
    assert figure.caption in told and all(head in told for head in heads)
    assert "| 512 | 512 | 1 | 512 |" in render_text(document, "md")
    assert "<table" not in render_text(document, "html")
    assert r"\toprule" not in render_text(document, "tex", whole=False)
    embedded = render_text(document, "md", embedded=True)
    assert embedded.startswith("![") and "| 512 |" not in embedded


def test_a_tree_in_every_format() -> None:
    made = Document("", (Tree("root", (Tree("twig", (Tree("leaf"),)), Tree("other"))),))
    lines = "root\n  twig\n    leaf\n  other\n"
    assert render_text(made, "md") == f"```text\n{lines}```\n"
    assert lines.strip() in render_text(made, "html")
    assert render_text(made, colour=False).splitlines() == [
        "root", "├── twig", "│   └── leaf", "└── other",
    ]  # fmt: skip
    assert r"\texttt{~~~~leaf}" in render_text(made, "tex")


def test_a_document_without_a_schema_of_its_own_is_its_parts_as_data() -> None:
    made = Document("title", (Section("one", (Code("x = 1"),)),), "zh")
    code = {"kind": "code", "text": "x = 1"}
    assert json.loads(render_text(made, "json")) == {
        "title": "title",
        "language": "zh",
        "parts": [{"kind": "section", "title": "one", "parts": [code]}],
    }


# --- memory that was only reserved ---

UNWRITTEN = {"en": "not yet written", "zh": "尚未写入"}


@pytest.fixture
def reserved() -> Trace:
    """A tensor of which half was written, and a copy of it."""

    def function(x: torch.Tensor) -> torch.Tensor:
        half = torch.empty(2, 3)
        half[0] = x
        return half.clone()

    return trace(function, torch.tensor([2.0, 3.0, 4.0]))


@pytest.mark.parametrize("lang", UNWRITTEN)
@pytest.mark.parametrize("to", ["terminal", "md", "tex", "html", "xlsx"])
def test_unwritten_memory_is_marked_in_every_format(to: str, lang: str, reserved: Trace) -> None:
    copied = reserved.steps[-1]
    assert [copied[i, 0].is_unwritten for i in (0, 1)] == [False, True]
    texts = []
    for thing in (copied, copied[1, 0]):
        made = render(TraceDocuments(lang).document(thing), to)
        if isinstance(made, bytes):
            with zipfile.ZipFile(io.BytesIO(made)) as book:
                made = book.read("xl/sharedStrings.xml").decode()
        assert isinstance(made, str)
        assert UNWRITTEN[lang] in made
        texts.append(made)
    marks = len(re.findall(r"∅|\$\\varnothing\$", texts[0]))
    assert marks == (2 if to == "xlsx" else 4)  # three cells and the note; strings stand once
    assert f"{copied[1, 0].name} =" not in texts[1]


def test_the_workbook_of_a_trace_marks_unwritten_memory(reserved: Trace) -> None:
    made = render(reserved, "xlsx", lang="zh")
    assert isinstance(made, bytes)
    with zipfile.ZipFile(io.BytesIO(made)) as book:
        assert UNWRITTEN["zh"] in book.read("xl/sharedStrings.xml").decode()
    written = render(trace(lambda x: x + 1, torch.zeros(2)), "xlsx", lang="zh")
    assert isinstance(written, bytes)
    with zipfile.ZipFile(io.BytesIO(written)) as book:
        assert UNWRITTEN["zh"] not in book.read("xl/sharedStrings.xml").decode()


def test_data_names_the_places_of_unwritten_memory(reserved: Trace) -> None:
    data = trace_data(reserved)
    by_name = {tensor["name"]: tensor["unwritten"] for tensor in data["tensors"]}
    assert by_name[reserved.steps[-1].name] == [3, 4, 5] and by_name["x"] == []
    drawn = HeatMap("", matrix(reserved.steps[-1])).to_dict()
    assert drawn["unwritten"] == [[1, 0], [1, 1], [1, 2]]
    # A copy of a copy, and one half of it moved elsewhere.
    twice = trace(lambda x: torch.cat([x, torch.empty(2).clone()]).clone().flip(0), torch.ones(2))
    assert trace_data(twice)["tensors"][-1]["unwritten"] == [0, 1]


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("to", ["terminal", "md", "tex", "html"])
def test_a_card_says_what_its_symbols_stand_for(to: str, language: str) -> None:
    torch.manual_seed(0)
    layer = torch.nn.Linear(3, 2)
    cell = trace(layer, torch.randn(1, 3))["output"][0, 1]
    assert cell.card().legend["W"] == "weight"
    shown = render_text(TraceDocuments(language).document(cell), to)
    lead = "其中" if language == "zh" else "with"
    assert re.search(rf"{lead} .*W: weight", shown), shown
