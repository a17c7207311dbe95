"""Downloading a corpus from a local server: complete and checked, or not at all."""

import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from glassformer.data import corpora
from glassformer.data.corpora import cache_folder, obtain
from glassformer.errors import DataError

ADDRESS = corpora.CORPORA["shakespeare"].addresses["lm/tinyshakespeare.txt"]


class Silent(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the base's name
        pass


@pytest.fixture
def mirror(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder served by a local server."""
    folder = tmp_path / "mirror"
    (folder / ADDRESS).parent.mkdir(parents=True)
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Silent, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    monkeypatch.setenv("GLASSFORMER_MIRROR", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.delenv("GLASSFORMER_DATA")
    yield folder
    server.shutdown()
    server.server_close()
    thread.join()


def test_a_corpus_is_downloaded_once_and_checked(mirror: Path, made_data: Path) -> None:
    text = (made_data / "lm/tinyshakespeare.txt").read_bytes()
    (mirror / ADDRESS).write_bytes(text)
    assert obtain("shakespeare").file("lm/tinyshakespeare.txt").read_bytes() == text
    (mirror / ADDRESS).unlink()
    assert obtain("shakespeare").folder == cache_folder() / "data"


@pytest.mark.parametrize("content", [b"To be, or not to bee", None])
def test_damaged_or_missing_files_are_named_and_not_kept(
    mirror: Path, content: bytes | None
) -> None:
    if content is not None:
        (mirror / ADDRESS).write_bytes(content)
    with pytest.raises(DataError, match=r"cannot download lm/tinyshakespeare.txt of shakespeare"):
        obtain("shakespeare")
    assert not (cache_folder() / "data/lm/tinyshakespeare.txt").exists()


def test_a_corpus_without_an_address_is_not_downloaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GLASSFORMER_DATA")
    with pytest.raises(DataError, match="data set imdb not found"):
        obtain("imdb")
