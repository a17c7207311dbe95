"""`glassformer run` as a person or a script meets it: lines, pipes and mistakes."""

import io
import json
import subprocess
import sys
from collections.abc import Callable
from typing import NamedTuple

import pytest

from glassformer import cli


class Done(NamedTuple):
    code: int
    stdout: str
    stderr: str


Run = Callable[..., Done]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """The command in this process: importing torch anew for each test would take minutes."""

    def call(*arguments: str, lines: bytes = b"") -> Done:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(lines)))
        code = cli.run(["run", *arguments])
        shown = capsys.readouterr()
        return Done(code, shown.out, shown.err)

    return call


def test_texts_from_the_command_line_and_as_json(run: Run) -> None:
    plain = run("toy", "not sad", "sad")
    assert plain.code == 0, plain.stderr
    assert [line.split("\t")[0] for line in plain.stdout.splitlines()] == ["happy", "sad"]
    as_json = run("toy", "not sad", "--json")
    answer = json.loads(as_json.stdout)
    assert answer["input"] == "not sad" and answer["label"] == "happy"
    assert 0.5 < answer["probability"] <= 1


def test_a_tie_is_undecided_and_unknown_words_are_named(run: Run) -> None:
    plain = run("toy", "I am not glad", "not merry or glad", "I am happy")
    assert [line.split("\t")[0] for line in plain.stdout.splitlines()] == [
        "undecided", "undecided", "happy",
    ]  # fmt: skip
    assert plain.stderr.splitlines() == [
        "glassformer: text 1: “glad” is not in the vocabulary of toy",
        "glassformer: text 2: “merry”, “or”, “glad” are not in the vocabulary of toy",
    ]
    told = json.loads(run("toy", "I am not glad", "--json").stdout)
    assert told["undecided"] is True and told["probability"] == 0.5
    assert "undecided" not in json.loads(run("toy", "sad", "--json").stdout)


def test_lines_keep_their_order_and_odd_ones_are_survived(run: Run) -> None:
    """Empty, endless, not UTF-8, control characters, emoji, no line break at the end."""
    lines = b"\n".join(
        [
            b"not sad",
            b"",
            b"sad " * 10_000,
            b"\xff\xfe sad",
            b"\x00\x1b[2J",
            "😀".encode(),
            b"sad\r",
        ]
        + [b"not sad", b"sad"] * 300
    )
    done = run("toy", "--json", "--batch-size", "8", lines=lines)
    assert done.code == 0, done.stderr
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(answers) == 607
    assert answers[1] == {"input": "", "label": None, "probability": None}
    assert answers[2]["cut"] is True
    assert "text 3 is longer than the model reads: cut" in done.stderr
    assert answers[3]["input"] == "\ufffd\ufffd sad"
    assert "line 4 is not UTF-8: what could not be read became \ufffd" in done.stderr
    assert answers[6]["input"] == "sad"
    assert [answer["label"] for answer in answers[7:]] == ["happy", "sad"] * 300


def test_a_translator_translates_and_a_language_model_continues(run: Run) -> None:
    done = run("en-de", "--beam", "2", "--n-best", "2", "--json", lines=b"A dog runs.\n\n")
    assert done.code == 0, done.stderr
    first, second = map(json.loads, done.stdout.splitlines())
    assert "Hund" in first["text"] and len(first["alternatives"]) == 2
    assert second == {"input": "", "text": "", "score": 0.0}
    written = run("shakespeare", "KING", "--max-new", "20", "--seed", "3")
    assert written.stdout.startswith("KING") and len(written.stdout) == len("KING") + 20 + 1


@pytest.mark.parametrize(
    ("arguments", "code", "parts"),
    [
        (["imbd", "x"], 2, ["imbd", "did you mean 'imdb'"]),
        (["toy", "sad", "--beam", "3"], 2, ["--beam", "toy, a classifier; it takes none"]),
        (
            ["en-de", "x", "--top-k", "3"],
            2,
            ["--top-k", "en-de, a translator; it takes --max-new, --beam"],
        ),
        (["en-de", "x", "--beam", "0"], 2, ["the beam must hold from 1 to 1,024", "got 0"]),
        (["en-de", "x", "--max-new", "0"], 2, ["at least one token", "max_new 0"]),
        (["shakespeare", "x", "--max-new", "0"], 2, ["at least one token", "max_new 0"]),
        (["en-de", "x", "--beam", "2", "--n-best", "5"], 2, ["n_best", "5 of 2"]),
        (["en-de", "x", "--length-penalty", "1000"], 2, ["length_penalty", "-10 to 10, got 1000"]),
        (["en-de", "x", "--length-penalty", "-99"], 2, ["length_penalty", "-10 to 10, got -99"]),
        (["shakespeare", "x", "--temperature", "0"], 2, ["temperature", "above 0"]),
        (["toy", "sad", "--batch-size", "0"], 2, ["batch_size", "at least 1"]),
        (["./no/such/folder", "x"], 1, ["there is no model folder"]),
    ],
)
def test_mistakes_are_one_clear_line(
    run: Run, arguments: list[str], code: int, parts: list[str]
) -> None:
    done = run(*arguments)
    assert done.code == code
    assert done.stdout == "" and done.stderr.count("\n") == 1
    for part in parts:
        assert part in done.stderr


def test_a_reader_who_leaves_is_no_error() -> None:
    command = f"yes 'not sad' | head -5000 | {sys.executable} -m glassformer run toy | head -1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert done.stdout.startswith("happy")
    assert done.stderr == ""
