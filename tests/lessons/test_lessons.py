"""Lessons as data: right numbers, complete in both languages, every number from a trace."""

import html
import json
import linecache
import math
import re
from dataclasses import replace

import numpy as np
import pytest
import torch

from glassformer.audit.example_file import load_example
from glassformer.claims.claim import stored_results
from glassformer.documents import render_text
from glassformer.documents.parts import plain
from glassformer.documents.renderer import tex_lines, words_in
from glassformer.errors import UnknownNameError
from glassformer.language import Language, words
from glassformer.lessons import (
    LESSONS,
    Formula,
    HeatMap,
    Lesson,
    Paragraph,
    Remark,
    Table,
    make_lesson,
)
from glassformer.lessons.by_hand import by_hand_model
from glassformer.lessons.lesson import KERNELS, Speaker, cell_name, lesson_card
from glassformer.lessons.roses import _one_head, _reading
from glassformer.lessons.switches import SWITCHES, Switched, switched_trace
from glassformer.lessons.thrones import ANSWER, learn, say_answer
from glassformer.picture import STYLE
from glassformer.tracing.formula.places import Place
from tests.lessons.shared_lessons import lesson

LANGUAGES: tuple[Language, ...] = ("en", "zh")
CHINESE = re.compile(r"[\u4e00-\u9fff]")


def maps_of(made: Lesson, role: str) -> dict[str, HeatMap]:
    """The matrices in a lesson's steps with one role, by caption."""
    return {
        part.caption: part
        for step in made.steps
        if step.role == role
        for part in step.parts
        if isinstance(part, HeatMap)
    }


@pytest.mark.parametrize("name", LESSONS)
def test_a_lesson_has_the_same_steps_and_parts_in_both_languages(name: str) -> None:
    english, chinese = (lesson(name, language) for language in LANGUAGES)
    assert [step.role for step in english.steps] == [step.role for step in chinese.steps]
    for one, other in zip(english.steps, chinese.steps, strict=True):
        assert [type(part) for part in one.parts] == [type(part) for part in other.parts]
        for part in one.parts:
            assert not (isinstance(part, Paragraph | Remark) and CHINESE.search(plain(part.text)))
        for part in other.parts:
            assert not isinstance(part, Paragraph) or CHINESE.search(plain(part.text))


@pytest.mark.parametrize("name", LESSONS)
def test_every_number_of_a_formula_is_its_cells(name: str) -> None:
    """The operands of a formula, computed in float64, give the number shown."""
    for part in lesson(name).parts():
        if isinstance(part, Formula):
            value = float(part.cell.value)
            assert math.isinf(value) or part.cell.recomputed == pytest.approx(value, rel=1e-4)
            assert part.card.name and part.card.value


@pytest.mark.parametrize("name", LESSONS)
def test_a_framed_cell_stands_in_its_matrix(name: str) -> None:
    for part in lesson(name).parts():
        if isinstance(part, HeatMap):
            shown = part.matrix
            assert shown.values.shape == (len(shown.rows), len(shown.columns))
            if part.marked is not None:
                row, column = part.marked
                assert row < len(shown.rows) and column < len(shown.columns)
        elif isinstance(part, Table):
            assert all(len(row) == len(part.heads) for row in part.rows)


@pytest.mark.parametrize("name", LESSONS)
def test_a_lesson_is_data(name: str) -> None:
    data = json.loads(json.dumps(lesson(name).to_dict(), allow_nan=False))
    assert list(data) == ["name", "title", "summary", "language", "place", "choices", "steps"]
    kinds = {part["kind"] for step in data["steps"] for part in step["parts"]}
    assert kinds <= {"text", "remark", "formula", "matrix", "table", "figure", "question"}
    assert all(step["title"] and step["parts"] for step in data["steps"])


def test_a_sentence_that_is_missing_is_named() -> None:
    say = Speaker("en", words("glassformer.lessons.roses"))
    with pytest.raises(KeyError, match=r"roses\.toml lacks 'thorns', or its Chinese"):
        say("thorns")


def test_an_unknown_lesson_is_refused() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'illustrated'"):
        make_lesson("ilustrated")


# --- the numbers themselves, by an independent computation ---


