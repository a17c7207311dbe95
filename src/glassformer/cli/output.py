"""Where a command writes: to the screen, or atomically to a file."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from glassformer.errors import ConfigError
from glassformer.files import as_path, write_whole
from glassformer.language import spoken, words

if TYPE_CHECKING:
    from glassformer.documents import Document
    from glassformer.experiments import WordScores, WordTable

say = words("glassformer.cli.messages")

Format = Literal["terminal", "md", "tex", "html", "xlsx", "slides", "pdf"]
"""What `--to` takes: `documents.FORMATS` without JSON and worksheets, and slides as a PDF.

Repeated here: importing it is slow.
"""


AsJson = Annotated[bool, Parameter(name="--json")]
Output = Annotated[Path | None, Parameter(name=["--output", "-o"])]


def check_place(output: Path | None) -> None:
    """Reject an output file that cannot be written before the work begins."""
    if output is None:
        return
    as_path(output, ConfigError, "the output")
    if output.is_dir():
        raise ConfigError("cannot write {output}: it is a folder; name a file in it", output=output)
    if not output.parent.is_dir():
        raise ConfigError(
            "cannot write {output}: there is no folder {folder}",
            output=output,
            folder=output.parent,
        )


def show_size(n_bytes: int) -> str:
    """A file size in bytes, KiB or MiB."""
    if n_bytes < 1024:
        return say("size bytes", n=n_bytes)
    kib = n_bytes / 1024
    return f"{kib:.1f} KiB" if kib < 999.95 else f"{kib / 1024:.1f} MiB"


def write_text(text: str, output: Path | None) -> None:
    """Write a text to the screen or to a file."""
    if output is None:
        sys.stdout.write(text)
        return
    write_whole(output, text)


def format_of(to: str | None, output: Path | None, *, as_json: bool = False) -> str:
    """The format that `--json` or `--to` names, else the file's ending, else plain text.

    Rejects an output file that cannot be written.
    """
    from glassformer.documents.renderer import SUFFIXES

    if as_json and to is not None:
        raise ConfigError("expected either --json or --to {to}, got both", to=to)
    if as_json:
        check_place(output)
        return "json"
    ending = "" if output is None else output.suffix.lower()
    if to == "pdf" and ending != ".pdf":
        raise ConfigError("a PDF needs a file: -o FILE.pdf")
    if to == "xlsx" and output is None:
        raise ConfigError("a workbook needs a file: -o FILE.xlsx")
    if to is None and output is not None and ending not in SUFFIXES:
        raise ConfigError(
            "{output}: expected a file that ends in {endings}; or name the format with --to",
            output=output,
            endings=", ".join(SUFFIXES),
        )
    check_place(output)
    return "slides" if to == "pdf" else to or SUFFIXES.get(ending, "terminal")


def write_documents(
    documents: Sequence["Document"], to: str, output: Path | None, width: int
) -> None:
    """Write documents to the screen, or to a file, where plain text is `width` characters wide."""
    from glassformer.documents import render

    options: dict[str, Any] = {}
    if to == "terminal" and output is not None:
        options = {"width": width, "colour": False}
    if output is not None and len(documents) == 1:
        render(documents[0], to, output, **options)
        return
    made = [render(document, to, **options) for document in documents]
    if isinstance(made[0], bytes) and output is not None:
        write_whole(output, made[0])
    else:
        write_text("\n".join(map(str, made)), output)


def screen_width() -> int | None:
    """The columns of the terminal; None where the output goes to a file or to another program."""
    if not sys.stdout.isatty():
        return None
    from shutil import get_terminal_size  # compressors come with it

    return get_terminal_size().columns


def wrapped(text: str) -> str:
    """Prose, with lines that fit the screen."""
    width = screen_width()
    if width is None:
        return text
    from glassformer.documents import Document, render
    from glassformer.documents.parts import Paragraph

    return str(render(Document("", (Paragraph(text),)), "terminal", width=width)).rstrip("\n")


def show_words(found: "WordScores | WordTable") -> str:
    """Which words made a number: the text in colours (in a terminal), scores, what they mean."""
    from glassformer.experiments import WordScores

    parts = [found.text(spoken(), screen_width()), wrapped(found.note(spoken()))]
    if isinstance(found, WordScores) and sys.stdout.isatty() and "NO_COLOR" not in os.environ:
        parts.insert(0, found.coloured())
    return "\n\n".join(parts)
