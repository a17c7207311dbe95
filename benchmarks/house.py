"""How large the house is, and how far a reader walks in it: `make house`.

    python -m benchmarks.house              # sizes, repeated names, five walks of data
    python -m benchmarks.house --json FILE  # the same as data
    python -m benchmarks.house --beside FILE  # with the figures of an earlier commit beside ours
    python -m benchmarks.house --list "audit by-hand"  # a walk's functions, in order

A walk is one thing that a user does. It runs in a process of its own under a profile, which counts
the functions of ours that are entered, the files they stand in and the deepest stack of our frames,
once what is imported on first use has been imported. `hops`: our frames from the function of the
command to the model's first forward pass.
"""

from __future__ import annotations

import argparse
import ast
import json
import statistics
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import NamedTuple

SOURCE = Path(__file__).parent.parent / "src" / "glassformer"

WALKS = {
    "trace(model, ids)": """
model, ids = small()
trace(model, ids)
with counted(): trace(model, ids)
""",
    "trace(…)[…].explain()": """
model, ids = small()
recorded = trace(model, ids)
step = next(s for s in recorded.steps if s.name.endswith("scores"))
recorded[step.name][(0,) * len(step.shape)].explain()
with counted(): recorded[step.name][(0,) * len(step.shape)].explain()
""",
    "page: a sentence": """
client = page()
client.post("/api/traces", json={"model": "toy", "text": "I am happy"})
with counted(): client.post("/api/traces", json={"model": "toy", "text": "I am not happy"})
""",
    "page: a step": """
client = page()
made = client.post("/api/traces", json={"model": "toy", "text": "I am not happy"}).json()
place = f"/api/traces/{made['id']}/steps/{scores(made)}/equation"
client.get(place)
with counted(): client.get(place)
""",
    "page: a card": """
client = page()
made = client.post("/api/traces", json={"model": "toy", "text": "I am not happy"}).json()
place = f"/api/traces/{made['id']}/cell?step={scores(made)}&index=0,0,1,2"
client.get(place)
with counted(): answer = client.get(place)
assert answer.status_code == 200, answer.text
""",
    "run en-de, the command": """
with counted(): command("run", "en-de", "A dog runs.")
""",
    "run en-de, from the task on": """
import glassformer
model = glassformer.load("en-de")
model.translate(["A dog barks."])
with counted(): model.translate(["A dog runs."])
""",
    "train text, 4 steps": """
text = Path("words.txt")
text.write_text("the cat sat on the mat and looked at the moon\\n" * 60)
hops()
with counted():
    command("train", "text", "--text", str(text), "--out", "run", "--loop.steps", "4")
""",
    "train imdb-small, 4 steps": """
import os
sys.path.insert(0, ROOT)
from tests.training.made import make_data, registered  # small files in the layout of IMDb
from glassformer.data import corpora
make_data(Path("data"))
corpora.CORPORA.update(registered(Path("data")))
os.environ |= {"GLASSFORMER_DATA": "data", "GLASSFORMER_CACHE": "cache"}
hops()
with counted():
    command("train", "imdb-small", "--out", "run", "--loop.steps", "4", "--loop.device", "cpu")
""",
    "audit by-hand": """
with counted(): command("audit", "by-hand")
""",
}

_PRELUDE = """
import contextlib, inspect, io, json, sys, threading
from pathlib import Path

SOURCE = {source!r}
ROOT = {root!r}
entered, deepest, n_hops = {}, 0, 0
model_file = None

def profile(frame, event, arg):
    global deepest, n_hops
    code = frame.f_code
    if event != "call" or not code.co_filename.startswith(SOURCE): return
    if code.co_flags & inspect.CO_OPTIMIZED and not code.co_name.startswith("<"):  # a def
        entered[code.co_filename[len(SOURCE) + 1 :], code.co_qualname] = code.co_firstlineno
    depth, at = 0, frame
    while at is not None:
        depth += at.f_code.co_filename.startswith(SOURCE)
        at = at.f_back
    deepest = max(deepest, depth)
    if model_file and not n_hops and frame.f_code.co_name == "forward":
        at, names = frame.f_back, []
        while at is not None:
            file = at.f_code.co_filename
            if file.startswith(SOURCE) and not file.endswith(("__main__.py", "cli/__init__.py")):
                names.append(at.f_code.co_qualname)
            at = at.f_back
        n_hops = len(names)

@contextlib.contextmanager
def counted():
    threading.setprofile(profile); sys.setprofile(profile)
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            yield
    finally:
        sys.setprofile(None); threading.setprofile(None)

def command(*argv):
    import runpy
    sys.argv = ["glassformer", *argv]
    try: runpy.run_module("glassformer", run_name="__main__")
    except SystemExit as stop:
        # An audit that finds a wrong number ends with 1.
        assert stop.code in (None, 0) or argv[0] == "audit" and stop.code == 1, stop.code

def hops():
    global model_file
    model_file = True

def trace(*args):
    import glassformer
    return glassformer.trace(*args)

def small():
    import torch
    from glassformer.nn import build, presets
    torch.manual_seed(0)
    config = presets.gpt2(vocab_size=20, d_model=16, n_heads=2, n_layers=1, max_len=8)
    return build(config).eval(), torch.tensor([[1, 2, 3]])

def page():
    from starlette.testclient import TestClient
    from glassformer.explorer.api import create_api
    from glassformer.explorer.state import State
    return TestClient(create_api(State()), base_url="http://localhost")

def scores(made):
    steps = made["steps"]
    return next(i for i, s in enumerate(steps) if s["name"].endswith("attention.scores"))

"""

