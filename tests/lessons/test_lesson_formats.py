"""Lessons in every format, and `glassformer lesson`."""

import io
import json
import re
import shutil
import subprocess
import zipfile
from base64 import b64decode
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import pytest

from glassformer.cli import run
from glassformer.documents import FORMATS, render, render_text
from glassformer.documents.parts import Document, Formula, Table
from glassformer.errors import UnknownNameError
from glassformer.language import Language, columns_of
from glassformer.lessons import LESSONS, Lesson, make_lesson
from tests.lessons.shared_lessons import lesson
from tests.tracing.render.libreoffice import recalculate
from tests.tracing.render.xlsx import read_workbook

NAMES = ("illustrated", "masked", "by-hand", "roles", "training-step", "switches")


@pytest.fixture(scope="module")
def lessons() -> dict[str, Lesson]:
    return {name: lesson(name, "zh" if place % 2 else "en") for place, name in enumerate(NAMES)}


class Balanced(HTMLParser):
    """Collects nesting errors of a page."""

    VOID = ("meta", "br", "img", "link", "input")

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.wrong: list[str] = []
        self.loaded: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.loaded += [str(value) for name, value in attrs if name in ("src", "href")]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.wrong.append(tag)


@pytest.mark.parametrize("name", NAMES)
def test_the_page_is_whole_and_needs_nothing_else(name: str, lessons: dict[str, Lesson]) -> None:
    page = render_text(lessons[name].document(), "html")
    found = Balanced()
    found.feed(page)
    assert not found.wrong and not found.open
    assert all(place.startswith("#") for place in found.loaded)
    assert "<script" not in page
    assert "url(" not in page
    assert page.count("<section") == len(lessons[name].steps)


@pytest.mark.parametrize("name", NAMES)
def test_latex_is_balanced(name: str, lessons: dict[str, Lesson]) -> None:
    document = render_text(lessons[name].document(), "tex")
    assert document.count(r"\begin{") == document.count(r"\end{")
    unescaped = re.sub(r"\\[{}]", "", document)
    assert unescaped.count("{") == unescaped.count("}")
    assert re.sub(r"\\\$", "", document).count("$") % 2 == 0
    assert ("xeCJK" in document) == (lessons[name].language == "zh")


@pytest.mark.parametrize("name", NAMES)
def test_markdown_tables_are_even(name: str, lessons: dict[str, Lesson]) -> None:
    text = render_text(lessons[name].document(), "md")
    for block in re.findall(r"(?:^\|.*\|\n?)+", text, flags=re.MULTILINE):
        widths = {len(re.findall(r"(?<!\\)\|", line)) for line in block.splitlines()}
        assert len(widths) == 1
    assert text.count("$$") % 2 == 0


@pytest.mark.parametrize("name", NAMES)
def test_the_workbook_is_live_and_links_only_to_its_own_sheets(
    name: str, lessons: dict[str, Lesson], tmp_path: Path
) -> None:
    file = tmp_path / "lesson.xlsx"
    render(lessons[name].document(), path=file)
    with zipfile.ZipFile(file) as book:
        sheets = set(re.findall(r'<sheet name="([^"]+)"', book.read("xl/workbook.xml").decode()))
        reading = book.read("xl/worksheets/sheet1.xml").decode()
    used = set(re.findall(r"<f>(?:IF\()?'([^']+)'!", reading))
    assert used and used < sheets


def parts_of_workbook(document: Document) -> tuple[str, str]:
    """The first sheet and the formats, as XML."""
    made = render(document, "xlsx")
    assert isinstance(made, bytes)
    with zipfile.ZipFile(io.BytesIO(made)) as book:
        return book.read("xl/worksheets/sheet1.xml").decode(), book.read("xl/styles.xml").decode()


def test_long_texts_in_a_table_of_a_workbook_have_room() -> None:
    short, long = ("greedy", "−9.48"), "Eine Ballettkurs von fünf Mädchen, die in sequem springen."
    rows = ((short[0], long, short[1]), ("beam", long * 3, "−6.452"))
    sheet, _ = parts_of_workbook(Document("", (Table("", ("method", "text", "ln"), rows),)))
    assert {"B1:F1", "B2:F2", "B3:F3"} == set(re.findall(r'mergeCell ref="([^"]+)"', sheet))
    assert re.search(r'<c r="G2"', sheet)  # the next column begins after it
    heights = re.findall(r'<row r="(\d)"[^>]* ht="([\d.]+)"', sheet)
    assert [(row, float(height) >= 48) for row, height in heights] == [("2", False), ("3", True)]