def test_illustrated_has_the_exact_weights_and_both_outputs() -> None:
    example = load_example("illustrated")
    x, *maps = (np.asarray(example[i].printed.values) for i in ("x", "w_query", "w_key", "w_value"))  # type: ignore[union-attr]  # all four are printed numbers
    queries, keys, values = (x @ matrix for matrix in maps)
    powers = np.exp(queries @ keys.T)
    weights = powers / powers.sum(axis=1, keepdims=True)
    made = lesson("illustrated")
    shown = maps_of(made, "weights")["A (weights), 3×3"].matrix.values
    np.testing.assert_allclose(shown, weights, rtol=1e-5)
    rounded = maps_of(made, "rounded")
    np.testing.assert_allclose(rounded["exact outputs"].matrix.values, weights @ values, rtol=1e-5)
    printed = example["outputs"].printed
    np.testing.assert_allclose(
        rounded["outputs from rounded weights"].matrix.values, printed.values, rtol=1e-5  # type: ignore[union-attr]  # printed numbers
    )  # fmt: skip


def test_masked_is_right_where_the_text_is_not() -> None:
    made = lesson("masked")
    x = np.arange(1.0, 10).reshape(3, 3)
    scores = maps_of(made, "scores")["S (scores), 3×3, head 1"].matrix.values
    np.testing.assert_array_equal(scores, x @ x.T)
    masked = maps_of(made, "masked")["S_masked, 3×3, head 1"].matrix.values
    np.testing.assert_array_equal(np.isneginf(masked), ~np.tri(3, dtype=bool))
    verdicts = [part.verdict for part in made.parts() if isinstance(part, Remark)]
    assert verdicts == ["wrong"] * 4


def test_by_hand_divides_by_the_width_of_the_key_and_uses_the_right_positions() -> None:
    made = lesson("by-hand")
    scores = maps_of(made, "scores")["S (scores), 6×6"].matrix.values
    scaled = maps_of(made, "scaled")["S_scaled, 6×6"].matrix.values
    np.testing.assert_allclose(scaled, scores / 2, rtol=1e-6)
    positions = maps_of(made, "positions")["e_pos (positions), 6×6"].matrix.values
    place, pair = np.arange(6)[:, None], np.arange(3)
    angles = place / 10_000 ** (2 * pair / 6)
    expected = np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(6, 6)
    np.testing.assert_allclose(positions, expected, atol=1e-6)


def test_by_hand_says_where_the_text_went_wrong() -> None:
    verdicts = [
        (step.role, part.verdict)
        for step in lesson("by-hand").steps
        for part in step.parts
        if isinstance(part, Remark)
    ]
    for role in ("words", "positions", "values", "scaled", "norm", "probabilities"):
        assert (role, "wrong") in verdicts
    assert ("queries", "follows") in verdicts


def test_by_hand_predicts_you_with_the_first_seed_that_does() -> None:
    example = load_example("by-hand")
    source = torch.tensor([[5, 17, 7, 12, 15, 19]])
    target = torch.tensor([[25, 0, 0, 0, 0, 0]])
    with torch.no_grad():
        said = [int(by_hand_model(example, seed)(source, target)[0].argmax()) for seed in range(6)]
    assert said[-1] == 17 and 17 not in said[:-1]
    last = lesson("by-hand").steps[-1].parts[0]
    assert isinstance(last, Paragraph) and "“you”" in plain(last.text)


def test_thrones_learns_in_few_updates_and_speaks_until_the_end() -> None:
    learned = learn()
    assert learned.n_steps < 100  # a second or two: readers wait for it
    assert say_answer(learned.model, learned.words, learned.source) == f"{ANSWER} <end>"
    assert learned.history[0][2] != f"{ANSWER} <end>"


def test_thrones_words_are_those_of_decoding_one_by_one() -> None:
    """The lesson reads all words from one causal pass, which equals decoding step by step."""
    made, learned = lesson("thrones"), learn()
    shown = maps_of(made, "prediction")
    (whole,) = [part for part in shown.values() if part.step.name == "probabilities"]
    memory, cache = learned.model.encode(learned.source), learned.model.start_cache()
    for place in range(learned.target.size(1) - 1):
        with torch.no_grad():
            logits = learned.model.decode(learned.target[:, place : place + 1], memory, cache=cache)
        one = torch.softmax(logits[0, -1], dim=-1).numpy()
        np.testing.assert_allclose(whole.matrix.values[:, place], one, atol=1e-5)


def test_training_step_lowers_the_loss() -> None:
    losses = [
        float(part.cell.value)
        for part in lesson("training-step").parts()
        if isinstance(part, Formula) and part.cell.step.name == "loss"
    ]
    assert len(losses) == 2 and losses[1] < losses[0]


