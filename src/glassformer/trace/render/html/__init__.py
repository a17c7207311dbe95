"""A trace as one self-contained page: read-only, offline, in two languages.

`page` gathers what goes onto it, `encoding` turns expressions into what `expressions.js` walks,
the other scripts draw. The page asks for nothing outside itself, and its policy forbids it to.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from glassformer.trace.render.files import write_file
from glassformer.trace.render.html.page import MOST_BYTES, page_text
from glassformer.trace.trace import Trace

__all__ = ["page_text", "write_html"]


def write_html(
    trace: Trace,
    path: str | os.PathLike[str],
    *,
    steps: Sequence[str] | None = None,
    lang: str = "en",
    title: str | None = None,
    max_bytes: int = MOST_BYTES,
) -> Path:
    """Write a trace as a page; with `steps`, only these and what they read."""
    text = page_text(trace, steps=steps, lang=lang, title=title, max_bytes=max_bytes)
    return write_file(path, text)