def test_the_numbers_in_a_table_of_a_workbook_are_numbers(tmp_path: Path) -> None:
    """They can be summed and sorted, and look as they do in the sentences."""
    heads = ("layer", "share", "change", "count", "error", "pairs", "word")
    rows = (
        ("1", "28.0%", "−0.313", "196,608", "1.2e−07", "18/36", "7 up"),
        ("12", "< 0.1%", "+0.127", "80", "0", "36/36", "2"),
    )
    document = Document("", (Table("", heads, rows),))
    render(document, path=tmp_path / "a.xlsx")
    (sheet,) = read_workbook(tmp_path / "a.xlsx").values()
    lines = [[sheet[f"{column}{row}"].value for column in "ABCDEFG"] for row in (2, 3)]
    assert lines[0] == [1, pytest.approx(0.28), -0.313, 196608, 1.2e-7, "18/36", "7 up"]
    assert lines[1] == [12, "< 0.1%", 0.127, 80, 0, "36/36", "2"]
    _, styles = parts_of_workbook(document)
    formats = set(re.findall(r'formatCode="([^"]+)"', styles))
    assert {"0.0%;−0.0%", "0.000;−0.000", "+0.000;−0.000", "0.0E+00;−0.0E+00"} <= formats


def test_a_long_formula_of_a_workbook_is_wrapped() -> None:
    """It would make the printed sheet wider, and all of it smaller."""
    made = lesson("attention").document()
    formula = next(part for part in made.walk() if isinstance(part, Formula))
    sheet, _ = parts_of_workbook(replace(made, parts=(formula,)))
    may_be_changed, summed = re.findall(r'mergeCell ref="A(\d+):L\1"', sheet)
    assert float(re.findall(rf'<row r="{summed}"[^>]* ht="([\d.]+)', sheet)[0]) >= 32
    assert int(summed) > int(may_be_changed)


def test_a_workbook_counts_from_one_as_its_lesson_does(tmp_path: Path) -> None:
    render(lesson("masked").document(), path=tmp_path / "a.xlsx")
    book = read_workbook(tmp_path / "a.xlsx")
    said = {str(cell.value) for cell in book["attention"].values()}
    assert any(one.startswith("S[1, 1, 1] = Σₖ Q[1, k]·K[1, k]") for one in said)
    assert any("W_Q[k, 1]" in one for one in said) and any("one row per output" in x for x in said)
    assert {"head 1 · position 1", "head 2 · position 3"} <= said
    assert not any("[0, 0" in one or one.startswith("head 0") for one in said)


def test_the_sheets_of_several_runs_are_named_by_their_steps(tmp_path: Path) -> None:
    """Ten models made 39 sheets such as `layers.0.attention~9`."""
    render(lesson("switches", "zh").document(), path=tmp_path / "a.xlsx")
    assert list(read_workbook(tmp_path / "a.xlsx")) == [
        "课程", *(f"第 {number} 步" for number in range(1, 12)),
    ]  # fmt: skip


def test_no_matrix_of_a_workbook_is_torn_by_a_page(tmp_path: Path) -> None:
    """A page begins above a matrix or a heading, and its scale lets the lines fit on it."""
    made = render(lesson("thrones").document(), "xlsx")
    assert isinstance(made, bytes)
    with zipfile.ZipFile(io.BytesIO(made)) as book:
        sheet = book.read("xl/worksheets/sheet5.xml").decode()
    breaks = list(map(int, re.findall(r'<brk id="(\d+)"', sheet)))
    assert breaks
    for row in breaks:  # below it stand a name, what is said of it, and its columns
        assert f'<mergeCell ref="A{row + 2}:H{row + 2}"/>' in sheet
        assert f'<row r="{row}"' not in sheet
    ((scale, look),) = re.findall(r'scale="(\d+)" orientation="(\w+)"', sheet)
    room = ((842 if look == "portrait" else 595) - 1.2 * 72) * 100 / int(scale)
    assert max(after - before for before, after in pairwise([0, *breaks])) * 15 <= room


def test_a_wide_table_of_a_workbook_is_printed_smaller() -> None:
    scales = []
    for count in (3, 20):
        row = tuple(map(str, range(count)))
        sheet, _ = parts_of_workbook(Document("", (Table("", row, (row,)),)))
        scales.append(int(re.findall(r'scale="(\d+)"', sheet)[0]))
    assert scales[1] < 0.8 * scales[0]


