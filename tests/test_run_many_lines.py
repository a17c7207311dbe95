"""`glassformer run en-de` on many lines: order, odd lines, progress, and memory that stays."""

import io
import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from glassformer import cli
from glassformer.cli.run_command import Counter
from glassformer.tasks import answers, load

ODD = {
    "empty": "",
    "endless": "dog " * 10_000,
    "control": "A dog\x00 runs\x1b[2J.\x07",
    "emoji": "A dog 🐕 runs 😀.",
}


def sentences(n: int) -> list[str]:
    """Captions of many lengths, the same on every machine."""
    chance = random.Random(0)
    who = ["a dog", "two men", "a little girl", "three women in red", "the old fisherman"]
    does = ["runs", "is sitting", "plays", "is cooking", "jumps", "sleeps"]
    where = ["on the beach", "in a park", "near the river", "at night", "with a ball", "outside"]
    return [
        " ".join([chance.choice(who), chance.choice(does), *chance.choices(where, k=i % 4)]) + "."
        for i in range(n)
    ]


def test_odd_lines_are_translated_like_any_other(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [*ODD.values(), *sentences(40)]
    data = "\n".join(lines).encode()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    assert cli.run(["run", "en-de", "--beam", "1", "--batch-size", "4", "--json"]) == 0
    shown = capsys.readouterr()
    answers = [json.loads(line) for line in shown.out.splitlines()]
    assert [answer["input"] for answer in answers] == lines
    assert answers[0]["text"] == "" and all(answer["text"] for answer in answers[1:])
    assert [number for number, answer in enumerate(answers) if answer.get("cut")] == [1]
    assert shown.err == "glassformer: text 2 is longer than the model reads: cut\n"
    alone = load("en-de").translate([lines[-1]], beam=1)[0]
    assert answers[-1]["text"] == alone.text


def test_a_text_of_which_the_model_knows_nothing_is_named(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert cli.run(["run", "imdb", "这部电影很好看", "好 film", ""]) == 0
    shown = capsys.readouterr()
    assert len(shown.out.splitlines()) == 3
    assert shown.err == (
        "glassformer: imdb knows no word or letter of text 1: its answer means nothing\n"
        "glassformer: text 2: “好” is not in the vocabulary of imdb\n"
    )


def test_of_a_line_without_end_only_both_ends_are_kept(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answers, "_END", 100)
    lines = ["happy", "a" * 100 + "b" * 5000 + "c" * 99, "not happy", "y" * 199, "z" * 1000]
    data = "\n".join(lines).encode()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    assert cli.run(["run", "toy", "--json"]) == 0
    inputs = [json.loads(line)["input"] for line in capsys.readouterr().out.splitlines()]
    assert inputs == [lines[0], "a" * 100 + "c" * 99, *lines[2:4], "z" * 200]


def test_a_language_model_goes_on_from_the_end_of_a_line_however_long(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answers, "_END", 1000)
    text = "a" * 5000 + "My kingdom for a horse! " * 40
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    command = ["run", "shakespeare", "--json", "--max-new", "8"]
    assert cli.run(command) == cli.run([*command, text]) == 0
    piped, given = map(json.loads, capsys.readouterr().out.splitlines())
    assert piped["text"] == given["text"] and piped["cut"] and len(piped["input"]) == 2000


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("stream", "n", "shows"), [
    (Terminal, 300, True), (Terminal, 100, False), (io.StringIO, 300, False),
])  # fmt: skip
def test_progress_is_for_people_with_many_lines(
    stream: type[io.StringIO], n: int, shows: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    ticks = iter(range(10**6))
    monkeypatch.setattr(time, "monotonic", lambda: float(next(ticks)))
    monkeypatch.setattr(sys, "stderr", stream())
    with Counter(200) as counter:
        for _ in range(n):
            counter.count()
    assert isinstance(sys.stderr, io.StringIO)
    shown = sys.stderr.getvalue()
    assert ("300 lines, 1 a second" in shown) == shows
    assert shown == "" or shown.endswith("\r\033[K"), "nothing is left on the terminal"


@pytest.mark.slow
def test_ten_thousand_lines_in_constant_memory(tmp_path: Path) -> None:
    few, many = (_translate(tmp_path, n) for n in (1_000, 10_000))
    assert many <= 1.15 * few, f"{few} KiB at most after 1,000 lines, {many} after 10,000"


def _translate(folder: Path, n: int) -> int:
    """Translate n lines, check their order, and give the most memory it took, in KiB."""
    lines = sentences(n)
    lines[10:10] = ODD.values()
    given, written, said = (folder / name for name in ("in.txt", "out.jsonl", "err.txt"))
    given.write_text("\n".join(lines) + "\n", encoding="utf-8")
    with given.open("rb") as stdin, written.open("wb") as stdout, said.open("wb") as stderr:
        command = [sys.executable, "-m", "glassformer", "run", "en-de", "--json"]
        process = subprocess.Popen(command, stdin=stdin, stdout=stdout, stderr=stderr)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, said.read_text("utf-8")
    assert said.read_text("utf-8") == "glassformer: text 12 is longer than the model reads: cut\n"
    answers = [json.loads(line) for line in written.read_text("utf-8").splitlines()]
    assert [answer["input"] for answer in answers] == lines
    return used.ru_maxrss
