"""Line charts and bar charts in the colours of the other figures.

    lines = [Series("no scaling", spreads, "query"), Series("divided by √d", scaled, "output")]
    drawing = line_chart("Scores grow with the width", widths, lines, Axes("width d", "spread"),
                         log_across=True)
    drawing = bar_chart("Accuracy", ["none", "learned"], [Series("at length 8", shares)], axes)

Titles, names and labels come from the caller, in the reader's language. Colours are those of the
roles, so a chart follows the page from light to dark; lines also differ in their markers, for
readers who do not tell colours apart.
"""

from glassformer.lessons.figures.charts.data_charts import Series, bar_chart, line_chart

__all__ = ["Series", "bar_chart", "line_chart"]
