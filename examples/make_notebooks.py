"""Make notebooks from the scripts in examples/notebooks, executed from top to bottom.

    python examples/make_notebooks.py

In a script, `# %% [markdown]` starts a prose cell (in comments) and `# %%` a code cell. What a cell
prints and the value of its last line become its output, as in Jupyter.
"""

import ast
import contextlib
import io
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Cell:
    kind: str
    """markdown or code"""
    source: str


def cells_of(script: str) -> Iterator[Cell]:
    for part in script.split("# %%")[1:]:
        head, _, body = part.partition("\n")
        if head.strip() == "[markdown]":
            lines = (line.removeprefix("#").removeprefix(" ") for line in body.strip().splitlines())
            yield Cell("markdown", "\n".join(lines))
        else:
            yield Cell("code", body.strip())


def run_cell(source: str, names: dict[str, Any]) -> list[dict[str, Any]]:
    """Run code in a namespace; returns its printed text and the value of its last line."""
    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed, value = io.StringIO(), None
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, "cell", "exec"), names)  # noqa: S102  our own scripts
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), "cell", "eval"), names)  # noqa: S307
    outputs: list[dict[str, Any]] = []
    if printed.getvalue():
        text = printed.getvalue().splitlines(keepends=True)
        outputs.append({"output_type": "stream", "name": "stdout", "text": text})
    if value is not None:
        shown: dict[str, Any] = {"text/plain": repr(value).splitlines(keepends=True)}
        if hasattr(value, "_repr_svg_"):
            shown = {"image/svg+xml": value._repr_svg_().splitlines(keepends=True)}
        outputs.append({"output_type": "display_data", "metadata": {}, "data": shown})
    return outputs


def notebook(script: str) -> dict[str, Any]:
    """The notebook of a script, with its outputs."""
    names: dict[str, Any] = {"__name__": "__main__"}
    made = []
    for place, cell in enumerate(cells_of(script)):
        source = cell.source.splitlines(keepends=True)
        entry: dict[str, Any] = {
            "cell_type": cell.kind,
            "id": f"cell-{place}",
            "metadata": {},
            "source": source,
        }
        if cell.kind == "code":
            entry |= {"execution_count": None, "outputs": run_cell(cell.source, names)}
        made.append(entry)
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return {
        "cells": made,
        "metadata": {"kernelspec": kernel, "language_info": {"name": "python"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }


def main() -> None:
    for script in sorted((HERE / "notebooks").glob("*.py")):
        made = notebook(script.read_text(encoding="utf-8"))
        text = json.dumps(made, indent=1, ensure_ascii=False) + "\n"
        (HERE / f"{script.stem}.ipynb").write_text(text, encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main()
