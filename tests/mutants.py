"""Would the tests notice? Small mistakes are put into the source, one at a time.

    python -m tests.mutants [--count 110] [--seed 0] [--part 1/4] [--only nn] [--jobs 2]

The places are drawn from every package by the seed, so that the same command makes the same
mistakes. Each is made in a copy of the tree, and the tests that import the module or mention what
it defines are run; where they pass, so are the rest of the package's (without Chromium). Prints a
line for each mistake and fails if one survived that `mutants.toml` does not explain.
"""

import argparse
import ast
import copy
import hashlib
import multiprocessing
import os
import queue
import re
import resource
import shutil
import sys
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = Path("src/glassformer")
KNOWN = Path(__file__).with_suffix(".toml")
LIMIT_S = 300
"""Of processor time: a mistake may make a loop endless. Then the tests did notice, in their way."""
PACKAGES = sorted(file.parent.name for file in (ROOT / SOURCE).glob("*/__init__.py"))
REST = {
    "cli": ("tests/test_cli*.py", "tests/test_tasks_command.py", "tests/test_experiment_command.py",
            "tests/audit/test_audit_command.py", "tests/claims/test_claims_command.py",
            "tests/lessons/test_learner_file.py", "tests/lessons/test_lesson_formats.py"),
    "tasks": ("tests/test_tasks*.py", "tests/tasks/test_*.py", "tests/test_run_*.py",
              "tests/test_recommending.py"),
    "checkpoint": ("tests/test_checkpoint.py", "tests/test_weights.py", "tests/test_tasks.py",
                   "tests/test_one_file.py"),
    "explorer": ("tests/explorer/test_api_*.py", "tests/explorer/test_e*.py",
                 "tests/explorer/test_open_traces.py"),
}  # fmt: skip
"""The tests of a package, where they are not the files of the folder that is named like it."""
TOO_SLOW = ("tests/nn/test_compile.py", "tests/explorer/test_page_", "tests/nn/test_parity.py")
"""Not for one small mistake: compilers, a browser, models of full size."""


@dataclass(frozen=True)
class Mutant:
    """One mistake: what stands from `start` to `end` of a file is replaced."""

    file: Path
    line: int
    start: int
    end: int
    text: str
    change: str
    function: str
    source_line: str

    @property
    def where(self) -> str:
        """File and line, from the root of the repository."""
        return f"{self.file.as_posix()}:{self.line}"

    def lot(self, seed: int) -> bytes:
        """Its place in the draw."""
        said = (seed, self.file.as_posix(), self.function, self.source_line, self.change)
        return hashlib.sha256(repr(said).encode()).digest()


# --- the mistakes: each takes a node and gives what could stand in its place, with a name --------

Change = tuple[ast.expr, str]
_COMPARED: dict[type[ast.cmpop], tuple[type[ast.cmpop], str]] = {
    ast.Lt: (ast.LtE, "< to <="),
    ast.LtE: (ast.Lt, "<= to <"),
    ast.Gt: (ast.GtE, "> to >="),
    ast.GtE: (ast.Gt, ">= to >"),
    ast.Eq: (ast.NotEq, "== to !="),
    ast.NotEq: (ast.Eq, "!= to =="),
    ast.In: (ast.NotIn, "in to not in"),
    ast.NotIn: (ast.In, "not in to in"),
    ast.Is: (ast.IsNot, "is to is not"),
    ast.IsNot: (ast.Is, "is not to is"),
}
_COMPUTED: dict[type[ast.operator], tuple[type[ast.operator], str]] = {
    ast.Add: (ast.Sub, "+ to -"),
    ast.Sub: (ast.Add, "- to +"),
    ast.Mult: (ast.Div, "* to /"),
    ast.Div: (ast.Mult, "/ to *"),
    ast.FloorDiv: (ast.Mult, "// to *"),
    ast.Mod: (ast.FloorDiv, "% to //"),
    ast.Pow: (ast.Mult, "** to *"),
    ast.BitAnd: (ast.BitOr, "& to |"),
    ast.BitOr: (ast.BitAnd, "| to &"),
}


def _comparison(node: ast.AST) -> Iterator[Change]:
    if isinstance(node, ast.Compare) and type(node.ops[0]) in _COMPARED:
        other, name = _COMPARED[type(node.ops[0])]
        changed = copy.deepcopy(node)
        changed.ops[0] = other()
        yield changed, name


def _arithmetic(node: ast.AST) -> Iterator[Change]:
    if isinstance(node, ast.BinOp) and type(node.op) in _COMPUTED:
        other, name = _COMPUTED[type(node.op)]
        changed = copy.deepcopy(node)
        changed.op = other()
        yield changed, name


