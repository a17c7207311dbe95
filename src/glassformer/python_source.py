"""Python source, parsed by one thread at a time.

Before 3.11.8 and 3.12.2, CPython counts the depth of a syntax tree in one place for all threads:
two that parse at once, as two requests to the explorer may, get a SystemError.
"""

import ast
from threading import Lock

_parsing = Lock()


def parse_module(source: str) -> ast.Module:
    """`ast.parse` of statements."""
    with _parsing:
        return ast.parse(source)


def parse_expression(source: str) -> ast.expr:
    """`ast.parse` of one expression."""
    with _parsing:
        return ast.parse(source, mode="eval").body
