"""Release check: build, inspect, install into an empty environment, run every command.

    make release-check

Builds the sdist, and the wheel from the sdist, in a separate folder; checks both (`twine check`,
required and forbidden files); installs the wheel into an empty environment; runs a smoke test of
every command there, from an empty folder and without a network. Prints a table of commands and exit
codes, and fails if one is not as expected.
"""

import argparse
import http.client
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
import venv
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from email.parser import HeaderParser
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

ROOT = Path(__file__).parents[1]
TOOLS = ("build==1.6.1", "hatchling==1.33.0", "twine==7.0.0")
LICENSES = ("LICENSE", "THIRD_PARTY_LICENSES.txt")
STRAY = re.compile(r"(^|/)(tests?|web|benchmarks|node_modules|__pycache__|runs)/|\.pyc$|\.env$")

# A sitecustomize module, which Python imports first: connections to other machines fail.
NO_NETWORK = """
import ipaddress
import socket

_connect, _find = socket.socket.connect, socket.getaddrinfo


def _is_here(host):
    if host in (None, "", "localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def connect(self, address):
    if self.family in (socket.AF_INET, socket.AF_INET6) and not _is_here(address[0]):
        raise OSError(f"the network is blocked: {address[0]}")
    return _connect(self, address)


def getaddrinfo(host, *others, **named):
    if not _is_here(host.decode() if isinstance(host, bytes) else host):
        raise socket.gaierror(f"the network is blocked: {host}")
    return _find(host, *others, **named)


socket.socket.connect = socket.socket.connect_ex = connect
socket.getaddrinfo = getaddrinfo
"""
ASKS_FOR_THE_NETWORK = "import urllib.request as u; u.urlopen('https://pypi.org', timeout=20)"
TEXT = "the cat sat on the mat and the dog sat on the log\n" * 60


@dataclass(frozen=True)
class Smoke:
    """A command and its expected exit code."""

    command: str
    expected: int = 0


# {text} is a file to train on. Commands that need something missing fail with one line.
SMOKES = (
    Smoke("glassformer --version"),
    Smoke("glassformer --help"),
    Smoke("glassformer models"),
    Smoke("glassformer recipes"),
    Smoke("glassformer recipes imdb"),
    Smoke("glassformer data"),
    Smoke("glassformer data shakespeare", 1),
    Smoke("glassformer describe vaswani_2017_base"),
    Smoke("glassformer run toy 'I am not happy'"),
    Smoke("glassformer run imdb 'A wonderful film.'"),
    Smoke("glassformer run en-de 'A dog runs.'"),
    Smoke("glassformer run en-zh 'Where is the station?'"),
    Smoke("glassformer run shakespeare 'To be' --max-new 5"),
    Smoke("glassformer run nothing 'A text'", 2),
    Smoke("glassformer explain toy 'I am not happy' --at 'logits[0,1]'"),
    Smoke("glassformer explain toy 'I am not happy' --words"),
    Smoke("glassformer experiment words toy 'I am not happy'"),
    Smoke("glassformer experiment sweep toy 'I am not happy' --over head"),
    Smoke("glassformer experiment nothing toy 'I am'", 2),
    Smoke("glassformer trace toy 'I am not happy' -o toy.html"),
    Smoke("glassformer trace toy 'I am not happy' -o toy.xlsx"),
    Smoke("glassformer lesson by-hand --to html -o lesson.html"),
    Smoke("glassformer lesson by-hand -o slides.pdf"),
    Smoke("glassformer lesson by-hand --to worksheet -o worksheet.html"),
    Smoke("glassformer exercise scores -o scores.py"),
    Smoke("glassformer exercise scores scores.py", 1),
    Smoke("glassformer audit by-hand", 1),
    Smoke("glassformer claims C31"),
    Smoke("glassformer train text --text {text} --out run --loop.steps 4 --loop.watch true"),
    Smoke("glassformer train text --text {text} --out run --loop.steps 6 --resume"),
    Smoke("python -m glassformer.training text --text {text} --out other --loop.steps 2"),
    Smoke("glassformer run run/model 'the cat' --max-new 3"),
    Smoke("glassformer evaluate run/model --split validation"),
    Smoke("glassformer export toy --to onnx -o toy-onnx"),
    Smoke("glassformer export en-de --to hf -o german-hf"),
    Smoke("glassformer run german-hf 'A dog runs.'"),
    Smoke("glassformer run german-hf '3 17 5' --ids"),
    Smoke("glassformer trace german-hf 'A dog runs.' -o foreign.json"),
    Smoke("glassformer nothing", 2),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--extras", default="all", help="of the wheel to install; 'none' for none")
    parser.add_argument("--folder", type=Path, help="where to work; default: a temporary folder")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="glassformer-release-") as temporary:
        folder = given.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        wheel, problems = built(folder)
        if problems:
            sys.exit("\n".join(problems))
        python = installed(wheel, folder, "" if given.extras == "none" else f"[{given.extras}]")
        sys.exit(not smoke_tests(python, folder))


