"""Untrusted files: bounded, one-line errors, no parser exceptions; ours: written atomically."""

import errno
import json
import os
import stat
import sys
import threading
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file, save, save_file

from glassformer.errors import CheckpointError, DataError, GlassformerError
from glassformer.files import (
    TensorEntry,
    as_path,
    open_regular,
    parse_object,
    read_bytes,
    read_object,
    read_tensor_entries,
    try_lock,
    write_whole,
)

# --- paths ---


@pytest.mark.parametrize("path", [None, 5, b"a", "", "a\0b", ["a"]])
def test_anything_but_a_path_is_refused_in_one_line(path: Any) -> None:
    with pytest.raises(CheckpointError, match="a model folder must be given by a path") as caught:
        as_path(path, CheckpointError, "a model folder")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("path", ["a", "凛冬", Path("a/b")])
def test_a_path_is_a_path(path: Any) -> None:
    assert as_path(path, CheckpointError) == Path(path)


# --- reading ---


def test_a_pipe_and_a_device_are_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "zero").symlink_to("/dev/zero")
    for name in ("pipe", "zero"):
        with pytest.raises(CheckpointError, match="it is not a regular file"):
            read_bytes(tmp_path / name, error=CheckpointError)
    with pytest.raises(OSError, match="null"):
        open_regular(Path("a\0b"))


def test_a_link_to_a_regular_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "there").write_bytes(b'{"a": 1}')
    (tmp_path / "link").symlink_to(tmp_path / "there")
    assert read_object(tmp_path / "link", error=CheckpointError) == {"a": 1}


def test_a_file_may_not_be_larger_than_asked(tmp_path: Path) -> None:
    file = tmp_path / "a"
    file.write_bytes(b"x" * 10)
    assert read_bytes(file, error=DataError, most=10) == b"x" * 10
    with pytest.raises(DataError, match="larger than 9 bytes"):
        read_bytes(file, error=DataError, most=9)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"[" * 100_000, "nested more than 100 levels deep"),
        (b'{"a":' * 100_000, "nested more than 100 levels deep"),
        (b'{"a":' * 500 + b"1" + b"}" * 500, "nested more than 100 levels deep"),
        (b"[1]", "expected a JSON object, got list"),
        (b"5", "expected a JSON object, got int"),
        (b"", "expected JSON in UTF-8"),
        (b"\xff{}", "expected JSON in UTF-8"),
        (b'{"a": ' + b"9" * 5000 + b"}", "expected JSON in UTF-8"),
        (b'{"a": [' + b"[]," * 3_000_000 + b"1]}", "more than 6,000,000 values"),
    ],
    ids=lambda case: str(case)[:12],
)
def test_anything_but_an_object_is_refused_in_one_line(data: bytes, message: str) -> None:
    with pytest.raises(CheckpointError, match=message) as caught:
        parse_object(data, "a.json", error=CheckpointError)
    assert str(caught.value).startswith("a.json is ")
    assert "\n" not in str(caught.value)


def test_duplicate_keys_and_nan_come_as_python_reads_them() -> None:
    found = parse_object(b'{"a": 1, "a": NaN}', "a.json", error=CheckpointError)
    assert found["a"] != found["a"]


@given(st.binary(max_size=60))
def test_any_bytes_are_an_object_or_one_line(data: bytes) -> None:
    try:
        assert isinstance(parse_object(data, "it", error=DataError), dict)
    except DataError as error:
        assert "\n" not in str(error)


# --- the header of safetensors ---


