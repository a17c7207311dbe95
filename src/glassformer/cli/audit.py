"""`glassformer audit`: every printed number of a worked example, checked."""

import json
import sys
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from glassformer.errors import ConfigError, GlassformerError

if TYPE_CHECKING:
    from rich.console import RenderableType

__all__ = ["audit"]


def audit(
    example: str | None = None,
    /,
    *,
    as_json: Annotated[bool, Parameter(name="--json", negative=())] = False,
    lang: Literal["en", "zh"] = "en",
    to: Literal["terminal", "md", "html"] = "terminal",
    output: Annotated[Path | None, Parameter(name=["--output", "-o"])] = None,
) -> None:
    """Check every printed number of a worked example; exit 1 where one is wrong.

    Parameters
    ----------
    example:
        illustrated, by-hand, masked, thrones, or a file of your own; all shipped ones if none.
    as_json:
        Write {"example", "steps": [{"id", "verdict", "slip", "right"}]}, one example a line.
    lang:
        English or Chinese.
    to:
        A table in the terminal, Markdown, or a page of its own.
    output:
        A file to write to instead of the screen.
    """
    from glassformer.lessons import audit as check
    from glassformer.lessons import example_names, load_example
    from glassformer.lessons.report import to_html, to_markdown, to_terminal

    if as_json and to != "terminal":
        raise ConfigError(f"expected either --json or --to {to}, got both")
    if to == "html" and example is None:
        raise ConfigError("expected the name of an example or a file beside --to html")
    audits = [check(load_example(name)) for name in ([example] if example else example_names())]
    if as_json:
        lines = [json.dumps(found.to_dict(lang), ensure_ascii=False) for found in audits]
        _write("\n".join(lines) + "\n", output)
    elif to == "md":
        _write("\n".join(to_markdown(found, lang) for found in audits), output)
    elif to == "html":
        _write(to_html(audits[0], lang), output)
    else:
        _print([to_terminal(found, lang) for found in audits], output)
    wrong = {found.example.name: found.counts["wrong"] for found in audits if not found.ok}
    if wrong:
        listed = ", ".join(f"{count} in {name}" for name, count in wrong.items())
        raise GlassformerError(f"wrong steps: {listed}")


def _write(text: str, output: Path | None) -> None:
    if output is None:
        sys.stdout.write(text)
        return
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"cannot write {output}: {error.strerror}") from error


def _print(tables: "list[RenderableType]", output: Path | None) -> None:
    from rich.console import Console

    text = StringIO()
    console = Console(highlight=False) if output is None else Console(file=text, width=120)
    for table in tables:
        console.print(table)
    if output is not None:
        _write(text.getvalue(), output)
