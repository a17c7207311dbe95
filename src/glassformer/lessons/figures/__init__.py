"""The figures of the lessons: SVG, drawn from the numbers of a trace.

    drawing = scores_figure(run, "en")     # run: the trace behind the lesson
    drawing.svg()                          # a file that needs nothing else

A figure is a function from traces to a `Drawing`. `canvas` knows shapes, colours, and when they
appear; `sheet` lays out matrices, labels and parts of models by rows and columns; the figures
themselves stand in `attention_figures`, `model_figures` and `maps`.
"""

from glassformer.lessons.figures.canvas import STYLE, Drawing

__all__ = ["STYLE", "Drawing"]
