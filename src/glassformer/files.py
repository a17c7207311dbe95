"""Untrusted files, read within limits; our own files, written atomically; file locks.

A model folder or a run may come from anyone. So nothing here opens a pipe or a device, reads more
than the caller allows, or lets a parser's own exception out: an unusable file is one line in the
exception type that the caller names. Knows JSON and the header of safetensors, not what they mean.
"""

import errno
import json
import math
import os
import stat
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, BinaryIO, Literal, NamedTuple, TypeGuard

from glassformer.errors import Fragment, GlassformerError

MOST_JSON = 16 * 2**20
"""Limit on the bytes of a JSON file, unless a caller expects more."""
_MOST_VALUES = 6_000_000  # 72 bytes each at most once parsed: with the text itself, half a GiB
_MOST_DEPTH = 100  # the JSON of a config or a tokenizer is less than 10 deep
_MOST_HEADER = 32 * 2**20  # bytes: a tensor takes about 100
_TMP = ".tmp"

ErrorType = type[GlassformerError]


def as_path(path: str | os.PathLike[str], error: ErrorType, what: str = "a file") -> Path:
    """A path given by a caller, checked; `what` it leads to is named in error messages."""
    if not isinstance(path, str | os.PathLike):
        raise error(
            "{what} must be given by a path, got {kind}", what=what, kind=type(path).__name__
        )
    name = os.fspath(path)
    if not isinstance(name, str) or not name or "\0" in name:
        raise error(
            "{what} must be given by a path without NUL characters, got {name!r:.60}",
            what=what,
            name=name,
        )
    return Path(name)


def open_regular(path: Path) -> BinaryIO:
    """Open a regular file for reading; a pipe or a device, which may never end, is an OSError."""
    # O_NONBLOCK: to open a pipe would otherwise wait for its writer. Windows has no such flag.
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    try:
        handle = os.open(path, flags)
    except ValueError as error:  # an embedded NUL
        raise OSError(errno.EINVAL, str(error)) from None
    try:
        if stat.S_ISDIR(mode := os.fstat(handle).st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, "it is not a regular file")
        return os.fdopen(handle, "rb")
    except BaseException:
        os.close(handle)
        raise


@contextmanager
def os_errors_as(error: ErrorType, template: str, **fields: object) -> Iterator[None]:
    """Raise an OSError inside, unless it is ours, as `error`; {reason} is the system's."""
    try:
        yield
    except OSError as failure:
        if isinstance(failure, GlassformerError):
            raise
        raise error(template, **fields, reason=failure.strerror or failure) from failure


def read_bytes(path: Path, *, error: ErrorType, most: int = MOST_JSON) -> bytes:
    """The content of a regular file of at most `most` bytes."""
    with os_errors_as(error, "cannot read {path}: {reason}", path=path), open_regular(path) as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise error(
            "{path} is larger than {most:,} bytes, the limit for such a file",
            path=path,
            most=most,
        )
    return data


def read_object(
    path: Path, *, error: ErrorType, most: int = MOST_JSON, what: str = "a JSON object"
) -> dict[str, Any]:
    """The JSON object in an untrusted file; error messages call it `what`."""
    return parse_object(read_bytes(path, error=error, most=most), path, error=error, what=what)


def parse_object(
    data: bytes, where: object, *, error: ErrorType, what: str = "a JSON object"
) -> dict[str, Any]:
    """Untrusted bytes parsed as a JSON object, limited in size and depth."""

    def damaged(reason: str, **fields: object) -> GlassformerError:
        return _damaged(error, where, what, reason, **fields)

    # Counted before parsing: `[[],[],…` takes 24 times as much memory as it has bytes.
    if sum(map(data.count, (b",", b"[", b"{"))) > _MOST_VALUES:
        raise damaged("it holds more than {most:,} values", most=_MOST_VALUES)
    try:
        found = json.loads(data.decode("utf-8-sig"))
        too_deep = _is_deeper(found, _MOST_DEPTH)
    except RecursionError:
        too_deep = True
    except json.JSONDecodeError as failure:
        raise damaged(
            "expected JSON in UTF-8, got a mistake in line {line}, column {column}: {failure}",
            line=failure.lineno,
            column=failure.colno,
            failure=failure.msg,
        ) from None
    except ValueError as failure:  # of the decoder, of a number of 5,000 digits
        raise damaged("expected JSON in UTF-8: {failure}", failure=failure) from None
    if too_deep:
        raise damaged("nested more than {most} levels deep", most=_MOST_DEPTH)
    if not isinstance(found, dict):
        raise damaged("expected a JSON object, got {kind}", kind=type(found).__name__)
    return found


