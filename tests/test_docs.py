"""What the documentation shows is run, and what it links to is there."""

import ast
import doctest
import re
import shlex
import textwrap
from functools import cache
from pathlib import Path

import pytest

from tests.fresh_python import run_python

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
READMES = [ROOT / "README.md", ROOT / "README.zh-CN.md"]


def blocks(guide: Path, language: str) -> list[str]:
    text = guide.read_text(encoding="utf-8")
    # All fences first: the closing one of a Python block would open a block without a language.
    fenced = re.findall(r"^```(\w*)\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)
    return [block for found, block in fenced if found == language]


@cache  # both READMEs show the same code
def run(*arguments: str, folder: Path = ROOT) -> str:
    done = run_python(*arguments, folder=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_readmes_have_an_example() -> None:
    assert all(blocks(readme, "python") for readme in READMES)


@pytest.mark.parametrize("guide", PAGES, ids=lambda guide: guide.name)
def test_the_python_examples_run(guide: Path) -> None:
    # One process a guide, as a reader's session: most of a block's time would go into its imports.
    # No block sees another's names.
    examples = [ast.unparse(ast.parse(example)) for example in blocks(guide, "python")]
    run("-W", "error", "-c", f"for code in {examples}: exec(code, {{'__name__': '__main__'}})")


def test_every_peers_code_has_a_slow_test() -> None:
    for code in (code for page in PAGES for code in blocks(page, "py")):
        peer = code.removeprefix("# ").partition("\n")[0].partition(";")[0]
        file = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", peer).lower()
        assert (ROOT / f"tests/experiments/test_{file}.py").is_file(), peer


def shown_commands(shown: list[str]) -> list[tuple[str, str]]:
    """Commands shown with `$ …`, each with the output shown below it."""
    found = []
    for block in shown:
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, output = part.partition("\n")
            found.append((command, output.rstrip("\n")))
    return found


@pytest.mark.parametrize("guide", PAGES, ids=lambda guide: guide.name)
def test_the_output_shown_is_the_output(guide: Path) -> None:
    for command, output in shown_commands(blocks(guide, "")):
        assert_prints(command, output, ROOT)


def assert_prints(command: str, output: str, folder: Path) -> None:
    words = shlex.split(command)
    assert words[0] in ("glassformer", "python")
    command_line = ["-m", *words] if words[0] == "glassformer" else words[1:]
    printed = run(*command_line, folder=folder).rstrip("\n")
    assert _in_single_precision(printed) == _in_single_precision(output)


def _in_single_precision(text: str) -> str:
    """The numbers that a cell was made of are float32: six digits hold on every processor."""
    return re.sub(
        r"float64(?:: |：)([^\s,，]+)(?:, relative difference |，相对误差 )\S+",
        lambda m: f"float64: {float(m[1]):.6g}",
        text,
    )


@pytest.mark.parametrize("guide", PAGES, ids=lambda guide: guide.name)
def test_the_sessions_shown_are_what_happens(
    guide: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Indented blocks: `>>>` in Python, then `$` in the folder in which that worked."""
    monkeypatch.chdir(tmp_path)
    text = guide.read_text(encoding="utf-8")
    indented = "".join(re.findall(r"^(?:    .*\n|\n)", text, flags=re.MULTILINE))
    session = doctest.DocTestParser().get_doctest(indented, {}, guide.name, None, None)
    assert doctest.DocTestRunner().run(session).failed == 0
    commands = re.findall(r"^    \$ .*?(?=\n    >>>|\n{3}|\Z)", indented, re.MULTILINE | re.DOTALL)
    for command, output in shown_commands([textwrap.dedent(block) for block in commands]):
        assert_prints(command, output, tmp_path)


@pytest.mark.parametrize("guide", PAGES, ids=lambda guide: guide.name)
def test_links_lead_somewhere(guide: Path) -> None:
    text = guide.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#\s]+)", text):
        if "://" not in target:
            assert (guide.parent / target).exists(), f"{guide.name} links to {target}"


def test_both_readmes_show_the_same_code() -> None:
    def code(guide: Path) -> list[str]:
        plain = "".join(block for block in blocks(guide, "") if not block.startswith("$ "))
        lines = ("".join(blocks(guide, "python")) + plain).splitlines()
        commands = [command for command, _ in shown_commands(blocks(guide, ""))]
        return [line.partition("#")[0].rstrip() for line in lines] + [
            command.removesuffix(" --lang zh") for command in commands
        ]

    assert code(READMES[0]) == code(READMES[1])


def test_the_readme_names_the_two_commands() -> None:
    for readme in READMES:
        text = readme.read_text(encoding="utf-8")
        assert "make demo" in text
        assert "make test" in text
