"""Which line of source made a number, and which variable that line assigns it to.

A walk over the frames, from the operator outwards to the first line that reads like a model's own;
`syntax` says what that line does with the value.
"""

from __future__ import annotations

import linecache
from dataclasses import dataclass
from functools import cache
from itertools import islice
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

import torch
from torch.nn import functional

from glassformer.trace.syntax import Kind, is_looped, use_of

__all__ = ["Line", "Origin", "Sighting", "find_origin", "from_package", "source_parts"]

_TORCH = str(Path(torch.__file__).parent)
_HERE = str(Path(__file__).parent)
_CALL = torch.nn.Module._call_impl.__code__

# Inside torch only these read like a model's own source; everywhere else in torch the caller's
# line is the one to show.
_READABLE_FILES = (str(Path(_TORCH, "nn", "modules", "transformer.py")),)
_READABLE_CODE = frozenset(
    function.__code__
    for function in (
        torch.nn.MultiheadAttention.forward,
        functional.multi_head_attention_forward,
        getattr(functional, "_in_projection"),  # noqa: B009 - private: mypy does not know it
        getattr(functional, "_in_projection_packed"),  # noqa: B009 - likewise
    )
)
_WRAPPERS = ("einops", "jaxtyping", "beartype", "typeguard", "functools", "contextlib")

_VARIADIC = 0x04 | 0x08  # *args and **kwargs, as in code.co_flags


@dataclass(frozen=True, slots=True)
class Line:
    """What the source says about one instruction."""

    file: str
    number: int
    kind: Kind
    end: int = 0
    """The last line of the expression."""
    targets: tuple[str | None, ...] = ()
    """The variables assigned; several for `values, indices = …`, None for what has no name."""
    looped: bool = False
    """Whether it stands in a loop of its function."""

    @property
    def text(self) -> str:
        """The source itself, an expression of several lines on one; empty where there is none."""
        lines = range(self.number, min(max(self.end, self.number), self.number + 5) + 1)
        return " ".join(linecache.getline(self.file, line).strip() for line in lines).strip()


def source_parts(line: Line | None) -> dict[str, Any] | None:
    """File, number and text of a line, as data."""
    if line is None:
        return None
    return {"file": from_package(line.file), "line": line.number, "text": line.text}


@cache
def from_package(file: str) -> str:
    """A source file from its outermost package down, without the machine it lies on."""
    path = Path(file)
    if not path.is_absolute():  # <string>, <stdin>: no file, and in no package
        return file
    top = path.parent
    while (top / "__init__.py").is_file() and top != top.parent:
        top = top.parent
    return path.relative_to(top).as_posix()


@dataclass(slots=True)
class Origin:
    """Where an operator was called. (Not frozen: one is made for every operator.)"""

    line: Line | None
    """The line a reader is shown: the innermost one outside torch."""
    targets: tuple[str | None, ...]
    """The variables that the result was assigned to, directly or as a function's result."""
    owner: str
    """The module whose `forward` holds the assignment."""
    module: str
    """The innermost module running."""
    visit: int
    """Equal for the operators of one call from that line: only the last gives its result."""
    output: bool = False
    """Whether the result is what the traced function itself returns."""
    forced: str | None = None
    """A name that the trace gives (a fused operator written out)."""


class Sighting(NamedTuple):
    """What the walk over the frames found."""

    line: Line | None
    targets: tuple[str | None, ...]
    depth: int
    """Module calls between the operator and the frame that assigns."""
    callee: FrameType | None
    """The frame that the line called, None if the line called the operator itself."""
    output: bool


class _Function:
    """What is known of a function: worked out once, since a loop over layers asks again."""

    __slots__ = ("calls_module", "code", "is_shown", "lines", "passes_on")

    def __init__(self, code: CodeType) -> None:
        self.code = code
        self.calls_module = code is _CALL
        self.is_shown = _is_shown(code)
        self.passes_on = _passes_on(code)
        self.lines: dict[int, Line] = {}
        """What the source says, by instruction."""

    def line(self, instruction: int) -> Line:
        """What the source says about one instruction."""
        known = self.lines.get(instruction)
        if known is None:
            known = self.lines[instruction] = _line(self.code, instruction)
        return known


# By the identity of their code, which they keep alive: to hash code is to hash all its constants.
_FUNCTIONS: dict[int, _Function] = {}


def _is_shown(code: CodeType) -> bool:
    """Whether a frame's source is a model's own."""
    file = code.co_filename
    if file.startswith(_TORCH):
        return file in _READABLE_FILES or code in _READABLE_CODE
    if file.startswith((_HERE, "<frozen")):
        return False
    return not any(part in _WRAPPERS for part in Path(file).with_suffix("").parts)


def _passes_on(code: CodeType) -> bool:
    """Whether a function is a decorator's wrapper: it takes anything and is nobody's forward."""
    variadic = code.co_flags & _VARIADIC == _VARIADIC
    return variadic and code.co_argcount <= 1 and code.co_name not in ("forward", "__call__")


def find_origin(frame: FrameType | None, stop: CodeType) -> Sighting:
    """Walk outwards to the line that called the operator, and on while lines only return it."""
    shown: Line | None = None
    depth = 0
    assigned_depth = 0
    callee: FrameType | None = None
    inner: FrameType | None = None
    while frame is not None:
        code = frame.f_code
        if code is stop:
            return Sighting(shown, (), assigned_depth, callee, output=shown is not None)
        function = _FUNCTIONS.get(id(code))
        if function is None:
            function = _FUNCTIONS[id(code)] = _Function(code)
        if function.calls_module:
            depth += 1
        elif function.is_shown and not (shown is not None and function.passes_on):
            line = function.line(frame.f_lasti)
            if shown is None:
                shown, callee, assigned_depth = line, inner, depth
            if line.kind in ("assigned", "written"):
                return Sighting(shown, line.targets, depth, callee, output=False)
            if line.kind != "returned":
                break
        inner = frame
        frame = frame.f_back
    return Sighting(shown, (), assigned_depth, callee, output=False)


def _line(code: CodeType, instruction: int) -> Line:
    """What the source says about one instruction of a function."""
    positions = next(islice(code.co_positions(), instruction // 2, None))
    number, end, column, end_column = positions
    if number is None or end is None or column is None or end_column is None:
        return Line(code.co_filename, number or code.co_firstlineno, "unknown")
    span = (number, column, end, end_column)
    kind, targets = use_of(code, span)
    last = number if kind == "unknown" else end
    return Line(code.co_filename, number, kind, last, targets, is_looped(code, span))
