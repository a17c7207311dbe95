"""Questions asked of traces: what if this part were not there, which words made this number?

Every experiment takes a trace and gives a trace or a table whose numbers are cells of traces again.
`intervention` switches parts off or puts those of another run in their place; `sweeps` does so for
every layer, head or position; `attribution` shares a number out among the words; `lens` reads what
each layer would answer, and what each part adds to an answer.
"""

from glassformer.experiments.attribution import WordScores, words
from glassformer.experiments.differentiation import gradients
from glassformer.experiments.intervention import ablate, patch
from glassformer.experiments.lens import Contributions, LayerAnswers, contributions, logit_lens
from glassformer.experiments.sweeps import Sweep, sweep

__all__ = [
    "Contributions",
    "LayerAnswers",
    "Sweep",
    "WordScores",
    "ablate",
    "contributions",
    "gradients",
    "logit_lens",
    "patch",
    "sweep",
    "words",
]
