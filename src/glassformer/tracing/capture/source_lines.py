"""Which source line computed a number, and which variable it is assigned to.

We walk the frames outwards from the operator to the first line of model code; the syntax tree then
shows what that line does with the value.
"""

from __future__ import annotations

import ast
import linecache
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import islice
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Literal, NamedTuple

import torch
from torch.nn import functional

from glassformer.python_source import parse_module

# --- syntax ---
# What the syntax tree says about an expression: assigned to a name, returned, or only a part.
#
# Python knows the exact source span of every instruction of a function. The tree shows the context
# of that span: `scores = q @ k` assigns the product to `scores`; in `x = norm(f(x) + x)` the sum is
# only a part.


# Methods that change the layout of a tensor but not its numbers: `c = (w @ v).transpose(1, 2)`
# gives the name to the product.
_LAYOUT = frozenset([
    "contiguous", "expand", "expand_as", "flatten", "mT", "permute", "reshape", "squeeze",
    "swapaxes", "T", "to", "transpose", "unflatten", "unsqueeze", "view", "view_as", "clone",
    "type_as", "float",
])  # fmt: skip

# Half the nodes of a tree have no span in the source: Load, Store, Add.
_MARKS = (ast.expr_context, ast.operator, ast.unaryop, ast.cmpop, ast.boolop)

_FUNCTIONS_SYNTAX = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)

Kind = Literal["assigned", "written", "returned", "part", "unknown"]
"""`written`: put into an existing tensor, `x[0] = …`."""

Use = tuple[Kind, tuple[str | None, ...]]
"""What happens to a value, and the variables it is assigned to."""

_Span = tuple[int, int, int, int]


@dataclass(slots=True)
class _SyntaxNode:
    """A syntax node with its parent."""

    node: ast.AST
    parent: _SyntaxNode | None


@cache
def _syntax(code: CodeType) -> dict[_Span, _SyntaxNode]:
    """Every expression and assignment of a function, by its span; empty if there is no source.

    Only the function's own lines are parsed: whole files of torch take seconds.
    """
    first = code.co_firstlineno
    block = "".join(linecache.getlines(code.co_filename)[first - 1 : _last_line(code)])
    indented = block[:1].isspace()
    try:
        spans = _spans(parse_module(f"if True:\n{block}" if indented else block))
    except SyntaxError:  # the lines of a lambda or comprehension may be part of a statement
        return _file_syntax(code.co_filename)
    shift = first - 1 - indented
    return {(line + shift, c, end + shift, e): node for (line, c, end, e), node in spans.items()}


@lru_cache(maxsize=64)
def _file_syntax(file: str) -> dict[_Span, _SyntaxNode]:
    try:
        return _spans(parse_module("".join(linecache.getlines(file))))
    except SyntaxError:  # not Python: a notebook cell with magics, a template
        return {}


def _last_line(code: CodeType) -> int:
    """The last line of a function, including the functions inside it."""
    inner = (_last_line(part) for part in code.co_consts if isinstance(part, CodeType))
    own = (end for _, end, _, _ in code.co_positions() if end is not None)
    return max((code.co_firstlineno, *own, *inner))


def _spans(tree: ast.AST) -> dict[_Span, _SyntaxNode]:
    spans: dict[_Span, _SyntaxNode] = {}
    stack = [_SyntaxNode(tree, None)]
    while stack:
        around = stack.pop()
        node = around.node
        if isinstance(node, ast.expr | ast.stmt) and node.end_lineno is not None:
            end_column = node.end_col_offset or 0
            span = (node.lineno, node.col_offset, node.end_lineno, end_column)
            # An expression statement has the span of its expression: keep the expression.
            if not (span in spans and isinstance(node, ast.stmt)):
                spans[span] = around
        stack.extend(
            [
                _SyntaxNode(child, around)
                for child in ast.iter_child_nodes(node)
                if not isinstance(child, _MARKS)
            ]
        )
    return spans