def text_of(made: Lesson, role: str) -> str:
    """The prose in a lesson's steps with one role."""
    parts = [part for step in made.steps if step.role == role for part in step.parts]
    return " ".join(plain(part.text) for part in parts if isinstance(part, Paragraph))


def test_films_says_that_its_audience_is_invented_and_shows_the_control() -> None:
    for language, invented in zip(
        LANGUAGES, ("the audience is invented", "观众是虚构的"), strict=True
    ):
        made = lesson("films", language)
        assert invented in text_of(made, "training")
        shares = [float(x) for x in re.findall(r"([\d.]+)%", text_of(made, "map"))]
        assert len(shares) == 2 and shares[0] > 80 > 40 > shares[1]


def test_films_tells_what_was_measured_on_real_ratings() -> None:
    (stored,), (by_genre,) = stored_results("movielens"), stored_results("movielens genres")
    made = lesson("films")
    said = text_of(made, "real")
    assert f"{stored.figures['mean']:.1%}" in said and stored.command in said
    (table,) = [part for step in made.steps if step.role == "real" for part in step.parts
                if isinstance(part, Table)]  # fmt: skip
    assert len(table.rows) == len(by_genre.figures) == stored.figures["genres"]
    shares = [float(plain(share).removesuffix("%")) for _, share in table.rows]
    assert shares == sorted(shares, reverse=True)
    mean = sum(by_genre.figures.values()) / len(by_genre.figures)
    assert stored.figures["mean"] == pytest.approx(mean, abs=1e-4)


def test_roses_tells_what_the_recorded_weights_show() -> None:
    """Kept, lost or mixed: the sentence agrees with the row of “gave” below it."""
    phrases = (("it keeps the", "one mixture"), ("留住", "加在一起"))
    for language, (kept, mixed) in zip(LANGUAGES, phrases, strict=True):
        made = lesson("roses", language)
        (step,) = [step for step in made.steps if step.role == "one"]
        (shown,) = [part for part in step.parts if isinstance(part, HeatMap)]
        gave = shown.matrix.values[1]
        giver, receiver = gave[0], gave[4]
        said = step.parts[0]
        assert isinstance(said, Paragraph)
        loses = min(giver, receiver) <= 0.1 * max(giver, receiver)
        assert (kept in plain(said.text), mixed in plain(said.text)) == (loses, not loses)
        assert f"{giver:.3f}" in plain(said.text) and f"{receiver:.3f}" in plain(said.text)


def test_a_sentence_about_mixed_weights_says_so() -> None:
    say = Speaker("en", words("glassformer.lessons.roses"))
    reading = replace(_reading(1, "in scores"), weights=torch.tensor([[0.4, 0.0, 0.1, 0.0, 0.5]]))
    assert "added up in one mixture" in _one_head(reading, say)
    lost = replace(reading, weights=torch.tensor([[0.9, 0.0, 0.1, 0.0, 0.0]]))
    assert "it keeps the giver and loses the receiver" in _one_head(lost, say)


# --- switches ---


@pytest.mark.parametrize("name", SWITCHES)
def test_each_switch_works_alone_and_left_out(name: str) -> None:
    ids, given = torch.tensor([[0, 1, 2, 3, 0, 4]]), torch.ones(1, 6, 4)
    for on in (frozenset({name}), frozenset(SWITCHES) - {name}):
        output = Switched(on)(ids, given)
        assert output.isfinite().all()
        assert output.size(1) == (5 if "truncating" in on else 6)
        assert output.size(2) == (4 if "width" in on else 3)


def test_switches_left_off_have_no_step() -> None:
    whole, fewer = lesson("switches"), make_lesson("switches", off=["masking", "heads"])
    assert len(fewer.steps) == len(whole.steps) - 2
    with pytest.raises(UnknownNameError, match="did you mean 'masking'"):
        make_lesson("switches", off=["maskin"])


@pytest.mark.parametrize("off", ["", "embedding", "width", "masking"])
def test_what_the_switches_say_is_true_whatever_is_off(off: str) -> None:
    steps = {
        step.title.split(": ")[-1]: step
        for step in make_lesson("switches", off=[off] if off else []).steps
    }
    on = [name for name in SWITCHES if name != off]
    same = _switched(on[: on.index("position")])  # until positions came
    assert torch.equal(same[0], same[3] if off == "embedding" else same[4])
    said = steps["Positional encoding"].parts[0]
    assert isinstance(said, Paragraph)
    assert ("inputs 1 and 4" in plain(said.text)) == (off == "embedding")
    for name, title in (("heads", "Several heads"), ("stacking", "Stacking layers")):
        said = steps[title].parts[0]
        assert isinstance(said, Paragraph)
        before, after = (_switched(on[: on.index(name) + more]) for more in (0, 1))
        assert torch.equal(before, after) == ("this switch changes nothing" in plain(said.text))
    said = steps["LayerNorm and residual connections"].parts[0]
    assert isinstance(said, Paragraph)
    assert ("decoder stack" in plain(said.text)) == (not off)