def environment(folder: Path) -> Path:
    """Make an empty virtual environment; returns its Python."""
    venv.create(folder, with_pip=True)
    scripts = "Scripts" if os.name == "nt" else "bin"
    return folder / scripts / "python"


def built(folder: Path) -> tuple[Path, list[str]]:
    """The wheel, built from the sdist, and the problems of both."""
    tools = environment(folder / "tools")
    call(tools, "-m", "pip", "install", "--quiet", *TOOLS)
    dist = folder / "dist"
    shutil.rmtree(dist, ignore_errors=True)
    call(tools, "-m", "build", "--no-isolation", "--outdir", str(dist), str(ROOT))
    (wheel,), (sdist,) = dist.glob("*.whl"), dist.glob("*.tar.gz")
    call(tools, "-m", "twine", "check", "--strict", str(wheel), str(sdist))
    print(f"built {wheel.name} ({wheel.stat().st_size / 2**20:.1f} MiB) and {sdist.name}")
    return wheel, [*wheel_problems(wheel), *sdist_problems(sdist)]


def wheel_problems(wheel: Path) -> list[str]:
    """Missing and stray files, and links that do not work on PyPI."""
    with zipfile.ZipFile(wheel) as opened:
        names = opened.namelist()
        (metadata,) = (name for name in names if name.endswith(".dist-info/METADATA"))
        text = opened.read(metadata).decode()
    said = HeaderParser().parsestr(text)
    problems = [f"in the wheel: {name}" for name in names if STRAY.search(name)]
    problems += [
        f"not in the wheel: {license_}"
        for license_ in LICENSES
        if not any("/licenses/" in name and name.endswith(license_) for name in names)
    ]
    for needed in ("glassformer/py.typed", "glassformer/explorer/static/index.html"):
        if needed not in names:
            problems.append(f"not in the wheel: {needed}")
    relative = re.findall(r"\]\((?!https?://|#)([^)]+)\)", str(said.get_payload()))
    problems += [f"a relative link in the long description: {link}" for link in relative]
    if not said.get_all("Project-URL"):
        problems.append("the metadata names no project URL")
    return problems


def sdist_problems(sdist: Path) -> list[str]:
    """Files missing from a source distribution."""
    with tarfile.open(sdist) as opened:
        names = {name.partition("/")[2] for name in opened.getnames()}
    needed = ("LICENSE", "README.md", "CHANGELOG.md", "CITATION.cff", "SECURITY.md")
    return [f"not in the sdist: {name}" for name in needed if name not in names]


def installed(wheel: Path, folder: Path, extras: str) -> Path:
    """The Python of an environment with the wheel and its dependencies."""
    python = environment(folder / "empty")
    constraints = ROOT / "constraints.txt"
    call(python, "-m", "pip", "uninstall", "--yes", "--quiet", "glassformer")  # an earlier check's
    call(
        python,
        *("-m", "pip", "install", "--quiet", "--no-compile", "--constraint", str(constraints)),
        f"{wheel}{extras}",
    )
    call(python, "-m", "pip", "check")
    return python


