"""Python programs in processes of their own, forked from one that has imported torch.

To import it takes most of the time of a short program. Nothing of ours is imported before the
fork: a program that forgets an import fails here as it does for its users.
"""

import multiprocessing
import os
import runpy
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType

__all__ = ["SERVER", "run_python"]

SERVER = multiprocessing.get_context("forkserver")
# An optimiser imports torch._dynamo.
SERVER.set_forkserver_preload(["torch._dynamo", "tokenizers", "safetensors.torch", "rich.console"])


def run_python(
    *arguments: str,
    folder: Path | None = None,
    environment: Mapping[str, str] = os.environ,
    seconds: float = 600,
) -> subprocess.CompletedProcess[str]:
    """Run `python ARGUMENTS`: `-m MODULE …`, `-c CODE …` or `FILE …`; warnings may be errors."""
    with tempfile.TemporaryDirectory() as written:
        out, err = (Path(written) / name for name in ("out", "err"))
        place = os.fspath(folder or Path.cwd())
        child = SERVER.Process(target=_run, args=(arguments, place, dict(environment), out, err))
        child.start()
        child.join(seconds)
        if child.exitcode is None:
            child.kill()
            child.join()
            raise TimeoutError(f"python {' '.join(arguments)[:200]} did not end in {seconds} s")
        said = [file.read_text(encoding="utf-8", errors="replace") for file in (out, err)]
        return subprocess.CompletedProcess(arguments, child.exitcode, *said)


def _run(
    arguments: tuple[str, ...], folder: str, environment: dict[str, str], out: Path, err: Path
) -> None:
    for descriptor, file in ((1, out), (2, err)):
        os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), descriptor)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", encoding="utf-8", closefd=False, buffering=1)  # noqa: SIM115
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    warnings.resetwarnings()
    if arguments[:2] == ("-W", "error"):
        warnings.simplefilter("error")
        arguments = arguments[2:]
    kind, *rest = arguments
    if kind == "-m":
        sys.argv, sys.path[0:0] = rest, [folder]
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    elif kind == "-c":
        sys.argv, sys.path[0:0] = ["-c", *rest[1:]], [""]
        main = sys.modules["__main__"] = ModuleType("__main__")
        exec(compile(rest[0], "<string>", "exec"), main.__dict__)
    else:
        sys.argv, sys.path[0:0] = [kind, *rest], [os.fspath(Path(kind).parent)]
        runpy.run_path(kind, run_name="__main__")
