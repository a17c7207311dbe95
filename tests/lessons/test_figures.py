"""The figures of the lessons: valid SVG, within their bounds, with the numbers of the trace."""

import re
import runpy
from html import unescape
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from glassformer.audit.example_file import load_example
from glassformer.cli import run
from glassformer.documents import render, render_text
from glassformer.documents.data_charts import Axes, MapPoint, draw_map
from glassformer.language import Language
from glassformer.lessons import Figure
from glassformer.lessons.figures.sheet import cell_number
from glassformer.picture import STYLE, Box, Canvas, Picture, text_width
from tests.lessons.shared_lessons import lesson

SVG = "{http://www.w3.org/2000/svg}"
LANGUAGES: tuple[Language, ...] = ("en", "zh")
EXPECTED = {
    "illustrated": [
        "inputs", "derive", "queries", "keys", "values", "scores", "softmax", "weighted", "sum",
        "repeat",
    ],
    "roles": ["basic", "key-query-value", "roles"],
    "multi-head": ["heads", "reshape", "pipeline", "stages"],
    "masked": ["mask", "pipeline"],
    "thrones": ["translation"],
    "switches": ["stack", "mask", "feed-forward"],
    "roses": ["gave"],
    "classifier": ["block", "classifier"],
    "films": ["score", "map"],
    "by-hand": [
        "architecture-nothing", "feed-forward", "architecture-encoder", "architecture-decoder",
        "architecture-everything", "strip",
    ],
    "decoding": ["tree", "temperature"],
    "attention": ["evenness", "attribution"],
    "training-step": ["graph"],
    "training": ["graph", "rates", "curve", "three", "overfitting"],
    "recurrence": ["path", "influence", "distances", "recall", "growth", "translators"],
    "tasks": ["pairs", "accuracy"],
    "images": ["patches", "weights", "shuffled", "occlusion"],
    "masked-words": ["gap", "both"],
}  # fmt: skip
ALL = [(lesson, figure) for lesson, figures in EXPECTED.items() for figure in figures]


def drawing_of(found: Figure) -> Picture:
    assert isinstance(found.drawing, Picture)
    return found.drawing


def figure(name: str, which: str, language: Language = "en") -> Figure:
    return next(found for found in lesson(name, language).figures() if found.name == which)


def texts(svg: str) -> list[ElementTree.Element]:
    return list(ElementTree.fromstring(svg).iter(f"{SVG}text"))


def words(svg: str) -> list[str]:
    return [found.text or "" for found in texts(svg)]


@pytest.mark.parametrize("name", EXPECTED)
def test_each_text_has_its_figures_in_both_languages(name: str) -> None:
    for language in LANGUAGES:
        assert [found.name for found in lesson(name, language).figures()] == EXPECTED[name]


def placed(svg: str) -> list[tuple[str, float, Box]]:
    """Every line of text that is not rotated: its words, size and approximate box."""
    found = []
    for line in texts(svg):
        if line.get("transform"):
            continue
        size, said = float(line.get("font-size", "0")), line.text or ""
        x, y, width = float(line.get("x", "0")), float(line.get("y", "0")), text_width(said, size)
        left = {"start": x, "middle": x - width / 2, "end": x - width}[line.get("text-anchor", "")]
        found.append((said, size, Box(left, y - 0.7 * size, width, 0.7 * size)))
    return found


@pytest.mark.parametrize(("name", "which"), ALL)
@pytest.mark.parametrize("language", LANGUAGES)
def test_a_figure_is_whole_and_stays_on_its_paper(
    name: str, which: str, language: Language
) -> None:
    drawing = drawing_of(figure(name, which, language))
    svg = drawing.svg()
    root = ElementTree.fromstring(svg)
    assert root.findtext(f"{SVG}title") == drawing.title == root.get("aria-label")
    assert not re.search(r"href|url\(|<script|\bid=", svg)
    for said, size, box in placed(svg):
        assert size >= 9, said
        assert box.left >= 0 and box.right <= drawing.width + 1, said
        assert box.top >= 0 and box.bottom <= drawing.height, said


@pytest.mark.parametrize(("name", "which"), ALL)
@pytest.mark.parametrize("language", LANGUAGES)
def test_texts_do_not_cover_one_another(name: str, which: str, language: Language) -> None:
    """Texts that share a place at different beats are left out; widths are estimates."""
    svg = figure(name, which, language).drawing.svg()
    lines = placed(re.sub(r'<g class="only".*?</g>', "", svg, flags=re.DOTALL))
    for place, (one, _, a) in enumerate(lines):
        for other, _, b in lines[place + 1 :]:
            across = min(a.right, b.right) - max(a.left, b.left)
            down = min(a.bottom, b.bottom) - max(a.top, b.top)
            assert across <= 0.14 * min(a.width, b.width) or down <= 0, (one, other)


