"""The explorer as its users have it: a live server on this machine, and Chromium in front of it.

The server runs in a thread of the test process, on the shipped models and on a free port, so that
tests can look into its state. A page on which anything goes wrong fails its test: a console error,
an exception, a request that leaves the origin.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import BrowserContext, ConsoleMessage, Page, Request, expect
from starlette.testclient import TestClient

from benchmarks.chromium import chromium
from glassformer.explorer.api import create_api
from glassformer.explorer.security import Access, Guard
from glassformer.explorer.server import prepare
from glassformer.explorer.state import State

AXE = Path(__file__).parents[2] / "web" / "node_modules" / "axe-core" / "axe.min.js"
PATIENCE = 180_000
"""Milliseconds until a page that does not show what it should has failed. A machine that does ten
things beside the tests takes long; only a test that fails waits."""
expect.set_options(timeout=PATIENCE)


@dataclass(frozen=True)
class Live:
    """A running server and what it holds."""

    address: str
    state: State


@pytest.fixture(scope="session")
def live() -> Iterator[Live]:
    """The explorer on the shipped models."""
    state = State()
    serving = prepare(lambda: create_api(state), port=0)
    serving.start()
    yield Live(serving.address, state)
    serving.stop()


@pytest.fixture(scope="session")
def held() -> State:
    """What a server without a page holds."""
    return State()


@pytest.fixture(scope="session")
def client(held: State) -> Iterator[TestClient]:
    """The API behind its guard, without a browser; a fault of the server fails the test."""
    app = Guard(create_api(held), Access())
    with TestClient(app, base_url="http://localhost") as opened:
        yield opened


@pytest.fixture(scope="session")
def browser_type_launch_args() -> dict[str, Any]:
    """Chromium; it does not start as root with its sandbox."""
    program = chromium()
    if program is None:
        pytest.fail("the tests of the page need Chromium: `make test` installs it as root")
    return {
        "executable_path": program,
        "args": ["--no-sandbox", "--disable-background-networking", "--disable-gpu"],
    }


@pytest.fixture(scope="session")
def browser_context_args() -> dict[str, Any]:
    """A desktop with a light English page; `@pytest.mark.browser_context_args(…)` changes it."""
    return {
        "viewport": {"width": 1440, "height": 900},
        "locale": "en-GB",
        "color_scheme": "light",
        "reduced_motion": "reduce",
    }


@pytest.fixture
def expected_problems() -> list[str]:
    """Parts of console messages that a test brings about on purpose: it appends them."""
    return []


@pytest.fixture
def origins(live: Live) -> set[str]:
    """Whom a page may ask; a test with a server of its own adds it."""
    return {urlsplit(live.address).netloc}


@pytest.fixture
def page(
    context: BrowserContext, origins: set[str], expected_problems: list[str]
) -> Iterator[Page]:
    """A page that may not fail in silence, nor ask anyone but the server."""
    problems: list[str] = []

    def on_console(message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            problems.append(f"console {message.type}: {message.text}")

    def on_request(request: Request) -> None:
        parts = urlsplit(request.url)
        if parts.scheme not in ("data", "blob") and parts.netloc not in origins:
            problems.append(f"left the origin: {request.url}")

    context.on("console", on_console)
    context.on("weberror", lambda error: problems.append(f"exception: {error.error}"))
    context.on("request", on_request)
    opened = context.new_page()
    opened.set_default_timeout(PATIENCE)
    yield opened
    surprises = [one for one in problems if not any(part in one for part in expected_problems)]
    assert not surprises, "\n".join(surprises)


Visit = Callable[[str], Page]


@pytest.fixture
def visit(page: Page, live: Live) -> Visit:
    """Open a link of the page, such as `#/toy?text=I am not happy`, and wait until it is there."""

    def go(link: str = "") -> Page:
        page.goto(live.address + link)
        page.locator("main").wait_for()  # a function would be refused by the content policy
        return page

    return go


@pytest.fixture
def axe() -> Callable[[Page], list[str]]:
    """What axe-core finds wrong on a page: one line each."""
    source = AXE.read_text(encoding="utf-8")

    def check(page: Page) -> list[str]:
        if not page.evaluate("'axe' in globalThis"):  # half a megabyte of JavaScript
            page.evaluate(source)
        found: list[dict[str, Any]] = page.evaluate("axe.run().then((found) => found.violations)")
        return [
            f"{one['id']}: {one['help']} ({node['target']}: {node['failureSummary']})"
            for one in found
            for node in one["nodes"]
        ]

    return check
