"""What formats of a trace share, and its formats that are no documents.

`words` (English and Chinese), `cards` (what a card says), `matrices`, `colours`, `addresses` (who
wrote what is read), `files` (written whole or not at all); the page (`html`), every number bit for
bit (`data`), and live formulas (`workbook`). `glassformer.documents` renders traces in any format.
"""

from glassformer.trace.render.data import read_json, trace_data, write_json
from glassformer.trace.render.html import page_text, write_html
from glassformer.trace.render.workbook import write_workbook

__all__ = ["page_text", "read_json", "trace_data", "write_html", "write_json", "write_workbook"]
