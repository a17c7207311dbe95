"""Sentences for a terminal: lines that end where a reader of Chinese ends them, too.

rich breaks lines at spaces alone, so a Chinese sentence breaks at whatever Latin word stands in it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult
    from rich.measure import Measurement

__all__ = ["Prose", "broken_lines"]

_WIDE = "⺀-鿿가-힣豈-﫿！-｠"
_OPENING = "（《“‘「『【"
_CLOSING = "，。、；：？！）》”’」』】…"
# What stays on one line: a wide letter or a word, with the punctuation that belongs to it.
_UNIT = re.compile(
    rf"(?:[{_OPENING}]*(?:[{_WIDE}]|[^\s{_WIDE}{_OPENING}]+|\s)[{_CLOSING}]*|[{_OPENING}]+)\s*"
)
_HAS_WIDE = re.compile(f"[{_WIDE}]")


@dataclass(frozen=True)
class Prose:
    """A text for rich's console, with its own way of breaking lines."""

    text: str
    style: str = ""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from rich.text import Text

        lines = broken_lines(self.text, options.max_width)
        yield Text("\n".join(lines), self.style, overflow="fold")

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        from rich.text import Text

        return Text(self.text).__rich_measure__(console, options)


def broken_lines(text: str, width: int) -> Iterator[str]:
    """Lines of at most `width` columns; one that holds no wide letter is left to rich."""
    from rich.cells import cell_len

    for line in text.split("\n"):
        if not _HAS_WIDE.search(line):
            yield line
            continue
        begun = ""
        for unit in _UNIT.findall(line):
            if begun and cell_len((begun + unit).rstrip()) > width:
                yield begun.rstrip()
                begun = ""
            begun += unit
        yield begun.rstrip()