def _file(header: Any, body: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + body


def test_the_header_says_what_the_library_reads(tmp_path: Path) -> None:
    tensors = {
        "a": torch.zeros(2, 3),
        "b": torch.zeros(0, dtype=torch.bfloat16),
        "c": torch.zeros((), dtype=torch.int64),
    }
    save_file(tensors, tmp_path / "a.safetensors", metadata={"format": "pt"})
    assert read_tensor_entries(tmp_path / "a.safetensors", error=CheckpointError) == {
        "a": TensorEntry("F32", (2, 3)),
        "b": TensorEntry("BF16", (0,)),
        "c": TensorEntry("I64", ()),
    }


ENTRY = {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}
HOSTILE = {
    "empty": b"",
    "a header of 2^64 bytes": b"\xff" * 8 + b"{}",
    "a header longer than the file": (100).to_bytes(8, "little") + b"{}",
    "no header": (0).to_bytes(8, "little"),
    "a list": _file([]),
    "a tensor that is a list": _file({"a": []}),
    "no shape": _file({"a": {"dtype": "F32", "data_offsets": [0, 4]}}, b"0000"),
    "a negative size": _file({"a": ENTRY | {"shape": [-1]}}, b"0000"),
    "a fractional size": _file({"a": ENTRY | {"shape": [1.0]}}, b"0000"),
    "a size beyond counting": _file({"a": ENTRY | {"shape": [2**80]}}, b"0000"),
    "a product beyond the file": _file({"a": ENTRY | {"shape": [2**40, 2**40]}}, b"0000"),
    "offsets of another size": _file({"a": ENTRY | {"data_offsets": [0, 8]}}, b"00000000"),
    "offsets beyond the file": _file({"a": ENTRY | {"data_offsets": [4, 8]}}, b"0000"),
    "bytes that belong to nothing": _file({"a": ENTRY}, b"00000000"),
    "an unknown dtype": _file({"a": ENTRY | {"dtype": "F1"}}, b"0000"),
    "a dtype that is a list": _file({"a": ENTRY | {"dtype": ["F32"]}}, b"0000"),
    "a million axes": _file({"a": ENTRY | {"shape": [2**62] * 100_000}}, b"0000"),
    "nested without end": _file(b"[" * 100_000),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_header_is_one_line(name: str, tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(HOSTILE[name])
    with pytest.raises(CheckpointError, match=r"model\.safetensors") as caught:
        read_tensor_entries(path, error=CheckpointError)
    assert "\n" not in str(caught.value)


@given(data=st.data())
def test_a_changed_byte_of_a_header_is_no_exception_of_python_s(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    whole = bytearray(save({"a": torch.ones(2, 3), "b": torch.ones(4)}))
    for _ in range(data.draw(st.integers(1, 3))):
        whole[data.draw(st.integers(0, 120))] = data.draw(st.integers(0, 255))
    path = tmp_path_factory.mktemp("flipped") / "a.safetensors"
    path.write_bytes(whole)
    try:
        entries = read_tensor_entries(path, error=CheckpointError)
    except CheckpointError:
        return
    try:  # what we take, the library reads alike, or it finds more amiss than we look for
        read = load_file(path)
    except Exception:  # its errors are its own
        return
    assert {name: tuple(t.shape) for name, t in read.items()} == {
        name: entry.shape for name, entry in entries.items()
    }


# --- writing ---


def test_a_new_file_has_the_mode_of_the_umask_and_a_replaced_one_keeps_its_own(
    tmp_path: Path,
) -> None:
    plain = tmp_path / "plain"
    plain.touch()
    new = write_whole(tmp_path / "new", "凛\n")
    assert stat.S_IMODE(new.stat().st_mode) == stat.S_IMODE(plain.stat().st_mode)
    assert new.read_bytes() == "凛\n".encode()
    new.chmod(0o640)
    assert stat.S_IMODE(write_whole(new, b"again").stat().st_mode) == 0o640
    assert sorted(file.name for file in tmp_path.iterdir()) == ["new", "plain"]


def test_the_longest_name_that_the_system_allows(tmp_path: Path) -> None:
    assert write_whole(tmp_path / ("x" * 255), "a").read_text("utf-8") == "a"


@pytest.mark.parametrize("name", ["missing/a", "a\0b", "x" * 300])
def test_what_cannot_be_written_is_an_os_error_that_names_it(name: str, tmp_path: Path) -> None:
    with pytest.raises(OSError) as caught:
        write_whole(tmp_path / name, "a")
    assert caught.value.filename == str(tmp_path / name)
    assert caught.value.strerror
    assert not isinstance(caught.value, GlassformerError)
    assert list(tmp_path.iterdir()) == []


def test_a_pipe_or_a_folder_is_not_replaced_by_a_file(tmp_path: Path) -> None:
    """Nor is a device: `-o /dev/null` as root would end the device."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    for name, reason in (("pipe", "not a regular file"), ("folder", "[Dd]irectory")):
        with pytest.raises(OSError, match=reason) as caught:
            write_whole(tmp_path / name, "a")
        assert caught.value.filename == str(tmp_path / name)
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["folder", "pipe"]


def test_a_mode_that_cannot_be_set_is_no_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    file = write_whole(tmp_path / "a", "old")
    monkeypatch.setattr(Path, "chmod", refuse)
    assert write_whole(file, "new").read_text("utf-8") == "new"


def test_many_threads_may_write_one_file(tmp_path: Path) -> None:
    """The umask belongs to the process: nobody may change it, not even for a moment."""
    path, contents = tmp_path / "a", [letter * 1000 for letter in "abcdefgh"]
    threads = [threading.Thread(target=write_whole, args=(path, text)) for text in contents]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert path.read_text("utf-8") in contents
    assert list(tmp_path.iterdir()) == [path]


# --- locks ---


class FakeMsvcrt(ModuleType):
    """Windows' byte locks: one holder per byte of a file, named by its handle."""

    LK_NBLCK = 2

    def __init__(self) -> None:
        super().__init__("msvcrt")
        self.holders: dict[tuple[int, int], int] = {}

    def locking(self, handle: int, mode: int, n_bytes: int) -> None:
        assert (mode, n_bytes) == (self.LK_NBLCK, 1)
        byte = (os.fstat(handle).st_ino, os.lseek(handle, 0, os.SEEK_CUR))
        if self.holders.setdefault(byte, handle) != handle:
            raise PermissionError(errno.EACCES, "Permission denied")


@pytest.mark.parametrize("system", [sys.platform, "win32"])
def test_one_open_file_at_a_time_holds_the_lock(
    system: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", system)
    monkeypatch.setitem(sys.modules, "msvcrt", FakeMsvcrt())
    lock = tmp_path / ".lock"
    lock.write_bytes(b"12345")
    with lock.open("ab") as one, lock.open("ab") as other, (tmp_path / "else").open("ab") as third:
        assert [try_lock(opened) for opened in (one, other, third, one)] == [
            "us",
            "another",
            "us",
            "us",
        ]
        one.write(b"6")
    assert lock.read_bytes() == b"123456"


@pytest.mark.parametrize("system", [sys.platform, "win32"])
def test_without_locks_the_holder_is_unknown(
    system: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    fake = FakeMsvcrt()
    monkeypatch.setattr(fake, "locking", refuse)
    monkeypatch.setattr(sys, "platform", system)
    monkeypatch.setitem(sys.modules, "msvcrt", fake)
    monkeypatch.setattr("fcntl.flock", refuse)
    with (tmp_path / ".lock").open("ab") as opened:
        assert try_lock(opened) == "unknown"