def _damaged(
    error: ErrorType, where: object, what: str, reason: str, **fields: object
) -> GlassformerError:
    return error(
        "{where} is damaged or not {what}: {reason}",
        where=where,
        what=what,
        reason=Fragment.of(reason, **fields),
    )


def _is_deeper(value: object, most: int) -> bool:
    """Whether lists and objects are nested more than `most` deep, found without recursion."""
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(most):
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, dict | list)
        ]
        if not level:
            return False
    return True


class TensorEntry(NamedTuple):
    """What the header of a safetensors file says of one tensor."""

    dtype: str
    shape: tuple[int, ...]


def read_tensor_entries(path: Path, *, error: ErrorType) -> dict[str, TensorEntry]:
    """The tensors that a safetensors file lists, read from its header alone.

    Checks the length of the file and of each tensor against the header; the library checks the rest
    (overlaps, gaps) when it reads the numbers.
    """
    what = "a safetensors file"
    with os_errors_as(error, "cannot read {path}: {reason}", path=path), open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        length = int.from_bytes(file.read(8), "little")
        if not 2 <= length <= min(size - 8, _MOST_HEADER):
            reason = "its header should have {length:,} bytes, the file has {size:,}; copy it again"
            raise _damaged(error, path, what, reason, length=length, size=size)
        head = file.read(length)
    header = parse_object(head, path, error=error, what=what)
    header.pop("__metadata__", None)
    entries = {name: _entry(path, name, item, error) for name, item in header.items()}
    end = max((item["data_offsets"][1] for item in header.values()), default=0)
    if end != size - 8 - length:
        reason = "its tensors end after {end:,} bytes, but it has {there:,}; copy it again"
        raise _damaged(error, path, what, reason, end=end, there=size - 8 - length)
    return entries


_MOST_AXES = 64
_BITS = {"BOOL": 8, "U8": 8, "I8": 8, "U16": 16, "I16": 16, "F16": 16, "BF16": 16, "U32": 32}
_BITS |= {"I32": 32, "F32": 32, "U64": 64, "I64": 64, "F64": 64}


def _entry(path: Path, name: str, item: object, error: ErrorType) -> TensorEntry:
    entry: Mapping[str, object] = item if isinstance(item, Mapping) else {}
    dtype, shape, offsets = (entry.get(key) for key in ("dtype", "shape", "data_offsets"))
    what = "a safetensors file"
    if not (_are_sizes(shape) and _are_sizes(offsets) and len(offsets) == 2):
        reason = "{name!r:.60} needs a shape of at most {most} axes and two offsets"
        raise _damaged(error, path, what, reason, name=name, most=_MOST_AXES)
    if not isinstance(dtype, str) or dtype not in _BITS:
        reason = "{name!r:.60} has the dtype {dtype!r:.20}; expected one of {known}"
        raise _damaged(error, path, what, reason, name=name, dtype=dtype, known=", ".join(_BITS))
    if math.prod(shape) * _BITS[dtype] != 8 * (offsets[1] - offsets[0]):
        reason = "{name!r:.60} has a size that does not match its shape {shape!r:.40}"
        raise _damaged(error, path, what, reason, name=name, shape=shape)
    return TensorEntry(dtype, tuple(shape))


