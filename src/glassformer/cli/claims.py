"""`glassformer claims`: what the texts say, run."""

import json
import sys
from collections.abc import Iterable
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from glassformer.errors import ConfigError

if TYPE_CHECKING:
    from glassformer.lessons.claims import Claim, Outcome

__all__ = ["claims"]


def claims(
    *ids: str,
    as_json: Annotated[bool, Parameter(name="--json", negative=())] = False,
    lang: Literal["en", "zh"] = "en",
    to: Literal["terminal", "md"] = "terminal",
    slow: Annotated[bool, Parameter(negative=())] = False,
    plot: Path | None = None,
    output: Annotated[Path | None, Parameter(name=["--output", "-o"])] = None,
) -> None:
    """Run the claims of the texts: verdict, figures, and what was measured.

    Parameters
    ----------
    ids:
        Claims to run, such as C31 C32, or properties, such as B09; all claims if none is named.
    as_json:
        Write one object a line, with all figures.
    lang:
        English or Chinese.
    to:
        A table in the terminal, or Markdown.
    slow:
        Run those that take long, too; otherwise their stored results are shown.
    plot:
        A folder for pictures of the claims that have one.
    output:
        A file to write to instead of the screen.
    """
    from glassformer.lessons.claims import find
    from glassformer.lessons.claims.report import to_markdown, to_terminal

    if as_json and to != "terminal":
        raise ConfigError(f"expected either --json or --to {to}, got both")
    chosen = find(ids)
    found = list(_run(chosen, slow=slow))
    if as_json:
        lines = [json.dumps(outcome.to_dict(lang), ensure_ascii=False) for outcome in found]
        _write("\n".join(lines) + "\n", output)
    elif to == "md":
        _write(to_markdown(found, lang), output)
    else:
        from rich.console import Console

        text = StringIO()
        console = Console(highlight=False) if output is None else Console(file=text, width=140)
        console.print(to_terminal(found, lang))
        if output is not None:
            _write(text.getvalue(), output)
    if plot is not None:
        _draw(chosen, plot)


def _run(chosen: "list[Claim]", *, slow: bool) -> "Iterable[Outcome]":
    """The outcomes, with the claim at work on stderr where a person looks on."""
    from glassformer.lessons.claims import outcomes

    watched = sys.stderr.isatty()
    for at, claim in enumerate(chosen, 1):
        if watched:
            sys.stderr.write(f"\r\033[K{claim.id} ({at} of {len(chosen)})")
            sys.stderr.flush()
        yield from outcomes([claim], slow=slow)
    if watched:
        sys.stderr.write("\r\033[K")


def _draw(chosen: "list[Claim]", folder: Path) -> None:
    from glassformer.lessons.claims.plots import draw

    for file in draw((claim.id for claim in chosen), folder):
        sys.stderr.write(f"{file}\n")


def _write(text: str, output: Path | None) -> None:
    if output is None:
        sys.stdout.write(text)
        return
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"cannot write {output}: {error.strerror}") from error