def _use(around: _SyntaxNode) -> Use:
    """What happens to the value of an expression."""
    node = around.node
    if isinstance(node, ast.AugAssign):
        return "assigned", (_target_name(node.target),)
    if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
        return "written", (_target_name(node.value),)
    inner: ast.AST = node
    while (below := _laid_out(inner)) is not None:
        inner = below
    if inner is not node and isinstance(inner, ast.Call | ast.BinOp | ast.UnaryOp):
        return "part", ()  # the operator inside gets the name
    parent = around.parent
    while parent is not None and _passes_through(parent.node, node):
        node, parent = parent.node, parent.parent
    match parent.node if parent is not None else None:
        case ast.Assign(targets=[ast.Tuple(elts=names)]):
            return "assigned", tuple(_target_name(name) for name in names)
        case ast.Assign(targets=[ast.Subscript()]):
            return "part", ()  # the name goes to the write into the tensor, not to this value
        case ast.Assign(targets=targets) if len(targets) == 1:
            return "assigned", (_target_name(targets[0]),)
        case ast.AnnAssign(target=target) | ast.NamedExpr(target=target):
            return "assigned", (_target_name(target),)
        case ast.Return():
            return "returned", ()
        case ast.Lambda():
            return "returned", ()
        case _:
            return "part", ()


def _target_name(target: ast.AST) -> str | None:
    """The name of a target: `scores`, `cache` for `self.cache`, `x` for `x[0]`."""
    match target:
        case ast.Name(id=name):
            return name
        case ast.Attribute(attr=name):
            return name
        case ast.Subscript(value=value):
            return _target_name(value)
        case _:
            return None


def _laid_out(node: ast.AST) -> ast.AST | None:
    """The expression that a node only gives another layout, if it is such a method."""
    function = node.func if isinstance(node, ast.Call) else node
    is_layout = isinstance(function, ast.Attribute) and function.attr in _LAYOUT
    return function.value if isinstance(function, ast.Attribute) and is_layout else None


def _passes_through(node: ast.AST, below: ast.AST) -> bool:
    """Whether a node passes on the value of `below`, with at most another layout."""
    if isinstance(node, ast.IfExp):
        return below is not node.test
    value = _laid_out(node)
    return value is not None and below in (value, getattr(node, "func", None))


_TORCH = str(Path(torch.__file__).parent)
_HERE = str(Path(__file__).parents[1])
_WRITTEN_OUT = str(Path(__file__).with_name("fused_layers.py"))
_CALL = torch.nn.Module._call_impl.__code__

# The only parts of torch that are shown as model code; elsewhere in torch, the caller's line is
# shown.
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
    """The variables assigned; several for `values, indices = …`, None for an unnamed target."""
    looped: bool = False
    """Whether it is in a loop of its function."""

    @property
    def text(self) -> str:
        """The source itself, joined into one line; empty if there is none."""
        lines = range(self.number, min(max(self.end, self.number), self.number + 5) + 1)
        return " ".join(linecache.getline(self.file, line).strip() for line in lines).strip()

    @property
    def place(self) -> str:
        """`package/module.py:12`: the file from its outermost package down."""
        return f"{from_package(self.file)}:{self.number}"


def source_parts(line: Line | None) -> dict[str, Any] | None:
    """File, number and text of a line, as data."""
    if line is None:
        return None
    return {"file": from_package(line.file), "line": line.number, "text": line.text}


@cache
def from_package(file: str) -> str:
    """A source file's path from its outermost package down, independent of the machine."""
    path = Path(file)
    if not path.is_absolute():  # <string>, <stdin>: not a file
        return file
    top = path.parent
    while (top / "__init__.py").is_file() and top != top.parent:
        top = top.parent
    return path.relative_to(top).as_posix()


@dataclass(slots=True)
class Origin:
    """Where an operator was called. (Not frozen, for speed: there is one per operator.)"""

    line: Line | None
    """The line shown to readers: the innermost one outside torch."""
    targets: tuple[str | None, ...]
    """The variables that the result is assigned to, directly or as a function's return value."""
    owner: str
    """The module whose `forward` contains the assignment."""
    module: str
    """The innermost module running."""
    visit: int
    """The same for all operators of one call from that line; the last one gives its result."""
    output: bool = False
    """Whether the traced function itself returns the result."""
    forced: str = ""
    """The name in a fused layer that the trace writes out."""