def _switched(on: list[str]) -> torch.Tensor:
    """The outputs, (positions, width), with these switches on."""
    _, run = switched_trace(frozenset(on))
    return next(iter(run.outputs.values())).value[0]


# --- names ---


def test_a_batch_of_one_has_no_index() -> None:
    part = maps_of(lesson("by-hand"), "scores")["S (scores), 6×6"]
    cell = part.step[0, 0, 0, 0]
    assert cell_name(cell) == "S[1, 1]"
    assert lesson_card(cell).formula == "Σₖ Q[1, k]·K[1, k]"


@pytest.mark.parametrize(
    ("start", "step", "wanted"),
    [(0, 0, "1"), (0, 1, "k"), (3, 1, "3+k"), (0, 2, "2k−1"), (1, 2, "2k"), (4, 3, "2+3k")],
)
def test_places_are_counted_from_one(start: int, step: int, wanted: str) -> None:
    """With k counted from 1, the result is counted from 1 too."""
    place = Place(start, (("k", step),) if step else ())
    assert str(place.counted_from(1)) == wanted
    for k in range(5):
        from_zero = start + step * k
        from_one = eval(re.sub(r"(\d)k", r"\1*k", wanted.replace("−", "-")), {"k": k + 1})
        assert from_one == from_zero + 1


@pytest.mark.parametrize("name", LESSONS)
def test_formulas_count_as_their_matrices_do(name: str) -> None:
    """The indices in a formula's name lead to its number in the matrix that shows it."""
    made = lesson(name)
    for step in made.steps:
        maps = [part for part in step.parts if isinstance(part, HeatMap)]
        for part in step.parts:
            if not isinstance(part, Formula):
                continue
            places = re.findall(r"\d+", part.card.name.partition("[")[2])
            for shown in maps:
                if shown.step is not part.cell.step or shown.marked is None or not places:
                    continue
                row, column = shown.marked
                if shown.place(row, column) != part.cell.index:
                    continue
                assert float(shown.matrix.values[row, column]) == pytest.approx(
                    float(part.cell.value), nan_ok=True
                )
                sides = zip((row, column), shown.matrix.values.shape, strict=True)
                wanted = [str(place + 1) for place, size in sides if size > 1]
                by_id = part.card.name.startswith(("z", "probabilities"))
                assert by_id or places[-len(wanted) :] == wanted


@pytest.mark.parametrize("name", LESSONS)
def test_no_letter_is_summed_over_that_stands_nowhere(name: str) -> None:
    letters = dict(zip("ₖₗₘₙⱼ", "klmnj", strict=True))
    for part in lesson(name).parts():
        if not isinstance(part, Formula):
            continue
        written = [part.card.formula, *(one.symbols for one in part.card.definitions)]
        for symbols in written:
            for signs, body in re.findall(r"[ΣΠ]([ₖₗₘₙⱼ]+) (.*)", symbols):
                assert all(re.search(rf"\b{letters[sign]}\b", body) for sign in signs), symbols
        in_tex = " ".join(tex_lines(part, words_in("en")))
        assert r"^{0}" not in in_tex and "=0}" not in in_tex


def test_a_sum_over_hidden_axes_leaves_them_out_in_every_format() -> None:
    made = lesson("training-step")
    (loss, *_) = [part for part in made.parts() if isinstance(part, Formula)
                  and part.cell.step.name == "loss"]  # fmt: skip
    assert loss.card.formula == "(Σₖ squared[k]) / 2"
    assert r"\sum_{k} \mathrm{squared}_{k}" in render_text(made.document(), "md")
    page = render_text(made.document(), "html")
    assert "<munder><mo>∑</mo><mi>k</mi></munder><msub>" in page
    assert "k,l" not in page
    shown = {part.card.name: part.card for part in made.parts() if isinstance(part, Formula)}
    assert shown["∂W_1[2, 1]"].formula == "∂H[1]·x[2]"


