"""Questions of lessons: right answers, slips that are named, every format, the terminal."""

import io
import re
import sys
from itertools import pairwise

import pytest
import torch

from glassformer.cli import run
from glassformer.documents import render, render_text
from glassformer.documents.parts import ASKED, HeatMap, Question, shown_number
from tests.lessons.shared_lessons import lesson

ASKING = ("illustrated", "masked", "multi-head", "by-hand", "classifier", "training-step")


@pytest.mark.parametrize("name", ASKING)
@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_right_numbers_are_right(name: str, language: str) -> None:
    """As shown, to two decimals, and to all digits."""
    questions = lesson(name, "zh" if language == "zh" else "en").questions
    assert len(questions) >= 2
    assert [one.number for one in questions] == list(range(1, len(questions) + 1))
    for question in questions:
        values = [float(cell.value) for cell in question.cells]
        assert question.answer(" ".join(question.answers)).is_right
        assert question.answer(*(f"{value:.2f}" for value in values)).is_right
        assert question.answer(*(f"{value:.9f}" for value in values)).is_right


@pytest.mark.parametrize("name", ASKING)
def test_what_a_question_needs_has_been_shown(name: str) -> None:
    """The page shows it once more beside the question: it finds it by step and place."""
    shown: list[tuple[str, list[int]]] = []
    for step in lesson(name).steps:
        parts = [part.to_dict() for part in step.parts]
        shown += [(part["step"], part["at"]) for part in parts if part["kind"] == "matrix"]
        for part in parts:
            if part["kind"] == "question":
                assert part["given"]
                assert all((one["step"], one["at"]) in shown for one in part["given"])


def answered(name: str, number: int, *numbers: object, language: str = "en") -> str:
    judged = lesson(name, "zh" if language == "zh" else "en").questions[number - 1].answer(*numbers)
    assert not judged.is_right
    return judged.said


def rounded(*numbers: float) -> list[str]:
    return [f"{number:.3f}" for number in numbers]


def of_trace(name: str, number: int, step: str) -> torch.Tensor:
    question = lesson(name).questions[number - 1]
    return question.cells[0].step.trace[step].value[0]


def test_forgotten_and_wrong_divisors_are_named() -> None:
    scores = of_trace("multi-head", 2, "scores")[1, 1].double()
    assert "not divided by √2" in answered("multi-head", 2, *rounded(*scores))
    by_width = rounded(*(scores / 8**0.5))
    assert "divided by √8 instead of √2" in answered("multi-head", 2, *by_width)
    assert "除以 √8，应除以 √2" in answered("multi-head", 2, *by_width, language="zh")
    rootless = rounded(*(scores / 2))
    assert "without the square root" in answered("multi-head", 2, *rootless)
    scores = of_trace("by-hand", 1, "model.encoder.blocks.0.attention.scores")[0, 0].double()
    assert "divided by √6 instead of √4" in answered("by-hand", 1, *rounded(*(scores / 6**0.5)))


def test_numbers_may_be_typed_as_a_chinese_keyboard_does() -> None:
    assert lesson("illustrated").questions[0].answer("４", "１６．０", "1２").is_right


def test_other_rows_and_columns_are_named() -> None:
    assert "in the row of input 3" in answered("illustrated", 1, 4, 12, 10)
    assert "in the row of position 1" in answered("masked", 1, "14, 32, 50")
    values = of_trace("multi-head", 1, "scores")[1]
    column = rounded(*values[:, 0].double())
    assert "factors swapped: Q[:, 2:4] and K[:, 2:4]" in answered("multi-head", 1, *column)
    assert "K is not transposed" in answered("illustrated", 1, 12, 16, 4)


@pytest.mark.parametrize(
    ("name", "number", "numbers", "said"),
    [
        ("illustrated", 2, "0.15 0.46 0.38", "softmax without the exponential"),
        ("illustrated", 2, "0.00 0.88 0.11", "truncated instead of rounded"),
        ("illustrated", 2, "0 0.9 0.1", "Rounded too much: give at least 2 decimals for input 2"),
        ("illustrated", 1, "4 16 13", "Not yet: input 3 is too large"),
        ("illustrated", 1, "4 -16 12", "wrong sign"),
        ("illustrated", 1, "4 16", "Expected 3 numbers, got 2"),
        ("illustrated", 1, "4 16 twelve", "“twelve” is not a number"),
        ("illustrated", 1, "4 16 nan", "“nan” is not a number"),
        ("illustrated", 1, "4 16 1e99", "“1e99” is not a number"),
        ("illustrated", 1, "4 16 " + "1" * 999, "is not a number"),
        ("masked", 2, "14 0 0", "hidden scores are 0, not −∞"),
        ("masked", 2, "14 32 50", "unmasked"),
        ("training-step", 2, "0.3685 -0.3084", "+ 0.1 * ∂W_2 instead of - 0.1 * ∂W_2"),
    ],
)
def test_what_went_wrong_is_said(name: str, number: int, numbers: str, said: str) -> None:
    assert said in answered(name, number, numbers)


