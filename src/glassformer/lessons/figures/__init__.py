"""The figures of the lessons: SVG, drawn from the numbers of a trace.

    drawing = scores_figure(run, "en")     # run: the trace behind the lesson
    drawing.svg()                          # a self-contained file

A figure is a function from traces to a `Drawing`. `canvas` draws shapes and says when they appear;
`sheet` lays out matrices, labels and parts of models in rows and columns; the figures themselves
are in `attention_figures` and `head_figures`, `model_figures`, `flow_figures` and
`model_family_figures`; line charts, bar charts and maps in `data_charts`.
"""

from glassformer.lessons.figures.canvas import STYLE, SvgDrawing

__all__ = ["STYLE", "SvgDrawing"]
