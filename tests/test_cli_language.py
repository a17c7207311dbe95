"""Every command in Chinese: pages of help, errors, results; the data stay what they are."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from glassformer.cli import app, run
from glassformer.language import spoken

HAN = re.compile("[\u4e00-\u9fff]")
COMMANDS = sorted(set(app) - {"--help", "-h", "--version"})
# English that would be left over: of the parser, of the frame around errors, of our own.
LEFT_OVER = re.compile(
    r"Usage|Commands|Parameters|Arguments|Display|\[default|\[required|\[choices|Did you mean|"
    r"did you mean|unknown |Unknown |Invalid|requires|expected|cannot |must be|there is no|Try |"
    r"is not a|No such|has no |a classifier|whole number"
)


class Done(NamedTuple):
    code: int
    stdout: str
    stderr: str


Command = Callable[..., Done]


@pytest.fixture
def glassformer(as_users_run_it: None, capsys: pytest.CaptureFixture[str]) -> Command:
    def call(*arguments: str) -> Done:
        code = run(list(arguments))
        assert spoken() == "en", "the language is the command's alone"
        return Done(code, *capsys.readouterr())

    return call


WAYS: dict[str, tuple[dict[str, str], list[str]]] = {
    "option": ({}, ["--lang", "zh"]),
    "variable": ({"GLASSFORMER_LANG": "zh"}, []),
    "locale": ({"LANG": "zh_CN.UTF-8"}, []),
}


@pytest.fixture(params=WAYS)
def in_chinese(
    request: pytest.FixtureRequest, glassformer: Command, monkeypatch: pytest.MonkeyPatch
) -> Command:
    """The command, asked for Chinese in one of three ways."""
    for name in ("GLASSFORMER_LANG", "LC_ALL", "LC_MESSAGES", "LANG"):
        monkeypatch.delenv(name, raising=False)
    variables, options = WAYS[request.param]
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    return lambda *arguments: glassformer(*options, *arguments)


def check(text: str) -> None:
    assert HAN.search(text), text
    assert not LEFT_OVER.search(text), text


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help(in_chinese: Command, command: str) -> None:
    done = in_chinese(*([command] if command else []), "--help")
    assert (done.code, done.stderr) == (0, "")
    check(done.stdout)
    described = [line for line in done.stdout.splitlines() if re.match(r"│[ *]+--", line)]
    assert described or command == "train"
    without = [line for line in described if not HAN.search(line)]
    assert not without, f"no Chinese under [{command}] in cli/help.toml:\n" + "\n".join(without)


def test_help_as_a_command(in_chinese: Command) -> None:
    assert in_chinese("help", "run") == in_chinese("run", "--help")
    assert in_chinese("help") == in_chinese() == in_chinese("--help")


ERRORS: list[tuple[int, str]] = [
    (2, "audti"),
    (2, "--hlp"),
    (2, "audit nosuch"),
    (2, "audit --josn"),
    (2, "audit masked -o no/such/file"),
    (2, "claims C999"),
    (2, "claims --to pdf"),
    (2, "claims C33 --plot pictures"),
    (2, "data imbd"),
    (2, "data --archive"),
    (2, "data multi30k --archive file"),
    (2, "describe"),
    (2, "describe gpt3"),
    (2, "describe gpt2 --n-layers x"),
    (2, "evaluate imbd"),
    (1, "evaluate no/such"),
    (2, "evaluate imdb --splt test"),
    (2, "exercise score"),
    (2, "exercise -o starter.py"),
    (2, "exercise scores a.py --solution"),
    (2, "exercise scores -o no/such/file.py"),
    (1, "exercise scores nosuch.py"),
    (2, "explain toi text --at logits"),
    (2, "explain toy text"),
    (2, "explain toy text --at logts"),
    (1, "explain toy text --at logits[7]"),
    (1, "explain toy text --at logits"),
    (2, "explain toy text --at logits --depth 0"),
    (2, "explore --model toi"),
    (2, "explore --port 99999"),
    (2, "explore --prt 1"),
    (2, "export toi --to onnx -o out"),
    (2, "export toy --to onnxx -o out"),
    (2, "export toy --to onnx"),
    (2, "lesson film"),
    (2, "lesson --to md"),
    (2, "lesson films -o lesson.docx"),
    (2, "experiment lens toi text"),
    (2, "experiment lense toy text"),
    (2, "experiment ablate toy text"),
    (2, "models --jsn"),
    (2, "models extra"),
    (2, "models --json --json"),
    (2, "recipes imbd"),
    (2, "recipes --jsn"),
    (2, "recipes imdb extra"),
    (2, "run toi text"),
    (1, "run ./no/such text"),
    (2, "run toy text --beam 3"),
    (2, "run toy text --batch-size x"),
    (2, "trace toi text"),
    (2, "trace toy text -o no/such/file.html"),
    (2, "trace toy text --stp a"),
    (2, "train"),
    (2, "train imbd"),
    (2, "train imdb --loop.epoch 3"),
    (2, "train imdb --loop.epochs 0"),
    (2, "train imdb --loop.steps few"),
    (1, "train text --text nosuch.txt --out run"),
]


def test_every_command_has_three_errors() -> None:
    tried = [line.split()[0] for _, line in ERRORS]
    assert {command for command in COMMANDS if tried.count(command) < 3} == set()


@pytest.mark.parametrize(("code", "line"), ERRORS)
def test_errors(
    in_chinese: Command, code: int, line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = in_chinese(*line.split())
    assert (done.code, done.stdout) == (code, "")
    assert len(done.stderr.splitlines()) == 1
    check(done.stderr)


@pytest.mark.parametrize(
    "line", ["models --json", "exercise --json", "exercise loss --json",
             "recipes --json", "recipes imdb --json", "data --json",
             "describe gpt2 --json", "run toy happy --json",
             "explain toy happy --at logits[0] --json"]
)  # fmt: skip
def test_json_does_not_depend_on_the_language(glassformer: Command, line: str) -> None:
    english, chinese = (glassformer(*line.split(), "--lang", lang) for lang in ("en", "zh"))
    assert english == chinese
    assert english.code == 0
    for part in english.stdout.splitlines() if "\n{" in english.stdout else [english.stdout]:
        json.loads(part)


@pytest.mark.parametrize(
    "line", ["models", "recipes", "recipes text", "data", "lesson", "exercise loss",
             "trace toy happy",
             "explain toy happy --at logits[0] --depth 2"]
)  # fmt: skip
def test_results(glassformer: Command, line: str) -> None:
    done = glassformer(*line.split(), "--lang=zh")
    assert (done.code, done.stderr) == (0, "")
    assert HAN.search(done.stdout)
    assert not re.search("relative difference|parameter\\)|licence:|classify", done.stdout)


def test_the_option_may_stand_anywhere_and_the_last_one_counts(glassformer: Command) -> None:
    for line in ("--lang zh models", "models --lang zh", "models --lang=en --lang=zh"):
        assert "分类" in glassformer(*line.split()).stdout
    assert glassformer("run", "toy", "--", "--lang").code == 0  # a text
    done = glassformer("models", "--lang", "fr")
    assert (done.code, done.stdout) == (2, "")
    assert done.stderr == "glassformer: unknown language 'fr'; there are en, zh\n"
    assert glassformer("models", "--lang").code == 2


def test_a_wrong_variable_is_one_line(
    glassformer: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GLASSFORMER_LANG", "deutsch")
    done = glassformer("models")
    assert (done.code, done.stdout) == (2, "")
    assert done.stderr == "glassformer: $GLASSFORMER_LANG must be en or zh, got 'deutsch'\n"


@pytest.mark.parametrize(
    ("error", "said", "code"),
    [
        (MemoryError(), "内存不足", 1),
        (OSError(28, "No space left on device", "out.html"), "out.html：磁盘已满", 1),
        (FileNotFoundError(2, "No such file or directory", "a"), "a：没有那个文件或文件夹", 1),
        (KeyboardInterrupt(), "已中断", 130),
        (RuntimeError("a bug"), "自身的故障", 70),
    ],
)
def test_what_may_happen_in_any_command(
    glassformer: Command,
    error: BaseException,
    said: str,
    code: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("glassformer.cli.app", fail)
    done = glassformer("models", "--lang", "zh")
    assert done.code == code
    assert said in done.stderr