def _constant(node: ast.AST) -> Iterator[Change]:
    if not isinstance(node, ast.Constant):
        return
    value = node.value
    if isinstance(value, bool):
        yield ast.Constant(not value), f"{value} to {not value}"
    elif isinstance(value, int):
        yield ast.Constant(value + 1), f"{value} to {value + 1}"
    elif isinstance(value, float):
        other = value * 2 or 1.0
        yield ast.Constant(other), f"{value} to {other}"


def _sign(node: ast.AST) -> Iterator[Change]:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.USub):
        yield node.operand, "not dropped" if isinstance(node.op, ast.Not) else "minus dropped"


def _logic(node: ast.AST) -> Iterator[Change]:
    if isinstance(node, ast.BoolOp):
        changed = copy.deepcopy(node)
        both = isinstance(node.op, ast.And)
        changed.op = ast.Or() if both else ast.And()
        yield changed, "and to or" if both else "or to and"


def _arguments(node: ast.AST) -> Iterator[Change]:
    if not isinstance(node, ast.Call):
        return
    first = node.args[:2]
    if len(first) == 2 and not any(isinstance(one, ast.Starred) for one in first):
        changed = copy.deepcopy(node)
        changed.args[:2] = reversed(changed.args[:2])
        yield changed, "first two arguments swapped"
    if node.keywords and node.keywords[-1].arg is not None:
        changed = copy.deepcopy(node)
        left_out = changed.keywords.pop().arg
        yield changed, f"{left_out}= left out"


def _choice(node: ast.AST) -> Iterator[Change]:
    if isinstance(node, ast.IfExp):
        changed = copy.deepcopy(node)
        changed.body, changed.orelse = changed.orelse, changed.body
        yield changed, "if and else swapped"


MISTAKES: tuple[Callable[[ast.AST], Iterator[Change]], ...] = (
    _comparison, _arithmetic, _constant, _sign, _logic, _arguments, _choice,
)  # fmt: skip


def _places(node: ast.AST, function: str = "") -> Iterator[tuple[ast.expr, str]]:
    """Every expression that runs, with the function it is in.

    Not those of refusals and of our own invariants, nor those inside f-strings, which have no
    place of their own before Python 3.12.
    """
    if isinstance(node, ast.Raise | ast.Assert | ast.JoinedStr) or _never_runs(node):
        return
    children: Iterable[ast.AST | None] = ast.iter_child_nodes(node)
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        function = node.name
        children = (*node.args.defaults, *node.args.kw_defaults, *node.body)
    elif isinstance(node, ast.ClassDef):
        function, children = node.name, node.body
    elif isinstance(node, ast.AnnAssign):
        children = (node.value,)
    if isinstance(node, ast.expr):
        yield node, function
    for child in children:
        if child is not None:
            yield from _places(child, function)


def _never_runs(node: ast.AST) -> bool:
    """What is for type checkers and for `import *`."""
    if isinstance(node, ast.If):
        return isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
    return isinstance(node, ast.Assign) and any(
        isinstance(target, ast.Name) and target.id == "__all__" for target in node.targets
    )


def mutants_of(file: Path, text: str) -> list[list[Mutant]]:
    """What could be done to a module, by kind of mistake."""
    lines = text.encode().splitlines(keepends=True)
    begins = [0]
    for line in lines:
        begins.append(begins[-1] + len(line))
    kinds: list[list[Mutant]] = [[] for _ in MISTAKES]
    for node, function in _places(ast.parse(text)):
        assert node.end_lineno is not None and node.end_col_offset is not None
        start = begins[node.lineno - 1] + node.col_offset
        end = begins[node.end_lineno - 1] + node.end_col_offset
        source_line = lines[node.lineno - 1].decode().strip()
        for kind, mistake in zip(kinds, MISTAKES, strict=True):
            kind += [
                Mutant(
                    file, node.lineno, start, end, f"({ast.unparse(changed)})", name, function,
                    source_line,
                )
                for changed, name in mistake(node)
            ]  # fmt: skip
    return kinds


def drawn(package: str, count: int, seed: int) -> list[Mutant]:
    """Some of a package's, all kinds of mistakes alike, none twice on a line.

    Each has its place in the draw from its own text, so that a change elsewhere leaves it there.
    """
    kinds: list[list[Mutant]] = [[] for _ in MISTAKES]
    for file in sorted((ROOT / SOURCE / package).rglob("*.py")):
        text = file.read_text(encoding="utf-8")
        for all_of_kind, some in zip(kinds, mutants_of(file.relative_to(ROOT), text), strict=True):
            all_of_kind += some
    for kind in kinds:
        kind.sort(key=lambda mutant: mutant.lot(seed))
    taken: dict[str, Mutant] = {}
    while len(taken) < count and any(kinds):
        for kind in kinds:
            if kind and len(taken) < count:
                mutant = kind.pop()
                taken.setdefault(mutant.where, mutant)
    return sorted(taken.values(), key=lambda mutant: (mutant.file, mutant.start))


