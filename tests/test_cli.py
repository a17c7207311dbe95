"""The command as a person meets it: its output, its exit code, and where it matters its process."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
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


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
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
    ],
)
def test_help_lists_and_typing_mistakes_do_not_import_torch(
    arguments: list[str], code: int
) -> None:
    program = f"""
import sys
from glassformer.cli import run
code = run({arguments!r})
assert 'torch' not in sys.modules
sys.exit(code)"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    assert done.returncode == code, done.stderr


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
    assert "Σₖ pooled[0, k]·to_classes.weight[0, k]" in done.stdout
    assert "encoders.py:" in done.stdout


def test_explain_as_json_is_data(glassformer: Command) -> None:
    done = glassformer(*EXPLAIN, "logits[0,1]", "--json")
    cell = json.loads(done.stdout)
    assert cell["value"] == pytest.approx(-1.9409485)
    assert cell["source"]["file"] == "glassformer/nn/models/encoders.py"


def test_explain_as_json_is_strict_json_of_numbers_that_json_lacks(glassformer: Command) -> None:
    at = "decoder.blocks.0.attention.masked[0,0,1]"
    done = glassformer("explain", "shakespeare", "To be", "--at", at, "--json")

    def refuse(constant: str) -> float:
        raise AssertionError(constant)

    assert json.loads(done.stdout, parse_constant=refuse)["value"] == "-Infinity"


def test_explain_shows_as_many_terms_as_asked(glassformer: Command) -> None:
    at = "encoder.blocks.0.feed_forward.expanded[0,0]"
    assert "others" in glassformer(*EXPLAIN, at, "--terms", "1").stdout
    cell = json.loads(glassformer(*EXPLAIN, at, "--terms", "1", "--json").stdout)
    assert len(cell["terms"]) == 1
    assert not cell["complete"]


@pytest.mark.parametrize(
    ("arguments", "code", "parts"),
    [
        ([*EXPLAIN, "logts[0]"], 2, ["logts", "did you mean", "logits"]),
        ([*EXPLAIN, "logits[7]"], 1, ["logits", "(1, 2)"]),
        ([*EXPLAIN, "logits[x]"], 1, ["whole numbers", "[x]", "(1, 2)"]),
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


@pytest.mark.parametrize("encoding", ["gbk", "cp1252"])
def test_a_console_of_another_encoding_is_no_obstacle(encoding: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "glassformer", "describe", "by_hand_2024"],
        capture_output=True,
        check=False,
        env={**os.environ, "PYTHONIOENCODING": encoding},
    )
    assert done.returncode == 0, done.stderr
    assert b"to_queries" in done.stdout


def test_a_reader_who_leaves_is_no_error() -> None:
    command = f"{sys.executable} -m glassformer describe vaswani_2017_base | head -1"
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command],
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0
    assert done.stderr == ""


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
