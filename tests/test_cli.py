"""The command as a person meets it: its output, its exit code, and where it matters its process."""

import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from glassformer.cli import run


class Done(NamedTuple):
    code: int
    stdout: str
    stderr: str


Command = Callable[..., Done]


@pytest.fixture
def glassformer(as_users_run_it: None, capsys: pytest.CaptureFixture[str]) -> Command:
    """The command in this process: importing torch anew for each test would take a minute."""

    def call(*arguments: str) -> Done:
        code = run(list(arguments))
        return Done(code, *capsys.readouterr())

    return call


WITHOUT_TORCH: list[tuple[list[str], int]] = [
    (["--help"], 0),
    (["--version"], 0),
    (["descrbe"], 2),
    (["--hlp"], 2),
    (["recipes"], 0),
    (["recipes", "imdb"], 0),
    (["data"], 0),
    (["models"], 0),
    (["train", "imdbb"], 2),
    (["train", "imdb", "--loop.epoch", "3"], 2),
    (["run", "imdbb", "fine"], 2),
    (["trace", "imdbb", "fine"], 2),
    (["explain", "imdbb", "fine", "--at", "logits"], 2),
    (["export", "imdbb", "--to", "onnx", "-o", "nowhere"], 2),
    (["evaluate", "imdbb"], 2),
    (["exercise"], 0),
    *(([name, "--help"], 0) for name in ("train", "recipes", "data", "models", "evaluate")),
]