# --- the tests of a mistake ----------------------------------------------------------


def tests_of_package(package: str) -> set[str]:
    """The tests of a package; a package without any would have only survivors."""
    ways = REST.get(package, (f"tests/{package}/**/test_*.py",))
    files = {file.relative_to(ROOT).as_posix() for way in ways for file in ROOT.glob(way)}
    if not files:
        raise SystemExit(f"no tests found for the package {package}: {', '.join(ways)}")
    return files


def tests_of(mutant: Mutant) -> tuple[list[str], list[str]]:
    """Those that import the module or mention what it defines, and the package's others."""
    package = mutant.file.parts[2]
    module = ".".join(mutant.file.with_suffix("").parts[1:]).removesuffix(".__init__")
    tree = ast.parse((ROOT / mutant.file).read_text(encoding="utf-8"))
    kinds = ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef
    public = {node.name for node in tree.body if isinstance(node, kinds)}
    names = {name for name in {*public, mutant.function} if not name.startswith("_")} - {"main"}
    mentioned = re.compile(rf"\b(?:{'|'.join(map(re.escape, names)) or '(?!)'})\b")
    function = re.compile(rf"\b{re.escape(mutant.function or '(?!)')}\b")
    ranks: dict[str, tuple[int, str]] = {}
    others = tests_of_package(package)
    for file in (ROOT / "tests").rglob("test_*.py"):
        name, text = file.relative_to(ROOT).as_posix(), file.read_text(encoding="utf-8")
        imports = re.search(rf"\b{re.escape(module)}\b", text)
        if imports or (name in others and mentioned.search(text)):
            named = file.stem == f"test_{mutant.file.stem}"
            ranks[name] = (0 if named else 1 if function.search(text) else 2, name)
    near = [name for name in sorted(ranks, key=ranks.__getitem__) if not name.startswith(TOO_SLOW)]
    far = [name for name in sorted(others - set(near)) if not name.startswith(TOO_SLOW)]
    return near, far


@dataclass(frozen=True)
class Outcome:
    """The outcome of a mistake: `by` is the test that noticed it, empty if none did."""

    mutant: Mutant
    by: str
    tests: list[str]
    seconds: float


class Laboratory:
    """Copies of the tree in which mistakes are made; the tree itself is left alone."""

    def __init__(self, folder: Path, jobs: int, *, near: bool) -> None:
        self._near = near
        self._copies: queue.Queue[Path] = queue.Queue()
        skipped = shutil.ignore_patterns(
            ".*", "__pycache__", "node_modules", "build", "dist", "*.egg-info"
        )
        for job in range(jobs):
            shutil.copytree(ROOT, folder / str(job), ignore=skipped)
            self._copies.put(folder / str(job))

    def examine(self, mutant: Mutant) -> Outcome:
        """Make the mistake, run its tests, and take it back."""
        began = time.perf_counter()
        root = self._copies.get()
        file = root / mutant.file
        whole = file.read_bytes()
        try:
            _write(file, whole[: mutant.start] + mutant.text.encode() + whole[mutant.end :])
            noticed, used = "", []
            groups = [tests for tests in tests_of(mutant) if tests]
            for tests in groups[:1] if self._near else groups:
                if not noticed:
                    noticed, used = _first_failure(root, tests), tests
        finally:
            _write(file, whole)
            self._copies.put(root)
        name, is_test, _ = noticed.partition("::")
        return Outcome(mutant, noticed, [name] if is_test else used, time.perf_counter() - began)

    def pass_unchanged(self, tests: Sequence[str]) -> str:
        """What fails without any mistake; it must be nothing, or the tests prove nothing."""
        root = self._copies.get()
        try:
            return _first_failure(root, tests) if tests else ""
        finally:
            self._copies.put(root)


def _write(file: Path, content: bytes) -> None:
    file.write_bytes(content)
    for compiled in file.parent.glob(f"__pycache__/{file.stem}.*"):
        compiled.unlink()  # it is found stale by whole seconds only