def test_tiny_numbers_of_a_workbook_are_no_zeros() -> None:
    """A weight of 3e−20 was shown as 0.0000, beside a formula that gave 2.863e−20."""
    _, styles = parts_of_workbook(lesson("masked").document())
    assert "0E+00" in styles and "0.000E+00" in styles


def test_the_letter_of_a_sum_is_slanted_in_the_indices_too() -> None:
    page = render_text(lesson("illustrated").document(), "html")
    assert "<mtext>1,</mtext><mi>k</mi>" in page and "k</mtext>" not in page


def test_a_workbook_says_where_its_figures_are() -> None:
    """Its sentences speak of them."""
    made = render(lesson("training-step", "zh").document(), "xlsx")
    assert isinstance(made, bytes)
    with zipfile.ZipFile(io.BytesIO(made)) as book:
        assert "［图：" in book.read("xl/sharedStrings.xml").decode()


def test_a_negative_number_of_a_workbook_keeps_its_sign_behind_the_arrow() -> None:
    _, styles = parts_of_workbook(lesson("training-step").document())
    assert '"→ "0.0000##;"→ −"0.0000##' in styles.replace("&quot;", '"')


def test_a_workbook_is_the_same_every_time(lessons: dict[str, Lesson]) -> None:
    made = lessons["masked"].document()
    assert render(made, "xlsx") == render(made, "xlsx")


def test_numbers_in_formulas_have_the_minus_of_the_matrices_beside_them() -> None:
    made = lesson("attention", "zh").document()
    formula = next(part for part in made.walk() if isinstance(part, Formula))
    text = render_text(replace(made, parts=(formula,)), "terminal", width=400, colour=False)
    sums = text.partition("PyTorch")[0]
    assert "exp((−2.501) − 2.648)" in sums and "-" not in sums


def test_the_terminal_frames_the_chosen_number(lessons: dict[str, Lesson]) -> None:
    text = render_text(lessons["illustrated"].document(), "terminal", width=100, colour=False)
    assert "S[1, 2] = Σₖ Q[1, k]·K[2, k]" in text
    assert "= 1 × 4 + 0 × 4 + 2 × 0 = 4" in text
    assert "[4]" in text
    assert all(len(line) <= 100 for line in text.splitlines())


@pytest.mark.parametrize(("width", "stands"), [(200, False), (40, True)])
def test_a_table_that_is_too_wide_stands(width: int, stands: bool) -> None:
    table = Table("", ("word", "thrones", "storm", "drink", "enemy"), (("id", "1", "2", "3", "4"),))
    shown = render_text(Document("", (table,)), width=width, colour=False)
    lines = [line.split() for line in shown.splitlines()]
    assert (["storm", "2"] in lines) == stands
    assert (["id", "1", "2", "3", "4"] in lines) == (not stands)


# --- the command ---


def test_a_notebook_shows_the_lesson_and_a_prompt_its_name(lessons: dict[str, Lesson]) -> None:
    made = lessons["illustrated"]
    shown = made._repr_markdown_()
    drawings = re.findall(r"!\[(.+)\]\(data:image/svg\+xml;base64,(.+)\)", shown)
    assert [b64decode(drawn).decode() for _, drawn in drawings] == [
        figure.drawing.svg() for figure in made.figures()
    ]
    assert re.sub(r"!\[.+\]\(.+\)\n\n", "", shown) == render_text(made.document(), "md")
    assert repr(made).startswith("<lesson illustrated (") and len(repr(made)) < 80


def test_a_third_language_is_refused() -> None:
    with pytest.raises(UnknownNameError, match="unknown language 'fr'; there are en, zh"):
        make_lesson("illustrated", "fr")  # type: ignore[arg-type]


