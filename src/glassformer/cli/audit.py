"""`glassformer audit`: every printed number of a worked example, checked."""

import json
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from glassformer.cli.output import check_format, check_place, write_documents, write_text
from glassformer.errors import ConfigError, GlassformerError

__all__ = ["audit"]


def audit(
    example: str | None = None,
    /,
    *,
    as_json: Annotated[bool, Parameter(name="--json", negative=())] = False,
    lang: Literal["en", "zh"] = "en",
    to: Literal["terminal", "md", "tex", "html", "xlsx"] = "terminal",
    output: Annotated[Path | None, Parameter(name=["--output", "-o"])] = None,
) -> None:
    """Check every printed number of a worked example; exit 1 where one is wrong.

    Parameters
    ----------
    example:
        illustrated, by-hand, masked, thrones, from-scratch, notes, or a file of your own; all
        shipped ones if none.
    as_json:
        Write {"example", "steps": [{"id", "verdict", "slip", "right", "note", "reason"}]}, one
        example a line.
    lang:
        English or Chinese.
    to:
        A table in the terminal, Markdown, LaTeX, a page of its own, or a workbook.
    output:
        A file to write to instead of the screen.
    """
    from glassformer.lessons import audit as check
    from glassformer.lessons import example_names, load_example
    from glassformer.lessons.report import audit_document

    if as_json and to != "terminal":
        raise ConfigError(f"expected either --json or --to {to}, got both")
    if to in ("tex", "html", "xlsx") and example is None:
        raise ConfigError(f"expected the name of an example or a file beside --to {to}")
    check_format(to, output)
    check_place(output)
    names = example_names() if example is None else [example]
    audits = [check(load_example(name)) for name in names]
    if as_json:
        lines = [json.dumps(found.to_dict(lang), ensure_ascii=False) for found in audits]
        write_text("\n".join(lines) + "\n", output)
    else:
        write_documents([audit_document(found, lang) for found in audits], to, output, width=120)
    wrong = {found.example.name: found.counts["wrong"] for found in audits if not found.ok}
    if wrong:
        listed = ", ".join(f"{count} in {name}" for name, count in wrong.items())
        raise GlassformerError(f"wrong steps: {listed}")