def test_the_figures_of_the_illustrated_text_move_but_the_first() -> None:
    moving = [drawing_of(found).beats > 0 for found in lesson("illustrated").figures()]
    assert moving == [False] + [True] * 9


def test_who_wants_no_motion_sees_the_finished_figure() -> None:
    """Without animation everything is visible except what belongs to one beat alone."""
    assert (
        "@media (prefers-reduced-motion: reduce) { .gf g { animation: none !important; } }" in STYLE
    )
    assert ".gf .only { opacity: 0; }" in STYLE
    assert not re.search(r"\.gf \.in\b[^{]*\{[^}]*opacity", STYLE)


def test_every_motion_that_is_used_is_defined() -> None:
    for name, which in ALL:
        svg = figure(name, which).drawing.svg()
        used = set(re.findall(r"animation-name:([\w-]+)", svg))
        assert used == set(re.findall(r"@keyframes ([\w-]+)", svg))


def test_the_scores_drawn_are_those_of_the_text() -> None:
    """Compared with a product of the printed matrices, without the trace."""
    example = load_example("illustrated")
    x, query, key = (np.asarray(example[i].printed.values) for i in ("x", "w_query", "w_key"))  # type: ignore[union-attr]  # printed numbers
    scores = (x @ query) @ (x @ key).T
    drawn = words(figure("illustrated", "scores").drawing.svg())
    keys = (x @ key).astype(int)
    for row in range(3):
        arithmetic = " + ".join(
            f"{int(q)} × {k}" for q, k in zip((x @ query)[0], keys[row], strict=True)
        )
        place = drawn.index(f"= {arithmetic}")
        assert drawn[place - 1] == str(int(scores[0, row]))


def test_the_softmax_drawn_is_that_of_the_scores() -> None:
    example = load_example("illustrated")
    x, query, key = (np.asarray(example[i].printed.values) for i in ("x", "w_query", "w_key"))  # type: ignore[union-attr]  # printed numbers
    powers = np.exp(((x @ query) @ (x @ key).T)[0])
    drawn = words(figure("illustrated", "softmax").drawing.svg())
    assert [cell_number(float(share)) for share in powers / powers.sum()] == [
        said for said in drawn if re.fullmatch(r"0\.\d\d", said)
    ]


def test_the_pipeline_drawn_is_masked_attention() -> None:
    """Recomputed from the printed matrix: all projections are the identity."""
    x = np.asarray(load_example("masked")["masked_input"].printed.values)  # type: ignore[union-attr]
    scores = x @ x.T
    hidden = np.triu(np.ones_like(scores), 1) > 0
    masked = np.where(hidden, -np.inf, scores)
    powers = np.exp((masked - masked.max(axis=1, keepdims=True)).astype(np.float32))
    weights = powers / powers.sum(axis=1, keepdims=True)
    drawn = words(figure("masked", "pipeline").drawing.svg())
    for matrix in (scores, masked, weights, weights @ x):
        wanted = [cell_number(float(number)) for number in matrix.ravel()]
        assert any(drawn[at : at + 9] == wanted for at in range(len(drawn))), matrix
    assert "Scale  ÷ 1" in drawn and "Mask" in drawn


def test_the_five_stages_hold_every_step_of_every_head() -> None:
    made = lesson("multi-head")
    (run_,) = [trace for trace in made.traces() if trace["x"].shape[-1] == 8]
    drawn = words(figure("multi-head", "stages").drawing.svg())
    for name in (
        "x",
        "projected_queries",
        "projected_keys",
        "projected_values",
        "joined",
        "output",
    ):
        for number in run_[name].value.double().ravel().tolist():
            assert cell_number(number) in drawn
    for name in ("weights", "context"):
        for number in run_[name].value.double().ravel().tolist():
            assert cell_number(number) in drawn


def test_the_networks_drawn_compute_what_they_show() -> None:
    """One layer is relu(W x + b), two layers add a second map: from the lesson's parameters."""
    (run_,) = [trace for trace in lesson("by-hand").traces() if "probabilities" in trace]
    path = "model.encoder.blocks.0."
    x = run_[f"{path}attention_norm.normed"].value[0, 2].double().numpy()
    parameters = (run_[f"{path}feed_forward.expand.{name}"].value for name in ("weight", "bias"))
    weight, bias = (parameter.double().numpy() for parameter in parameters)
    drawn = words(figure("by-hand", "feed-forward").drawing.svg())
    one = [cell_number(float(number)) for number in np.maximum(weight @ x + bias, 0)]
    assert drawn[len(x) : len(x) + len(one)] == one or all(number in drawn for number in one)
    assert [said for said in drawn if said.startswith("after ReLU")] == [
        "after ReLU, 6", "after ReLU, 10",
    ]  # fmt: skip


