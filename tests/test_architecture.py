"""Imports go one way. The rules are those of CONTRIBUTING.md; this file enforces them."""

import ast
import inspect
import pkgutil
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest

from tests.matrix import SENSITIVE

PACKAGE = Path(__file__).parent.parent / "src" / "glassformer"

# Which rooms (packages) each room may import. Everything may use `colours`, `errors`,
# `files`, `language`, `lazy`, `picture`, `python_source` and the version.
ALLOWED: dict[str, set[str]] = {
    "colours": set(),
    "errors": set(),
    "files": set(),
    "language": set(),
    "lazy": set(),
    "modes": set(),
    "picture": set(),
    "python_source": set(),
    "nn": set(),
    "text": set(),
    "data": {"text"},
    "checkpoint": {"nn", "text"},
    "decoding": {"modes", "nn"},
    "training": {"modes", "nn", "text", "data", "decoding", "checkpoint"},
    "tracing": {"modes"},
    "experiments": {"tracing"},
    "tasks": {
        "checkpoint", "text", "decoding", "modes", "nn", "tracing", "experiments",
        "explore",  # the public name, on first use
    },
    "documents": {"tracing", "experiments"},
    "audit": {"documents", "text"},
    "claims": {"nn", "text", "training", "documents", "experiments", "audit", "tracing", "tasks"},
    "lessons": {
        "nn", "text", "tasks", "tracing", "documents", "audit", "claims", "training", "decoding",
        "experiments",
    },
    "export": {"nn", "text", "checkpoint", "decoding", "modes"},
    "explorer": {
        "tracing", "experiments", "documents", "lessons", "audit", "claims", "tasks", "checkpoint",
        "decoding", "text", "training", "data",
    },
    "cli": {
        "nn", "text", "tracing", "data", "checkpoint", "decoding", "tasks", "training",
        "documents", "lessons", "audit", "claims", "export", "explorer", "experiments",
    },
    "__main__": {"cli"},
    "__init__": {"nn", "tracing", "experiments", "tasks", "checkpoint", "training", "explorer"},
}  # fmt: skip

# Look-ups that go up, in a function: what a notebook shows of a trace, and the page as a file.
ON_FIRST_USE = {
    "tracing/notes.py": "glassformer.documents.notebook_markdown",
    "documents/trace_documents.py": "glassformer.explorer.saved_page.page_text",
}

# What the library half may import beyond the standard library: it must run where nothing else can
# be installed. The command, the server and the plots may need more.
LIGHT_ROOMS = {
    "colours",
    "errors",
    "files",
    "language",
    "lazy",
    "modes",
    "picture",
    "python_source",
    "nn",
    "text",
    "tracing",
    "experiments",
    "data",
    "checkpoint",
    "decoding",
    "tasks",
    "training",
}
LIGHT = {"torch", "numpy", "safetensors", "tokenizers"}
LAZY_ELSEWHERE = {"jaxtyping"}  # under TYPE_CHECKING and our tests


def room_of(file: Path) -> str:
    return file.relative_to(PACKAGE).parts[0].removesuffix(".py")


@cache
def tree_of(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"))


def imports_of(file: Path, *, only_at_import: bool = False) -> set[str]:
    """Modules that a file imports; `only_at_import` excludes functions and TYPE_CHECKING."""
    tree = tree_of(file)
    lazy = {
        node
        for part in ast.walk(tree)
        if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef)
        or (isinstance(part, ast.If) and "TYPE_CHECKING" in ast.unparse(part.test))
        for node in ast.walk(part)
    }
    found: set[str] = set()
    for node in ast.walk(tree):
        if only_at_import and node in lazy:
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: imports are absolute"
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Call) and ast.unparse(node.func) == "import_module":
            found |= {str(one.value) for one in node.args if isinstance(one, ast.Constant)}
    return found


FILES = sorted(PACKAGE.rglob("*.py"))


def broken_rules(files: list[Path]) -> list[str]:
    broken = []
    for file in files:
        room = room_of(file)
        for module in imports_of(file):
            parts = module.split(".")
            if parts[0] != "glassformer" or parts[1] in (
                room,
                "colours",
                "errors",
                "files",
                "language",
                "lazy",
                "picture",
                "python_source",
                "__version__",
            ):
                continue
            where = file.relative_to(PACKAGE).as_posix()
            if parts[1] not in ALLOWED[room] and ON_FIRST_USE.get(where) != module:
                broken.append(f"{file.relative_to(PACKAGE)} imports {module}")
    return broken


def test_imports_go_one_way() -> None:
    assert broken_rules(FILES) == []