class Sighting(NamedTuple):
    """The result of walking the frames."""

    line: Line | None
    targets: tuple[str | None, ...]
    depth: int
    """The number of module calls between the operator and the frame that assigns."""
    callee: FrameType | None
    """The frame that the line called; None if the line called the operator itself."""
    output: bool
    variable: str | None
    """The variable of `fused_layers` that the result is assigned to, where the trace wrote out the
    operator that the model called."""


class _Function:
    """What is known about a function, computed once: a loop over layers asks repeatedly."""

    __slots__ = ("calls_module", "code", "is_shown", "is_written_out", "lines", "passes_on")

    def __init__(self, code: CodeType) -> None:
        self.code = code
        self.calls_module = code is _CALL
        self.is_shown = _is_shown(code)
        self.is_written_out = code.co_filename == _WRITTEN_OUT
        self.passes_on = _passes_on(code)
        self.lines: dict[int, Line] = {}
        """By instruction."""

    def line(self, instruction: int) -> Line:
        known = self.lines.get(instruction)
        if known is None:
            known = self.lines[instruction] = _line(self.code, instruction)
        return known


# By the identity of their code, which they keep alive: hashing code hashes all its constants.
_FUNCTIONS: dict[int, _Function] = {}


def _is_shown(code: CodeType) -> bool:
    """Whether a frame runs model code."""
    file = code.co_filename
    if file.startswith(_TORCH):
        return file in _READABLE_FILES or code in _READABLE_CODE
    if file.startswith((_HERE, "<frozen")):
        return False
    return not any(part in _WRAPPERS for part in Path(file).with_suffix("").parts)


def _passes_on(code: CodeType) -> bool:
    """Whether a function is a decorator's wrapper: it takes `*args, **kwargs`, is no `forward`."""
    variadic = code.co_flags & _VARIADIC == _VARIADIC
    return variadic and code.co_argcount <= 1 and code.co_name not in ("forward", "__call__")


def call_inside(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The outermost frame of a run: the search for names stops here."""
    return function(*args, **kwargs)


def find_origin(frame: FrameType | None) -> Sighting:
    """Walk outwards to the line that called the operator, and on while lines just return it."""
    shown: Line | None = None
    variable: str | None = None
    depth = 0
    assigned_depth = 0
    callee: FrameType | None = None
    inner: FrameType | None = None
    while frame is not None:
        code = frame.f_code
        if code is call_inside.__code__:
            return Sighting(shown, (), assigned_depth, callee, shown is not None, variable)
        function = _FUNCTIONS.get(id(code))
        if function is None:
            function = _FUNCTIONS[id(code)] = _Function(code)
        if function.calls_module:
            depth += 1
        elif function.is_written_out and shown is None and variable is None:
            line = function.line(frame.f_lasti)
            variable = line.targets[0] if line.kind == "assigned" else None
        elif function.is_shown and not (shown is not None and function.passes_on):
            line = function.line(frame.f_lasti)
            if shown is None:
                shown, callee, assigned_depth = line, inner, depth
            if line.kind in ("assigned", "written"):
                return Sighting(shown, line.targets, depth, callee, False, variable)
            if line.kind != "returned":
                break
        inner = frame
        frame = frame.f_back
    return Sighting(shown, (), assigned_depth, callee, False, variable)


def _line(code: CodeType, instruction: int) -> Line:
    """What the source says about one instruction of a function."""
    positions = next(islice(code.co_positions(), instruction // 2, None))
    number, end, column, end_column = positions
    if number is None or end is None or column is None or end_column is None:
        return Line(code.co_filename, number or code.co_firstlineno, "unknown")
    around = _syntax(code).get((number, column, end, end_column))
    if around is None:
        return Line(code.co_filename, number, "unknown", number)
    kind, targets = _use(around)
    if kind == "returned" and code.co_name.startswith("<"):
        kind = "part"  # the value of a lambda or comprehension may go anywhere
    return Line(code.co_filename, number, kind, end, targets, _is_looped(around))


def _is_looped(around: _SyntaxNode | None) -> bool:
    """Whether it is in exactly one loop of its function, not in nested ones."""
    loops = 0
    while around is not None and not isinstance(around.node, _FUNCTIONS_SYNTAX):
        loops += isinstance(around.node, ast.For | ast.While)
        around = around.parent
    return loops == 1