def smoke_tests(python: Path, folder: Path) -> bool:
    """Run every command without a network; returns whether all exit codes are as expected."""
    (folder / "blocked").mkdir(exist_ok=True)
    (folder / "blocked/sitecustomize.py").write_text(NO_NETWORK, encoding="utf-8")
    (folder / "text.txt").write_text(TEXT, encoding="utf-8")
    cwd = folder / "nowhere"
    shutil.rmtree(cwd, ignore_errors=True)
    cwd.mkdir()
    environ = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTHON", "GLASSFORMER", "VIRTUAL_ENV"))
    }
    environ |= {
        "PYTHONPATH": str(folder / "blocked"),
        "PATH": f"{python.parent}{os.pathsep}{os.environ['PATH']}",
        "XDG_CACHE_HOME": str(folder / "cache"),
        "HOME": str(folder),
    }
    rows: list[tuple[str, int, int, float, str]] = []

    def note(shown: str, expected: int, run: Callable[[], tuple[int, str]]) -> None:
        began = time.perf_counter()
        code, said = run()
        rows.append((shown, code, expected, time.perf_counter() - began, said))
        print(_row(*rows[-1][:4]), flush=True)

    def run(words: Sequence[str]) -> tuple[int, str]:
        program = [str(python.parent / words[0]), *words[1:]]
        done = subprocess.run(
            program, cwd=cwd, env=environ, capture_output=True, text=True, encoding="utf-8"
        )
        return done.returncode, done.stderr

    print(_row("command", "exit", "expected", "seconds"))
    note("(the network is blocked)", 1, lambda: run(["python", "-c", ASKS_FOR_THE_NETWORK]))
    for smoke in SMOKES:
        words = shlex.split(smoke.command.format(text=shlex.quote(str(folder / "text.txt"))))
        note(smoke.command.format(text="text.txt"), smoke.expected, partial(run, words))
    shown = "glassformer explore --no-open, its page, a trace, Ctrl-C"
    note(shown, 130, lambda: explore(python, cwd, environ))
    bad = [row for row in rows if row[1] != row[2] or (row[1] and "Traceback" in row[4])]
    bad = [row for row in bad if row[0] != "(the network is blocked)" or row[1] != 1]
    for command, code, expected, _, said in bad:
        print(f"{command}: exit code {code}, not {expected}\n{said[-2000:]}")
    print(f"{len(rows)} commands, {len(bad)} not as expected")
    return not bad


def explore(python: Path, cwd: Path, environ: dict[str, str]) -> tuple[int, str]:
    """Start the explorer, request its page and a trace, interrupt it."""
    process = subprocess.Popen(
        [str(python.parent / "glassformer"), "explore", "--no-open", "--port", "0"],
        cwd=cwd,
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A background job ignores Ctrl-C, and children inherit that.
        preexec_fn=_allow_interrupts if os.name == "posix" else None,
    )
    try:
        assert process.stdout is not None
        host = urlsplit(process.stdout.readline().strip()).netloc
        line = http.client.HTTPConnection(host, timeout=120)
        head = {"Content-Type": "application/json"}
        for method, path, body in (
            ("GET", "/", None),
            ("GET", "/THIRD_PARTY_LICENSES.txt", None),
            ("POST", "/api/traces", '{"model": "toy", "text": "I am not happy"}'),
        ):
            line.request(method, path, body, head if body else {})
            answer = line.getresponse()
            answer.read()
            if answer.status >= 300:
                return answer.status, f"{method} {path}"
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
        return process.returncode, said
    finally:
        process.kill()
        process.wait()


def _allow_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _row(command: str, code: object, expected: object, seconds: object) -> str:
    shown = f"{seconds:.1f}" if isinstance(seconds, float) else str(seconds)
    return f"{command:<84} {code!s:>5} {expected!s:>9} {shown:>8}"


def call(python: Path, *arguments: str) -> None:
    """Run Python in an environment; exits if it fails."""
    done = subprocess.run(
        [str(python), *arguments], capture_output=True, text=True, encoding="utf-8"
    )
    if done.returncode:
        sys.exit(f"{' '.join(arguments[:3])} failed:\n{done.stdout[-3000:]}{done.stderr[-3000:]}")


if __name__ == "__main__":
    main()
