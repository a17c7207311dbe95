"""Reading and writing `tokenizer.json`: always UTF-8, written whole or not at all.

This file does not know what is in a tokenizer's JSON, only that it is one object.
"""

import json
import os
from contextlib import suppress
from os import PathLike
from pathlib import Path
from typing import Any

from glassformer.errors import CheckpointError

__all__ = ["read_object", "write_atomically"]


def write_atomically(path: str | PathLike[str], content: str | bytes) -> None:
    """Write a text or bytes under a temporary name beside `path`, then rename it."""
    target = Path(path)
    # In the same folder, since a rename across file systems is not atomic; with the process id,
    # since two processes may save at once.
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        # Encoded here: the same bytes on every system, line ends included.
        temporary.write_bytes(content.encode("utf-8") if isinstance(content, str) else content)
        temporary.replace(target)
    except OSError as error:
        raise CheckpointError(f"cannot write {target}: {error.strerror}") from error
    finally:
        with suppress(OSError):  # renamed already, or never made
            temporary.unlink()


def read_object(path: str | PathLike[str]) -> dict[str, Any]:
    """The JSON object in a file, or one clear line."""
    try:
        data = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise CheckpointError(f"cannot read {path}: {error.strerror}") from error
    # RecursionError: brackets nested thousands deep, which no tokenizer has.
    except (ValueError, RecursionError) as error:
        raise CheckpointError(
            f"{path} is damaged or not a tokenizer.json: expected JSON in UTF-8, received {error}"
        ) from error
    if not isinstance(data, dict):
        raise CheckpointError(f"{path} is not a tokenizer.json: expected a JSON object")
    return data