def test_the_rule_finds_a_broken_import(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The check itself can fail."""
    upside_down = tmp_path / "nn" / "wrong.py"
    upside_down.parent.mkdir()
    upside_down.write_text("from glassformer.cli import run\n", encoding="utf-8")
    monkeypatch.setattr(sys.modules[__name__], "PACKAGE", tmp_path)
    assert broken_rules([upside_down]) == ["nn/wrong.py imports glassformer.cli.run"]
    upside_down.write_text("import_module('glassformer.cli.run')\n", encoding="utf-8")
    assert broken_rules([upside_down]) == ["nn/wrong.py imports glassformer.cli.run"]


def test_the_library_half_needs_only_torch_numpy_safetensors_and_tokenizers() -> None:
    heavy = []
    for file in FILES:
        if room_of(file) not in LIGHT_ROOMS:
            continue
        for module in imports_of(file, only_at_import=True):
            top = module.split(".")[0]
            ours = top == "glassformer" or top in sys.stdlib_module_names
            if not ours and top not in LIGHT | LAZY_ELSEWHERE:
                heavy.append(f"{file.relative_to(PACKAGE)} imports {module}")
    assert heavy == []


def test_parts_without_arithmetic_do_not_import_torch() -> None:
    code = (
        "import sys, glassformer, glassformer.text, glassformer.cli, glassformer.nn.config\n"
        "import glassformer.training.recipes, glassformer.data.corpora\n"
        "import glassformer.checkpoint, glassformer.language, glassformer.lessons\n"
        "import glassformer.audit.audit_report, glassformer.documents.terminal\n"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


LAZY = [
    "glassformer",
    *(f"glassformer.{part}" for part in ("nn", "training", "checkpoint", "lessons")),
]


def imports_for_types(source: str) -> dict[str, str]:
    """The module of each name that is imported under `if TYPE_CHECKING:`."""
    return {
        alias.name: statement.module
        for part in ast.parse(source).body
        if isinstance(part, ast.If) and ast.unparse(part.test) == "TYPE_CHECKING"
        for statement in part.body
        if isinstance(statement, ast.ImportFrom) and statement.module
        for alias in statement.names
    }


@pytest.mark.parametrize("package", LAZY)
def test_every_public_name_resolves(package: str) -> None:
    module = import_module(package)
    homes = imports_for_types(inspect.getsource(module))
    # Type checkers see the names that are imported.
    lazily = {name: home for home, names in module._HOMES.items() for name in names.split()}
    assert lazily == homes
    assert {*homes} <= {*module.__all__}
    assert dir(module) == sorted(module.__all__)
    parts = {part.name for part in pkgutil.iter_modules(module.__path__)}
    for name, home in homes.items():
        # Once imported, a submodule of the same name would shadow the name.
        assert name not in parts or home == package, f"{package}.{name} is also a module"
        found = getattr(module, name)
        assert found is (import_module(f"{home}.{name}") if home == package else found)
        assert getattr(module, name) is found
    with pytest.raises(AttributeError, match=f"'{package}' has no attribute 'transformer'"):
        module.transformer  # noqa: B018  the access itself is what is tested


def test_there_are_no_utility_modules() -> None:
    assert not [file for file in FILES if file.stem in ("utils", "common", "helpers", "misc")]


def test_the_table_of_contributing_is_the_one_enforced() -> None:
    guide = (PACKAGE.parent.parent / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)/` \| .+? \| (.+) \|$", guide, re.MULTILINE)
    rooms = {room for room in ALLOWED if (PACKAGE / room).is_dir()}
    assert {room for room, _ in rows} == rooms
    for room, imports in rows:
        if room != "cli":
            assert sorted(ALLOWED[room]) == [word for word in imports.split(", ") if word != "–"]


def repeated(names: Iterable[tuple[str, Path]]) -> dict[str, list[str]]:
    places: dict[str, list[str]] = defaultdict(list)
    for name, file in names:
        places[name].append(str(file.relative_to(PACKAGE)))
    return {name: files for name, files in places.items() if len(files) > 1}


def test_a_module_name_means_one_module() -> None:
    assert repeated((f.stem, f) for f in FILES if not f.stem.startswith("__")) == {}


def test_a_class_name_means_one_class() -> None:
    classes = (
        (node.name, file)
        for file in FILES
        for node in tree_of(file).body
        if isinstance(node, ast.ClassDef)
    )
    assert repeated(classes) == {}


# Unions and simple types that are the field's word for something, as a class elsewhere is.
SHARED = {"Attention", "Formula", "Index", "Value"}


def test_no_type_is_called_like_a_class_of_another_module() -> None:
    """An alias (`Cells = NDArray[…]`) would read as the class of that name."""
    files: dict[str, set[Path]] = defaultdict(set)
    aliases: set[tuple[str, Path]] = set()
    for file in FILES:
        for node in tree_of(file).body:
            names = (
                [node.target] if isinstance(node, ast.AnnAssign) else getattr(node, "targets", [])
            )
            if isinstance(node, ast.ClassDef):
                files[node.name].add(file)
            aliases |= {(name.id, file) for name in names if isinstance(name, ast.Name)}
    both = {name for name, file in aliases if name[0] != "_" and files[name] - {file}}
    assert both == SHARED


def test_a_kind_of_expression_is_written_in_four_modules() -> None:
    """Its class, its value, its formula, its spreadsheet formula; rules only make expressions."""
    naming = {
        str(file.relative_to(PACKAGE))
        for file in FILES
        for node in ast.walk(tree_of(file))
        if "Convert" in (getattr(node, "id", ""), getattr(node, "attr", ""))
        and "rules" not in file.parts
    }
    assert naming | {"tracing/arithmetic/expressions.py"} == {
        "documents/workbook_formulas.py",
        "tracing/arithmetic/expressions.py",
        "tracing/arithmetic/float64_values.py",
        "tracing/formula/notation.py",
    }


def test_only_packages_declare_what_is_public() -> None:
    declaring = {
        file
        for file in FILES
        for node in tree_of(file).body
        if isinstance(node, ast.Assign) and "__all__" in map(ast.unparse, node.targets)
    }
    # nn/tensors.py hands on names of `typing` and jaxtyping, which mypy wants declared.
    assert {str(f.relative_to(PACKAGE)) for f in declaring if f.name != "__init__.py"} == {
        "nn/tensors.py"
    }


def test_the_files_that_are_sensitive_to_the_processor_are_there() -> None:
    assert [file for file in SENSITIVE if not (PACKAGE.parent.parent / file).is_file()] == []
