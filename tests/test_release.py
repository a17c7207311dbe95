"""The release: metadata, third-party licences, the bill of materials."""

from __future__ import annotations

import http.server
import importlib.util
import json
import os
import re
import subprocess
import sys
import threading
import tomllib
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from fontTools.ttLib import TTFont

import glassformer
from glassformer.cli import app
from release import check, vulnerabilities
from release.components import BUNDLED, Component, bundled_packages, components
from release.sbom import bill

ROOT = Path(__file__).parent.parent
HOME = "https://github.com/glassformer/glassformer"
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


# --- licences ---


def test_the_licences_travel_with_the_wheel() -> None:
    assert [ROOT / file for file in PROJECT["license-files"]] == [ROOT / "LICENSE", BUNDLED]


def test_every_font_of_the_page_has_its_own_notice_and_licence() -> None:
    """According to the fonts themselves; the package also has them uncompressed."""
    text = " ".join(BUNDLED.read_text("utf-8").split())
    fonts = sorted((BUNDLED.parent / "assets").glob("*.woff2"))
    assert fonts
    for font in fonts:
        original = font.stem[:-9]  # the build appends a hash of eight characters
        file = ROOT / "web/node_modules/katex/dist/fonts" / f"{original}.ttf"
        notice = TTFont(file)["name"].getDebugName(13)
        *copyrights, reserved = notice.partition("\n\n")[0].splitlines()
        assert all(line in text for line in copyrights)
        name = reserved.removeprefix("with Reserved Font Name ").removesuffix(".")
        assert re.search(rf"with Reserved Font Names [\w, ]*\b{name}\b", text)
        assert "SIL Open Font License, Version 1.1" in notice
    assert "SIL OPEN FONT LICENSE Version 1.1" in text


def test_every_package_in_the_page_has_its_licence() -> None:
    """The page's build, which writes the file (`make web`), checks that the list is complete."""
    sections = re.split(r"^={70,}$", BUNDLED.read_text("utf-8"), flags=re.MULTILINE)[1:]
    named = bundled_packages()
    assert {"katex", "svelte"} <= set(named)
    assert len(sections) == len(named) + 1  # and the fonts
    for section in sections:
        assert "Copyright" in section
        assert "Permission is hereby granted" in section or "OPEN FONT LICENSE" in section


# --- the bill of materials, and known vulnerabilities ---


def test_the_bill_of_materials_has_every_pin() -> None:
    parts = components()
    document = bill(parts)
    assert (document["bomFormat"], document["specVersion"]) == ("CycloneDX", "1.6")
    there = {(one["name"], one["version"]): one for one in document["components"]}
    for line in (ROOT / "constraints.txt").read_text("utf-8").splitlines():
        name, _, version = line.partition("==")
        assert (re.sub(r"[-_.]+", "-", name).lower(), version) in there
    scopes = {part.name: part.scope for part in parts}
    assert scopes["torch"] == scopes["katex"] == "required"
    assert scopes["uvicorn"] == scopes["transformers"] == "optional"
    assert scopes["pytest"] == scopes["eslint"] == "excluded"
    references = [one["bom-ref"] for one in document["components"]]
    assert len(references) == len(set(references))
    known = {*references, document["metadata"]["component"]["bom-ref"]}
    for one in document["dependencies"]:
        assert {one["ref"], *one["dependsOn"]} <= known


def test_a_scope_in_a_name_is_escaped_in_its_url() -> None:
    part = Component("npm", "@eslint/js", "10.0.1", "excluded")
    assert part.purl == "pkg:npm/%40eslint/js@10.0.1"


@contextmanager
def answering(answer: Callable[[Any], Any]) -> Iterator[str]:
    """A local server in the place of the vulnerability database."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
            body = json.dumps(answer(asked)).encode()
            self.send_response(200)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


def test_known_vulnerabilities_are_printed_and_fail(capsys: pytest.CaptureFixture[str]) -> None:
    def answer(asked: Any) -> Any:
        results: list[Any] = [{} for _ in asked["queries"]]
        for at, query in enumerate(asked["queries"]):
            if query["package"]["purl"].startswith("pkg:npm/katex@"):
                results[at] = {"vulns": [{"id": "GHSA-1"}, {"id": "GHSA-2"}]}
        return {"results": results}

    with answering(answer) as address:
        assert vulnerabilities.main(address) == vulnerabilities.FOUND
    said = capsys.readouterr().out
    assert re.search(r"^katex \S+ \(npm, required\): GHSA-1, GHSA-2$", said, flags=re.MULTILINE)
    assert "1 with a known vulnerability" in said


def test_no_known_vulnerability_is_a_success(capsys: pytest.CaptureFixture[str]) -> None:
    with answering(lambda asked: {"results": [{} for _ in asked["queries"]]}) as address:
        assert vulnerabilities.main(address) == 0
    assert f"{len(components())} pinned versions, 0 with" in capsys.readouterr().out


def test_an_unreachable_database_is_not_a_success(capsys: pytest.CaptureFixture[str]) -> None:
    with answering(lambda _: {}) as address:
        pass
    assert vulnerabilities.main(address) == vulnerabilities.UNREACHABLE
    said = capsys.readouterr().out
    assert said.startswith("not checked: ") and said.count("\n") == 1


# --- metadata ---


@pytest.fixture
def long_description(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The metadata hook, without the builder that runs it."""
    interface = SimpleNamespace(MetadataHookInterface=object)
    monkeypatch.setitem(sys.modules, "hatchling.metadata.plugin.interface", interface)
    spec = importlib.util.spec_from_file_location("hook", ROOT / "release/long_description.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_links_and_images_of_the_long_description_are_absolute(
    long_description: ModuleType,
) -> None:
    hook = long_description.CustomMetadataHook()
    hook.root = str(ROOT)
    metadata: dict[str, Any] = {}
    hook.update(metadata)
    text = metadata["readme"]["text"]
    tag = f"v{glassformer.__version__}"
    readme = (ROOT / "README.md").read_text("utf-8")
    targets = re.findall(r"\]\(([^)\s]+)\)", text)
    assert len(targets) == len(re.findall(r"\]\(([^)\s]+)\)", readme)) > 20
    assert all(target.startswith("https://") for target in targets)
    raw = f"https://raw.githubusercontent.com/glassformer/glassformer/{tag}/docs/screenshots/"
    assert raw in text and f"]({HOME}/blob/{tag}/docs/trace.md)" in text
    assert f"]({HOME}/tree/{tag}/src/glassformer/tracing)" in text
    for address in targets:  # every file exists
        path = re.sub(
            r"^https://[^/]+/glassformer/glassformer/(?:(?:blob|tree)/)?v[\d.]+/", "", address
        )
        assert (ROOT / path).exists(), address


