"""A learner's file: run apart, checked, and what the command says of it."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from glassformer.cli import run
from glassformer.errors import InputError
from glassformer.lessons import EXERCISES
from glassformer.lessons.exercises.exercise_track import note_done, read_done, solution
from glassformer.lessons.exercises.learner_file import check_apart, check_file

RIGHT = f"from torch import Tensor\n\n\n{solution('dot_product_scores')}"
WRONG = "import torch\n\ndef dot_product_scores(q, k):\n    return k @ q.mT\n"


@pytest.fixture
def answer(tmp_path: Path) -> Callable[[str], Path]:
    def write(source: str) -> Path:
        file = tmp_path / "answer.py"
        file.write_text(source, encoding="utf-8")
        return file

    return write


def test_a_file_is_checked(answer: Callable[[str], Path]) -> None:
    assert check_file("scores", answer(RIGHT)).is_right
    assert check_file("scores", answer(WRONG)).hints == ("key query",)


@pytest.mark.parametrize(
    ("source", "hint", "said"),
    [
        ("def dot_product_scores(q, k)\n", "raised", "Line 1: SyntaxError: expected ':'"),
        ("import torch\nx = 1 / 0\n", "raised", "Line 2: ZeroDivisionError: division by zero"),
        ("import nosuch\n", "raised", "Line 1: ModuleNotFoundError: No module named 'nosuch'"),
        ("raise SystemExit('bye')\n", "raised", "Line 1: SystemExit: bye"),
        ("def dot_scores(q, k): ...\n", "missing",
         "answer.py has no function dot_product_scores. Is it dot_scores?"),
        ("", "missing", "answer.py has no function dot_product_scores."),
        ("while True: pass\n", "time", "still running after 0.3 seconds"),
        ("def dot_product_scores(q, k):\n  while True: pass\n", "time",
         "Not finished after 0.3 seconds, at line 2."),
        ("def dot_product_scores(q, k):\n  return torch.inner(q, k)\n", "not imported",
         "Line 2: torch is not imported. Write `import torch` at the top of your file."),
        ("def dot_product_scores(q, k):\n  return q @ k.T\n", "all axes turned",
         "Line 2: `.T` swaps all axes"),
        ("def dot_product_scores(q, k):\n  return input('?')\n", "raised", "Line 2: "),
        ("def dot_product_scores(q, k):\n  return q.matmul(k.mT).view(7)\n", "raised",
         "Line 2: RuntimeError: shape '[7]' is invalid for input of size 9 (the inputs: tensor 3"),
    ],
)  # fmt: skip
def test_what_goes_wrong_is_one_line_with_its_line_number(
    source: str, hint: str, said: str, answer: Callable[[str], Path]
) -> None:
    found = check_file("scores", answer(source), seconds=0.3 if hint == "time" else 60)
    assert found.hints == (hint,)
    assert said in found.text.en
    assert "\n" not in found.text.en
    assert found.text.zh != found.text.en


def test_a_file_may_import_its_neighbour(answer: Callable[[str], Path], tmp_path: Path) -> None:
    (tmp_path / "my_scores_part.py").write_text(RIGHT, encoding="utf-8")
    file = answer("from my_scores_part import dot_product_scores\n")
    before = list(sys.path)
    assert check_file("scores", file).is_right
    assert sys.path == before


def test_what_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"cannot read .*nosuch\.py: No such file"):
        check_file("scores", tmp_path / "nosuch.py")
    (tmp_path / "a.py").write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match="is not UTF-8 text"):
        check_file("scores", tmp_path / "a.py")
    (tmp_path / "b.py").write_bytes(b"#" * (1 << 21))
    with pytest.raises(InputError, match="is larger than"):
        check_file("scores", tmp_path / "b.py")


def test_a_file_that_ends_python_does_not_end_us(answer: Callable[[str], Path]) -> None:
    found = check_apart("scores", answer("import os\nos._exit(3)\n"))
    assert found.hints == ("died",)
    assert "exit code 3" in found.text.en


def test_a_file_that_takes_all_memory_does_not_get_it(answer: Callable[[str], Path]) -> None:
    if sys.platform != "linux":
        pytest.skip("only Linux counts what a process asks for")
    found = check_apart("scores", answer("taken = bytearray(6 * 2**30)\n"))
    assert found.hints == ("raised",)
    assert "Line 1: MemoryError" in found.text.en


# --- the command -------------------------------------------------------------------------------


class Done(NamedTuple):
    code: int
    stdout: str
    stderr: str


@pytest.fixture
def glassformer(
    as_users_run_it: None,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[..., Done]:
    monkeypatch.setenv("GLASSFORMER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "80")

    def call(*arguments: str) -> Done:
        return Done(run(list(arguments)), *capsys.readouterr())

    return call


def test_a_right_answer_is_noted(
    glassformer: Callable[..., Done], answer: Callable[[str], Path]
) -> None:
    done = glassformer("exercise", "scores", str(answer(RIGHT)))
    assert (done.code, done.stdout) == (0, "✓ scores: right, on all 4 inputs.\n")
    assert "running your file" in done.stderr
    assert "next: glassformer exercise softmax" in done.stderr
    listed = glassformer("exercise")
    marks = [line[0] for line in listed.stdout.splitlines()]
    assert marks == ["✓" if name == "scores" else "·" for name in EXERCISES]
    assert "1 of 22 done" in listed.stderr
    entries = [json.loads(line) for line in glassformer("exercise", "--json").stdout.splitlines()]
    assert [entry["name"] for entry in entries if entry["done"]] == ["scores"]


def test_a_wrong_answer_exits_with_1_and_its_hint(
    glassformer: Callable[..., Done], answer: Callable[[str], Path]
) -> None:
    file = str(answer("print('hello from the file')\n" + WRONG))
    done = glassformer("exercise", "scores", file, "--lang", "zh", "--json")
    assert done.code == 1
    found = json.loads(done.stdout)
    assert (found["exercise"], found["right"]) == ("scores", False)
    assert found["hints"] == ["key query"]
    assert "transposed" in found["text"]["en"]
    assert done.stderr.endswith("scores 还不正确\n")
    assert "scores" not in [line[2:8] for line in glassformer("exercise").stdout if line[0] == "✓"]


def test_tasks_starters_and_solutions(glassformer: Callable[..., Done], tmp_path: Path) -> None:
    shown = glassformer("exercise", "attention").stdout
    assert "softmax(Q Kᵀ / √E) V" in shown
    assert "def attend(" in shown
    assert max(map(len, shown.splitlines())) <= 80
    assert glassformer("exercise", "scores", "--solution").stdout == solution("dot_product_scores")
    starter = tmp_path / "mine.py"
    assert glassformer("exercise", "attention", "-o", str(starter)).code == 0
    starter.write_text("my work", encoding="utf-8")
    refused = glassformer("exercise", "attention", "-o", str(starter))
    assert (refused.code, starter.read_text(encoding="utf-8")) == (2, "my work")
    assert "--force overwrites it" in refused.stderr
    assert glassformer("exercise", "attention", "-o", str(starter), "--force").code == 0
    assert "def attend(" in starter.read_text(encoding="utf-8")
    book = tmp_path / "track.ipynb"
    assert "exercises to open in Jupyter: 22" in glassformer("exercise", "-o", str(book)).stderr
    assert glassformer("exercise", "-o", str(book)).code == 2
    assert glassformer("exercise", "loss", "-o", str(book), "--force").code == 0
    assert len(json.loads(book.read_text(encoding="utf-8"))["cells"]) == 6
    task = json.loads(glassformer("exercise", "attention", "--json", "--solution").stdout)
    assert task["uses"] == ["dot_product_scores", "softmax", "scaled_scores"]
    assert "return weights @ values" in task["solution"]


def test_what_is_done_survives_and_ignores_what_it_does_not_know(tmp_path: Path) -> None:
    assert read_done(tmp_path) == []
    for name in ("greedy", "scores", "scores"):
        note_done(tmp_path / "new", name)
    assert read_done(tmp_path / "new") == ["scores", "greedy"]
    (tmp_path / "exercises.json").write_text('{"done": ["old", "loss", 3]}', encoding="utf-8")
    assert read_done(tmp_path) == ["loss"]