def test_lines_of_attention_are_as_thick_as_the_weights() -> None:
    (run_,) = [trace for trace in lesson("thrones").traces() if "probabilities" in trace]
    weights = run_["model.decoder.blocks.0.cross_attention.weights"].value[0].double().mean(0)
    svg = figure("thrones", "translation").drawing.svg()
    drawn = [float(found) for found in re.findall(r"stroke-width:([\d.]+)", svg)]
    wanted = [max(0.4, 9 * share) for share in weights.ravel().tolist()]
    assert sorted(drawn) == pytest.approx(
        sorted(2 * wanted), abs=0.051
    )  # once to stay, once to show


def test_a_moving_figure_can_be_stopped_at_each_beat() -> None:
    """Radio buttons on the page, each with a style in the figure; still figures have none."""
    made = lesson("illustrated")
    page = render_text(made.document(), "html")
    groups = re.findall(r'<div class="gf-steps".*?</div>', page)
    moving = [drawing_of(found) for found in made.figures() if drawing_of(found).beats]
    assert len(groups) == len(moving) < len(made.figures())
    for group, drawing in zip(groups, moving, strict=True):
        values = re.findall(r'value="(\w+)"', group)
        assert values == ["play", "pause", *map(str, range(1, drawing.beats + 1))]
        for value in values[1:]:
            assert f'[value="{value}"]:checked' in drawing.motions
        for beat in range(1, drawing.beats + 1):
            assert f".gf-{drawing.beats}.gf-at-{beat}" in drawing.motions


def test_the_ground_is_the_pages_and_a_file_has_its_own() -> None:
    assert ".gf:root { background: var(--gf-paper); }" in STYLE
    assert 'class="paper"' not in figure("roles", "basic").drawing.svg()


def test_the_architecture_says_how_far_the_lesson_is() -> None:
    drawn = {
        stage: figure("by-hand", f"architecture-{stage}").drawing.svg()
        for stage in ("nothing", "encoder", "decoder", "everything")
    }
    counts = {stage: svg.count('class="part"') for stage, svg in drawn.items()}
    assert counts == {"nothing": 1, "encoder": 6, "decoder": 13, "everything": 15}
    assert "you" in words(drawn["everything"]) and "?" not in words(drawn["everything"])
    assert all("?" in words(drawn[stage]) for stage in ("nothing", "encoder", "decoder"))


def test_the_page_holds_its_figures_and_their_style_once() -> None:
    page = render_text(lesson("illustrated").document(), "html")
    assert page.count("<svg") == 10
    assert page.count("--gf-paper: #fcfcfa") == 1


def test_markdown_links_to_figures_that_lie_beside_it(tmp_path: Path) -> None:
    render(lesson("roles").document(), path=tmp_path / "lesson.md")
    links = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", (tmp_path / "lesson.md").read_text("utf-8"))
    assert links == [f"lesson-figures/{name}.svg" for name in EXPECTED["roles"]]
    assert all((tmp_path / link).is_file() for link in links)
    assert "![" not in render_text(lesson("roles").document(), "md")


def test_tex_without_a_file_leaves_drawings_out() -> None:
    assert figure("roles", "basic").caption not in render_text(lesson("roles").document(), "tex")


def test_the_terminal_names_each_drawing_and_says_how_to_see_it() -> None:
    said = " ".join(render_text(lesson("roles").document()).split())
    for name in EXPECTED["roles"]:
        assert f"[Figure: {figure('roles', name).caption} (drawn with -o NAME.html)]" in said


def test_the_command_writes_the_figures_of_a_lesson(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["lesson", "roles", "--to", "svg", "-o", str(tmp_path / "new" / "folder")]) == 0
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 3
    files = sorted(file.name for file in (tmp_path / "new" / "folder").iterdir())
    assert files == ["roles-basic.svg", "roles-key-query-value.svg", "roles-roles.svg"]


def test_names_on_a_map_do_not_cover_one_another() -> None:
    points = [MapPoint(x / 10, x * x / 100, f"a film called {x}", "kind") for x in range(30)]
    svg = draw_map("many", points, Axes("x", "y")).svg()
    assert svg.count("<circle") == 31  # one for each film, one for the legend
    names = [found for found in texts(svg) if (found.text or "").startswith("a film")]
    assert 10 < len(names) <= 30