def test_help_lists_and_typing_mistakes_do_not_import_torch() -> None:
    """One after another in a process that has not imported it."""
    program = f"""
import sys
from glassformer.cli import run
for arguments, code in {WITHOUT_TORCH!r}:
    assert run(arguments) == code, arguments
    assert 'torch' not in sys.modules, arguments"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("command", "usage"),
    [
        ("", "COMMAND"),
        ("audit", "audit [OPTIONS] [EXAMPLE]"),
        ("exercise", "exercise [OPTIONS] [NAME] [FILE]"),
        ("run", "run [OPTIONS] MODEL [TEXTS...]"),
        ("train", "train RECIPE [OPTIONS]"),
    ],
)
def test_help_names_the_arguments(glassformer: Command, command: str, usage: str) -> None:
    done = glassformer(*command.split(), "--help")
    assert done.stdout.splitlines()[0] == f"Usage: glassformer {usage}"


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["descrbe"], ["descrbe", "Did you mean", "describe"]),
        (["--verison"], ["--verison", "did you mean", "--version"]),
        (["describe", "gpt3"], ["gpt3", "did you mean", "gpt2"]),
        (["describe", "gpt2", "--d-modl", "3"], ["d_modl", "did you mean", "d_model"]),
        (["describe", "gpt2", "--n-heads", "5"], ["multiple of n_heads", "768", "5"]),
        (["describe", "gpt2", "--n-layers", "x"], ["--n-layers", '"x"']),
        (["describe", "gpt2", "--n-layers", "2.5"], ["n_layers", "whole number", "2.5"]),
        (["describe", "gpt2", "--d-model", "0"], [" d_model must be at least 1, got 0"]),
        (["describe"], ["PRESET", "Try 'glassformer describe --help'."]),
        (["run", "en-de", "--baem", "4"], ["--baem", "Try 'glassformer run --help'."]),
    ],
)
def test_wrong_usage_is_one_clear_line_and_exit_2(
    glassformer: Command, arguments: list[str], parts: list[str]
) -> None:
    done = glassformer(*arguments)
    assert done.code == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    for part in parts:
        assert part in done.stderr


def test_the_sizes_of_describe_have_a_name_that_says_so(glassformer: Command) -> None:
    assert "--SIZE FLOAT  Sizes to change" in glassformer("describe", "--help").stdout


def test_describe_prints_the_tree_and_the_count(glassformer: Command) -> None:
    done = glassformer("describe", "vaswani_2017_base")
    assert done.code == 0, done.stderr
    assert "blocks.0-5: Block" in done.stdout
    assert done.stdout.rstrip().endswith("44,138,496")


def test_describe_as_json_is_the_complete_config(glassformer: Command) -> None:
    done = glassformer("describe", "bloem_2019", "--json", "--d-model", "64")
    config = json.loads(done.stdout)
    assert config["d_model"] == 64
    assert config["attention"]["divisor"] == "sqrt_model"


EXPLAIN = ["explain", "toy", "I am not happy", "--at"]


def test_explain_shows_formula_numbers_and_source_line(glassformer: Command) -> None:
    done = glassformer(*EXPLAIN, "logits[0]")
    assert done.code == 0, done.stderr
    assert "logits[0, 0] = 1.941" in done.stdout
    assert "z[0] = Σₖ pooled[k]·W_classes[0, k]" in done.stdout
    assert "models.py:" in done.stdout


def test_explain_as_json_is_data(glassformer: Command) -> None:
    done = glassformer(*EXPLAIN, "logits[0,1]", "--json")
    cell = json.loads(done.stdout)
    assert cell["value"] == pytest.approx(-1.9409485)
    assert cell["source"]["file"] == "glassformer/nn/models.py"


def test_explain_as_json_is_strict_json_of_numbers_that_json_lacks(glassformer: Command) -> None:
    at = "decoder.blocks.0.attention.masked[0,0,1]"
    done = glassformer("explain", "shakespeare", "To be", "--at", at, "--json")

    def refuse(constant: str) -> float:
        raise AssertionError(constant)

    assert json.loads(done.stdout, parse_constant=refuse)["value"] == "-Infinity"


def test_explain_shows_as_many_terms_as_asked(glassformer: Command) -> None:
    at = "encoder.blocks.0.feed_forward.expanded[0,0]"
    assert "(3 more: 0)" in glassformer(*EXPLAIN, at, "--terms", "1").stdout
    cell = json.loads(glassformer(*EXPLAIN, at, "--terms", "1", "--json").stdout)
    assert len(cell["terms"]) == 1
    assert not cell["complete"]


@pytest.mark.parametrize(
    ("arguments", "code", "parts"),
    [
        ([*EXPLAIN, "logts[0]"], 2, ["logts", "did you mean", "logits"]),
        ([*EXPLAIN, "logits[7]"], 1, ["logits", "(1, 2)"]),
        ([*EXPLAIN, "logits[x]"], 2, ["unknown label 'x'", "there are happy, sad"]),
        ([*EXPLAIN, "logits[0"], 1, ["step[i, j]", "logits[0"]),
        (["explain", "toi", "I", "--at", "logits[0]"], 2, ["toi", "did you mean", "toy"]),
        (["explain", "toy", "", "--at", "logits[0]"], 1, ["the text is empty"]),
        ([*EXPLAIN, "logits[0]", "--depth", "-1"], 2, ["--depth", ">= 1"]),
    ],
)
def test_explain_with_bad_input_is_one_clear_line(
    glassformer: Command, arguments: list[str], code: int, parts: list[str]
) -> None:
    done = glassformer(*arguments)
    assert done.code == code
    assert done.stderr.count("\n") == 1
    for part in parts:
        assert part in done.stderr


@pytest.mark.parametrize(("encoding", "code"), [("gbk", 0), ("cp1252", 1)])
def test_a_console_of_another_encoding_is_no_obstacle(encoding: str, code: int) -> None:
    """All is written; that arrows became question marks is told."""
    done = subprocess.run(
        [sys.executable, "-m", "glassformer", "recipes"],  # it prints →
        capture_output=True,
        check=False,
        env={**os.environ, "PYTHONIOENCODING": encoding},
    )
    assert done.returncode == code, done.stderr
    assert b"shakespeare" in done.stdout
    assert (b"cannot hold" in done.stderr) == bool(code)


def test_a_reader_who_leaves_is_no_error() -> None:
    command = f"{sys.executable} -m glassformer recipes | head -1"
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command],
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0
    assert done.stderr == ""


def test_a_child_process_that_ends_early_is_no_reader_who_left() -> None:
    code = (
        "from glassformer import cli\n"
        "def app(*_arguments, **_options): raise BrokenPipeError(32, 'Broken pipe')\n"
        "cli.app = app\n"
        "raise SystemExit(cli.run(['recipes']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, encoding="utf-8", check=False
    )
    said = "glassformer: a program that this command had started ended too early (broken pipe)\n"
    assert (done.returncode, done.stderr) == (1, said)


@pytest.mark.parametrize(
    ("library", "command"),
    [
        ("xlsxwriter", "trace toy I-like-it -o t.xlsx"),
        ("ctranslate2", "export en-de --to ctranslate2 -o out"),
        ("transformers", "export en-de --to hf -o out"),
        ("onnxruntime", "export imdb --to onnx -o out"),
    ],
)
def test_a_library_that_is_not_installed_is_named_with_its_extra(
    glassformer: Command,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    library: str,
    command: str,
) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    monkeypatch.chdir(tmp_path)
    done = glassformer(*command.split())
    assert done.code == 1
    assert "pip install 'glassformer[" in done.stderr and done.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_ctrl_c_while_libraries_load_ends_at_once() -> None:
    """Some of them would swallow it, or stay half loaded and fail at their next use."""
    code = (
        "import os, signal, sys, types\n"
        "from importlib.machinery import ModuleSpec\n"
        "loading = types.ModuleType('torch')\n"
        "loading.__spec__ = ModuleSpec('torch', None)\n"
        "loading.__spec__._initializing = True\n"
        "import glassformer.cli, glassformer.__main__ as command\n"
        "def run(arguments):\n"
        "    sys.modules['torch'] = loading\n"
        "    try:\n"
        "        os.kill(os.getpid(), signal.SIGINT)\n"
        "        signal.pause()\n"
        "    except BaseException:\n"
        "        print('swallowed')\n"
        "glassformer.cli.run = run\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "command.main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "glassformer: interrupted\n")


# --- what the output's encoding cannot hold ---


class Bytes(NamedTuple):
    code: int
    stdout: bytes
    stderr: str


def _into(
    encoding: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Bytes:
    """A Chinese list written to a pipe of some encoding."""
    written = io.BytesIO()
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding=encoding))
        code = run(["lesson", "--lang", "zh"])
        sys.stdout.flush()
        return Bytes(code, written.getvalue(), capsys.readouterr().err)


@pytest.mark.usefixtures("as_users_run_it")
def test_an_encoding_that_was_asked_for_and_cannot_hold_the_answer_is_a_failure(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PYTHONIOENCODING", "latin-1")
    done = _into("latin-1", monkeypatch, capsys)
    assert done.code == 1
    assert b"?" in done.stdout
    assert len(done.stderr.splitlines()) == 1
    assert "PYTHONIOENCODING=utf-8" in done.stderr


@pytest.mark.usefixtures("as_users_run_it")
@pytest.mark.parametrize("encoding", ["cp1252", "ascii", "utf-8", "gbk"])
def test_a_pipe_gets_utf_8_whatever_the_locale(
    encoding: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Windows gives a pipe the code page of its consoles."""
    monkeypatch.delenv("PYTHONIOENCODING", raising=False)
    done = _into(encoding, monkeypatch, capsys)
    assert (done.code, done.stderr) == (0, "")
    assert "三个输入的自注意力" in done.stdout.decode("utf-8")


