"""Make notebooks from the scripts in examples/notebooks, executed from top to bottom.

    python examples/make_notebooks.py

Each script gives two notebooks, `NAME.ipynb` and `NAME.zh.ipynb`. `# %% [markdown]` starts a prose
cell in English (in comments), `# %% [markdown zh]` the same in Chinese, and `# %%` a code cell, in
which "en" becomes "zh". What a cell prints and the value of its last line become its output, as in
Jupyter. The code runs once; only a cell that says "en" runs once for each language.
"""

import ast
import contextlib
import io
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
LANGUAGES = ("en", "zh")
_BETWEEN_HAN = re.compile(r"(?<=[\u3000-\u9fff\uff00-\uffef])\n(?=[\u3000-\u9fff\uff00-\uffef])")


@dataclass(frozen=True)
class Cell:
    kind: str
    """markdown or code"""
    source: str
    language: str = ""
    """Of prose."""

    def said_in(self, language: str) -> str:
        """The source as the notebook of a language has it."""
        return (
            self.source if self.kind == "markdown" else self.source.replace('"en"', f'"{language}"')
        )


def cells_of(script: str) -> Iterator[Cell]:
    for part in script.split("# %%")[1:]:
        head, _, body = part.partition("\n")
        if head.strip().startswith("[markdown"):
            lines = (line.removeprefix("#").removeprefix(" ") for line in body.strip().splitlines())
            language = head.strip().removeprefix("[markdown").rstrip("]").strip() or "en"
            # A line break inside a paragraph becomes a space, which Chinese does not set.
            yield Cell("markdown", _BETWEEN_HAN.sub("", "\n".join(lines)), language)
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


def notebooks(script: str) -> dict[str, dict[str, Any]]:
    """The notebook of a script in each language, with its outputs."""
    names: dict[str, Any] = {"__name__": "__main__"}
    made: dict[str, list[dict[str, Any]]] = {language: [] for language in LANGUAGES}
    for cell in cells_of(script):
        outputs: dict[str, list[dict[str, Any]]] = {}
        for language in LANGUAGES:
            source = cell.said_in(language)
            if cell.kind == "code" and source not in outputs:
                outputs[source] = run_cell(source, names)
            if cell.language in ("", language):
                entry = _entry(cell.kind, len(made[language]), source)
                if cell.kind == "code":
                    entry |= {"execution_count": None, "outputs": outputs[source]}
                made[language].append(entry)
    return {language: _notebook(cells) for language, cells in made.items()}


def _entry(kind: str, place: int, source: str) -> dict[str, Any]:
    return {
        "cell_type": kind,
        "id": f"cell-{place}",
        "metadata": {},
        "source": source.splitlines(keepends=True),
    }


def _notebook(cells: list[dict[str, Any]]) -> dict[str, Any]:
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return {
        "cells": cells,
        "metadata": {"kernelspec": kernel, "language_info": {"name": "python"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }


def notebook_file(script: Path, language: str) -> Path:
    """Where the notebook of a script is: `NAME.ipynb`, `NAME.zh.ipynb`."""
    return HERE / f"{script.stem}{'' if language == 'en' else f'.{language}'}.ipynb"


def main() -> None:
    for script in sorted((HERE / "notebooks").glob("*.py")):
        for language, made in notebooks(script.read_text(encoding="utf-8")).items():
            text = json.dumps(made, indent=1, ensure_ascii=False) + "\n"
            notebook_file(script, language).write_text(text, encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main()
