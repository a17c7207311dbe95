"""Questions asked of traces: what if this part were not there, which words made this number?

Every experiment takes traces and gives a trace, or a result whose numbers are cells of traces
again: `rows()` for a data frame, `to_dict()`, `plot()` for a picture, `cell(…)` for the arithmetic.
`intervention` switches parts off or puts those of another run in their place; `sweeps` does so for
every layer, head or position, and takes the mean over texts; `attribution` shares a
number out among the words; `lens` reads what each layer would answer, and what each part adds to an
answer; `heads` says what heads do over a data set; `comparison` holds two runs against each other.
"""

from glassformer.experiments.attribution import WordScores, WordTable, word_table, words
from glassformer.experiments.comparison import Comparison, compare
from glassformer.experiments.differentiation import gradients
from glassformer.experiments.heads import Composition, HeadScores, composition, head_scores
from glassformer.experiments.intervention import ablate, patch
from glassformer.experiments.lens import Contributions, LayerAnswers, contributions, logit_lens
from glassformer.experiments.measure import CellDifference, difference
from glassformer.experiments.result import Result
from glassformer.experiments.sweeps import Average, Sweep, average, sweep
from glassformer.picture import Picture

__all__ = [
    "Average",
    "CellDifference",
    "Comparison",
    "Composition",
    "Contributions",
    "HeadScores",
    "LayerAnswers",
    "Picture",
    "Result",
    "Sweep",
    "WordScores",
    "WordTable",
    "ablate",
    "average",
    "compare",
    "composition",
    "contributions",
    "difference",
    "gradients",
    "head_scores",
    "logit_lens",
    "patch",
    "sweep",
    "word_table",
    "words",
]