@pytest.mark.parametrize("language", ["en", "zh"])
def test_without_a_name_the_lessons_are_listed(
    language: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The course as a path: number, name, minutes, title, what comes before; 80 columns."""
    assert run(["lesson", "--lang", language]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert all(columns_of(line) <= 80 for line in lines)
    numbered = [line for line in lines if re.match(r" ?\d+  ", line)]
    assert [line.split()[1] for line in numbered] == list(LESSONS)
    assert [int(line.split()[2]) for line in numbered] == [one.minutes for one in LESSONS.values()]
    (needs,) = [after for line, after in pairwise(lines) if " classifier " in line]
    assert needs.split(maxsplit=1)[1] == ", ".join(LESSONS["classifier"].needs)


@pytest.mark.parametrize("to", ["terminal", "md", "tex", "html"])
@pytest.mark.parametrize("language", ["en", "zh"])
def test_a_lesson_says_what_it_follows_and_needs_and_what_comes_next(
    to: str, language: Language
) -> None:
    made, entry = lesson("masked", language), LESSONS["masked"]
    text = re.sub(r"\s+", "", render_text(made.document(), to))
    text = text.replace("$-\\infty$", "−∞")
    (before,) = entry.needs
    wanted = [entry.text.title, entry.text.author, entry.able, LESSONS[before].title]
    for said in wanted:
        assert said.say(language).replace(" ", "") in text
    assert f"{entry.minutes}{'minutes' if language == 'en' else '分钟'}" in text
    assert entry.next is not None
    assert "glassformerlesson" + entry.next.name in text.replace("~", "")
    assert text.rindex(entry.next.title.say(language).replace(" ", "")) > len(text) * 0.9


def test_the_last_lesson_leads_out_of_the_course() -> None:
    *_, last = LESSONS.values()
    assert last.next is None
    assert "glassformer explore" in render_text(lesson(last.name).document(), "md")


@pytest.mark.parametrize("name", LESSONS)
def test_every_lesson_has_a_figure(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["lesson", name, "--to", "svg", "-o", str(tmp_path / name)]) == 0
    written = capsys.readouterr().err.splitlines()
    assert set(written) == {str(file) for file in (tmp_path / name).iterdir()}
    assert written


@pytest.mark.parametrize("to", [to for to in FORMATS if to != "xlsx"])
def test_the_command_writes_every_format_to_the_screen(
    to: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["lesson", "masked", "--to", to, "--lang", "zh"]) == 0
    out, err = capsys.readouterr()
    assert "掩码" in out
    assert err == ""


@pytest.mark.parametrize("ending", ["txt", "md", "tex", "html", "json", "xlsx"])
def test_the_files_ending_says_the_format(
    ending: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / f"lesson.{ending}"
    assert run(["lesson", "masked", "-o", str(file)]) == 0
    assert file.stat().st_size > 1000
    assert capsys.readouterr().out == ""
    if ending == "json":
        assert json.loads(file.read_text(encoding="utf-8"))["name"] == "masked"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["mased"], "did you mean 'masked'"),
        (["masked", "--to", "xlsx"], "a workbook needs a file"),
        (["masked", "-o", "lesson.doc"], "lesson.doc: expected a file that ends in .txt"),
        (["--to", "md"], "expected the name of a lesson"),
        (["masked", "--off", "heads"], "only the lesson switches"),
        (["masked", "--to", "svg"], "figures need a folder"),
        (["masked", "-o", "a.svg"], "figures need a folder"),
        (["switches", "--off", "head"], "did you mean 'heads'"),
    ],
)
def test_wrong_usage_ends_with_2_and_one_line(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["lesson", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err and err.count("\n") == 1


# --- other programs ---


@pytest.mark.slow
@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("name", LESSONS)
def test_latex_compiles(name: str, language: str, tmp_path: Path) -> None:
    assert shutil.which("xelatex"), "make check-slow installs it"
    made = make_lesson(name, "zh" if language == "zh" else "en")
    render(made.document(), path=tmp_path / "a.tex")
    done = subprocess.run(
        ["xelatex", "-interaction=nonstopmode", "-halt-on-error", "a.tex"],
        cwd=tmp_path, capture_output=True, text=True, errors="replace", timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-2000:]
    log = (tmp_path / "a.log").read_text(errors="replace")
    assert "Missing character" not in log and "Overfull" not in log


@pytest.mark.slow
@pytest.mark.parametrize("name", LESSONS)
def test_libreoffice_recalculates_to_the_same_numbers(name: str, tmp_path: Path) -> None:
    """The numbers of the sheet, recomputed by another program, are those of the trace."""
    render(make_lesson(name, "en").document(), path=tmp_path / "a.xlsx")
    before = read_workbook(tmp_path / "a.xlsx")["Lesson"]
    (file,) = recalculate([tmp_path / "a.xlsx"], tmp_path)
    after = read_workbook(file)["Lesson"]
    formulas = {place: cell for place, cell in before.items() if cell.formula is not None}
    assert formulas
    for place, cell in formulas.items():
        if isinstance(cell.value, float):
            assert after[place].value == pytest.approx(cell.value, rel=1e-4, abs=1e-5), place
