"""What the syntax tree says about an expression: assigned to a name, returned, or only a part.

Python knows, for every instruction of a function, the exact span of source it came from. The tree
says what stands around that span: `scores = q @ k` assigns the product to `scores`; in
`x = norm(f(x) + x)` the sum is only a part.
"""

from __future__ import annotations

import ast
import linecache
from dataclasses import dataclass
from functools import cache, lru_cache
from types import CodeType
from typing import Literal

__all__ = ["Kind", "Use", "is_looped", "use_of"]

# Methods that lay a tensor out anew and leave its numbers alone: `c = (w @ v).transpose(1, 2)`
# gives the name to the product.
_LAYOUT = frozenset(
    [
        "contiguous",
        "expand",
        "expand_as",
        "flatten",
        "mT",
        "permute",
        "reshape",
        "squeeze",
        "swapaxes",
        "T",
        "to",
        "transpose",
        "unflatten",
        "unsqueeze",
        "view",
        "view_as",
        "clone",
        "type_as",
        "float",
    ]
)

# Half of a tree is nodes that stand nowhere in the source: "read", "written", "plus".
_MARKS = (ast.expr_context, ast.operator, ast.unaryop, ast.cmpop, ast.boolop)

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)

Kind = Literal["assigned", "written", "returned", "part", "unknown"]
"""`written`: put into a tensor that has the name already, `x[0] = …`."""

Use = tuple[Kind, tuple[str | None, ...]]
"""What becomes of a value, and the variables that it is assigned to."""

_Span = tuple[int, int, int, int]


def use_of(code: CodeType, span: _Span) -> Use:
    """What becomes of the value that the source computes at that span of a function."""
    around = _syntax(code).get(span)
    if around is None:
        return "unknown", ()
    kind, targets = _use(around)
    if kind == "returned" and code.co_name.startswith("<"):
        kind = "part"  # a lambda or comprehension: its value goes who knows where
    return kind, targets


def is_looped(code: CodeType, span: _Span) -> bool:
    """Whether the source at that span stands in one `for` loop of its function, and in no other."""
    around = _syntax(code).get(span)
    loops = 0
    while around is not None and not isinstance(around.node, _FUNCTIONS):
        loops += isinstance(around.node, ast.For | ast.While)
        around = around.parent
    return loops == 1


@dataclass(slots=True)
class _Node:
    """A syntax node that knows what stands around it."""

    node: ast.AST
    parent: _Node | None


@cache
def _syntax(code: CodeType) -> dict[_Span, _Node]:
    """Every expression and assignment of a function, by its span; empty where there is no source.

    Only the function's own lines are parsed: whole files of torch take seconds.
    """
    first = code.co_firstlineno
    block = "".join(linecache.getlines(code.co_filename)[first - 1 : _last_line(code)])
    indented = block[:1].isspace()
    try:
        spans = _spans(ast.parse(f"if True:\n{block}" if indented else block))
    except SyntaxError:  # the lines of a lambda or comprehension may be half a statement
        return _file_syntax(code.co_filename)
    shift = first - 1 - indented
    return {(line + shift, c, end + shift, e): node for (line, c, end, e), node in spans.items()}


@lru_cache(maxsize=64)
def _file_syntax(file: str) -> dict[_Span, _Node]:
    try:
        return _spans(ast.parse("".join(linecache.getlines(file))))
    except SyntaxError:  # not Python: a notebook cell with magics, a template
        return {}


def _last_line(code: CodeType) -> int:
    """The last line of a function, the functions inside it included."""
    inner = (_last_line(part) for part in code.co_consts if isinstance(part, CodeType))
    own = (end for _, end, _, _ in code.co_positions() if end is not None)
    return max((code.co_firstlineno, *own, *inner))


def _spans(tree: ast.AST) -> dict[_Span, _Node]:
    spans: dict[_Span, _Node] = {}
    stack = [_Node(tree, None)]
    while stack:
        around = stack.pop()
        node = around.node
        if isinstance(node, ast.expr | ast.stmt) and node.end_lineno is not None:
            end_column = node.end_col_offset or 0
            span = (node.lineno, node.col_offset, node.end_lineno, end_column)
            # An expression statement has its expression's span: the outer one comes first.
            if not (span in spans and isinstance(node, ast.stmt)):
                spans[span] = around
        stack.extend(
            [
                _Node(child, around)
                for child in ast.iter_child_nodes(node)
                if not isinstance(child, _MARKS)
            ]
        )
    return spans


def _use(around: _Node) -> Use:
    """What becomes of the value of an expression."""
    node = around.node
    if isinstance(node, ast.AugAssign):
        return "assigned", (_target_name(node.target),)
    if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
        return "written", (_target_name(node.value),)
    if _is_layout(node) and _computes(_laid_out(node)):
        return "part", ()
    parent = around.parent
    while parent is not None and _passes_through(parent.node, node):
        node, parent = parent.node, parent.parent
    match parent.node if parent is not None else None:
        case ast.Assign(targets=[ast.Tuple(elts=names)]):
            return "assigned", tuple(_target_name(name) for name in names)
        case ast.Assign(targets=[ast.Subscript()]):
            return "part", ()  # the write into the tensor takes the name, not what is written
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
    """The word for a target: `scores`, `cache` for `self.cache`, `x` for `x[0]`."""
    match target:
        case ast.Name(id=name):
            return name
        case ast.Attribute(attr=name):
            return name
        case ast.Subscript(value=value):
            return _target_name(value)
        case _:
            return None


def _is_layout(node: ast.AST, below: ast.AST | None = None) -> bool:
    """Whether a node only lays out anew (the value of `below`, if given)."""
    match node:
        case ast.Call(func=ast.Attribute(attr=name, value=value) as function):
            return name in _LAYOUT and (below is None or below is value or below is function)
        case ast.Attribute(attr=name, value=value):
            return name in _LAYOUT and (below is None or below is value)
        case _:
            return False


def _passes_through(node: ast.AST, below: ast.AST) -> bool:
    """Whether the value of `below` is the value of the node around it, laid out anew at most."""
    if isinstance(node, ast.IfExp):
        return below is not node.test
    return _is_layout(node, below)


def _laid_out(node: ast.AST) -> ast.AST:
    """The expression under a chain of layout methods."""
    while _is_layout(node):
        match node:
            case ast.Call(func=ast.Attribute(value=value)) | ast.Attribute(value=value):
                node = value
    return node


def _computes(node: ast.AST) -> bool:
    """Whether an expression runs an operator that deserves the name."""
    return isinstance(node, ast.Call | ast.BinOp | ast.UnaryOp)
