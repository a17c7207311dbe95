"""The figures of the lessons: SVG, drawn from the numbers of a trace.

    drawing = scores_figure(run, "en")     # run: the trace behind the lesson
    drawing.svg()                          # a self-contained file

A figure is a function from traces to a `Picture`, which a `glassformer.picture.Canvas` collects;
`sheet` lays out matrices, labels and parts of models in rows and columns, and
`documents.data_charts` draws lines, bars and maps. Figures of attention are in `attention_figures`
and `head_figures`, of whole models in `model_figures`; a figure of something else stands in the
module of its lesson.
"""
