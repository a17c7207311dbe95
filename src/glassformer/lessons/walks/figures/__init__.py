"""The figures of the lessons: SVG, drawn from the numbers of a trace.

    drawing = scores_figure(run, Speaker("en"))     # run: the trace behind the lesson
    drawing.svg()                                   # a file that needs nothing else

A figure is a function from traces to a `Drawing`. `canvas` knows shapes and when they appear,
`grids` draws heat-mapped matrices, `style` holds colours, fonts and the rule for readers who want
no motion; the other files hold one group of figures each.
"""

from glassformer.lessons.walks.figures.canvas import Drawing
from glassformer.lessons.walks.figures.style import STYLE

__all__ = ["STYLE", "Drawing"]