def test_absolute_links_are_unchanged(long_description: ModuleType) -> None:
    text = "[a](https://x.org/a) [b](#b) [![c](d.png)](e.md#f)"
    image = "https://raw.githubusercontent.com/glassformer/glassformer/v1/d.png"
    assert (
        long_description.with_absolute_links(text, ROOT, "v1")
        == f"[a](https://x.org/a) [b](#b) [![c]({image})]({HOME}/blob/v1/e.md#f)"
    )


def test_the_url_of_the_project_is_the_same_everywhere() -> None:
    assert PROJECT["urls"]["Homepage"] == HOME
    assert all(url.startswith(HOME) for url in PROJECT["urls"].values())
    citation = (ROOT / "CITATION.cff").read_text("utf-8")
    assert f"repository-code: {HOME}\n" in citation
    assert f"version: {glassformer.__version__}\n" in citation


def test_the_extra_all_contains_every_other() -> None:
    extras = dict(PROJECT["optional-dependencies"])
    (everything,) = extras.pop("all")
    assert sorted(re.findall(r"[a-z0-9]+", everything.partition("[")[2])) == sorted(extras)


def test_errors_name_the_extra_that_installs_a_package() -> None:
    extras = PROJECT["optional-dependencies"]
    optional = {re.split("[>=[]", one)[0] for needed in extras.values() for one in needed}
    for file in [*(ROOT / "src").rglob("*.toml"), *(ROOT / "src").rglob("*.py")]:
        for command in re.findall(r"pip install ([^\"。）):;]+)", file.read_text("utf-8")):
            named = re.match(r"'glassformer\[(\w+)\]'", command)
            assert named is None or named[1] in extras, command
            assert named is not None or optional.isdisjoint(command.lower().split()), command


def test_the_changelog_has_this_version_and_says_what_is_stable() -> None:
    text = (ROOT / "CHANGELOG.md").read_text("utf-8")
    _, _, section = text.partition(f"## {glassformer.__version__}\n")
    assert "stable" in section.partition("\n## ")[0]


# --- the check before a release ---


def made_wheel(folder: Path, readme: str, *names: str) -> Path:
    head = "Metadata-Version: 2.4\nName: glassformer\nProject-URL: Homepage, https://x.org\n\n"
    wheel = folder / "glassformer-1-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as opened:
        opened.writestr("glassformer-1.dist-info/METADATA", head + readme)
        for name in names:
            opened.writestr(name, "")
    return wheel


WHOLE = (
    "glassformer/py.typed",
    "glassformer/explorer/static/index.html",
    "glassformer-1.dist-info/licenses/LICENSE",
    "glassformer-1.dist-info/licenses/src/THIRD_PARTY_LICENSES.txt",
)


def test_a_complete_wheel_has_no_problem(tmp_path: Path) -> None:
    assert check.wheel_problems(made_wheel(tmp_path, "[a](https://x.org) [b](#b)", *WHOLE)) == []


@pytest.mark.parametrize("missing", WHOLE)
def test_missing_files_of_a_wheel_are_reported(missing: str, tmp_path: Path) -> None:
    names = [name for name in WHOLE if name != missing]
    (problem,) = check.wheel_problems(made_wheel(tmp_path, "", *names))
    assert problem.startswith("not in the wheel: ") and Path(missing).name in problem


def test_stray_files_in_a_wheel_are_reported(tmp_path: Path) -> None:
    made = made_wheel(tmp_path, "![a](docs/a.webp)", *WHOLE, "tests/test_a.py", "glassformer/a.pyc")
    assert check.wheel_problems(made) == [
        "in the wheel: tests/test_a.py",
        "in the wheel: glassformer/a.pyc",
        "a relative link in the long description: docs/a.webp",
    ]


def test_every_command_has_a_smoke_test() -> None:
    smoked = {smoke.command.split()[1] for smoke in check.SMOKES}
    commands = set(app) - {"--help", "-h", "--version"}
    assert commands - smoked == {"explore"}  # it is started and interrupted


def test_the_network_can_be_blocked_but_not_this_machine(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(check.NO_NETWORK, encoding="utf-8")
    program = """
import socket
with socket.create_server(("127.0.0.1", 0)) as server:
    socket.create_connection(server.getsockname()).close()
for ask in (
    lambda: socket.create_connection(("192.0.2.1", 80)),
    lambda: socket.socket().connect(("192.0.2.1", 80)),
    lambda: socket.getaddrinfo("pypi.org", 443),
):
    try:
        ask()
    except OSError as error:
        print(error)
"""
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True
    )
    assert done.stdout.splitlines() == [
        "the network is blocked: 192.0.2.1",
        "the network is blocked: 192.0.2.1",
        "the network is blocked: pypi.org",
    ], done.stderr
