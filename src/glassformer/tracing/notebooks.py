"""How a notebook shows what is plain text: as it stands, and not as the source of a string."""

from __future__ import annotations

import re
from importlib import import_module


class ShownAsText:
    """Whatever `str` makes of it, in a block of its own."""

    __slots__ = ()

    def _repr_markdown_(self) -> str:
        """The text, fenced by more backticks than it holds."""
        plain = str(self)
        longest = max((len(run) for run in re.findall(r"`+", plain)), default=0)
        fence = "`" * max(3, longest + 1)
        return f"{fence}text\n{plain}\n{fence}\n"


class Explanation(ShownAsText, str):
    """The arithmetic of a cell as text: a string, which a notebook shows line by line."""

    __slots__ = ()


def notebook_markdown(thing: object) -> str:
    """What a notebook shows of a trace, a step or a cell.

    Documents are made of traces and not the other way round, so their package is looked up when a
    notebook asks: the one place where the trace reaches upwards.
    """
    shown: str = import_module("glassformer.documents").notebook_markdown(thing)
    return shown