def _are_sizes(value: object) -> TypeGuard[list[int]]:
    return (
        isinstance(value, list)
        and len(value) <= _MOST_AXES
        and all(type(n) is int and 0 <= n < 2**63 for n in value)
    )


def write_whole(path: str | os.PathLike[str], content: str | bytes) -> Path:
    """Write a file atomically: to a temporary file beside it, synced to disk, then renamed.

    Text is written as UTF-8, line ends unchanged. A replaced file keeps its mode. Any failure is an
    OSError that names the target and leaves the old content in place.
    """
    target = Path(path)
    data = content.encode("utf-8") if isinstance(content, str) else content
    # In the same folder, since a rename across file systems is not atomic. Each writer has its own
    # name, and a short one: the target's may be as long as the system allows.
    temporary = target.with_name(f".{os.urandom(8).hex()}{_TMP}")
    try:
        mode = _mode_of(target)
        with temporary.open("xb") as opened:  # its mode follows from the user's umask
            opened.write(data)
            opened.flush()
            os.fsync(opened.fileno())
        if mode is not None:
            with suppress(OSError):  # some file systems have no modes
                temporary.chmod(mode)
        temporary.replace(target)
    except OSError as error:
        raise OSError(error.errno, error.strerror or str(error), str(target)) from None
    except ValueError as error:  # an embedded NUL
        raise OSError(errno.EINVAL, str(error), str(target)) from None
    finally:
        with suppress(OSError, ValueError):  # renamed already, or never made
            temporary.unlink()
    return target


def _mode_of(target: Path) -> int | None:
    """The mode of the file to be replaced; None if there is none yet."""
    try:
        mode = target.stat().st_mode
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(mode):  # a rename would replace a device or a pipe by a file
        raise OSError(errno.EINVAL, "it is not a regular file")
    return stat.S_IMODE(mode)


@contextmanager
def replaced_folder(target: Path) -> Iterator[Path]:
    """A folder to fill, renamed to `target` if the block succeeds: a reader never finds half of it.

    A folder that was there before is kept until the new one is complete.
    """
    # Compressors and random numbers: imported above, they take a tenth of every command's start.
    from shutil import rmtree
    from tempfile import mkdtemp

    target.parent.mkdir(parents=True, exist_ok=True)
    work = Path(mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    try:
        yield work
        work.chmod(0o755)  # mkdtemp makes it private
        if target.exists():
            old = Path(mkdtemp(prefix=f".{target.name}.old.", dir=target.parent))
            _put_aside_and_rename(work, target, old)
            rmtree(old, ignore_errors=True)
        else:
            work.rename(target)
    finally:
        rmtree(work, ignore_errors=True)


def _put_aside_and_rename(work: Path, target: Path, old: Path) -> None:
    target.rename(old / "model")
    try:
        work.rename(target)
    except OSError:
        (old / "model").rename(target)  # fails if another process has put its own there
        old.rmdir()
        raise


def remove_half_written(folder: Path) -> None:
    """Remove temporary files left by a killed `write_whole`; nobody may be writing there now."""
    for left in folder.glob(f".*{_TMP}"):
        with suppress(OSError):
            left.unlink()


LockHolder = Literal["us", "another", "unknown"]

_LOCKED_BYTE = 2**30  # on Windows nobody else can read or write it, so it is one that no file has


def try_lock(opened: IO[Any]) -> LockHolder:
    """Lock a file that is open for writing until it is closed; returns who holds the lock now.

    The system releases the lock when the process ends, however it ends, so a killed process blocks
    nobody. Some network file systems have no locks: there the holder is unknown.
    """
    try:
        if sys.platform == "win32":
            import msvcrt

            position = opened.seek(0, os.SEEK_CUR)
            opened.seek(_LOCKED_BYTE)
            try:
                msvcrt.locking(opened.fileno(), msvcrt.LK_NBLCK, 1)
            finally:
                opened.seek(position)
        else:
            import fcntl

            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return "another"
    except OSError:  # a file system without locks
        return "unknown"
    return "us"