_CODA = """
places = [[*function, line] for function, line in entered.items()]
print(json.dumps({"entered": places, "deepest": deepest, "hops": n_hops}))
"""


class Walk(NamedTuple):
    """What happened on a walk."""

    entered: list[tuple[str, str]]
    """Functions of ours as (file, name), in the order in which they were first entered."""
    lines: list[int]
    """Where each of them begins."""
    deepest: int
    hops: int

    @property
    def figures(self) -> dict[str, int]:
        """What the table shows."""
        files = {file for file, _ in self.entered}
        counts = {"functions": len(self.entered), "files": len(files), "deepest": self.deepest}
        return counts | ({"hops": self.hops} if self.hops else {})


def walk(name: str) -> Walk:
    """One walk in a process of its own."""
    program = (
        _PRELUDE.replace("{source!r}", repr(str(SOURCE))).replace(
            "{root!r}", repr(str(SOURCE.parent.parent))
        )
        + WALKS[name]
        + _CODA
    )
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-c", program], cwd=folder, capture_output=True, text=True, check=False
        )
    if done.returncode:
        raise SystemExit(f"the walk {name!r} failed:\n{done.stderr}")
    found = json.loads(done.stdout.splitlines()[-1])
    entered = [(file, name) for file, name, _ in found["entered"]]
    lines = [line for _, _, line in found["entered"]]
    return Walk(entered, lines, found["deepest"], found["hops"])


def _is_face(node: ast.stmt) -> bool:
    """Whether a statement is an import or `__all__`: needed, but nothing that a reader came for."""
    if isinstance(node, ast.If):
        return ast.unparse(node.test) == "TYPE_CHECKING" and all(map(_is_face, node.body))
    targets = node.targets if isinstance(node, ast.Assign) else []
    return isinstance(node, ast.Import | ast.ImportFrom) or any(
        ast.unparse(target) == "__all__" for target in targets
    )


def sizes() -> dict[str, object]:
    """Files, lines and names of the source."""
    files = sorted(SOURCE.rglob("*.py"))
    lines, packages, faces = [], Counter[str](), 0
    classes: Counter[str] = Counter()
    for file in files:
        text = file.read_text(encoding="utf-8")
        tree = ast.parse(text)
        n_lines = len(text.splitlines())
        lines.append(n_lines)
        packages[file.relative_to(SOURCE).parts[0].removesuffix(".py")] += n_lines
        faces += sum((n.end_lineno or 0) - n.lineno + 1 for n in tree.body if _is_face(n))
        classes.update(n.name for n in tree.body if isinstance(n, ast.ClassDef))
    modules = Counter(f.stem for f in files if f.stem not in ("__init__", "__main__"))
    return {
        "files": len(files),
        "lines": sum(lines),
        "median file": statistics.median(lines),
        "files under 50 lines": sum(n < 50 for n in lines),
        "imports and __all__, % of lines": round(100 * faces / sum(lines), 1),
        "repeated module names": sum(n > 1 for n in modules.values()),
        "repeated class names": sum(n > 1 for n in classes.values()),
        "lines by package": dict(packages.most_common()),
    }


def _rows(figures: dict[str, dict[str, object]]) -> list[tuple[str, str]]:
    sized = figures["sizes"]
    rows = [(name, f"{value:,}") for name, value in sized.items() if not isinstance(value, dict)]
    packages = sized["lines by package"]
    assert isinstance(packages, dict)
    rows += [(f"lines of {name}", f"{n:,}") for name, n in packages.items()]
    for name, found in figures["walks"].items():
        assert isinstance(found, dict)
        rows.append((name, ", ".join(f"{n} {what}" for what, n in found.items())))
    return rows


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--beside", type=Path, help="figures of another commit, to show first")
    parser.add_argument("--list", choices=WALKS, help="only this: the functions of one walk")
    options = parser.parse_args()
    if options.list:
        taken = walk(options.list)
        for (file, name), line in zip(taken.entered, taken.lines, strict=True):
            print(f"{file}:{line}: {name}")
        return
    figures: dict[str, dict[str, object]] = {
        "sizes": sizes(),
        "walks": {name: walk(name).figures for name in WALKS},
    }
    if options.json:
        options.json.write_text(json.dumps(figures, indent=2, ensure_ascii=False) + "\n")
    before = dict(_rows(json.loads(options.beside.read_text()))) if options.beside else {}
    for name, value in _rows(figures):
        middle = f"{before.get(name, '-'):<40}  " if before else ""
        print(f"{name:<36} {middle}{value}")


if __name__ == "__main__":
    main()
