"""Token stores: exact round trips, and nothing else is read by mistake."""

import errno
import fcntl
import json
import platform
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glassformer.data import token_store
from glassformer.data.token_store import TokenStore, key_of, prepared_folder, write_store
from glassformer.errors import DataError
from glassformer.files import try_lock

SEQUENCES = [[1, 2, 3], [], [7], [4, 5]]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_store(tmp_path, "s", SEQUENCES, vocab_size=10, key="k")
    return tmp_path


@settings(max_examples=30)
@given(
    sequences=st.lists(st.lists(st.integers(0, 69_999), max_size=9), max_size=9),
    vocab_size=st.sampled_from([70_000, 2**16 + 1]),
)
def test_every_sequence_comes_back(
    tmp_path_factory: pytest.TempPathFactory, sequences: list[list[int]], vocab_size: int
) -> None:
    kept = [[id_ % vocab_size for id_ in sequence] for sequence in sequences]
    where = tmp_path_factory.mktemp("store")
    write_store(where, "s", kept, vocab_size=vocab_size, key="k")
    store = TokenStore(where, "s", key="k")
    assert [store[i].tolist() for i in range(len(store))] == kept
    assert store.lengths.tolist() == [len(sequence) for sequence in kept]


@pytest.mark.parametrize(("vocab_size", "dtype"), [(2**16, "uint16"), (2**16 + 1, "uint32")])
def test_ids_are_as_wide_as_the_vocabulary_needs(
    tmp_path: Path, vocab_size: int, dtype: str
) -> None:
    write_store(tmp_path, "s", [[vocab_size - 1]], vocab_size=vocab_size, key="k")
    store = TokenStore(tmp_path, "s", key="k")
    assert store.ids.dtype == dtype
    assert store[0].tolist() == [vocab_size - 1]
    assert store[0].dtype == np.int64


def test_rows_are_padded_on_the_right(folder: Path) -> None:
    rows = TokenStore(folder, "s", key="k").padded(np.array([3, 1, 0]), pad_id=9, width=4)
    assert rows.tolist() == [[4, 5, 9, 9], [9, 9, 9, 9], [1, 2, 3, 9]]


@pytest.mark.parametrize("ids", [[[10]], [[-1]]])
def test_an_id_outside_the_vocabulary_is_refused(tmp_path: Path, ids: list[list[int]]) -> None:
    with pytest.raises(DataError, match="expected ids below 10"):
        write_store(tmp_path, "s", ids, vocab_size=10, key="k")


def test_a_store_of_other_data_is_refused(folder: Path) -> None:
    with pytest.raises(DataError, match="made from other data or another tokenizer"):
        TokenStore(folder, "s", key="another")


def test_a_truncated_file_is_refused(folder: Path) -> None:
    file = folder / "s.ids"
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(
        DataError, match=r"s\.ids is damaged: expected 12 bytes, got 11; delete its folder"
    ):
        TokenStore(folder, "s", key="k")


@pytest.mark.parametrize(("field", "value"), [("dtype", "float32"), ("format", 2)])
def test_a_foreign_dtype_or_format_is_refused(folder: Path, field: str, value: object) -> None:
    file = folder / "s.json"
    file.write_text(json.dumps(json.loads(file.read_text("utf-8")) | {field: value}), "utf-8")
    with pytest.raises(DataError, match="a token store that this version cannot read"):
        TokenStore(folder, "s", key="k")


def test_a_store_without_its_header_is_incomplete(folder: Path) -> None:
    (folder / "s.json").unlink()
    with pytest.raises(DataError, match=r"cannot read .*s\.json"):
        TokenStore(folder, "s", key="k")


def test_a_key_depends_on_every_part() -> None:
    parts = {"data": {"a": "1"}, "vocab_size": 10}
    assert key_of(parts) == key_of(dict(reversed(parts.items())))
    assert len({key_of(parts), key_of(parts | {"vocab_size": 11}), key_of({})}) == 3


