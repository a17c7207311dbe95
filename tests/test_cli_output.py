"""Where commands write: closed streams, places that cannot be written, files that stay whole."""

import io
import json
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, get_args

import pytest
import torch

from glassformer.checkpoint import SHIPPED
from glassformer.cli import run
from glassformer.cli.output import Format, show_size
from glassformer.cli.run_command import lines_of
from glassformer.documents import FORMATS
from glassformer.tasks.answers import _one_line as as_one_line
from glassformer.training.log import PlainReporter

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer as Buffer


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
@pytest.mark.parametrize(("arguments", "code"), [(["models"], 0), (["modles"], 2)])
def test_a_closed_stream_is_no_obstacle(
    stream: str, arguments: list[str], code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, stream, None)
    assert run(arguments) == code
    getattr(sys, stream).close()


class Pipe(io.BytesIO):
    has_reader = False

    def write(self, data: "Buffer") -> int:
        if not self.has_reader:
            raise BrokenPipeError
        return super().write(data)


def test_a_command_goes_on_where_nobody_reads_its_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run of hours ended after the first lines of `train … 2>&1 | head`, with exit code 0."""
    pipe = Pipe()
    messages = io.TextIOWrapper(pipe, line_buffering=True)
    monkeypatch.setattr(sys, "stderr", messages)
    assert run(["modles"]) == 2
    sys.stderr.writelines(["more\n", "lines\n"])
    sys.stderr.flush()
    monkeypatch.setattr(sys, "stderr", messages)  # as `python -m glassformer.training` has it
    PlainReporter().line("step 5")
    assert pipe.getvalue() == b""
    pipe.has_reader = True  # for Python, which closes the stream


def test_a_closed_stdin_has_no_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    assert list(lines_of(())) == []


@pytest.mark.parametrize("between", ["\n", "\r", "\r\n", "\x0b", "\u2028"])
def test_an_answer_is_one_line_whatever_ends_a_line(between: str) -> None:
    assert as_one_line(f"one{between}two") == "one two"


@pytest.mark.parametrize(
    "command", [["audit", "masked"], ["claims"], ["lesson", "thrones"], ["trace", "toy", "good"]]
)
def test_a_place_that_cannot_be_is_refused_before_the_work(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """All claims take a minute: nobody wants to wait for "cannot write"."""
    assert run([*command, "-o", str(tmp_path / "no" / "report.md")]) == 2
    assert f"there is no folder {tmp_path / 'no'}" in capsys.readouterr().err
    (tmp_path / "folder.md").mkdir()
    assert run([*command, "-o", str(tmp_path / "folder.md")]) == 2
    assert "it is a folder; name a file in it" in capsys.readouterr().err
    assert not (tmp_path / "no").exists()


def test_claims_without_a_picture_say_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["claims", "C33", "--plot", str(tmp_path / "pictures")]) == 2
    assert "none of these claims has a picture; C05," in capsys.readouterr().err


@pytest.mark.parametrize("more", [["--off", "bias"], ["films", "--off", "bias"]])
def test_off_is_never_ignored(more: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["lesson", *more]) == 2
    assert "only the lesson switches takes --off" in capsys.readouterr().err


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried 9 TB"),
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 9 TB"),
    ],
)
def test_memory_that_runs_out_is_one_clear_line(
    error: Exception, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("glassformer.cli.app", fail)
    assert run(["models"]) == 1
    assert capsys.readouterr().err.startswith("glassformer: not enough memory;")


def test_an_error_of_ours_keeps_its_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With an exit code of its own: 1 would mean that something was found to be wrong."""

    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr("glassformer.cli.app", fail)
    assert run(["models"]) == 70
    assert "RuntimeError: a bug" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("n_bytes", "shown"),
    [
        (0, "0 bytes"), (1023, "1023 bytes"), (1024, "1.0 KiB"), (18_800, "18.4 KiB"),
        (1_023_947, "999.9 KiB"), (1_023_950, "1.0 MiB"), (9 * 2**20, "9.0 MiB"),
    ],
)  # fmt: skip
def test_a_size_has_a_digit_before_its_point(n_bytes: int, shown: str) -> None:
    assert show_size(n_bytes) == shown


def test_commands_offer_every_format() -> None:
    known = {*FORMATS, "pdf"} - {"worksheet"}  # slides, printed; only lessons have worksheets
    offered = {*get_args(Format), "json"}
    assert offered == known, "Format in cli/output.py differs from FORMATS in documents/renderer.py"


class _Terminal(io.TextIOWrapper):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("is_terminal", [True, False])
def test_labels_of_a_stranger_do_not_command_the_terminal(
    is_terminal: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Programs that read a pipe get the label as it is."""
    folder = tmp_path / "model"
    shutil.copytree(SHIPPED / "toy", folder)
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    config["labels"] = ["\x1b]0;renamed\x07\x1b[2J", "\x9b2J\x1b[31mred"]
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", (_Terminal if is_terminal else io.TextIOWrapper)(written))
    assert run(["run", str(folder), "I am not happy", "I am happy"]) == 0
    said = written.getvalue().decode()
    if is_terminal:
        assert r"\x1b]0;renamed\x07\x1b[2J" in said and "\\x9b2J\x1b[31mred" in said
    else:
        assert all(label in said for label in config["labels"])


def test_a_message_does_not_command_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["run", "no/such\x1b[2Jmodel", "a text"]) != 0
    assert r"such\x1b[2Jmodel" in capsys.readouterr().err


@pytest.mark.parametrize("line", ["lesson masked a\nb", "run no/such\nmodel text", "models\nx"])
def test_a_message_is_one_line_whatever_it_names(
    line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(line.split(" ")) in (1, 2)
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and said.endswith("\n")