def _first_failure(root: Path, tests: Sequence[str]) -> str:
    """The first test that fails, or what else went wrong; empty if all pass."""
    report = root / "report.txt"
    process = _SERVER.Process(target=_run_tests, args=(root, tests, report))
    process.start()
    process.join(10 * LIMIT_S)  # a test that waits forever uses no CPU time
    if process.exitcode is None or process.exitcode < 0:
        process.kill()
        process.join()
        return f"no end within {LIMIT_S} s"
    if process.exitcode == 0:
        return ""
    said = report.read_text(encoding="utf-8", errors="replace")
    failed = re.search(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", said, re.MULTILINE)
    return failed.group(1) if failed else f"pytest ended with {process.exitcode}"


_SERVER = multiprocessing.get_context("forkserver")  # where torch is imported once, not each time
_SERVER.set_forkserver_preload(["torch", "beartype"])  # plugins of pytest must come after it


_FOR_PAGES = "playwright"
"""A plugin that takes longer to import than most tests to run."""


def _run_tests(root: Path, tests: Sequence[str], report: Path) -> None:
    """In a separate process: the tests of this copy on the source of this copy."""
    with report.open("w", encoding="utf-8") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    resource.setrlimit(resource.RLIMIT_CPU, (LIMIT_S, LIMIT_S))
    os.chdir(root)
    os.environ["PYTHONPATH"] = str(root / "src")
    sys.path[:] = [str(root / "src"), str(root), *(way for way in sys.path if way)]
    for name in [name for name in sys.modules if name.partition(".")[0] == "tests"]:
        del sys.modules[name]  # this module, from the tree itself
    import pytest

    pages = any(re.search("explorer|render", test) for test in tests)
    plain = ["--exitfirst", "--quiet", "--tb=no", "-rfE", "-pno:cacheprovider", "-pno:xdist"]
    code = pytest.main([*plain, *([] if pages else [f"-pno:{_FOR_PAGES}"]), *tests])
    sys.stdout.flush()
    os._exit(int(code))


# --- the table -----------------------------------------------------------------------------------


def known_equivalents() -> dict[tuple[str, str, str], str]:
    """Mistakes that change nothing: file, source line and change, with the reason."""
    entries = tomllib.loads(KNOWN.read_text(encoding="utf-8")).get("equivalent", [])
    return {(one["file"], one["line"], one["change"]): one["why"] for one in entries}


def main() -> int:
    """Make the mistakes and print the outcomes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--count", type=int, default=110, help="mistakes, over all packages")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--part", default="1/1", help="2/4: the second quarter of them")
    parser.add_argument("--only", help="a package, or a part of a path")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--near", action="store_true", help="only tests that name the module")
    parser.add_argument("--list", action="store_true", help="print the mistakes, make none")
    wanted = parser.parse_args()
    each = -(-wanted.count // len(PACKAGES))
    mutants = [mutant for package in PACKAGES for mutant in drawn(package, each, wanted.seed)]
    mutants = [m for m in mutants if not wanted.only or f"/{wanted.only}" in m.where]
    if not mutants:
        parser.error(f"no package or path {wanted.only!r} in {SOURCE}: {', '.join(PACKAGES)}")
    part, parts = map(int, wanted.part.split("/"))
    mutants = mutants[part - 1 :: parts]
    if wanted.list:
        for mutant in mutants:
            print(f"{mutant.where:<55} {mutant.change:<28} {mutant.source_line}")  # noqa: T201
        return 0
    known = known_equivalents()
    tally: Counter[str] = Counter()
    killers: set[str] = set()
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(wanted.jobs) as pool:
        laboratory = Laboratory(Path(folder), wanted.jobs, near=wanted.near)
        for outcome in pool.map(laboratory.examine, mutants):
            mutant = outcome.mutant
            file = mutant.file.relative_to(SOURCE).as_posix()
            why = known.get((file, mutant.source_line, mutant.change))
            verdict = "killed" if outcome.by else "equivalent" if why else "SURVIVED"
            tally[verdict] += 1
            said = outcome.by or why or mutant.source_line
            if outcome.by:
                killers.update(outcome.tests)
            print(  # noqa: T201
                f"{verdict:<10} {outcome.seconds:5.0f} s  {mutant.where:<55} {mutant.change:<28}"
                f" {said}",
                flush=True,
            )
        broken = laboratory.pass_unchanged(sorted(killers))
    print(", ".join(f"{n} {verdict}" for verdict, n in tally.items()), f"of {len(mutants)}")  # noqa: T201
    if broken:
        print(f"but {broken} fails without any mistake, too: mend that first")  # noqa: T201
    return 1 if tally["SURVIVED"] or broken else 0


if __name__ == "__main__":
    sys.exit(main())