def test_a_prepared_folder_is_written_once_and_atomically(tmp_path: Path) -> None:
    calls = []

    def write(folder: Path) -> None:
        calls.append(folder)
        (folder / "x").write_text("1", encoding="utf-8")
        if len(calls) == 1:
            raise OSError(28, "No space left on device")

    with pytest.raises(DataError, match="No space left on device"):
        prepared_folder("k", write, tmp_path)
    assert list(tmp_path.iterdir()) == []
    assert prepared_folder("k", write, tmp_path) == prepared_folder("k", write, tmp_path)
    assert len(calls) == 2
    assert [file.name for file in tmp_path.iterdir()] == ["k"]


def test_an_error_of_ours_passes_through_unchanged(tmp_path: Path) -> None:
    def write(_folder: Path) -> None:
        raise DataError("line 3 has no tab")

    with pytest.raises(DataError, match=r"^line 3 has no tab$"):
        prepared_folder("k", write, tmp_path)


def test_a_cache_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("", encoding="utf-8")
    with pytest.raises(DataError, match="cannot write to"):
        prepared_folder("k", lambda folder: None, file / "cache")


# A writer in a separate process, which prints where it writes and waits to be killed.
_WRITER = """
import sys, time
from pathlib import Path
from glassformer.data.token_store import prepared_folder
def write(folder):
    (folder / "x").write_text("half", encoding="utf-8")
    print(folder.name, flush=True)
    time.sleep(600)
prepared_folder(sys.argv[1], write, sys.argv[2])
"""


def test_remains_of_a_killed_writer_are_removed_and_those_of_a_living_one_are_not(
    tmp_path: Path,
) -> None:
    def whole(folder: Path) -> None:
        (folder / "x").write_text("whole", encoding="utf-8")

    writer = subprocess.Popen(
        [sys.executable, "-c", _WRITER, "killed", str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert writer.stdout is not None
        half = tmp_path / writer.stdout.readline().strip()
        assert prepared_folder("another", whole, tmp_path).name == "another"
        assert (half / "x").read_text("utf-8") == "half"
    finally:
        writer.kill()
        writer.communicate()
    assert (half / "x").is_file()
    made = prepared_folder("killed", whole, tmp_path)
    assert (made / "x").read_text("utf-8") == "whole"
    assert sorted(file.name for file in tmp_path.iterdir()) == ["another", "killed"]


def test_of_two_writers_of_one_folder_the_first_to_finish_wins(tmp_path: Path) -> None:
    def write(folder: Path, text: str) -> None:
        (folder / "x").write_text(text, encoding="utf-8")

    def slow(folder: Path) -> None:
        prepared_folder("k", lambda other: write(other, "quick"), tmp_path)
        write(folder, "slow")

    made = prepared_folder("k", slow, tmp_path)
    assert (made / "x").read_text("utf-8") == "quick"
    assert [file.name for file in tmp_path.iterdir()] == ["k"]


def test_without_locks_nothing_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    left = tmp_path / f".k.{token_store._machine()}.abc.filling"
    left.mkdir()
    with monkeypatch.context() as patch:
        patch.setattr(token_store, "try_lock", lambda _: "unknown")
        prepared_folder("one", lambda folder: None, tmp_path)
    assert left.is_dir()
    prepared_folder("two", lambda folder: None, tmp_path)
    assert not left.exists()


def test_a_folder_that_another_machine_is_filling_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its lock may not be visible here (Lustre with localflock, NFS with nolock)."""

    def write(folder: Path) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(platform, "node", lambda: "another")
            patch.setattr(token_store, "try_lock", lambda _: "us")
            prepared_folder("here", lambda other: None, tmp_path)
        (folder / "x").write_text("whole", encoding="utf-8")

    assert (prepared_folder("there", write, tmp_path) / "x").read_text("utf-8") == "whole"


def test_on_a_file_system_without_locks_the_holder_is_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    with (tmp_path / "x").open("ab") as one, (tmp_path / "x").open("ab") as other:
        assert (try_lock(one), try_lock(other)) == ("us", "another")
        monkeypatch.setattr(fcntl, "flock", none)
        assert try_lock(other) == "unknown"