# --- texts that begin with a dash ---

DASHED = [
    ("run", "toy", "--", "-2+3"),
    ("run", "toy", "--json", "--", "-2+3", "--", "-o"),
    ("trace", "toy", "--", "-I am"),
    ("explain", "toy", "--at", "logits[0,0]", "--", "-I am"),
]


@pytest.mark.parametrize("arguments", DASHED, ids=lambda arguments: arguments[0])
def test_a_text_that_begins_with_a_dash_comes_after_two(
    glassformer: Command, arguments: tuple[str, ...]
) -> None:
    assert glassformer(*arguments).code == 0


@pytest.mark.parametrize(
    "arguments",
    [
        ("run", "toy", "-2+3"),
        ("run", "toy", "-happy"),
        ("trace", "toy", "-I am"),
        ("explain", "toy", "- x", "--at", "ids"),
    ],
)
def test_a_text_that_is_taken_for_an_option_is_told_how_to_come(
    glassformer: Command, arguments: tuple[str, ...]
) -> None:
    done = glassformer(*arguments)
    assert done.code == 2
    expected = f'comes last, after --: glassformer {arguments[0]} MODEL -- "{arguments[2]}"'
    assert expected in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_negative_number_of_an_option_is_not_taken_for_a_text(glassformer: Command) -> None:
    done = glassformer("explain", "toy", "text", "--at", "logits", "--depth", "-1")
    assert done.code == 2
    assert "comes last" not in done.stderr


# --- numbers and names beyond all sense ---

HUGE = "99999999999999999999"


@pytest.mark.parametrize(
    "arguments",
    [
        ("run", "toy", "a", "--batch-size", HUGE),
        ("run", "shakespeare", "a", "--max-new", HUGE),
        ("run", "shakespeare", "a", "--seed", HUGE),
        ("run", "en-de", "a", "--beam", HUGE),
        ("run", "en-de", "a", "--n-best", HUGE),
        ("describe", "gpt2", "--d-model", HUGE),
        ("trace", "toy", "I am", "-o", "a\0.html"),
        ("trace", "a\0b", "I am"),
        ("lesson", "by-hand", "-o", "a\0.html"),
        ("claims", "-o", "a\0"),
        ("audit", "a\0b"),
        ("train", "text", "--config", "a\0b"),
    ],
)
def test_what_no_machine_can_do_is_one_line(
    glassformer: Command, arguments: tuple[str, ...]
) -> None:
    done = glassformer(*arguments)
    assert (done.code, done.stdout) == (2, "")
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ("export", "toy", "--to", "torch", "-o", "a\0b"),
        ("train", "text", "--text", "a\0b", "--out", "run"),
        ("train", "text", "--text", __file__, "--out", "a\0b"),
    ],
)
def test_a_nul_in_a_path_is_one_line(
    glassformer: Command,
    arguments: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    done = glassformer(*arguments)
    assert (done.code, done.stdout) == (1, "")
    assert len(done.stderr.splitlines()) == 1
