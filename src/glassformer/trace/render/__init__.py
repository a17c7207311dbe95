"""Traces for readers: terminal, Markdown, LaTeX, HTML, JSON, workbook."""
