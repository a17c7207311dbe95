"""The code that a text prints, compiled as it stands: nothing mended, nothing left out.

The texts are not shipped. Where they lie in a folder, GLASSFORMER_TEXTS names it, and each file
begins with its number (`000_….txt`); the claims about printed code otherwise show what was stored.
"""

import os
import re
import textwrap
from dataclasses import dataclass
from pathlib import Path

from glassformer.errors import DataError

__all__ = ["PrintedCode", "printed_code", "read_text"]

_FENCED = re.compile(r"^ *```[^\n]*\n(.*?)^ *```", flags=re.MULTILINE | re.DOTALL)
_CLASS = re.compile(r"^class \w+", flags=re.MULTILINE)


@dataclass(frozen=True)
class PrintedCode:
    """The fenced blocks of a text, in order, each as far to the left as it goes as a whole."""

    blocks: tuple[str, ...]

    @property
    def compiled(self) -> int:
        """How many of the blocks Python reads; what may continue a method is read inside one."""
        return sum(
            _compiles(block) or _compiles(f"def method():\n{textwrap.indent(block, '    ')}")
            for block in self.blocks
        )

    @property
    def classes(self) -> tuple[str, ...]:
        """Each class with the blocks that continue it, up to the next class.

        A text may print a class piece by piece: a piece belongs to the class before it, with the
        indentation that a method, or a line inside one, has there.
        """
        found: list[list[str]] = []
        for block in self.blocks:
            if _CLASS.search(block):
                found.append([block])
            elif found:
                depth = 4 if block.lstrip().startswith("def ") else 8
                found[-1].append(textwrap.indent(block, " " * depth))
        return tuple("\n".join(pieces) for pieces in found)

    @property
    def compiled_classes(self) -> int:
        """How many classes Python reads, their pieces put together in the order of the text."""
        return sum(map(_compiles, self.classes))

    @property
    def lines(self) -> list[str]:
        """Every line of code, comments taken off."""
        return [line.partition("#")[0] for block in self.blocks for line in block.splitlines()]

    def mentions(self, name: str) -> int:
        """How often the code names something."""
        return sum(len(re.findall(rf"\b{name}\b", line)) for line in self.lines)

    def parameters(self, name: str) -> int:
        """How often it is named among a function's parameters."""
        heads = [line for line in self.lines if line.lstrip().startswith("def ")]
        return sum(len(re.findall(rf"\b{name}\b", head)) for head in heads)


def printed_code(text: str) -> PrintedCode:
    """The code of a text, from its fences."""
    return PrintedCode(tuple(map(textwrap.dedent, _FENCED.findall(text))))


def read_text(number: str) -> str:
    """One of the texts, from the folder that GLASSFORMER_TEXTS names."""
    folder = os.environ.get("GLASSFORMER_TEXTS")
    if not folder:
        raise DataError("expected the folder of the texts in GLASSFORMER_TEXTS; it is not set")
    found = sorted(Path(folder).glob(f"{number}*"))
    if not found:
        raise DataError(
            "{folder}: expected a file that begins with {number}, found none",
            folder=folder,
            number=number,
        )
    return found[0].read_text(encoding="utf-8", errors="replace")


def _compiles(source: str) -> bool:
    try:
        compile(source, "printed", "exec")
    except SyntaxError:
        return False
    return True