def test_a_sum_for_a_mean_is_named() -> None:
    summed = of_trace("classifier", 1, "encoder.blocks.0.resid_post").double().sum(0)
    assert "the sum of x instead of the mean" in answered("classifier", 1, *rounded(*summed))


def test_a_sentence_about_infinity_takes_every_spelling() -> None:
    question = lesson("masked").questions[1]
    for spelt in ("-inf", "−∞", "-∞", "-Infinity"):
        assert question.answer(14, spelt, spelt).is_right


# --- what is hidden, and where it can be found ---


@pytest.mark.parametrize("name", ASKING)
def test_the_numbers_asked_for_are_hidden(name: str) -> None:
    for step in lesson(name).steps:
        maps = [part for part in step.parts if isinstance(part, HeatMap)]
        asked = [part for part in step.parts if isinstance(part, Question)]
        own = [part.number for part in asked]
        hidden = [number for part in maps for number in part.hidden.values()]
        assert [number for number in hidden if number in own] == own
        for part in maps:
            for row, line in enumerate(part.cells()):
                is_hidden = row in part.hidden
                assert all((cell.text == ASKED) == is_hidden for cell in line)


@pytest.mark.parametrize("name", ASKING)
def test_the_next_step_does_not_give_the_answer_away(name: str) -> None:
    steps = lesson(name).steps
    for step, following in pairwise(steps):
        for asked in (part for part in step.parts if isinstance(part, Question)):
            for part in (part for part in following.parts if isinstance(part, HeatMap)):
                is_again = part.step is asked.cells[0].step  # shown to be read
                assert [n for n in part.hidden.values() if n == asked.number] == [
                    asked.number for _ in (() if is_again else asked.rows_in(part))
                ]


def test_scores_that_are_not_scaled_stay_hidden_until_they_are_answered() -> None:
    hidden = [dict(part.hidden) for part in lesson("masked").parts() if isinstance(part, HeatMap)]
    assert [rows for rows in hidden if rows] == [{2: 1}, {2: 1}, {2: 1, 0: 2}, {0: 3}]


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("to", ["terminal", "md", "tex", "html"])
def test_every_format_asks_and_has_the_answers_at_the_end(to: str, language: str) -> None:
    made = lesson("illustrated", "zh" if language == "zh" else "en")
    text = re.sub(r"\s+", " ", render_text(made.document(), to))
    lead = "Question 1" if language == "en" else "练习 1"
    assert lead in text
    assert text.rindex(lead) > len(text) * 0.9
    assert "4, 16, 12" in text or "4、16、12" in text
    if to == "html":
        assert "<details><summary>" in text and 'class="blank"' in text


def test_a_workbook_has_cells_to_fill_in() -> None:
    assert isinstance(render(lesson("masked").document(), "xlsx"), bytes)


def test_shown_numbers_are_short() -> None:
    assert [shown_number(x) for x in (0.46831, 1e-5, 16.0, 26.0594, float("-inf"), 0.0)] == [
        "0.468", "1e−05", "16", "26.06", "−∞", "0",
    ]  # fmt: skip


# --- the terminal ---


class Typed(io.StringIO):
    def isatty(self) -> bool:
        return True


def asked(
    typed: str, *arguments: str, capsys: pytest.CaptureFixture[str], patch: pytest.MonkeyPatch
) -> str:
    patch.setattr(sys, "stdin", Typed(typed))
    assert run(["lesson", "masked", "--ask", *arguments]) == 0
    return capsys.readouterr().out


def test_the_terminal_asks_and_says_what_went_wrong(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    out = asked("14 32 50\n50 122 194\n\n1 0 0\n", capsys=capsys, patch=monkeypatch)
    first, second = out.index("✗ Not yet"), out.index("✓ Right.")
    assert out.index("Question 1.") < first < second < out.index("Question 2.")
    assert "They are: 14   −∞   −∞" in out
    assert out.endswith("2 of 3 questions right.\n")
    wrong = asked("1\n2\n3\n", "--lang", "zh", capsys=capsys, patch=monkeypatch)
    assert wrong.count("✗ 应给出 3 个数") == 3 and "答案：50   122   194" in wrong


def test_the_end_of_the_input_ends_the_lesson(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    out = asked("", capsys=capsys, patch=monkeypatch)
    assert "Question 1." in out and "Question 2." not in out


@pytest.mark.parametrize(
    ("typed", "arguments", "message"),
    [
        (io.StringIO(), ["masked"], "--ask needs a terminal"),
        (Typed(), ["roles"], "the lesson roles asks no questions"),
        (Typed(), ["masked", "--to", "md"], "leave out --to and -o"),
        (Typed(), [], "expected the name of a lesson"),
    ],
)
def test_where_nobody_can_answer_one_line_says_so(
    typed: io.StringIO,
    arguments: list[str],
    message: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "stdin", typed)
    assert run(["lesson", *arguments, "--ask"]) == 2
    err = capsys.readouterr().err
    assert message in err and err.count("\n") == 1
