"""Documents: one model of what is shown to a reader, and one renderer per format.

    render(t, path="run.html")                       # also .xlsx .json .md .tex .txt
    print(render(t["scores"]))                       # the terminal: a heat map
    print(render(t["scores"][0, 1], to="tex", lang="zh"))
    render(make_lesson("masked").document(), path="lesson.xlsx")
    render_text(lesson.document(), "html")

A `Document` holds parts (`parts`): paragraphs, remarks, formulas, heat maps, tables, figures, code,
facts, trees, sections. Lessons, audits, claims and traces (`trace_documents`) make documents; a
renderer knows the parts and nothing of who made them.

To add a format, write one file: a subclass of `Renderer` (`renderer`) with a method per part, and
name it in `FORMATS`. Every kind of document then has it. `markdown` is the shortest to read;
`terminal`, `latex`, `html` and `spreadsheet` are the others.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from glassformer.documents.parts import Document
from glassformer.documents.renderer import FORMATS, Renderer, format_of, write_file, writer
from glassformer.errors import TraceError, UnknownNameError

if TYPE_CHECKING:  # audits are documents too, and need no torch
    from glassformer.documents.trace_documents import Traced

__all__ = ["FORMATS", "Document", "Renderer", "notebook_markdown", "render", "render_text"]

_WHOLE_TRACES = ("html", "json", "xlsx")


def render(
    thing: Document | Traced,
    to: str | None = None,
    path: str | os.PathLike[str] | None = None,
    *,
    lang: str = "en",
    **options: Any,
) -> str | bytes | Path:
    """A document, or a trace, steps or cells in a format; with a `path`, written there.

    The format is `to`, else what the path's ending says, else the terminal. Of a trace, a page, a
    workbook and a data file hold every number. `lang` is the language of a trace; a document has
    its own. `options` are those of the format's class, and for traces `digits`, `terms` and, in
    the terminal, the slice `at`.
    """
    to = to or ("terminal" if path is None else format_of(path))
    if to not in FORMATS:
        raise UnknownNameError("format", to, FORMATS)
    if not isinstance(thing, Document):
        from glassformer.documents.trace_documents import trace_file

        if to in _WHOLE_TRACES:
            made = trace_file(thing, to, lang, options)
            return made if path is None else write_file(path, made)
        thing = _document(thing, to, lang, options)
    chosen = writer(thing, to, **options)
    return chosen.render() if path is None else chosen.save(path)


def render_text(thing: Document | Traced, to: str = "terminal", **options: Any) -> str:
    """Like `render`, for formats that are text."""
    made = render(thing, to, **options)
    if not isinstance(made, str):
        raise TraceError("{to} is no text: give render() a path to write it to", to=to)
    return made


def notebook_markdown(thing: Traced) -> str:
    """Markdown for notebooks: a trace's index, or matrices and formulas in TeX."""
    from glassformer.documents.trace_documents import TraceDocuments
    from glassformer.tracing import Trace

    made = TraceDocuments()
    document = made.index(thing) if isinstance(thing, Trace) else made.document(thing)
    return render_text(document, "md")


def _document(thing: Traced, to: str, lang: str, options: dict[str, Any]) -> Document:
    """Make the document of a trace; its own options are taken out of `options`."""
    from glassformer.documents.trace_documents import TraceDocuments

    sizes = {name: options.pop(name) for name in ("digits", "terms") if name in options}
    made = TraceDocuments(lang, **sizes)
    if to == "terminal":
        return made.overview(thing, options.pop("at", None))
    if to == "md":
        options.setdefault("tex", False)
    return made.document(thing)
