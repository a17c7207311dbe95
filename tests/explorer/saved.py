"""Reading a saved page without a browser."""

from __future__ import annotations

import base64
import json
import re
import zlib
from typing import Any


def data_of(page: str) -> dict[str, Any]:
    """The data of a page, its chunks unpacked."""
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert found
    data: dict[str, Any] = json.loads(found[1])
    data["trace"] = unpacked(data["trace"])
    data["steps"] = {int(number): unpacked(chunk) for number, chunk in data["steps"].items()}
    return data


def unpacked(chunk: str) -> Any:
    return json.loads(zlib.decompress(base64.b64decode(chunk)))


def step_names(data: dict[str, Any]) -> dict[str, Any]:
    """What the file knows about each of its steps, by name."""
    steps = data["trace"]["trace"]["steps"]
    return {steps[number]["name"]: chunk for number, chunk in data["steps"].items()}