def test_a_canvas_groups_what_belongs_to_a_beat() -> None:
    canvas = Canvas(100, 50, "t")
    canvas.text(50, 10, "always")
    with canvas.at(1):
        canvas.text(50, 20, "first")
        canvas.text(50, 30, "first, too")
    with canvas.at(-2):
        canvas.text(50, 40, "second")
    drawing = canvas.done()
    assert drawing.beats == 2
    groups = ElementTree.fromstring(drawing.svg()).findall(f"{SVG}g")
    assert [len(group) for group in groups] == [2, 1]
    assert [group.get("class") for group in groups] == ["in", "only"]


# --- the figures in the documentation ---

FOLDER = Path(__file__).parents[2] / "docs" / "figures"
NUMBER = re.compile(r"≈?[-−]?\d+(?:\.\d+)?")
# A number of four digits that falls between two of them is rounded up on one processor and down on
# another, and so is a colour of 256 steps and a place of tenths of a pixel.
ONE_MORE_OR_LESS = {"words": 1.01e-2, "colours": 1, "places": 0.11}
# A training also hands on what the processors round differently in its first steps.
OF_A_TRAINING = {"words": 3.01e-2, "colours": 3, "places": 1}
TRAINED = ("roses", "classifier", "films", "thrones")


def numbers_in(text: str) -> list[float]:
    return [float(found.lstrip("≈").replace("−", "-")) for found in NUMBER.findall(text)]


def in_numbers(svg: str) -> tuple[str, dict[str, list[float]]]:
    """An SVG split into text, which is the same everywhere, and numbers, which may differ."""
    colour = re.compile("#[0-9A-F]{6}")
    bytes_ = [bytes.fromhex(found[1:]) for found in colour.findall(svg)]
    plain = colour.sub("#", svg)
    said = re.findall(r">([^<]+)<", plain)
    return NUMBER.sub("0", plain), {
        "words": [number for words in said for number in numbers_in(words)],
        "colours": [float(part) for parts in bytes_ for part in parts],
        "places": numbers_in(re.sub(r">[^<]+<", "><", plain)),
    }


def assert_same_figure(svg: str, committed: str, rooms: dict[str, float]) -> None:
    frame, values = in_numbers(svg)
    wanted, expected = in_numbers(committed)
    assert frame == wanted
    for kind, room in rooms.items():
        assert values[kind] == pytest.approx(expected[kind], rel=1e-3, abs=room), kind


def test_the_figures_of_the_documentation_are_what_its_script_draws() -> None:
    """After an intended change, run `python docs/figures/draw.py`."""
    names = runpy.run_path(str(FOLDER / "draw.py"))
    drawn: dict[str, str] = names["drawn"]()
    others = {"film-map.svg"}  # needs the ratings: examples/film_map.py
    assert {file.name for file in FOLDER.glob("*.svg")} == set(drawn) | others
    for name, svg in drawn.items():
        committed = (FOLDER / name).read_text(encoding="utf-8")
        assert_same_figure(
            svg, committed, OF_A_TRAINING if name.startswith(TRAINED) else ONE_MORE_OR_LESS
        )


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (">3.8<", ">3.9<"),  # a number
        (">keys<", ">values<"),  # a word
        ('"#E68025"', '"#E68825"'),  # a colour
        ('x="820"', 'x="822"'),  # a place
        ('y="90"', 'z="90"'),  # the drawing itself
    ],
)
def test_a_figure_that_changed_is_told_from_one_that_was_rounded(before: str, after: str) -> None:
    svg = '<text x="820" y="90" fill="#E68025">3.8</text><text>keys</text>'
    rounded = '<text x="820.1" y="90" fill="#E68026">3.79</text><text>keys</text>'
    assert_same_figure(rounded, svg, ONE_MORE_OR_LESS)
    assert before in svg
    with pytest.raises(AssertionError):
        assert_same_figure(svg.replace(before, after), svg, ONE_MORE_OR_LESS)


def test_the_film_map_names_well_known_films() -> None:
    said = words((FOLDER / "film-map.svg").read_text(encoding="utf-8"))
    assert len(said) == len(set(said))
    assert any(re.fullmatch(r"rated higher \(r = 0\.\d\d\) →", name) for name in said)
    svg = (FOLDER / "film-map.svg").read_text(encoding="utf-8")
    points = {unescape(name) for name in re.findall(r"<circle[^>]*><title>([^<]+)</title>", svg)}
    assert len(points) == 48 and points <= set(said)  # every film has a label of its own
    assert {"The Godfather", "The Matrix", "Forrest Gump"} <= set(said)
    assert (FOLDER / "film-map.svg").stat().st_size < 200_000


def test_a_row_of_a_chinese_figure_has_a_chinese_colon() -> None:
    drawings = [part.drawing.svg() for part in lesson("illustrated", "zh").figures()]
    assert any("输入 3：1 × 1" in svg for svg in drawings)
    assert not any("输入 3:" in svg for svg in drawings)