@pytest.mark.parametrize(
    ("name", "caption", "id_"),
    [
        ("illustrated", "W_V, 4×3", "w_value"),
        ("by-hand", "W_Q, 6×4", "w_query"),
        ("by-hand", "W_O, 4×6", "w_output"),
    ],
)
def test_parameters_stand_as_the_text_prints_them(name: str, caption: str, id_: str) -> None:
    printed = load_example(name)[id_].printed
    shown = [part for part in lesson(name).parts()
             if isinstance(part, HeatMap) and part.caption == caption]  # fmt: skip
    assert shown
    for part in shown:
        assert part.turned
        np.testing.assert_allclose(part.matrix.values, printed.values, rtol=1e-6)  # type: ignore[union-attr]  # printed numbers
        row, column = 1, 2
        assert float(part.step.value[part.place(row, column)]) == part.matrix.values[row, column]


def test_a_word_keeps_its_number() -> None:
    """“you” is word 17 of the text, whatever comes before it in the table."""
    names = [part.card.name for part in lesson("by-hand").parts() if isinstance(part, Formula)]
    assert "z[17]" in names and "probabilities[17]" in names


def test_a_bias_is_no_product() -> None:
    said = {
        language: " ".join(
            plain(part.text)
            for part in lesson("thrones", language).parts()
            if isinstance(part, Paragraph)
        )
        for language in LANGUAGES
    }
    assert "is the sum of 8 products and a bias" in said["en"]
    assert "由 8 个乘积和 1 个偏置相加" in said["zh"]
    queries = [part for part in lesson("by-hand").parts() if isinstance(part, Paragraph)]
    assert any("is the sum of 6 products:" in plain(part.text) for part in queries)


# --- code beside numbers ---


@pytest.mark.parametrize("name", LESSONS)
def test_each_step_with_a_formula_shows_its_line_of_code_once(name: str) -> None:
    for step in lesson(name).steps:
        formulas = [part for part in step.parts if isinstance(part, Formula)]
        lines = [part.code for part in formulas if part.code]
        assert len(lines) == len(set(lines))
        assert bool(lines) == bool(formulas)
        for part in formulas:
            line = part.cell.step.line
            if not part.code or part.code.startswith(("loss.backward()", "optimiser.step()")):
                continue
            assert line is not None
            computed = part.code.partition(" = ")[2].partition("  # ")[0]
            source = linecache.getlines(line.file)[line.number - 1 : max(line.number, line.end)]
            written = " ".join(map(str.strip, source))
            for kernel, known in KERNELS.items():
                written = written.replace(kernel, known)
            assert computed in written


@pytest.mark.parametrize("name", LESSONS)
def test_every_shape_of_a_figure_has_a_style(name: str) -> None:
    """A shape without one is filled with black."""
    for found in lesson(name).figures():
        kinds = set(re.findall(r'<(?:rect|circle|path|polyline|polygon|line) class="(\w+)"',
                               found.drawing.svg()))  # fmt: skip
        assert not [kind for kind in kinds if f".gf .{kind} {{" not in STYLE], found.name


@pytest.mark.parametrize("to", ["terminal", "md", "tex", "html", "json"])
def test_every_format_shows_the_code(to: str) -> None:
    made = render_text(lesson("illustrated").document(), to)
    plain_text = html.unescape(made).replace(r"\_", "_").replace(r"\allowbreak{}", "")
    for code in ("projected_queries = self.to_queries(x)", "scaled = scores / divisor"):
        assert code in plain_text


def test_a_gradient_names_the_line_it_goes_back_through() -> None:
    codes = {part.card.name: part.code for part in lesson("training-step").parts()
             if isinstance(part, Formula)}  # fmt: skip
    assert codes["∂H[1]"] == "loss.backward()  # activated = F.relu(expanded)"
    assert codes["new W_2[1, 1]"] == "optimiser.step()"
    assert codes["H[1]"] == "expanded = self.expand(x)"


def test_a_lesson_in_a_sentence_has_its_title_and_its_name() -> None:
    step = lesson("illustrated", "zh").steps[5]
    assert any("“缩放：为什么要除以 √d”（scaling）一课" in str(part) for part in step.parts)


def test_remarks_on_two_heads_say_which() -> None:
    said = [part.text for part in lesson("masked").steps[4].parts if isinstance(part, Remark)]
    assert [text[:14] for text in said] == ["Head 1: wrong.", "Head 2: wrong."]


def test_a_matrix_has_the_symbol_of_its_formula() -> None:
    residual = [part for part in lesson("by-hand").steps[13].parts if isinstance(part, HeatMap)]
    assert [part.caption for part in residual] == ["x_mid, 6×6"]
