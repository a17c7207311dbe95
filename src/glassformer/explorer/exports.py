"""What is on the screen as a file: the page itself, or what the trace's renderers make."""

from __future__ import annotations

import re
from typing import Any

from glassformer.documents import render
from glassformer.errors import TraceError
from glassformer.explorer.opened import OpenTrace
from glassformer.explorer.schemas import ExportRequest
from glassformer.explorer.snapshot import page_of

__all__ = ["MEDIA_TYPES", "export_file", "file_name"]

MEDIA_TYPES = {
    "md": "text/markdown; charset=utf-8",
    "tex": "application/x-tex; charset=utf-8",
    "html": "text/html; charset=utf-8",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    "json": "application/json",
}
MOST_BYTES = 256 * 1024**2


def export_file(opened: OpenTrace, wanted: ExportRequest) -> bytes:
    """The file's content."""
    steps = [opened.step(number) for number in dict.fromkeys(wanted.steps)]
    if wanted.format == "html":
        return page_of(opened, steps or None, wanted.language).encode()
    options: dict[str, Any] = {"max_bytes": MOST_BYTES} if wanted.format == "json" else {}
    made = render(steps or opened.trace, to=wanted.format, lang=wanted.language, **options)
    if not isinstance(made, str | bytes):
        raise TraceError(f"there is no {wanted.format} file of this")
    return made.encode() if isinstance(made, str) else made


def file_name(opened: OpenTrace, wanted: ExportRequest) -> str:
    """A plain name: letters of the model and of a single step."""
    parts = [opened.model]
    if len(wanted.steps) == 1:
        parts.append(opened.step(wanted.steps[0]).name)
    plain = re.sub(r"[^A-Za-z0-9.-]+", "-", "-".join(parts)).strip("-.")[:80]
    return f"{plain or 'trace'}.{wanted.format}"
