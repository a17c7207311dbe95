"""`glassformer explore`: its address, its port, what it refuses, what it answers first."""

import json
import os
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from glassformer.cli import run


@contextmanager
def started(*arguments: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "glassformer", "explore", "--no-open", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    assert process.stdout is not None and process.stderr is not None
    try:
        yield process.stdout.readline().strip(), process
    finally:
        process.terminate()
        process.wait(60)
        process.stdout.close()
        process.stderr.close()


def taken_port() -> socket.socket:
    taken = socket.socket()
    taken.bind(("127.0.0.1", 0))
    taken.listen()
    return taken


def test_it_prints_its_address_and_answers_there() -> None:
    with started("--model", "toy", "--port", "0") as (address, _):
        with urllib.request.urlopen(address, timeout=60) as page:
            assert page.status == 200 and b"<html" in page.read()
        with urllib.request.urlopen(f"{address}api/models", timeout=60) as answer:
            assert [card["name"] for card in json.load(answer)] == ["toy"]


def test_an_address_that_others_can_reach_needs_its_token() -> None:
    with started("--model", "toy", "--host", "0.0.0.0", "--port", "0") as (address, _):
        plain, _, token = address.partition("?token=")
        port = plain.rstrip("/").rpartition(":")[2]
        assert len(token) >= 32
        here = f"http://127.0.0.1:{port}/api/models"
        with pytest.raises(urllib.error.HTTPError, match="403"):
            urllib.request.urlopen(here, timeout=60)
        asked = urllib.request.Request(here, headers={"Authorization": f"Bearer {token}"})
        with urllib.request.urlopen(asked, timeout=60) as answer:
            assert answer.status == 200


def test_a_port_that_was_asked_for_and_is_taken(capsys: pytest.CaptureFixture[str]) -> None:
    with taken_port() as taken:
        port = taken.getsockname()[1]
        assert run(["explore", "--no-open", "--port", str(port)]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"glassformer: cannot listen on 127.0.0.1:{port}: ")
    assert said.count("\n") == 1


def test_the_next_port_is_taken_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    from glassformer.explorer import server

    with taken_port() as taken:
        monkeypatch.setattr(server, "DEFAULT_PORT", taken.getsockname()[1])
        prepared = server.prepare(lambda: None)  # type: ignore[arg-type, return-value]
        assert prepared.port != taken.getsockname()[1]
        prepared.stop()


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["--model", "tyo"], 2, "did you mean 'toy'?"),
        (["--port", "80000"], 2, "a port is a number from 0 to 65535, got 80000"),
        (["--model", "/nowhere/at/all"], 1, "there is no model folder"),
        (["--host", "no.such.host.invalid"], 2, "cannot listen on no.such.host.invalid"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(
    arguments: list[str], code: int, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["explore", "--no-open", *arguments]) == code
    said = capsys.readouterr().err
    assert says in said and said.count("\n") == 1


def test_without_its_packages_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    monkeypatch.delitem(sys.modules, "glassformer.explorer.server", raising=False)
    assert run(["explore", "--no-open"]) == 1
    said = capsys.readouterr().err
    assert "the explorer needs uvicorn" in said and "pip install 'glassformer[explorer]'" in said
